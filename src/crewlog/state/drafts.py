"""Drafts: the text of a reply that a turn ends with where its model may not be called again.

A reply that calls tools goes on in the log of its agent's turn, with its calls and with what the
model thought. What others are shown of it is a message of its own: the text and the files alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from crewlog.content_blocks import is_file
from crewlog.model import Json

_TEXTS = frozenset({"text", "output_text"})


def draft_of(body: Mapping[str, Json]) -> dict[str, Json]:
    """The message that has the text and the files of a reply, and nothing else of it.

    Args:
        body: The reply, as `crewlog.state.messages` spells it.
    """
    content: Json = body.get("content", "")
    if isinstance(content, list):
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        content = [said for block in blocks if (said := _said(block)) is not None]
    names = {key: body[key] for key in ("name", "id") if key in body}
    return {"type": "ai", "content": content, **names}


def _said(block: Any) -> Json:
    """A block that is a text or a file; none of any other."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    found = cast("dict[str, Any]", block)
    if is_file(found):
        return found
    if found.get("type") in _TEXTS and found.get("text"):
        return {"type": "text", "text": found["text"]}
    return None
