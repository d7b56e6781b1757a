"""What Figure 8 compares: turned images, the layers followed, and the parts that are crossed."""

UPSIDE_DOWN = "upside-down"
KERNELS = {"conv1": "ψ₁", "conv2": "ψ₂", "dense1": "W"}  # the layers of Figure 8 (a)
PARTS = ("natural", "artificial")
