"""Directories: Crewlog's own on this machine, and files below that of payloads.

Apart from the other modules, since the command line imports it while it parses.
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
    """Write a file below a directory: readers see all of it, or nothing.

    In a private directory the files are private, too; in a shared one, the umask decides.

    Args:
        directory: The directory; it is created where it is missing.
        path: The file.
        data: Its bytes.

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
    """Return the error for a file that cannot be written.

    Args:
        what: What the file holds: `payload`, `file`.
        size: Its size in bytes.
        place: Where.
        error: The cause.
    """
    return StoreUnavailable(
        f"a {what} of {size} bytes could not be written: {error.strerror}",
        place=str(place),
        remedy="Make room, or point CREWLOG_PAYLOADS at a directory that can be written.",
    )
