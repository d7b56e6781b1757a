"""What each layer reads, and how much of the labels lies along its top singular vectors."""

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from alignbook.seeding import torch_stream

from .errors import DoesNotApply
from .layers import Layers
from .parameters import matches

COORDINATES = 8192  # of a layer's features that are kept at most, drawn at random
TOP = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500)
OUTPUT = "(output)"  # what stands for a layer's name where the network's outputs are meant


def features(network, task, rows, seed, layers=None, ranks=TOP, coordinates=COORDINATES):
    """Along which singular vectors of each layer's inputs the labels lie (Imani et al. 2022, Section 3).

    A layer is a module with weights of its own, PyTorch's attention as one; its features are what it reads
    when it is first called, flattened, with a constant, rows of length one; of more than ``coordinates`` as
    many are drawn at random. Where there is a class for each position, one position of each example is drawn,
    and features are those of this position. ``(output)`` is what the network returns; where numbers are
    wanted it is taken less its mean, over its standard deviation, without a constant, and rows are not
    scaled: of a single number, rows of length one would say another thing in another unit.

    Returns one row per layer, in the order of the calls, and rank k (of ``ranks``, and all; of None, as many
    as Ỹ has columns that vary): ``share`` of ‖Ỹ‖² (labels as one-hot columns, less their means) on the top k
    singular vectors, ``chance`` (its mean over all orders of the labels), ``sigma`` the k-th singular value
    over the first; ``width``, ``coordinates``.
    """
    rows, tables = task.labelled(rows), []
    centred = labels(task.wanted(rows))
    varying = int(centred.any(0).sum())
    if not varying:
        raise DoesNotApply("all targets are equal")
    read, left = layer_inputs(network, task, rows, seed, layers, coordinates)
    for name, (values, width) in read.items():
        if not values.isfinite().all():
            left[name] = f"{'it' if name == OUTPUT else 'what it reads'} is not finite"
            continue
        plain = name == OUTPUT and not task.classes
        share, chance, sigma = spectrum(standardised(values) if plain else values, centred, plain)
        rank = len(sigma)
        every = [min(varying, rank)] if ranks is None else [k for k in ranks if k < rank] + [rank]
        at = np.array(every) - 1
        columns = {"k": every, "share": share[at], "chance": chance[at], "sigma": sigma[at]}
        place = {"layer": name, "depth": len(tables)}
        tables.append(pd.DataFrame(place | columns | {"width": width, "coordinates": values.shape[1]}))
    if not tables:
        raise DoesNotApply("; ".join(f"{name}: {why}" for name, why in left.items()) or "no layer is chosen")
    table = pd.concat(tables, ignore_index=True)
    table.attrs["left_out"] = left
    return table


def labels(targets):
    """Ỹ (n, k) float64: one-hot classes that occur, or the numbers, less the mean of each column."""
    if targets.is_floating_point():
        columns = targets.double().reshape(len(targets), -1)
    else:
        columns = functional.one_hot(targets.unique(return_inverse=True)[1]).double()
    return (columns - columns.mean(0)).cpu()


def standardised(values):
    """Numbers (n, k) less their means, over the standard deviation of all of them."""
    values = values.double() - values.double().mean(0)
    return values / (values.square().mean().sqrt() or 1)


def spectrum(values, centred, plain=False):
    """(share of ‖Ỹ‖² on the top k singular vectors, its mean for shuffled labels, σ_k / σ_1), k = 1 … rank.

    values : features (n, d); each row, with a constant, is scaled to length one. plain : neither is done. By
    the Gram matrix, in float64: singular values below 10⁻⁷ of the largest count as absent. A random order of
    the labels leaves of each vector u what is no constant: 1 - (Σ_i u_i)² / n, over n - 1.
    """
    rows = values.double()
    if not plain:
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], 1)
        rows = rows / rows.abs().amax(1, keepdim=True)
        rows = rows / rows.norm(dim=1, keepdim=True)
    squares, vectors = torch.linalg.eigh(rows @ rows.T)
    squares, vectors = squares.flip(0), vectors.flip(1)
    rank = int((squares > 1e-14 * squares[0] * len(squares)).sum())
    if not rank:  # plain ones, all zero: nothing lies along them
        return (np.zeros(1),) * 3
    along = (vectors[:, :rank].T @ centred).square().sum(1) / centred.square().sum()
    n = len(rows)
    chance = (1 - vectors[:, :rank].sum(0).square() / n) / (n - 1)
    return along.cumsum(0).numpy(), chance.cumsum(0).numpy(), (squares[:rank] / squares[0]).sqrt().numpy()


def layer_inputs(network, task, rows, seed, layers=None, coordinates=COORDINATES):
    """What layers read: ({layer: (values, width)}, {layer: why there is nothing}), in the order of the calls.

    values : (n, coordinates) float32 on the CPU; width : how many features there are.
    """
    generator, drawn = torch_stream(seed, "probe", "coordinates"), {}
    modules = {m: name for m, name in network.names().items() if _reads(m) and matches(name, layers)}

    def beside(outputs, part):
        return {OUTPUT: task.signal(outputs, part)} if matches(OUTPUT, layers) else {}

    def take(name, values, part):
        flat = values.flatten(1) if name == OUTPUT else task.there(values, part)
        width = flat.shape[1]
        if name not in drawn:
            some = torch.randperm(width, generator=generator)[:coordinates].sort().values
            drawn[name] = (width, some.to(flat.device)) if width > coordinates else None
        if drawn[name]:  # packed sequences are as long as the longest of a batch
            longest, some = drawn[name]
            flat = functional.pad(flat, (0, max(0, longest - width)))[:, some]
        return flat.float().cpu(), width

    reader, inputs = Layers(network, modules, rows, beside=beside), {}
    for name, batches in reader.over(rows.split(network.batch), take).items():
        longest = max(values.shape[1] for values, _ in batches)
        values = torch.cat([functional.pad(v, (0, longest - v.shape[1])) for v, _ in batches])
        inputs[name] = values, max(width for _, width in batches)
    return inputs, reader.left


def _reads(module):
    """Whether the module has weights of its own; embeddings, which read numbers of words, do not read."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag | nn.ParameterList | nn.ParameterDict):
        return False
    own = {name for name, p in module.named_parameters(recurse=False) if p.ndim >= 2}
    if parametrize.is_parametrized(module):
        own |= {name for name in module.parametrizations if getattr(module, name).ndim >= 2}
    return any("weight" in name for name in own) or bool(own) and not any(module.children())
