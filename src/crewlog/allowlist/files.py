"""Opens files of a workspace, safe against changes between the check and the use.

A path is walked folder by folder, from the descriptor of the workspace, and no link is followed:
the checked file is the opened file. If a folder is replaced by a link meanwhile, the open is
rejected.
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
# Some systems lack some of these flags.
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: int = getattr(os, "O_DIRECTORY", 0)
_PLAIN: int = (
    getattr(os, "O_NONBLOCK", 0)  # else opening a pipe would block
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_BY_FOLDER = os.open in os.supports_dir_fd
_REMEDY = "Give a path relative to the workspace, without links."


def resolve_within(
    root: Path, path: str, folders: Sequence[str] = (), owner: str = "the tool"
) -> Path:
    """The absolute path of a file below `root`, with its links resolved; it need not exist.

    Args:
        root: The workspace.
        path: A path relative to it.
        folders: Folders of it that the path must be in; empty: any.
        owner: The owner of the path, for the error.

    Raises:
        NotInAllowlist: the path is invalid, or leaves the workspace or the folders.
    """
    result = check_path(path)
    if not result.allowed:
        raise NotInAllowlist(
            f"the path {path!r} is not inside the workspace: {result.reason}",
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
            f"{owner} may not use {path!r}",
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
        mode: As for `open`. For writing, missing folders are created.
        folders: Folders that the path must be in; empty: any.
        options: Other arguments of `open`: `encoding`, `newline`, …

    Raises:
        NotInAllowlist: the path is not allowed, or is a link, a device or a pipe.
        OSError: as `open`.
    """
    kind = mode.replace("b", "").replace("t", "").replace("+", "")
    if kind not in _FLAGS:
        raise ValueError(f"there is no mode {mode!r}")
    if "b" not in mode:
        options.setdefault("encoding", "utf-8")
    result = check_path(path, folders)
    if not result.allowed:
        raise NotInAllowlist(result.reason, remedy=_REMEDY)
    flags = _FLAGS[kind]
    if "+" in mode:
        flags = (flags & ~os.O_WRONLY) | os.O_RDWR
    writes = kind != "r" or "+" in mode
    names = [name for name in path.split("/") if name not in ("", ".")]
    if not names or path.endswith("/"):
        raise NotInAllowlist(f"the path {path!r} is a folder", remedy="Name a file in it.")

    def opener(_path: str, _flags: int) -> int:
        fd = _open_below(root.resolve(), names, flags, path, create_folders=kind != "r")
        try:
            _check_regular(fd, path, writes=writes)
            if kind == "w":
                os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    # `open` closes the descriptor that the opener returns, even if it fails. A second close could
    # hit a descriptor that another thread has opened since.
    return open(path, mode, opener=opener, **options)


def _open_below(
    root: Path, names: list[str], flags: int, path: str, *, create_folders: bool
) -> int:
    if not _BY_FOLDER:  # no descriptors of folders: check, then open
        full = resolve_within(root, "/".join(names))
        if create_folders:
            full.parent.mkdir(parents=True, exist_ok=True)
        return os.open(full, flags | _NO_FOLLOW | _PLAIN, 0o666)
    folder = os.open(root, os.O_RDONLY | _FOLDER | _PLAIN)
    try:
        for name in names[:-1]:
            parent, folder = folder, _open_folder(folder, name, path, create_folders=create_folders)
            os.close(parent)
        try:
            return os.open(names[-1], flags | _NO_FOLLOW | _PLAIN, 0o666, dir_fd=folder)
        except OSError as exc:
            raise _explain(exc, path) from exc
    finally:
        os.close(folder)


def _open_folder(parent: int, name: str, path: str, *, create_folders: bool) -> int:
    flags = os.O_RDONLY | _FOLDER | _NO_FOLLOW | _PLAIN
    try:
        try:
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            if not create_folders:
                raise
        with suppress(FileExistsError):  # the next line opens it
            os.mkdir(name, dir_fd=parent)
        return os.open(name, flags, dir_fd=parent)
    except OSError as exc:
        raise _explain(exc, path) from exc


def _explain(exc: OSError, path: str) -> Exception:
    if exc.errno in (errno.ELOOP, errno.EMLINK):
        return NotInAllowlist(f"the path {path!r} contains a symbolic link", remedy=_REMEDY)
    if exc.errno == errno.ENOTDIR:  # also for a link instead of a folder
        return NotInAllowlist(f"a part of {path!r} is not a folder, or is a link", remedy=_REMEDY)
    if exc.errno in (errno.ENXIO, errno.ENODEV):
        return NotInAllowlist(f"the path {path!r} is not a regular file", remedy=_REMEDY)
    return type(exc)(exc.errno, os.strerror(exc.errno or 0), path)


def _check_regular(fd: int, path: str, *, writes: bool) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise NotInAllowlist(f"the path {path!r} is not a regular file", remedy=_REMEDY)
    if writes and status.st_nlink > 1:
        raise NotInAllowlist(
            f"the file {path!r} has a hard link, which may be outside of the workspace",
            remedy="Write another file, and replace this one by it.",
        )
