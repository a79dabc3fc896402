"""The tool calls of a reply, with their arguments read from the text that the model wrote.

A call whose arguments are no JSON object stays apart: it is never made, and its model is told why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from langchain_core.messages import InvalidToolCall, ToolCall

Piece = Mapping[str, Any]
"""A tool call or a part of one: `index`, `id`, `name` and `args`, each of which may be None."""


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The calls that pieces of a streamed reply add up to, in order.

    Pieces belong together by their number. Some services repeat the name and the id in each piece,
    and some give all calls one number: then another id begins another call.
    """
    calls: list[dict[str, Any]] = []
    by_number: dict[Any, dict[str, Any]] = {}
    for piece in pieces:
        number, id_, name = piece.get("index"), piece.get("id"), piece.get("name")
        call = by_number.get(number) if number is not None else None
        if call is None or (id_ and call["id"] and id_ != call["id"]):
            call = {"id": None, "name": "", "args": ""}
            calls.append(call)
            if number is not None:
                by_number[number] = call
        call["id"] = call["id"] or id_
        if name and name != call["name"]:
            call["name"] += name
        call["args"] += piece.get("args") or ""
    return list(calls)


def read_calls(calls: Iterable[Piece]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls whose arguments are JSON objects, and the others."""
    well: list[ToolCall] = []
    ill: list[InvalidToolCall] = []
    for call in calls:
        name, text, id_ = call["name"] or "", call["args"] or "", call["id"]
        try:
            args: Any = json.loads(text, strict=False) if text.strip() else {}
        except ValueError:
            args = None
        if isinstance(args, dict):
            well.append(ToolCall(name=name, args=cast("dict[str, Any]", args), id=id_))
        else:
            ill.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=text, id=id_, error=None)
            )
    return well, ill


def fault_in_text(text: str) -> str:
    """What is wrong with arguments that are no JSON object, for the model that wrote them."""
    try:
        found: Any = json.loads(text, strict=False)
    except ValueError as error:
        return f"they are no JSON ({error})"
    if isinstance(found, str):
        return "they are a text and no JSON object; write the object itself, not a text with it"
    kind = {list: "a list", bool: "true or false", type(None): "null"}.get(type(found), "a number")
    return f"they are {kind} and no JSON object"
