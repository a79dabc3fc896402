"""Corrections of the Temporal SDK in every process that connects to a server.

Each one has its reason, its test, the report to the SDK's authors, and what ends it. Before another
minor version than that of `pyproject.toml` is pinned, try each. The modules of the same name in
`payload_storage`, `workers` and `workflows` have the others.

Imports are in the functions, since every command of the command line loads this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from temporalio.envconfig import ClientConfigProfile
    from temporalio.runtime import LoggingConfig


def end_process(code: int) -> NoReturn:
    """Ends this process once its output is flushed, without the interpreter's own end.

    Reason: the interpreter sometimes aborts while it tears the SDK's runtime down, so a command
        that succeeded has the exit code 134 or 139.
    Test: `test_a_process_that_has_used_the_sdk_ends_with_its_exit_code` in
        `tests/workers/test_sdk_workarounds.py`.
    Report: A script connects a client, lists workflows and ends. A third of its processes end with
        SIGABRT or SIGSEGV, more on a busy machine: `Fatal Python error: PyGILState_Release: thread
        state … must be current when releasing`, `Python runtime state: finalizing`. Expected: the
        threads of the runtime are stopped before the interpreter is finalized.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def sdk_logging() -> LoggingConfig:
    """Forwards the warnings of the SDK's core to the logger `temporalio`.

    Only processes of Crewlog use it; applications configure their own runtime.

    Reason: the core writes to standard output, with terminal codes even into a file.
    Test: `test_the_log_of_the_core_is_not_written_to_standard_output` in
        `tests/workers/test_sdk_workarounds.py`.
    Report: Run a worker against a server that stops, with standard output in a file: the warnings
        of the core are in it, with escape sequences. Expected: they go to standard error, and
        without the sequences if that is no terminal.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the steps of the
        report give what is expected.
    """
    import logging  # noqa: PLC0415

    from temporalio.runtime import LogForwardingConfig, LoggingConfig  # noqa: PLC0415

    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio"), prepend_target_on_message=False
    )
    return LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)


def read_profile(environ: Mapping[str, str]) -> ClientConfigProfile:
    """Reads the Temporal client profile of an environment and the user's `temporal.toml`.

    Reason: `ClientConfigProfile.load` declares a mapping, and its bridge takes a `dict` alone.
    Test: `test_a_profile_is_read_from_any_mapping` in `tests/workers/test_sdk_workarounds.py`.
    Report: `ClientConfigProfile.load(override_env_vars=os.environ)` raises `TypeError: '_Environ'
        object is not an instance of 'dict'`. Expected: it takes every mapping, as it declares.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test no
        longer finds the error of the SDK.
    """
    from temporalio.envconfig import ClientConfigProfile  # noqa: PLC0415

    return ClientConfigProfile.load(override_env_vars=dict(environ))


@contextmanager
def own_cancellation() -> Generator[None]:
    """Raises the cancellation of the calling task as what it is, from an update inside.

    Reason: the SDK raises `WorkflowUpdateRPCTimeoutOrCancelledError` both if the server did not
        answer and if the task that waits was cancelled. Code that tries again would swallow the
        cancellation.
    Test: `test_a_cancelled_update_is_cancelled` in `tests/workers/test_sdk_workarounds.py`.
    Report: A task awaits `handle.execute_update(…)` and is cancelled. It raises
        `WorkflowUpdateRPCTimeoutOrCancelledError`, so `asyncio.timeout` and `TaskGroup` do not
        work. Expected: `asyncio.CancelledError`.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test no
        longer finds the error of the SDK.
    """
    import asyncio  # noqa: PLC0415

    from temporalio.client import WorkflowUpdateRPCTimeoutOrCancelledError  # noqa: PLC0415

    try:
        yield
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise
