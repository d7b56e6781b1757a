"""Whether a figure's legends show every dash style of its lines; and a thumbnail, which has no legend."""

import html

from matplotlib.colors import to_rgb
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

# As the label of a line: it needs no entry, for a text names it on the spot, or it only marks 0, 1 or chance.
BESIDE, REFERENCE = "_beside", "_reference"
# What follows a figure's address where it is too small for a legend to be read: the SVG's own name, which
# its style sheet asks for.
SMALL = "#small"
_HIDDEN = f'<style>{SMALL}:target g[id^="legend"] {{ display: none }}</style>'


def unexplained(figure):
    """The dash styles of the matplotlib ``figure`` that none of its legends shows.

    Parameters
    ----------
    figure : matplotlib.figure.Figure

    Returns
    -------
    list of str
        As matplotlib writes them, in order: ``"--"``, ``"-."``, ``":"``.

    Notes
    -----
    What counts is a visible line through more than one point, unless its label is ``BESIDE`` or
    ``REFERENCE``. An entry explains lines of its own style and colour; one in grey or black, lines of its
    style in every colour.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> _ = ax.plot([0, 1], [0, 1], "--", color="red"), ax.plot([], [], "--", color="0.3", label="before")
    >>> unexplained(ax.figure)
    ['--']
    >>> _ = ax.legend()
    >>> unexplained(ax.figure)
    []
    """
    lines = [line for ax in figure.axes if ax.get_visible() for line in ax.lines]
    drawn = {_look(line) for line in lines if len(line.get_xdata()) > 1 and _means_something(line)}
    keys = {_look(line) for legend in _legends(figure) for line in legend.findobj(Line2D)}
    return sorted({style for style, colour in drawn if not {(style, colour), (style, None)} & keys})


def told(svg, figure):
    """The text ``svg`` of a ``figure``, which says in its first tag what is unexplained."""
    styles = html.escape(" ".join(unexplained(figure)))
    return svg.replace("<svg ", f'<svg data-unexplained="{styles}" ', 1) if styles else svg


def hideable(svg):
    """The text ``svg`` of a figure that shows no legend at an address that ends in ``SMALL``."""
    if '<g id="legend' not in svg:
        return svg
    start = svg.index(">", svg.index("<svg ")) + 1
    named = svg[:start].replace("<svg ", f'<svg id="{SMALL[1:]}" ', 1)
    return f"{named}{_HIDDEN}{svg[start:]}"


def _means_something(line):
    dashed = line.get_linestyle() not in ("-", "None", " ", "")
    return dashed and line.get_visible() and line.get_label() not in (BESIDE, REFERENCE)


def _look(line):
    """(style, colour) of a line; of a grey or black one the colour is None."""
    red, green, blue = to_rgb(line.get_color())
    return line.get_linestyle(), None if red == green == blue else (red, green, blue)


def _legends(figure):
    for part in (figure, *figure.subfigs):
        yield from part.legends
    yield from (legend for ax in figure.axes for legend in ax.findobj(Legend))
