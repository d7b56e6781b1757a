"""Whether filters line up with the principal axes of image patches while they train (Figure 2)."""

import math

import pandas as pd
from scipy.special import gammaln

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import difference, ratio, sample
from alignbook.statements import Case, Requirement, Statement

from ..filter_runs import DIMENSION, ends, figure_rows, trial_rows

GUESSING = math.log(10)  # nats: the loss of a network that knows nothing of ten classes
LEARNS = 0.05  # nats below guessing, at the end of every trial run: then a scale counts as one that learns
SMALL = 2.0  # "remains very small", fixed before any run: at most this many times the floor
MOVED = 0.1  # displacement of the filters from which on "throughout training" counts
MATTERS, TENTH = 0.15, "a tenth of what sampling alone gives (1.5)"


def expected_floor(filters, dimension):
    """Mean of the floor for Gaussian filters, exactly.

    Bᵢᵢ (B⁻¹)ᵢᵢ = 1 / (1 - R²) with R the multiple correlation of component i with the others; for
    independent Gaussians 1 - R² is Beta(a, b) with a = (filters - dimension) / 2, b = (dimension - 1) / 2.
    """
    a, b = (filters - dimension) / 2, (dimension - 1) / 2
    root = math.exp(gammaln(a - 0.5) + gammaln(a + b) - gammaln(a) - gammaln(a + b - 0.5))
    return dimension * (root - 1)


def floor(parameters):
    """:func:`expected_floor` of the parameters' number of filters."""
    return expected_floor(parameters["filters"], DIMENSION)


def learnable(table, parameters):
    """The sweep at its end, one row per scale, and whether the rule takes the scale (``chosen``).

    Columns: init_scale, runs, worst_loss (nats), least_displacement, most_dead, learns. A scale learns
    only if none of its runs is missing or diverged.
    """
    last = ends_of_sweep(table, parameters)
    result = last.groupby("init_scale").agg(
        runs=("unit", "nunique"),
        worst_loss=("loss", "max"),
        least_displacement=("displacement", "min"),
        most_dead=("dead_units", "max"),
    )
    result = result.reset_index()
    learns = (result["runs"] == result["runs"].max()) & (result["worst_loss"] <= GUESSING - LEARNS)
    furthest = result["least_displacement"].where(learns).max()
    result["learns"] = learns
    result["chosen"] = learns & (result["least_displacement"] == furthest)
    return result


def ends_of_sweep(table, parameters):
    """The last row of each trial run of whole length."""
    rows = trial_rows(table, epochs=parameters["epochs"], precision=parameters["precision"])
    return rows.sort_values("step").groupby("unit").tail(1)


def precisions(table, parameters):
    """The end of the short runs in two precisions, one row per quantity.

    Columns float32 and bfloat16: mean and standard deviation over the seeds, as (mean, sd) tuples;
    difference: the same of bfloat16 less float32 seed by seed. Empty where either precision is missing.
    """
    names = ["misalignment", "basis_mean", "loss", "displacement"]
    short = min(parameters["precision_epochs"], parameters["epochs"])
    found = {}
    for name in ("float32", "bfloat16"):
        rows = trial_rows(table, epochs=short, precision=name)
        found[name] = rows.sort_values("step").groupby("seed").tail(1).set_index("seed")[names]
    found["difference"] = (found["bfloat16"] - found["float32"]).dropna()  # of seeds that neither has lost
    if found["difference"].empty:
        return pd.DataFrame()
    return pd.DataFrame(
        {key: [(rows[name].mean(), rows[name].std(ddof=1)) for name in names] for key, rows in found.items()},
        index=names,
    )


def _trained(table, labels):
    """Score rows of the figure's runs from the first epoch on."""
    rows = figure_rows(table, labels)
    return rows[rows["epoch"] >= 1]


def ends_below(table, parameters, labels):
    """Misalignment with random bases less that with the data, at the end of training."""
    last = ends(_trained(table, labels))
    return difference(sample(last, "basis_mean"), sample(last, "misalignment"))


