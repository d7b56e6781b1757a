"""The page of benchmarks, from what ``make bench`` has stored: how much faster the kernels are than peers."""

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from alignbook import paths
from companion.pages import filled, quantities, style, tables
from companion.pages.names import spoken
from companion.pages.plots import legend_below, plain_log

NOTHING = "No machine has stored results: `make bench` measures, and stores them in `benchmarks/results`."
# Which comparison the page's first sentences speak of: a kernel's work and its peer.
TOLD = {
    "tangent": ("tangent_alignment/mlp", "NNGeometry"),
    "patches": ("patch_covariance/3x3", "IncrementalPCA"),
    "full": ("alignment_curve/gaussian", "full SVD"),
    "thin": ("alignment_curve/gaussian", "thin SVD"),
    "hessian": ("hessian_eigenvalues/mlp", "PyHessian"),
    "training": ("training/network-float32", "eager loop"),
}


def write(pages: Path) -> None:
    """Write the page, its table and its figure into the folder ``pages``."""
    table = comparisons()
    if table.empty:
        (pages / "benchmarks.md").write_text(f"# Benchmarks\n\n{NOTHING}\n", encoding="utf-8")
        return
    (pages / "benchmarks").mkdir(parents=True, exist_ok=True)
    (pages / "benchmarks" / "faster.svg").write_text(drawn(table), encoding="utf-8")
    shown = table.pivot_table("shown", ["task", "peer"], "machine", aggfunc="first", sort=False)
    text = tables.numbers(shown.fillna("–"), ready=True).data
    (pages / "benchmarks-table.txt").write_text(f"{text}\n", encoding="utf-8")
    filled.write("benchmarks", numbers(table), pages)


def read() -> dict[str, dict]:
    """What is stored of each machine, by its file's name."""
    folder = paths.root() / "benchmarks" / "results"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def comparisons() -> pd.DataFrame:
    """A row for each machine, task and peer: how many times faster ours is, and what the page shows."""
    rows = []
    for machine in read().values():
        for work, record in machine["comparisons"].items():
            ours, *peers = record["contenders"]
            agrees = {answer["against"]: answer["agrees"] for answer in record["agreement"]["answers"]}
            task = re.sub(r" \(data: .*\)", "", spoken(record["title"]))
            for peer in peers or [{"name": "none", "median": float("nan")}]:
                faster = peer["median"] / ours["median"]
                shown = f"{quantities.factor(faster)} times" if peers else "–"
                shown = "answers disagree" if agrees.get(peer["name"]) is False else shown
                rows.append(
                    {
                        "machine": machine["machine"],
                        "work": work,
                        "task": task,
                        "peer": peer["name"],
                        "faster": faster,
                        "shown": f"{shown}<br><small>ours {quantities.seconds(ours['median'])}</small>",
                    }
                )
    return pd.DataFrame(rows)


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """The numbers in the page's sentences: the smallest and the largest advantage on any machine."""
    told = {}
    for name, (work, peer) in TOLD.items():
        faster = table[(table["work"] == work) & (table["peer"] == peer)]["faster"]
        told[name] = f"{quantities.factor(faster.min())} to {quantities.factor(faster.max())}"
    aims = [
        aim["reached"]
        for machine in read().values()
        for record in machine["comparisons"].values()
        for aim in record["aims"]
    ]
    return told | {"aims": f"{len(aims)}", "reached": f"{aims.count(True)}", "missed": f"{aims.count(False)}"}


def drawn(table: pd.DataFrame) -> str:
    """SVG of the advantage over each peer as its documentation has it, a dot for each task and machine."""
    style.apply()
    rows = table[table["faster"].notna() & ~table["peer"].str.contains(", ")]
    kernels = rows["work"].str.split("[_/]").str[0]
    rows = rows.assign(label=kernels + ": " + rows["peer"]).sort_values("label")
    figure, ax = plt.subplots(figsize=(6.4, 0.24 * rows["label"].nunique() + 1.6))
    ax.axvline(1, color="0.4", lw=1)
    sns.stripplot(
        rows, x="faster", y="label", hue="machine", size=6, jitter=False, log_scale=(True, False), ax=ax
    )
    ax.set(xlabel="times faster than the peer", ylabel="", title="Right of the line, ours is faster")
    plain_log(ax.xaxis)
    ax.get_legend().remove()
    legend_below(figure, ax, ncols=1)
    text = style.svg(figure)
    plt.close(figure)
    return text
