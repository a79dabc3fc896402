"""Where the bytes of messages' files are: beside large payloads, by hash, encrypted like them.

Workers and clients share the folder. A message has a reference (`crewlog.message_files`), the
history has the message, and neither has the bytes: the store may be lost and rebuilt, and no file
is lost with it.
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
from crewlog.payload_storage.external_storage import DirectoryDriver

GivenFile = Path | str | bytes | FileRef
"""A file as people and programs give it: its path, its bytes, or one that is kept."""
LARGEST = 20_000_000
"""Bytes of a file, where nothing else is set."""
SETTING = "CREWLOG_LARGEST_FILE"
_FOLDER = "files"
_SHORTEST = 8
"""Characters of a hash by which a file may be found."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STARTS: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
}
"""How files begin that are given without a name."""


class FileStore:
    """Keeps files by the SHA-256 of their bytes.

    Args:
        directory: The folder of large payloads.
        codec: What encrypts them; none: nothing does.
        largest: Bytes of a file that is taken.
    """

    def __init__(
        self, directory: Path, codec: PayloadCodec | None = None, largest: int = LARGEST
    ) -> None:
        self._directory = directory / _FOLDER
        self._codec = codec
        self.largest = largest
        """Bytes of a file that is taken."""

    @classmethod
    def of(cls, converter: DataConverter) -> FileStore | None:
        """The files beside the payloads of a client; none where it keeps none beside the history.

        Raises:
            UsageError: the environment's limit of size is no number.
        """
        storage = converter.external_storage
        drivers = storage.drivers if storage is not None else ()
        found = next((each for each in drivers if isinstance(each, DirectoryDriver)), None)
        if found is None:
            return None
        return cls(found.directory, converter.payload_codec, _largest())

    async def put(self, data: bytes, mime_type: str, name: str = "") -> FileRef:
        """Keeps a file.

        Raises:
            UsageError: it is larger than files may be.
            StoreUnavailable: it cannot be written.
        """
        if why := self.size_error(len(data), name):
            raise UsageError(why, remedy=f"Make it smaller, or raise {SETTING}.", place=name)
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
        """What to say of a file that is larger than files may be; empty where it is not."""
        if size <= self.largest:
            return ""
        what = f"the file {name!r}" if name else "a file"
        return f"{what} has {size:,} bytes, and the files of messages may have {self.largest:,}"

    async def get(self, sha256: str) -> bytes:
        """The bytes of a file.

        Raises:
            StoreIncomplete: it is not there, or damaged.
        """
        path = self._path(sha256)
        try:
            payload = Payload.FromString(await asyncio.to_thread(path.read_bytes))
            if self._codec is not None:
                [payload] = await self._codec.decode([payload])
        except Exception as error:
            raise _is_away(path, sha256) from error
        if hashlib.sha256(payload.data).hexdigest() != sha256:
            raise _is_away(path, sha256)
        return payload.data

    async def take(self, given: Sequence[GivenFile]) -> tuple[FileRef, ...]:
        """Keeps files that people or programs give: paths, bytes, or what is kept already.

        Raises:
            UsageError: one cannot be read, is too large, or nobody can tell what it is.
        """
        if len(given) > MOST_FILES:
            raise UsageError(
                f"{len(given)} files go with one message, and {MOST_FILES} may",
                remedy="Send the others with another message.",
            )
        return tuple([await self._taken(each) for each in given])

    async def _taken(self, given: GivenFile) -> FileRef:
        if isinstance(given, FileRef):
            return given
        if isinstance(given, bytes):
            return await self.put(given, mime_type_of("", given))
        path = Path(given)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            data = b"" if self.size_error(size) else await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise UsageError(
                f"the file {str(path)!r} cannot be read: {error.strerror}",
                remedy="Correct its path.",
                place=str(path),
            ) from error
        if why := self.size_error(size, str(path)):
            raise UsageError(why, remedy=f"Make it smaller, or raise {SETTING}.", place=str(path))
        return await self.put(data, mime_type_of(path.name, data), path.name)

    async def find(self, start: str) -> str:
        """The hash that begins so, as people are shown it: `sha256:ab12cd34ef56`.

        Raises:
            UsageError: no file's does, or several do.
        """
        begin = start.removeprefix("sha256:").rstrip("…")
        if len(begin) < _SHORTEST or not re.fullmatch(r"[0-9a-f]+", begin):
            self._path(begin)  # it is a whole one, or refused
        pattern = f"{begin[:2]}/{begin}*"
        found = await asyncio.to_thread(lambda: sorted(self._directory.glob(pattern)))
        names = [each.name for each in found if _SHA256.fullmatch(each.name)]
        if len(names) == 1:
            return names[0]
        raise UsageError(
            f"{len(names) or 'no'} files have a hash that begins with {begin!r}",
            remedy="Give more of the hash." if names else "Use the workers' CREWLOG_PAYLOADS.",
        )

    def _path(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):  # a stranger's: no other file may be named by it
            raise UsageError(
                f"{sha256!r} is no file's hash",
                remedy="It has 64 hexadecimal digits: `crewlog log RUN --json` has it.",
            )
        return self._directory / sha256[:2] / sha256


def mime_type_of(name: str, data: bytes) -> str:
    """What a file is, by its name or by how it begins.

    Raises:
        UsageError: nobody can tell.
    """
    known = mimetypes.guess_type(name)[0] if name else None
    known = known or next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)
    if known is None and data[:4] == b"RIFF":
        known = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(data[8:12])
    if known is None:
        which = f"the file {name!r}" if name else "a file"
        raise UsageError(
            f"the type of {which} is not known",
            remedy="Give it a name with the usual ending: .png, .pdf, .mp3.",
            place=name,
        )
    return "audio/wav" if known == "audio/x-wav" else known


def _largest() -> int:
    said = os.environ.get(SETTING, "")
    if said and not (said.isascii() and said.isdecimal() and int(said)):
        raise UsageError(f"{SETTING} is {said!r}, and must be a number of bytes", place=SETTING)
    return int(said) if said else LARGEST


def _write(directory: Path, path: Path, data: bytes) -> None:
    try:
        write_file(directory, path, data)
    except OSError as error:
        raise write_error("file", len(data), path.parent, error) from error


def _is_away(path: Path, sha256: str) -> StoreIncomplete:
    return StoreIncomplete(
        f"the file sha256:{sha256[:12]} is not there, or damaged",
        place=str(path),
        remedy="All workers and clients need the same CREWLOG_PAYLOADS directory.",
    )
