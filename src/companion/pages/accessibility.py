"""What the theme and our tables leave out for readers who use a keyboard or a screen reader.

Each repair is a pattern in a rendered page and what stands there instead; axe-core checks pages in
``tests/pages/test_accessibility.py``. What scrolls is made focusable by ``book/assets/reading.js``: only
the browser knows what scrolls.
"""

import re

REPAIRS = [
    # A fold of the sidebar has a sign alone.
    (re.compile(r'<summary>(?=<span class="toctree-toggle")'), '<summary aria-label="Its pages">'),
    # A name that differs from the text that is seen: voice control goes by the text.
    (re.compile(r'(<button class="btn search-button-field[^>]*?) aria-label="Search"'), r"\1"),
    (re.compile(r'(<button class="[^"]*theme-switch-button[^"]*") aria-label="Color mode"'), r"\1"),
    (re.compile(r'(<i class="theme-switch [^>]*?) title="(\w[\w ]*)"></i>'), r'\1 aria-hidden="true"></i>'),
    (
        re.compile(r'(data-mode="auto" +aria-hidden="true"></i>)(?!<span)'),
        r'\1<span class="ab-hidden">Colours</span>',
    ),
    # The book's name stands outside of all landmarks.
    (
        re.compile(r'<div class="sidebar-primary-item">(?=\s*<a class="navbar-brand)'),
        '<div class="sidebar-primary-item" role="navigation" aria-label="Home">',
    ),
    # Roles of a bibliography that have been given up, and a list of them without items.
    (re.compile(r'(<div class="citation"[^>]*) role="doc-biblioentry"'), r"\1"),
    (re.compile(r'<div role="list" class="citation-list">'), '<div class="citation-list">'),
    # A name in the sidebar or at a page's end breaks after its dot, not within a word.
    (re.compile(r"(?<=>)((?:probing|recording)\.)(?=\w+</(?:a|p)>)"), r"\1<wbr>"),
    # A corner of a table heads nothing.
    (re.compile(r'<th(?: class="head")?>(?:<p></p>)?</th>'), "<td></td>"),
]


def mended(text):
    """The HTML ``text`` of a page with all repairs.

    >>> mended("<tr><th></th><th>width</th></tr>")
    '<tr><td></td><th>width</th></tr>'
    """
    for pattern, better in REPAIRS:
        text = pattern.sub(better, text)
    return text
