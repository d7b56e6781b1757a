"""The ``alignbook`` command."""

import argparse
import atexit
import gc
import json
import os
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from alignbook import __version__, installed, paths, system
from alignbook.errors import AlignbookError, on_one_line
from alignbook.runs import notebooks, parameters, results

NAMED = 5  # stale jobs that status names; --json has all


def main(arguments=None):
    """Run the command; the exit status is 0, 2 for bad input, or 1 for a failed build or verification."""
    if _closed_streams():
        print("alignbook: standard output is closed", file=sys.stderr)
        return 2
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if not _has_folder():
        print("alignbook: the working folder is gone: cd to one that is there", file=sys.stderr)
        return 2
    atexit.register(gc.freeze)  # looking for garbage in what torch and pandas leave takes most of a second
    warnings.showwarning = _show_warning
    paths.settle()
    installed.settle()
    try:
        installed.require_checkout(options.action.__name__.strip("_"))
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
        stores = options.action in (_run, _book, _verify, _decide)
        print(f"alignbook: interrupted{'; finished jobs are stored' * stores}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_stdout()
        return 0
    except OSError as error:  # a full disk, a folder that may not be read
        where = f"{error.filename}: " if error.filename else ""
        print(f"alignbook: {where}{error.strerror or on_one_line(error)}", file=sys.stderr)
        _close_stdout()
        return 2


def _closed_streams():
    """Open standard streams that are closed on nothing; whether standard output was.

    The next file to be opened would take the number of a closed one, and what is printed there.
    """
    without_output = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # the lowest number that is free
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks
    return without_output


def _has_folder():
    """Whether the working folder is there: somebody may have removed it."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _close_stdout():
    """Python flushes once more at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Its errors are one line, like all others."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see: {self.prog} --help\n")


# The commands as --help lists them, those that a reader needs first.
GROUPS = {
    "read": ("list", "show"),
    "run": ("run", "book", "fetch"),
    "check": ("claims", "status", "verify"),
    "measure": ("probe",),
    "for maintainers": ("new", "decide", "compare", "sign"),
}


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

    command(_list, "the notebooks")
    show = command(_show, "a notebook's parameters, their ranges and their values in each profile")
    show.add_argument(
        "name", metavar="NAME", help="e.g. random_labels/fig02_misalignment, or random_labels/fig02"
    )
    run = command(_run, "run one notebook, with other parameters if you like, and render its page")
    run.add_argument("name", metavar="NAME", help="a notebook, as for show")
    run.add_argument(
        "-p", dest="values", action="append", default=[], metavar="NAME=VALUE", help="a parameter"
    )
    run.add_argument("-f", dest="file", type=Path, metavar="FILE", help="parameters, YAML: name: value")
    run.add_argument(
        "--profile", choices=parameters.PROFILES, help="start from this profile (default: quick)"
    )
    run.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    run.add_argument("--workers", type=_count, help="jobs at once (default: one per core, 1 on a GPU)")
    run.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of your Dask cluster; whoever reaches it can run code on this machine",
    )
    run.add_argument(
        "--recompute",
        choices=("missing", "stale", "all"),
        help="which jobs to compute: missing, also stale, or all (default: missing; stale for a study of "
        "your own)",
    )
    run.add_argument(
        "--commit", action="store_true", help="store the results with the book's, in data/results"
    )
    run.add_argument("--open", action="store_true", help="open the page in a browser")
    run.add_argument("--no-notebook", action="store_true", help="compute and store; make no notebook")
    run.add_argument("--dry-run", action="store_true", help="say what would be computed and what it costs")
    book = command(_book, "execute every notebook and build the book in _build/html", as_json=False)
    book.add_argument(
        "--profile",
        choices=parameters.PROFILES,
        help="what is shown (default: the most faithful that is stored)",
    )
    verify = command(_verify, "recompute a few stale results: does today's code still give them?")
    verify.add_argument("name", metavar="NAME", help="a notebook, as for show")
    verify.add_argument(
        "--per-path", type=_count, default=1, help="jobs per path through the code (default: 1)"
    )
    verify.add_argument("--minutes", type=float, default=10.0, help="time for all of them (default: 10)")
    verify.add_argument(
        "--tolerance",
        type=float,
        help="largest difference allowed, as a share of its column's largest value (default: 0 with "
        "--base, or on the processor and versions that made the table; else 1e-6)",
    )
    verify.add_argument(
        "--base", metavar="COMMIT", help="compare with what its code computes here, not with stored tables"
    )
    verify.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    verify.add_argument("--workers", type=_count, help="jobs at once (default: one per core, 1 on a GPU)")
    sign = command(_sign, "carry stored results over to a new rule of digests, without recomputing")
    sign.add_argument(
        "--base", metavar="COMMIT", required=True, help="the commit whose rule says what is not stale"
    )
    probe = command(_probe, "measure a network of your own with the papers' instruments", as_json=False)
    _probe_arguments(probe)
    decide = command(_decide, "what is open and what would decide it; with --hours, compute it")
    decide.add_argument("names", nargs="*", metavar="NAME", help="notebooks (default: all)")
    decide.add_argument("--hours", type=_above_zero, help="work the plans off for so long, at low priority")
    decide.add_argument("--dry-run", action="store_true", help="say what would be computed and what it costs")
    decide.add_argument("--workers", type=_count, help="jobs at once (default: one per core, 1 on a GPU)")
    decide.add_argument("--scheduler", metavar="ADDRESS", help="address of your Dask cluster, as for run")
    decide.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    new = command(_new, "write a new study from the template")
    new.add_argument("name", metavar="NAME", help="<paper>/<figure>, e.g. random_labels/fig30_something")
    fetch = command(_fetch, "download data sets; without names, list them and where they lie")
    fetch.add_argument("names", nargs="*", metavar="NAME", help="e.g. cifar10")
    compare = command(_compare, "compare two tables, folders or probes; exit status 1 if tables differ")
    compare.add_argument("first", metavar="A", help="a CSV file, a folder such as data/results, or a report")
    compare.add_argument("second", metavar="B", help="the other, of the same kind")
    compare.add_argument("--out", type=Path, metavar="FOLDER", help="where the page of two reports goes")
    command(_status, "what is stored, and what of it is stale")
    command(_claims, "every claim and its outcome")
    parser.epilog = _listed(commands.choices)
    return parser


