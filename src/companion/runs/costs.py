"""What jobs that are not stored would cost, by those of the same notebook that are."""

import json
import math
import statistics

from companion.runs import results

# Words in the names of arguments with which a job's cost grows.
SIZES = frozenset(
    "batches depth depths draws epochs examples filters images layers networks passes pairs points repeats "
    "samples sizes steps trials units width widths".split()
)
FAR = 4  # in size: a job that differs by more says nothing


def expected(jobs):
    """Seconds that each of ``jobs`` is expected to take, or None of a job that nothing stored is like.

    The median over the stored jobs that share most arguments with it, seeds aside, as if no checkpoint were
    found, times the ratio of the sizes that differ (steps, images, widths, …). None, too, where those jobs
    differ by more than ``FAR`` in size.
    """
    return [_of(job, found, most=None, cost="cost_s", mean=statistics.median) for job, found in _beside(jobs)]


def with_other_seeds(jobs):
    """Seconds that each of ``jobs`` takes in a batch, or None where nothing stored differs by its seed alone.

    The mean over the stored jobs that do: of those that share a checkpoint only one has paid for it.
    """
    return [_of(job, found, most=0, cost="wall_time_s", mean=statistics.mean) for job, found in _beside(jobs)]


def _size(arguments):
    """{argument that says size: its number, of a list the sum}."""
    found = {}
    for name, value in arguments.items():
        numbers = value if isinstance(value, list) else [value]
        plain = all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in numbers)
        if plain and numbers and not SIZES.isdisjoint(name.split("_")):
            found[name] = sum(numbers)
    return found


def _larger(wanted, stored):
    """By what factor a job is larger than a stored one, as if its cost grew with each size."""
    return math.prod(size / stored[name] for name, size in wanted.items() if name in stored)


def _beside(jobs):
    """(job, what is stored in its folder: [(arguments, record)]) of each of ``jobs``."""
    places = [tuple(results.folders(job)) for job in jobs]
    known = {place: [item for folder in place for item in _stored(folder)] for place in set(places)}
    return [(job, known[place]) for job, place in zip(jobs, places, strict=True)]


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

    beside = [(differ(arguments), arguments, record[cost]) for arguments, record in stored]
    least = min((count for count, *_ in beside), default=None)
    if least is None or (most is not None and least > most):
        return None
    size = _size(wanted)
    alike = [(_size(arguments), seconds) for count, arguments, seconds in beside if count == least]
    alike = [entry for entry in alike if entry[0].keys() == size.keys()] or alike
    alike = [(_larger(size, stored), seconds) for stored, seconds in alike]
    near = [factor * seconds for factor, seconds in alike if 1 / FAR <= factor <= FAR]
    return mean(near) if near else None
