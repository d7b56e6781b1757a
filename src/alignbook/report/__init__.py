"""The report of a probe: one page that stands by itself. Knows its tables and no network."""

from .figures import figure
from .page import page
from .words import ABOUT, FRESH, SPOKEN, sentences

__all__ = ["ABOUT", "FRESH", "SPOKEN", "figure", "page", "sentences"]
