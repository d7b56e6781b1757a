"""Products of the Gauss-Newton matrix of a loss with vectors."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


class GaussNewtonProduct:
    """v ↦ Jᵀ H J v, J the Jacobian of the outputs by the parameters and H the loss's Hessian by the outputs.

    For cross-entropy it is the Fisher matrix (Martens 2020). The graph of all examples is kept: a product is
    a pass forward, by differentiating the backward pass once more (Pearlmutter's transposed trick), one by
    the loss and one backward.

    model : network, in the mode in which it is measured; loss : callable (outputs, targets) → scalar;
    inputs, targets : tensors (n, …). Attributes as those of
    :class:`alignbook.kernels.hessian_product.HessianProduct`: ``total``, ``size``, ``dtype``, ``device``.
    Raises ValueError where no parameter requires gradients or the loss is no finite scalar. Reference: the
    Jacobian and the Hessian themselves, in the test.
    """

    def __init__(self, model, loss, inputs, targets):
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise ValueError("no parameter of the model requires gradients")
        self.dtype, self.device = self.parameters[0].dtype, self.parameters[0].device
        if {p.dtype for p in self.parameters} - {torch.float32, torch.float64} or any(
            p.dtype != self.dtype for p in self.parameters
        ):
            raise ValueError("parameters must be all float32 or all float64")
        self.total = self.size = sum(p.numel() for p in self.parameters)
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            self.outputs = model(inputs.clone())
            self.dummy = torch.zeros_like(self.outputs, requires_grad=True)
            self.along = self._gradients(self.outputs, self.dummy, create_graph=True)  # linear in the dummy
            self.apart = self.outputs.detach().requires_grad_(True)
            value = loss(self.apart, targets)
            if value.ndim or not value.isfinite():
                raise ValueError("the loss must be a finite scalar")
            (self.slope,) = torch.autograd.grad(value, self.apart, create_graph=True)

    def _gradients(self, of, weights, **options):
        return torch.autograd.grad(
            of, self.parameters, weights, retain_graph=True, materialize_grads=True, **options
        )

    def __call__(self, vector):
        """Jᵀ H J ``vector``, a new (size,) tensor."""
        parts = vector.split([p.numel() for p in self.parameters])
        pairs = [
            (g, v.view_as(g)) for g, v in zip(self.along, parts, strict=True) if g.requires_grad
        ]  # fmt: skip
        if not pairs or not self.slope.requires_grad:
            return torch.zeros_like(vector)
        gradients, vectors = zip(*pairs, strict=True)
        (moved,) = torch.autograd.grad(gradients, self.dummy, vectors, retain_graph=True)
        (turned,) = torch.autograd.grad(self.slope, self.apart, moved, retain_graph=True)
        return torch.cat([g.reshape(-1) for g in self._gradients(self.outputs, turned)])

    def expand(self, vectors):
        """The vectors themselves: they hold entries of the parameters."""
        return vectors
