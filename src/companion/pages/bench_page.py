"""The book's page of benchmarks, made from what ``make bench`` has stored on each machine."""

import html
import json
import math
import textwrap

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from alignbook import paths
from companion.pages import quantities, style, tables
from companion.pages.names import spoken

LEAD = """\
# Benchmarks

How fast are the kernels of this package, and how much memory do they take, beside what one would otherwise
reach for? `make bench` measures that on the machine it runs on and stores it; this page draws what is
stored. No number that it measured is typed in.
"""
AIMS = """\
## Aims

Each aim names a peer as its documentation has it. Where another way that we know is faster than that peer,
it stands below. How all this is measured, and when aims and peers were chosen, is said below the table.
"""
METHOD = """\
## How it is measured

**How.** Each way to do a task has a process of its own, which keeps its data and stays warm. The processes
are asked in turn (ours, peer, ours, peer, …), so that what disturbs the machine disturbs all of them; all
use the same number of threads and the same cores. A time is the median of at least five runs; the row that
takes most of a minute has one or two. Below it stand the fastest and the slowest run, and how many there
were. Memory is the peak of one run above what its process held before, its data and libraries included.
Each comparison also compares the answers: where they differ by more than its tolerance, the comparison
counts as an error and reaches no aim, however fast it was. A peer marked *not converged* stops early by its
own default, one of *other precision* is more exact; the distance is shown, and decides nothing. A
reference in float64 that is not a peer was computed once, untimed, and compared entry by entry.
Tasks on images take CIFAR-10 where it is at hand, else tiled photographs with noise; on these PyHessian
stops sooner, and its ratio is smaller.

**Peers** run as their documentation has it, and beside that in the fastest way we know, where there is one.
On AMD processors of family 26 and later PyTorch's float32 products take a library, MKL, that uses half of
the processor; our kernels then ask for the other one, oneDNN. That helps every user of PyTorch, not our
kernels alone: rows *with oneDNN* are the same peer with the same choice. Aims are about peers as their
documentation has them.

**The floor** of a task is the time that its arithmetic takes at the rate of matrix products which PyTorch
and NumPy reach on this machine, or that its memory traffic takes at the bandwidth of a copy, whichever is
longer. Rates are the best of two measurements, before and after all tasks; the operations are those of the
best algorithm we know for the task, which need not be the peer's. No method may reach it: for the Hessian
it counts 20 products, of which any method needs more, and for a curve one Gram matrix, which six decades do
not allow. “1.4 times the floor” is the distance from this bound.

**The aims** stand in the definition of each task (`benchmarks/`). Most were set before the first measurement.
Those of accuracy for ResNet-18, VGG-19 and 50,000 images came later, as did some tolerances, Figure 3's
deepest network, which has no aim, and the rows *with oneDNN*, *channels last*, *sums in float64* and
*lax.map*. Two aims about peers were replaced by one on the floor when the floor turned out to rule them out
on some machines. An aim that is missed is shown as missed. Each row names the commit and the date of its
measurement: compare machines only where these are the same.
"""
NO_GPU = (
    "**Nothing here was timed on a GPU**, and aims for one are not judged. The code for it passed its "
    "tests on an H100 on 26 November 2026: the Triton kernel, and training steps that CUDA graphs replay. "
    "Elsewhere Triton's interpreter and a recorder stand in for the GPU."
)
NOTHING = (
    "**No machine has stored results yet.** `make bench` takes about seventeen minutes and writes them to "
    "`benchmarks/results`."
)
WIDE = 4.8  # inches of the picture of times, which a phone shows whole: its text is 11 pixels tall there
TITLE = 54  # characters in a line of its width
COLUMN = 1.75  # inches of a panel over sizes, of which a phone shows two side by side
OUTCOMES = {True: "reached", False: "missed", None: "not judged"}


def write(pages):
    """Write ``benchmarks.md`` and its drawings into the folder ``pages``."""
    stored = read()
    parts = [LEAD]
    if not stored:
        parts += [NOTHING, ""]
    if not any(_environments(machine)[0]["kind"] == "cuda" for machine in stored.values()):
        parts += [NO_GPU, ""]
    compared = [machine for machine in stored.values() if machine["comparisons"]]
    if rows := _aims(compared):
        parts += [AIMS, _summary(compared), "", tables.table(rows, "aims"), ""]
    parts.append(METHOD)
    (pages / "benchmarks").mkdir(parents=True, exist_ok=True)
    for name, machine in sorted(stored.items(), key=lambda item: not item[1]["comparisons"]):
        parts += _machine(name, machine, pages)
    (pages / "benchmarks.md").write_text("\n".join(parts) + "\n", encoding="utf-8")


