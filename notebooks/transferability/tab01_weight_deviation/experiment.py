"""Weight deviation from the pre-trained network, and test error, over targets (Table 1, Figure 2).

A network pre-trained on ``source`` is carried to every target. Fixed, it is a feature extractor under a new
classifier; fine-tuned, all of it is trained. The deviation is (1/√n) Σ_l ‖W_l − W_l(0)‖_F, n target images.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import nn

from alignbook.claims import CONTRADICTED, HOLDS, Claim, KeyNumber, interval
from alignbook.data import colour32, load
from alignbook.experiments import Unit
from alignbook.metrics import weight_deviation
from alignbook.seeding import torch_stream
from alignbook.studies.transferability import imagenet_rows, imagenet_source
from alignbook.studies.transferability.targets import name_of, named, start_of, training_of
from alignbook.studies.transferability.tuned import recorded, target, tuned
from alignbook.training.fine_tune import accuracy_and_loss, features_of, fine_tune
from alignbook.training.pretrained import pretrained, source_examples

HEADLINE = "ordering"
SETTINGS = {"fine-tuned": "all layers", "fixed": "last layer"}  # and the weights that the paper follows in it
# Table 1: test error (%) and deviation, (mean, spread) of three runs, in its order.
PRINTED = {
    "Webcam": {"fixed": ((0.45, 0.05), (0.096, 0.007)), "fine-tuned": ((0.45, 0.09), (0.94, 0.10))},
    "Stanford Cars": {"fixed": ((24.2, 0.73), (0.165, 0.003)), "fine-tuned": ((13.95, 0.44), (3.70, 0.26))},
    "Caltech-101": {"fixed": ((6.24, 0.37), (0.059, 0.005)), "fine-tuned": ((4.57, 0.40), (1.22, 0.21))},
    "Synthetic": {"fixed": ((0.81, 0.19), (0.015, 0.003)), "fine-tuned": ((0.75, 0.11), (0.65, 0.12))},
    "CUB-200": {"fixed": ((35.10, 0.50), (0.262, 0.006)), "fine-tuned": ((21.04, 0.36), (2.38, 0.33))},
}
PRINTED_TRAIN = {  # training error (%): fixed, fine-tuned
    "Webcam": ("0.00 ± 0", "0.00 ± 0"),
    "Stanford Cars": ("0.00 ± 0", "0.00 ± 0"),
    "Caltech-101": ("0.00 ± 0", "0.00 ± 0"),
    "Synthetic": ("0.03 ± 0.01", "0.00 ± 0"),
    "CUB-200": ("0.15 ± 0.03", "0.04 ± 0.01"),
}
LATE, EARLY = 3 / 4, 1 / 4  # shares of the steps at which convergence and its speed are read
CONVERGED = 90.0  # percent of the final deviation that must be there after LATE of the steps
PROPORTIONAL = 0.5  # smallest deviation per test error over the largest: above, we call them proportional
ORDERED = "The deviation orders the targets as their test errors do."
MONOTONE = "On every target the deviation grows monotonically."
NEARER = "Targets that look more like the source deviate less."
NEAR = "cifar10"  # photographs of objects, as the source; every other target here is grey, or rendered


def units(parameters):
    """One unit per source, setting, target and seed; Table 2 asks for our own fine-tuned ones, too."""
    made = [
        unit
        for setting in (fine_tuned_units, fixed_units)
        for name in parameters["targets"]
        for unit in setting(name, parameters)
    ]
    return made + imagenet_units(parameters) + source_units(parameters)


def source_units(parameters):
    """One unit of :func:`source_accuracy` per seed where the parameter of that name asks for it, else none.

    Every notebook that shows networks pre-trained in this way has the same ones.
    """
    if not parameters["source_accuracy"]:
        return []
    return _units("source", source_accuracy, start_of(parameters), parameters)


def imagenet_units(parameters):
    """One unit per setting, target and seed of the network trained on ImageNet."""
    fine = imagenet_source.given(parameters, parameters["imagenet_epochs"]) | {
        "learning_rate": parameters["learning_rate"],
    }
    kept = imagenet_source.given(parameters, parameters["fixed_epochs"]) | {
        "learning_rate": parameters["fixed_rate"],
        "hidden": parameters["hidden"],
    }
    settings = (("fine-tuned", imagenet_fine_tuned, fine), ("fixed", imagenet_fixed, kept))
    return [
        unit
        for setting, compute, arguments in settings
        for name in parameters["imagenet_targets"]
        for unit in _units(f"imagenet-{name}-{setting}", compute, named(name) | arguments, parameters)
    ]


def fine_tuned_units(name, parameters):
    """One unit of :func:`fine_tuned` per seed, for the target ``name``."""
    arguments = named(name) | training_of(parameters) | start_of(parameters)
    arguments["learning_rate"] = parameters["learning_rate"]
    return _units(f"{name}-fine-tuned", fine_tuned, arguments, parameters)


def fixed_units(name, parameters):
    """One unit of :func:`fixed` per seed, for the target ``name``."""
    arguments = {
        "examples": parameters["examples"],
        "batch_size": parameters["batch_size"],
        "hidden": parameters["hidden"],
        "steps": parameters["fixed_epochs"] * (parameters["examples"] // parameters["batch_size"]),
        "learning_rate": parameters["fixed_rate"],
    }
    return _units(f"{name}-fixed", fixed, named(name) | arguments | start_of(parameters), parameters)


def _units(name, compute, arguments, parameters):
    return [
        Unit(f"{name}-seed{seed}", compute, arguments | {"seed": seed}) for seed in range(parameters["seeds"])
    ]


def fine_tuned(*, dataset, decay_at, steps, seed, device, report, **given):
    """Fine-tune all layers. Rows of :class:`tuned.Tuned`, and in the last one ``head``: the part of the
    deviation that is the new head's.
    """
    found = tuned(
        dataset,
        start="pretrained",
        steps=steps,
        decay_at=tuple(decay_at),
        record=recorded(steps),
        seed=seed,
        device=device,
        report=report,
        **given,
    )
    table = pd.DataFrame(found.rows).assign(setting="fine-tuned", classifier="linear")
    table.loc[table.index[-1], "head"] = head_deviation(found, given["examples"])
    return table


def source_accuracy(*, source, pretrain_epochs, pretrain_images, width, blocks, seed, device, report):
    """How well the pre-trained network does on its own source: one row, of ``kind`` "source".

    ``source_test_accuracy`` on all test images, ``source_train_accuracy`` on the images of pre-training, in
    percent; ``step`` 0 of what a target makes of the network.
    """
    net = pretrained(
        source,
        epochs=pretrain_epochs,
        images=pretrain_images,
        width=width,
        blocks=blocks,
        seed=seed,
        device=device,
        report=report,
    )
    test = load(source, "test")
    found = {
        "source_test_accuracy": (colour32(test.x), test.y),
        "source_train_accuracy": source_examples(source, pretrain_images, seed=seed)[:2],
    }
    row = {
        name: 100 * accuracy_and_loss(net, *(part.to(device) for part in pair))[0]
        for name, pair in found.items()
    }
    return pd.DataFrame([{"kind": "source", "step": 0} | row])


def head_deviation(found, n):
    """(1/√n) ‖W − W(0)‖_F of the head of a Tuned network."""
    return weight_deviation(found.before, found.after).layers["head.weight"] / math.sqrt(n)


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
    """Fine-tune all layers of the network trained on ImageNet. Columns as :func:`fine_tuned`, the errors at
    the end alone.
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


