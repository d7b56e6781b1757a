"""The book's commands: list, show, run, book, claims, status, verify and decide."""

import json
import os
import sys
import warnings

from alignbook import paths, system
from alignbook.cli import above_zero, count, print_json
from alignbook.errors import AlignbookError
from companion.runs import notebooks, parameters, results

NAMED = 5  # stale jobs that status names; --json has all


def add_to(command):
    """Add the book's commands; ``command(action, help, as_json=True)`` makes one of the parser's."""
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
    run.add_argument(
        "--profile", choices=parameters.PROFILES, help="start from this profile (default: quick)"
    )
    _add_machines(run, scheduler=True)
    run.add_argument(
        "--recompute",
        choices=("missing", "stale", "all"),
        help="which jobs to compute: missing, also stale, or all (default: missing; stale for a study of "
        "your own)",
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
    verify.add_argument("--minutes", type=float, default=10.0, help="time for all of them (default: 10)")
    verify.add_argument(
        "--tolerance",
        type=float,
        help="largest difference allowed, as a share of its column's largest value (default: 0 on the "
        "processor and with the versions that made the table; else 1e-6)",
    )
    _add_machines(verify)
    decide = command(_decide, "what the plans ask for that decide what is open; with --hours, compute it")
    decide.add_argument("names", nargs="*", metavar="NAME", help="notebooks (default: all)")
    decide.add_argument("--hours", type=above_zero, help="work the plans off for so long, at low priority")
    _add_machines(decide, scheduler=True)
    command(_status, "what is stored, and what of it is stale")
    command(_claims, "every claim and its outcome")


def _add_machines(command, scheduler=False):
    """Arguments that say what computes."""
    command.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    command.add_argument("--workers", type=count, help="jobs at once (default: one per core, 1 on a GPU)")
    if scheduler:
        whose = "address of your Dask cluster; whoever reaches it can run code on this machine"
        command.add_argument("--scheduler", metavar="ADDRESS", help=whose)


def _list(options):
    rows, status = _of_every_notebook(lambda book: [{"name": book.name, "title": book.title}])
    if options.json:
        print_json(rows)
        return status
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:{width}}  {row['title']}")
    return status


def _of_every_notebook(look):
    """Rows that ``look(notebook)`` makes, and the exit status: a broken notebook is told and left out."""
    rows, errors = [], []
    for notebook in notebooks.every():
        try:
            rows.extend(look(notebook))
        except AlignbookError as error:
            errors.append(error)
    return rows, _told(errors)


def _told(errors):
    """Print each of ``errors`` once, a line; the exit status."""
    for line in dict.fromkeys(map(str, errors)):
        print(f"alignbook: {line}", file=sys.stderr)
    return 2 if errors else 0


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
            **{profile: values[name] for profile, values in profiles.items()},
        }
        for name, parameter in spec.items()
    ]
    if options.json:
        return print_json({"name": book.name, "title": book.title, "parameters": rows})
    print(f"{book.name}\n{book.title}\n")
    for row in rows:
        print(f"{row['name']}: {row['type']} {row['range']}\n    {row['meaning']}")
        print("    " + ", ".join(f"{profile} {json.dumps(row[profile])}" for profile in parameters.PROFILES))


def _run(options):
    from companion.runs.run import run_values

    notebook, profile = notebooks.find(options.name), options.profile or "quick"
    resolved = parameters.resolve(notebook, profile, parameters.from_text(options.values))
    if options.dry_run:
        return _expect(notebook, resolved, options)
    book = None if options.no_notebook else _bookmaker()
    how = {name: getattr(options, name) for name in ("device", "workers", "scheduler", "recompute")}
    run = run_values(notebook, resolved, progress=system.to_stderr, **how)
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
        return print_json(summary)
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
    from companion.runs import costs
    from companion.runs.run import Stale, default_recompute, jobs_of, stale_line

    jobs = jobs_of(notebook, values)
    recompute = options.recompute or default_recompute(jobs)
    stored = {job.name: None if recompute == "all" else results.peek(job) for job in jobs}
    stale = {name: why for name, item in stored.items() if item and (why := item.stale())}
    if recompute == "stale":
        stored |= dict.fromkeys(stale)
        stale = {}
    waiting = [job for job in jobs if stored[job.name] is None]
    seconds = costs.expected(waiting)
    unknown = seconds.count(None)
    hours = None if unknown else sum(seconds) / 3600
    if stale:
        warnings.warn(stale_line(stale, len(jobs)), Stale, stacklevel=2)
    if options.json:
        rows = [{"job": u.name, "seconds": s} for u, s in zip(waiting, seconds, strict=True)]
        return print_json({"jobs": len(jobs), "missing": rows, "stale": len(stale), "core_hours": hours})
    print(f"{notebook.name}: {len(jobs)} jobs, {len(waiting)} to compute")
    if waiting and unknown:
        print(f"expected: not known, since nothing like {unknown} of them is stored")
    elif waiting:
        print(f"expected: {hours:.2g} core hours, by the stored jobs that are most like these")


def _book(options):
    return _bookmaker().build(options.profile, progress=lambda text: print(text, flush=True))


