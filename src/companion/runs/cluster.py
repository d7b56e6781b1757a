"""Jobs on the workers of a Dask cluster: many machines compute, the one who asks stores.

A worker needs alignbook of the same code and versions, and the same data sets; no shared folder. What a
worker returns goes into the asker's store at once, so that an asker who was killed asks again for the rest
alone. Whoever reaches a scheduler has its workers, and its askers, run any code: see SECURITY.md. Optional:
``pip install alignbook[cluster]``.
"""

import contextlib
import hashlib
import json
import logging
import re
import socket
import time
from collections import Counter

from alignbook.data.images import DataError
from alignbook.errors import AlignbookError, on_one_line
from companion.runs import engine, results
from companion.runs.workers import (
    RESOURCE,
    SILENT,
    TOPIC,
    Refused,
    joined,
    other_data,
    present,
    refusal,
    shas,
    work,
)

PATIENCE = 120.0  # seconds that a scheduler may be away
SILENCE = 120.0  # seconds without a sign of life after which a worker's jobs are asked for again
LOSSES = 3  # a job that so many workers did not survive is set aside
TELL_EVERY = 5.0


def compute(jobs, scheduler, *, device="auto", say):
    """Have every job computed by the workers of ``scheduler`` and store it as it comes back.

    scheduler : address such as ``tcp://host:8786``, or a ``distributed.Client``. A scheduler whose address
    is known may be away for two minutes; what it had in hand is asked for again.
    device : ``auto``, ``cpu`` or ``cuda``, chosen on the worker.

    A worker of other code, versions or data, or without the data, is told and gets no more jobs. The data
    are those at hand, else those of the first worker that returns a job. Two who ask for the same job at
    the same time share it. A job whose worker is lost, or silent for two minutes, runs again after all
    others; one that raises, or that three workers did not survive, is told and set aside, and so is one that
    would end the last worker, where no nanny replaces that. At the end AlignbookError, if any was set aside;
    at once where there is no scheduler, or none but refused workers.
    """
    ours = isinstance(scheduler, str)
    if ours:
        _check(scheduler)  # before a second of imports
    distributed = _distributed()
    for name in ("distributed", "distributed.client"):  # they tell a lost connection by a traceback
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asked = _Asked(jobs, device, say)
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
        more = f" (and {len(asked.failures) - 1} more jobs)" if len(asked.failures) > 1 else ""
        raise AlignbookError(f"{first}{more}; finished jobs are stored")


class _Away(Exception):
    """The scheduler, or the connection to it, is gone."""


