"""Weight deviation and test error by target as Tables 1 and 2 have them, ours and printed. No torch."""

from pathlib import Path

import pandas as pd

from companion.over_seeds import at
from companion.studies.transferability.shared.targets import name_of

NEAR = "cifar"  # photographs of objects, as the source; every other target here is grey, or rendered


def series(table, setting, classifier=None):
    """Rows of one setting with a column ``target``: all layers fine-tuned, or the last layer of a classifier.

    classifier : of the fixed network, by default the two-layer one.
    """
    kind = classifier or ("two-layer" if setting == "fixed" else "linear")
    rows = at(table, setting=setting, classifier=kind)
    if rows.empty:
        return pd.DataFrame({"target": [], "seed": [], "step": [], "deviation": [], "test_error": []})
    return rows.assign(target=[name_of(*pair) for pair in zip(rows["dataset"], rows["part"], strict=True)])


def ends(rows):
    """The last row of every target and seed of :func:`series`."""
    return rows.sort_values("step").groupby(["target", "seed"], as_index=False).last()


def others_less_near(frame):
    """Mean over the other targets of a (seeds × targets) frame less that over those cut from ``NEAR``."""
    near = [name for name in frame if name.startswith(NEAR)]
    return (frame.drop(columns=near).mean(axis=1) - frame[near].mean(axis=1)).dropna()


def printed(setting):
    """The printed rows of a setting: "fixed" and "fine-tuned" of Table 1, "scratch" of Table 2.

    ``target``, train_error, test_error, deviation and their spreads; from scratch ``improvement``, too.
    """
    return at(pd.read_csv(Path(__file__).parent / "printed_tables.csv"), setting=setting)
