"""How every figure looks: vector output, colour-blind-safe colours, one colour per series."""

import matplotlib as mpl

# Okabe and Ito's palette; a series keeps its colour on every page.
COLOURS = {
    "random": "#D55E00",
    "real": "#0072B2",
    "random basis": "#7F7F7F",
    "floor": "#009E73",
    "original": "#E69F00",
    "init": "#0072B2",
    "transfer": "#009E73",
    "paper": "#000000",
    "theory": "#CC79A7",
    "mnist": "#0072B2",
    "fashion_mnist": "#009E73",
    "cifar10": "#D55E00",
}
SEQUENCE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F"]


def apply():
    """Set matplotlib's defaults for the book. Figures: 7 inches wide, wider than tall."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 3.4),
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.constrained_layout.use": True,
            "font.size": 11.5,  # read on a phone, where seven inches become three and a half
            "axes.titlesize": 11.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=SEQUENCE),
            "legend.frameon": False,
            "svg.hashsalt": "alignbook",
            "svg.fonttype": "path",
        }
    )
