"""Every public metric under fire: right against float64 NumPy, or one sentence of ValueError or TypeError.

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

CASES = int(os.environ.get("ALIGNBOOK_FUZZ", 8))
FUZZ = settings(
    max_examples=CASES,
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


def flat_loss(model, x, y):
    """The loss as a function of all parameters in one vector (m,), and where they are now."""
    named = dict(model.named_parameters())
    start = torch.cat([p.detach().reshape(-1) for p in named.values()])

    def loss(vector):
        parts = vector.split([p.numel() for p in named.values()])
        moved = {k: part.view_as(p) for (k, p), part in zip(named.items(), parts, strict=True)}
        return functional.cross_entropy(torch.func.functional_call(model, moved, (x,)), y)

    return loss, start


# Per metric: valid arguments of a NumPy stream, and what a plain reference makes of them.
def misalignment_case(rng):
    a, b = spd(rng, 4), spd(rng, 4)
    _, v = np.linalg.eigh(a)
    forward, inverse = np.diag(v.T @ b @ v), np.diag(v.T @ np.linalg.inv(b) @ v)
    return {"a": a, "b": b}, np.sqrt(forward * inverse).sum() - 4


def transfer_case(rng):
    x, w = spd(rng, 4), spd(rng, 4)
    values, v = np.linalg.eigh(x)
    return {"cov_x": x, "cov_w": w}, (np.sqrt(values), np.sqrt(np.diag(v.T @ w @ v)))


def patches_case(rng):
    images, size, stride = (
        rng.normal(size=(3, 2, 7, 6)) + 50,
        int(rng.integers(1, 5)),
        int(rng.integers(1, 4)),
    )
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), (2, 3))
    windows = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5).reshape(-1, 2 * size**2)
    wanted = windows.mean(0), np.cov(windows, rowvar=False, bias=True), len(windows)
    return {"images": torch.from_numpy(images), "size": size, "stride": stride}, wanted


def curve_case(rng):
    features, labels, bias = rng.normal(size=(5, int(rng.integers(1, 8)))), rng.normal(size=5), True
    rows = np.concatenate([features, np.ones((5, 1))], 1)
    u, s, _ = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), full_matrices=False)
    gains = (u.T @ labels) ** 2
    at = np.concatenate([[0], s[::-1]])
    kept = (s[None] >= at[:, None] * (1 - 1e-12)).astype(float)
    return {"features": features, "labels": labels, "bias": bias}, (at, kept @ gains)


def tangent_case(rng):
    model, (x, y) = network(rng), examples(rng)
    y[:2] = torch.tensor([0, 1])
    named = {name: p.detach() for name, p in model.named_parameters()}
    jacobians = torch.func.jacrev(lambda p: torch.func.functional_call(model, p, (x,)))(named)
    centred = np.eye(2)[y].reshape(-1) - 0.5
    wanted = []
    for name in ("0.weight", "2.weight"):
        rows = jacobians[name].reshape(12, -1).numpy()
        rows = rows - rows.mean(0)
        kernel = rows @ rows.T
        wanted.append(centred @ kernel @ centred / np.linalg.norm(kernel) / (centred @ centred))
    return {"model": model, "inputs": x, "labels": y}, np.array(wanted)


def debiased_cka(x, y):
    """By Song et al.'s unbiased HSIC, written out."""

    def hsic(a, b):
        n = len(a)
        k, m = a @ a.T, b @ b.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        sums = k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * (k @ m).sum()
        return (np.trace(k @ m) + sums) / (n * (n - 3))

    return hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))


def cka_case(rng):
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, int(rng.integers(2, 12))))
    return {"x": x, "y": y}, debiased_cka(x, y)


def layer_cka_case(rng):
    model, (x, _) = network(rng), examples(rng, 9)
    inner = model[0](x).detach().numpy(), model(x).detach().numpy()
    return {"model": model, "inputs": x}, np.array([[debiased_cka(a, b) for b in inner] for a in inner])


def hessian_case(rng):
    model, (x, y) = network(rng), examples(rng)
    loss, start = flat_loss(model, x, y)
    values = np.linalg.eigvalsh(torch.autograd.functional.hessian(loss, start).numpy())
    values = values[np.argsort(-np.abs(values))][:2]
    given = {"model": model, "loss": functional.cross_entropy, "inputs": x, "targets": y, "k": 2}
    return given | {"tol": 1e-8, "seed": int(rng.integers(2**62))}, values


