"""Training from random weights beside fine-tuning: test error and weight deviation (Table 2, Appendix B.3).

The fine-tuned networks are those of Table 1. From scratch, a network of the same shape sees the same images
for as many steps; its deviation is taken from its own random start.
"""

import math

import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.experiments.transferability import tab01_weight_deviation as tab01
from alignbook.experiments.transferability.tab01_weight_deviation import NEAR, head_deviation
from alignbook.experiments.transferability.tuned import recorded, tuned

HEADLINE = "error"
# Table 2: test error (%) from scratch and its spread, improvement (%), deviation and its spread.
PRINTED = {
    "Webcam": ((26.39, 0.41), 98.29, (3.54, 0.53)),
    "Stanford Cars": ((46.25, 0.76), 48.75, (5.95, 0.38)),
    "Caltech-101": ((22.14, 0.63), 79.36, (2.34, 0.34)),
    "CUB-200": ((52.70, 0.77), 60.15, (3.90, 0.61)),
}
ROUNDING = 0.005  # half of the last digit that the tables print
BOTH = "On every target fine-tuning ends with a smaller error and nearer to its start than from scratch."


def units(parameters):
    """Table 1's fine-tuned units, and one from scratch per target and seed."""
    made = []
    for name in parameters["targets"]:
        made += tab01.fine_tuned_units(name, parameters)
        rate = parameters["scratch_rate"]
        arguments = tab01.named(name) | tab01.training_of(parameters) | {"learning_rate": rate}
        made += [
            Unit(f"{name}-scratch-{rate:g}-seed{seed}", scratch, arguments | {"seed": seed})
            for seed in range(parameters["seeds"])
        ]
    return made


def scratch(*, dataset, decay_at, steps, seed, device, report, **given):
    """Train from random weights: rows as of :func:`tab01_weight_deviation.fine_tuned`."""
    found = tuned(
        dataset,
        start="scratch",
        source=None,
        pretrain_epochs=None,
        steps=steps,
        decay_at=tuple(decay_at),
        record=recorded(steps),
        seed=seed,
        device=device,
        report=report,
        **given,
    )
    table = pd.DataFrame(found.rows).assign(setting="scratch", classifier="linear")
    table.loc[table.index[-1], "head"] = head_deviation(found, given["examples"])
    return table


def pairs(table):
    """One row per target and seed that has both: errors and deviations fine-tuned and from scratch.

    Columns target, seed, error, error_scratch, deviation, deviation_scratch,
    train_error, train_error_scratch and improvement, 100 (1 − error / error_scratch).
    """
    own = tab01.ends(tab01.series(table, "fine-tuned"))
    other = tab01.ends(tab01.series(table, "scratch"))
    columns = {"test_error": "error", "deviation": "deviation", "train_error": "train_error"}
    keys = ["target", "seed"]
    if own.empty or other.empty:
        names = [*keys, "improvement", *columns.values(), *(f"{name}_scratch" for name in columns.values())]
        return pd.DataFrame(columns=names)
    own, other = (part[[*keys, *columns]].rename(columns=columns) for part in (own, other))
    both = own.merge(other, on=keys, suffixes=("", "_scratch"))
    return both.assign(improvement=100 * (1 - both["error"] / both["error_scratch"]))


def printed():
    """Table 2's targets beside Table 1: the columns of :func:`pairs`, ``printed`` (the improvement as
    printed) and ``rounding``, by how much rounding of the errors can move the improvement.
    """
    rows = []
    for name, ((error, _), improvement, (deviation, _)) in PRINTED.items():
        (tuned_error, _), (tuned_deviation, _) = tab01.PRINTED[name]["fine-tuned"]
        follows = _improvement(tuned_error, error)
        farthest = max(
            abs(_improvement(tuned_error + a, error + b) - follows)
            for a in (-ROUNDING, ROUNDING)
            for b in (-ROUNDING, ROUNDING)
        )
        rows.append(
            {
                "target": name,
                "error": tuned_error,
                "error_scratch": error,
                "deviation": tuned_deviation,
                "deviation_scratch": deviation,
                "improvement": follows,
                "printed": improvement,
                "rounding": farthest + ROUNDING,
            }
        )
    return pd.DataFrame(rows)


def _improvement(error, error_scratch):
    return 100 * (1 - error / error_scratch)


