"""How well eigenvectors can be measured, and what alignment is: Table D.1, Figure 19, Propositions 1, 2.

Four kinds of units: ``split``, eigenvectors of patch covariances of two disjoint halves (D.1); ``angles``,
sampling noise of directions in two dimensions (D.3); ``training``, whether training commutes with the
symmetries of the data (Proposition 1, Appendix C); ``misalignment``, Proposition 2 (D.4).
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from alignbook.claims import HOLDS, Claim, KeyNumber, interval
from alignbook.data import load
from alignbook.experiments import Unit
from alignbook.metrics import patch_covariance
from alignbook.seeding import numpy_stream

from ..directions import information, root_mean_square_angle
from ..propositions import OPTIMISERS, PROPERTIES, ROUNDING, departures, properties

HEADLINE = "agreement"
# Table D.1, left: σ_i² and |⟨e_i, e_i'⟩| as printed, digits included.
PRINTED = pd.DataFrame(
    {
        "index": range(1, 13),
        "variance": "12.3 1.45 1.18 1.06 0.37 0.32 0.28 0.23 0.128 0.126 0.115 0.096".split(),
        "agreement": (
            "0.9999996 0.99995 0.99992 0.99994 0.99969 0.99970 "
            "0.99985 0.99988 0.99010 0.99030 0.99969 0.99999"
        ).split(),
    }
)
LEAST = 0.975  # D.1: below all scalar products
SPREAD = 1 / 30  # D.3: standard deviation of α (rad) where n I(α) is NEAR_INFORMATION
NEAR_INFORMATION = (904.1, 909.1)  # D.3
DRAWN = 50  # directions in a picture of Figure 19


def units(parameters):
    """Splits of the images, and one unit of the other kinds for each seed."""
    images = {name: parameters[name] for name in ("dataset", "size", "images")}
    angles = {name: parameters[name] for name in ("ratios", "samples", "repeats")}
    training = {name: parameters[name] for name in ("dimension", "width", "inputs", "steps", "rate")}
    made = [Unit(f"split{k}", split, images | {"seed": k}) for k in range(parameters["splits"])]
    for k in range(parameters["seeds"]):
        made.append(Unit(f"angles-seed{k}", angles_of, angles | {"seed": k}))
        made.append(Unit(f"training-seed{k}", training_of, training | {"seed": k}))
    made.append(Unit("misalignment", misalignment_of, {"pairs": parameters["pairs"], "seed": 0}))
    return made


def split(*, dataset, size, images, seed, device, report):
    """Patch covariances of two disjoint random halves of ``images`` images each, test images included.

    One row per eigenvector, ``kind == "split"``, the largest eigenvalue first: ``index`` (from 1),
    ``variance`` and ``variance_other``, σ_i² in either half; ``apart`` = 1 - |⟨e_i, e_i'⟩|; ``partner``, the
    same for the e_j' that is most like e_i, wherever in the order it is.
    """
    parts = [load(dataset, name).x for name in ("train", "test")]
    count = sum(len(part) for part in parts)
    if 2 * images > count:
        raise ValueError(f"two halves of {images} images, but {dataset} has {count}")
    order = numpy_stream(seed, "split", dataset).permutation(count)
    bases = []
    for half in (order[:images], order[images : 2 * images]):
        first, second = half[half < len(parts[0])], half[half >= len(parts[0])] - len(parts[0])
        chosen = torch.cat([parts[0][first], parts[1][second]])
        values, vectors = np.linalg.eigh(patch_covariance(chosen.to(device), size=size).cov)
        bases.append((values[::-1], vectors[:, ::-1]))
        report(len(bases) / 2, f"{len(bases)} of 2 halves")
    (values, vectors), (others, turned) = bases
    apart, partner = (_apart(vectors, turned[:, j]) for j in (..., np.abs(vectors.T @ turned).argmax(1)))
    return pd.DataFrame(
        {
            "kind": "split", "index": np.arange(1, len(values) + 1),
            "variance": values, "variance_other": others, "apart": apart, "partner": partner,
        }
    )  # fmt: skip


def _apart(vectors, others):
    """1 - |⟨v, w⟩| of unit columns, as |v - sign(⟨v, w⟩) w|² / 2: the difference would lose seven digits."""
    signs = np.sign((vectors * others).sum(0))
    return np.square(vectors - signs * others).sum(0) / 2


def angles_of(*, ratios, samples, repeats, seed, device, report):
    """Angles of the first axis of an empirical covariance from the true one's, Σ = diag(1, λ).

    One row per λ and n with ``kind == "angles"``: ``spread``, the root mean square angle (rad) over
    ``repeats`` covariances; ``exact``, :func:`root_mean_square_angle`; ``fisher``, 1/√(n I(α)). And, for the
    first 50 of them, a row each with ``kind == "direction"``: ``angle`` (rad). Covariances come from
    Wishart's law (Bartlett), which is that of n samples.
    """
    generator = numpy_stream(seed, "angles")
    rows = []
    for ratio in ratios:
        for n in samples:
            a = np.sqrt(generator.chisquare(n, repeats))
            b = np.sqrt(generator.chisquare(n - 1, repeats))
            c = generator.standard_normal(repeats)
            # Σ^(1/2) L Lᵀ Σ^(1/2) with L = [[a, 0], [c, b]]
            one, two, cross = a**2, ratio * (b**2 + c**2), math.sqrt(ratio) * a * c
            angle = np.arctan2(2 * cross, two - one) / 2
            cell = {"ratio": ratio, "samples": n}
            rows.append(
                cell
                | {
                    "kind": "angles",
                    "spread": math.sqrt(np.mean(angle**2)),
                    "exact": root_mean_square_angle(ratio, n),
                    "fisher": 1 / math.sqrt(n * information(ratio)),
                }
            )
            rows += [cell | {"kind": "direction", "angle": value} for value in angle[:DRAWN]]
    return pd.DataFrame(rows)


def training_of(*, dimension, width, inputs, steps, rate, seed, device, report):
    """:func:`propositions.departures`, ``kind == "training"``: Proposition 1, optimiser by optimiser."""
    rows = departures(dimension, width, inputs, steps, rate, seed, report)
    return pd.DataFrame(rows).assign(kind="training")


def misalignment_of(*, pairs, seed, device, report):
    """:func:`propositions.properties`, ``kind == "misalignment"``: ``property`` and its ``value``."""
    found = properties(pairs, numpy_stream(seed, "proposition 2"), report)
    return pd.DataFrame({"kind": "misalignment", "property": list(found), "value": list(found.values())})


def of_kind(table, kind):
    """The rows of one kind; none where nothing is stored."""
    return table[table["kind"] == kind] if "kind" in table else table.iloc[:0]


def splits(table, column):
    """(splits × eigenvectors) frame of ``variance``, ``apart`` or ``partner``, columns from 1."""
    rows = of_kind(table, "split")
    return rows.pivot(index="seed", columns="index", values=column) if len(rows) else pd.DataFrame()


def printed_apart(number):
    """log₁₀(1 - the printed scalar product of row ``number``)."""
    return math.log10(1 - float(PRINTED["agreement"][number - 1]))


def unit_of(text):
    """One unit of the last digit of a printed number."""
    return 10.0 ** -len(text.partition(".")[2])


def diagonal(parameters):
    """(λ, n) of Figure 19 whose n I(α) is about as large as the paper says."""
    low, high = NEAR_INFORMATION
    return [
        (ratio, n)
        for ratio in parameters["ratios"]
        for n in parameters["samples"]
        if low - 0.1 <= n * information(ratio) <= high + 0.1
    ]


def claims(table, parameters):
    """Table D.1, D.3's toy example, Propositions 1 and 2. Margins are from before the first run."""
    return [
        *_of_splits(table, parameters),
        *_of_angles(table, parameters),
        *_of_training(table),
        *_of_misalignment(table),
    ]


