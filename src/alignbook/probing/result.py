"""What a probe found: tables, what was left out and why, as a file and as a page."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from alignbook import system
from alignbook.errors import AlignbookError, on_one_line
from alignbook.installed import extras


@dataclass(frozen=True, repr=False)
class Probe:
    """What :func:`alignbook.probe` found. Cost: that of holding its tables.

    Attributes
    ----------
    network : dict
        Facts about each network and the data: ``class``, ``parameters``, ``examples``, ``shape``,
        ``outputs``, ``criterion`` (which loss), ``loss``, for classes ``accuracy`` and for numbers ``R²``.
        The networks are ``network``, those before it, and ``initialisation``: the same with random weights.
    tables : dict of DataFrame, by instrument
        In every table ``network`` says whose row it is, ``layer`` names a module, the same in all tables, and
        ``depth`` numbers layers or parameters from 0. Beside these:

        * ``filters``, a row per principal axis of the patches: ``sigma`` and ``tau``, the standard deviations
          of patches and filters along it; ``filters`` (their number), ``dimension`` (weights of one),
          ``misalignment``, ``floor`` (its mean for as many Gaussian filters that are aligned) and
          ``random_bases`` (its mean with random axes), all three nan with too few filters;
        * ``features``, a row per layer and rank ``k``: ``share`` of the labels on the top k singular vectors
          of what the layer reads, ``chance`` (its mean over all orders of the labels), ``sigma`` (the k-th
          singular value over the first), ``width`` (of all features), ``coordinates`` (of those taken);
        * ``tangent``, a row per ``layer`` and ``parameter``: ``alignment`` of its tangent kernel with the
          labels, ``chance`` (with shuffled labels) and ``method``, ``exact`` or ``sketched``;
        * ``curvature``, a row per eigenvalue of the Hessian: ``index`` by magnitude, from 1, ``eigenvalue``,
          ``residual`` (an eigenvalue lies no further away), ``converged``; ``trace``, ``trace_low`` and
          ``trace_high`` (its 95 % interval) and ``trace_vectors`` (the random vectors that it rests on);
        * ``slice``, a row per step along a random direction: ``alpha`` in filters' norms, ``loss``;
        * ``deviation``, a row per ``layer`` and ``parameter``: ``deviation``, the norm of its change since
          the network before, and ``relative`` to the norm before.
    left_out : dict
        Why there is nothing, one line, by instrument or ``instrument of network``.
    examples : dict
        How many examples each instrument was given; with more than ten classes, tangent uses those of ten.
    notes : dict
        How many examples an instrument, or the ``loss`` of the facts, saw and why, one line.
    said : tuple of str
        What a reader should know about data and networks, a line each.
    data : str
        Digits that are the same for two probes of the same examples.
    made : dict
        With what: versions, ``seed``, ``minutes``, ``device``, ``threads``, ``date``.

    Raises
    ------
    AlignbookError
        By :meth:`from_dict` and :meth:`from_json`, for what is no stored probe.

    Examples
    --------
    >>> import torch, alignbook
    >>> x, y = torch.randn(20, 4), torch.arange(20) % 2
    >>> only = ["tangent", "curvature", "slice", "initialisation"]
    >>> found = alignbook.probe(torch.nn.Linear(4, 2), x, y, without=only)
    >>> found.network["network"]["parameters"], sorted(found.tables)
    (10, ['features'])
    >>> again = alignbook.Probe.from_dict(found.as_dict())
    >>> again.left_out["slice"]
    'left out as asked'
    """

    network: dict
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    data: str = ""
    made: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        """All of it as numbers, texts and lists, for JSON; nan and infinity become None."""
        tables = {
            name: [{str(k): _plain(v) for k, v in row.items()} for row in table.to_dict("records")]
            for name, table in self.tables.items()
        }
        facts = {who: {k: _plain(v) for k, v in known.items()} for who, known in self.network.items()}
        plain = {name: getattr(self, name) for name in ("left_out", "examples", "notes", "data", "made")}
        return {"network": facts, "tables": tables, "said": list(self.said), **plain}

    @classmethod
    def from_dict(cls, stored: dict) -> "Probe":
        """The probe that :meth:`as_dict` gives. Raises AlignbookError for another dict."""
        try:
            tables = {name: _frame(rows) for name, rows in stored["tables"].items()}
            parts = {name: dict(stored.get(name, {})) for name in ("left_out", "examples", "notes", "made")}
            said, data = tuple(stored.get("said", ())), stored.get("data", "")
            return cls(dict(stored["network"]), tables, **parts, said=said, data=data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise AlignbookError(f"this is no probe: {type(error).__name__}: {on_one_line(error)}") from None

    def to_json(self, path: str | Path) -> None:
        """Write it to a file that :meth:`from_json` reads."""
        text = json.dumps(self.as_dict(), indent=1, allow_nan=False)
        system.replace(Path(path), text.encode())

    @classmethod
    def from_json(cls, path: str | Path) -> "Probe":
        """The probe of a file, ``report.json`` of the command among them. Raises AlignbookError, one line."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise AlignbookError(f"{path} cannot be read: {on_one_line(error)}") from None
        return cls.from_dict(stored)

    def to_html(self, path: str | Path | None = None, title: str | None = None) -> str:
        """The page of the report as text, written to ``path`` where one is given: ``alignbook[report]``.

        title : its heading; None: the network's class.
        """
        with extras():
            from alignbook import report

        page = report.page(self, title)
        if path is not None:
            system.replace(Path(path), page.encode())
        return page

    def __repr__(self) -> str:
        networks = (f"{name} ({facts.get('class', 'unknown')})" for name, facts in self.network.items())
        lines = [f"Probe of {', '.join(networks) or 'nothing'}"]
        lines += [f"  {name}: {len(table):,} rows" for name, table in self.tables.items()]
        lines += [f"  without {name}: {why}" for name, why in self.left_out.items()]
        return "\n".join([*lines, *(f"  {line}" for line in self.said)])


