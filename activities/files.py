"""Files in a worker's messages: kept by their hash, and read where a model is asked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage

from crewlog.file_store import FileStore
from crewlog.state.blocks import is_file, named
from crewlog.state.files import MIME_TYPE, kind_of

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
        """A message whose files are kept, and stand in it by their hashes."""
        blocks: list[Any] = list(cast("list[Any]", message.content))
        for i, block in enumerate(blocks):
            if (data := data_of(block)) is not None:
                blocks[i] = await self._kept(data)
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
        if why := self._store.too_large(len(content), name):
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


def data_of(block: Any) -> FileData | None:
    """The file in a block of content, however LangChain or a service spells it."""
    if not isinstance(block, Mapping):
        return None
    found = cast("Mapping[str, Any]", block)
    kind = found.get("type")
    extras = cast("Mapping[str, Any]", found.get("extras") or {})
    name = found.get("filename") or found.get("name") or extras.get("filename") or ""
    match kind:
        case "image" | "audio" | "video" | "file" | "document" if isinstance(
            found.get("base64") or found.get("data"), str
        ):
            mime = found.get("mime_type") or found.get("mimeType")
            return _checked(mime, found.get("base64") or found.get("data"), name)
        case "image" | "document" if isinstance(found.get("source"), Mapping):
            source = cast("Mapping[str, Any]", found["source"])
            return _checked(source.get("media_type"), source.get("data"), name)
        case "image_url":
            url = found.get("image_url")
            if isinstance(url, Mapping):
                url = cast("Mapping[str, Any]", url).get("url")
            return _of_url(url, name)
        case "input_audio" if isinstance(found.get("input_audio"), Mapping):
            audio = cast("Mapping[str, Any]", found["input_audio"])
            return _checked(f"audio/{audio.get('format') or 'wav'}", audio.get("data"), name)
        case "file" if isinstance(found.get("file"), Mapping):
            file = cast("Mapping[str, Any]", found["file"])
            return _of_url(file.get("file_data"), str(file.get("filename") or ""))
        case "image_generation_call":
            return _checked(f"image/{found.get('output_format') or 'png'}", found.get("result"), "")
        case _:
            return None


def _of_url(url: Any, name: str) -> FileData | None:
    if not isinstance(url, str) or not url.startswith("data:") or ";base64," not in url:
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    return _checked(head.partition(";")[0], data, name)


def _checked(mime_type: Any, data: Any, name: Any) -> FileData | None:
    if not isinstance(data, str) or not data:
        return None
    known = isinstance(mime_type, str) and MIME_TYPE.fullmatch(mime_type)
    return (mime_type if known else "application/octet-stream"), data, str(name or "")
