"""Transfer function f(σ) from data to first-layer weights (Maennel et al. 2020, Figure 4).

``gaussian-…`` jobs: fully connected networks on Gaussian inputs with random labels (left, E.1). The
centre and right panels take Figure 2's runs as they are, so that these are computed and stored once.
"""

from companion.jobs import jobs_over

from ..shared.filter_training import figure_jobs, sweep_jobs
from ..shared.gaussian_networks import compute


def jobs(parameters):
    """Groups of networks for every number of inputs (left), and Figure 2's runs (centre, right).

    As in Figure 2's sweep, one trial run of each kind of labels for every scale in ``other_scales``.
    """
    shared = {name: parameters[name] for name in "networks dimension rate goal max_steps".split()}
    shared["hidden"] = parameters["gaussian_hidden"]
    groups = range(parameters["groups"])
    result = jobs_over(
        "gaussian-{inputs}-group{seed}", compute, shared, inputs=parameters["inputs"], seed=groups
    )
    for scale in parameters["other_scales"]:
        result += sweep_jobs(parameters, scale, 1)
    return result + figure_jobs(parameters)
