"""Products of the exact Hessian of a loss with vectors."""

from contextlib import nullcontext
from numbers import Integral

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from .products import float32_products

SAME = 1000  # rounding units by which two routes to one product may differ
MEAN = 1e-3  # relative difference that a mean over single examples may show


class HessianProduct:
    """v ↦ ∇²L v for L(θ) = mean over the n examples of the loss, θ all parameters that require gradients.

    Forward, then backward twice (Pearlmutter 1994). Where all examples fit in one batch the first two
    passes are done once and their graph is kept: a product is then one backward pass, about twice the
    arithmetic of a forward pass. Else every product makes all three passes batch by batch, so that memory
    does not grow with n. Gauss-Newton terms are not split off.

    A linear layer that sees the data, n rows X of more than n features, reaches the loss through X Wᵀ only.
    So with an orthonormal basis B (features, n) of the rows of X the Hessian acts on the n columns of W B
    and is zero on the rest: vectors then hold W B in place of W, and the eigenvalues other than zero are
    the same. Where the loss uses W again (as weight decay does), where a product with a random vector comes
    out otherwise, and with several batches, vectors hold W.

    model : network, in the mode it is to be measured in; loss : callable (outputs, targets) → scalar, a mean
    over the examples (a batch counts by its share of them); inputs, targets : tensors (n, …);
    batch_size : int ≥ 1; least : int, vectors shorter than this are not used.
    Attributes: ``total``, how many numbers the parameters hold; ``size``, how many a vector holds; ``dtype``
    (float32 or float64) and ``device``, which the vectors must share. Raises ValueError for a model or loss
    that does not fit this, and where loss or gradient are not finite. Reference: ``torch.func.jacrev``
    twice, in the test.
    """

    def __init__(self, model, loss, inputs, targets, batch_size, least=1):
        self.model, self.loss = model, loss
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("no parameter of the model requires gradients")
        kinds = {(p.dtype, p.device) for p in self.parameters}
        self.dtype, self.device = self.parameters[0].dtype, self.parameters[0].device
        if len(kinds) > 1 or self.dtype not in (torch.float32, torch.float64):
            raise ValueError("parameters must be all float32 or all float64, on one device")
        for name, given in (("inputs", inputs), ("targets", targets)):
            if not isinstance(given, torch.Tensor):
                raise ValueError(f"{name} must be a tensor, not {type(given).__name__}")
        if len(inputs) == 0 or len(inputs) != len(targets):
            raise ValueError(f"{len(inputs)} inputs, {len(targets)} targets: as many of each, at least one")
        if not isinstance(batch_size, Integral) or batch_size < 1:
            raise ValueError(f"batch_size must be an integer from 1 on, not {batch_size}")
        self.total = sum(p.numel() for p in self.parameters)
        self.batches = list(zip(inputs.split(batch_size), targets.split(batch_size), strict=True))
        self.examples = len(inputs)
        # Only products with the network go to oneDNN: it is slow at a matrix times one vector.
        fast = self.dtype == torch.float32 and self.device.type == "cpu"
        self.context = float32_products if fast else nullcontext
        self.bases = {}  # index of a weight → B (features, n)
        self._hold(self.parameters)
        self.kept = None
        if len(self.batches) > 1:
            self._check_apart(inputs[: batch_size + 1])
            self._check_mean(inputs[:2], targets[:2])  # of one example, a sum is a mean
            for batch in self.batches:
                self._check_mean(*batch)
        else:
            layers = self._keep(self._layers_on_data)
            self._reduce(layers, least)

    def __call__(self, vector):
        """∇²L ``vector``, a new (size,) tensor."""
        with self.context():
            if self.kept is not None:
                return self._backward(self.kept, vector)
            total = torch.zeros_like(vector)
            for inputs, targets in self.batches:
                product = self._backward(self._gradients(inputs, targets), vector)
                total.add_(product, alpha=len(inputs) / self.examples)
            return total

    def expand(self, vectors):
        """(m, size) → (m, total): from what the products take to entries of the parameters."""
        parts = vectors.split(self.sizes, dim=1)
        parts = [
            (part.reshape(-1, self.bases[i].shape[1]) @ self.bases[i].T).view(len(vectors), -1)
            if i in self.bases
            else part
            for i, part in enumerate(parts)
        ]
        return torch.cat(parts, dim=1)

    def _hold(self, variables):
        self.variables = variables
        self.sizes = [v.numel() for v in variables]
        self.size = sum(self.sizes)

    def _keep(self, hooks=None):
        """Keep the graph of the only batch; ``hooks`` as for :meth:`_gradients`."""
        found = []
        self.kept = self._gradients(*self.batches[0], hooks, found)
        return found

    @torch.enable_grad()  # also where the caller has switched gradients off
    def _gradients(self, inputs, targets, hooks=None, found=None):
        """Gradients of one batch by ``variables``, with their graph.

        hooks : callable (found) → handles of hooks to put on for this pass, or None.
        None where there are bases and the loss depends on one of their weights otherwise, too.
        """
        handles = hooks(found) if hooks else []
        try:
            value = self.loss(self._outputs(inputs), targets)
        finally:
            for handle in handles:
                handle.remove()
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            raise ValueError("the loss must be a scalar tensor")
        if not value.isfinite():
            raise ValueError(f"the loss is {value.item()}")
        if not value.requires_grad:
            raise ValueError("the loss does not depend on the parameters")
        if self.bases and not self._only_by_its_basis(value):
            return None
        gradients = torch.autograd.grad(value, self.variables, create_graph=True, materialize_grads=True)
        if not all(g.isfinite().all() for g in gradients):
            raise ValueError("the gradient has entries that are not finite")
        return gradients

    def _outputs(self, inputs):
        # The network may change its input in place; fused attention has no second derivative.
        with sdpa_kernel(SDPBackend.MATH):
            return self.model(inputs.clone())

    def _only_by_its_basis(self, value):
        """Whether the loss depends on the weights that have a basis through W B alone."""
        weights = [self.parameters[i] for i in self.bases]
        again = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
        return all(gradient is None for gradient in again)

    def _backward(self, gradients, vector):
        parts = [v.view_as(p) for v, p in zip(vector.split(self.sizes), self.variables, strict=True)]
        # A gradient that is constant (a loss linear in its parameter) has no graph and adds nothing.
        pairs = [(g, v) for g, v in zip(gradients, parts, strict=True) if g.requires_grad]
        if not pairs:
            return torch.zeros_like(vector)
        outputs, weights = zip(*pairs, strict=True)
        products = torch.autograd.grad(
            outputs, self.variables, weights, retain_graph=self.kept is not None, materialize_grads=True
        )
        return torch.cat([p.reshape(-1) for p in products])

    def _layers_on_data(self, found):
        """Hooks that list (layer, input) of the linear layers whose input has no gradient."""

        def look(layer, arguments, output):
            h = arguments[0]
            if h.ndim == 2 and len(h) < h.shape[1] and not h.requires_grad:
                found.append((layer, h))

        return [
            m.register_forward_hook(look)
            for m in self.model.modules()
            if isinstance(m, nn.Linear) and any(m.weight is p for p in self.parameters)
        ]

    def _reduce(self, layers, least):
        """Take W B in place of W in these layers, if the Hessian allows it."""
        saved = len(layers) and sum(m.out_features * (m.in_features - len(h)) for m, h in layers)
        if len({id(m.weight) for m, _ in layers}) < len(layers) or not saved or self.total - saved < least:
            return
        probe = torch.randn(self.total, generator=torch.Generator().manual_seed(0)).to(self.parameters[0])
        expected = self(probe)
        whole, parts = (self.variables, self.kept), list(probe.split(self.sizes))
        variables = list(self.variables)
        for layer, h in layers:
            i = next(i for i, p in enumerate(variables) if p is layer.weight)
            basis = torch.linalg.qr(h.double().T)[0].to(h.dtype)  # (features, n)
            self.bases[i] = basis
            variables[i] = torch.zeros(layer.out_features, len(h), dtype=h.dtype, device=h.device)
            variables[i].requires_grad_(True)
            parts[i] = (parts[i].view_as(layer.weight) @ basis).reshape(-1)

        def replace(layer, h, basis, variable):
            def hook(layer, arguments, output):
                output = nn.functional.linear(h, layer.weight.detach(), layer.bias)
                return output + (h @ basis) @ variable.T

            return layer.register_forward_hook(hook, prepend=True)

        self._hold(variables)
        triples = [(self.bases[i], variables[i]) for i in self.bases]
        self._keep(lambda _: [replace(*pair, *more) for pair, more in zip(layers, triples, strict=True)])
        if self.kept is None or not self._close(self.expand(self(torch.cat(parts))[None])[0], expected):
            self.bases = {}
            self._hold(whole[0])
            self.kept = whole[1]

    def _close(self, actual, expected):
        return (actual - expected).norm() <= SAME * torch.finfo(self.dtype).eps * expected.norm()

    @torch.no_grad()
    def _check_apart(self, inputs):
        """Outputs that depend on the other examples of a batch would be others in other batches."""
        outputs, apart = self._outputs(inputs), self._outputs(inputs[:-1])
        if not isinstance(outputs, torch.Tensor):
            kind = type(outputs).__name__
            raise ValueError(f"to be taken in batches, the model must return a tensor, not a {kind}")
        if (outputs[:-1] - apart).norm() > MEAN * apart.norm():  # not if there are nan: the loss will tell
            raise ValueError("to be taken in batches, the model must not be random nor mix examples")

    @torch.enable_grad()
    def _check_mean(self, inputs, targets):
        """A sum, or a mean with weights, would come out wrong from batches: single examples tell.

        Their gradients, too, since all may have the same loss.
        """
        with torch.no_grad():
            outputs = self._outputs(inputs)
        outputs = outputs.detach().requires_grad_(True)
        pairs = zip(outputs.split(1), targets.split(1), strict=True)
        losses = self.loss(outputs, targets), torch.stack([self.loss(*pair) for pair in pairs]).mean()
        if not losses[0].isfinite():
            raise ValueError(f"the loss is {losses[0].item()}")
        whole, single = (_gradient(loss, outputs) for loss in losses)
        same = torch.isclose(*losses, rtol=MEAN, atol=0) and (whole - single).norm() <= MEAN * whole.norm()
        if not same:
            raise ValueError(
                "the loss must be the plain mean over examples to be taken in batches; "
                "any other is taken as it is with batch_size ≥ the number of examples"
            )


def _gradient(loss, outputs):
    if not loss.requires_grad:
        return torch.zeros_like(outputs)
    return torch.autograd.grad(loss, outputs, materialize_grads=True)[0]
