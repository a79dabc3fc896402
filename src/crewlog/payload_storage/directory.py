"""Crewlog's directory on this machine, and atomic writes of files.

A module of its own, since the command line imports it to parse arguments.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from crewlog.errors import StoreUnavailable


def data_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Crewlog's directory on this machine: `CREWLOG_HOME`, else the user's data directory.

    Args:
        environ: The environment; by default that of the process.
    """
    chosen = (os.environ if environ is None else environ).get("CREWLOG_HOME")
    path = Path(chosen) if chosen else Path(platformdirs.user_data_dir("crewlog"))
    return path.expanduser().resolve()


def write_file(directory: Path, path: Path, data: bytes) -> None:
    """Writes a file below a directory atomically.

    The files in a private directory are private, too; in a shared one the umask decides.

    Args:
        directory: The directory; created if it is missing.
        path: The file.
        data: Its content.

    Raises:
        OSError: it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(directory.stat().st_mode)
    for parent in reversed(path.relative_to(directory).parents[:-1]):
        (directory / parent).mkdir(mode=mode, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{id(data):x}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode & 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)


def write_error(what: str, size: int, place: Path, error: OSError) -> StoreUnavailable:
    """The error for a file that cannot be written.

    Args:
        what: The kind of content: `payload`, `file`.
        size: Its size in bytes.
        place: The directory.
        error: The cause.
    """
    return StoreUnavailable(
        f"a {what} of {size} bytes could not be written: {error.strerror}",
        place=str(place),
        remedy="Free space, or set CREWLOG_PAYLOADS to a writable directory.",
    )
