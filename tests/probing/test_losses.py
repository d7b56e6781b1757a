"""Which loss is measured: the network's own, the reader's, whole where it is no mean; and what padding is."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import alignbook

N, T, WORDS = 40, 9, 30
QUICK = ["tangent", "initialisation"]


class Own(nn.Module):
    """A classifier of texts that returns its loss, as Hugging Face's do."""

    def __init__(self, loss, outputs=4):
        super().__init__()
        self.words, self.head, self.loss = nn.Embedding(WORDS, 8), nn.Linear(8, outputs), loss

    def forward(self, input_ids, labels=None):
        logits = self.head(torch.tanh(self.words(input_ids)).mean(1))
        return {"loss": None if labels is None else self.loss(logits, labels), "logits": logits}


def classes():
    words = torch.randint(0, WORDS, (N, T))
    return words, words[:, 0] % 4


LOSSES = {
    "weights": (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4])), "classes"),
    "smoothing": (nn.CrossEntropyLoss(label_smoothing=0.2), "classes"),
    "sum": (nn.CrossEntropyLoss(reduction="sum"), "classes"),
    "several labels": (functional.binary_cross_entropy_with_logits, "numbers"),
    "absolute": (functional.l1_loss, "numbers"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_networks_own_loss_is_the_one_that_is_measured(name):
    loss, kind = LOSSES[name]
    words, labels = classes()
    labels = labels if kind == "classes" else functional.one_hot(labels, 4).float()
    net, data = Own(loss), {"input_ids": words, "labels": labels}
    found = alignbook.probe(net, data, examples=N, without=QUICK)
    given = alignbook.probe(net, data, examples=N, without=QUICK, loss=loss)
    stated = net(**data)["loss"].item()
    for each in (found, given):
        assert each.network["network"]["loss"] == pytest.approx(stated, rel=1e-5)
        assert any("no mean" in line for line in each.said) == (name in ("weights", "sum"))
    assert any("the network's own" in line for line in found.said)
    criteria = [each.network["network"]["criterion"] for each in (found, given)]
    assert criteria == ["the network's own", "the loss that was given"]
    for table in ("curvature", "slice"):
        one, other = (each.tables[table].drop(columns=["network", "parameters"]) for each in (found, given))
        np.testing.assert_allclose(one.to_numpy(float), other.to_numpy(float), rtol=1e-4, atol=1e-6)
    assert ("accuracy" in found.network["network"]) == (kind == "classes")
    recorder = alignbook.Recorder(data, ["loss", "curvature"], share=None)
    recorder.step(net, 0)
    values = recorder.table.set_index("instrument")["value"]
    assert values["loss"] == pytest.approx(stated, rel=1e-5)
    top = abs(found.tables["curvature"]["eigenvalue"][0])  # a bilinear loss has pairs ±λ
    assert abs(values["curvature"]) == pytest.approx(top, rel=0.05)
    assert any("network's own" in line for line in recorder.said)


def contrast(outputs, _):
    return functional.cross_entropy(outputs @ outputs.T, torch.arange(len(outputs)))


def test_a_loss_that_compares_examples_is_taken_of_all_at_once():
    x, y, net = torch.randn(300, 6), torch.arange(300) % 3, nn.Linear(6, 16)
    found = alignbook.probe(net, x, y, loss=contrast, only=["slice"])
    assert found.network["network"]["loss"] == pytest.approx(contrast(net(x), y).item(), rel=1e-5)
    assert "accuracy" not in found.network["network"] and any("no mean" in line for line in found.said)
    middle = found.tables["slice"].query("alpha == 0")["loss"].item()
    rows = torch.tensor(alignbook.probing.budget.positions(300, found.examples["slice"]))
    assert middle == pytest.approx(contrast(net(x[rows]), None).item(), rel=1e-4)
    recorder = alignbook.Recorder((x, y), ["loss"], examples=300, loss=contrast)
    recorder.step(net, 0)
    assert recorder.table["value"].item() == pytest.approx(contrast(net(x), y).item(), rel=1e-5)
    plain = alignbook.probe(net, x, y, loss=functional.cross_entropy, only=["slice"])
    assert not any("no mean" in line for line in plain.said)


class Tagger(nn.Module):
    """A number, or some, for each word; words that the mask hides are others in another network."""

    def __init__(self, outputs=1, mix=False):
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.mix = nn.Linear(8, 8) if mix else None
        self.head = nn.Linear(8, outputs)

    def forward(self, input_ids, attention_mask=None):
        h = torch.tanh(self.words(input_ids))
        if self.mix is not None:  # each word sees the mean of the words that are there
            kept = attention_mask[..., None].float()
            h = h + torch.tanh(self.mix((h * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True)))
        out = self.head(h)
        return out.squeeze(-1) if out.shape[-1] == 1 else out


def rows(make):
    return [
        {
            "input_ids": torch.randint(1, WORDS, (n,)).tolist(),
            "attention_mask": [1] * n,
            "labels": make(n),
        }
        for n in [3, 4, 5, 6, 7, T] * 6
    ]


@pytest.mark.parametrize(
    ("kind", "mix"),
    [("float", False), ("int", True), ("float32 in one batch", True), ("zeros for padding", False)],
)
def test_padded_targets_do_not_count(kind, mix):
    numbers = kind != "int"
    data = rows(
        (lambda n: torch.randn(n).tolist()) if numbers else (lambda n: torch.randint(0, 3, (n,)).tolist())
    )
    net = Tagger(1 if numbers else 3, mix)
    total, count = 0.0, 0
    for row in data:
        with torch.no_grad():
            out = net(torch.tensor([row["input_ids"]]), torch.ones(1, len(row["input_ids"])))[0]
        wanted = torch.tensor(row["labels"])
        losses = (out - wanted) ** 2 if numbers else functional.cross_entropy(out, wanted, reduction="none")
        total += losses.sum().item()
        count += len(wanted)
    if "batch" in kind or "zeros" in kind:
        fill = {"labels": -100.0 if "batch" in kind else 0.0, "input_ids": 7, "attention_mask": 0}
        data = {
            name: torch.tensor([row[name] + [fill[name]] * (T - len(row["labels"])) for row in data])
            for name in fill
        }
    found = alignbook.probe(net, data, without=["initialisation"])
    assert found.network["network"]["loss"] == pytest.approx(total / count, rel=1e-5)
    assert found.tables["slice"].query("alpha == 0")["loss"].item() == pytest.approx(total / count, rel=1e-5)
    assert {"features", "tangent", "curvature"} <= set(found.tables)
    recorder = alignbook.Recorder(data, ["loss", "alignment", "tangent", "curvature"], share=None)
    recorder.step(net, 0)
    values = recorder.table.set_index(["instrument", "layer"])["value"]
    assert values["loss", ""] == pytest.approx(total / count, rel=1e-5)
    assert values["curvature", ""] == pytest.approx(found.tables["curvature"]["eigenvalue"][0], rel=0.05)


def test_labels_of_a_text_are_no_positions_though_as_many():
    """Four labels of texts of four words: the mask is one of words, not of labels."""

    class Labels(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, 4)

        def forward(self, input_ids, attention_mask):
            kept = attention_mask[..., None].float()
            return self.head((self.words(input_ids) * kept).sum(1))

    words, mask, labels = torch.randint(0, WORDS, (N, 4)), torch.ones(N, 4).long(), torch.randn(N, 4)
    mask[::2, 2:] = 0
    net = Labels()
    data = {"input_ids": words, "attention_mask": mask, "labels": labels}
    found = alignbook.probe(net, data, only=["slice"])
    expected = functional.mse_loss(net(words, mask), labels).item()
    assert found.network["network"]["loss"] == pytest.approx(expected, rel=1e-5)


class Reader(nn.Module):
    """A class for a text; ``first`` says on which axis its layers have the examples."""

    def __init__(self, width, first):
        super().__init__()
        self.first, self.words = first, nn.Embedding(WORDS, width)
        self.inner, self.head = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, input_ids, attention_mask):
        h = self.words(input_ids)
        h = h if self.first else h.transpose(0, 1)
        h = torch.tanh(self.inner(h))
        h = h if self.first else h.transpose(0, 1)
        kept = attention_mask[..., None].float()
        return self.head((h * kept).sum(1) / kept.sum(1))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("width", [8, T])
