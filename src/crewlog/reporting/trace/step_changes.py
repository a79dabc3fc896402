"""What each step, or each checkpoint, of a journal changed in the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from crewlog.ids import (
    RunId,
    StepId,
)
from crewlog.reporting.diff.state import StateChange, StateDiff, state_diff
from crewlog.reporting.trace.builder import Entries
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState


def changes_by_step(run: RunId, entries: Entries) -> dict[StepId, StateDiff]:
    """What each step changed in the state, from its start until its end reached the next nodes.

    Each entry counts for its own step, so that changes by other steps and by people are left out.
    """
    state = CrewState(run=run)
    found: dict[StepId, dict[tuple[str, str], StateChange]] = {}
    step: StepId | None = None
    steps_of_interrupts: dict[str, StepId | None] = {}
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": position - 1})
        after = fold(state, entry)
        if isinstance(entry, j.InterruptRaised):
            step = steps_of_interrupts[entry.interrupt.id] = entry.interrupt.step
        elif isinstance(entry, j.InterruptAnswered):
            step = steps_of_interrupts.get(entry.interrupt)
        elif not isinstance(entry, j.RunOutputSet | j.OutputSet | j.NodesReached):
            step = getattr(entry, "step", None)
        if step is not None:
            changes = found.setdefault(step, {})
            for change in state_diff(state, after).changes:
                _add_change(changes, change)
        state = after
    return {step: StateDiff(changes=tuple(changes.values())) for step, changes in found.items()}


def changes_by_position(
    run: RunId, entries: Entries, positions: Iterable[int]
) -> dict[int, StateDiff]:
    """What changed between each position and the one before it."""
    requested = {*positions}
    before = state = CrewState(run=run)
    found: dict[int, StateDiff] = {}
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            before = state = state.model_copy(update={"position": position - 1})
        state = fold(state, entry)
        if position in requested:
            found[position] = state_diff(before, state)
            before = state
    return found


def _add_change(changes: dict[tuple[str, str], StateChange], change: StateChange) -> None:
    """Adds a change to the earlier changes of the same value."""
    key = (change.section, change.name)
    before = changes.pop(key, None)
    if before is None:
        changes[key] = change
        return
    existed, exists = before.kind != "added", change.kind != "removed"
    if not existed and not exists:
        return
    kind: Literal["added", "removed", "changed"]
    kind = "changed" if existed and exists else "added" if exists else "removed"
    if kind != "changed" or before.old != change.new:
        changes[key] = change.model_copy(update={"kind": kind, "old": before.old})
