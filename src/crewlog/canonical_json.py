"""Content addresses: BLAKE2b-160 of canonical JSON, as 27 characters of unpadded base64url.

160 bits keep the identity of a transcript out of reach of an attacker who writes messages, at
27 characters in every reference. Canonical JSON has sorted keys, no spaces, and ASCII escapes, so
that a text hashes alike however a JSON hop spelled its surrogates.
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
"""Made once: `json.dumps` makes an encoder for each call that has options."""


DEEPEST = 100
"""How deep a value from outside may be nested. What reads JSON has a limit of its own (Temporal's
converter: 200), and a run wraps what it is given: a state that its next execution could not read,
or an activity's input, would hold the run for ever."""


def check_depth(value: Json) -> None:
    """Refuses a value that is nested too deep to be kept.

    Raises:
        ValueError: where it is.
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
    """The one spelling of a JSON value, as bytes.

    Raises:
        ValueError: for NaN and infinities, which JSON does not have.
        TypeError: for what is not JSON.
    """
    # As `encode`, without its look at the type: in Temporal's sandbox that takes nine calls.
    return "".join(_CANONICAL.iterencode(value, _one_shot=True)).encode()


def utf8_text(text: str) -> str:
    """The text as UTF-8 can have it: surrogate pairs joined, lone ones replaced by U+FFFD.

    Models and tools give such texts (a JSON escape that was cut, a file's name), and no payload
    can carry them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_json(value: Json) -> Json:
    """A JSON value with every text in it `utf8_text`, keys included."""
    if isinstance(value, str):
        return utf8_text(value)
    if isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return [utf8_json(item) for item in items]
    if isinstance(value, dict):
        # Tools' data may have keys that only become texts in JSON.
        pairs: dict[Any, Json] = value  # pyright: ignore[reportUnknownVariableType]
        return {
            utf8_text(key) if isinstance(key, str) else key: utf8_json(item)
            for key, item in pairs.items()
        }
    return value


def hash_bytes(*parts: bytes) -> ContentHash:
    """The address of some byte strings in order; their borders count."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    spelled = binascii.b2a_base64(digest.digest(), newline=False).translate(_URL_SAFE)
    return ContentHash(spelled.rstrip(b"=").decode())


def hash_json(value: Json) -> ContentHash:
    """The address of a JSON value."""
    return hash_bytes(canonical(value))
