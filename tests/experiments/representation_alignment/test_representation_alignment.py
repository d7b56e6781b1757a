"""All studies of the chapter: what banners say of the data."""

import pytest

from companion.runs import notebooks, results
from companion.runs.run import most_faithful

STUDIES = [book for book in notebooks.every() if book.paper == "representation_alignment"]
IN_PLACE = {"prop01_convergence": "in place of 1000 rows of CT Position"}


@pytest.fixture(params=STUDIES, ids=[study.slug for study in STUDIES])
def run(request):
    """The stored run that the page of a study shows."""
    found = most_faithful(request.param)
    return found or pytest.skip("nothing is stored")


def test_the_data_that_are_not_the_papers_are_named(run):
    study = notebooks.find(run.name)
    stored = {name for item in run.stored for name in results.datasets(item.job).values()}
    lacks = "only slices of two patients" if "ct_slices" in stored else IN_PLACE.get(study.slug)
    if lacks:
        assert lacks in study.data


def test_of_ct_position_there_are_fewer_rows_than_the_paper_takes():
    run = most_faithful(notebooks.find("representation_alignment/fig07_layers"))
    if run is None:
        pytest.skip("nothing is stored")
    rows = run.table[(run.table["kind"] == "training") & (run.table["dataset"] == "ct_slices")]
    assert rows["examples"].max() < run.parameters["points"]
