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


def checkpoint_kind(kind: str, source: str | None, because: str = "") -> CheckpointKind | None:
    """What kind of checkpoint an entry is by its kind, `source` and `because`; None for none.

    The run begins where the first nodes are reached, from none, and for no other reason.
    """
    begins = kind == "Routed" and source is None and not because
    return "start" if begins else _KINDS.get(kind)
