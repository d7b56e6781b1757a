"""What jobs that are not stored would cost, by those of the same notebook that are."""

import json
import math
import statistics

from companion.runs import results


def expected(jobs, most=math.inf):
    """Seconds that each of ``jobs`` is expected to take, or None where nothing stored is like it.

    The median over the stored jobs that differ from it in the fewest arguments, in ``most`` of them at most,
    seeds aside; as if no checkpoint were found.
    """
    stored = {owner: [*_stored(job)] for owner, job in {results.owner(job): job for job in jobs}.items()}
    return [_of(job, stored[results.owner(job)], most) for job in jobs]


def _stored(job):
    """(arguments, seconds) of what is stored in the folders of ``job``."""
    for path in (path for folder in results.folders(job) for path in folder.glob("*-*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            yield dict(record["arguments"]), float(record.get("cost_s", record["wall_time_s"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a broken result is told where it is used


def _of(job, stored, most):
    wanted = json.loads(json.dumps(job.arguments))
    alike = {}
    for arguments, seconds in stored:
        names = (wanted.keys() | arguments.keys()) - {"seed"}
        count = sum(name not in arguments or arguments[name] != wanted.get(name) for name in names)
        alike.setdefault(count, []).append(seconds)
    least = min(alike, default=math.inf)
    return statistics.median(alike[least]) if least in alike and least <= most else None
