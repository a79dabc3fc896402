"""The files of messages: stored by their hash, and loaded for a model call.

Only Crewlog writes the content blocks that refer to files: for files that users send, and for bytes
in the output of a tool or a model. A block of a tool or a model that looks like a reference is data
and becomes a text, before the message is stored.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from crewlog.content_blocks import MIME_TYPE, file_label, is_file, kind_of
from crewlog.payload_storage.file_store import FileStore

_M = TypeVar("_M", bound=BaseMessage)
FileData = tuple[str, str, str]
"""The MIME type of a file in a block, its bytes in base64, and its name."""


class Files:
    """The files of messages on a worker.

    Args:
        store: The store of files; None: files are left out of messages.
    """

    def __init__(self, store: FileStore | None) -> None:
        self._store = store

    async def store_files(self, message: _M) -> _M:
        """Stores the files of a tool's or a model's message; returns it with references to them."""
        blocks: list[Any] = list(cast("list[Any]", message.content))
        of_tool = isinstance(message, ToolMessage)
        if of_tool and blocks and all(map(is_plain_data, blocks)):
            blocks = [build_text_block(blocks)]
        for i, block in enumerate(blocks):
            if (data := find_file(block)) is not None:
                blocks[i] = await self._store_file(data)
            elif is_file(block) or (of_tool and is_plain_data(block)):
                blocks[i] = build_text_block(block)
            elif of_tool and isinstance(block, Mapping) and block.get("type") != "text":  # pyright: ignore[reportUnknownMemberType]
                blocks[i] = without_base64(block)
        if blocks == message.content:
            return message
        return message.model_copy(update={"content": blocks})

    async def _store_file(self, data: FileData) -> dict[str, Any]:
        mime_type, text, name = data
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return _text(f"[a file of the type {mime_type} is left out: it is not base64]")
        if self._store is None:
            return _text(f"[a file of the type {mime_type} is left out: this worker stores none]")
        if why := self._store.size_error(len(content), name):
            return _text(f"[left out: {why}]")
        return (await self._store.put(content, mime_type, name)).block

    async def load_files(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Returns messages for a model, with the bytes of their files.

        A file that a model made is only named, since services do not accept their own output.

        Raises:
            StoreIncomplete: a file is missing.
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
                blocks[i] = _text(file_label(block))
                continue
            data = await self._store.get(str(block["sha256"]))
            mime_type = str(block["mime_type"])
            blocks[i] = {
                "type": kind_of(mime_type),
                "base64": base64.b64encode(data).decode(),
                "mime_type": mime_type,
            }
            if blocks[i]["type"] == "file":  # services compatible with OpenAI require a name
                blocks[i]["filename"] = str(block.get("name") or mime_type.replace("/", "."))
        return message.model_copy(update={"content": blocks})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# -- formats of file blocks ----------------------------------------------------------------------

_FILE_TYPES = frozenset(
    {"image", "audio", "video", "file", "document", "media", "image_url", "image_generation_call"}
    | {"input_image", "input_file", "input_audio"}
)
"""The types of content blocks with files, of LangChain and of services."""
_NESTED_KEYS = ("source", "file", "image_url", "input_audio", "inline_data", "inlineData")
"""Keys of a block whose value is a mapping with the data."""
_TYPE_KEYS = ("image", "document", "audio", "video", "inline_data", "inlineData")
"""Keys that are the type of a block with no type and no other key."""
_MIME_TYPE_KEYS = ("mime_type", "mimeType", "media_type")
_DATA_KEYS = ("base64", "data", "bytes", "blob", "file_data", "result")
_ADDRESS_KEYS = ("url", "image_url", "file_url", "file_uri", "fileUri", "file_id")
_KEYS_WITH_ADDRESS = frozenset(
    {
        *_NESTED_KEYS,
        *_MIME_TYPE_KEYS,
        *_ADDRESS_KEYS,
        "type",
        "source_type",
        "id",
        "index",
        "extras",
        "text",
    }
    | {"metadata", "detail", "filename", "name", "title", "context", "citations", "cache_control"}
)
"""The keys of a block whose file is at an address, or is text; a block with other keys is data."""
_CERTAIN_LENGTH = 1000
"""The characters of base64 from which a block of any type with a MIME type is a file."""
_LONGEST_BASE64 = 10_000
"""The most characters of base64 that stay in data."""
_BASE64 = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_\s-]+={0,2}\s*")


def find_file(block: Any) -> FileData | None:
    """Returns the file whose bytes are in a content block, in any format of LangChain or services.

    None: the block has no bytes of a file.
    """
    kind, fields = _unwrap(block)
    parts = _parts(fields)
    mime_type = _find_text(parts, _MIME_TYPE_KEYS)
    is_typed = kind in _FILE_TYPES
    if not (is_typed or mime_type):
        return None
    least = 1 if is_typed else _CERTAIN_LENGTH
    data = next(filter(None, (_find_bytes(part, least) for part in parts)), "")
    if data.startswith("data:"):
        head, _, data = data.removeprefix("data:").partition(",")
        mime_type = head.partition(";")[0]
    if not data:
        return None
    mime_type = mime_type or _type_by_format(kind, parts)
    is_valid = re.fullmatch(MIME_TYPE, mime_type)
    extras = [fields[key] for key in ("extras", "metadata") if isinstance(fields.get(key), Mapping)]
    name = _find_text(parts, ("filename", "name")) or _find_text(extras, ("filename",))
    return (mime_type if is_valid else "application/octet-stream"), data, name


def _unwrap(block: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the type and the fields of a block, which may be wrapped in another one."""
    if not isinstance(block, Mapping):
        return "", {}
    fields = cast("Mapping[str, Any]", block)
    if fields.get("type") == "non_standard" and isinstance(fields.get("value"), Mapping):
        return _unwrap(fields["value"])
    key = next(iter(fields)) if len(fields) == 1 else ""
    if key in _TYPE_KEYS and isinstance(fields[key], Mapping):
        return ("file" if key.startswith("inline") else key), fields[key]
    kind = fields.get("type")
    return (kind if isinstance(kind, str) else ""), fields


