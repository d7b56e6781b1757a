"""Liu et al. (ICLR 2020 submission): the studies of its figures and tables, and what they share."""
