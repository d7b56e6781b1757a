"""The two settings of VGG-16 in Figure 1, as printed (Maennel et al. 2020, A.5)."""

from dataclasses import dataclass

DOWNSTREAM_CLASSES = 10  # Figure 1
DOWNSTREAM_EPOCHS = 200  # B.1, captions of Figures 10 and 11


@dataclass(frozen=True)
class Setting:
    """What two experiments of Figure 1 share (A.5), as printed; ``classes``, ``epochs``: upstream."""

    init_scale: float
    learning_rate: float
    classes: int
    epochs: int


SETTINGS = {"1 and 2": Setting(0.526, 0.01, 5, 120), "3 and 4": Setting(0.612, 0.009, 50, 80)}
