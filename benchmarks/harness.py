"""Run comparisons in alternating processes, judge them, and keep what was measured."""

import hashlib
import json
import math
import statistics
from pathlib import Path

from alignbook import system
from companion.pages import quantities

from . import machine, texts
from .work import Contender, entrywise_error
from .worker import Worker

SHORT = 3.0  # seconds: a contender that takes less in all of its runs gets more of them
MOST = 15  # runs at most
RESULTS = machine.ROOT / "benchmarks" / "results"
KINDS = ("comparisons", "scalings")  # of records


def measure_rates(threads, device, seconds=1.0):
    """The machine's rates, see :func:`benchmarks.machine.measure_rates`."""
    contender = Contender("rates", "torch", machine.measure_rates)
    with Worker(machine.rates_setup, contender, threads, device) as worker:
        worker.load({"seconds": seconds})
        worker.run()
        return worker.answer()


def compare(work, threads, device, say=print):
    """Measure one :class:`benchmarks.work.Work`; returns its record, a dict for JSON, not yet assessed.

    say : callable(text), called as it goes. Raises ContenderError when a contender fails.
    """
    tried = tuple(contender for contender in work.contenders if contender.device in (None, device))
    workers = [Worker(work.setup, contender, threads, device) for contender in tried]
    seconds = {contender.name: [] for contender in tried}
    memory = {}
    try:
        for worker in workers:
            contender = worker.contender
            say(f"warming up {contender.name}")
            worker.load(work.small)  # loads libraries
            worker.run()
            worker.load(work.sizes)
            if contender.compiles:  # for every shape anew: that memory is not the work's
                worker.run()
            spent, memory[contender.name] = worker.memory()
            say(f"{contender.name} {quantities.seconds(spent)}, {texts.memory(memory[contender.name])}")
            if spent > SHORT:  # so long that what is cold hardly matters: counts as the first round
                seconds[contender.name].append(spent)
        while waiting := [w for w in workers if _goes_on(seconds[w.contender.name], work.repeats)]:
            for worker in waiting:
                seconds[worker.contender.name].append(worker.run())
            last = ", ".join(
                f"{w.contender.name} {quantities.seconds(seconds[w.contender.name][-1])}" for w in waiting
            )
            say(f"round {max(map(len, seconds.values()))}: {last}")
        ours, *others = (worker.answer() for worker in workers)
        errors = [work.error(ours, theirs) for theirs in others]
        facts = {w.contender.name: w.facts() for w in workers if w.contender.facts}
    finally:
        for worker in workers:
            worker.__exit__()
    compared = list(tried[1:])
    if work.reference:
        say(f"computing {work.reference.name}")
        compared.append(work.reference)
        with Worker(work.setup, work.reference, threads, device) as worker:
            worker.load(work.sizes)
            worker.run()
            errors.append(entrywise_error(ours, worker.answer()))
    contenders = [
        {
            "name": contender.name,
            "package": contender.package,
            "version": machine.version(contender.package),
            "seconds": seconds[contender.name],
            "median": statistics.median(seconds[contender.name]),
            "memory": memory[contender.name],
            "facts": facts.get(contender.name, {}),
        }
        for contender in tried
    ]
    return {
        "title": work.title,
        "note": work.note,
        "alone": work.alone,
        "sizes": work.sizes,
        "contenders": contenders,
        "agreement": {
            "what": work.agreement,
            "answers": [_answer(work, *pair) for pair in zip(compared, errors, strict=True)],
        },
        "environment": machine.environment(device, threads),
    }


def _goes_on(times, repeats):
    """Whether a contender with these run times, in seconds, runs again."""
    return len(times) < repeats or (sum(times) < SHORT and len(times) < MOST)


def _answer(work, contender, error):
    return {
        "against": contender.name,
        "error": error if math.isfinite(error) else None,
        "tolerance": work.tolerance,
        # Not a number is no agreement.
        "agrees": None if contender.differs else bool(error <= work.tolerance),
        "differs": contender.differs,
    }


