"""Which places of a journal are checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from crewlog.ids import RunId

CheckpointKind = Literal["step", "start", "turn", "fork", "rollback", "reopen", "tag"]
"""What a checkpoint is: the end of a step, the beginning of the run or of a turn of a conversation,
the end of a turn, where it began as a fork,
where it was rolled back or reopened, or nothing but a position that people gave a name."""

EXCHANGE = "turn:"
"""What the name of a turn of a conversation begins with; no tag and no step has a `:`."""

_KINDS: Mapping[str, CheckpointKind] = {
    "StepCompleted": "step",
    "ExchangeEnded": "turn",
    "RunForked": "fork",
    "RunRolledBack": "rollback",
    "RunReopened": "reopen",
}


def checkpoint_kind(kind: str, source: str | None, because: str = "") -> CheckpointKind | None:
    """What kind of checkpoint an entry is by its kind, `source` and `because`; None for none.

    The run, or a turn of it, begins where the first nodes are reached, from none, and for no other
    reason.
    """
    begins = kind == "NodesReached" and source is None and not because
    return "start" if begins else _KINDS.get(kind)


def exchange_name(turn: int) -> str:
    """What names the end of a turn of a conversation, where a position is asked for."""
    return f"{EXCHANGE}{turn}"


def exchange_number(name: str) -> int | None:
    """The turn that such a name means; none where it names something else."""
    number = name.removeprefix(EXCHANGE)
    return int(number) if number != name and number.isdecimal() and len(number) < 10 else None


def nearest(run: RunId, position: int, known: Iterable[int]) -> str:
    """Where to go instead of a position that is no checkpoint, as a remedy.

    Args:
        run: The run.
        position: The position.
        known: Its checkpoints, in order.
    """
    before = after = 0
    for each in known:
        if each < position:
            before = each
        elif each > position:
            after = each
            break
    near = " and ".join(f"{run}@{each}" for each in (before, after) if each)
    listed = f"`crewlog checkpoints {run}` lists them."
    return f"The nearest: {near}. {listed}" if near else listed


def no_checkpoint_message(run: RunId, position: int) -> str:
    """What is said of a position that is no checkpoint."""
    return f"position {position} of the run {run!r} is no checkpoint"
