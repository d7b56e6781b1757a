"""How much the loss varies around the start of training, by what batch norm normalises with."""

import math

import numpy as np
import pandas as pd

from companion.over_seeds import at, difference, once, sample, weakest
from companion.statements import Case, Number, Statement, among, crossed

from .design import CLASSES, MODES, PRETRAINED, RANDOM

CONTOUR = 0.05  # nats between the contours of the paper's maps (Appendix A)
RESNET50 = 50  # its layers, the last of them linear
WORDS = dict(zip(MODES, ("statistics of the images", "untouched ones", "settled ones"), strict=True))


@once
def maps(table):
    """One row per map: ``start``, ``layers``, ``mode``, ``seed``; in nats ``span``, its largest less its
    smallest loss, and ``centre``, the loss at the start; ``relative``, span over centre; ``bent``, the share
    of the map's variance that the best plane leaves.
    """
    keys = ["start", "layers", "mode", "seed"]
    if "mode" not in table:
        return pd.DataFrame(columns=[*keys, "span", "centre", "relative", "bent"])
    made = []
    for key, rows in table.groupby(keys):
        centre = float(at(rows, alpha=0.0, beta=0.0)["loss"].iloc[0])
        span = float(np.ptp(rows["loss"]))
        made.append((*key, span, centre, span / centre, bent(rows)))
    return pd.DataFrame(made, columns=[*keys, "span", "centre", "relative", "bent"])


def bent(rows):
    """Share of the variance of the loss that the best plane over the two directions leaves."""
    sides = np.column_stack([np.ones(len(rows)), rows["alpha"], rows["beta"]])
    loss = rows["loss"].to_numpy()
    left = loss - sides @ np.linalg.lstsq(sides, loss, rcond=None)[0]
    return float(np.square(left).sum() / np.square(loss - loss.mean()).sum())


def of(table, layers, mode, column="span", start=RANDOM):
    """log2 of ``column`` of the maps of one depth, a sample."""
    return np.log2(sample(at(maps(table), start=start, layers=layers, mode=mode), column))


def contours(table, parameters, mode, layers):
    """log2 of how many contours of the paper's maps a map spans, a sample."""
    return of(table, layers, mode) - math.log2(CONTOUR)


def settling(table, parameters, layers):
    """log2 of the span with settled running statistics over that with those of the images, a sample."""
    return difference(of(table, layers, "settled"), of(table, layers, "batch"))


def too_large(table, parameters, mode, layers):
    """log2 of the loss at the start over that of a network that guesses, a sample."""
    guessing = np.log(CLASSES[parameters["dataset"]])
    return of(table, layers, mode, "centre") - np.log2(guessing)


def left(table, parameters, mode, layers):
    """Share of a map's variance that the best plane leaves, a sample."""
    return sample(at(maps(table), start=RANDOM, layers=layers, mode=mode), "bent")


def typical(table, parameters, mode, layers, column="span"):
    """``column`` of the maps around random weights, geometric mean over the seeds."""
    values = of(table, layers, mode, column)
    return 2 ** float(values.mean()) if len(values) else None


def factor(table, parameters, layers):
    """By which factor a map spans more with untouched statistics, geometric mean over the seeds."""
    values = difference(of(table, layers, "running"), of(table, layers, "batch"))
    return 2 ** float(values.mean()) if len(values) else None


def smoother(table, parameters, mode):
    """By which factor a map spans more around random than around pre-trained weights of that depth."""
    spans = at(maps(table), layers=6 * parameters["pretrained_blocks"] + 1, mode=mode)
    spans = spans.pivot(index="seed", columns="start", values="span").reindex(columns=[RANDOM, PRETRAINED])
    ratios = np.log2(spans[RANDOM] / spans[PRETRAINED]).dropna()
    return 2 ** float(ratios.mean()) if len(ratios) else None


def depths(parameters):
    own = [6 * blocks + 1 for blocks in parameters["blocks"]]
    return own + [RESNET50] * (parameters["resnet50_seeds"] > 0)


def called(layers):
    return "ResNet-50" if layers == RESNET50 else f"{layers} convolutions"


def each_depth(parameters):
    return [Case(f"{layers}", called(layers), {"layers": layers}) for layers in depths(parameters)]


each_map = crossed(among("mode", WORDS), each_depth)


def deepest(parameters):
    """Cases: the deepest of our networks, and ResNet-50."""
    ours = 6 * max(parameters["blocks"]) + 1
    return [case for case in each_depth(parameters) if case.given["layers"] in (ours, RESNET50)]


def by_mode(measure):
    """Fields of a statement with a case per kind of statistics, about whichever of ``deepest`` shows less."""
    return {
        "of": lambda t, p, mode: weakest(*(measure(t, p, mode, **case.given) for case in deepest(p))),
        "each": among("mode", {mode: WORDS[mode] for mode in ("batch", "running")}),
    }


DOUBLED = {"above": 0.0, "matters": 1.0, "unit": "factors of two", "because": "a factor of two"}
STATEMENTS = [
    Statement(
        "varies",
        "Around random weights, the loss varies by more than 0.05 nats, a contour of the paper's maps.",
        source="Section 4, Figure 5 (b)", headline=True, **by_mode(contours), **DOUBLED,
    ),
    Statement(
        "large", "At random weights, the loss is far larger than that of guessing.",
        source="Section 4", **by_mode(too_large), **DOUBLED,
    ),
    Statement(
        "bumpy", "The landscape is bumpy: a plane leaves a tenth of the map's variance or more.",
        source="Section 4, Figure 5 (b)", **by_mode(left), above=0.1, matters=0.05, unit="of the variance",
        because="of a bump of half the map's height, a plane leaves more", bounds=(0, 1),
        post_hoc="chosen when three seeds had shown steep maps without bumps",
    ),
    Statement(
        "settled", "With running statistics that fit the images, it varies as with those of the images.",
        source="a control", of=settling, near=0.0, within=1.0, unit="factors of two", each=deepest,
        ours=True,
    ),
]  # fmt: skip
NUMBERS = [
    Number("span", "largest less smallest loss of a map, nats", typical, each=each_map),
    Number("factor", "untouched statistics over those of the images", factor, each=each_depth),
    Number(
        "centre", "loss at the start, nats", lambda t, p, **given: typical(t, p, **given, column="centre"),
        each=each_map,
    ),
    Number(
        "smoother", "variation around random over pre-trained weights, networks of one depth", smoother,
        each=among("mode", WORDS),
    ),
    Number(
        "plane", "share of a map's variance that a plane explains",
        lambda t, p, **given: 1 - left(t, p, **given), each=each_map, bounds=(0, 1),
    ),
]  # fmt: skip