def farther(both):
    """Mean improvement on targets cut from ``NEAR`` less that on the others, in points; nan without both."""
    near = both["target"].str.startswith(NEAR)
    return float(both.loc[near, "improvement"].mean() - both.loc[~near, "improvement"].mean())


def claims(table, parameters):
    """Both comparisons on every target, and what the printed improvements rest on."""
    both = pairs(table)
    theirs = printed()
    made = []
    for name in parameters["targets"]:
        own = both[both["target"] == name]
        gap, ratio = own["error_scratch"] - own["error"], own["deviation_scratch"] / own["deviation"]
        for id, statement, values, than in (
            ("error", "test error from scratch less that fine-tuned, in points", gap, 0),
            ("deviation", "deviation from scratch over that fine-tuned", ratio, 1),
        ):
            arguments = (f"{id}-{name}", f"{name}: {statement}.", "Appendix B.3, Table 2")
            if own.empty:
                claim = Claim.missing(*arguments, "nothing was measured")
            else:
                claim = Claim.greater(*arguments, values, than)
            made.append(claim.tagged(group=BOTH))
    statement = (
        f"Fine-tuning improves more on targets like the source, those cut from {NEAR}, than on the others, "
        "grey or rendered: difference of the mean improvements, in points."
    )
    gains = [value for _, part in both.groupby("seed") if math.isfinite(value := farther(part))]
    if gains:
        claim = Claim.greater("nearer-gains", statement, "Appendix B.3", gains)
    else:
        claim = Claim.missing("nearer-gains", statement, "Appendix B.3", "needs targets of both kinds")
    made.append(claim.tagged(ours=True))
    for row in theirs.itertuples():
        claim = Claim.computed(
            f"improvement-{row.target.lower().replace(' ', '-')}",
            f"{row.target}: the improvement that the printed errors give, in %.",
            "Appendix B.3, Tables 1 and 2",
            row.improvement,
            row.printed,
            row.rounding,
        ).tagged(group="The printed improvements follow from the printed test errors.")
        if abs(row.improvement - row.printed) > row.rounding:
            claim = claim.contradicted(
                f"1 - {row.error:g} / {row.error_scratch:g} is {row.improvement:.2f} %, "
                f"not {row.printed:.2f} %"
            )
        made.append(claim)
    return made


def finding(table, parameters):
    """On how many targets fine-tuning is ahead, and what the printed table says of itself."""
    both = pairs(table)
    if both.empty:
        return "Nothing was measured."
    means = both.groupby("target").mean(numeric_only=True)
    gain = (means["error"] < means["error_scratch"]).sum()
    near = (means["deviation"] < means["deviation_scratch"]).sum()
    count, improvement = len(means), means["improvement"]
    moved = (both["deviation_scratch"] / both["deviation"]).mean()
    times = (printed()["deviation_scratch"] / printed()["deviation"]).mean()
    off = max(printed().itertuples(), key=lambda row: abs(row.improvement - row.printed))
    return (
        f"Fine-tuned, the networks err less on {_of(gain, count)}, by {improvement.min():.0f} to "
        f"{improvement.max():.0f} %, and lie nearer to their start on {_of(near, count)}; from scratch they "
        f"move {moved:.2f} times as far (printed: {times:.2f}). {off.target}'s printed improvement, "
        f"{off.printed:.2f} %, contradicts its own errors: {off.improvement:.2f} %."
    )


def _of(count, total):
    return f"all {total} targets" if count == total else f"{count} of {total} targets"


def key_numbers(table, parameters):
    """Improvements, how much farther networks from scratch move, and the improvement that does not follow."""
    both = pairs(table)
    theirs = printed()
    ratio = theirs["deviation_scratch"] / theirs["deviation"]
    numbers = []
    if len(both):
        per_seed = both.groupby("seed")["improvement"].mean()
        moved = both.assign(ratio=both["deviation_scratch"] / both["deviation"])
        numbers = [
            KeyNumber(
                "improvement by fine-tuning in %, mean over targets",
                interval(per_seed, "{:.0f}"),
                f"{theirs['printed'].mean():.0f} (from its errors: {theirs['improvement'].mean():.0f})",
            ),
            KeyNumber(
                "deviation from scratch over fine-tuned, mean over targets",
                interval(moved.groupby("seed")["ratio"].mean()),
                f"{ratio.mean():.2f} ({ratio.min():.2f} to {ratio.max():.2f})",
            ),
        ]
    return numbers
