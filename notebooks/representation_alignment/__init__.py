"""Imani, Hu and White 2022: the studies of its figures and tables, and what they share."""
