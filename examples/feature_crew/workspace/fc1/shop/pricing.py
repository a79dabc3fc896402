"""Prices in cents."""


def discounted(unit: int, count: int) -> int:
    """What so many of one cost: from ten on, ten percent less."""
    if count < 1:
        raise ValueError("at least one")
    price = unit * count
    return price * 9 // 10 if count >= 10 else price
