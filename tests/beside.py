"""A workflow whose commands tell whether a signal was there when its local activity had ended."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

HELD = "held"


@workflow.defn
class Beside:
    """Does other things where signals were there first."""

    def __init__(self) -> None:
        self._said: list[str] = []

    @workflow.run
    async def run(self) -> int:
        """How many signals it had once its local activity had ended."""
        await workflow.execute_local_activity(HELD, start_to_close_timeout=timedelta(seconds=60))
        before = len(self._said)
        if before:
            workflow.upsert_memo({"before": before})
        await workflow.sleep(timedelta(milliseconds=10))
        await workflow.wait_condition(lambda: len(self._said) == 3)
        return before

    @workflow.signal
    def say(self, text: str) -> None:
        """Says something."""
        self._said.append(text)

    @workflow.query
    def said(self) -> list[str]:
        """What was said."""
        return self._said