def series(table, setting, classifier=None):
    """Rows of one setting with a column ``target``: all layers fine-tuned, or the last layer of a classifier.

    classifier : of the fixed network, by default the two-layer one.
    """
    if table.empty:
        return pd.DataFrame({"target": [], "seed": [], "step": [], "deviation": [], "test_error": []})
    kind = classifier or ("two-layer" if setting == "fixed" else "linear")
    rows = table[(table["setting"] == setting) & (table["classifier"] == kind)]
    return rows.assign(target=[name_of(*pair) for pair in zip(rows["dataset"], rows["part"], strict=True)])


def ends(rows):
    """The last row of every target and seed of :func:`series`."""
    return rows.sort_values("step").groupby(["target", "seed"], as_index=False).last()


def ordering(rows):
    """Spearman's rank correlation, over the rows, of deviation and test error; nan where one is constant."""
    return _rank_correlation(rows["deviation"], rows["test_error"])


def _rank_correlation(first, second):
    if len(first) < 3 or first.nunique() < 2 or second.nunique() < 2:
        return math.nan
    return float(stats.spearmanr(first, second).statistic)


def proportion(rows):
    """Smallest deviation per percent of test error over the largest: 1 where they are proportional."""
    if len(rows) < 2 or (rows["test_error"] <= 0).any():
        return math.nan
    ratios = rows["deviation"] / rows["test_error"]
    return float(ratios.min() / ratios.max())


def printed(setting):
    """The printed rows of a setting: columns target, test_error, deviation and their spreads."""
    rows = []
    for name, row in PRINTED.items():
        (error, error_spread), (deviation, deviation_spread) = row[setting]
        rows.append((name, error, error_spread, deviation, deviation_spread))
    columns = ["target", "test_error", "error_spread", "deviation", "deviation_spread"]
    return pd.DataFrame(rows, columns=columns)


