"""Log lines of the Temporal SDK's core, forwarded to `logging`.

By default the core writes to standard output, with terminal codes even into a file. Only processes
that Crewlog starts change that; in the processes of others, the runtime is theirs.
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
