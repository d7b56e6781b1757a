"""What the filters of the first layer are at the start of the second task."""

SCRATCH, FILTERS, COVARIANCE = "scratch", "filters", "covariance"
DIAGONAL, ROTATED = "diagonal", "rotated"
STARTS = {
    SCRATCH: "from scratch",
    FILTERS: "pre-trained filters",
    COVARIANCE: "drawn from their covariance",
    DIAGONAL: "V f² Vᵀ alone",
    ROTATED: "same spectrum, random basis",
}
