"""Rounds are interleaved, their order turns around, and figures are what they are said to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from bench.pairs import figure, ratio, rounds


async def test_rounds_run_by_turns_and_what_warms_up_does_not_count() -> None:
    ran: list[str] = []
    told: list[tuple[int, dict[str, int]]] = []

    def system(name: str) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            ran.append(name)
            return len(ran)

        return run

    found = await rounds(
        {"a": system("a"), "b": system("b")},
        3,
        warm=1,
        told=lambda number, results: told.append((number, dict(results))),
    )
    assert "".join(ran) == "baabbaab"
    assert found == {"a": [3, 6, 7], "b": [4, 5, 8]}
    assert told == [(1, {"a": 3, "b": 4}), (2, {"a": 6, "b": 5}), (3, {"a": 7, "b": 8})]


def test_a_ratio_is_taken_within_each_round() -> None:
    # The ratio of the medians would be 1.
    found = ratio("x", [1, 2, 30], [2, 1, 10])
    assert found.values == (0.5, 2, 3)
    assert found.median == 2


def test_quartiles() -> None:
    found = figure("x", [5, 1, 3, 2, 4])
    assert found.median == 3
    assert found.quartiles == (2, 4)
    assert found.spread == 2
    assert figure("x", [7]).quartiles == (7, 7)


def test_rounds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio("x", [1, 2], [1])
    with pytest.raises(ValueError, match="'x' has no values"):
        figure("x", [])
