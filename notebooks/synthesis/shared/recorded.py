"""The steps at which the chapter's networks are measured."""


def recorded(steps):
    """Octaves of steps up to 8 and half-octaves from there: 0, 1, 2, 4, 8, 11, 16, 23, … and ``steps``."""
    wanted = {0, 1, 2, 4, steps, *(round(2 ** (half / 2)) for half in range(6, 2 * steps.bit_length()))}
    return sorted(step for step in wanted if step <= steps)
