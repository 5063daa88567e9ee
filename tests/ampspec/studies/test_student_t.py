import math

import pytest

from ampspec.studies.statistics import student_t

QUANTILES = [
    (0.95, 1, 6.313751515),
    (0.95, 2, 2.919985580),
    (0.975, 2, 4.302652730),
    (0.95, 4, 2.131846786),
    (0.975, 9, 2.262157163),
    (0.9, 29, 1.311433647),
    (0.8, 10, 0.879057828),
    (0.975, 1000, 1.962339081),
]
"""Of published tables."""


@pytest.mark.parametrize(("probability", "degrees", "value"), QUANTILES)
def test_quantiles_are_those_of_the_tables(probability, degrees, value):
    assert student_t.quantile(probability, degrees) == pytest.approx(value, rel=1e-8)
    assert student_t.quantile(1 - probability, degrees) == pytest.approx(-value, rel=1e-8)
    assert student_t.cdf(value, degrees) == pytest.approx(probability, rel=1e-8)


def test_the_distribution_reaches_from_0_to_1():
    for degrees in (1, 2, 3, 4, 99):
        assert student_t.cdf(0.0, degrees) == 0.5
        assert student_t.cdf(math.inf, degrees) == pytest.approx(1.0)
        assert student_t.cdf(-math.inf, degrees) == pytest.approx(0.0, abs=1e-12)


def test_arguments_outside_of_the_distribution_are_refused():
    with pytest.raises(ValueError, match="degrees=0"):
        student_t.cdf(1.0, 0)
    with pytest.raises(ValueError, match=r"probability=1\.0"):
        student_t.quantile(1.0, 2)
