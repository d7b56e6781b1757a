"""The domains, and what a network has gone through before its alignment is measured."""

DOMAINS = {"street": "street digits", "handwritten": "handwritten digits", "coarse": "coarse digits"}
NONE, STATISTICS, LABELS = "none", "statistics", "labels"
ARMS = {NONE: "untouched", STATISTICS: "statistics alone", LABELS: "random labels"}
KEPT, TARGET = "kept", "target"  # batch norm as the arm has left it, or with the target's own statistics
