"""How well the networks that are carried to the targets know their own source."""

import pandas as pd

from alignbook.data import colour32, load
from alignbook.training.fine_tune import accuracy_and_loss
from alignbook.training.pretrained import pretrained, source_examples
from companion.jobs import jobs_over
from companion.studies.transferability.shared.targets import start_of

STORED_AS = "transferability/pretrained_source"  # where the tables of these runs are kept


def source_jobs(parameters):
    """One job of :func:`source_accuracy` per seed where the parameter of that name asks for it, else none.

    Every notebook that shows networks pre-trained in this way has the same ones.
    """
    if not parameters["source_accuracy"]:
        return []
    return jobs_over(
        "source-seed{seed}", source_accuracy, start_of(parameters), seed=range(parameters["seeds"])
    )


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
