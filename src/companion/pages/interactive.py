"""Pictures with sliders and selects.

Every state of a picture is drawn here; ``book/assets/interactive.js`` shows the one that is chosen. Without
JavaScript the starting state is what the reader sees.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2
import numpy as np
from IPython.display import HTML
from matplotlib.ticker import MaxNLocator

HEIGHT = 330
LEFT, RIGHT, TOP, BOTTOM = 58, 496, 42, 282  # of the field between the axes
MARGIN = 24  # right of it
SQUARE = 240  # width of either field where two stand side by side: as wide as high
CROSS = "m-4.5 -4.5l9 9m0 -9l-9 9"
SAMPLES = {"line": "M0 6H26", "band": "M0 0H26V12H0Z", "dots": "M13 6h0.01", "crosses": f"M13 6{CROSS}"}


@dataclass(frozen=True)
class Axis:
    """What an axis shows, from ``low`` to ``high``; ``ticks`` of None are chosen."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: Sequence[float] | None = None

    def pixels(self, values, start, end):
        """Where ``values`` lie between the pixels ``start`` and ``end``, the ends of the axis."""
        scale = np.log if self.log else np.asarray
        low, high = scale(self.low), scale(self.high)
        return start + (scale(values) - low) / (high - low) * (end - start)

    def marks(self):
        """The values at which a number stands."""
        if self.ticks is not None:
            return np.array(self.ticks, dtype=float)
        ticks = MaxNLocator(5).tick_values(self.low, self.high)
        if self.log:
            steps = (1, 2, 5) if self.high <= 300 * self.low else (1,)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            ticks = np.array([step * 10.0**power for power in powers for step in steps])
        return ticks[(ticks >= self.low * (1 - 1e-9)) & (ticks <= self.high * (1 + 1e-9))]


@dataclass(frozen=True)
class Field:
    """A pair of axes; ``alt`` is what a reader who does not see them is told."""

    x: Axis
    y: Axis
    alt: str


@dataclass(frozen=True)
class Control:
    """A choice among ``values``, shown as ``texts``: a "slider" or "select" that starts at a position."""

    key: str
    label: str
    values: Sequence
    start: int = 0
    kind: str = "slider"
    texts: Sequence[str] | None = None

    def shown(self):
        """The text of each value."""
        texts = self.values if self.texts is None else self.texts
        return [text if isinstance(text, str) else f"{text:g}" for text in texts]


@dataclass(frozen=True)
class Layer:
    """One series: a "line", a "band", "dots" or "crosses".

    x, y : lists of numbers, NaN or None in y for a gap. With ``by``, y is a list of such frames, one for
        every combination of these controls, the last fastest; so is x where points move sideways. A frame
        of a band is a pair, lower and upper.
    label : in the legend, none if empty. field : 0, or 1 for the field beside the first.
    """

    key: str
    kind: str
    x: Sequence
    y: Sequence
    colour: str
    label: str = ""
    by: tuple[str, ...] = ()
    dashed: bool = False
    field: int = 0


@dataclass(frozen=True)
class Readout:
    """A text in the legend: one of ``values`` for every combination of the controls in ``by``."""

    key: str
    label: str
    by: tuple[str, ...]
    values: Sequence[str]


def picture(name, *, alt, caption, x, y, controls, layers, readouts=(), beside=None) -> HTML:
    """The picture ``name``, which is unique on its page; the same arguments give the same bytes.

    alt, x, y : as of a :class:`Field`; beside : a second one, on a phone below it. Raises ValueError for a
    number of frames that the controls do not have.
    """
    fields = [Field(x, y, alt), *([beside] if beside else [])]
    right = LEFT + SQUARE if beside else RIGHT
    by_key = {control.key: control for control in controls}
    start, states = {}, {}
    for item in (*layers, *readouts):
        frames = item.values if isinstance(item, Readout) else _paths(item, fields[item.field], right)
        lengths = [len(by_key[key].values) for key in item.by]
        if len(frames) != math.prod(lengths):
            raise ValueError(f"{item.key}: {len(frames)} frames for {math.prod(lengths)} combinations")
        at = 0
        for key, length in zip(item.by, lengths, strict=True):
            at = at * length + by_key[key].start
        start[item.key] = frames[at]
        if item.by:
            states[item.key] = {"by": item.by, "frames": list(frames)}
    data = {"texts": {control.key: control.shown() for control in controls}, "states": states}
    text = _TEMPLATE.render(
        name=name,
        caption=caption,
        controls=controls,
        fields=[_drawn(field, right, number, layers) for number, field in enumerate(fields)],
        items=[item for item in (*layers, *readouts) if item.label],
        start=start,
        data=json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        samples=SAMPLES,
        LEFT=LEFT,
        TOP=TOP,
        BOTTOM=BOTTOM,
        HEIGHT=HEIGHT,
        MARGIN=MARGIN,
        right=right,
    )
    return HTML(" ".join(line.strip() for line in text.splitlines() if line.strip()))


