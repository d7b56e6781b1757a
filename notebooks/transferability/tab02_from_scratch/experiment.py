"""Training from random weights beside fine-tuning: test error and weight deviation (Table 2, Appendix B.3).

The networks are fine-tuned as those of Table 1. From scratch, a network of the same shape sees the same
images for as many steps; its deviation is taken from its own random start.
"""

import pandas as pd

from alignbook.errors import AlignbookError
from companion.jobs import jobs_over
from companion.studies.transferability.shared.fine_tuned import fine_tuned_jobs
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import named, training_of
from companion.studies.transferability.shared.tuned import head_deviation, recorded, tuned


def jobs(parameters):
    """Table 1's fine-tuned jobs, and one from scratch per target and seed; on some at another rate, too.

    Raises AlignbookError where ``rate_targets`` are not among the targets or the two rates are the same.
    """
    others = [name for name in parameters["rate_targets"] if name not in parameters["targets"]]
    if others:
        raise AlignbookError(f"rate_targets must be among targets, which {', '.join(others)} is not")
    if parameters["other_rate"] == parameters["scratch_rate"]:
        raise AlignbookError(f"other_rate must not be scratch_rate, {parameters['scratch_rate']:g}")
    made = []
    for name in parameters["targets"]:
        made += fine_tuned_jobs(name, parameters)
        made += _scratch_jobs(name, parameters["scratch_rate"], parameters)
    for name in parameters["rate_targets"]:
        made += _scratch_jobs(name, parameters["other_rate"], parameters)
    return made + source_jobs(parameters)


def _scratch_jobs(name, rate, parameters):
    arguments = named(name) | training_of(parameters) | {"learning_rate": rate}
    name = f"{name}-scratch-{rate:g}-seed{{seed}}"
    return jobs_over(name, scratch, arguments, seed=range(parameters["seeds"]))


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
