"""Secrets: references in a definition, resolved only by the process that needs the value.

    env:GITHUB_TOKEN          a variable of the worker's environment
    file:/run/secrets/token   a regular file on the worker's machine, without a newline at its end

References may be in definitions, histories and logs, values may not. The activity that uses a value
resolves it, and the worker redacts it from then on (`redaction`).

The author of a definition chooses the files, and the worker reads them with its own rights. So
files of the system, pipes, and the worker's own keys are rejected. A file is opened first and
checked then, so that the checked file is the one that is read.
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

LARGEST = 64 * 1024
"""The most bytes of a secret file."""
FOLDERS = "CREWLOG_SECRET_FILES"
"""The variable with the folders of secret files, separated as in `PATH`. Default: any folder."""
OWN = re.compile(r"(CREWLOG_|TEMPORAL_|PG)[A-Z0-9_]*|DATABASE_URL")
"""Settings of the worker, which are no secrets of a crew."""
_KERNEL = ("/proc", "/sys", "/dev")
"""Folders of the system."""
_OWN_FILES = (".pgpass", ".postgresql", ".config/crewlog", ".config/temporalio")
"""The default paths of the worker's own keys, below its home."""
_FLAGS: int = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # else opening a pipe would block
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class SecretFileUnreadable(Exception):
    """A rejected file, with the reason; never with its content."""


def read_secret_file(path: str, environ: Mapping[str, str]) -> bytes:
    """Reads a secret file.

    Args:
        path: The file.
        environ: The worker's environment, with its own files and the folders of secrets.

    Raises:
        SecretFileUnreadable: the file is rejected.
        OSError: as `os.open`.
    """
    try:
        where = Path(path).expanduser()
    except RuntimeError:
        raise SecretFileUnreadable("there is no such home") from None
    # Links are followed, since orchestrators use them. Their target is checked.
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
    # The same system folder, mounted elsewhere.
    mounted = [each for each in _KERNEL if os.path.ismount(each)]
    return any(Path(each).stat().st_dev == found.st_dev for each in mounted)


def _own_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """The worker's own files and folders."""
    with suppress(RuntimeError):
        for each in _OWN_FILES:
            yield (Path.home() / each).resolve()
    if config := environ.get("XDG_CONFIG_HOME"):
        for name in ("crewlog", "temporalio"):
            yield (Path(config) / name).resolve()
    for name, value in environ.items():
        # Only files: a folder in a variable may contain files of a crew.
        if OWN.fullmatch(name) and value and name != FOLDERS:
            with suppress(OSError, ValueError):
                if (file := Path(value)).is_file():
                    yield file.resolve()


def resolve(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The value of a reference. This process redacts it from now on.

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
            "a secret is not given by a reference",
            remedy="Write env:NAME or file:PATH, and store the value there.",
        )
    kind, _, rest = reference.partition(":")
    found = os.environ if environ is None else environ
    value = _variable(rest, reference, found) if kind == "env" else _file(rest, reference, found)
    if len(value) < SHORTEST:
        raise SecretMissing(
            f"the secret {reference!r} has fewer than {SHORTEST} characters",
            remedy="Use a longer one: so short a text cannot be redacted from logs.",
            place=reference,
        )
    register_secret(value)
    return value


def resolved(value: Json, environ: Mapping[str, str] | None = None) -> Json:
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
            return {key: resolved(each, environ) for key, each in entries.items()}
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return [resolved(each, environ) for each in items]
        case _:
            return value


def missing(value: Json, environ: Mapping[str, str] | None = None) -> Iterator[SecretMissing]:
    """The errors for the references in a JSON value that cannot be resolved.

    Args:
        value: The value.
        environ: As for `resolve`.
    """
    match value:
        case dict() | list():
            entries: dict[str, Json] | list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            for each in entries.values() if isinstance(entries, dict) else entries:
                yield from missing(each, environ)
        case _:
            try:
                resolved(value, environ)
            except SecretMissing as error:
                yield error


def _variable(name: str, reference: str, environ: Mapping[str, str]) -> str:
    if OWN.fullmatch(name):
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


def _file(path: str, reference: str, environ: Mapping[str, str]) -> str:
    try:
        text = read_secret_file(path, environ).decode().removesuffix("\n").removesuffix("\r")
        reason = "" if text else "it is empty"
    except SecretFileUnreadable as error:
        text, reason = "", str(error)
    except UnicodeDecodeError:
        text, reason = "", "it is no text"
    except (OSError, ValueError) as error:
        strerror = error.strerror if isinstance(error, OSError) else None
        text, reason = "", strerror or "it is no path"
    if not reason:
        return text
    raise SecretMissing(
        f"the secret {reference!r} cannot be read on this worker: {reason}",
        remedy="Store the secret in a regular file; the run continues with the next attempt.",
        place=reference,
    )
