"""The example of the page ``probe.md``: facts, findings and figures of a stored probe."""

from alignbook import paths, report
from alignbook.probing import Probe
from alignbook.report.page import facts, findings
from companion.pages import style

EXAMPLE = "data/probe-example.json"


def write(pages):
    """Write what ``probe.md`` includes, ``probe-example.txt`` and its figures, into the folder ``pages``."""
    path = paths.root() / EXAMPLE
    if not path.is_file():
        (pages / "probe-example.txt").write_text("No example is stored.\n", encoding="utf-8")
        return
    style.apply()
    probe = Probe.from_json(path)
    folder = pages / "probe"
    folder.mkdir(exist_ok=True)
    parts = [facts(probe), "", findings(probe, "probe-"), ""]
    for name in (name for name in report.ABOUT if name in probe.tables):
        heading, paper, study, meaning = report.ABOUT[name]
        svg = style.svg(report.figure(name, probe.tables[name]))
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        parts += [f"(probe-{name})=", f"### {heading}", "", f"{meaning} {paper}: [](/{study}).", ""]
        parts += [f"```{{figure}} probe/{name}.svg", f":alt: {heading}", ":width: 100%"]
        parts += ["```", ""]
    (pages / "probe-example.txt").write_text("\n".join(parts), encoding="utf-8")
