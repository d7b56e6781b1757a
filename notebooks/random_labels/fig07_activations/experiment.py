"""Neurons that fall silent when the task changes (Maennel et al. 2020, Figures 7, 10, 11 and 24, A.11, F)."""

import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from ..activations import histograms, summary
from ..downstream import fresh_head_, tasks
from ..vgg_settings import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS
from ..vgg_transfer import network, pretrained

HEADLINE = "dies"
CASES = {"positive": "1 and 2", "negative": "3 and 4"}  # Figure 7 -> experiments of Figure 1
LAST = 13  # the last hidden layer of VGG-16
EARLY = 0.1  # share of the second task's steps within which a drop counts as one at the switch
AFTER = (1, 2, 4, 8, 16, 32, 64)  # steps after the switch at which activations are taken in any case
CNN_CLASSES = 10  # A.6, A.8: random labels of the small networks
KINDS = {"real": "real labels", "random": "random labels"}
DIES = "At the switch of tasks, more neurons of the last hidden layer die in the negative case."
ENDS = "After fine-tuning, fewer neurons of the last hidden layer are active in the negative case."
FALLS = "Activation in the last hidden layer falls right after the switch of tasks."
STAYS = "It does not come back: activation ends below where it stood before the switch."
SPARED = (
    "Activation in the last hidden layer falls less at the switch in the positive case than in the negative."
)
INTACT = (
    "In the positive case more than half of the last hidden layer's activation is left, then and in the end."
)
KEPT = 0.5  # of the activation before the switch: what is above it is "not severely impacted" (Section 3)
LATER = "Pre-training lowers activation more in the last hidden layer than in the first."


def units(parameters):
    """VGG-16 in both cases, and the small networks of Figure 24, one unit each per seed.

    With ``control`` each has another beside it, ``scratch-…``, that meets the second task first.
    """
    shared = {name: parameters[name] for name in "dataset test points".split()}
    vgg = shared | {name: parameters[name] for name in "side width upstream downstream batch_size".split()}
    share = parameters["epoch_share"]
    made = []
    for seed in range(parameters["seeds"]):
        for case, name in CASES.items():
            setting = SETTINGS[name]
            arguments = vgg | {
                "case": case,
                "labels": parameters["labels"],
                "init_scale": setting.init_scale * parameters["scale_factor"],
                "learning_rate": setting.learning_rate,
                "classes": setting.classes,
                "upstream_epochs": max(1, round(setting.epochs * share)),
                "epochs": max(1, round(DOWNSTREAM_EPOCHS * share)),
                "seed": seed,
            }
            made.append(Unit(f"{case}-seed{seed}", compute, arguments))
            if parameters["control"]:
                alone = {name: value for name, value in arguments.items() if name != "upstream_epochs"}
                made.append(Unit(f"scratch-{case}-seed{seed}", compute_scratch, alone))
    names = "side images epochs filters units learning_rate init_scale batch_size".split()
    small = shared | {name: parameters[f"cnn_{name}"] for name in names}
    for seed in range(parameters["seeds"]):
        for count in parameters["cnn_convolutions"]:
            arguments = small | {"convolutions": count, "seed": seed}
            made.append(Unit(f"cnn{count}-seed{seed}", compute_small, arguments))
            if parameters["control"]:
                made.append(Unit(f"scratch-cnn{count}-seed{seed}", compute_small_scratch, arguments))
    return made


