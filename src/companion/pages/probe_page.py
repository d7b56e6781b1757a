"""The probe's report: one page that stands by itself, drawn for light and dark, and the numbers as JSON."""

import html
import json
import re

import matplotlib as mpl

from alignbook import paths, system
from alignbook.errors import AlignbookError, on_one_line
from alignbook.probing import Probe
from companion.pages import probe_figures, style
from companion.pages.probe_words import ABOUT, SHOWS, SPOKEN, clauses
from companion.pages.tables import folded, number, table, typeset

EXAMPLE = "data/probe-example.json"
CSS = """
:root { color-scheme: light dark; --muted: #5f6670; --line: #d0d4da; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --muted: #aab2bd; --line: #41464d; --link: #7db8f0; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 50rem; }
@media (prefers-color-scheme: dark) {
  body { background: #14181e; color: #ced6dd; } .light { display: none; }
}
@media (prefers-color-scheme: light) { .dark { display: none; } }
h1 { line-height: 1.2; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; } a { color: var(--link); }
h3 { font-size: 1rem; margin: 1.5rem 0 0; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
.muted, figcaption { color: var(--muted); font-size: 0.9rem; }
.ab-scroll { overflow-x: auto; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; vertical-align: top; }
tbody tr { border-top: 1px solid var(--line); }
@media (max-width: 32rem) { /* facts below one another: beside, half of them would lie out of sight */
  .ab-facts :is(tbody, tr, td) { display: block; } .ab-facts thead { display: none; }
  .ab-facts td { padding: 0.1rem 0; } .ab-facts td:first-child { font-weight: 600; padding-top: 0.4rem; }
  .ab-facts td:not(:first-child)::before {
    content: attr(data-label); display: inline-block; min-width: 7rem; color: var(--muted);
  }
}
"""


def write(probe, folder, title):
    """Write ``report.html`` and ``report.json`` of a :class:`alignbook.probing.Probe` into ``folder``.

    Each is whole or as it was. Raises AlignbookError where the folder cannot be written to.
    """
    if why := system.unwritable(folder):
        raise AlignbookError(f"cannot write to {paths.shown(folder)}: {why}")
    data = json.dumps({"title": title, **probe.as_dict()}, indent=1, allow_nan=False)
    system.replace(folder / "report.json", data.encode("utf-8", "replace"))
    system.replace(folder / "report.html", page(probe, title).encode("utf-8", "replace"))
    return folder / "report.html"


def page(probe, title=None):
    """The report as HTML. What cannot be drawn is a line in it that says why."""
    if title is None:
        title = f"A probe of {next(iter(probe.network.values()), {}).get('class', 'a network')}"
    with mpl.rc_context():
        style.apply()
        return _in_words_of(probe, _page(probe, str(title)))


def _in_words_of(probe, text):
    """The text, which speaks of labels, of targets where these are numbers."""
    numbers = any("R²" in facts for facts in probe.network.values())
    return re.sub(r"\b(the|these|shuffled|and) labels\b", r"\1 targets", text) if numbers else text


def summary(probe):
    """HTML of the facts, what was found and what was left out, for a notebook's cell."""
    left = "".join(
        f"<li>{html.escape(name)}: {html.escape(why)}</li>" for name, why in probe.left_out.items()
    )
    missing = f"<p>Not measured:</p><ul>{left}</ul>" if left else ""
    return _in_words_of(probe, f"{table(_facts(probe), 'facts')}{_found(probe, None)}{_said(probe)}{missing}")


def _page(probe, title):
    parts = [f"<h1>{html.escape(title)}</h1>", table(_facts(probe), "facts"), _found(probe), _said(probe)]
    if "loss" in probe.notes:
        facts = next(iter(probe.network.values()), {})
        quality = next((f" and {name}" for name in ("accuracy", "R²") if name in facts), "")
        parts.append(f'<p class="muted">Loss{quality}: {html.escape(probe.notes["loss"])}.</p>')
    for name in ABOUT:
        parts += _section(probe, name)
    if probe.made:
        made = ", ".join(f"{name} {value}" for name, value in probe.made.items() if value is not None)
        parts.append(f'<p class="muted">Made with {html.escape(made)}.</p>')
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{CSS}</style></head><body>{body}</body></html>\n"
    )


