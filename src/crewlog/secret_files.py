"""Files of a worker's machine that a definition may name as secrets: plain ones, and not its own.

Whoever writes a definition names files, which are read with the worker's rights.
`/proc/self/environ` is its environment, a pipe is waited for without an end, and its own keys are
for no crew. A file is opened first and judged then: what is read is what was looked at.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

LARGEST = 64 * 1024
"""Bytes of a file that holds a secret."""
FOLDERS = "CREWLOG_SECRET_FILES"
"""The variable that names the folders where such files may be, as `PATH` names folders; by default
they may be anywhere."""
OWN = re.compile(r"(CREWLOG_|TEMPORAL_|PG)[A-Z0-9_]*|DATABASE_URL")
"""Variables that are the worker's own: no crew has a use for them."""
_KERNEL = ("/proc", "/sys", "/dev")
"""Where files are what the system says of itself."""
_OWN_FILES = (".pgpass", ".postgresql", ".config/crewlog", ".config/temporalio")
"""Where a worker's own keys are by default, below its home."""
_FLAGS: int = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a pipe that nobody writes to would be waited for
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class SecretFileUnreadable(Exception):
    """A file that is not read; the text says why, and nothing of what is in it."""


def read_secret_file(path: str, environ: Mapping[str, str]) -> bytes:
    """What a file holds.

    Args:
        path: The file.
        environ: The worker's environment, which names its own files and the folders of secrets.

    Raises:
        SecretFileUnreadable: it is none that may be read.
        OSError: as `os.open`.
    """
    try:
        where = Path(path).expanduser()
    except RuntimeError:
        raise SecretFileUnreadable("there is no such home") from None
    # Links are followed: orchestrators put secrets behind them. What counts is where they lead.
    fd = os.open(where, _FLAGS)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise SecretFileUnreadable("it is no plain file")
        real = where.resolve()
        if not _is_same(real, found):
            raise SecretFileUnreadable("it was replaced while it was opened")
        if _is_the_systems(real, found):
            raise SecretFileUnreadable("it is a file of the system itself")
        if any(real == each or each in real.parents for each in _own_files(environ)):
            raise SecretFileUnreadable("it is one of the worker's own files")
        folders = [Path(each) for each in environ.get(FOLDERS, "").split(os.pathsep) if each]
        if folders and not any(each.resolve() in real.parents for each in folders):
            raise SecretFileUnreadable(f"it is in none of the folders that {FOLDERS} names")
        if found.st_size > LARGEST:
            raise SecretFileUnreadable(f"it has more than {LARGEST} bytes")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    finally:
        os.close(fd)
    if len(data) > LARGEST:
        raise SecretFileUnreadable(f"it has more than {LARGEST} bytes")
    return data


def _is_same(path: Path, found: os.stat_result) -> bool:
    return os.path.samestat(path.stat(), found)


def _is_the_systems(path: Path, found: os.stat_result) -> bool:
    if any(Path(each) in path.parents and each != "/dev" for each in _KERNEL):
        return True
    # The same under another name, by a mount.
    mounted = [each for each in _KERNEL if os.path.ismount(each)]
    return any(Path(each).stat().st_dev == found.st_dev for each in mounted)


def _own_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The files and folders of the worker itself."""
    with suppress(RuntimeError):
        for each in _OWN_FILES:
            yield (Path.home() / each).resolve()
    if config := environ.get("XDG_CONFIG_HOME"):
        for name in ("crewlog", "temporalio"):
            yield (Path(config) / name).resolve()
    for name, value in environ.items():
        # Files alone: a folder that a variable names may have a crew's files in it.
        if OWN.fullmatch(name) and value and name != FOLDERS:
            with suppress(OSError, ValueError):
                if (file := Path(value)).is_file():
                    yield file.resolve()
