"""What a sweep's groups say (B): areas under learning curves, gains over them, which factor decides."""

import numpy as np
import pandas as pd

from alignbook.claims import CONFIDENCE
from alignbook.over_seeds import at, means, once

LEARNED = 0.1  # accuracy above that of a guess at random labels: below it there is nothing to compare
HELD_OUT = 0.05  # area of test accuracy above that of a guess: below it held-out images say nothing
FITTED = 0.95  # share of its random labels from which on a network counts as pre-trained
SCALED = {
    "init_scale": "a larger initial scale",
    "learning_rate": "a higher learning rate",
    "upstream": "more examples upstream",
    "upstream_classes": "more classes upstream",
    "upstream_epochs": "more epochs upstream",
}
FACTORS = SCALED | {"orthogonal": "orthogonal, not He"}


def curves(table):
    """One row for each downstream network of a job: ``area`` under its curves (B), mean over training, 0..1.

    Indexed by job, labels, start and ``what`` ("train", "test"); with ``end``, its last accuracy, and the
    job's arguments, and ``known``, the accuracy that pre-training reached. A network that diverged has no
    area. Empty without results.
    """
    if "start" not in table:
        return pd.DataFrame()
    rows = table[table["start"] != "upstream"].sort_values("epoch", kind="stable")
    keys, made = ["unit", "labels", "start"], []
    for what, column in (("train", "accuracy"), ("test", "test")):
        runs = rows.assign(value=rows[column] if column in rows else np.nan)
        before = runs.groupby(keys)[["epoch", "value"]].shift()
        runs["step"] = runs["epoch"] - before["epoch"]
        runs["under"] = runs["step"] * (runs["value"] + before["value"]) / 2  # joined by straight lines
        found = runs.groupby(keys)
        whole = found["value"].count().eq(found.size()) & (found.size() > 1)
        mean = (found["under"].sum() / found["step"].sum()).where(whole)
        made.append(pd.DataFrame({"area": mean, "end": found["value"].last(), "what": what}).reset_index())
    names = ["architecture", "init", "classes", "seed", *SCALED]
    settings = rows.groupby("unit")[names].first()
    known = table[table["start"] == "upstream"].groupby("unit")["accuracy"].first().rename("known")
    return pd.concat(made, ignore_index=True).join(settings, on="unit").join(known, on="unit")


@once
def comparisons(table):
    """One row per point of the figures: a group, its ``labels``, ``what`` and ``layers`` ("one", "all").

    ``scratch`` and ``pretrained`` : areas, means over the group's seeds in which neither diverged; ``gain`` :
    their difference in points; ``below`` : whether it is positive, so that the point lies below x = y.
    ``reached`` : training accuracy in the end, of the two networks the better; ``learned`` : whether that is
    ``LEARNED`` above 1 / classes; ``known`` : share of the random labels that pre-training learned,
    ``fitted`` : whether at least ``FITTED``. ``figure`` and ``group`` come from the jobs' names. Groups with
    a diverged network in every seed have no row.
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
    pairs["reached"] = pairs[["end", "scratch_end"]].max(axis=1).where(pairs["what"] == "train")
    pairs["above_chance"] = pairs["reached"] - 1 / pairs["classes"]
    keys = ["group", "labels", "what", "layers"]
    settings = ["architecture", "init", *SCALED]
    points = pairs.groupby(keys, as_index=False).agg(
        {name: "first" for name in settings}
        | {name: "mean" for name in ("scratch", "pretrained", "reached", "above_chance", "known")}
    )
    if points.empty:
        return pd.DataFrame()
    best = points.groupby(["group", "labels", "layers"])["above_chance"].transform("max")
    points["learned"] = best >= LEARNED
    points["gain"] = 100 * (points["pretrained"] - points["scratch"])
    points["below"] = points["gain"] > 0
    points["fitted"] = points["known"] >= FITTED
    points["figure"] = points["group"].str.partition("-")[0]
    return points.drop(columns="above_chance")


@once
def per_seed(table):
    """:func:`comparisons` of each seed's runs, with ``seed``: one row per point and seed."""
    if not {"start", "seed"} <= set(table):
        return pd.DataFrame()
    found = [comparisons(rows).assign(seed=seed) for seed, rows in table.groupby("seed")]
    return pd.concat(found, ignore_index=True)


