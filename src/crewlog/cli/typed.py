"""A line as it is typed, key by key.

Where rows are printed above a prompt, what was typed so far must be drawn again beneath them. A
terminal in its ordinary line mode keeps that to itself until Enter; so the keys are read one by
one, and the keys that edit a line are understood here.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import termios
from contextlib import suppress

from rich.cells import cell_len

from crewlog.cli.screen import plain

_ESCAPES = re.compile(r"(\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?)")
"""Arrows and the like: a line is edited at its end only."""
_CUT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
"""The beginning of one, whose rest comes with the next keys."""
PASTES, NO_PASTES = "\x1b[?2004h", "\x1b[?2004l"
"""Have a terminal say where a text that is pasted begins and ends, and no more."""
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_ENTER, _ERASE, _KILL, _WORD, _END = "\r\n", "\b\x7f", "\x15", "\x17", "\x04"
_LATE_END = "\0"
"""What a terminal makes of a Ctrl-D that was typed before its keys were read one by one."""


_LAST_WORD = re.compile(r"\S+\s*\Z")


class Typed:
    """What was typed of a line.

    Args:
        several: Whether it may have several lines: one that ends with a backslash goes on, and a
            text that is pasted, as the terminal says, is not ended by its own.
    """

    def __init__(self, *, several: bool = False) -> None:
        self.text = ""
        """The line that is not ended yet."""
        self.ended = False
        """Whether nobody types any more: Ctrl-D at a line's begin."""
        self._several = several
        self._pasted = False
        """Whether what comes was pasted, and the end of that did not come yet."""
        self._returned = False
        """Whether the last key of that was a carriage return."""
        self._cut = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Takes keys; the lines that they end."""
        keys = self._decoder.decode(data)
        if self._cut != "\x1b" or keys[:1] in "[O":  # else that was the key Escape alone
            keys = self._cut + keys
        cut = _CUT.search(keys)
        at = cut.start() if cut else len(keys)
        keys, self._cut = keys[:at], keys[at:]
        lines: list[str] = []
        for number, part in enumerate(_ESCAPES.split(keys)):
            if number % 2:
                self._pasted = self._several and (
                    part == _PASTE or (self._pasted and part != _PASTED)
                )
            elif self._pasted:
                self._paste(part)
            else:
                self._type(part, lines)
            if self.ended:
                break
        return lines

    def _paste(self, text: str) -> None:
        for key in text:
            if key in _ENTER:
                self.text += "" if key == "\n" and self._returned else "\n"
            elif key in " \t":
                self.text += " "
            elif plain(key):
                self.text += key
            self._returned = key == "\r"

    def _type(self, keys: str, lines: list[str]) -> None:
        for key in keys:
            if key in _ENTER and self._several and self.text.endswith("\\"):
                self.text = f"{self.text[:-1]}\n"
            elif key in _ENTER:
                lines.append(self.text)
                self.text = ""
            elif key in _ERASE:
                self.text = self.text[:-1]
            elif key == _KILL:
                self.text = ""
            elif key == _WORD:
                self.text = _LAST_WORD.sub("", self.text)
            elif not self.text and (key == _END or (self._several and key == _LATE_END)):
                self.ended = True
                break
            elif key in " \t":
                self.text += " "
            elif plain(key):
                self.text += key


class Keys:
    """A terminal that gives each key at once and leaves the echo to us, until it is put back."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._before = termios.tcgetattr(terminal)
        self.take()

    def take(self) -> None:
        """Sets the mode (again: a shell that had the terminal in between has its own)."""
        mode = termios.tcgetattr(self._terminal)
        # Ctrl-C and Ctrl-Z stay what they are.
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._terminal, termios.TCSANOW, mode)

    def give_back(self) -> None:
        """Puts the terminal back into the mode that it had."""
        with suppress(termios.error):  # it is gone, with whoever typed
            termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)


def rows_of(text: str, width: int) -> int:
    """Rows of a terminal that a line takes."""
    return max(cell_len(text) - 1, 0) // max(width, 1) + 1


def columns() -> int:
    """Columns of the terminal that standard output is, as it is now."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
