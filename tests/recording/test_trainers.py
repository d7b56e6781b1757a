"""The recorder in Lightning's own Trainer and in Hugging Face's, where they are installed."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.nn import functional

from alignbook import Recorder
from alignbook.data.torchvision_shim import import_torchvision
from alignbook.recording import hugging_face, lightning

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
if find_spec("torchvision"):
    import_torchvision()  # before Lightning and Hugging Face import it
INSTRUMENTS = ["loss", "alignment", "curvature", "deviation"]


def test_in_lightnings_trainer_and_from_its_checkpoint(tmp_path):
    pl = pytest.importorskip("lightning.pytorch")

    class Network(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, number):
            return functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def trained(epochs, **options):
        recorder = Recorder((x, y), INSTRUMENTS, at=3)
        trainer = pl.Trainer(
            max_epochs=epochs, callbacks=[lightning(recorder)], accelerator="cpu", devices=1, logger=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(Network(), batches, **options)
        return recorder, trainer

    torch.manual_seed(0)
    x, y = torch.randn(64, 10), torch.randint(0, 2, (64,))
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16)
    recorder, trainer = trained(2)
    assert sorted(set(recorder.table["step"])) == [0, 3, 6] and recorder.left_out == {}
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    resumed, _ = trained(3, ckpt_path=tmp_path / "last.ckpt")
    assert sorted(set(resumed.table["step"])) == [0, 3, 6, 9, 12]
    assert resumed.table[resumed.table["step"] < 9].equals(recorder.table)


def test_in_hugging_faces_trainer(tmp_path):
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 50, (32, 8)), torch.ones(32, 8, dtype=torch.long)
    rows = {"input_ids": ids, "attention_mask": mask, "labels": (ids[:, 0] > 25).long()}
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=50, **sizes))
    recorder = Recorder(rows, INSTRUMENTS, at=2)
    arguments = hf.TrainingArguments(
        output_dir=tmp_path, max_steps=4, per_device_train_batch_size=8, report_to=[], use_cpu=True,
        disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    data = [{name: values[i] for name, values in rows.items()} for i in range(32)]
    hf.Trainer(model, arguments, train_dataset=data, callbacks=[hugging_face(recorder)]).train()
    assert sorted(set(recorder.table["step"])) == [0, 2, 4] and recorder.left_out == {}
    assert "bert.encoder.layer.1.attention.self.query" in set(recorder.table["layer"])
