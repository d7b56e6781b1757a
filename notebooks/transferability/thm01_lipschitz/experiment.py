"""Theorem 1 of the ICLR 2020 submission: what pre-training does to the gradient of the target's loss.

Section 6.1's network is pre-trained on n_P images of two classes and carried, untrained further, to many
target tasks. L is the target's loss, X¹ its activations. By Equations 13 and 14, |∂L/∂X¹|² = (a'a/m)
|u_Q - y_Q|², and a'a = m, so with u_Q(P) and u_Q(0) the outputs of the pre-trained and the random network

    change = |u_Q(P) - y_Q|² - |u_Q(0) - y_Q|²   →   -y_Q'y_Q + |y_Q - y_{P→Q}|²

as m → ∞ and κ → 0: there u_Q(P) → y_{P→Q} and u_Q(0) → 0. At a fixed κ the limit m → ∞ is another one
(our addition): gradient descent then ends at u_Q(0) + H_PQ^∞' (H_P^∞)^{-1} (y_P - u_P(0)), and the column
``adjusted`` holds the change that this gives for the outputs that the network had at random. What separates
the change from ``adjusted`` is the width alone, what separates it from the term is width and κ.
"""

import numpy as np
import pandas as pd
import torch

from alignbook.claims import CONTRADICTED, HOLDS, UNDECIDED, Claim, KeyNumber
from alignbook.experiments import Unit
from alignbook.metrics.relu_gram import gradient_term, relu_gram, transformed_labels
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.by_seed import mean_spread, per_seed
from alignbook.studies.transferability.image_pairs import pool, related
from alignbook.studies.transferability.two_layer import (
    activation_gradient,
    descend,
    draw,
    in_span,
    outputs,
)

HEADLINE = "term"
MARGIN = 0.05  # of y_Q'y_Q, and of the coefficient's 1
THEOREM_RATE = 0.25  # Theorem 1: the error of finite width is of order m^-1/4
FAMILIES = {"rotated": "inputs turned", "flipped": "labels turned around", "classes": "other classes"}


def units(parameters):
    """One unit per data set and seed; it holds all widths and all κ."""
    shared = ("kappas", "widths", "angles", "shares", "examples", "step_size", "tolerance", "steps")
    return [
        Unit(
            f"{dataset}-seed{seed}",
            compute,
            {"dataset": dataset, **{name: parameters[name] for name in shared}, "seed": seed},
        )
        for dataset in parameters["datasets"]
        for seed in range(parameters["seeds"])
    ]


