"""What is printed, and how: texts to a terminal or a pipe, or JSON to a program.

Everything that a model, a tool or a stranger's definition may have written passes through `plain`
before it is shown, and texts are `rich.text.Text`, never markup: so `[red]` is five characters, and
an escape sequence cannot move the cursor.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from crewlog.authority.allowlist import is_invisible

if TYPE_CHECKING:
    from pathlib import Path

Part = str | tuple[str, str]
"""A text, or a text and its style."""

_LEAST, _DEEP = 30, 8
"""Columns that a folded text needs beside its head; where it begins if there are fewer."""

PALETTE = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta")
"""Colours of nodes, in the order of the plan."""


def _hidden(char: str) -> bool:
    return unicodedata.category(char) == "Cc" or is_invisible(char)


def plain(text: object) -> str:
    """One line of printable characters: what is safe to show of a stranger's text."""
    kept: list[str] = []
    for char in str(text):
        if char.isspace():
            kept.append(" ")
        elif not _hidden(char):
            kept.append(char)
    return " ".join("".join(kept).split())


def plain_lines(text: object) -> str:
    """Like `plain`, but keeps line ends and indentation."""
    return "\n".join(
        "".join("    " if c == "\t" else c for c in line if c == "\t" or not _hidden(c)).rstrip()
        for line in str(text).splitlines()
    )


def text_of(*parts: Part) -> Text:
    """A `Text` of plain and styled parts."""
    out = Text()
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        else:
            out.append(part[0], part[1])
    return out


