"""The ``alignbook`` command: the instruments' commands, and the book's where its checkout is at hand."""

import argparse
import atexit
import gc
import importlib
import json
import os
import sys
import warnings
from pathlib import Path

from alignbook import __version__, installed, paths, system
from alignbook.errors import AlignbookError, on_one_line

# The commands as --help lists them, those that a reader needs first.
GROUPS = {
    "read": ("list", "show"),
    "run": ("run", "book", "fetch"),
    "check": ("claims", "status", "verify"),
    "measure": ("probe", "compare"),
    "for maintainers": ("decide",),
}


def main(arguments=None):
    """Run the command; the exit status is 0, 2 for bad input, or 1 for a failed build or verification."""
    if sys.stdout is None:
        print("alignbook: standard output is closed", file=sys.stderr)
        return 2
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    atexit.register(gc.freeze)  # looking for garbage in what torch and pandas leave takes most of a second
    warnings.showwarning = _show_warning
    paths.settle()
    installed.settle()
    try:
        status = options.action(options) or 0
        sys.stdout.flush()  # here, where a closed pipe is no error
        return status
    except AlignbookError as error:
        print(f"alignbook: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (line := installed.missing(error)) is None:
            raise
        print(f"alignbook: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        stores = options.action.__name__ in ("_run", "_book", "_verify", "_decide")
        print(f"alignbook: interrupted{'; finished jobs are stored' * stores}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_stdout()
        return 0
    except OSError as error:  # a full disk, a folder that may not be read
        where = f"{error.filename}: " if error.filename else ""
        line = f"{where}{error.strerror or on_one_line(error)}"
        if isinstance(error, FileNotFoundError) and not where:  # asked for the working folder
            line = "the working folder is gone: cd to one that is there"
        print(f"alignbook: {line}", file=sys.stderr)
        _close_stdout()
        return 2


def _close_stdout():
    """Python flushes once more at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Its errors are one line, like all others."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see: {self.prog} --help\n")


def _parser():
    parser = _Parser(
        prog="alignbook",
        usage="alignbook COMMAND …",
        description="An executable companion to four papers.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"alignbook {__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", prog="alignbook", help=argparse.SUPPRESS
    )

    def command(action, help, *, as_json=True):
        sub = commands.add_parser(action.__name__.strip("_"), description=help)
        sub.set_defaults(action=action, parser=sub)
        if as_json:
            sub.add_argument("--json", action="store_true", help="print JSON")
        return sub

    probe = command(_probe, "measure a network of your own with the papers' instruments", as_json=False)
    _probe_arguments(probe)
    compare = command(_compare, "compare two reports of probes", as_json=False)
    compare.add_argument("first", type=Path, metavar="A", help="a report.json, or the folder that holds it")
    compare.add_argument("second", type=Path, metavar="B", help="the other")
    compare.add_argument("--out", type=Path, metavar="FOLDER", help="where the page of both goes")
    fetch = command(_fetch, "download data sets; without names, list them and where they lie")
    fetch.add_argument("names", nargs="*", metavar="NAME", help="e.g. cifar10")
    if installed.has_companion():
        importlib.import_module("companion.cli").add_to(command)
    parser.epilog = _listed(commands.choices)
    return parser


def _listed(commands):
    """The commands of ``GROUPS`` that are at hand with what they do, for --help."""
    lines = []
    for group, names in GROUPS.items():
        if known := [name for name in names if name in commands]:
            lines += [f"{group}:", *(f"  {name:8} {commands[name].description}" for name in known), ""]
    if "run" in commands:
        lines.append("alignbook run fig10 -p seeds=3 --open   # change a number and see the figure move")
    else:
        lines.append("The commands that run the book stand in a clone of its repository.")
    lines.append("alignbook COMMAND --help                # what else a command takes")
    return "\n".join(lines)


def _probe_arguments(probe):
    probe.add_argument(
        "network",
        metavar="NETWORK",
        help="torchvision:resnet18 or timm:resnet18; module:callable or module:network; a folder of Hugging "
        "Face's; or weights (a file or folder)",
    )
    probe.add_argument(
        "--arch", help="the network that weights belong to: torchvision:resnet18, or module:callable"
    )
    probe.add_argument("--before", metavar="NETWORK", help="the network at another time, measured beside it")
    probe.add_argument(
        "--data", default="photos",
        help="an image set's name, or module:name of data or of a function that returns them (default: "
        "photos, which come with the package, as digits and shapes do)",
    )  # fmt: skip
    help = "which part of an image set (default: test)"
    probe.add_argument("--split", choices=("train", "test"), default="test", help=help)
    probe.add_argument(
        "-n", dest="count", type=count, default=1000, help="images to draw from a set (default: 1000)"
    )
    probe.add_argument(
        "--examples", type=count, help="examples that each instrument sees (default: what time allows)"
    )
    probe.add_argument(
        "--layers", action="append", metavar="PATTERN", help="only modules of these names, e.g. 'layer4.*'"
    )
    probe.add_argument(
        "--parameters", action="append", metavar="NAME",
        help="trainable, all, or a module or parameter that curvature, slice and tangent kernels are of "
        "(default: trainable)",
    )  # fmt: skip
    probe.add_argument(
        "--only", action="append", metavar="INSTRUMENT", help="measure this one and no others"
    )  # fmt: skip
    probe.add_argument("--seed", type=int, default=0, help="seed of all random draws (default: 0)")
    probe.add_argument(
        "--without", action="append", default=[], metavar="INSTRUMENT", help="leave this one out"
    )
    probe.add_argument(
        "--minutes",
        type=above_zero,
        default=10.0,
        help="time for all instruments (default: 10); a forward that never ends is not stopped",
    )
    probe.add_argument("--device", help="cpu, cuda, … (default: cpu)")
    probe.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="where report.html and report.json go"
    )


def _fetch(options):
    from alignbook.data import images

    rows = []
    for name in options.names or [*images.DOWNLOADS, "ct_slices"]:
        path = _fetched(name) if options.names else images.location(name)
        rows.append({"name": name, "path": path and str(path), "there": path is None or path.is_file()})
    if options.json:
        return print_json(rows)
    for row in rows:
        print(f"{row['name']:14} {row['path'] or 'comes with a package'}{' (missing)' * (not row['there'])}")


def _fetched(name):
    """Where a set lies, None where a package holds it; DataError where it cannot be had or is damaged."""
    from alignbook.data import images, tables

    path = tables.fetch(name)
    if path is not None and name in tables.TABLES:
        tables.load_table(name)
    elif path is not None:
        for split in ("train", "test"):
            images.load(name, split, n=1)  # reads all of it
    return path


def _compare(options):
    """What ``alignbook.compare`` does, of two stored reports."""
    from alignbook.probing import Probe, compare

    reports = [path / "report.json" if path.is_dir() else path for path in (options.first, options.second)]
    names = [path.absolute().parent.name for path in reports]
    names = names if len({*names}) > 1 else ["A", "B"]
    both = compare(**dict(zip(names, map(Probe.from_json, reports), strict=True)))
    print(both if options.out is None else _written(both, options.out, " and ".join(names)))


def _probe(options):
    from alignbook.probing import probe, sources

    _require_writable(options.out)
    model = sources.network(options.network, options.arch, system.to_stderr)
    before = options.before
    if before and not Path(before).exists():
        before = sources.network(before)
    data = sources.examples(options.data, options.count, options.split, options.seed)
    try:
        result = probe(
            model, data, before=before,
            layers=options.layers, examples=options.examples,
            only=options.only, without=options.without, seed=options.seed, minutes=options.minutes,
            parameters=_one_or_more(options.parameters, "trainable"),
            device=options.device, report=system.to_stderr,
        )  # fmt: skip
    except ValueError as error:
        raise AlignbookError(on_one_line(error)) from None
    if not result.tables:
        reasons = [why for name, why in result.left_out.items() if name != "deviation"]
        raise AlignbookError(f"nothing can be measured: {max(reasons, key=reasons.count)}")
    for line in result.said:
        print(line, file=sys.stderr)
    for why in dict.fromkeys(result.left_out.values()):  # one line, however many instruments it stops
        names = [name for name, reason in result.left_out.items() if reason == why]
        print(f"{', '.join(names)}: {why}", file=sys.stderr)
    print(_written(result, options.out, f"{options.network} on {options.data}"))


def _require_writable(folder):
    if why := system.unwritable(folder):
        raise AlignbookError(f"cannot write to {paths.shown(folder)}: {why}")


def _one_or_more(values, otherwise):
    return otherwise if not values else values[0] if len(values) == 1 else values


def _written(probe, folder, title):
    """Write the report into ``folder``; the path of the page, or of the numbers without matplotlib."""
    _require_writable(folder)
    probe.to_json(folder / "report.json")
    try:
        probe.to_html(folder / "report.html", title)
    except ModuleNotFoundError as error:
        print(f"no page, the numbers alone: {error}", file=sys.stderr)
        return folder / "report.json"
    return folder / "report.html"


def print_json(value):
    print(json.dumps(value, indent=1))


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"alignbook: warning: {message}", file=sys.stderr)


def count(text):
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text!r}")
    return int(text)


def above_zero(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
