"""Tags: names that people give to checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.errors import CommandRejected
from crewlog.graph.run_context import RunContext
from crewlog.ids import CommandId
from crewlog.state import journal as j
from crewlog.state.checkpoints import checkpoint_kind, nearest, no_checkpoint_message

MOST_TAGS = 200
"""The most tags of a run: every execution carries them."""
TAGS_BYTES = 3 * 1024
"""The most bytes of all tags of a run with their positions."""
_POSITION = len('"":1000000,')


def tag(
    run: RunContext, checkpoint: int, name: str, *, by: str = "", command: CommandId | None = None
) -> str:
    """Sets a tag, or moves it to another checkpoint; returns a summary for people.

    Raises:
        CommandRejected: the position is no checkpoint, or the run has too many tags.
    """
    position = run.state.position
    if checkpoint > position:
        raise CommandRejected(
            f"there is no checkpoint {checkpoint} yet",
            remedy=f"The journal is at position {position}.",
        )
    if checkpoint >= run.journal.first:  # an earlier one is checked in the store
        known = list(_checkpoints(run))
        if checkpoint not in known:
            of = run.state.run
            raise CommandRejected(
                no_checkpoint_message(of, checkpoint), remedy=nearest(of, checkpoint, known)
            )
    if name not in run.state.tags and len(run.state.tags) >= MOST_TAGS:
        raise CommandRejected(
            f"cannot add the tag {name!r}: a run has at most {MOST_TAGS} tags",
            remedy="Move a tag: use a name that the run has already.",
        )
    names = run.state.tags.keys() | {name}
    if name not in run.state.tags and sum(map(len, names)) + _POSITION * len(names) > TAGS_BYTES:
        raise CommandRejected(
            f"cannot add the tag {name!r}: all tags of a run take at most {TAGS_BYTES} bytes",
            remedy="Use a shorter name, or move a tag: use a name that the run has already.",
        )
    run.record(j.CheckpointTagged(checkpoint=checkpoint, tag=name, by=by, command=command))
    return f"{name} is {checkpoint}"


def _checkpoints(run: RunContext) -> Iterator[int]:
    """The checkpoints of this execution."""
    for position, data in run.journal.page(0, len(run.journal.entries)):
        if checkpoint_kind(data["kind"], data.get("source"), data.get("because", "")) is not None:
            yield position
