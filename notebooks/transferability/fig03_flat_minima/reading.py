"""Are minima that are reached from pre-trained weights flatter? Spectra and rises of the loss around them."""

import numpy as np
import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, KeyNumber, interval
from alignbook.over_seeds import across, at, difference, means, ratio
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.by_seed import factor
from alignbook.studies.transferability.targets import STARTS, of_target, source_of, words
from alignbook.wording import by_verdict, fitting, sentences

PHOTOGRAPHS = ("cifar10", "cifar100", "photos")  # sets like the sources; the paper expects flatness on these
CONTOUR = 0.05  # nats between the contours of the paper's maps (Appendix A): the smallest rise that matters
SEEN_SEEDS = 16  # seeds with settled minima (0, 1, …) when the largest eigenvalue was first looked at alone
FITTED = 1.0  # percent of the training images that a network at a minimum may get wrong


def spectra(table, name, mode="eval", fixed_steps=False):
    """Rows of the spectra of the target ``name``, at equal loss or after a fixed number of steps."""
    rows = at(of_target(table, name), mode=mode)
    return curved(rows[rows["stop_at_loss"].isna() == fixed_steps]) if len(rows) else rows


def settled(table, name):
    """Rows of the spectra at settled minima of the target ``name``, and of the rises around them.

    Without networks that still err. Whether the loss in training mode fell to where settling was to begin
    does not matter: what a minimum is, the errors tell.
    """
    rows = at(of_target(table, name), train_error=0)
    if "settle_steps" not in rows:
        return rows.iloc[:0]
    # These are measured on all training images.
    rows = rows.assign(images_loss=rows["train_loss"], circle=rows["around"], reached=True)
    return curved(rows[rows["settle_steps"].notna()])


def curved(rows):
    """With each eigenvalue's magnitude, over the loss, and times ‖W‖², which batch norm makes free."""
    size = rows["eigenvalue"].abs()
    return rows.assign(
        size=size, over_loss=size / rows["images_loss"], times_norm=size * rows["norm"] ** 2,
        negative=(rows["eigenvalue"] < 0).astype(float),
    )  # fmt: skip


def minima(table, name):
    """The spectra that are judged: at settled minima where there are any, else where training stopped."""
    rows = settled(table, name)
    return rows[rows["index"].notna()] if len(rows) else spectra(table, name)


def rises(table, name, radius):
    """Rows of the rise of the loss around the minima that are judged, at one radius."""
    rows = settled(table, name)
    return at(rows if len(rows) else of_target(table, name), circle=radius)


def networks(rows, column):
    """(seeds × starts) frame of the mean of ``column`` over the rows of each network.

    Only seeds with both starts, both of which reached the loss to stop at.
    """
    return across(at(rows, reached=True), "start", list(STARTS), lambda own: means(own, column))


def ratios(rows, column="size"):
    """log2 of the mean of ``column`` from random over that from pre-trained weights, a sample."""
    both = networks(rows, column)
    found = ratio(both["scratch"], both["pretrained"])
    return np.log2(found[found > 0])


def rise(table, parameters, target, radius):
    """Mean rise of the loss around the minimum, random less pre-trained, in nats, a sample."""
    both = networks(rises(table, target, radius), "rise")
    return difference(both["scratch"], both["pretrained"])


def larger_rise(table, parameters, target, radius):
    """Mean rise of the loss in nats, from the start from which it is larger."""
    return networks(rises(table, target, radius), "rise").mean().max()


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


PAPER_RADIUS = 0.1  # Appendix A, in lengths of the filters


def circles(alike):
    """Cases: targets like the source or not, and radii."""
    return lambda p: [
        Case(
            f"{name}-{radius:g}",
            f"{words(name)}, radius {radius:g}" + ", the paper's" * (radius == PAPER_RADIUS),
            {"target": name, "radius": radius},
        )
        for name in _targets(p, alike)
        for radius in p["radii"]
    ]


def training_error(table, parameters, target=None, radius=None):
    """Percent of the training images that the networks compared get wrong, from the worse start."""
    rows = minima(table, target or first_target(parameters))
    return networks(rows, "train_error").mean().max()


def source_accuracy(table, parameters, **_):
    """Percent of its source's test images that the pre-trained network gets right, mean over the seeds."""
    return source_of(table, parameters)["source_test_accuracy"].mean()


SOURCE_LEARNED = Requirement(
    "test accuracy on the source, %", source_accuracy, at_least=76,
    because="The paper's own source network, ResNet-50 on ImageNet, gets 76 % of its test images right",
)  # fmt: skip
REACHED = Requirement("training error of the networks compared, %", of=training_error, at_most=FITTED)
SEEN = Requirement(
    "larger of the two mean rises, nats", larger_rise, at_least=CONTOUR,
    because="The paper's contours lie that far apart, and the rises cannot differ by more",
)  # fmt: skip


