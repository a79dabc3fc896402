"""Names that people give to checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.errors import CommandRejected
from crewlog.graph.run_context import RunContext
from crewlog.ids import CommandId
from crewlog.state import journal as j
from crewlog.state.checkpoints import checkpoint_kind, nearest, no_checkpoint_message

MOST_TAGS = 200
"""Names that a run's checkpoints may have: every execution carries them."""
TAGS_BYTES = 3 * 1024
"""Bytes that they may take together, each with its position."""
_POSITION = len('"":1000000,')


def tag(
    run: RunContext, checkpoint: int, name: str, *, by: str = "", command: CommandId | None = None
) -> str:
    """Gives a checkpoint a name; one that another checkpoint has moves.

    Raises:
        CommandRejected: the position is no checkpoint, or there are too many names.
    """
    position = run.state.position
    if checkpoint > position:
        raise CommandRejected(
            f"there is no checkpoint {checkpoint} yet",
            remedy=f"The journal is at position {position}.",
        )
    if checkpoint >= run.ledger.first:  # what came before is looked up in the store
        known = list(_checkpoints(run))
        if checkpoint not in known:
            of = run.state.run
            raise CommandRejected(
                no_checkpoint_message(of, checkpoint), remedy=nearest(of, checkpoint, known)
            )
    if name not in run.state.tags and len(run.state.tags) >= MOST_TAGS:
        raise CommandRejected(
            f"the checkpoints of a run have at most {MOST_TAGS} names",
            remedy="Move one: give a name that there is.",
        )
    named = run.state.tags.keys() | {name}
    if name not in run.state.tags and sum(map(len, named)) + _POSITION * len(named) > TAGS_BYTES:
        raise CommandRejected(
            "the names of the run's checkpoints are too long together",
            remedy="Give a shorter one, or move one: give a name that there is.",
        )
    run.record(j.CheckpointTagged(checkpoint=checkpoint, tag=name, by=by, command=command))
    return f"{name} is {checkpoint}"


def _checkpoints(run: RunContext) -> Iterator[int]:
    """The checkpoints of this execution."""
    for position, data in run.ledger.page(0, len(run.ledger.entries)):
        if checkpoint_kind(data["kind"], data.get("source"), data.get("because", "")) is not None:
            yield position