def deviation_case(rng):
    before, after, n = network(rng), network(rng), int(rng.integers(1, 9))
    total = sum(
        np.linalg.norm(p.detach().numpy() - q.detach().numpy())
        for p, q in zip(before.parameters(), after.parameters(), strict=True)
        if p.ndim > 1
    )
    return {"before": before, "after": after.state_dict(), "n": n}, total / np.sqrt(n)


def directions_case(rng):
    model = network(rng)
    norms = [np.linalg.norm(p.detach().numpy(), axis=1) for p in model.parameters() if p.ndim > 1]
    return {"model": model, "generator": torch.Generator().manual_seed(1), "count": 2}, norms


def landscape_case(rng):
    model, (x, y) = network(rng), examples(rng)
    directions = alignbook.filter_normalised_directions(model, torch.Generator().manual_seed(2))
    loss, start = flat_loss(model, x, y)
    flat = [
        torch.cat([d.get(k, torch.zeros_like(p)).reshape(-1) for k, p in model.named_parameters()])
        for d in directions
    ]
    steps = np.linspace(-0.1, 0.1, 3)
    wanted = [[float(loss(start + a * flat[0] + b * flat[1])) for b in steps] for a in steps]
    given = {"model": model, "loss": functional.cross_entropy, "inputs": x, "targets": y}
    return given | {"directions": directions, "points": 3, "mode": "eval"}, np.array(wanted)


def variation_case(rng):
    model, (x, y) = network(rng), examples(rng)
    loss, start = flat_loss(model, x, y)
    gradient = torch.func.grad(loss)(start)
    lengths = rng.normal(size=3)
    wanted = np.array([float(loss(start - s * gradient)) for s in lengths])
    given = {"model": model, "loss": functional.cross_entropy, "inputs": x, "targets": y}
    return given | {"lengths": lengths, "scaled": True, "mode": "train"}, wanted


def norms_of(directions):
    assert len(directions) == 2
    return [np.linalg.norm(d.numpy(), axis=1) for d in directions[0].values()]


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

METRICS = {
    "misalignment": (misalignment_case, lambda found: found),
    "transfer_function": (transfer_case, lambda found: found),
    "patch_covariance": (patches_case, lambda found: (found.mean, found.cov, found.count)),
    "alignment_curve": (curve_case, lambda found: found),
    "tangent_alignment": (tangent_case, lambda found: found),
    "cka": (cka_case, lambda found: found),
    "layer_cka": (layer_cka_case, lambda found: found.to_numpy()),
    "hessian_eigenvalues": (hessian_case, lambda found: found.eigenvalues),
    "weight_deviation": (deviation_case, lambda found: found.total),
    "filter_normalised_directions": (directions_case, norms_of),
    "landscape": (landscape_case, lambda found: found.loss),
    "loss_variation": (variation_case, lambda found: found.loss),
}


@pytest.mark.parametrize("name", METRICS)
@FUZZ
@given(seed=st.integers(0, 2**32 - 1), form=st.sampled_from(FORMS))
def test_is_right_against_numpy(name, seed, form):
    case, numbers = METRICS[name]
    given, wanted = case(np.random.default_rng(seed))
    given = {key: form(value) if isinstance(value, np.ndarray) else value for key, value in given.items()}
    found = numbers(getattr(alignbook, name)(**given))
    several = isinstance(wanted, tuple | list)
    for one, other in zip(found, wanted, strict=True) if several else [(found, wanted)]:
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


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


@pytest.mark.parametrize("name", METRICS)
@FUZZ
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_refuses_in_one_sentence_or_gives_numbers(name, data, seed):
    rng = np.random.default_rng(seed)
    values, _ = METRICS[name][0](rng)
    arguments = list(inspect.signature(getattr(alignbook, name)).parameters)
    for argument in data.draw(st.lists(st.sampled_from(arguments), min_size=1, max_size=2, unique=True)):
        if argument in ("model", "other", "before", "after") and data.draw(st.booleans()):
            values[argument] = data.draw(st.sampled_from(NETWORKS))(rng)
        else:
            values[argument] = copy.copy(data.draw(st.sampled_from(ODD)))
    attack(name, values)
