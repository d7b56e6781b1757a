"""Linear models at the step size on which each representation is learned best (Figures 1, 11 and 13)."""

from companion.over_seeds import SEED


def best(steps, keys, error="train_error", size="step_size"):
    """The step size of lowest ``error`` after the last step, mean over the runs, a Series by ``keys``.

    steps : table with columns ``keys``, ``size``, ``error``, step and seed. Only step sizes count at which
    every run converges; the larger one where two are alike. Test points have no say.
    """
    last = steps[steps["step"] == steps["step"].max()]
    runs = last.groupby([*keys, size])[error]
    found = runs.mean()[runs.count() == steps[SEED].nunique()].reset_index()
    found = found.sort_values([error, size], ascending=[True, False])
    return found.groupby(keys)[size].first()


def at_best(rows, chosen):
    """Those of ``rows`` whose step size is the one that ``chosen``, of :func:`best`, has for their keys."""
    return rows.merge(chosen.reset_index())
