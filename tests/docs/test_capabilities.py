"""The page of capabilities has each of them once, and says where it is described."""

from __future__ import annotations

import pytest

from covers import ABSENT, FIRST, LAST, PAGE, absent, covers, number, told


def test_every_capability_is_told_once() -> None:
    page = told()
    assert list(page) == list(range(FIRST, LAST + 1))
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| C")]
    assert len(rows) == LAST
    assert all("](" in where for _, where in page.values())


def test_what_is_not_there_is_marked_and_counts_as_not_shown() -> None:
    assert absent() == {35, 74, 104, 109}
    assert all(f"{ABSENT}: " in told()[n][0] for n in absent())


@pytest.mark.parametrize("wrong", ["C0", "C126", "C007", "c1", "54", "C", ""])
def test_an_unknown_capability_is_an_error(wrong: str) -> None:
    assert number(wrong) is None
    with pytest.raises(ValueError, match="there is no capability"):
        covers("C1", wrong)


def test_a_mark_names_what_it_covers() -> None:
    assert covers("C1", "C125").mark.args == ("C1", "C125")
    with pytest.raises(ValueError, match="names no capability"):
        covers()
