"""Servers that are programs: started, spoken with over their input and output, and ended.

A program may write what it likes, as much as it likes, and end whenever it likes. So what is read
of it is bounded: a message, and all that it says between two requests of ours. A reader holds one
message at a time, so that a program that writes faster than it is heard waits. What becomes of it
is told to whoever has asked it something: a `Link` is gone with its reason, and nobody waits for
an answer that cannot come.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCRequest
from pydantic import ValidationError

from crewlog.mcp_servers.descriptions import cleaned_text, shortened

LARGEST_ANSWER = 16_000_000
"""Bytes of one message; and of all that a program writes for one request of ours."""
MOST_ASKED = 16
"""Requests whose answers may be under way at once, for that bound."""
END_SECONDS = 2.0
"""How long a program may take to end once its input is closed, and again once it is told to."""
_COST = 256
"""Bytes that each message counts as besides its own: a short one is work, too."""
_PIECE = 65_536
_LAST_WORDS = 8_000
"""Bytes of what a program wrote to its standard error last, for the error that it is away."""
_PAUSE = 0.001
"""Seconds between two looks at its standard error: who floods it waits."""
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_SHOWN = 80
"""Characters that are shown of what is no message."""


class Link:
    """Whether there is still somebody at the other end of a session, and if not, why."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.why = ""
        """Why nobody is there any more; empty as long as somebody is."""

    def mark_closed(self, why: str) -> None:
        """Nobody is there any more; the first reason counts."""
        self.why = self.why or why
        self.gone.set()


@asynccontextmanager
async def program(
    command: str, args: Sequence[str], env: Mapping[str, str], link: Link
) -> AsyncGenerator[tuple[Any, Any]]:
    """A program that is spoken with: what it says and what is said to it, as sessions take them.

    Args:
        command: What is started.
        args: Its arguments.
        env: All of its environment.
        link: Told when the program is gone, and why.

    Raises:
        OSError: it cannot be started.
    """
    with _StderrTail() as words:
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            env=dict(env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=words.writing,
            start_new_session=True,  # what it starts is ended with it
        )
        words.begun()
        talk = _ProgramConnection(process, link, words)
        tasks = [asyncio.create_task(talk.listen()), asyncio.create_task(talk.speak())]
        try:
            yield talk.heard, talk.said
        finally:
            for task in tasks:
                task.cancel()
            rest = asyncio.create_task(_drain(process, tasks[0]))
            try:
                await _end(process)
            finally:
                _kill(process, _KILL)
                talk.close()
                await asyncio.wait({rest}, timeout=END_SECONDS)
                rest.cancel()


class _ProgramConnection:
    """Both ways of talking with a program."""

    def __init__(self, process: asyncio.subprocess.Process, link: Link, words: _StderrTail) -> None:
        self._process = process
        self._link = link
        self._words = words
        self._hears, self.heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.said, self._to_say = anyio.create_memory_object_stream[SessionMessage](0)
        self._left = LARGEST_ANSWER

    async def listen(self) -> None:
        """Hears the program until it ends, or says more than anybody can hear."""
        try:
            why = await self._listened()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            why = str(exc) or "the session was closed"
        self._link.mark_closed(why)
        self._hears.close()

    async def _listened(self) -> str:
        """Why nothing more is heard."""
        out, line = self._process.stdout, bytearray()
        while out is not None and (piece := await out.read(_PIECE)):
            self._left -= len(piece)
            if self._left < 0:
                return f"it writes more than {LARGEST_ANSWER:,} bytes that nobody asked for"
            first, *lines = piece.split(b"\n")
            line += first
            for rest in lines:
                if line.startswith(b"{"):
                    self._left -= _COST
                    if message := _message(bytes(line)):
                        await self._hears.send(message)
                line = bytearray(rest)
            if len(line) > LARGEST_ANSWER:
                return f"it answers with more than {LARGEST_ANSWER:,} bytes"
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        told = "it closed its output" if code is None else f"it ended with the exit code {code}"
        said = await asyncio.to_thread(self._words.told)
        if not said and line:
            said = shortened(cleaned_text(line[:_PIECE].decode(errors="replace")), _SHOWN)
        return f"{told}; it said: {said}" if said else told

    async def speak(self) -> None:
        """Says to the program what the session wants said."""
        entry = self._process.stdin
        with suppress(OSError, anyio.ClosedResourceError):  # the listener knows why
            async for each in self._to_say:
                if isinstance(each.message.root, JSONRPCRequest):
                    self._left = min(self._left + LARGEST_ANSWER, MOST_ASKED * LARGEST_ANSWER)
                text = each.message.model_dump_json(by_alias=True, exclude_none=True)
                if entry is not None:
                    entry.write(text.encode() + b"\n")
                    await entry.drain()

    def close(self) -> None:
        """Closes all that a session holds of it."""
        for each in (self._hears, self.heard, self.said, self._to_say):
            each.close()


def _message(line: bytes) -> SessionMessage | None:
    """A message of the protocol; none where it is something else, printed by mistake perhaps."""
    try:
        return SessionMessage(JSONRPCMessage.model_validate_json(line))
    except (ValidationError, ValueError, RecursionError) as exc:
        return _unreadable(line, exc)


def _unreadable(line: bytes, exc: Exception) -> SessionMessage | None:
    """The error that an answer becomes that is no message; none where it is no answer."""
    try:
        said: Any = json.loads(line)
        if "result" not in said and "error" not in said:
            return None
        why = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else str(exc)
        error = ErrorData(code=PARSE_ERROR, message=f"its answer cannot be read: {why}")
        return SessionMessage(
            JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=said["id"], error=error))
        )
    except (ValueError, KeyError, RecursionError):
        return None


async def _drain(process: asyncio.subprocess.Process, listener: asyncio.Task[None]) -> None:
    """Takes what a program still writes: else it waits for that, and its pipe stays open."""
    await asyncio.wait({listener})
    while process.stdout is not None and await process.stdout.read(_PIECE):
        pass


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a program: its input is closed, then it is told to end."""
    if process.stdin is not None:
        process.stdin.close()
    for last in (False, True):
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                return
        if not last:
            _kill(process, signal.SIGTERM)


def _kill(process: asyncio.subprocess.Process, how: int) -> None:
    """Tells a program, and what it has started, to end; nothing where it has ended."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, how)


class _StderrTail:
    """What a program writes to its standard error, of which the end is kept."""

    def __enter__(self) -> _StderrTail:
        self._reading, self.writing = os.pipe()
        self._open = True
        self._end = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.begun()

    def begun(self) -> None:
        """The program has the pipe by now: where it ends, so does what is read of it."""
        if self._open:
            self._open = False
            os.close(self.writing)

    def told(self) -> str:
        """The end of it, on one line."""
        self._thread.join(0.5)
        return " ".join(cleaned_text(self._end.decode(errors="replace")).split())[-400:]

    def _read(self) -> None:
        try:
            while piece := os.read(self._reading, _PIECE):
                self._end = (self._end + piece)[-_LAST_WORDS:]
                time.sleep(_PAUSE)
        finally:
            os.close(self._reading)
