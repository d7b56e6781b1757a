"""Linear models on three non-linear representations, and how these align (Figures 1 and 5).

All have the same number of features: the hidden layer of a ReLU network and that of a network of radial basis
functions whose centres are trained (both on the labels), and a sparse code over a learned dictionary (which
sees no label). Rows of the inputs and of every representation have length one.
"""

import math

import numpy as np
import pandas as pd
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import numpy_stream, torch_stream
from alignbook.studies.representation_alignment.constant_feature import with_constant
from alignbook.studies.representation_alignment.fig06_architectures.experiment import (
    DIGITS,
    THRESHOLDS,
    curve,
)
from alignbook.studies.representation_alignment.hidden_layers import squared
from alignbook.studies.representation_alignment.linear_descent import spectrum
from alignbook.studies.representation_alignment.two_classes import rows
from alignbook.training.loop import module_step, train

HEADLINE = "alignment"
OTHER = "rbf-other"  # the RBF network of another bandwidth
NAMES = {"relu": "ReLU network", "rbf": "RBF network", "dictionary": "dictionary"}  # best first, as printed
RATE = 0.001  # of Adam, as in Section 7.1
BATCH = 64  # as in Section 4.2
CURVE = 60  # steps of gradient descent that are stored, evenly spaced in the logarithm
FITTED = 1e-10  # of the labels' mean square: what least squares may leave of labels that it fits
PRINTED_POINTS = 1000  # Section 3
PRINTED_START = 200.0  # ‖y‖² of these (Section 4.2)
PRINTED_TAU = 8.0  # "about 8": where most of the ReLU network's alignment is still there (Section 4.2)


class RadialBasis(nn.Module):
    """features(x)_j = exp(−‖x − c_j‖² / (2 bandwidth²)), and a linear output of them.

    centres : (units, d), trained; the output's weights start uniform on ± 1/√units.
    """

    def __init__(self, centres, bandwidth, generator):
        super().__init__()
        self.centres, self.bandwidth = nn.Parameter(centres.clone()), bandwidth
        self.output = _linear(len(centres), 1, generator)

    def features(self, x):
        """(n, units) of x (n, d)."""
        squares = x.square().sum(1, keepdim=True) + self.centres.square().sum(1) - 2 * x @ self.centres.T
        return torch.exp(squares.clamp(min=0) / (-2 * self.bandwidth**2))

    def forward(self, x):
        return self.output(self.features(x))


class Rectified(nn.Module):
    """features(x) = max(W x + b, 0), and a linear output of them; initial values as nn.Linear's."""

    def __init__(self, inputs, units, generator):
        super().__init__()
        self.hidden, self.output = _linear(inputs, units, generator), _linear(units, 1, generator)

    def features(self, x):
        """(n, units) of x (n, d)."""
        return self.hidden(x).relu()

    def forward(self, x):
        return self.output(self.features(x))


def _linear(fan_in, out, generator):
    linear = nn.Linear(fan_in, out, device="meta")
    for name, shape in (("weight", (out, fan_in)), ("bias", (out,))):
        draw = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(fan_in)
        setattr(linear, name, nn.Parameter(draw))
    return linear


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(
    *,
    dataset,
    points,
    width,
    training_steps,
    bandwidth,
    other_bandwidth,
    penalty,
    dictionary_epochs,
    step_sizes,
    iterations,
    early,
    seed,
    device,
    report,
):
    """Make the representations, align them, train linear models. Rows of the table, by ``kind``:

    ``area`` : representation, area (:func:`fig06_architectures.curve`), largest (σ_1 over √n), unfitted (what
        least squares leaves, over the labels' mean square), points, square (the labels' mean square), nonzero
        (share of features that are not 0), and loss, the network's last;
    ``curve`` : representation, threshold (over √n), alignment over ‖y‖²;
    ``step`` : representation, step_size, step, train_error and test_error (mean squared), of step sizes
        that converge.
    """
    data = rows(dataset, points, seed)
    (x, y), (x_test, y_test) = ((nn.functional.normalize(x, dim=1), y) for x, y in data.values())
    made, losses = {}, {}
    draw = torch_stream(seed, "fig01", "centres")
    centres = x[torch.randint(len(x), (width,), generator=draw)].float()
    networks = {
        "relu": Rectified(x.shape[1], width, torch_stream(seed, "fig01", "relu")),
        "rbf": RadialBasis(centres, bandwidth, torch_stream(seed, "fig01", "rbf")),
        OTHER: RadialBasis(centres, other_bandwidth, torch_stream(seed, "fig01", "rbf")),
    }
    for name, net in networks.items():
        net.to(device)
        inputs, labels = x.to(device, torch.float32), y.to(device, torch.float32)
        optimiser = torch.optim.Adam(net.parameters(), lr=RATE, fused=True)
        losses[name] = train(
            module_step(net, inputs, labels, optimiser, loss=squared),
            len(y),
            batch_size=BATCH,
            steps=training_steps,
            rate=RATE,
            generator=torch_stream(seed, "fig01", "batches"),
            device=device,
        ).loss
        with torch.no_grad():
            made[name] = [net.features(part.to(inputs)).cpu().double() for part in (x, x_test)]
        report(len(made) / 5, name)
    made["dictionary"] = sparse_codes(x, x_test, width, penalty, dictionary_epochs, seed)
    report(4 / 5, "dictionary")
    tables = []
    for name, (hidden, hidden_test) in made.items():
        table = measured(hidden, y, hidden_test, y_test, step_sizes, iterations, early)
        about = table["kind"] == "area"
        table.loc[about, "loss"] = losses.get(name, math.nan)
        table.loc[about, "nonzero"] = float((hidden != 0).double().mean())
        tables.append(table.assign(representation=name))
    return pd.concat(tables, ignore_index=True)


