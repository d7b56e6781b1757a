"""Lemmas 1 to 6 and Equation 19: one job against plain loops, and statements that come out either way."""

import math

import numpy as np
import pytest
import torch

from alignbook.metrics.relu_gram import relu_gram, transformed_labels
from alignbook.seeding import torch_stream
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.transferability.lemmas_width import experiment, reading
from companion.studies.transferability.shared.image_pairs import pool
from companion.studies.transferability.shared.two_layer import draw, in_span
from tests import judging

PARAMETERS = judging.given("transferability/lemmas_width", examples=6, tolerance=0.05, seeds=1)


def gram(one, other, x, z):
    """Z'Z of Equation 3, entry by entry."""
    made = torch.zeros(len(x), len(z), dtype=torch.float64)
    for i, first in enumerate(x):
        for j, second in enumerate(z):
            both = ((one @ first >= 0) & (other @ second >= 0)).double().mean()
            made[i, j] = both * (first @ second)
    return made


def plain(width, kappa, seed=0):
    """(row of plain loops, x_p, x_q): gradient descent by autograd, every step looked at."""
    images = pool("digits", seed)
    (target, y_q), (source, y_p) = images.pair(0, 6), images.pair(0, 6)
    x_q, x_p = in_span(torch.cat([images.on_sphere(target), images.on_sphere(source)])).split(6)
    start, signs = draw(x_q.shape[1], width, 1.0, torch_stream(seed, "lemmas", "digits", width))
    start = kappa * start

    def outputs(w, x):
        return (x @ w.T).relu() @ signs / math.sqrt(width)

    def train(w, x, y):
        rate = 1 / float(torch.linalg.eigvalsh(relu_gram(x))[-1])
        while (outputs(w, x) - y).norm() > 0.05 * y.norm():
            w = w.detach().requires_grad_()
            loss = (outputs(w, x) - y).square().sum() / 2
            w = w - rate * torch.autograd.grad(loss, w)[0]
        return w.detach()

    before = outputs(start, x_q)
    middle = train(start, x_p, y_p)
    end = train(middle, x_q, y_q)
    open_units = (start @ x_q.T >= 0).double()
    straight = ((middle - start) @ x_q.T * open_units).T @ signs / math.sqrt(width)
    gained, cross = outputs(middle, x_q) - before, gram(start, middle, x_p, x_q)
    lowest = float(torch.linalg.eigvalsh(relu_gram(x_p))[0])
    gap = y_p - outputs(start, x_p)
    coded = torch.linalg.solve(relu_gram(x_p), gap)
    return {
        "bound_p": 4 * math.sqrt(6) * float(gap.norm()) / math.sqrt(width) / lowest,
        "cross": float((cross - relu_gram(x_p, x_q)).norm() / relu_gram(x_p, x_q).norm()),
        "linear": float((gained - straight).norm() / y_q.norm()),
        "remainder": float((gained - gram(start, start, x_p, x_q).T @ coded).norm() / y_q.norm()),
        "carried": float((outputs(middle, x_q) - transformed_labels(x_p, y_p, x_q)).norm() / y_q.norm()),
        "moved_p": max(float(one.norm()) for one in middle - start),
        "moved_q": max(float(one.norm()) for one in end - start),
        "switched": float(((end @ x_q.T >= 0) != (start @ x_q.T >= 0)).double().mean()),
    }


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


@pytest.mark.parametrize("kappa", [0.1, 1.0])
def test_a_job_is_what_plain_loops_give(table, kappa):
    row = table[(table["width"] == 256) & (table["kappa"] == kappa)].iloc[0]
    own = plain(256, kappa)
    exact = ("bound_p", "cross", "linear", "remainder", "carried")
    assert row[list(exact)].to_dict() == pytest.approx({name: own[name] for name in exact}, rel=1e-6)
    # Over training: at least what the end shows; units move on, so hardly more.
    for name in ("moved_p", "moved_q", "switched"):
        assert own[name] * (1 - 1e-9) <= row[name] <= 1.1 * own[name] + 1e-9, name
    assert row["residual"] <= 0.05
    assert row["near"] >= row["switched"] and row["bound_q"] > row["bound_p"]


def test_wider_networks_are_nearer_to_the_limit(table):
    by = table[table["kappa"] == 1.0].set_index("width")
    for small in reading.SMALL:
        assert by[small.column][1024] < by[small.column][64], small.column
    assert 0.5 < by["smallest"][1024] < 1.1 and by["density"].max() < 1.2


def made_up(short=0.0):
    """Quantities that fall as the proofs say, slower by ``short``, and others within their bounds."""
    powers = {small.column: small.power - short for small in reading.SMALL}
    falling = {
        column: lambda row, power=power: 0.5 * row.kappa * (row.width / 100) ** -power * (1 + row.noise)
        for column, power in powers.items()
    }
    return judging.rows(
        noise=0.01,
        dataset="one",
        seed=range(4),
        kappa=PARAMETERS["kappas"],
        width=[100, 1000, 10000],
        radius=1e-4,
        **falling,
        bound_p=lambda row: 50 * (1 - row.noise),
        bound_q=lambda row: 50 * (1 - row.noise),
        smallest=lambda row: 0.9 * (1 + row.noise),
        density=lambda row: 0.9 * (1 + row.noise),
        carried=0.1,
    )


claims, outcomes = judging.of(reading, PARAMETERS | {"datasets": ["one"]})


def test_statements_come_out_either_way():
    held, slow = outcomes(made_up()), outcomes(made_up(short=0.2))
    assert set(held.values()) == {HOLDS}
    rates = {"falls-one", "falls-small"}
    assert {id for id, outcome in slow.items() if outcome == CONTRADICTED} == rates
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal(24)
    small, others = 1e-4 * noise, {"smallest": 0.3 * noise, "density": 1.3 * noise}
    bad = made_up().assign(bound_p=small, bound_q=small, **others)
    assert {id for id, outcome in outcomes(bad).items() if outcome == CONTRADICTED} == set(held) - rates


def test_the_slowest_quantity_decides():
    table = made_up()
    table["gram"] *= table["width"] ** 0.3
    (claim, *_) = claims(table).values()
    assert claim.outcome == CONTRADICTED and claim.measured == pytest.approx(-0.3, abs=0.02)


def test_the_width_that_lemma_2_needs():
    # 10,000 units that move by 0.05 each: 500 times the radius, so 500² times as many.
    assert reading.width_needed(made_up()).median() == pytest.approx(2500e6, rel=0.1)
