"""What a comparison is: data, contenders, the agreement asked of them, the floor, and the aims."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from alignbook.kernels.products import float32_products


def pair(ours, theirs):
    """Two array-like answers as float64 arrays of one shape, else ValueError."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    if ours.shape != theirs.shape:
        raise ValueError(f"answers of shapes {ours.shape} and {theirs.shape}")
    return ours, theirs


def relative_error(ours, theirs):
    """Largest difference over the largest entry of ``theirs``, both array-like of one shape."""
    ours, theirs = pair(ours, theirs)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def entrywise_error(ours, theirs):
    """Largest relative difference of an entry, both array-like of one shape."""
    ours, theirs = pair(ours, theirs)
    return float(np.max(np.abs(ours - theirs) / np.abs(theirs)))


def itself(value):
    """``value``."""
    return value


@dataclass(frozen=True)
class Contender:
    """One way to do a work. Functions are named, at the top of a module: workers import them.

    name : as the table shows it; package : the distribution whose version is shown
    run : ``run(prepared) -> result``, what is timed; prepare : ``prepare(state) -> prepared``, before every
    run and not timed; answer : ``answer(result) -> array``, what is compared
    facts : ``facts(result, state) -> {name: number}``, shown beside the times
    differs : why this peer's answer may differ from ours, in two words, where it may: then the distance is
    shown and decides nothing
    compiles : whether the first run at each size compiles a program
    device : where it is tried, ``cpu`` or ``cuda``; everywhere, if None
    """

    name: str
    package: str
    run: Callable
    prepare: Callable = itself
    answer: Callable = itself
    facts: Callable | None = None
    differs: str = ""
    compiles: bool = False
    device: str | None = None


def with_onednn(peer):
    """The same contender with our choice of a CPU's library for float32 products."""
    run = partial(_with_float32_products, peer.run)
    return replace(peer, name=f"{peer.name}, with oneDNN", run=run, device="cpu")


def _with_float32_products(run, prepared):
    with float32_products():
        return run(prepared)


@dataclass(frozen=True)
class Aim:
    """An aim, whether or not it is reached.

    text : the aim in words
    quantity : ``faster`` (the peer's time over ours, at least ``bound``), ``memory`` (ours in bytes),
    ``memory share`` (ours over the peer's), ``floor`` (our time over the floor), ``error`` (of the answers)
    or ``fact NAME`` (ours over the peer's); all but the first at most ``bound``
    against : name of the peer; device : where the aim applies, ``cpu`` or ``cuda``; needs : an instruction
    set without which it does not apply
    """

    text: str
    quantity: str
    bound: float
    against: str = ""
    device: str = "cpu"
    needs: str = ""


@dataclass(frozen=True)
class Work:
    """A comparison.

    name : ``group/case``; title : what is computed, with its sizes
    setup : ``setup(device, **sizes) -> state``, the same data in every process
    sizes : of the work; small : of a first call that loads libraries
    contenders : the first is ours
    cost : ``cost(**sizes)`` → {``float32``, ``float64``: operations, ``bytes``: moved}, any of them
    error, tolerance : distance of two answers and its limit; agreement : what the two mean
    reference : computed once beside the contenders, not timed, and compared entry by entry
    repeats : runs at least; fast contenders get more
    alone : why there is no peer, where there is none
    """

    name: str
    title: str
    setup: Callable
    sizes: dict
    small: dict
    contenders: tuple[Contender, ...]
    cost: Callable
    agreement: str = "largest difference over the largest entry"
    error: Callable = relative_error
    tolerance: float = 1e-4
    reference: Contender | None = None
    aims: tuple[Aim, ...] = ()
    repeats: int = 5
    note: str = ""
    alone: str = ""
    kind: str = field(default="comparison", init=False)


@dataclass(frozen=True)
class Scaling:
    """Time and memory of our kernel over one size, everything else fixed.

    name : ``group/axis``; title; axis : name of the size that grows, ``values`` ascending
    setup, contender, cost : as in :class:`Work`; sizes : of the others
    memory : ``memory(**sizes)`` → bytes that must be held beside the data
    """

    name: str
    title: str
    axis: str
    values: tuple[int, ...]
    setup: Callable
    contender: Contender
    cost: Callable
    memory: Callable
    sizes: dict = field(default_factory=dict)
    repeats: int = 3
    kind: str = field(default="scaling", init=False)
