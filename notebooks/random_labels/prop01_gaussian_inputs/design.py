"""The conditions under which Proposition 1 is tried: where it holds, and where one assumption is missing."""

# {condition: how a sentence calls it}, except for the larger widths
WORDS = {
    "plain": "gradient descent",
    "squared": "squared error",
    "repeated": "three equal eigenvalues",
    "adam-on-axes": "Adam, data along the axes",
    "adam": "Adam",
    "exponentiated": "exponentiated gradient",
    "stretched": "stretched initial weights",
    "shifted": "inputs with a mean",
}
SQUARED_RATE = 0.2  # step sizes that fit the labels in a trial on other seeds
ADAM_RATE = 0.01
EXPONENTIATED_RATE = 1.0
PRODUCT = 1e-3  # exponentiated gradient: w = u - v with u v = PRODUCT² / 4, both positive
EQUAL = 3  # how many of the smallest variances "repeated" replaces by their geometric mean


def wide(width):
    """The condition of networks of this width."""
    return f"width-{width}"


def one(width, inputs):
    """The condition of single networks of this width on so many inputs."""
    return f"one-{width}-{inputs}"


def single(parameters):
    """{condition: (width, inputs)} of single networks: wider at few inputs, then more inputs at one width."""
    few, width = parameters["inputs"], parameters["wide"][-1]
    pairs = [(each, few) for each in parameters["alone_widths"]]
    pairs += [(width, each) for each in parameters["alone_inputs"]]
    return {one(*pair): pair for pair in pairs}


def blocks(variances):
    """Dimensions of the eigenspaces of diag(variances), in order; equal variances stand side by side."""
    sizes = []
    for before, variance in zip([None, *variances], variances, strict=False):
        if variance == before:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes


def repeated(variances):
    """``variances`` with the smallest ``EQUAL`` replaced by their geometric mean."""
    first = 1.0
    for variance in variances[:EQUAL]:
        first *= variance ** (1 / EQUAL)
    return [first] * EQUAL + list(variances[EQUAL:])


def settings(parameters):
    """{condition: what differs from ``plain``, as arguments of ``experiment.compute``}."""
    return {
        "plain": {},
        "squared": {"loss": "squared error", "rate": SQUARED_RATE},
        **{
            wide(width): {"width": width, "networks": parameters["networks_wide"]}
            for width in parameters["wide"]
        },
        "repeated": {"variances": repeated(parameters["variances"])},
        "adam-on-axes": {"optimiser": "adam", "rate": ADAM_RATE, "turned": False},
        "adam": {"optimiser": "adam", "rate": ADAM_RATE},
        "exponentiated": {"optimiser": "exponentiated"},
        "stretched": {"stretch": parameters["stretch"]},
        "shifted": {"shift": parameters["shift"]},
    } | {
        name: {
            "width": width,
            "inputs": inputs,
            "networks": parameters["alone_networks"],
            "steps": parameters["alone_steps"],
        }
        for name, (width, inputs) in single(parameters).items()
    }
