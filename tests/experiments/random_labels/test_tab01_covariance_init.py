import numpy as np
import pandas as pd
import pytest
import torch

from companion.claims import CONTRADICTED, NO_EFFECT, NOT_RUN
from companion.studies.random_labels.tab01_covariance_init import experiment as tab01, reading
from tests import judging

PARAMETERS = dict(
    dataset="photos", initialisations=["f1", "sampled", "smallest", "pretrained"], layers=[1, 3],
    iterations=[2, 3], train_images=40, test_images=20, pretrain_images=30, pretrain_epochs=1,
    pretrain_rate=0.002, learning_rate=0.002, batch_size=10, schedule="thirds", init_scale=1.0,
    filter_scale="unit", centred=True, patch_stride=3, first_number=1, padding="same", pool="same",
    precision="float32", variation_seeds=0, pretraining=["plain"], seeds=2,
)  # fmt: skip
CELL = ["initialisation", "layers", "iterations"]


def run(job):
    return judging.compute(job).assign(unit=job.name, seed=job.arguments["seed"])


def as_printed(shift=0.0, seeds=3, noise=1e-3, draw=0, fitted=1.0):
    """A table of jobs whose accuracies are the printed ones plus ``shift``, and a little ``noise``.

    fitted : share of the random labels that pre-training fits
    """
    printed = reading.PRINTED.drop_duplicates([*CELL, "part"])
    wide = printed.pivot(index=CELL, columns="part", values="paper").reset_index()
    wide[["train", "test"]] += shift
    made, rng = [], np.random.default_rng(draw)
    for seed in range(seeds):
        job = wide.assign(seed=seed, unit="any", random_labels=fitted)
        job[["train", "test"]] += rng.normal(0, noise, size=(len(job), 2))
        made.append(job)
    return pd.concat(made, ignore_index=True)


claims, outcomes = judging.of(reading, PARAMETERS)[:2]


@pytest.fixture
def trained(monkeypatch):
    """What training starts from: one (filters of the three layers, labels) per call of ``fit``, in order."""
    calls, fit = [], tab01.fit

    def recorded(net, x, y, **settings):
        calls.append(([conv.weight.detach().flatten(1).clone() for conv in net.convs], y.clone()))
        return fit(net, x, y, **settings)

    monkeypatch.setattr(tab01, "fit", recorded)
    return calls


def directions(x, net, layer):
    covariance = np.cov(_patches(net.features(x, layer)), bias=True)
    return torch.from_numpy(np.linalg.eigh(covariance)[1][:, ::-1].T.copy()).float()


def _patches(maps):
    patches = torch.nn.functional.unfold(maps.detach(), 3, stride=3)
    return patches.transpose(0, 1).flatten(1).double().numpy()


@pytest.mark.parametrize(
    ("name", "number", "first", "tau"),
    [
        ("f1", 1, (0, 0), [1, 2, 3, 4]),
        ("f2", 1, (0, 0), [1, 1, 1, 1]),
        ("f3", 1, (0, 0), [3, 4, 4 - 3 / 14, 4 - 6 / 14]),
        ("smallest", 0, (11, 128), [1, 1, 1, 1]),  # 27 and 144 eigenvectors
        ("shifted", 1, (3, 9), [1, 1, 1, 1]),
        ("shifted", 0, (4, 10), [1, 1, 1, 1]),
    ],
)
def test_training_starts_from_the_tables_filters(trained, name, number, first, tau):
    values = PARAMETERS | {"initialisations": [name], "layers": [2], "iterations": [2], "seeds": 1}
    values |= {"first_number": number}
    plain, job = tab01.jobs(values | {"filter_scale": "raw", "train_images": 200})
    run(plain), run(job)
    (standard, _), (filters, labels) = trained
    images = tab01._images(0, job.arguments, torch.device("cpu"))
    net = tab01._network(images, 0, "network", job.arguments)
    assert torch.equal(labels, images["y"]) and torch.equal(filters[2], standard[2])
    for layer in range(2):
        wanted = directions(images["x"], net, layer)[first[layer] :][:4] * torch.tensor(tau)[:, None]
        overlap = (filters[layer][:4] @ wanted.T) / torch.tensor(tau) ** 2
        assert torch.allclose(overlap.abs(), torch.eye(4), atol=0.02)
        with torch.no_grad():
            net.convs[layer].weight.copy_(filters[layer].reshape(net.convs[layer].weight.shape))


