"""Are minima that are reached from pre-trained weights flatter? Spectra and rises of the loss around them."""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, difference, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.targets import of_target, words

from .design import STARTS, pairs

MODES = {"eval": "running statistics", "train": "statistics of the batch"}  # of batch norm
PHOTOGRAPHS = ("cifar10", "cifar100", "photos")  # sets like the sources; the paper expects flatness on these
FITTED = 1.0  # percent of the training images that a network at a minimum may get wrong
TENTH = "a tenth of the curvature; the curves of Figure 3 (a) lie further apart"
CONTOUR = "the contours of the paper's maps are 0.05 apart"


def spectra(table, name, mode="eval", fixed_steps=False):
    """Rows of the spectra of the target ``name``, at equal loss or after a fixed number of steps."""
    rows = at(of_target(table, name), mode=mode)
    return rows[rows["stop_at_loss"].isna() == fixed_steps] if len(rows) else rows


def settled(table, name):
    """Rows of the spectra at settled minima of the target ``name``, without networks that still err."""
    rows = of_target(table, name)
    if not {"settle_steps", "index"} <= set(rows):
        return rows.iloc[:0]
    rows = rows[rows["settle_steps"].notna() & rows["index"].notna() & (rows["train_error"] == 0)]
    return rows.assign(images_loss=rows["train_loss"])  # these are measured on all training images


def minima(table, name):
    """The spectra that are judged: at settled minima where there are any, else where training stopped."""
    rows = settled(table, name)
    return rows if len(rows) else spectra(table, name)


def rises(table, name, radius):
    """Rows of the rise of the loss on the circle of one radius."""
    return at(of_target(table, name), circle=radius)


def first_of(column):
    """A measure of one network: its value of ``column``, the same in all rows."""
    return lambda rows: rows[column].iloc[0]


def ratios(rows, measure):
    """log2 of ``measure`` from random over that from pre-trained weights, a sample."""
    both = pairs(rows, measure)
    found = ratio(both["scratch"], both["pretrained"])
    return np.log2(found[found > 0])


def magnitude(rows):
    """Mean magnitude of the eigenvalues of one network."""
    return rows["eigenvalue"].abs().mean()


def per_loss(rows):
    """Mean magnitude of the eigenvalues of one network over its loss on the images measured."""
    return magnitude(rows) / rows["images_loss"].iloc[0]


def errors(rows):
    """The larger of the two starts' mean training errors, percent; NaN where there is no pair."""
    both = pairs(rows, first_of("train_error"))
    return both.mean().max()


def rise(table, parameters, target, radius):
    """Mean rise of the loss on the circle, random less pre-trained, in nats, a sample."""
    both = pairs(rises(table, target, radius), first_of("rise"))
    return difference(both["scratch"], both["pretrained"])


def first_target(parameters):
    """The target that the figure is about."""
    return parameters["targets"][0]


def _targets(parameters, alike):
    return [name for name in parameters["targets"] if (name.split("-")[0] in PHOTOGRAPHS) == alike]


def further(alike):
    """Cases: targets beside the first, like the source or not."""
    return lambda p: [
        Case(name, words(name), {"target": name}) for name in _targets(p, alike) if name != first_target(p)
    ]


def circles(alike):
    """Cases: targets like the source or not, and radii."""
    return lambda p: [
        Case(f"{name}-{radius:g}", f"{words(name)}, radius {radius:g}", {"target": name, "radius": radius})
        for name in _targets(p, alike)
        for radius in p["radii"]
    ]


def fitted(rows):
    """Requirement: training has reached a minimum. rows : (table, target) → rows of the networks compared."""
    return (
        Requirement(
            "training images that the networks compared get wrong, %",
            of=lambda t, p, target=None, radius=None: errors(rows(t, target or first_target(p))),
            at_most=FITTED,
        ),
    )


def _curvature(id, text, rows, measure=magnitude, **more):
    """A statement on log2 of the ratio of what ``measure`` gives for ``rows`` (table, target)."""
    return Statement(
        id, text, above=0, matters=0.14, unit="log2 of the ratio", because=TENTH, requires=fitted(rows),
        of=lambda t, p, target=None: ratios(rows(t, target or first_target(p)), measure),
        **{"source": "Figure 3 (a), Section 3"} | more,
    )  # fmt: skip


SMALLER = "The largest eigenvalues of the Hessian are smaller at minima from pre-trained weights"
OVER_LOSS = "Divided by the loss that was reached, too, the largest eigenvalues are smaller"
UNLIKE = "Targets unlike the source, which the paper says may leave the flat region"

STATEMENTS = [
    _curvature("eigenvalues", f"{SMALLER}.", minima, headline=True),
    _curvature(
        "eigenvalues-batch", f"{SMALLER}, with batch norm's statistics of the batch.",
        lambda t, target: spectra(t, target, "train"),
    ),
    _curvature("eigenvalues", f"{SMALLER}, on further targets like the source.", minima, each=further(True)),
    _curvature("eigenvalues", f"{UNLIKE}: {SMALLER.lower()}.", minima, each=further(False), ours=True),
    _curvature("eigenvalues-over-loss", f"{OVER_LOSS}.", minima, per_loss, ours=True),
    _curvature(
        "eigenvalues-over-loss", f"{OVER_LOSS}, on further targets.", minima, per_loss, ours=True,
        each=lambda p: further(True)(p) + further(False)(p),
    ),
    _curvature(
        "eigenvalues-steps", f"{SMALLER}, after equally many epochs of either.",
        lambda t, target: spectra(t, target, fixed_steps=True), ours=True,
    ),
    *(
        Statement(
            "rise", text, source="Figures 3 and 10", of=rise, above=0, matters=0.05, unit="nats",
            because=CONTOUR, each=circles(alike), requires=fitted(spectra), ours=not alike,
        )
        for alike, text in (
            (True, "The loss rises less on a circle around minima from pre-trained weights."),
            (False, f"{UNLIKE}: the loss rises less around minima from pre-trained weights."),
        )
    ),
]  # fmt: skip


