"""How tags, rollbacks, forks and reopens change the state."""

from __future__ import annotations

from typing import Any

from crewlog.ids import RESERVED, ContentHash
from crewlog.state import journal as j
from crewlog.state.fold.change import with_change_record
from crewlog.state.fold.handlers import Changes, handles, with_item
from crewlog.state.model import NEVER_RESTORED, CrewState, SourceRun


@handles(j.CheckpointTagged)
def _fold_checkpoint_tagged(state: CrewState, entry: j.CheckpointTagged, _position: int) -> Changes:
    return {"tags": with_item(state.tags, entry.tag, entry.checkpoint)}


_RESTORED_FIELDS = CrewState.model_fields.keys() - NEVER_RESTORED


def _restored_fields(state: CrewState, data: dict[str, Any]) -> Changes:
    """The fields of a recorded state, except those that are never restored."""
    restored = CrewState.from_json(data)
    return {**{name: getattr(restored, name) for name in _RESTORED_FIELDS}, "end_reason": ""}


@handles(j.RunRolledBack)
def _fold_run_rolled_back(state: CrewState, entry: j.RunRolledBack, position: int) -> Changes:
    changes = _restored_fields(state, entry.state)
    version, definition = changes["graph_version"], changes["definition"]
    what = f"rolled back to {entry.to}"
    changes_made = with_change_record(
        state, entry, position, what, version=version, definition=definition
    )
    return {**changes, "changes": changes_made}


@handles(j.RunForked)
def _fold_run_forked(state: CrewState, entry: j.RunForked, _position: int) -> Changes:
    source_state = CrewState.from_json(entry.state)
    return {
        **_restored_fields(state, entry.state),
        # Two runs of a split may not use more than one; a fork starts from zero.
        **(
            {"usage": source_state.usage, "added_budgets": source_state.added_budgets}
            if entry.split
            else {}
        ),
        "interrupt_count": source_state.interrupt_count,
        "exchanges": source_state.exchanges,
        "recipe": source_state.definition,
        "basis": ContentHash(""),
        "started_at": entry.at,
        "source": SourceRun(
            run=entry.source, position=entry.to, checkpoint=entry.checkpoint, split=entry.split
        ),
    }


@handles(j.RunReopened)
def _fold_run_reopened(state: CrewState, entry: j.RunReopened, _position: int) -> Changes:
    # The run's own commands, such as Temporal's cancel, may be given again.
    commands = {k: v for k, v in state.commands.items() if not k.startswith(RESERVED)}
    changes = {"execution": state.execution + 1, "commands": commands}
    return {**_restored_fields(state, entry.state), **changes}
