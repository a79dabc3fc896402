"""Files of messages: images, documents, audio and video, which messages have by their hash.

A message's content is a list of blocks then, as LangChain has them. A block of a file says what it
is, and not what is in it: the bytes are beside the history, see `crewlog.file_store`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from crewlog.model import Json, Model
from crewlog.state.blocks import is_file

MOST_FILES = 20
"""Files of one message."""
MIME_TYPE = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}")
_KINDS = ("image", "audio", "video")


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


def files_in(body: Mapping[str, Json]) -> list[FileRef]:
    """The files of a message's body."""
    content: Json = body.get("content")
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    return [ref_of(block) for block in blocks if is_file(block)]


def ref_of(block: Mapping[str, Any]) -> FileRef:
    """The file of a block."""
    return FileRef.model_validate({key: block[key] for key in FileRef.model_fields if key in block})


def content_with(text: str, files: tuple[FileRef, ...]) -> Json:
    """The content of a message with files."""
    if not files:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *(each.block for each in files)]