def jsonable(data: Any) -> Any:
    """Plain JSON data of models, however deep they are."""
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json", by_alias=True)
    if isinstance(data, dict):
        return {str(k): jsonable(v) for k, v in data.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(data, list | tuple):
        return [jsonable(each) for each in data]  # pyright: ignore[reportUnknownVariableType]
    return data


class Standing(Protocol):
    """What stands at a terminal's bottom, e.g. a prompt."""

    def lift(self) -> None:
        """Takes it away, where it is there: something is printed now."""


class Screen:
    """Standard output and standard error of one command."""

    def __init__(self, *, as_json: bool = False, aside: bool = False) -> None:
        """A command's screen.

        Args:
            as_json: Whether standard output is a program's, as JSON.
            aside: Whether it is the result's alone, and what is told goes to standard error.
        """
        self.as_json = as_json
        self.err = _console(stderr=True)
        self.out = self.err if aside else _console(stderr=False)
        self.standing: Standing | None = None
        """What is lifted before anything is printed; whoever put it there draws it again."""

    def _lift(self) -> None:
        if self.standing is not None:
            self.standing.lift()

    @property
    def tty(self) -> bool:
        """Whether people look at it: texts may be cropped, a line may be rewritten."""
        return self.out.is_terminal and not self.as_json and not self.out.is_dumb_terminal

    @property
    def asks(self) -> bool:
        """Whether there is somebody to ask."""
        return self.tty and sys.stdin.isatty()

    @property
    def has_edge(self) -> bool:
        """Whether lines end somewhere: at a terminal, or where COLUMNS is set for a pipe."""
        return _has_edge(self.out)

    @property
    def width(self) -> int:
        """Columns of the terminal; a pipe has no end, but where COLUMNS says so."""
        return self.out.width if self.has_edge else 10_000

    @property
    def colored(self) -> bool:
        """Whether colours are shown."""
        return self.out.color_system is not None and not self.out.no_color

    def line(self, *parts: Part | Text, crop: bool = False) -> None:
        """One line; nothing where a program reads.

        Args:
            parts: What it is made of.
            crop: Whether it ends at a terminal's edge. A command to be copied must not.
        """
        if self.as_json:
            return
        text = Text()
        for part in parts:
            text.append_text(part if isinstance(part, Text) else text_of(part))
        text.rstrip()
        if crop and self.out.is_terminal:
            text.truncate(self.out.width, overflow="ellipsis")
        self._lift()
        self.out.print(text, soft_wrap=True)

    def block(self, text: str, indent: str = "  ") -> None:
        """Lines as they are, e.g. a picture with its own colours."""
        if self.as_json:
            return
        self._lift()
        for line in text.rstrip("\n").splitlines():
            self.out.print(Text.from_ansi(f"{indent}{line}".rstrip()), soft_wrap=True)

    def paragraph(self, text: str, *, style: str = "", indent: int = 2) -> None:
        """A text that is wrapped at a terminal's edge, indented."""
        if self.as_json:
            return
        self._lift()
        room = max(20, min(self.width, 100) - indent)
        for line in plain_lines(text).split("\n"):
            for each in folded(line, room) if self.has_edge else [line]:
                self.out.print(text_of(" " * indent, (each, style)), soft_wrap=True)

    def wrapped(self, head: Iterable[Part], text: str, *, indent: int, style: str = "") -> None:
        """A head and a text beside it, wrapped under itself at a terminal's edge."""
        if not self.as_json:
            self._lift()
            _wrapped(self.out, head, text, indent, style)

    def complain(
        self, head: Iterable[Part], text: str, *, indent: int = 0, style: str = ""
    ) -> None:
        """The same on standard error; as it is (a source line, say) where there is no head."""
        self._lift()
        parts = list(head)
        if parts:
            _wrapped(self.err, parts, text, indent, style)
        else:
            self.err.print(Text(text, style), soft_wrap=True)

    def note(self, *parts: Part) -> None:
        """A line to standard error, for people: it never mixes with a result."""
        if not self.as_json:
            self._lift()
            self.err.print(text_of(*parts), soft_wrap=True)

    def document(self, data: Any) -> None:
        """One JSON document: indented for a terminal, else as one line."""
        indent = 2 if self.out.is_terminal else None
        write(json.dumps(jsonable(data), ensure_ascii=False, indent=indent, default=str))

    def record(self, data: Any) -> None:
        """One line of a JSON stream."""
        write(json.dumps(jsonable(data), ensure_ascii=False, default=str))

    def rows(
        self, header: Iterable[str], rows: Iterable[Iterable[Part]], *, folds: bool = False
    ) -> None:
        """Aligned columns; the last one takes what room is left.

        Args:
            header: Their titles; where none has one there is no line of them.
            rows: What stands in them.
            folds: Whether the last one goes on beneath itself; else it is cropped at a terminal.
        """
        if self.as_json:
            return
        cells = [[text_of(cell) for cell in row] for row in rows]
        titles = [text_of((title, "dim")) for title in header]
        every = [titles, *cells] if any(title.plain for title in titles) else cells
        if not every:
            return
        widths = [max(row[i].cell_len for row in every) for i in range(len(every[0]) - 1)]
        for row in every:
            parts: list[Part | Text] = ["  "]
            for cell, width in zip(row[:-1], widths, strict=True):
                cell.pad_right(width - cell.cell_len + 3)
                parts.append(cell)
            if folds and self.has_edge:
                self._fold_beside(parts, row[-1])
            else:
                self.line(*parts, row[-1], crop=True)

    def _fold_beside(self, head: list[Part | Text], text: Text) -> None:
        """A text beside a head, folded under itself; further left where there is little room."""
        whole = Text()
        for part in head:
            whole.append_text(part if isinstance(part, Text) else text_of(part))
        indent = whole.cell_len if whole.cell_len + _LEAST <= self.out.width else _DEEP
        style = str(text.spans[0].style) if text.spans else ""
        lines = folded(text.plain, max(20, self.out.width - indent), whole.cell_len - indent)
        self._lift()
        for number, line in enumerate(lines):
            shown = whole if number == 0 else Text(" " * indent)
            shown.append(line, style).rstrip()
            self.out.print(shown, soft_wrap=True)


def tell_warning(screen: Screen, warning: str, *, aside: bool = False) -> None:
    """Tells which bound a run came to, where it did: on standard error where nobody looks.

    Args:
        screen: The command's.
        warning: The sentence, or nothing.
        aside: Whether standard output is for answers alone.
    """
    if not warning or screen.as_json:
        return
    said = (f"! {plain(warning)}", "yellow")
    if aside or not screen.tty:
        screen.note(said)
    else:
        screen.line("  ", said)


def write(line: str) -> None:
    """A raw line to standard output, at once: programs read it as it comes."""
    sys.stdout.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")
    sys.stdout.flush()


def _wrapped(console: Console, head: Iterable[Part], text: str, indent: int, style: str) -> None:
    whole = text_of(*head)
    start = whole.cell_len
    if not _has_edge(console):
        console.print(whole.append(text, style), soft_wrap=True)
        return
    room = max(20, console.width - indent)
    for number, line in enumerate(folded(text, room, start - indent)):
        shown = whole if number == 0 else Text(" " * indent)
        console.print(shown.append(line, style), soft_wrap=True)


def folded(text: str, room: int, first: int = 0) -> list[str]:
    """A line as lines that fit, broken between words and nowhere else.

    Words are never broken: addresses and paths are there to be copied.

    Args:
        text: The line; its indentation is kept.
        room: Columns of a line.
        first: Columns of the first one that are taken already.
    """
    lines: list[str] = []
    line, taken = "", first
    for word in re.findall(r"\s*\S+", text):
        size = cell_len(word)
        if taken + size > room and (line.strip() or (first and not lines)):
            lines.append(line)
            line = word.lstrip()
            taken = cell_len(line)
        else:
            line += word
            taken += size
    return [*lines, line] if line or not lines else lines


class _Console(Console):
    """Rich's console; but a reader that goes away is an error like any other, with our code."""

    def on_broken_pipe(self) -> None:
        """Let the entry point decide."""
        raise BrokenPipeError


def _console(*, stderr: bool) -> Console:
    return _Console(
        stderr=stderr,
        markup=False,
        highlight=False,
        emoji=False,
        # A narrow or unknown terminal still gets whole words.
        width=_asked_width() or None,
    )


def _asked_width() -> int:
    """Columns that COLUMNS asks for; 0 where it does not."""
    asked = os.environ.get("COLUMNS", "")
    return max(24, int(asked)) if asked.isdigit() else 0


def _has_edge(console: Console) -> bool:
    """Whether lines are to end somewhere: at a terminal, or where COLUMNS is set for a pipe.

    Else a pipe has a line for each thing that is told, however long: `grep` finds all of it.
    """
    return console.is_terminal or _asked_width() > 0


def short_path(path: Path) -> str:
    """A path as people would type it: relative to here, or to the home directory."""
    here, home = os.path.relpath(path), os.path.expanduser("~")  # noqa: PTH111
    if not here.startswith("..") and os.getcwd() != os.sep:  # noqa: PTH109
        return here
    full = str(path)
    return "~" + full[len(home) :] if full.startswith(home + os.sep) else full


def clock(ms: int) -> str:
    """Time since a start: `00.4`, `12.9`, `3:07`, `1:02:07`."""
    seconds = max(ms, 0) / 1000
    if seconds < 99.95:
        return f"{seconds:04.1f}"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def lasted(start: int, end: int | None) -> str:
    """How long something took: `3.4 s`, `2m51s`, `1h02m`; nothing while it goes on."""
    if end is None:
        return ""
    seconds = max(end - start, 0) / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def ago(at: int) -> str:
    """How long ago a time in milliseconds is: `3 minutes ago`."""
    seconds = datetime.now().astimezone().timestamp() - at / 1000
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return f"{max(int(seconds), 0)} s ago"


def money(cost: float) -> str:
    """`$0.004`, `$1.20`; nothing where nothing is known."""
    if not cost:
        return ""
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.3f}" if cost >= 0.001 else "< $0.001"


def counted(count: int, what: str) -> str:
    """`1 step`, `2 steps`, `9,412 tokens`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
