"""What was measured as a terminal shows it."""

from companion.pages import quantities


def memory(count):
    """A number of bytes in MiB or GiB, three significant digits; ``unknown`` for None."""
    if count is None:
        return "unknown"
    mib = count / 2**20
    return f"{mib / 1024:.3g} GiB" if mib >= 999.5 else f"{mib:.3g} MiB"


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
        return f"{quantities.factor(value)} times" + (" the floor" if aim["quantity"] == "floor" else "")
    return f"{value:.2g}" + ("" if aim["quantity"] == "error" else " times")


def versioned(peer):
    """A contender's name and version: ``NNGeometry 0.4``, ``full SVD (numpy 2.4.6)``."""
    if peer["name"].lower() == peer["package"]:
        return f"{peer['name']} {peer['version']}"
    return f"{peer['name']} ({peer['package']} {peer['version']})"


def _short(power):
    """``1e-04`` as ``1e-4``."""
    return power.replace("e-0", "e-")
