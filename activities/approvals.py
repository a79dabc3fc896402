"""The check of an approval against the call that is about to be made; and edited arguments."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from crewlog.activities.arguments import argument_error
from crewlog.activities.batches import read_bodies
from crewlog.activities.permissions import CallDenied
from crewlog.activities.tool_loader import Tool
from crewlog.authority.bindings import Binding, arguments_hash, check_binding
from crewlog.errors import PermissionsChanged
from crewlog.ids import InterruptId
from crewlog.model import Json
from crewlog.state.calls import CallTool
from crewlog.state.excerpt import excerpt
from crewlog.store.protocol import Store

EDITED = "A person changed the arguments of this call to {args}. What it answered:\n"
"""The start of the message of a call whose arguments people edited."""
_LONGEST = 2_000


async def load_arguments(
    store: Store, task: CallTool, args_of_message: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a call: those of its message, or those that people edited.

    Args:
        store: The store with edited arguments.
        task: The call, with its approval.
        args_of_message: The arguments of its message.

    Raises:
        CallDenied: the approval is for another call, or for other arguments.
        PermissionsChanged: it has expired since the call was scheduled.
    """
    check_approval(task)
    approval = task.approval if task.approved else None
    args = dict(args_of_message)
    if approval is None or approval.arguments is None:
        return args
    if approval.edited:
        args = (await read_bodies(store, task.batch, [approval.arguments]))[approval.arguments]
    if arguments_hash(args) != approval.arguments:
        raise _invalid_approval(task, "its arguments are not those that were approved")
    return args


def check_approval(task: CallTool) -> None:
    """Checks that the approval of a call is for this call, and has not expired.

    Args:
        task: The call. One that needs no approval has none.

    Raises:
        CallDenied: it is for another call.
        PermissionsChanged: it has expired since the call was scheduled; people are asked again.
    """
    if not task.approved:
        return
    approval = task.approval
    if approval is None:
        raise _invalid_approval(task, "it does not say what was approved")
    binding = Binding(
        run=task.run,
        interrupt=InterruptId(task.approved),
        step=task.step,
        call=task.call,
        tool=task.tool,
        id=task.id,
        message=task.message,
        arguments=approval.arguments,
        edited=approval.edited,
        by=approval.by,
        until=approval.until,
    )
    decision = check_binding(approval.binding, binding, at=int(time.time() * 1000))
    if decision.allowed:
        return
    if check_binding(approval.binding, binding, at=0).allowed:
        raise PermissionsChanged(
            decision.reason,
            remedy="The run asks people again by itself.",
            place=f"step {task.step}, call {task.call}",
        )
    raise _invalid_approval(task, decision.reason)


def _invalid_approval(task: CallTool, reason: str) -> CallDenied:
    again = f"People may be asked about {task.tool!r} once more: call it again."
    return CallDenied(f"Refused: {reason}. {again}", "approvals")


def edit_error(tool: Tool, args: Mapping[str, Any]) -> str:
    """Returns what is wrong with edited arguments; empty: nothing."""
    return (argument_error(tool, args) or "").removesuffix(" Call it again.")


def with_edit_notice(message: BaseMessage, args: Mapping[str, Json]) -> BaseMessage:
    """Returns the message of a call with the arguments that people gave it."""
    notice = EDITED.format(args=excerpt(json.dumps(args, ensure_ascii=False), _LONGEST))
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": notice + content})
    parts: Iterable[Any] = content
    return message.model_copy(update={"content": [{"type": "text", "text": notice}, *parts]})
