"""Starts of texts in one line, for journals, summaries, timelines and the web UI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from crewlog.content_blocks import is_file, named

if TYPE_CHECKING:
    from crewlog.model import Json

_PLAIN = re.compile(r"[^\W_]+(,? [^\W_]+)*\??")
"""Words that mean the same in Markdown. A dot or a colon is enough for some renderers to see a
link, so whoever has one is fenced."""
_FENCES = re.compile(r"`+")


def sentences(refusal: str) -> str:
    """A refusal on one line: its faults and its remedy, on a screen, have lines of their own."""
    *lines, last = [line for each in refusal.splitlines() if (line := each.strip())] or [""]
    ended = [line if line.endswith((".", ":", "?", "!", ";")) else f"{line}." for line in lines]
    return " ".join([*ended, last])


def message_excerpt(body: Mapping[str, Json]) -> str:
    """The start of what a message says; of a content in parts, its first text and its files."""
    content: Json = body.get("content", "")
    if isinstance(content, list):
        parts = cast("list[dict[str, Json]]", [p for p in content if isinstance(p, dict)])  # pyright: ignore[reportUnknownVariableType]
        text = next((str(part["text"]) for part in parts if part.get("text")), "")
        files = [named(part) for part in parts if is_file(part)]
        if files:  # what it is about is told whole
            return " ".join(filter(None, [brief(text[:1000], 80), *files]))
        content = text
    return brief(str(content)[:1000], 80)


def brief(text: str, limit: int = 120) -> str:
    """The start of a text in one line, for people."""
    return shortened(" ".join(text.split()), limit)


def shortened(text: str, limit: int) -> str:
    """A text of at most so many characters; the last is `…` where it goes on."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def fenced(text: str) -> str:
    """A text in Markdown, in one line, of which nothing is rendered: no link, no image, no HTML.

    What models, tools and clients say is shown beside what the run says. In a code span nothing
    has a meaning but its fence, which is longer than any that the text has. Backslashes would not
    do: renderers look for addresses after they have taken them away.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not line or _PLAIN.fullmatch(line):
        return line
    fence = "`" * (max(map(len, _FENCES.findall(line)), default=0) + 1)
    # Beside a fence a backtick would lengthen it; a renderer takes away one space on both sides.
    room = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{room}{line}{room}{fence}"
