"""Figure 8: like inputs and like labels, on made-up images and tables."""

import pandas as pd
import pytest
import torch

from alignbook.data import load
from alignbook.data.street_digits import street_digits
from alignbook.training.lenet import LeNet
from companion.claims import CONTRADICTED, HOLDS
from companion.studies.transferability.fig08_inputs_and_labels import design, experiment, reading
from tests import judging

PARAMETERS = judging.given("transferability/fig08_inputs_and_labels", "quick")
INPUTS = {"none": 60, "fashion_mnist": 61, "upside-down": 70, "mnist": 75}
LABELS = {"none": 40, "colours": 40.5, "classes": 55}
CROSSED = {"none": 50, "artificial": 60, "natural": 66}


def made_up(inputs=INPUTS, labels=LABELS, natural=CROSSED, artificial=CROSSED, seeds=4, noise=0.4):
    moved = {
        layer: lambda row: (2.0 if row.start == "none" else 1.0) + 0.05 + 0.1 * row.noise
        for layer in design.KERNELS
    }
    tables = [
        judging.rows(
            noise, 0, panel="inputs", start=[*inputs], seed=range(seeds), **moved,
            accuracy=lambda row: inputs[row.start] + row.noise,
        ),
        judging.rows(
            noise, 1, panel="labels", start=[*labels], seed=range(design.SEEN, design.SEEN + seeds),
            accuracy=lambda row: labels[row.start] + row.noise,
        ),
    ]  # fmt: skip
    for draw, (part, means) in enumerate((("natural", natural), ("artificial", artificial)), 2):
        tables.append(
            judging.rows(
                noise, draw, panel="crossed", start=[*means], part=part, step=[0, 10], seed=range(seeds),
                test_error=lambda row, means=means: 100 - means[row.start] + 30 * (row.step == 0) + row.noise,
                train_loss=lambda row: row.test_error / 20,
            )
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


_, outcomes = judging.of(reading, PARAMETERS)
OWN = {"natural": CROSSED, "artificial": {"none": 50, "artificial": 66, "natural": 60}}


def test_statements_hold_where_like_meets_like():
    unlike = {"inputs": INPUTS | {"fashion_mnist": 60}, "labels": LABELS | {"colours": 40}}
    found = outcomes(made_up(**OWN, **unlike, noise=0.1))
    assert found.pop("clothes-move") == CONTRADICTED  # made to move half as far
    assert set(found.values()) == {HOLDS}


def test_statements_fail_where_it_does_not_matter():
    swapped = {"none": 60, "fashion_mnist": 75, "upside-down": 76, "mnist": 61}
    found = outcomes(made_up(inputs=swapped, labels={"none": 40, "colours": 55, "classes": 41}, seeds=6))
    assert {id for id, outcome in found.items() if outcome == CONTRADICTED} >= {
        "alike-inputs", "alike-labels", "crossed", "converges-artificial", "unlike-clothes", "unlike-colours"
    }  # fmt: skip
    assert found["converges-natural"] == HOLDS


@pytest.mark.parametrize(("way", "outcome"), [(2.0, HOLDS), (1.6, CONTRADICTED)])
def test_after_clothes_layers_move_no_less(way, outcome):
    table = made_up(seeds=12)
    clothes = (table["panel"] == "inputs") & (table["start"] == "fashion_mnist")
    table.loc[clothes, list(design.KERNELS)] = way + 0.05
    assert outcomes(table)["clothes-move"] == outcome


def test_convergence_is_the_mean_loss_over_the_steps():
    losses = {"natural": {0: 2, 1: 0, 3: 0}, "artificial": {0: 2, 1: 2, 3: 0}}  # areas 1 + 0 and 2 + 2
    table = judging.rows(
        panel="crossed", part="natural", start=[*losses], seed=0, step=[0, 1, 3],
        train_loss=lambda row: losses[row.start][row.step],
    )  # fmt: skip
    assert reading.convergence(table, {}, "natural").tolist() == [2.0]
    assert reading.convergence(table, {}, "artificial").empty


def test_street_digits_are_none_of_those_of_pre_training(monkeypatch):
    seen = []

    def grey(x, generator):
        seen.append(x)
        return street_digits(x, generator)

    def wide(x):
        return torch.nn.functional.interpolate(x, (28, 28), mode="bilinear")

    monkeypatch.setattr(experiment, "street_digits", grey)
    for seed in range(2):
        before, together = (load("digits", n=n, seed=seed) for n in (50, 90))
        x, y = experiment._street("digits", "train", 40, seed, after=50)
        assert x.shape == (40, 3, 32, 32) and torch.equal(torch.cat([before.y, y]), together.y)
        torch.testing.assert_close(torch.cat([wide(before.x), seen.pop()]), wide(together.x))


def test_street_digits_can_be_read_and_differ():
    grey = -torch.ones(3, 1, 28, 28)
    grey[:, :, 10:18, 10:18] = 1
    made = street_digits(grey, torch.Generator().manual_seed(0))
    assert made.shape == (3, 3, 32, 32) and made.min() >= -1 and made.max() <= 1
    for image in made:
        # The ink, wherever it moved, is some 64 pixels away from the ground's mean colour.
        away = (image - image.flatten(1).median(1).values[:, None, None]).abs().amax(0)
        assert 50 < (away > 0.5).sum() < 90
    assert torch.equal(made, street_digits(grey, torch.Generator().manual_seed(0)))
    assert not torch.equal(made[0], made[1])
    with pytest.raises(ValueError, match="28, 28"):
        street_digits(torch.zeros(2, 1, 8, 8), torch.Generator())


def test_colours_are_thirds_of_the_upper_half_alone():
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(900, 3, 1, 1, generator=generator).expand(900, 3, 4, 4).clone() - 1
    found = experiment.upper_colours(x, x)
    light, red = found // 3, found % 3
    assert torch.bincount(light).tolist() == torch.bincount(red).tolist() == [300, 300, 300]
    order = x[:, :, 0, 0].mean(1).argsort()
    assert light[order].diff().ge(0).all()
    changed = x.clone()
    changed[:, :, 2:] = 1
    assert torch.equal(experiment.upper_colours(changed, changed), found)
    assert found[x[:, 0, 0, 0].sub(x[:, 2, 0, 0]).argmax()] % 3 == 2


def test_lenet_has_the_layers_that_the_figure_follows():
    net = LeNet(10, torch.Generator().manual_seed(0))
    assert set(design.KERNELS) <= {name for name, _ in net.named_children()}
    assert sum(p.numel() for p in net.parameters()) == 62006  # 61,706 with one colour (LeCun et al. 1998)
