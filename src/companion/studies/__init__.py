"""The studies of the book, importable: ``companion.studies.<paper>.<figure>.experiment``.

They stand in the checkout's ``notebooks/<paper>/<figure>/``, beside the notebook that shows them, and not in
this folder. A study has

``experiment.py``
    ``jobs(parameters) -> list[Job]`` and ``compute(**arguments, device, report) -> DataFrame``: what is
    computed, stored, and counted by the code's digest;
``reading.py``
    ``STATEMENTS`` and ``NUMBERS``: what the paper says, each with how the stored table measures it. It
    imports no torch, and changing it makes no result stale.

What several studies of a paper share stands in ``notebooks/<paper>/shared/``, computing apart from judging.
"""

from alignbook import paths


class Folder:
    """A folder of the checkout, looked up each time: ``ALIGNBOOK_ROOT`` may change while a process runs."""

    def __init__(self, name: str):
        self.name = name

    def __iter__(self):
        return iter([str(paths.root() / self.name)])


__path__ = Folder("notebooks")
