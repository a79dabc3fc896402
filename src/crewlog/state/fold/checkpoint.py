"""How tags, rollbacks, forks and reopens change the state."""

from __future__ import annotations

from typing import Any

from crewlog.ids import RESERVED, RunId
from crewlog.state import journal as j
from crewlog.state.field_policy import Operation
from crewlog.state.fold.change import with_change_record
from crewlog.state.fold.handlers import Changes, handles, with_item
from crewlog.state.model import RECORDED, CrewState, SourceRun


@handles(j.CheckpointTagged)
def _fold_checkpoint_tagged(state: CrewState, entry: j.CheckpointTagged, _position: int) -> Changes:
    return {"tags": with_item(state.tags, entry.tag, entry.checkpoint)}


def _recorded_fields(run: RunId, data: dict[str, Any], operation: Operation) -> Changes:
    """The values of the fields that the entry of an operation records."""
    recorded = CrewState.from_json({**data, "run": run})
    return {name: getattr(recorded, name) for name in RECORDED[operation]}


@handles(j.RunRolledBack)
def _fold_run_rolled_back(state: CrewState, entry: j.RunRolledBack, position: int) -> Changes:
    changes = _recorded_fields(state.run, entry.state, "rollback")
    version, definition = changes["graph_version"], changes["definition"]
    what = f"rolled back to {entry.to}"
    changes_made = with_change_record(
        state, entry, position, what, version=version, definition=definition
    )
    return {**changes, "changes": changes_made}


@handles(j.RunForked)
def _fold_run_forked(_state: CrewState, entry: j.RunForked, _position: int) -> Changes:
    changes = _recorded_fields(entry.run, entry.state, "split" if entry.split else "fork")
    return {
        **changes,
        "recipe": changes["definition"],
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
    return {**_recorded_fields(state.run, entry.state, "rollback"), **changes}