def largest(rows):
    """Of spectra, the rows of the largest eigenvalue alone."""
    return at(rows, index=1)


def _smaller(id, text, column="size", of_all=lambda rows: rows, **more):
    return Statement(
        id, text, source="Figure 3 (a), Section 3", above=0, matters=0.14, unit="log2 of the ratio",
        because="a ratio of 1.1; the curves of Figure 3 (a) lie further apart",
        requires=(REACHED, SOURCE_LEARNED),
        of=lambda t, p, target=None: ratios(of_all(minima(t, target or first_target(p))), column), **more,
    )  # fmt: skip


def _rise(text, alike):
    return Statement(
        "rise", text, source="Figures 3 and 10", of=rise, above=0, matters=CONTOUR, unit="nats",
        because="the contours in the paper's maps are 0.05 apart; how large the rises are, the page shows",
        requires=(REACHED, SOURCE_LEARNED, SEEN),
        each=circles(alike), ours=lambda p, target, radius: not alike or radius != PAPER_RADIUS,
    )  # fmt: skip


SMALLER = "The largest eigenvalues of the Hessian are smaller at minima reached from pre-trained weights"
UNLIKE = "Targets unlike the source, for which the paper says the weights may leave the flat region"
STATEMENTS = [
    _smaller("eigenvalues", f"{SMALLER}.", headline=True),
    _smaller("eigenvalues", f"{SMALLER}, on other targets like the source.", each=further(True)),
    _smaller("eigenvalues", f"{UNLIKE}: {SMALLER.lower()}.", each=further(False), ours=True),
    _smaller(
        "eigenvalues-over-loss", f"{SMALLER}, also divided by the loss reached.", "over_loss", ours=True
    ),
    _smaller(
        "eigenvalues-times-norm",
        f"{SMALLER}, also when multiplied by the squared norm of the weights.",
        "times_norm",
        ours=True,
    ),
    _smaller(
        "largest-alone",
        "The largest eigenvalue, taken alone, is smaller at minima reached from pre-trained weights.",
        of_all=largest,
        seen=SEEN_SEEDS,
        post_hoc="chosen when the spectra had been seen: the first eigenvalue and the later ones differ in "
        "opposite directions",
    ),
    _rise("The loss rises less around minima reached from pre-trained weights.", True),
    _rise(f"{UNLIKE}: the loss rises less around minima reached from pre-trained weights.", False),
]

RANKS = (1, 2, 5, 10, 20)  # whose eigenvalues a sentence compares


def by_rank(table, parameters):
    """{rank: geometric mean over seeds of the eigenvalue from random over that from pre-trained weights}."""
    rows = minima(table, first_target(parameters))
    logs = {rank: ratios(at(rows, index=rank)) for rank in RANKS}
    return {rank: 2 ** found.mean() for rank, found in logs.items() if len(found)}


BOTH = "\u00a0/\u00a0"  # between two numbers of a cell, in one line


def conditions(table, parameters):
    """One row per target and way of training and measuring: what was reached, and the ratios.

    Errors and losses are those of random / pre-trained weights; ratios are means over seeds of log2.
    """
    main = first_target(parameters)
    kinds = [(name, "by loss", spectra(table, name)) for name in parameters["targets"]]
    kinds += [(main, "by loss, batch statistics", spectra(table, main, "train"))]
    kinds += [(main, "by steps", spectra(table, main, fixed_steps=True))]
    kinds += [(main, "settled", minima(table, main))] if len(settled(table, main)) else []
    return pd.DataFrame(
        {"target": name, "stopped": stopped} | _condition(rows) for name, stopped, rows in kinds if len(rows)
    )


def _condition(rows):
    error, loss = (networks(rows, column).mean() for column in ("train_error", "images_loss"))
    negative = networks(rows, "negative") > 0
    return {
        "training error, %": BOTH.join(f"{error[start]:.1f}" for start in STARTS),
        "loss (nats)": BOTH.join(f"{loss[start]:.2g}" for start in STARTS),
        "networks with a negative eigenvalue": f"{negative.sum().sum()} of {negative.size}",
        "log2 λ": interval(ratios(rows)),
        "log2 λ/loss": interval(ratios(rows, "over_loss")),
        "log2 λ‖W‖²": interval(ratios(rows, "times_norm")),
    }


def rise_table(table, parameters):
    """One row per target and radius: mean rises from either start, in nats, and how they compare."""
    rows = []
    for name in parameters["targets"]:
        for radius in parameters["radii"]:
            around = rises(table, name, radius)
            both = networks(around, "rise")
            rows.append(
                {
                    "target": name,
                    "radius": f"{radius:g}",
                    **{f"rise, {label}": interval(both[start], "{:.3f}") for start, label in STARTS.items()},
                    "difference": interval(difference(both["scratch"], both["pretrained"]), "{:.3f}"),
                    "log2 of the ratio": interval(ratios(around, "rise")),
                }
            )
    return pd.DataFrame(rows)


