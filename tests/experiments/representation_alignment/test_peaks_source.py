"""The tasks and inputs of the peaks functions, and when training on them stops."""

import pytest
import torch

from companion.studies.representation_alignment.shared import peaks_design, peaks_source

TRAINING = {"batch_size": 32, "step_size": 0.001, "window": 5, "tolerance": 0.01, "max_epochs": 40}


def silent(done, text):
    assert 0 <= done <= 1


def train(losses, monkeypatch, **changes):
    """peaks_source.train on a made-up sequence of epoch losses."""
    source = peaks_source.draw(0, 50)
    network = peaks_source.initial_network(0, 4, torch.device("cpu"))
    batches = iter([loss for loss in losses for _ in range(2)])  # of 32 and 18 points
    made_up = lambda *_: lambda index, rate: torch.tensor(next(batches), dtype=torch.float64)  # noqa: E731
    monkeypatch.setattr(peaks_source, "adam_step", made_up)
    return peaks_source.train(network, source, seed=0, report=silent, **(TRAINING | changes))


def test_labels_are_centred_and_inputs_have_length_one():
    source = peaks_source.draw(3, 500)
    for task in peaks_design.TASKS:
        assert float(source.labels[task].mean()) == pytest.approx(0, abs=1e-12)
        assert 0.4 < source.means[task] < 0.6
    torch.testing.assert_close(source.inputs.norm(dim=1), torch.ones(500, dtype=torch.float64))


def test_stops_at_the_first_window_that_improves_less_than_the_tolerance(monkeypatch):
    losses = [1.0] * 5 + [0.9] * 5 + [0.895] * 5 + [0.5] * 100
    assert train(losses, monkeypatch) == (15, True, pytest.approx(0.895))
    assert train(losses, monkeypatch, tolerance=0.001) == (25, True, pytest.approx(0.5))


def test_stops_at_the_cap_and_says_so(monkeypatch):
    losses = [0.9**epoch for epoch in range(100)]
    epochs, converged, loss = train(losses, monkeypatch, max_epochs=23)
    assert (epochs, converged) == (23, False)
    assert loss == pytest.approx(sum(losses[18:23]) / 5)