def _listed(commands):
    """The commands of ``GROUPS`` with what they do, for --help."""
    lines = []
    for group, names in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:8} {commands[name].description}" for name in names), ""]
    lines.append("alignbook run fig10 -p seeds=3 --open   # change a number and see the figure move")
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
        "--arch", help="the network that weights belong to: torchvision's name, or module:callable"
    )
    probe.add_argument(
        "--before", action="append", metavar="NETWORK",
        help="the network at another time, measured beside it; may be given several times",
    )  # fmt: skip
    probe.add_argument(
        "--data", default="photos",
        help="an image set's name, an .npz with x and y, or a folder (default: photos, which come with the "
        "package, as digits and shapes do)",
    )  # fmt: skip
    probe.add_argument(
        "--split",
        choices=("train", "test"),
        default="test",
        help="which part of an image set (default: test)",
    )
    probe.add_argument(
        "--size",
        type=_count,
        help="resize images to so many pixels a side (default: 224 in a folder of larger or unequal images)",
    )
    probe.add_argument(
        "--mean",
        type=_numbers,
        help="subtracted from the channels of images in 0 to 1, e.g. 0.485,0.456,0.406",
    )
    probe.add_argument(
        "--std",
        type=_numbers,
        help="standard deviations that the channels are divided by; with neither --mean nor --std images go "
        "from -1 to 1",
    )
    probe.add_argument(
        "--transform",
        metavar="MODULE:CALLABLE",
        help="function from a PIL image to a tensor, in place of --size, --mean and --std",
    )
    probe.add_argument("-n", dest="count", type=_count, default=1000, help="examples to draw (default: 1000)")
    probe.add_argument(
        "--examples", type=_count, help="examples that each instrument sees (default: what time allows)"
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
    probe.add_argument("--seed", type=_seed, default=0, help="seed of all random draws (default: 0)")
    probe.add_argument(
        "--without", action="append", default=[], metavar="INSTRUMENT", help="leave this one out"
    )
    probe.add_argument(
        "--minutes",
        type=_above_zero,
        default=10.0,
        help="time for all instruments (default: 10); a forward that never ends is not stopped",
    )
    probe.add_argument(
        "--memory", type=_above_zero, default=4.0, help="GB that each instrument may take (default: 4)"
    )
    probe.add_argument("--device", help="cpu, cuda, … (default: cpu)")
    probe.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="where report.html and report.json go"
    )


