"""`services.json`: which background processes were started, and where they answer.

The file is a cache of facts that the machine can be asked for: a damaged one is set aside, and
servers that still run are found again by their command lines.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, Field, ValidationError

from crewlog.dev.paths import PRIVATE_FILE, Home, open_private, unwritable
from crewlog.dev.processes import ProcessRecord
from crewlog.errors import ServiceError


class ServiceRecord(BaseModel):
    """One background process."""

    name: str
    """`temporal`, `postgres` or `worker`."""
    process: ProcessRecord
    """What identifies the process."""
    address: str = ""
    """Where it answers: `127.0.0.1:7233`, a database URL; a worker's task queue."""
    ui_url: str | None = None
    """The web interface, if it has one."""
    log: str = ""
    """Its log file."""
    version: str = ""
    """The server's version."""
    directory: str = ""
    """Where a worker runs, as it began: one that has closed itself in /proc tells nobody later."""


class RegistryData(BaseModel):
    """The contents of `services.json`."""

    services: dict[str, ServiceRecord] = Field(default_factory=dict[str, ServiceRecord])
    """The servers by name."""
    workers: list[ServiceRecord] = Field(default_factory=list[ServiceRecord])
    """Background workers, in the order of their start."""


class Registry:
    """The registry of a home: read it, or edit it under its lock."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self) -> RegistryData:
        """The records; none if there is no file, or a damaged one, which is then set aside."""
        path = self._home.registry
        try:
            return RegistryData.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return RegistryData()
        except ValidationError:
            self._set_aside(path)
            return RegistryData()
        except OSError as error:
            raise unwritable(self._home.root, error) from error

    @contextmanager
    def edit(self) -> Generator[RegistryData]:
        """The records, to be changed: they are written when the block ends without an error."""
        try:
            with FileLock(
                self._home.registry_lock, timeout=30, thread_local=False, mode=PRIVATE_FILE
            ):
                data = self.read()
                before = data.model_dump_json(indent=2)
                yield data
                after = data.model_dump_json(indent=2)
                if after != before or not self._home.registry.exists():
                    self._write(after)
        except Timeout as error:
            raise ServiceError(
                "another process holds the registry of the local services",
                remedy="Find the process that has this file open and end it.",
                place=str(self._home.registry_lock),
            ) from error
        except OSError as error:
            raise unwritable(self._home.root, error) from error

    def _write(self, text: str) -> None:
        path = self._home.registry
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
            file.write(text + "\n")
        fresh.replace(path)

    def _set_aside(self, path: Path) -> None:
        try:
            path.replace(path.with_suffix(".corrupt.json"))
        except FileNotFoundError:
            return
        except OSError as error:
            raise unwritable(self._home.root, error) from error
