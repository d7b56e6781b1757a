"""Figure 7: slopes and projections of gradients, on made-up tables and a small network."""

import math

import pandas as pd
import pytest
import torch

from alignbook.seeding import torch_stream
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN
from companion.studies.transferability.fig07_gradient_scale import experiment, reading
from tests import judging

TARGETS = ["mnist", "shapes"]
LAYERS = ["one", "two", "three", "four", "head"]


def made_up(random=0.2, trained=0.0, lead=0.5):
    """Sizes that grow by so many decades per layer; leading projections ``lead`` times the others."""
    rates = {"scratch": random, "pretrained": trained}
    common = {"dataset": TARGETS, "part": "all", "seed": range(4), "start": [*rates], "step": 0}
    scale = judging.rows(
        noise=0.01,
        kind="scale",
        **common,
        position=range(5),
        layer=lambda row: LAYERS[row.position],
        inputs=lambda row: 10 ** (rates[row.start] * (4 - row.position) + row.noise),
        spread=lambda row: 0.1 + rates[row.start] * row.inputs,
    )
    projection = judging.rows(
        noise=0.015,
        kind="projection",
        **common,
        position=range(4),
        layer=lambda row: LAYERS[row.position],
        index=range(10),
        both=lambda row: (1 + row.noise) * (lead if row.start == "pretrained" and row.index < 1 else 1),
    )
    return pd.concat([scale, projection], ignore_index=True)


judged, _ = judging.of(reading, {"targets": TARGETS})


def outcomes(table):
    """{claim: outcome} without that on the gradient by the activations, which made-up tables lack."""
    found = {id: claim.outcome for id, claim in judged(table).items()}
    assert found.pop("shrunk") == NOT_RUN
    return found


def sizes(*values):
    """The rows of one network: the gradient's size at its convolutions, the images' end first."""
    return pd.DataFrame({"position": range(len(values)), "inputs": values, "seed": 5, "layer": "conv"})


def test_the_halves_of_the_layers_are_told_apart():
    """Of four convolutions the third is the middle one: steep from the last to it, even from it on."""
    rows = sizes(100.0, 100.0, 100.0, 1.0)
    assert [reading.half(lower)(rows)[5] for lower in (True, False)] == pytest.approx([0, 2])
    table = made_up()
    lower = (table["kind"] == "scale") & (table["position"] < 2) & (table["start"] == "scratch")
    table.loc[lower, "inputs"] /= 10 ** (0.3 * (2 - table.loc[lower, "position"]))
    found = outcomes(table)
    assert found["lower"] == CONTRADICTED and found["grows-more"] != HOLDS


def test_growth_and_suppression_hold_and_fail():
    assert set(outcomes(made_up()).values()) == {HOLDS}
    assert set(outcomes(made_up(random=-0.1, trained=0.3, lead=2.0)).values()) == {CONTRADICTED}
    alike = outcomes(made_up(random=0.1, trained=0.1, lead=1.0))
    assert alike["grows-more"] == alike["suppressed"] == NO_EFFECT


def test_the_slope_is_towards_the_images_and_without_the_head():
    rows = sizes(100.0, 10.0, 1.0, 50.0).assign(layer=LAYERS[1:])  # the head does not count
    assert reading.decades(rows.sample(frac=1, random_state=0))[5] == pytest.approx(1)


def test_a_profile_that_falls_and_rises_again_does_not_count_as_steady():
    # Of a U-shape the two ends alone, equal here, say nothing.
    assert reading.extent(sizes(8.0, 2.0, 1.0, 8.0))[5] == pytest.approx(3)


def test_leading_over_mean():
    rows = pd.DataFrame({"index": [1, 0, 2, 3], "both": [1.0, 0.5, 1.0, 1.5], "seed": 0, "position": 0})
    rows["layer"] = "conv"
    assert reading.leading(rows)[0] == pytest.approx(-1)
    # Twice the weights project twice as much, and in the same directions.
    longer = rows.assign(both=2 * rows["both"])
    assert reading.leading(longer)[0] == pytest.approx(-1)
    assert [reading.magnitude(part)[0] for part in (rows, longer)] == pytest.approx([-1, 0])


