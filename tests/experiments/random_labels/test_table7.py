import numpy as np
import pandas as pd
import pytest
import torch

from companion.studies.random_labels.tab01_covariance_init import experiment as tab01, reading, table7
from tests.judging import QUIET

PARAMETERS = dict(
    dataset="photos", initialisations=["pretrained"], layers=[1, 3], iterations=[1, 2], train_images=12,
    test_images=10, pretrain_images=14, pretrain_epochs=3, pretrain_rate=0.002, learning_rate=0.002,
    batch_size=6, schedule="thirds", init_scale=1.0, filter_scale="unit", centred=True, patch_stride=3,
    first_number=1, padding="same", pool="same", precision="bfloat16", variation_seeds=0,
    pretraining=["plain", "rate", "unscaled", "joint-column", "joint"], seeds=2,
)  # fmt: skip


def jobs():
    return {job.name: job for job in tab01.jobs(PARAMETERS)}


def run(job, **changes):
    arguments = job.arguments | changes
    return job.compute(**arguments, **QUIET)


@pytest.fixture
def trained(monkeypatch):
    """One (filters at the start, filters at the end, rate, labels) per call of ``fit``, in order."""
    calls, fit = [], tab01.fit

    def filters(net):
        return [conv.weight.detach().clone() for conv in net.convs]

    def recorded(net, x, y, **settings):
        before = filters(net)
        fit(net, x, y, **settings)
        calls.append((before, filters(net), settings["learning_rate"], y.clone()))
        return net

    monkeypatch.setattr(tab01, "fit", recorded)
    return calls


def test_layers_are_handed_over_as_they_are_or_scaled_back(trained):
    table = run(jobs()["table7-rate__pretrained-seed0"], layers=[1, 3], iterations=[1], pretrain_rate=0.05)
    (start, end, rate, random), *later = trained
    assert rate == 0.05 and [call[2] for call in later] == [0.002] * 4
    assert len(random) == 14 and all(len(call[3]) == 12 for call in later)
    assert table[["rescaled", "layers"]].to_numpy().tolist() == [[False, 1], [False, 3], [True, 1], [True, 3]]
    as_they_are, scaled = later[1][0], later[3][0]
    for layer in range(3):
        torch.testing.assert_close(as_they_are[layer], end[layer], rtol=0, atol=0)
        ratio = start[layer].norm() / end[layer].norm()
        assert abs(ratio - 1) > 1e-4
        # Biases are scaled with their weights and have a small part in the norm.
        torch.testing.assert_close(scaled[layer], end[layer] * ratio, rtol=5e-3, atol=1e-6)
    fresh = later[0][0]
    torch.testing.assert_close(fresh[0], end[0], rtol=0, atol=0)
    assert not torch.equal(fresh[2], end[2])
    assert table["random_labels"].between(0, 1).all() and table["random_labels"].nunique() == 1


def test_at_the_pages_own_rate_and_scaled_back_nothing_differs_from_table_7():
    plain = jobs()["pretrained-seed0"]
    otherwise = jobs()["table7-unscaled__pretrained-seed0"]
    same = run(otherwise, layers=[3], rescaled=[True])
    pd.testing.assert_frame_equal(
        same.drop(columns=["rescaled", "random_labels"]), run(plain, layers=[3], precision="float32")
    )


OURS, LONGER, RATE, UNSCALED, COLUMN = "ours", "longer", "rate", "unscaled", "column"
CHANGES = {
    OURS: {"precision": "bfloat16"},
    LONGER: {"precision": "bfloat16", "pretrain_epochs": 120},
    RATE: {"pretrain_rate": 0.01, "rescaled": True, "random_labels": 0.7},
    UNSCALED: {"rescaled": False, "random_labels": 0.5},
    COLUMN: {"schedule": "constant", "init_scale": 0.518},
}


def made_up(**accuracy):
    """A table of jobs: {one of ``CHANGES``: training accuracy after 1000 steps}; other cells as printed."""
    rows = []
    for name, value in accuracy.items():
        column = ("standard", 0) if name == COLUMN else ("pretrained", 3)
        for count in (100, 1000):
            row = dict(zip(("initialisation", "layers", "iterations"), (*column, count), strict=True))
            row |= {part: reading.PAPER[*column, count, part] for part in ("train", "test")}
            row |= {"seed": 0, "unit": "any", "precision": "float32"} | CHANGES[name]
            rows.append(row | ({"train": value} if count == 1000 else {}))
    return pd.DataFrame(rows)


def ways(table):
    """{way to pre-train: (training accuracy after 1000 steps, labels fitted)}, without what was not run."""
    found = table7.other_pretraining(table, PARAMETERS)
    return {
        way: (reached.xs((1000, "train"), level=("iterations", "part")).item(), fits)
        for way, reached, fits in found
        if reached.notna().any()
    }


def test_ways_name_what_changed_and_keep_the_first_run_alone():
    table = made_up(**{OURS: 0.6, LONGER: 0.66, RATE: 0.7, UNSCALED: 0.5, COLUMN: 0.65})
    other = made_up(**{OURS: 0.1}).assign(seed=1)
    found = ways(pd.concat([table, other], ignore_index=True))
    # The page's own network is the one that was also handed over without scaling back.
    assert found == {
        "as above: rate 0.002, 3 epochs, scaled back": (0.6, 0.5),
        "120 epochs": (0.66, pytest.approx(np.nan, nan_ok=True)),
        "rate 0.01": (0.7, 0.7),
        "not scaled back": (0.5, 0.5),
        "constant rate, initial scale 0.518: no layer pre-trained": (
            0.65,
            pytest.approx(np.nan, nan_ok=True),
        ),
    }
    alone = ways(table[table["rescaled"].isna()])
    assert np.isnan([fits for _, fits in alone.values()]).all()
