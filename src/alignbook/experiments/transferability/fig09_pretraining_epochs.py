"""How long to pre-train: accuracy on the source and after transfer, by epoch (Figure 9, Section 5.2)."""

import numpy as np
import pandas as pd

from alignbook.claims import Claim, KeyNumber, interval
from alignbook.data import colour32, load
from alignbook.experiments import Unit
from alignbook.experiments.transferability.tab01_weight_deviation import named
from alignbook.experiments.transferability.tuned import TEST_IMAGES, target
from alignbook.seeding import torch_stream
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.pretrained import pretrained
from alignbook.training.resnet import fresh_head_

HEADLINE = "falls"
SETTINGS = (
    "plain",
    "label noise",
    "small",
)  # of pre-training: as the paper has it, and two that over-fit more
NAMES = {"plain": "as it is", "label noise": "with label noise", "small": "with few images"}


def units(parameters):
    """One unit per setting of pre-training and seed."""
    names = (
        "source epochs checkpoints learning_rate width blocks examples steps batch_size tuning_rate decay_at"
    )
    per_epoch = parameters["examples"] // parameters["batch_size"]
    arguments = named(parameters["target"]) | {
        **{name: parameters[name] for name in names.split() if name in parameters},
        "checkpoints": sorted({0, *parameters["checkpoints"], parameters["epochs"]}),
        "steps": parameters["tuning_epochs"] * per_epoch,
        "decay_at": [2 * parameters["tuning_epochs"] // 3 * per_epoch],
    }
    made = []
    for setting in parameters["settings"]:
        small = setting == "small"
        extra = {
            "setting": setting,
            "images": parameters["few_images"] if small else parameters["pretrain_images"],
            "label_noise": parameters["label_noise"] if setting == "label noise" else 0.0,
        }
        for seed in range(parameters["seeds"]):
            name = f"{setting.replace(' ', '-')}-seed{seed}"
            made.append(Unit(name, compute, arguments | extra | {"seed": seed}))
    return made


def compute(
    *,
    dataset,
    part,
    source,
    setting,
    images,
    label_noise,
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

    Columns ``epoch``, ``source_accuracy`` (on the first test images of the source), ``accuracy`` after
    fine-tuning and ``start_accuracy`` of its training images, all in percent. ``setting`` only names the
    values of ``images`` and ``label_noise``.
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
        checkpoints=checkpoints,
        seed=seed,
        device=device,
        report=lambda done, text: report(done / 2, text),
    )
    test = load(source, "test")
    source_x, source_y = colour32(test.x[:TEST_IMAGES]).to(device), test.y[:TEST_IMAGES].to(device)
    x, y, x_test, y_test, classes = target(dataset, examples, seed, part)
    x, y, x_test, y_test = (value.to(device) for value in (x, y, x_test, y_test))
    rows = []
    for number, (epoch, net) in enumerate(nets.items()):
        upstream = accuracy_and_loss(net, source_x, source_y)[0]
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
                "source_accuracy": 100 * upstream,
                "accuracy": 100 * accuracy_and_loss(net, x_test, y_test)[0],
                "train_accuracy": 100 * accuracy_and_loss(net, x, y)[0],
            }
        )
    return pd.DataFrame(rows)


def curves(table, setting, column):
    """(seeds × epochs) frame of one column, for one setting; empty where there is none."""
    if "setting" not in table:
        return pd.DataFrame()
    rows = table[table["setting"] == setting]
    return rows.pivot(index="seed", columns="epoch", values=column).sort_index(axis=1)


def peaks(frame):
    """The epoch before the last at which the mean of the *other* seeds is largest, one per seed (a Series).

    The largest of a seed's own noisy values would lie above its last one by chance. A single seed: its own.
    """
    result = {}
    for seed in frame.index:
        others = frame.drop(index=seed) if len(frame) > 1 else frame
        result[seed] = others.mean().iloc[:-1].idxmax()
    return pd.Series(result)


