"""Pictures with controls: sliders and selects that move lines, points and their least-squares fit.

:func:`picture` draws the starting state as a still SVG and puts the data of all states beside it;
``book/assets/interactive.js`` draws the paths anew when a control moves. Without JavaScript the still
picture is what the reader sees. What a control does is said as data, in one of two ways:

frames : ``by`` names controls, and ``y`` holds one frame for every combination of their positions, the
    last control fastest.
rows : ``where`` holds conditions (column, comparison, control) on ``columns``, lists beside x and y; the
    comparison is "=", "in" (checkboxes), ">=" or "<=". Rows that agree with all of them are shown.
"""

import html
import json
import math
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from IPython.display import HTML
from matplotlib.ticker import MaxNLocator

LARGEST = 100_000  # bytes of one picture
DIGITS = 5  # significant: finer than a pixel, and a fitted slope keeps three decimals
WIDTH, HEIGHT = 520, 330
LEFT, RIGHT, TOP, BOTTOM = 58, 496, 42, 282  # of the field between the axes
SQUARE = 240  # width of either field where two stand side by side: as wide as high
KINDS = ("line", "band", "dots", "crosses")
CONTROLS = ("slider", "select", "checks")


@dataclass(frozen=True)
class Axis:
    """``low`` and ``high`` are the ends of what is shown; ``ticks`` of None are chosen."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: tuple | None = None


@dataclass(frozen=True)
class Field:
    """A second field beside the first, on a phone below it; ``alt`` as for :func:`picture`."""

    x: Axis
    y: Axis
    alt: str


@dataclass(frozen=True)
class Control:
    """A choice among ``values``; of a "checks" any number, all of them at the start.

    start : position of the value at the start. texts : what is shown for the values.
    """

    key: str
    label: str
    values: list
    start: int = 0
    kind: str = "slider"
    texts: list | None = None


@dataclass(frozen=True)
class Layer:
    """One series. Of a "band", a frame is a pair of lists, lower and upper; None or NaN leaves a gap.

    x, y : lists of numbers, or with ``by`` y a list of frames, and x too where points move sideways.
    label : in the legend, none if empty. field : 0, or 1 for the field beside the first.
    """

    key: str
    kind: str
    x: list
    y: list
    colour: str
    label: str = ""
    by: tuple = ()
    where: tuple = ()
    columns: dict = dataclass_field(default_factory=dict)
    dashed: bool = False
    field: int = 0

    @property
    def moves(self):
        return bool(self.by) and len(self.x) > 0 and hasattr(self.x[0], "__len__")


@dataclass(frozen=True)
class Fit:
    """The least-squares line through what a layer shows, in the logarithm where an axis is logarithmic.

    slope : None for a free one, which is then printed with ``digits`` decimals. needs : the number of
    different x (at least 2) below which ``none`` is printed instead.
    """

    key: str
    layer: str
    label: str
    colour: str
    slope: float | None = None
    needs: int = 2
    none: str = "too few points"
    digits: int = 2
    dashed: bool = False


@dataclass(frozen=True)
class Readout:
    """A text that follows the controls in ``by``, one of ``values`` for every combination."""

    key: str
    label: str
    by: tuple
    values: list


def picture(name, *, alt, caption, x, y, controls, layers, fits=(), readouts=(), beside=None):
    """The picture as ``IPython.display.HTML``; the same arguments give the same bytes.

    name : unique on its page; alt : what a reader who does not see it is told; caption : plain text.
    beside : a :class:`Field`, or None.
    Raises ValueError for an unknown kind, names that stand twice or nowhere, frames or columns that do
    not match, a value that a logarithmic axis cannot show, and data of more than ``LARGEST`` bytes.
    """
    fields = [Field(x, y, alt)] + ([beside] if beside else [])
    _check(controls, layers, fits, readouts, fields)
    right = LEFT + SQUARE if beside else RIGHT
    data = _plain(
        {
            "fields": [_scales(part, right) for part in fields],
            "controls": [
                {"key": c.key, "kind": c.kind, "values": c.values, "texts": _texts(c)} for c in controls
            ],
            "layers": [
                {
                    "key": part.key, "kind": part.kind, "field": part.field, "x": part.x, "y": part.y,
                    "by": part.by, "where": part.where, "columns": part.columns,
                }
                for part in layers
            ],
            "fits": [
                {
                    "key": fit.key, "layer": fit.layer, "slope": fit.slope,
                    "needs": fit.needs, "none": fit.none, "digits": fit.digits,
                }
                for fit in fits
            ],
            "readouts": [{"key": r.key, "by": r.by, "values": r.values} for r in readouts],
        }
    )  # fmt: skip
    paths, texts = _start(data, controls)
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    script = written.replace("<", "\\u003c")  # else a text could end the script
    identity = html.escape(f"ab-{name}")
    own = {layer.key: layer.field for layer in layers} | {fit.key: _of(fit, layers).field for fit in fits}
    drawn = [
        _svg(f"{identity}-field{n}", part, right, [i for i in (*layers, *fits) if own[i.key] == n], paths)
        for n, part in enumerate(fields)
    ]
    result = (
        f'<div class="ab-interactive" id="{identity}">'
        f'<div class="ab-controls" role="group" aria-label="Controls of the picture" hidden>'
        f"{''.join(map(_control, controls))}</div>"
        f'<div class="ab-fields">{"".join(drawn)}</div>'
        f'<ul class="ab-legend">{_legend(layers, fits, readouts, texts)}</ul>'
        f"<p>{html.escape(caption)}</p>"
        f"<noscript><p>Still picture: {html.escape(_state(controls))}. "
        "With JavaScript there are controls.</p></noscript>"
        f'<script type="application/json">{script}</script></div>'
    )
    if len(result.encode()) > LARGEST:
        raise ValueError(f"{name}: {len(result.encode())} bytes, more than {LARGEST}")
    return HTML(result)


def _of(fit, layers):
    return next(layer for layer in layers if layer.key == fit.layer)


def _scales(field, right):
    """What either axis of ``field`` shows and the pixels of its ends."""
    ends = (("x", field.x, LEFT, right), ("y", field.y, BOTTOM, TOP))
    return {
        name: {"log": axis.log, "low": axis.low, "high": axis.high, "from": start, "to": end}
        for name, axis, start, end in ends
    }


def _check(controls, layers, fits, readouts, fields):
    known = {control.key: control for control in controls}
    keys = [item.key for item in (*layers, *fits, *readouts)]
    if len(known) < len(controls) or len(set(keys)) < len(keys):
        raise ValueError("a key stands twice")
    for control in controls:
        if control.kind not in CONTROLS:
            raise ValueError(f"no kind of control: {control.kind}")
        if not 0 <= control.start < len(control.values) or len(_texts(control)) != len(control.values):
            raise ValueError(f"control {control.key}: no value at the start, or not a text for each value")
    for item in (*layers, *readouts):
        missing = [key for key in item.by if key not in known or known[key].kind == "checks"]
        if missing:
            raise ValueError(f"{item.key}: no slider or select {missing[0]}")
        frames = math.prod(len(known[key].values) for key in item.by)
        given = len(item.y if isinstance(item, Layer) else item.values)
        if item.by and given != frames:
            raise ValueError(f"{item.key}: {given} frames for {frames} combinations")
    for layer in layers:
        _check_layer(layer, known, fields)
    for fit in fits:
        if fit.layer not in {layer.key for layer in layers if layer.kind != "band"} or fit.needs < 2:
            raise ValueError(f"{fit.key}: no layer {fit.layer} to fit, or fewer than 2 points needed")


def _check_layer(layer, known, fields):
    if layer.kind not in KINDS:
        raise ValueError(f"no kind of layer: {layer.kind}")
    if not 0 <= layer.field < len(fields):
        raise ValueError(f"{layer.key}: no field {layer.field}")
    for column, comparison, key in layer.where:
        operators = {"checks": ("in",)}.get(known[key].kind if key in known else None, ("=", ">=", "<="))
        if column not in layer.columns or key not in known or comparison not in operators:
            raise ValueError(f"{layer.key}: no condition {column} {comparison} {key}")
    across = [*layer.x] if layer.moves else [layer.x]
    if layer.moves and len(across) != len(layer.y):
        raise ValueError(f"{layer.key}: {len(across)} frames of x for {len(layer.y)} of y")
    up = []
    for frame in layer.y if layer.by else [layer.y]:
        up += frame if layer.kind == "band" else [frame]
    if len({len(part) for part in (*across, *layer.columns.values(), *up)}) != 1:
        raise ValueError(f"{layer.key}: lists of different lengths")
    for axis, values in ((fields[layer.field].x, across), (fields[layer.field].y, up)):
        if axis.log and any(value is not None and value <= 0 for part in values for value in part):
            raise ValueError(f"{layer.key}: a value that is not positive on the logarithmic {axis.label}")


def _plain(value):
    """Numbers of numpy and of Python as JSON has them, ``DIGITS`` significant; None for NaN."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return None if math.isnan(value) else int(short) if short.is_integer() else short
    return [_plain(part) for part in value]


