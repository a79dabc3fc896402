"""Content addresses: BLAKE2b-160 of canonical JSON, as 27 characters of unpadded base64url.

160 bits make collisions infeasible for an attacker who writes messages, with 27 characters in every
reference. Canonical JSON has sorted keys, no spaces, and ASCII escapes, so that the hash of a text
does not depend on how its surrogates were escaped.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any

from crewlog.ids import ContentHash

if TYPE_CHECKING:  # it needs pydantic, which is slow to import
    from crewlog.model import Json

_DIGEST_BYTES = 20
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
"""Shared, since `json.dumps` with options makes an encoder for each call."""


DEEPEST = 100
"""The nesting limit of a value from outside. JSON parsers have limits (Temporal's converter: 200),
and a run wraps its inputs: a state or an input that cannot be read would block the run forever."""


def check_depth(value: Json) -> None:
    """Checks that a value is not nested too deep.

    Raises:
        ValueError: it is.
    """
    level: list[Json] = [value]
    for _ in range(DEEPEST):
        below: list[Json] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            elif isinstance(each, list):
                below += each  # pyright: ignore[reportUnknownArgumentType]
        if not below:
            return
        level = below
    raise ValueError(f"it is nested deeper than {DEEPEST} levels")


def canonical(value: Json) -> bytes:
    """The canonical JSON of a value, as bytes.

    Raises:
        ValueError: it has NaN or an infinity.
        TypeError: it is not JSON.
    """
    return _CANONICAL.encode(value).encode()


def utf8_text(text: str) -> str:
    """The text as valid UTF-8: surrogate pairs joined, lone surrogates replaced by U+FFFD.

    Models and tools return such texts (a cut JSON escape, a file name), and payloads cannot contain
    them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_json(value: Json) -> Json:
    """A JSON value with all texts and keys as valid UTF-8."""
    if isinstance(value, str):
        return utf8_text(value)
    if isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return [utf8_json(item) for item in items]
    if isinstance(value, dict):
        # Data of tools may have keys that become texts only in JSON.
        pairs: dict[Any, Json] = value  # pyright: ignore[reportUnknownVariableType]
        return {
            utf8_text(key) if isinstance(key, str) else key: utf8_json(item)
            for key, item in pairs.items()
        }
    return value


def hash_bytes(*parts: bytes) -> ContentHash:
    """The hash of a sequence of byte strings; their lengths count."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    text = binascii.b2a_base64(digest.digest(), newline=False).translate(_URL_SAFE)
    return ContentHash(text.rstrip(b"=").decode())


def hash_json(value: Json) -> ContentHash:
    """The hash of a JSON value."""
    return hash_bytes(canonical(value))
