"""The representations that are compared, and on which linear models are trained (Figure 13)."""

NAMES = {
    "transfer": "pre-trained",
    "original": "inputs",
    "init": "initialisation",
    "hog": "HOG",
    "sift": "SIFT",
    "rbf": "RBF",
}
LEARNED = ("transfer", "hog", "sift", "rbf")  # on which linear models are trained (Figure 13, c and d)