def read():
    """{file name without ending: stored results}, in the order of the names."""
    result = {}
    for path in sorted((paths.root() / "benchmarks" / "results").glob("*.json")):
        machine = json.loads(path.read_text(encoding="utf-8"))
        for record in _records(machine):
            record["environment"] = machine["environments"][record["environment"]]
        result[path.stem] = machine
    return result


def _records(machine):
    kinds = ("comparisons", "scalings", "notebooks", "clusters")
    return [record for kind in kinds for record in machine.get(kind, {}).values()]


def _environments(machine):
    found = [record["environment"] for record in _records(machine)]
    return list({json.dumps(environment, sort_keys=True): environment for environment in found}.values())


def _machine(name, machine, pages):
    parts = ["", f"## {machine['machine']}", "", _facts(machine), ""]
    compared = machine["comparisons"]
    if compared:
        draw_times(compared, pages / "benchmarks" / f"{name}-times.svg")
        fastest = "Times of every comparison on a logarithmic axis, one row each: ours, the peers, the floor."
        parts += _figure(
            f"benchmarks/{name}-times.svg",
            f"bench-{name}-times",
            fastest,
            "Circles: ours; squares: the others, each named below it; where two coincide, one hides the "
            "other. Medians, and lines from the fastest to the slowest run. Green: the floor. Left is "
            "faster.",
        )
        side_by_side = tables.table(_rows(compared), "bench")
        parts += [tables.folded(f"Side by side: {len(compared)} tasks in numbers", side_by_side), ""]
    groups = {}
    for scaling, record in machine["scalings"].items():
        groups.setdefault(scaling.split("/")[0], {})[scaling] = record
    if groups:
        parts += ["### Over sizes", "", SCALING, ""]
    for group, records in groups.items():
        draw_scaling(records, pages / "benchmarks" / f"{name}-{group}.svg")
        axes = ", ".join(record["axis"] for record in records.values())
        parts += _figure(
            f"benchmarks/{name}-{group}.svg",
            f"bench-{name}-{group}",
            f"Time and memory of {group} over {axes} with logarithmic axes, measured points, a fitted line "
            "and a dashed line that has the expected slope.",
            f"`{group}`, measured (dots), fitted (solid), expected (dashed); above the panels the exponents: "
            + "; ".join(f"over {record['axis']} ({record['title']})" for record in records.values())
            + ".",
        )
    if groups:
        rows = [_exponents(name, record) for name, record in machine["scalings"].items()]
        parts += [tables.folded("The exponents", tables.table(rows, "bench")), ""]
    if machine["notebooks"]:
        rows = [_notebook(record) for record in machine["notebooks"].values()]
        parts += ["### Whole notebooks", "", NOTEBOOKS, "", tables.table(rows, "bench"), ""]
    for record in machine.get("clusters", {}).values():
        rows = [_cluster(run) for run in record["runs"]]
        parts += ["### On a cluster", "", CLUSTER, "", tables.table(rows, "bench"), ""]
    return parts


SCALING = """\
The exponent of a straight line through the logarithms, beside the one that a line through the operation
count, or through the bytes that must be held, has over the same sizes. A time that grows faster than its
operations would be a defect; one that grows more slowly pays overheads at the small end. Expected
bytes are those that the algorithm must hold; where that is a few MiB, what libraries add outweighs it.
"""
NOTEBOOKS = """\
From parameters to stored results, Python's start and loading the data included, with nothing stored at the
start: this code, and the last commit before its kernels, given the same parameters. “Speed-up” adds
up the computing times of the jobs that both commits name: a notebook may have more of them now. The earlier
commit is not measured where no code that a notebook's jobs reach has changed since. A notebook without a
row has not been measured.
"""
CLUSTER = """\
`alignbook run --scheduler` with jobs of milliseconds, so that most of the time is overhead: scheduling,
checking, sending and storing. The scheduler, workers of one thread each and the client share this machine,
and the client also stores every job: more workers than cores do not make it faster. The
clock starts when all workers are there and have computed once. “Cost of a job”: the whole time, less
the jobs' own shared among the workers, by the number of jobs.
"""


