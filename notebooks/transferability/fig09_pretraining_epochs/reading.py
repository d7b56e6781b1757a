"""Accuracy after transfer by the epoch of pre-training: does it fall while the source still improves?"""

from dataclasses import replace

import pandas as pd

from alignbook.claims import HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, first, last
from alignbook.statements import Case, Requirement, Statement
from alignbook.studies.transferability.targets import LEARNED as KNOWN
from alignbook.wording import by_verdict, fitting, sentences

# Of pre-training: as the paper has it, and three that over-fit more and more.
SETTINGS = {
    "plain": "as it is",
    "label noise": "with label noise",
    "small": "with few images",
    "over-fitted": "over-fitted",
}
PLAIN, OVER_FITTED = "plain", "over-fitted"
FITTED = 5.0  # percent of the target's training images that a network may get wrong
LEARNED = 95.0  # percent of the source's training images that are right once it is learned
PERCENT = (0.0, 100.0)
TEST_SET = "2,000 test images give an accuracy to a point"


def by_epoch(table, setting, column):
    """(seeds × epochs) frame of ``column`` in percent, for one of ``SETTINGS``."""
    return curves(at(table, setting=setting), "epoch", column)


def peaks(frame):
    """The epoch before the last at which the mean of the *other* seeds is largest, one per seed (a Series).

    The largest of a seed's own noisy values would lie above its last one by chance. A single seed: its own.
    """
    result = {}
    for seed in frame.index:
        others = frame.drop(index=seed) if len(frame) > 1 else frame
        result[seed] = others.mean().iloc[:-1].idxmax()
    return pd.Series(result, dtype=float)


def at_peak(table, setting, column):
    """``column`` at each seed's peak of accuracy after transfer, a sample; empty below three epochs."""
    accuracy, frame = by_epoch(table, setting, "accuracy"), by_epoch(table, setting, column)
    if accuracy.shape[1] < 3:
        return pd.Series(dtype=float)
    return pd.Series({seed: frame.loc[seed, epoch] for seed, epoch in peaks(accuracy).items()})


def rise(table, parameters, setting):
    """Accuracy after transfer at the peak less that at epoch 0, in points, by seed."""
    return difference(at_peak(table, setting, "accuracy"), first(by_epoch(table, setting, "accuracy")))


def fall(table, parameters, setting):
    """Accuracy after transfer at the peak less that at the last epoch, in points, by seed."""
    return difference(at_peak(table, setting, "accuracy"), last(by_epoch(table, setting, "accuracy")))


def upstream(table, parameters, setting):
    """Change of the source's test accuracy from that peak to the last epoch, in points, by seed."""
    column = "source_accuracy"
    return difference(last(by_epoch(table, setting, column)), at_peak(table, setting, column))


def learned(table, parameters, setting=PLAIN):
    """Percent of the source's training images that the network of the last epoch gets right, mean."""
    return last(by_epoch(table, setting, "source_train_accuracy")).mean()


def known(table, parameters, setting=PLAIN):
    """The same of the source's test images."""
    return last(by_epoch(table, setting, "source_accuracy")).mean()


def unfitted(table, parameters, setting=PLAIN):
    """Percent of the target's training images wrong after fine-tuning: at epoch 0 or the peak, the larger."""
    rights = at_peak(table, setting, "train_accuracy"), first(by_epoch(table, setting, "train_accuracy"))
    return 100 - min(right.mean() for right in rights)


def unfitted_past(table, parameters, setting=PLAIN):
    """The same at the peak or the last epoch: what a fall compares."""
    rights = at_peak(table, setting, "train_accuracy"), last(by_epoch(table, setting, "train_accuracy"))
    return 100 - min(right.mean() for right in rights)


def past_peak(table, setting=PLAIN):
    """{what: value} of a setting: its most frequent peak, how many epochs were looked at later, and how much
    of its source the network had learned there and at the end, percent.
    """
    peak = peaks(by_epoch(table, setting, "accuracy")).mode().iloc[0]
    right = by_epoch(table, setting, "source_train_accuracy")
    return {
        "peak, epoch": f"{peak:.0f}",
        "later epochs": str(int((right.columns > peak).sum())),
        "source's training images right at the peak, %": interval(right[peak], "{:.1f}", PERCENT),
        "at the end, %": interval(last(right), "{:.1f}", PERCENT),
    }


def unjudged(table, parameters):
    """The falls, in points, that are not judged because too few of a source's test images are right.

    ``over-fitted +1.7 (0.7 to 2.6)`` per setting of ours; "" where there is none.
    """
    falls = {
        SETTINGS[name]: fall(table, parameters, name)
        for name in parameters["settings"]
        if name != PLAIN and known(table, parameters, name) < KNOWN.at_least
    }
    return "; ".join(f"{words} {interval(found, '{:+.1f}')}" for words, found in falls.items() if len(found))


def others(parameters):
    """Cases of the settings that are ours."""
    return [
        Case(name.replace(" ", "-"), f"pre-trained {SETTINGS[name]}", {"setting": name})
        for name in parameters["settings"]
        if name != PLAIN
    ]


def _statements(id, text, of, requires=(), headline=False):
    """The statement about pre-training as the paper has it, and its replicates in the settings of ours."""
    shared = {
        "source": "Figure 9, Section 5.2", "above": 0, "matters": 1.0, "unit": "points", "because": TEST_SET,
        "requires": requires, "bounds": (-100, 100),
    }  # fmt: skip
    return [
        Statement(id, text, of=lambda t, p: of(t, p, PLAIN), headline=headline, **shared),
        Statement(
            id, f"In our other settings, {text[0].lower()}{text[1:]}", of=of, each=others, ours=True, **shared
        ),
    ]


