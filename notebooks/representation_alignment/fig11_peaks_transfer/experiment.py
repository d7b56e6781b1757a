"""Linear models on few points of a related and an unrelated task, three representations (Figure 11)."""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import Claim, KeyNumber
from alignbook.data import peaks
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream

from .. import peaks_source
from ..constant_feature import with_constant
from ..peaks_design import REPRESENTATIONS

TASKS = ("related", "unrelated")
POINTS_PER_CURVE = 60  # step counts at which a learning curve is stored, log-spaced
REDUCTIONS = tuple(range(5, 100, 5))  # percent of the training loss at zero weights
LARGE_REDUCTION = 40  # percent: where the claims compare weight norms


def units(parameters):
    """One unit per seed."""
    shared = {name: value for name, value in parameters.items() if name != "seeds"}
    return [Unit(f"seed{seed}", compute, shared | {"seed": seed}) for seed in range(parameters["seeds"])]


def compute(
    *,
    points,
    width,
    few,
    test_points,
    linear_step_sizes,
    iterations,
    fast_phase,
    seed,
    device,
    report,
    **training,
):
    """Train on S as Figure 10 does (``training`` goes to peaks_source.train), then linear models on ``few``
    of its points. Rows of the table, by ``kind``:

    ``step`` : task, representation, linear_step_size, step, train_error and test_error (mean squared),
        weight_norm;
    ``reduction`` : task, representation, linear_step_size, reduction (percent), step and weight_norm: the
        first step that lowers the training loss by so much; no row where ``iterations`` steps do not.
    """
    source = peaks_source.draw(seed, points)
    picked = torch.randperm(points, generator=torch_stream(seed, "peaks", "few"))[:few]
    variables = peaks.sample_variables(test_points, torch_stream(seed, "peaks", "test"))
    inputs = torch.cat([source.inputs[picked], peaks.encode(variables)])  # the few, then the test points
    network = peaks_source.initial_network(seed, width, device)
    features = {"original": inputs, "init": peaks_source.extract(network, inputs)}
    peaks_source.train(network, source, seed=seed, report=report, **training)
    features["transfer"] = peaks_source.extract(network, inputs)

    tables = []
    for task in TASKS:
        y_train = source.labels[task][picked]
        y_test = source.functions[task](variables) - source.means[task]
        for representation in REPRESENTATIONS:
            phi = with_constant(features[representation]).numpy()
            for size in linear_step_sizes:
                path = descend(phi[:few], y_train.numpy(), size, iterations)
                curves = learning_curves(path, phi[few:], y_test.numpy(), fast_phase)
                about = {"task": task, "representation": representation, "linear_step_size": size}
                tables.append(pd.concat([curves, norms_at_reductions(path)]).assign(**about))
    return pd.concat(tables, ignore_index=True)


