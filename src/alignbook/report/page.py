"""The report as one HTML page, its figures inside."""

import html
import io
import re

import matplotlib as mpl
import pandas as pd

from .figures import figure
from .words import ABOUT, SPOKEN, digits, sentences

CSS = """
:root { color-scheme: light dark; --muted: #5f6670; --line: #d0d4da; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --muted: #aab2bd; --line: #41464d; --link: #7db8f0; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 50rem; }
@media (prefers-color-scheme: dark) { body { background: #14181e; color: #ced6dd; } }
h1 { line-height: 1.2; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; } a { color: var(--link); }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; background: #fff; border-radius: 6px; }
.muted, figcaption { color: var(--muted); font-size: 0.9rem; }
.ab-scroll { overflow-x: auto; } code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; vertical-align: top; }
tbody tr { border-top: 1px solid var(--line); }
"""


def page(probe, title: str | None = None) -> str:
    """The report of a :class:`alignbook.Probe` as HTML."""
    if title is None:
        title = f"A probe of {next(iter(probe.network.values()), {}).get('class', 'a network')}"
    title = html.escape(title)
    parts = [f"<h1>{title}</h1>", facts(probe), findings(probe), _remarks(probe)]
    if "loss" in probe.notes:
        parts.append(f'<p class="muted">Loss: {html.escape(probe.notes["loss"])}.</p>')
    for name in ABOUT:
        parts += _section(probe, name)
    if probe.made:
        settings = ", ".join(f"{name} {value}" for name, value in probe.made.items() if value is not None)
        parts.append(f'<p class="muted">Made with {html.escape(settings)}.</p>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{CSS}</style></head>"
        f"<body>{chr(10).join(parts)}</body></html>\n"
    )


def summary(probe) -> str:
    """HTML of facts, findings and what was left out, for a notebook's cell."""
    items = "".join(
        f"<li>{html.escape(name)}: {html.escape(why)}</li>" for name, why in probe.left_out.items()
    )
    missing = f"<p>Not measured:</p><ul>{items}</ul>" if items else ""
    return facts(probe) + findings(probe, None) + _remarks(probe) + missing


def facts(probe) -> str:
    """HTML of a table with a row for each network."""
    frame = pd.DataFrame.from_dict(probe.network, orient="index")
    frame.index = [SPOKEN.get(who, str(who)) for who in frame.index]
    return _table(frame, index=True)


def findings(probe, prefix: str | None = "") -> str:
    """HTML list of a sentence for each instrument, linked to ``prefix`` + its name; None: without links."""
    lines = []
    for name in (name for name in ABOUT if name in probe.tables):
        heading = ABOUT[name][0]
        linked = heading if prefix is None else f'<a href="#{prefix}{name}">{heading}</a>'
        if count := probe.examples.get(name):
            linked += f", on {count:,} examples"
        items = "".join(
            f"<li>{html.escape(whose)}: {html.escape(sentence)}</li>"
            for whose, sentence in sentences(name, probe.tables[name])
        )
        lines.append(f"<li>{linked}<ul>{items}</ul></li>")
    return f"<ul>{''.join(lines)}</ul>"


def _section(probe, name):
    heading, paper, study, meaning, shows = ABOUT[name]
    missing = [
        f'<p class="muted">Not measured: {html.escape(f"{key}: {why}")}.</p>'
        for key, why in probe.left_out.items()
        if key.partition(" ")[0] == name
    ]
    if name not in probe.tables:
        return [f'<h2 id="{name}">{heading}</h2>', *(missing or ['<p class="muted">Not measured.</p>'])]
    parts = [
        f'<h2 id="{name}">{heading}</h2>'
        f'<p>{meaning} <span class="muted">{paper}: page <code>{study}</code>.</span></p>',
        *missing,
    ]
    rows = probe.tables[name]
    if name in probe.notes:
        parts.append(f'<p class="muted">Measured on {html.escape(probe.notes[name])}.</p>')
    numbers = _table(rows.replace({"network": SPOKEN}))
    return [
        *parts,
        _figure(name, rows, heading, shows),
        f"<details><summary>The numbers</summary>{numbers}</details>",
    ]


def _figure(name, rows, heading, shows):
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):  # which makes the ids in one page differ
        figure(name, rows).savefig(out, format="svg", metadata={"Date": None})
    svg = out.getvalue()
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", svg[svg.index("<svg") :])
    return (
        f'<figure><div role="img" aria-label="{html.escape(heading)}">{svg}</div>'
        f"<figcaption>{shows}</figcaption></figure>"
    )


def _table(frame, index=False):
    frame = frame.astype(object).where(frame.notna(), "")
    frame = frame.map(lambda v: digits(v) if isinstance(v, float) else f"{v:,}" if type(v) is int else str(v))
    with pd.option_context("display.max_colwidth", None):
        return f'<div class="ab-scroll">{frame.to_html(index=index, border=0, classes="ab-table")}</div>'


def _remarks(probe):
    """What a reader should know about the data and the networks."""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in probe.said)
    return f'<ul class="muted">{items}</ul>' if items else ""
