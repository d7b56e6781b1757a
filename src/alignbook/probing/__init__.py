"""The four papers' instruments on a network of the reader's own."""

from .probe import INSTRUMENTS, Probe, probe

__all__ = ["INSTRUMENTS", "Probe", "probe"]
