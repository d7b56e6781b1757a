"""The domains that Figure 16 goes from and to, those with most images first: they have the same classes."""

DOMAINS = {
    "office31": {"amazon": "Amazon", "webcam": "Webcam", "dslr": "DSLR"},
    "digits": {"street": "street digits", "handwritten": "handwritten digits", "coarse": "coarse digits"},
}
NONE = "none"  # the network that has seen no source
