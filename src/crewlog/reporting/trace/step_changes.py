"""What each step of a journal changed in the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from crewlog.ids import (
    RunId,
    StepId,
)
from crewlog.reporting.diff.state import StateChange, StateDiff, difference
from crewlog.reporting.trace.builder import Entries
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState

# -- what each step changed -------------------------------------------------------------------


def changes_by_step(run: RunId, entries: Entries) -> dict[StepId, StateDiff]:
    """What each step changed in the state, from its beginning to its end and what follows.

    What other steps and people did meanwhile is not in it: each entry counts for its own step.
    """
    state = CrewState(run=run)
    found: dict[StepId, dict[tuple[str, str], StateChange]] = {}
    step: StepId | None = None
    of: dict[str, StepId | None] = {}
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": position - 1})
        after = fold(state, entry)
        if isinstance(entry, j.InterruptRaised):
            step = of[entry.interrupt.id] = entry.interrupt.step
        elif isinstance(entry, j.InterruptAnswered):
            step = of.get(entry.interrupt)
        elif not isinstance(entry, j.RunOutputSet | j.OutputSet | j.NodesReached):
            step = getattr(entry, "step", None)
        if step is not None:
            changes = found.setdefault(step, {})
            for change in difference(state, after).changes:
                _merge(changes, change)
        state = after
    return {step: StateDiff(changes=tuple(changes.values())) for step, changes in found.items()}


def changes_by_position(
    run: RunId, entries: Entries, positions: Iterable[int]
) -> dict[int, StateDiff]:
    """What was changed up to each of some positions, since the one before it, by whomever."""
    wanted = {*positions}
    before = state = CrewState(run=run)
    found: dict[int, StateDiff] = {}
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            before = state = state.model_copy(update={"position": position - 1})
        state = fold(state, entry)
        if position in wanted:
            found[position] = difference(before, state)
            before = state
    return found


def _merge(changes: dict[tuple[str, str], StateChange], change: StateChange) -> None:
    """Adds a later change of a thing to what is known of earlier ones."""
    key = (change.section, change.name)
    before = changes.pop(key, None)
    if before is None:
        changes[key] = change
        return
    there, here = before.kind != "added", change.kind != "removed"
    if not there and not here:
        return
    kind: Literal["added", "removed", "changed"]
    kind = "changed" if there and here else "added" if here else "removed"
    if kind != "changed" or before.old != change.new:
        changes[key] = change.model_copy(update={"kind": kind, "old": before.old})
