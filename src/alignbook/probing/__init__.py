"""The four papers' instruments on a network of the reader's own."""

from .probe import INSTRUMENTS, probe
from .result import Probe, compare

__all__ = ["INSTRUMENTS", "Probe", "compare", "probe"]
