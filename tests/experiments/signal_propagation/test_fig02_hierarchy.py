"""Figure 2's experiment on digits, and its numbers and verdicts on made-up curves."""

import numpy as np
import pytest

from companion.claims import CONTRADICTED, HOLDS, NOT_RUN, OPEN
from companion.studies.signal_propagation.fig02_hierarchy import experiment as fig02, reading
from tests import judging

PARAMETERS = judging.given(
    "signal_propagation/fig02_hierarchy",
    batch_size=30,
    epochs=2,
    record=[0.5, 1.0, 9.0],
    train_images=100,
)
EPOCHS = (0.0, 1.0, 2.0, 80.0)


def made_up(at_two, at_end, noise=0.005, accuracy=0.9):
    """A table of networks whose alignments, one per layer, are ``at_two`` epochs and ``at_end``."""
    curves = dict(zip(EPOCHS, ([0.05] * 6, at_two, at_two, at_end), strict=True))
    return judging.rows(
        noise,
        dataset="mnist",
        depth=6,
        learning_rate=0.003,
        seed=range(4),
        epoch=[*EPOCHS],
        layer=range(1, 7),
        alignment=lambda row: curves[row.epoch][row.layer - 1] + row.noise,
        test_accuracy=accuracy,
    )


ASKED = {"datasets": ["mnist"], "deep_datasets": [], "learning_rate": 0.003, "depth": 6}
judged, _ = judging.of(reading, PARAMETERS | ASKED)
HILL, FALL = [0.3, 0.5, 0.6, 0.5, 0.4, 0.2], [0.6, 0.5, 0.4, 0.3, 0.2, 0.2]


def test_a_job_measures_at_its_records_and_starts_from_the_untrained_network():
    job = fig02.jobs(PARAMETERS)[0]
    table = judging.compute(job)
    # Four batches an epoch, the last of ten; epoch 9 lies past the end.
    assert table.groupby("step")["epoch"].first().to_dict() == {0: 0.0, 2: 0.5, 4: 1.0, 8: 2.0}
    assert table["layer"].tolist() == [1, 2, 3, 4] * 4
    assert table["alignment"].between(0, 1).all()
    losses = table.groupby("step")["train_loss"].first()
    assert losses[8] < losses[0]
    untrained = judging.compute(job, epochs=1, learning_rate=1e-12)
    ends = [untrained.loc[untrained["step"] == step, "alignment"].to_numpy() for step in (0, 4)]
    np.testing.assert_allclose(*ends, rtol=1e-4)
    np.testing.assert_array_equal(ends[0], table.loc[table["step"] == 0, "alignment"])


def test_leads_and_rises_are_what_a_loop_finds():
    table = made_up(HILL, FALL)
    for row in reading.leads(table).itertuples():
        layers = table[(table["seed"] == row.seed) & (table["epoch"] == row.epoch)].sort_values("layer")
        values = layers["alignment"].tolist()
        assert row.lead == pytest.approx(max(values[1:-1]) - max(values[0], values[-1]))
        assert row.peak == 1 + values.index(max(values))
    for row in reading.networks(table).itertuples():
        first = table[(table["seed"] == row.seed) & (table["layer"] == 1)].set_index("epoch")["alignment"]
        assert row.rise == pytest.approx(first[2.0] - first[0.0])
        assert row.late == pytest.approx(first[80.0] - first[2.0])


def test_the_answer_has_a_time():
    """A hidden layer leads at first, the first layer in the end; and the reverse."""
    claims = judged(made_up(HILL, FALL))
    assert (claims["early"].outcome, claims["hidden-mnist"].outcome) == (HOLDS, CONTRADICTED)
    claims = judged(made_up(FALL, HILL))
    assert (claims["early"].outcome, claims["hidden-mnist"].outcome) == (CONTRADICTED, HOLDS)
    level = [0.5, 0.5, 0.3, 0.3, 0.3, 0.2]
    assert judged(made_up(level, level, noise=0.02))["hidden-mnist"].outcome == OPEN


@pytest.mark.parametrize(
    ("at_two", "at_end", "outcome"), [(HILL, HILL, HOLDS), ([0.1] * 6, HILL, CONTRADICTED)]
)
def test_a_rise_is_early_or_late(at_two, at_end, outcome):
    assert judged(made_up(at_two, at_end))["rises"].outcome == outcome


def test_networks_that_did_not_learn_are_left_out():
    assert {claim.outcome for claim in judged(made_up(HILL, HILL, accuracy=0.1)).values()} == {NOT_RUN}
