"""What people approved, held against the call that is about to be made; and edited arguments."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from langchain_core.messages import BaseMessage

from crewlog.activities.arguments import argument_error
from crewlog.activities.permissions import CallDenied
from crewlog.activities.tools import Tool
from crewlog.authority.bindings import Binding, arguments_hash, check_binding
from crewlog.errors import PermissionsChanged
from crewlog.ids import ContentHash, InterruptId
from crewlog.model import Json
from crewlog.state.calls import CallTool
from crewlog.state.excerpt import brief
from crewlog.store.protocol import Store

EDITED = "A person changed the arguments of this call to {args}. What it answered:\n"
"""What the model is told before the result of a call that people edited."""
_LONGEST = 2_000


class InvalidApproval(CallDenied):
    """The yes that a call was scheduled with does not hold for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "approvals")


async def load_arguments(store: Store, task: CallTool, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a call runs with: its message's, or those that people put there.

    Args:
        store: Where edited arguments are.
        task: The call, with the yes that it was scheduled with.
        asked: The arguments of its message.

    Raises:
        InvalidApproval: the yes is of another call, or of other arguments.
        PermissionsChanged: it has expired since the call was scheduled.
    """
    check_approval(task)
    said = task.approval if task.approved else None
    args = dict(asked)
    if said is None or said.arguments is None:
        return args
    if said.edited:
        args = await _edited(store, task, said.arguments)
    if arguments_hash(args) != said.arguments:
        raise InvalidApproval(_refusal(task, "its arguments are not those that were approved"))
    return args


def check_approval(task: CallTool) -> None:
    """Checks that the yes which a call was scheduled with is of this call, and holds now.

    Args:
        task: The call. One that nobody was asked about needs none.

    Raises:
        InvalidApproval: it is of another call.
        PermissionsChanged: it has expired since the call was scheduled; people are asked again.
    """
    if not task.approved:
        return
    said = task.approval
    if said is None:
        raise InvalidApproval(_refusal(task, "it does not say what was approved"))
    binding = Binding(
        run=task.run,
        interrupt=InterruptId(task.approved),
        step=task.step,
        call=task.call,
        tool=task.tool,
        id=task.id,
        message=task.message,
        arguments=said.arguments,
        edited=said.edited,
        by=said.by,
        until=said.until,
    )
    decision = check_binding(said.binding, binding, at=int(time.time() * 1000))
    if decision.allowed:
        return
    if check_binding(said.binding, binding, at=0).allowed:
        raise PermissionsChanged(
            decision.reason,
            remedy="The run asks people again by itself.",
            place=f"step {task.step}, call {task.call}",
        )
    raise InvalidApproval(_refusal(task, decision.reason))


async def _edited(store: Store, task: CallTool, digest: ContentHash) -> dict[str, Any]:
    for entry in task.batch.entries:  # where the store was away, or nothing stores it before
        if entry.get("arguments") == digest and "inline" in entry:
            return cast("dict[str, Any]", entry["inline"])
    found: dict[str, Any] = (await store.get_bodies([digest]))[digest]
    return found


def _refusal(task: CallTool, reason: str) -> str:
    return f"Refused: {reason}. People may be asked about {task.tool!r} once more: call it again."


def edit_error(tool: Tool, args: Mapping[str, Any]) -> str:
    """What is wrong with the arguments that people put in the place of a call's; empty: nothing."""
    return (argument_error(tool, args) or "").removesuffix(" Call it again.")


def with_edit_notice(message: BaseMessage, args: Mapping[str, Json]) -> BaseMessage:
    """A call's answer that says with which arguments it was made."""
    told = EDITED.format(args=brief(json.dumps(args, ensure_ascii=False), _LONGEST))
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": told + content})
    parts: Iterable[Any] = content
    return message.model_copy(update={"content": [{"type": "text", "text": told}, *parts]})
