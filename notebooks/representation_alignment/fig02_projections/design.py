"""The panels of Figure 2, and how many top singular vectors are looked at."""

PANELS = {
    "a": "inputs, real labels",
    "b": "inputs, shuffled labels",
    "c": "before training, shuffled labels",
    "d": "after training, shuffled labels",
}
TOP = 10  # singular vectors; fixed before any run
TOPS = (1, TOP, 100)
