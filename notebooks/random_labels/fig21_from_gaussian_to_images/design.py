"""The steps from the ideal case to images: {name: (inputs, stride of both convolutions)}."""

STEPS = {
    "one covariance": ("gaussian", 3),
    "one per position": ("positions", 3),
    "permuted patches": ("permuted", 3),
    "images, stride 3": ("images", 3),
    "images, stride 2": ("images", 2),
    "images, stride 1": ("images", 1),
}
IDEAL = "one covariance"