def _facts(machine):
    records = _environments(machine)
    first = records[0]
    rates = {}
    for record in records:
        for kind, rate in record.get("rates", {}).items():
            rates.setdefault(kind, []).append(rate / 1e9)
    units = {"bytes": "GB/s"}
    facts = {
        "Threads": ", ".join(sorted({str(record["threads"]) for record in records})),
        "Instruction sets": ", ".join(first["features"]) or "unknown",
        "Memory": quantities.memory(first["memory_bytes"]),
        **{
            "Bandwidth" if kind == "bytes" else kind: f"{_span(found)} {units.get(kind, 'GFLOP/s')}"
            for kind, found in rates.items()
        },
        "Python": first["python"],
        **{k: v for k, v in first["versions"].items() if v},
        "Date": ", ".join(sorted({record["date"] for record in records})),
        "Commit": ", ".join(sorted({_commit(record) for record in records})),
    }
    items = "".join(f"<div><dt>{k}</dt><dd>{html.escape(str(v))}</dd></div>" for k, v in facts.items())
    return f'<div class="ab-banner" role="note"><dl>{items}</dl></div>'


def _commit(environment):
    changes = " + changes" if environment["changed"] else ""
    return f"{environment['commit'] or 'not in git'}{changes}"


def _span(values):
    low, high = (f"{end:,.0f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _figure(path, label, alt, caption):
    return [
        f"```{{figure}} {path}",
        f":name: fig-{label}",
        f":alt: {alt}",
        ":width: 100%",
        "",
        caption,
        "```",
        "",
    ]


def _rows(compared):
    rows = []
    for name, record in compared.items():
        ours, *peers = record["contenders"]
        floor = record["floor"]["seconds"]
        answers = {answer["against"]: answer for answer in record["agreement"]["answers"]}
        for number, peer in enumerate(peers or [None]):
            row = {
                "Task": html.escape(spoken(record["title"])) if number else _work(name, record),
                "Ours": _measured(ours),
                "Peer": f"none: {html.escape(record['alone'])}",
                "Speed-up": "",
                "Floor": _lines(
                    quantities.seconds(floor), f"{quantities.factor(ours['median'] / floor)} times"
                ),
                "Agreement": "",
            }
            if peer:
                answer = answers[peer["name"]]
                row["Peer"] = _measured(peer, html.escape(quantities.versioned(peer)))
                row["Speed-up"] = "–"
                if answer["agrees"] is not False:
                    row["Speed-up"] = f"{quantities.factor(peer['median'] / ours['median'])} times"
                row["Agreement"] = _lines(*quantities.agreement(answer).split(" ", 1))
            if not number:
                row["Agreement"] += "".join(
                    _lines(html.escape(against), quantities.agreement(answer))
                    for against, answer in answers.items()
                    if against not in {other["name"] for other in peers}
                )
            rows.append(row)
    return rows


def _work(name, record):
    small = [record["note"], f"Agreement: {record['agreement']['what']}." if not record["alone"] else ""]
    return _lines(
        html.escape(spoken(record["title"])),
        *(html.escape(text) for text in small if text),
        f"<code>{html.escape(name)}</code> at <code>{_commit(record['environment'])}</code>, "
        f"{record['environment']['date']}",
    )


def _measured(contender, head=""):
    times = contender["seconds"]
    ends = [quantities.seconds(end) for end in (min(times), max(times))]
    if ends[0].split()[1] == ends[1].split()[1]:
        ends[0] = ends[0].split()[0]
    small = [" to ".join(ends), f"{len(times)} runs"] if len(times) > 1 else ["one run"]
    small.append(quantities.memory(contender["memory"]))
    small += [f"{html.escape(name)} {value:.1e}" for name, value in contender["facts"].items()]
    return _lines(f"{head}<br>{quantities.seconds(contender['median'])}".removeprefix("<br>"), *small)


def _lines(first, *small):
    """One block, so that a narrow screen does not set the lines side by side."""
    lines = f"{first}{''.join(f'<br><small>{line}</small>' for line in small)}"
    return f"<div>{tables.typeset(lines)}</div>"


def _aims(machines):
    """One row per aim, one column per machine."""
    rows = {}
    for machine in machines:
        for name, record in machine["comparisons"].items():
            for aim in record["aims"]:
                first = _lines(html.escape(aim["text"]), f"<code>{html.escape(name)}</code>")
                row = rows.setdefault((name, aim["text"]), {"Aim": first})
                row[html.escape(machine["machine"])] = _reached(aim, record)
    columns = ["Aim", *(html.escape(machine["machine"]) for machine in machines)]
    return [{column: row.get(column, "–") for column in columns} for row in rows.values()]


def _reached(aim, record):
    small = [quantities.reached(aim)]
    if aim["quantity"] == "faster":
        ours, *peers = record["contenders"]
        wrong = {a["against"] for a in record["agreement"]["answers"] if a["agrees"] is False}
        best = min((p for p in peers if p["name"] not in wrong), key=lambda p: p["median"], default=None)
        if best and best["name"] != aim["against"]:
            ratio = quantities.factor(best["median"] / ours["median"])
            small.append(f"{html.escape(best['name'])}: {ratio} times")
    return _lines(tables.badge(OUTCOMES[aim["reached"]]), *small)


def _summary(machines):
    lines = []
    for machine in machines:
        aims = [aim["reached"] for record in machine["comparisons"].values() for aim in record["aims"]]
        counts = ", ".join(f"{aims.count(key)} {word}" for key, word in OUTCOMES.items() if aims.count(key))
        lines.append(f"- {machine['machine']}: {len(aims)} aims: {counts or 'none'}.")
    return "\n".join(lines)


def _exponents(name, record):
    def shown(key):
        value = record["exponents"][key]
        return "unknown" if value is None else f"{round(value, 2) + 0.0:.2f}"

    sizes = ", ".join(str(point["size"]) for point in record["points"])
    return {
        "Kernel": _lines(f"<code>{html.escape(name.split('/')[0])}</code>", html.escape(record["title"])),
        "Over": f"{html.escape(record['axis'])} = {sizes}",
        "Time": _lines(shown("time"), f"expected {shown('expected time')}"),
        "Memory": _lines(shown("memory"), f"expected {shown('expected memory')}"),
    }


def _notebook(record):
    before, after = record["before"], record["after"]
    row = {
        "Notebook": _lines(f"<code>{html.escape(record['title'])}</code>", f"profile {record['profile']}"),
        "Now": _whole(after),
        "Before": "the same code",
        "Speed-up": "",
    }
    if before:
        both = before["jobs"].keys() & after["jobs"].keys()
        row["Before"] = _whole(before)
        times = [sum(side["jobs"][job] for job in both) for side in (before, after)]
        row["Speed-up"] = f"{quantities.factor(times[0] / times[1])} times" if both else "–"
    return row


def _cluster(run):
    own = run["computing"] / run["workers"]
    return {
        "Cluster": f"{run['workers']} worker{'s' * (run['workers'] > 1)}",
        "Jobs": f"{run['jobs']:,}",
        "Whole time": quantities.seconds(run["seconds"]),
        "A job's own": quantities.seconds(run["computing"] / run["jobs"]),
        "Cost of a job": quantities.seconds(max(0.0, run["seconds"] - own) / run["jobs"]),
    }


def _whole(side):
    # Not in minutes, so that the two sides of a row have one unit.
    took = f"{side['seconds']:,.0f} s" if side["seconds"] >= 100 else quantities.seconds(side["seconds"])
    return _lines(took, f"{len(side['jobs'])} jobs, {side['commit']}")


def draw_times(compared, path):
    """Draw the times of comparisons, {name: record}, into the SVG file ``path``."""
    times = [
        t for r in compared.values() for c in r["contenders"] for t in (c["median"], r["floor"]["seconds"])
    ]
    decades = math.log10(max(times) / min(times)) + 1
    with mpl.rc_context():
        style.apply()
        figure = Figure()
        axes = figure.subplots()
        top = 0.0  # inches from the upper end of the axes
        for record in compared.values():
            lines = textwrap.wrap(spoken(record["title"]).replace(" = ", "\u00a0=\u00a0"), TITLE)
            axes.text(
                0, top + 0.06, "\n".join(lines), transform=axes.get_yaxis_transform(), va="top"
            ).set_in_layout(False)  # it may be wider than the axes, which it would narrow
            row = top + 0.22 * (len(lines) - 1) + 0.37
            axes.plot(record["floor"]["seconds"], row, "|", color=style.COLOURS["floor"], ms=13, mew=2.5)
            levels = _levels(record["contenders"], decades / (WIDE - 0.5))
            for place, contender in enumerate(record["contenders"]):
                colour = style.SEQUENCE[(0, 1, 3, 4, 6, 7)[place]]  # the third is the floor's
                spread = [min(contender["seconds"]), max(contender["seconds"])]
                axes.plot(spread, [row, row], color=colour, lw=2)
                axes.plot(
                    contender["median"], row, "o" if place == 0 else "s", color=colour, ms=7, zorder=9 - place
                )
                axes.text(
                    contender["median"],
                    row + 0.19 + 0.17 * levels[place],
                    _label(contender),
                    color=colour,
                    ha="center",
                    va="center",
                )
            top = row + 0.33 + 0.17 * max(levels)
            axes.axhline(top, color="0.9", lw=0.8)
        axes.set(xscale="log", xlabel="seconds", ylim=(top, 0), yticks=[])
        axes.set_xlim(min(times) / 10**0.5, max(times) * 10**0.5)
        axes.spines["left"].set_visible(False)
        figure.set_size_inches(WIDE, top + 0.6)
        path.write_text(style.svg(figure), encoding="utf-8")


def _label(contender):
    return "ours" if contender["name"] == "alignbook" else contender["name"]


def _levels(contenders, decades_per_inch):
    """How many lines below the first each contender's label stands, so that none hides another."""
    taken, levels = [], [0] * len(contenders)
    for place, contender in sorted(enumerate(contenders), key=lambda pair: pair[1]["median"]):
        centre = math.log10(contender["median"])
        half = (0.048 * len(_label(contender)) + 0.05) * decades_per_inch
        level = 0
        while any(line == level and end > centre - half for line, end in taken):
            level += 1
        taken.append((level, centre + half))
        levels[place] = level
    return levels


def draw_scaling(records, path):
    """Draw time and memory of one kernel over its sizes, {name: record}, into the SVG file ``path``."""
    with mpl.rc_context():
        style.apply()
        figure = Figure(figsize=(COLUMN * max(len(records), 3), 4.8))
        grid = figure.subplots(2, len(records), sharex="col", sharey="row", squeeze=False)
        for column, record in enumerate(records.values()):
            sizes = [point["size"] for point in record["points"]]
            for row, (quantity, unit, key) in enumerate(
                (("time", "seconds", "median"), ("memory", "MiB", "memory"))
            ):
                axes = grid[row][column]
                values = [point[key] for point in record["points"]]
                if all(values):
                    scale = 2**20 if quantity == "memory" else 1
                    _line(axes, sizes, [value / scale for value in values], record["exponents"], quantity)
                axes.set(xscale="log", yscale="log")
                axes.set_xticks(sizes, [str(size) for size in sizes], rotation=60)
                axes.minorticks_off()
                if column == 0:
                    axes.set_ylabel(unit)
                if row == 1:
                    axes.set_xlabel(record["axis"])
        for axes in grid[:, 0]:
            low, high = axes.get_ylim()
            if high < 100 * low:  # powers of ten alone would leave it without a number or two
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter("{x:g}")
        path.write_text(style.svg(figure), encoding="utf-8")


def _line(axes, sizes, values, exponents, quantity):
    axes.plot(sizes, values, "o", color=style.SEQUENCE[0])
    centre = _geometric_mean(sizes), _geometric_mean(values)
    titles = []
    for key, look in ((quantity, "-"), (f"expected {quantity}", "--")):
        slope = exponents[key]
        if slope is not None:
            colour = style.SEQUENCE[0] if look == "-" else style.COLOURS["theory"]
            axes.plot(sizes, [centre[1] * (size / centre[0]) ** slope for size in sizes], look, color=colour)
            titles.append(f"{round(slope, 2) + 0.0:.2f}".replace("-", "−"))
    axes.set_title("\n(expected ".join(titles) + ")" * (len(titles) == 2), fontsize=10)


def _geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))
