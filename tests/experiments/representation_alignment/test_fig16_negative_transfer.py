"""Figure 16 and Table 1: domains and random labels, Office-31's folders, statements on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from alignbook.data import colour32, load
from alignbook.metrics import alignment_curve
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.runs import notebooks, parameters
from companion.studies.representation_alignment.fig16_negative_transfer import (
    design,
    domains,
    experiment,
    reading,
)
from tests import judging

BOOK = notebooks.find("representation_alignment/fig16_negative_transfer")
PARAMETERS = parameters.resolve(BOOK, "quick")
HARM = {"street": 3.0, "handwritten": 2.0, "coarse": 1.0}  # factor of a source
SENSITIVE = {"street": 1.0, "handwritten": 1.2, "coarse": 1.4}  # factor of a target
AMONG = {"handwritten": "digits", "sizes": [60, 40, 30], "test_images": 50, "seed": 1}
IDS = ("alignment-mean", "alignment-every", "accuracy-mean", "accuracy-every", "ranks")
claims, outcomes = judging.of(reading, PARAMETERS)


def made_up(aligned=0.1, accurate=5.0, harm=HARM, other=None, noise=0.25, names=None):
    """Areas: 1 less ``aligned`` times both factors; accuracies: 90 less ``accurate`` times both.

    harm, other : factors of the sources, for areas and (if they differ) for accuracies
    """
    rng, rows = np.random.default_rng(0), []
    names, other = names or dict(zip(HARM, HARM, strict=True)), other or harm
    for seed in range(6):
        for start in (design.NONE, *HARM):
            about = {"start": names.get(start, start), "seed": seed}
            if start != design.NONE:
                rows.append(about | {"kind": "source", "fitted": 95.0})
            for target in HARM:
                if target == start:
                    continue
                spread = noise * (start != design.NONE) * rng.standard_normal(2)
                one = about | {"target": names[target]}
                fall = (harm.get(start, 0.0) * SENSITIVE[target] + spread[0]) * aligned
                rows.append(one | {"kind": "area", "area": 1 - fall})
                fall = (other.get(start, 0.0) * SENSITIVE[target] + spread[1]) * accurate
                rows.append(one | {"kind": "accuracy", "accuracy": 90.0 - fall})
    return pd.DataFrame(rows)


REVERSED = {"street": 1.0, "handwritten": 2.0, "coarse": 3.0}


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (made_up(), dict.fromkeys(IDS, HOLDS)),
        (made_up(aligned=-0.1), {"alignment-mean": CONTRADICTED, "alignment-every": CONTRADICTED}),
        (made_up(accurate=-5.0), {"accuracy-mean": CONTRADICTED, "accuracy-every": CONTRADICTED}),
        (made_up(aligned=0.001, accurate=0.01), {"alignment-mean": NO_EFFECT, "accuracy-mean": NO_EFFECT}),
        (made_up(other=REVERSED, noise=0.5), {"ranks": CONTRADICTED}),
        (made_up(harm=HARM | {"coarse": 0.01}), {"alignment-mean": HOLDS, "alignment-every": NO_EFFECT}),
        (made_up(noise=20.0), {"alignment-every": OPEN, "accuracy-every": OPEN}),
    ],
)  # fmt: skip
def test_what_comes_out_of_the_falls(table, found):
    made = outcomes(table)
    assert {id: made[id] for id in found} == found and set(made) == set(IDS)


def test_falls_are_those_computed_by_hand():
    table = made_up()
    found = reading.falls(table, PARAMETERS, "area")
    assert list(found) == [f"{s}-{t}" for s, t in reading.pairs(PARAMETERS)] and len(found) == 6
    rows = table[(table["kind"] == "area") & (table["seed"] == 2) & (table["target"] == "coarse")]
    area = rows.set_index("start")["area"]
    assert found.loc[2, "street-coarse"] == pytest.approx(100 * (1 - area["street"] / area["none"]))


def test_printed_falls_are_those_of_table_1():
    found = reading.printed_falls()
    assert found["webcam-dslr"] == pytest.approx(88.0 - 30.7) and found["amazon-webcam"] == pytest.approx(
        87.9
    )
    assert claims(made_up())["accuracy-mean"].paper == pytest.approx(np.mean(list(found.values())))


def test_digits_have_the_same_classes_and_no_image_twice():
    found = {name: domains.domain("digits", name, **AMONG) for name in design.DOMAINS["digits"]}
    assert [len(one.y) for one in found.values()] == [60, 40, 30]
    assert {one.x.shape[1:] for one in found.values()} == {(3, 32, 32)}
    assert all(one.x.abs().max() <= 1 and len(one.x_test) == len(one.y_test) == 50 for one in found.values())
    drawn = load("digits", n=100, seed=1)
    torch.testing.assert_close(found["handwritten"].x, colour32(drawn.x[:40]))
    assert found["street"].y.tolist() == drawn.y[40:].tolist()
    test = load("digits", "test")
    assert found["handwritten"].y_test.tolist() == test.y[:50].tolist()
    assert found["street"].y_test.tolist() == test.y[50:100].tolist()


@pytest.fixture
def office(tmp_path, monkeypatch):
    """A small Office-31: two classes, five images of each in every domain, one domain as it is unpacked."""
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    for level, (name, images) in enumerate((("amazon", "images"), ("webcam", ""), ("dslr", ""))):
        for label, kind in enumerate(("bike", "mug")):
            folder = tmp_path / "office31" / name / images / kind
            folder.mkdir(parents=True)
            for n in range(5):
                Image.new("RGB", (7, 5), (100 * level, 200 * label, 10 * n)).save(folder / f"{n}.png")
    return tmp_path / "office31"


def test_office31_is_read_from_its_folders(office):
    for level, name in enumerate(("amazon", "webcam", "dslr")):
        found = domains.domain("office31", name, **AMONG)
        assert found.classes == 2 and len(found.y) == 8 and len(found.y_test) == 2
        x, y = torch.cat([found.x, found.x_test]), torch.cat([found.y, found.y_test])
        assert x.shape == (10, 3, domains.SIDE, domains.SIDE)
        red, green, blue = ((x[:, channel, 0, 0] + 1) * 127.5 for channel in range(3))
        torch.testing.assert_close(red, torch.full((10,), 100.0 * level), atol=1e-3, rtol=0)
        torch.testing.assert_close(green, 200.0 * y, atol=1e-3, rtol=0)
        assert sorted(blue.round().tolist()) == [0.0, 0.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0, 40.0]


def test_alignment_is_the_mean_over_pairs_of_classes():
    images = domains.domain("digits", "coarse", **AMONG)
    kept = images.y < 3
    images = domains.Domain(images.x[kept], images.y[kept], images.x_test, images.y_test, 4)  # 3 is missing
    net = ResNet(4, width=2, generator=torch.Generator().manual_seed(0)).eval()
    area, curve = experiment.alignments(net, images, "cpu")
    by_hand = []
    with torch.no_grad():
        features = net.features(images.x).double()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        chosen = (images.y == one) | (images.y == other)
        y = (2.0 * (images.y[chosen] == other) - 1).double()
        thresholds, alignment = alignment_curve(features[chosen], y)
        by_hand.append((alignment[1:] * np.diff(thresholds)).sum() / len(y) ** 1.5)
    assert area["pairs"].item() == 3 and area["area"].item() == pytest.approx(np.mean(by_hand), rel=1e-4)
    assert curve["alignment"].is_monotonic_decreasing
