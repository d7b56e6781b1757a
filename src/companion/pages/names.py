"""How a reader calls the data sets that parameters name: ``CIFAR-10``, not ``cifar10``."""

import re

NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "fashion_mnist": "Fashion-MNIST", "mnist": "MNIST"}
HALVES = {"natural": "animals of ", "artificial": "objects of ", None: ""}
_KNOWN = re.compile(r"(?<![\w./-])(cifar100?|(?:fashion_)?mnist)(?:-(natural|artificial))?(?![\w/-]|\.\w)")


def spoken(text):
    """``text`` with the names of data sets as prose has them; other words stay, names of files, too."""
    return _KNOWN.sub(lambda found: HALVES[found[2]] + NAMES[found[1]], text)


def speak(figure):
    """Have a matplotlib ``figure`` call data sets as :func:`spoken` does, on its axes, too."""
    from matplotlib.text import Text

    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            written = [label.get_text() for label in axis.get_ticklabels()]
            better = [spoken(text) for text in written]
            if better != written:
                axis.set_ticks(axis.get_ticklocs(), better)
    for text in figure.findobj(Text):
        text.set_text(spoken(text.get_text()))
