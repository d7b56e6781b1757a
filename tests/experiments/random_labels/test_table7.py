import pandas as pd
import pytest
import torch

from companion.studies.random_labels.tab01_covariance_init import experiment as tab01
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
