"""What the figures of this chapter share: curves with a band over the seeds, and legends."""


def band(ax, frame, colour, **how):
    """Means over the seeds of a (seeds × x) ``frame`` as a line, smallest to largest as a band."""
    if len(frame):
        ax.plot(frame.columns, frame.mean(), color=colour, **how)
        ax.fill_between(frame.columns, frame.min(), frame.max(), color=colour, alpha=0.25, lw=0)


def legend_below(fig, ax, ncols=3):
    """What is named in ``ax`` as a legend below the whole ``fig``; none where nothing was drawn."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        fig.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize=10)