def descend(phi, y, step_size, iterations):
    """Gradient descent from zero weights, w ← w − (η/n) Φᵀ(Φw − y), all of its iterates.

    phi : (n, d) float64, rows of length one at most; y : (n,) float64; step_size : η in (0, 1], for
    which the descent converges whatever Φ is (σ_max² ≤ n). In the right singular vectors v_i of Φ the
    descent is solved (Appendix B, proof of Proposition 1):

        v_iᵀ w_t = (1 − (1 − η σ_i²/n)ᵗ) (u_iᵀ y) / σ_i

    Returns a dict: ``coordinates`` (iterations + 1, rank), ``basis`` (d, rank) with
    w_t = basis @ coordinates[t], ``train_error`` (iterations + 1,) mean squared, ``norm`` likewise.
    """
    n = len(y)
    left, singular, right = np.linalg.svd(phi, full_matrices=False)
    kept = singular > max(phi.shape) * np.finfo(float).eps * singular[0]
    left, singular, right = left[:, kept], singular[kept], right[kept]
    projected = left.T @ y
    # log1p keeps the slow directions exact; a rate of 1 (above it only by rounding) is gone after one step.
    rates = np.minimum(step_size * singular**2 / n, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.arange(iterations + 1)[:, None] * np.log1p(-rates)
    remaining = np.exp(np.nan_to_num(exponents, nan=0.0))  # (T, rank): (1 − ησ²/n)ᵗ
    coordinates = (1 - remaining) * (projected / singular)
    outside = float(y @ y - projected @ projected)  # what no weights can reduce
    train_error = (np.square(remaining * projected).sum(1) + max(outside, 0.0)) / n
    return {
        "coordinates": coordinates,
        "basis": right.T,
        "train_error": train_error,
        "norm": np.linalg.norm(coordinates, axis=1),
    }


def stored_steps(iterations, fast_phase):
    """The step counts of a learning curve: 0, log-spaced, ``fast_phase`` and the last; ascending."""
    steps = np.geomspace(1, iterations, POINTS_PER_CURVE).round().astype(int)
    return np.unique([0, *steps, min(fast_phase, iterations), iterations])


def learning_curves(path, phi_test, y_test, fast_phase):
    """Errors and norms of ``path`` (of :func:`descend`) at :func:`stored_steps`, a frame."""
    steps = stored_steps(len(path["norm"]) - 1, fast_phase)
    predictions = phi_test @ (path["basis"] @ path["coordinates"][steps].T)  # (n_test, T)
    return pd.DataFrame(
        {
            "kind": "step",
            "step": steps,
            "train_error": path["train_error"][steps],
            "test_error": np.square(predictions - y_test[:, None]).mean(0),
            "weight_norm": path["norm"][steps],
        }
    )


def norms_at_reductions(path):
    """Weight norm at the first step that lowers the training loss by each of ``REDUCTIONS``, a frame."""
    reduction = 100 * (1 - path["train_error"] / path["train_error"][0])  # does not decrease for η ≤ 1
    first = np.searchsorted(reduction, REDUCTIONS)
    reached = first < len(reduction)
    first = first[reached]
    return pd.DataFrame(
        {
            "kind": "reduction",
            "reduction": np.array(REDUCTIONS)[reached],
            "step": first,
            "weight_norm": path["norm"][first],
        }
    )


def best_step_sizes(table):
    """{(task, representation): step size} of lowest training error after the last step, mean over runs.

    The rule is fixed beforehand and does not see the test points. Ties go to the larger step size.
    """
    steps = table[table["kind"] == "step"]
    last = steps[steps["step"] == steps["step"].max()]
    keys = ["task", "representation"]
    mean = last.groupby([*keys, "linear_step_size"])["train_error"].mean().reset_index()
    mean = mean.sort_values(["train_error", "linear_step_size"], ascending=[True, False])
    return mean.groupby(keys)["linear_step_size"].first().to_dict()


def at_best(table):
    """The rows of ``table`` at each task's and representation's best step size."""
    best = best_step_sizes(table)
    chosen = [best[key] for key in zip(table["task"], table["representation"], strict=True)]
    return table[table["linear_step_size"] == np.array(chosen)]


# (id, task, sign, column, when, statement, panel)
_LOWER, _HIGHER = "lower {} error {}", "higher {} error {}"
_FAST, _LAST = "after the fast phase", "after the last step"
_GONE = f"when {LARGE_REDUCTION} % of the training loss is gone"
_CLAIMS = (
    ("related-train-fast", "related", 1, "train_error", "fast", _LOWER.format("training", _FAST), "a"),
    ("related-test-fast", "related", 1, "test_error", "fast", _LOWER.format("test", _FAST), "a"),
    ("related-gap", "related", 1, "gap", "gone", f"a smaller generalization gap {_GONE}", "a"),
    ("related-norm", "related", 1, "weight_norm", "norm", f"smaller weights {_GONE}", "c"),
    ("unrelated-train-fast", "unrelated", -1, "train_error", "fast", _HIGHER.format("training", _FAST), "b"),
    ("unrelated-test-fast", "unrelated", -1, "test_error", "fast", _HIGHER.format("test", _FAST), "b"),
    ("unrelated-train-last", "unrelated", -1, "train_error", "last", _HIGHER.format("training", _LAST), "b"),
    ("unrelated-test-last", "unrelated", -1, "test_error", "last", _HIGHER.format("test", _LAST), "b"),
    ("unrelated-norm", "unrelated", -1, "weight_norm", "norm", f"larger weights {_GONE}", "d"),
)
BETTER = "On the related task, transferred features do better than initial features do."
WORSE = "On the unrelated task, transferred features do worse than the inputs and than initial features."
MIRRORS = "Performance mirrors alignment where the inputs are one side, too: transferred, inputs, initial."


def claims(table, parameters):
    """What Section 7.1 says of Figure 11, by differences in each run.

    On the related task, transferred features are compared with initial ones ("comparison with the
    representation at initialization shows that this benefit comes from training"), on the unrelated one with
    the worse of the other two, which they are to be worse than both of. That they also beat the inputs on the
    related task is our reading of "mirrors".

    "After the fast phase": after ``fast_phase`` steps (see the page). Weights and generalization gaps (test
    less training error) are compared at a reduction of ``LARGE_REDUCTION`` percent, or in a run in which one
    of the three does not get there, at the largest reduction that all three reach.
    """
    result, readings = [], []
    rows = at_best(table) if "kind" in table else table
    if "kind" in rows:
        rows = rows.assign(gap=rows["test_error"] - rows["train_error"])
    fast_phase = parameters["fast_phase"]
    for identity, task, sign, column, when, what, panel in _CLAIMS:
        about = f"On the {task} task, transferred features give {what} than"
        where = f"Section 7.1, Figure 11 ({panel})"
        values = _values(rows, task, column, when, fast_phase)
        if task == "related":
            result.append(_lead(identity, f"{about} initial features", where, values, ["init"], sign))
            reading = _lead(f"{identity}-inputs", f"{about} the inputs", where, values, ["original"], sign)
            readings.append(reading.tagged(MIRRORS, ours=True))
        else:
            others = ["original", "init"]
            about = f"{about} inputs and initial features"
            result.append(_lead(identity, about, where, values, others, sign))
        result[-1] = result[-1].tagged(BETTER if task == "related" else WORSE)
    readings += [claim.tagged(MIRRORS, ours=True) for claim in _mirrored(rows, fast_phase)]
    return [*result, *_fast_shares(rows, fast_phase), *readings]


def _lead(identity, statement, where, values, others, sign):
    """Transferred features beat (``sign`` 1), or trail (-1), the nearest of ``others``."""
    if values is None:
        why = "no finished run, or none in which all three representations get so far"
        return Claim.missing(identity, statement, where, why)
    nearest = values[others].min(axis=1) if sign > 0 else values[others].max(axis=1)
    return Claim.greater(identity, statement, where, sign * (nearest - values["transfer"]))


HEADLINE = "related-test-fast"


def finding(table, parameters):
    """Test errors after the fast phase, transferred against initial features and inputs, by task."""
    parts = []
    for task, errors in _errors(table, parameters).items():
        changes = (100 * (errors["transfer"] / errors[name] - 1).mean() for name in ("init", "original"))
        init, inputs = (f"{change:+.0f} %" for change in changes)
        parts.append(f"{task} task {init} ({inputs})")
    after = f"Test error after {parameters['fast_phase']} steps"
    return f"{after}, transferred against initial features (inputs): {', '.join(parts)}."


def key_numbers(table, parameters):
    """Test errors after the fast phase: of transferred and initial features, and of the inputs."""
    made = []
    for task, errors in _errors(table, parameters).items():
        what = f"test error on the {task} task after {parameters['fast_phase']} steps: transferred / initial"
        what += " (inputs: our reading)" if task == "related" else " / inputs"
        transferred, init, inputs = (
            f"{errors[name].mean():.3f}" for name in ("transfer", "init", "original")
        )
        last = f"({inputs})" if task == "related" else f"/ {inputs}"
        made.append(KeyNumber(what, f"{transferred} / {init} {last}"))
    return made


def _errors(table, parameters):
    """{task: test errors after the fast phase, (seeds × representations)} of the tasks that have any."""
    rows = at_best(table) if "kind" in table else table
    found = {task: _values(rows, task, "test_error", "fast", parameters["fast_phase"]) for task in TASKS}
    return {task: errors for task, errors in found.items() if errors is not None}


def _fast_shares(rows, fast_phase):
    """How much of the training loss the fast phase removes, with transferred features."""
    share = {}
    for task in TASKS:
        after = _values(rows, task, "train_error", "fast", fast_phase)
        if after is not None:
            share[task] = 1 - after["transfer"] / _values(rows, task, "train_error", "start", 0)["transfer"]
    large = (
        "related-fast-share",
        "On the related task, the fast phase removes over half of the loss of transferred features",
        "Section 7.1; one half for “a large ratio” is ours",
    )
    contrast = (
        "fast-share-contrast",
        "The fast phase removes a larger share of the loss of transferred features on the related task than "
        "on the unrelated one",
        "Figure 11 (a, b)",
    )
    if len(share) < len(TASKS):
        return [Claim.missing(*about, "no finished run") for about in (large, contrast)]
    return [
        Claim.greater(*large, share["related"], than=0.5).tagged(ours=True),
        Claim.greater(*contrast, share["related"] - share["unrelated"]),
    ]


def _mirrored(rows, fast_phase):
    """Whether the inputs, better aligned than initial features (Figure 10), do better than these, too."""
    result = []
    for task in TASKS:
        for when, phrase in (("fast", _FAST), ("last", _LAST)):
            about = (
                f"inputs-above-init-{task}-{when}",
                f"On the {task} task, inputs, which align better than initial features do (Figure 10), "
                f"give a lower test error {phrase}",
                "Section 7.1, our reading",
            )
            values = _values(rows, task, "test_error", when, fast_phase)
            if values is None:
                result.append(Claim.missing(*about, "no finished run"))
            else:
                result.append(Claim.greater(*about, values["init"] - values["original"]))
    return result


def at_reductions(steps, reductions):
    """Rows ``step`` of one task where so much of the training loss is gone, at the first stored step.

    steps : one step size for each representation; reductions : percents. Adds a column ``reduction``; no row
    where a run does not get there.
    """
    keys = ["seed", "representation"]
    start = steps[steps["step"] == 0].set_index(keys)["train_error"]
    gone = 100 * (1 - steps["train_error"].to_numpy() / start.loc[steps.set_index(keys).index].to_numpy())
    found = []
    for reduction in reductions:
        reached = steps[gone >= reduction].sort_values("step").groupby(keys).head(1)
        found.append(reached.assign(reduction=reduction))
    return pd.concat(found)


def _where_all_get(rows, column):
    """(seeds × representations) frame of ``column`` at the largest reduction that all of a run reach."""
    wide = rows.pivot(index=["seed", "reduction"], columns="representation", values=column)
    wide = wide.reindex(columns=REPRESENTATIONS).dropna()
    return wide.groupby("seed").last()  # the index ascends


def _values(rows, task, column, when, fast_phase):
    """(seeds × representations) frame of ``column`` at the moment ``when``, or None."""
    if "kind" not in rows:
        return None
    rows = rows[rows["task"] == task]
    if when == "norm":
        rows = rows[(rows["kind"] == "reduction") & (rows["reduction"] <= LARGE_REDUCTION)]
        values = _where_all_get(rows, column)
    elif when == "gone":
        asked = [reduction for reduction in REDUCTIONS if reduction <= LARGE_REDUCTION]
        values = _where_all_get(at_reductions(rows[rows["kind"] == "step"], asked), column)
    else:
        rows = rows[rows["kind"] == "step"]
        last = rows["step"].max()
        step = {"fast": min(fast_phase, last), "last": last, "start": 0}[when]
        values = rows[rows["step"] == step].pivot(index="seed", columns="representation", values=column)
    return None if values.empty else values
