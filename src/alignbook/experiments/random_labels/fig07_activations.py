"""Neurons that fall silent when the task changes (Maennel et al. 2020, Figures 7, 10, 11 and 24, A.11, F)."""

import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.training.nets import SimpleCNN, he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

from .activations import histograms, summary
from .downstream import fresh_head_, tasks
from .vgg_transfer import DOWNSTREAM_CLASSES, DOWNSTREAM_EPOCHS, SETTINGS, network, pretrained

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
STAYS = "That fall is permanent: activation ends below where it stood before the switch."
ALIKE = "Before training, both cases have the same activation in the last hidden layer."
LATER = "Pre-training lowers activation more in the last hidden layer than in the first."


def units(parameters):
    """VGG-16 in both cases, and the small networks of Figure 24, one unit each per seed."""
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
    names = "side images epochs filters units learning_rate init_scale batch_size".split()
    small = shared | {name: parameters[f"cnn_{name}"] for name in names}
    for seed in range(parameters["seeds"]):
        for count in parameters["cnn_convolutions"]:
            arguments = small | {"convolutions": count, "seed": seed}
            made.append(Unit(f"cnn{count}-seed{seed}", compute_small, arguments))
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

    name : "positive", "negative", or a number of convolutions; layer : from 1, None for the last.
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

    Fixed before the first run of profile quick. A neuron is dead where no held-out image activates it.
    """
    made = []
    for kind in parameters["labels"]:
        made += _of_both(table, kind) + _of_one(
            table, "negative", f"negative case, {KINDS[kind]}", kind, kind
        )
    for count in parameters["cnn_convolutions"]:
        where = f"simple network with {count} convolution{'s' * (count > 1)}"
        made += _of_one(table, count, where, f"cnn{count}", "random")
    starts = {case: curve(table, case, "upstream") for case in CASES}
    about = ("alike", f"{ALIKE} Within 0.05.", "Section 3, Figure 7")
    if any(frame.empty for frame in starts.values()):
        made.append(Claim.missing(*about, "not among the results"))
    else:
        values = (starts["negative"].iloc[:, 0] - starts["positive"].iloc[:, 0]).dropna()
        made.append(Claim.equals(*about, values, 0.0, 0.05))
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


def _of_one(table, name, where, id, kind):
    """The fall of activation at the switch of one network, and whether it lasts."""
    found = switch(table, name, kind)
    made = []
    for word, said, moment in (("falls", FALLS, 1), ("stays", STAYS, 2)):
        about = (f"{word}-{id}", f"{said} {where.capitalize()}.", "Section 3, Appendix F, Figure 24")
        if found is None:
            claim = Claim.missing(*about, "not among the results")
        else:
            claim = Claim.greater(*about, (found[0] - found[moment]).dropna())
        made.append(claim.tagged(said))
    return made


def finding(table, parameters):
    """Deaths at the switch in both cases."""
    said = []
    for kind in parameters["labels"]:
        found = {case: switch(table, case, kind, "dead") for case in CASES}
        if all(value is not None for value in found.values()):
            deaths = {
                case: interval(100 * (soon - before), "{:+.1f}") for case, (before, soon, _) in found.items()
            }
            said.append(f"with {KINDS[kind]} {deaths['negative']} (positive case: {deaths['positive']})")
    if not said:
        return "No run is among the results: there is nothing to compare."
    return (
        "Percent of VGG-16's last hidden neurons that die at the switch of tasks in the negative case: "
        f"{'; '.join(said)}."
    )


def key_numbers(table, parameters):
    """Dead neurons before the switch and after it, both cases; activation in the small networks."""
    made = []
    kind = "random" if "random" in parameters["labels"] else parameters["labels"][0]
    for case in CASES:
        found = switch(table, case, kind, "dead")
        if found is not None:
            here = " → ".join(f"{100 * value.mean():.0f}" for value in found)
            made.append(
                KeyNumber(f"dead in the last layer (%), {case} case: before, after the switch, end", here)
            )
    count = parameters["cnn_convolutions"][0]
    found = switch(table, count, "random")
    if found is not None:
        here = " → ".join(f"{100 * value.mean():.0f}" for value in found)
        made.append(KeyNumber(f"activation of the dense layer (%), {count} convolution(s): the same", here))
    return made
