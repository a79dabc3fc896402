"""Drafts: the text that a turn ends with when it reaches its limit of model calls.

An AI message with tool calls stays in the private log of its turn, with calls and reasoning. Other
agents see the draft instead, a message with its text and files alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from crewlog.content_blocks import is_file
from crewlog.model import Json

_TEXTS = frozenset({"text", "output_text"})


def draft_text(body: Mapping[str, Json]) -> dict[str, Json]:
    """A message with nothing but the text and the files of an AI message.

    Args:
        body: The AI message, as `crewlog.state.messages` encodes it.
    """
    content: Json = body.get("content", "")
    if isinstance(content, list):
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        content = [part for block in blocks if (part := _text_or_file(block)) is not None]
    names = {key: body[key] for key in ("name", "id") if key in body}
    return {"type": "ai", "content": content, **names}


def _text_or_file(block: Any) -> Json:
    """The block, if it is a text or a file; else none."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    block_ = cast("dict[str, Any]", block)
    if is_file(block_):
        return block_
    if block_.get("type") in _TEXTS and block_.get("text"):
        return {"type": "text", "text": block_["text"]}
    return None
