"""Accuracy after transfer by the epoch of pre-training: does it fall while the source still improves?"""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, UNDECIDED, KeyNumber, interval
from alignbook.over_seeds import at, curves, difference, first, last
from alignbook.statements import Case, Requirement, Statement

# Of pre-training: as the paper has it, and three that over-fit more and more.
SETTINGS = {
    "plain": "as it is",
    "label noise": "with label noise",
    "small": "with few images",
    "over-fitted": "over-fitted",
}
PLAIN, OVER_FITTED = "plain", "over-fitted"
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


def learned(table, parameters, setting):
    """Percent of the source's training images that the network of the last epoch gets right, mean."""
    return last(by_epoch(table, setting, "source_train_accuracy")).mean()


def target_errors(table):
    """(smallest, largest) mean training error in percent after fine-tuning what was pre-trained as it is."""
    errors = 100 - by_epoch(table, PLAIN, "train_accuracy").mean()
    return (errors.min(), errors.max()) if len(errors) else None


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
        Statement(id, f"Pre-trained otherwise: {text}", of=of, each=others, ours=True, **shared),
    ]


SOURCE_LEARNED = Requirement(
    "training images of the source that its network gets right, %",
    of=lambda t, p, setting=PLAIN: learned(t, p, setting),
    at_least=LEARNED,
)

STATEMENTS = [
    *_statements("rises", "With longer pre-training, accuracy after transfer first rises to a peak.", rise),
    *_statements(
        "falls", "Past its peak, accuracy after transfer falls again.", fall, (SOURCE_LEARNED,), headline=True
    ),
    *_statements(
        "upstream", "From that peak on, accuracy on the source still rises.", upstream, (SOURCE_LEARNED,)
    ),
]  # the length of pre-training at which a source is learned was asked for after the first runs

SAID = {
    HOLDS: "falls by {:.1f} points past epoch {:.0f}",
    ABSENT: "stays within a point of its value at epoch {1:.0f}",
    CONTRADICTED: "does not fall past its best earlier epoch",
    UNDECIDED: "may or may not fall past epoch {1:.0f}",
    NOT_JUDGED: "is not judged past its peak",
}


def _said(table, claims, id, setting):
    claim = claims.get(id)
    if claim is None or claim.outcome not in SAID:
        return None
    peak = peaks(by_epoch(table, setting, "accuracy")).median()
    return SAID[claim.outcome].format(fall(table, {}, setting).mean(), peak)


def finding(table, parameters, claims):
    """The setting that learns its source, then pre-training as it is; words follow the verdicts."""
    over = _said(table, claims, "falls-over-fitted", OVER_FITTED)
    plain = _said(table, claims, "falls", PLAIN)
    parts = []
    if over:
        parts.append(f"Pre-trained until a small source is over-fitted (ours), target accuracy {over}.")
    if plain:
        share, (low, high) = learned(table, parameters, PLAIN), target_errors(table)
        parts += [
            f"Pre-trained as in the paper it {plain}; the network knows {share:.0f} % of its source by then.",
            f"Its {parameters['tuning_epochs']} epochs of fine-tuning leave {low:.0f} to {high:.0f} % "
            "training error.",
        ]
    return " ".join(parts) or "Fewer than three epochs: there is nothing to compare."


def key_numbers(table, parameters):
    """What happens past the peak where the source is learned, and how much of it is learned as it is."""
    result = []
    changed = -fall(table, parameters, OVER_FITTED)
    if len(changed):
        result = [
            KeyNumber(
                "accuracy after transfer past its peak, over-fitted source (points)",
                interval(changed, "{:+.1f}"),
            ),
            KeyNumber(
                "accuracy on the source meanwhile (points)",
                interval(upstream(table, parameters, OVER_FITTED), "{:+.1f}"),
            ),
        ]
    known = last(by_epoch(table, PLAIN, "source_train_accuracy"))
    if len(known):
        what = "source's training images known at the end, pre-trained as it is (%)"
        result.append(KeyNumber(what, interval(known, "{:.0f}", PERCENT)))
    return result


def reach(table, parameters):
    """In words, setting by setting: the source's best epoch, and how much of it is known by heart."""
    said = []
    for setting in parameters["settings"]:
        means = by_epoch(table, setting, "source_accuracy").mean()
        if len(means) < 2:
            continue
        best, end = means.idxmax(), means.index[-1]
        where = "at the last epoch" if best == end else f"at epoch {best} of {end}"
        share = learned(table, parameters, setting)
        said.append(f"{SETTINGS[setting]}, {where} ({share:.0f} % of its training images right at the last)")
    return f"Accuracy on the source is highest: {'; '.join(said)}." if said else ""


def gained(table, parameters):
    """In words, what pre-training to the last epoch adds to accuracy after transfer, against none."""
    frames = {setting: by_epoch(table, setting, "accuracy") for setting in parameters["settings"]}
    parts = [
        f"{interval(difference(last(frame), first(frame)), '{:+.1f}')} {SETTINGS[setting]}"
        for setting, frame in frames.items()
        if frame.shape[1] > 1
    ]
    if not parts:
        return ""
    added = "; ".join(parts)
    return f"Compared with none, pre-training to the last epoch changes target accuracy by {added} (points)."
