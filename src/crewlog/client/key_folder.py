"""Where keys are: apart from them, because whoever has none needs no cryptography."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "CREWLOG_KEY"
"""The variable that chooses a key: a name, or a file."""


def folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where keys are: `$XDG_CONFIG_HOME/crewlog/keys`, by default under `~/.config`."""
    chosen = (os.environ if environ is None else environ).get("XDG_CONFIG_HOME")
    return (Path(chosen) if chosen else Path.home() / ".config") / "crewlog" / "keys"


def may_sign() -> bool:
    """Whether there may be a key at all."""
    return bool(os.environ.get(VARIABLE)) or folder().is_dir()