def _section(probe, name):
    heading, paper, book, meaning, reading = ABOUT[name]
    parts = [
        f'<h2 id="{name}">{heading}</h2>'
        f'<p>{meaning} {reading} <span class="muted">{paper}: page <code>{book}</code>.</span></p>'
    ]
    missing = {}
    for key, why in probe.left_out.items():
        if key.partition(" ")[0] == name:
            missing.setdefault(why, []).append(key.removeprefix(name).removeprefix(" of "))
    for why, whose in missing.items():
        of = f" of {', '.join(whose)}" if any(whose) else ""
        parts.append(f'<p class="muted">Not measured{html.escape(of)}: {html.escape(why)}.</p>')
    if name not in probe.tables:
        return parts if missing else [*parts, '<p class="muted">Not measured.</p>']
    rows = probe.tables[name]
    if name in probe.notes:
        parts.append(f'<p class="muted">Measured on {html.escape(probe.notes[name])}.</p>')
    caption = f"<figcaption>{SHOWS[name]}</figcaption>"
    parts.append(_tried(lambda: _figure(name, probe_figures.drawn(name, rows), heading, caption)))
    parts.append(folded("The numbers", table(_cells(rows), name)))
    return parts


def _tried(draw):
    try:
        return draw()
    except Exception as error:  # whatever numbers and names a network may have
        why = html.escape(on_one_line(f"{type(error).__name__}: {error}"))
        return f'<p class="muted">The figure cannot be drawn: {why}.</p>'


def _facts(probe):
    columns = dict.fromkeys(name for known in probe.network.values() for name in known)
    return [
        {"": html.escape(SPOKEN.get(who, str(who))), **{name: _cell(known.get(name)) for name in columns}}
        for who, known in probe.network.items()
    ]


def _cell(value):
    if isinstance(value, float) or value is None:
        return number(value)
    return html.escape(f"{value:,}" if isinstance(value, int) else str(value).replace(" × ", "\u00a0×\u00a0"))


def _said(probe):
    """What a reader should know about the data and the networks."""
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in probe.said)
    return f'<ul class="muted">{lines}</ul>' if lines else ""


def _cells(rows):
    return [
        {
            name: number(value) if isinstance(value, float) else html.escape(str(value))
            for name, value in row.items()
        }
        for row in rows.replace({"network": SPOKEN}).to_dict("records")
    ]


def _found(probe, prefix=""):
    """A line per instrument, with numbers from its table; a link to ``prefix`` + its name, None: no link."""
    lines = []
    for name in (name for name in ABOUT if name in probe.tables):
        rows = probe.tables[name]
        try:
            said = clauses(name, rows, bool(probe.layers))
        except (KeyError, ValueError, TypeError, IndexError):  # a table of other numbers than these
            continue
        heading = ABOUT[name][0]
        linked = heading if prefix is None else f'<a href="#{prefix}{name}">{heading}</a>'
        count = probe.examples.get(name)
        linked += f", on {count:,} examples" if count else ""
        if said:
            lines.append(f"<li>{linked}{_listed(said)}</li>")
    return f"<ul>{''.join(lines)}</ul>"


def _listed(said):
    """``: what was found.``, or a list of it by network."""
    told = [(html.escape(whose), typeset(html.escape(found))) for whose, found in said]
    if len(told) == 1:
        return ": " + ": ".join(filter(None, told[0])) + "."
    return f"<ul>{''.join(f'<li>{whose}: {found}</li>' for whose, found in told)}</ul>"


def guide(pages):
    """Write the figures and findings of the example in ``data/probe-example.json`` into the folder ``pages``.

    The page ``probe.md`` includes ``probe-example.txt``.
    """
    style.apply()
    path = paths.root() / EXAMPLE
    if not path.is_file():
        (pages / "probe-example.txt").write_text("No example is stored.\n", encoding="utf-8")
        return
    found = Probe.from_json(path)
    folder = pages / "probe"
    folder.mkdir(exist_ok=True)
    parts = [table(_facts(found), "probe"), "", _found(found, "probe-"), ""]
    for name in (name for name in ABOUT if name in found.tables):
        rows = found.tables[name]
        heading, paper, book, meaning, reading = ABOUT[name]
        (folder / f"{name}.svg").write_text(probe_figures.drawn(name, rows), encoding="utf-8")
        parts += [f"(probe-{name})=", f"### {heading}", "", f"{meaning} {reading} {paper}: [](/{book}).", ""]
        parts += [
            f"```{{figure}} probe/{name}.svg",
            f":alt: {heading}",
            ":width: 100%",
        ]
        parts += ["", SHOWS[name], "```", ""]
    (pages / "probe-example.txt").write_text("\n".join(parts), encoding="utf-8")


def _figure(name, svg, label, caption=""):
    svg = svg[svg.index("<svg") :]
    both = []
    for mode, text in (("light", svg), ("dark", style.darkened(svg))):
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-{mode}-", text)  # many figures in one page
        both.append(f'<div class="{mode}">{text}</div>')
    drawing = f'<div role="img" aria-label="{html.escape(label)}">{"".join(both)}</div>'
    return f"<figure>{drawing}{caption}</figure>"
