"""Secrets: references in a definition, resolved only by the process that needs the value.

    env:GITHUB_TOKEN          a variable of the worker's environment
    file:/run/secrets/token   a regular file on the worker's machine, without a newline at its end

References may be in definitions, histories and logs, values may not. The activity that uses a value
resolves it, and the worker redacts it from then on (`redaction`).

The author of a definition chooses the files, and the worker reads them with its own rights. So
system files, pipes, and the worker's own keys are rejected. The worker opens a file before it
checks it, so that it reads the file that it has checked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from crewlog.definition.secrets import REFERENCE
from crewlog.errors import SecretMissing
from crewlog.model import Json
from crewlog.redaction import SHORTEST, register_secret

MAX_BYTES = 64 * 1024
"""The most bytes of a secret file."""
FOLDERS_VARIABLE = "CREWLOG_SECRET_FILES"
"""The variable with the allowed folders of secret files, separated as in `PATH`. Unset: all."""
WORKER_SETTING = re.compile(r"(CREWLOG_|TEMPORAL_|PG)[A-Z0-9_]*|DATABASE_URL")
"""The worker's own settings, which a crew may not use as secrets."""
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
_WORKER_FILES = (".pgpass", ".postgresql", ".config/crewlog", ".config/temporalio")
"""The default paths of the worker's own keys, below its home."""
_FLAGS: int = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # else opening a pipe would block
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class SecretFileUnreadable(Exception):
    """A rejected secret file. The message has the reason, never the content."""


def read_secret_file(path: str, environ: Mapping[str, str]) -> bytes:
    """Reads a secret file.

    Args:
        path: The file.
        environ: The worker's environment. It names the worker's own files and the allowed folders.

    Raises:
        SecretFileUnreadable: the file is rejected.
        OSError: as `os.open`.
    """
    try:
        file_path = Path(path).expanduser()
    except RuntimeError:
        raise SecretFileUnreadable("its home folder does not exist") from None
    # Links are followed, since orchestrators use them. Their target is checked.
    fd = os.open(file_path, _FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise SecretFileUnreadable("it is not a regular file")
        real = file_path.resolve()
        if not _is_same_file(real, status):
            raise SecretFileUnreadable("it was replaced while it was opened")
        if _is_system_file(real, status):
            raise SecretFileUnreadable("it is a system file")
        if any(real == each or each in real.parents for each in _worker_files(environ)):
            raise SecretFileUnreadable("it is one of the worker's own files")
        folders = [
            Path(each) for each in environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if each
        ]
        if folders and not any(each.resolve() in real.parents for each in folders):
            raise SecretFileUnreadable(f"it is in no folder that {FOLDERS_VARIABLE} lists")
        if status.st_size > MAX_BYTES:
            raise SecretFileUnreadable(f"it has more than {MAX_BYTES} bytes")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_BYTES:
        raise SecretFileUnreadable(f"it has more than {MAX_BYTES} bytes")
    return data


def _is_same_file(path: Path, status: os.stat_result) -> bool:
    return os.path.samestat(path.stat(), status)


def _is_system_file(path: Path, status: os.stat_result) -> bool:
    if any(Path(each) in path.parents and each != "/dev" for each in _SYSTEM_FOLDERS):
        return True
    # A system folder may also be mounted at another path.
    mounted = [each for each in _SYSTEM_FOLDERS if os.path.ismount(each)]
    return any(Path(each).stat().st_dev == status.st_dev for each in mounted)


def _worker_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The worker's own files and folders."""
    with suppress(RuntimeError):
        for each in _WORKER_FILES:
            yield (Path.home() / each).resolve()
    if config := environ.get("XDG_CONFIG_HOME"):
        for name in ("crewlog", "temporalio"):
            yield (Path(config) / name).resolve()
    for name, value in environ.items():
        # No folders: a folder that a variable names may contain files of a crew.
        if WORKER_SETTING.fullmatch(name) and value and name != FOLDERS_VARIABLE:
            with suppress(OSError, ValueError):
                if (file := Path(value)).is_file():
                    yield file.resolve()


def resolve(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """Resolves a reference to its value, which this process redacts from then on.

    Args:
        reference: `env:NAME` or `file:PATH`.
        environ: The environment; by default that of the process.

    Raises:
        SecretMissing: this process does not have it, or it is too short. The message has the
            reference, never the value.
    """
    if not REFERENCE.fullmatch(reference):
        # Without the text, which may be the secret itself.
        raise SecretMissing(
            "a secret is not a reference",
            remedy="Write env:NAME or file:PATH, and store the value there.",
        )
    kind, _, name = reference.partition(":")
    read = _read_variable if kind == "env" else _read_file
    value = read(name, reference, os.environ if environ is None else environ)
    if len(value) < SHORTEST:
        raise SecretMissing(
            f"the secret {reference!r} has fewer than {SHORTEST} characters",
            remedy="Use a longer secret: a text as short as this cannot be redacted from logs.",
            place=reference,
        )
    register_secret(value)
    return value


def resolve_references(value: Json, environ: Mapping[str, str] | None = None) -> Json:
    """Resolves all references in a JSON value.

    Args:
        value: The value.
        environ: As for `resolve`.

    Raises:
        SecretMissing: see `resolve`.
    """
    match value:
        case str() if REFERENCE.fullmatch(value):
            return resolve(value, environ)
        case dict():
            entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return {key: resolve_references(each, environ) for key, each in entries.items()}
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return [resolve_references(each, environ) for each in items]
        case _:
            return value


def find_missing(value: Json, environ: Mapping[str, str] | None = None) -> Iterator[SecretMissing]:
    """Yields an error for each reference in a JSON value that cannot be resolved.

    Args:
        value: The value.
        environ: As for `resolve`.
    """
    match value:
        case dict() | list():
            entries: dict[str, Json] | list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            for each in entries.values() if isinstance(entries, dict) else entries:
                yield from find_missing(each, environ)
        case _:
            try:
                resolve_references(value, environ)
            except SecretMissing as error:
                yield error


def _read_variable(name: str, reference: str, environ: Mapping[str, str]) -> str:
    if WORKER_SETTING.fullmatch(name):
        raise SecretMissing(
            f"the secret {reference!r} is a setting of the worker itself",
            remedy="Use another variable for the secret of the crew.",
            place=reference,
        )
    value = environ.get(name)
    if not value:
        raise SecretMissing(
            f"the secret {reference!r} is not set on this worker",
            remedy=f"Set {name} in the worker's environment. A run that waits for it continues "
            "when the worker is restarted.",
            place=reference,
        )
    return value


def _read_file(path: str, reference: str, environ: Mapping[str, str]) -> str:
    try:
        text = read_secret_file(path, environ).decode().removesuffix("\n").removesuffix("\r")
        reason = "" if text else "it is empty"
    except SecretFileUnreadable as error:
        text, reason = "", str(error)
    except UnicodeDecodeError:
        text, reason = "", "it is not a text"
    except (OSError, ValueError) as error:
        strerror = error.strerror if isinstance(error, OSError) else None
        text, reason = "", strerror or "it is not a valid path"
    if not reason:
        return text
    raise SecretMissing(
        f"the secret {reference!r} cannot be read on this worker: {reason}",
        remedy="Store the secret in a regular file; the run continues with the next attempt.",
        place=reference,
    )
