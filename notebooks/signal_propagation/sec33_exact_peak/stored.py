"""The networks of Figure 3 that have been trained at full size: where their alignment peaks.

``peaks.csv`` is made from the stored results of ``fig03_peak_law`` by :func:`write`; a test compares the two.
"""

import json
from pathlib import Path

import pandas as pd

from alignbook import paths

from ..shared.names import LEARNED
from .design import AS_IN_TABLES, CROPPED

FILE = Path(__file__).with_name("peaks.csv")
KEYS = ["dataset", "setting", "depth", "seed"]


def peaks():
    """One row per network: ``KEYS``, ``peak`` (from 1) and ``test_accuracy``."""
    return pd.read_csv(FILE)


def collect():
    """The same from the store: networks trained on all images for all epochs of Tables 1 to 3.

    A network whose test accuracy is below ``LEARNED`` did not learn and is left out.
    """
    rows = []
    folder = paths.root() / "data" / "results" / "signal_propagation" / "fig03_peak_law"
    for path in sorted(folder.glob("*-seed*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        given = record["arguments"]
        if (
            record["outcome"] != "finished"
            or given.get("train_images") != 0
            or given["setting"] not in (AS_IN_TABLES, CROPPED)
        ):
            continue
        table = pd.read_csv(path.with_suffix(".csv"))
        if table["test_accuracy"].iloc[0] >= LEARNED:
            peak = int(table.loc[table["alignment"].idxmax(), "layer"])
            row = {name: given[name] for name in KEYS} | {"peak": peak}
            rows.append(row | {"test_accuracy": round(table["test_accuracy"].iloc[0], 4)})
    return pd.DataFrame(rows).sort_values(KEYS, ignore_index=True)


def write():
    """Make ``peaks.csv`` anew."""
    collect().to_csv(FILE, index=False)
