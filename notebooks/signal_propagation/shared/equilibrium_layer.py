"""The layer at which both information losses of a network's own inputs are equal. No torch.

The Equilibrium Hypothesis (Lou et al. 2022, Section 3.3) takes the layers that align best to be those where
the forward and the backward information loss are about equal. We average both over the pairs of inputs, for
the infinitely wide network, and set them equal, κ = 1: nothing is fitted.
"""

import numpy as np

from alignbook.kernels.relu_correlation import relu_correlations


def mean_losses(cosines, depth):
    """(forward, backward), (depth,) each: the losses of layers 1 to ``depth``, means over pairs of inputs.

    cosines : (pairs,) of the inputs. forward is the mean of |I^f_l - 1/2| = (1 - c_l) / 2, backward that of
    I^b_l = Π_{k=l}^{L-1} g'(c_k) (Appendix A.3).
    """
    return losses_by_depth(cosines, [depth])[depth]


def losses_by_depth(cosines, depths):
    """{depth: :func:`mean_losses`}: the layers of the deepest network are followed once."""
    u, slope = relu_correlations(np.clip(1 - np.asarray(cosines, dtype=float), 0, 2), max(depths))
    forward, found = u.mean(axis=1) / 2, {}
    for depth in depths:
        rest, backward = np.zeros(slope.shape[1]), np.ones(depth)  # log of I^b_l, from the last layer down
        for layer in reversed(range(depth - 1)):
            rest = rest + slope[layer]
            backward[layer] = np.exp(rest).mean()
        found[depth] = forward[:depth], backward
    return found


def layer_of(forward, backward, kappa=1.0):
    """The layer, from 1 to the depth, at which forward = ``kappa`` × backward; between layers in log l.

    forward, backward : (depth,). Of several such layers the first; the first layer of all where the backward
    loss is the larger one from the start, the last where it stays the smaller one.
    """
    balance = np.log(kappa) + np.log(np.asarray(backward)) - np.log(np.asarray(forward))
    (above,) = np.nonzero(balance >= 0)
    if not len(above) or above[0] == 0:
        return 1.0 if len(above) else float(len(balance))
    after = above[0]
    share = balance[after - 1] / (balance[after - 1] - balance[after])
    return float(after * ((after + 1) / after) ** share)


def cosines_of(x):
    """(pairs,) cosines of all pairs of the rows of ``x`` (n, d), an array."""
    x = np.asarray(x, dtype=float)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return (x @ x.T)[np.triu_indices(len(x), 1)]


def supreme_losses(cosines, depths):
    """The same, suprema over the pairs as in Definition 3: of the least and of the most alike inputs."""
    least, most = (losses_by_depth([end(cosines)], depths) for end in (np.min, np.max))
    return {depth: (least[depth][0], most[depth][1]) for depth in depths}
