"""What a cluster's workers and its scheduler do for :mod:`companion.runs.cluster`, which asks them."""

import time
from dataclasses import dataclass
from typing import NamedTuple

from alignbook import system
from alignbook.data.images import DataError
from alignbook.errors import AlignbookError
from companion.runs import engine, results

RESOURCE = "job"  # where workers have it, a job takes one
TOPIC = "alignbook"  # of the events (key of a task, address of the worker that begins it)
SILENT = ""  # in place of the key: the worker has not been heard of and is dropped


class Refused(AlignbookError):
    """A worker's code, versions or data are not the asker's; ``worker`` is its address."""

    def __init__(self, message, worker):
        super().__init__(message, worker)
        self.worker = worker

    def __str__(self):
        return self.args[0]


class Has(NamedTuple):
    """What a worker has: its resources (dict), how many jobs at once, and whether a nanny replaces it."""

    resources: dict
    slots: int
    nanny: bool


@dataclass(frozen=True)
class Computed:
    """What comes back.

    table : DataFrame, None where it diverged after ``step``; ``seconds`` and ``cost`` as
    :func:`engine.compute` says them; the ``device``, ``processor`` (:func:`alignbook.system.features`) and
    ``host`` and ``worker`` (its address) that computed it; ``data``: the digests of its data sets there.
    """

    table: object
    step: int | None
    seconds: float
    cost: float
    device: str
    processor: dict
    host: str
    worker: str
    data: dict


def work(job, origin, data, device):
    """On a worker: :class:`Computed` of ``job``, with one thread.

    Raises Refused where its code, versions or data are not the asker's, or the data are missing.
    """
    from distributed import get_worker
    from distributed.utils import sync
    from threadpoolctl import threadpool_limits

    worker = get_worker()
    differences = _differences(origin, results.origin_of_code(job))
    if differences:
        raise refusal(worker.address, differences)
    # The scheduler has to know before the job may end this process: not log_event, which comes later.
    told = TOPIC, (worker.get_current_task(), worker.address)
    sync(worker.loop, worker.scheduler.log_event, topic=told[0], msg=told[1])
    try:
        engine.require_data([job])
        here = results.origin_of_data(job)
    except DataError as error:
        raise refusal(worker.address, str(error)) from None
    if odd := other_data(data, here):
        raise refusal(worker.address, odd)
    device = engine.choose_device(device)
    import torch

    torch.set_num_threads(1)
    with threadpool_limits(1):
        table, step, seconds, cost = engine.compute(job, device)
    made_on = engine.describe(device), system.features(device), system.host(), worker.address
    return Computed(table, step, seconds, cost, *made_on, here)


def refusal(worker, why):
    return Refused(f"worker {worker} is refused: {why}", worker)


def other_data(ours, theirs):
    """What differs between ``ours``, {name: SHA-256}, and a worker's data sets, as text; empty: nothing."""
    odd = [name for name, sha in sorted(shas(theirs).items()) if ours.get(name, sha) != sha]
    return f"its data are others ({', '.join(odd)})" if odd else ""


def shas(data):
    """{name: SHA-256} of what :func:`results.origin_of_data` says."""
    return {made_from["name"]: made_from["sha256"] for made_from in filter(None, data.values())}


def _differences(ours, theirs):
    """What differs between the asker's and a worker's code and versions, as text."""
    odd = [
        f"{package} {theirs['versions'].get(package)} there, {version} here"
        for package, version in ours["versions"].items()
        if theirs["versions"].get(package) != version
    ]
    if ours["code"] != theirs["code"]:
        odd.append("the experiment's code is another")
    return ", ".join(odd)


def joined(dask_scheduler, client):
    """On a scheduler that ``client`` asks: {key of a task: worker that has begun it}, of the tasks it has.

    From here on the client hears all events: its own subscription may arrive later. A task is lost with its
    first worker: who asked decides whether and when it is asked for again.
    """
    dask_scheduler.allowed_failures = 0
    dask_scheduler.subscribe_topic(TOPIC, client)
    events = [message for _, message in dask_scheduler.get_events(TOPIC)]
    return {key: worker for key, worker in events if key in dask_scheduler.tasks}


async def present(dask_scheduler, silence):
    """On a scheduler: {address: :class:`Has`} of its workers, but for those silent for ``silence`` seconds.

    Those are told to all who ask and dropped; where one has a nanny, it is started anew.
    """
    workers = dask_scheduler.workers
    silent = [address for address, worker in workers.items() if time.time() - worker.last_seen > silence]
    for address in silent:
        dask_scheduler.log_event(TOPIC, (SILENT, address))
    if silent:
        await dask_scheduler.restart_workers(
            silent, timeout=10, wait_for_workers=False, on_error="return", stimulus_id="alignbook-silent"
        )
    return {address: _has(worker) for address, worker in workers.items() if address not in silent}


def _has(worker):
    slots = worker.resources.get(RESOURCE, worker.nthreads)
    return Has(dict(worker.resources), int(slots), bool(worker.nanny))