class _Asked:
    """What has been asked for: jobs that are ``left``, and those that failed, {name: why}."""

    def __init__(self, jobs, device, say):
        self.left = {job.name: job for job in jobs}
        self.failures, self.refused = {}, {}  # refused: {worker: why}
        self.lost, self.suspects = Counter(), {}  # jobs with how many workers; those that wait for the end
        self.deadly = set()  # names of those whose worker died, not only fell silent
        self.tries = Counter()
        self.device, self.say, self.total = device, say, len(jobs)
        self.started = self.told = time.monotonic()
        self.stored = 0
        self.origins = {}
        for job in jobs:  # code and versions; jobs of one function share them
            if job.compute not in self.origins:
                self.origins[job.compute] = results.origin_of_code(job)
        self.data = _digests({name for job in jobs for name in results.datasets(job).values()})

    def over(self, client):
        """Until none is left; raises _Away where the connection ends before."""
        from distributed import as_completed

        self.client = client
        self.futures = {}  # {key: (future, job, addresses that alone may take it, or None)}
        self.silent = set()
        self.begun = {}  # {key: worker}
        try:
            self.waiting = as_completed(loop=client.loop)
            client.subscribe_topic(TOPIC, self._heard)
            self.begun |= client.run_on_scheduler(joined, client=client.id)
            self._submit([job for name, job in self.left.items() if name not in self.suspects])
            while self.left:
                self._step()
        except (OSError, TimeoutError):  # what Dask raises of a lost connection is one
            raise _Away from None
        finally:
            if client.status == "running":
                client.unsubscribe_topic(TOPIC)
                client.cancel([future for future, *_ in self.futures.values()])

    def _step(self):
        ended = self.waiting.next_batch(block=False)
        if not ended:
            if self.client.status != "running":
                raise _Away
            time.sleep(0.05)
        ended = [(future, self.futures.pop(future.key, None)) for future in ended]
        again = [job for future, asked in ended if asked and (job := self._ended(future, asked[1]))]
        if again:
            self._submit(again)
        if self.suspects and not self.futures:
            self._submit(self._suspects())
        if self.left and not self.futures:
            raise _Away
        self._tell()

    def _submit(self, jobs):
        workers = self._workers()
        fit = [address for address in workers if address not in self.refused]
        if self.refused and workers and not fit:
            raise AlignbookError(f"no worker may compute: {next(iter(self.refused.values()))}")
        asked = {}
        if any(RESOURCE in has.resources for has in workers.values()):
            asked["resources"] = {RESOURCE: 1}
        if self.refused:
            asked["workers"] = fit
        for job in jobs:
            origin, key = self.origins[job.compute], self._key(job)
            arguments = job, origin, self.data, self.device
            future = self.client.submit(work, *arguments, key=key, pure=False, **asked)
            self.futures[future.key] = (future, job, asked.get("workers"))
            self.waiting.add(future)

    def _key(self, job):
        """The same for all who ask for the same: the scheduler has it computed once."""
        origin = self.origins[job.compute]
        self.tries[job.name] += 1  # Dask may not have forgotten the last one
        same = origin["code"], origin["versions"], self.data, self.device, self.tries[job.name]
        digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
        return f"{results.owner(job)}-{results.file_name(job)}-{digest[:16]}"

    def _workers(self):
        # Not scheduler_info: the client's own refresh, without workers, may come between its two steps.
        return self.client.run_on_scheduler(present, silence=SILENCE)

    def _ended(self, future, job):
        """Store what came back; returns the job where it is to be asked for again at once."""
        if future.status in ("cancelled", "lost"):
            raise _Away
        if future.status == "error":
            error = future.exception()
            if isinstance(error, Refused):
                return self._refuse(error, job)
            if type(error).__name__ == "KilledWorker":
                return self._lose(future.key, job, error.last_worker.address)
            self._failed(job, error)
            return None
        done = future.result()
        if odd := other_data(self.data, done.data):  # began before it was known whose data count
            return self._refuse(refusal(done.worker, odd), job)
        self.data |= shas(done.data)
        origin = self.origins[job.compute] | done.data
        results.store(
            job,
            done.table,
            origin,
            device=done.device,
            processor=done.processor,
            wall_time=done.seconds,
            cost=done.cost,
            step=done.step,
            host=done.host,
        )
        self.left.pop(job.name)
        self.stored += 1
        if self.total <= 100:
            self.say(f"{job.name}: {engine.ended(done.step, done.seconds)} on {done.host}")
        return None

    def _refuse(self, error, job):
        """No more jobs for that worker; returns ``job``, which is asked for again."""
        if error.worker not in self.refused:
            self.refused[error.worker] = str(error)
            self.say(str(error))
        return job

    def _lose(self, key, job, worker):
        """Its worker is gone; returns the job where it had not begun there."""
        if self.begun.get(key) != worker:
            return job
        self.lost[job.name] += 1
        if worker not in self.silent:
            self.deadly.add(job.name)
        if self.lost[job.name] < LOSSES:
            self.suspects[job.name] = job
        else:
            self._set_aside(job)
        return None

    def _suspects(self):
        """Those to be asked for now that nothing else runs: one by one what two workers did not survive.

        Set aside are those that might end the last worker, where no nanny replaces it.
        """
        fit = [has for address, has in self._workers().items() if address not in self.refused]
        if len(fit) < 2 and not any(has.nanny for has in fit):
            for name in self.deadly & self.suspects.keys():
                self._set_aside(self.suspects.pop(name), "; it is not tried on the last worker")
        least = min((self.lost[name] for name in self.suspects), default=0)
        most = 1 if least > 1 else max(1, sum(has.slots for has in fit))
        chosen = [name for name in self.suspects if self.lost[name] == least][:most]
        return [self.suspects.pop(name) for name in chosen]

    def _set_aside(self, job, why=""):
        count = self.lost[job.name]
        workers = "a worker" if count == 1 else f"{count} workers"
        what = f"job {job.name} of {results.owner(job)} ended {workers} and is set aside{why}"
        self._failed(job, AlignbookError(what))

    def _failed(self, job, error):
        self.left.pop(job.name)
        why = on_one_line(error)
        if not isinstance(error, AlignbookError):
            why = f"job {job.name} of {results.owner(job)} failed: {type(error).__name__}: {why}"
        self.failures[job.name] = why
        self.say(why)

    def _heard(self, event):
        key, worker = event[1]
        if key == SILENT:
            self.silent.add(worker)
            self.say(f"worker {worker} is silent and dropped; its jobs run elsewhere")
        else:
            self.begun[key] = worker

    def _tell(self):
        now = time.monotonic()
        if now - self.told < TELL_EVERY:
            return
        self.told = now
        workers = self._workers()
        self._unbind(workers)
        state = "no workers (they leave with their scheduler: start them again)"
        if workers:
            state = f"{sum(self.begun.get(key) in workers for key in self.futures)} running"
        if workers and self.stored:
            state += f", about {(now - self.started) / self.stored * len(self.left):.0f} s to go"
        self.say(f"{self.stored} of {self.total} jobs done, {len(self.failures)} failed, {state}")

    def _unbind(self, workers):
        """Ask again for jobs that only workers may take that have left."""
        stranded = [key for key, (_, _, fit) in self.futures.items() if fit and not set(fit) & workers.keys()]
        asked = [self.futures.pop(key) for key in stranded]
        if asked:
            self.client.cancel([future for future, *_ in asked])
            self._submit([job for _, job, _ in asked])


