"""The two networks of Figure 7 and their last hidden layer."""

CASES = {"positive": "1 and 2", "negative": "3 and 4"}  # Figure 7 -> experiments of Figure 1
LAST = 13  # the last hidden layer of VGG-16
