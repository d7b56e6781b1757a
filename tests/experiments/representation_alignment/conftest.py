"""What tests of several experiments of this paper begin with."""

import pandas as pd
import pytest
import torch


@pytest.fixture(scope="session")
def computed():
    """computed(experiment, parameters): the tables of all jobs, one below the other, with their seeds."""

    def table(experiment, parameters):
        made = []
        for job in experiment.jobs(parameters):
            rows = job.compute(**job.arguments, device=torch.device("cpu"), report=lambda *_: None)
            made.append(rows.assign(seed=job.arguments["seed"]))
        return pd.concat(made, ignore_index=True)

    return table
