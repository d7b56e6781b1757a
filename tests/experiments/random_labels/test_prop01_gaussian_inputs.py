"""Proposition 1 on Gaussian inputs: training and floor against plain references, every verdict either way."""

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.kernels import many_mlps
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.prop01_gaussian_inputs import design, experiment, reading
from tests import judging

SMOKE = judging.given("random_labels/prop01_gaussian_inputs")
BROKEN = {"exponentiated", "stretched", "shifted"}
judged = judging.of(reading)[0]


def made_up(left=None, alone=None, mean=None, equal=0.0):
    """A table of four seeds; ``left`` and ``mean`` by condition, ``alone`` of single networks."""
    left = dict.fromkeys(BROKEN, 0.3) | {"repeated": 0.1 * equal / 0.39} | (left or {})
    mean = {"shifted": 0.003} | (mean or {})
    alone = {"one-16-16": 0.6, "one-24-16": 0.4} | (alone or {})
    return judging.rows(
        kind="misalignment",
        seed=range(4),
        condition=list(design.settings(SMOKE)),
        shift=lambda row: 0.001 * (row.seed - 1.5),
        floor=0.01,
        random=0.4,
        merged=0.11,
        misalignment=lambda row: 0.01 + 0.39 * (left.get(row.condition, 0.0) + row.shift),
        mean_square=lambda row: mean.get(row.condition, 0.0) + row.shift / 100,
        alone_floor=0.1,
        alone_random=0.5,
        alone=lambda row: 0.1 + 0.4 * (alone.get(row.condition, 0.0) * (1 + row.shift) + row.shift),
    )


def test_the_proposition_holds():
    found = judged(made_up())
    assert {claim.outcome for claim in found.values()} == {HOLDS}
    assert found["aligned-plain"].headline and found["others"].measured == pytest.approx(0)
    alone = reading.share_alone(made_up(), SMOKE, "one-16-16")
    assert alone.mean() == pytest.approx(0.6) and len(alone) == 4


@pytest.mark.parametrize(
    ("id", "table"),
    [
        ("aligned-plain", made_up({"plain": 0.2})),
        ("mean", made_up(mean={"plain": 0.002})),
        ("equal", made_up(equal=0.3)),
        ("others", made_up({"squared": 0.4})),
        ("others", made_up({"width-24": 0.4})),
        ("optimiser-adam", made_up({"adam": 0.2})),
        ("without", made_up({"exponentiated": -0.2})),
        ("inputs", made_up(alone={"one-24-64": 0.6})),
        ("wider", made_up(alone={"one-32-16": 0.8})),
        ("without", made_up({"stretched": -0.2})),
        ("without", made_up({"shifted": -0.2})),
    ],
)
def test_one_departure_contradicts_one_statement(id, table):
    assert [one for one, claim in judged(table).items() if claim.outcome == CONTRADICTED] == [id]


def test_what_a_broken_assumption_leaves_alone_is_no_effect():
    found = judged(made_up({name: 0.0 for name in BROKEN}))
    assert found["without"].outcome == NO_EFFECT


def test_correlations_and_deviations_of_a_stored_covariance():
    upper = pd.DataFrame({"row": [0, 0, 1], "column": [0, 1, 1], "value": [4.0, 3.0, 9.0]})
    table = upper.assign(kind="entry", condition="plain", seed=0)
    assert reading.correlations(table, "plain") == pytest.approx(np.array([[0, 0.5], [0.5, 0]]))
    assert reading.deviations(table, "plain").to_numpy() == pytest.approx(np.array([[2.0, 3.0]]))
    assert reading.correlations(table, "adam") is None and reading.deviations(table, "adam").empty


def drawn(networks=3, inputs=20, **other):
    values = {"axes": np.eye(5), "shift": 0.0, "sizes": [5, 9, 6, 3], "scale": 1.0, "stretch": 1.0} | other
    stream = torch.Generator().manual_seed(0)
    x, labels, weights = experiment.draw(inputs=inputs, networks=networks, generator=stream, **values)
    biases = [torch.zeros(networks, 1, weight.shape[2]) for weight in weights]
    return x, labels, [part.requires_grad_() for part in (*weights, *biases)]


def test_descent_is_the_kernels():
    (x, labels, parts), (_, _, plain) = drawn(), drawn()
    plain = [part.detach() for part in plain]
    targets = torch.nn.functional.one_hot(labels, 3).float()
    for _ in range(25):
        losses = many_mlps.step(plain[:3], plain[3:], x, targets, 0.2)
    report = judging.QUIET["report"]
    final, fitted = experiment.descend(parts, x, labels, "cross-entropy", "descent", 0.2, 25, report)
    for one, other in zip(parts, plain, strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=1e-4, atol=1e-5)
    assert final == pytest.approx(losses.mean().item(), rel=1e-4)
    assert fitted == (experiment.logits_of(parts, x).argmax(2) == labels).float().mean()
    logits = torch.arange(12.0).reshape(1, 2, 6) / 12
    squared = experiment.losses_of(logits, torch.zeros(1, 2, 6), "squared error")
    assert squared.tolist() == pytest.approx([sum((n / 12) ** 2 for n in range(12)) / 2])


