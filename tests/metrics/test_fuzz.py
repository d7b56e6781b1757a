"""Every public metric under fire: numbers, or one sentence of ValueError or TypeError.

``make fuzz`` tries some thousand times as many cases.
"""

import copy
import inspect
import os
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import nn
from torch.nn import functional

import alignbook

TRIES = int(os.environ.get("ALIGNBOOK_FUZZ", 8))
FUZZ = settings(
    max_examples=TRIES,
    deadline=None,
    derandomize="ALIGNBOOK_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def spd(rng, d):
    draws = rng.normal(size=(d, 3 * d))
    return draws @ draws.T / (3 * d)


def network(rng):
    torch.manual_seed(int(rng.integers(2**31)))
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def examples(rng, n=6):
    x = torch.from_numpy(rng.normal(size=(n, 3)))
    return x, torch.from_numpy(rng.integers(0, 2, n))


def loss_case(rng):
    model, (x, y) = network(rng), examples(rng)
    return {"model": model, "loss": functional.cross_entropy, "inputs": x, "targets": y}


# Per metric: valid arguments of a NumPy stream.
CASES = {
    "misalignment": lambda rng: {"a": spd(rng, 4), "b": spd(rng, 4)},
    "transfer_function": lambda rng: {"cov_x": spd(rng, 4), "cov_w": spd(rng, 4)},
    "patch_covariance": lambda rng: {"images": torch.from_numpy(rng.normal(size=(3, 2, 7, 6)) + 50)},
    "alignment_curve": lambda rng: {"features": rng.normal(size=(5, 3)), "labels": rng.normal(size=5)},
    "tangent_alignment": lambda rng: dict(
        zip(("model", "inputs", "labels"), (network(rng), *examples(rng)), strict=True)
    ),
    "cka": lambda rng: {"x": rng.normal(size=(8, 3)), "y": rng.normal(size=(8, 5))},
    "layer_cka": lambda rng: {"model": network(rng), "inputs": examples(rng, 9)[0]},
    "hessian_eigenvalues": lambda rng: loss_case(rng) | {"k": 2},
    "weight_deviation": lambda rng: {"before": network(rng), "after": network(rng), "n": 3},
    "filter_normalised_directions": lambda rng: {
        "model": network(rng),
        "generator": torch.Generator().manual_seed(1),
    },
    "landscape": lambda rng: loss_case(rng) | {"generator": torch.Generator().manual_seed(2), "points": 3},
    "loss_variation": lambda rng: loss_case(rng) | {"lengths": rng.normal(size=3)},
}


def among_others(array):
    wide = np.full(tuple(2 * size for size in array.shape), np.nan)
    every_other = (slice(None, None, 2),) * array.ndim
    wide[every_other] = array
    return wide[every_other]


# The same numbers, handed in otherwise.
FORMS = (
    np.asarray,
    np.ndarray.tolist,
    np.asfortranarray,
    among_others,
    lambda array: array[::-1].copy()[::-1],
    lambda array: array.astype(">f8"),
    lambda array: array.astype(np.longdouble),
    torch.from_numpy,
    lambda array: torch.from_numpy(among_others(array)).requires_grad_(True),
)

ARRAYS = ("misalignment", "transfer_function", "alignment_curve", "cka", "loss_variation")


@pytest.mark.parametrize("name", ARRAYS)
@FUZZ
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from(FORMS))
def test_the_form_of_an_array_does_not_count(name, seed, form):
    def measured(form):
        values = CASES[name](np.random.default_rng(seed))
        return getattr(alignbook, name)(
            **{key: form(value) if isinstance(value, np.ndarray) else value for key, value in values.items()}
        )

    for one, other in zip(arrays(measured(form)), arrays(measured(np.asarray)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


class Own(nn.Module):
    """A network whose forward pass is a function of (itself, x)."""

    def __init__(self, forward):
        super().__init__()
        self.layer, self.calls, self.does = nn.Linear(3, 2).double(), 0, forward
        self.register_buffer("seen", torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        return self.does(self, x)


def counts(net, x):
    net.calls += 1
    return net.layer(x) * net.calls


def remembers(net, x):
    net.seen += 1
    return net.layer(x) + net.seen


def raises(net, x):
    raise KeyError("no\nsuch thing")


def poisoned(rng):
    net = network(rng)
    next(iter(net.parameters())).data[0, 0] = np.nan
    return net


def scripted(net):
    with warnings.catch_warnings(action="ignore"):  # TorchScript is on its way out
        return torch.jit.trace(net, torch.ones(1, 3).double())


NETWORKS = (
    *[
        lambda rng, forward=forward: Own(forward)
        for forward in (
            counts,
            remembers,
            raises,
            lambda net, x: net.layer(x.mul_(0.5)),
            lambda net, x: net.layer(x) + torch.randn(1),
            lambda net, x: (net.layer(x), x),
            lambda net, x: None,
            lambda net, x: net.layer(x).sum(),
            lambda net, x: net.layer(x)[:, 0],
            lambda net, x: net.layer(x[:1]),
            lambda net, x: net.layer(x).detach(),
            lambda net, x: net.layer(x) / 0,
            lambda net, x: net.layer(x).numpy(),
            lambda net, x: net.layer(x - x.mean(0)),
        )
    ],
    poisoned,
    lambda rng: nn.Identity(),
    lambda rng: nn.Sequential(),
    lambda rng: network(rng).half(),
    lambda rng: network(rng).float(),
    lambda rng: network(rng).requires_grad_(False),
    lambda rng: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)).double(),
    lambda rng: nn.Sequential(nn.Linear(3, 2), nn.Dropout()).double().train(),
    lambda rng: nn.LazyLinear(2),
    lambda rng: network(rng).to("meta"),
    lambda rng: nn.Linear(3, 2, dtype=torch.complex64),
    lambda rng: scripted(network(rng)),
    lambda rng: network(rng).state_dict(),
)

ODD = (
    None, True, 0, -1, 1, 2, 3, 2**31, 2**70, -(2**70), 0.5, 1.5, 1e308, np.nan, np.inf, -np.inf, 1j, "x",
    b"", "", [], [[]], {}, (), set(), [1, [2, 3]], [None], ["a"], [2**70], object, object(), iter([1.0]),
    10**400, np.float32(2), np.int8(-1), np.bool_(True), np.datetime64("2020-01-01"), np.array(3.0),
    np.array(["a"]), np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((4, 4)), np.zeros((6, 3)),
    np.ones((2, 2, 2)), np.eye(4, dtype=np.float16), np.eye(4, dtype=">f8"),
    np.eye(4, dtype=np.longdouble), np.eye(4, dtype=int), np.eye(4) * 1e300, np.eye(4) * 1e-320,
    -np.eye(4), np.eye(4) * 1j, np.full((4, 4), np.nan), np.eye(4)[::-1],
    np.ma.masked_array(np.eye(4), np.eye(4) > 0), np.zeros(4, [("a", float)]), np.array([object()] * 4),
    np.eye(4).astype("timedelta64[s]"), np.array([1.0, np.inf]), np.array([[1.0, -1], [-1, 1]]),
    torch.zeros(0), torch.zeros(0, 3), torch.zeros(6), torch.ones(6, 3), torch.ones(6, 3).double(),
    torch.tensor(2), torch.eye(4).to_sparse(), torch.eye(4).bfloat16(), torch.eye(4).half(),
    torch.eye(4).bool(), torch.eye(4) * 1j, torch.eye(4, device="meta"),
    torch.full((6, 3), torch.nan).double(), torch.full((6, 3), torch.inf).double(),
    torch.tensor([0, 1, 0, 1, 0, 7]), torch.tensor([0, 1, -1, 1, 0, 1]),
    torch.zeros(6, 3, dtype=torch.int64), torch.tensor([0, 1, 0, 1, 0]), torch.rand(6).double(),
    torch.rand(6, 2).double(), torch.ones(2, 3, 0, 4), torch.ones(2, 1, 5, 5),
    torch.ones(2, 1, 5, 5).to_sparse(), torch.ones(1, 1, 5, 5) * 1e300, torch.ones(5, 5),
    torch.ones(2, 1, 5, 5).half() * 60000, torch.Generator(), SimpleNamespace(x=3),
    SimpleNamespace(cov=np.eye(4)), lambda o, t: o, lambda o, t: 1.0, lambda o, t: o.sum() * np.nan,
    lambda o, t: o.mul_(0).sum(), lambda o, t: None, lambda o: o, nn.CrossEntropyLoss,
    lambda o, t: o.sum() * 0, lambda o, t: o.square().sum(), "train", "eval", "0", "no\nlayer", "layer",
    [np.nan], [np.inf, 0.1], [1e308, -1e308], [{}, {}], [{"0.weight": torch.ones(4, 3)}] * 2,
    [{"a": 3}] * 2,
)  # fmt: skip

# What may leave the range of numbers, and says so.
OPEN = ("landscape", "loss_variation", "tangent_alignment")


def state(values):
    """What must not change: {name: bytes} of tensors and networks among the arguments."""
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    for name, value in values.items():
        if isinstance(value, nn.Module):
            tensors |= {f"{name} {key}": part for key, part in value.state_dict().items()}
            tensors |= {
                f"{name} {key} mode": torch.tensor(part.training) for key, part in value.named_modules()
            }
    plain = {k: v for k, v in tensors.items() if type(v) is torch.Tensor or type(v) is nn.Parameter}
    return {
        name: value.detach().clone().view(-1)
        for name, value in plain.items()
        if value.device.type == "cpu" and value.layout == torch.strided
    }


def arrays(found):
    """All numbers in a result."""
    if hasattr(found, "__dataclass_fields__"):
        found = list(vars(found).values())
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list | tuple):
        return [part for value in found for part in arrays(value)]
    return [np.asarray(found.detach().double() if isinstance(found, torch.Tensor) else found)]


def attack(name, values):
    """Fails unless the metric refuses ``values`` in one sentence or gives numbers, and changes nothing."""
    before = state(values)
    try:
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng():
            found = getattr(alignbook, name)(**values)
    except (ValueError, TypeError) as error:
        assert re.fullmatch(r"[^\n]{8,400}", str(error)), repr(error)
    else:
        if name not in OPEN:
            assert all(np.isfinite(part).all() for part in arrays(found)), found
    after = state(values)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[k].nan_to_num(), after[k].nan_to_num()) for k in before)


@pytest.mark.parametrize("name", CASES)
@FUZZ
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_refuses_in_one_sentence_or_gives_numbers(name, data, seed):
    rng = np.random.default_rng(seed)
    values = CASES[name](rng)
    arguments = list(inspect.signature(getattr(alignbook, name)).parameters)
    for argument in data.draw(st.lists(st.sampled_from(arguments), min_size=1, max_size=2, unique=True)):
        if argument in ("model", "other", "before", "after") and data.draw(st.booleans()):
            values[argument] = data.draw(st.sampled_from(NETWORKS))(rng)
        else:
            values[argument] = copy.copy(data.draw(st.sampled_from(ODD)))
    attack(name, values)
