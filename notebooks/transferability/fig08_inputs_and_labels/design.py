"""What Figure 8 compares: turned images, the layers followed, and the parts that are crossed."""

UPSIDE_DOWN = "upside-down"
KERNELS = {"conv1": "ψ₁", "conv2": "ψ₂", "dense1": "W"}  # the layers of Figure 8 (a)
PARTS = ("natural", "artificial")
SEEN = 8  # seeds of (b) that were seen before it was run as it stands
