"""Which places of a journal are checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

CheckpointKind = Literal["step", "start", "fork", "rollback", "reopen", "tag"]
"""What a checkpoint is: the end of a step, the beginning of the run, where it began as a fork,
where it was rolled back or reopened, or nothing but a position that people gave a name."""

_KINDS: Mapping[str, CheckpointKind] = {
    "StepCompleted": "step",
    "Forked": "fork",
    "RolledBack": "rollback",
    "Reopened": "reopen",
}


def checkpoint_kind(kind: str, source: str | None) -> CheckpointKind | None:
    """What kind of checkpoint an entry is by its kind and its `source`; None for one that is none.

    The run begins where the first nodes are reached, from none.
    """
    return "start" if kind == "Routed" and source is None else _KINDS.get(kind)
