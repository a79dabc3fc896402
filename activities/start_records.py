"""Start records of calls with the retry mode `never`: an attempt begins such a call only once.

A worker may die after it began a call and before it answered. Temporal then makes another attempt,
since it cannot know whether the effect happened. So an attempt writes a start record before it
begins the call. An attempt that finds the record of another one does not begin: people are asked.
An attempt that is denied for another reason reads the record first, since a call that may have
happened must not be reported as denied.

The statement that writes the record also checks the permissions. With two statements, a change of
permissions could be answered between them, or a denied call would have a start record.
"""

from __future__ import annotations

from crewlog.activities.permissions import permissions_changed_error
from crewlog.errors import OutcomeUnknown
from crewlog.state.calls import CallTool, start_record_key
from crewlog.store.protocol import Store


async def write_start_record(store: Store, task: CallTool, owner: str) -> None:
    """Writes the start record of a call.

    Args:
        store: The store.
        task: The call. An attempt that people asked for has a record of its own.
        owner: The name of the attempt, unique over all executions, activities and attempts.

    Raises:
        OutcomeUnknown: another attempt has begun the call.
        PermissionsChanged: permissions changed after the call was scheduled; nothing is written.
        StoreUnavailable: the store does not answer; the call has not begun.
    """
    found = await store.claim(
        task.run,
        start_record_key(task.run, task),
        owner,
        permissions_as_of=task.known_position,
    )
    if not found:
        raise permissions_changed_error(task)
    if found != owner:
        raise _unknown(task)


async def check_not_started(store: Store, task: CallTool) -> None:
    """Checks that no attempt has begun a call; writes nothing.

    Raises:
        OutcomeUnknown: an attempt has begun it.
        StoreUnavailable: the store does not answer.
    """
    if await store.key_owner(start_record_key(task.run, task)) is not None:
        raise _unknown(task)


def _unknown(task: CallTool) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the tool {task.tool!r} began and never answered, and it must not be repeated",
        remedy="Find out whether it happened, then answer the run's question.",
        place=f"step {task.step}, call {task.call}",
    )
