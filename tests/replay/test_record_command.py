"""Which behaviours are recorded: those that are named, and a wrong name is no traceback."""

from __future__ import annotations

import pytest

from .behaviours import BEHAVIOURS
from .record import chosen


def test_behaviours_are_chosen_by_name() -> None:
    assert chosen(["loop", "stop"]) == ["loop", "stop"]
    assert set(chosen([])) == set(BEHAVIOURS)


@pytest.mark.parametrize(("words", "code"), [(["nonesuch"], 2), (["--help"], 0)])
def test_the_names_are_listed(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        chosen(words)
    assert ended.value.code == code
    told = "".join(capsys.readouterr())
    assert all(f"\n  {name}" in told for name in BEHAVIOURS)
    assert ("no behaviour 'nonesuch'" in told) is (code == 2)
