"""How factors over seeds are written."""

from companion.studies.transferability.shared.by_seed import factor


def test_a_factor_is_a_geometric_mean_with_the_interval_of_the_logarithm():
    assert factor([]) == "–"
    assert factor([1.0]) == "2.0" == factor([1.0, 1.0, 1.0])
    # mean 1, standard deviation 1 over three: t = 4.3027, half a width of 4.3027 / √3 = 2.484
    assert factor([0.0, 1.0, 2.0], 2) == "2.00 (0.36 to 11.19)"
