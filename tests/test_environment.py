"""What is declared is imported; make, conda and pip users get the same versions, those that are here."""

import functools
import importlib.metadata
import re
import sys
import tomllib

import yaml

from alignbook import paths

PROJECT = tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
# Imported nowhere: commands, plug-ins, and where images and scripts lie.
USED_OTHERWISE = {
    *("pytest-xdist", "ruff", "scikit-image", "setuptools"),
    *("ipykernel", "seaborn", "sphinx", "sphinx-mathjax-offline"),
}
IMPORT = re.compile(r'^(?:.*")? *(?:import|from) (\w+)', re.MULTILINE)  # in prose: words that are no package


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


def pins():
    lines = (paths.root() / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_hashes_are_of_the_pinned_versions():
    lines = (paths.root() / "constraints-hashes.txt").read_text().splitlines()[1:]
    found = dict(
        re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line).groups() for line in lines
    )
    pinned = {name.replace("_", "-"): version for name, version in pins().items()}
    assert {name: version.split("+")[0] for name, version in found.items()}.items() <= pinned.items()
    asked = [*PROJECT["dependencies"], *OPTIONAL["report"], *OPTIONAL["book"], *OPTIONAL["test"]]
    assert {name_of(text) for text in asked} - {"alignbook"} <= found.keys()


distributions = functools.cache(importlib.metadata.packages_distributions)


def imported(*folders):
    """Names of the distributions that Python files in ``folders`` import."""
    modules = set()
    for folder in folders:
        for path in (paths.root() / folder).rglob("*"):
            if path.suffix == ".py" or path.name == "notebook.md":
                modules |= set(IMPORT.findall(path.read_text(encoding="utf-8")))
    known = distributions()
    modules -= {*sys.stdlib_module_names, "alignbook", "tests", "benchmarks"}
    return {name.lower().replace("_", "-") for module in modules for name in known.get(module, ())}


def test_every_package_that_is_imported_is_declared_and_the_other_way_round():
    needed = {name_of(text) for text in PROJECT["dependencies"]}
    extras = {name: {name_of(text) for text in texts} - {"alignbook"} for name, texts in OPTIONAL.items()}
    used = imported("src/alignbook/metrics", "src/alignbook/recording", "src/alignbook/kernels")
    assert used - {"triton", "matplotlib"} <= needed  # for .plot() alone
    everything = imported("src", "notebooks", "tests", "book")
    declared = (
        needed | extras["report"] | extras["data"] | extras["book"] | extras["test"] | extras["cluster"]
    )
    assert everything - extras["imagenet"] - extras["bench"] - extras["others"] <= declared
    assert declared - everything <= USED_OTHERWISE


# The readers' own list, by where it has to be imported.
NAMED = {
    "src/companion/pages": {"jupyter-book", "jupytext", "papermill"},
    "notebooks": {"seaborn", "scikit-learn", "torch", "numpy", "scipy"},
    "src/alignbook": {"torchvision"},
}


def test_every_named_package_is_declared_in_the_environment_and_imported_where_it_matters():
    declared = {name_of(text) for text in [*PROJECT["dependencies"], *OPTIONAL["book"], *OPTIONAL["data"]]}
    for folder, packages in NAMED.items():
        assert packages <= declared & pins().keys() & imported(folder)


def test_make_and_conda_users_get_the_same_extras_within_the_same_versions():
    environment = yaml.safe_load((paths.root() / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]
    assert pip["pip"] == ["--constraint constraints.txt", "--editable .[book,test]"]
    makefile = (paths.root() / "Makefile").read_text()
    assert "--constraint constraints.txt --editable" in makefile and "'.[book,test]'" in makefile
    assert PROJECT["requires-python"] == f">={python.removeprefix('python=')}"


def test_ranges_are_declared_and_exact_versions_stand_in_one_file():
    pinned = pins()
    assert len(pinned) > 100 and list(pinned) == sorted(pinned)
    texts = [text for group in (PROJECT["dependencies"], *OPTIONAL.values()) for text in group]
    assert not [text for text in texts if "==" in text.partition(";")[0]]
    assert {name_of(text) for text in texts} - {"alignbook"} <= set(pinned)
    for text in PROJECT["dependencies"]:
        lowest = re.search(r">=([\d.]+)$", text)[1].split(".")
        assert [*map(int, lowest)] <= [*map(int, pinned[name_of(text)].split("."))]
