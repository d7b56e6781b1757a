"""What computing and reading share: the two representations, and what rounding may leave."""

REPRESENTATIONS = {"init": "random features", "transfer": "learned features"}
TOLERANCE = 1e-10  # of max(‖y‖², the loss): what rounding may leave; fixed before any run
