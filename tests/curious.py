"""Workflows that do what workflow code must not do."""

from __future__ import annotations

import time

from temporalio import workflow


@workflow.defn
class Curious:
    """Looks at what is different each time."""

    @workflow.run
    async def run(self, what: str) -> str:
        """Reads a file, or the clock."""
        if what == "file":
            with open(__file__) as file:  # noqa: ASYNC230, PTH123 - what it is here for
                return file.read()
        return str(time.time())
