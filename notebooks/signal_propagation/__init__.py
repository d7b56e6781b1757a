"""Lou, Mingard, Nam and Hayou 2022: the studies of its figures and tables, and what they share."""
