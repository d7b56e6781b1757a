"""Networks, how they are trained and initialised, and how they are transferred."""