def _of_splits(table, parameters):
    """The printed scalar products and eigenvalues, each beside the prediction interval of one split."""
    where = "Table D.1 (left)"
    whole = "Eigenvectors of two halves agree as printed: mean over twelve of log10 of 1 − scalar product."
    least = f"All scalar products, of later eigenvectors too, are above {LEAST}: log10 of 1 − the least."
    partners = f"{least[:-1]}, each with the eigenvector most like it."
    apart, partner, variance = (splits(table, column) for column in ("apart", "partner", "variance"))
    if apart.empty or apart.shape[1] < len(PRINTED):
        why = "no split with twelve eigenvectors"
        abouts = ((HEADLINE, whole), ("least", least), ("least-partners", partners))
        return [Claim.missing(*about, where, why) for about in abouts]
    logs = np.log10(apart.clip(lower=1e-16))
    rows = list(PRINTED["index"])
    mean = np.mean([printed_apart(i) for i in rows])
    made = [Claim.one_run(HEADLINE, whole, where, logs[rows].mean(axis=1), mean)]
    for id, statement, frame in (("least", least, apart), ("least-partners", partners, partner)):
        worst, bound = np.log10(frame.max(axis=1)), math.log10(1 - LEAST)
        claim = Claim.one_run(id, statement, "D.1", worst, bound)
        if claim.interval and claim.interval[1] < bound:  # a bound: to be far below it is no disagreement
            claim = replace(claim, outcome=HOLDS)
        made.append(claim.tagged("All scalar products are above 0.975.", ours=id != "least"))
    each = "Each printed scalar product is one that a split gives (log10 of its distance from 1)."
    size = "Each printed eigenvalue is ours, to a unit of its last digit."
    for i, text in zip(rows, PRINTED["variance"], strict=True):
        statement = f"log10(1 − |⟨e, e′⟩|) of eigenvector {i} is that of the printed value."
        made.append(Claim.one_run(f"agreement-{i}", statement, where, logs[i], printed_apart(i)).tagged(each))
        statement = f"Eigenvalue {i} of the patches is as printed."
        made.append(
            Claim.equals(f"eigenvalue-{i}", statement, where, variance[i], float(text), unit_of(text)).tagged(
                size
            )
        )
    return made


