"""The metrics as :mod:`alignbook` hands them out: every argument and result is checked.

Studies call the functions of :mod:`alignbook.metrics`, whose code counts for their stored results. Here,
around the same functions, what a stranger may hand in is refused with one sentence: ValueError or TypeError,
whatever goes wrong inside, which stays attached as the cause. Results are numbers, and the network, its
buffers and the tensors of who calls are as before.
"""

import functools
import inspect
import math
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from numbers import Real

import numpy as np
import torch
from torch import nn

from alignbook import metrics
from alignbook.errors import on_one_line
from alignbook.kernels.gauss_newton_product import GaussNewtonProduct
from alignbook.kernels.hessian_product import HessianProduct
from alignbook.kernels.lanczos import lanczos
from alignbook.metrics import arrays
from alignbook.metrics.checks import integer
from alignbook.metrics.cka import LEAST
from alignbook.metrics.evaluation import evaluation_mode
from alignbook.metrics.spectral_density import MATRICES
from alignbook.metrics.spectral_density import spectral_density as plain_spectral_density
from alignbook.probing import parameters, representations
from alignbook.probing.axes import reading
from alignbook.probing.curvature import asymmetry
from alignbook.probing.data import cast
from alignbook.probing.gathering import gathered
from alignbook.probing.layer_cka import MEASURES
from alignbook.probing.layer_cka import layer_cka as plain_layer_cka
from alignbook.probing.measurable import measurable
from alignbook.probing.network import Network, device_of, unwrapped
from alignbook.probing.parameters import TRAINABLE
from alignbook.probing.settling import settled
from alignbook.probing.untouched import untouched
from alignbook.probing.weights import plain


