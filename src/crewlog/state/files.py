"""Files of messages: images, documents, audio and video, which messages have by their hash.

A message's content is a list of blocks then, as LangChain has them. A block of a file says what it
is, and not what is in it: the bytes are beside the history, see `crewlog.file_store`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Field

from crewlog.content import scrubbed_text
from crewlog.model import Json, Model

MOST_FILES = 20
"""Files of one message."""
MIME_TYPE = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}")
_KINDS = ("image", "audio", "video")
_SHOWN = 12
"""Characters of a hash that people are shown."""


class FileRef(Model):
    """A file, by its hash."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The SHA-256 of its bytes."""
    mime_type: Annotated[str, Field(pattern=r"^[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}$")]
    """What it is: `image/png`, `application/pdf`."""
    size: Annotated[int, Field(ge=0)]
    """Its bytes."""
    name: Annotated[str, Field(max_length=200)] = ""
    """What its file was called, where it had a name."""

    @property
    def block(self) -> dict[str, Json]:
        """The block of content that stands for it."""
        return {"type": kind_of(self.mime_type), **self.to_json()}


def kind_of(mime_type: str) -> str:
    """The type of a file's block."""
    kind = mime_type.partition("/")[0]
    return kind if kind in _KINDS else "file"


def is_file(block: Any) -> bool:
    """Whether a block of content is a file by its hash."""
    return isinstance(block, Mapping) and "sha256" in block and "mime_type" in block


def files_in(body: Mapping[str, Json]) -> list[FileRef]:
    """The files of a message's body."""
    content: Json = body.get("content")
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    return [ref_of(block) for block in blocks if is_file(block)]


def ref_of(block: Mapping[str, Any]) -> FileRef:
    """The file of a block."""
    return FileRef.model_validate({key: block[key] for key in FileRef.model_fields if key in block})


def named(block: Mapping[str, Any]) -> str:
    """What people and models read in the place of a file: `[image/png 34 kB sha256:ab12…]`."""
    name = f" {scrubbed_text(str(block['name']))}" if block.get("name") else ""
    size = _size(int(block.get("size") or 0))
    return f"[{block['mime_type']}{name} {size} sha256:{str(block['sha256'])[:_SHOWN]}…]"


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


def content_with(text: str, files: tuple[FileRef, ...]) -> Json:
    """The content of a message with files."""
    if not files:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *(each.block for each in files)]


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
