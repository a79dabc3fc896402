"""Prices: what is wanted of shop.pricing."""

import pytest
from shop.pricing import discounted


def test_ten_or_more_of_one_are_ten_percent_cheaper() -> None:
    """Ten are enough."""
    assert discounted(unit=200, count=9) == 1800
    assert discounted(unit=200, count=10) == 1800
    assert discounted(unit=200, count=20) == 3600


def test_there_is_no_price_of_fewer_than_one() -> None:
    """Nor of none."""
    with pytest.raises(ValueError, match="at least one"):
        discounted(unit=200, count=0)
