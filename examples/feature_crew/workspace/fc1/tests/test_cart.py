"""The cart: what is wanted of shop.Cart."""

from shop import Cart


def test_what_is_added_twice_is_counted_together() -> None:
    """Also for the discount."""
    cart = Cart()
    cart.add("pear", unit=50, count=4)
    cart.add("pear", unit=50, count=6)
    assert cart.lines() == [("pear", 10, 450)]
    assert cart.total() == 450


def test_a_total_is_of_all_lines() -> None:
    """Of each line what it costs."""
    cart = Cart()
    cart.add("pear", unit=50)
    cart.add("plum", unit=30, count=2)
    assert cart.total() == 110
