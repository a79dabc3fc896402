"""Crewlog's directory on this machine. Apart, since the command line reads it while it parses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs


def data_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Crewlog's directory on this machine: `CREWLOG_HOME`, else the user's data directory.

    Args:
        environ: The environment; by default that of the process.
    """
    chosen = (os.environ if environ is None else environ).get("CREWLOG_HOME")
    path = Path(chosen) if chosen else Path(platformdirs.user_data_dir("crewlog"))
    return path.expanduser().resolve()
