"""Errors for missing rows: the store knows their keys, its caller knows the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from crewlog.errors import StoreIncomplete

BODY, DEFINITION, LINK = "body", "definition", "link of the log head"
"""Kinds of rows that may be missing."""
_LABELS = {
    BODY: "the text of messages",
    DEFINITION: "the definition of its crew",
    LINK: "the order of messages",
}


class MissingRows(StoreIncomplete):
    """Rows are missing; the store does not know which run needs them.

    Args:
        kind: The kind of rows: `body`.
        names: Their keys.
        place: The store.
    """

    def __init__(self, kind: str, names: Iterable[str], place: str = "") -> None:
        super().__init__(
            _message(kind, names),
            remedy="`crewlog rebuild RUN` makes the rows of a run again from its history.",
            place=place,
        )
        self.kind = kind

    def for_run(self, run: str) -> StoreIncomplete:
        """The error for the users of a run, which names the run instead of keys."""
        return missing_rows_error(run, _LABELS[self.kind], self.place)


def missing_rows_error(
    run: str, what: str, place: str = "", *, position: int = 0
) -> StoreIncomplete:
    """The error for a run with missing rows.

    Args:
        run: The run.
        what: Which rows, as a noun phrase.
        place: The store.
        position: The first missing position of the journal, if the journal is incomplete.
    """
    at = f" at position {position}" if position else ""
    return StoreIncomplete(
        f"rows of the run {run!r} are missing from the store: {what}{at}",
        remedy=f"`crewlog rebuild {shlex.quote(run)}` makes them again from its history. If an "
        f"interrupt is open, continue with `crewlog answer {shlex.quote(run)} retry`.",
        place=place,
    )


def _message(kind: str, names: Iterable[str]) -> str:
    keys = sorted(names)
    rest = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"the store has no {kind} {', '.join(map(repr, keys[:3]))}{rest}"
