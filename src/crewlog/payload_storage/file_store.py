"""The files of messages: stored beside large payloads, by hash, encrypted like them.

Workers and clients share the folder. A message in the history has only a reference
(`crewlog.message_files`). The bytes are not in the store, so a loss of the store loses no file.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, PayloadCodec

from crewlog.errors import StoreIncomplete, UsageError
from crewlog.message_files import MOST_FILES, FileRef
from crewlog.payload_storage.directory import write_error, write_file
from crewlog.payload_storage.external_storage import SHA256, DirectoryDriver

FileInput = Path | str | bytes | FileRef
"""A file to send: its path, its bytes, or a stored one."""
LARGEST = 20_000_000
"""The most bytes of a file by default."""
SETTING = "CREWLOG_LARGEST_FILE"
_FOLDER = "files"
_SHORTEST = 8
"""The fewest characters of a hash to find a file by."""
_SIGNATURES: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
}
"""The first bytes of files, to detect their type without a name."""


class FileStore:
    """Stores files by the SHA-256 of their bytes.

    Args:
        directory: The folder of large payloads.
        codec: Encrypts the files; None: they are plain.
        largest: The most bytes of a file.
    """

    def __init__(
        self, directory: Path, codec: PayloadCodec | None = None, largest: int = LARGEST
    ) -> None:
        self._directory = directory / _FOLDER
        self._codec = codec
        self.largest = largest
        """The most bytes of a file."""

    @classmethod
    def of(cls, converter: DataConverter) -> FileStore | None:
        """The files of a client; None if its converter has no folder.

        Raises:
            UsageError: the size limit of the environment is not a number.
        """
        storage = converter.external_storage
        drivers = storage.drivers if storage is not None else ()
        driver = next((each for each in drivers if isinstance(each, DirectoryDriver)), None)
        if driver is None:
            return None
        return cls(driver.directory, converter.payload_codec, _size_limit())

    async def put(self, data: bytes, mime_type: str, name: str = "") -> FileRef:
        """Stores a file.

        Raises:
            UsageError: it is too large.
            StoreUnavailable: it cannot be written.
        """
        if message := self.size_error(len(data), name):
            raise UsageError(message, remedy=f"Make it smaller, or raise {SETTING}.", place=name)
        sha256 = hashlib.sha256(data).hexdigest()
        path = self._path(sha256)
        if not path.exists():
            payload = Payload(metadata={"encoding": b"binary/plain"}, data=data)
            if self._codec is not None:
                [payload] = await self._codec.encode([payload])
            encoded = payload.SerializeToString(deterministic=True)
            await asyncio.to_thread(_write, self._directory.parent, path, encoded)
        return FileRef(sha256=sha256, mime_type=mime_type, size=len(data), name=name[:200])

    def size_error(self, size: int, name: str = "") -> str:
        """The error for a file that is too large; empty if it is not."""
        if size <= self.largest:
            return ""
        file = f"the file {name!r}" if name else "a file"
        return f"{file} has {size:,} bytes, and the files of messages may have {self.largest:,}"

    async def get(self, sha256: str) -> bytes:
        """The bytes of a file.

        Raises:
            StoreIncomplete: it is missing or damaged.
        """
        path = self._path(sha256)
        try:
            payload = Payload.FromString(await asyncio.to_thread(path.read_bytes))
            if self._codec is not None:
                [payload] = await self._codec.decode([payload])
        except Exception as error:
            raise _missing_file_error(path, sha256) from error
        if hashlib.sha256(payload.data).hexdigest() != sha256:
            raise _missing_file_error(path, sha256)
        return payload.data

    async def put_all(self, files: Sequence[FileInput]) -> tuple[FileRef, ...]:
        """Stores the files of a message.

        Raises:
            UsageError: there are too many; or one cannot be read, is too large, or has an unknown
                type.
        """
        if len(files) > MOST_FILES:
            raise UsageError(
                f"a message may have {MOST_FILES} files, and has {len(files)}",
                remedy="Send the others with another message.",
            )
        return tuple([await self._put_input(each) for each in files])

    async def _put_input(self, file: FileInput) -> FileRef:
        if isinstance(file, FileRef):
            return file
        if isinstance(file, bytes):
            return await self.put(file, mime_type_of("", file))
        path = Path(file)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            data = b"" if self.size_error(size) else await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise UsageError(
                f"the file {str(path)!r} cannot be read: {error.strerror}",
                remedy="Correct its path.",
                place=str(path),
            ) from error
        if message := self.size_error(size, str(path)):
            raise UsageError(
                message, remedy=f"Make it smaller, or raise {SETTING}.", place=str(path)
            )
        return await self.put(data, mime_type_of(path.name, data), path.name)

    async def find(self, start: str) -> str:
        """Finds the hash of a file by its start: `sha256:ab12cd34ef56`.

        Raises:
            UsageError: no hash starts so, or several do.
        """
        digits = start.removeprefix("sha256:").rstrip("…")
        if len(digits) < _SHORTEST or not re.fullmatch(r"[0-9a-f]+", digits):
            self._path(digits)  # raises an error
        pattern = f"{digits[:2]}/{digits}*"
        found = await asyncio.to_thread(lambda: sorted(self._directory.glob(pattern)))
        names = [each.name for each in found if SHA256.fullmatch(each.name)]
        if len(names) == 1:
            return names[0]
        raise UsageError(
            f"{len(names) or 'no'} files have a hash that starts with {digits!r}",
            remedy="Give more of the hash." if names else "Use the workers' CREWLOG_PAYLOADS.",
        )

    def _path(self, sha256: str) -> Path:
        if not SHA256.fullmatch(sha256):  # from outside: it must not name another file
            raise UsageError(
                f"{sha256!r} is not the hash of a file",
                remedy="It has 64 hexadecimal digits: `crewlog log RUN --json` has it.",
            )
        return self._directory / sha256[:2] / sha256


def mime_type_of(name: str, data: bytes) -> str:
    """The type of a file, by its name or its first bytes.

    Raises:
        UsageError: the type is unknown.
    """
    known = mimetypes.guess_type(name)[0] if name else None
    known = known or next(
        (kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None
    )
    if known is None and data[:4] == b"RIFF":
        known = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(data[8:12])
    if known is None:
        file = f"the file {name!r}" if name else "a file"
        raise UsageError(
            f"the type of {file} is unknown",
            remedy="Give it a name with the usual extension: .png, .pdf, .mp3.",
            place=name,
        )
    return "audio/wav" if known == "audio/x-wav" else known


def _size_limit() -> int:
    value = os.environ.get(SETTING, "")
    if value and not (value.isascii() and value.isdecimal() and int(value)):
        raise UsageError(
            f"{SETTING} is {value!r}, and must be a number of bytes",
            remedy=f"Set it to a positive number, or unset it: the default is {LARGEST}.",
            place=SETTING,
        )
    return int(value) if value else LARGEST


def _write(directory: Path, path: Path, data: bytes) -> None:
    try:
        write_file(directory, path, data)
    except OSError as error:
        raise write_error("file", len(data), path.parent, error) from error


def _missing_file_error(path: Path, sha256: str) -> StoreIncomplete:
    return StoreIncomplete(
        f"the file sha256:{sha256[:12]} is missing or damaged",
        place=str(path),
        remedy="All workers and clients need the same CREWLOG_PAYLOADS directory.",
    )
