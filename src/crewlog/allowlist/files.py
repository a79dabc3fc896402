"""Files of a workspace, opened so that nothing can be swapped between the look and the use.

A path is walked folder by folder from the workspace's own descriptor, and no link is followed: what
was looked at is what is opened. Whoever swaps a folder for a link meanwhile wins a refusal.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from crewlog.authority.allowlist import check_path
from crewlog.errors import NotInAllowlist

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}
# Some systems lack some of them, and are as safe as they can be.
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: int = getattr(os, "O_DIRECTORY", 0)
_PLAIN: int = (
    getattr(os, "O_NONBLOCK", 0)  # a pipe that nobody writes to would be waited for
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_BY_FOLDER = os.open in os.supports_dir_fd
_REMEDY = "Give a path relative to the workspace, without links."


def resolve_within(
    root: Path, path: str, folders: Sequence[str] = (), who: str = "the tool"
) -> Path:
    """The absolute path of a file below `root`, whether it exists or not, its links followed.

    Args:
        root: The workspace.
        path: A path relative to it.
        folders: Folders of it that the path must be in; empty means anywhere.
        who: Whose path it is, for people.

    Raises:
        NotInAllowlist: for a path that is none, or that leaves the workspace or the folders.
    """
    found = check_path(path)
    if not found.allowed:
        raise NotInAllowlist(
            f"the path {path!r} is not inside the workspace: {found.reason}",
            remedy="Give a path relative to the workspace, without '..'.",
        )
    root = root.resolve()
    try:
        full = (root / path).resolve()
    except (OSError, RuntimeError) as exc:  # a loop of links, a name that is too long
        raise NotInAllowlist(
            f"the path {path!r} cannot be followed: {exc}", remedy="Choose another path."
        ) from exc
    if not full.is_relative_to(root):
        raise NotInAllowlist(
            f"the path {path!r} leaves the workspace by a symbolic link",
            remedy="Choose a path that stays inside the workspace.",
        )
    if folders and not any(full.is_relative_to(root / allowed) for allowed in folders):
        raise NotInAllowlist(
            f"{who} may not use {path!r}",
            remedy=f"It may use: {', '.join(folders)}.",
        )
    return full


def open_within(
    root: Path, path: str, mode: str = "r", folders: Sequence[str] = (), **options: Any
) -> IO[Any]:
    """Opens a plain file below `root` without following any link.

    Args:
        root: The workspace.
        path: A path relative to it.
        mode: As for `open`. For writing, missing folders are made.
        folders: Folders that the path must be in; empty means anywhere.
        options: What else `open` takes: `encoding`, `newline`, …

    Raises:
        NotInAllowlist: where the path may not be used, or is a link, a device or a pipe.
        OSError: as `open` does.
    """
    kind = mode.replace("b", "").replace("t", "").replace("+", "")
    if kind not in _FLAGS:
        raise ValueError(f"there is no mode {mode!r}")
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    found = check_path(path, folders)
    if not found.allowed:
        raise NotInAllowlist(found.reason, remedy=_REMEDY)
    flags = _FLAGS[kind]
    if "+" in mode:
        flags = (flags & ~os.O_WRONLY) | os.O_RDWR
    writes = kind != "r" or "+" in mode
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not names or path.endswith("/"):
        raise NotInAllowlist(f"the path {path!r} is a folder", remedy="Name a file in it.")

    def opener(_path: str, _flags: int) -> int:
        fd = _opened(root.resolve(), names, flags, path, makes=kind != "r")
        try:
            _check_plain(fd, path, writes=writes)
            if kind == "w":
                os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    # From the opener's return on, the descriptor is closed by the file, also where that cannot be
    # made. Whoever closed it as well would close what another thread has opened since.
    return open(path, mode, opener=opener, **options)


def _opened(root: Path, names: list[str], flags: int, path: str, *, makes: bool) -> int:
    if not _BY_FOLDER:  # no descriptors of folders: look, then open
        full = resolve_within(root, "/".join(names))
        if makes:
            full.parent.mkdir(parents=True, exist_ok=True)
        return os.open(full, flags | _NO_FOLLOW | _PLAIN, 0o666)
    folder = os.open(root, os.O_RDONLY | _FOLDER | _PLAIN)
    try:
        for name in names[:-1]:
            left, folder = folder, _folder(folder, name, path, makes=makes)
            os.close(left)
        try:
            return os.open(names[-1], flags | _NO_FOLLOW | _PLAIN, 0o666, dir_fd=folder)
        except OSError as exc:
            raise _in_words(exc, path) from exc
    finally:
        os.close(folder)


def _folder(parent: int, name: str, path: str, *, makes: bool) -> int:
    flags = os.O_RDONLY | _FOLDER | _NO_FOLLOW | _PLAIN
    try:
        try:
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            if not makes:
                raise
        with suppress(FileExistsError):  # what somebody else made, the next line finds out
            os.mkdir(name, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)
    except OSError as exc:
        raise _in_words(exc, path) from exc


def _in_words(exc: OSError, path: str) -> Exception:
    if exc.errno in (errno.ELOOP, errno.EMLINK):
        return NotInAllowlist(f"the path {path!r} goes by a symbolic link", remedy=_REMEDY)
    if exc.errno == errno.ENOTDIR:  # also what a link in the place of a folder is told as
        return NotInAllowlist(f"a part of {path!r} is no folder, or a link", remedy=_REMEDY)
    if exc.errno in (errno.ENXIO, errno.ENODEV):
        return NotInAllowlist(f"the path {path!r} is no plain file", remedy=_REMEDY)
    return type(exc)(exc.errno, os.strerror(exc.errno or 0), path)


def _check_plain(fd: int, path: str, *, writes: bool) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise NotInAllowlist(f"the path {path!r} is no plain file", remedy=_REMEDY)
    if writes and found.st_nlink > 1:
        raise NotInAllowlist(
            f"the file {path!r} has another name, a hard link, which may be anywhere",
            remedy="Write to another file, and replace this one by it.",
        )
