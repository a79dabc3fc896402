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

    A piece belongs to the call of its number, or to the last call where it has no number. A piece
    without a name goes on with that call, whatever its id: some services give each piece an id.
    Some repeat the name and the id in each piece, and some give all calls one number. A call
    without a name is left where the piece that had it was lost.
    """
    calls: list[dict[str, Any]] = []
    by_number: dict[Any, dict[str, Any]] = {}
    for piece in pieces:
        number = piece.get("index")
        call = by_number.get(number) if number is not None else next(reversed(calls), None)
        if call is None or not _continues(piece, call):
            call = {"id": None, "name": "", "args": ""}
            calls.append(call)
        if number is not None:
            by_number[number] = call
        name = piece.get("name")
        call["id"] = call["id"] or piece.get("id")
        if name and name != call["name"]:
            call["name"] += name
        call["args"] += piece.get("args") or ""
    return list(calls)


def _continues(piece: Piece, call: Piece) -> bool:
    """Whether a piece is part of a call that has begun, and does not begin another one."""
    name, id_ = piece.get("name"), piece.get("id")
    if not name or (name == call["name"] and not call["args"]):
        return True
    if id_ and call["id"]:
        return bool(id_ == call["id"])
    return piece.get("index") is not None


def parse_tool_calls(calls: Iterable[Piece]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls whose arguments are JSON objects, and the others.

    No text stands for no arguments, but not beside a call that cannot be read: that one may have
    the arguments.
    """
    given = [*calls]
    read = [_arguments(call["args"] or "") for call in given]
    lost = any(args is None or not call["name"] for call, args in zip(given, read, strict=True))
    well: list[ToolCall] = []
    ill: list[InvalidToolCall] = []
    for call, args in zip(given, read, strict=True):
        name, text, id_ = call["name"] or "", call["args"] or "", call["id"]
        if args is not None and name and (text.strip() or not lost):
            well.append(ToolCall(name=name, args=args, id=id_))
        else:
            ill.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=text, id=id_, error=None)
            )
    return well, ill


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a text says; None where it is no JSON object."""
    try:
        found: Any = json.loads(text, strict=False) if text.strip() else {}
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def json_error(text: str) -> str:
    """What is wrong with arguments of a call that was not made, for the model that wrote them."""
    if not text.strip():
        return "they are missing, and another call cannot be read; write {} for no arguments"
    try:
        found: Any = json.loads(text, strict=False)
    except ValueError as error:
        return f"they are no JSON ({error})"
    if isinstance(found, str):
        return "they are a text and no JSON object; write the object itself, not a text with it"
    if isinstance(found, dict):
        return "the call names no tool"
    kind = {list: "a list", bool: "true or false", type(None): "null"}.get(type(found), "a number")
    return f"they are {kind} and no JSON object"
