"""Alignment of layer tangent kernels with labels, against kernels and Jacobians that are held."""

import copy

import torch
from torch import nn

from alignbook import tangent_alignment
from alignbook.kernels.mlp_sgd import MLP

from .work import Aim, Contender, Scaling, Work, with_onednn

INPUTS, CLASSES = 784, 10


def setup(device, n, depth, width):
    """(model, inputs (n, 784) float32, labels (n,)): a He initialised ReLU network without biases."""
    generator = torch.Generator().manual_seed(0)
    model = MLP(INPUTS, width, depth, CLASSES, generator).sequential().to(device)
    inputs = torch.randn(n, INPUTS, generator=generator)
    labels = torch.randint(CLASSES, (n,), generator=generator)
    return model, inputs.to(device), labels.to(device)


class Block(nn.Module):
    """ResNet's basic block (He et al. 2016) with group norm of 32 groups and weights without biases."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(32, after) for _ in range(2))
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        """(n, before, h, w) → (n, after, h / stride, w / stride)"""
        hidden = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(hidden)) + self.short(x)).relu()


def resnet18():
    """ResNet-18 for 32×32 images: a 3×3 stem, no pooling before the blocks, group norm."""
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(32, 64), nn.ReLU()]
    before = 64
    for after in (64, 128, 256, 512):
        layers += [Block(before, after, 1 if after == before else 2), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES, bias=False))


def vgg19():
    """VGG-19 for 32×32 images: sixteen convolutions, five poolings and one linear layer, no biases."""
    layers, before = [], 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            layers += [nn.Conv2d(before, width, 3, 1, 1, bias=False), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, CLASSES, bias=False))


def setup_images(device, n, network):
    """(model, inputs (n, 3, 32, 32) float32, labels (n,)): a He initialised convolutional network."""
    generator = torch.Generator().manual_seed(0)
    model = {"resnet18": resnet18, "vgg19": vgg19}[network]()
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            fan_in = module.weight[0].numel()
            nn.init.normal_(module.weight, std=(2 / fan_in) ** 0.5, generator=generator)
    inputs = torch.randn(n, 3, 32, 32, generator=generator)
    labels = torch.randint(CLASSES, (n,), generator=generator)
    return model.to(device), inputs.to(device), labels.to(device)


def ours(state):
    """One value per layer, (layers,)."""
    return tangent_alignment(*state)


def nngeometry(state):
    """The same from NNGeometry's Gram matrix (k, n, k, n) of one layer after the other.

    All examples are one batch, which is the fastest it offers.
    """
    from nngeometry.gram import GramMatrix
    from nngeometry.layercollection import LayerCollection
    from torch.utils.data import DataLoader, TensorDataset

    model, inputs, labels = state
    batch = DataLoader(TensorDataset(inputs, labels), batch_size=len(inputs))
    result = []
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            layer = LayerCollection()
            layer.add_layer_from_model(model, module)
            kernel = GramMatrix(model, batch, lambda x, _: model(x), layer_collection=layer).to_torch()
            result.append(aligned(kernel, labels))
    return torch.stack(result)


def aligned(kernel, labels):
    """Ỹᵀ K Ỹ / (‖C K C‖ ‖Ỹ‖²) of a kernel (k, n, k, n), in place; what is summed is float64."""
    k, n = kernel.shape[:2]
    kernel = kernel.view(n * k, n * k)
    y = nn.functional.one_hot(labels, k).T.reshape(-1).double()  # (k·n,)
    y -= y.mean()
    rows = kernel.mean(1)
    kernel = kernel.sub_(rows[:, None]).sub_(rows[None, :] - rows.mean())  # C K C, and Ỹᵀ C K C Ỹ = Ỹᵀ K Ỹ
    # Row by row: one float32 sum over all entries loses three digits.
    norm = torch.linalg.vector_norm(torch.linalg.vector_norm(kernel, dim=1).double())
    value = y @ (kernel @ y.to(kernel.dtype)).double()
    return value / (norm * y.square().sum())


@torch.no_grad()  # of the norms, which are left out
def jacobians(state):
    """The same from per-example Jacobians, ``vmap`` of ``torch.func.jacrev``, contracted layer by layer."""
    from torch.func import functional_call, jacrev, vmap

    model, inputs, labels = state
    matrices = {
        f"{name}.weight": module.weight.detach()
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }

    def outputs(weights, example):
        return functional_call(model, weights, (example[None],))[0]

    of_weights = vmap(jacrev(outputs), (None, 0))(matrices, inputs)
    result = []
    while of_weights:  # (n, k, *weight) each, let go one by one
        jacobian = of_weights.pop(next(iter(of_weights)))
        n, k = jacobian.shape[:2]
        rows = jacobian.transpose(0, 1).reshape(k * n, -1)
        result.append(aligned((rows @ rows.T).view(k, n, k, n), labels))
    return torch.stack(result)


def in_float64(state):
    """A copy of the network and its inputs in float64."""
    model, inputs, labels = state
    return copy.deepcopy(model).double(), inputs.double(), labels


def to_numpy(values):
    """Alignments as a float64 array."""
    return torch.as_tensor(values).double().cpu().numpy()


def cost(n, depth, width):
    """Operations of the products: forward, k backward passes, and half of the two Gram matrices."""
    sizes = [INPUTS] + [width] * (depth - 1) + [CLASSES]
    weights = sum(a * b for a, b in zip(sizes, sizes[1:], strict=False))
    passes = 2 * n * weights + 2 * n * CLASSES * (weights - INPUTS * width)
    grams = sum(n**2 * a + (n * CLASSES) ** 2 * b for a, b in zip(sizes, sizes[1:], strict=False))
    return {"float32": passes + grams}


def cost_images(n, network):
    """Operations of the cheaper of two ways per layer, both with symmetry used, and of the passes.

    Per-example gradients of a layer with p positions, a inputs and b outputs per position cost
    2·n·k·p·a·b and their Gram matrix (n·k)²·a·b; the two-Gram form costs (n·p)²·a for the inputs and
    (n·k·p)²·b for the gradients.
    """
    operations = 0
    for a, b, positions in shapes(network):
        forward = 2 * n * positions * a * b
        gradients = CLASSES * forward + (n * CLASSES) ** 2 * a * b
        grams = (n * positions) ** 2 * a + (n * CLASSES * positions) ** 2 * b
        operations += (1 + CLASSES) * forward + min(gradients, grams)
    return {"float32": operations}


def shapes(network):
    """(inputs, outputs, positions) of every linear and convolutional layer of a network."""
    model, inputs, _ = setup_images("cpu", 1, network)
    found = []

    def look(module, arguments, output):
        weight = module.weight
        found.append((weight[0].numel(), len(weight), output[0, 0].numel()))

    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.register_forward_hook(look)
    with torch.no_grad():
        model(inputs)
    return found


def held(n, depth, width):
    """Bytes of the layers' inputs and of k output gradients each, which the kernel needs at once."""
    return 4 * n * (INPUTS + (depth - 1) * width + CLASSES * ((depth - 1) * width + CLASSES))


