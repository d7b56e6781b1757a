"""How the random networks are drawn: whether every unit has a copy of opposite sign, and the scale κ."""

STARTS = {"doubled": (True, 1.0), "small": (False, 0.1), "large": (False, 1.0)}
