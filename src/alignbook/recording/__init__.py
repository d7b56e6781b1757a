"""The papers' instruments while a network trains."""

from .callbacks import hugging_face, lightning
from .instruments import INSTRUMENTS
from .recorder import Recorder

__all__ = ["INSTRUMENTS", "Recorder", "hugging_face", "lightning"]
