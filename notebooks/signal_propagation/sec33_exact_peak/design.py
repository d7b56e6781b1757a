"""How the images of Figure 3 are prepared, and the κ at which the two losses are compared. No torch."""

AS_IN_TABLES, CROPPED = "tables", "crops and flips"  # settings of the networks that have been trained
KAPPAS = (0.5, 1.0, 2.0)  # the hypothesis says that the losses are about equal: 1
KAPPA = 1.0
