"""What figures of this chapter draw alike: a curve over the seeds."""


def line(ax, frame, colour, style="-", spread="error", **how):
    """The mean of a (seeds × x) ``frame`` over its columns, in a band; how : of ``ax.plot``, e.g. ``label``.

    spread : ``error``, the standard error of the mean, or ``range``, from the smallest seed to the largest
    """
    mean, error = frame.mean(), frame.sem().fillna(0.0)
    low, high = (frame.min(), frame.max()) if spread == "range" else (mean - error, mean + error)
    ax.plot(frame.columns, mean, style, color=colour, **how)
    ax.fill_between(frame.columns, low, high, color=colour, alpha=0.22, lw=0)
