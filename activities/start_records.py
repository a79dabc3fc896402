"""Claims on calls that must not be repeated: whoever holds the claim may begin the call, once.

A worker may die between beginning a call and answering it. Temporal then tries again, as it must:
what failed may have failed before the effect. So a try claims the call in the store before it
begins. One that finds the claim taken asks people instead of beginning again, and so does one that
slept through its time limit while another began. And one that is not to begin for another reason,
since people ruled meanwhile or a yes has expired, looks at the claim first: a call that may have
happened is no refused one.

The statement that claims a call looks at what people ruled. Between a look and a claim a ruling
could be answered; a claim before the look would say of a refused call that it may have happened.
"""

from __future__ import annotations

from crewlog.activities.permissions import permissions_changed_error
from crewlog.errors import OutcomeUnknown
from crewlog.state.calls import CallTool, start_record_key
from crewlog.store.protocol import Store


async def write_start_record(store: Store, task: CallTool, owner: str) -> None:
    """Claims a call for one try of it.

    Args:
        store: Where claims are kept.
        task: The call. People may ask for another try of it: that one has a claim of its own.
        owner: Which try this is, unique over all executions, activities and attempts.

    Raises:
        OutcomeUnknown: where another try has begun.
        PermissionsChanged: where people have ruled since the call was scheduled; nothing is
        claimed. StoreUnavailable: where the store is away; nothing has begun.
    """
    found = await store.claim(start_record_key(task.run, task), owner, knows=(task.run, task.knows))
    if not found:
        raise permissions_changed_error(task)
    if found != owner:
        raise _unknown(task)


async def never_begun(store: Store, task: CallTool) -> None:
    """Checks that no try of a call has begun it, and claims nothing: it may be made later.

    Raises:
        OutcomeUnknown: where one has.
        StoreUnavailable: where the store is away; then that is not known.
    """
    if await store.key_owner(start_record_key(task.run, task)) is not None:
        raise _unknown(task)


def _unknown(task: CallTool) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the tool {task.tool!r} began and never answered, and it must not be repeated",
        remedy="Find out whether it happened, then answer the run's question.",
        place=f"step {task.step}, call {task.call}",
    )
