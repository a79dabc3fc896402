"""Secrets: what a definition names, and only the process that needs it looks up.

    env:GITHUB_TOKEN          a variable of the worker's environment
    file:/run/secrets/token   a file on the worker's machine; one newline at its end is not meant

A reference may stand in definitions, histories and logs. A value may not: it is looked up in the
activity that uses it, and from then on taken out of all that the worker tells (`redaction`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from crewlog.definition.secrets import REFERENCE
from crewlog.errors import SecretMissing
from crewlog.model import Json
from crewlog.redaction import SHORTEST, remember

LARGEST = 64 * 1024
"""Bytes of a file that holds a secret."""
_OWN = re.compile(r"(CREWLOG_|TEMPORAL_|PG)[A-Z0-9_]*|DATABASE_URL")
"""Variables that are the worker's own: no crew has a use for them."""


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
    value = _variable(rest, reference, found) if kind == "env" else _file(rest, reference)
    if len(value) < SHORTEST:
        raise SecretMissing(
            f"the secret {reference!r} has fewer than {SHORTEST} characters",
            remedy="So short a text cannot be told from others, and so not be kept out of logs. "
            "Use a longer one.",
            place=reference,
        )
    remember(value)
    return value


def resolved(value: Json) -> Json:
    """A JSON value with every text in it that is a reference resolved.

    Raises:
        SecretMissing: see `resolve`.
    """
    match value:
        case str() if REFERENCE.fullmatch(value):
            return resolve(value)
        case dict():
            entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return {key: resolved(each) for key, each in entries.items()}
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return [resolved(each) for each in items]
        case _:
            return value


def _variable(name: str, reference: str, environ: Mapping[str, str]) -> str:
    if _OWN.fullmatch(name):
        raise SecretMissing(
            f"the secret {reference!r} is a setting of the worker itself",
            remedy="Give the crew's secret a variable of its own.",
            place=reference,
        )
    value = environ.get(name)
    if not value:
        raise SecretMissing(
            f"the secret {reference!r} is not set on this worker",
            remedy=f"Set {name} in the worker's environment, and start it anew: the run goes on.",
            place=reference,
        )
    return value


def _file(path: str, reference: str) -> str:
    where = Path(path).expanduser()
    try:
        with where.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            why = f"it has more than {LARGEST} bytes"
        elif text := data.decode().removesuffix("\n").removesuffix("\r"):
            return text
        else:
            why = "it is empty"
    except UnicodeDecodeError:
        why = "it is no text"
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no path"
    raise SecretMissing(
        f"the secret {reference!r} cannot be read on this worker: {why}",
        remedy="Put the file there; the run goes on with the next try.",
        place=reference,
    ) from None
