"""How long to pre-train: accuracy on the source and after transfer, by epoch (Figure 9, Section 5.2)."""

import pandas as pd

from alignbook.data import colour32, load
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.pretrained import pretrained, source_examples
from alignbook.training.resnet import fresh_head_
from companion.jobs import Job
from companion.studies.transferability.shared.targets import named
from companion.studies.transferability.shared.tuned import TEST_IMAGES, target


def jobs(parameters):
    """One job per setting of pre-training and seed."""
    names = "source learning_rate width blocks examples batch_size tuning_rate"
    per_epoch = parameters["examples"] // parameters["batch_size"]
    arguments = named(parameters["target"]) | {
        **{name: parameters[name] for name in names.split()},
        "steps": parameters["tuning_epochs"] * per_epoch,
        "decay_at": [2 * parameters["tuning_epochs"] // 3 * per_epoch],
    }
    made = []
    for setting in parameters["settings"]:
        few = setting in ("small", "over-fitted")
        epochs = parameters["long_epochs" if setting == "over-fitted" else "epochs"]
        extra = {
            "setting": setting,
            "images": parameters["few_images"] if few else parameters["pretrain_images"],
            "label_noise": parameters["label_noise"] if setting == "label noise" else 0.0,
            "regularised": setting != "over-fitted",
            "epochs": epochs,
            "checkpoints": sorted({0, *(e for e in parameters["checkpoints"] if e < epochs), epochs}),
        }
        for seed in range(parameters["seeds"]):
            name = f"{setting.replace(' ', '-')}-seed{seed}"
            made.append(Job(name, compute, arguments | extra | {"seed": seed}))
    return made


def compute(
    *,
    dataset,
    part,
    source,
    setting,
    images,
    label_noise,
    regularised,
    epochs,
    checkpoints,
    learning_rate,
    width,
    blocks,
    examples,
    steps,
    batch_size,
    tuning_rate,
    decay_at,
    seed,
    device,
    report,
):
    """Pre-train at a constant rate, keep the network after every epoch in ``checkpoints``, fine-tune each.

    Columns ``epoch``, ``source_accuracy`` (on the first test images of the source),
    ``source_train_accuracy`` (on the images of pre-training, with the labels it saw), ``accuracy`` after
    fine-tuning and ``train_accuracy`` of its training images, all in percent. ``setting`` only names the
    values of ``images``, ``label_noise`` and ``regularised``.
    """
    nets = pretrained(
        source,
        epochs=epochs,
        images=images,
        label_noise=label_noise,
        width=width,
        blocks=blocks,
        learning_rate=learning_rate,
        schedule="constant",
        regularised=regularised,
        checkpoints=checkpoints,
        seed=seed,
        device=device,
        report=lambda done, text: report(done / 2, text),
    )
    test = load(source, "test")
    source_x, source_y = colour32(test.x[:TEST_IMAGES]).to(device), test.y[:TEST_IMAGES].to(device)
    seen = source_examples(source, images, label_noise=label_noise, seed=seed)[:2]
    seen = [part.to(device) for part in seen]
    x, y, x_test, y_test, classes = target(dataset, examples, seed, part)
    x, y, x_test, y_test = (value.to(device) for value in (x, y, x_test, y_test))
    rows = []
    for number, (epoch, net) in enumerate(nets.items()):
        upstream = accuracy_and_loss(net, source_x, source_y)[0], accuracy_and_loss(net, *seen)[0]
        # The same head and the same order of images for every epoch: only the body differs.
        fresh_head_(net, classes, torch_stream(seed, "head", dataset, part))
        fine_tune(
            net,
            x,
            y,
            steps=steps,
            batch_size=batch_size,
            learning_rate=tuning_rate,
            decay_at=tuple(decay_at),
            generator=torch_stream(seed, "fine-tuning", dataset, part),
            report=lambda done, text, number=number: report((1 + (number + done) / len(nets)) / 2, text),
        )
        rows.append(
            {
                "epoch": epoch,
                "source_accuracy": 100 * upstream[0],
                "source_train_accuracy": 100 * upstream[1],
                "accuracy": 100 * accuracy_and_loss(net, x_test, y_test)[0],
                "train_accuracy": 100 * accuracy_and_loss(net, x, y)[0],
            }
        )
    return pd.DataFrame(rows)
