"""What readings of this chapter share: words by verdict, the best step size, readings chosen later."""

import pandas as pd

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED, Claim
from alignbook.studies.representation_alignment import step_sizes, wording


def test_an_opening_follows_its_verdict():
    claim = Claim.greater("id", "", "", [1.0, 2.0, 3.0])
    said = {
        outcome: wording.opening(
            Claim(**claim.as_dict() | {"outcome": outcome}), "Later layers gain", contradicted="They lose",
            absent="They gain too little to matter",
        )
        for outcome in (HOLDS, CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED, NOT_RUN)
    }  # fmt: skip
    assert said.pop(NOT_RUN) is None and len(set(said.values())) == 5
    assert said[HOLDS] == "Later layers gain"
    assert said[UNDECIDED] == "It is undecided whether later layers gain"


def test_names_are_grouped_by_outcome():
    words = {HOLDS: "on {}", CONTRADICTED: "not on {}"}
    assert wording.grouped({"a": HOLDS, "b": CONTRADICTED, "c": HOLDS}, words) == "on a and c, not on b"
    assert wording.grouped(dict.fromkeys("abcd", HOLDS), words) == "on a, b and 2 more"
    assert wording.grouped({}, words) == ""


def test_in_how_many_a_statement_holds():
    assert wording.held(dict.fromkeys("abc", HOLDS), "tasks") == "all 3 tasks"
    mixed = {"a": HOLDS, "b": UNDECIDED, "c": ABSENT, "d": UNDECIDED}
    assert wording.held(mixed, "tasks") == "1 of 4 tasks (undecided: b and 1 more, too little to matter: c)"
    assert wording.held({"a": CONTRADICTED, "b": ABSENT}, "tasks").startswith("none of 2 tasks (the opposite")
    for outcome in (CONTRADICTED, ABSENT, UNDECIDED, NOT_JUDGED, NOT_RUN):
        assert wording.held({"a": outcome, "b": outcome}, "tasks").endswith(" in all)")


def test_the_best_step_size_is_that_of_the_lowest_last_training_error():
    rows = [
        {"seed": seed, "representation": name, "step": step, "step_size": size, "train_error": error}
        for name, sizes in {"a": {0.1: 2.0, 1.0: 1.0, 10.0: 0.1}, "b": {0.1: 1.0, 1.0: 1.0}}.items()
        for size, error in sizes.items()
        for step, seed in ((5, 0), (5, 1), (9, 0), (9, 1))
        if (name, size, seed) != ("a", 10.0, 1)  # where it diverges in a run
    ]
    table = pd.DataFrame(rows)
    table.loc[(table["step"] == 5) & (table["step_size"] == 0.1), "train_error"] = 0.0  # not the last step
    best = step_sizes.best(table, ["representation"])
    assert best.to_dict() == {"a": 1.0, "b": 1.0}  # of two alike the larger one
    chosen = step_sizes.at_best(table, best)
    assert set(chosen["step_size"]) == {1.0} and len(chosen) == 8
