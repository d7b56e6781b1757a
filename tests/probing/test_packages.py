"""Networks as other packages make them, of small configurations; a test without its package is skipped."""

import pytest
import torch

import alignbook
from alignbook.data.torchvision_shim import import_torchvision

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]  # the packages' own warnings are not ours
N = 16
IDS = torch.randint(0, 50, (N, 7), generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def seeded():
    import_torchvision()
    torch.manual_seed(0)


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers", reason="transformers is not installed")


def test_a_bert_of_hugging_faces(transformers):
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        num_labels=3,
    )  # fmt: skip
    net = transformers.BertForSequenceClassification(config)
    labels = torch.arange(N) % 3
    batches = [
        {"input_ids": IDS[i : i + 8], "attention_mask": torch.ones(8, 7).long(), "labels": labels[i : i + 8]}
        for i in (0, 8)
    ]
    found = alignbook.probe(net, batches)
    assert {*found.left_out} == {"filters", "deviation"}
    own = net.eval()(input_ids=IDS, labels=labels).loss.item()
    assert found.network["network"]["loss"] == pytest.approx(own, rel=1e-4)
    assert "bert.encoder.layer.1.attention.self.query" in set(found.tables["features"]["layer"])
    start = found.network["initialisation"]["loss"]  # its own: weights of standard deviation 0.02
    assert start == pytest.approx(own, rel=0.1) and start != own


def test_a_gpt2_of_hugging_faces(transformers):
    net = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=50, n_positions=8, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
    )
    found = alignbook.probe(net, {"input_ids": IDS, "labels": IDS}, layers=["transformer.h.*"])
    assert {*found.left_out} == {"filters", "deviation"}
    own = net.eval()(input_ids=IDS, labels=IDS).loss.item()
    assert found.network["network"]["loss"] == pytest.approx(own, rel=1e-4)
    assert {"transformer.h.0.attn.c_attn", "transformer.h.1.attn.c_proj"} < set(
        found.tables["features"]["layer"]
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet18", {}),
        ("vit_tiny_patch16_224", {"img_size": 32, "depth": 2}),
        ("convnext_atto", {}),
    ],
)
def test_networks_of_timms(name, options):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    net = timm.create_model(name, pretrained=False, num_classes=3, **options)
    images = torch.rand(N, 3, 32, 32) * 2 - 1
    found = alignbook.probe(
        net, images, torch.arange(N) % 3, without=["curvature", "tangent", "slice", "initialisation"]
    )
    assert {*found.tables} == {"features", "filters"}
