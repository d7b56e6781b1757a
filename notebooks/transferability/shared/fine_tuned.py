"""Networks fine-tuned on the targets: those of Table 1, to which Table 2 compares its own."""

import pandas as pd

from companion.jobs import jobs_over
from companion.studies.transferability.shared.targets import named, start_of, training_of
from companion.studies.transferability.shared.tuned import head_deviation, recorded, tuned

STORED_AS = "transferability/tab01_weight_deviation"  # where the tables of these runs are kept


def fine_tuned_jobs(name, parameters):
    """One job of :func:`fine_tuned` per seed, for the target ``name``."""
    arguments = named(name) | training_of(parameters) | start_of(parameters)
    arguments["learning_rate"] = parameters["learning_rate"]
    return jobs_over(
        f"{name}-fine-tuned-seed{{seed}}", fine_tuned, arguments, seed=range(parameters["seeds"])
    )


def fine_tuned(*, dataset, decay_at, steps, seed, device, report, **given):
    """Fine-tune all layers. Rows of :class:`tuned.Tuned`, and in the last one ``head``: the part of the
    deviation that is the new head's.
    """
    found = tuned(
        dataset,
        start="pretrained",
        steps=steps,
        decay_at=tuple(decay_at),
        record=recorded(steps),
        seed=seed,
        device=device,
        report=report,
        **given,
    )
    table = pd.DataFrame(found.rows).assign(setting="fine-tuned", classifier="linear")
    table.loc[table.index[-1], "head"] = head_deviation(found, given["examples"])
    return table
