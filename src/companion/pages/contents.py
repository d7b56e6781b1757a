"""The book's table of contents: ``_toc.yml``, with what follows from the notebooks."""

import yaml

from companion.pages import reference

LANDING = "index"


def staged(text, books):
    """The text of ``_toc.yml`` for the notebooks ``books``.

    A chapter ``<paper>/index`` without a notebook is left out; notebooks of its paper that it does not list
    stand at its end. Below ``reference/index`` stand the pages of the reference.
    """
    toc = yaml.safe_load(text)
    names = [book.name for book in in_order(text, books)]
    for part in toc.get("parts", [toc]):
        part["chapters"] = [_chapter(entry, names) for entry in part["chapters"] if _wanted(entry, names)]
    return yaml.safe_dump(toc, sort_keys=False, allow_unicode=True)


def has_chapter(text, book):
    """Whether ``_toc.yml`` lists the notebook ``book`` or its paper's landing, where it then stands."""
    return bool({book.name, f"{book.paper}/{LANDING}"} & {*files(text)})


def in_order(text, books):
    """``books`` as ``_toc.yml`` lists them; those that it does not list at the end."""
    listed = files(text)
    return sorted(books, key=lambda book: listed.index(book.name) if book.name in listed else len(listed))


def files(text):
    """All files that the text of ``_toc.yml`` lists, in order."""
    toc, found = yaml.safe_load(text), []
    waiting = [entry for part in toc.get("parts", [toc]) for entry in part["chapters"]]
    while waiting:
        entry = waiting.pop(0)
        found.append(entry["file"])
        waiting[:0] = entry.get("sections", [])
    return found


def _wanted(entry, names):
    folder, _, file = entry["file"].rpartition("/")
    if file != LANDING or folder == reference.FOLDER:
        return True
    return any(name.startswith(f"{folder}/") for name in names)


def _chapter(entry, names):
    folder, _, file = entry["file"].rpartition("/")
    if file != LANDING:
        return entry
    if folder == reference.FOLDER:
        sections = [f"{folder}/{name}" for name in reference.names()]
    else:
        sections = [section["file"] for section in entry.get("sections", [])]
        sections += [name for name in names if name.startswith(f"{folder}/") and name not in sections]
    return {**entry, "sections": [{"file": section} for section in sections]}
