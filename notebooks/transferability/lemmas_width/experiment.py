"""Lemmas 1 to 6 and Equation 19 of the ICLR 2020 submission: what its proofs call small, over the width.

Section 6.1's network of m units w_r is pre-trained on n_P images and fine-tuned on n_Q others of the same
two classes. W(0) are its random weights, W(P) the pre-trained ones, W_Q(k) those after k steps of
fine-tuning; u are its outputs, Z its features (Equation 3) and H = Z'Z the Gram matrix. With λ the smallest
eigenvalue of H^∞:

    Lemma 1       |w_{P,r}(k) - w_r(0)| ≤ 4 sqrt(n_P) |y_P - u_P(0)| / (sqrt(m) λ_P)
    Lemma 2       λ_min(H(k)) > λ / 2
    Lemma 3       |Z_P(0)'Z_Q(P) - H_PQ^∞|_F = O(m^-1/2)
    Equation 19   u_Q(P) - u_Q(0) = Z_Q(0)'(W(P) - W(0)) + O(m^-1/2) = Z_Q(0)'Z_P(0) (H_P^∞)^{-1} y_P + …
    Lemma 4       |w_{Q,r}(k) - w_r(0)| ≤ R' = Lemma 1's bound + 4 sqrt(n_Q) |y_Q - u_Q(P)| / (sqrt(m) λ_Q)
    Lemma 5       of the m n_Q pairs of a unit and an input, at most C m n_Q R have |w_r(0)'x| ≤ R
    Lemma 6       |Z_Q(k) - Z_Q(0)|_F = O(m^-1/4) and |H_Q(k) - H_Q(0)|_F = O(m^-1/2)
"""

import math

import pandas as pd
import torch

from alignbook.metrics.relu_gram import relu_gram, solve, transformed_labels
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.transferability.shared.image_pairs import pool
from companion.studies.transferability.shared.two_layer import descend, draw, in_span, outputs

SHARED = ("kappas", "widths", "examples", "step_size", "tolerance", "steps")


def jobs(parameters):
    """One job per data set and seed; it holds all widths and all κ."""
    given = {name: parameters[name] for name in SHARED}
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, given, dataset=datasets, seed=seeds)


def compute(*, dataset, kappas, widths, examples, step_size, tolerance, steps, seed, device, report):
    """What Lemmas 1 to 6 and Equation 19 bound, for every κ and width.

    dataset : str; kappas : list of float > 0; widths : list of int, m; examples : int, n_P = n_Q;
    step_size : η in units of 1/λ_max(H^∞) of the task in hand; tolerance, steps : training ends at
    |u - y| ≤ tolerance |y|, or after steps

    One row per κ (``kappa``) and ``width``, see :func:`_pretraining` and :func:`_fine_tuning`; ``residual``
    is the larger of the two trainings'. "Over training" is over steps 1, 3, 7, 15, … and the last.
    """
    images = pool(dataset, seed)
    (target, y_q), (source, y_p) = (images.pair(0, examples) for _ in range(2))
    x = in_span(torch.cat([images.on_sphere(target), images.on_sphere(source)])).to(device)
    tasks = [(part, y.to(device)) for part, y in zip(x.split(examples)[::-1], (y_p, y_q), strict=True)]
    settings = {"step_size": step_size, "tolerance": tolerance, "steps": steps}
    rows, done, work = [], 0, len(kappas) * sum(widths)
    for width in widths:
        generator = torch_stream(seed, "lemmas", dataset, width, device=device)
        unscaled, signs = draw(x.shape[1], width, 1.0, generator)
        for kappa in kappas:
            start = kappa * unscaled
            weights, first = _pretraining(start, signs, *tasks, settings)
            second = _fine_tuning(start, weights, signs, tasks[1], kappa, settings, first["bound_p"])
            ends = {name: pick(first.pop(name), second.pop(name)) for name, pick in _ENDS.items()}
            rows.append({"kappa": kappa, "width": width, **first, **second, **ends})
            done += width
            report(done / work, f"m = {width}, κ = {kappa:g}")
    return pd.DataFrame(rows)


_ENDS = {"smallest": min, "residual": max}  # of both trainings


