"""A Sphinx extension: plots are numbered per page, and every figure is drawn for the dark mode, too."""

import re

from alignbook.pages.style import darkened

_FIGURE = re.compile(r'<img (?P<before>[^>]*?)src="(?P<place>[^"]*_images/[^"/]+)\.svg"(?P<after>[^>]*)>')
DARK = "-dark.svg"


def setup(app):
    """Called by Sphinx."""
    app.connect("env-check-consistency", number_per_page)
    app.connect("html-page-context", pair_figures)
    app.connect("build-finished", draw_for_dark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def number_per_page(app, env):
    """Count figures from 1 on each page: a page is read by itself."""
    for by_kind in env.toc_fignumbers.values():
        for figures in by_kind.values():
            for position, name in enumerate(figures, 1):
                figures[name] = (position,)


def pair_figures(app, pagename, templatename, context, doctree):
    """Each vector figure beside its dark twin, of which the theme shows the one that fits the mode."""
    if "body" in context:
        context["body"] = _FIGURE.sub(_pair, context["body"])


def _pair(found):
    twins = []
    for mode, suffix in (("light", ".svg"), ("dark", DARK)):
        before, after = found["before"], found["after"]
        if 'class="' in before + after:
            before, after = (part.replace('class="', f'class="only-{mode} ') for part in (before, after))
        else:
            before += f'class="only-{mode}" '
        twins.append(f'<img {before}src="{found["place"]}{suffix}"{after}>')
    return "".join(twins)


def draw_for_dark(app, error):
    """Write the dark twin of every vector figure of the built book."""
    if error is None:
        for path in (app.outdir / "_images").glob("*.svg"):
            if not path.name.endswith(DARK):
                twin = path.with_name(path.stem + DARK)
                twin.write_text(darkened(path.read_text(encoding="utf-8")), encoding="utf-8")
