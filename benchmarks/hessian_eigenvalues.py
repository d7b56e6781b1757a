"""Largest eigenvalues of the Hessian of a loss, against PyHessian and SciPy on curvlinops' operator."""

import warnings

import numpy as np
import torch
from torch import nn

from .patch_covariance import DATA, setup as images_of
from .work import Aim, Contender, Work, with_onednn

HIDDEN, CLASSES = (204, 220), 10
INPUTS = 3 * 16**2
STEPS, RATE = 50, 0.1  # of full-batch gradient descent before the Hessian is taken


def setup(device, n, k):
    """(model, inputs (n, 768) float32, labels (n,), k): a ReLU network after 50 steps on small images."""
    images, _ = images_of("cpu", n, 3)
    inputs = nn.functional.avg_pool2d(images, 2).flatten(1).to(device)
    torch.manual_seed(0)
    labels = torch.randint(CLASSES, (n,)).to(device)
    sizes = (INPUTS, *HIDDEN, CLASSES)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in zip(sizes, sizes[1:], strict=False)]
    model = nn.Sequential(*[module for pair in layers for module in pair][:-1]).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return model, inputs, labels, k


def ours(state):
    """(eigenvalues (k,), eigenvectors (k, parameters)), by falling magnitude."""
    from alignbook.metrics import hessian_eigenvalues

    model, inputs, labels, k = state
    found = hessian_eigenvalues(model, nn.functional.cross_entropy, inputs, labels, k=k)
    return found.eigenvalues, found.eigenvectors


def pyhessian(state):
    """The same from PyHessian's power iteration at its default tolerance."""
    from pyhessian import hessian

    model, inputs, labels, k = state
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # backward with create_graph
        found = hessian(
            model, nn.CrossEntropyLoss(), data=(inputs, labels), cuda=inputs.device.type == "cuda"
        )
    values, vectors = found.eigenvalues(top_n=k)
    for parameter in model.parameters():
        parameter.grad = None  # it holds the graph
    vectors = torch.stack([torch.cat([part.reshape(-1) for part in vector]).detach() for vector in vectors])
    return _sorted(np.array(values), vectors)


def eigsh(state):
    """The same from SciPy's ARPACK with its default tolerance on curvlinops' Hessian."""
    return _arpack(state, 0)


def eigsh_early(state):
    """The same at a looser tolerance. (At 1e-3, which came first, it was off by 1.7e-3.)"""
    return _arpack(state, 1e-4)


def _arpack(state, tol):
    import scipy.sparse.linalg
    from curvlinops import HessianLinearOperator

    model, inputs, labels, k = state
    operator = HessianLinearOperator(
        model,
        nn.CrossEntropyLoss(),
        list(model.parameters()),
        [(inputs, labels)],
        check_deterministic=False,
    )
    start = np.random.default_rng(0).standard_normal(operator.shape[0]).astype(np.float32)
    values, vectors = scipy.sparse.linalg.eigsh(operator.to_scipy(np.float32), k=k, tol=tol, v0=start)
    return _sorted(values, torch.from_numpy(vectors.T.copy()).to(inputs.device))


def _sorted(values, vectors):
    order = np.argsort(-np.abs(values))
    return np.asarray(values, dtype=np.float64)[order], vectors[torch.from_numpy(order).to(vectors.device)]


def values_of(result):
    """Magnitudes, falling. (Two of nearly equal magnitude and different sign may change places.)"""
    return np.abs(result[0])


def residuals(result, state):
    """Largest ‖H v - λ v‖ over |λ₁|, by one more product each."""
    model, inputs, labels, _ = state
    parameters = list(model.parameters())
    loss = nn.functional.cross_entropy(model(inputs), labels)
    gradient = torch.autograd.grad(loss, parameters, create_graph=True)
    flat = torch.cat([part.reshape(-1) for part in gradient])
    worst = 0.0
    for value, vector in zip(*result, strict=True):
        product = torch.autograd.grad(flat, parameters, vector / vector.norm(), retain_graph=True)
        product = torch.cat([part.reshape(-1) for part in product])
        worst = max(worst, float((product - value * vector / vector.norm()).norm()))
    return {"residual": worst / float(abs(result[0][0]))}


def cost(n, k):
    """Forward and backward pass, and k products on the span of the inputs, with what does not change kept.

    A product takes the tangent of the forward pass and that of the backward pass: per layer six matrix
    products, in the first layer two, since neither its inputs have a tangent nor anything needs theirs.
    """

    def layers(inputs):
        sizes = (inputs, *HIDDEN, CLASSES)
        return [2 * n * a * b for a, b in zip(sizes, sizes[1:], strict=False)]

    first, *others = layers(min(n, INPUTS))
    return {"float32": 3 * sum(layers(INPUTS)) + k * (2 * first + 6 * sum(others))}


def contender(name, package, run, differs=""):
    """A way to the eigenvalues, with its residual."""
    return Contender(name, package, run, answer=values_of, facts=residuals, differs=differs)


PYHESSIAN = contender("PyHessian", "pyhessian", pyhessian, "not converged")
EIGSH = contender("eigsh", "curvlinops-for-pytorch", eigsh)
works = (
    Work(
        name="hessian_eigenvalues/mlp",
        title=f"Hessian eigenvalues: 204,186 parameters, 256 examples, k = 20 (data: {DATA})",
        setup=setup,
        sizes={"n": 256, "k": 20},
        small={"n": 32, "k": 1},
        contenders=(
            contender("alignbook", "alignbook", ours),
            PYHESSIAN,
            with_onednn(PYHESSIAN),
            EIGSH,
            with_onednn(EIGSH),
            contender("eigsh, tol 1e-4", "curvlinops-for-pytorch", eigsh_early),
        ),
        cost=cost,
        agreement="largest difference of the sorted magnitudes over the largest",
        tolerance=1e-4,
        aims=(
            Aim("at least 8 times faster than PyHessian at its default tolerance", "faster", 8, "PyHessian"),
            Aim("smaller residuals than PyHessian", "fact residual", 1, "PyHessian"),
            Aim("at least 2 times faster than eigsh on curvlinops' operator", "faster", 2, "eigsh"),
        ),
        note="Residual: largest ‖Hv - λv‖ over the largest eigenvalue.",
    ),
)