def smallest_rise(rows):
    """The smallest rise of the deviation from record to record, in percent of its end, over all targets."""
    rises = [
        100 * np.diff(part["deviation"]).min() / part["deviation"].iloc[-1]
        for _, part in rows.sort_values("step").groupby("target")
    ]
    return min(rises)


def reached(rows, share):
    """Percent of its end that the deviation has after ``share`` of the steps: a Series by target."""
    found = {}
    for name, part in rows.sort_values("step").groupby("target"):
        steps, deviation = part["step"].to_numpy(), part["deviation"].to_numpy()
        found[name] = 100 * np.interp(share * steps[-1], steps, deviation) / deviation[-1]
    return pd.Series(found)


def faster(rows):
    """Rank correlation, over targets, of the final deviation and its share at EARLY, negated."""
    end = rows.sort_values("step").groupby("target")["deviation"].last()
    return -_rank_correlation(end, reached(rows, EARLY)[end.index])


def farther(rows):
    """Mean log2 deviation of the other targets less that of those cut from ``NEAR``; nan without both."""
    near = rows["target"].str.startswith(NEAR)
    logs = np.log2(rows["deviation"])
    return float(logs[~near].mean() - logs[near].mean())


def by_seed(rows, measure):
    """``measure`` of the rows of each seed, list of floats, without seeds in which a target is missing."""
    complete = rows["target"].nunique()
    parts = [part for _, part in rows.groupby("seed") if part["target"].nunique() == complete]
    return [value for value in map(measure, parts) if math.isfinite(value)]


def settled(claim, end):
    """The claim on :func:`ordering`, its interval within what correlations can be.

    Where all seeds rank alike there is no spread: then the correlation is held against every order of the
    targets, two-sided at 5 %.
    """
    claim = claim.within(-1.0, 1.0)
    values = by_seed(end, ordering)
    if len(values) < 3 or np.ptp(values) > 0:
        return claim
    rows = end[end["seed"] == end["seed"].iloc[0]]

    def correlation(errors):
        return stats.spearmanr(rows["deviation"], errors).statistic

    chance = stats.permutation_test((rows["test_error"],), correlation, permutation_type="pairings").pvalue
    outcome = claim.outcome if chance > 0.05 else HOLDS if values[0] > 0 else CONTRADICTED
    test = f"the same in all {len(values)} seeds; against every order of the targets: p = {chance:.3f}"
    return replace(claim, outcome=outcome, test=test)


def correlations(values):
    """Mean of rank correlations with its interval, as text."""
    return interval(values, within=(-1, 1))


def claims(table, parameters):
    """Growth, convergence, and what the deviation goes with; each for both settings, one value per seed.

    All for our own source; with weights trained on ImageNet what their few steps can decide.
    """
    made, everything = [], table
    table = imagenet_rows.own(table)
    for setting, weights in SETTINGS.items():
        rows = series(table, setting)
        end, theirs = ends(rows), printed(setting)
        where = f"{setting}, {weights}"

        def judged(id, statement, source, values, than, group, ours=False, paper=None, setting=setting):
            if not values:
                claim = Claim.missing(f"{id}-{setting}", statement, source, "nothing was measured", paper)
            else:
                claim = Claim.greater(f"{id}-{setting}", statement, source, values, than, paper)
            return claim.tagged(group=group, ours=ours)

        claim = judged(
            "ordering",
            f"Rank correlation, over targets, of deviation and test error is positive ({where}).",
            "Section 3, Table 1",
            by_seed(end, ordering),
            0.0,
            ORDERED,
            paper=ordering(theirs),
        )
        made.append(settled(claim, end))
        spread = 1 / proportion(theirs)
        made.append(
            judged(
                "proportional",
                f"Deviation per test error differs between targets by less than a factor of "
                f"{1 / PROPORTIONAL:.0f}: smallest over largest ({where}).",
                "Section 3",
                by_seed(end, proportion),
                PROPORTIONAL,
                "The deviation is approximately proportional to the test error.",
                ours=True,
                paper=proportion(theirs),
            ).opposed(
                f"the printed deviations per test error (Table 1) differ by a factor of {spread:.0f}"
            )
        )
        made.append(
            judged(
                "monotone",
                f"Smallest rise between two records of any target, in % of the final deviation, is positive "
                f"({where}).",
                "Section 3, Figure 2",
                by_seed(rows, smallest_rise),
                0.0,
                MONOTONE,
            )
        )
        made.append(
            judged(
                "converges",
                f"After three quarters of the steps more than {CONVERGED:.0f} % of the final deviation is "
                f"there, on the slowest target ({where}).",
                "Section 3, Figure 2",
                by_seed(rows, lambda part: reached(part, LATE).min()),
                CONVERGED,
                "On every target the deviation converges.",
                ours=True,
            )
        )
        made.append(
            judged(
                "nearer",
                f"Targets unlike the source (grey, or rendered) deviate more than those cut from {NEAR}: "
                f"difference of the mean log2 ({where}).",
                "Section 3, Figure 2",
                by_seed(end, farther),
                0.0,
                NEARER,
                ours=True,
            )
        )
        made.append(
            judged(
                "faster",
                f"The smaller the final deviation, the more of it is there after a quarter of the steps: "
                f"rank correlation ({where}).",
                "Section 3, Figure 2",
                by_seed(rows, faster),
                0.0,
                "Where the deviation is smaller it converges faster.",
                ours=True,
            ).within(-1.0, 1.0)
        )
    return made + _imagenet_claims(imagenet_rows.trained(everything))


