"""Operations on artifacts, for tools to return.

    from crewlog import artifact_update, current_call
    from crewlog.operations import add, merge

    def add_node(kind: str) -> Command:
        nodes = current_call().artifact("workflow", "/nodes")
        node = {"id": f"n{len(nodes) + 1}", "kind": kind}
        return artifact_update(add("/nodes/-", node), said=f"Added {node['id']}.")

They are applied once, after those of earlier calls, in the order of the calls. Operations that do
not apply then are skipped, and the model gets the reason. Paths are JSON pointers: `/nodes/0/kind`;
`/nodes/-` is the end of a list; in a key, `/` is written `~1` and `~` is written `~0`.

A tool that returns a message can put them there instead:
`ToolMessage(..., artifact={"operations": [...]})`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crewlog.model import Json
from crewlog.tool_call import current_call

if TYPE_CHECKING:
    from langgraph.types import Command

Operation = dict[str, Json]
"""`{artifact, op, path, value}`."""


def add(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Sets a key of an object, or inserts into a list, before an index or at its end (`/nodes/-`).

    Args:
        path: The path; all parts except the last one must exist.
        value: JSON.
        artifact: The artifact; may be omitted if the crew has only one.
    """
    return _operation("add", path, artifact, value=value)


def replace(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Replaces an existing value. The path `""` is the whole artifact."""
    return _operation("replace", path, artifact, value=value)


def remove(path: str, *, artifact: str = "") -> Operation:
    """Removes an existing value."""
    return _operation("remove", path, artifact)


def merge(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Merges an object into an existing one: null removes a key, other keys stay.

    If the path does not exist, the object is added.
    """
    return _operation("merge", path, artifact, value=value)


def expect(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Skips the following operations of the same call if the value is another one."""
    return _operation("test", path, artifact, value=value)


def _operation(op: str, path: str, artifact: str, **more: Json) -> Operation:
    return {**({"artifact": artifact} if artifact else {}), "op": op, "path": path, **more}


def artifact_update(*operations: Operation, said: str = "Done.", **more: Any) -> Command[Any]:
    """The result of a tool that changes artifacts.

    Args:
        operations: The operations in order.
        said: The text for the model; skipped operations are added to it.
        more: Other updates of the command: `flags`, `outputs`.
    """
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - loaded where tools run
    from langgraph.types import Command  # noqa: PLC0415

    message = ToolMessage(said, tool_call_id=current_call().id)
    return Command(update={**more, "operations": list(operations), "messages": [message]})
