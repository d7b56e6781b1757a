"""A process that keeps one contender's data and runs it when it is asked."""

import ctypes
import gc
import multiprocessing
import os
import sys
import time
import traceback

from alignbook import system

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Threads of the process that has just worked spin a little before they sleep (OpenBLAS: 20 ms).
REST = 0.05


class ContenderError(Exception):
    """A contender failed, or is not installed."""


class Worker:
    """A contender in a process of its own, warm after :meth:`load`. Use as a context manager.

    setup, contender : see :class:`benchmarks.work.Work`; threads : int; device : ``cpu`` or ``cuda``
    """

    def __init__(self, setup, contender, threads, device):
        self.contender = contender
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, setup, contender, threads, device), daemon=True
        )
        with system.environment(dict.fromkeys(THREAD_VARIABLES, str(threads))):
            self._process.start()
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pipe.close()  # the process ends when it next listens
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def load(self, sizes):
        """Make the data of ``sizes``."""
        return self._ask("load", sizes)

    def run(self):
        """Run once; returns seconds."""
        return self._ask("run")

    def memory(self):
        """Run once; returns (seconds, peak in bytes above what was held before, None where unknown)."""
        return self._ask("memory")

    def answer(self):
        """The last run's answer."""
        return self._ask("answer")

    def facts(self):
        """The last run's facts, {name: number}."""
        return self._ask("facts")

    def _ask(self, *request):
        try:
            self._pipe.send(request)
            kind, value = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(5)
            raise ContenderError(
                f"{self.contender.name}: its process ended with status {self._process.exitcode} "
                "(out of memory?)"
            ) from None
        if kind == "error":
            raise ContenderError(f"{self.contender.name}: {value}")
        time.sleep(REST)
        return value


def _serve(pipe, setup, contender, threads, device):
    if hasattr(os, "sched_setaffinity"):  # libraries that take every core they see get the same ones
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if "torch" in sys.modules:  # a work of its own choice need not have it
        sys.modules["torch"].set_num_threads(threads)
    state = result = None
    while True:
        try:
            request, *arguments = pipe.recv()
        except EOFError:  # the parent is gone, or needs this process no more
            return
        try:
            if request == "load":
                state = result = None
                state, reply = setup(device, **arguments[0]), None
            elif request == "run":
                result, reply = None, None
                result, reply = _timed(contender, state, device)
            elif request == "memory":
                result, reply = None, None
                result, *reply = _peak(contender, state, device)
            elif request == "answer":
                reply = contender.answer(result)
            else:
                reply = contender.facts(result, state)
            message = "value", reply
        except ModuleNotFoundError as error:
            message = "error", f"{error}; make bench installs the peers"
        except Exception:
            message = "error", traceback.format_exc()
        try:
            pipe.send(message)
        except BrokenPipeError:
            return


def _timed(contender, state, device):
    return _clocked(contender, contender.prepare(state), device)


def _clocked(contender, prepared, device):
    """(result, seconds)"""
    _synchronise(device)
    start = time.perf_counter()
    result = contender.run(prepared)
    _synchronise(device)
    return result, time.perf_counter() - start


def _peak(contender, state, device):
    """(result, seconds, peak bytes or None)"""
    prepared = contender.prepare(state)
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result, seconds = _clocked(contender, prepared, device)
        return result, seconds, torch.cuda.max_memory_allocated() - before
    try:
        # Freed memory that malloc has kept would be used again, unseen.
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w", encoding="ascii") as resets_peak:
            resets_peak.write("5")
    except (OSError, AttributeError):
        return *_clocked(contender, prepared, device), None
    before = _status("VmRSS")
    result, seconds = _clocked(contender, prepared, device)
    return result, seconds, max(0, _status("VmHWM") - before)


def _status(name):
    """A line of this process's status, in bytes."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def _synchronise(device):
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
