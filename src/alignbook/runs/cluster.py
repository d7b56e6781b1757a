"""Units on the workers of a Dask cluster: many machines compute, the one who asks stores.

A worker needs alignbook of the same code and versions, and the same data sets; no shared folder. What a
worker returns goes into the asker's store at once, so that an asker who was killed asks again for the rest
alone. Whoever reaches a scheduler has its workers, and its askers, run any code: see SECURITY.md. Optional:
``pip install alignbook[cluster]``.
"""

import contextlib
import logging
import re
import socket
import time
from dataclasses import dataclass

from alignbook import system
from alignbook.data.images import DataError
from alignbook.errors import AlignbookError, on_one_line
from alignbook.runs import engine, results

PATIENCE = 120.0  # seconds that a scheduler may be away
KILLS = 3  # a unit that ends so many workers is set aside
RESOURCE = "unit"  # where workers have it, a unit takes one
TOPIC = "alignbook"
TELL_EVERY = 5.0


class Refused(AlignbookError):
    """A worker's code, versions or data are not the asker's; ``worker`` is its address."""

    def __init__(self, message, worker):
        super().__init__(message, worker)
        self.worker = worker

    def __str__(self):
        return self.args[0]


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


def compute(units, scheduler, *, device="auto", say):
    """Have every unit computed by the workers of ``scheduler`` and store it as it comes back.

    scheduler : address such as ``tcp://host:8786``, or a ``distributed.Client``. A scheduler whose address
    is known may be away for two minutes; what it had in hand is asked for again.
    device : ``auto``, ``cpu`` or ``cuda``, chosen on the worker.

    A worker of other code, versions or data, or without the data, is told and gets no more units. The data
    are those at hand, else those of the first worker that returns a unit. A unit that raises, or ends three
    workers, is told and set aside, the rest goes on. At the end AlignbookError, if any was set aside; at once
    where there is no scheduler, or none but refused workers.
    """
    distributed = _distributed()
    ours = isinstance(scheduler, str)
    for name in ("distributed", "distributed.client"):  # they tell a lost connection by a traceback
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asked = _Asked(units, device, say)
    while asked.left:
        client = _connected(distributed, scheduler, say) if ours else scheduler
        try:
            asked.over(client)
        except _Away:
            if not ours:
                raise AlignbookError("the connection to the scheduler was lost") from None
            say("the scheduler is away")
        finally:
            if ours:
                client.close(timeout=2)
    if asked.failures:
        first = next(iter(asked.failures.values()))
        more = f" (and {len(asked.failures) - 1} more units)" if len(asked.failures) > 1 else ""
        raise AlignbookError(f"{first}{more}; finished units are stored")


class _Away(Exception):
    """The scheduler, or the connection to it, is gone."""


class _Asked:
    """What has been asked for: units that are ``left``, and those that failed, {name: why}."""

    def __init__(self, units, device, say):
        self.left = {unit.name: unit for unit in units}
        self.failures, self.refused, self.begun = {}, {}, {}  # begun: {name: worker}
        self.device, self.say, self.total = device, say, len(units)
        self.started = self.told = time.monotonic()
        self.stored = 0
        self.origins = {}
        for unit in units:  # code and versions; units of one function share them
            if unit.compute not in self.origins:
                self.origins[unit.compute] = results.origin_of_code(unit)
        self.data = _digests({name for unit in units for name in results.datasets(unit).values()})

    def over(self, client):
        """Until none is left; raises _Away where the connection ends before."""
        from distributed import as_completed

        client.run_on_scheduler(_set_aside_after, kills=KILLS)
        client.subscribe_topic(TOPIC, self._heard)
        futures = {}
        try:
            waiting = as_completed(loop=client.loop)
            self._submit(client, self.left.values(), futures, waiting)
            while self.left:
                ended = waiting.next_batch(block=False)
                if not ended:
                    if client.status != "running":
                        raise _Away
                    time.sleep(0.05)
                again = [unit for future in ended if (unit := self._ended(future, futures.pop(future.key)))]
                if again:
                    self._submit(client, again, futures, waiting)
                if self.left and not futures:
                    raise _Away
                self._tell(client)
        except (OSError, TimeoutError):  # what Dask raises of a lost connection is one
            raise _Away from None
        finally:
            if client.status == "running":
                client.unsubscribe_topic(TOPIC)
                client.cancel(list(futures))

    def _submit(self, client, units, futures, waiting):
        # Not scheduler_info: the client's own refresh, without workers, may come between its two steps.
        workers = client.run_on_scheduler(_resources)
        fit = [address for address in workers if address not in self.refused]
        if self.refused and not fit:
            raise AlignbookError(f"no worker may compute: {next(iter(self.refused.values()))}")
        asked = {"resources": {RESOURCE: 1}} if any(RESOURCE in has for has in workers.values()) else {}
        if self.refused:
            asked["workers"] = fit
        for unit in units:
            origin = self.origins[unit.compute]
            key = (
                f"{results.owner(unit)}-{results.location(unit).name}-{origin['code'][:12]}-{time.time_ns()}"
            )
            future = client.submit(work, unit, origin, self.data, self.device, key=key, pure=False, **asked)
            futures[future.key] = (future, unit)
            waiting.add(future)

    def _ended(self, future, of):
        """Store what came back; returns the unit where it is to be asked for again."""
        _, unit = of
        if future.status in ("cancelled", "lost"):
            raise _Away
        if future.status == "error":
            error = future.exception()
            if isinstance(error, Refused):
                return self._refuse(error, unit)
            self._failed(unit, error)
            return None
        done = future.result()
        if odd := _other_data(self.data, done.data):  # began before it was known whose data count
            return self._refuse(_refusal(done.worker, odd), unit)
        self.data |= _shas(done.data)
        origin = self.origins[unit.compute] | done.data
        results.store(
            unit,
            done.table,
            origin,
            device=done.device,
            processor=done.processor,
            wall_time=done.seconds,
            cost=done.cost,
            step=done.step,
            host=done.host,
        )
        self.left.pop(unit.name)
        self.begun.pop(unit.name, None)
        self.stored += 1
        if self.total <= 100:
            self.say(f"{unit.name}: {engine.ended(done.step, done.seconds)} on {done.host}")
        return None

    def _refuse(self, error, unit):
        """No more units for that worker; returns ``unit``, which is asked for again."""
        if error.worker not in self.refused:
            self.refused[error.worker] = str(error)
            self.say(str(error))
        return unit

    def _failed(self, unit, error):
        self.left.pop(unit.name)
        self.begun.pop(unit.name, None)
        if type(error).__name__ == "KilledWorker":
            why = f"unit {unit.name} of {results.owner(unit)} ended {KILLS} workers and is set aside"
        elif isinstance(error, AlignbookError):
            why = on_one_line(error)
        else:
            what = f"{type(error).__name__}: {on_one_line(error)}"
            why = f"unit {unit.name} of {results.owner(unit)} failed: {what}"
        self.failures[unit.name] = why
        self.say(why)

    def _heard(self, event):
        self.begun.update([event[1]])

    def _tell(self, client):
        now = time.monotonic()
        if now - self.told < TELL_EVERY:
            return
        self.told = now
        end = ""
        if self.stored:
            end = f", about {(now - self.started) / self.stored * len(self.left):.0f} s to go"
        workers = client.run_on_scheduler(_resources)
        running = sum(name in self.left and worker in workers for name, worker in self.begun.items())
        state = f"{running} running{end}" if workers else "no workers"
        self.say(f"{self.stored} of {self.total} units done, {len(self.failures)} failed, {state}")