def test_networks_that_agree_on_what_is_not_masked_are_the_same(width, named):
    words, mask = torch.randint(1, WORDS, (N, T)), torch.ones(N, T).long()
    for i in range(N):
        mask[i, 3 + i % 6 :] = 0
    words[mask == 0] = 0  # the word that pads
    y = torch.arange(N) % 3
    one, other = Reader(width, True), Reader(width, False)
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        other.words.weight[0].add_(3)  # which the second network reads otherwise
    inputs = {"input_ids": words, "attention_mask": mask} if named else (words, mask)
    assert torch.allclose(one(words, mask), other(words, mask), atol=1e-6)
    cka = alignbook.layer_cka(one, inputs if named else (*inputs, y), other)
    assert cka.loc["inner", "inner"] == pytest.approx(1, abs=1e-6)
    data = {**inputs, "labels": y} if named else (*inputs, y)
    shares = [
        alignbook.probe(net, data, only=["features"]).tables["features"].query("layer == 'inner'")["share"]
        for net in (one, other)
    ]
    np.testing.assert_allclose(*shares, atol=1e-5)


def test_metrics_take_what_the_probe_takes():
    words, labels = classes()
    net = Own(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4])))
    data = {"input_ids": words, "labels": labels}

    class Plain(nn.Module):
        def forward(self, words):
            return self.net(words)["logits"]

    plain = Plain()
    plain.net = net
    for loss, expected in ((None, net.loss), (functional.cross_entropy, functional.cross_entropy)):
        exact = alignbook.hessian_eigenvalues(plain, expected, words, labels, k=2).eigenvalues
        for form in (
            data,
            [{"input_ids": w.tolist(), "labels": int(y)} for w, y in zip(words, labels, strict=True)],
        ):
            found = alignbook.hessian_eigenvalues(net, loss, form, k=2)
            np.testing.assert_allclose(found.eigenvalues, exact, rtol=1e-4)
        density = [
            alignbook.spectral_density(*given, vectors=2, steps=8, parameters=choice).nodes
            for *given, choice in ((net, loss, data, "head"), (plain, expected, words, labels, "net.head"))
        ]
        np.testing.assert_allclose(*density, rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match="targets"):
        alignbook.hessian_eigenvalues(net, functional.cross_entropy, words)
