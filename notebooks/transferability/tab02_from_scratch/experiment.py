"""Training from random weights beside fine-tuning: test error and weight deviation (Table 2, Appendix B.3).

The fine-tuned networks are those of Table 1. From scratch, a network of the same shape sees the same images
for as many steps; its deviation is taken from its own random start.
"""

import math

import pandas as pd

from alignbook.claims import HOLDS, Claim, KeyNumber, interval
from alignbook.errors import AlignbookError
from alignbook.experiments import Unit
from alignbook.studies.transferability.deviations import NEAR, ends, series
from alignbook.studies.transferability.deviations import printed as printed_table1
from alignbook.studies.transferability.planes import where
from alignbook.studies.transferability.tab01_weight_deviation import experiment as tab01
from alignbook.studies.transferability.tab01_weight_deviation.experiment import head_deviation
from alignbook.studies.transferability.tuned import recorded, tuned

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
OTHER_RATE = "So it does where training from scratch has another step size."


def units(parameters):
    """Table 1's fine-tuned units, and one from scratch per target and seed; on some at another rate, too.

    Raises AlignbookError where ``rate_targets`` are not among the targets or the two rates are the same.
    """
    others = [name for name in parameters["rate_targets"] if name not in parameters["targets"]]
    if others:
        raise AlignbookError(f"rate_targets must be among targets, which {', '.join(others)} is not")
    if parameters["other_rate"] == parameters["scratch_rate"]:
        raise AlignbookError(f"other_rate must not be scratch_rate, {parameters['scratch_rate']:g}")
    made = []
    for name in parameters["targets"]:
        made += tab01.fine_tuned_units(name, parameters)
        made += _scratch_units(name, parameters["scratch_rate"], parameters)
    for name in parameters["rate_targets"]:
        made += _scratch_units(name, parameters["other_rate"], parameters)
    return made + tab01.source_units(parameters)


def _scratch_units(name, rate, parameters):
    arguments = tab01.named(name) | tab01.training_of(parameters) | {"learning_rate": rate}
    return [
        Unit(f"{name}-scratch-{rate:g}-seed{seed}", scratch, arguments | {"seed": seed})
        for seed in range(parameters["seeds"])
    ]


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


def pairs(table, rate):
    """One row per target and seed with both: errors and deviations fine-tuned and from scratch at ``rate``.

    Columns target, seed, error, error_scratch, deviation, deviation_scratch,
    train_error, train_error_scratch and improvement, 100 (1 − error / error_scratch).
    """
    own = ends(series(table, "fine-tuned"))
    other = ends(where(series(table, "scratch"), learning_rate=rate))
    columns = {"test_error": "error", "deviation": "deviation", "train_error": "train_error"}
    keys = ["target", "seed"]
    if own.empty or other.empty:
        names = [*keys, "improvement", *columns.values(), *(f"{name}_scratch" for name in columns.values())]
        return pd.DataFrame(columns=names)
    own, other = (part[[*keys, *columns]].rename(columns=columns) for part in (own, other))
    both = own.merge(other, on=keys, suffixes=("", "_scratch"))
    return both.assign(improvement=100 * (1 - both["error"] / both["error_scratch"]))


def printed():
    """Table 2's targets beside Table 1: the columns of :func:`pairs`, the same with ``_spread``, ``printed``
    (the improvement as printed) and ``rounding``, by how much rounding of the errors can move it.
    """
    rows = []
    for name, ((error, error_spread), improvement, (deviation, deviation_spread)) in PRINTED.items():
        tuned_row = printed_table1("fine-tuned").set_index("target").loc[name]
        tuned_error, tuned_error_spread = tuned_row[["test_error", "error_spread"]].astype(float)
        tuned_deviation, tuned_spread = tuned_row[["deviation", "deviation_spread"]].astype(float)
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
                "error_spread": tuned_error_spread,
                "error_scratch_spread": error_spread,
                "deviation_spread": tuned_spread,
                "deviation_scratch_spread": deviation_spread,
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
    both = pairs(table, parameters["scratch_rate"])
    theirs = printed()
    made = _comparisons(both, parameters)
    rate = parameters["other_rate"]
    other = pairs(table, rate)
    for name in parameters["rate_targets"]:
        made += [
            claim.tagged(group=OTHER_RATE, ours=True)
            for claim in _compared(other, name, "-other-rate", f" ({rate:g} from scratch)")
        ]
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
            claim = claim.opposed(
                f"1 - {row.error:g} / {row.error_scratch:g} is {row.improvement:.2f} %, "
                f"not {row.printed:.2f} %"
            )
        made.append(claim)
    return made


