"""Do fine-tuned weights stay in the source's flat region? Rises of the source's loss (Section 3)."""

import math

import numpy as np
import pandas as pd

from alignbook.claims import NOT_JUDGED, KeyNumber, interval
from alignbook.over_seeds import agree, at, curves, difference, last, ratio, sample
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.targets import words
from alignbook.wording import by_verdict, first_unmet, fitting, listed, over_cases, sentences

HELD_OUT = "held-out"  # the target that is like the source in inputs and labels; others are in inputs alone
EDGE = 0.1  # of the way to guessing: where the source's loss has risen so far its flat region ends; ours
WIDER = 0.2  # an edge twice as far out, shown beside it
HALF = "half of what we take as the flat region's depth"
MET = (
    Requirement(
        "training accuracy on the source, %",
        lambda t, p, **_: t["source_train_accuracy"].mean(),
        at_least=95,
    ),
    Requirement("test accuracy on the source, %", lambda t, p, **_: t["source_accuracy"].mean(), at_least=60),
    Requirement("largest training error of a target, %", lambda t, p, **_: largest_error(t), at_most=5),
)


def largest_error(table):
    """The largest training error after fine-tuning of the targets, means over the seeds."""
    return table.groupby("target")["train_error"].mean().max()


def profile(table, target, line="tuned", statistics="batch"):
    """(seeds × shares of the line) frame of the source's loss: 0 at its own weights, 1 at ln C, guessing."""
    rows = at(table, target=target, line=line, statistics=statistics)
    frame = curves(rows, "share", "loss")
    if frame.empty:
        return frame
    start = frame[0.0]
    return frame.sub(start, axis=0).div(math.log(rows["classes"].iloc[0]) - start, axis=0)


def rise(table, target, line="tuned", statistics="batch"):
    """The same at the end of the line, a sample."""
    return last(profile(table, target, line, statistics))


def moved(table, target):
    """‖W − W(0)‖ over ‖W(0)‖ of all convolution kernels, a sample."""
    return sample(at(table, target=target, line="tuned", statistics="batch", share=1.0), "moved")


def mean_of(measure, table, targets, *given):
    """Mean over ``targets`` of the samples ``measure(table, target, *given)``, seed by seed."""
    return pd.concat([measure(table, name, *given) for name in targets], axis=1).dropna().mean(axis=1)


def farther_out(table, parameters, target, statistics="batch"):
    """Rise on the unlike targets, their mean, less that on one similar ``target``, a sample."""
    unlike = mean_of(rise, table, parameters["unlike"], "tuned", statistics)
    return difference(unlike, rise(table, target, "tuned", statistics))


def moves_further(table, parameters, target):
    """log2 of how far unlike targets move the weights, their mean, over how far a similar one does."""
    return np.log2(ratio(mean_of(moved, table, parameters["unlike"]), moved(table, target)))


def called(name):
    """How a sentence calls a target."""
    return "new images of the source's classes" if name == HELD_OUT else words(name)


def of_kinds(parameters):
    """The similar targets apart: alike in inputs and labels, and alike in inputs alone."""
    similar = parameters["similar"]
    return {
        "alike": [name for name in similar if name == HELD_OUT],
        "inputs": [name for name in similar if name != HELD_OUT],
    }


def _says(id, text, of, *kinds, matters=EDGE / 2, unit="of the way", because=HALF, requires=(), **rule):
    """A statement, with a case per target of the ``kinds``: "similar", "unlike"; "alike" in inputs and labels
    or in "inputs" alone, of the similar ones. Without kinds it has no cases.
    """

    def cases(parameters):
        targets = {**parameters, **of_kinds(parameters)}
        return [Case(name, called(name), {"target": name}) for kind in kinds for name in targets[kind]]

    rule |= {"matters": matters, "unit": unit, "because": because, "each": cases if kinds else None}
    return Statement(id, text, source="Section 3", of=of, requires=(*MET, *requires), **rule)


def same_at_both_edges(table, parameters, target):
    """A condition: the rise has the same verdict about either edge."""
    found = rise(table, target)
    return agree(found - EDGE, found - WIDER, matters=EDGE / 2)


AT_BOTH = Requirement(
    f"the verdict is the same at an edge of {WIDER:g}", same_at_both_edges,
    because="Where the flat region ends is our choice",
)  # fmt: skip


