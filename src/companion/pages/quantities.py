"""Measured times and ratios as a reader takes them in."""


def seconds(value):
    """``0.0123`` as ``12.3 ms``; three significant digits in min, s, ms or µs."""
    value = float(f"{value:.3g}")
    if value >= 1:
        return f"{value / 60:.3g} min" if value >= 600 else f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"


def factor(value):
    """A ratio: ``23`` or ``2.3`` or ``0.23``."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"
