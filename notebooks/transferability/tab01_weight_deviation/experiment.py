"""Weight deviation from the pre-trained network, and test error, over targets (Table 1, Figure 2).

A network pre-trained on ``source`` is carried to every target. Fixed, it is a feature extractor under a new
classifier; fine-tuned, all of it is trained. The deviation is (1/√n) Σ_l ‖W_l − W_l(0)‖_F, n target images.
"""

import math

import pandas as pd
import torch
from torch import nn

from alignbook.metrics.weight_deviation import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, features_of, fine_tune
from alignbook.training.pretrained import pretrained
from companion.jobs import arguments_of, jobs_over
from companion.studies.transferability.shared import imagenet_source
from companion.studies.transferability.shared.fine_tuned import fine_tuned_jobs
from companion.studies.transferability.shared.pretrained_source import source_jobs
from companion.studies.transferability.shared.targets import named, start_of
from companion.studies.transferability.shared.tuned import head_deviation, recorded, target


def jobs(parameters):
    """One job per source, setting, target and seed."""
    made = [
        job
        for setting in (fine_tuned_jobs, fixed_jobs)
        for name in parameters["targets"]
        for job in setting(name, parameters)
    ]
    return made + imagenet_jobs(parameters) + source_jobs(parameters)


def imagenet_jobs(parameters):
    """One job per setting, target and seed of the network trained on ImageNet."""
    p = parameters
    fine = imagenet_source.given(p, p["imagenet_epochs"]) | arguments_of(p, "learning_rate")
    fixed = imagenet_source.given(p, p["fixed_epochs"]) | arguments_of(
        p, "hidden", learning_rate="fixed_rate"
    )
    settings = (("fine-tuned", imagenet_fine_tuned, fine), ("fixed", imagenet_fixed, fixed))
    made = []
    for setting, compute, arguments in settings:
        for name in parameters["imagenet_targets"]:
            shared, seeds = named(name) | arguments, range(parameters["imagenet_seeds"])
            made += jobs_over(f"imagenet-{name}-{setting}-seed{{seed}}", compute, shared, seed=seeds)
    return made


def fixed_jobs(name, parameters):
    """One job of :func:`fixed` per seed, for the target ``name``."""
    arguments = arguments_of(parameters, "examples batch_size hidden", learning_rate="fixed_rate")
    arguments["steps"] = parameters["fixed_epochs"] * (parameters["examples"] // parameters["batch_size"])
    arguments |= named(name) | start_of(parameters)
    return jobs_over(f"{name}-fixed-seed{{seed}}", fixed, arguments, seed=range(parameters["seeds"]))


def fixed(
    *,
    dataset,
    part,
    examples,
    source,
    pretrain_epochs,
    pretrain_images,
    width,
    blocks,
    hidden,
    steps,
    batch_size,
    learning_rate,
    seed,
    device,
    report,
):
    """Train classifiers on the features of the pre-trained network, at a constant rate.

    Rows per ``classifier``, "two-layer" (Appendix A) and "linear", and step: ``deviation`` of its last
    layer, ``hidden_deviation`` of the layer before, losses and errors as of :class:`tuned.Tuned`.
    """
    net = pretrained(
        source,
        epochs=pretrain_epochs,
        images=pretrain_images,
        width=width,
        blocks=blocks,
        seed=seed,
        device=device,
        report=lambda done, text: report(0.9 * done, text),
    )
    *images, classes = target(dataset, examples, seed, part)
    x, y, x_test, y_test = (tensor.to(device) for tensor in images)
    # As images of one pixel, which is what fine_tune and accuracy_and_loss take.
    x, x_test = (features_of(net, images)[:, :, None, None] for images in (x, x_test))
    rows = []
    for classifier in ("two-layer", "linear"):
        generator = torch_stream(seed, "classifier", dataset, part, classifier)
        head = _classifier(classifier, x.shape[1], hidden, classes, generator).to(device)
        before = {name: value.clone() for name, value in head.state_dict().items()}

        def on(step, head, classifier=classifier, before=before):
            moved = [norm / math.sqrt(examples) for norm in weight_deviation(before, head).layers.values()]
            fit, test = accuracy_and_loss(head, x, y), accuracy_and_loss(head, x_test, y_test)
            rows.append(
                {
                    "classifier": classifier,
                    "step": step,
                    "deviation": moved[-1],
                    "hidden_deviation": moved[0] if len(moved) > 1 else None,
                    "train_loss": fit[1],
                    "train_error": 100 * (1 - fit[0]),
                    "test_loss": test[1],
                    "test_error": 100 * (1 - test[0]),
                }
            )

        fine_tune(
            head,
            x,
            y,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            generator=torch_stream(seed, "fine-tuning", dataset, part, classifier),
            at=recorded(steps),
            on=on,
        )
    return pd.DataFrame(rows).assign(setting="fixed")


def imagenet_fine_tuned(*, seed, device, report, **given):
    """Fine-tune all layers of the network trained on ImageNet.

    Columns as of :func:`.fine_tuned.fine_tuned`, the errors at the end alone.
    """
    found = imagenet_source.imagenet_tuned(
        **given, start="pretrained", seed=seed, device=device, report=report
    )
    table = pd.DataFrame(found.rows).assign(setting="fine-tuned", classifier="linear")
    table.loc[table.index[-1], "head"] = head_deviation(found, given["examples"])
    return table


def imagenet_fixed(
    *,
    dataset,
    part,
    weights,
    examples,
    test_images,
    hidden,
    steps,
    batch_size,
    learning_rate,
    seed,
    device,
    report,
):
    """Train the two-layer classifier on the features of the network trained on ImageNet.

    Columns as :func:`fixed`.
    """
    *images, classes = imagenet_source.images_of(dataset, part, examples, test_images, seed)
    x, y, x_test, y_test = (tensor.to(device) for tensor in images)
    net = imagenet_source.initial(weights, "pretrained", dataset, part, classes, seed).to(device)
    net.to(memory_format=torch.channels_last)
    x, x_test = (features_of(net, images)[:, :, None, None] for images in (x, x_test))
    report(0.8, "features")
    generator = torch_stream(seed, "classifier", dataset, part, "two-layer")
    head = _classifier("two-layer", x.shape[1], hidden, classes, generator).to(device)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    rows = []

    def on(step, head):
        moved = [norm / math.sqrt(examples) for norm in weight_deviation(before, head).layers.values()]
        row = {"step": step, "deviation": moved[-1], "hidden_deviation": moved[0]}
        for split, *labelled in (("train", x, y), ("test", x_test, y_test)):
            right, loss = accuracy_and_loss(head, *labelled)
            row |= {f"{split}_loss": loss, f"{split}_error": 100 * (1 - right)}
        rows.append(row)

    fine_tune(
        head,
        x,
        y,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        generator=torch_stream(seed, "fine-tuning", dataset, part, "two-layer"),
        at=recorded(steps),
        on=on,
    )
    return pd.DataFrame(rows).assign(setting="fixed", classifier="two-layer")


@torch.no_grad()
def _classifier(kind, features, hidden, classes, generator):
    """(n, features, 1, 1) → (n, classes); weights and biases uniform in ±1/√fan_in."""
    if kind == "linear":
        layers = [nn.Linear(features, classes)]
    else:
        first, last = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        layers = [first, nn.BatchNorm1d(hidden), nn.LeakyReLU(), last]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            for parameter in layer.parameters():
                parameter.uniform_(-1, 1, generator=generator).div_(math.sqrt(layer.in_features))
    return nn.Sequential(nn.Flatten(), *layers)
