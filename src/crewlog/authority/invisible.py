"""Characters that nobody sees: in a name, they make two of what looks like one."""

from __future__ import annotations

import unicodedata

_KINDS = frozenset({"Cf", "Cs", "Co", "Cn"})
"""Formats and directions, half characters, private ones, and those that do not exist."""
_BLANKS = frozenset(map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)))
"""Fillers that count as letters and signs."""
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Marks that choose how the character before them is drawn."""


def is_invisible(c: str) -> bool:
    """Whether a character shows nothing; blanks and line ends are no such characters."""
    return (
        unicodedata.category(c) in _KINDS
        or c in _BLANKS
        or any(first <= ord(c) <= last for first, last in _SELECTORS)
    )