def _list(options):
    rows, status = _of_every_notebook(lambda book: [{"name": book.name, "title": book.title}])
    if options.json:
        _print_json(rows)
        return status
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:{width}}  {row['title']}")
    return status


def _of_every_notebook(look):
    """Rows that ``look(notebook)`` makes, and the exit status: a broken notebook is told and left out."""
    rows, faults, told, every = [], [], time.monotonic(), notebooks.every()
    for number, notebook in enumerate(every):
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{number} of {len(every)} notebooks read", file=sys.stderr, flush=True)
        try:
            rows.extend(look(notebook))
        except AlignbookError as error:
            faults.append(f"alignbook: {error}")
    for line in dict.fromkeys(faults):
        print(line, file=sys.stderr)
    return rows, 2 if faults else 0


def _show(options):
    book = notebooks.find(options.name)
    spec = parameters.read(book)
    profiles = {profile: parameters.resolve(book, profile) for profile in parameters.PROFILES}
    rows = [
        {
            "name": name,
            "type": f"list[{parameter.type}]" if parameter.many else parameter.type,
            "range": parameter.range,
            "meaning": parameter.meaning,
            "default": parameter.default,
            **{profile: values[name] for profile, values in profiles.items()},
        }
        for name, parameter in spec.items()
    ]
    if options.json:
        return _print_json({"name": book.name, "title": book.title, "parameters": rows})
    print(f"{book.name}\n{book.title}\n")
    for row in rows:
        print(f"{row['name']}: {row['type']} {row['range']}\n    {row['meaning']}")
        print("    " + ", ".join(f"{profile} {json.dumps(row[profile])}" for profile in parameters.PROFILES))


def _run(options):
    from alignbook.runs import engine

    notebook, profile = notebooks.find(options.name), options.profile or "quick"
    values = parameters.from_file(options.file) if options.file else {}
    values |= parameters.from_text(options.values)  # by hand, over the file
    resolved = parameters.resolve(notebook, profile, values)  # a name may be one of run's own
    if options.dry_run:
        return _expect(notebook, resolved, options)
    book = None if options.no_notebook else _bookmaker()
    run = engine.run(
        options.name,
        profile=profile,
        device=options.device,
        workers=options.workers,
        scheduler=options.scheduler,
        recompute=options.recompute,
        progress=engine.to_stderr,
        **values,
    )
    if options.commit:
        for item in run.stored:
            results.move_to_book(item.job)
    executed, page = book.execute_and_render(notebook, run) if book else (None, None)
    summary = {
        "name": run.name,
        "profile": run.profile,
        "parameters": run.parameters,
        "results": [str(results.location(item.job)) + ".csv" for item in run.stored],
        "diverged": run.diverged,
        "stale": len(run.stale),
        "notebook": str(executed) if executed else None,
        "page": str(page) if page else None,
    }
    if page and options.open:
        import webbrowser

        webbrowser.open(page.as_uri())
    if options.json:
        return _print_json(summary)
    if page:
        print(f"page:     {page.as_uri()}")
    folders = sorted({paths.shown(results.location(item.job).parent) for item in run.stored})
    print(f"results:  {len(run.stored)} jobs in {', '.join(folders)}")
    if run.diverged:
        print(f"diverged: {', '.join(run.diverged)}")
    if executed:
        print(f"notebook: {paths.shown(executed)}")


