"""Lou, Mingard, Nam and Hayou 2022, Feature learning and signal propagation in deep neural networks."""
