"""Maennel et al. 2020: the studies of its figures and tables, and what they share."""
