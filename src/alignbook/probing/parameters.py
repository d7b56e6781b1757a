"""Which of a network's parameters are meant: those that train, all of them, or some by name."""

import difflib
from fnmatch import fnmatchcase

from alignbook.errors import on_one_line

TRAINABLE, ALL = "trainable", "all"


def some(names):
    """The first three names, and how many more there are."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def matches(name, patterns):
    """Whether a name is among ``patterns``, names and patterns; None: all are."""
    return patterns is None or any(name == one or fnmatchcase(name, one) for one in patterns)


def require_known(patterns, names, what):
    """Raise ValueError, with the nearest name, for a pattern that none of the names matches."""
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in names):
            near = difflib.get_close_matches(pattern, names, 1)
            hint = f"the nearest is {near[0]!r}" if near else f"there are {some(list(names)) or 'none'}"
            raise ValueError(f"no {what} {pattern!r}; {hint}")


def chosen(model, parameters=TRAINABLE):
    """Names of the parameters that are meant, in the network's order.

    parameters : ``"trainable"``, those that require gradients; ``"all"``; or names and patterns of
    parameters or of the modules that hold them, as in ``["head", "blocks.0.*"]``.
    Only real floats are among them. Raises ValueError for a name that nothing has, with the nearest one.

    >>> from torch import nn
    >>> chosen(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "1")
    ['1.weight', '1.bias']
    """
    patterns = checked(parameters)
    named = {name: p for name, p in model.named_parameters() if p.is_floating_point()}
    if patterns is None:
        return [name for name, p in named.items() if parameters == ALL or p.requires_grad]
    holders = {name: _holders(name) for name in named}
    known = dict.fromkeys(holder for whose in holders.values() for holder in whose)
    require_known(patterns, list(known), "parameter or module with parameters")
    return [name for name, whose in holders.items() if any(matches(holder, patterns) for holder in whose)]


def checked(parameters):
    """The patterns as a list, or None for ``"trainable"`` and ``"all"``. Raises ValueError, one line."""
    if isinstance(parameters, str):
        return None if parameters in (TRAINABLE, ALL) else [parameters]
    patterns = list(parameters) if isinstance(parameters, list | tuple | set) else []
    if not patterns or not all(isinstance(part, str) for part in patterns):
        shown = on_one_line(repr(parameters))[:60]
        raise ValueError(
            f"parameters must be 'trainable', 'all', or names of parameters or modules, not {shown}"
        )
    return patterns


def _holders(name):
    """The parameter's name and those of the modules around it."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts) + 1)]


def require(model, names):
    """Let the parameters of these names require gradients, and no others."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad != (name in names):
            parameter.requires_grad_(name in names)


def described(parameters):
    """What a column calls the choice: ``trainable``, ``all``, or the names."""
    return parameters if isinstance(parameters, str) else ", ".join(parameters)


def lines(model, parameters):
    """What a reader should know of the parameters that are not meant, a line each."""
    names = set(chosen(model, parameters))
    named = dict(model.named_parameters())
    left = sum(p.numel() for name, p in named.items() if name not in names and p.is_floating_point())
    odd = [name for name, p in named.items() if not p.is_floating_point()]
    remarks = []
    if left and names:
        rest = " (parameters='all' takes them)" if parameters == TRAINABLE else ""
        remarks.append(
            f"curvature, slice, tangent kernels and deviation are those of the {described(parameters)} "
            f"parameters: {left:,} of {sum(p.numel() for p in named.values()):,} are left out{rest}"
        )
    if odd:
        remarks.append(f"parameters that are not real numbers are left out: {some(odd)}")
    return remarks