def work(unit, origin, data, device):
    """On a worker: :class:`Computed` of ``unit``, with one thread.

    Raises Refused where its code, versions or data are not the asker's, or the data are missing.
    """
    from distributed import get_worker
    from threadpoolctl import threadpool_limits

    worker = get_worker()
    differences = _differences(origin, results.origin_of_code(unit))
    if differences:
        raise _refusal(worker.address, differences)
    worker.log_event(TOPIC, (unit.name, worker.address))
    try:
        engine.require_data([unit])
        here = results.origin_of_data(unit)
    except DataError as error:
        raise _refusal(worker.address, str(error)) from None
    if odd := _other_data(data, here):
        raise _refusal(worker.address, odd)
    device = engine.choose_device(device)
    import torch

    torch.set_num_threads(1)
    with threadpool_limits(1):
        table, step, seconds, cost = engine.compute(unit, device)
    made_on = engine.describe(device), system.features(device), system.host(), worker.address
    return Computed(table, step, seconds, cost, *made_on, here)


def _refusal(worker, why):
    return Refused(f"worker {worker} is refused: {why}", worker)


def _digests(names):
    """{name: SHA-256} of those data sets that are at hand and can be read here."""
    from alignbook.data import tables

    found = {}
    for name in sorted(filter(tables.available, names)):
        with contextlib.suppress(DataError):
            found[name] = tables.digest(name)
    return found


def _other_data(ours, theirs):
    """What differs between ``ours``, {name: SHA-256}, and a worker's data sets, as text; empty: nothing."""
    odd = [name for name, sha in sorted(_shas(theirs).items()) if ours.get(name, sha) != sha]
    return f"its data are others ({', '.join(odd)})" if odd else ""


def _shas(data):
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


def _set_aside_after(dask_scheduler, kills):
    dask_scheduler.allowed_failures = kills - 1


def _resources(dask_scheduler):
    """{address of a worker: its resources}."""
    return {address: dict(worker.resources) for address, worker in dask_scheduler.workers.items()}


def _connected(distributed, address, say):
    """A client; AlignbookError where no scheduler answers within the patience, at once of a bad address."""
    _check(address)
    began, told = time.monotonic(), False
    while True:
        left = PATIENCE - (time.monotonic() - began)
        try:
            return distributed.Client(address, timeout=max(1.0, min(10.0, left)), set_as_default=False)
        except (OSError, TimeoutError) as error:
            if left <= 0:
                raise AlignbookError(f"no scheduler at {address}: {on_one_line(error)}") from None
        except (ValueError, TypeError, ImportError, RuntimeError) as error:  # of a scheme, TLS or UCX
            raise AlignbookError(f"{address} is no address of a scheduler: {on_one_line(error)}") from None
        if not told:
            told = True
            say(f"no scheduler at {address} yet; waiting up to {PATIENCE:.0f} s")
        time.sleep(1.0)


def _check(address):
    """Raise AlignbookError unless ``address`` is written like one and its host has a name that is known."""
    match = re.fullmatch(r"[a-z+]+://(\[[0-9a-fA-F:]+\]|[^\s/:]+):([0-9]{1,5})", address)
    if not match or not 0 < int(match[2]) < 65536:
        raise AlignbookError(f"{on_one_line(address)} is no address of a scheduler, such as tcp://host:8786")
    try:
        socket.getaddrinfo(match[1].strip("[]"), int(match[2]))
    except OSError as error:
        raise AlignbookError(f"{address} is no address of a scheduler: {error.strerror}") from None


def _distributed():
    try:
        import distributed
    except ImportError:
        raise AlignbookError("a scheduler needs Dask: install alignbook[cluster]") from None
    return distributed
