"""When transfer helps: other inputs, or the same inputs with other labels (Figure 8, Section 5.1)."""

import pandas as pd
import torch

from alignbook.data import colour32, digest, half, load
from alignbook.data.street_digits import street_digits
from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.lenet import LeNet
from alignbook.training.nets import he_normal_
from alignbook.training.pretrained import LOOP, SOURCES, checkpoint, pretrained
from alignbook.training.resnet import ResNet, fresh_head_
from companion.jobs import Job, arguments_of, jobs_over
from companion.studies.transferability.shared.tuned import TEST_IMAGES, recorded, target, tuned

from .design import KERNELS, PARTS, SEEN, UPSIDE_DOWN

COLOURS = 9  # labels by the colour of the upper part: three of brightness by three from blue to red


def jobs(parameters):
    """Per seed, Figure 8 (a): a job per source; (b): per kind of labels; (c, d): per source and target."""
    p = parameters
    digits = arguments_of(p, "learning_rate", pretrain_images="digit_images", pretrain_epochs="digit_epochs")
    digits |= arguments_of(p, "", examples="street_examples", epochs="street_epochs")
    digits["dataset"] = p["street"] if p["street"] == "svhn" else p["digits"]
    shared = arguments_of(p, "source width blocks examples learning_rate", dataset="target")
    per_pass = p["examples"] // 32
    labels = shared | arguments_of(p, "", part="labels_part", pretrain_images="label_images")
    labels |= {"pretrain_epochs": p["label_epochs"], "steps": p["label_passes"] * per_pass}
    halves = shared | {"pretrain_epochs": p["part_epochs"], "steps": p["epochs"] * per_pass}
    source = arguments_of(p, "source width blocks", pretrain_epochs="part_epochs")
    made = []
    for seed in range(p["digit_seeds"]):
        for start in ("none", p["digits"], UPSIDE_DOWN, p["clothes"]):
            own = {"source": p["clothes" if start == p["clothes"] else "digits"], "start": start}
            made.append(Job(f"inputs-{start}-seed{seed}", inputs, digits | own | {"seed": seed}))
    for seed in range(p["seeds"]):
        kinds, later = ("none", "classes", "colours"), [SEEN + seed]
        made += jobs_over("labels-{kind}-seed{seed}", labels_on_part, labels, kind=kinds, seed=later)
        axes = {"part": PARTS, "subset": ("none", *PARTS), "seed": [seed]}
        made += jobs_over("crossed-{subset}-to-{part}-seed{seed}", crossed, halves, **axes)
        subsets = PARTS if p["source_accuracy"] else ()
        made += jobs_over("source-{subset}-seed{seed}", part_source, source, subset=subsets, seed=[seed])
    return made


