"""Which changes of the sources change the digest of a module, and which do not."""

import ast
import hashlib
import importlib
import sys

import pytest

from alignbook import code
from alignbook.errors import AlignbookError

EXPERIMENT = '''
"""An experiment."""

from statistics import mean

from alignbook.metrics import cka
from alignbook.seeding import numpy_stream
from companion.jobs import Job

from .first import shift
from .second import shift as other

RATE = 0.5


def jobs(parameters):
    return [Job("one", compute, {"seed": 0})]


def compute(*, seed, device, report):
    """A mean."""
    from .late import late

    return mean([RATE * shift(seed), other(seed), late()])
'''
SECOND = "from .second import shift as other"
FILES = {
    "experiment.py": EXPERIMENT,
    "first.py": "from .far import SCALE\n\n\ndef shift(x, by=1):\n    return SCALE * x + by\n",
    "second.py": "def shift(x):\n    return x - 1\n",
    "far.py": "SCALE = 3\n",
    "late.py": "def late():\n    return 7\n",
    "reading.py": "WORD = 1\n",
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The folder of a study, whose digest ``study_digest`` takes."""
    folder = tmp_path / "notebooks" / "paper" / "fig01"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.setenv("ALIGNBOOK_ROOT", str(tmp_path))
    yield folder
    code.forget()


def study_digest():
    code.forget()
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("companion.studies.paper")]:
        del sys.modules[name]
    return code.digest("companion.studies.paper.fig01.experiment")


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("experiment.py", "RATE * shift(seed)", "RATE + shift(seed)"),
        ("experiment.py", "from statistics import", "from numpy import"),
        ("experiment.py", "import cka", "import misalignment as cka"),
        ("experiment.py", ".first import shift\n", ".second import shift\n"),
        ("experiment.py", SECOND, "from .first import shift as other"),
        ("experiment.py", "RATE = 0.5", "import numpy\n\nnumpy.seterr(all='raise')\nRATE = 0.5"),
        ("far.py", "3", "4"),  # two imports away
        ("late.py", "7", "8"),  # imported within a function
    ],
)
def test_what_a_module_or_one_that_it_imports_does_counts(study, file, old, new):
    before = study_digest()
    edit(study / file, old, new)
    assert study_digest() != before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("experiment.py", '"""A mean."""', '"""The mean of three."""'),
        ("experiment.py", "RATE = 0.5", "RATE = 5e-1  # a comment"),
        ("experiment.py", "import Job\n", "import Job, Other\n"),  # the frame
        ("experiment.py", "alignbook.metrics import", "alignbook.metrics.cka import"),
        ("experiment.py", f"{SECOND}\n\nRATE = 0.5", f"RATE = 0.5\n{SECOND}"),
        ("experiment.py", "from .first", "from companion.studies.paper.fig01.first"),
        ("first.py", "x, by=1", "x: float, by: int = 1"),
        ("reading.py", "1", "2"),
    ],
)  # fmt: skip
def test_what_changes_no_number_does_not_count(study, file, old, new):
    before = study_digest()
    edit(study / file, old, new)
    assert study_digest() == before


def test_a_file_may_be_renamed_or_moved_and_others_may_come(study):
    before = study_digest()
    (study / "first.py").rename(study / "renamed.py")
    edit(study / "experiment.py", "from .first", "from .renamed")
    (study / "far.py").rename(study.parent / "shared.py")
    edit(study / "renamed.py", "from .far", "from ..shared")
    (study / "new.py").write_text("SCALE = 5\n")
    assert study_digest() == before
    edit(study.parent / "shared.py", "3", "4")
    assert study_digest() != before


def test_edits_are_seen_once_the_files_are_forgotten(study):
    before = study_digest()
    edit(study / "far.py", "3", "4")
    assert code.digest("companion.studies.paper.fig01.experiment") == before
    assert study_digest() != before


def test_a_file_that_is_no_python_is_named(study):
    (study / "late.py").write_text("def late(:\n")
    with pytest.raises(AlignbookError, match="companion.studies.paper.fig01.late has no digest: .*line 1"):
        study_digest()
    with pytest.raises(AlignbookError, match="there is no such file"):
        code.digest("companion.studies.paper.fig02.experiment")


def test_what_a_package_passes_on_is_followed_to_where_it_is_defined(study):
    def reached(line):
        text = EXPERIMENT.replace("from alignbook.metrics import cka", line)
        (study / "experiment.py").write_text(text)
        study_digest()
        names = code.reached("companion.studies.paper.fig01.experiment")
        return {name.removeprefix("alignbook.") for name in names if name.startswith("alignbook.")}

    seeding = {"seeding", "streams"}
    module = {"metrics.arrays", "metrics.checks", "metrics.cka"}
    assert reached("from alignbook.metrics import cka") == seeding | module
    name = reached("from alignbook.metrics import HessianEigenvalues")
    assert "metrics.hessian_eigenvalues" in name and not {"metrics", "metrics.cka"} & name
    assert {"metrics", "metrics.landscape", "metrics.cka"} <= reached("from alignbook import metrics")


def test_every_version_of_python_gives_the_same_digest():
    """Written down once: what ast.unparse and ast.dump write has changed between versions."""
    source = """
@cache
async def one(a, /, b: int = 1_000, *rest, c=None, **more) -> str:
    'A docstring.'
    async with b as d, c:
        yield f"{a['x']!r:>{b}} and {', '.join(rest)} \\n {{}}"
    return 1e-3, 2j, b"bytes", ..., -1, 'it\\'s', [], {}, (x for x in a if x), lambda: None


class Two(One, metaclass=Meta):
    kept: list[int]

    def nothing(self):
        try:
            del self.kept[1:2, ::3]
        except* ValueError as error:
            raise error from None
        match self:
            case {"k": [1, *others], **rest} | None:
                global LEFT
"""
    text = code._text(ast.parse(source))
    assert "docstring" not in text and text.count("FunctionDef") == 2
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == "bd863a0b36976f7db44edb4872336480"
