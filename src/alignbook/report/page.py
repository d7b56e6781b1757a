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
.muted { color: var(--muted); font-size: 0.9rem; }
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
    remarks = "".join(f"<li>{html.escape(line)}</li>" for line in probe.said)
    parts = [f"<h1>{title}</h1>", facts(probe), findings(probe), f'<ul class="muted">{remarks}</ul>']
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


def facts(probe) -> str:
    """HTML of a table with a row for each network."""
    frame = pd.DataFrame.from_dict(probe.network, orient="index")
    frame.index = [SPOKEN.get(who, str(who)) for who in frame.index]
    return _table(frame, index=True)


def findings(probe, prefix: str = "") -> str:
    """HTML list of a sentence for each instrument, linked to ``prefix`` + its name."""
    lines = []
    for name in (name for name in ABOUT if name in probe.tables):
        linked = f'<a href="#{prefix}{name}">{ABOUT[name][0]}</a>'
        if count := probe.examples.get(name):
            linked += f", on {count:,} examples"
        items = "".join(
            f"<li>{html.escape(whose)}: {html.escape(sentence)}</li>"
            for whose, sentence in sentences(name, probe.tables[name])
        )
        lines.append(f"<li>{linked}<ul>{items}</ul></li>")
    return f"<ul>{''.join(lines)}</ul>"


def _section(probe, name):
    heading, paper, study, meaning = ABOUT[name]
    rows, parts = probe.tables.get(name), [f'<h2 id="{name}">{heading}</h2>']
    lines = [
        f"Not measured: {key}: {why}." for key, why in probe.left_out.items() if key.partition(" ")[0] == name
    ]
    if rows is None:
        lines = lines or ["Not measured."]
    else:
        parts.append(f'<p>{meaning} <span class="muted">{paper}: page <code>{study}</code>.</span></p>')
        lines += [f"Measured on {probe.notes[name]}."] if name in probe.notes else []
    parts += [f'<p class="muted">{html.escape(line)}</p>' for line in lines]
    if rows is not None:
        numbers = _table(rows.replace({"network": SPOKEN}))
        parts.append(_figure(name, rows, heading))
        parts.append(f"<details><summary>The numbers</summary>{numbers}</details>")
    return parts


def _figure(name, rows, heading):
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}):  # which makes the ids in one page differ
        figure(name, rows).savefig(out, format="svg", metadata={"Date": None})
    svg = out.getvalue()
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", svg[svg.index("<svg") :])
    return f'<figure role="img" aria-label="{html.escape(heading)}">{svg}</figure>'


def _table(frame, index=False):
    frame = frame.astype(object).where(frame.notna(), "")
    frame = frame.map(lambda v: digits(v) if isinstance(v, float) else f"{v:,}" if type(v) is int else str(v))
    with pd.option_context("display.max_colwidth", None):
        return f'<div class="ab-scroll">{frame.to_html(index=index, border=0, classes="ab-table")}</div>'
