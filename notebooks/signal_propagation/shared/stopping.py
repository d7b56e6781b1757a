"""When the paper ends training; no torch."""

GOAL = 0.1  # training loss at which the paper stops (Figure 4)
