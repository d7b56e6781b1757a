"""Networks and data of the reader's own, and the command, in a folder of theirs."""

import json
import re
import sys
from types import SimpleNamespace

import pytest
import torch

from alignbook import cli
from alignbook.errors import AlignbookError
from alignbook.probing import sources

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

MODULE = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10))

network = make()

def number():
    return 3

def pairs():
    return torch.randn(30, 1, 8, 8), torch.arange(30) % 10

held = pairs()

def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_network.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("my_network", None)


def test_networks_by_callable_and_weights(mine):
    net = sources.network("my_network:make")
    with torch.no_grad():
        net[0].weight.zero_()
    assert sources.network("my_network:network")[0].weight.abs().sum() > 0  # not called
    torch.save({"epoch": 3, "state_dict": net.state_dict()}, "weights.pt")
    (mine / "saved").mkdir()
    torch.save(net.state_dict(), "saved/pytorch_model.bin")
    assert torch.equal(sources.network("saved", "my_network:make")[0].weight, net[0].weight)
    assert torch.equal(sources.network("weights.pt", "my_network:make")[3].weight, net[3].weight)


def test_torchvisions_networks_by_name(mine):
    from alignbook.data.torchvision_shim import import_torchvision

    import_torchvision()
    from torchvision.models import squeezenet1_1

    assert type(sources.network("torchvision:resnet18")).__name__ == "ResNet"
    net = squeezenet1_1(num_classes=4)
    torch.save(net.state_dict(), "weights.pt")
    assert torch.equal(
        sources.network("weights.pt", "torchvision:squeezenet1_1").classifier[1].bias, net.classifier[1].bias
    )


class Touch:
    def __reduce__(self):
        return open, ("touched", "w")


@pytest.mark.parametrize(
    ("source", "arch", "said"),
    [
        ("nothing", None, "no file nothing"),
        ("my_network:number", None, "no nn.Module, but is of type int"),
        ("my_network:broken", None, "cannot be called: KeyError"),
        ("absent:make", None, "cannot be called: ModuleNotFoundError"),
        ("weights.pt", None, "say of which network"),
        ("weights.pt", "torchvision:resnet999", "no network 'resnet999'"),
        ("weights.pt", "torchvision:squeezenet1_1", "does not fit the network"),
        ("list.pt", None, "no state dict"),
        ("code.pt", None, "cannot be read"),
        ("nothing.pt", None, "nothing.pt cannot be read: EOFError"),
        ("empty", "my_network:make", "is a folder that holds neither of model.safetensors, pytorch"),
    ],
)
def test_a_network_that_cannot_be_had_is_one_line(mine, source, arch, said):
    torch.save({"weight": torch.zeros(3)}, "weights.pt")
    torch.save([1, 2], "list.pt")
    torch.save(Touch(), "code.pt")
    (mine / "nothing.pt").touch()
    (mine / "empty").mkdir()
    with pytest.raises(AlignbookError, match=re.escape(said)) as error:
        sources.network(source, arch)
    assert "\n" not in str(error.value) and not (mine / "touched").exists()


def test_data_by_name_and_of_the_readers_own(mine):
    x, y = sources.examples("digits", 7)
    assert x.shape == (7, 1, 8, 8) and x.dtype == torch.float32 and y.shape == (7,)
    assert torch.equal(sources.examples("digits", 7)[0], x)
    assert not torch.equal(sources.examples("digits", 7, seed=1)[0], x)
    for name in ("pairs", "held"):
        inputs, targets = sources.examples(f"my_network:{name}", 7)
        assert inputs.shape == (30, 1, 8, 8) and len(targets) == 30
    for source, said in (
        ("pets", "no image set 'pets'"),
        ("my_network:absent", "cannot be called: AttributeError"),
        ("my_network:broken", "cannot be called: KeyError"),
    ):
        with pytest.raises(AlignbookError, match=said) as error:
            sources.examples(source, 3)
        assert "\n" not in str(error.value)


def run(*arguments):
    return cli.main(["probe", *arguments])


def test_the_command_writes_a_page_and_numbers(mine, capsys):
    torch.save(sources.network("my_network:make").state_dict(), "start.pt")
    where = ("--data", "digits", "-n", "60", "--out", "report")
    assert run("my_network:make", *where, "--before", "start.pt") == 0
    page, said = (
        (mine / "report/report.html").read_text(),
        json.loads((mine / "report/report.json").read_text()),
    )
    assert {path.name for path in (mine / "report").iterdir()} == {"report.html", "report.json"}
    assert "my_network:make on digits" in page and len(said["tables"]) == 6
    assert "inputs from -1 to 1" in page and any("inputs from -1 to 1" in line for line in said["said"])
    # Nothing has moved, and logarithms show no zero.
    assert page.count("<figure") == 6 == page.count("<h2")
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)  # it stands by itself
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert all(row["deviation"] == 0 for row in said["tables"]["deviation"])
    assert "tangent of the network" in capsys.readouterr().err


def test_the_command_refuses_in_one_line(mine, capsys):
    for arguments, words in (
        (("absent:make", "--data", "digits", "--out", "report"), "cannot be called"),
        (("my_network:make", "--data", "digits", "--out", "my_network.py"), "cannot write"),
        (("my_network:make", "--data", "my_network:number", "--out", "r"), "data must be tensors"),
    ):
        assert run(*arguments) == 2
        assert words in capsys.readouterr().err.strip().splitlines()[-1]


def test_two_reports_are_compared_by_the_command_as_in_python(mine, capsys):
    for name in ("one", "two"):
        where = ("--data", "digits", "-n", "40", "--only", "slice", "--out", name)
        assert run("my_network:make", *where) == 0
    assert cli.main(["compare", "one", "two"]) == 0
    assert "Probe of one (Sequential), two (Sequential)" in capsys.readouterr().out
    assert cli.main(["compare", "one", "two/report.json", "--out", "both"]) == 0
    assert "one and two" in (mine / "both/report.html").read_text()
    assert cli.main(["compare", "one", "one/report.html", "--out", "both"]) == 2


def test_a_folder_of_hugging_faces_holds_a_network(mine, monkeypatch):
    class Tiny(torch.nn.Linear):
        def __init__(self, config):
            super().__init__(config.width, 2)

        @classmethod
        def from_pretrained(cls, folder, local_files_only):
            assert local_files_only  # nothing is downloaded
            made = cls(Config.from_pretrained(folder, True))
            made.load_state_dict(torch.load(folder / "pytorch_model.bin"))
            return made

    class Config:
        @staticmethod
        def from_pretrained(folder, local_files_only):
            return SimpleNamespace(**json.loads((folder / "config.json").read_text()))

    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoConfig=Config, Tiny=Tiny))
    (mine / "saved").mkdir()
    (mine / "saved/config.json").write_text('{"architectures": ["Tiny"], "width": 5}')
    assert sources.network("saved").weight.shape == (2, 5)
    state = {"weight": torch.ones(2, 5), "bias": torch.zeros(2)}
    torch.save(state, "saved/pytorch_model.bin")
    assert torch.equal(sources.network("saved").weight, state["weight"])
