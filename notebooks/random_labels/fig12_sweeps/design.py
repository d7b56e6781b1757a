"""The sweeps of Figures 12 to 15 and the networks in them."""

ARCHITECTURES = {"cnn": "SimpleCNN", "vgg": "VGG-16", "resnet": "ResNet-18"}
SWEEPS = {"12": "Experiments A", "13": "Experiments B"}  # CIFAR-10
SECOND = {"14": "ImageNet, Experiments A", "15": "ImageNet, Experiments B"}
INITS = {"12": ["he"], "13": ["he", "orthogonal"], "14": ["he"], "15": ["he"]}  # B.1 to B.4
