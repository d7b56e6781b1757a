"""Tables of the book: the HTML of a table, and the signs that stand in its cells."""

import html
import math
import re

import pandas as pd

from companion import findings
from companion.claims import (  # noqa: F401, some of which pages take from here
    CONTRADICTED,
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    NOT_RUN,
    OPEN,
    interval,
    spread,
)
from companion.pages.names import spoken

# What each outcome means, for one who points at it; the chapter "How to read a page" says it at length.
MEANS = {
    HOLDS: "our results lie where the paper says",
    CONTRADICTED: "our results lie on the other side of what the paper says",
    NO_EFFECT: "no effect, or one too small to matter",
    OPEN: "our results allow either answer",
    NOT_JUDGED: "too far from the paper's settings to say",
    NOT_RUN: "nothing was measured",
    findings.IN_PART: "some parts or settings hold, others do not",
    findings.FAILS: "our results contradict the paper, or show no effect that matters",
}
_TAG = re.compile(r"<[^>]*>")
# A letter on its own with a power, an index or both: l^-2, L^(3/5), c_l, I^f_l, σ_max^2; not fashion_mnist.
_POWER = r"\^(?:\(([^()]*)\)|(-?[A-Za-z0-9]+(?:\.\d+)?))"
_LETTER = re.compile(rf"(?<![^\W_])([^\W\d_]₀?)(?:{_POWER})?(?:_(ij|max|min|[\w∞])(?:{_POWER})?)?(?![^\W_ᵀ])")
_BRACKET = re.compile(rf"\){_POWER}")
_VERBATIM = re.compile(
    r'<(code|pre|script|style|svg|dt)\b.*?</\1>|<(span|div) class="math.*?</\2>|<[^>]*>|[^<]+', re.DOTALL
)
_NORM = re.compile(r"‖_(\w)(?!\w)")
# One digit, up to three: 1.2e-05 as Python writes a number, not the name of a commit like 31136e151277.
_POWER_OF_TEN = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e([+-]?)0*(\d{1,3})\b")
DECIMALS = 5  # at most, of a value with its interval
_PERCENT = re.compile(r"([\d)]) %")
_MARGIN = re.compile(r"± (?=[\d.])")
_LESS = re.compile(r"(?<=[\w)]) - (?=[^\W_]|\()")  # between two terms
_ENDS = re.compile(r"(?<=\d) to (?=[−+\d])")  # of an interval, which breaks behind the word alone
_BARE_PERCENT = re.compile(r"(?<=\d)%")
_NO_MINUS = re.compile(r"(?<![\w.^)-])-(?=0(?:\.0+)?(?![\d.]))")
_NEGATIVE = re.compile(r"(?<![\w.^)-])-(?=\d)")
_NEGATED = re.compile(r"(?<![^\s(])-(?=[^\W\d_])")  # a name with a minus: -corr, by -η w


def marked(text):
    """HTML of plain text in which ``l^-2``, ``L^(3/5)`` and ``c_l`` stand for powers and indices.

    Data sets have their proper names.
    """
    text = html.escape(_plain(spoken(str(text))), quote=False)
    return typeset(lettered(text))


def lettered(text):
    """HTML ``text`` without tags, its powers and indices set."""
    text = _NORM.sub("‖<sub>\\1</sub>", _LETTER.sub(_letter, text))
    return _BRACKET.sub(lambda found: f")<sup>{_minus(found[1] or found[2])}</sup>", text)


def lettered_prose(body):
    """The HTML ``body`` of a page, its powers and indices set, but for code and formulas."""
    return _VERBATIM.sub(lambda match: match[0] if match[0][0] == "<" else lettered(match[0]), body)


def _whole(text):
    return _MARGIN.sub("±\u00a0", _PERCENT.sub("\\1\u00a0%", text))


def _plain(text):
    """Plain ``text``, no HTML, with a space before percent signs and a minus before and between terms."""
    return _LESS.sub(" − ", _NEGATED.sub("−", _BARE_PERCENT.sub(" %", text)))


def typeset(text):
    """The numbers of an HTML ``text`` as one writes them by hand: powers of ten, a minus, 5 % in one line."""
    text = _whole(_NEGATIVE.sub("−", _NO_MINUS.sub("", text)))
    return _POWER_OF_TEN.sub(_power_of_ten, text)


def _power_of_ten(found):
    factor, sign, power = found.groups()
    if not float(factor) or power == "0":
        return factor if float(factor) else "0"
    return f"{factor}\u00a0×\u00a010<sup>{_minus(sign.strip('+'))}{power}</sup>"