def _parts(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns a block, and the mappings in it that may have its data; a document's text has not."""
    inner = (fields[key] for key in _NESTED_KEYS if isinstance(fields.get(key), Mapping))
    return [fields, *(part for part in inner if part.get("type") not in ("text", "content"))]


def _find_text(parts: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    found = (part.get(key) for part in parts for key in keys)
    return next((text for text in found if text and isinstance(text, str)), "")


def _find_bytes(part: Mapping[str, Any], least: int = 1) -> str:
    """Returns the bytes in a block as base64 or as a data URL; empty: it has none."""
    for key in _ADDRESS_KEYS:
        if isinstance(url := part.get(key), str) and url.startswith("data:") and ";base64," in url:
            return url
    for key in _DATA_KEYS:
        value = part.get(key)
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, str) and len(value) >= least:
            return value if least == 1 or _BASE64.fullmatch(value) else ""
    return ""


def _type_by_format(kind: str, parts: Sequence[Mapping[str, Any]]) -> str:
    format_ = _find_text(parts, ("format", "output_format"))
    match kind:
        case "input_audio" | "audio":
            return f"audio/{format_ or 'wav'}"
        case "image_generation_call":
            return f"image/{format_ or 'png'}"
        case _:
            return mimetypes.guess_type(f"a.{format_}")[0] or ""


def is_plain_data(block: Any) -> bool:
    """Whether a block with the type of a file has neither bytes nor an address.

    A tool that lists files returns such blocks. No service accepts them as content.
    """
    kind, fields = _unwrap(block)
    if kind not in _FILE_TYPES or find_file(block) is not None:
        return False
    has_id = fields.get("source_type") == "id" and isinstance(fields.get("id"), str)
    has_address = has_id or _find_text(_parts(fields), (*_ADDRESS_KEYS, "text"))
    source = fields.get("source")
    has_text = isinstance(source, Mapping) and "type" in source  # a document of text or blocks
    return not (has_address or has_text) or not fields.keys() <= _KEYS_WITH_ADDRESS


def without_base64(value: Any) -> Any:
    """Returns data with a note instead of each long text of base64, which no model can read."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_BASE64 or not _BASE64.fullmatch(value) or value == value.lower():
            return value
        return f"[{len(value):,} characters of base64 are left out]"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value)
        return {key: without_base64(each) for key, each in pairs.items()}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [without_base64(each) for each in items]
    return value


def build_text_block(data: Any) -> dict[str, Any]:
    """Returns data as a text block."""
    return _text(json.dumps(without_base64(data), ensure_ascii=False))