def _pretraining(start, signs, source, target, settings):
    """(W(P), row) of gradient descent on ``source``, each task a pair (x, y).

    ``moved_p``, the farthest that a unit is from its start over training; ``bound_p``, Lemma 1's;
    ``radius``, λ_P / n_P², of Lemma 2, without its constant and for w ~ N(0, I); ``smallest``, λ_min(H_P)
    over λ_P, the least over training; ``cross``, Lemma 3's distance over |H_PQ^∞|_F. Of Equation 19, over
    |y_Q|: ``linear``, |u_Q(P) - u_Q(0) - Z_Q(0)'(W(P) - W(0))|; ``remainder``, what separates
    u_Q(P) - u_Q(0) from the labels y_P - u_P(0) carried by Z_Q(0)'Z_P(0) (H_P^∞)^{-1}; ``carried``,
    |u_Q(P) - y_{P→Q}|.
    """
    (x_p, y_p), (x_q, y_q) = source, target
    gram, size = relu_gram(x_p), float(y_q.norm())
    before_p, before_q = outputs(start, signs, x_p), outputs(start, signs, x_q)
    lowest, moved = math.inf, 0.0
    for weights in _training(start, signs, source, settings):
        moved = max(moved, _farthest(weights, start))
        lowest = min(lowest, _smallest(_gram(weights, weights, x_p, x_p)))
    floor = _smallest(gram)
    limit = relu_gram(x_p, x_q)
    gained = outputs(weights, signs, x_q) - before_q
    straight = _linear(start, signs, weights - start, x_q)
    coded = solve(gram, y_p - before_p)
    row = {"moved_p": moved, "smallest": lowest / floor, "residual": _residual(weights, signs, x_p, y_p)}
    row["bound_p"] = _bound(y_p - before_p, len(signs), floor)
    row["radius"] = floor / len(y_p) ** 2
    row["cross"] = float((_gram(start, weights, x_p, x_q) - limit).norm() / limit.norm())
    row["linear"] = float((gained - straight).norm()) / size
    row["remainder"] = float((gained - _gram(start, start, x_p, x_q).T @ coded).norm()) / size
    row["carried"] = float((gained + before_q - transformed_labels(x_p, y_p, x_q)).norm()) / size
    return weights, row


def _fine_tuning(start, weights, signs, target, kappa, settings, bound):
    """The row of gradient descent on ``target`` from the pre-trained ``weights``.

    ``moved_q``, the farthest that a unit is from its random start over training; ``bound_q``, Lemma 4's;
    ``near``, share of the pairs of a unit and an input with |w_r(0)'x| ≤ moved_q; ``density``, the same over
    sqrt(2/π) moved_q / κ, the share that Lemma 5's proof allows; ``switched``, the largest share over
    training of pairs in which w_r'x has another sign than at random; ``features`` and ``gram``, the largest
    distances of Lemma 6 over |Z_Q(0)|_F and |H_Q(0)|_F; ``smallest`` as of :func:`_pretraining`.
    """
    x, y = target
    floor = _smallest(relu_gram(x))
    at_random, active = _gram(start, start, x, x), start @ x.T >= 0
    far = _bound(y - outputs(weights, signs, x), len(signs), floor)
    moved, lowest, switched, changed = 0.0, math.inf, 0.0, 0.0
    for now in _training(weights, signs, target, settings):
        gram = _gram(now, now, x, x)
        moved = max(moved, _farthest(now, start))
        lowest = min(lowest, _smallest(gram))
        switched = max(switched, float(((now @ x.T >= 0) != active).double().mean()))
        changed = max(changed, float((gram - at_random).norm()))
    near = float(((start @ x.T).abs() <= moved).double().mean())
    return {
        "moved_q": moved,
        "bound_q": bound + far,
        "near": near,
        "density": near / (math.sqrt(2 / math.pi) * moved / kappa),
        "switched": switched,
        "features": math.sqrt(switched / float(active.double().mean())),  # inputs have norm 1
        "gram": changed / float(at_random.norm()),
        "smallest": lowest / floor,
        "residual": _residual(now, signs, x, y),
    }


def _training(weights, signs, task, settings):
    """The weights of gradient descent after 1, 3, 7, 15, … steps and at its end."""
    x, y = task
    rate = settings["step_size"] / float(torch.linalg.eigvalsh(relu_gram(x))[-1])
    done, due = 0, 1
    while True:
        part = min(due, settings["steps"] - done)
        weights, losses = descend(
            weights, signs, x, y, rate=rate, tolerance=settings["tolerance"], steps=part
        )
        done, due = done + part, 2 * due
        yield weights
        if len(losses) <= part or done >= settings["steps"]:
            return


def _gram(one, other, x, z):
    """(1/m) Σ_r x'z 1{w_r'x ≥ 0} 1{v_r'z ≥ 0} of weights w (``one``) and v (``other``), each (m, d)."""
    active = [(weights @ part.T >= 0).double() for weights, part in ((one, x), (other, z))]
    return (x @ z.T) * (active[0].T @ active[1]) / len(one)


def _linear(start, signs, step, x):
    """Z(0)' vec(step): what the step changes of the outputs at x if no ReLU switches."""
    return signs @ ((start @ x.T >= 0) * (step @ x.T)) / math.sqrt(len(signs))


def _residual(weights, signs, x, y):
    return float((outputs(weights, signs, x) - y).norm() / y.norm())


def _smallest(gram):
    return float(torch.linalg.eigvalsh(gram)[0])


def _farthest(weights, start):
    return float((weights - start).norm(dim=1).max())


def _bound(gap, width, floor):
    """4 sqrt(n) |gap| / (sqrt(m) λ): how far Lemmas 1 and 4 let a unit move."""
    return 4 * math.sqrt(len(gap)) * float(gap.norm()) / (math.sqrt(width) * floor)
