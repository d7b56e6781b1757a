"""CKA against the definition, term by term, and against the numbers its authors published."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from alignbook import cka, layer_cka


def plain_hsic(x, y, debiased):
    """HSIC of (n, d) arrays by loops over examples: as a sum over centred kernels, or as the U-statistic."""
    n = len(x)
    k = np.array([[float(a @ b) for b in x] for a in x])
    h = np.array([[float(a @ b) for b in y] for a in y])
    if not debiased:
        centre = np.eye(n) - 1 / n
        return np.trace(k @ centre @ h @ centre) / (n - 1) ** 2
    total, count = 0.0, 0
    for i, j, q, r in itertools.permutations(range(n), 4):  # Song et al. 2007: all distinct quadruples
        total += k[i, j] * (h[i, j] + h[q, r] - 2 * h[i, q])
        count += 1
    return total / count


def plain_cka(x, y, debiased, batches=1):
    parts = list(zip(np.array_split(x, batches), np.array_split(y, batches), strict=True))
    xy, xx, yy = (
        sum(plain_hsic(*pair, debiased) for pair in pairs)
        for pairs in (parts, [(a, a) for a, _ in parts], [(b, b) for _, b in parts])
    )
    return xy / np.sqrt(xx * yy)


@pytest.mark.parametrize(("dx", "dy"), [(3, 2), (3, 40), (60, 50)])  # by features, and by Gram matrices
def test_against_the_definition(dx, dy):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, dx)) + 5
    y = np.column_stack([x[:, :2], rng.standard_normal((9, dy - 2))])
    for debiased in (False, True):
        assert cka(x, y, debiased=debiased) == pytest.approx(plain_cka(x, y, debiased), rel=1e-10)
    assert cka(x, y, batch_size=4) == pytest.approx(plain_cka(x, y, True, batches=2), rel=1e-10)


def test_the_numbers_that_the_authors_published():
    """Kornblith et al.'s demonstration prints 0.55761, and 0.51346 debiased, of these features."""
    state = np.random.RandomState(1337)
    x = state.randn(100, 10)
    y = state.randn(100, 10) + x
    assert cka(x, y, debiased=False) == pytest.approx(0.55761, abs=5e-6)
    assert cka(x, y) == pytest.approx(0.51346, abs=5e-6)


def test_rotation_scale_and_shift_do_not_count_and_features_do():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 50, 8))
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    for debiased in (False, True):
        assert cka(x, x, debiased=debiased) == pytest.approx(1, abs=1e-12)
        score = cka(x, x + y, debiased=debiased)
        assert 0.2 < score < 0.8
        assert cka(1e-3 * x @ turn + 100, 1e4 * (x + y), debiased=debiased) == pytest.approx(score, rel=1e-7)
        assert abs(cka(x * np.arange(1, 9), x + y, debiased=debiased) - score) > 0.01
    assert cka(torch.from_numpy(x).float().reshape(50, 2, 4), x + y) == pytest.approx(cka(x, x + y), rel=1e-5)


def test_independent_features_have_none_unless_they_are_biased():
    rng = np.random.default_rng(2)
    found = [cka(*rng.standard_normal((2, 20, 200))) for _ in range(200)]
    assert abs(np.mean(found)) < 4 * np.std(found) / 200**0.5
    assert cka(*rng.standard_normal((2, 20, 200)), debiased=False) > 0.8


def network(seed):
    torch.manual_seed(seed)
    layers = [nn.Flatten(), nn.Linear(12, 7), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(7, 5)]
    return nn.Sequential(*layers, nn.Linear(5, 3))


def test_layers_within_and_between_networks():
    first, second = network(0).train(), network(1)
    inputs = torch.randn(30, 3, 4)
    features = {n: [f(net, inputs) for f in (lambda m, x: m[:2](x), lambda m, x: m.eval()[:5](x))]
                for n, net in enumerate((network(0), network(1)))}  # fmt: skip
    table = layer_cka(first, inputs, second, batch_size=10)
    assert first.training and first[3].training
    assert list(table.index) == list(table.columns) == ["1", "4", "5"]
    for i, j in itertools.product(range(2), repeat=2):
        expected = cka(features[0][i], features[1][j], batch_size=10)
        assert table.iloc[i, j] == pytest.approx(expected, rel=1e-5)
    chosen = layer_cka(
        first, [{"input": part} for part in inputs.split(10)], second, layers=["[14]"], batch_size=10
    )
    np.testing.assert_allclose(chosen, table.iloc[:2, :2], rtol=1e-6)
    within = layer_cka(first, [(inputs, torch.zeros(30))])
    np.testing.assert_allclose(np.diag(within), 1, rtol=1e-9)


def test_a_dead_layer_is_left_out_and_named():
    net = network(0)
    nn.init.zeros_(net[4].weight)
    table = layer_cka(net, torch.randn(12, 12))
    assert list(table.index) == ["1"] and table.notna().to_numpy().all()
    assert table.attrs["left_out"] == dict.fromkeys(("4", "5"), "its output tells no examples apart")


BAD = [
    (np.ones((3, 2)), np.ones((3, 2)), {}, "at least 4 examples"),
    (np.eye(5), np.eye(6), {}, "x has 5 examples and y 6"),
    (np.ones((6, 2)) / 3, np.arange(12.0).reshape(6, 2), {}, "x tells no examples apart"),
    (np.arange(12.0).reshape(6, 2), np.ones((6, 2)) / 3, {"debiased": False}, "y tells no examples apart"),
    (np.eye(6), np.eye(6), {}, "x tells no examples apart"),  # all equally far: debiased this is 0/0
    (np.arange(6.0), np.arange(6.0), {}, r"x must be \(n, features\)"),
    (np.full((6, 2), np.nan), np.ones((6, 2)), {}, "x has entries that are not finite"),
    (np.ones((6, 2)), np.ones((6, 2)), {"batch_size": 3}, "batch_size must be an integer from 4 on"),
    (np.ones((6, 2)), np.ones((6, 2)), {"batch_size": 4, "debiased": False}, "batches need debiased=True"),
]


@pytest.mark.parametrize(("x", "y", "options", "message"), BAD)
def test_what_has_no_number_is_refused_in_one_line(x, y, options, message):
    with pytest.raises(ValueError, match=message) as error:
        cka(x, y, **options)
    assert "\n" not in str(error.value)


def test_networks_that_cannot_be_measured_are_refused():
    with pytest.raises(ValueError, match="at least 4 examples"):
        layer_cka(network(0), torch.randn(3, 12))
    with pytest.raises(ValueError, match=r"no such layers: conv\*"):
        layer_cka(network(0), torch.randn(9, 12), layers="conv*")