def below(table, parameters, labels):
    """The same at the epoch where it is least, from the one on whose displacement exceeds ``MOVED``.

    A run whose filters never move as far counts with its last epoch.
    """
    rows = _trained(table, labels)
    last = ends(rows).index
    rows = rows[(rows["displacement"] > MOVED) | rows.index.isin(last)]
    return (rows["basis_mean"] - rows["misalignment"]).groupby(rows["seed"]).min()


def room(table, parameters, labels):
    """``SMALL`` times the floor less the misalignment, at the epoch where that is largest."""
    rows = _trained(table, labels)
    return (SMALL * floor(parameters) - rows["misalignment"]).groupby(rows["seed"]).min()


def displaced(table, parameters, labels):
    """The least displacement of the filters at the end of a run."""
    return ends(_trained(table, labels))["displacement"].min()


def others_end(table, parameters, labels):
    """Misalignment with random bases at the end, over the bound: the largest of the runs."""
    return ends(_trained(table, labels))["basis_mean"].max() / (SMALL * floor(parameters))


def both(parameters):
    """The two kinds of labels; Proposition 1 is about random ones."""
    return [
        Case("random", "random labels", {"labels": "random"}),
        Case("real", "real labels", {"labels": "real"}),
    ]


MEASURED = {"source": "Figure 2", "above": 0, "matters": MATTERS, "unit": "of misalignment", "because": TENTH}
MOVES = Requirement("displacement of the filters at the end, least of the runs", displaced, MOVED)
OTHERS = Requirement("misalignment with random bases at the end, over the bound", others_end, 1.0)
STATEMENTS = [
    Statement(
        "ends-below-random-basis",
        "At the end of training the filters are less misaligned with the data than with random bases.",
        of=ends_below, each=both, headline=True, **MEASURED,
    ),
    Statement(
        "below-random-basis",
        f"This holds at every recorded epoch once the filters have moved by {MOVED:g} of their norm.",
        of=below, each=both, requires=(MOVES,), **MEASURED,
        post_hoc="where “throughout training” starts was chosen after these runs were seen",
    ),
    Statement(
        "very-small",
        f"The misalignment with the data stays below {SMALL:g} times what sampling alone gives.",
        of=room, each=both, requires=(OTHERS,), ours=True, **MEASURED,
    ),
]  # fmt: skip

SAID = {
    HOLDS: "Filters trained on random labels end better aligned with the data than with random bases",
    ABSENT: "Filters trained on random labels end as well aligned with random bases as with the data",
    CONTRADICTED: "Filters trained on random labels end better aligned with random bases than with the data",
    UNDECIDED: "It is undecided whether filters trained on random labels align with the data",
}
REAL = {
    HOLDS: "Real labels give the same",
    ABSENT: "With real labels, too, there is no difference",
    CONTRADICTED: "With real labels random bases fit better",
    UNDECIDED: "With real labels it is undecided",
}


def finding(table, parameters, claims):
    """Misalignment after training on random labels, beside random bases; words follow the verdicts."""
    claim, last = claims["ends-below-random-basis-random"], ends(_trained(table, "random"))
    if claim.outcome not in SAID or last.empty:
        return "No run with random labels is among the results: there is nothing to see."
    said = (
        f"{SAID[claim.outcome]}: misalignment {last['misalignment'].mean():.1f} against "
        f"{last['basis_mean'].mean():.1f} (0 is perfect). "
    )
    if claims["ends-below-random-basis-real"].outcome in REAL:
        said += REAL[claims["ends-below-random-basis-real"].outcome]
        small = claims["very-small-real"].outcome
        said += ", but it does not stay very small. " if small == CONTRADICTED else ". "
    scale = f"{parameters['init_scale']:g}"
    return said + f"Much hinges on the initial scale ({scale} here), which the paper leaves open."


def key_numbers(table, parameters):
    """How many times less misaligned with the data than with random bases; the floor."""
    result = []
    for case in both(parameters):
        last = ends(_trained(table, **case.given))
        times = interval(ratio(sample(last, "basis_mean"), sample(last, "misalignment")), "{:.3g}")
        result.append(
            KeyNumber(f"misalignment with random bases over that with the data, {case.words}", times)
        )
    return [*result, KeyNumber("misalignment that sampling alone gives (the floor)", floor(parameters))]
