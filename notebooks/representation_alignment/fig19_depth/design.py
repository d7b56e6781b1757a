"""What is compared: networks by depth, ways in which batch norm can work, before and after training."""

INPUTS = "inputs"
NAMES = {
    "vgg16": "VGG-16", "resnet18": "ResNet-18", "resnet34": "ResNet-34", "resnet50": "ResNet-50",
    "resnet101": "ResNet-101", "lite0": "EfficientNet-Lite0", "lite1": "EfficientNet-Lite1",
    "lite2": "EfficientNet-Lite2",
}  # fmt: skip
DEPTHS = {"vgg16": 16, "resnet18": 18, "resnet34": 34, "resnet50": 50, "resnet101": 101}
MODES = {"evaluation": "running statistics", "batch": "the batch's statistics"}
STATES = ("before", "after")  # training on ImageNet