def _of_angles(table, parameters):
    """D.3: a deviation of 1/30 where n I is the same; directions get lost near λ = 1; Fisher in the limit."""
    rows = of_kind(table, "angles")
    group = "Where n I(α) is the same, so is the standard deviation of the angle: 1/30."
    ratios, samples = sorted(parameters["ratios"]), sorted(parameters["samples"])
    made = []
    for ratio, n in diagonal(parameters):
        about = (f"spread-{ratio:g}", f"λ = {ratio:g}, n = {n:,}: its deviation is about 1/30 (rad).", "D.3")
        values = rows[(rows["ratio"] == ratio) & (rows["samples"] == n)]["spread"] if len(rows) else []
        if len(values):
            made.append(Claim.equals(*about, values, SPREAD, 0.1 * SPREAD).tagged(group))
        else:
            made.append(Claim.missing(*about, "not among the results", paper=SPREAD).tagged(group))
    near = (
        "lost-near-1",
        "With few samples the direction is lost as λ comes near 1 (rad, over the largest λ's).",
    )
    limit = "fisher", "The variance 1/(n I) becomes exact for many samples: exact deviation over it.", "D.3"
    if rows.empty or len(ratios) < 2:
        return [*made, Claim.missing(*near, "D.3, Figure 19", "no two λ"), Claim.missing(*limit, "no λ")]
    few = rows[rows["samples"] == samples[0]].pivot(index="seed", columns="ratio", values="spread")
    made.append(Claim.greater(*near, "D.3, Figure 19", few[ratios[0]] - few[ratios[-1]]))
    many = rows[rows["samples"] == samples[-1]]
    ratio = many["exact"] / many["fisher"]
    worst = ratio.iloc[(ratio - 1).abs().argmax()]
    made.append(Claim.computed(*limit, worst, 1.0, 0.01))
    return made


