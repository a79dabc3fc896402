"""A cart."""

from shop.pricing import discounted


class Cart:
    """What somebody wants to buy."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[int, int]] = {}

    def add(self, name: str, unit: int, count: int = 1) -> None:
        """Adds so many of one; what is there already is counted together."""
        _, there = self._lines.get(name, (unit, 0))
        self._lines[name] = (unit, there + count)

    def lines(self) -> list[tuple[str, int, int]]:
        """Name, count and price of each line."""
        return [(n, c, discounted(u, c)) for n, (u, c) in self._lines.items()]

    def total(self) -> int:
        """What all of it costs."""
        return sum(price for _, _, price in self.lines())
