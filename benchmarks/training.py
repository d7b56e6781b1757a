"""Training: Figure 2's network, Figure 4's fifty networks at once, and deep ones."""

import functools
import math

import numpy as np
import torch
from torch import nn

from alignbook.kernels import many_mlps
from alignbook.kernels.mlp_sgd import MLP
from alignbook.kernels.products import float32_products
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import fit

from .patch_covariance import setup as images_of
from .work import Aim, Contender, Scaling, Work, with_onednn

CLASSES = 10
INIT_SCALE = 0.1  # as in the experiment: from 1 the loss explodes within a few steps

# (a) The network of Figure 2


def setup_network(device, steps, batch, filters):
    """{net, x, y, steps, batch}: Maennel et al. 2020, A.6, on images with labels drawn at random."""
    generator = torch.Generator().manual_seed(0)
    x, _ = images_of(device, batch * steps, 3)
    y = torch.randint(CLASSES, (len(x),), generator=generator).to(device)
    net = he_normal_(SimpleCNN((3, 32, 32), [filters], 64, CLASSES), INIT_SCALE, generator).to(device)
    return {"net": net, "x": x, "y": y, "steps": steps, "batch": batch}


def fresh(state):
    """The state with a copy of the network as it was before training."""
    net = SimpleCNN((3, 32, 32), [len(state["net"].convs[0].weight)], 64, CLASSES).to(state["x"].device)
    net.load_state_dict(state["net"].state_dict())
    return state | {"net": net, "start": state["net"]}


def fit_float32(state):
    """Train as the experiment does, in float32; returns the state."""
    return _fit(state, "float32")


def fit_bfloat16(state):
    """The same with products in bfloat16."""
    return _fit(state, "bfloat16")


def _fit(state, precision):
    fit(
        state["net"],
        state["x"],
        state["y"],
        steps=state["steps"],
        batch_size=state["batch"],
        learning_rate=0.01,
        schedule="constant",
        generator=torch.Generator().manual_seed(0),
        precision=precision,
    )
    return state


def layers(net):
    """(convolution, dense layer, head) of our network or of :func:`plain`'s."""
    if isinstance(net, nn.Sequential):
        return net[0], net[3], net[5]
    return net.convs[0], net.dense, net.head


def plain(state):
    """The state with the same network in PyTorch's own modules and order: channels, rows, columns."""
    conv, dense, head = layers(state["net"])
    filters, side = len(conv.weight), int((dense.in_features / len(conv.weight)) ** 0.5)
    net = nn.Sequential(
        nn.Conv2d(3, filters, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(dense.in_features, dense.out_features),
        nn.ReLU(),
        nn.Linear(head.in_features, head.out_features),
    ).to(state["x"].device)
    # Ours sees the maps as rows, columns, channels.
    weight = dense.weight.detach().view(-1, side, side, filters).permute(0, 3, 1, 2).flatten(1)
    values = (conv.weight, conv.bias, weight, dense.bias, head.weight, head.bias)
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), values, strict=True):
            parameter.copy_(value)
    return state | {"net": net, "start": state["net"]}


