r"""How JSON values and free text become Postgres `text`, and come back exactly.

A body's hash must hold after a round trip, so `jsonb` is out: it reorders keys, drops `1.0`'s
point and refuses `\u0000`. Values are kept as JSON text with their key order. Python strings can
hold two things that a Postgres text cannot:

- NUL. JSON spells it `\u0000`, so only text outside of JSON needs care.
- Lone surrogates, which model services do produce when they cut a stream within an emoji. As a JSON
  escape a lone one would come back, but two halves that stand side by side as separate code points
  would come back as one character, under another hash. So such values get a spelling of their own.
"""

from __future__ import annotations

import json
import re

from crewlog.model import Json

_ESCAPED = "~"
"""Starts the text of a JSON value that UTF-8 cannot hold; no JSON text starts with it."""
_HOSTILE = re.compile(r"[\\\x00\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\([0-9a-f]{4})")
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""Made once: `json.dumps` makes an encoder for each call that has options."""


def pack(text: str) -> str:
    r"""Any Python string as one that Postgres can hold: `\`, NUL and surrogates become `\hhhh`."""
    return _HOSTILE.sub(lambda m: f"\\{ord(m[0]):04x}", text) if _HOSTILE.search(text) else text


def unpack(text: str) -> str:
    """The string that `pack` made `text` from."""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text) if "\\" in text else text


def pack_optional(text: str | None) -> str | None:
    """`pack`, where there may be nothing."""
    return None if text is None else pack(text)


def dump_json(value: Json) -> str:
    """A JSON value as text that Postgres can hold; plain JSON in all but the oddest cases.

    Raises:
        ValueError: for NaN and infinities, which JSON does not have.
        TypeError: for what is not JSON.
    """
    text = _ENCODER.encode(value)
    if text.isascii():  # known to the string: no scan of a large body
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPED + pack(text)
    return text


def spellings(key: str, value: str) -> tuple[str, str]:
    """What the text of an object has in it that says `value` for `key`: one or the other."""
    text = json.dumps({key: value}, ensure_ascii=False, separators=(",", ":"))[1:-1]
    packed = pack(text)  # where the object has something in it that UTF-8 cannot hold
    return (packed if _SURROGATE.search(text) else text), packed


def load_json(text: str) -> Json:
    """The value that `dump_json` made `text` from.

    Raises:
        ValueError: for what is not JSON, and for NaN and infinities, which it does not make.
    """
    if text.startswith(_ESCAPED):
        text = unpack(text[1:])
    return _DECODER.decode(text)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
