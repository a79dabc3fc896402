"""The content of messages as text for people: texts, and labels of files.

Only messages refer to files, and only Crewlog writes these blocks, see `crewlog.activities.files`.
A value with the same keys in an output or an input is data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from crewlog.canonical_json import utf8_text

if TYPE_CHECKING:
    from crewlog.model import Json

SHA256 = r"^[0-9a-f]{64}$"
"""The pattern of the SHA-256 of a file."""
MIME_TYPE = r"^[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}$"
"""The pattern of the type of a file."""
LONGEST_NAME = 200
"""Characters of the name of a file."""
_KEYS = frozenset({"type", "sha256", "mime_type", "size", "name"})
_KINDS = ("image", "audio", "video")
_LABEL_DIGITS = 12
"""Characters of the hash in a label."""
_LABEL = re.compile(rf"\[[a-z]+/[^\[\]]+ sha256:[0-9a-f]{{{_LABEL_DIGITS}}}…\]")


def kind_of(mime_type: str) -> str:
    """The type of the block of a file."""
    kind = mime_type.partition("/")[0]
    return kind if kind in _KINDS else "file"


def is_file(block: Any) -> bool:
    """Whether a block of a message is a file, exactly as `FileRef` writes it.

    Only for blocks of messages: the same in another value is data.
    """
    if not isinstance(block, Mapping):
        return False
    fields = cast("Mapping[str, Any]", block)
    mime_type, name = fields.get("mime_type"), fields.get("name", "")
    return (
        fields.keys() <= _KEYS
        and _matches(SHA256, fields.get("sha256"))
        and _matches(MIME_TYPE, mime_type)
        and fields.get("type") == kind_of(str(mime_type))
        and type(fields.get("size")) is int
        and fields["size"] >= 0
        and isinstance(name, str)
        and len(name) <= LONGEST_NAME
    )


def _matches(pattern: str, value: Any) -> bool:
    # `fullmatch`, since `$` alone would let a line break follow.
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def file_label(block: Mapping[str, Any]) -> str:
    """The label of a file for people and models: `[image/png 34 kB sha256:ab12…]`."""
    name = f" {utf8_text(str(block['name']))}" if block.get("name") else ""
    size = _size(block["size"])
    return f"[{block['mime_type']}{name} {size} sha256:{str(block['sha256'])[:_LABEL_DIGITS]}…]"


def find_file_labels(text: str) -> list[str]:
    """The labels of files in the text of a message."""
    return _LABEL.findall(text)


def file_labels(body: Json) -> str:
    """The labels of the files of a message body in one line; empty if it has none."""
    content = cast("Mapping[str, Any]", body).get("content") if isinstance(body, Mapping) else None
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    return " ".join(file_label(block) for block in blocks if is_file(block))


def content_text(content: Json, separator: str = "") -> str:
    """The text of the content of a message, with labels of its files."""
    if not isinstance(content, list):
        return str(content)
    blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    texts = [_block_text(block) for block in blocks]
    has_files = any(is_file(block) for block in blocks)
    return (separator or (" " if has_files else "")).join(each for each in texts if each)


def _block_text(block: Any) -> str:
    if is_file(block):
        return file_label(block)
    if isinstance(block, Mapping):
        return str(cast("Mapping[str, Any]", block).get("text") or "")
    return str(block) if isinstance(block, str) else ""


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
