"""Figures 6 and 9: which layers are transferred, slopes of areas, claims that come out either way."""

import pandas as pd
import pytest
import torch

from alignbook.seeding import torch_stream
from alignbook.training.transfer import layers_of
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, NOT_RUN
from companion.studies.random_labels.fig06_more_layers import design, experiment, reading
from companion.studies.random_labels.shared import layers as handed_on
from tests import judging


def same(one, other):
    """Whether all parameters of two lists of modules agree."""
    pairs = zip(torch.nn.ModuleList(one).parameters(), torch.nn.ModuleList(other).parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("column", design.COLUMNS)
def test_the_first_layers_are_handed_on(column):
    nets = [experiment.network(column, (3, 6, 6), 4, 8) for _ in range(2)]
    for module in (m for net in nets for m in net.modules() if isinstance(m, torch.nn.GroupNorm)):
        torch.nn.init.normal_(module.weight)  # they start alike
    depth = design.depth(column)
    for layers in (0, 2):
        handed_on.transfer_(*nets, layers)
        pairs = zip(*map(handed_on.parts, nets), strict=True)
        assert [same(*pair) for pair in pairs] == [number < layers for number in range(depth)]
    handed_on.transfer_(*nets, depth)
    one, other = (dict(net.named_parameters()) for net in nets)
    assert {name for name in one if not torch.equal(one[name], other[name])} == {"head.weight", "head.bias"}


NAME = "random_labels/fig06_more_layers"
PARAMETERS = judging.given(NAME, labels=["random", "real"])


def made_up(rises, seeds=range(5), columns=tuple(design.COLUMNS)):
    """Curves that lie ``rises[column]`` · (share of layers) above those from scratch, on average."""
    tables = []
    for draw, column in enumerate((*columns, "larger", "rescaled")):
        depth = design.depth(column if column in columns else "resnet")
        up = rises.get(column, 0.1) / depth
        tables.append(
            judging.rows(
                0.001, draw, labels=["random", "real"], seed=seeds, epoch=[0, 10], column=column,
                layers=[0, 1, depth] if column in columns else depth,
                accuracy=lambda row, up=up: (
                    0.4 + (1.5 if row.epoch else 0.5) * up * row.layers + row.noise
                ),
            )
        )  # fmt: skip
    return pd.concat(tables)


judged = judging.of(reading, PARAMETERS)[1]


def test_slopes_decide():
    up = {"cnn": 0.1, "vgg": 0.2, "resnet": 0.1}
    assert set(judged(made_up(up)).values()) == {HOLDS}
    assert reading.rise(made_up(up), PARAMETERS, "vgg", "random").mean() == pytest.approx(20, abs=1)
    found = judged(made_up(up | {"resnet": -0.1}))
    assert found["more-layers"] == found["among"] == CONTRADICTED  # it is about each network
    assert judged(made_up(up, columns=["cnn"]))["more-layers"] == NOT_RUN


def test_some_layers_against_none_are_no_more_layers():
    """All that the first transferred layer adds is in the headline's line, and not in the second one."""
    table = made_up(dict.fromkeys(design.COLUMNS, 0.0))
    table["accuracy"] += 0.1 * (table["layers"].ge(1) & table["column"].isin(design.COLUMNS))
    found = judged(table)
    assert (found["more-layers"], found["among"], found["later-half"]) == (HOLDS, NO_EFFECT, NO_EFFECT)
    rise = reading.rise_among(made_up({"vgg": 0.2}), PARAMETERS, "vgg", "real")
    assert rise.mean() == pytest.approx(20 * 12 / 13, abs=1)  # from one layer to all thirteen
    assert judged(table[table["layers"] != 1])["among"] == NOT_RUN  # one number makes no line


def test_what_larger_weights_gain_comes_out_either_way():
    found = judged(made_up({"cnn": 0.1, "vgg": 0.1, "resnet": 0.1, "larger": -0.1, "rescaled": 0.0}))
    assert found["larger"] == CONTRADICTED and found["rescaled"] == NO_EFFECT


def test_what_no_layer_is_handed_on_to_does_not_depend_on_pre_training():
    job = experiment.jobs(judging.given(NAME))[0]
    tables = [judging.compute(job, upstream_epochs=epochs) for epochs in (0, 1)]
    scratch, other = (table[table["layers"] == 0] for table in tables)
    pd.testing.assert_frame_equal(scratch, other)
    assert not tables[0].equals(tables[1])


def test_side_by_side_only_rounding_differs():
    jobs = experiment.jobs(judging.given(NAME, seeds=4))
    (job,) = (job for job in jobs if job.compute is experiment.compute_together)
    together, alone = judging.compute(job), experiment.compute(**job.arguments, **judging.QUIET)
    # Of 20 images none, or one whose two largest logits are alike, is counted differently.
    pd.testing.assert_frame_equal(together, alone, atol=0.051)


def test_size_and_directions_of_pretrained_weights_are_taken_apart(monkeypatch):
    parameters = judging.given(NAME, epoch_share=0.05, resnet_layers=[0, 5])
    jobs = {job.name: job for job in experiment.jobs(parameters)}
    nets = []

    def kept(net, x, y, **given):
        nets.append(net)
        return pd.DataFrame({"epoch": [0], "accuracy": [0.0]})

    monkeypatch.setattr(experiment, "first_epochs", kept)
    for name in ("resnet-seed0", "scale-seed0"):
        judging.compute(jobs[name])
    scratch, tuned, rescaled, larger = nets
    given, draw = jobs["scale-seed0"].arguments, torch_stream(0, "figure 6", "resnet", "upstream")
    source = experiment.network("resnet", (3, 8, 8), given["classes"], given["width"])
    experiment.he_normal_(source, given["init_scale"], draw)
    for made, norms_of, directions_of in ((rescaled, source, tuned), (larger, tuned, scratch)):
        norms = experiment.layer_norms(norms_of)[:-1]  # heads are new
        assert experiment.layer_norms(made)[:-1] == pytest.approx(norms, rel=1e-4)
        for pair in zip(*map(layers_of, (made, directions_of)), strict=True):
            one, other = (layer.weight.flatten() for layer in pair)
            assert torch.nn.functional.cosine_similarity(one, other, dim=0).item() == pytest.approx(1)
    assert experiment.layer_norms(tuned)[0] != pytest.approx(experiment.layer_norms(scratch)[0], rel=1e-3)
