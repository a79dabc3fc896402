"""Files in a worker's messages: kept by their hash, and read where a model is asked.

The content of a message refers to files by blocks that only Crewlog writes: of what people send
with a message, and of files whose bytes a tool or a model gives. Whatever a tool or a model spells
like such a block is data, and becomes text here, before the message is stored.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from crewlog.content_blocks import MIME_TYPE, is_file, kind_of, named
from crewlog.payload_storage.file_store import FileStore

_M = TypeVar("_M", bound=BaseMessage)
FileData = tuple[str, str, str]
"""A file in a block: its MIME type, its bytes in base64, its name."""


class Files:
    """The files of messages on a worker.

    Args:
        store: Where they are kept; none: nowhere, and files are left out of messages.
    """

    def __init__(self, store: FileStore | None) -> None:
        self._store = store

    async def keep(self, message: _M) -> _M:
        """A message of a tool or a model whose files are kept, and stand in it by their hashes."""
        blocks: list[Any] = list(cast("list[Any]", message.content))
        of_tool = isinstance(message, ToolMessage)
        if of_tool and blocks and all(map(is_plain_data, blocks)):
            blocks = [as_text(blocks)]  # a list of data, as any other
        for i, block in enumerate(blocks):
            if (data := data_of(block)) is not None:
                blocks[i] = await self._kept(data)
            elif is_file(block) or (of_tool and is_plain_data(block)):
                blocks[i] = as_text(block)
            elif of_tool and isinstance(block, Mapping) and block.get("type") != "text":  # pyright: ignore[reportUnknownMemberType]
                blocks[i] = without_base64(block)
        if blocks == message.content:
            return message
        return message.model_copy(update={"content": blocks})

    async def _kept(self, data: FileData) -> dict[str, Any]:
        mime_type, text, name = data
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return _text(f"[a file of the type {mime_type} is left out: it is no base64]")
        if self._store is None:
            return _text(f"[a file of the type {mime_type} is left out: this worker keeps none]")
        if why := self._store.size_error(len(content), name):
            return _text(f"[left out: {why}]")
        return (await self._store.put(content, mime_type, name)).block

    async def shown(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Messages as a model is given them: with the bytes of their files.

        What a model made itself it is told of, and not shown: services take none of it back.

        Raises:
            StoreIncomplete: a file is not there.
        """
        return [
            await self._with_bytes(message) if isinstance(message.content, list) else message
            for message in messages
        ]

    async def _with_bytes(self, message: BaseMessage) -> BaseMessage:
        blocks: list[Any] = list(cast("list[Any]", message.content))
        for i, block in enumerate(blocks):
            if not is_file(block):
                continue
            if isinstance(message, AIMessage) or self._store is None:
                blocks[i] = _text(named(block))
                continue
            data = await self._store.get(str(block["sha256"]))
            mime_type = str(block["mime_type"])
            blocks[i] = {
                "type": kind_of(mime_type),
                "base64": base64.b64encode(data).decode(),
                "mime_type": mime_type,
            }
            if blocks[i]["type"] == "file":  # services of OpenAI's kind want a name
                blocks[i]["filename"] = str(block.get("name") or mime_type.replace("/", "."))
        return message.model_copy(update={"content": blocks})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# -- the spellings of files ----------------------------------------------------------------------

_FILES = frozenset(
    {"image", "audio", "video", "file", "document", "media", "image_url", "image_generation_call"}
    | {"input_image", "input_file", "input_audio"}
)
"""Types of blocks of content that are files, of LangChain and of services."""
_INSIDE = ("source", "file", "image_url", "input_audio", "inline_data", "inlineData")
"""Keys of a block in which a mapping has its data."""
_ALONE = ("image", "document", "audio", "video", "inline_data", "inlineData")
"""Keys that say what a block without a type is, where it has no other key."""
_MIME_TYPES = ("mime_type", "mimeType", "media_type")
_DATA = ("base64", "data", "bytes", "blob", "file_data", "result")
_ADDRESSES = ("url", "image_url", "file_url", "file_uri", "fileUri", "file_id")
_OF_ADDRESSED = frozenset(
    {*_INSIDE, *_MIME_TYPES, *_ADDRESSES, "type", "source_type", "id", "index", "extras", "text"}
    | {"metadata", "detail", "filename", "name", "title", "context", "citations", "cache_control"}
)
"""Keys of a block whose file is at an address, or is text: what has others is data."""
_CERTAIN = 1000
"""Characters of base64 beside a MIME type that are a file in a block of any type."""
_LONGEST = 10_000
"""Characters of base64 in data that stay there."""
_BASE64 = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_\s-]+={0,2}\s*")


