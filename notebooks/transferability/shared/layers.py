"""Which layers of a network the studies look at, and which of them is the middle one."""

from alignbook.training.resnet import conv_layers


def main_layers(net):
    """Names of the convolutions of ``net`` from the input on, without those of shortcuts."""
    return [name for name, _ in conv_layers(net) if "shortcut" not in name]


def middle(names):
    """(position, name) of the middle one, as the 25th of ResNet-50's: half of the layers come before."""
    return len(names) // 2, names[len(names) // 2]
