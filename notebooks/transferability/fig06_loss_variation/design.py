"""The two ways of choosing the step along the gradient, and what they are."""

PROTOCOLS = {"scaled": "steps scaled by the gradient", "fixed": "steps of fixed length"}
