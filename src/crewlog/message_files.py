"""Files of messages: images, documents, audio and video, referred to by their hash.

The content of such a message is a list of LangChain's blocks. The block of a file has its type and
hash; the bytes are outside of the history, see `crewlog.payload_storage.file_store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from crewlog.content_blocks import LONGEST_NAME, MIME_TYPE, SHA256, is_file, kind_of
from crewlog.model import Json, Model

MOST_FILES = 20
"""The most files of a message."""


class FileRef(Model):
    """A file by its hash."""

    sha256: Annotated[str, Field(pattern=SHA256)]
    """The SHA-256 of its bytes."""
    mime_type: Annotated[str, Field(pattern=MIME_TYPE)]
    """Its type: `image/png`, `application/pdf`."""
    size: Annotated[int, Field(ge=0)]
    """Its size in bytes."""
    name: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    """The name of the file, if it had one."""

    @property
    def block(self) -> dict[str, Json]:
        """Its block in the content of a message."""
        return {"type": kind_of(self.mime_type), **self.to_json()}


def files_of(body: Mapping[str, Json]) -> list[FileRef]:
    """The files of a message body."""
    content: Json = body.get("content")
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    return [file_ref(block) for block in blocks if is_file(block)]


def file_ref(block: Mapping[str, Any]) -> FileRef:
    """The file of a block."""
    return FileRef.model_validate({key: block[key] for key in FileRef.model_fields if key in block})


def content_with_files(text: str, files: tuple[FileRef, ...]) -> Json:
    """The content of a message with files."""
    if not files:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *(each.block for each in files)]
