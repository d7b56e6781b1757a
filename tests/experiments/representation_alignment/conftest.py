"""What tests of several experiments of this paper begin with."""

import pandas as pd
import pytest
import torch


@pytest.fixture(scope="session")
def computed():
    """computed(experiment, parameters): the tables of all units, one below the other, with their seeds."""

    def table(experiment, parameters):
        made = []
        for unit in experiment.units(parameters):
            rows = unit.compute(**unit.arguments, device=torch.device("cpu"), report=lambda *_: None)
            made.append(rows.assign(seed=unit.arguments["seed"]))
        return pd.concat(made, ignore_index=True)

    return table
