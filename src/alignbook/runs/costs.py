"""What jobs that are not stored would cost, by those of the same notebook that are."""

import json
import statistics

from alignbook.runs import results


def expected(jobs):
    """Seconds that each of ``jobs`` is expected to take, or None of a job that nothing stored is like.

    The median over the stored jobs that share most arguments with it, seeds aside.
    """
    known = {folder: list(_stored(folder)) for folder in {results.folder(job) for job in jobs}}
    return [_of(job, known[results.folder(job)]) for job in jobs]


def _stored(folder):
    for path in folder.glob("*-*.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            yield found["arguments"], float(found.get("cost_s", found["wall_time_s"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a broken result is told where it is used


def _of(job, stored):
    if not stored:
        return None
    wanted = json.loads(json.dumps(job.arguments))

    def alike(arguments):
        return sum(arguments.get(name) == value for name, value in wanted.items() if name != "seed")

    most = max(alike(arguments) for arguments, _ in stored)
    return statistics.median(seconds for arguments, seconds in stored if alike(arguments) == most)
