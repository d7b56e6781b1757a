"""What Appendix C says of optimisers and Proposition 2 of the misalignment M."""

import math

ROUNDING = 1e-6  # relative; what passes for the rounding of some hundred steps in float64
OPTIMISERS = {  # Appendix C: name and whether its steps are said to commute with the symmetries
    "gradient descent": True,
    "momentum": True,
    "Nesterov": True,
    "weight decay": True,
    "AdaGrad": True,
    "Adam": True,
    "L1 penalty": False,
}
PROPERTIES = {  # Proposition 2 and what follows it: what is measured of each, what it is to be, margin
    "1": ("not negative: smallest infimum, by descent over all aligned Σ, below zero by", 0.0, 1e-9),
    "2a": ("0 if B is aligned with A: largest M of aligned pairs", 0.0, 1e-9),
    "2b": ("0 only if aligned: share of pairs, turned by 1/100, with M above rounding", 1.0, 0.0),
    "3": ("continuous in B: largest change of M when B changes by a millionth", 0.0, 1e-3),
    "4": ("the same in turned coordinates: largest relative difference", 0.0, 1e-9),
    "5": ("the same for multiples of B: largest relative difference", 0.0, 1e-9),
    "6": ("only A's eigenspaces count: largest relative difference", 0.0, 1e-9),
    "7": ("closed form against the infimum by descent: largest relative difference", 0.0, 1e-6),
    "A": ("not continuous in A: jump of M(diag(1, λ), diag(1, 2)) at λ = 1", math.sqrt(4.5) - 2, 1e-9),
}