def _numbers(value, name):
    """A dense array or tensor of real numbers, as it was handed in; of lists, their array."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type == "meta":
            raise ValueError(f"{name} must be a dense tensor with values, not {_kind(value)}")
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} has a mask, which would be ignored: fill it first")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        array = np.asarray(None)
    if array.dtype.kind not in "buifc":
        what = f"entries of type {array.dtype}" if array.dtype.kind != "O" else _kind(value)
        raise ValueError(f"{name} must be an array or tensor of numbers, not {what}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _lengths(value, name):
    return arrays.float64(_numbers(value, name), name)


def _tensor(value, name):
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, not {_kind(value)}")
    value = _numbers(value, name)
    if value.ndim == 0 or value.shape[0] == 0:
        raise ValueError(f"{name} must have one entry per example, at least one, not {tuple(value.shape)}")
    if value.is_floating_point() and not value.isfinite().all():
        raise ValueError(f"{name} have entries that are not finite")
    return value


def _images(value, name):
    _tensor(getattr(value, "x", value), name)
    return value


def _integer(least, most=2**31):
    def check(value, name):
        integer(value, name, least)
        if value > most:
            raise ValueError(f"{name} must be at most {most:.3g}, not {_shown(value)}")
        return int(value)

    return check


def _real(limits, inside):
    def check(value, name):
        number = not isinstance(value, bool | np.bool_) and isinstance(value, Real)
        if not number or not abs(value) <= np.finfo(float).max or not inside(value):
            raise ValueError(f"{name} must be a number {limits}, not {_shown(value)}")
        return float(value)

    return check


def _switch(value, name):
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {_shown(value)}")
    return bool(value)


def _mode(value, name):
    if not isinstance(value, str) or value not in ("eval", "train"):
        raise ValueError(f"{name} must be 'eval' or 'train', not {_shown(value)}")
    return value


def _of(kind, what):
    def check(value, name):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {what}, not {_kind(value)}")
        return value

    return check


def _function(value, name):
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"{name} must be a function of outputs and targets, not {_kind(value)}")
    return value


@torch.no_grad()
def _network(value, name):
    if not isinstance(value, nn.Module):
        raise TypeError(f"{name} must be a torch.nn.Module, not {_kind(value)}")
    for place, tensor in (*value.named_parameters(), *value.named_buffers()):
        _numbers(tensor, place)
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{place} of the {name} has entries that are not finite")
    return unwrapped(value)


def _weights(value, name):
    if not isinstance(value, nn.Module | dict):
        raise TypeError(f"{name} must be a torch.nn.Module or a state dict, not {_kind(value)}")
    return unwrapped(value) if isinstance(value, nn.Module) else value


def _directions(value, name):
    pair = list(value) if isinstance(value, list | tuple) else []
    if len(pair) != 2 or not all(isinstance(part, dict) for part in pair):
        raise ValueError(f"{name} must be two dicts of tensors, not {_kind(value)}")
    for part in pair:
        for place, tensor in part.items():
            _numbers(_of(torch.Tensor, "a tensor")(tensor, f"{name} of {place}"), f"{name} of {place}")
    return pair


def _patterns(value, name):
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple | set) or not all(isinstance(part, str) for part in patterns):
        raise TypeError(f"{name} must be names of modules, or patterns of them, not {_kind(value)}")
    return list(patterns)


def _measure(value, name):
    if value not in MEASURES:
        raise ValueError(f"{name} must be one of {', '.join(MEASURES)}, not {_shown(value)}")
    return value


def _indices(value, name):
    values = list(value) if isinstance(value, list | tuple | range) else []
    if not values or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise ValueError(f"{name} must be a list of integers, not {_shown(value)}")
    return values


def _perhaps(check):
    return lambda value, name: None if value is None else check(value, name)


def _kind(value):
    if isinstance(value, torch.Tensor):
        return f"{value.layout} on {value.device}".replace("torch.", "")
    return type(value).__name__


def _shown(value):
    return on_one_line(repr(value))[:60]


def _public(metric, *, steady=False, finite=True, by_parameters=False, on_data=False, **checks):
    """``metric`` with ``checks``, {argument: function of its value and name, which returns the value}.

    by_parameters : whether it takes ``parameters``, which of the model's are meant, as the probe does;
    on_data : whether inputs and targets may be what the probe takes as data;
    steady : the model is run twice first and has to answer alike; finite : what is returned has to be.
    """
    signature = inspect.signature(metric)
    name = metric.__name__

    @functools.wraps(metric)
    def checked(*positional, **named):
        choice = named.pop("parameters", TRAINABLE) if by_parameters else None
        if on_data and len(positional) < 4:
            named.setdefault("targets", None)
        try:
            given = signature.bind(*positional, **named)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        given.apply_defaults()
        values = given.arguments
        if on_data and not all(isinstance(values[key], torch.Tensor) for key in ("inputs", "targets")):
            values |= _told("reading the data", functools.partial(_rows, **values))
        for argument, check in checks.items():
            read = functools.partial(check, values[argument], argument)
            values[argument] = _told(f"reading {argument}", read)
        with ExitStack() as stack:
            if choice is not None:
                network = values["model"].model if isinstance(values["model"], Network) else values["model"]
                names = parameters.chosen(network, choice)
                for line in parameters.odd(network):
                    warnings.warn(line, RuntimeWarning, stacklevel=2)
                stack.enter_context(parameters.only(network, names))
            if "model" in values:
                values |= stack.enter_context(_left_alone(steady, **values))
            result = _told(name, functools.partial(metric, **values))
        if finite:
            _require_numbers(name, result)
        return result

    checked.__doc__ = metric.__doc__
    shown = list(signature.parameters.values())
    if on_data:
        shown = [p.replace(default=None) if p.name == "targets" else p for p in shown]
        checked.__doc__ = checked.__doc__.replace(TENSORS, DATA, 1)
    if by_parameters:
        shown.append(inspect.Parameter("parameters", inspect.Parameter.KEYWORD_ONLY, default=TRAINABLE))
        checked.__doc__ = checked.__doc__.replace(RETURNS, PARAMETERS + RETURNS, 1)
    checked.__signature__ = signature.replace(parameters=shown)
    return checked


@torch.no_grad()
def _rows(model, loss, inputs, targets, **_):
    """A model of numbers of examples, the numbers, their targets and the loss, of data as the probe has them.

    loss : None stands for the one that the probe would measure.
    """
    network, whole = unwrapped(_of(nn.Module, "a torch.nn.Module")(model, "model")), 2**31
    data, _ = gathered(inputs, targets, examples=whole, least=1, floats=None)
    kinds = [p.dtype for p in network.parameters() if p.is_floating_point()]
    data = data.to(device_of(network)).each(lambda v: v if v.dtype in kinds else cast(v, (*kinds, None)[0]))
    network = Network(network, data)
    with untouched(network), measurable(network), evaluation_mode(network):
        network.prepared(network.few)
        if loss is None:
            task, _ = settled(network, None, 0)
            rows = task.labelled(torch.arange(len(data), device=task.targets.device))
            return {"model": network, "loss": task.loss, "inputs": rows, "targets": task.targets[rows]}
    rows = torch.arange(len(data), device=data.targets.device)
    return {"model": network, "inputs": rows, "targets": data.targets}


def _told(what, call):
    """``call()``; what goes wrong inside becomes a ValueError of one sentence, which says ``what``."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        if _ours(error) and "\n" not in str(error):
            raise
        raise ValueError(f"{what} failed: {on_one_line(error)}") from error
    except Exception as error:
        raise ValueError(f"{what} failed: {type(error).__name__}: {on_one_line(error)}") from error


