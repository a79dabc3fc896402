"""What the evaluators share: the paths that they look at, and programs that came to no good end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crewlog.errors import ToolFailed
from crewlog.evaluators.programs import Ended
from crewlog.evaluators.signals import Kind, Signal, owner, places
from crewlog.state.excerpt import excerpt
from crewlog.tool_call import current_call

Owners = dict[str, list[str]]
Found = tuple[str, dict[str, Any]]
"""What a tool returns: words, and data."""
LAST_WORDS = 400
"""Characters of the end of an output that a signal shows."""


def within(paths: Sequence[str]) -> list[str]:
    """Paths as a program is given them: in the workspace, where the tool may look, none an option.

    Raises:
        NotInAllowlist: for one that leaves the workspace, or the tool's `paths`.
        ToolFailed: for one that is not there.
    """
    call = current_call()
    found: list[str] = []
    for path in paths or call.paths or ["."]:
        place = call.resolve(path)
        if not place.exists():
            raise ToolFailed(
                f"there is no {path!r} in the workspace",
                remedy="Name files or folders that are there, relative to the workspace.",
            )
        relative = place.relative_to(call.workspace.resolve()).as_posix()
        found.append("." if relative == "." else f"./{relative}")
    return found


def no_good_end(what: str, kind: Kind, ended: Ended, owners: Mapping[str, Sequence[str]]) -> Signal:
    """The signal of a program that hung, could not be started, or failed without a finding."""
    named = places(ended.output[-LAST_WORDS * 10 :])
    whose = owner(owners, (place.partition(":")[0] for place in reversed(named)))
    return Signal(agent=whose, type=kind, detail=_why(what, ended))


def _why(what: str, ended: Ended) -> str:
    if ended.error:
        return f"{what} could not be started: {ended.error}"
    last = excerpt(ended.output[-LAST_WORDS:].strip(), LAST_WORDS)
    said = f"; it said last: {last}" if last else ""
    if ended.hung:
        return f"{what} did not end within {ended.bound:g} s, and was ended{said}"
    if ended.code is not None and ended.code < 0:
        return f"{what} was ended by signal {-ended.code}{said}"
    return f"{what} ended with the exit code {ended.code}{said}"


def summary_of(ended: Ended, text: str) -> str:
    """A summary with how long it took; of a program that hung, that it did."""
    if ended.hung:
        return f"it did not end within {ended.bound:g} s"
    return f"{text} in {ended.seconds:.1f} s"