def _expect(notebook, values, options):
    """What a run would compute, and its cost by what is stored."""
    from alignbook.runs import costs, engine

    jobs = engine.jobs_of(notebook, values)
    recompute = options.recompute or engine.default_recompute(jobs)
    found = {job.name: None if recompute == "all" else results.peek(job) for job in jobs}
    stale = {name: why for name, item in found.items() if item and (why := item.stale())}
    if recompute == "stale":
        found |= dict.fromkeys(stale)
        stale = {}
    waiting = [job for job in jobs if found[job.name] is None]
    seconds = costs.expected(waiting)
    unknown = sum(second is None for second in seconds)
    hours = None if unknown else sum(seconds) / 3600
    if stale:
        warnings.warn(engine.stale_line(stale, len(jobs)), engine.Stale, stacklevel=2)
    if options.json:
        rows = [{"job": u.name, "seconds": s} for u, s in zip(waiting, seconds, strict=True)]
        return _print_json({"jobs": len(jobs), "missing": rows, "stale": len(stale), "core_hours": hours})
    print(f"{notebook.name}: {len(jobs)} jobs, {len(waiting)} to compute")
    if waiting and unknown:
        some = "" if unknown == len(waiting) else f" for {unknown} of them"
        print(f"expected: not known{some}, since no job of a similar size is stored")
    elif waiting:
        print(f"expected: {hours:.2g} core hours, by the stored jobs that are most like these")


def _fetch(options):
    from alignbook.data import images

    names = options.names or [*images.DOWNLOADS, "ct_slices"]
    rows = []
    for name in names:
        path = _fetched(name) if options.names else images.location(name)
        there = path is None or path.is_file()
        fault = _damage(path) if path and there and not options.names else None  # named ones have been read
        rows.append({"name": name, "path": path and str(path), "there": there, "fault": fault})
    if options.json:
        return _print_json(rows)
    for row in rows:
        place = row["path"] or "comes with a package"
        wrong = f"damaged: {row['fault']}" if row["fault"] else "" if row["there"] else "missing"
        print(f"{row['name']:14} {place}{f' ({wrong})' * bool(wrong)}")


def _damage(path):
    """What an archive's headers say is wrong with it, or None."""
    from alignbook.data import images

    found, fault = images.headers(path)
    return fault or (None if found else "no readable .npz archive")


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
    from alignbook.runs.compare import compare

    reports = [_report(options.first), _report(options.second)]
    if None not in reports:
        return _compare_probes(reports, options.out)
    if options.out:
        raise AlignbookError("--out is for two reports of probes, folders with a report.json")
    shared, found = compare(options.first, options.second)
    if options.json:
        _print_json({"shared": shared, "differences": [asdict(item) for item in found]})
    else:
        for item in found:
            print(f"{item.name}: {item.what}")
        equal = shared - sum(not item.what.startswith("only in ") for item in found)
        print(f"{equal} of {shared} shared tables are equal")
    return 1 if found else 0


def _report(path):
    """The file of a probe's report, or None."""
    path = Path(path) / "report.json" if Path(path).is_dir() else Path(path)
    return path if path.suffix == ".json" and path.is_file() else None


def _compare_probes(reports, out):
    """What ``alignbook.compare`` does, of two reports."""
    from alignbook.probing import Probe, compare

    names = [path.parent.name or path.stem for path in map(Path.absolute, reports)]
    names = names if len({*names}) > 1 else ["A", "B"]
    both = compare(**dict(zip(names, map(Probe.from_json, reports), strict=True)))
    print(both if out is None else _written(both, out, " and ".join(names)))


def _book(options):
    return _bookmaker().build(options.profile, progress=lambda text: print(text, flush=True))


def _bookmaker():
    """The module ``alignbook.pages.book``; AlignbookError where it could not do its work."""
    os.environ.pop("MPLBACKEND", None)  # figures go into the page, whatever window a shell asks for
    if system.unwritable(os.path.expanduser("~")):  # as in a container without a user of its own
        for name in ("IPYTHONDIR", "MPLCONFIGDIR"):
            os.environ.setdefault(name, str(paths.build() / "home"))
    try:
        import jupytext  # noqa: F401
        import papermill  # noqa: F401

        from alignbook.pages import book
    except ImportError as error:
        raise AlignbookError(
            f"a notebook needs {error.name}: install alignbook[book], or run with --no-notebook"
        ) from None
    if why := system.unwritable(paths.build()):
        raise AlignbookError(f"cannot make {paths.shown(paths.build())}: {why}")
    return book


