"""How often pre-training on random labels helps, and when (B): measures, then statements."""

from companion.statements import Case, Number, Statement

from ..shared.sweep_analysis import by_group, by_seed, compared, layers_add, per_doubling
from .design import ARCHITECTURES, SECOND, SWEEPS

LAYERS = {"one": "the first layer", "all": "all layers"}
SLOWER = 1.0  # points: a setting that loses more is slower


def helped(points):
    """Whether pre-training gains, by group."""
    return by_group(points) > 0


def slowed(points):
    """Whether pre-training costs more than ``SLOWER`` points, by group."""
    return by_group(points) < -SLOWER


def over_settings(measure, *figures, **values):
    """Reading: mean of ``measure(points)`` over the settings of ``figures``, by seed."""
    return lambda t, p, **given: by_seed(compared(t, *figures, **values | given), measure)


def slope(factor):
    """Reading: points of gain per doubling of ``factor``, by seed, where all layers are handed on."""
    return over_settings(lambda points: per_doubling(points, factor), *SWEEPS, layers="all")


def half(table, parameters, part, sign):
    """``sign`` × gain of SimpleCNN with all layers, in the lower or upper half of each sweep's scales."""
    points = compared(table, *SWEEPS, architecture="cnn", layers="all")
    if points.empty:
        return None
    upper = points["init_scale"] > points.groupby("figure")["init_scale"].transform(_middle)
    return sign * by_seed(points[upper == (part == "large")], by_group)


def _middle(scales):
    """The value that has half of the different ``scales`` below it."""
    return scales.drop_duplicates().median()


def architectures(*keys):
    """Cases for ``each``."""
    return lambda p: [Case(key, ARCHITECTURES[key], {"architecture": key}) for key in keys]


SHARE = {"unit": "of the settings", "bounds": (0, 1)}
POINTS = {"matters": 1.0, "unit": "points", "because": "the size of a symbol in the paper's figures"}
STATEMENTS = [
    Statement(
        "often", "In most settings, pre-training on random labels speeds up training.",
        source="Section 4; Figures 12 and 13", of=over_settings(helped, *SWEEPS), above=0.5, matters=0.1,
        because="one setting of ten", headline=True, **SHARE,
        each=lambda p: [
            Case(f"{layers}-{key}", f"{words} of {name}", {"architecture": key, "layers": layers})
            for layers, words in LAYERS.items()
            for key, name in ARCHITECTURES.items()
        ],
    ),
    Statement(
        "rarely-hurts", "In fewer than a tenth of the settings, pre-training slows training by over a point.",
        source="Section 4", of=over_settings(slowed, *SWEEPS), below=0.1, matters=0.05,
        because="half of the tenth", **SHARE, each=architectures(*ARCHITECTURES), ours=True,
    ),
    Statement(
        "turns", "All layers of SimpleCNN help at small initial scales and hurt at large ones.",
        source="Section 1.1", of=half, above=0, **POINTS,
        each=lambda p: [
            Case("small", "gain in the lower half of the scales", {"part": "small", "sign": 1}),
            Case("large", "loss in the upper half", {"part": "large", "sign": -1}),
        ],
        post_hoc="chosen when the gains had been seen; the slope over the scale was planned",
    ),
    Statement(
        "scale", "A larger initial scale makes the effect more negative (all layers, per doubling).",
        source="Section 1.1", of=slope("init_scale"), below=0, **POINTS, each=architectures("cnn", "resnet"),
    ),
    Statement(
        "classes", "More random classes make the effect more negative (all layers, per doubling).",
        source="Section 1.1", of=slope("upstream_classes"), below=0, **POINTS,
        each=architectures(*ARCHITECTURES),
    ),
    Statement(
        "more-layers", "Handing on all layers helps more than handing on the first.", source="Appendix B.5",
        of=over_settings(layers_add, *SWEEPS), above=0, **POINTS, each=architectures(*ARCHITECTURES),
    ),
    Statement(
        "resnet-second", "On ImageNet's stand-in, ResNet-18 trains faster after pre-training.",
        source="B.3 to B.5; Figures 14 and 15",
        of=over_settings(by_group, *SECOND, architecture="resnet"), above=0, **POINTS,
    ),
]  # fmt: skip
NUMBERS = [
    Number(
        "helped", "settings in which pre-training helps", over_settings(helped, *SWEEPS), paper="very often",
        each=architectures(*ARCHITECTURES), bounds=(0, 1),
    ),
]  # fmt: skip
