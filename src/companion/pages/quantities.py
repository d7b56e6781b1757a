"""Measured times and sizes as a reader takes them in."""


def seconds(value):
    """``0.0123`` as ``12.3 ms``; three significant digits in min, s, ms or µs."""
    value = float(f"{value:.3g}")
    if value >= 1:
        return f"{value / 60:.3g} min" if value >= 600 else f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"


def memory(count):
    """A number of bytes in MiB or GiB, three significant digits; ``unknown`` for None."""
    if count is None:
        return "unknown"
    mib = count / 2**20
    return f"{mib / 1024:.3g} GiB" if mib >= 999.5 else f"{mib:.3g} MiB"


def factor(value):
    """A ratio: ``23`` or ``2.3`` or ``0.23``."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def agreement(answer):
    """Distance of two answers and its limit, {"error", "tolerance", "agrees", "differs"} of a comparison."""
    error = "undefined" if answer["error"] is None else _short(f"{answer['error']:.1e}")
    if answer["agrees"] is None:
        return f"{error} ({answer['differs']})"
    limit = _short(f"{answer['tolerance']:.0e}")
    return f"{error} (at most {limit})" + ("" if answer["agrees"] else " DISAGREE")


def reached(aim):
    """What was measured for an aim of a comparison, {"quantity", "measured", "lacking"}."""
    value = aim["measured"]
    if value is None:
        return "unknown"
    if aim.get("lacking"):
        return f"{reached(aim | {'lacking': None})}, without {aim['lacking']}"
    if aim["quantity"] == "memory":
        return memory(value)
    if aim["quantity"] in ("faster", "floor"):
        return f"{factor(value)} times" + (" the floor" if aim["quantity"] == "floor" else "")
    return f"{value:.2g}" + ("" if aim["quantity"] == "error" else " times")


def versioned(peer):
    """A contender's name and version: ``NNGeometry 0.4``, ``full SVD (numpy 2.4.6)``."""
    if peer["name"].lower() == peer["package"]:
        return f"{peer['name']} {peer['version']}"
    return f"{peer['name']} ({peer['package']} {peer['version']})"


def _short(power):
    """``1e-04`` as ``1e-4``."""
    return power.replace("e-0", "e-")
