"""Centred kernel alignment: how alike two representations are (Kornblith et al. 2019; Nguyen et al. 2021)."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import torch
from torch import nn

from . import arrays
from .checks import integer
from .evaluation import evaluation_mode

LEAST = 4  # examples: the unbiased estimator divides by n (n - 3)
BLOCK = 2**22  # entries of Gram matrices that are held at once: 32 MiB
EQUAL = 1e-10  # the debiased Gram matrix squared and summed, over the squared trace: below it, no structure


def cka(
    x: np.ndarray | torch.Tensor, y: np.ndarray | torch.Tensor, debiased: bool = True,
    batch_size: int | None = None,
) -> float:  # fmt: skip
    """Linear centred kernel alignment (CKA) of two representations of the same examples.

    Parameters
    ----------
    x, y : array or tensor, (n, ...)
        Features of the same n ≥ 4 examples in the same order, from two layers or two networks; axes after
        the first are flattened. The numbers of features may differ.
    debiased : bool
        Whether to estimate HSIC without bias. The plain estimator is too large where there are few examples
        for the number of features: it gives independent features of 100 examples and 1000 dimensions 0.9.
    batch_size : int, optional
        Average HSIC over consecutive batches of at least so many examples instead (debiased alone).

    Returns
    -------
    float
        1 for representations that are equal up to rotation, shift and scale, 0 for independent ones;
        at most 1, and with ``debiased`` slightly below 0 at times.

    Raises
    ------
    ValueError
        Fewer than four examples (or in a batch), different numbers of examples, entries that are not finite
        or complex, features that are the same for all examples, and, debiased, examples that are all equally
        far from each other: their similarity is 0/0. Also a batch size with the plain estimator.

    Notes
    -----
    CKA(X, Y) = HSIC(K, L) / √(HSIC(K, K) HSIC(L, L)), K = XXᵀ, L = YYᵀ. With C = I - 11ᵀ/n the plain
    estimator is tr(CKCL) (Kornblith et al. 2019, Equations 3 and 4). The unbiased one, of matrices K̃ and L̃
    whose diagonals are set to zero, is [tr(K̃L̃) + 1ᵀK̃1 1ᵀL̃1 / ((n-1)(n-2)) - 2/(n-2) 1ᵀK̃L̃1] / (n(n-3)); over
    batches each of the three HSIC is averaged before they are divided (Nguyen, Raghu and Kornblith 2021,
    Equations 2 and 3). The ratio of unbiased estimates has a small bias of its own. All sums are float64;
    the smaller of the two matrices XᵀY and K is formed, K in blocks.

    Cost, for n examples with d and e features: O(n d e) operations, or O(n² (d + e)) where that is less, for
    each of the three HSIC; with batches n is a batch's, and so many times. Memory: float64 copies of the
    features, and the d × e, d × d and e × e matrices one after the other, or a block of K.

    References
    ----------
    Kornblith et al. 2019, https://arxiv.org/abs/1905.00414; Nguyen, Raghu and Kornblith 2021,
    https://arxiv.org/abs/2010.15327.

    Examples
    --------
    >>> import numpy as np, alignbook
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((100, 20))
    >>> turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    >>> print(f"{alignbook.cka(x, 3 * x @ turn + 1):.3f}")
    1.000
    >>> abs(alignbook.cka(x, rng.standard_normal((100, 500)))) < 0.1
    True
    >>> alignbook.cka(x, rng.standard_normal((100, 500)), debiased=False) > 0.3
    True
    """
    least = _least(x), _least(y)
    x, y = _features(x, "x"), _features(y, "y")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} examples and y {len(y)}: CKA compares the same ones")
    _enough(len(x))
    count = 1
    if batch_size is not None:
        integer(batch_size, "batch_size", LEAST)
        if not debiased:
            raise ValueError("batches need debiased=True: the plain estimator's bias grows with their number")
        count = max(1, len(x) // batch_size)
    pairs = zip(np.array_split(x, count), np.array_split(y, count), strict=True)
    similar, of_x, of_y = np.sum([_similarities(a, b, least, debiased) for a, b in pairs], 0)
    for own, name in ((of_x, "x"), (of_y, "y")):
        if not own > 0:
            raise ValueError(f"{name} tells no examples apart: its features are constant, or all its examples"
                             " are equally far from each other")  # fmt: skip
    return float(similar / np.sqrt(of_x) / np.sqrt(of_y))


def layer_cka(
    model: nn.Module, inputs, other: nn.Module | None = None, layers: Iterable[str] | None = None,
    batch_size: int = 256,
) -> pd.DataFrame:  # fmt: skip
    """Debiased CKA of every layer of a network with every layer of the same or of another one.

    Parameters
    ----------
    model : torch.nn.Module
        Measured in evaluation mode, without gradients, and left as it was.
    inputs : tensor or array (n, ...), tuple, dict, Dataset, DataLoader or iterable of batches
        As :func:`alignbook.probe` takes them, targets or none: of a tuple the last entry, which counts as the
        targets, is left out, and so are entries of a dict that the network does not take. A list of tensors
        that are alike is a list of batches. Arrays and datasets are cut into batches of at least
        ``batch_size`` examples. Both networks see the same ones.
    other : torch.nn.Module, optional
        The network for the columns; ``model`` itself if it is left out.
    layers : names or patterns, optional
        Of modules, as in ``["blocks.*.mlp"]``; by default all that own a weight of two or more dimensions.
    batch_size : int
        The least number of examples in a batch that is cut from arrays or a dataset.

    Returns
    -------
    pandas.DataFrame
        A row for each layer of ``model``, a column for each of ``other``, in the order of the modules, called
        as :func:`alignbook.probe` calls them: ``(network)`` is the module itself. ``.attrs["left_out"]`` says
        which layers have no number and why: those that tell no examples apart, are not called, or whose
        output's first axis is not the examples. ``.attrs["said"]`` is a list of lines on the data.

    Raises
    ------
    ValueError
        Where no layer is left, no batch has four examples or more, or features are not finite.

    Notes
    -----
    As :func:`cka` over batches; batches of fewer than four examples, as a last one may be, are left out. Of a
    module that is called more than once the last output counts.

    Cost, for each batch of n examples and L layers: a forward pass, O(n² d) operations for a layer with d
    outputs, and O(n² L²) for the table. Memory: all layers' outputs for a batch, and their Gram matrices,
    about 2 L n² float64 numbers.

    Examples
    --------
    >>> import torch, alignbook
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    >>> alignbook.layer_cka(net, torch.randn(100, 8)).round(2).loc["0", "0"]
    np.float64(1.0)
    """
    integer(batch_size, "batch_size", LEAST)
    networks = [model] if other is None else [model, other]
    patterns = None if layers is None else [layers] if isinstance(layers, str) else list(layers)
    watched = [_chosen(network, patterns) for network in networks]
    sums, faults, scales, short = 0.0, {}, {}, []
    for batch in _batches(inputs, batch_size):
        if (count := _count(batch)) < LEAST:
            short.append(count)
            continue
        grams = []
        for place, (network, modules) in enumerate(zip(networks, watched, strict=True)):
            outputs, n = _outputs(network, modules, batch), count
            for name in modules:
                gram, why = _gram(outputs, n, name)
                if why:
                    faults.setdefault((place, name), why)
                scale = scales.setdefault((place, name), np.abs(gram).max() or 1.0)  # one for all batches
                grams.append(gram.ravel() / scale / (n * (n - 3)) ** 0.5)
        flat = np.stack(grams)
        sums = sums + flat @ flat.T
    if np.ndim(sums) == 0:
        _enough(max(short, default=0))
    table = _table(sums, watched, faults)
    table.attrs["said"] = [
        f"batches of fewer than {LEAST} examples are left out: {sum(short)} examples"
    ] * bool(short)
    return table


def _features(values, name):
    values = arrays.float64(values, name)
    if values.ndim < 2 or 0 in values.shape:
        raise ValueError(f"{name} must be (n, features), not of shape {values.shape}")
    values = values.reshape(len(values), -1)
    return values / (np.abs(values).max() or 1.0)


def _least(values):
    """Variation, relative to the mean square, that is more than rounding in the caller's precision."""
    return (arrays.UNITS * max(arrays.unit(values), np.finfo(np.float64).eps)) ** 2


