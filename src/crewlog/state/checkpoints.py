"""Which positions of a journal are checkpoints, and how they are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from crewlog.ids import RunId

CheckpointKind = Literal["step", "start", "exchange", "fork", "rollback", "reopen", "tag"]
"""The kind of a checkpoint: the end of a step, the start of the run or of an exchange, the end of
an exchange (`exchange`), the start as a fork, a rollback, a reopen, or a position with a tag."""

EXCHANGE_PREFIX = "exchange:"
"""The prefix of the name of an exchange; no tag and no step has a `:`."""

_KINDS: Mapping[str, CheckpointKind] = {
    "StepCompleted": "step",
    "ExchangeEnded": "exchange",
    "RunForked": "fork",
    "RunRolledBack": "rollback",
    "RunReopened": "reopen",
}


def checkpoint_kind(kind: str, source: str | None, because: str = "") -> CheckpointKind | None:
    """The kind of the checkpoint at an entry; none if the entry is none.

    The run, or an exchange of it, starts at a `NodesReached` without a source and a reason.

    Args:
        kind: The kind of the entry.
        source: Its `source`.
        because: Its `because`.
    """
    is_start = kind == "NodesReached" and source is None and not because
    return "start" if is_start else _KINDS.get(kind)


def exchange_name(exchange: int) -> str:
    """The name of the checkpoint at the end of an exchange."""
    return f"{EXCHANGE_PREFIX}{exchange}"


def exchange_number(name: str) -> int | None:
    """The exchange of such a name; none for any other name."""
    number = name.removeprefix(EXCHANGE_PREFIX)
    return int(number) if number != name and number.isdecimal() and len(number) < 10 else None


def nearest(run: RunId, position: int, checkpoints: Iterable[int]) -> str:
    """The remedy for a position that is no checkpoint: the nearest ones.

    Args:
        run: The run.
        position: The position.
        checkpoints: The positions of its checkpoints, in order.
    """
    before = after = 0
    for each in checkpoints:
        if each < position:
            before = each
        elif each > position:
            after = each
            break
    neighbors = " and ".join(f"{run}@{each}" for each in (before, after) if each)
    list_hint = f"`crewlog checkpoints {run}` lists them."
    return f"The nearest: {neighbors}. {list_hint}" if neighbors else list_hint


def no_checkpoint_message(run: RunId, position: int) -> str:
    """The error for a position that is no checkpoint."""
    return f"position {position} of the run {run!r} is no checkpoint"
