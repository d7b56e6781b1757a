"""What readings of this chapter share: the best step size, readings chosen later."""

import pandas as pd

from companion.studies.representation_alignment.shared import step_sizes


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