def sparse_codes(x, x_test, atoms, penalty, epochs, seed):
    """[(n, atoms), (n_test, atoms)] float64: codes of least ‖x − D c‖²/2 + penalty ‖c‖₁.

    The dictionary D is learned from x by scikit-learn's online algorithm (Mairal et al. 2009), ``epochs``
    passes.
    """
    import warnings

    from sklearn.decomposition import MiniBatchDictionaryLearning

    learner = MiniBatchDictionaryLearning(
        atoms,
        alpha=penalty,
        max_iter=epochs,
        batch_size=min(BATCH, len(x)),
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        random_state=int(numpy_stream(seed, "fig01", "dictionary").integers(2**31)),
    )
    with warnings.catch_warnings(action="ignore"):  # codes that are not exact to its last digit
        learner.fit(x.numpy())
        return [torch.from_numpy(learner.transform(part.numpy())) for part in (x, x_test)]


def measured(hidden, labels, hidden_test, labels_test, step_sizes, iterations, early):
    """The rows of :func:`compute` for one representation, tensors (n, d) and (n_test, d), without a constant.

    Alignment and linear models see the same matrix: a constant is appended, then rows get length one.
    """
    phi, phi_test = with_constant(hidden).numpy(), with_constant(hidden_test).numpy()
    y, y_test = labels.numpy(), labels_test.numpy()
    left, singular = spectrum(phi)
    gains = left.T @ y
    n, square = len(y), float(np.mean(y**2))
    area, alignment = curve(hidden, labels)  # which appends the constant and scales rows itself
    unfitted = max(float(np.mean(np.square(y - left @ gains))), 0.0) / square
    whole = {"area": area, "largest": singular[0] / math.sqrt(n), "unfitted": unfitted}
    tables = [
        pd.DataFrame([{"kind": "area", "points": n, "square": square} | whole]),
        pd.DataFrame(
            {
                "kind": "curve",
                "threshold": np.linspace(0, 1, THRESHOLDS).round(DIGITS),
                "alignment": alignment.round(DIGITS),
            }
        ),
    ]
    steps = np.unique([0, *np.geomspace(1, iterations, CURVE).round().astype(int), min(early, iterations)])
    for size in step_sizes:
        if size * singular[0] ** 2 / n < 2:
            errors = linear_model(phi, y, phi_test, y_test, size, steps)
            tables.append(pd.DataFrame({"kind": "step", "step_size": size, "step": steps} | errors))
    return pd.concat(tables, ignore_index=True)


def linear_model(phi, y, phi_test, y_test, step_size, steps):
    """Errors of w ← w − (η/n) Φᵀ(Φw − y) from zero weights after each of ``steps`` (T,), as it is solved:

        v_iᵀ w_t = (1 − (1 − η σ_i²/n)ᵗ) (u_iᵀ y) / σ_i                      (Proposition 1, Appendix B)

    Returns {"train_error", "test_error"}: (T,) mean squared.
    """
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    kept = singular > max(phi.shape) * np.finfo(float).eps * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    factor = 1 - step_size * singular**2 / len(y)
    gone = 1 - factor[:, None] ** np.asarray(steps, float)  # (r, T)
    gains = (left.T @ y)[:, None]
    train_error = np.square(left @ (gone * gains) - y[:, None]).mean(0)
    weights = right.T @ (gone * gains / singular[:, None])  # (d, T)
    return {
        "train_error": train_error,
        "test_error": np.square(phi_test @ weights - y_test[:, None]).mean(0),
    }


