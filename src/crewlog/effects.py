"""Options that have no effect where they are given: an error names them, as nobody would notice."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.errors import UsageError


def check_effects(place: str, given: Mapping[str, object], because: str, remedy: str) -> None:
    """Checks that options are not given where they have no effect.

    Args:
        place: The command, or what is started.
        given: What each option says there; empty, none or false: it is not given.
        because: Why it has no effect, as the end of a sentence: `a registered crew has its models`.
        remedy: What to do instead, as a sentence.

    Raises:
        UsageError: one is given.
    """
    named = [option for option, said in given.items() if said]
    if named:
        verb = "has" if len(named) == 1 else "have"
        say = f"{' and '.join(named)} {verb} no effect: {because}"
        raise UsageError(say, remedy=remedy, place=place)