def _comparisons(both, parameters):
    """Error and deviation on every target, at the rate that the page is about."""
    return [claim.tagged(group=BOTH) for name in parameters["targets"] for claim in _compared(both, name)]


def _compared(both, name, suffix="", at=""):
    """[claim on the errors, claim on the deviations] of the target ``name``; ``at`` says at which rate."""
    own = both[both["target"] == name]
    gap, ratio = own["error_scratch"] - own["error"], own["deviation_scratch"] / own["deviation"]
    made = []
    for id, statement, values, than in (
        ("error", "test error from scratch less that fine-tuned, in points", gap, 0),
        ("deviation", "deviation from scratch over that fine-tuned", ratio, 1),
    ):
        arguments = (f"{id}{suffix}-{name}", f"{name}: {statement}{at}.", "Appendix B.3, Table 2")
        if own.empty:
            made.append(Claim.missing(*arguments, "nothing was measured"))
        else:
            made.append(Claim.greater(*arguments, values, than))
    return made


def finding(table, parameters):
    """On how many targets fine-tuning is ahead by the claims, and what the printed table says of itself."""
    both = pairs(table, parameters["scratch_rate"])
    if both.empty:
        return "Nothing was measured."
    means = both.groupby("target").mean(numeric_only=True)
    held = [claim.id for claim in _comparisons(both, parameters) if claim.outcome == HOLDS]
    gain, near = (sum(id.startswith(f"{kind}-") for id in held) for kind in ("error", "deviation"))
    count, improvement = len(means), means["improvement"]
    moved = (both["deviation_scratch"] / both["deviation"]).mean()
    other = pairs(table, parameters["other_rate"])
    farther_at = (other["deviation_scratch"] / other["deviation"]).mean()
    on = f"{parameters['other_rate']:g} on {other['target'].nunique()}"
    at_other = f"rate {on}: {farther_at:.2f}; " if len(other) else ""
    times = (printed()["deviation_scratch"] / printed()["deviation"]).mean()
    off = max(printed().itertuples(), key=lambda row: abs(row.improvement - row.printed))
    return (
        f"Pre-trained on {parameters['source']} (in place of ImageNet), networks err less than from scratch "
        f"on {gain} of {count} targets (all: {improvement.min():.0f} to {improvement.max():.0f} %), move "
        f"less on {near}; from scratch {moved:.2f} times as far ({at_other}printed: {times:.2f}). "
        f"{off.target}'s printed improvement, {off.printed:.2f} %, contradicts its errors: "
        f"{off.improvement:.2f} %."
    )


def at_rates(table, parameters):
    """One row per target of ``rate_targets`` and rate from scratch: how each compares with fine-tuning."""
    rows = []
    for name in parameters["rate_targets"]:
        for rate in (parameters["scratch_rate"], parameters["other_rate"]):
            both = pairs(table, rate)
            own = both[both["target"] == name]
            rows.append(
                {
                    "target": name,
                    "rate from scratch": f"{rate:g}",
                    "scratch: error, %": interval(own["error_scratch"], "{:.1f}"),
                    "improvement, %": interval(own["improvement"], "{:.0f}"),
                    "deviation, scratch over tuned": interval(own["deviation_scratch"] / own["deviation"]),
                }
            )
    return pd.DataFrame(rows)


def key_numbers(table, parameters):
    """Improvements, how much farther networks from scratch move, and the improvement that does not follow."""
    both = pairs(table, parameters["scratch_rate"])
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
