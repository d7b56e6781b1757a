"""Whether filters line up with the principal axes of image patches while they train: measures, statements."""

import math

from scipy.special import gammaln

from companion.over_seeds import difference, ratio, sample
from companion.statements import Case, Number, Statement, least

from ..shared.filter_design import DIMENSION
from ..shared.filter_runs import ends, figure_rows, trial_rows
from ..shared.gains import KINDS

SMALL = 2.0  # "remains very small", fixed before any run: at most this many times the floor
LABELS = ("random", "real")  # Proposition 1 is about random ones
MOVED = 0.1  # displacement of the filters from which on "throughout training" counts


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


def step_of_a_unit(parameters, scale, images=64):
    """Learning rate times mean ‖h‖² of the dense layer's inputs h, before training with this initial scale.

    By about this many times its error one step changes the activation of a unit on the image that it saw.
    Measured on photographs that come with the package.
    """
    import torch  # here: of what a reading asks, this alone needs it

    from alignbook import data
    from alignbook.training.nets import SimpleCNN, he_normal_

    x = data.load("photos", n=images).x
    net = SimpleCNN(tuple(x.shape[1:]), [parameters["filters"]], parameters["hidden"], 10)
    he_normal_(net, scale, torch.Generator().manual_seed(0))
    with torch.no_grad():
        return float(parameters["learning_rate"] * net.features(x, 1).square().flatten(1).sum(1).mean())


def ends_of_sweep(table, parameters):
    """The last row of each trial run of whole length, over initial scales."""
    rows = trial_rows(table, epochs=parameters["epochs"], precision=parameters["precision"])
    return rows.sort_values("step").groupby("unit").tail(1)


def trained(table, labels):
    """Score rows of the figure's runs from the first epoch on."""
    rows = figure_rows(table, labels)
    return rows[rows["epoch"] >= 1]


def at_the_end(table, parameters, labels):
    """Misalignment with random bases less that with the data, at the end of training, by seed."""
    last = ends(trained(table, labels))
    return difference(sample(last, "basis_mean"), sample(last, "misalignment"))


def throughout(table, parameters, labels):
    """The same at the epoch where it is least, from the one on whose displacement exceeds ``MOVED``.

    A run whose filters never move as far counts with its last epoch.
    """
    rows = trained(table, labels)
    rows = rows[(rows["displacement"] > MOVED) | rows.index.isin(ends(rows).index)]
    return (rows["basis_mean"] - rows["misalignment"]).groupby(rows["seed"]).min()


def room(table, parameters, labels):
    """``SMALL`` times the floor less the misalignment, at the epoch where that is largest, by seed."""
    rows = trained(table, labels)
    return (SMALL * floor(parameters) - rows["misalignment"]).groupby(rows["seed"]).min()


def last(column):
    """Reading: ``column`` at the end of training, by seed."""
    return lambda table, p, labels: sample(ends(trained(table, labels)), column)


def share(table, parameters, labels):
    """Misalignment with the data over that with random bases, at the end, by seed."""
    rows = ends(trained(table, labels))
    return ratio(sample(rows, "misalignment"), sample(rows, "basis_mean"))


def each_labels(parameters):
    words = {"random": "random labels", "real": f"real labels, initial scale {parameters['init_scale']:g}"}
    return [Case(kind, words[kind], {"labels": kind}) for kind in LABELS]


MEASURED = {
    "source": "Figure 2", "above": 0, "matters": 0.15, "unit": "of misalignment",
    "because": "a tenth of what sampling alone gives (1.5)",
}  # fmt: skip
STATEMENTS = [
    Statement(
        "ends-below-random-basis",
        "At the end of training the filters are less misaligned with the data than with random bases, with "
        "either kind of labels.",
        of=least(at_the_end, each_labels), headline=True, **MEASURED,
    ),
    Statement(
        "below-random-basis",
        "The filters are less misaligned with the data than with random bases at every recorded epoch once "
        f"they have moved by {MOVED:g} of their norm.",
        of=throughout, each=each_labels, **MEASURED,
        post_hoc="where “throughout training” starts was chosen after three seeds were seen",
    ),
    Statement(
        "very-small",
        f"Misalignment stays very small: below {SMALL:g} times what sampling alone gives.",
        of=room, ours=True, each=each_labels, **MEASURED,
    ),
]  # fmt: skip
EACH = {"each": lambda p: [Case(kind, KINDS[kind], {"labels": kind}) for kind in LABELS]}
NUMBERS = [
    Number("data", "misalignment with the data at the end", last("misalignment"), **EACH),
    Number("bases", "misalignment with random bases at the end", last("basis_mean"), **EACH),
    Number("share", "misalignment with the data over that with random bases", share, **EACH),
    Number("learned", "share of the training labels learned", last("accuracy"), bounds=(0, 1), **EACH),
    Number("floor", "misalignment that sampling alone gives", lambda t, p: [floor(p)] if len(t) else None),
]
