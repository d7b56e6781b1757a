"""What comes first: layers and measures against plain references, every verdict either way, a small run."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import torch

from alignbook.errors import AlignbookError
from alignbook.seeding import torch_stream
from companion.claims import CONTRADICTED, HOLDS
from companion.runs import notebooks, parameters
from companion.studies.synthesis.what_comes_first import experiment, reading
from tests import judging

BOOK = notebooks.find("synthesis/what_comes_first")
PARAMETERS = {"layers": ["convolutional", "dense"], "scales": [0.1, 0.3]}
STEPS = np.array(experiment.recorded(512))
_, outcomes = judging.of(reading, PARAMETERS)


def made_up(features=30, filters=120, amount=5.0, slower=2.0, gains=(0.24, 0.2), lead=1.0, seeds=8, fall=1.0):
    """A table in which features and filters make half of their change at these steps.

    amount : what the filters' misalignment grows by; slower : how many times later the features are with the
    first layer frozen; gains : of the features with it frozen and alone trained, where 0.3 is that of all;
    lead : how many times the frozen features' gain is that of the others at equal loss; fall : of the loss.
    """

    def rise(half):
        return 1 / (1 + ((half + 1) / (STEPS + 1)) ** 3)

    rng, found = np.random.default_rng(0), []
    for seed in range(seeds):
        for layer in PARAMETERS["layers"]:
            for width in (40, 80):
                later, more = 2 ** rng.normal(0, 0.05, 2)
                for trained, gain in zip(("all", "others", "first"), (0.3, *gains), strict=True):
                    frozen = trained == "others"
                    made = (
                        gain
                        * rise(features * later * (slower if frozen else 1))
                        * (more if trained == "first" else 1)
                    )
                    grown = np.zeros(len(STEPS)) if frozen else amount * rise(filters)
                    columns = {"features": 0.07 + made, "misalignment": 10.0, "random_bases": 10 + grown}
                    columns["loss"] = 2.3 * (1 - fall * made / (0.31 * (lead if frozen else 1)))
                    cell = {"layer": layer, "trained": trained, "seed": seed, "width": width, "rate": 0.02}
                    scale = 0.1 if width == 40 else 0.3
                    found.append(pd.DataFrame({**cell, "scale": scale, "step": STEPS, **columns}))
    return pd.concat(found)


AGAINST = made_up(features=120, filters=30, slower=0.5, gains=(0.1, 0.1), lead=1.5)


def test_every_statement_can_come_out_either_way():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    assert set(outcomes(AGAINST).values()) == {CONTRADICTED}


def test_a_bounded_measure_can_turn_the_order():
    """The share 1 − 10 / (10 + growth) is half of its end when a large growth has hardly begun."""
    turned = outcomes(made_up(features=60, filters=90, amount=500.0))
    assert turned["order"] == HOLDS and turned["share-0.1"] == CONTRADICTED


def test_the_share_is_judged_for_each_initial_scale():
    large, small = made_up(features=60, filters=90, amount=500.0), made_up()
    table = pd.concat([large[large["scale"] == 0.1], small[small["scale"] == 0.3]])
    found = outcomes(table)
    assert found["share-0.1"] == CONTRADICTED and found["share-0.3"] == HOLDS


def test_half_of_a_path_by_either_clock():
    run = pd.DataFrame({"step": [0, 1, 3, 7], "features": [0.0, 3.0, 0.0, 0.0], "loss": [4.0, 3.0, 2.0, 1.0]})
    run = run.assign(misalignment=2.0, random_bases=[2.0, 3.0, 4.0, 6.0]).set_index("step")
    assert reading.half_time(run) == pytest.approx(1)  # up and down again: half at the top, at step 1
    assert reading.lag(run) == pytest.approx(2 - 1)
    assert reading.lag(run, part=0.75) == pytest.approx(2.5 - 1.5)
    assert reading.lag(run, clock=reading.lost) == pytest.approx(0.5 - 0.25)
    # 1 − 2 / random: 0, 1/3, 1/2, 2/3; half of the path at step 1.
    assert reading.lag(run, filters=reading.share) == pytest.approx(0)
    assert np.isnan(reading.when(run["misalignment"], reading.octaves(run)))


def test_progress_is_half_at_the_half_time():
    table = made_up(seeds=2)
    one = table[(table["width"] == 40) & (table["seed"] == 1)]
    for trained, end in (("all", 1.0), ("others", 0.8)):
        made = reading.progress(one, "dense", trained, lambda run: run["features"]).loc[1]
        assert made.iloc[-1] == pytest.approx(end, rel=0.02)
        half = reading.mean_of(one, "dense", trained, reading.half_time).loc[1]
        assert np.interp(half, np.log2(1 + made.index), made) == pytest.approx(made.iloc[-1] / 2)


@pytest.fixture(scope="module")
def images():
    return torch.randn(6, 3, 8, 8, generator=torch_stream(0, "images"))


def layer_of(kind, count=4, width=5):
    layer = experiment.First(kind, count, width)
    for parameter in layer.parameters():
        parameter.data.normal_(generator=torch_stream(0, "layer", kind))
    return layer


def test_a_convolution_is_one(images):
    layer, x = layer_of("convolutional"), experiment.windows(images)
    kernels = layer.weight[0].T.reshape(5, 3, 3, 3)
    maps = torch.nn.functional.conv2d(images, kernels, layer.bias[0], stride=3)  # (n, width, 2, 2)
    torch.testing.assert_close(layer(x), maps.permute(0, 2, 3, 1).flatten(1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(layer.on_windows(), kernels.flatten(1)[None])


@pytest.mark.parametrize("kind", ["local", "dense"])
def test_layers_with_filters_for_each_window(images, kind):
    layer, x = layer_of(kind), experiment.windows(images)
    found, own = layer(x).unflatten(1, (4, 5)), layer.on_windows()
    for window in range(4):
        top, left = 3 * (window // 2), 3 * (window % 2)
        seen = images[:, :, top : top + 3, left : left + 3].flatten(1)
        torch.testing.assert_close(x[:, window], seen)
        for unit in range(5):
            weight = layer.weight[window, :, unit]
            inputs, place = (x.flatten(1), 27 * window) if kind == "dense" else (seen, 0)
            expected = inputs @ weight + layer.bias[window, unit]
            torch.testing.assert_close(found[:, window, unit], expected, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(own[window, unit], weight[place : place + 27])


def misalignment(basis, weights):
    """By its definition: the least of tr(Σ⁻¹Σ_w + Σ_w⁻¹Σ) / 2 − d over all Σ with these eigenvectors."""
    cov = np.cov(weights, rowvar=False)
    inverse, total = np.linalg.inv(cov), -len(cov)
    for v in basis.T:
        least = scipy.optimize.minimize_scalar(
            lambda log, v=v: (v @ cov @ v / np.exp(log) + np.exp(log) * (v @ inverse @ v)) / 2
        )
        total += least.fun
    return total


def test_misalignment_is_the_mean_over_the_windows_by_its_definition():
    layer = layer_of("local", count=2, width=40)
    rng = np.random.default_rng(0)
    bases = np.stack([np.linalg.qr(rng.normal(size=(27, 27)))[0] for _ in range(3)])
    found = experiment.aligned(layer, bases)
    weights = layer.weight.detach().double().numpy()
    expected = [np.mean([misalignment(basis, w.T) for w in weights]) for basis in bases]
    assert found["misalignment"] == pytest.approx(expected[0], rel=1e-6)
    assert found["random_bases"] == pytest.approx(np.mean(expected[1:]), rel=1e-6)


def test_share_of_the_labels_on_the_top_singular_vectors():
    features = torch.randn(40, 16, generator=torch_stream(0, "features"))
    y = torch.arange(40) % 10
    gram = (features @ features.T).double().numpy()
    vectors = np.linalg.eigh(gram)[1].T[::-1][:10]
    inside = total = 0.0
    for label in range(10):
        column = [float(one == label) - 0.1 for one in y]
        total += sum(value**2 for value in column)
        inside += sum(sum(a * b for a, b in zip(vector, column, strict=True)) ** 2 for vector in vectors)
    assert experiment.share_on_top(features, y) == pytest.approx(inside / total, rel=1e-5)
    one_hot = torch.nn.functional.one_hot(y, 10).float()
    assert experiment.share_on_top(one_hot, y) == pytest.approx(1)


def test_bad_parameters():
    for given, message in (
        ({"widths": [27]}, "more than 27, not 27"),
        ({"scales": [0.1, 0.1]}, "scales must name"),
    ):
        with pytest.raises(AlignbookError, match=message):
            experiment.jobs({**parameters.resolve(BOOK, "smoke"), **given})
