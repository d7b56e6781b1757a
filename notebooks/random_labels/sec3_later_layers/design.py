"""Which layers of a pre-trained SimpleCNN are handed on; the others are drawn anew."""

SCRATCH, FIRST, EARLY, LATE, ALL = "scratch", "first", "early", "late", "all"
STARTS = {
    SCRATCH: "none",
    FIRST: "first convolution",
    EARLY: "all convolutions",
    LATE: "dense layer alone",
    ALL: "all layers",
}
KINDS = ("real", "random")  # labels of the second task
