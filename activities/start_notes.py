"""Notes that a call has begun, for tools that must not be repeated.

A worker may die between beginning a call and answering it. Temporal then tries again, as it must:
what failed may have failed before the effect. So the call first notes in the store that it begins,
and a try that finds a note of an earlier one asks people instead of beginning again.
"""

from __future__ import annotations

from crewlog.content import hash_json
from crewlog.errors import OutcomeUnknown, StoreIncomplete
from crewlog.model import Json
from crewlog.state.calls import CallTool, start_note
from crewlog.store.protocol import Store


async def begin_once(store: Store, task: CallTool, attempt: int) -> None:
    """Notes that a call begins.

    Args:
        store: Where the note is kept.
        task: The call. People may ask for another try of it: that one has a note of its own.
        attempt: Temporal's count of tries, from 1.

    Raises:
        OutcomeUnknown: where an earlier try began.
        StoreUnavailable: where the store is away; nothing has begun.
    """
    note = start_note(task)
    hash_ = hash_json(note)
    if attempt > 1 and await _is_kept(store, note):
        raise OutcomeUnknown(
            f"the tool {task.tool!r} began and never answered, and it must not be repeated",
            remedy="Find out whether it happened, then answer the run's question.",
            place=f"step {task.step}, call {task.call}",
        )
    await store.put_bodies({hash_: note})


async def _is_kept(store: Store, note: dict[str, Json]) -> bool:
    try:
        await store.get_bodies([hash_json(note)])
    except StoreIncomplete:
        return False
    return True
