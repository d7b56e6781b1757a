"""Peaks functions: related and unrelated regression tasks (Imani et al. 2022, Section 7.1).

Six variables A to F are uniform on [0, 1). The peaks function P_{X,Y,Z} is Y where X > 0.5 and Z
elsewhere; its three variables are distinct, so that there are 120 of them. Each variable is coded
by ten radial basis functions.
"""

from dataclasses import dataclass
from itertools import permutations

import torch

VARIABLES = "ABCDEF"
CENTRES = tuple(i / 10 for i in range(10))  # Section 7.1
HEIGHT, STD = 0.5, 0.1  # Section 7.1


@dataclass(frozen=True)
class PeaksFunction:
    """P_{X,Y,Z}; the three fields are distinct letters of ``VARIABLES``."""

    x: str
    y: str
    z: str

    def __post_init__(self):
        names = (self.x, self.y, self.z)
        if len(set(names)) != 3 or any(len(n) != 1 or n not in VARIABLES for n in names):
            raise ValueError(f"a peaks function takes three different letters of {VARIABLES}, not {names}")

    def __call__(self, values):
        """Labels (n,) of ``values`` (n, 6), columns in the order of ``VARIABLES``; not centred."""
        x, y, z = (values[:, VARIABLES.index(name)] for name in (self.x, self.y, self.z))
        return torch.where(x > 0.5, y, z)

    def __str__(self):
        return self.x + self.y + self.z


def sample_variables(n, generator):
    """(n, 6) float64, independent and uniform on [0, 1)."""
    return torch.rand(n, len(VARIABLES), generator=generator, dtype=torch.float64)


def encode(values):
    """Inputs (n, 60) of ``values`` (n, 6), same dtype: ten features per variable, rows of length one.

    Feature 10 i + j is 0.5 exp(−(v_i − j/10)² / (2 · 0.1²)) before the row is scaled.
    """
    centres = torch.tensor(CENTRES, dtype=values.dtype, device=values.device)
    distance = values[:, :, None] - centres  # (n, 6, 10)
    features = HEIGHT * torch.exp(-(distance**2) / (2 * STD**2))
    return torch.nn.functional.normalize(features.flatten(1), dim=1)


def draw_tasks(generator):
    """{"source": S, "related": T1, "unrelated": T2} as Section 7.1 draws them.

    S takes three random variables in random order, T1 the same three in another order (one of the
    five, each equally likely), T2 the other three in random order.
    """
    order = torch.randperm(len(VARIABLES), generator=generator).tolist()
    source, rest = order[:3], order[3:]
    others = [p for p in permutations(source) if p != tuple(source)]
    related = others[int(torch.randint(len(others), (), generator=generator))]
    chosen = {"source": source, "related": related, "unrelated": rest}
    return {task: PeaksFunction(*(VARIABLES[i] for i in p)) for task, p in chosen.items()}
