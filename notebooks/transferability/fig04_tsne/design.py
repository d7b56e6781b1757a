"""What networks start from, and how that is made."""

# The start's name: how it is made. The second source is a part of the first (in place of Places).
STARTS = {
    "pretrained": ("pretrained", "all"),
    "pretrained on a part": ("pretrained", "artificial"),
    "random, its own": ("scratch", "all"),
    "random, shared": ("shared", "all"),
}
# The same for EfficientNet-Lite0, which has no source like Places.
IMAGENET_STARTS = {"pretrained": "pretrained", "random, its own": "scratch"}
