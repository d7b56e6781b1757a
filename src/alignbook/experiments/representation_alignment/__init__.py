"""Imani, Hu and White 2022, Representation alignment in neural networks."""