def _ours(error):
    """Whether it was raised by a line of this package."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__", "").startswith("alignbook.")


@contextmanager
def _left_alone(steady, model, other=None, inputs=None, loss=None, **_):
    """Inside, networks read copies and ``loss``, if any, too; then buffers and random states are as before.

    Yields what to hand in instead. Raises ValueError where the model has to be ``steady`` and is not.
    """
    networks = [model] if other is None else [model, other]
    with ExitStack() as stack:
        stack.enter_context(untouched(*networks))
        stack.enter_context(measurable(*networks))
        stack.enter_context(torch.autocast(device_of(model).type, enabled=False))
        for network in networks:
            if not isinstance(network, torch.jit.ScriptModule):
                hook = network.register_forward_pre_hook(_copies, prepend=True, with_kwargs=True)
                stack.callback(hook.remove)
        if steady:
            _require_steady(model, inputs[:2])
        yield {"loss": lambda outputs, wanted: loss(outputs, wanted.clone())} if loss else {}


def _copies(_, given, named):
    def copied(value):
        return value.clone() if isinstance(value, torch.Tensor) else value

    return tuple(map(copied, given)), {name: copied(value) for name, value in named.items()}


@torch.no_grad()
def _require_steady(model, inputs):
    with evaluation_mode(model), torch.autocast(inputs.device.type, enabled=False):
        first, second = (_told("running the model", functools.partial(model, inputs)) for _ in range(2))
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        raise ValueError(f"the model must return one tensor, not {_kind(first)}")
    if not first.isfinite().all():
        raise ValueError("the model's outputs are not finite")
    # The processor may round the same sum differently.
    if first.shape != second.shape or not torch.allclose(first, second, rtol=1e-3, atol=1e-6):
        raise ValueError("the model answers differently twice: it is random, or keeps count of its calls")


def _require_numbers(name, result):
    if not all(np.isfinite(values).all() for values in _arrays(result)):
        raise ValueError(f"{name} of these arguments leaves the range of numbers: scale them")


def _arrays(result):
    if is_dataclass(result):
        for field in fields(result):
            yield from _arrays(getattr(result, field.name))
    elif isinstance(result, dict):
        yield from map(_array, result.values())
    elif isinstance(result, list | tuple):
        for part in result:
            yield from _arrays(part)
    else:
        yield _array(result)


def _array(value):
    return value.detach().double().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _with_plain_names(weight_deviation):
    """``weight_deviation``, where the names in one of the state dicts may begin with those of wrappers."""

    @functools.wraps(weight_deviation)
    def checked(before, after, n=None):
        states = [part.state_dict() if isinstance(part, nn.Module) else part for part in (before, after)]
        if states[0].keys() != states[1].keys():
            states = [plain(state) for state in states]
        return weight_deviation(*states, n)

    return checked


def _with_middle(landscape):
    """``landscape``, whose loss may leave the range of numbers, but not at the network itself."""

    @functools.wraps(landscape)
    def checked(**given):
        found = landscape(**given)
        middle = found.loss[len(found.alpha) // 2, len(found.beta) // 2]
        if not math.isfinite(middle):
            raise ValueError(f"the loss of the model itself is {middle}")
        return found

    return checked


def _of_those_that_train(metric, directions=False):
    """``metric`` of the directions in which those parameters alone move that require gradients.

    directions : whether it returns them, and does not take them.
    """

    class Moving:
        """What the plain metric looks at: the model's modules, and the parameters that move."""

        def __init__(self, model):
            self.named_modules = model.named_modules
            self.moving = {name: p for name, p in model.named_parameters() if p.requires_grad}

        def named_parameters(self):
            return self.moving.items()

    @functools.wraps(metric)
    def checked(model, **given):
        if directions:
            return metric(Moving(model), **given)
        if given["directions"] is None and given["generator"] is not None:
            draw, layer = given.pop("generator"), given.pop("layer")
            given["directions"] = metrics.filter_normalised_directions(Moving(model), draw, 2, layer)
        return metric(model=model, **given)

    return checked