def _enough(n):
    if n < LEAST:
        raise ValueError(f"CKA needs at least {LEAST} examples in a batch, not {n}")


def _similarities(x, y, least, debiased):
    """HSIC of x with y, of x and of y with themselves; the last two 0 where rounding alone is left."""
    scale = np.square(x).sum(), np.square(y).sum()  # before centring: what rounding is relative to
    x, y = x - x.mean(0), y - y.mean(0)
    lengths = np.square(x).sum(1), np.square(y).sum(1)
    cross = _hsic(x, y, *lengths, debiased)
    own = []
    for features, length, whole, rounding in zip((x, y), lengths, scale, least, strict=True):
        value, trace = _hsic(features, features, length, length, debiased), length.sum()
        varies = trace > rounding * whole and value > EQUAL * (trace / len(features)) ** 2
        own.append(value if varies else 0.0)
    return cross, *own


def _hsic(x, y, x_lengths, y_lengths, debiased):
    """Of centred features (n, d), whose Gram matrices have rows of sum zero and the diagonals ``lengths``."""
    n = len(x)
    product = _gram_product(x, y)
    if not debiased:
        return product / (n - 1) ** 2
    both, sums = x_lengths @ y_lengths, x_lengths.sum() * y_lengths.sum()
    return (product - n / (n - 2) * both + sums / ((n - 1) * (n - 2))) / (n * (n - 3))