def _letter(found):
    power, index, last = found[2] or found[3], found[4], found[5] or found[6]
    if not power and not index:
        return found[0]
    power = f"<sup>{_minus(power)}</sup>" if power else ""
    index = f"<sub>{index}</sub>" if index else ""
    last = f"<sup>{_minus(last)}</sup>" if last else ""
    return f'<span class="ab-letter">{found[1]}{power}{index}{last}</span>'


def _minus(text):
    return text.replace("-", "−")


def digits(value):
    """Three significant digits of a number, or all of a whole number of thousands."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def number(value):
    """A measured number in a table: three significant digits, or an empty cell."""
    if value is None:
        return ""
    return typeset(html.escape(_plain(value)) if isinstance(value, str) else digits(value))


def measured(value, ends, bars=()):
    """[HTML] of a value and of the two ends of its interval, all with the same decimals.

    So many that half the interval has two digits, and no number more than three; more where an end would look
    like 0 or like one of the ``bars`` that it is held against. Where that takes too many, each is written by
    itself.
    """
    low, high = ends
    if not (high > low and math.isfinite(high - low)):
        return [number(each) for each in (value, low, high)]
    largest = max(abs(each) for each in (value, low, high))
    decimals = max(0, min(1 - _exponent((high - low) / 2), 2 - _exponent(largest)))
    bars = [bar for bar in (0.0, *bars) if bar is not None]
    while decimals <= DECIMALS and any(
        end != bar and f"{end:.{decimals}f}" in (f"{bar:.{decimals}f}", f"-{bar:.{decimals}f}")
        for end in ends
        for bar in bars
    ):
        decimals += 1
    if decimals > DECIMALS:
        return [number(each) for each in (value, low, high)]
    return [typeset(f"{each:,.{decimals}f}") for each in (value, low, high)]


def _exponent(value):
    return math.floor(math.log10(value)) if value else 0


def badge(outcome, explained=False):
    """HTML of an outcome; ``explained``: what it means comes up where one points at it."""
    meaning = f' title="{html.escape(MEANS[outcome])}"' if explained else ""
    return f'<span class="ab-outcome ab-{outcome.replace(" ", "-")}"{meaning}>{outcome}</span>'


def table(rows, kind):
    """HTML of a table of class ``ab-<kind>``.

    rows : list of {column: HTML}, the same columns in each; ``id`` is no column but the row's anchor, and
    ``below`` what stands under it, as wide as the table. Phones show a column's name beside its cells.
    """
    columns = [name for name in rows[0] if name not in ("id", "below")] if rows else []
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = []
    for row in rows:
        anchored = f' id="{html.escape(row["id"])}"' if "id" in row else ""
        cells = "".join(f'<td data-label="{_TAG.sub("", name)}">{row[name]}</td>' for name in columns)
        body.append(f"<tr{anchored}>{cells}</tr>")
        if "below" in row:
            plain = 'style="border-top: 0; font-weight: normal"'
            wide = f'<td colspan="{len(columns)}" {plain}>{row["below"]}</td>'
            body.append(f"<tr {plain}>{wide}</tr>")
    return (
        f'<div class="ab-scroll"><table class="ab-table ab-{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def folded(title, body, open=False):
    """HTML that shows ``title``, and ``body`` when asked to, or at once where it is ``open``."""
    return f'<details class="ab-details"{" open" * open}><summary>{title}</summary>{body}</details>'


def numbers(frame, ready=False):
    """A data frame as a page shows it: one row of column names, beside them those of the index.

    An index that only counts the rows is left out. Texts are taken as :func:`marked` takes them, or with
    ``ready`` as HTML; floats get three significant digits, missing values a dash.
    """
    counted = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    names = [] if counted else [name or "" for name in frame.index.names]
    frame = frame.astype(object).where(frame.notna(), "–")
    if not ready:
        frame = frame.map(_cell).rename(columns=marked, index=marked)
    frame.columns.name = None
    text = frame.to_html(index=not counted, index_names=False, border=0, escape=False, classes="ab-numbers")
    for name in names:
        text = text.replace("<th></th>", f"<th>{marked(name)}</th>", 1)
    from IPython.display import HTML  # here: the probe's report has tables and no IPython

    return HTML(f'<div class="ab-scroll">{typeset(text)}</div>')


def _cell(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    return _ENDS.sub("\u00a0to ", marked(value).replace(" ±\u00a0", "\u00a0±\u00a0"))