def test_pretraining_sees_random_labels_and_hands_over_its_filters(trained):
    values = PARAMETERS | {"initialisations": ["pretrained"], "iterations": [2], "seeds": 1}
    values |= {"learning_rate": 0.02, "pretrain_images": 300, "pretrain_epochs": 1}
    plain, job = tab01.jobs(values)
    run(plain), run(job)
    (standard, real), (source, random), (one, _), (three, labels) = trained
    images = tab01._images(0, job.arguments, torch.device("cpu"), 300)
    assert torch.equal(labels, real) and torch.equal(labels, images["y"])
    assert len(random) == 300 and np.bincount(random).min() > 10
    # Layer 1 of both is the same, trained, as long as before; what is not handed over starts as elsewhere.
    assert torch.equal(one[0], three[0]) and not torch.equal(three[0], source[0])
    assert [torch.equal(a, b) for a, b in zip(one, standard, strict=True)] == [False, True, True]
    for before, after, other in zip(source, three, standard, strict=True):
        assert after.norm() == pytest.approx(before.norm().item(), rel=0.02)  # biases have a small part
        assert not torch.allclose(after, other, atol=1e-3)


def test_training_and_pretraining_images_are_disjoint_and_paired_over_initialisations():
    protocol = PARAMETERS | {"train_images": 900, "test_images": 20}
    cpu = torch.device("cpu")
    alone = tab01._images(0, protocol, cpu)
    both = tab01._images(0, protocol, cpu, 1000)
    assert torch.equal(alone["x"], both["x"])
    assert torch.equal(alone["test_x"], both["test_x"])
    train = {image.numpy().tobytes() for image in both["x"]}
    pretrain = {image.numpy().tobytes() for image in both["pretrain_x"]}
    assert len(train) > 800
    assert not train & pretrain


def test_the_papers_own_numbers_hold_but_for_two():
    found = claims(as_printed(seeds=6, noise=1e-5).assign(pretrain_epochs=1))
    assert found["f1-above-standard"].measured == pytest.approx(found["f1-above-standard"].paper, abs=1e-3)
    contradicted = {id for id, claim in found.items() if claim.outcome == CONTRADICTED}
    assert contradicted == {"f1-like-pretrained-own", "shifted"}
    # Table 1's last step on test images is a rise of 0.01 and none, on average.
    assert found["f1-rises-test"].outcome == NO_EFFECT
    assert found["f1-like-pretrained-longer"].outcome == NOT_RUN


def test_claims_disagree_where_everything_is_turned_round():
    turned = as_printed(seeds=6)
    turned["train"], turned["test"] = 1 - turned["train"], 1 - turned["test"]
    found = outcomes(turned)
    for id in ("f1-above-standard", "f1-rises-train", "smallest"):
        assert found[id] == CONTRADICTED
    better = as_printed(seeds=6)
    better.loc[better["initialisation"].isin(["f1", "sampled"]), ["train", "test"]] += 0.08
    found = outcomes(better)
    assert found["f1-like-pretrained-own"] == found["sampled-like-f2"] == CONTRADICTED


def test_variations_are_no_cells_of_the_tables():
    table = as_printed()
    both = pd.concat([table, table.assign(pool="valid", train=0.0)], ignore_index=True)
    assert outcomes(both) == outcomes(table)
    pd.testing.assert_frame_equal(reading.jobs_with(both, PARAMETERS)[table.columns], table)
    assert len(reading.jobs_with(both, PARAMETERS, pool="valid")) == len(table)
    assert reading.jobs_with(both, PARAMETERS, pool="valid", precision="bfloat16").empty
    varied = reading.accuracies(both, PARAMETERS, pool="valid")
    assert (varied.xs("train", axis=1, level="part") == 0).all(axis=None)
    assert outcomes(both.assign(pool="same")) != outcomes(table)  # the same parameters, other accuracies