def changes(table, setting):
    """Per seed, in points: ``rise`` of the accuracy after transfer from epoch 0 to the peak, ``fall`` from
    the peak to the last epoch, ``upstream``: change of the source's accuracy from the peak to the last.
    """
    down, up = (curves(table, setting, column) for column in ("accuracy", "source_accuracy"))
    if down.empty or down.shape[1] < 3:
        return pd.DataFrame({"peak": [], "rise": [], "fall": [], "upstream": []})
    rows = []
    for seed, peak in peaks(down).items():
        row, source = down.loc[seed], up.loc[seed]
        rows.append(
            {
                "peak": peak,
                "rise": row[peak] - row.iloc[0],
                "fall": row[peak] - row.iloc[-1],
                "upstream": source.iloc[-1] - source[peak],
            }
        )
    return pd.DataFrame(rows)


def claims(table, parameters):
    """Rise, fall and the source's accuracy meanwhile; the paper's for plain pre-training, the others ours."""
    made = []
    said = {
        "rises": (
            "rise",
            "With longer pre-training, accuracy after transfer first rises (points, to its peak).",
        ),
        "falls": ("fall", "Past its peak, accuracy after transfer falls again by the end (points lost)."),
        "upstream": ("upstream", "Meanwhile accuracy on the source still rises (points, from that peak on)."),
    }
    for setting in parameters["settings"]:
        values = changes(table, setting)
        suffix = "" if setting == "plain" else f"-{setting.replace(' ', '-')}"
        for id, (column, statement) in said.items():
            about = (f"{id}{suffix}", f"{statement} Pre-training {NAMES[setting]}.", "Figure 9, Section 5.2")
            if values.empty:
                claim = Claim.missing(*about, "fewer than three epochs")
            else:
                claim = Claim.greater(*about, values[column])
            made.append(claim.tagged(group=statement, ours=setting != "plain"))
    return made


def finding(table, parameters):
    """Whether accuracy falls past the peak, and by how much it changes there, setting by setting."""
    changed, epochs = {}, set()
    for setting in parameters["settings"]:
        values = changes(table, setting)
        if not values.empty:
            epochs.add(int(np.median(values["peak"])))
            last = int(curves(table, setting, "accuracy").columns[-1])
            changed[setting] = -values["fall"]
    if not changed:
        return "Fewer than three epochs: there is nothing to compare."
    falling = sum(values.mean() < 0 for values in changed.values())
    word = {0: "does not fall", len(changed): "falls"}.get(
        falling, f"falls in {falling} of {len(changed)} settings"
    )
    parts = [f"{interval(values, '{:+.1f}')} ({NAMES[setting]})" for setting, values in changed.items()]
    since = " or ".join(map(str, sorted(epochs)))
    return (
        f"Carried from {parameters['source']} (in place of Food-101) to {parameters['target']}, accuracy "
        f"{word} by epoch {last}: from epoch {since} on it changes by {', '.join(parts)} points."
    )


def key_numbers(table, parameters):
    """The change past the peak, negative where accuracy falls, and that of the source meanwhile."""
    result = []
    for setting in parameters["settings"]:
        values = changes(table, setting)
        if not values.empty:
            changed, upstream = (
                interval(change, "{:+.1f}") for change in (-values["fall"], values["upstream"])
            )
            what = f"change past the peak, target / source, {NAMES[setting]}"
            result.append(KeyNumber(what, f"{changed} / {upstream}"))
    return result


def reach(table, parameters):
    """In words, whether accuracy on the source is at its highest at the last epoch, and what follows."""
    rising = []
    for setting in parameters["settings"]:
        means = curves(table, setting, "source_accuracy").mean()
        if len(means) > 1 and means.idxmax() == means.index[-1]:
            rising.append(NAMES[setting])
    if not rising:
        return "Accuracy on the source has passed its highest by the last epoch in every setting."
    return (
        f"Accuracy on the source is at its highest at the last epoch ({', '.join(rising)}): this page sees "
        "pre-training while the source still gains, and cannot decide what comes well past that."
    )
