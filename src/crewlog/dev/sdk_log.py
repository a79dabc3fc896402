"""What the SDK's core has to say, as lines of `logging`.

By default it writes to standard output itself, with the codes of a terminal even into a file. Only
processes of ours choose otherwise; in those of others, the runtime is theirs.
"""

from __future__ import annotations

import logging

from temporalio.runtime import LogForwardingConfig, LoggingConfig


def forwarded() -> LoggingConfig:
    """The core's warnings, told to the logger `temporalio`."""
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio"), prepend_target_on_message=False
    )
    return LoggingConfig(filter=LoggingConfig.default.filter, forwarding=forwarding)
