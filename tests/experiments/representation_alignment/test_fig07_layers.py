"""Figure 7: examples, layers and areas, and claims that can come out either way."""

import numpy as np
import pytest
import torch

from alignbook.data.tables import load_table
from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig07_layers import experiment, reading
from tests import judging

PARAMETERS = {
    "datasets": ["digits", "diabetes"], "points": 150, "width": 9, "layers": 3, "batch_size": 32,
    "rate": 0.003, "remaining": 0.05, "further": 0.01, "max_epochs": 4, "checkpoints": [1, 4, 9],
    "darkest": 0.0, "seeds": 3,
}  # fmt: skip
claims, outcomes = judging.of(reading, PARAMETERS)


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


def with_areas(table, before, after, further):
    """The table with made-up areas of layers 0 to 3, on both data sets; runs differ a little."""
    rows = table[table["kind"].isin(["area", "further"])].copy()
    states = (
        (before, rows["kind"].eq("area") & rows["epoch"].eq(0)),
        (after, rows["kind"].eq("area") & rows["epoch"].gt(0)),
        (further, rows["kind"].eq("further")),
    )
    for made_up, mine in states:
        layers = rows.loc[mine, "layer"].astype(int)
        noise = 0.0002 * rows.loc[mine, "seed"] * (layers + (made_up is not before) * layers**2)
        rows.loc[mine, "area"] = np.array(made_up)[layers] + noise
    return rows


def test_examples_of_a_table_are_its_rows_with_labels_moved():
    whole = load_table("diabetes")
    x, y = experiment.examples("diabetes", 10**6, seed=1)
    assert len(x) == len(whole.y) and y.min() == -1 and y.max() == 1
    place = int(np.flatnonzero((whole.x.astype(np.float32) == x[7].numpy()).all(1))[0])
    share = (whole.y[place] - whole.y.min()) / np.ptp(whole.y)
    assert y[7].item() == pytest.approx(2 * share - 1, abs=1e-6)
    few, labels = experiment.examples("diabetes", 31, seed=2)
    assert few.shape == (31, 10) and labels.shape == (31,) and not torch.equal(few, x[:31])


def test_pixels_go_from_the_darkest_to_one():
    x, y = experiment.examples("digits", 30, seed=1)
    wide, labels = experiment.examples("digits", 30, seed=1, darkest=-1.0)
    assert x.min() == 0 and wide.min() == -1 and wide.max() == 1 and torch.equal(y, labels)
    torch.testing.assert_close(wide, 2 * x - 1)
    table = experiment.examples("diabetes", 30, seed=1)[0]
    assert torch.equal(table, experiment.examples("diabetes", 30, seed=1, darkest=-1.0)[0])
    assert all("darkest" not in job.arguments for job in experiment.jobs(PARAMETERS))
    other = experiment.jobs(PARAMETERS | {"darkest": -1.0})[0]
    rows = other.compute(**other.arguments, device=torch.device("cpu"), report=None)
    first = rows[(rows["kind"] == "area") & (rows["layer"] == 0)]["area"].iloc[0]
    x, y = experiment.examples("digits", 150, 0, -1.0)
    assert first == pytest.approx(experiment.area(x.double(), y.double()))


def test_curves_enclose_the_areas(table):
    """Alignment only falls: its integral lies between the sums from the right and from the left."""
    after = reading.areas(table, "digits")
    curves = table[(table["kind"] == "curve") & (table["state"] == "after") & (table["dataset"] == "digits")]
    for (seed, layer), part in curves.groupby(["seed", "layer"]):
        step, values = part["threshold"].diff().iloc[1] / np.sqrt(150), part["alignment"].to_numpy()
        assert values[1:].sum() * step <= after.loc[seed, int(layer)] <= values[:-1].sum() * step


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
def test_claims_follow_the_areas(table, before, after, further, found):
    made = outcomes(with_areas(table, before, after, further))
    for dataset in PARAMETERS["datasets"]:
        ids = ("rises-{}", "rises-{}-further", "falls")
        assert tuple(made[id.format(dataset)] for id in ids) == found


def test_the_share_of_thresholds_comes_from_the_curves(table):
    last = (table["kind"] == "curve") & (table["layer"] == 3)
    # The last layer's curve lies below or above all others; of the other layers any step may have fewer.
    low, high = (table.assign(alignment=table["alignment"].mask(last, value)) for value in (-9.0, 9.0))
    assert (reading.share(low, PARAMETERS, "digits") == 0).all()
    assert claims(low)["range"].measured == 0
    assert (reading.share(high, PARAMETERS, "digits") > 0).all()