STATEMENTS = [
    _says("farther-out", "Less similar targets raise the source's loss more than one that is like the source "
          "in inputs and labels.", farther_out, "alike", above=0, headline=True),
    _says("farther-out", "Less similar targets raise the source's loss more than one that is like it in "
          "inputs alone.", farther_out, "inputs", above=0, ours=True),
    *(
        _says(id, f"After {target}, the source's loss has risen by less than {EDGE:g} of the way.",
              lambda t, p, target: rise(t, target), kind, below=EDGE, ours=True, requires=(AT_BOTH,))
        for id, target, kind in (("stays", "a similar target", "alike"),
                                 ("stays-inputs", "a target alike in inputs alone", "inputs"))
    ),
    _says("leaves", f"After a less similar one, the loss has risen by more than {EDGE:g} of the way.",
          lambda t, p, target: rise(t, target), "unlike", above=EDGE, ours=True, requires=(AT_BOTH,)),
    *(
        _says(id, f"Less similar targets move the weights further than {target}.", moves_further, kind,
              above=0, matters=0.14, unit="log2 of the ratio", because="a tenth of the distance", ours=True)
        for id, target, kind in (("further", "a similar one", "alike"),
                                 ("further-inputs", "one that is alike in inputs alone", "inputs"))
    ),
    _says("kept", "Less similar targets also raise the loss more than a similar one with pre-training's "
          "running statistics.", lambda t, p, target: farther_out(t, p, target, "kept"), "similar", above=0,
          ours=True),
]  # fmt: skip
SAID = by_verdict(
    "Less similar targets lead farther out of the source's flat region",
    "Less similar targets lead less far out of the source's flat region",
    "Less similar targets lead as far out of the source's flat region",
    "less similar targets lead farther out of the source's flat region",
)
STAYS = by_verdict(
    ", which stay in the region (ours: up to 10 %)", ", which leave it, too (our edge: 10 %)",
    ", which end at its edge (ours: 10 %)",
    undecided="; whether these leave it (our edge: 10 %) is undecided",
    not_judged="; whether these leave it is not judged",
)  # fmt: skip
BY_EDGE = "; whether the latter leave the region depends on where its edge is"
FURTHER = by_verdict(
    "The weights move farther, too", "The weights move less far", "The weights move no farther",
    undecided="Whether the weights move farther is undecided",
    not_judged="Whether the weights move farther is not judged",
)  # fmt: skip
INPUTS = by_verdict(
    "leads less far", "leads out farthest", "leads as far",
    undecided="leaves this undecided", not_judged="is not judged",
)  # fmt: skip


def finding(table, parameters, claims):
    """The verdict with the two rises that decide it, and whether the most similar target stays."""
    kinds = of_kinds(parameters)
    head = next((claims[f"farther-out-{name}"] for name in kinds["alike"]), None)
    if head is None or head.measured is None:
        return "Nothing has finished."
    rises = mean_of(rise, table, parameters["unlike"]).mean(), rise(table, HELD_OUT).mean()
    far, near = (f"{100 * value:.0f} %" for value in rises)
    rises = (
        f"they raise the source's loss by {far} of the way to guessing, new images of its classes by {near}"
    )
    stays = claims[f"stays-{HELD_OUT}"]
    edge = {AT_BOTH.text: BY_EDGE} if stays.outcome == NOT_JUDGED else {}
    stays = first_unmet(stays, edge, otherwise=STAYS[stays.outcome])
    text = f"{SAID[head.outcome]}: {rises}{stays}"
    if head.outcome == NOT_JUDGED:
        text = f"{SAID[head.outcome]}, since some network has not learned its task well enough"
    other = over_cases(claims, [f"farther-out-{name}" for name in kinds["inputs"]], INPUTS)
    small = "Our network is small"
    if not other:
        return sentences(text, small)
    alone = f"what is alike in inputs alone ({listed(map(called, kinds['inputs']))}) {other}"
    moved = FURTHER.get(claims[f"further-{HELD_OUT}"].outcome, "")
    return fitting(
        sentences(text, moved, alone, small),
        sentences(text, moved, alone),
        sentences(text, alone),
        sentences(text, moved or small),
    )


def key_numbers(table, parameters):
    """Mean rises over the targets alike in inputs and labels, in inputs alone, and over the unlike ones."""
    kinds = of_kinds(parameters) | {"unlike": parameters["unlike"]}
    found = {listed(map(called, names)): mean_of(rise, table, names) for names in kinds.values() if names}
    what = "rise of the source's loss after fine-tuning on {} (0: none; 1: to guessing)"
    return [KeyNumber(what.format(when), interval(got)) for when, got in found.items() if len(got)]


def summary(table, parameters):
    """DataFrame with a row per target: rises, their ratio, where either edge is, how far weights moved."""
    rows = {}
    for name in parameters["similar"] + parameters["unlike"]:
        tuned, random = rise(table, name), rise(table, name, "random")
        mean = profile(table, name).mean().cummax()
        rows[called(name)] = {
            "rise, fine-tuned": interval(tuned),
            "rise, random": interval(random),
            "ratio of the means": f"{tuned.mean() / random.mean():.1f}",
            "a tenth is reached": _reached(mean, EDGE),
            "a fifth": _reached(mean, WIDER),
            "‖W − W(0)‖ / ‖W(0)‖": interval(moved(table, name)),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("target")


def _reached(rises, edge):
    """The share of the line at which ascending ``rises``, by share, reach ``edge``."""
    return f"{np.interp(edge, rises, rises.index):.2f}" if rises.max() >= edge else "not reached"
