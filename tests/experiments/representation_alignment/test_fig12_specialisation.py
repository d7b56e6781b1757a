"""Figure 12: layers and areas, and claims that can come out either way."""

import pytest

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.representation_alignment.fig12_specialisation import reading
from tests import judging

_, outcomes = judging.of(reading)


@pytest.mark.parametrize(
    ("source", "related", "found"),
    [
        ((0.5, 0.2, 0.3, 0.4), (0.1, 0.3, 0.2, 0.15), (HOLDS, HOLDS, HOLDS)),  # the inputs do not count
        ((0.1, 0.3, 0.2, 0.05), (0.1, 0.2, 0.3, 0.4), (CONTRADICTED, CONTRADICTED, CONTRADICTED)),
        ((0.1, 0.3, 0.2, 0.5), (0.1, 0.3, 0.2, 0.302), (CONTRADICTED, NO_EFFECT, HOLDS)),  # one dip is enough
        ((0.1, 0.2, 0.202, 0.3), (0.1, 0.3, 0.2, 0.15), (NO_EFFECT, HOLDS, HOLDS)),
    ],
)
def test_claims_follow_the_areas(source, related, found):
    """Areas of layers 0 to 3 after training; 0.1 before."""
    after = {"source": source, "related": related}
    about = {"kind": "area", "normalisation": reading.NORMALISATIONS[0], "seed": range(3)}

    def area(row):
        return after[row.task][row.layer] + 0.001 * row.seed * row.layer if row.epoch else 0.1

    table = judging.rows(**about, task=[*after], layer=range(4), epoch=[0, 5], area=area)
    outcome = outcomes(table)
    assert tuple(outcome[id] for id in ("rises", "last-not-better", "from-training")) == found