def compute(
    *, dataset, kappas, widths, angles, shares, examples, step_size, tolerance, steps, seed, device, report
):
    """The change of the squared gradient beside Theorem 1's term, over targets, widths and κ.

    dataset : str; kappas : list of float > 0; widths : list of int, m; angles : list of degrees;
    shares : list of float in [0, 1], of the target's labels; examples : int, n_P = n_Q; step_size : η in
    units of 1/λ_max(H_P^∞); tolerance, steps : pre-training ends at |u_P - y_P| ≤ tolerance |y_P|, or
    after steps

    One row per κ (``kappa``), ``width`` and target (``family``, ``step``): ``change``, ``term`` and
    ``adjusted``, all over y_Q'y_Q; ``random``, |u_Q(0) - y_Q|² over y_Q'y_Q; ``trained``, the steps taken;
    ``residual``, |u_P - y_P| / |y_P| after them. Every κ scales the same random weights.
    """
    images = pool(dataset, seed)
    source, y_p = images.pair(0, examples)
    tasks = related(images, angles, shares, examples, seed)
    x = in_span(torch.cat([images.on_sphere(part) for part in (source, *(task[2] for task in tasks))]))
    x_p, *x_q = x.split(examples)
    rate = step_size / float(torch.linalg.eigvalsh(relu_gram(x_p))[-1])
    transformed = [transformed_labels(x_p, y_p, part) for part in x_q]
    x, y_p, inputs = x.to(device), y_p.to(device), x_p.to(device)

    rows, work = [], len(kappas) * sum(widths)
    done = 0
    for width in widths:
        generator = torch_stream(seed, "thm01", dataset, width, device=device)
        unscaled, signs = draw(x.shape[1], width, 1.0, generator)
        unscaled_outputs = outputs(unscaled, signs, x)  # f is homogeneous in W: κ scales them
        for kappa in kappas:
            weights = unscaled * kappa
            trained, losses = descend(
                weights, signs, inputs, y_p, rate=rate, tolerance=tolerance, steps=steps
            )
            before = [part.cpu() for part in (kappa * unscaled_outputs).split(examples)]
            after = [part.cpu() for part in outputs(trained, signs, x).split(examples)]
            found = {"kappa": kappa, "width": width, "trained": len(losses) - 1}
            found["residual"] = float((losses[-1] / y_p.cpu().square().sum()).sqrt())
            # What is left of P's labels to learn, and of Q's to explain, once the random outputs are there.
            left = y_p.cpu() - before[0]
            for (family, step, _, y), inside, carried, old, new in zip(
                tasks, x_q, transformed, before[1:], after[1:], strict=True
            ):
                size = float(y.square().sum())
                random = activation_gradient(signs.cpu(), old, y)
                limit = old + transformed_labels(x_p, left, inside)
                rows.append(
                    found
                    | {
                        "family": family,
                        "step": float(step),
                        "change": (activation_gradient(signs.cpu(), new, y) - random) / size,
                        "term": gradient_term(y, carried) / size,
                        "adjusted": (float((limit - y).square().sum()) - random) / size,
                        "random": random / size,
                    }
                )
            done += width
            report(done / work, f"m = {width}, κ = {kappa:g}")
    return pd.DataFrame(rows)


