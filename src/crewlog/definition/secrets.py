"""Secrets as definitions name them, and texts that look as if they were secrets themselves.

A definition is kept for ever, in stores and histories; a key that is in it once is known to all who
can read either. So a text that looks like one is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,199}|file:[^\x00-\x1f]{1,1000}")
"""How a definition names a secret."""
REMEDY = (
    "A definition is stored, and cannot be taken back. Write env:NAME, or file:PATH, and set it "
    "where the workers run. A key that was in a file that others have read should be made anew."
)

_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])("
    r"sk-(?:proj-|ant-[a-z0-9]+-|or-v1-)?[A-Za-z0-9_-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{30,}|[rs]k_live_[A-Za-z0-9]{16,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{10,1000}+\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""How the keys of services look that say so themselves. What may begin anywhere has a bounded
length, so that a long text of beginnings does not take a time that grows with its square."""
_IN_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]*:(?!\$)[^\s/@]{3,}@")
"""A password in a URL."""
_SHORTEST = len("a://:abc@")
"""Characters that whatever is looked for has at least."""
_NAMED = re.compile(
    r"(?i)(?:^|[_-])(?:api[_-]?key|secret(?:[_-]?key)?|password|passwd|access[_-]?token"
    r"|auth[_-]?token|bearer[_-]?token|private[_-]?key|authorization)$"
)
"""Names of settings whose values are secrets."""


def looks_secret(text: str) -> bool:
    """Whether a text has something in it that looks like a key or a password."""
    if len(text) < _SHORTEST:  # most are names
        return False
    return bool(_KNOWN.search(text) or _IN_URL.search(text))


def is_reference(text: object) -> bool:
    """Whether a value names a secret, as `env:NAME` or `file:PATH`."""
    return isinstance(text, str) and REFERENCE.fullmatch(text) is not None


def literals(
    value: Any, path: tuple[str | int, ...] = (), *, settings: bool = False
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The places in a definition that hold a secret, with what gives it away.

    Args:
        value: The definition as data, or a part of it.
        path: Where the part is.
        settings: Whether it is within settings, where a name tells what a value is.
    """
    if isinstance(value, str):
        if looks_secret(value):
            yield path, "looks like a key or a password"
        elif path[-2:-1] == ("secrets",) and not is_reference(value):
            yield path, "is neither env:NAME nor file:PATH"
        elif settings and path and _NAMED.search(str(path[-1])) and not is_reference(value):
            yield path, f"is the value of {path[-1]!r}"
    elif isinstance(value, dict):
        for key, each in value.items():  # pyright: ignore[reportUnknownVariableType]
            inside = settings or key in _SETTINGS
            yield from literals(each, (*path, str(key)), settings=inside)  # pyright: ignore[reportUnknownArgumentType]
            if isinstance(key, str) and looks_secret(key):
                yield (*path, key), "looks like a key or a password"
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from literals(each, (*path, number), settings=settings)


_SETTINGS = frozenset({"model_settings", "env", "headers", "secrets"})
"""Parts of a definition that are settings of something else."""
