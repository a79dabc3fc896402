"""Keeps the values of secrets out of whatever leaves a process.

remember(value)     from now on, the value and its usual spellings are replaced
redacted(text)      the text without them
redacted_json(data) a JSON value without them
Growing().add(text) what may be told of a text that comes in pieces
LogFilter           the same for `logging`; `log_processor` for structlog

A value is remembered where it is resolved, in the process that has it. Spellings are those in which
tools and services give a value back: base64 (wherever in a longer text the value began), hex, URL,
JSON and Python escapes. A tool that spells a value otherwise (reversed, in pieces) is beyond this:
what must not be told is kept from a tool's result by the tool.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crewlog.model import Json

REDACTED = "[redacted]"
"""What stands in the place of a secret."""
SHORTEST = 6
"""Characters that a value must have: a shorter one would be found in every other text."""


class Redactor:
    """The values of a process, and what replaces them."""

    def __init__(self) -> None:
        self._spellings: set[str] = set()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._ordered: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def remember(self, value: str) -> None:
        """Replaces a value from now on, in every spelling; one that is too short is not."""
        if len(value) < SHORTEST or value in self._values:
            return
        with self._lock:
            self._values.add(value)
            lines = value.splitlines()
            parts = [value, *(line for line in lines if len(lines) > 1)]
            for part in parts:
                self._spellings |= {each for each in spellings(part) if len(each) >= SHORTEST}
            # The longest first: a spelling may be within another one.
            self._ordered = tuple(sorted(self._spellings, key=lambda each: (-len(each), each)))
            self._pattern = re.compile("|".join(map(re.escape, self._ordered)))

    def text(self, text: str) -> str:
        """A text without the values."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def unfinished(self, text: str) -> int:
        """Where in a text that goes on a value may have begun that is not complete yet."""
        begun = min((_begun(text, each) for each in self._ordered), default=len(text))
        # A value that is complete is not cut where another one may begin within it.
        found = self._pattern.finditer(text) if self._pattern is not None else ()
        return min([begun, *(each.start() for each in found if each.start() < begun < each.end())])

    def json(self, value: Json) -> Json:
        """A JSON value without the values, in keys and texts; the same object where there is none.

        A number is looked at as well: a secret may be all digits.
        """
        if self._pattern is None:
            return value
        return self._json(value)

    def _json(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case dict():
                entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
                return {self.text(key): self._json(each) for key, each in entries.items()}
            case list():
                items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
                return [self._json(each) for each in items]
            case bool() | None:
                return value
            case int() | float():
                told = str(value)
                return REDACTED if self.text(told) != told else value
            case _:
                return value


class RedactedStream:
    """A text that comes in pieces, of which nothing is told that may be a part of a value.

    Args:
        redactor: Whose values; none: those of the process.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or _SHARED
        self._held = ""

    def add(self, piece: str) -> str:
        """What may be told once one more piece has come, behind what was told before."""
        text = self._held + piece
        end = self._redactor.unfinished(text)
        self._held = text[end:]
        return self._redactor.text(text[:end])


def _begun(text: str, value: str) -> int:
    """Where the longest end of a text is that a value begins with; its length where none is."""
    at = text.find(value[0], max(0, len(text) - len(value) + 1))
    while at >= 0 and not value.startswith(text[at:]):
        at = text.find(value[0], at + 1)
    return at if at >= 0 else len(text)


def spellings(value: str) -> Iterator[str]:
    """The texts in which a value comes back."""
    data = value.encode("utf-8", "surrogatepass")
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield repr(data)[2:-1]
    yield urllib.parse.quote(data, safe="")
    yield urllib.parse.quote(data)
    yield urllib.parse.quote_plus(data)
    yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), urllib.parse.quote(data, safe=""))
    yield data.hex()
    yield data.hex().upper()
    yield from _in_base64(data)


def _in_base64(data: bytes) -> Iterator[str]:
    """The value in base64, alone and wherever in a longer text it begins."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            text = encode(bytes(before) + data).decode().rstrip("=")
            # Characters that also say something of what stands before and behind the value.
            first = (0, 2, 3)[before]
            last = len(text) - (1 if (before + len(data)) % 3 else 0)
            if last - first >= 2 * SHORTEST:
                yield text[first:last]


_SHARED = Redactor()
"""Of the process: what one part of it resolves, no other part tells."""


def remember(value: str) -> None:
    """Replaces a value, from now on, in all that this process tells."""
    _SHARED.remember(value)


def redacted_text(text: str) -> str:
    """A text without the values of secrets."""
    return _SHARED.text(text)


def redacted_json(value: Json) -> Json:
    """A JSON value without the values of secrets."""
    return _SHARED.json(value)


def redacted_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values of any kind, those that are JSON without the values of secrets."""
    return tuple(_SHARED.json(value) for value in values)


class LogFilter(logging.Filter):
    """Takes the values of secrets out of records: message, arguments, traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record; it always goes on."""
        message = record.getMessage()
        told = redacted_text(message)
        if told != message:
            record.msg, record.args = told, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redacted_text(record.exc_text)
        if record.stack_info:
            record.stack_info = redacted_text(record.stack_info)
        return True


def filter_logs() -> None:
    """Puts the filter before every handler of the root logger."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, LogFilter) for each in handler.filters):
            handler.addFilter(LogFilter())


def log_processor(_logger: object, _method: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The same for structlog, before what renders."""
    return {key: redacted_text(v) if isinstance(v, str) else _shown(v) for key, v in event.items()}


def _shown(value: Any) -> Any:
    """A value of a log line; one whose text has a secret in it becomes that text without it."""
    text = str(value)
    told = redacted_text(text)
    return value if told == text else told
