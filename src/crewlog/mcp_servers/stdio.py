"""MCP servers that are programs: starts and stops them, and exchanges messages by stdin and stdout.

A program may write anything and end at any time. So the size of each message, and of all output per
request, is limited. The reader has one message at a time: a program that writes faster blocks. When
a program ends, its `Link` is closed with the reason, so that no caller waits for a response.
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

from crewlog.mcp_servers.descriptions import clean_text, shorten

LARGEST_ANSWER = 16_000_000
"""Bytes of one message, and of all output of a program for one request."""
MOST_REQUESTS = 16
"""Concurrent requests that count for the limit of all output."""
END_SECONDS = 2.0
"""How long a program may take to end after its input is closed, and again after SIGTERM."""
_COST = 256
"""Bytes that each message counts in addition to its own, since short messages are work, too."""
_CHUNK = 65_536
_TAIL = 8_000
"""Bytes of the end of the standard error of a program, for the error message."""
_PAUSE = 0.001
"""Seconds between two reads of standard error: a program that floods it blocks."""
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_EXCERPT = 80
"""Characters of output without messages in an error."""


class Link:
    """The state of a connection: whether it is closed, and why."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.reason = ""
        """Why it is closed; empty while it is open."""

    def mark_closed(self, reason: str) -> None:
        """Marks the connection as closed; the first reason counts."""
        self.reason = self.reason or reason
        self.closed.set()


@asynccontextmanager
async def run_program(
    command: str, args: Sequence[str], env: Mapping[str, str], link: Link
) -> AsyncGenerator[tuple[Any, Any]]:
    """Runs a program; returns the read stream and the write stream for a session.

    Args:
        command: The program.
        args: Its arguments.
        env: Its whole environment.
        link: Closed when the program ends.

    Raises:
        OSError: it cannot be started.
    """
    with _StderrTail() as stderr:
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            env=dict(env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr.write_end,
            start_new_session=True,  # its child processes are killed with it
        )
        stderr.close_write_end()
        connection = _ProgramConnection(process, link, stderr)
        tasks = [
            asyncio.create_task(connection.read()),
            asyncio.create_task(connection.write()),
        ]
        try:
            yield connection.read_stream, connection.write_stream
        finally:
            for task in tasks:
                task.cancel()
            drain = asyncio.create_task(_drain(process, tasks[0]))
            try:
                await _end(process)
            finally:
                _kill(process, _KILL)
                connection.close()
                await asyncio.wait({drain}, timeout=END_SECONDS)
                drain.cancel()


class _ProgramConnection:
    """The streams to and from a program."""

    def __init__(
        self, process: asyncio.subprocess.Process, link: Link, stderr: _StderrTail
    ) -> None:
        self._process = process
        self._link = link
        self._stderr = stderr
        self._read_writer, self.read_stream = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self.write_stream, self._write_reader = anyio.create_memory_object_stream[SessionMessage](0)
        self._budget = LARGEST_ANSWER

    async def read(self) -> None:
        """Reads messages until the program ends or exceeds a limit."""
        try:
            reason = await self._read_messages()
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            reason = str(exc) or "the session was closed"
        self._link.mark_closed(reason)
        self._read_writer.close()

    async def _read_messages(self) -> str:
        """Reads messages; returns why there are no more."""
        out, line = self._process.stdout, bytearray()
        while out is not None and (chunk := await out.read(_CHUNK)):
            self._budget -= len(chunk)
            if self._budget < 0:
                return f"it writes more than {LARGEST_ANSWER:,} bytes without a request"
            first, *lines = chunk.split(b"\n")
            line += first
            for rest in lines:
                if line.startswith(b"{"):
                    self._budget -= _COST
                    if message := _parse_message(bytes(line)):
                        await self._read_writer.send(message)
                line = bytearray(rest)
            if len(line) > LARGEST_ANSWER:
                return f"it answers with more than {LARGEST_ANSWER:,} bytes"
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        code = self._process.returncode
        reason = "it closed its output" if code is None else f"it ended with the exit code {code}"
        tail = await asyncio.to_thread(self._stderr.read_tail)
        if not tail and line:
            tail = shorten(clean_text(line[:_CHUNK].decode(errors="replace")), _EXCERPT)
        return f"{reason}; its last output: {tail}" if tail else reason

    async def write(self) -> None:
        """Writes the messages of the session to the program."""
        stdin = self._process.stdin
        with suppress(OSError, anyio.ClosedResourceError):  # `read` has the reason
            async for each in self._write_reader:
                if isinstance(each.message.root, JSONRPCRequest):
                    self._budget = min(
                        self._budget + LARGEST_ANSWER, MOST_REQUESTS * LARGEST_ANSWER
                    )
                text = each.message.model_dump_json(by_alias=True, exclude_none=True)
                if stdin is not None:
                    stdin.write(text.encode() + b"\n")
                    await stdin.drain()

    def close(self) -> None:
        """Closes all streams."""
        for each in (
            *(self._read_writer, self.read_stream),
            *(self.write_stream, self._write_reader),
        ):
            each.close()


def _parse_message(line: bytes) -> SessionMessage | None:
    """A message of the protocol; None for other output."""
    try:
        return SessionMessage(JSONRPCMessage.model_validate_json(line))
    except (ValidationError, ValueError, RecursionError) as exc:
        return _invalid_response_error(line, exc)


def _invalid_response_error(line: bytes, exc: Exception) -> SessionMessage | None:
    """The error for an invalid response; None if the line is no response."""
    try:
        data: Any = json.loads(line)
        if "result" not in data and "error" not in data:
            return None
        reason = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else str(exc)
        error = ErrorData(code=PARSE_ERROR, message=f"its response is invalid: {reason}")
        return SessionMessage(
            JSONRPCMessage(JSONRPCError(jsonrpc="2.0", id=data["id"], error=error))
        )
    except (ValueError, KeyError, RecursionError):
        return None


async def _drain(process: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> None:
    """Reads the remaining output of a program, which could block otherwise."""
    await asyncio.wait({reader})
    while process.stdout is not None and await process.stdout.read(_CHUNK):
        pass


async def _end(process: asyncio.subprocess.Process) -> None:
    """Stops a program: closes its input, then sends SIGTERM."""
    if process.stdin is not None:
        process.stdin.close()
    for last in (False, True):
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
                return
        if not last:
            _kill(process, signal.SIGTERM)


def _kill(process: asyncio.subprocess.Process, signal_number: int) -> None:
    """Sends a signal to a running program and its child processes."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, signal_number)


class _StderrTail:
    """The end of the standard error of a program."""

    def __enter__(self) -> _StderrTail:
        self._read_end, self.write_end = os.pipe()
        self._open = True
        self._end = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_write_end()

    def close_write_end(self) -> None:
        """Closes the write end here, so that the pipe ends with the program."""
        if self._open:
            self._open = False
            os.close(self.write_end)

    def read_tail(self) -> str:
        """The end of the output in one line."""
        self._thread.join(0.5)
        return " ".join(clean_text(self._end.decode(errors="replace")).split())[-400:]

    def _read(self) -> None:
        try:
            while chunk := os.read(self._read_end, _CHUNK):
                self._end = (self._end + chunk)[-_TAIL:]
                time.sleep(_PAUSE)
        finally:
            os.close(self._read_end)
