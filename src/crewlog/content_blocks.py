"""Blocks of a message's content as people read them: its texts, and its files by their hashes.

Only the content of a message refers to files, and only Crewlog writes such a block: see
`crewlog.activities.files`. A value with the same keys, in an output or an input, is data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from crewlog.canonical_json import utf8_text

if TYPE_CHECKING:
    from crewlog.model import Json

SHA256 = r"^[0-9a-f]{64}$"
"""The SHA-256 of a file's bytes, as its block has it."""
MIME_TYPE = r"^[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}$"
"""The type of a file, as its block has it."""
LONGEST_NAME = 200
"""Characters of a file's name."""
_KEYS = frozenset({"type", "sha256", "mime_type", "size", "name"})
_KINDS = ("image", "audio", "video")
_SHOWN = 12
"""Characters of a hash that people are shown."""
_NAMED = re.compile(rf"\[[a-z]+/[^\[\]]+ sha256:[0-9a-f]{{{_SHOWN}}}…\]")


def kind_of(mime_type: str) -> str:
    """The type of a file's block."""
    kind = mime_type.partition("/")[0]
    return kind if kind in _KINDS else "file"


def is_file(block: Any) -> bool:
    """Whether a block of a message's content is a file by its hash: exactly as `FileRef` spells it.

    Whoever asks has the content of a message: the same in a value is data.
    """
    if not isinstance(block, Mapping):
        return False
    found = cast("Mapping[str, Any]", block)
    mime_type, name = found.get("mime_type"), found.get("name", "")
    return (
        found.keys() <= _KEYS
        and _matches(SHA256, found.get("sha256"))
        and _matches(MIME_TYPE, mime_type)
        and found.get("type") == kind_of(str(mime_type))
        and type(found.get("size")) is int
        and found["size"] >= 0
        and isinstance(name, str)
        and len(name) <= LONGEST_NAME
    )


def _matches(pattern: str, value: Any) -> bool:
    # `fullmatch`, since `$` alone would let a line break follow.
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def named(block: Mapping[str, Any]) -> str:
    """What people and models read in the place of a file: `[image/png 34 kB sha256:ab12…]`."""
    name = f" {utf8_text(str(block['name']))}" if block.get("name") else ""
    size = _size(block["size"])
    return f"[{block['mime_type']}{name} {size} sha256:{str(block['sha256'])[:_SHOWN]}…]"


def names_in(text: str) -> list[str]:
    """The names of files in a text that was made of a message, as `named` writes them."""
    return _NAMED.findall(text)


def file_names(body: Json) -> str:
    """The names of the files of a message's body, in a line; empty where it has none."""
    content = cast("Mapping[str, Any]", body).get("content") if isinstance(body, Mapping) else None
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    return " ".join(named(block) for block in blocks if is_file(block))


def words_of(content: Json, between: str = "") -> str:
    """What a message's content says: its texts, and the names of its files."""
    if not isinstance(content, list):
        return str(content)
    blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    said = [_word(block) for block in blocks]
    files = any(is_file(block) for block in blocks)
    return (between or (" " if files else "")).join(each for each in said if each)


def _word(block: Any) -> str:
    if is_file(block):
        return named(block)
    if isinstance(block, Mapping):
        return str(cast("Mapping[str, Any]", block).get("text") or "")
    return str(block) if isinstance(block, str) else ""


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
