"""The book's frame: runs studies, judges statements, renders pages; it knows no network and no paper.

``companion.run`` computes or loads the results of a study, ``companion.judge`` says what they show; its
claims are ``companion.Claim``.
A notebook reads its parameters with ``companion.parameters`` and shows the run on a ``companion.Page``.
"""

import importlib

PUBLIC = {
    "parameters": "companion.runs.notebooks",
    "run": "companion.runs.run",
    "judge": "companion.judging",
    "Page": "companion.pages.page",
    "Claim": "companion.claims",
}
__all__ = [*PUBLIC]


def __getattr__(name):
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'companion' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
