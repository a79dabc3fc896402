"""Forwards the log of the Temporal SDK's core to `logging`.

By default the core writes to standard output, with terminal codes even into a file. Only processes
of Crewlog change that; applications configure their own runtime.
"""

from __future__ import annotations

import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig


def sdk_logging() -> LoggingConfig:
    """Forwards the core's warnings to the logger `temporalio`."""
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio"), prepend_target_on_message=False
    )
    return LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