def trained(table, axes="turned"):
    """(seeds × optimisers) frame of the departure from equivariance; empty where nothing is stored."""
    rows = of_kind(table, "training")
    if rows.empty:
        return pd.DataFrame()
    return rows[rows["axes"] == axes].pivot(index="seed", columns="optimiser", values="departure")


def _of_training(table):
    """Appendix C's list of optimisers, with the axes of Σ_x turned against the coordinates'."""
    found = trained(table)
    group = "Training commutes with the symmetries of the data (Proposition 1; its appendix lists these)."
    made = []
    for name, commutes in OPTIMISERS.items():
        id = f"commutes-{name.lower().replace(' ', '-')}"
        where = "Proposition 1, Appendix C"
        said = "commutes with them" if commutes else "does not commute with them"
        statement = f"Training with {name} {said} (departure over distance trained)."
        if found.empty:
            made.append(Claim.missing(id, statement, where, "not among the results").tagged(group))
        elif commutes:
            claim = Claim.computed(id, statement, where, found[name].max(), 0.0, ROUNDING)
            made.append(claim.tagged(group))
        else:
            made.append(Claim.greater(id, statement, where, found[name], than=ROUNDING).tagged(group))
    return made


def _of_misalignment(table):
    """Proposition 2, property by property."""
    rows = of_kind(table, "misalignment")
    measured = rows.set_index("property")["value"] if len(rows) else {}
    group = "Misalignment M(A, B) has the properties of Proposition 2, and is not continuous in A."
    made = []
    for name, (statement, due, margin) in PROPERTIES.items():
        about = (f"proposition-2-{name.lower()}", f"{statement}.", "Proposition 2")
        if name in measured:
            made.append(Claim.computed(*about, measured[name], due, margin).tagged(group))
        else:
            made.append(Claim.missing(*about, "not among the results").tagged(group))
    return made


def finding(table, parameters):
    """How the twelve scalar products compare, and which optimisers break Proposition 1."""
    parts = []
    apart = splits(table, "apart")
    if not apart.empty and apart.shape[1] >= len(PRINTED):
        ours = 10 ** np.log10(apart[PRINTED["index"]].clip(lower=1e-16)).mean(axis=None)
        least = 1 - apart.max(axis=1).median()
        theirs = 10 ** np.mean([printed_apart(i) for i in PRINTED["index"]])
        parts.append(
            f"The scalar products of two halves' first twelve eigenvectors are {ours:.1e} below 1 (geometric "
            f"mean; paper {theirs:.1e}). The least of all products is {least:.2f} in a typical split "
            f"(paper: above {LEAST})."
        )
    found = trained(table)
    if not found.empty:
        broken = [name for name, yes in OPTIMISERS.items() if yes and found[name].max() > ROUNDING]
        if broken:
            parts.append(
                f"Training with {' or '.join(broken)} breaks Proposition 1's symmetry; the paper says not."
            )
        else:
            parts.append("All optimisers that the paper lists keep Proposition 1's symmetry.")
    return " ".join(parts) or "Nothing is among the results."


def key_numbers(table, parameters):
    """First and worst of the twelve scalar products, and the angle's deviation on the diagonal."""
    result = []
    apart = splits(table, "apart")
    if not apart.empty and apart.shape[1] >= len(PRINTED):
        for i in (1, 9):
            printed = PRINTED["agreement"][i - 1]
            form = f"{{:.{len(printed) - 2}f}}"
            middle, low, high = (form.format(1 - apart[i].quantile(q)) for q in (0.5, 1, 0))
            here = f"{middle} ({low} to {high})"
            result.append(KeyNumber(f"scalar product, eigenvector {i}: median (range)", here, printed))
    rows = of_kind(table, "angles")
    for ratio, n in diagonal(parameters)[:1]:
        values = rows[(rows["ratio"] == ratio) & (rows["samples"] == n)]["spread"] if len(rows) else []
        if len(values):
            what = f"deviation of the direction, λ = {ratio:g}, n = {n:,} (rad)"
            result.append(KeyNumber(what, interval(values, "{:.4f}"), "about 1/30"))
    return result