def _gram_product(x, y):
    """tr(XXᵀ YYᵀ) = ‖XᵀY‖², by the cheaper side."""
    n, features = len(x), x.shape[1] + y.shape[1]
    if x.shape[1] * y.shape[1] <= n * features:
        return np.square(x.T @ y).sum()
    step = max(1, BLOCK // (2 * n))
    return sum(np.vdot(x[i : i + step] @ x.T, y[i : i + step] @ y.T) for i in range(0, n, step))


def _batches(inputs, batch_size):
    """Inputs as a tensor, a tuple or a dict of tensors, batch by batch."""
    from alignbook.probing.gathering import batches  # which imports the metrics

    return batches(inputs, batch_size)


def _count(batch):
    from alignbook.probing.data import leaves

    return len(leaves(batch)[0])


def _chosen(network, patterns):
    """{name: module} of the layers that are looked at."""
    modules = {name or "(network)": module for name, module in network.named_modules()}
    if patterns is None:
        found = {
            name: module for name, module in modules.items()
            if any(w.ndim >= 2 for w in module.parameters(recurse=False))
        }  # fmt: skip
    else:
        found = {name: m for name, m in modules.items() if any(fnmatchcase(name, p) for p in patterns)}
    if not found:
        raise ValueError(f"the network has no such layers: {', '.join(patterns or ['with a weight'])}")
    return found


@torch.no_grad()
def _outputs(network, modules, batch):
    """{name: the output, or None for one that is no tensor} of the modules that are called on a batch."""
    from alignbook.probing.data import cast, mapped, taken

    seen, fast = {}, torch.backends.mha.get_fastpath_enabled()
    weights = [*network.parameters(), *network.buffers()]
    device = weights[0].device if weights else torch.device("cpu")
    kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]

    def keep(name):
        def hook(module, given, output):
            if isinstance(output, tuple | list):
                output = output[0]
            if not isinstance(output, torch.Tensor):
                seen[name] = None
                return
            if isinstance(module, nn.MultiheadAttention) and not module.batch_first and output.ndim == 3:
                output = output.transpose(0, 1)
            # A copy: an activation that works in place must not change what is kept.
            seen[name] = output.detach().clone()

        return hook

    # Attention uses the weights of its last projection without calling it: what it returns is the output.
    called = {id(m.out_proj): m for m in network.modules() if isinstance(m, nn.MultiheadAttention)}
    handles = [called.get(id(m), m).register_forward_hook(keep(name)) for name, m in modules.items()]
    batch = mapped(
        lambda v: v.to(device) if v.dtype in kinds else cast(v.to(device), (*kinds, None)[0]), batch
    )
    torch.backends.mha.set_fastpath_enabled(False)  # which calls no modules
    try:
        with evaluation_mode(network):
            if isinstance(batch, Mapping):
                network(**taken(network.forward, batch)[0])
            else:
                network(*(batch if isinstance(batch, tuple) else (batch,)))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for handle in handles:
            handle.remove()
    return seen


def _gram(outputs, n, name):
    """The U-centred Gram matrix (n, n) of a layer's output, and why it is zero, else None.

    Inner products of such matrices are n(n - 3) times the unbiased HSIC.
    """
    nothing, output = np.zeros((n, n)), outputs.get(name)
    if output is None:
        return nothing, "its output is no tensor" if name in outputs else "it is not called"
    if output.ndim < 2 or len(output) != n:
        return nothing, f"its output is {tuple(output.shape)}, not (examples, features)"
    x = arrays.float64(output, name).reshape(n, -1)
    whole, x = np.square(x).sum(), x - x.mean(0)
    gram = x @ x.T
    trace = np.trace(gram)
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(0) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    gram -= means[:, None] + means
    np.fill_diagonal(gram, 0.0)
    if trace <= _least(output) * whole or np.square(gram).sum() <= EQUAL * trace**2:
        return nothing, "it tells no examples apart"
    return gram, None


def _table(sums, watched, faults):
    names = [(place, name) for place, modules in enumerate(watched) for name in modules]
    kept = [i for i, key in enumerate(names) if key not in faults and sums[i, i] > 0]
    rows = [i for i in kept if names[i][0] == 0]
    columns = [i for i in kept if names[i][0] == len(watched) - 1]
    if not rows or not columns:
        raise ValueError("no layer tells the examples apart")
    root = np.sqrt(np.diag(sums))
    values = sums[np.ix_(rows, columns)] / np.outer(root[rows], root[columns])
    table = pd.DataFrame(values, index=[names[i][1] for i in rows], columns=[names[i][1] for i in columns])
    whose = ("", "other: ")
    table.attrs["left_out"] = {whose[place] + name: why for (place, name), why in faults.items()}
    return table
