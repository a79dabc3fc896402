"""How the local services tell what they are doing, without knowing how it is shown."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What the services call while they start; always from the caller's own event loop."""

    def begin(self, name: str) -> None:
        """Work on the service `name` (`temporal`, `postgres`) begins."""
        ...

    def update(self, name: str, text: str) -> None:
        """What is being done now."""
        ...

    def done(self, name: str, text: str) -> None:
        """The service answers; the text says its version and how it came to be."""
        ...


class Silent:
    """A `Progress` that shows nothing."""

    def begin(self, name: str) -> None:
        """Show nothing."""

    def update(self, name: str, text: str) -> None:
        """Show nothing."""

    def done(self, name: str, text: str) -> None:
        """Show nothing."""


SILENT = Silent()
