"""The studies of a chapter share modules beside them, and never one of each other's."""

import re

from alignbook import paths
from alignbook.experiments import Unit
from alignbook.runs import results
from alignbook.studies.random_labels import filter_training, gaussian_networks


def test_no_study_imports_another():
    folders = [path.parent for path in (paths.root() / "notebooks" / "random_labels").glob("*/experiment.py")]
    assert len(folders) == 13
    for folder in folders:
        others = "|".join(other.name for other in folders if other != folder)
        for path in folder.iterdir():
            if path.suffix in (".py", ".md"):
                assert not re.search(rf"^\s*(from|import) .*\b({others})\b", path.read_text(), re.M), path


def test_what_studies_share_is_stored_under_one_of_them():
    owners = [results.owner(Unit("any", part.compute, {})) for part in (filter_training, gaussian_networks)]
    assert owners == ["random_labels/fig02_misalignment", "random_labels/fig04_transfer_function"]