SOURCE_LEARNED = (
    Requirement("training accuracy of the network on its source, %", of=learned, at_least=LEARNED),
    replace(KNOWN, of=known),
)

TARGET_LEARNED = Requirement("training error on the target, %", of=unfitted, at_most=FITTED)
TARGETS_LEARNED = replace(TARGET_LEARNED, of=unfitted_past)

STATEMENTS = [
    *_statements(
        "rises",
        "With longer pre-training, accuracy after transfer first rises to a peak.",
        rise,
        (TARGET_LEARNED,),
    ),
    *_statements(
        "falls",
        "Past its peak, accuracy after transfer falls again.",
        fall,
        (*SOURCE_LEARNED, TARGETS_LEARNED),
        headline=True,
    ),
    *_statements(
        "upstream", "From that peak on, accuracy on the source still rises.", upstream, SOURCE_LEARNED
    ),
]  # the length of pre-training at which a source is learned was asked for after the first runs

SAID = by_verdict(
    "Accuracy after transfer falls again {}, the last we look at",
    "Accuracy after transfer still rises {}, the last we look at",
    "Accuracy after transfer stops rising {}, the last we look at, and does not fall there by a point",
    "accuracy after transfer falls {}, the last we look at",
)
OVER = by_verdict(
    "it falls by {:.1f} points past its peak",
    "it does not fall past its peak",
    "it stays within a point past its peak",
    undecided="it may or may not fall past its peak",
    not_judged="we do not judge whether it falls past its peak",
)

UNMET = {
    SOURCE_LEARNED[0].text: "the network gets {:.0f} % of its source's training images right "
    f"(we ask for {LEARNED:g} %)",
    KNOWN.text: "the network gets {:.0f} % of its source's test images right "
    f"(we ask for {KNOWN.at_least:g} %)",
    TARGET_LEARNED.text: "up to {:.0f} % of the target's training images are wrong; we allow "
    f"{FITTED:.0f} %",
}


def finding(table, parameters, claims):
    """Pre-training as the paper has it, or why it is not judged and what is; then the over-fitted setting."""
    plain, over, said, small = claims["falls"], claims.get(f"falls-{OVER_FITTED}"), [], "Our network is small"
    if plain.measured is not None:
        by = f", by {plain.measured:.1f} points" if plain.outcome == HOLDS else ""
        if plain.outcome != NOT_JUDGED:
            right = next(need["measured"] for need in plain.requires if need["text"] == KNOWN.text)
            seen = f", with {right:.0f} % of the source's test images right"
        else:
            seen = _why_not(plain)
        where = _from_peak(parameters, None if plain.runs else by_epoch(table, PLAIN, "accuracy"))
        said.append(f"{SAID[plain.outcome].format(where)}{by}{seen}")
    if over is not None and over.measured is not None:
        rise = claims[f"rises-{OVER_FITTED}"].outcome
        first = (
            ", but whether it rises first is undecided" if {over.outcome, rise} == {HOLDS, UNDECIDED} else ""
        )
        said.append(f"After over-fitting a small source, {OVER[over.outcome].format(over.measured)}{first}")
        if over.outcome == NOT_JUDGED:
            moved = f"{'falls' if over.measured > 0 else 'rises'} by {abs(over.measured):.1f} points"
            said[-1] += f" (it {moved})"
            if plain.outcome == NOT_JUDGED:
                said[-1] = "Nor do we judge this after over-fitting a small source"
    if plain.outcome == NOT_JUDGED and claims["rises"].outcome == HOLDS:
        said.append(
            f"Before the peak, accuracy after transfer rises by {claims['rises'].measured:.1f} points"
        )
    if not said:
        return "With fewer than three epochs there is nothing to compare."
    text, *more = said
    told = [[*more, small]] * (len(more) < 2) + [more or [small], more[:1] or [small]]
    return fitting(*(sentences(text, *some) for some in told))


def _from_peak(parameters, accuracy):
    """``between epochs 128 and 256``: what a fall compares, the peak and the last epoch.

    accuracy : of :func:`by_epoch`; None of runs that are not at hand, whose last checkpoint is the peak
    """
    if accuracy is None:
        end = parameters["epochs"]
        found = [max(epoch for epoch in parameters["checkpoints"] if epoch < end)]
    else:
        found, end = sorted(peaks(accuracy).unique()), accuracy.columns[-1]
    if len(found) > 1:
        return f"between its peak (epoch {' or '.join(f'{peak:.0f}' for peak in found)}) and epoch {end}"
    return f"between epochs {found[0]:.0f} and {end}"


def _why_not(claim):
    """``: the network gets …``, the condition of ``claim`` that its runs do not meet; else ""."""
    need = next((need for need in claim.requires if not need["met"]), None)
    if need is None:
        return ""
    if need["measured"] is None:
        return f": {need['text']} was not measured"
    return f": {UNMET[need['text']].format(need['measured'])}"


def key_numbers(table, parameters):
    """Of pre-training as it is: what happens past the peak, and how far from fitted the target is."""
    errors = 100 - last(by_epoch(table, PLAIN, "train_accuracy"))
    told = [
        ("accuracy after transfer, peak less last epoch (points)", fall(table, parameters, PLAIN), "{:+.1f}"),
        ("rise of accuracy on the source meanwhile (points)", upstream(table, parameters, PLAIN), "{:+.1f}"),
        ("training error left on the target (%)", errors, "{:.0f}"),
    ]
    return [KeyNumber(what, interval(values, form)) for what, values, form in told if len(values)]
