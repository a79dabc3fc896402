"""The signals of one activation as one: the SDK makes a coroutine, and much else, for each.

That costs more than all that is done for a signal which is only counted. So the runner hands over
what came together as one signal of this name, which no client can send: one that is named so is
handed over within another. The handler never waits, so that the order is the same either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

TOGETHER = "crewlog:together"
"""The name of the one signal."""


def contents(names: Sequence[tuple[str, int]]) -> Payload:
    """The first argument of the one signal; those of all signals follow, in order.

    Args:
        names: Each signal's name, and how many arguments it has.
    """
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(names).encode())


def apart(args: Sequence[RawValue]) -> Iterator[tuple[str, Sequence[RawValue]]]:
    """The signals that came as one, with the arguments of each."""
    at = 1
    for name, count in json.loads(args[0].payload.data):
        yield name, args[at : at + count]
        at += count
