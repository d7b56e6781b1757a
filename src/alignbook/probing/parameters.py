"""Which of a network's parameters are meant: those that train, all of them, or some by name."""

import difflib
from contextlib import contextmanager
from fnmatch import fnmatchcase

from alignbook.errors import on_one_line

TRAINABLE, ALL = "trainable", "all"


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
    for pattern in patterns:
        if not any(fnmatchcase(holder, pattern) for whose in holders.values() for holder in whose):
            known = sorted({holder for whose in holders.values() for holder in whose})
            near = difflib.get_close_matches(pattern, known, 1)
            hint = f"the nearest is {near[0]!r}" if near else f"there are {', '.join(known[:3]) or 'none'}"
            raise ValueError(f"no parameter or module {pattern!r} with parameters; {hint}")
    return [
        name
        for name, whose in holders.items()
        if any(fnmatchcase(holder, pattern) for holder in whose for pattern in patterns)
    ]


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


@contextmanager
def only(model, names):
    """Inside, the parameters of these names require gradients, and no others; then all are as before."""
    before = [(p, p.requires_grad) for p in model.parameters()]
    try:
        require(model, names)
        yield
    finally:
        for parameter, required in before:
            if parameter.requires_grad != required:
                parameter.requires_grad_(required)


def require(model, names):
    """Let the parameters of these names require gradients, and no others."""
    names = set(names)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad != (name in names):
            parameter.requires_grad_(name in names)


def described(parameters):
    """What a column calls the choice: ``trainable``, ``all``, or the names."""
    return parameters if isinstance(parameters, str) else ", ".join(parameters)


def lines(model, parameters):
    """What a reader should know of the parameters that are not meant, a line each."""
    names = set(chosen(model, parameters))
    others = {name: p for name, p in model.named_parameters() if name not in names}
    frozen = sum(p.numel() for p in others.values() if p.is_floating_point())
    total = sum(p.numel() for p in model.parameters())
    remarks = []
    if frozen and names:
        rest = " (parameters='all' takes them)" if parameters == TRAINABLE else ""
        remarks.append(
            f"curvature, slice, tangent kernels and deviation are those of the {described(parameters)} "
            f"parameters: {frozen:,} of {total:,} are left out{rest}"
        )
    return remarks + odd(model)


def odd(model):
    """A line on the parameters that are no real floats, or none."""
    names = [name for name, p in model.named_parameters() if not p.is_floating_point()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"parameters that are not real numbers are left out: {', '.join(names[:3])}{more}"] * bool(names)
