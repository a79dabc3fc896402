"""Errors for rows that are gone: a store knows their keys, whoever needs them knows the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from crewlog.errors import StoreIncomplete

BODY, DEFINITION, LINK = "body", "definition", "link of the log head"
"""What a store may miss."""
_IN_WORDS = {
    BODY: "the text of messages",
    DEFINITION: "the definition of its crew",
    LINK: "the order of messages",
}


class MissingRows(StoreIncomplete):
    """Rows that are gone, as a store sees them: it does not know whose they are.

    Args:
        kind: What they are, `body`.
        names: Their keys.
        place: The store.
    """

    def __init__(self, kind: str, names: Iterable[str], place: str = "") -> None:
        super().__init__(
            _missing(kind, names),
            remedy="`crewlog rebuild RUN` makes the rows of a run again from its history.",
            place=place,
        )
        self.kind = kind

    def of(self, run: str) -> StoreIncomplete:
        """The error for the people of a run that needs the rows: keys mean nothing to them."""
        return missing_rows_error(run, _IN_WORDS[self.kind], self.place)


def missing_rows_error(
    run: str, what: str, place: str = "", *, position: int = 0
) -> StoreIncomplete:
    """The error for a run whose rows are gone, with the whole way back.

    Args:
        run: The run.
        what: What the rows are, in words.
        place: The store.
        position: The first journal position that is missing, where it is the journal.
    """
    at = f" at position {position}" if position else ""
    return StoreIncomplete(
        f"rows of the run {run!r} are missing from the store: {what}{at}",
        remedy=f"`crewlog rebuild {shlex.quote(run)}` makes them again from its history. If a step "
        f"asks, `crewlog answer {shlex.quote(run)} retry` goes on with it then.",
        place=place,
    )


def _missing(what: str, names: Iterable[str]) -> str:
    """`what` and the first few of what is missing, for messages."""
    known = sorted(names)
    rest = f" and {len(known) - 3} more" if len(known) > 3 else ""
    return f"the store has no {what} {', '.join(map(repr, known[:3]))}{rest}"