OURS = Contender("alignbook", "alignbook", ours, answer=to_numpy)
NNGEOMETRY = Contender("NNGeometry", "nngeometry", nngeometry, answer=to_numpy)
JACREV = Contender("jacrev", "torch", jacobians, answer=to_numpy)
EXACT = Contender("Jacobians in float64", "torch", jacobians, prepare=in_float64, answer=to_numpy)
SMALL = {"n": 20, "depth": 3, "width": 32}
WHAT = "largest difference of a layer's alignment over the largest alignment"
MATRIX_RATE = Aim("at least half of the achievable matrix rate", "floor", 2, device="cuda")


def images_work(network, title, n):
    """A convolutional network against Jacobians."""
    return Work(
        name=f"tangent_alignment/{network}",
        title=f"Tangent alignment: {title} at 32×32, n = {n}, k = 10",
        setup=setup_images,
        sizes={"n": n, "network": network},
        small={"n": 1, "network": network},
        contenders=(OURS, JACREV, with_onednn(JACREV)),
        cost=cost_images,
        agreement=WHAT,
        tolerance=1e-4,
        reference=EXACT,
        aims=(Aim("every layer within 1e-4 of Jacobians in float64", "error", 1e-4, EXACT.name),),
        note="Few examples: for n = 3 the Jacobian has 30 times as many numbers as the network.",
    )


works = (
    Work(
        name="tangent_alignment/mlp",
        title="Tangent alignment: depth 10, width 256, n = 500, k = 10",
        setup=setup,
        sizes={"n": 500, "depth": 10, "width": 256},
        small=SMALL,
        contenders=(OURS, NNGEOMETRY, with_onednn(NNGEOMETRY)),
        cost=cost,
        agreement=WHAT,
        tolerance=1e-4,
        aims=(
            Aim("not slower than NNGeometry, layer by layer", "faster", 1, "NNGeometry"),
            Aim("within 2 times of the matrix-product floor with symmetry used", "floor", 2),
            MATRIX_RATE,
        ),
    ),
    Work(
        name="tangent_alignment/jacrev",
        title="Tangent alignment: depth 10, width 256, n = 100, k = 10",
        setup=setup,
        sizes={"n": 100, "depth": 10, "width": 256},
        small=SMALL,
        contenders=(OURS, JACREV, with_onednn(JACREV)),
        cost=cost,
        agreement=WHAT,
        tolerance=1e-4,
        aims=(Aim("at least 100 times faster than contracting jacrev's Jacobians", "faster", 100, "jacrev"),),
    ),
    Work(
        name="tangent_alignment/large",
        title="Tangent alignment: depth 10, width 256, n = 5,000, k = 10",
        setup=setup,
        sizes={"n": 5000, "depth": 10, "width": 256},
        small=SMALL,
        contenders=(OURS,),
        cost=cost,
        aims=(
            # Stricter by 60 MiB: activations count here, since the kernel makes them.
            Aim("within 2 GiB above the network and its activations", "memory", 2**31),
            MATRIX_RATE,
        ),
        repeats=1,
        alone="NNGeometry's kernel would have 2.5·10⁹ entries, 9.3 GiB per layer in float32.",
    ),
    images_work("resnet18", "ResNet-18 with group norm", 3),
    images_work("vgg19", "VGG-19", 3),
)
scalings = tuple(
    Scaling(
        f"tangent_alignment/{axis}",
        ", ".join(f"{name} = {value}" for name, value in fixed.items()) + ", k = 10",
        axis,
        values,
        setup,
        OURS,
        cost,
        held,
        fixed,
    )
    for axis, values, fixed in (
        ("n", (100, 200, 400, 800), {"depth": 10, "width": 256}),
        ("depth", (5, 10, 20, 40), {"n": 200, "width": 256}),
        ("width", (64, 128, 256, 512, 1024), {"n": 200, "depth": 10}),
    )
)
