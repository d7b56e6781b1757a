"""Figure 16 and Table 1: domains and random labels, Office-31's folders, statements on made-up tables."""

import numpy as np
import pytest
import torch
from PIL import Image

from alignbook.data import colour32, load
from alignbook.metrics import alignment_curve
from alignbook.training.resnet import ResNet
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT, OPEN
from companion.studies.representation_alignment.fig16_negative_transfer import (
    design,
    domains,
    experiment,
    reading,
)
from tests import judging

HARM = {"street": 3.0, "handwritten": 2.0, "coarse": 1.0}  # factor of a source
SENSITIVE = {"street": 1.0, "handwritten": 1.2, "coarse": 1.4}  # factor of a target
AMONG = {"handwritten": "digits", "sizes": [60, 40, 30], "test_images": 50, "seed": 1}
IDS = ("alignment-mean", "alignment-every", "accuracy-mean", "accuracy-every", "ranks")
_, outcomes = judging.of(reading)


def made_up(aligned=0.1, accurate=5.0, harm=HARM, other=None, noise=0.25):
    """Areas: 1 less ``aligned`` times both factors; accuracies: 90 less ``accurate`` times both.

    harm, other : factors of the sources, for areas and (if they differ) for accuracies
    """

    def fall(row, factors):
        return factors[row.start] * SENSITIVE[row.target] + row.noise if row.start != design.NONE else 0.0

    table = judging.rows(
        noise=noise,
        kind=["area", "accuracy"],
        seed=range(6),
        start=[design.NONE, *HARM],
        target=[*HARM],
        area=lambda row: 1 - aligned * fall(row, harm),
        accuracy=lambda row: 90 - accurate * fall(row, other or harm),
    )
    return table[table["start"] != table["target"]]


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
    found = reading.falls(table, judging.given("representation_alignment/fig16_negative_transfer"), "area")
    assert found.shape == (6, 6)
    rows = table[(table["kind"] == "area") & (table["seed"] == 2) & (table["target"] == "coarse")]
    area = rows.set_index("start")["area"]
    assert found.loc[2, "street-coarse"] == pytest.approx(100 * (1 - area["street"] / area["none"]))


def test_printed_falls_are_those_of_table_1():
    assert reading.printed_falls()["webcam-dslr"] == pytest.approx(88.0 - 30.7)


def test_digits_have_the_same_classes_and_no_image_twice():
    found = {name: domains.domain("digits", name, **AMONG) for name in design.DOMAINS["digits"]}
    assert {one.x.shape[1:] for one in found.values()} == {(3, 32, 32)}
    drawn = load("digits", n=100, seed=1)
    torch.testing.assert_close(found["handwritten"].x, colour32(drawn.x[:40]))
    assert found["street"].y.tolist() == drawn.y[40:].tolist()
    test = load("digits", "test")
    assert found["handwritten"].y_test.tolist() == test.y[:50].tolist()
    assert found["street"].y_test.tolist() == test.y[50:100].tolist()


def test_office31_is_read_from_its_folders(tmp_path, monkeypatch):
    """Two classes, five images of each in every domain, of which one has its images in a further folder."""
    monkeypatch.setenv("ALIGNBOOK_DATA", str(tmp_path))
    paths = {"amazon": "amazon/images", "webcam": "webcam", "dslr": "dslr"}
    for level, path in enumerate(paths.values()):
        for label, kind in enumerate(("bike", "mug")):
            folder = tmp_path / "office31" / path / kind
            folder.mkdir(parents=True)
            for n in range(5):
                Image.new("RGB", (7, 5), (100 * level, 200 * label, 10 * n)).save(folder / f"{n}.png")
    for level, name in enumerate(paths):
        found = domains.domain("office31", name, **AMONG)
        assert found.classes == 2 and len(found.y) == 8 and len(found.y_test) == 2
        x, y = torch.cat([found.x, found.x_test]), torch.cat([found.y, found.y_test])
        red, green, blue = ((x[:, channel, 0, 0] + 1) * 127.5 for channel in range(3))
        torch.testing.assert_close(red, torch.full((10,), 100.0 * level), atol=1e-3, rtol=0)
        torch.testing.assert_close(green, 200.0 * y, atol=1e-3, rtol=0)
        assert sorted(blue.round().tolist()) == [0, 0, 10, 10, 20, 20, 30, 30, 40, 40]


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
