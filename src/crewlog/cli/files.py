"""Crew files: is it one, and which."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".yaml", ".yml", ".json")


def is_file(text: str) -> bool:
    """Whether an argument means a file rather than a name or a run."""
    return text.lower().endswith(SUFFIXES) or Path(text).is_file() or "/" in text
