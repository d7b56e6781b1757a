"""A small ResNet-18 on CIFAR-10, at its start and trained.

``python probe_example.py`` takes a quarter of an hour on a busy machine.
"""

import torch

from alignbook import load
from alignbook.training.deep import ResNet18
from alignbook.training.loop import module_step, train
from alignbook.training.nets import he_normal_

EPOCHS, IMAGES = 5, 10_000


def start():
    net = ResNet18((3, 32, 32), 10, width=32)
    return he_normal_(net, 1.0, torch.Generator().manual_seed(0))


def trained():
    net = start()
    net.load_state_dict(torch.load("trained.pt", weights_only=True))
    return net


if __name__ == "__main__":
    net = start().to(memory_format=torch.channels_last)
    data = load("cifar10", n=IMAGES)
    settings = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4}
    optimiser = torch.optim.SGD(net.parameters(), **settings)
    step = module_step(net, data.x, data.y, optimiser)
    steps = EPOCHS * (IMAGES // 100)
    train(
        step,
        IMAGES,
        batch_size=100,
        steps=steps,
        rate=lambda k: 0.1 * (1 - k / (steps + 1)),
        generator=torch.Generator().manual_seed(0),
        report=lambda done, text: print(text, end="\r"),
    )
    torch.save(net.state_dict(), "trained.pt")