def data_of(block: Any) -> FileData | None:
    """The file whose bytes are in a block of content, however LangChain or a service spells it."""
    kind, found = _unwrapped(block)
    parts = list(_parts(found))
    types = (part[key] for part in parts for key in _MIME_TYPES if isinstance(part.get(key), str))
    mime_type = next(types, "")
    name = next(filter(None, map(_name_in, parts)), "")
    if kind not in _FILES:
        if not mime_type:
            return None
        certain = (_bytes_in(part, least=_CERTAIN) for part in parts)
        data = next(filter(None, certain), "")
        return _checked(mime_type, data, name) if data else None
    for part in parts:
        if part is not found and part.get("type") in ("text", "content"):
            continue  # a document of text
        if data := _bytes_in(part):
            if data.startswith("data:"):
                return _of_url(data, name)
            return _checked(mime_type or _type_by_format(kind, parts), data, name)
    return None


def _unwrapped(block: Any) -> tuple[str, Mapping[str, Any]]:
    """The type of a block, and what it has: some are wrapped in another one."""
    if not isinstance(block, Mapping):
        return "", {}
    found = cast("Mapping[str, Any]", block)
    if found.get("type") == "non_standard" and isinstance(found.get("value"), Mapping):
        return _unwrapped(found["value"])
    if len(found) == 1 and (key := next(iter(found))) in _ALONE and isinstance(found[key], Mapping):
        return ("file" if key.startswith("inline") else key), found[key]
    kind = found.get("type")
    return (kind if isinstance(kind, str) else ""), found


def _parts(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A block, and the mappings in it that may have its data."""
    yield found
    for key in _INSIDE:
        if isinstance(inner := found.get(key), Mapping):
            yield cast("Mapping[str, Any]", inner)


def _name_in(part: Mapping[str, Any]) -> str:
    extras = part.get("extras") or part.get("metadata")
    inner = cast("Mapping[str, Any]", extras).get("filename") if isinstance(extras, Mapping) else ""
    return str(part.get("filename") or part.get("name") or inner or "")


def _bytes_in(part: Mapping[str, Any], least: int = 1) -> str:
    """The bytes in a block as base64, or as an address that has them; empty: it has none."""
    for key in _ADDRESSES:
        if isinstance(url := part.get(key), str) and url.startswith("data:") and ";base64," in url:
            return url
    for key in _DATA:
        value = part.get(key)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, str) and len(value) >= least:
            return value if least == 1 or _BASE64.fullmatch(value) else ""
    return ""


def _type_by_format(kind: str, parts: Sequence[Mapping[str, Any]]) -> str:
    formats = (part.get("format") or part.get("output_format") for part in parts)
    said = next((each for each in formats if isinstance(each, str)), "")
    match kind:
        case "input_audio" | "audio":
            return f"audio/{said or 'wav'}"
        case "image_generation_call":
            return f"image/{said or 'png'}"
        case _:
            return mimetypes.guess_type(f"a.{said}")[0] or ""


def _of_url(url: str, name: str) -> FileData | None:
    head, _, data = url.removeprefix("data:").partition(",")
    return _checked(head.partition(";")[0], data, name)


def _checked(mime_type: str, data: str, name: str) -> FileData | None:
    known = re.fullmatch(MIME_TYPE, mime_type)
    return ((mime_type if known else "application/octet-stream"), data, name) if data else None


def is_plain_data(block: Any) -> bool:
    """Whether a block that is typed as a file has none, neither in it nor at an address.

    A tool that lists files returns such blocks. No service takes them for content.
    """
    kind, found = _unwrapped(block)
    if kind not in _FILES or data_of(block) is not None:
        return False
    by_id = found.get("source_type") == "id" and isinstance(found.get("id"), str)
    addressed = by_id or any(
        isinstance(part.get(key), str) for part in _parts(found) for key in (*_ADDRESSES, "text")
    )
    source = found.get("source")
    texts = isinstance(source, Mapping) and "type" in source  # a document of text, of blocks
    return not (addressed or texts) or not found.keys() <= _OF_ADDRESSED


def without_base64(value: Any) -> Any:
    """Data without long texts of base64, which no model can read: they are told of instead."""
    if isinstance(value, str):
        if len(value) <= _LONGEST or not _BASE64.fullmatch(value) or value == value.lower():
            return value
        return f"[{len(value):,} characters of base64 are left out]"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {key: without_base64(each) for key, each in pairs.items()}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [without_base64(each) for each in items]
    return value


def as_text(data: Any) -> dict[str, Any]:
    """Data as a block of text."""
    return _text(json.dumps(without_base64(data), ensure_ascii=False))
