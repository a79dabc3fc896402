"""Redacts the values of secrets in everything that leaves a process.

register_secret(value)   redacts the value and its usual encodings from now on
redacted_text(text)      a text without secrets
redacted_json(data)      a JSON value without secrets
RedactedStream().add(t)  the same for a text that arrives in chunks
LogFilter                the same for `logging`; `log_processor` for structlog

A value is registered when it is resolved, in the process that has it. Encodings are those in which
tools and services return a value: base64 (at any offset of a longer text), hex, URL, JSON and
Python escapes. Other encodings (reversed, in parts) are not found: a tool must keep those out of
its result.
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
"""The replacement for a secret."""
SHORTEST = 6
"""The fewest characters of a value: a shorter one would match too many texts."""


class Redactor:
    """The secrets of a process."""

    def __init__(self) -> None:
        self._spellings: set[str] = set()
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._ordered: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def register(self, value: str) -> None:
        """Redacts a value from now on, in every encoding; ignores one that is too short."""
        if len(value) < SHORTEST or value in self._values:
            return
        with self._lock:
            self._values.add(value)
            lines = value.splitlines()
            parts = [value, *(line for line in lines if len(lines) > 1)]
            for part in parts:
                self._spellings |= {each for each in spellings(part) if len(each) >= SHORTEST}
            # The longest first: an encoding may be within another one.
            self._ordered = tuple(sorted(self._spellings, key=lambda each: (-len(each), each)))
            self._pattern = re.compile("|".join(map(re.escape, self._ordered)))

    def text(self, text: str) -> str:
        """A text without the values."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def partial_match_start(self, text: str) -> int:
        """The position from which an incomplete text may be the start of a value."""
        start = min((_prefix_start(text, each) for each in self._ordered), default=len(text))
        # A complete value is not split where another one may start within it.
        found = self._pattern.finditer(text) if self._pattern is not None else ()
        return min([start, *(each.start() for each in found if each.start() < start < each.end())])

    def json(self, value: Json) -> Json:
        """A JSON value without the values, in keys and texts; the same object if there is none.

        Numbers are checked, too: a secret may be all digits.
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
                text = str(value)
                return REDACTED if self.text(text) != text else value
            case _:
                return value


class RedactedStream:
    """Redacts a text that arrives in chunks; holds back what may be a part of a value.

    Args:
        redactor: Its redactor; None: that of the process.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or _SHARED
        self._pending = ""

    def add(self, chunk: str) -> str:
        """The next redacted text after one more chunk."""
        text = self._pending + chunk
        end = self._redactor.partial_match_start(text)
        self._pending = text[end:]
        return self._redactor.text(text[:end])


def _prefix_start(text: str, value: str) -> int:
    """The start of the longest suffix of a text that is a prefix of a value; its length if none."""
    at = text.find(value[0], max(0, len(text) - len(value) + 1))
    while at >= 0 and not value.startswith(text[at:]):
        at = text.find(value[0], at + 1)
    return at if at >= 0 else len(text)


def spellings(value: str) -> Iterator[str]:
    """The encodings of a value."""
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
    """The value in base64, alone and at any offset of a longer text."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            text = encode(bytes(before) + data).decode().rstrip("=")
            # Without the characters that also encode bytes before and after the value.
            first = (0, 2, 3)[before]
            last = len(text) - (1 if (before + len(data)) % 3 else 0)
            if last - first >= 2 * SHORTEST:
                yield text[first:last]


_SHARED = Redactor()
"""The redactor of the process."""


def register_secret(value: str) -> None:
    """Redacts a value in all output of this process from now on."""
    _SHARED.register(value)


def redacted_text(text: str) -> str:
    """A text without secrets."""
    return _SHARED.text(text)


def redacted_json(value: Json) -> Json:
    """A JSON value without secrets."""
    return _SHARED.json(value)


def redacted_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values of any type; JSON values without secrets."""
    return tuple(_SHARED.json(value) for value in values)


class LogFilter(logging.Filter):
    """Redacts log records: message, arguments, traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redacts the record; never drops it."""
        message = record.getMessage()
        redacted = redacted_text(message)
        if redacted != message:
            record.msg, record.args = redacted, None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redacted_text(record.exc_text)
        if record.stack_info:
            record.stack_info = redacted_text(record.stack_info)
        return True


def filter_logs() -> None:
    """Adds the filter to every handler of the root logger."""
    for handler in logging.getLogger().handlers:
        if not any(isinstance(each, LogFilter) for each in handler.filters):
            handler.addFilter(LogFilter())


def log_processor(_logger: object, _method: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The same for structlog, before the renderer."""
    return {
        key: redacted_text(v) if isinstance(v, str) else _redacted(v) for key, v in event.items()
    }


def _redacted(value: Any) -> Any:
    """A value of a log line; replaced by its redacted text if that has a secret."""
    text = str(value)
    redacted = redacted_text(text)
    return value if redacted == text else redacted
