"""Figure 7: examples, layers and areas, and claims that can come out either way."""

import numpy as np
import pytest
import torch

from alignbook.data.tables import load_table
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig07_layers import experiment, reading
from tests import judging

PARAMETERS = judging.given("representation_alignment/fig07_layers")
claims, outcomes = judging.of(reading)


@pytest.fixture
def table(smoke):
    return smoke("representation_alignment/fig07_layers").table


def test_examples_of_a_table_are_its_rows_with_labels_moved():
    whole = load_table("diabetes")
    x, y = experiment.examples("diabetes", 10**6, seed=1)
    assert len(x) == len(whole.y) and y.min() == -1 and y.max() == 1
    place = int(np.flatnonzero((whole.x.astype(np.float32) == x[7].numpy()).all(1))[0])
    share = (whole.y[place] - whole.y.min()) / np.ptp(whole.y)
    assert y[7].item() == pytest.approx(2 * share - 1, abs=1e-6)
    few, labels = experiment.examples("diabetes", 31, seed=2)
    assert few.shape == (31, 10) and labels.shape == (31,) and not torch.equal(few, x[:31])


def test_pixels_go_from_the_darkest_to_one(table):
    x, y = experiment.examples("digits", 30, seed=1)
    wide, labels = experiment.examples("digits", 30, seed=1, darkest=-1.0)
    assert x.min() == 0 and wide.min() == -1 and wide.max() == 1 and torch.equal(y, labels)
    torch.testing.assert_close(wide, 2 * x - 1)
    numbers, same = (experiment.examples("diabetes", 30, 1, darkest)[0] for darkest in (0.0, -1.0))
    assert torch.equal(numbers, same)
    first = reading.areas(table, "digits", "before").loc[0, 0]
    x, y = experiment.examples("digits", PARAMETERS["points"], 0, PARAMETERS["darkest"])
    assert first == pytest.approx(experiment.area(x.double(), y.double()))


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after, width = reading.areas(table, "digits"), 1 / (experiment.THRESHOLDS - 1)
    curves = table[(table["kind"] == "curve") & (table["state"] == "after") & (table["dataset"] == "digits")]
    for (seed, layer), part in curves.groupby(["seed", "layer"]):
        values = part["alignment"].to_numpy()
        assert values[1:].sum() * width <= after.loc[seed, int(layer)] <= values[:-1].sum() * width


FALLING, RISING, LEVEL = (0.4, 0.3, 0.2, 0.1), (0.4, 0.5, 0.6, 0.7), (0.4, 0.5, 0.6, 0.6)


@pytest.mark.parametrize(
    ("before", "after", "further", "found"),
    [
        (FALLING, RISING, RISING, (HOLDS, HOLDS, HOLDS)),
        ((0.1, 0.2, 0.3, 0.9), FALLING, FALLING, (CONTRADICTED,) * 3),
        (FALLING, LEVEL, (0.4, 0.5, 0.6, 0.55), (NO_EFFECT, CONTRADICTED, HOLDS)),
        (FALLING, (0.4, 0.3, 0.6, 0.9), RISING, (CONTRADICTED, HOLDS, HOLDS)),  # the first step counts
    ],
)
def test_claims_follow_the_areas(before, after, further, found):
    """Areas of layers 0 to 3 in three states."""
    areas, epochs = {"before": before, "after": after, "further": further}, {"before": 0, "after": 4}
    made_up = judging.rows(
        noise=0.0005,
        dataset=PARAMETERS["datasets"],
        seed=range(3),
        layer=range(4),
        state=[*areas],
        kind=lambda row: "area" if row.state in epochs else "further",
        epoch=lambda row: epochs.get(row.state, 6),
        area=lambda row: areas[row.state][row.layer] + row.noise,
    )
    outcome = outcomes(made_up)
    for dataset in PARAMETERS["datasets"]:
        ids = (f"rises-{dataset}", f"rises-{dataset}-further", "falls")
        assert tuple(outcome[id] for id in ids) == found


def test_the_share_of_thresholds_comes_from_the_curves(table):
    last = (table["kind"] == "curve") & (table["layer"] == 3)
    # The last layer's curve lies below or above all others; of the other layers any step may have fewer.
    low, high = (table.assign(alignment=table["alignment"].mask(last, value)) for value in (-9.0, 9.0))
    assert (reading.share(low, PARAMETERS, "digits") == 0).all()
    assert claims(low)["range"].measured == 0
    assert (reading.share(high, PARAMETERS, "digits") > 0).all()