def assess(record, work, rates, device):
    """The record of ``work`` with its floor and aims, judged by the machine's rates."""
    record = record | {"floor": floor(work.cost(**work.sizes), rates)}
    record["environment"] = record["environment"] | {"rates": rates}
    return record | {"aims": judge(work.aims, record, device)}


def scale(scaling, threads, device, say=print):
    """Measure one :class:`benchmarks.work.Scaling`; returns its record, a dict for JSON."""
    points = []
    with Worker(scaling.setup, scaling.contender, threads, device) as worker:
        worker.load(scaling.sizes | {scaling.axis: scaling.values[0]})
        worker.run()
        for value in scaling.values:
            sizes = scaling.sizes | {scaling.axis: value}
            worker.load(sizes)
            _, held = worker.memory()
            first = worker.run()
            repeats = max(scaling.repeats, min(MOST, int(1 / max(first, 1e-9))))
            seconds = [first, *(worker.run() for _ in range(repeats - 1))]
            median = statistics.median(seconds)
            cost = scaling.cost(**sizes)
            operations = sum(count for kind, count in cost.items() if kind != "bytes")
            points.append(
                {
                    "size": value,
                    "seconds": seconds,
                    "median": median,
                    "memory": held,
                    "operations": operations or cost["bytes"],
                    "expected_memory": scaling.memory(**sizes),
                }
            )
            say(f"{scaling.axis} = {value}: {quantities.seconds(median)}, {texts.memory(held)}")
    sizes = [point["size"] for point in points]
    exponents = {
        key: exponent(sizes, [point[column] for point in points])
        for key, column in (
            ("time", "median"),
            ("expected time", "operations"),
            ("memory", "memory"),
            ("expected memory", "expected_memory"),
        )
    }
    return {
        "title": scaling.title,
        "axis": scaling.axis,
        "sizes": scaling.sizes,
        "points": points,
        "exponents": exponents,
        "environment": machine.environment(device, threads),
    }


def exponent(sizes, values):
    """Slope of the straight line through (ln size, ln value), None where a value is missing or zero."""
    if len(sizes) < 2 or not all(values):
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    centre = statistics.fmean(x)
    spread = sum((a - centre) ** 2 for a in x)
    return sum((a - centre) * b for a, b in zip(x, y, strict=True)) / spread


def floor(cost, rates):
    """The least time that ``cost`` takes at the machine's rates: {"seconds", "parts": {name: seconds}}.

    Operations and memory traffic may overlap, so that the larger part counts; operations in two
    precisions add up.
    """
    parts = {kind: count / rates[kind] for kind, count in cost.items()}
    arithmetic = sum(seconds for kind, seconds in parts.items() if kind != "bytes")
    return {"seconds": max(arithmetic, parts.get("bytes", 0.0)), "parts": parts, "cost": cost}


def judge(aims, record, device):
    """The aims of a record for ``device``, with what was measured and whether it is reached.

    None is judged where the processor lacks what the aim is about: ``lacking`` names it.
    """
    result = []
    agreed = not disagreements(record)
    for aim in aims:
        if aim.device != device:
            continue
        measured = _quantity(aim, record)
        lacking = aim.needs if aim.needs not in ("", *record["environment"]["features"]) else None
        if measured is None or lacking:
            reached = None
        else:
            reached = measured >= aim.bound if aim.quantity == "faster" else measured <= aim.bound
            reached = bool(reached and agreed)  # a wrong answer reaches nothing
        result.append(
            {
                "text": aim.text,
                "quantity": aim.quantity,
                "against": aim.against,
                "bound": aim.bound,
                "measured": measured,
                "reached": reached,
                "lacking": lacking,
            }
        )
    return result


def _quantity(aim, record):
    ours = record["contenders"][0]
    if aim.quantity == "memory":
        return ours["memory"]
    if aim.quantity == "floor":
        return ours["median"] / record["floor"]["seconds"]
    if aim.quantity == "error":
        return next(a["error"] for a in record["agreement"]["answers"] if a["against"] == aim.against)
    theirs = next(c for c in record["contenders"][1:] if c["name"] == aim.against)
    if aim.quantity == "faster":
        return theirs["median"] / ours["median"]
    if aim.quantity == "memory share":
        if ours["memory"] is None or not theirs["memory"]:
            return None
        return ours["memory"] / theirs["memory"]
    kind, fact = aim.quantity.split(" ", 1)
    if kind != "fact":
        raise ValueError(f"aim {aim.text!r} has the unknown quantity {aim.quantity!r}")
    return ours["facts"][fact] / theirs["facts"][fact]


