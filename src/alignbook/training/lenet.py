"""LeNet (LeCun et al. 1998) on colour images of 32×32 pixels."""

from torch import nn

from .nets import he_normal_


class LeNet(nn.Module):
    """Maps images (n, 3, 32, 32) to logits (n, classes).

    Convolutions 5×5 with 6 and 16 kernels (``conv1``, ``conv2``: ψ₁ and ψ₂ of the ICLR 2020 submission), each
    with ReLU and 2×2 max pooling; dense layers of 120 (``dense1``) and 84 units with ReLU; ``head``.
    generator : CPU torch.Generator from which all weights are drawn, He normal; None leaves PyTorch's own.
    """

    def __init__(self, classes, generator=None):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.dense1 = nn.Linear(16 * 5 * 5, 120)
        self.dense2 = nn.Linear(120, 84)
        self.head = nn.Linear(84, classes)
        if generator is not None:
            he_normal_(self, 1.0, generator)

    def features(self, x):
        """What the head reads, (n, 84)."""
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.dense2(self.dense1(x.flatten(1)).relu()).relu()

    def forward(self, x):
        return self.head(self.features(x))
