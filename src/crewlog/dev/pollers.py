"""Who asks for the work of a task queue, and when last.

The server remembers a worker for a while after its end.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable

import psutil
from temporalio.api.taskqueue.v1 import PollerInfo

POLLER_LIFE = 70.0
"""A worker asks for work at least once a minute: one that has not is gone."""


def gone(identity: str) -> bool:
    """Whether a worker's `pid@host` is of this machine and its process is not there any more.

    The server remembers a worker for a while after its end.
    """
    pid, _, host = identity.partition("@")
    if host != platform.node() or not pid.isdigit():
        return False
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def alive(pollers: Iterable[PollerInfo]) -> dict[str, float]:
    """The workers that asked lately and are there: identity to when they asked last.

    Args:
        pollers: What the server tells.

    Returns:
        Seconds since the epoch, by the server's clock.
    """
    found: dict[str, float] = {}
    since = time.time() - POLLER_LIFE
    for each in pollers:
        asked = each.last_access_time.ToMilliseconds() / 1000
        if asked > since and not gone(each.identity):
            found[each.identity] = max(asked, found.get(each.identity, 0.0))
    return found
