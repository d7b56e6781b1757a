"""Layers from an interrupted pre-training beside computed ones; statements come out either way."""

import pytest
import torch

from companion.claims import CONTRADICTED, HOLDS, NO_EFFECT
from companion.studies.random_labels.sec2_learned_labels import design, experiment, reading
from tests import judging

PARAMETERS = judging.given("random_labels/sec2_learned_labels")
STARTS = design.starts(PARAMETERS["upstream_epochs"])
EARLY, LEARNED = STARTS[2:]
_, outcomes = judging.of(reading)


def table(fitted=(20, 100), **gains):
    """Learning curves whose mean accuracy lies above the fresh start's by these points."""
    learned = dict(zip((EARLY, LEARNED), fitted, strict=True))
    named = {"early": EARLY, "learned": LEARNED}
    gains = {named.get(start, start): points for start, points in gains.items()}
    return judging.rows(
        seed=range(6), start=STARTS, epoch=[0, 1],
        fitted=lambda row: learned.get(row.start, float("nan")) / 100,
        accuracy=lambda row: 0.5 + gains.get(row.start, 0.0) / 100
        + 0.0002 * row.seed * STARTS.index(row.start),
        test=0.4,
    )  # fmt: skip


def test_the_layers_handed_on_are_those_of_the_interruption(monkeypatch):
    """Their weights, scaled back, and none of a later step; the dense layers are the fresh start's."""
    handed, interrupted = [], []
    fit, curve = experiment.fit, experiment.learning_curve

    def watched_fit(net, *arguments, on, **named):
        def and_note(step, net):
            interrupted.append(net.convs[0].weight.detach().clone())
            on(step, net)

        return fit(net, *arguments, on=and_note, **named)

    def watched_curve(net, *arguments, **named):
        handed.append({name: value.clone() for name, value in net.state_dict().items()})
        return curve(net, *arguments, **named)

    monkeypatch.setattr(experiment, "fit", watched_fit)
    monkeypatch.setattr(experiment, "learning_curve", watched_curve)
    judging.compute(experiment.jobs(PARAMETERS)[0])
    fresh, computed, early, learned = handed
    cosine = torch.nn.functional.cosine_similarity
    for net, weight in zip((early, learned), interrupted, strict=True):
        assert cosine(net["convs.0.weight"].flatten(), weight.flatten(), dim=0) > 1 - 1e-6
        assert torch.equal(net["dense.weight"], fresh["dense.weight"])
    assert torch.equal(computed["head.weight"], fresh["head.weight"])
    assert not torch.allclose(early["convs.0.weight"], learned["convs.0.weight"])


def test_computed_layers_match_what_has_learned_its_labels():
    found = outcomes(table(computed=6.0, early=-8.0, learned=6.0))
    assert set(found.values()) == {HOLDS}


def test_they_do_not_and_too_early_does_no_harm():
    found = outcomes(table(computed=1.0, learned=-6.0))
    assert found["matches"] == found["learned"] == CONTRADICTED
    assert found["computed"] == found["early"] == NO_EFFECT


def test_the_share_at_which_a_gain_is_reached():
    rows = table(fitted=(20, 100), computed=4.0, early=-8.0, learned=8.0)
    rows["accuracy"] -= 0.0002 * rows["seed"] * rows["start"].map(STARTS.index)
    assert reading.crossing(design.RANDOM)(rows, PARAMETERS) == pytest.approx([60.0])
    assert reading.crossing(design.COMPUTED)(rows, PARAMETERS) == pytest.approx([80.0])
    assert reading.crossing(design.RANDOM)(table(early=1.0, learned=2.0), PARAMETERS) == []
