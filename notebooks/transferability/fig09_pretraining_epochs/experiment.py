"""How long to pre-train: accuracy on the source and after transfer, by epoch (Figure 9, Section 5.2)."""

import pandas as pd

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.data import colour32, load
from alignbook.experiments import Unit
from alignbook.seeding import torch_stream
from alignbook.studies.transferability.tab01_weight_deviation.experiment import named
from alignbook.studies.transferability.tuned import TEST_IMAGES, target
from alignbook.training.fine_tune import accuracy_and_loss, fine_tune
from alignbook.training.pretrained import pretrained, source_examples
from alignbook.training.resnet import fresh_head_

HEADLINE = "falls"
# Of pre-training: as the paper has it, and three that over-fit more and more.
SETTINGS = ("plain", "label noise", "small", "over-fitted")
NAMES = {
    "plain": "as it is",
    "label noise": "with label noise",
    "small": "with few images",
    "over-fitted": "over-fitted",
}


def units(parameters):
    """One unit per setting of pre-training and seed."""
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


def _id(id, setting):
    return id if setting == "plain" else f"{id}-{setting.replace(' ', '-')}"


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
        for id, (column, statement) in said.items():
            about = (_id(id, setting), f"{statement} Pre-training {NAMES[setting]}.", "Figure 9, Section 5.2")
            if values.empty:
                claim = Claim.missing(*about, "fewer than three epochs")
            else:
                claim = Claim.greater(*about, values[column])
            group = statement if setting == "plain" else f"Pre-trained otherwise: {statement}"
            made.append(claim.tagged(group=group, ours=setting != "plain"))
    return made


def finding(table, parameters):
    """What accuracy after transfer does past its best earlier epoch, setting by setting, by their claims."""
    outcomes = {claim.id: claim.outcome for claim in claims(table, parameters)}
    parts = []
    for setting in parameters["settings"]:
        values = changes(table, setting)
        if values.empty:
            continue
        peak = values["peak"].quantile(0.5, interpolation="lower")
        words = {HOLDS: f"falls from epoch {peak} on", CONTRADICTED: "does not fall"}
        word = words.get(outcomes[_id("falls", setting)])
        changed = interval(-values["fall"], "{:+.1f}") if word else f"{-values['fall'].mean():+.1f}"
        parts.append(f"{NAMES[setting]} {changed}, {word or 'undecided'}")
    if not parts:
        return "Fewer than three epochs: there is nothing to compare."
    return (
        f"Carried from {parameters['source']} (for Food-101) to {parameters['target']}, accuracy changes "
        f"from its best earlier epoch to the last by (points): {'; '.join(parts)}."
    )


def key_numbers(table, parameters):
    """The change past the peak, negative where accuracy falls, and that of the source; of two settings."""
    result = []
    for setting in dict.fromkeys((parameters["settings"][0], parameters["settings"][-1])):
        values = changes(table, setting)
        if not values.empty:
            changed, upstream = (
                interval(change, "{:+.1f}") for change in (-values["fall"], values["upstream"])
            )
            what = f"change past the peak, target / source, {NAMES[setting]}"
            result.append(KeyNumber(what, f"{changed} / {upstream}"))
    return result


def reach(table, parameters):
    """In words, setting by setting: the source's best epoch, and how much of it is known by heart."""
    said, open_end = [], False
    for setting in parameters["settings"]:
        means = curves(table, setting, "source_accuracy").mean()
        if len(means) < 2:
            continue
        best, last = means.idxmax(), means.index[-1]
        open_end = open_end or best == last
        learned = curves(table, setting, "source_train_accuracy").mean().iloc[-1]
        where = "at the last epoch" if best == last else f"at epoch {best} of {last}"
        said.append(f"{NAMES[setting]}, {where} ({learned:.0f} % of its images right at the last)")
    if not said:
        return ""
    text = f"Accuracy on the source is at its highest: {'; '.join(said)}."
    return f"{text} What comes past a last epoch that is best, this page cannot say." if open_end else text


def gained(table, parameters):
    """In words, what pre-training to the last epoch adds to accuracy after transfer, against none."""
    parts = []
    for setting in parameters["settings"]:
        frame = curves(table, setting, "accuracy")
        if frame.shape[1] > 1:
            values = frame[frame.columns[-1]] - frame[0]
            parts.append(f"{interval(values, '{:+.1f}')} {NAMES[setting]}")
    if not parts:
        return ""
    added = "; ".join(parts)
    return f"Against none, pre-training to the last epoch adds to accuracy after transfer {added} (points)."
