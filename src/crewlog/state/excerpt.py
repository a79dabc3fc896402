"""Excerpts: the start of a text in one line, for the journal, summaries and the Temporal UI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from crewlog.content_blocks import file_label, is_file

if TYPE_CHECKING:
    from crewlog.model import Json

_PLAIN = re.compile(r"[^\W_]+(,? [^\W_]+)*\??")
"""Text that Markdown renders as it is. It has no dot and no colon: renderers make links of them."""
_FENCES = re.compile(r"`+")


def sentences(refusal: str) -> str:
    """A multi-line refusal as sentences on one line."""
    *lines, last = [line for each in refusal.splitlines() if (line := each.strip())] or [""]
    ended = [line if line.endswith((".", ":", "?", "!", ";")) else f"{line}." for line in lines]
    return " ".join([*ended, last])


def message_excerpt(body: Mapping[str, Json]) -> str:
    """The excerpt of a message: of content blocks, the first text and the names of the files."""
    content: Json = body.get("content", "")
    if isinstance(content, list):
        parts = cast("list[dict[str, Json]]", [p for p in content if isinstance(p, dict)])  # pyright: ignore[reportUnknownVariableType]
        text = next((str(part["text"]) for part in parts if part.get("text")), "")
        files = [file_label(part) for part in parts if is_file(part)]
        if files:  # file names are never cut
            return " ".join(filter(None, [excerpt(text[:1000], 80), *files]))
        content = text
    return excerpt(str(content)[:1000], 80)


def excerpt(text: str, limit: int = 120) -> str:
    """The start of a text in one line, at most `limit` characters, for people."""
    return shortened(" ".join(text.split()), limit)


def shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters; the last one is `…` if it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def fenced(text: str) -> str:
    """A text as a Markdown code span in one line, so that nothing in it is rendered.

    Texts of models, tools and clients must not become links, images or HTML in the Temporal UI. The
    fence is longer than any run of backticks in the text. Backslash escapes do not suffice:
    renderers detect addresses after they have removed them.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not line or _PLAIN.fullmatch(line):
        return line
    fence = "`" * (max(map(len, _FENCES.findall(line)), default=0) + 1)
    # A backtick next to the fence would lengthen it. Renderers strip one space on both sides.
    padding = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{padding}{line}{padding}{fence}"
