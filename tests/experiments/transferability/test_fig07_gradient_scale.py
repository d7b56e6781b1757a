"""Figure 7: slopes and projections of gradients, on made-up tables and a small network."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import CONTRADICTED, HOLDS, NOT_RUN, UNDECIDED
from alignbook.errors import AlignbookError
from alignbook.runs import notebooks, parameters
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.fig07_gradient_scale import experiment
from alignbook.training.resnet import ResNet

PARAMETERS = {"targets": ["cifar10-natural", "mnist"], "source": "photos"}
LAYERS = ["one", "two", "three", "four", "head"]


def made_up(random=0.2, trained=0.0, lead=0.5, seeds=4):
    """Sizes that grow by so many decades per layer; leading projections ``lead`` times the others."""
    rng = np.random.default_rng(0)
    rows = []
    for dataset, part in (("cifar10", "natural"), ("mnist", "all")):
        for seed in range(seeds):
            for start, rate in (("scratch", random), ("pretrained", trained)):
                for step in (0, 30):
                    about = {"dataset": dataset, "part": part, "seed": seed, "start": start, "step": step}
                    for position, layer in enumerate(LAYERS):
                        size = 10 ** (rate * (4 - position) + 0.01 * rng.standard_normal())
                        own = {"kind": "scale", "layer": layer, "position": position, "inputs": size}
                        own |= {"weights": size, "weights_relative": size, "spread": 0.1 + rate * size}
                        rows.append(about | own)
                        if layer == "head":
                            continue
                        for index in range(20):
                            value = 1 + 0.05 * rng.random()
                            value *= lead if start == "pretrained" and index < 2 else 1
                            own = {"kind": "projection", "layer": layer, "position": position, "index": index}
                            rows.append(about | own | dict.fromkeys(experiment.READINGS, value))
    return pd.DataFrame(rows)


def outcomes(table):
    return {c.id: c.outcome for c in experiment.claims(table, PARAMETERS)}


def test_growth_and_suppression_hold():
    assert set(outcomes(made_up()).values()) == {HOLDS}


def test_growth_with_pretrained_weights_disagrees():
    judged = outcomes(made_up(random=-0.1, trained=0.3, lead=2.0))
    assert set(judged.values()) == {CONTRADICTED}


def test_the_slope_is_towards_the_images_and_without_the_head():
    rows = pd.DataFrame({"position": [2, 0, 1, 3], "inputs": [1.0, 100.0, 10.0, 50.0]})
    rows["layer"] = ["three", "one", "two", "head"]  # the head does not count
    assert experiment.slope(rows) == pytest.approx(1)
    assert experiment.growth(rows) == pytest.approx(math.log2(100))


def test_leading_over_mean():
    rows = pd.DataFrame({"index": [1, 0, 2, 3], "both": [1.0, 0.5, 1.0, 1.5]})
    assert experiment.leading(rows) == pytest.approx(0.5)


def test_seeds_without_both_starts_and_nothing_at_all():
    table = made_up()
    rows = experiment.rows_of(table, "mnist", "scale")
    alone = rows[(rows["seed"] > 0) | (rows["start"] == "scratch")]
    assert list(experiment.values_of(alone, experiment.slope).index) == [1, 2, 3]
    nothing = pd.DataFrame({"unit": []})
    assert set(outcomes(nothing).values()) == {NOT_RUN}
    assert experiment.finding(nothing, PARAMETERS) == "There is nothing to compare."
    assert experiment.key_numbers(nothing, PARAMETERS) == []
    assert set(outcomes(made_up(seeds=1)).values()) == {UNDECIDED}


def test_only_the_start_leaves_the_later_claim_out():
    table = made_up()
    judged = outcomes(table[table["step"] == 0])
    assert judged["steeper-mnist"] == HOLDS and judged["steeper-later-mnist"] == NOT_RUN


def test_finding_gives_both_weights():
    text = experiment.finding(made_up(), PARAMETERS)
    sizes = experiment.values_of(experiment.rows_of(made_up(), "cifar10-natural", "scale"), experiment.growth)
    assert all(experiment.factor(sizes[start]) in text for start in experiment.STARTS)


def test_ratios_have_no_negative_ends():
    table = made_up()
    wild = table["kind"] == "projection"
    spread = 2.0 ** np.random.default_rng(1).normal(0, 2, wild.sum())
    table.loc[wild, "both"] *= spread
    growth, size, lead = (key.here for key in experiment.key_numbers(table, PARAMETERS))
    assert float(growth.split()[0]) == pytest.approx(0.2, abs=0.02)
    assert "-" not in size + lead and "(0." in lead


def test_measured_against_the_head_by_hand():
    net = ResNet(3, width=8, generator=torch_stream(0, "net"))
    x = torch.randn(9, 3, 12, 12, generator=torch_stream(0, "x"))
    y = torch.randint(3, (9,), generator=torch_stream(0, "y"))
    table = experiment.measured(net, x, y, 4)  # one image left out
    scale = table[table["kind"] == "scale"]
    assert len(scale) == 8 and scale["layer"].iloc[-1] == "head"
    assert (table["kind"] == "projection").sum() == 3 * 8 + 2 * 16 + 2 * 32
    entries = table.loc[table["kind"] == "histogram", "count"].sum()
    assert entries == 8 * 8 * 6 * 6  # middle: stages.1.0.conv1 reads 8 channels of 6 × 6
    # The head's input gradient by hand: softmax less the label, times the head's weight.
    net.train()
    sizes = []
    for part in (slice(0, 4), slice(4, 8)):
        error = torch.softmax(net(x[part]), 1) - torch.nn.functional.one_hot(y[part], 3)
        sizes.append((error @ net.head.weight).square().sum(1))
    expected = torch.cat(sizes).mean().sqrt().item()
    assert scale["inputs"].iloc[-1] == pytest.approx(expected, rel=1e-4)


def test_only_known_targets():
    book = notebooks.find("transferability/fig07_gradient_scale")
    with pytest.raises(AlignbookError, match="targets"):
        parameters.resolve(book, "quick", {"targets": ["none"]})


def test_units_start_before_training():
    book = notebooks.find("transferability/fig07_gradient_scale")
    units = experiment.units(parameters.resolve(book, "quick", {"examples": 100, "epochs": [2]}))
    assert {tuple(unit.arguments["steps"]) for unit in units} == {(0, 6)}


def gradient_from(net, name, x, y):
    """The gradient of the summed loss by a leaf that is put in place of what layer ``name`` gives out."""
    leaves = []

    def put(module, inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[0]

    hook = net.get_submodule(name).register_forward_hook(put)
    loss = torch.nn.functional.cross_entropy(net(x), y, reduction="sum")
    hook.remove()
    return torch.autograd.grad(loss, leaves[0])[0]


def test_directions_of_the_gradient_by_what_a_layer_gives_out():
    net = ResNet(3, width=8, generator=torch_stream(0, "net")).double().train()
    x = torch.randn(9, 3, 12, 12, generator=torch_stream(0, "x"), dtype=torch.float64)
    y = torch.randint(3, (9,), generator=torch_stream(0, "y"))
    found = experiment.output_grams(net, x, y, 4)  # one image left out
    assert list(found) == experiment.main_layers(net)
    for name, gram in found.items():
        parts = [gradient_from(net, name, x[part], y[part]) for part in (slice(0, 4), slice(4, 8))]
        expected = sum(torch.einsum("nahw,nbhw->ab", part, part) for part in parts)
        torch.testing.assert_close(gram, expected)


def test_shuffled_weights_are_the_mean_over_all_orders():
    generator = torch_stream(0, "shuffled")
    weight = torch.randn(3, 5, generator=generator, dtype=torch.float64) + 0.5
    u = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    orders = [torch.randperm(15, generator=generator) for _ in range(20000)]
    squares = [(u.T @ weight.flatten()[order].view(3, 5)).square().sum(1) for order in orders]
    expected = torch.stack(squares).mean(0).sqrt()
    torch.testing.assert_close(experiment.shuffled_left(u, weight), expected, rtol=0.01, atol=0)


def test_activations_are_asked_for_and_change_no_verdict():
    book = notebooks.find("transferability/fig07_gradient_scale")
    units = experiment.units(parameters.resolve(book, "smoke"))
    own = [unit for unit in units if unit.compute is experiment.activations]
    assert len(own) == 2 == len(units) / 2
    table = own[0].compute(**own[0].arguments, device="cpu", report=lambda done, text: None)
    assert set(table["kind"]) == {"activation"} and len(table) == 3 * 8 + 2 * 16 + 2 * 32
    for _, rows in table.groupby("layer"):
        assert rows["singular"].is_monotonic_decreasing
        # The directions are a basis: their parts of the weight make up all of it, in whatever order.
        for column in ("left", "shuffled"):
            assert (rows[column] ** 2).sum() == pytest.approx(rows["norm"].iloc[0] ** 2)
    about = {"dataset": "mnist", "part": "all", "start": "scratch", "seed": 0}
    both = pd.concat([made_up(), table.assign(**about)], ignore_index=True)
    assert outcomes(both) == outcomes(made_up())
    quick = parameters.resolve(book, "quick")
    assert all(unit.compute is experiment.compute for unit in experiment.units(quick))