def conditions(table, parameters):
    """One row per target and way of training and measuring: what was reached, and the ratios.

    Losses and errors are those of random / pre-trained weights; ratios are means over seeds of log2.
    """
    rows, main = [], first_target(parameters)
    kinds = [(name, "eval", "by loss", spectra(table, name)) for name in parameters["targets"]]
    kinds += [(main, "train", "by loss", spectra(table, main, "train"))]
    kinds += [(main, "eval", "by steps", spectra(table, main, fixed_steps=True))]
    kinds += [(name, "eval", "settled", settled(table, name)) for name in parameters["targets"]]
    for name, mode, stopped, part in kinds:
        if part.empty:
            continue

        def reached(column, form, part=part):
            both = pairs(part, first_of(column)).mean()
            return " / ".join(form.format(both[start]) for start in STARTS)

        rows.append(
            {
                "target": name, "batch norm": MODES[mode], "stopped": stopped,
                "steps": reached("taken", "{:.0f}"),
                "training error, %": reached("train_error", "{:.1f}"),
                "test error, %": reached("test_error", "{:.0f}"),
                "loss": reached("images_loss", "{:.3f}"),
                "worst residual": f"{(part['residual'] / part['eigenvalue'].abs()).max():.2g}",
                "log2 λ": interval(ratios(part, magnitude)),
                "log2 λ/loss": interval(ratios(part, per_loss)),
                "log2 λ‖W‖²": interval(ratios(part, lambda one: magnitude(one) * one["norm"].iloc[0] ** 2)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def along_loss(table, parameters):
    """One row per target and batch norm: losses reached, how eigenvalues follow them, and negative ones.

    The rank correlation is Spearman's, of loss and mean magnitude over the networks of both starts.
    """
    rows, main = [], first_target(parameters)
    kinds = [(name, "eval") for name in parameters["targets"]] + [(main, "train")]
    for name, mode in kinds:
        part = spectra(table, name, mode)
        measures = (first_of("images_loss"), magnitude, lambda own: (own["eigenvalue"] < 0).any())
        loss, size, bent = (pairs(part, one).stack() for one in measures)
        if loss.empty:
            continue
        steady = loss.nunique() < 2 or size.nunique() < 2
        counts = bent[bent > 0].groupby(level=1).size().sort_index()
        starts = ", ".join(f"{count} {STARTS[start]}" for start, count in counts.items())
        starts = f" ({starts})" if starts else ""
        rows.append(
            {
                "target": name, "batch norm": MODES[mode], "losses": f"{loss.min():.3f} to {loss.max():.3f}",
                "rank correlation of λ and loss": "–" if steady else f"{loss.corr(size, 'spearman'):.2f}",
                "with negative eigenvalues": f"{int(bent.sum())} of {len(bent)}{starts}",
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


SAID = {
    HOLDS: "Minima from pre-trained weights are flatter",
    ABSENT: "Minima from pre-trained weights are as sharp as those from random ones",
    CONTRADICTED: "Minima from pre-trained weights are sharper, not flatter",
    UNDECIDED: "It is undecided whether minima from pre-trained weights are flatter",
    NOT_JUDGED: "Whether pre-trained weights lead to flatter minima is not judged, as training errors remain",
}  # fmt: skip


def finding(table, parameters, claims):
    """The ratio of curvatures on the first target, and how nearly minima were reached."""
    claim, name = claims["eigenvalues"], first_target(parameters)
    if claim.outcome not in SAID:
        return "No two networks reached the loss: there is nothing to compare."
    rows = minima(table, name)
    loss = pairs(rows, first_of("images_loss")).stack()
    caveat = "" if len(settled(table, name)) else ", before training has settled in a minimum"
    return (
        f"{SAID[claim.outcome]}: on {words(name)} the {parameters['eigenvalues']} largest curvatures from "
        f"random weights are {2**claim.measured:.1f} times those from pre-trained ones. A small network, "
        f"stopped at losses up to {loss.max():.2f}{caveat}."
    )


def key_numbers(table, parameters):
    """The largest eigenvalue from either start, and the ratio of the mean, on the first target."""
    name = first_target(parameters)
    rows = minima(table, name)
    tops = pairs(rows, lambda part: part["eigenvalue"].max())
    if tops.empty:
        return []
    return [
        *(
            KeyNumber(f"largest eigenvalue, {label} weights ({words(name)})", interval(tops[start], "{:.1f}"))
            for start, label in STARTS.items()
        ),
        KeyNumber(
            f"mean of the {parameters['eigenvalues']} largest, random over pre-trained",
            factor(ratios(rows, magnitude)),
        ),
    ]
