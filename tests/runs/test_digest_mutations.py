"""Code that makes other numbers has another digest, or is refused: a few kinds of :mod:`tests.mutations`."""

import pytest

from tests import mutations

SAMPLED = (
    "an imported name exchanged",
    "a default dtype at the top level",
    "a registry filled by a decorator",
)


@pytest.fixture(scope="module")
def small():
    jobs = mutations.small_jobs()
    return jobs, mutations.numbers(mutations.digest.SOURCES, jobs)


@pytest.mark.parametrize("kind", SAMPLED)
def test_a_mutation_is_counted_or_refused(small, kind):
    assert mutations.outcome(kind, *small) in ("counted", "refused")
