"""A worker process: its log, its signals and its exit code.

SIGTERM and SIGINT end it gracefully: it takes no new tasks, and has `CREWLOG_SHUTDOWN_SECONDS` to
finish those that it has. Other workers continue the runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

import structlog
from pydantic import ValidationError
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig

from crewlog.errors import CrewlogError, UsageError
from crewlog.redaction import filter_logs, log_processor, redacted_text
from crewlog.store.protocol import Store
from crewlog.temporal_service.sdk_workarounds import end_process, sdk_logging
from crewlog.validation_errors import rule_of_field_error
from crewlog.workers.log_tail import END_EVENT
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import loop_factory, run_until, tune_garbage_collector

Connect = Callable[[WorkerSettings], AbstractAsyncContextManager[tuple[Client, Store]]]
"""Connects a worker to Temporal and to the store, and closes what it opened."""


def run_process(connect: Connect) -> NoReturn:
    """Runs a worker as this process, until a signal or an error ends it.

    The exit code is 0 after a signal, else that of the error.
    """
    try:
        code = _run(connect)
    except Exception:  # noqa: BLE001 - also an unexpected error ends a worker with its log tail
        _mark_log_tail()
        traceback.print_exc()
        code = 1
    end_process(code)


def configure_logging() -> None:
    """Logs to standard error: readable lines on a terminal, else JSON."""
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            log_processor,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    filter_logs()
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=sdk_logging())))


async def _serve(connect: Connect, settings: WorkerSettings) -> None:
    """Connects, and polls until a signal ends it."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with connect(settings) as (temporal, store):
        tune_garbage_collector()
        await run_until(stop, temporal, store, settings)


def _run(connect: Connect) -> int:
    """Runs a worker; returns the exit code of the error that ended it, else 0."""
    configure_logging()
    # Tools are imported relative to the working directory, as with `python -m`.
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds strings
    # Not closed: that would wait for threads of tools, which may never end.
    runner = asyncio.Runner(loop_factory=loop_factory())
    try:
        runner.run(_serve(connect, WorkerSettings()))
    except ValidationError as error:
        faults = "; ".join(
            f"CREWLOG_{str(e['loc'][0]).upper()} {rule_of_field_error(e)}" for e in error.errors()
        )
        return _report(
            UsageError(
                f"the worker's settings are wrong: {faults}",
                remedy="Correct or unset these variables; docs/operations.md has them.",
            )
        )
    except CrewlogError as error:
        return _report(error)
    return 0


def _mark_log_tail() -> None:
    """Writes the event that precedes the reason of the end; see `crewlog.workers.log_tail`."""
    structlog.get_logger("crewlog.worker").critical(END_EVENT)


def _report(error: CrewlogError) -> int:
    _mark_log_tail()
    sys.stderr.write(f"{redacted_text(str(error))}\n")
    return error.exit_code
