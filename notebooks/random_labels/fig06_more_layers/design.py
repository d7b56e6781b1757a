"""The three networks of Figures 6 and 9 (A.10), and how many layers each can hand on."""

from dataclasses import dataclass

CNN_FILTERS, CNN_UNITS, CNN_CONVOLUTIONS = 16, 1024, 3  # A.10
VGG_LAYERS = 13
RESNET_STAGES = 4


@dataclass(frozen=True)
class Setting:
    """A column of Figures 6 and 9 (A.10), as printed; ``classes``, ``images``, ``epochs``: upstream."""

    name: str
    init_scale: float
    learning_rate: float
    classes: int
    images: int
    epochs: int


COLUMNS = {
    "cnn": Setting("SimpleCNN", 0.518, 0.01, 25, 15_000, 40),
    "vgg": Setting("VGG-16", 0.526, 0.01, 5, 20_000, 120),
    "resnet": Setting("ResNet-18", 0.671, 0.01, 50, 25_000, 80),
}
DOWNSTREAM_IMAGES = 25_000  # caption of Figure 6


def depth(column):
    """How many layers there are to transfer."""
    return {"cnn": CNN_CONVOLUTIONS + 1, "vgg": VGG_LAYERS, "resnet": RESNET_STAGES + 1}[column]
