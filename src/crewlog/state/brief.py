"""Starts of texts in one line, for journals, summaries and timelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from crewlog.model import Json


def brief_of(body: Mapping[str, Json]) -> str:
    """The start of what a message says; of a content in parts, of its first text."""
    content: Json = body.get("content", "")
    if isinstance(content, list):
        parts = cast("list[dict[str, Json]]", [p for p in content if isinstance(p, dict)])  # pyright: ignore[reportUnknownVariableType]
        content = next((part["text"] for part in parts if part.get("text")), "")
    return brief(str(content)[:1000], 80)


def brief(text: str, limit: int = 120) -> str:
    """The start of a text in one line, for people."""
    return shortened(" ".join(text.split()), limit)


def shortened(text: str, limit: int) -> str:
    """A text of at most so many characters; the last is `…` where it goes on."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
