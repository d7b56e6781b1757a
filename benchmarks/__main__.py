"""The command: ``python -m benchmarks [NAME ...]``."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from alignbook import system

from . import harness, machine
from .worker import ContenderError


def main(arguments=None):
    """Exit status: 0; 1 when answers disagree; 2 for a contender that fails or bad arguments."""
    from . import registry  # not at the top: every worker imports this module, and only one of the works

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a work, or a group of them; all by default")
    parser.add_argument("--list", action="store_true", help="name the works and stop")
    parser.add_argument("--threads", type=int, default=system.cores(), help="default: every core")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes, to see that everything runs; keeps nothing"
    )
    parser.add_argument("--results", type=Path, default=harness.RESULTS, help="folder of the JSON files")
    chosen = parser.parse_args(arguments)
    works, scalings = registry.works(), registry.scalings()
    every = {item.name: item for item in (*works, *scalings)}
    if chosen.list:
        print("\n".join(f"{name:40} {item.title}" for name, item in every.items()))
        return 0
    unknown = [n for n in chosen.names if n not in every and not any(e.startswith(n + "/") for e in every)]
    folder = None if chosen.small else chosen.results
    what = None
    if unknown:
        what = f"no work is called {', '.join(unknown)}; see --list"
    elif not 1 <= chosen.threads <= system.cores():
        what = "--threads: out of range"
    elif chosen.device == "cuda" and default_device() != "cuda":
        what = "--device cuda: PyTorch finds no GPU"
    elif folder:
        what = harness.unwritable(folder)
    if what:
        print(f"benchmarks: {what}", file=sys.stderr)
        return 2
    wanted = [
        item
        for name, item in every.items()
        if not chosen.names or any(name == n or name.startswith(n + "/") for n in chosen.names)
    ]
    if chosen.small:
        wanted = [shrunk(item) for item in wanted]
    return run(wanted, chosen.threads, chosen.device or default_device(), list(every), folder)


def shrunk(item):
    """``item`` on the data of its first call."""
    if item.kind == "scaling":
        return replace(item, values=item.values[:2], repeats=1)
    return replace(item, sizes=item.small, repeats=2)


def default_device():
    """``cuda`` where PyTorch finds it, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def run(wanted, threads, device, order, folder):
    """Measure, print and keep in ``folder`` (None: nowhere); returns the exit status."""
    began = time.monotonic()
    _say(f"{machine.name(device)}, {threads} threads")
    rates = _rates(threads, device)
    measured, wrong, failed = [], [], []

    def keep(kind, name, record):
        if folder:
            harness.keep(folder, device, kind, name, record, order)

    for number, item in enumerate(wanted, 1):
        say = _prefixed(f"{number}/{len(wanted)}", item.name, began)
        try:
            if item.kind == "scaling":
                keep("scalings", item.name, harness.scale(item, threads, device, say))
                continue
            record = harness.compare(item, threads, device, say)
        except ContenderError as error:
            failed.append(item.name)
            say(str(error))
            continue
        measured.append((item, record))
        wrong += [f"{item.name} ({peer})" for peer in harness.disagreements(record)]
        keep("comparisons", item.name, harness.assess(record, item, rates, device))
    if measured:  # what disturbed the machine at the start must not lower the floor
        rates = {kind: max(rate, rates[kind]) for kind, rate in _rates(threads, device).items()}
        records = {item.name: harness.assess(record, item, rates, device) for item, record in measured}
        for name, record in records.items():
            keep("comparisons", name, record)
        print(harness.table(records), harness.aims_table(records), sep="\n\n")
    where = f"; results in {harness.path_of(device, folder)}" if folder else ""
    _say(f"{time.monotonic() - began:.0f} s{where}")
    for name in failed:
        _say(f"FAILED: {name}")
    for name in wrong:
        _say(f"ANSWERS DISAGREE: {name}")
    return 2 if failed else 1 if wrong else 0


def _rates(threads, device):
    rates = harness.measure_rates(threads, device)
    _say(
        ", ".join(f"{kind} {rate / 1e9:.0f} GFLOP/s" for kind, rate in rates.items() if kind != "bytes")
        + f", memory {rates['bytes'] / 1e9:.0f} GB/s"
    )
    return rates


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _prefixed(count, name, began):
    return lambda text: _say(f"[{count}, {time.monotonic() - began:.0f} s] {name}: {text}")


if __name__ == "__main__":
    sys.exit(main())
