"""How often pre-training on random labels helps, and when (B): measures, then statements."""

from companion.over_seeds import weakest
from companion.statements import Number, Statement, among, pooled

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


def often(table, parameters, layers):
    """Share of the settings in which handing on ``layers`` helps, mean over the architectures."""
    return pooled(over_settings(helped, *SWEEPS, layers=layers), architectures)(table, parameters)


def turned(table, parameters):
    """SimpleCNN with all layers: gain in the lower half of each sweep's scales, or loss in the upper one.

    Whichever shows less.
    """
    points = compared(table, *SWEEPS, architecture="cnn", layers="all")
    if points.empty:
        return None
    upper = points["init_scale"] > points.groupby("figure")["init_scale"].transform(_middle)
    return weakest(by_seed(points[~upper], by_group), -by_seed(points[upper], by_group))


def _middle(scales):
    """The value that has half of the different ``scales`` below it."""
    return scales.drop_duplicates().median()


architectures = among("architecture", ARCHITECTURES)
SHARE = {"unit": "of the settings", "bounds": (0, 1)}
POINTS = {"matters": 1.0, "unit": "points", "because": "the size of a symbol in the paper's figures"}
STATEMENTS = [
    Statement(
        "often",
        "In most settings, mean over architectures, pre-training on random labels speeds up training.",
        source="Section 4; Figures 12 and 13", of=often, above=0.5, matters=0.1,
        because="one setting of ten", headline=True, each=among("layers", LAYERS), **SHARE,
    ),
    Statement(
        "rarely-hurts", "In fewer than a tenth of the settings, mean over architectures, pre-training slows "
        "training by over a point.",
        source="Section 4", of=pooled(over_settings(slowed, *SWEEPS), architectures), below=0.1,
        matters=0.05, because="half of the tenth", **SHARE, ours=True,
    ),
    Statement(
        "turns", "All layers of SimpleCNN help at small initial scales and hurt at large ones.",
        source="Section 1.1", of=turned, above=0, **POINTS,
        post_hoc="chosen when the gains had been seen; the slope over the scale was planned",
    ),
    Statement(
        "scale", "For ResNet-18, too, a larger initial scale makes the effect of all layers more negative, "
        "per doubling.",
        source="Section 1.1", of=lambda t, p: slope("init_scale")(t, p, architecture="resnet"), below=0,
        **POINTS,
    ),
    Statement(
        "classes", "More random classes make the effect of all layers more negative: per doubling, mean over "
        "architectures.",
        source="Section 1.1", of=pooled(slope("upstream_classes"), architectures), below=0, **POINTS,
    ),
    Statement(
        "more-layers", "Handing on all layers helps more than handing on the first, mean over architectures.",
        source="Appendix B.5",
        of=pooled(over_settings(layers_add, *SWEEPS), architectures), above=0, **POINTS,
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
        each=architectures, bounds=(0, 1),
    ),
]  # fmt: skip