def inputs(
    *,
    dataset,
    source,
    start,
    pretrain_images,
    pretrain_epochs,
    examples,
    epochs,
    learning_rate,
    seed,
    device,
    report,
):
    """Figure 8 (a): LeNet pre-trained on ``start``, fine-tuned on a few street digits.

    dataset : "svhn", or a set of grey digits of which street digits are made (:func:`street_digits`), none
    of them among the ``pretrain_images`` digits of pre-training.
    start : "none" (random weights), "upside-down" (``source`` with every image upside down), or the source.
    One row: ``accuracy`` on the first test images and ``train_error`` after fine-tuning, both in percent, and
    ‖W − W(0)‖_F of each of ``KERNELS``.
    """
    net = LeNet(10, torch_stream(seed, "lenet"))
    if start != "none":
        length = (pretrain_images, pretrain_epochs, learning_rate)
        net = _lenet(net, source, start, *length, seed, device, report)
    fresh_head_(net, 10, torch_stream(seed, "head"))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    after = 0 if dataset == "svhn" else pretrain_images
    x, y = (value.to(device) for value in _street(dataset, "train", examples, seed, after))
    fine_tune(
        net.to(device),
        x,
        y,
        steps=epochs * (examples // 64),
        batch_size=64,
        learning_rate=learning_rate,
        weight_decay=5e-4,
        generator=torch_stream(seed, "fine-tuning"),
        report=lambda done, text: report((1 + done) / 2, text),
    )
    row = {"start": start, "train_error": 100 * (1 - accuracy_and_loss(net, x, y)[0])}
    x, y = (value.to(device) for value in _street(dataset, "test", TEST_IMAGES, seed))
    row["accuracy"] = 100 * accuracy_and_loss(net, x, y)[0]
    moved = weight_deviation(before, net.cpu()).layers
    return pd.DataFrame([row | {layer: moved[f"{layer}.weight"] for layer in KERNELS}]).assign(panel="inputs")


def _lenet(net, source, start, images, epochs, learning_rate, seed, device, report):
    """``net`` trained on grey images of ``source``, kept as a checkpoint."""

    def train():
        chosen = load(source, n=images, seed=seed)
        x = chosen.x.flip(2) if start == UPSIDE_DOWN else chosen.x
        fine_tune(
            net.to(device),
            colour32(x).to(device),
            chosen.y.to(device),
            steps=epochs * (images // 64),
            batch_size=64,
            learning_rate=learning_rate,
            weight_decay=5e-4,
            generator=torch_stream(seed, "pre-training"),
            report=lambda done, text: report(done / 2, f"pre-training: {text}"),
        )
        return {name: value.cpu().contiguous() for name, value in net.state_dict().items()}

    arguments = {
        "network": "LeNet",
        "data": digest(source),
        "start": start,
        "images": images,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "seed": seed,
        "device": torch.device(device).type,
    }
    state = checkpoint(arguments, (LeNet, he_normal_, fine_tune, *LOOP, colour32, _lenet), train)
    net.cpu().load_state_dict(state)
    return net


def _street(dataset, split, n, seed, after=0):
    """(x (n, 3, 32, 32), y (n,)) of street digits: of SVHN, or made of grey digits.

    after : images of the training split that are passed over, those that ``load`` gives for ``n=after``.
    """
    size = None if split == "test" else after + n
    chosen = load(dataset, split, n=size, seed=seed)
    x, y = chosen.x[after : after + n], chosen.y[after : after + n]
    if dataset == "svhn":
        return x, y
    if x.shape[2:] != (28, 28):
        x = torch.nn.functional.interpolate(x, (28, 28), mode="bilinear")
    return street_digits(x, torch_stream(seed, "street", split)), y


def labels_on_part(
    *, dataset, part, source, kind, width, blocks, pretrain_images, pretrain_epochs, examples, steps,
    learning_rate, seed, device, report,
):  # fmt: skip
    """Figure 8 (b): the same images with classes or with :func:`upper_colours` as labels, then ``part`` of
    ``dataset`` ("all": of it all).

    One row, in percent: ``accuracy`` and ``train_error`` on the target, ``source_accuracy`` on the source's
    test images.
    """
    x, y, x_test, y_test, classes = target(dataset, examples, seed, part)
    outputs = len(load(source).classes) if kind == "classes" else COLOURS
    net = ResNet(outputs, width=width, blocks=blocks, generator=torch_stream(seed, "resnet"))
    row = {"panel": "labels", "start": kind, "source_accuracy": float("nan")}
    if kind != "none":
        length = (pretrain_images, pretrain_epochs)
        state, row["source_accuracy"] = _labelled(net, source, kind, *length, seed, device, report)
        net.load_state_dict(state)
    fresh_head_(net, classes, torch_stream(seed, "head"))
    fine_tune(
        net.to(device),
        x.to(device),
        y.to(device),
        steps=steps,
        learning_rate=learning_rate,
        decay_at=(2 * steps // 3,),
        generator=torch_stream(seed, "fine-tuning"),
        report=lambda done, text: report((1 + done) / 2, text),
    )
    row["accuracy"] = 100 * accuracy_and_loss(net, x_test.to(device), y_test.to(device))[0]
    row["train_error"] = 100 * (1 - accuracy_and_loss(net, x.to(device), y.to(device))[0])
    return pd.DataFrame([row])


def _labelled(net, source, kind, images, epochs, seed, device, report):
    """(state_dict, accuracy on test images in percent) of ``net`` trained on one kind of labels."""
    size = [net.stem.out_channels, len(net.stages[0])]

    def train():
        chosen, test = load(source, n=images, seed=seed), load(source, "test")
        x, x_test = colour32(chosen.x), colour32(test.x[:TEST_IMAGES])
        y, y_test = chosen.y, test.y[:TEST_IMAGES]
        if kind == "colours":
            y, y_test = upper_colours(x, x), upper_colours(x_test, x)
        per_epoch = images // 128
        fine_tune(
            net.to(device),
            x.to(device),
            y.to(device),
            steps=epochs * per_epoch,
            batch_size=128,
            learning_rate=0.1,
            weight_decay=5e-4,
            decay_at=(2 * epochs // 3 * per_epoch,),
            augment=True,
            generator=torch_stream(seed, "pre-training"),
            report=lambda done, text: report(done / 2, f"pre-training: {text}"),
        )
        accuracy = 100 * accuracy_and_loss(net, x_test.to(device), y_test.to(device))[0]
        state = {name: value.cpu().contiguous() for name, value in net.state_dict().items()}
        return {"state": state, "accuracy": accuracy}

    arguments = {
        "network": size,
        "data": digest(source),
        "kind": kind,
        "images": images,
        "epochs": epochs,
        "seed": seed,
        "device": torch.device(device).type,
    }
    kept = checkpoint(arguments, (*SOURCES, fine_tune, upper_colours, _labelled), train)
    return kept["state"], kept["accuracy"]


def upper_colours(x, reference):
    """Labels (n,) int64 in 0..8 by the mean colour of the upper half of images ``x`` (n, 3, H, W).

    Three classes of brightness by three from blue to red (mean red less mean blue), each cut at the thirds
    of ``reference``, images like ``x``. Each third of brightness is cut by red and blue alike.
    """

    def measures(images):
        mean = images[:, :, : images.shape[2] // 2].mean((2, 3))
        return mean.mean(1), mean[:, 0] - mean[:, 2]

    thirds = torch.tensor([1 / 3, 2 / 3])
    cuts = [torch.quantile(values, thirds) for values in measures(reference)]
    light, red = (torch.bucketize(values, cut) for values, cut in zip(measures(x), cuts, strict=True))
    return 3 * light + red


def crossed(
    *, dataset, part, source, subset, width, blocks, pretrain_epochs, examples, steps, learning_rate, seed,
    device, report,
):  # fmt: skip
    """Figure 8 (c, d): from one part of the source to one part of the target; rows over the steps.

    subset : "natural", "artificial", or "none" for random weights.
    """
    random = subset == "none"
    found = tuned(
        dataset,
        part=part,
        examples=examples,
        start="scratch" if random else "pretrained",
        source=source,
        subset="all" if random else subset,
        pretrain_epochs=pretrain_epochs,
        width=width,
        blocks=blocks,
        steps=steps,
        learning_rate=learning_rate,
        decay_at=(2 * steps // 3,),
        record=recorded(steps),
        seed=seed,
        device=device,
        report=report,
    )
    return pd.DataFrame(found.rows).assign(panel="crossed", start=subset)


def part_source(*, source, subset, pretrain_epochs, width, blocks, seed, device, report):
    """How well a network of :func:`crossed` knows its part of the source: one row, ``source_accuracy``.

    In percent, of all of that part's test images.
    """
    net = pretrained(
        source,
        epochs=pretrain_epochs,
        subset=subset,
        width=width,
        blocks=blocks,
        seed=seed,
        device=device,
        report=report,
    )
    test = half(load(source, "test"), subset)
    known = accuracy_and_loss(net, colour32(test.x).to(device), test.y.to(device))[0]
    return pd.DataFrame([{"panel": "source", "start": subset, "source_accuracy": 100 * known}])