def compare(*probes: Probe, **named: Probe) -> Probe:
    """Several probes as one :class:`Probe`, whose tables hold all networks side by side.

    Parameters
    ----------
    *probes : Probe
        Their networks are called ``probe 1``, ``probe 2``, ….
    **named : Probe
        Further ones, with names for their networks, e.g. ``start=…, end=…``.

    Returns
    -------
    Probe
        The first probe's random weights stay. What makes the probes hard to compare (other examples, another
        number of them) is in ``said``. Cost: a copy of every table.

    Raises
    ------
    ValueError
        For fewer than two probes.

    Examples
    --------
    >>> import torch, alignbook
    >>> x, y = torch.randn(20, 4), torch.arange(20) % 2
    >>> only = ["tangent", "curvature", "slice", "initialisation"]
    >>> found = [alignbook.probe(torch.nn.Linear(4, 2), x, y, without=only) for _ in range(3)]
    >>> both = alignbook.compare(a=found[0], b=found[1], c=found[2])
    >>> sorted(both.tables["features"]["network"].unique())
    ['a', 'b', 'c']
    """
    every = {f"probe {i}": probe for i, probe in enumerate(probes, 1)} | named
    odd = [name for name, probe in every.items() if not isinstance(probe, Probe)]
    if len(every) < 2 or odd:
        raise ValueError("compare takes two or more probes" + (f": {odd[0]} is none" if odd else ""))
    start, first = next(iter(every.items()))
    facts, tables, left_out, remarks = {}, {}, {}, []
    for name, probe in every.items():
        names = {who: name if who == "network" else f"{who} ({name})" for who in probe.network}
        names["initialisation"] = "initialisation" if probe is first else None
        facts |= {names[who]: known for who, known in probe.network.items() if names[who]}
        for instrument, rows in probe.tables.items():
            rows = rows.assign(network=rows["network"].map(names)).dropna(subset="network")
            tables.setdefault(instrument, []).append(rows)
        left_out |= {f"{key} ({name})": why for key, why in probe.left_out.items()}
        remarks += [f"{name}: {line}" for line in probe.said]
    if "initialisation" in first.network:
        remarks.insert(0, f"random weights are those of {start}")
    if len({probe.data for probe in every.values()}) > 1:
        remarks.insert(0, "the probes saw different examples: their numbers differ for that reason, too")
    for instrument in tables:
        seen = {name: probe.examples.get(instrument) for name, probe in every.items()}
        counts = ", ".join(f"{name} {n}" for name, n in seen.items() if n)
        if len({n for n in seen.values() if n}) > 1:
            remarks.insert(0, f"{instrument} saw another number of examples each ({counts}): give examples=")
    joined = {instrument: pd.concat(rows, ignore_index=True) for instrument, rows in tables.items()}
    return Probe(facts, joined, left_out, dict(first.examples), {}, tuple(remarks), first.data)


def _frame(rows):
    """A table from JSON: columns without a number hold nan, which JSON does not have."""
    frame = pd.DataFrame(rows)
    empty = [name for name in frame if frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, float))


def _plain(value):
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