def _verify(options):
    from alignbook.runs import engine
    from alignbook.runs.verify import verify

    found = verify(
        options.name,
        jobs=options.per_path,
        minutes=options.minutes,
        tolerance=options.tolerance,
        base=options.base,
        device=options.device,
        workers=options.workers,
        progress=engine.to_stderr,
    )
    status = 1 if found.stale else 0
    if options.json:
        _print_json(found.as_dict())
        return status
    for outcome in found.outcomes:
        print(outcome)
    print(f"{found.verified} stale jobs verified by {len(found.outcomes)} that were recomputed")
    for reason, jobs in found.stale.items():
        print(f"{len(jobs)} stay stale ({reason}): {', '.join(jobs)}")
    return status


def _sign(options):
    from alignbook.runs.sign import sign

    found = sign(options.base)
    if options.json:
        return _print_json(asdict(found))
    print(f"{found.signed} jobs and {found.entries} records of verification signed")
    print(f"{found.stale} jobs stale")
    if found.without_data:
        print(f"not at hand, and left as they were: {', '.join(found.without_data)}")


def _probe(options):
    with _no_empty_folder(options.out):
        if why := system.unwritable(options.out):
            raise AlignbookError(f"cannot write to {paths.shown(options.out)}: {why}")
        _probed(options)


@contextmanager
def _no_empty_folder(folder):
    """Where what is inside fails, a folder that it has made goes again unless something is in it."""
    there = folder.exists()
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


def _probed(options):
    from alignbook.probing import probe, sources
    from alignbook.runs import engine

    asked = options.arch, engine.to_stderr
    model = sources.network(options.network, *asked)
    before = {name: sources.earlier(name, *asked) for name in options.before or ()}
    inputs, targets = sources.examples(
        options.data, options.count, split=options.split, size=options.size, seed=options.seed,
        mean=options.mean, std=options.std, transform=options.transform and sources.named(options.transform),
        say=engine.to_stderr,
    )  # fmt: skip
    try:
        found = probe(
            model, inputs, targets, before=before if len(before) > 1 else next(iter(before.values()), None),
            layers=options.layers, examples=options.examples,
            only=options.only, without=options.without, seed=options.seed, minutes=options.minutes,
            parameters=_one_or_more(options.parameters, "trainable"),
            memory=options.memory * 1e9, device=options.device, report=engine.to_stderr,
        )  # fmt: skip
    except ValueError as error:
        raise AlignbookError(on_one_line(error)) from None
    if not found.tables:
        reasons = [why for name, why in found.left_out.items() if name != "deviation"]
        raise AlignbookError(f"nothing can be measured: {max(reasons, key=reasons.count)}")
    for line in found.said:
        print(line, file=sys.stderr)
    for why in dict.fromkeys(found.left_out.values()):  # one line, however many instruments it stops
        names = [name for name, reason in found.left_out.items() if reason == why]
        print(f"{', '.join(names)}: {why}", file=sys.stderr)
    print(_written(found, options.out, f"{options.network} on {options.data}"))


def _one_or_more(values, otherwise):
    return otherwise if not values else values[0] if len(values) == 1 else values


