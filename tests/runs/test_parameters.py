"""Parameters fail closed: one clear line each."""

import math

import pytest

from alignbook.errors import AlignbookError
from companion.runs import notebooks, parameters
from companion.runs.notebooks import Notebook

CELL = """# Title

```{{code-cell}} ipython3
:tags: [parameters]

{}
```

```{{code-cell}} ipython3
other: int = 3  # [0, 1]: not a parameter
```
"""

LINES = """labels: list[str] = ["real"]  # {real, random}: which labels
epochs: int = 4  # [1, 10000000]: passes
rate: float = 0.1  # (0, 1]: step size
depth: float = 2.0  # [1, inf): no upper end
fast: bool = False  # a switch
name: str = "x"  # anything"""


@pytest.fixture
def toy(tmp_path):
    def make(lines=LINES):
        path = tmp_path / "toy.md"
        path.write_text(CELL.format(lines))
        return Notebook("paper/toy", path)

    return make


def test_reads_names_types_ranges_and_meanings(toy):
    spec = parameters.read(toy())
    assert list(spec) == ["labels", "epochs", "rate", "depth", "fast", "name"]
    assert spec["labels"].many and spec["labels"].choices == ("real", "random")
    assert spec["rate"].interval == (0.0, 1.0, False, True) and spec["rate"].range == "(0, 1]"
    assert spec["depth"].interval == (1.0, math.inf, True, False)
    assert spec["depth"].range == "[1, inf)"
    assert spec["epochs"].meaning == "passes" and spec["epochs"].range == "[1, 10000000]"
    assert spec["fast"].range == "" and spec["fast"].default is False


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "paper/toy has no parameter 'epoch'; did you mean epochs?"),
        ({"epochs": "3"}, "epochs must be an int, not '3'"),
        ({"epochs": True}, "epochs must be an int, not True"),
        ({"epochs": 0}, r"epochs must be in \[1, 10000000\], not 0"),
        ({"rate": 0}, r"rate must be in \(0, 1\], not 0.0"),
        ({"rate": math.nan}, r"rate must be in \(0, 1\], not nan"),
        ({"fast": 1}, "fast must be a bool, not 1"),
        ({"labels": "real"}, "labels must be a list of str, not 'real'"),
        ({"labels": []}, "labels must not be empty"),
        ({"labels": ["real", "real"]}, "labels must not have the same value twice"),
        (
            {"labels": ["randon"]},
            r"labels must be one of \{real, random\}, not 'randon'; did you mean random",
        ),
    ],
)
def test_refuses(toy, values, message):
    with pytest.raises(AlignbookError, match=message) as error:
        parameters.resolve(toy(), overrides=values)
    assert "\n" not in str(error.value)


def test_an_integer_is_a_float_where_a_float_is_asked_for(toy):
    assert parameters.resolve(toy(), overrides={"rate": 1})["rate"] == 1.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("-2.5e+3", -2500.0),
        ("3", 3),
        ("010", "010"),
        ("2001-13-45", "2001-13-45"),
        ("true", True),
        ('["random"]', ["random"]),
        ("", None),
    ],
)
def test_values_on_the_command_line_are_yaml_that_knows_numbers(text, value):
    read = parameters.from_text([f"k={text}"])["k"]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    "text", ["epochs", "=3", "labels=[real", "n=" + 5000 * "9", "n=" + 600 * "[", "n={a: 1, a: 2}"]
)
def test_a_malformed_assignment_is_refused(text):
    with pytest.raises(AlignbookError) as error:
        parameters.from_text([text])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("n = 3  # untyped", "a parameter is a typed assignment"),
        ("n: dict = {}  # no such type", "its type is not one of int"),
        ("n: int = 3", "a comment must say what it is"),
        ("n: int = 30  # [1, 10]: out of its own range", r"must be in \[1, 10\], not 30"),
        ("n: int = 3  # [1, 2, 3]: no range", r"a range is written \[low, high\], not \[1, 2, 3\]"),
        ("n: int = 3  # [3, 1]: nothing", r"nothing lies in the range \[3, 1\]"),
        ("n: int = m  # [1, 10]: no literal", "malformed node"),
        ("n: int = = 3  # [1, 10]: no Python", "the parameters cell is no Python"),
        ('n: str = """  # without an end', "the parameters cell is no Python"),
        ("n: int = \0  # no character", "the parameters cell is no Python"),
        ("n: int = " + 300 * "(" + 300 * ")" + "  # too deep", "the parameters cell is no Python"),
        ("n: int = " + 5000 * "9" + "  # too long", "the parameters cell is no Python"),
        ("m: int = 3  # one\n" * 2, "toy.md, line 7: .*its name stands there twice"),
    ],
)
def test_a_parameters_cell_that_does_not_say_enough_is_refused(toy, line, why):
    with pytest.raises(AlignbookError, match=why) as error:
        parameters.read(toy(line))
    assert "\n" not in str(error.value)


def test_profiles_hold_what_differs_from_the_cell_and_nothing_else():
    books = notebooks.every()
    assert len(books) >= 44
    for book in books:
        values = parameters.resolve(book)
        for profile in parameters.PROFILES:
            entry = parameters.read_profile(book, profile)
            same = [name for name, value in entry.items() if values[name] == value]
            assert not same, (book.name, profile, same)
        assert parameters.resolve(book, "quick") == values, book.name


def test_every_value_of_the_paper_profile_names_its_source():
    for book in notebooks.every():
        block = (book.folder / "profiles.yaml").read_text().partition("\npaper:")[2]
        for key in parameters.read_profile(book, "paper"):
            line = next(line for line in block.splitlines() if line.strip().startswith(f"{key}:"))
            assert "#" in line, f"{book.name}: {key} does not say where its value comes from"
