"""Panels: the parts of a figure that a phone shows one below another.

A figure stays one SVG. Its first tag names the parts in ``data-parts``, which is JSON: a list of ``keys``,
entries of legends that the whole figure shares, and a list of ``panels``. A part is ``[width, height, crop,
...]``, in the SVG's own units; a crop ``[x, y, width, height, left, top]`` is a box of the figure and where
it stands in the part. Beside a panel whose ticks or labels stand at its neighbour, those are cropped, too.
"""

import html
import json
import re

import numpy as np
from matplotlib.transforms import Bbox

PAD = 2.0  # around a part
ROOM = 0.08  # of a line of text, beside it
NARROW = 5.2  # inches: a figure of one column, which a phone shows whole
LARGEST = 1.5  # CSS pixels to a unit of the SVG where a page shows a figure whole
MANY, SMALL = 6, 200  # so many panels of so small a width stand in two columns
POINTS = 1.4  # CSS pixels to a unit of the SVG, at most: text of 11.5 units is 16 pixels tall
TALLEST = 11  # rem, of a thumbnail
_PARTS = re.compile(r'<svg [^>]*data-parts="([^"]*)"')
_ALT, _NO_ALT = re.compile(r'alt="[^"]*"'), 'alt=""'  # one crop speaks for all
_SIZE = re.compile(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"')


def narrowed(figure):
    """Make a ``figure`` of a single column as wide as a phone can show it."""
    specs = [ax.get_subplotspec() for ax in figure.axes]
    if all(spec and spec.get_gridspec().ncols == 1 for spec in specs) and not figure.subfigs:
        figure.set_figwidth(min(NARROW, figure.get_figwidth()))


def named(svg, parts):
    """The text of a figure that names its ``parts``."""
    if len(parts["panels"]) < 2:
        return svg
    said = html.escape(json.dumps(parts, separators=(",", ":")))
    return svg.replace("<svg ", f'<svg data-parts="{said}" ', 1)


def size(svg):
    """(width, height) of a figure in its own units, or None."""
    found = _SIZE.search(svg[:4000])
    return found and (float(found[1]), float(found[2]))


def read(svg):
    """The parts that the text of a figure names, or None."""
    found = _PARTS.search(svg)
    return found and json.loads(html.unescape(found[1]))


def stack(svg, light, dark, alt):
    """HTML of a figure's parts below one another; an empty text where it has one part alone.

    Parameters
    ----------
    svg : str
        The figure's text.
    light, dark : str
        Where the page finds it, drawn for each mode.
    alt : str
        What stands for the figure where it is not seen; as HTML.
    """
    parts = read(svg)
    if not parts:
        return ""
    width, height = size(svg)
    whole = f'width="{width:g}" height="{height:g}"'
    pairs = {"light": light, "dark": dark}.items()
    twins = "".join(f'<image class="only-{mode}" href="{place}" {whole}/>' for mode, place in pairs)
    looks = {"keys": "ab-keys", "panels": "ab-panels" + " ab-pairs" * paired(parts["panels"])}
    groups = [
        f'<span class="{look}">{"".join(_drawn(part, twins) for part in parts[kind])}</span>'
        for kind, look in looks.items()
        if parts[kind]
    ]
    return f'<span class="ab-stack" role="img" aria-label="{alt}">{"".join(groups)}</span>'


def cropped(svg, images, number=1):
    """HTML of ``images``, twins of a figure, cut to one of its panels: what a thumbnail can still show.

    Ticks, labels and a title that stand at a neighbour are cut out with it.

    Where the figure has one part alone, the images as they are. Where it has fewer than ``number`` panels, as
    with fewer data sets, the first is shown.
    """
    parts = read(svg)
    if not parts:
        return images
    width, height, *crops = parts["panels"][number - 1 if number <= len(parts["panels"]) else 0]
    whole, boxes = size(svg)[0], []
    for x, y, w, h, left, top in crops:
        box = {"left": left / width, "top": top / height, "width": w / width, "height": h / height}
        cut = images.replace("<img ", f'<img style="{_percent(width=whole / w, left=-x / w, top=-y / h)}" ')
        boxes.append(f'<span style="{_percent(**box)}">{_ALT.sub(_NO_ALT, cut) if boxes else cut}</span>')
    most = f"min(100%, {TALLEST * width / height:.1f}rem, {LARGEST * width:.0f}px)"
    shown = f"aspect-ratio: {width:g} / {height:g}; width: {most}"
    return f'<span class="ab-crop" style="{shown}">{"".join(boxes)}</span>'


def _percent(**shares):
    return "; ".join(f"{name}: {100 * share:.1f}%" for name, share in shares.items())


def paired(panels):
    """Whether so many of ``panels``, parts, are so small that two stand in a line, and the others alone."""
    return sum(width <= SMALL for width, *_ in panels) >= MANY


def _drawn(part, twins):
    width, height, *crops = part
    inner = "".join(
        f'<svg x="{left:g}" y="{top:g}" width="{w:g}" height="{h:g}" viewBox="{x:g} {y:g} {w:g} {h:g}">'
        f"{twins}</svg>"
        for x, y, w, h, left, top in crops
    )
    alone = "; max-width: 100%" * (width > SMALL)  # a colour bar below pairs, which may be half as wide
    shown = f'style="width: {POINTS * width:.0f}px{alone}" viewBox="0 0 {width:g} {height:g}"'
    return f'<svg class="ab-part" aria-hidden="true" {shown}>{inner}</svg>'


def parts(figure, renderer, whole):
    """``{"keys": parts, "panels": parts}`` of a figure that has been drawn.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    renderer : matplotlib.backend_bases.RendererBase
        What it was drawn with, its layout done.
    whole : matplotlib.transforms.Bbox
        What the SVG shows of it, in the renderer's units.
    """

    def tight(artist):
        box = artist.get_tightbbox(renderer)
        return box if box is not None and box.width > 0 and box.height > 0 else None

    panels = _apart([Panel(group, tight) for group in _on_one_place(figure.axes, tight)])
    bars = _bars(figure, panels, tight)
    shared = {"x": getattr(figure, "_supxlabel", None), "y": getattr(figure, "_supylabel", None)}
    grid = _Grid(panels, {axis: tight(text) for axis, text in shared.items() if text})
    keys = [tight(text) for text in figure.texts if text not in shared.values()]
    keys += [_roomy(box) for legend in _legends(figure) for box in _entries(legend, renderer)]
    shown = [_part(grid.crops(panel), whole) for panel in grid.ordered()]
    bars = [_part([(bar.padded(PAD), (0, 0))], whole) for bar in bars]
    if paired(shown) and (columns := grid.of_two_rows()) % 2:  # pairs would break the rows: turn them
        shown = [part for pair in zip(shown[:columns], shown[columns:], strict=True) for part in pair]
    return {
        "keys": [_part([(box.padded(2 * PAD, PAD), (0, 0))], whole) for box in keys],
        "panels": shown + bars,
    }


class Panel:
    """Axes that stand by themselves, the first of which has the ticks and labels.

    ``box`` is all they draw, ``inner`` is where the first one's data are; ``x``, ``y`` and ``title`` are the
    boxes of its labels, or None.
    """

    def __init__(self, axes, tight):
        self.first = axes[0]
        self.box = Bbox.union([tight(ax) for ax in axes])
        self.inner = self.first.get_window_extent()
        self.data = [ax.get_window_extent() for ax in axes]
        titles = (self.first.title, self.first._left_title, self.first._right_title)
        labels = {"title": next((title for title in titles if title.get_text()), titles[0])}
        self.ticks = {"x": None, "y": None}
        if self.first.axison:
            for name in ("x", "y"):
                axis = getattr(self.first, f"{name}axis")
                labels[name] = axis.label
                if any(tick.get_visible() and tick.get_text() for tick in axis.get_ticklabels()):
                    self.ticks[name] = tight(axis)
        self.texts = {name: label.get_text() for name, label in labels.items() if label.get_text()}
        self.labels = {name: tight(labels[name]) for name in self.texts}

    def beside(self, other):
        """Whether both stand in one row."""
        return np.allclose(self.inner.intervaly, other.inner.intervaly, atol=1)

    def above(self, other):
        """Whether both stand in one column."""
        return np.allclose(self.inner.intervalx, other.inner.intervalx, atol=1)

    def joined(self, other, axis):
        """Whether both have the same scale."""
        return getattr(self.first, f"get_shared_{axis}_axes")().joined(self.first, other.first)


class _Grid:
    """How panels share ticks, labels and titles."""

    def __init__(self, panels, shared):
        self.panels, self.shared = panels, shared
        self.outer = {kind for kind in ("x", "y", "title") if self._stands_for_others(kind)}

    def ordered(self):
        """The panels as they are read: by row, then by column."""
        return sorted(self.panels, key=lambda panel: (-round(panel.inner.y1), panel.inner.x0))

    def of_two_rows(self):
        """The number of columns where the panels are two rows as long as each other, else 0."""
        ordered = self.ordered()
        half = len(ordered) // 2
        rows = ordered[:half], ordered[half:]
        whole = all(panel.beside(row[0]) for row in rows for panel in row)
        return half if whole and len(rows[0]) == len(rows[1]) else 0

    def crops(self, panel):
        """[(box, (right, up))]: what a part shows of the figure, and by how much each box is moved."""
        box = self._padded(panel)
        found = [(box, (0, 0))]
        end = box.x0
        for strip, numbers in self._strips(panel, "y"):
            end = panel.inner.x0 if numbers else end
            up = 0 if numbers else _middle(panel.inner)[1] - _middle(strip)[1]
            found.append((strip, (end - strip.x1, up)))
            end -= strip.width
        end = box.y0
        for strip, numbers in self._strips(panel, "x"):
            end = panel.inner.y0 if numbers else end
            right = 0 if numbers else _middle(panel.inner)[0] - _middle(strip)[0]
            found.append((strip, (right, end - strip.y1)))
            end -= strip.height
        edge = self._edge(panel, "title")
        if edge is not panel and "title" in self.outer:
            title = edge.labels["title"].padded(PAD)
            found.append((title, (0, box.y1 - title.y0)))
        return found

    def _edge(self, panel, kind):
        """The panel at the left of the row, or at the bottom or the top of the column."""
        if kind == "y":
            return min((p for p in self.panels if p.beside(panel)), key=lambda p: p.inner.x0)
        column = [p for p in self.panels if p.above(panel)]
        return (min if kind == "x" else max)(column, key=lambda p: p.inner.y0)

    def _stands_for_others(self, kind):
        """Whether labels of this kind stand at the edge of a grid alone, for all that it has inside.

        One row does not tell whether its first label is that of the others, too, nor do columns whose labels
        differ.
        """
        edges = {id(edge): edge for edge in (self._edge(panel, kind) for panel in self.panels)}.values()
        inside = [panel for panel in self.panels if panel not in edges]
        texts = [edge.texts.get(kind) for edge in edges if edge.first.axison or kind == "title"]
        if not inside or len(texts) < 2 or not all(texts) or any(kind in panel.labels for panel in inside):
            return False
        return kind != "x" or len(set(texts)) == 1

    def _padded(self, panel):
        """The panel's box with some space around it, as far as nothing else is drawn there."""
        box = panel.box
        for side in np.eye(4) * [-PAD, -PAD, PAD, PAD]:
            wider = Bbox.from_extents(box.extents + side)
            if not any(_overlap(wider, other.box, 0) for other in self.panels if other is not panel):
                box = wider
        return box

    def _strips(self, panel, axis):
        """[(box, whether it has numbers)] of what is drawn for ``panel`` elsewhere, the nearest first."""
        if not panel.first.axison:
            return []
        edge, found, labelled = self._edge(panel, axis), [], axis in panel.labels
        if edge.ticks[axis] and not panel.ticks[axis] and panel.joined(edge, axis):
            found.append((_outside(edge, axis), True))
            labelled = labelled or axis in edge.labels
        elif edge is not panel and axis in edge.labels and axis in self.outer:
            found.append((edge.labels[axis].padded(PAD), False))
            labelled = True
        if axis in self.shared and not labelled:
            found.append((self.shared[axis].padded(PAD), False))
        return found


def _outside(panel, axis):
    """The box of the numbers and the label of an ``axis``, up to the data."""
    box, inner = panel.ticks[axis], panel.inner
    if axis == "y":
        return Bbox([[box.x0 - PAD, box.y0 - PAD], [inner.x0, box.y1 + PAD]])
    return Bbox([[box.x0 - PAD, box.y0 - PAD], [box.x1 + PAD, inner.y0]])


def _on_one_place(axes, tight):
    """Lists of ``axes``, without colour bars and what draws nothing: those on the same place together."""
    groups = {}
    for ax in axes:
        if ax.get_visible() and not hasattr(ax, "_colorbar") and tight(ax):
            groups.setdefault(tuple(ax.get_window_extent().extents.round()), []).append(ax)
    return list(groups.values())


def _apart(panels):
    """``panels``, those together one of which draws over the data of the other."""
    for one in panels:
        for other in panels:
            if one is not other and any(_overlap(one.box, data) for data in other.data):
                one.data += other.data
                one.box = Bbox.union([one.box, other.box])
                return _apart([panel for panel in panels if panel is not other])
    return panels


def _bars(figure, panels, tight):
    """Boxes of the colour bars, but for those that are drawn with the panel that is nearest.

    A bar is, unless a box of both would reach into another panel.
    """
    found = []
    for ax in figure.axes:
        if hasattr(ax, "_colorbar") and ax.get_visible():
            bar = tight(ax)
            nearest = min(panels, key=lambda panel: _distance(panel.box, bar))
            both = Bbox.union([nearest.box, bar])
            if any(_overlap(both, panel.box) for panel in panels if panel is not nearest):
                found.append(bar)
            else:
                nearest.box = both
    return found


def _legends(figure):
    for part in (figure, *figure.subfigs):
        yield from (legend for legend in part.legends if legend.get_visible())


def _entries(legend, renderer):
    """Boxes of a legend's title and entries, column by column."""
    title = [legend.get_title()] if legend.get_title().get_text() else []
    columns = legend._legend_handle_box.get_children()
    items = [item for column in columns for item in column.get_children()]
    return [item.get_window_extent(renderer) for item in (*title, *items)]


def _roomy(box):
    """``box`` of a line of text, wider to the right: a browser's letters may stand farther apart."""
    return Bbox.from_extents(box.x0, box.y0, box.x1 + ROOM * box.width, box.y1)


def _part(crops, whole):
    """A part of crops [(box, (right, up))], in the units of the SVG that shows ``whole``."""
    placed = [box.translated(*move) for box, move in crops]
    outer = Bbox.union(placed)
    cut = [
        [box.x0 - whole.x0, whole.y1 - box.y1, box.width, box.height, at.x0 - outer.x0, outer.y1 - at.y1]
        for (box, _), at in zip(crops, placed, strict=True)
    ]
    return [*_rounded([outer.width, outer.height]), *map(_rounded, cut)]


def _rounded(numbers):
    return [round(float(number), 1) for number in numbers]


def _middle(box):
    return (box.p0 + box.p1) / 2


def _overlap(one, other, more_than=1):
    both = Bbox.intersection(one, other)
    return both is not None and min(both.width, both.height) > more_than


def _distance(one, other):
    aside = max(one.x0 - other.x1, other.x0 - one.x1, 0)
    return aside + max(one.y0 - other.y1, other.y0 - one.y1, 0)