THERE = "At minima from pre-trained weights, the Hessian's {} largest eigenvalues are on average"
SAID = by_verdict(
    f"{THERE} smaller", f"{THERE} larger, not smaller", f"{THERE} as large as from random ones",
    "the Hessian's {} largest eigenvalues are on average smaller at minima from pre-trained weights",
)  # fmt: skip
DECIDED = (HOLDS, CONTRADICTED, ABSENT)
SCALED = dict(zip(DECIDED, ("smaller", "larger", "as large"), strict=True))
RISES = dict(zip(DECIDED, ("less", "more", "as much"), strict=True))  # around minima from pre-trained weights


def finding(table, parameters, claims):
    """The eigenvalues on the first target, and how the loss rises around the minima.

    Also relative to the weights' size where that is decided: the paper, too, takes the filters' size out of
    its maps.
    """
    claim, scaled = claims["eigenvalues"], claims["eigenvalues-times-norm"]
    if claim.measured is None:
        return "No seed has two networks that reached the loss, so there is nothing to compare."
    first, small = first_target(parameters), "Our network is small"
    said = SAID[claim.outcome].format(int(minima(table, first)["index"].max()))
    if claim.outcome == NOT_JUDGED:
        right = source_accuracy(table, parameters)
        known = f": the source network gets only {right:.0f} % of its test images right"
        return f"{said}{known * bool(right < SOURCE_LEARNED.at_least)}. {small}."
    alone = _alone(claims["largest-alone"], claim.outcome)
    if scaled.outcome in DECIDED and scaled.outcome != claim.outcome:
        times = f"{2 ** abs(scaled.measured):.1f} times " * (scaled.outcome != ABSENT)
        text = f"{said}{alone}; relative to the weights' size, {times}{SCALED[scaled.outcome]}"
    else:
        text = f"{said}{alone}: on {words(first)} those from random weights are "
        text += f"{2**claim.measured:.2f} times as large"
        if scaled.outcome in DECIDED:
            text += f", relative to the weights' size {2**scaled.measured:.1f} times"
    if not len(settled(table, first)):
        settling = "Training had not settled in a minimum"
        return fitting(sentences(text, settling), sentences(f"{said}{alone}", settling))
    around = {radius: claims[f"rise-{first}-{radius:g}"].outcome for radius in sorted(parameters["radii"])}
    how = _by_radius(around)
    rises = f"There the loss rises {how}" * bool(how)
    return fitting(sentences(text, rises, small), sentences(text, rises or small), sentences(text))


def _alone(claim, outcome):
    """`` (the largest alone is 20 % larger, not judged)``: from pre-trained weights, than from random ones.

    Nothing where the largest eigenvalue differs as the mean does, of which ``outcome`` is the verdict.
    """
    if claim.outcome == NOT_RUN:
        return ""
    decided, smaller = claim.outcome in DECIDED, claim.measured > 0
    if outcome == (claim.outcome if decided else (HOLDS if smaller else CONTRADICTED)):
        return ""
    if claim.outcome == ABSENT:
        return " (the largest alone is as large)"
    percent = abs(100 * (2**-claim.measured - 1))
    return (
        f" (the largest alone is {percent:.0f} % {'smaller' if smaller else 'larger'}"
        + f", {claim.outcome}" * (not decided)
        + ")"
    )


def _by_radius(around):
    """``less at radius 0.3``, of {radius: outcome}; no radius if alike at all.

    Where the paper's own radius is not judged beside one that is, it says so.
    """
    if len(set(around.values())) == 1:
        return RISES.get(next(iter(around.values())))
    said = ", ".join(f"{RISES[how]} at radius {radius:g}" for radius, how in around.items() if how in RISES)
    if said and around.get(PAPER_RADIUS) == NOT_JUDGED:
        said += f" and too little to judge at the paper's {PAPER_RADIUS:g}"
    return said


def key_numbers(table, parameters):
    """The eigenvalues from either start on the first target: the mean, which is judged, and the largest."""
    name = first_target(parameters)
    rows = minima(table, name)
    sizes = networks(rows, "size")
    if not len(sizes):
        return []
    mean = f"mean of the {int(rows['index'].max())} largest eigenvalues from {{}} ({words(name)})"
    found = [KeyNumber(mean.format(label), interval(sizes[start])) for start, label in STARTS.items()]
    top = factor(ratios(largest(rows)), 2)
    return [*found, KeyNumber("largest eigenvalue alone, random over pre-trained", top)]
