"""What jobs that are not stored would cost, by those of the same notebook that are."""

import json
import statistics

from alignbook.runs import results


def expected(jobs):
    """Seconds that each of ``jobs`` is expected to take, or None of a job that nothing stored is like.

    The median over the stored jobs that share most arguments with it, seeds aside, as if no checkpoint were
    found.
    """
    return [_of(job, found, most=None, cost="cost_s", mean=statistics.median) for job, found in _beside(jobs)]


def with_other_seeds(jobs):
    """Seconds that each of ``jobs`` takes in a batch, or None where nothing stored differs by its seed alone.

    The mean over the stored jobs that do: of those that share a checkpoint only one has paid for it.
    """
    return [_of(job, found, most=0, cost="wall_time_s", mean=statistics.mean) for job, found in _beside(jobs)]


def _beside(jobs):
    """(job, what is stored in its folder: [(arguments, record)]) of each of ``jobs``."""
    known = {folder: list(_stored(folder)) for folder in {results.folder(job) for job in jobs}}
    return [(job, known[results.folder(job)]) for job in jobs]


def _stored(folder):
    for path in folder.glob("*-*.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            wall = float(found["wall_time_s"])
            yield found["arguments"], {"wall_time_s": wall, "cost_s": float(found.get("cost_s", wall))}
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a broken result is told where it is used


def _of(job, stored, *, most, cost, mean):
    """The ``mean`` cost of the stored jobs that differ from ``job`` in fewest arguments, ``most`` at most."""
    wanted = json.loads(json.dumps(job.arguments))

    def differ(arguments):
        names = (wanted.keys() | arguments.keys()) - {"seed"}
        return sum(name not in arguments or arguments[name] != wanted.get(name) for name in names)

    beside = [(differ(arguments), record[cost]) for arguments, record in stored]
    least = min((count for count, _ in beside), default=None)
    if least is None or (most is not None and least > most):
        return None
    return mean(seconds for count, seconds in beside if count == least)