def fit_eager(state, precision="float32"):
    """The same in a plain loop: autograd and torch.optim.SGD."""
    net, x, y, batch = (state[name] for name in ("net", "x", "y", "batch"))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(x.device)
    for index in order.split(batch)[: state["steps"]]:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = net(x[index])
        loss = nn.functional.cross_entropy(logits.float(), y[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return state


def channels_last(state):
    """Our network and the images in the memory format that PyTorch recommends for convolutions."""
    state = fresh(state)
    state["net"].to(memory_format=torch.channels_last)
    return state | {"x": state["x"].contiguous(memory_format=torch.channels_last)}


def fit_autocast(state):
    """The plain loop with PyTorch's automatic bfloat16."""
    return fit_eager(state, "bfloat16")


def updates(state):
    """By how much training has moved the filters, the dense biases and the head, one list of numbers."""

    def compared(net):
        conv, dense, head = layers(net)
        return conv.weight, conv.bias, dense.bias, head.weight  # the dense weights' order differs

    pairs = zip(compared(state["net"]), compared(state["start"]), strict=True)
    return [(after - before).detach().double().flatten().cpu().numpy() for after, before in pairs]


def update_error(ours, theirs):
    """Largest distance of two updates of a layer over the length of the peer's."""
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in zip(ours, theirs, strict=True))


def cost_network(steps, batch, filters):
    """Forward and backward passes; the first layer needs no gradient of its input."""
    conv, dense = 2 * 32**2 * filters * 27, 2 * 32**2 * filters * 64
    return {"float32": steps * batch * (2 * conv + 3 * dense)}


def cost_bfloat16(steps, batch, filters):
    """The same operations in bfloat16."""
    return {"bfloat16": cost_network(steps, batch, filters)["float32"]}


# (b) Many networks at once


def setup_many(device, networks, width, n, steps):
    """{weights, biases, x, targets, labels, steps}: Maennel et al. 2020, E.1, as Figure 4 (left)."""
    generator = torch.Generator().manual_seed(0)
    dimension = 30
    variance = 0.1 * torch.arange(1, dimension + 1)
    x = torch.randn(networks, n, dimension, generator=generator) * variance.sqrt()
    labels = torch.randint(CLASSES, (networks, n), generator=generator)
    sizes = [dimension, width, width, CLASSES]
    weights = [
        (torch.randn(networks, a, b, generator=generator) * math.sqrt(2 / a)).to(device)
        for a, b in zip(sizes, sizes[1:], strict=False)
    ]
    biases = [torch.zeros(networks, 1, b, device=device) for b in sizes[1:]]
    targets = nn.functional.one_hot(labels, CLASSES).float().to(device)
    return {
        "weights": weights,
        "biases": biases,
        "x": x.to(device),
        "targets": targets,
        "labels": labels.to(device),
        "steps": steps,
    }


def copied(state):
    """The state with copies of its weights and biases."""
    copies = {name: [part.clone() for part in state[name]] for name in ("weights", "biases")}
    return state | copies


def all_at_once(state):
    """Losses (networks,) before the last step, by the batched program."""
    for _ in range(state["steps"]):
        losses = many_mlps.step(state["weights"], state["biases"], state["x"], state["targets"], RATE)
    return losses.double().cpu().numpy()


def modules(state):
    """One nn.Sequential per network, with its data."""
    networks = []
    for k in range(len(state["x"])):
        layers = []
        for weight, bias in zip(state["weights"], state["biases"], strict=True):
            linear = nn.Linear(*weight[k].shape, device=weight.device)
            with torch.no_grad():
                linear.weight.copy_(weight[k].T)
                linear.bias.copy_(bias[k, 0])
            layers += [linear, nn.ReLU()]
        networks.append((nn.Sequential(*layers[:-1]), state["x"][k], state["labels"][k], state["steps"]))
    return networks


def one_after_the_other(networks):
    """The same in eager PyTorch: autograd and torch.optim.SGD, network after network."""
    losses = []
    for net, x, y, steps in networks:
        optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
        for _ in range(steps):
            loss = nn.functional.cross_entropy(net(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    return losses


def as_jax(state):
    """(compiled step, parameters, x, targets, steps) for JAX."""
    import jax

    weights, biases = (
        [jax.numpy.asarray(part.cpu().numpy()) for part in state[k]] for k in ("weights", "biases")
    )
    x, targets = (jax.numpy.asarray(state[name].cpu().numpy()) for name in ("x", "targets"))
    return _jax_steps(), (weights, biases), x, targets, state["steps"]


@functools.cache
def _jax_steps():
    """Compiled steps of all networks, at once and in turn: (parameters, x, targets) → (the same, losses)."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")  # on a GPU it rounds operands otherwise

    def loss_of(parameters, x, targets):
        weights, biases = parameters
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = jax.nn.relu(x @ weight + bias)
        log_p = jax.nn.log_softmax(x @ weights[-1] + biases[-1])
        return -(log_p * targets).sum(-1).mean()

    def step(parameters, x, targets):
        loss, gradient = jax.value_and_grad(loss_of)(parameters, x, targets)
        return jax.tree.map(lambda p, g: p - RATE * g, parameters, gradient), loss

    def in_turn(parameters, x, targets):
        return jax.lax.map(lambda one: step(*one), (parameters, x, targets))

    return jax.jit(jax.vmap(step)), jax.jit(in_turn)


def jit_vmap(prepared):
    """The same by JAX, ``jit`` of ``vmap``."""
    return _by_jax(0, prepared)


def jit_map(prepared):
    """The same by JAX, ``jit`` of ``lax.map``: one network after the other in one program."""
    return _by_jax(1, prepared)


def _by_jax(which, prepared):
    steps_of, parameters, x, targets, steps = prepared
    step = steps_of[which]
    for _ in range(steps):
        parameters, losses = step(parameters, x, targets)
    return np.asarray(losses, dtype=np.float64)


RATE = 0.5  # profile paper's
PIXELS = 28**2
DEEP_RATES = {"lr": 1e-4, "momentum": 0.9, "weight_decay": 5e-4}  # MNIST at depth 100


def cost_many(networks, width, n, steps):
    """Forward and backward passes; the first layer needs no gradient of its input."""
    first, rest = 30 * width, width * width + width * CLASSES
    return {"float32": 2 * steps * networks * n * (2 * first + 3 * rest)}


def held_many(networks, width, n, steps):
    """Bytes of a block's activations and their gradients, and of its networks' gradients, on a CPU."""
    together, rows = min(networks, max(1, many_mlps.CACHED // n)), min(many_mlps.CACHED, n)
    return 4 * together * (rows * (3 * width + 3 * CLASSES) + width * (30 + width + CLASSES))


# (c) Deep networks


def setup_deep(device, depth, width, batch, steps):
    """{net, x, labels, steps, start}: a network of Lou et al. 2022, Figure 3, its weights, and one batch."""
    generator = torch.Generator().manual_seed(0)
    net = MLP(PIXELS, width, depth, CLASSES, generator, device=device)
    x = torch.randn(batch, PIXELS, generator=generator).to(device)
    labels = torch.randint(CLASSES, (batch,), generator=generator).to(device)
    return {"net": net, "x": x, "labels": labels, "steps": steps, "start": net.flat.clone()}


def anew(state):
    """The state, its network as it was before training."""
    state["net"].flat.copy_(state["start"])
    state["net"].velocity.zero_()
    return state


def in_modules(state, fused=False):
    """The state with the network in PyTorch's own modules, and its optimiser."""
    net = anew(state)["net"].sequential()
    return state | {"modules": net, "optimiser": torch.optim.SGD(net.parameters(), **DEEP_RATES, fused=fused)}


def in_modules_fused(state):
    """The same with PyTorch's fused update."""
    return in_modules(state, fused=True)


def train_deep(state):
    """Steps as in the experiment; returns the state."""
    with float32_products():
        for _ in range(state["steps"]):
            state["net"].step(state["x"], state["labels"], *DEEP_RATES.values())
    return state


def train_modules(state):
    """The same steps by autograd and torch.optim.SGD; returns the state."""
    for _ in range(state["steps"]):
        loss = nn.functional.cross_entropy(state["modules"](state["x"]), state["labels"])
        state["optimiser"].zero_grad()
        loss.backward()
        state["optimiser"].step()
    return state


def deep_updates(state):
    """By how much five steps of the same code move each layer's weights in float64."""
    depth, (width, in_features) = len(state["net"].shapes), state["net"].shapes[0]
    options = {"device": state["x"].device, "dtype": torch.float64}
    net = MLP(in_features, width, depth, CLASSES, torch.Generator(), **options)
    wide = {"net": net, "start": state["start"].double(), "x": state["x"].double(), "steps": 5}
    if "modules" in state:
        trained = train_modules(in_modules(state | wide, state["optimiser"].defaults["fused"]))
        parameters = list(trained["modules"].parameters())
    else:
        parameters = train_deep(anew(state | wide))["net"].weights
    before = wide["start"].split([p.numel() for p in parameters])
    return [(p.detach().flatten() - b).cpu().numpy() for p, b in zip(parameters, before, strict=True)]


def cost_deep(depth, width, batch, steps):
    """Forward and backward passes; the first layer needs no gradient of its input."""
    first, rest = PIXELS * width, (depth - 2) * width * width + width * CLASSES
    return {"float32": 2 * steps * batch * (2 * first + 3 * rest)}


def held_deep(depth, width, batch, steps):
    """Bytes of all activations, of two layers' gradients, and of the logits'."""
    return 4 * batch * (width * (depth + 1) + 3 * CLASSES)


def network(precision, run, cost, aim, best, differs=""):
    """Figure 2's network in one precision against eager float32 and against ``best``, PyTorch's own best."""
    return Work(
        name=f"training/network-{precision}",
        title=f"Figure 2's network in {precision}: 256 filters, 64 units, batch 256, 4 steps",
        setup=setup_network,
        sizes={"steps": 4, "batch": 256, "filters": 256},
        small={"steps": 2, "batch": 8, "filters": 8},
        contenders=(
            Contender("alignbook", "alignbook", run, prepare=fresh, answer=updates),
            Contender("eager loop", "torch", fit_eager, prepare=plain, answer=updates, differs=differs),
            best,
        ),
        cost=cost,
        agreement="largest distance of a layer's updates over the length of the peer's",
        error=update_error,
        tolerance=1e-3,
        aims=(aim,),
        note="Eager loop: float32, PyTorch's default memory format.",
    )


DEEP = Contender("alignbook", "alignbook", train_deep, prepare=anew, answer=deep_updates)
MODULES = Contender("eager loop", "torch", train_modules, prepare=in_modules, answer=deep_updates)
FUSED = Contender("fused update", "torch", train_modules, prepare=in_modules_fused, answer=deep_updates)
MANY = Contender("alignbook", "alignbook", all_at_once, prepare=copied)
ONE_BY_ONE = Contender("one by one", "torch", one_after_the_other, prepare=modules)
works = (
    network(
        "float32",
        fit_float32,
        cost_network,
        Aim("eager speed or better on a processor without bf16 matrix units", "faster", 1, "eager loop"),
        Contender("channels last", "torch", fit_eager, prepare=channels_last, answer=updates),
    ),
    network(
        "bfloat16",
        fit_bfloat16,
        cost_bfloat16,
        Aim(
            "at least 2.5 times the throughput of eager float32 with bf16 matrix units",
            "faster",
            2.5,
            "eager loop",
            needs="amx_bf16",
        ),
        Contender("channels last, autocast", "torch", fit_autocast, prepare=channels_last, answer=updates),
        differs="other precision",
    ),
    Work(
        name="training/many",
        title="Figure 4's fifty networks at the paper's size, 3 steps on 2,000 inputs each",
        setup=setup_many,
        sizes={"networks": 50, "width": 256, "n": 2000, "steps": 3},
        small={"networks": 2, "width": 16, "n": 20, "steps": 2},
        contenders=(
            MANY,
            ONE_BY_ONE,
            with_onednn(ONE_BY_ONE),
            Contender("jit and vmap", "jax", jit_vmap, prepare=as_jax, compiles=True),
            Contender("jit and lax.map", "jax", jit_map, prepare=as_jax, compiles=True),
        ),
        cost=cost_many,
        agreement="largest difference of a network's loss over the largest loss",
        tolerance=1e-4,
        aims=(
            Aim("within 2 times of the matrix-product floor", "floor", 2),
            Aim("not slower than one after the other in PyTorch", "faster", 1, "one by one"),
            Aim("not slower than JAX with jit and vmap", "faster", 1, "jit and vmap"),
            Aim("not slower than JAX with jit and lax.map", "faster", 1, "jit and lax.map"),
            Aim("at least 10 times faster than one after the other", "faster", 10, "one by one", "cuda"),
        ),
    ),
    Work(
        name="training/deep",
        title="Figure 3's deepest network: 100 layers of width 100, 50 steps on a batch of 128",
        setup=setup_deep,
        sizes={"depth": 100, "width": 100, "batch": 128, "steps": 50},
        small={"depth": 3, "width": 8, "batch": 4, "steps": 6},
        contenders=(DEEP, MODULES, FUSED, with_onednn(FUSED)),
        cost=cost_deep,
        agreement="largest distance of a layer's updates over the length of the peer's, float64, 5 steps",
        error=update_error,
        tolerance=1e-10,
        note="Timed in float32, compared in float64: in float32 rounding switches units of so deep a network "
        "on and off, and two runs part after a few steps.",
    ),
)
MANY_SCALINGS = (
    (
        "networks",
        "fifty networks' program at width 256, 500 inputs each, 1 step",
        (5, 10, 20, 50),
        {"width": 256, "n": 500, "steps": 1},
    ),
    (
        "n",
        "ten networks of width 256, 1 step",
        (250, 500, 1000, 2000, 4000),
        {"networks": 10, "width": 256, "steps": 1},
    ),
    (
        "width",
        "ten networks, 500 inputs each, 1 step",
        (64, 128, 256, 512, 1024),
        {"networks": 10, "n": 500, "steps": 1},
    ),
)
scalings = (
    *(
        Scaling(f"training/{axis}", title, axis, values, setup_many, MANY, cost_many, held_many, fixed)
        for axis, title, values, fixed in MANY_SCALINGS
    ),
    Scaling(
        "training/depth",
        "one deep network of width 256 on batches of 128, 5 steps",
        "depth",
        (10, 20, 40, 80),
        setup_deep,
        DEEP,
        cost_deep,
        held_deep,
        {"width": 256, "batch": 128, "steps": 5},
    ),
)
