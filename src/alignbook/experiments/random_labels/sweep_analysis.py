"""What a sweep's groups say (B): areas under learning curves, shares below x = y, which factor decides."""

import numpy as np
import pandas as pd

from alignbook.claims import CONFIDENCE, CONTRADICTED, HOLDS, UNDECIDED, Claim
from alignbook.seeding import numpy_stream

from .downstream import area

LEARNED = 0.1  # accuracy above that of a guess at random labels: below it there is nothing to compare
HELD_OUT = 0.05  # area of test accuracy above that of a guess: below it held-out images say nothing
BOOTSTRAP = 500
MIN_GROUPS = 10  # with fewer a bootstrap says little
RIDGE = 0.1  # penalty ½ · RIDGE · ‖β‖², without the intercept
SCALED = {
    "init_scale": "a larger initial scale",
    "learning_rate": "a higher learning rate",
    "upstream": "more examples upstream",
    "upstream_classes": "more classes upstream",
    "upstream_epochs": "more epochs upstream",
}
FACTORS = SCALED | {
    "vgg": "VGG-16, not SimpleCNN",
    "resnet": "ResNet-18, not SimpleCNN",
    "orthogonal": "orthogonal, not He",
    "all": "all layers, not one",
    "random": "random, not real labels",
}


def curves(table):
    """One row for each downstream network of a unit: ``area`` under its curves (B), mean over training, 0..1.

    Indexed by unit, labels, start and ``what`` ("train", "test"); with ``end``, its last accuracy, and the
    unit's arguments. A network that diverged has no area. Empty without results.
    """
    if "start" not in table:
        return pd.DataFrame()
    rows = table[table["start"] != "upstream"]
    made = []
    for (unit, labels, start), run in rows.groupby(["unit", "labels", "start"]):
        run = run.sort_values("epoch")
        for what, column in (("train", "accuracy"), ("test", "test")):
            values = run[column].to_numpy(dtype=float) if column in run else np.array([np.nan])
            whole = len(values) > 1 and np.isfinite(values).all()
            made.append(
                {"unit": unit, "labels": labels, "start": start, "what": what}
                | {"area": float(area(run["epoch"], values)) if whole else np.nan, "end": values[-1]}
            )
    names = ["architecture", "init", "classes", "seed", *SCALED]
    settings = rows.groupby("unit")[names].first()
    return pd.DataFrame(made).join(settings, on="unit")


def comparisons(table):
    """One row per point of the figures: a group, its ``labels``, ``what`` and ``layers`` ("one", "all").

    ``scratch`` and ``pretrained`` : areas, means over the group's seeds in which neither diverged; ``gain`` :
    their difference in points; ``below`` : whether it is positive, so that the point lies below x = y.
    ``learned`` : either network ends ``LEARNED`` above 1 / classes on its training images. ``figure`` and
    ``group`` come from the units' names. Groups with a diverged network in every seed have no row.
    """
    found = curves(table)
    if found.empty:
        return pd.DataFrame()
    own = ["unit", "labels", "what"]
    scratch = found[found["start"] == "scratch"].set_index(own)[["area", "end"]]
    pairs = found[found["start"] != "scratch"].rename(columns={"start": "layers", "area": "pretrained"})
    pairs = pairs.join(scratch.rename(columns={"area": "scratch", "end": "scratch_end"}), on=own)
    pairs = pairs.dropna(subset=["pretrained", "scratch"])
    pairs["group"] = pairs["unit"].astype(str).str.replace(r"-seed\d+$", "", regex=True)
    best = pairs[["end", "scratch_end"]].max(axis=1) - 1 / pairs["classes"]
    pairs["above_chance"] = best.where(pairs["what"] == "train")
    keys = ["group", "labels", "what", "layers"]
    settings = ["architecture", "init", *SCALED]
    points = pairs.groupby(keys, as_index=False).agg(
        {name: "first" for name in settings}
        | {name: "mean" for name in ("scratch", "pretrained", "above_chance")}
    )
    if points.empty:
        return pd.DataFrame()
    best = points.groupby(["group", "labels", "layers"])["above_chance"].transform("max")
    points["learned"] = best >= LEARNED
    points["gain"] = 100 * (points["pretrained"] - points["scratch"])
    points["below"] = points["gain"] > 0
    points["figure"] = points["group"].str.partition("-")[0]
    return points.drop(columns="above_chance")


def judged(points, *figures, what="train"):
    """The points of ``figures`` that enter shares: those in which either network learned."""
    if points.empty:
        return points
    return points[points["figure"].isin(figures) & (points["what"] == what) & points["learned"]]


def near_guess(points, guess):
    """Whether held-out accuracies say nothing of ``points`` of what "test".

    The better area of each point, its mean over the points, is not ``HELD_OUT`` above ``guess`` (0..1).
    """
    best = points[["scratch", "pretrained"]].max(axis=1) if len(points) else pd.Series(dtype=float)
    return not best.mean() >= guess + HELD_OUT


def exact(wins):
    """Share of true values in ``wins``, one for each of independent groups, and its exact 95 % interval.

    (share, (low, high)), Clopper and Pearson's; of no values (None, None).
    """
    from scipy import stats  # here: it takes a second

    wins = np.asarray(wins, dtype=bool)
    if not len(wins):
        return None, None
    ends = stats.binomtest(int(wins.sum()), len(wins)).proportion_ci(CONFIDENCE, "exact")
    return float(wins.mean()), (float(ends.low), float(ends.high))