TENSORS = """    inputs, targets : (n, …) tensors
        On the model's device.
"""
DATA = """    inputs, targets : (n, …) tensors
        On the model's device; or data as :func:`alignbook.probe` takes them, a dict, a tuple, a dataset or a
        loader, which may hold the targets. Then ``loss`` may be None: the one that the probe measures.
"""


def _of_chosen_layers(tangent_alignment):
    """``tangent_alignment`` of the layers whose weights require gradients."""

    @functools.wraps(tangent_alignment)
    def checked(model, inputs, labels):
        layers = {m: m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)}
        train, order = {m for m in layers if m.weight.requires_grad}, []
        if layers and not train:
            raise ValueError("no layer's weight trains: parameters='all' takes all of them")
        found = tangent_alignment(model, inputs, labels)
        with torch.no_grad(), evaluation_mode(model), reading(layers, lambda layer, _: order.append(layer)):
            model(inputs[:1].clone())
        return found[[layer in train for layer in order]]

    return checked


RETURNS = "\n    Returns\n"
MATRIX = """    matrix : {"hessian", "gauss-newton"}
        The Gauss-Newton matrix Jᵀ H J has no negative eigenvalues where the loss is convex in the outputs;
        for cross-entropy it is the Fisher matrix. It takes all examples in one batch.
"""
PARAMETERS = """    parameters : str or list of str
        Which of the model's parameters are meant: ``"trainable"``, those that require gradients; ``"all"``;
        or names and patterns of parameters or of the modules that hold them, as in ``["blocks.0.*"]``.
"""


def _of_either_matrix(hessian_eigenvalues):
    """``hessian_eigenvalues``, which also takes the Gauss-Newton matrix, and warns of asymmetric products."""

    @functools.wraps(hessian_eigenvalues)
    def checked(model, loss, inputs, targets, batch_size, matrix, **given):
        if matrix == "hessian":
            found = hessian_eigenvalues(model, loss, inputs, targets, batch_size=batch_size, **given)
        with evaluation_mode(model):
            if matrix == "hessian":
                product = HessianProduct(model, loss, inputs, targets, batch_size)
            else:
                product = GaussNewtonProduct(model, loss, inputs, targets)
                found = _eigenvalues(product, **given)
            if line := asymmetry(product, product):
                warnings.warn(line, RuntimeWarning, stacklevel=4)
        return found

    signature = inspect.signature(hessian_eigenvalues)
    matrix = inspect.Parameter("matrix", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="hessian")
    checked.__signature__ = signature.replace(parameters=[*signature.parameters.values(), matrix])
    checked.__doc__ = hessian_eigenvalues.__doc__.replace(RETURNS, MATRIX + RETURNS, 1)
    return checked


def _eigenvalues(product, k, tol, basis, max_products, seed):
    if k >= product.total:
        raise ValueError(f"k = {k} must be below the {product.total} parameters")
    basis = max(3 * k, 60) if basis is None else basis
    if basis < k + 10 or max_products <= k:
        raise ValueError(f"basis = {basis} and max_products = {max_products}: at least k + 10, above k")
    pairs = lanczos(product, product.size, k, tol, basis, max_products, seed, product.dtype, product.device)
    return metrics.HessianEigenvalues(
        pairs.values, pairs.residuals, pairs.vectors, pairs.products, pairs.converged
    )


