"""VGG-16 pre-trained on random labels and rescaled (Maennel et al. 2020, A.2 to A.5).

What Figures 1, 6 and 7 share beside :mod:`.downstream`: the network and pre-training with rescaling, and
training downstream for a part of its epochs. Its settings: :mod:`.vgg_settings`.
"""

import pandas as pd
import torch

from alignbook.seeding import torch_stream
from alignbook.training.deep import VGG
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_
from alignbook.training.train import accuracy, fit
from alignbook.training.transfer import layer_norms, rescale_

MOMENTUM = 0.9  # A.3


def network(shape, classes, *, width, init_scale, seed, name):
    """VGG-16 for images of ``shape`` (C, H, W), He's initialisation times ``init_scale``, on the CPU.

    ``name`` names its random stream under ``seed``.
    """
    net = VGG(16, shape, classes, width=width)
    return he_normal_(net, init_scale, torch_stream(seed, "vgg", name))


def pretrained(
    x, y, classes, *, width, init_scale, learning_rate, epochs, batch_size, seed, at=(), on=None, report=None
):
    """A VGG-16 trained on images ``x`` (n, C, H, W) with labels ``y`` (n,), and rescaled (A.3, A.4).

    ``at``, ``on``, ``report`` as :func:`alignbook.training.train.fit` has them; steps: whole batches of
    ``epochs``. Afterwards each layer gets the ℓ₂ norm that it had at initialisation; the head is still the
    upstream one. Raises Diverged.
    """
    net = network(x.shape[1:], classes, width=width, init_scale=init_scale, seed=seed, name="upstream")
    net = net.to(x.device)
    norms = layer_norms(net)
    fit(
        net,
        x,
        y,
        steps=epochs * (len(x) // batch_size),
        batch_size=batch_size,
        learning_rate=learning_rate,
        generator=torch_stream(seed, "vgg", "upstream batches"),
        at=at,
        on=on,
        report=report,
    )
    return rescale_(net, norms)


def first_epochs(
    net, x, y, *, epochs, stops, points, batch_size, learning_rate, generator, report=None, extra=None
):
    """Learning curve of the first ``stops`` of ``epochs`` epochs of training (A.3), for any network.

    The rate is divided by 3 at thirds of ``epochs``, whether or not training comes that far. Rows ``epoch``
    and ``accuracy`` on all of ``x`` (0..1): before training, about ``points`` times evenly, in the end.
    extra : ``extra(net)`` gives further columns. Raises Diverged.
    """
    per_epoch = len(x) // batch_size
    last, steps = min(stops, epochs), epochs * per_epoch
    record = {*range(0, last, max(1, last // points)), last}
    net.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), lr=learning_rate, momentum=MOMENTUM)
    rows = []

    def on(step):
        row = {"epoch": step // per_epoch, "accuracy": accuracy(net, x, y)}
        rows.append(row | (extra(net) if extra else {}))

    train(
        module_step(net, x, y, optimiser),
        len(x),
        batch_size=batch_size,
        steps=last * per_epoch,
        rate=lambda count: learning_rate / 3 ** (3 * (count - 1) // steps),
        last_batch="drop",
        generator=generator,
        device=x.device,
        at=[epoch * per_epoch for epoch in record],
        on=on,
        report=report,
    )
    return pd.DataFrame(rows)