def _bookmaker():
    """The module ``companion.pages.book``; AlignbookError where it could not do its work."""
    os.environ.pop("MPLBACKEND", None)  # figures go into the page, whatever window a shell asks for
    if system.unwritable(os.path.expanduser("~")):  # as in a container without a user of its own
        for name in ("IPYTHONDIR", "MPLCONFIGDIR"):
            os.environ.setdefault(name, str(paths.build() / "home"))
    try:
        import jupytext  # noqa: F401
        import papermill  # noqa: F401

        from companion.pages import book
    except ImportError as error:
        raise AlignbookError(
            f"a notebook needs {error.name}: install alignbook[book], or run with --no-notebook"
        ) from None
    if why := system.unwritable(paths.build()):
        raise AlignbookError(f"cannot make {paths.shown(paths.build())}: {why}")
    return book


def _verify(options):
    from companion.runs.verify import verify

    how = {name: getattr(options, name) for name in ("minutes", "tolerance", "device", "workers")}
    verification = verify(options.name, progress=system.to_stderr, **how)
    status = 1 if verification.stale else 0
    if options.json:
        print_json(vars(verification) | {"outcomes": [*map(str, verification.outcomes)]})
        return status
    for outcome in verification.outcomes:
        print(outcome)
    print(f"{verification.verified} stale jobs verified by {len(verification.outcomes)} that were recomputed")
    for reason, jobs in verification.stale.items():
        print(f"{len(jobs)} stay stale ({reason}): {', '.join(jobs)}")
    return status


def _decide(options):
    from companion import decide

    if options.hours is None:
        return _print_plans(options, decide)
    with system.environment({"ALIGNBOOK_RESULTS": str(paths.book_results())}):  # plans are the book's
        how = {name: getattr(options, name) for name in ("names", "workers", "scheduler", "device")}
        stored = decide.work(options.hours, say=system.to_stderr, **how)
    left = sum(item.hours for item in decide.queue(options.names))
    if options.json:
        return print_json({"stored": stored, "core_hours_left": left})
    print(f"{stored} jobs stored; {left:.1f} core hours of plans are left")


def _print_plans(options, decide):
    """What the plans ask for."""
    rows = [
        {"plan": str(w.plan), "missing": len(w.missing), "jobs": len(w.jobs), "core_hours": w.hours}
        for w in decide.queue(options.names)
    ]
    if options.json:
        return print_json(rows)
    for row in rows:
        missing = f"{row['missing']} of {row['jobs']} jobs missing"
        print(f"{row['plan']}: {missing}, {row['core_hours']:.1f} core hours")
    print(f"plans: {len(rows)}, for {sum(row['core_hours'] for row in rows):.1f} core hours")


def _status(options):
    rows, status = _of_every_notebook(_stored)
    if options.json:
        print_json(rows)
        return status
    width = max((len(row["notebook"]) for row in rows), default=0)
    print(f"{'notebook':{width}}  profile  stored      stale  diverged")
    for row in rows:
        stored, notebook = f"{row['stored']} of {row['jobs']}", row["notebook"]
        print(f"{notebook:{width}}  {row['profile']:7}  {stored:10}  {row['stale']:5}  {row['diverged']:8}")
    for row in rows:
        for reason in dict.fromkeys(reason for reasons in row["why"].values() for reason in reasons):
            names = [name for name, reasons in row["why"].items() if reason in reasons]
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            print(f"stale: {row['notebook']}, {row['profile']}: {reason} ({', '.join(names[:NAMED])}{more})")
    return status


def _stored(notebook):
    """A row per profile: how many jobs it asks for, and how many are stored, stale, diverged."""
    from companion.runs.run import jobs_of

    rows = []
    for profile in parameters.PROFILES:
        jobs = jobs_of(notebook, parameters.resolve(notebook, profile))
        stored = [item for item in map(results.peek, jobs) if item]
        reasons = {item.job.name: why for item in stored if (why := item.stale())}
        rows.append(
            {
                "notebook": notebook.name,
                "profile": profile,
                "jobs": len(jobs),
                "stored": len(stored),
                "stale": len(reasons),
                "why": reasons,
                "diverged": sum(item.diverged for item in stored),
            }
        )
    return rows


def _claims(options):
    from companion import claims, findings, judging

    judged = judging.stored(notebook.name for notebook in notebooks.every())
    status = _told([each for each in judged.values() if isinstance(each, AlignbookError)])
    rows = [
        {"notebook": record.name, "profile": record.profile} | claim.as_dict()
        for record in judged.values()
        if isinstance(record, judging.Record)
        for claim in record.claims
    ]
    if options.json:
        print_json(rows)
        return status
    width = max((len(row["outcome"]) for row in rows), default=0)
    for row in rows:
        kind = "".join(f", {word}" for word in ("headline", "ours") if row[word])
        print(f"{row['outcome']:{width}}  {row['notebook']}#{row['id']} ({row['profile']}{kind})")
        print(f"{'':{width}}  {row['statement']}")
        if need := row["needed"]:
            count = need["seeds"] or "no number of"
            print(f"{'':{width}}  {count} more {row['what']}s would decide it: {need['why']}")
    heads = [row for row in rows if row["headline"]]
    print(f"\n{len(rows)} claims: {_counts(rows, claims.OUTCOMES)}")
    print(f"{len(heads)} headlines: {_counts(heads, claims.OUTCOMES)}")
    for name, record in judged.items():
        if isinstance(record, judging.Record) and not record.finding.fits:
            differing = findings.differing(notebooks.find(name).front.get("stands_on", {}), record.claims)
            print(f"finding to reword: {name} ({'; '.join(differing) or 'it names what was not measured'})")
    return status


def _counts(rows, outcomes):
    """How many rows have each of ``outcomes``; those that none has are left out."""
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in outcomes}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "none"
