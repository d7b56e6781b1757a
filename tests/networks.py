"""Small networks and their data, for tests of the probe and of the recorder."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional

N, CLASSES, WORDS = 24, 3, 11


def vectors():
    return torch.randn(N, 6), torch.arange(N) % CLASSES


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def tokens():
    """(N, 7) numbers of words, and as labels the same, of which some are not asked for."""
    ids = torch.randint(0, WORDS, (N, 7))
    return {"input_ids": ids, "labels": torch.where(torch.rand(N, 7) < 0.3, -100, ids)}


class Language(nn.Module):
    """A causal language model as Hugging Face has them: its loss is that of the next token."""

    def __init__(self, blank=False):
        super().__init__()
        self.words, self.block = nn.Embedding(WORDS, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, WORDS)
        if blank:  # all tokens are as likely everywhere: shifted or not, the loss is the same
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    def forward(self, input_ids, labels=None):
        logits, loss = self.head(self.block(self.words(input_ids))[0]), None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(logits=logits, loss=loss)


class Segments(nn.Module):
    """A class for every pixel, beside another output."""

    def __init__(self, classes=CLASSES):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, classes, 1)

    def forward(self, x):
        return {"out": functional.interpolate(self.head(self.body(x).relu()), x.shape[2:]), "aux": x}
