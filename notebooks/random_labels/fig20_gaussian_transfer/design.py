"""The three settings of Figure 20 (E.1)."""

# Inputs' dimension and smallest variance, both hidden widths, number of inputs, as printed.
PRINTED = {
    "left": (10, 1.0, 2048, 256, 10_000),
    "middle": (30, 0.1, 2048, 256, 10_000),
    "right": (30, 0.1, 256, 256, 2_000),
}
SAID = {"left": "only falls", "middle": "rises, then falls", "right": "only rises"}


def settings(parameters):
    """{panel: (dimension, smallest variance, first width, second width, inputs)} of ``parameters``."""
    wide = (parameters["first_hidden"], parameters["hidden"], parameters["inputs"])
    equal = (parameters["hidden"], parameters["hidden"], parameters["inputs_right"])
    return {
        "left": (parameters["dimension_left"], 1.0, *wide),
        "middle": (parameters["dimension"], 0.1, *wide),
        "right": (parameters["dimension"], 0.1, *equal),
    }
