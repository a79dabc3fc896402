r"""Converts JSON values and texts to Postgres `text` and back, without any change.

The hash of a body must be the same after a round trip, so `jsonb` cannot be used: it reorders keys,
changes `1.0` to `1` and refuses `\u0000`. Values are stored as JSON text with their key order.
Python strings can have two things that a Postgres text cannot:

- NUL. JSON writes it as `\u0000`, so only text outside of JSON needs `pack`.
- Lone surrogates, which models produce when a stream is cut within an emoji. JSON escapes would
  keep a lone one, but would join two adjacent ones to one character, which changes the hash. So
  values with surrogates are stored packed, after `~`.
"""

from __future__ import annotations

import json
import re

from crewlog.model import Json

_PACKED_PREFIX = "~"
"""Starts the text of a JSON value with surrogates; no JSON text starts with it."""
_UNSTORABLE = re.compile(r"[\\\x00\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\([0-9a-f]{4})")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""Shared, since `json.dumps` with options makes an encoder for each call."""


def pack(text: str) -> str:
    r"""A string as Postgres text: `\`, NUL and surrogates become `\hhhh`."""
    return (
        _UNSTORABLE.sub(lambda m: f"\\{ord(m[0]):04x}", text) if _UNSTORABLE.search(text) else text
    )


def unpack(text: str) -> str:
    """The string that `pack` made `text` from."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text) if "\\" in text else text


def pack_optional(text: str | None) -> str | None:
    """`pack`, or None."""
    return None if text is None else pack(text)


def dump_json(value: Json) -> str:
    """A JSON value as Postgres text: plain JSON, packed only if it has surrogates.

    Raises:
        ValueError: it has NaN or an infinity, which are not JSON.
        TypeError: it is not JSON.
    """
    text = _ENCODER.encode(value)
    if text.isascii():  # the string knows it, so a large body is not scanned
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _PACKED_PREFIX + pack(text)
    return text


def search_texts(key: str, value: str) -> tuple[str, str]:
    """Texts of which one is in the stored text of an object with `value` for `key`."""
    text = json.dumps({key: value}, ensure_ascii=False, separators=(",", ":"))[1:-1]
    packed = pack(text)  # in an object with surrogates
    return (packed if _SURROGATE.search(text) else text), packed


def load_json(text: str) -> Json:
    """The value that `dump_json` made `text` from.

    Raises:
        ValueError: it is not JSON, or has NaN or an infinity.
    """
    if text.startswith(_PACKED_PREFIX):
        text = unpack(text[1:])
    return _DECODER.decode(text)


def _reject_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
