"""Operations on artifacts, for tools to return.

    from crewlog import artifact_update, current_call
    from crewlog.operations import add, merge

    def add_node(kind: str) -> Command:
        nodes = current_call().artifact("workflow", "/nodes")
        node = {"id": f"n{len(nodes) + 1}", "kind": kind}
        return artifact_update(add("/nodes/-", node), said=f"Added {node['id']}.")

They are applied once, after those of earlier calls, whichever ended first; what does not apply then
is left out, and the model is told why. Paths are JSON pointers: `/nodes/0/kind`; `/nodes/-` is the
end of a list; in a key, `/` is written `~1` and `~` is written `~0`.

A tool with a message of its own can put them there instead:
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
    """Puts a value under a key, or into a list, before a place or at its end (`/nodes/-`).

    Args:
        path: Where; all of it but the last part must be there.
        value: JSON.
        artifact: Which; may be left out where the crew has one.
    """
    return _operation("add", path, artifact, value=value)


def replace(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Puts a value in the place of one that is there. The path `""` is the whole."""
    return _operation("replace", path, artifact, value=value)


def remove(path: str, *, artifact: str = "") -> Operation:
    """Takes away what is there."""
    return _operation("remove", path, artifact)


def merge(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Merges an object into one that is there: null takes a key away, what it does not name stays.

    Where there is no such key yet, the object is put there.
    """
    return _operation("merge", path, artifact, value=value)


def expect(path: str, value: Json, *, artifact: str = "") -> Operation:
    """Guards what follows in the same call: that is left out where another value is there."""
    return _operation("test", path, artifact, value=value)


def _operation(op: str, path: str, artifact: str, **more: Json) -> Operation:
    return {**({"artifact": artifact} if artifact else {}), "op": op, "path": path, **more}


def artifact_update(*operations: Operation, said: str = "Done.", **more: Any) -> Command[Any]:
    """What a tool returns to change artifacts.

    Args:
        operations: What is done, in this order.
        said: What the model is told; which operations were left out, and why, it is told anyhow.
        more: What else the command updates: `flags`, `outputs`.
    """
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - loaded where tools run
    from langgraph.types import Command  # noqa: PLC0415

    message = ToolMessage(said, tool_call_id=current_call().id)
    return Command(update={**more, "operations": list(operations), "messages": [message]})
