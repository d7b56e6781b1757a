"""Training that takes long goes on where it was, after a job was killed.

Every five minutes, at the end of an epoch, what a job's training holds is kept beside the checkpoints:
networks, optimisers, random states, what was measured so far. A job that is computed anew with the same code,
arguments, data and versions finds it there, and its result is the same, bit for bit. A training that holds
what :mod:`alignbook.held` does not know starts over.
"""

import contextlib
import functools
import hashlib
import io
import json
import pickle
import shutil
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from alignbook import checkpoints, paths, system

EVERY = 300.0  # seconds of training after which it is kept (again)


class _Job:
    """The job that runs: the folder for what its trainings hold, and whether one of them runs."""

    def __init__(self, made_from):
        self._made_from, self.training = made_from, False

    @functools.cached_property
    def folder(self):
        key = hashlib.sha256(json.dumps(self._made_from(), sort_keys=True).encode()).hexdigest()[:32]
        return paths.checkpoints() / "training" / key


_running = ContextVar("job", default=None)


@contextmanager
def job(made_from):
    """Inside, trainings are kept and found again; at its end, unless it raises, what was kept is removed.

    made_from : function that returns everything that the job's outcome depends on, which JSON can hold
    """
    token = _running.set(running := _Job(made_from))
    try:
        yield
        if "folder" in vars(running):
            shutil.rmtree(running.folder, ignore_errors=True)
    finally:
        _running.reset(token)


def resumable(train):
    """Decorator of :func:`alignbook.training.loop.train`: inside :func:`job` it goes on where it was.

    A training is recognised by its plan and all that it holds when it starts. One inside another is not kept.
    """

    @functools.wraps(train)
    def trained(step, examples, **given):
        running = _running.get()
        if running is None or running.training:
            return train(step, examples, **given)
        running.training = True
        try:
            return _train(train, running.folder, step, examples, given)
        finally:
            running.training = False

    return trained


def _train(train, folder, step, examples, given):
    from alignbook.training.loop import Trained

    roots = (step, *(given.get(name) for name in ("rate", "on", "until", "generator")))
    plan = [examples, *(given.get(name) for name in ("batch_size", "epochs", "steps", "last_batch"))]
    kept = _Kept(folder, roots, (*plan, sorted(given.get("at", ()))))
    now, done = Trained(0, 0, float("nan")), False
    if found := kept.found():
        now, done = Trained(*found["now"]), found["done"]
    if done:
        return now
    began = now

    def shifted(later):
        return replace(later, steps=later.steps + began.steps, epochs=later.epochs + began.epochs)

    def until(later):
        later = shifted(later)
        if given.get("until") is not None and given["until"](later):
            return True
        if kept.due():
            kept.keep(later, done=False)
        return False

    ended = shifted(train(step, examples, **_rest(given, began), until=until))
    if kept.due() or kept.path.exists():
        kept.keep(ended, done=True)
    return ended


def _rest(given, began):
    """The arguments of a training of which ``began`` is done, without ``until``."""
    rest = {name: value for name, value in given.items() if name != "until"}
    if not began.steps:
        return rest
    steps, rate, on, report = began.steps, given["rate"], given.get("on"), given.get("report")
    for name, gone in (("epochs", began.epochs), ("steps", steps)):
        if rest.get(name) is not None:
            rest[name] -= gone
    if callable(rate):
        rest["rate"] = lambda count: rate(count + steps)
    rest["at"] = {count - steps for count in given.get("at", ()) if count > steps}
    if on is not None:
        rest["on"] = lambda count: on(count + steps)
    if report is not None:

        def told(done, text):
            _, count, _, ends = text.split()
            count, ends = int(count) + steps, int(ends) + steps
            report(count / ends, f"step {count} of {ends}")

        rest["report"] = told
    return rest


class _Kept:
    """One training's file."""

    def __init__(self, folder, roots, plan):
        from alignbook import held

        self.roots, self.last, self.spared = roots, time.monotonic(), 0.0
        try:
            content, self.written = held.digest((*roots, plan))
        except held.Unknown:
            content, self.written = "unknown", None
        self.began, self.path = self.last, folder / f"{content[:32]}.pt"

    def found(self):
        """{"now": (steps, epochs, loss), "done": bool} of the file, put back into the roots; or None."""
        import torch

        from alignbook import held

        if self.written is None or not self.path.exists():
            return None
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            held.put_back(_with_random_states(self.roots), content["held"])
        except (held.Unknown, *checkpoints.UNREADABLE, pickle.UnpicklingError):
            return None
        self.spared = content["seconds"]
        checkpoints.spare(self.spared)
        return content

    def due(self):
        return self.written is not None and time.monotonic() - self.last >= EVERY

    def keep(self, now, done):
        import torch

        from alignbook import held

        self.last = time.monotonic()
        seconds = self.spared + self.last - self.began
        content = io.BytesIO()
        try:
            taken = held.taken(_with_random_states(self.roots), self.written)
            steps = (now.steps, now.epochs, now.loss)
            torch.save({"held": taken, "now": steps, "done": done, "seconds": seconds}, content)
        except held.Unknown:
            self.written = None
            return
        with contextlib.suppress(OSError):  # a full disk costs what could be gone on with, not the training
            self.path.parent.mkdir(parents=True, exist_ok=True)
            system.replace(self.path, content.getvalue())


def _with_random_states(roots):
    """The roots and the random states that every function reaches."""
    import torch

    of_gpus = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    return (*roots, torch.default_generator, *of_gpus)
