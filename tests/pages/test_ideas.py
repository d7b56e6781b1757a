"""The chapter "Four ideas in ten minutes": its code, and its pictures by formula."""

import re

import numpy as np
import pytest
import torch

from alignbook import paths
from companion.prose import ideas, toys
from tests.pages.test_interactive import states_of
from tests.pages.test_quotable import misprinted

CHAPTER = paths.root() / "book" / "ideas.md"


@pytest.fixture(scope="module")
def drawn():
    return {idea: draw().data for idea, draw in ideas.PICTURES.items()}


def readout(drawn, idea, key):
    """What a readout says in each state."""
    return states_of(drawn[idea])[key]["frames"]


def test_the_code_of_the_chapter_prints_what_it_shows():
    text = CHAPTER.read_text(encoding="utf-8")
    # What is folded away below a block stands before it: a reader who opens it pastes that first.
    folded = r"^(```pycon\n(?:(?!```).*\n)+```\n)\n:::\{dropdown\}.*\n(```pycon\n(?:(?!```).*\n)+```\n):::$"
    ordered = re.sub(folded, r"\2\n\1", text, flags=re.MULTILINE)
    unfolded = re.sub(folded, r"\1", text, flags=re.MULTILINE)
    shown = re.findall(r"^```pycon\n((?:(?!```).*\n)+)", unfolded, re.MULTILINE)
    assert len(shown) == len(ideas.PICTURES) and ":::" not in ordered
    assert all(block.count(">>> ") <= 3 for block in shown)
    assert ordered.count(">>> ") > 20
    assert not misprinted(re.sub(r"^```.*$", "", ordered, flags=re.MULTILINE))


def test_labels_along_the_first_singular_vector_leave_it_as_they_turn(drawn):
    features = toys.circle()
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    shares = []
    for turn in ideas.TURNS:
        labels = toys.labels_at(features, turn)
        assert sorted(np.unique(labels)) == [-1, 1]
        shares.append(np.square(left.T @ labels) / len(labels))
    shares = np.array(shares)
    assert readout(drawn, "alignment", "first") == [f"{100 * first:.0f}\u00a0%" for first in shares[:, 0]]
    assert shares[0, 0] > 0.9 and shares[-1, 0] < 0.2


def test_misalignment_is_zero_where_the_axes_agree_and_for_round_weights(drawn):
    scores = np.reshape(readout(drawn, "misalignment", "score"), (len(ideas.LENGTHS), -1)).astype(float)
    for long, row in zip(ideas.LENGTHS, scores, strict=True):
        for turn, score in zip(ideas.TURNS, row, strict=True):
            weights = toys.turned(turn, (long, ideas.LENGTHS[0]))
            expected = np.sqrt(np.diag(weights) * np.diag(np.linalg.inv(weights))).sum() - 2
            assert score == pytest.approx(expected, abs=0.0051)
    assert not scores[0].any() and not scores[:, [0, -1]].any() and (scores[1:, 4] > 0.1).all()
    width = [float(text) for text in readout(drawn, "misalignment", "tau1")]
    assert width[10 * 2] == ideas.LENGTHS[2] and width[10 * 2 + 9] == ideas.LENGTHS[0]


def test_a_row_of_a_layers_kernel_is_what_a_small_step_does():
    _, inputs, labels = toys.arcs()
    network = next(toys.trained(inputs, labels, [0]))
    kernels = toys.layer_kernels(network, inputs)

    def margins():
        outputs = network(inputs)
        return outputs[:, 1] - outputs[:, 0]

    for number, weight in enumerate(network.parameters()):
        before = margins()
        (part,) = torch.autograd.grad(before[5], [weight])
        kept, step = weight.data.clone(), 1e-7
        weight.data += step * part
        moved = (margins() - before).detach().numpy() / step
        weight.data = kept
        np.testing.assert_allclose(moved, kernels[number][5], rtol=1e-3, atol=1e-4 * abs(moved).max())


def test_training_aligns_the_kernels_and_ends_the_step_where_the_class_ends(drawn):
    aligned = np.reshape(readout(drawn, "tangent", "value"), (len(ideas.STEPS), -1)).astype(float)
    assert (aligned[-1] > aligned[0]).all() and (aligned > 0).all() and (aligned < 1).all()
    _, inputs, labels = toys.arcs()
    mark = ideas.MARKED[1]
    own = (labels == labels[mark]).numpy()
    networks = toys.trained(inputs, labels, [ideas.STEPS[0], ideas.STEPS[-1]])
    rows = [toys.layer_kernels(network, inputs)[2][mark] for network in networks]
    before, after = (row / row[mark] for row in rows)
    assert np.abs(after[~own]).mean() < np.abs(before[~own]).mean() / 4 and after[own].mean() > 0.5


def test_the_valley_is_a_parabola_and_gradient_descent_goes_down_it(drawn):
    ends = np.reshape(
        readout(drawn, "landscape", "end"), (len(ideas.CURVATURES), len(ideas.SHIFTS), len(ideas.RATES))
    )
    for curvature, by_shift in zip(ideas.CURVATURES, ends, strict=True):
        model, loss, inputs, targets = toys.valley(curvature, 0.5)
        model.weight.data[0, 0] = 0.0
        for _ in ideas.MOVES[1:]:
            (part,) = torch.autograd.grad(loss(model(inputs), targets), [model.weight])
            model.weight.data -= 0.2 * part
        place = float(model.weight[0, 0].detach())
        assert float(by_shift[4, 2]) == pytest.approx(curvature / 2 * (place - 0.5) ** 2, abs=0.0051)
    starts = readout(drawn, "landscape", "start")
    # In the steepest valley the largest rate throws the weights out.
    assert float(ends[-1, -1, -1]) > float(starts[-1]) == 1.0
    assert readout(drawn, "landscape", "top") == [f"{c:g}" for c in ideas.CURVATURES]