def by_seed(points, measure):
    """Mean of ``measure(points)`` over its groups, a sample by seed.

    Groups with the same seed share images, labels and their order, so that they are no sample of these:
    seeds are.
    """
    found = {seed: measure(part).mean() for seed, part in points.groupby("seed")} if len(points) else {}
    return pd.Series(found, dtype=float).rename_axis("seed").dropna()


def judged(points, *figures, what="train"):
    """The points of ``figures`` in which either network learned: what may be drawn and counted."""
    if points.empty:
        return points
    return points[points["figure"].isin(figures) & (points["what"] == what) & points["learned"]]


def fitted(points, *figures, what="train", **values):
    """Of the :func:`judged` points those that verdicts rest on: pre-training has learned its labels.

    values : of further columns, as of :func:`alignbook.over_seeds.at`.
    """
    return at(judged(points, *figures, what=what), fitted=True, **values)


def by_group(points):
    """Mean gain (points) of each group, a Series: the points of a group share its networks from scratch."""
    return points.groupby("group")["gain"].mean() if len(points) else pd.Series(dtype=float)


def above_guess(points, guess):
    """By how much held-out areas exceed ``guess`` (0..1): the better one of each point, mean over points."""
    return points[["scratch", "pretrained"]].max(axis=1).mean() - guess if len(points) else None


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


def layers_add(points):
    """Series over groups: gain with all layers less gain with one (points), mean over the labels."""
    if points.empty:
        return pd.Series(dtype=float)
    wide = points.pivot(index=["group", "labels"], columns="layers", values="gain")
    return (wide.get("all", np.nan) - wide.get("one", np.nan)).dropna().groupby("group").mean()


def effect(points, factor):
    """What a step of one standard deviation of ``factor`` adds to the gain: its terms, a Series over groups.

    Their mean is Σ z gain / n, the slope of a line through the gains (points), with z the logarithm of a
    number, or whether the start was orthogonal, standardised over the groups of the same architecture; the
    gain of a group is taken less the mean of its architecture. Groups whose architecture has one value
    only are left out.
    """
    if points.empty:
        return pd.Series(dtype=float)
    groups = points.groupby("group").agg({name: "first" for name in ("architecture", "init", *SCALED)})
    values = (
        groups["init"].eq("orthogonal") if factor == "orthogonal" else np.log(groups[factor].astype(float))
    )
    frame = pd.DataFrame({"z": values.astype(float), "gain": by_group(points)})
    within = frame.groupby(groups["architecture"])
    spread = within["z"].transform(lambda column: column.std(ddof=0))
    frame = frame - within.transform("mean")
    return (frame["z"] / spread.where(spread > 1e-9) * frame["gain"]).dropna()


def detail(table, figure, labels, what="train"):
    """:func:`comparisons` of one of Figures 16 to 18, seed by seed (``seed``), where a network learned."""
    return at(judged(per_seed(table), figure, what=what), labels=labels)


def detail_gains(table, figure, labels, what="train"):
    """Gain (points of area) in one of Figures 16 to 18, by seed: mean over scales."""
    return means(detail(table, figure, labels, what), "gain")


def left_out(table, figures):
    """(points without learning, points whose pre-training is not fitted, networks that diverged): counts."""
    points = comparisons(table)
    if points.empty:
        return 0, 0, 0
    here = points[points["figure"].isin(figures) & (points["what"] == "train")]
    unfitted = here["learned"] & ~here["fitted"]
    return int((~here["learned"]).sum()), int(unfitted.sum()), int(table["accuracy"].isna().sum())
