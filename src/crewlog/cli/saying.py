"""What somebody says to a conversation: at a terminal, or from a pipe.

At a terminal the keys are read one by one, so that Ctrl-C and Ctrl-D leave it as it was, whatever
was typed. A text of several lines that is pasted is one message, once Enter is pressed. From a pipe
each line is a message, and its end is the end. In both, a line that ends with a backslash goes on
with the next one.
"""

from __future__ import annotations

import asyncio
import os
import sys

from crewlog.cli.compiling import decoded
from crewlog.cli.screen import Screen
from crewlog.cli.typed import NO_PASTES, PASTES, Keys, Typed, columns, rows_of

YOU = "  › "  # noqa: RUF001
"""What stands before what is typed."""
_INDENT = " " * len(YOU)
_LONGEST = 65_536


class Sayings:
    """What somebody says, line by line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._ready: list[str] = []
        """Lines that came with others: a text that was pasted."""

    async def next(self) -> str | None:
        """The next line that says something; none where nobody says anything any more."""
        while True:
            line = self._ready.pop(0) if self._ready else await self._line()
            if line is None or line.strip():
                return line and line.strip()

    async def _line(self) -> str | None:
        if not self._screen.asks:
            return await asyncio.to_thread(_piped)
        return await self._typed()

    async def _typed(self) -> str | None:
        terminal, typed = sys.stdin.fileno(), Typed(several=True)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str | None] = loop.create_future()
        keys = Keys(terminal)

        def read() -> None:
            before = typed.text
            data = os.read(terminal, _LONGEST)
            lines = typed.feed(data)
            if lines:
                self._ready += lines[1:]
                self._echo(before, lines[0])
                self._write("\n")
                done.set_result(lines[0])
            elif not data or typed.ended:
                done.set_result(None)
            else:
                self._echo(before, typed.text)
            if done.done():
                loop.remove_reader(terminal)

        self._screen.out.print(YOU, style="bold cyan", end="")
        self._write(PASTES)
        loop.add_reader(terminal, read)
        try:
            return await done
        finally:
            loop.remove_reader(terminal)
            self._write(NO_PASTES)
            keys.give_back()

    def _echo(self, before: str, text: str) -> None:
        before, text = (each.replace("\n", f"\n{_INDENT}") for each in (before, text))
        if text.startswith(before):
            self._write(text[len(before) :])
            return
        above = sum(rows_of(line, columns()) for line in (YOU + before).split("\n")) - 1
        self._write("\r" + (f"\x1b[{above}A" if above else "") + "\x1b[J")
        self._screen.out.print(YOU, style="bold cyan", end="")
        self._write(text)

    def _write(self, text: str) -> None:
        self._screen.out.file.write(text)
        self._screen.out.file.flush()


def _piped() -> str | None:
    """The next line of standard input, with those that it goes on with; none at its end."""
    said = ""
    while raw := sys.stdin.buffer.readline():
        line = decoded(raw, "standard input", "message").replace("\r\n", "\n")
        if not line.endswith("\\\n"):
            return said + line
        said += f"{line[:-2]}\n"
    return said or None