def _texts(control):
    if control.texts is not None:
        return list(control.texts)
    return [value if isinstance(value, str) else f"{value:g}" for value in control.values]


def _state(controls):
    """What the controls stand at in the beginning."""
    parts = []
    for control in controls:
        texts = _texts(control)
        parts.append(
            f"{control.label} {', '.join(texts) if control.kind == 'checks' else texts[control.start]}"
        )
    return "; ".join(parts)


# The starting state, drawn as interactive.js draws it


def _start(data, controls):
    """({key: path}, {key: text}) of the starting state."""
    position = {control.key: control.start for control in controls}
    plain = {control["key"]: control for control in data["controls"]}
    chosen = {
        c.key: plain[c.key]["values"] if c.kind == "checks" else plain[c.key]["values"][c.start]
        for c in controls
    }

    def frame(by, frames):
        n = 0
        for key in by:
            n = n * len(plain[key]["values"]) + position[key]
        return frames[n] if by else frames

    paths, texts, drawn = {}, {}, {}
    for layer in data["layers"]:
        field = data["fields"][layer["field"]]
        x = layer["x"]
        if layer["by"] and x and isinstance(x[0], list):
            x = frame(layer["by"], x)
        points = _points(layer, x, frame(layer["by"], layer["y"]), chosen, field)
        paths[layer["key"]] = _path(layer["kind"], points, field)
        drawn[layer["key"]] = points, field
    for fit in data["fits"]:
        paths[fit["key"]], texts[fit["key"]] = _fitted(fit, *drawn[fit["layer"]])
    for readout in data["readouts"]:
        texts[readout["key"]] = frame(readout["by"], readout["values"])
    return paths, texts


