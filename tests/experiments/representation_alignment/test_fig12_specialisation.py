"""Figure 12: layers and areas, and claims that can come out either way."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig12_specialisation import experiment, reading
from tests import judging

PARAMETERS = {
    "points": 150, "width": 12, "layers": 3, "batch_size": 32, "rate": 0.003, "remaining": 0.0005,
    "max_epochs": 5, "checkpoints": [1, 3, 5, 9], "seeds": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def table(computed):
    return computed(experiment, PARAMETERS)


_, outcomes = judging.of(reading, PARAMETERS)


def with_areas(table, **by_task):
    """The table with made-up areas after training, of layers 0 to 3; 0.1 before."""
    rows = table[table["kind"] == "area"].copy()
    rows["area"] = 0.1
    for task, values in by_task.items():
        chosen = (rows["task"] == task) & (rows["epoch"] > 0)
        layers = rows.loc[chosen, "layer"].astype(int)
        rows.loc[chosen, "area"] = np.array(values)[layers] + 0.001 * rows.loc[chosen, "seed"] * layers
    return rows


@pytest.mark.parametrize(
    ("source", "related", "found"),
    [
        ((0.1, 0.2, 0.3, 0.4), (0.1, 0.3, 0.2, 0.15), (HOLDS, HOLDS, HOLDS)),
        ((0.1, 0.3, 0.2, 0.05), (0.1, 0.2, 0.3, 0.4), (CONTRADICTED, CONTRADICTED, CONTRADICTED)),
        ((0.1, 0.3, 0.2, 0.5), (0.1, 0.3, 0.2, 0.302), (CONTRADICTED, NO_EFFECT, HOLDS)),  # one dip is enough
        ((0.1, 0.2, 0.202, 0.3), (0.1, 0.3, 0.2, 0.15), (NO_EFFECT, HOLDS, HOLDS)),
    ],
)
def test_claims_follow_the_areas(table, source, related, found):
    made = outcomes(with_areas(table, source=source, related=related))
    assert tuple(made[id] for id in ("rises", "last-not-better", "from-training")) == found
