"""The representations that are compared: families of networks, each along an axis of its own."""

INPUTS = "inputs"
FAMILIES = {"dense": "fully connected", "wide": "random features", "untrained": "convolutional"}
NETWORKS = {"resnet18": "ResNet-18", "vgg16": "VGG-16", "resnet50": "ResNet-50"}  # torchvision's
BEFORE, AFTER = "before", "after"  # training