def directions(left):
    """Rows of kind "activation" with pre-trained weights: ‖u_i'W‖ is ``left`` times that of shuffled ones."""
    return judging.rows(
        noise=0.03,
        kind="activation",
        dataset=TARGETS,
        part="all",
        seed=range(4),
        step=0,
        start="pretrained",
        position=range(4),
        layer=lambda row: LAYERS[row.position],
        index=range(10),
        shuffled=2.0,
        left=lambda row: 2.0 * left * (1.025 + row.noise),
    )


@pytest.mark.parametrize(("left", "outcome"), [(0.5, HOLDS), (2.0, CONTRADICTED), (0.98, NO_EFFECT)])
def test_the_paper_s_reason_is_judged_by_the_activations_against_shuffled_weights(left, outcome):
    table = pd.concat([made_up(), directions(left)], ignore_index=True)
    found = judged(table)
    assert found["shrunk"].outcome == outcome
    values = reading.against_shuffled(reading.rows_of(table, "mnist", "activation"))
    assert values.mean() == pytest.approx(math.log2(left * 1.025), abs=0.03)
    # What is measured of the gradient by the weights does not decide it.
    assert judged(made_up(lead=0.1))["shrunk"].outcome == NOT_RUN


BATCHES = (slice(0, 4), slice(4, 8))  # one image of nine is left out


@pytest.fixture
def task():
    net = ResNet(3, width=8, generator=torch_stream(0, "net")).double().train()
    x = torch.randn(9, 3, 12, 12, generator=torch_stream(0, "x"), dtype=torch.float64)
    return net, x, torch.randint(3, (9,), generator=torch_stream(0, "y"))


def test_measured_against_the_head_by_hand(task):
    net, x, y = task
    table = experiment.measured(net, x, y, 4)
    scale = table[table["kind"] == "scale"]
    assert len(scale) == 8 and scale["layer"].iloc[-1] == "head"
    assert (table["kind"] == "projection").sum() == 3 * 8 + 2 * 16 + 2 * 32
    entries = table.loc[table["kind"] == "histogram", "count"].sum()
    assert entries == 8 * 8 * 6 * 6  # middle: stages.1.0.conv1 reads 8 channels of 6 × 6
    # The head's input gradient by hand: softmax less the label, times the head's weight.
    net.train()
    errors = [torch.softmax(net(x[part]), 1) - torch.nn.functional.one_hot(y[part], 3) for part in BATCHES]
    expected = (torch.cat(errors) @ net.head.weight).square().sum(1).mean().sqrt().item()
    assert scale["inputs"].iloc[-1] == pytest.approx(expected, rel=1e-4)


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


def test_directions_of_the_gradient_by_what_a_layer_gives_out(task):
    net, x, y = task
    found = experiment.output_grams(net, x, y, 4)
    assert list(found) == experiment.main_layers(net)
    for name, gram in found.items():
        parts = [gradient_from(net, name, x[part], y[part]) for part in BATCHES]
        expected = sum(torch.einsum("nahw,nbhw->ab", part, part) for part in parts)
        torch.testing.assert_close(gram, expected)


def test_shuffled_weights_are_the_mean_over_all_orders():
    generator = torch_stream(0, "shuffled")
    weight = torch.randn(3, 5, generator=generator, dtype=torch.float64) + 0.5
    u = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    orders = [torch.randperm(15, generator=generator) for _ in range(5000)]
    squares = [(u.T @ weight.flatten()[order].view(3, 5)).square().sum(1) for order in orders]
    expected = torch.stack(squares).mean(0).sqrt()
    torch.testing.assert_close(experiment.shuffled_left(u, weight), expected, rtol=0.02, atol=0)