def disagreements(record):
    """Names of the peers whose answers differ from ours by more than the tolerance."""
    return [answer["against"] for answer in record["agreement"]["answers"] if answer["agrees"] is False]


# What is kept


def path_of(device, folder):
    """The JSON file of this machine in ``folder``."""
    return Path(folder) / f"{machine.slug(machine.name(device))}.json"


def unwritable(folder):
    """Why nothing can be kept in ``folder``, one line, or None; found before an hour of measuring."""
    why = system.unwritable(folder)
    return why and f"cannot write to {folder}: {why}"


def load(path):
    """The records of a machine: {"machine"} and ``KINDS``; empty where ``path`` is not there."""
    if not path.exists():
        return {"machine": None, **{kind: {} for kind in KINDS}}
    stored = json.loads(path.read_text(encoding="utf-8"))
    environments = stored.pop("environments")
    for kind in KINDS:
        for record in stored.setdefault(kind, {}).values():
            record["environment"] = environments[record["environment"]]
    return stored


def keep(folder, device, kind, name, record, order):
    """Put one record into this machine's file, in place of its last; the file is replaced as a whole.

    kind : one of ``KINDS``; order : names of this kind in the order of the file
    """
    path = path_of(device, folder)
    stored = load(path)
    stored["machine"] = machine.name(device)
    stored[kind][name] = record
    environments = {}
    for group in KINDS:
        for entry in stored[group].values():
            text = json.dumps(entry["environment"], sort_keys=True)
            key = hashlib.sha256(text.encode()).hexdigest()[:8]
            environments[key] = entry["environment"]
            entry["environment"] = key
    place = {known: number for number, known in enumerate(order)}
    names = sorted(stored[kind], key=lambda known: (place.get(known, len(place)), known))
    stored[kind] = {known: stored[kind][known] for known in names}
    stored["environments"] = environments
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(stored), indent=1, allow_nan=False) + "\n"
    system.replace(path, text.encode())


def rounded(value):
    """``value`` with its floats to four significant digits, lists and dicts followed."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


# What is printed


def table(records):
    """The comparisons as one text table, {name: record}."""
    head = ("work", "ours", "peer", "", "ratio", "memory", "peer's", "floor", "ours/floor", "agreement")
    rows = [head]
    for name, record in records.items():
        ours, *peers = record["contenders"]
        answers = {answer["against"]: answer for answer in record["agreement"]["answers"]}
        own = (quantities.seconds(record["floor"]["seconds"]), quantities.factor(_over_floor(record)))
        mine, held = quantities.seconds(ours["median"]), texts.memory(ours["memory"])
        if not peers:
            rows.append((name, mine, "none", "", "", held, "", *own, ""))
        for against in answers.keys() - {peer["name"] for peer in peers}:
            untimed = texts.agreement(answers[against])
            rows.append((name, "", against, "", "", "", "", "", "", untimed))
        for peer in peers:
            answer = answers[peer["name"]]
            rows.append(
                (
                    name,
                    mine,
                    texts.versioned(peer),
                    quantities.seconds(peer["median"]),
                    "-" if answer["agrees"] is False else quantities.factor(peer["median"] / ours["median"]),
                    held,
                    texts.memory(peer["memory"]),
                    *own,
                    texts.agreement(answer),
                )
            )
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def aims_table(records):
    """The aims as text, one line each."""
    lines = []
    for name, record in records.items():
        for aim in record["aims"]:
            word = {True: "reached", False: "MISSED", None: "not judged"}[aim["reached"]]
            lines.append(f"{word:12}  {name}: {aim['text']}: {texts.reached(aim)}")
    return "\n".join(lines)


def _over_floor(record):
    return record["contenders"][0]["median"] / record["floor"]["seconds"]