def _imagenet_claims(table):
    """The statements that :func:`claims` groups, from weights trained on ImageNet."""
    made = []
    for setting, weights in SETTINGS.items():
        rows = series(table, setting)
        end = ends(rows)
        where = f"{imagenet_rows.NAME} trained on ImageNet, {setting}, {weights}"
        rank = "Rank correlation, over targets, of deviation and test error is positive"
        rise = "Smallest rise between two records of any target, in % of the end, is positive"
        less = (
            f"Mean log2 deviation of grey or rendered targets less that of those cut from {NEAR} is positive"
        )
        for id, statement, part, measure, source, group in (
            ("ordering", rank, end, ordering, "Section 3, Table 1", ORDERED),
            ("monotone", rise, rows, smallest_rise, "Section 3, Figure 2", MONOTONE),
            ("nearer", less, end, farther, "Section 3, Figure 2", NEARER),
        ):
            named = (f"{id}-imagenet-{setting}", f"{statement} ({where}).", source)
            values = by_seed(part, measure)
            paper = ordering(printed(setting)) if id == "ordering" else None
            if values:
                claim = Claim.greater(*named, values, 0.0, paper)
            else:
                claim = Claim.missing(*named, "nothing was measured", paper)
            claim = settled(claim, end) if id == "ordering" else claim
            made.append(claim.tagged(group=group, ours=id == "nearer"))
    return made


def finding(table, parameters):
    """What the correlations say, in plain text."""
    second, table = imagenet_rows.trained(table), imagenet_rows.own(table)
    if table.empty:
        return "Nothing was measured."
    said, signs = [], set()
    for setting in SETTINGS:
        rows = ends(series(table, setting))
        values = by_seed(rows, ordering)
        if values:
            said.append(f"{correlations(values)} {setting} (printed {ordering(printed(setting)):.1f})")
            signs.add(np.sign(np.mean(values)))
    if not said:
        return "Too few targets to rank."
    words = {(1.0,): "farther where the test error is larger", (-1.0,): "less far where it is larger"}
    found = words.get(
        tuple(signs), "farther where the test error is larger in one setting and not in the other"
    )
    count = len(table[["dataset", "part"]].dropna().drop_duplicates())
    text = (
        f"Pre-trained on {parameters['source']} (for ImageNet), weights move {found}: "
        f"rank correlation over {count} targets {', '.join(said)}."
    )
    if len(second):
        found = [correlations(by_seed(ends(series(second, setting)), ordering)) for setting in SETTINGS]
        count = len(second[["dataset", "part"]].drop_duplicates())
        text += f" {imagenet_rows.NAME} from ImageNet, over {count}: {', '.join(found)}."
    return text


def key_numbers(table, parameters):
    """Both rank correlations and how far deviation and error are from proportional, beside Table 1's own.

    Those of our own source.
    """
    table = imagenet_rows.own(table)
    numbers = [
        KeyNumber(
            f"rank correlation of deviation and test error, {setting}",
            correlations(by_seed(ends(series(table, setting)), ordering)),
            f"{ordering(printed(setting)):.1f} (Table 1's own, {len(PRINTED)} targets)",
        )
        for setting in SETTINGS
    ]
    spreads = [1 / value for value in by_seed(ends(series(table, "fine-tuned")), proportion)]
    return [
        *numbers,
        KeyNumber(
            "deviation per test error, largest over smallest, fine-tuned",
            interval(spreads, "{:.1f}"),
            f"{1 / proportion(printed('fine-tuned')):.1f} (Table 1's own)",
        ),
    ]
