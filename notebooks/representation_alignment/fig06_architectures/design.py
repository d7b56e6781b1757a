"""The networks of Figures 6, 17 and 18, each a change of one choice of the base."""

from dataclasses import dataclass, replace

SHORT = {"leaky relu": "LeakyReLU", "prelu": "PReLU", "relu": "ReLU", "adam": "Adam", "rmsprop": "RMSprop"}


@dataclass(frozen=True)
class Setting:
    """One network and its training; the defaults are the base of Section 5."""

    depth: int = 4
    width: int = 128
    activation: str = "relu"
    optimiser: str = "adam"
    batch_size: int = 64


BASE = Setting()
FAMILIES = {
    "depths": "depth",
    "widths": "width",
    "activations": "activation",
    "optimisers": "optimiser",
    "batch_sizes": "batch_size",
}


def families(parameters):
    """{field of a setting: {value: Setting}}, the base among each where its value is asked for."""
    return {
        field: {value: replace(BASE, **{field: value}) for value in parameters[name]}
        for name, field in FAMILIES.items()
    }


def settings(parameters):
    """{label: Setting}, each once, in the order of the families; the base is ``base``."""
    made = {}
    for field, members in families(parameters).items():
        for value, setting in members.items():
            made["base" if setting == BASE else label(field, value)] = setting
    return made


def label(field, value):
    """A setting's name: what it changes of the base."""
    word = SHORT.get(value, value)
    return f"{field.replace('_', ' ')} {word}" if isinstance(value, int) else str(word)
