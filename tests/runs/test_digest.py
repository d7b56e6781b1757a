"""What makes a stored result stale, and what does not."""

import subprocess
import sys

import pytest


def digest(checkout, **how):
    code = (
        "from companion.runs.digest import code_digest; "
        "from companion.studies.toy.fig99_toy import experiment; print(code_digest(experiment.compute))"
    )
    return checkout.python(code, **how)


def test_the_seed_of_hashes_does_not_count(checkout):
    one, two = (digest(checkout, fresh=True, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == two == digest(checkout)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_code_that_compute_reaches_counts_and_nothing_else(checkout):
    before = digest(checkout)
    seeding = checkout.root / "src/alignbook/seeding.py"
    edit(checkout.reading, "values are above -9", "values lie above -9")
    edit(checkout.experiment, '"""Random numbers, or trouble."""', '"""Numbers."""')  # a docstring
    edit(checkout.experiment, "return pd.DataFrame(", "return pd.DataFrame(  # a comment\n        ")
    edit(seeding, "def torch_stream", "def unused():\n    pass\n\n\ndef torch_stream")
    assert digest(checkout) == before
    streams = checkout.root / "src/alignbook/streams.py"
    edit(streams, "zlib.crc32", "zlib.adler32")  # two imports away
    after = digest(checkout)
    assert after != before
    edit(checkout.experiment, "* rate", "* rate * 2")
    assert digest(checkout) not in (before, after)


def test_every_version_of_python_gives_the_same_digest():
    """Written down once: what ast.unparse and ast.dump write has changed between versions."""
    import ast
    import hashlib

    from companion.runs.digest import _text

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
    text = "".join(_text(node) for node in ast.parse(source).body)
    assert "docstring" not in text and text.count("FunctionDef") == 2
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == "660b6b76c5cb13fce0e8e8adbeefb50f"


def test_sources_edited_in_a_session_are_read_anew(checkout):
    code = f"""
from pathlib import Path
import companion
from companion.runs import digest

first = companion.run("fig99")
source = Path({str(checkout.experiment)!r})
source.write_text(source.read_text().replace("* rate", "* rate * 2"))
again = companion.run("fig99", recompute="stale")
pairs = zip(again.stored, first.stored, strict=True)
print(len(first.stale), [float(a.table.value[0] / b.table.value[0]) for a, b in pairs])
"""
    script = checkout.root / "session.py"
    body = "\n".join("    " + line for line in code.splitlines())
    script.write_text(f"if __name__ == '__main__':\n{body}\n")
    environment = checkout.environment()
    run = subprocess.run(
        [sys.executable, script], cwd=checkout.root, env=environment, capture_output=True, text=True
    )
    assert run.stdout.split("\n")[0] == "3 [2.0, 2.0, 2.0]", run.stdout + run.stderr


def with_helper(checkout, helper, constants):
    """The path of a module ``constants`` that the toy's ``compute`` reaches through a module ``helper``."""
    package = checkout.root / "src/alignbook"
    (package / "helper.py").write_text(helper)
    (package / "constants.py").write_text(constants)
    edit(checkout.experiment, "* rate", "* rate * helper.size()")
    edit(checkout.experiment, "import pandas as pd", "import pandas as pd\n\nfrom alignbook import helper")
    return package / "constants.py"


def test_constants_submodules_and_relative_imports_are_followed(checkout):
    helper = "from .constants import SIZE as LENGTH\n\ndef size():\n    return LENGTH\n"
    constants = with_helper(checkout, helper, "SIZE = 3\n")
    before = digest(checkout)
    edit(constants, "3", "4")
    assert digest(checkout) != before


def test_imports_inside_a_function_are_followed(checkout):
    helper = "def size():\n    from .constants import SIZE\n\n    return SIZE\n"
    constants = with_helper(checkout, helper, "SIZE = 3\nOTHER = 5\n")
    before = digest(checkout)
    edit(constants, "OTHER = 5", "OTHER = 6")
    assert digest(checkout) == before
    edit(constants, "SIZE = 3", "SIZE = 4")
    assert digest(checkout) != before


def test_the_public_face_is_followed_to_the_function_behind_it(checkout):
    edit(checkout.experiment, "* rate", "* rate * alignbook.misalignment(1, 2)")
    edit(checkout.experiment, "import pandas as pd", "import pandas as pd\n\nimport alignbook")
    before = digest(checkout)
    metric = checkout.root / "src/alignbook/metrics/misalignment.py"
    edit(metric, "return max(0.0, ", "return max(0, ")
    assert digest(checkout) != before


@pytest.mark.parametrize(
    ("constants", "use"),
    [
        ("SIZE = [1]\nSIZE += [2]\n", "SIZE[-1]"),
        ("SIZE = {}\nSIZE['b'] = 2\n", "SIZE['b']"),
        ("def SIZE():\n    pass\n\nSIZE.b = 2\n", "SIZE.b"),
        ("SIZE = []\nSIZE.append(2)\n", "SIZE[0]"),
        ("try:\n    SIZE = 2\nexcept OSError:\n    SIZE = 1\n", "SIZE"),
        ("for SIZE in (1, 2):\n    pass\n", "SIZE"),
        ("if True:\n    def SIZE():\n        return 2\n", "SIZE()"),
    ],
)
def test_every_statement_that_makes_or_changes_a_name_counts(checkout, constants, use):
    helper = f"from .constants import SIZE\n\ndef size():\n    return {use}\n"
    path = with_helper(checkout, helper, constants + "other = [3 for SIZE in ()]\n")
    before = digest(checkout)
    edit(path, "3 for", "4 for")  # a comprehension's names are its own
    assert digest(checkout) == before
    edit(path, "2", "5")
    assert digest(checkout) != before


def test_what_a_name_from_elsewhere_stands_for_counts(checkout):
    helper = "from statistics import mean\n\nfrom .constants import SIZE\n\n"
    helper += "def size():\n    return mean([1, SIZE])\n"
    with_helper(checkout, helper, "SIZE = 3\n")
    before = digest(checkout)
    path = checkout.root / "src/alignbook/helper.py"
    edit(path, "import mean", "import median as mean")
    assert digest(checkout) != before
    edit(path, "import median as mean", "import mean")
    assert digest(checkout) == before


def test_effects_at_the_top_level_count_for_all_in_the_module(checkout):
    helper = "import torch\n\nfrom .constants import SIZE\n\ndef size():\n    return SIZE\n"
    constants = with_helper(checkout, helper, "SIZE = 3\n")
    path = checkout.root / "src/alignbook/helper.py"
    digests = [digest(checkout)]
    for effect in ("torch.set_default_dtype(torch.float64)", "torch.backends.x = 1", "SIZE = abs(SIZE)"):
        path.write_text(helper + effect + "\n")
        digests.append(digest(checkout))
    path.write_text(helper)
    constants.write_text("import numpy as np\n\nSIZE = np.ones(3)\nnp.multiply(SIZE, 2, out=SIZE)\n")
    digests.append(digest(checkout))
    assert len(set(digests)) == len(digests)


def test_a_function_of_a_module_within_a_module_is_followed(checkout):
    folder = checkout.root / "src/alignbook/inner"
    folder.mkdir()
    (folder / "deep.py").write_text("def size():\n    return 3\n")
    edit(checkout.experiment, "* rate", "* rate * alignbook.inner.deep.size()")
    edit(checkout.experiment, "import pandas as pd", "import pandas as pd\n\nimport alignbook.inner.deep")
    before = digest(checkout)
    edit(folder / "deep.py", "3", "4")
    assert digest(checkout) != before


def test_helpers_of_one_name_are_told_apart_and_may_move(checkout):
    """Digests of definitions that refer to each other in a circle, too."""
    package = checkout.root / "src/alignbook"
    one = "def size(n=2):\n    return n * {} if n < 2 else other(n)\n\n\n"
    one += "def other(n):\n    return size(n - 1)\n"
    (package / "here.py").write_text(one.format(2))
    (package / "there.py").write_text(one.format(3))
    use = "from alignbook.here import size as a\nfrom alignbook.there import size as b\n"
    edit(checkout.experiment, "* rate", "* rate * a() / b()")
    edit(checkout.experiment, "import pandas as pd", f"import pandas as pd\n\n{use}")
    before = digest(checkout)
    edit(
        checkout.experiment,
        use,
        use.replace("here", "THERE", 1).replace("there", "here").replace("THERE", "there"),
    )
    swapped = digest(checkout)
    (package / "here.py").write_text(one.format(3))
    (package / "there.py").write_text(one.format(2))
    assert swapped != before == digest(checkout)
    (package / "elsewhere.py").write_text(one.format(3))
    edit(checkout.experiment, "alignbook.here import", "alignbook.elsewhere import")
    assert digest(checkout) == before
