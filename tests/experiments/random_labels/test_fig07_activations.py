"""Figure 7 of Maennel et al. 2020: which neurons are active."""

import pandas as pd

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.fig07_activations import experiment, reading
from tests import judging

PARAMETERS = judging.given("random_labels/fig07_activations", labels=["random"], cnn_convolutions=[1])
TASK = {"of": "curve", "seed": range(4), "step": [0, 64, 1000]}  # before, at the switch, in the end


def made_up(negative, positive, cnn=(0.5, 0.3, 0.3), control=0.5):
    """Activation of the last layer before the switch, at step 64 and in the end, in layer 7 0.1 more.

    control : of the networks without a first task, the same in all of them; or {network: value}
    """
    tables = []
    for draw, (name, values) in enumerate({"negative": negative, "positive": positive, 1: cnn}.items()):
        alone = control if isinstance(control, float) else control.get(name, 0.5)
        network = {"convolutions": 1} if name == 1 else {"case": name}
        network["layer"] = [1, 2] if name == 1 else [1, 7, 13]
        at_step = dict(zip(TASK["step"], values, strict=True))

        def curve(labels, level, prefix="", network=network, name=name, draw=draw):
            return judging.rows(
                noise=0.01,
                draw=2 * draw + bool(prefix),
                **TASK | network,
                labels=labels,
                unit=lambda row: f"{prefix}{name}-seed{row.seed}",
                level=lambda row: level(row) + 0.1 * (row.layer == 7) if row.layer > 1 else 0.5,
                activation=lambda row: row.level + row.noise,
                dead=lambda row: 1 - row.activation,
            )

        tables += [
            curve("upstream", lambda row, first=values[0]: first if row.step else 0.5),
            curve("random", lambda row, at_step=at_step: at_step[row.step]),
            curve("random", lambda row, alone=alone: alone, "scratch-"),
        ]
    return pd.concat(tables, ignore_index=True)


_, outcomes = judging.of(reading, PARAMETERS)
PRINTED = {"negative": (0.4, 0.1, 0.1), "positive": (0.4, 0.38, 0.4)}


def test_the_control_is_fine_tuning_without_pre_training():
    jobs = {job.name: job for job in experiment.jobs(PARAMETERS)}
    tables = (
        judging.compute(jobs["scratch-negative-seed0"]),
        judging.compute(jobs["negative-seed0"], upstream_epochs=0),  # leaves the network as it was
        judging.compute(jobs["negative-seed0"]),
    )
    alone, other, trained = (
        table[(table["of"] == "curve") & (table["labels"] == "random")].reset_index(drop=True)
        for table in tables
    )
    columns = ["step", "layer", "activation", "dead"]
    pd.testing.assert_frame_equal(alone[columns], other[columns], check_dtype=False)
    assert not alone["activation"].equals(trained["activation"])


def test_claims_come_out_either_way():
    found = outcomes(made_up(**PRINTED))
    turned = outcomes(made_up(**{"negative": PRINTED["positive"], "positive": PRINTED["negative"]}))
    for id in ("ends-7", "ends-13", "added-7", "added-13", "dies"):
        assert (found[id], turned[id]) == (HOLDS, CONTRADICTED)
    assert found["drops"] == found["stays"] == HOLDS
    rising = outcomes(made_up((0.3, 0.5, 0.6), (0.3, 0.3, 0.3)))  # VGG-16 alone
    assert rising["drops"] == rising["stays"] == CONTRADICTED


def test_a_difference_that_is_there_from_scratch_is_not_due_to_pre_training():
    same = outcomes(made_up(**PRINTED, control={"negative": 0.1, "positive": 0.4}))
    assert same["ends-13"] == HOLDS and same["added-13"] == NO_EFFECT
    more = outcomes(made_up(**PRINTED, control={"negative": 0.1, "positive": 0.8}))
    assert more["ends-13"] == HOLDS and more["added-13"] == CONTRADICTED