def areas(table):
    """(seeds × representations) frame of areas under the alignment curves; empty where there are none."""
    if "kind" not in table:
        return pd.DataFrame()
    return table[table["kind"] == "area"].pivot(index="seed", columns="representation", values="area")


def best_step_sizes(table):
    """{representation: step size} of lowest training error after the last step, mean over the runs.

    Of those that converge in every run; the larger one where two are alike. Test points have no say.
    """
    steps = table[table["kind"] == "step"]
    last = steps[steps["step"] == steps["step"].max()]
    grouped = last.groupby(["representation", "step_size"])["train_error"]
    found = grouped.mean()[grouped.count() == steps["seed"].nunique()].reset_index()
    found = found.sort_values(["train_error", "step_size"], ascending=[True, False])
    return found.groupby("representation")["step_size"].first().to_dict()


def at_best(table):
    """The rows of kind ``step`` at each representation's best step size."""
    steps = table[table["kind"] == "step"]
    best = steps["representation"].map(best_step_sizes(table))
    return steps[steps["step_size"] == best]


def errors(table, step, column):
    """(seeds × representations) frame of ``train_error`` or ``test_error`` after ``step`` steps (None: the
    last), over the labels' mean square."""
    if "kind" not in table:
        return pd.DataFrame()
    chosen = at_best(table)
    chosen = chosen[chosen["step"] == (chosen["step"].max() if step is None else step)]
    square = table[table["kind"] == "area"].groupby("seed")["square"].first()
    return chosen.pivot(index="seed", columns="representation", values=column).div(square, axis=0)


def margins(frame, sign=1, rbf="rbf"):
    """How much the better of two neighbours in the printed order is ahead, least of both, one per seed."""
    ordered = sign * frame
    return np.minimum(ordered["relu"] - ordered[rbf], ordered[rbf] - ordered["dictionary"])


def nearer(frame, rbf="rbf"):
    """How much nearer the RBF network lies to the dictionary than to the ReLU network, one per seed."""
    return (frame["relu"] - frame[rbf]).abs() - (frame[rbf] - frame["dictionary"]).abs()


def claims(table, parameters):
    """Orders of three: in each run the smaller of both margins. Written before the first run, but for
    ``closer`` and ``last``, which the page tells."""
    early = min(parameters["early"], parameters["iterations"])
    measured = {
        "alignment": (
            "Alignment: ReLU network above RBF network above dictionary (areas, the smaller margin).",
            "Figure 5, Section 4.2",
            lambda: margins(areas(table)),
            0.0,
        ),
        "training": (
            f"Training errors of linear models order alike after {early} steps (the smaller margin).",
            "Figure 1, Section 3",
            lambda: margins(errors(table, early, "train_error"), -1),
            0.0,
        ),
        "test": (
            f"Test errors of linear models order alike after {early} steps (the smaller margin).",
            "Figure 1, Section 3",
            lambda: margins(errors(table, early, "test_error"), -1),
            0.0,
        ),
        "relu-first": (
            "The ReLU network's features align more than both others (area above the better of them).",
            "Figure 5, Section 4.2",
            lambda: areas(table)["relu"] - areas(table)[["rbf", "dictionary"]].max(axis=1),
            0.0,
        ),
        "relu-fastest": (
            f"Linear models train fastest on the ReLU network's features: error after {early} steps below "
            "the better of the others.",
            "Figure 1, Section 3",
            lambda: errors(table, early, "train_error")[["rbf", "dictionary"]].min(axis=1)
            - errors(table, early, "train_error")["relu"],
            0.0,
        ),
        "alignment-other": (
            "With the other bandwidth, alignment orders alike (the smaller margin).",
            "Figure 5; bandwidth not given",
            lambda: margins(areas(table), rbf=OTHER),
            0.0,
        ),
        "training-other": (
            f"With the other bandwidth, training errors order alike after {early} steps (smaller margin).",
            "Figure 1; bandwidth not given",
            lambda: margins(errors(table, early, "train_error"), -1, OTHER),
            0.0,
        ),
        "closer": (
            "The RBF network's alignment is nearer to the dictionary's than to the ReLU network's (areas).",
            "Figure 5, Section 4.2",
            lambda: nearer(areas(table)),
            0.0,
        ),
        "closer-other": (
            "With the other bandwidth, it is nearer to the dictionary's, too.",
            "Figure 5; bandwidth not given",
            lambda: nearer(areas(table), rbf=OTHER),
            0.0,
        ),
        "training-last": (
            "Training errors order alike after the last step, too (the smaller margin).",
            "Figure 1; at which step is ours",
            lambda: margins(errors(table, None, "train_error"), -1),
            0.0,
        ),
        "test-last": (
            "Test errors order alike after the last step, too (the smaller margin).",
            "Figure 1; at which step is ours",
            lambda: margins(errors(table, None, "test_error"), -1),
            0.0,
        ),
        "most": (
            "The ReLU network keeps most of its alignment at a threshold of about 8, of 1000 points (share).",
            "Figure 5, Section 4.2",
            lambda: aligned_at(table, "relu", PRINTED_TAU / math.sqrt(PRINTED_POINTS)),
            0.5,
        ),
    }
    made = []
    for id, (statement, source, values, than) in measured.items():
        if "kind" in table:
            claim = Claim.greater(id, statement, source, values(), than=than)
        else:
            claim = Claim.missing(id, statement, source, "nothing was computed")
        made.append(claim.tagged(ours=id.endswith(("other", "last"))))
    fits = "On each of the three, a linear model can fit the training labels perfectly."
    for name, title in NAMES.items():
        short = f"{title}: what least squares leaves of the labels' mean square, worst run."
        about = (f"fits-{name}", short, "Section 3")
        if "kind" in table:
            left = table.loc[table["representation"] == name, "unfitted"].max()
            claim = Claim.computed(*about, left, 0.0, FITTED)
        else:
            claim = Claim.missing(*about, "nothing was computed")
        made.append(claim.tagged(group=fits))
    return made


