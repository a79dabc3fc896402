"""Tools that build artifacts, for the acceptance tests' crews."""

import asyncio
import json
from typing import Any

from deeds import LIMIT, POLL, is_open
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from crewlog import artifact_update, current_call
from crewlog.operations import add as operation_add


async def change(operations: list[dict[str, Any]], after: str = "") -> Command[Any]:
    """Changes an artifact, once a gate is open."""
    async with asyncio.timeout(LIMIT):
        while after and not is_open(after):  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(POLL)
    return artifact_update(*operations, said="It is done.")


def attach(operations: list[dict[str, Any]]) -> ToolMessage:
    """Changes an artifact by what goes with its answer."""
    id_ = current_call().id
    return ToolMessage("Attached.", tool_call_id=id_, artifact={"operations": operations, "n": 1})


def look(artifact: str, path: str = "") -> str:
    """Says what a part of an artifact is, and tries to change it past the operations."""
    value = current_call().artifact(artifact, path)
    said = json.dumps(value, sort_keys=True)
    if isinstance(value, dict):
        value["spoiled"] = True
    return f"it is {said}"


def grow(path: str, kb: int) -> Command[Any]:
    """Puts many kilobytes into an artifact, of which no message says a word."""
    parts = {f"p{n}": "x" * 1000 for n in range(kb)}
    return artifact_update(operation_add(path, parts), said="It has grown.")