def _matrix(value, name):
    if value not in MATRICES:
        raise ValueError(f"{name} must be one of {', '.join(MATRICES)}, not {_shown(value)}")
    return value


_RTOL = {"rtol": _perhaps(_real("from 0 on", lambda value: value >= 0))}
_ON_EXAMPLES = {"model": _network, "loss": _function, "inputs": _tensor, "targets": _tensor}

misalignment = _public(metrics.misalignment, a=_numbers, b=_numbers, **_RTOL)
transfer_function = _public(metrics.transfer_function, cov_x=_numbers, cov_w=_numbers, **_RTOL)
patch_covariance = _public(metrics.patch_covariance, images=_images, size=_integer(1), stride=_integer(1))
alignment_curve = _public(
    metrics.alignment_curve,
    features=_numbers,
    labels=_numbers,
    thresholds=_perhaps(_numbers),
    bias=_switch,
)
tangent_alignment = _public(
    _of_chosen_layers(metrics.tangent_alignment),
    finite=False,
    by_parameters=True,
    model=_network,
    labels=_numbers,
)
cka = _public(metrics.cka, x=_numbers, y=_numbers, debiased=_switch, batch_size=_perhaps(_integer(LEAST)))
layer_cka = _public(
    plain_layer_cka,
    model=_network,
    other=_perhaps(_network),
    layers=_perhaps(_patterns),
    batch_size=_integer(LEAST),
    measure=_measure,
)
hessian_eigenvalues = _public(
    _of_either_matrix(metrics.hessian_eigenvalues),
    steady=True,
    by_parameters=True,
    on_data=True,
    **_ON_EXAMPLES,
    k=_integer(1),
    tol=_real("between 0 and 1", lambda value: 0 < value < 1),
    batch_size=_integer(1),
    basis=_perhaps(_integer(1)),
    max_products=_integer(1),
    seed=_integer(0, 2**63 - 1),
    matrix=_matrix,
)
spectral_density = _public(
    plain_spectral_density,
    steady=True,
    by_parameters=True,
    on_data=True,
    **_ON_EXAMPLES,
    vectors=_integer(1, 10_000),
    steps=_integer(1, 10_000),
    matrix=_matrix,
    batch_size=_integer(1),
    seed=_integer(0, 2**63 - 1),
)
tangent_kernel = _public(
    representations.tangent_kernel,
    steady=True,
    by_parameters=True,
    model=_network,
    inputs=_tensor,
    columns=_perhaps(_tensor),
    outputs=_perhaps(_indices),
)
activations = _public(
    representations.activations,
    finite=False,
    model=_network,
    layers=_perhaps(_patterns),
    batch_size=_integer(1),
)
layer_ranks = _public(
    representations.layer_ranks, model=_network, layers=_perhaps(_patterns), batch_size=_integer(1)
)
weight_deviation = _public(
    _with_plain_names(metrics.weight_deviation), before=_weights, after=_weights, n=_perhaps(_integer(1))
)
filter_normalised_directions = _public(
    _of_those_that_train(metrics.filter_normalised_directions, directions=True),
    by_parameters=True,
    model=_network,
    generator=_of(torch.Generator, "a torch.Generator"),
    count=_integer(1),
    layer=_perhaps(_of(str, "the name of a module")),
)
landscape = _public(
    _with_middle(_of_those_that_train(metrics.landscape)),
    steady=True,
    by_parameters=True,
    finite=False,
    **_ON_EXAMPLES,
    directions=_perhaps(_directions),
    generator=_perhaps(_of(torch.Generator, "a torch.Generator")),
    radius=_real("above 0", lambda value: value > 0),
    points=_integer(3),
    layer=_perhaps(_of(str, "the name of a module")),
    mode=_mode,
)
loss_variation = _public(
    metrics.loss_variation,
    steady=True,
    by_parameters=True,
    finite=False,
    **_ON_EXAMPLES,
    lengths=_lengths,
    scaled=_switch,
    mode=_mode,
)
