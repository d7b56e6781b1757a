"""How a network starts downstream: {start: its name on the page}, in the order of the figure's legend."""

STARTS = {
    "scratch": "from scratch",
    "pretrained": "pre-trained",
    "unscaled": "pre-trained, no rescaling",
    "ell1": "pre-trained, ℓ1 norms",
    "conv": "pre-trained convolution",
    "no bias": "pre-trained convolution, no bias",
    "covariance": "covariance",
}