def by_group(points):
    """Share of ``points`` below x = y, and its bootstrap interval: whole groups are drawn again.

    (share, (low, high) or None below ``MIN_GROUPS`` groups); (None, None) without points.
    """
    if points.empty:
        return None, None
    counted = points.groupby("group")["below"].agg(["sum", "count"]).to_numpy(dtype=float)
    share = float(counted[:, 0].sum() / counted[:, 1].sum())
    if len(counted) < MIN_GROUPS:
        return share, None
    below, count = np.moveaxis(_draws(len(counted)) @ counted, -1, 0)
    low, high = np.percentile(below / count, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return share, (float(low), float(high))


def _draws(groups):
    """How often each of ``groups`` is drawn: (BOOTSTRAP, groups)."""
    rng = numpy_stream(0, "sweep", "bootstrap", groups)
    return rng.multinomial(groups, np.full(groups, 1 / groups), size=BOOTSTRAP).astype(float)


def share_claim(id, statement, source, share, interval, count, test, above=True):
    """The claim that a share is above one half (or, unless ``above``, below it): by its interval.

    Holds when the whole interval is on that side, disagrees when it is on the other, else undecided, also
    without an interval; not run without a share.
    """
    if share is None:
        return Claim.missing(id, statement, source, "no such group is among the results")
    low, high = interval or (0.0, 1.0)
    outcome = UNDECIDED
    if low > 0.5 or high < 0.5:
        outcome = HOLDS if (low > 0.5) == above else CONTRADICTED
    where = "above" if above else "below"
    test = f"{test} of the share {where} 0.5, {count} groups"
    return Claim(id, statement, source, None, None, share, interval, outcome, count, test)


def design_matrix(points):
    """(names, (n, k) matrix): the factors of ``points`` for :func:`logistic`, an intercept first.

    Of ``SCALED`` the logarithm, less its mean and over two standard deviations among the points of the same
    architecture, so that 1 is the step from a low to a high value and comparable with the others, which are 0
    or 1 (A. Gelman, Statistics in Medicine 27, 2008). A factor that does not vary is left out.
    """
    columns = {
        "vgg": points["architecture"] == "vgg",
        "resnet": points["architecture"] == "resnet",
        "orthogonal": points["init"] == "orthogonal",
        "all": points["layers"] == "all",
        "random": points["labels"] == "random",
    }
    for name in SCALED:
        logs = np.log(points[name].astype(float))
        within = logs.groupby(points["architecture"])
        spread = 2 * within.transform(lambda values: values.std(ddof=0))
        columns[name] = ((logs - within.transform("mean")) / spread.where(spread > 1e-9)).fillna(0.0)
    kept = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    kept = {name: column for name, column in kept.items() if np.ptp(column) > 0}
    return ["", *kept], np.column_stack([np.ones(len(points)), *kept.values()])


def logistic(x, y, weights, steps=30):
    """Coefficients of a logistic regression with a small ridge (``RIDGE``), by Newton's method.

    x : (n, k), its first column the intercept; y : (n,) of 0 and 1; weights : (b, n) ≥ 0, of as many fits.
    Returns (b, k): what minimises Σ_i w_i log(1 + exp(−s_i x_iβ)) + ½ RIDGE ‖β without intercept‖², s = ±1.
    """
    n, k = x.shape
    ridge = np.diag([0.0, *[RIDGE] * (k - 1)])
    ridge[0, 0] = 1e-6  # where all y are the same the intercept has no end
    products = (x[:, :, None] * x[:, None, :]).reshape(n, k * k)
    beta = np.zeros((len(weights), k))
    for _ in range(steps):
        likely = 1 / (1 + np.exp(-np.clip(beta @ x.T, -30, 30)))
        slope = (weights * (likely - y)) @ x + beta @ ridge
        curvature = ((weights * likely * (1 - likely)) @ products).reshape(-1, k, k) + ridge
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        # At most 2 in any coefficient: full steps overshoot where a factor separates the two outcomes.
        step *= np.minimum(1, 2 / np.maximum(np.abs(step).max(-1, keepdims=True), 1e-12))
        beta -= step
    return beta


def coefficients(points):
    """Which factor decides whether a point lies below x = y: a logistic regression over ``points``.

    Frame, one row per factor of :func:`design_matrix`, largest first: ``value``, and ``low`` and ``high`` of
    its 95 % bootstrap interval (whole groups drawn again). Empty below ``MIN_GROUPS`` groups, and where all
    points lie on one side.
    """
    if points.empty or points["group"].nunique() < MIN_GROUPS or points["below"].nunique() < 2:
        return pd.DataFrame(columns=["value", "low", "high"])
    names, x = design_matrix(points)
    place, groups = pd.factorize(points["group"])
    weights = np.vstack([np.ones(len(points)), _draws(len(groups))[:, place]])
    fits = logistic(x, points["below"].to_numpy(dtype=float), weights)
    low, high = np.percentile(fits[1:], [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)], axis=0)
    frame = pd.DataFrame({"value": fits[0], "low": low, "high": high}, index=names).iloc[1:]
    return frame.reindex(frame["value"].abs().sort_values(ascending=False).index)
