"""How many of the first seeds had been seen when readings were chosen."""

WIDTH, SEEN = 8, 3  # of profile quick's networks; those of another width had not been seen


def seen(parameters):
    """Number of seeds on which nothing that was chosen later is judged, a statement's ``seen``."""
    return SEEN if parameters["width"] == WIDTH else 0
