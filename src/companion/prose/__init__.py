"""What pages of prose draw and count, importable: ``companion.prose.tour`` is ``book/tour.py``.

Its ``write(pages)`` writes what the page ``book/tour.md`` includes into the folder ``pages``.
"""

from companion.studies import Folder

__path__ = Folder("book")
