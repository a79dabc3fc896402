"""A call that is made once more by people's word: a yes to it was for the try that failed.

What is left of that yes says that people were asked. Its seal is gone, so it holds for nothing, and
they are asked anew before the call is made.
"""

from __future__ import annotations

from collections.abc import Callable

from crewlog.graph.facts import RunFacts
from crewlog.graph.turns import calls_of
from crewlog.ids import StepId
from crewlog.state import journal as j

YES_ONCE = "a-yes-is-for-one-try"
"""The patch of executions that ask anew; older ones make the call by the same yes."""

Patched = Callable[[str], bool]
"""Whether an execution does something as this build does."""


def as_new(_patch: str) -> bool:
    """An execution that does everything as this build does."""
    return True


def retry(
    run: RunFacts, step: StepId, number: int | None, *, by: str, patched: Patched = as_new
) -> None:
    """Has a call made once more, or a step that has none.

    Args:
        run: The run.
        step: The call's step.
        number: The call's number.
        by: Who says so.
        patched: Whether its execution does something as this build does.
    """
    calls = calls_of(run.state.frontier.get(step))
    call = next((each for each in calls if each.call == number), None)
    # An execution that uses no yes twice asks for no mark in its history.
    spent = call is not None and bool(call.approved) and patched(YES_ONCE)
    more = {"spent": True} if spent else {}
    run.record(j.StepRetried, step=step, call=number, by=by, **more)