def _points(layer, across, frame, chosen, field):
    """Pairs of numbers in which the axes are even, None where a value is missing."""

    def agrees(n):
        compare = {
            "=": lambda a, b: a == b,
            "in": lambda a, b: a in b,
            ">=": lambda a, b: a >= b,
            "<=": lambda a, b: a <= b,
        }
        return all(
            compare[how](layer["columns"][column][n], chosen[key]) for column, how, key in layer["where"]
        )

    def pairs(values):
        both = zip(across, values, strict=True)
        return [None if y is None else (_even(field["x"], x), _even(field["y"], y)) for x, y in both]

    if layer["kind"] == "band":
        low, high = map(pairs, frame)
        return [point for point in [*low, *reversed(high)] if point]
    return [point for n, point in enumerate(pairs(frame)) if agrees(n)]


def _even(axis, value):
    return math.log(value) if axis["log"] else value


def _pixel(axis, even):
    low, high = _even(axis, axis["low"]), _even(axis, axis["high"])
    return axis["from"] + (even - low) / (high - low) * (axis["to"] - axis["from"])


def _path(kind, points, field):
    steps, open_ = [], False
    for point in points:
        if point is None:
            open_ = False
            continue
        at = f"{_pixel(field['x'], point[0]):.1f} {_pixel(field['y'], point[1]):.1f}"
        if kind == "crosses":
            steps.append(f"M{at}m-4.5 -4.5l9 9m0 -9l-9 9")
        elif kind == "dots":
            steps.append(f"M{at}h0.01")
        else:
            steps.append(f"{'L' if open_ else 'M'}{at}")
            open_ = True
    return "".join(steps) + "Z" * (kind == "band" and bool(steps))


def least_squares(u, v, slope=None):
    """(slope, intercept) of the least-squares line v = slope u + intercept; with a slope, the best one."""
    centre, height = sum(u) / len(u), sum(v) / len(v)
    if slope is None:
        above = sum((a - centre) * (b - height) for a, b in zip(u, v, strict=True))
        slope = above / sum((a - centre) ** 2 for a in u)
    return slope, height - slope * centre


def _fitted(fit, points, field):
    found = [point for point in points if point]
    u = [point[0] for point in found]
    if len(set(u)) < fit["needs"]:
        return "", fit["none"]
    slope, intercept = least_squares(u, [point[1] for point in found], fit["slope"])
    path = _path("line", [(end, intercept + slope * end) for end in (min(u), max(u))], field)
    text = f"{slope:.{fit['digits']}f} ({len(found)} points)" if fit["slope"] is None else ""
    return path, text.replace("-", "−")


