"""Secrets: what a definition names, and only the process that needs it looks up.

    env:GITHUB_TOKEN          a variable of the worker's environment
    file:/run/secrets/token   a plain file on the worker's machine, without the newline at its end

A reference may stand in definitions, histories and logs. A value may not: it is looked up in the
activity that uses it, and from then on taken out of all that the worker tells (`redaction`).

Files of a worker's machine that a definition may name as secrets: plain ones, and not its own.

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

from crewlog.definition.secrets import REFERENCE
from crewlog.errors import SecretMissing
from crewlog.model import Json
from crewlog.redaction import SHORTEST, remember

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


def resolve(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The value of a reference, which is taken out of all that this process tells from now on.

    Args:
        reference: `env:NAME` or `file:PATH`.
        environ: The environment; by default the process's.

    Raises:
        SecretMissing: this process does not have it, or it cannot be kept secret. The message names
            the reference, and never the value.
    """
    if not REFERENCE.fullmatch(reference):
        # It may be the value itself, by mistake.
        raise SecretMissing(
            "a secret is given by something that is no reference",
            remedy="Write env:NAME or file:PATH, and put the value there.",
        )
    kind, _, rest = reference.partition(":")
    found = os.environ if environ is None else environ
    value = _variable(rest, reference, found) if kind == "env" else _file(rest, reference, found)
    if len(value) < SHORTEST:
        raise SecretMissing(
            f"the secret {reference!r} has fewer than {SHORTEST} characters",
            remedy="So short a text cannot be told from others, and so not be kept out of logs. "
            "Use a longer one.",
            place=reference,
        )
    remember(value)
    return value


def resolved(value: Json, environ: Mapping[str, str] | None = None) -> Json:
    """A JSON value with every text in it that is a reference resolved.

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
    """Why the references in a JSON value cannot be resolved here, each that cannot.

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
            remedy="Give the crew's secret a variable of its own.",
            place=reference,
        )
    value = environ.get(name)
    if not value:
        raise SecretMissing(
            f"the secret {reference!r} is not set on this worker",
            remedy=f"Set {name} in the worker's environment. A run that waits for it goes on once "
            "the worker is restarted.",
            place=reference,
        )
    return value


def _file(path: str, reference: str, environ: Mapping[str, str]) -> str:
    try:
        text = read_secret_file(path, environ).decode().removesuffix("\n").removesuffix("\r")
        why = "" if text else "it is empty"
    except SecretFileUnreadable as refused:
        text, why = "", str(refused)
    except UnicodeDecodeError:
        text, why = "", "it is no text"
    except (OSError, ValueError) as error:
        found = error.strerror if isinstance(error, OSError) else None
        text, why = "", found or "it is no path"
    if not why:
        return text
    raise SecretMissing(
        f"the secret {reference!r} cannot be read on this worker: {why}",
        remedy="Put the secret into a plain file; the run goes on with the next try.",
        place=reference,
    )
