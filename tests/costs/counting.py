"""Counts what the threads of a worker do: Python calls, validations, serialisations, round trips.

`Counts.installed` sets a profile function for threads that start within its block. So the worker
starts there: workflow tasks are done in threads of a pool. The function returns at once while
counting is off.

A coroutine counts as a call each time it is resumed, as `sys.setprofile` reports it. Calls into C
count as validations and serialisations only, where pydantic-core or a JSON encoder does them.
"""

from __future__ import annotations

import _weakrefset
import asyncio
import concurrent
import contextlib
import json
import logging
import selectors
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from asyncpg.protocol import Protocol
from pydantic_core import SchemaSerializer, SchemaValidator

ROOT = Path(__file__).parents[2]
_VALIDATORS = frozenset({"validate_python", "validate_json", "validate_strings"})
_SERIALIZERS = frozenset({"to_python", "to_json"})
_REQUESTS = ("query", "prepare", "bind", "bind_execute", "bind_execute_many", "execute")
_REQUESTS += ("copy_in", "copy_out", "close_statement", "close_portal")
"""What asyncpg's protocol sends and waits for."""
_ENCODE = json.JSONEncoder.encode.__code__
_LIBRARY = str(Path(json.__file__).parents[1])
_NOT_COUNTED = (
    *(str(Path(each.__file__).parent) for each in (asyncio, logging)),
    str(Path(concurrent.__path__[0])),
    *(each.__file__ for each in (selectors, threading, weakref, _weakrefset)),
    str(ROOT / "bench"),
    str(ROOT / "tests"),
)
"""Files whose calls do not count: those of the event loop and of threads depend on timing, and
those of the tests and of their model are not the product's."""


@dataclass
class Tally:
    """What was counted."""

    functions: Counter[str] = field(default_factory=Counter[str])
    """Calls of each Python function, as `file:qualified name`."""
    validations: int = 0
    serialisations: int = 0
    round_trips: int = 0
    """Requests of the worker's store to Postgres. The store waits for the answer to each."""


class Counts:
    """The counters of one worker's threads."""

    def __init__(self) -> None:
        self._on = False
        self._python: list[dict[CodeType, int]] = []
        self._native: list[dict[str, int]] = []
        self._requests = 0
        self.store_thread: int | None = None
        """The thread whose requests count: a client in the same process has a store as well."""

    @contextlib.contextmanager
    def installed(self) -> Generator[None]:
        """Counts in every thread that starts within the block, for as long as that thread lives."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _REQUESTS:
                patch.setattr(Protocol, name, self._sent(getattr(Protocol, name)))
            threading.setprofile(self._begin_thread)
            try:
                yield
            finally:
                threading.setprofile(None)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def counting(self) -> Generator[Tally]:
        """Counts within the block; the tally is filled at its end."""
        for each in (*self._python, *self._native):
            each.clear()
        self._requests = 0
        tally = Tally()
        self._on = True
        try:
            yield tally
        finally:
            self._on = False
        for calls in self._python:
            for code, number in calls.items():
                if not code.co_filename.startswith(_NOT_COUNTED):
                    tally.functions[_name(code)] += number
                if code is _ENCODE:
                    tally.serialisations += number
        tally.validations = sum(each.get("validation", 0) for each in self._native)
        tally.serialisations += sum(each.get("serialisation", 0) for each in self._native)
        tally.round_trips = self._requests

    def moves(self) -> int:
        """A number that grows while a counted thread works."""
        return sum(sum(list(each.values())) for each in self._python)

    def _begin_thread(self, frame: FrameType, event: str, arg: Any) -> None:
        """The first event of a thread: from here on it has counters of its own, without a lock."""
        if threading.current_thread().name.startswith("asyncio_"):
            sys.setprofile(None)  # of the client's loop; the worker's loop has a pool of its own
            return
        python: dict[CodeType, int] = {}
        native: dict[str, int] = {}
        self._python.append(python)
        self._native.append(native)

        def count(frame: FrameType, event: str, arg: Any) -> None:
            if not self._on:
                return
            if event == "call":
                code = frame.f_code
                python[code] = python.get(code, 0) + 1
            elif event == "c_call":
                name = arg.__name__
                if name in _VALIDATORS and isinstance(arg.__self__, SchemaValidator):
                    native["validation"] = native.get("validation", 0) + 1
                elif name in _SERIALIZERS and isinstance(arg.__self__, SchemaSerializer):
                    native["serialisation"] = native.get("serialisation", 0) + 1

        sys.setprofile(count)

    def _sent(self, original: Any) -> Any:
        """A method of a connection's protocol that counts its request."""

        def method(protocol: Any, *args: Any, **options: Any) -> Any:
            if self._on and threading.get_ident() == self.store_thread:
                self._requests += 1
            return original(protocol, *args, **options)

        return method


def _name(code: CodeType) -> str:
    path = code.co_filename
    for start in (f"{ROOT}/", f"{_LIBRARY}/"):
        path = path.removeprefix(start)
    path = path.rpartition("site-packages/")[2].removeprefix("src/crewlog/")
    return f"{path}:{code.co_qualname}"