# HTML


def _control(control):
    key, label = html.escape(control.key), html.escape(control.label)
    texts = list(map(html.escape, _texts(control)))
    if control.kind == "slider":
        return (
            f'<label class="ab-slider"><span>{label}</span><input type="range" autocomplete="off" min="0" '
            f'max="{len(texts) - 1}" value="{control.start}" data-control="{key}" '
            f'aria-valuetext="{texts[control.start]}"><output aria-live="off">{texts[control.start]}</output>'
            "</label>"
        )
    if control.kind == "select":
        options = "".join(
            f'<option value="{n}"{" selected" * (n == control.start)}>{text}</option>'
            for n, text in enumerate(texts)
        )
        return f'<label>{label}<select autocomplete="off" data-control="{key}">{options}</select></label>'
    boxes = "".join(
        f'<label><input type="checkbox" autocomplete="off" checked data-control="{key}">{text}</label>'
        for text in texts
    )
    return f"<fieldset><legend>{label}</legend>{boxes}</fieldset>"


def _series(item, path, key=True):
    """A path in the colour of ``item``."""
    kind = getattr(item, "kind", "line")
    named = f' data-key="{html.escape(item.key)}"' if key else ""
    return (
        f'<path class="ab-series ab-{kind}{" ab-dashed" * item.dashed}"{named} '
        f'color="{item.colour}" d="{path}"/>'
    )


def _legend(layers, fits, readouts, texts):
    samples = {"line": "M0 6H26", "band": "M0 0H26V12H0Z", "dots": "M13 6h0.01", "crosses": _CROSS}
    rows = []
    for item in (*layers, *fits, *readouts):
        if not item.label:
            continue
        swatch = ""
        if not isinstance(item, Readout):
            sample = _series(item, samples[getattr(item, "kind", "line")], key=False)
            swatch = f'<svg viewBox="0 0 26 12" aria-hidden="true">{sample}</svg>'
        value = ""
        if item.key in texts:
            value = f' <output data-key="{html.escape(item.key)}">{html.escape(texts[item.key])}</output>'
        rows.append(f"<li>{swatch}<span>{html.escape(item.label)}</span>{value}</li>")
    return "".join(rows)


_CROSS = "M13 6m-4.5 -4.5l9 9m0 -9l-9 9"


def _ticks(axis):
    if axis.ticks is not None:
        return list(axis.ticks)
    if not axis.log:
        return [t for t in MaxNLocator(5).tick_values(axis.low, axis.high) if axis.low <= t <= axis.high]
    low, high = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    steps = (1, 2, 5) if axis.high <= 300 * axis.low else (1,)
    every = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return [tick for tick in every if axis.low <= tick * (1 + 1e-9) and tick <= axis.high * (1 + 1e-9)]


def _svg(identity, field, right, items, paths):
    scales, grid, marks = _scales(field, right), "", ""
    for tick in _ticks(field.x):
        at = f"{_pixel(scales['x'], _even(scales['x'], tick)):.1f}"
        grid += f"M{at} {TOP}V{BOTTOM}"
        marks += f'<text x="{at}" y="{BOTTOM + 20}" text-anchor="middle">{_tick(tick)}</text>'
    for tick in _ticks(field.y):
        at = _pixel(scales["y"], _even(scales["y"], tick))
        grid += f"M{LEFT} {at:.1f}H{right}"
        marks += f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
    x, y = html.escape(field.x.label), html.escape(field.y.label)
    return (
        f'<svg class="ab-picture" viewBox="0 0 {WIDTH - RIGHT + right} {HEIGHT}" role="img" '
        f'aria-label="{html.escape(field.alt)}"><clipPath id="{identity}">'
        f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{BOTTOM - TOP}"/></clipPath>'
        f'<path class="ab-grid" d="{grid}"/><path class="ab-axis" d="M{LEFT} {TOP}V{BOTTOM}H{right}"/>{marks}'
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" text-anchor="middle">{x}</text>'
        f'<text x="2" y="17">{y}</text><g clip-path="url(#{identity})">'
        f"{''.join(_series(item, paths[item.key]) for item in items)}</g></svg>"
    )


def _tick(value):
    return f"{value:g}".replace("-", "−")