def gradients(count):
    stream = torch.Generator().manual_seed(1)
    return torch.randn(count, 2, 5, 9, generator=stream)


def test_exponentiated_gradient_multiplies_two_positive_weights():
    first, second = torch.full((2, 5, 9), 0.3), torch.ones(2, 9, 6)
    first[0] *= -1
    beta = design.PRODUCT
    u = (first.double() + (first.double().square() + beta**2).sqrt()) / 2
    v = u - first
    update = experiment.exponentiated([first, second], 0.5)
    for gradient in gradients(4):
        update([gradient, torch.ones_like(second)])
        u, v = u * torch.exp(-gradient.double()), v * torch.exp(gradient.double())
    torch.testing.assert_close(first.double(), u - v, rtol=1e-3, atol=1e-5)
    assert torch.equal(second, torch.full_like(second, -1.0))


def test_adam_is_the_published_update():
    part, grads = torch.zeros(2, 5, 9), gradients(3)
    update = experiment.adam([part], 0.1)
    due = torch.zeros_like(part)
    for t in range(1, 4):
        update([grads[t - 1]])
        weights = [0.9 ** (t - s) * 0.1 / (1 - 0.9**t) for s in range(1, t + 1)]
        squares = [0.999 ** (t - s) * 0.001 / (1 - 0.999**t) for s in range(1, t + 1)]
        mean = sum(w * g for w, g in zip(weights, grads, strict=False))
        square = sum(w * g.square() for w, g in zip(squares, grads, strict=False))
        due -= 0.1 * mean / (square.sqrt() + 1e-8)
    torch.testing.assert_close(part, due, rtol=1e-3, atol=1e-5)


def test_inputs_and_weights_are_those_that_are_asked_for():
    rng = np.random.default_rng(0)
    basis, deviation = experiment.random_bases(3, 1, rng)[0], np.array([0.5, 1.0, 2.0])
    sizes = {"networks": 40, "inputs": 2000, "sizes": [3, 200, 4, 2]}
    x, _, parts = drawn(axes=basis * deviation, shift=0.5, scale=0.1, stretch=4.0, **sizes)
    x = x.reshape(-1, 3).double().numpy() @ basis
    assert np.cov(x.T) == pytest.approx(np.diag(deviation**2), abs=0.05)
    assert x.mean(0) == pytest.approx(0.5 * deviation, abs=0.03)
    spread = parts[0].detach().std((0, 2))
    assert spread.numpy() == pytest.approx(0.1 * np.sqrt(2 / 3) * np.array([1, 2.5, 4]), rel=0.03)


def test_symmetries_keep_the_eigenspaces():
    maps = experiment.symmetries([1, 3, 1], 50, np.random.default_rng(0))
    sigma = np.diag([1.0, 2, 2, 2, 5])
    assert maps @ sigma @ np.swapaxes(maps, 1, 2) == pytest.approx(np.broadcast_to(sigma, maps.shape))
    assert {*maps[:, 0, 0]} == {-1.0, 1.0} and maps[:, 1, 2].std() > 0.3


def test_the_floor_is_what_aligned_networks_give():
    rng = np.random.default_rng(0)

    def measure(turn):
        found = []
        for _ in range(20):  # networks whose filters depend on each other: one strong direction each
            common = rng.standard_normal((40, 1, 4))
            filters = (rng.standard_normal((40, 6, 4)) + 2 * common) * [1, 2, 3, 4] @ turn
            moments = np.einsum("kfi,kfj->kij", filters, filters) / 6
            found.append(experiment.misaligned(moments, [1, 1, 1, 1], 8, rng))
        return np.mean(found, axis=0)

    own, floor, bases = measure(np.eye(4))
    assert own == pytest.approx(floor, rel=0.2) and floor < 0.3 * bases
    turned, lower, _ = measure(experiment.random_bases(4, 1, rng)[0])
    assert turned > 3 * lower


def test_equal_eigenvalues_are_one_eigenspace():
    # Filters with one variance along the first three directions and correlations that the draws undo.
    filters = np.random.default_rng(1).standard_normal((60, 5, 4)) * [1, 1, 1, 3]
    found = experiment.summary(filters, [3, 1], 4, np.random.default_rng(0))
    assert found["misalignment"] == found["merged"] < 0.1
    apart = experiment.summary(filters * [1, 2, 4, 1], [1, 1, 1, 1], 4, np.random.default_rng(0))
    assert apart["misalignment"] < 0.1 and apart["merged"] > 1


def test_the_mean_is_measured_without_bias():
    filters = np.random.default_rng(0).standard_normal((5, 7, 3)) + 1.0
    means, length = filters.mean(1), np.square(filters).sum(2).mean()
    pairs = [means[i] @ means[j] for i in range(5) for j in range(5) if i != j]
    found = experiment.summary(filters, [1, 1, 1], 2, np.random.default_rng(0))
    assert found["mean_square"] == pytest.approx(np.mean(pairs) / length)
