"""Programs that are run in a run's workspace: bounded in time and output, and told of nothing.

What is run is what agents wrote, so it is a stranger: it gets none of the worker's environment but
where programs are found, a home and a temporary folder of its own, which are gone when it ends, and
no input. It has the rights of the worker's user all the same: this bounds it, and is no sandbox.

On Linux who runs as the worker's user reads the worker's environment and memory in /proc, and there
are the keys of models. So a worker that runs such programs says to the kernel that nobody but root
may (the flag that `ssh-agent` sets, too). It does not help where the worker is root, nor for what
other processes of that user have in theirs.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crewlog.errors import ToolFailed
from crewlog.tool_call import current_call

MOST = 256 * 1024
"""Bytes of output that are kept: the last ones."""
SPARE = 5.0
"""Seconds before its tool's own time is over by which a program is ended: so that there is an
answer, and no call that never ended."""
LEAST = 0.5
_DUMPABLE = 4
"""The option of prctl(2)."""
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_GRACE = 10.0
"""Seconds beyond a program's time after which the watchdog itself is given up."""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int | None
    """Its exit code, below zero where a signal ended it; none where it did not end in time."""
    output: str
    """The end of what it wrote, to both of its outputs."""
    seconds: float
    """How long it took."""
    bound: float
    """How long it was given."""
    cut: bool = False
    """Whether it wrote more than is kept."""
    error: str = ""
    """Why it could not be started."""

    @property
    def hung(self) -> bool:
        """Whether it did not end in time."""
        return self.code is None and not self.error


async def run_program(argv: Sequence[str], *, seconds: float, scratch: Path) -> Ended:
    """Runs a program in the workspace of the current call, until it ends or its time is over.

    Args:
        argv: The program and its arguments; no shell reads them.
        seconds: How long it may take.
        scratch: A folder for its home and its temporary files.

    Raises:
        asyncio.CancelledError: the call was cancelled; the program is ended first.
        ToolFailed: nothing could be run at all.
    """
    close_proc()
    call = current_call()
    bound = seconds if call.timeout is None else min(seconds, max(call.timeout - SPARE, LEAST))
    task = {
        "argv": list(argv),
        "cwd": str(call.workspace),
        "env": dict(environment(scratch)),
        "seconds": bound,
        "most": MOST,
        "scratch": str(scratch),
    }
    watchdog = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_WATCHDOG),
        env={},
        cwd="/",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl+C in the worker's terminal is the worker's to hear
    )
    try:
        told, output = await _talk(watchdog, task, bound + _GRACE)
    finally:
        await _end(watchdog)
    return Ended(
        code=told["code"],
        output=output.decode(errors="replace"),
        seconds=told["seconds"],
        bound=bound,
        cut=told["written"] > len(output),
        error=told["error"],
    )


def close_proc() -> None:
    """Closes this process's environment and memory in /proc to all but root, for good.

    It dumps no core from then on, and a debugger of the same user does not get at it.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


async def _talk(
    watchdog: asyncio.subprocess.Process, task: Mapping[str, Any], seconds: float
) -> tuple[dict[str, Any], bytes]:
    said, heard = watchdog.stdin, watchdog.stdout
    assert said is not None and heard is not None  # noqa: S101, PT018 - both are pipes
    try:
        async with asyncio.timeout(seconds):
            said.write(json.dumps(task).encode() + b"\n")
            await said.drain()
            whole = await heard.read()
    except (TimeoutError, OSError) as exc:
        raise ToolFailed("the watchdog of a program does not answer", remedy="Try again.") from exc
    first, _, output = whole.partition(b"\n")
    if not first:
        raise ToolFailed(
            f"the watchdog of a program ended by itself, with {watchdog.returncode}",
            remedy="Perhaps the machine has no memory left. Try again.",
        )
    return json.loads(first), output


async def _end(watchdog: asyncio.subprocess.Process) -> None:
    """Ends the watchdog, and by it the program: it sees that its input is over."""
    if watchdog.stdin is not None:
        watchdog.stdin.close()
    waiting = asyncio.ensure_future(watchdog.wait())
    try:
        await asyncio.wait_for(asyncio.shield(waiting), _GRACE)
    except (TimeoutError, asyncio.CancelledError) as stopped:
        with suppress(ProcessLookupError):
            watchdog.kill()
        if isinstance(stopped, asyncio.CancelledError):
            raise


def environment(scratch: Path) -> Mapping[str, str]:
    """All of a program's environment."""
    return {
        "PATH": _path(),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the worker's plugins are its own, and take seconds
    }


def _path() -> str:
    """Where programs are found: never in the workspace, which is where the program begins."""
    every = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(each for each in every if os.path.isabs(each))  # noqa: PTH117


class Scratch:
    """A folder for one program, gone with it."""

    def __enter__(self) -> Path:
        self._path = Path(tempfile.mkdtemp(prefix="crewlog-"))
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