def _digests(names):
    """{name: SHA-256} of those data sets that are at hand and can be read here."""
    from alignbook.data import tables

    found = {}
    for name in sorted(filter(tables.available, names)):
        with contextlib.suppress(DataError):
            found[name] = tables.digest(name)
    return found


def _connected(distributed, address, say):
    """A client; AlignbookError where no scheduler answers within the patience, at once of a bad address."""
    _check(address)
    if address.startswith("tls:") and not _certified(distributed):  # the client would end 20 s later, loudly
        raise AlignbookError(
            f"{address} is no address of a scheduler as it stands: TLS needs certificates, "
            "which Dask's setting distributed.comm.tls names"
        )
    began, told = time.monotonic(), False
    while True:
        left = PATIENCE - (time.monotonic() - began)
        try:
            # The first try is short, so that who has mistyped an address reads of it at once.
            wait = max(1.0, min(10.0 if told else 1.0, left))
            return distributed.Client(address, timeout=wait, set_as_default=False)
        except (OSError, TimeoutError) as error:
            if left <= 0:
                raise AlignbookError(f"no scheduler at {address}: {on_one_line(error)}") from None
        except (ValueError, TypeError, ImportError, RuntimeError) as error:  # of a scheme, TLS or UCX
            raise AlignbookError(f"{address} is no address of a scheduler: {on_one_line(error)}") from None
        if not told:
            told = True
            say(f"no scheduler at {address} yet; waiting up to {PATIENCE:.0f} s")
        time.sleep(1.0)


def _certified(distributed):
    return distributed.Security().get_connection_args("client").get("ssl_context") is not None


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
