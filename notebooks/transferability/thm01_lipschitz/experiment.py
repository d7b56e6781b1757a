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

import pandas as pd
import torch

from alignbook.metrics.relu_gram import gradient_term, relu_gram, transformed_labels
from alignbook.seeding import torch_stream
from companion.jobs import jobs_over
from companion.studies.transferability.shared.image_pairs import pool, related
from companion.studies.transferability.shared.two_layer import (
    activation_gradient,
    descend,
    draw,
    in_span,
    outputs,
)


def jobs(parameters):
    """One job per data set and seed; it holds all widths and all κ."""
    names = "kappas widths angles shares examples step_size tolerance steps"
    shared = {name: parameters[name] for name in names.split()}
    datasets, seeds = parameters["datasets"], range(parameters["seeds"])
    return jobs_over("{dataset}-seed{seed}", compute, shared, dataset=datasets, seed=seeds)


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
