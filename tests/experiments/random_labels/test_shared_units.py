"""What studies share stands beside them, and its results under the name of one of them."""

from companion.jobs import Job
from companion.runs import results
from companion.studies.random_labels.shared import filter_training, gaussian_networks


def test_what_studies_share_is_stored_under_one_of_them():
    owners = [results.owner(Job("any", part.compute, {})) for part in (filter_training, gaussian_networks)]
    assert owners == ["random_labels/fig02_misalignment", "random_labels/fig04_transfer_function"]
