"""The synthesis: the studies of its figures and tables, and what they share."""