def central_kappa(parameters):
    """The κ in the middle of those asked for: the verdicts rest on it."""
    return sorted(parameters["kappas"])[len(parameters["kappas"]) // 2]


def at(table, **columns):
    """Rows with the given values in the named columns."""
    keep = np.logical_and.reduce([table[name] == value for name, value in columns.items()])
    return table[keep]


def coefficient(rows):
    """Regression through 0 of the measured change on the theorem's term, over the targets."""
    return (rows.change * rows.term).sum() / (rows.term**2).sum()


def distance(rows, column="term"):
    """Root mean square over the targets of change - column."""
    return ((rows.change - rows[column]) ** 2).mean() ** 0.5


def rate(rows, column):
    """-d log distance / d log m, a least-squares line over the widths; NaN with a single width."""
    by_width = pd.Series({m: distance(part, column) for m, part in rows.groupby("width")})
    if len(by_width) < 2:
        return np.nan
    return -np.polyfit(np.log(by_width.index.to_numpy(float)), np.log(by_width.to_numpy()), 1)[0]


def claims(table, parameters):
    """At the largest m and the middle κ, a value per data set and seed; margins fixed before quick ran."""
    found = [
        ("term", "the change of the squared gradient is the theorem's term: coefficient on it"),
        (
            "width-rate",
            "what of the error falls with the width falls at least as fast as m^(-1/4)",
        ),
        ("kappa-rate", "the rest of the error grows linearly with κ: exponent between the two largest κ"),
    ]
    sources = (
        "Theorem 1",
        "Theorem 1, third term; its separation from the κ term is ours",
        "Theorem 1, fourth term",
    )
    targets = (1.0, None, 1.0)
    if table.empty:
        return [
            Claim.missing(*claim, source, "nothing finished", paper)
            for claim, source, paper in zip(found, sources, targets, strict=True)
        ]
    kappa, widest = central_kappa(parameters), table.width.max()
    rows = at(table, kappa=kappa)
    largest = at(rows, width=widest)
    made = [Claim.equals(*found[0], sources[0], per_seed(largest, coefficient), 1.0, MARGIN)]
    rates = per_seed(rows, lambda part: rate(part, "adjusted"))
    made.append(
        Claim.greater(*found[1], sources[1], rates, than=THEOREM_RATE, what="data set and seed").tagged(
            ours=True
        )
        if rates.notna().all()
        else Claim.missing(*found[1], sources[1], "a single width")
    )
    made.append(_kappa_claim(at(table, width=widest), found[2], sources[2], parameters["kappas"]))
    group = f"for every target the change is the theorem's term, to {MARGIN:g} of y_Q'y_Q"
    for (family, step), part in largest.groupby(["family", "step"], sort=False):
        values = per_seed(part, lambda rows: (rows.change - rows.term).mean())
        name = f"{FAMILIES[family]}{_amount(family, step)}"
        claim = Claim.equals(
            f"{family}-{step:g}", f"change minus term: {name}", "Theorem 1", values, 0.0, MARGIN
        )
        made.append(claim.tagged(group=group))
    return made + _benefit_claims(largest)


def _amount(family, step):
    return {"rotated": f" by {step:.0f}°", "flipped": f", {step:.0%}", "classes": ""}[family]


def _kappa_claim(rows, claim, source, kappas):
    if len(kappas) < 2:
        return Claim.missing(*claim, source, "a single κ", 1.0)
    small, large = sorted(kappas)[-2:]
    values = np.log(
        per_seed(at(rows, kappa=large), _kappa_part) / per_seed(at(rows, kappa=small), _kappa_part)
    ) / np.log(large / small)
    return Claim.equals(*claim, source, values, 1.0, 0.3).tagged(ours=True)


def _kappa_part(rows):
    """Root mean square over the targets of what κ adds to the limit."""
    return ((rows.adjusted - rows.term) ** 2).mean() ** 0.5


def _benefit_claims(rows):
    """Section 6.2's reading of the theorem, per data set."""
    similar = "pre-training on the same classes lowers the squared gradient: its fall over y_Q'y_Q"
    reverse = "pre-training on the reverse labels raises the squared gradient: its rise over y_Q'y_Q"
    made = []
    for dataset, part in rows.groupby("dataset"):
        for name, group, family, sign in (
            ("similar", similar, "rotated", -1), ("reverse", reverse, "flipped", 1)
        ):  # fmt: skip
            chosen = part[part.family == family]
            step = chosen.step.min() if family == "rotated" else chosen.step.max()
            values = sign * chosen[chosen.step == step].set_index("seed").change
            claim = Claim.greater(f"{name}-{dataset}", f"{group} ({dataset})", "Section 6.2", values)
            made.append(claim.tagged(group=group))
    return made


def finding(table, parameters):
    """What the measurement says about the headline, in plain text."""
    if table.empty:
        return "Nothing has finished."
    kappa = central_kappa(parameters)
    rows = at(table, kappa=kappa)
    largest = at(rows, width=rows.width.max())
    values = per_seed(largest, coefficient)
    found = f"At width {rows.width.max()} the change is {mean_spread(values)} times the theorem's term. "
    names = {HOLDS: [], CONTRADICTED: [], UNDECIDED: []}
    for claim in _benefit_claims(largest):
        kind, _, dataset = claim.id.partition("-")
        if kind == "similar":
            names[claim.outcome].append(dataset)
    said = [
        f"{words} on {', '.join(names[outcome])}"
        for outcome, words in (
            (HOLDS, "lower"),
            (CONTRADICTED, "higher"),
            (UNDECIDED, "undecided"),
        )
        if names[outcome]
    ]
    return f"{found}Pre-trained on the same two classes, the squared gradient is {'; '.join(said)}."


def key_numbers(table, parameters):
    """The coefficient, the distance and the rate in the width; the paper prints none of the first two."""
    if table.empty:
        return []
    rows = at(table, kappa=central_kappa(parameters))
    largest = at(rows, width=rows.width.max())
    numbers = [
        KeyNumber(
            "change over term, largest m", mean_spread(per_seed(largest, coefficient)), "1 as m → ∞, κ → 0"
        ),
        KeyNumber("distance from the term, share of y_Q'y_Q", mean_spread(per_seed(largest, distance), 3)),
    ]
    if rows.width.nunique() > 1:
        rates = per_seed(rows, lambda part: rate(part, "adjusted"))
        numbers.append(KeyNumber("exponent of m in the width's error", mean_spread(-rates), "at most -1/4"))
    return numbers
