"""Rows for Weights & Biases, whose own step moves on with every call of ``log`` and never back."""

AXIS = "alignbook/step"


class Rows:
    """A tracker for a recorder's ``log_to``: its rows have an axis of their own, the step of training.

    tracker : the module ``wandb`` or one of its runs.
    late : how many rows of the past were not sent. To send these would move the run's step past those that
        the reader's loop is about to log.
    """

    def __init__(self, tracker):
        self.tracker, self.defined, self.past, self.late = tracker, False, True, 0

    def log_metrics(self, values, step):
        if not self.defined:  # before wandb.init() it cannot be
            self.tracker.define_metric(AXIS)
            self.tracker.define_metric("alignbook/*", step_metric=AXIS)
            self.defined = True
        run = getattr(self.tracker, "run", None) or self.tracker
        values = {**values, AXIS: step}
        if step >= getattr(run, "step", 0):
            self.tracker.log(values, step=step)
        elif self.past:
            self.late += 1
        else:  # a loop that logs without step=, more than once a step
            self.tracker.log(values)