def _written(found, folder, title):
    """Where a probe's page is; or its numbers alone, where what draws the page is not installed."""
    try:
        from alignbook.pages import probe_page

        return probe_page.write(found, folder, title)
    except ModuleNotFoundError as error:
        line = installed.missing(error)
        if line is None:
            raise
        print(f"no page, the numbers alone: {line}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.json"
    found.to_json(path)
    return path


def _decide(options):
    from alignbook.runs import decide, engine

    if options.dry_run or options.hours is None:
        waiting = decide.queue(options.names)
        rows = [] if options.dry_run else decide.undecided()
        names = {notebooks.find(name).name for name in options.names}
        rows = [row for row in rows if not names or row.notebook in names]
        if options.json:
            planned = [
                {"plan": str(w.plan), "missing": len(w.missing), "jobs": len(w.jobs), "core_hours": w.hours}
                for w in waiting
            ]
            return _print_json({"undecided": [row.as_dict() for row in rows], "queue": planned})
        _print_table(("", "undecided", "seeds", "needed", "core hours", "plan"), [r.cells() for r in rows])
        for item in waiting:
            place = f"{len(item.missing)} of {len(item.jobs)} jobs missing, {item.hours:.1f} core hours"
            print(f"plan      {item.plan}: {place}")
        heads = sum(row.claim["headline"] for row in rows)
        hours = sum(item.hours for item in waiting)
        claims = "1 claim" if len(rows) == 1 else f"{len(rows)} claims"
        plans = "1 plan asks" if len(waiting) == 1 else f"{len(waiting)} plans ask"
        print(f"{claims} undecided, {heads} of them headlines; " * (not options.dry_run), end="")
        print(f"{plans} for {hours:.1f} core hours")
        return 0
    with system.environment({"ALIGNBOOK_RESULTS": str(paths.book_results())}):  # plans are the book's
        stored = decide.work(
            options.hours, names=options.names, workers=options.workers, scheduler=options.scheduler,
            device=options.device, say=engine.to_stderr,
        )  # fmt: skip
    left = sum(item.hours for item in decide.queue(options.names))
    if options.json:
        return _print_json({"stored": stored, "core_hours_left": left})
    print(f"{stored} jobs stored; {left:.1f} core hours of plans are left")


def _new(options):
    from alignbook.runs import new

    files = new.write(options.name)
    if options.json:
        return _print_json([str(path) for path in files])
    for path in files:
        print(paths.shown(path))
    print(f"try: alignbook run {options.name} --profile smoke; CONTRIBUTING.md says what a page needs")


def _status(options):
    from alignbook.runs import kept

    keys = {}
    rows, status = _of_every_notebook(lambda notebook: kept.status(notebook, keys))
    if options.json:
        _print_json(rows)
        return status
    width = max((len(row["notebook"]) for row in rows), default=0)
    print(f"{'notebook':{width}}  profile  stored      stale  drifted  diverged")
    for row in rows:
        stored, notebook = f"{row['stored']} of {row['jobs']}", row["notebook"]
        counts = f"{row['stale']:5}  {row['drifted']:7}  {row['diverged']:8}"
        print(f"{notebook:{width}}  {row['profile']:7}  {stored:10}  {counts}")
    for row in rows:
        for reason in dict.fromkeys(reason for reasons in row["why"].values() for reason in reasons):
            names = [name for name, reasons in row["why"].items() if reason in reasons]
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            print(f"stale: {row['notebook']}, {row['profile']}: {reason} ({', '.join(names[:NAMED])}{more})")
    if drifted := sum(row["drifted"] for row in rows):
        print(
            f"drifted: {drifted} results come from other versions or another processor, where the same code "
            "may round differently: nothing is wrong (--json names them)"
        )
    return status


def _claims(options):
    from alignbook import claims
    from alignbook.runs import kept

    keys = {}

    def look(notebook):
        found = kept.claims(notebook, keys)
        named = {"notebook": notebook.name, "profile": found["profile"]} if found else {}
        return [named | claim for claim in (found["claims"] if found else [])]

    rows, status = _of_every_notebook(look)
    if options.json:
        _print_json(rows)
        return status
    width = max((len(row["outcome"]) for row in rows), default=0)
    for row in rows:
        kind = "".join(f", {word}" for word in ("headline", "ours") if row[word])
        print(f"{row['outcome']:{width}}  {row['notebook']}#{row['id']} ({row['profile']}{kind})")
        print(f"{'':{width}}  {row['statement']}")
    heads = [row for row in rows if row["headline"]]
    print(f"\n{len(rows)} claims: {_counts(rows, claims.OUTCOMES)}")
    print(f"{len(heads)} headlines: {_counts(heads, claims.OUTCOMES)}")
    return status


def _counts(rows, outcomes):
    """How many rows have each of ``outcomes``; those that none has are left out."""
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in outcomes}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "none"


def _print_table(head, rows):
    """Rows of texts below ``head``, column by column; nothing of no rows."""
    rows = [head, *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_json(value):
    print(json.dumps(value, indent=1))


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"alignbook: warning: {message}", file=sys.stderr)


def _count(text):
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, not {text!r}")
    return int(text)


def _above_zero(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def _numbers(text):
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between, not {text!r}") from None


def _seed(text):
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^63 - 1, not {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