def aligned_at(table, representation, threshold):
    """Alignment over ‖y‖² at the stored threshold (over √n) next to ``threshold``, one per seed."""
    rows = table[(table["kind"] == "curve") & (table["representation"] == representation)]
    stored = rows["threshold"].unique()
    near = stored[np.argmin(np.abs(stored - threshold))]
    return rows[rows["threshold"] == near].set_index("seed")["alignment"]


def finding(table, parameters):
    """Whether areas and errors order as printed, by outcome, with the areas and other orders of errors."""
    if "kind" not in table:
        return "Nothing was computed."
    early = min(parameters["early"], parameters["iterations"])
    found = areas(table)[list(NAMES)].mean().sort_values(ascending=False)
    order = " > ".join(f"{NAMES[name]} {area:.2f}" for name, area in found.items())
    part = ""
    if parameters["dataset"] == "ct_slices":
        points = table.loc[table["kind"] == "area", "points"].min()
        part = f" ({points:.0f} training rows of a part of CT Position)"
    told = []
    for step, when in ((early, f"after {early} steps"), (None, f"after {parameters['iterations']}")):
        kinds = {}
        for kind, column in (("training", "train_error"), ("test", "test_error")):
            left = errors(table, step, column)
            word = _ordered(margins(left, -1), "in that order")
            if word != "in that order":
                ordered = left[list(NAMES)].mean().sort_values().index
                word += f" ({' < '.join(map(NAMES.get, ordered))})"
            kinds.setdefault(word, []).append(kind)
        told.append(f"{when} " + ", ".join(f"{' and '.join(names)} {word}" for word, names in kinds.items()))
    aligned = _ordered(margins(areas(table)), "as printed")
    return f"Alignment orders {aligned}{part}: {order}. Errors: {'; '.join(told)}."


def _ordered(margin, word):
    """What ``margins`` of the printed order of alignment say: ``word``, not ``word``, or undecided."""
    words = {HOLDS: word, CONTRADICTED: f"not {word}"}
    return words.get(Claim.greater("order", "", "", margin).outcome, "undecidedly")


def key_numbers(table, parameters):
    """Areas, errors, and where the curves start."""
    if "kind" not in table:
        return []
    early = min(parameters["early"], parameters["iterations"])
    found, after = areas(table), errors(table, early, "test_error")
    start = PRINTED_POINTS * table[table["kind"] == "area"].groupby("seed")["square"].first()
    labels = " / ".join(NAMES.values())
    return [
        KeyNumber(f"area: {labels}", " / ".join(f"{found[name].mean():.2f}" for name in NAMES)),
        KeyNumber(
            f"test error after {early} steps over mean square",
            " / ".join(f"{after[name].mean():.1%}" for name in NAMES),
        ),
        KeyNumber(
            "‖y‖² of 1000 points", interval(start, "{:.0f}", (0, PRINTED_POINTS)), f"{PRINTED_START:.0f}"
        ),
    ]
