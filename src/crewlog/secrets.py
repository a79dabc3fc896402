"""Secrets: what a definition names, and only the process that needs it looks up.

    env:GITHUB_TOKEN          a variable of the worker's environment
    file:/run/secrets/token   a plain file on the worker's machine, without the newline at its end

A reference may stand in definitions, histories and logs. A value may not: it is looked up in the
activity that uses it, and from then on taken out of all that the worker tells (`redaction`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from crewlog.definition.secrets import REFERENCE
from crewlog.errors import SecretMissing
from crewlog.model import Json
from crewlog.redaction import SHORTEST, remember
from crewlog.secret_files import OWN, SecretFileUnreadable, read_secret_file


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
