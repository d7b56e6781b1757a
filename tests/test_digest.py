"""What makes a stored result stale, and what does not."""

import subprocess
import sys


def digest(checkout):
    code = (
        "from alignbook.digest import code_digest; "
        "from alignbook.experiments.toy import fig99_toy; print(code_digest(fig99_toy.compute))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=checkout.environment(), capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_code_that_compute_reaches_counts_and_nothing_else(checkout):
    before = digest(checkout)
    seeding = checkout.root / "src/alignbook/seeding.py"
    edit(checkout.experiment, "values are above -9", "values lie above -9")  # claims
    edit(checkout.experiment, '"""Random numbers, or trouble."""', '"""Numbers."""')  # a docstring
    edit(checkout.experiment, "return pd.DataFrame(", "return pd.DataFrame(  # a comment\n        ")
    edit(seeding, "def torch_stream", "def unused():\n    pass\n\n\ndef torch_stream")
    assert digest(checkout) == before
    edit(seeding, "zlib.crc32", "zlib.adler32")  # two imports away
    after = digest(checkout)
    assert after != before
    edit(checkout.experiment, "* rate", "* rate * 2")
    assert digest(checkout) not in (before, after)


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