def _paths(layer, field, right):
    """The path of every frame of ``layer``."""
    up = np.asarray(layer.y if layer.by else [layer.y], dtype=float)
    across = np.asarray(layer.x, dtype=float)
    up = field.y.pixels(up, BOTTOM, TOP)
    across = field.x.pixels(across, LEFT, right)
    if across.ndim == 1:
        across = np.broadcast_to(across, (len(up), len(across)))
    return [_path(layer.kind, *frame) for frame in zip(across, up, strict=True)]


def _path(kind, across, up):
    if kind == "band":
        across, up = np.concatenate([across, across[::-1]]), np.concatenate([up[0], up[1][::-1]])
    steps, pen = [], "M"
    for x, y in zip(across, up, strict=True):
        if np.isfinite(y):
            at = f"{x:.1f} {y:.1f}"
            steps.append({"crosses": f"M{at}{CROSS}", "dots": f"M{at}h0.01"}.get(kind, f"{pen}{at}"))
        pen = "L" if np.isfinite(y) or (kind == "band" and steps) else "M"
    return "".join(steps) + "Z" * (kind == "band")


def _drawn(field, right, number, layers):
    """What the template needs of a field."""
    xs, ys = field.x.marks(), field.y.marks()
    return {
        "axes": field,
        "x": [(f"{at:.1f}", _number(x)) for at, x in zip(field.x.pixels(xs, LEFT, right), xs, strict=True)],
        "y": [(f"{at:.1f}", _number(y)) for at, y in zip(field.y.pixels(ys, BOTTOM, TOP), ys, strict=True)],
        "layers": [layer for layer in layers if layer.field == number],
    }


def _number(value):
    return f"{value:g}".replace("-", "−")


_TEMPLATE = jinja2.Environment(autoescape=True).from_string(
    """\
{% macro series(item, path, key) %}
<path class="ab-series ab-{{ item.kind }}{{ ' ab-dashed' if item.dashed }}"
{% if key %}data-key="{{ key }}"{% endif %}
color="{{ item.colour }}" d="{{ path }}"/>
{% endmacro %}
<div class="ab-interactive" id="ab-{{ name }}">
<div class="ab-controls" role="group" aria-label="Controls of the picture" hidden>
{% for c in controls %}{% if c.kind == "slider" %}
<label class="ab-slider"><span>{{ c.label }}</span><input type="range" autocomplete="off" min="0"
max="{{ c.shown()|length - 1 }}" value="{{ c.start }}" data-control="{{ c.key }}"
aria-valuetext="{{ c.shown()[c.start] }}"><output aria-live="off">{{ c.shown()[c.start] }}</output></label>
{% else %}
<label>{{ c.label }}<select autocomplete="off" data-control="{{ c.key }}">
{% for text in c.shown() %}
<option value="{{ loop.index0 }}"{{ " selected" if loop.index0 == c.start }}>{{ text }}</option>
{% endfor %}
</select></label>
{% endif %}{% endfor %}
</div>
<div class="ab-fields">
{% for field in fields %}
<svg class="ab-picture" viewBox="0 0 {{ right + MARGIN }} {{ HEIGHT }}" role="img"
aria-label="{{ field.axes.alt }}"><clipPath id="ab-{{ name }}-field{{ loop.index0 }}">
<rect x="{{ LEFT }}" y="{{ TOP }}" width="{{ right - LEFT }}" height="{{ BOTTOM - TOP }}"/>
</clipPath>
<path class="ab-grid" d="{% for at, _ in field.x %}M{{ at }} {{ TOP }}V{{ BOTTOM }}{% endfor %}
{% for at, _ in field.y %}M{{ LEFT }} {{ at }}H{{ right }}{% endfor %}"/>
<path class="ab-axis" d="M{{ LEFT }} {{ TOP }}V{{ BOTTOM }}H{{ right }}"/>
{% for at, text in field.x %}
<text x="{{ at }}" y="{{ BOTTOM + 20 }}" text-anchor="middle">{{ text }}</text>
{% endfor %}{% for at, text in field.y %}
<text x="{{ LEFT - 7 }}" y="{{ at }}" dy="4" text-anchor="end">{{ text }}</text>
{% endfor %}
<text x="{{ (LEFT + right) / 2 }}" y="{{ HEIGHT - 4 }}" text-anchor="middle">
{{- field.axes.x.label }}</text>
<text x="2" y="17">{{ field.axes.y.label }}</text>
<g clip-path="url(#ab-{{ name }}-field{{ loop.index0 }})">
{% for layer in field.layers %}{{ series(layer, start[layer.key], layer.key) }}{% endfor %}
</g></svg>
{% endfor %}
</div>
<ul class="ab-legend">
{% for item in items %}
<li>
{% if item.kind is defined %}
<svg viewBox="0 0 26 12" aria-hidden="true">{{ series(item, samples[item.kind], "") }}</svg>
<span>{{ item.label }}</span>
{% else %}
<span>{{ item.label }}</span> <output data-key="{{ item.key }}">{{ start[item.key] }}</output>
{% endif %}
</li>
{% endfor %}
</ul>
{% if caption %}<p>{{ caption }}</p>{% endif %}
<noscript><p>Still picture:
{% for c in controls %}{{ c.label }} {{ c.shown()[c.start] }}{{ "; " if not loop.last }}{% endfor %}.
With JavaScript there are controls.</p></noscript>
<script type="application/json">{{ data|safe }}</script></div>
"""
)
