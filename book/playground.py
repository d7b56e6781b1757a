"""The digits of the page "Playground", written into it: its scripts fetch no file."""

import json

import numpy as np

EACH = 20  # images of a class
SCRIPT = '<script type="application/json" id="playground-digits">{}</script>\n'


def write(pages):
    """Write the data that ``playground.md`` includes into the folder ``pages``."""
    (pages / "playground-digits.txt").write_text(SCRIPT.format(json.dumps(digits())), encoding="utf-8")


def digits():
    """{"pixels", "labels"}: scikit-learn's first digits of each class, a letter per pixel from "a" for 0."""
    from sklearn.datasets import load_digits  # takes a second

    images, labels = load_digits(return_X_y=True)
    kept = np.concatenate([np.flatnonzero(labels == digit)[:EACH] for digit in range(10)])
    pixels = (images[kept].astype(np.uint8) + ord("a")).tobytes().decode("ascii")
    return {"pixels": pixels, "labels": "".join(map(str, labels[kept]))}
