"""What the tests of speed measure by: a slow machine is forgiven, slow work is not."""

from __future__ import annotations

import re
import statistics

import pytest

from pace import USUAL, _work, assert_within, growth, paced


def pairs(count: int) -> int:
    return sum(a < b for a in range(count) for b in range(count))


def test_the_fixed_work_takes_what_is_usual_wherever_it_is_done() -> None:
    taken = statistics.median(paced(_work) for _ in range(15))
    assert 0.3 * USUAL < taken < 3 * USUAL


def test_twice_as_much_and_its_square_are_told_apart() -> None:
    assert growth(lambda: sum(range(200_000)), lambda: sum(range(400_000)), tries=9) < 3.3
    assert growth(lambda: pairs(200), lambda: pairs(400), tries=9) > 3.3


def test_work_that_takes_too_long_each_time_fails() -> None:
    tried: list[int] = []
    backtracks = re.compile(r"(?:a|b|ab)*c")
    with pytest.raises(AssertionError, match=r"the bound is 0\.05 s"):
        assert_within(0.05, lambda: tried.append(bool(backtracks.match("ab" * 20))))
    assert len(tried) == 3
    assert_within(10, lambda: tried.append(1))
    assert len(tried) == 4
