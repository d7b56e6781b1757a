"""What a sweep's groups say (B): areas under learning curves, and gains over them."""

import numpy as np
import pandas as pd

from companion.over_seeds import at, once

LEARNED = 0.1  # accuracy above that of a guess at random labels: below it there is nothing to compare
FITTED = 0.95  # share of its random labels from which on a network counts as pre-trained
SETTINGS = (
    "init_scale", "learning_rate", "upstream", "upstream_classes", "upstream_epochs", "dense_units",
)  # fmt: skip


def curves(table):
    """One row for each downstream network of a job: ``area`` under its training curve (B), a mean, 0..1.

    Indexed by job, labels and start; with ``end``, its last accuracy, the job's arguments, and ``known``, the
    share of its labels that pre-training learned. A network that diverged has no area. Empty without results.
    """
    if not {"start", *SETTINGS} <= set(table):
        return pd.DataFrame()
    keys = ["unit", "labels", "start"]
    rows = table[table["start"] != "upstream"].sort_values("epoch", kind="stable")
    before = rows.groupby(keys)[["epoch", "accuracy"]].shift()
    rows = rows.assign(step=rows["epoch"] - before["epoch"])
    rows["under"] = rows["step"] * (rows["accuracy"] + before["accuracy"]) / 2  # joined by straight lines
    runs = rows.groupby(keys)
    whole = runs["accuracy"].count().eq(runs.size()) & (runs.size() > 1)
    area = (runs["under"].sum() / runs["step"].sum()).where(whole)
    found = pd.DataFrame({"area": area, "end": runs["accuracy"].last()}).reset_index()
    settings = rows.groupby("unit")[["architecture", "init", "classes", "seed", *SETTINGS]].first()
    known = table[table["start"] == "upstream"].groupby("unit")["accuracy"].first().rename("known")
    return found.join(settings, on="unit").join(known, on="unit")


@once
def comparisons(table):
    """One row per point of the figures and seed: a group, its ``labels`` and ``layers`` ("one", "all").

    ``gain`` : area of the pre-trained network less that from scratch, in points. ``learned`` : whether the
    better one ends ``LEARNED`` above 1 / classes, with one layer or all; ``fitted`` : whether pre-training
    learned ``FITTED`` of its labels. ``figure`` and ``group`` come from the jobs' names. Networks that
    diverged, and those without a partner, have no row.
    """
    found = curves(table)
    if found.empty:
        return pd.DataFrame()
    own = ["unit", "labels"]
    scratch = found[found["start"] == "scratch"].set_index(own)[["area", "end"]].add_suffix("_scratch")
    points = found[found["start"] != "scratch"].rename(columns={"start": "layers"}).join(scratch, on=own)
    points = points.dropna(subset=["area", "area_scratch"])
    if points.empty:
        return pd.DataFrame()
    points["group"] = points["unit"].str.replace(r"-seed\d+$", "", regex=True)
    points["figure"] = points["group"].str.partition("-")[0]
    points["gain"] = 100 * (points["area"] - points["area_scratch"])
    above = points[["end", "end_scratch"]].max(axis=1) - 1 / points["classes"]
    points["learned"] = above >= LEARNED
    points["fitted"] = points["known"] >= FITTED
    return points


def compared(table, *figures, **values):
    """The points of ``figures`` in which either network learned, after a pre-training that is fitted.

    values : of further columns, as of :func:`companion.over_seeds.at`
    """
    return at(comparisons(table), figure=figures, learned=True, **{"fitted": True} | values)


def by_seed(points, measure):
    """Mean of ``measure(points)`` over the groups of each seed, a sample.

    Groups with the same seed share images, labels and their order, so that they are no sample of these:
    seeds are.
    """
    found = {seed: np.mean(measure(part)) for seed, part in points.groupby("seed")} if len(points) else {}
    return pd.Series(found, dtype=float).rename_axis("seed").dropna()


def by_group(points):
    """Mean gain (points) of each group, a Series: the points of a group share its networks from scratch."""
    return points.groupby("group")["gain"].mean()


def layers_add(points):
    """Series over groups: gain with all layers less gain with one (points), mean over the labels."""
    wide = points.pivot(index=["group", "labels"], columns="layers", values="gain")
    wide = wide.reindex(columns=["all", "one"])
    return (wide["all"] - wide["one"]).dropna().groupby("group").mean()


def per_doubling(points, factor):
    """Slope of the groups' gains over log2 of ``factor``, points per doubling; NaN where it does not vary."""
    groups = points.groupby("group").agg({factor: "first", "gain": "mean"})
    if groups[factor].nunique() < 2:
        return np.nan
    return np.polyfit(np.log2(groups[factor].astype(float)), groups["gain"], 1)[0]
