"""`python -m crewlog.dev`: finds, builds or downloads the Temporal server once, and says which.

For set-up steps: what comes after it, such as tests with a time limit, then finds it in the cache.
"""

from __future__ import annotations

import asyncio
import sys
import time

from crewlog.dev.temporal_cli import find_cli
from crewlog.errors import CrewlogError

LINE_EVERY = 30.0


class _Lines:
    """Progress as lines on standard error, two a minute."""

    def __init__(self) -> None:
        self._said = 0.0

    def begin(self, name: str) -> None:
        """Says nothing: what takes no time needs no line."""

    def update(self, name: str, text: str) -> None:
        """Says what goes on."""
        now = time.monotonic()
        if now - self._said >= LINE_EVERY:
            self._said = now
            sys.stderr.write(f"▸ {name}: {text}\n")

    def done(self, name: str, text: str) -> None:
        """Says nothing: the result is said once, at the end."""


def main() -> int:
    """Makes sure that the server is there; the exit code is that of the error, else 0."""
    try:
        cli = asyncio.run(find_cli(_Lines()))
    except CrewlogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stderr.write(f"▸ Temporal server {cli.server_version} ({cli.source}: {cli.path})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
