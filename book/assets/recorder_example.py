"""A small convolutional network on digits, five instruments while it trains: half a minute on one core."""

import numpy as np
import torch
from torch import nn

import alignbook

torch.manual_seed(0)
train = alignbook.load("digits", "train")
test = alignbook.load("digits", "test")
filters = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU()]
dense = [nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)]
net = nn.Sequential(*filters, *dense)
optimiser = torch.optim.SGD(net.parameters(), lr=0.02)
turns = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 9, 9)))[0]


def random_axes(model, inputs, targets):
    """Misalignment of the filters with random axes: what to compare with."""
    filters = torch.cov(model[0].weight.flatten(1).double().T)
    axes = [turn @ np.diag(range(1, 10)) @ turn.T for turn in turns]
    return np.mean([alignbook.misalignment(each, filters) for each in axes])


instruments = ["misalignment", random_axes, "alignment"]
instruments += ["tangent", "curvature"]
recorder = alignbook.Recorder((test.x, test.y), instruments, share=None)
for n in range(2001):
    recorder.step(net, n)
    some = torch.randint(len(train.x), (32,))
    loss = nn.functional.cross_entropy(net(train.x[some]), train.y[some])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
recorder.table.to_csv("recorder-example.csv", index=False)