def compute(
    *,
    dataset,
    case,
    labels,
    side,
    width,
    upstream,
    downstream,
    classes,
    upstream_epochs,
    epochs,
    batch_size,
    init_scale,
    learning_rate,
    test,
    points,
    seed,
    device,
    report,
):
    """VGG-16 pre-trained on random labels, rescaled, fine-tuned on each of ``labels``: activations.

    Rows with ``of`` "curve": ``labels`` ("upstream", "real", "random"), ``step`` of that task, ``layer``,
    ``activation``, ``dead`` (:func:`.activations.summary`) and, at the last step, training ``accuracy``.
    Rows with ``of`` "neurons" or "examples": ``stage`` ("initialisation", "pre-trained" or the labels of
    fine-tuning), ``layer``, ``bin``, ``share`` (:func:`.activations.histograms`). Held-out images: ``test``.
    ``case`` only names the values of the other arguments. Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    made = {"width": width, "init_scale": init_scale, "seed": seed}
    training = {"batch_size": batch_size, "learning_rate": learning_rate}
    parts = 1 + len(labels)
    steps = upstream_epochs * (upstream // batch_size)
    net = network(data.x.shape[1:], classes, name="upstream", **made).to(device)
    found = [histograms(net, data.test_x).assign(stage="initialisation")]
    seen = _Seen(data.test_x)
    net = pretrained(
        data.upstream_x, data.upstream_y, classes, epochs=upstream_epochs, **made, **training,
        at=moments(steps, points), on=seen.on("upstream"),
        report=lambda done, text: report(done / parts, f"pre-training, {text}"),
    )  # fmt: skip
    seen.end(accuracy(net, data.upstream_x, data.upstream_y))
    found.append(histograms(net, data.test_x).assign(stage="pre-trained"))
    weights = net.state_dict()
    for number, kind in enumerate(labels, start=1):
        net = network(data.x.shape[1:], classes, name="upstream", **made).to(device)
        net.load_state_dict(weights)
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "vgg", "head", kind)).to(device)
        steps = epochs * (downstream // batch_size)
        fit(
            net, data.x, data.y[kind], steps=steps, **training,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            at=moments(steps, points), on=seen.on(kind),
            report=lambda done, text, number=number: report((number + done) / parts, text),
        )  # fmt: skip
        seen.end(accuracy(net, data.x, data.y[kind]))
        found.append(histograms(net, data.test_x).assign(stage=kind))
    return pd.concat([seen.table(), *found], ignore_index=True)


def compute_small(
    *,
    dataset,
    convolutions,
    side,
    images,
    epochs,
    filters,
    units,
    learning_rate,
    init_scale,
    batch_size,
    test,
    points,
    seed,
    device,
    report,
):
    """A simple network, ``epochs`` on random labels and as many on those of other images (Figure 24).

    Rows as of :func:`compute` with ``of`` "curve"; ``labels`` are "upstream", then "random".
    """
    data = tasks(
        dataset, upstream=images, upstream_classes=CNN_CLASSES, downstream=images, classes=CNN_CLASSES,
        side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    net = SimpleCNN(data.x.shape[1:], [filters] * convolutions, units, CNN_CLASSES)
    net = he_normal_(net, init_scale, torch_stream(seed, "fig07", "network", convolutions)).to(device)
    norms, seen = layer_norms(net), _Seen(data.test_x)
    steps = epochs * (images // batch_size)
    for number, (kind, x, y) in enumerate(
        (("upstream", data.upstream_x, data.upstream_y), ("random", data.x, data.y["random"]))
    ):
        fit(
            net, x, y, steps=steps, batch_size=batch_size, learning_rate=learning_rate,
            generator=torch_stream(seed, "fig07", "batches", kind),
            at=moments(steps, points), on=seen.on(kind),
            report=lambda done, text, number=number: report((number + done) / 2, text),
        )  # fmt: skip
        seen.end(accuracy(net, x, y))
        rescale_(net, norms)
        fresh_head_(net, CNN_CLASSES, init_scale, torch_stream(seed, "fig07", "head")).to(device)
    return seen.table()


def compute_scratch(
    *,
    dataset,
    case,
    labels,
    side,
    width,
    upstream,
    downstream,
    classes,
    epochs,
    batch_size,
    init_scale,
    learning_rate,
    test,
    points,
    seed,
    device,
    report,
):
    """What activations do on the second task without a first one: the control of :func:`compute`.

    VGG-16 with the weights that pre-training starts from, and with the head, the images, their order and the
    looks of fine-tuning on each of ``labels``. Rows as there with ``of`` "curve". Raises Diverged.
    """
    data = tasks(
        dataset, upstream=upstream, upstream_classes=classes, downstream=downstream,
        classes=DOWNSTREAM_CLASSES, side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    seen, steps = _Seen(data.test_x), epochs * (downstream // batch_size)
    for number, kind in enumerate(labels):
        net = network(
            data.x.shape[1:], classes, width=width, init_scale=init_scale, seed=seed, name="upstream"
        )
        fresh_head_(net, data.classes[kind], init_scale, torch_stream(seed, "vgg", "head", kind)).to(device)
        fit(
            net, data.x, data.y[kind], steps=steps, batch_size=batch_size, learning_rate=learning_rate,
            generator=torch_stream(seed, "vgg", "downstream batches", kind),
            at=moments(steps, points), on=seen.on(kind),
            report=lambda done, text, number=number: report((number + done) / len(labels), text),
        )  # fmt: skip
        seen.end(accuracy(net, data.x, data.y[kind]))
    return seen.table()


def compute_small_scratch(
    *,
    dataset,
    convolutions,
    side,
    images,
    epochs,
    filters,
    units,
    learning_rate,
    init_scale,
    batch_size,
    test,
    points,
    seed,
    device,
    report,
):
    """The second task of :func:`compute_small` alone, from the first one's initial weights: its control.

    The head, the images, their order and the looks are those of its second task; rows as there.
    """
    data = tasks(
        dataset, upstream=images, upstream_classes=CNN_CLASSES, downstream=images, classes=CNN_CLASSES,
        side=side, test=test, seed=seed, device=device,
    )  # fmt: skip
    net = SimpleCNN(data.x.shape[1:], [filters] * convolutions, units, CNN_CLASSES)
    he_normal_(net, init_scale, torch_stream(seed, "fig07", "network", convolutions))
    fresh_head_(net, CNN_CLASSES, init_scale, torch_stream(seed, "fig07", "head")).to(device)
    seen, steps = _Seen(data.test_x), epochs * (images // batch_size)
    fit(
        net, data.x, data.y["random"], steps=steps, batch_size=batch_size, learning_rate=learning_rate,
        generator=torch_stream(seed, "fig07", "batches", "random"),
        at=moments(steps, points), on=seen.on("random"), report=report,
    )  # fmt: skip
    seen.end(accuracy(net, data.x, data.y["random"]))
    return seen.table()


def moments(steps, points):
    """Steps at which activations are taken: first and last, ``points`` between, and those of ``AFTER``."""
    even = {round(steps * k / (points + 1)) for k in range(points + 2)}
    return sorted(even | {step for step in AFTER if step < steps})


class _Seen:
    """Rows of activations on images ``x``, taken while a network trains."""

    def __init__(self, x):
        self.x, self.rows = x, []

    def on(self, labels):
        def take(step, net):
            net.eval()
            shared = {"of": "curve", "labels": labels, "step": step}
            self.rows += [shared | row for row in summary(net, self.x)]

        return take

    def end(self, value):
        """Training accuracy of the task that has just ended, beside its last rows."""
        last = self.rows[-1]
        for row in self.rows:
            if (row["labels"], row["step"]) == (last["labels"], last["step"]):
                row["accuracy"] = value

    def table(self):
        return pd.DataFrame(self.rows)


def curve(table, name, labels, column="activation", layer=None):
    """(seeds × steps) frame of one network's hidden layer in one task; empty where there is none.

    name : "positive", "negative", or a number of convolutions; "scratch-positive", "scratch-cnn1" and so on
    for the control; layer : from 1, None for the last.
    """
    if "of" not in table:
        return pd.DataFrame()
    prefix = f"cnn{name}-" if isinstance(name, int) else f"{name}-"
    rows = table[(table["of"] == "curve") & (table["labels"] == labels)]
    rows = rows[rows["unit"].str.startswith(prefix)]
    rows = rows[rows["layer"] == (rows["layer"].max() if layer is None else layer)]
    return rows.pivot(index="seed", columns="step", values=column).sort_index(axis=1)


def switch(table, name, labels, column="activation"):
    """(before, soon, end) of the last hidden layer, Series over seeds; None where there is none.

    before : when fine-tuning begins; soon : at the first look after ``EARLY`` of its steps; end : at its end.
    """
    frame = curve(table, name, labels, column)
    if frame.empty:
        return None
    soon = next(step for step in frame.columns if step >= EARLY * frame.columns[-1])
    return frame.iloc[:, 0], frame[soon], frame.iloc[:, -1]


def claims(table, parameters):
    """Deaths at the switch, negative against positive case within a seed, and what Section 3 and F say of it.

    A neuron is dead where no held-out image activates it. Fixed before the first run of profile quick, but
    for those of the positive case: these were fixed later, before what they compare had been looked at.
    """
    made = []
    for kind in parameters["labels"]:
        made += _of_both(table, kind)
        made += _of_one(table, "negative", f"negative case, {KINDS[kind]}", kind, kind)
        made += _of_positive(table, kind)
    for count in parameters["cnn_convolutions"]:
        where = f"simple network with {count} convolution{'s' * (count > 1)}"
        made += _of_one(table, count, where, f"cnn{count}", "random")
    for case in CASES:
        ends = [curve(table, case, "upstream", layer=layer) for layer in (1, LAST)]
        about = (f"later-{case}", f"{LATER} The {case} case.", "Section 3, Appendix F")
        if any(frame.empty for frame in ends):
            claim = Claim.missing(*about, "not among the results")
        else:
            first, last = (frame.iloc[:, 0] - frame.iloc[:, -1] for frame in ends)
            claim = Claim.greater(*about, (last - first).dropna())
        made.append(claim.tagged(LATER))
    return made


def _of_both(table, kind):
    """Negative against positive case: deaths at the switch, activation in the end."""
    dead = {case: switch(table, case, kind, "dead") for case in CASES}
    active = {case: switch(table, case, kind) for case in CASES}
    dies = (f"dies-{kind}", f"{DIES} {KINDS[kind].capitalize()}.", "Section 3, Appendix F")
    ends = (f"ends-{kind}", f"{ENDS} {KINDS[kind].capitalize()}.", "Section 3, Figure 7")
    if any(found is None for found in dead.values()):
        why = "not among the results"
        return [Claim.missing(*dies, why).tagged(DIES), Claim.missing(*ends, why).tagged(ENDS)]
    deaths = {case: soon - before for case, (before, soon, _) in dead.items()}
    more = (deaths["negative"] - deaths["positive"]).dropna()
    fewer = (active["positive"][2] - active["negative"][2]).dropna()
    return [Claim.greater(*dies, more).tagged(DIES), Claim.greater(*ends, fewer).tagged(ENDS)]


def _of_positive(table, kind):
    """The positive case is not severely impacted: less than the negative one, and at least half is left."""
    where = "Section 3"
    spared = (f"spared-{kind}", f"{SPARED} {KINDS[kind].capitalize()}.", where)
    intact = (f"intact-{kind}", f"{INTACT} Share left. {KINDS[kind].capitalize()}.", where)
    falls = {case: switch(table, case, kind) for case in CASES}
    if any(found is None for found in falls.values()):
        compared = Claim.missing(*spared, "not among the results")
    else:
        fall = {case: before - soon for case, (before, soon, _) in falls.items()}
        compared = Claim.greater(*spared, (fall["negative"] - fall["positive"]).dropna())
    shares = left(table, "positive", kind)
    if shares.empty:
        alone = Claim.missing(*intact, "not among the results")
    else:
        alone = Claim.greater(*intact, shares.min(axis=1), than=KEPT)
    return [compared.tagged(SPARED), alone.tagged(INTACT, ours=True)]


def left(table, name, kind):
    """(seeds × "soon", "end") frame: activation of the last hidden layer over that before the switch.

    Seeds without any activation before it are left out.
    """
    found = switch(table, name, kind)
    if found is None:
        return pd.DataFrame()
    before, soon, end = found
    frame = pd.DataFrame({"soon": soon / before, "end": end / before})
    return frame[before > 0].dropna()


def known(table, name, kind):
    """Training accuracies (0..1) at the end of the first task and of that on ``kind``, Series over seeds.

    None where there are none; ``name`` as of :func:`curve`.
    """
    first, second = (curve(table, name, labels, "accuracy") for labels in ("upstream", kind))
    if first.empty or second.empty:
        return None
    return first.iloc[:, -1], second.iloc[:, -1]


def _of_one(table, name, where, id, kind):
    """The fall of activation at the switch of one network, and whether it lasts."""
    found = switch(table, name, kind)
    made = []
    for word, said, moment in (("falls", FALLS, 1), ("stays", STAYS, 2)):
        about = (f"{word}-{id}", f"{said} {where[0].upper()}{where[1:]}.", "Section 3, Appendix F, Figure 24")
        if found is None:
            claim = Claim.missing(*about, "not among the results")
        else:
            claim = Claim.greater(*about, (found[0] - found[moment]).dropna())
        made.append(claim.tagged(said))
    return made


def finding(table, parameters):
    """What the switch does to the last hidden layer in both cases: deaths, and activation."""
    dead = {case: [] for case in CASES}
    active = {case: [] for case in CASES}
    for kind in parameters["labels"]:
        deaths, falls = ({c: switch(table, c, kind, of) for c in CASES} for of in ("dead", "activation"))
        if any(found is None for found in deaths.values()):
            continue
        for case in CASES:
            change = 100 * (deaths[case][1] - deaths[case][0])
            form = f"{interval(change, '{:+.1f}')} ({kind} labels)"
            dead[case].append(form if case == "negative" else f"{change.mean():+.1f}")
            active[case].append((falls[case][1] - falls[case][0]).mean())
    if not dead["negative"]:
        return "No run is among the results: there is nothing to compare."
    less = [negative < positive for positive, negative in zip(*active.values(), strict=True)]
    words = "less" if all(less) else "in part less" if any(less) else "no less"
    points = {case: ", ".join(f"{100 * value:+.1f}" for value in values) for case, values in active.items()}
    return (
        "When the task changes, the share (%) of dead neurons in a reduced VGG-16's last layer moves by "
        f"{', '.join(dead['negative'])} in the negative case, {', '.join(dead['positive'])} in the positive. "
        f"There activation falls on average {words}: {points['positive']}; negative {points['negative']}."
    )


def key_numbers(table, parameters):
    """Dead neurons before the switch and after it, both cases; activation in the small networks."""
    made = []
    kind = "random" if "random" in parameters["labels"] else parameters["labels"][0]
    moments = "before the switch → after it → in the end"
    for case in CASES:
        found = switch(table, case, kind, "dead")
        if found is not None:
            here = " → ".join(f"{100 * value.mean():.0f}" for value in found)
            what = f"VGG-16, {case} case, {kind} labels: dead in the last layer (%), {moments}"
            made.append(KeyNumber(what, here))
    count = parameters["cnn_convolutions"][0]
    found = switch(table, count, "random")
    if found is not None:
        here = " → ".join(f"{100 * value.mean():.0f}" for value in found)
        where = f"network with {count} convolution{'s' * (count > 1)}"
        made.append(KeyNumber(f"{where}: activation of its dense layer (%), {moments}", here))
    return made
