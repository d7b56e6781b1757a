"""Figures 5, 12 and 13: landscapes before training, on made-up planes and tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.metrics import landscape
from alignbook.studies.transferability import imagenet_source
from alignbook.studies.transferability.fig05_landscapes_at_initialisation import experiment, reading
from alignbook.training.resnet import ResNet
from tests import judging

PARAMETERS = {
    "dataset": "photos", "source": "photos", "pretrain_epochs": 1, "pretrain_images": 64, "width": 8,
    "blocks": 1, "examples": 24, "batch_size": 12, "learning_rate": 0.01, "epochs": 1, "decay_epochs": [],
    "images": 9, "radius": 0.1, "far_radius": 1.0, "points": 5, "layer_points": 3, "seeds": 3,
    "source_accuracy": False,
    "imagenet_weights": "random", "imagenet_layers": 3, "imagenet_images": 9, "imagenet_points": 3,
}  # fmt: skip
OF_IMAGENET = {"middle-imagenet", "middle-imagenet-scaled", "grows-more-imagenet"}
LAYERS = ["stem", "one", "two", "three", "four"]


def bowl(radius, points, bend):
    """Rows of ``bend``/2 · (α² + β²), whose second differences over h² are ``bend``."""
    alpha = np.linspace(-radius, radius, points)
    first, second = (part.ravel() for part in np.meshgrid(alpha, alpha, indexing="ij"))
    loss = 2 + bend / 2 * (first**2 + second**2)
    return pd.DataFrame({"alpha": first.round(9), "beta": second.round(9), "loss": loss})


def made_up(rougher=2.0, random_growth=0.5, own_growth=0.0, slower=2.0, bends=1000.0, learned=80.0):
    """Planes that bend ``rougher`` times as much at random weights, and grow by layers towards the input."""
    tables = [pd.DataFrame({"kind": ["source"], "seed": [0], "source_test_accuracy": [learned]})]
    for job in experiment.jobs(PARAMETERS):
        given = job.arguments
        if "weights" in given:
            continue
        random = given["start"] == "scratch"
        noise = 1 + 0.05 * np.random.default_rng([given["seed"], random]).random()
        if job.compute is experiment.training:
            loss = noise * (slower if random else 1.0)
            tables.append(
                pd.DataFrame({"step": [0, 5, 9], "train_loss": [3.0, loss, loss / 2]}).assign(
                    **given_of(given)
                )
            )
            continue
        everything = list(enumerate(LAYERS))
        for position, layer in everything if given["layers"] == "all" else [(2, "two")]:
            growth = random_growth if random else own_growth
            slope = growth * (len(LAYERS) - 1 - position) + 0.01 * given["seed"] * position * (1 + random)
            bend = bends * noise * (rougher if random else 1.0) * 2**slope
            rows = bowl(given["radius"], given["points"], bend).assign(layer=layer, position=position)
            tables.append(rows.assign(**given_of(given)))
    return pd.concat(tables, ignore_index=True)


def given_of(arguments):
    return {name: value for name, value in arguments.items() if isinstance(value, str | int | float)}


judged, outcomes, finding = judging.of(reading, PARAMETERS)


def test_jobs_are_named_apart():
    names = [job.name for job in experiment.jobs(PARAMETERS)]
    assert len(set(names)) == len(names) == 6 * 3 * 2 + 2 * 3 * 2


@pytest.mark.parametrize("points", [3, 5, 11, 21, 41])
def test_curvature_of_a_bowl_whatever_the_number_of_points(points):
    loss = bowl(0.3, points, 1.7)["loss"].to_numpy().reshape(points, points)
    assert reading.curvature(loss, 0.3) == pytest.approx(1.7)


def test_curvature_sees_no_slope_and_counts_ridges_of_either_sign():
    x = np.linspace(-1, 1, 11)
    assert reading.curvature(x[:, None] + 3 * x, 1.0) == pytest.approx(0, abs=1e-12)
    ridges = np.where(np.arange(11) % 2, 1.0, -1.0)[:, None] * np.ones(11)
    # |±1 ∓ 2 ± 1| = 4 along one axis, 0 along the other; h = 0.2
    assert reading.curvature(ridges, 1.0) == pytest.approx(2 / 0.2**2)


def later(table, seen=3):
    """The same on seeds that had not been seen when the layers, or the heads, were chosen."""
    return table.assign(seed=table["seed"] + seen)


def test_layers_are_not_judged_on_the_seeds_on_which_they_were_chosen():
    found = outcomes(made_up())
    assert {id for id in found if found[id] == NOT_JUDGED} == {"even", "grows", "grows-more"}


def test_claims_can_hold_and_fail():
    held = outcomes(later(made_up()))
    assert {id for id, outcome in held.items() if outcome == NOT_RUN} == OF_IMAGENET
    assert len(held) == 9 + 3 and {held[id] for id in held.keys() - OF_IMAGENET} == {HOLDS}
    failed = outcomes(later(made_up(rougher=0.1, random_growth=-0.5, own_growth=0.8, slower=0.5)))
    assert {failed[id] for id in failed.keys() - OF_IMAGENET} == {CONTRADICTED}
    assert outcomes(later(made_up(own_growth=0.5)))["even"] == UNDECIDED  # the margin itself


def test_what_a_source_shows_that_is_not_learned_is_not_judged():
    unknown = later(made_up(learned=59.0))
    found = outcomes(unknown)
    assert {found[id] for id in found.keys() - OF_IMAGENET} == {NOT_JUDGED}
    measured = later(made_up())
    assert outcomes(measured[measured["kind"].isna()].drop(columns="kind"))["faster"] == NOT_JUDGED
    assert "hardly learned its source. With" in finding(unknown)


def test_a_map_without_a_contour_of_the_papers_is_not_judged():
    """A bowl of radius r and bend b varies by b r²: 0.02 nats at 0.1, 2 at 1."""
    flat = later(made_up(bends=1.0))
    found = outcomes(flat)
    assert found["faster"] == HOLDS and found["middle-other-1"] == HOLDS  # the radius is ten times as large
    others = found.keys() - OF_IMAGENET - {"faster", "middle-other-1"}
    assert {found[id] for id in others} == {NOT_JUDGED}
    assert "at the paper's radius our maps are flat (the loss" in finding(flat)
    flatter = later(made_up(bends=0.01))
    assert outcomes(flatter)["middle-other-1"] == NOT_JUDGED and "our maps are flat" in finding(flatter)
    rows = reading.own_middle(flat, PARAMETERS)
    assert reading.span(rows, "pretrained") == pytest.approx(0.01, rel=0.1)


def test_layers_are_compared_from_the_middle_one_on():
    # Appendix B.4 shows layers 25 to 48: what the layers before the middle do decides nothing.
    table = made_up()
    before = (table["layers"] == "all") & table["layer"].isin(["stem", "one"])
    own = before & (table["start"] == "pretrained")
    table.loc[own, "loss"] = 2 + 50 * (table.loc[own, "loss"] - 2)
    judged = outcomes(later(table))
    assert {judged[id] for id in ("even", "grows", "grows-more")} == {HOLDS}
    assert finding(table) == finding(made_up())
    rows = reading.own_layers(table, PARAMETERS)
    assert set(reading.from_middle(rows)["layer"]) == {"two", "three", "four"}


@pytest.mark.parametrize(("rougher", "growth", "outcome"), [(2.0, 0.5, HOLDS), (0.1, -0.5, CONTRADICTED)])
def test_the_second_source_has_claims_of_its_own(rougher, growth, outcome):
    second = made_up(rougher, growth).assign(weights="imagenet")
    second["layers"] = second["layers"].replace({"all": "some"})
    second = second[(second["layers"] == "some") | (second["head"] == "scaled")]
    found = outcomes(later(second, 5))
    assert {id: found[id] for id in OF_IMAGENET} == dict.fromkeys(OF_IMAGENET, outcome)
    # Equal logits were asked for with five seeds seen, the layers with three.
    seen = outcomes(later(second))
    assert seen["middle-imagenet-scaled"] == NOT_JUDGED and seen["grows-more-imagenet"] == outcome


def test_the_second_source_changes_nothing_of_the_first():
    ours, second = made_up(), made_up(rougher=0.1).assign(weights="imagenet")
    second["layers"] = second["layers"].replace({"all": "some"})
    table = pd.concat([ours.assign(weights=None), second], ignore_index=True)
    in_its_place = table.replace({"weights": {"imagenet": "random"}})
    assert judged(in_its_place) == judged(ours)
    assert finding(table) == finding(ours) == finding(in_its_place)
    assert reading.key_numbers(table, PARAMETERS) == reading.key_numbers(ours, PARAMETERS)
    both, alone = judged(table), judged(ours)
    assert {id for id, claim in alone.items() if both[id] != claim} == OF_IMAGENET


def test_planes_of_the_second_source():
    jobs = {job.name: job.arguments for job in experiment.imagenet_jobs(PARAMETERS)}
    silent = {"device": "cpu", "report": lambda done, text: None}
    rows = experiment.imagenet_planes(**jobs["imagenet-layers-pretrained-seed1"], **silent)
    assert rows.groupby("position").size().to_dict() == {0: 9, 1: 9, 2: 9} and set(rows["mode"]) == {"train"}
    assert rows[(rows["alpha"] == 0) & (rows["beta"] == 0)]["loss"].nunique() == 1
    scaled = experiment.imagenet_planes(**jobs["imagenet-scaled-pretrained-seed1"], **silent)
    assert set(scaled["layer"]) == {rows.loc[rows["position"] == 1, "layer"].iloc[0]}


def test_the_network_from_a_layer_on_has_the_landscape_of_the_whole():
    pytest.importorskip("efficientnet_lite_pytorch")
    net = imagenet_source.initial("imagenet", "pretrained", "photos", "all", 10, 0)
    names = imagenet_source.first_convolutions(net)
    assert len(names) == 15 and names[7] == "body._blocks.8._expand_conv"
    x = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1
    before = {name: value.clone() for name, value in net.named_buffers()}
    losses = []
    for module, inputs, layer in (imagenet_source.from_layer(net, names[7], x), (net, x, names[7])):
        generator = torch.Generator().manual_seed(1)
        given = {"generator": generator, "points": 3, "layer": layer, "mode": "train"}
        found = landscape(module, nn.functional.cross_entropy, inputs, torch.tensor([1, 2, 3]), **given)
        losses.append(found.loss)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert np.ptp(losses[0]) > 1e-3
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())


def test_an_empty_table_has_no_verdicts():
    empty = pd.DataFrame({"unit": []})
    assert "Nothing" in finding(empty)


def test_the_finding_has_both_radii_and_both_readings():
    table = made_up(rougher=2.0, random_growth=0.0)
    ratios = reading.ratios(reading.own_middle(table, PARAMETERS))
    said = finding(table)
    assert f"{2 ** ratios.mean():.1f} times as much at the paper's radius; at radius 1 it holds" in said
    # What holds at the paper's radius alone is not said of both, and the other reading is not hidden.
    far = table["radius"] == PARAMETERS["far_radius"]
    swapped = {"scratch": "pretrained", "pretrained": "scratch"}
    table = table.copy()
    table.loc[far, "start"] = table.loc[far, "start"].replace(swapped)
    assert "at radius 1 the opposite holds" in finding(table)
    assert finding(table).endswith("by the standard deviation of the loss it holds.")
    assert len(reading.key_numbers(table, PARAMETERS)) == 2


def test_curvature_is_ours():
    assert {claim.id for claim in judged(made_up()).values() if not claim.ours} == {"faster"}


def test_a_scaled_head_gives_logits_of_standard_deviation_one():
    generator = torch.Generator().manual_seed(0)
    net = ResNet(5, width=8, generator=generator)
    x = torch.randn(11, 3, 32, 32, generator=generator)
    before = {name: value.clone() for name, value in net.named_buffers()}
    experiment.scale_head_(net, x, "train")
    assert all(torch.equal(value, before[name]) for name, value in net.named_buffers())
    with torch.no_grad():
        logits = net.train()(x)
    assert (logits - logits.mean(1, keepdim=True)).std().item() == pytest.approx(1, rel=1e-5)


def test_the_middle_layer_is_the_first_of_the_second_stage():
    names = experiment.main_layers(ResNet(3, width=8))
    assert len(names) == 7 and experiment.middle(names) == (3, "stages.1.0.conv1")


def test_planes_before_training():
    given = next(u.arguments for u in experiment.jobs(PARAMETERS) if u.name == "layers-scratch-seed0")
    rows = experiment.planes(**given, device="cpu", report=lambda done, text: None)
    assert len(rows) == 7 * 9 and rows["position"].nunique() == 7
    centres = rows[(rows["alpha"] == 0) & (rows["beta"] == 0)]["loss"]
    assert centres.nunique() == 1  # the same network, whichever layer moves
    part = {"layers": "middle", "points": 3}
    alone = experiment.planes(**given | part, device="cpu", report=lambda done, text: None)
    wanted = rows[rows["position"] == 3].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, wanted, check_dtype=False)
