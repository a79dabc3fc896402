"""A workflow whose commands and result tell which signals it learned of together, and when."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

from crewlog.workflows.sdk_workarounds import separate_task


@activity.defn
async def breathe() -> None:
    """Takes a moment: by a local activity the time of a workflow goes on within its task."""


@workflow.defn
class Early:
    """Leaves an event for each time that it learned of signals."""

    def __init__(self) -> None:
        self._said: list[tuple[str, float]] = []

    @workflow.run
    async def run(self) -> list[tuple[str, float]]:
        """What was said, once it is three things, and when it was, in seconds since the epoch."""
        seen = 0
        while seen < 3:
            await workflow.wait_condition(lambda: len(self._said) > seen)  # noqa: B023 - awaited here
            seen = len(self._said)
            workflow.upsert_memo({"seen": seen})
            await workflow.execute_local_activity(
                breathe, start_to_close_timeout=timedelta(seconds=5)
            )
        return self._said

    @workflow.signal
    def say(self, text: str) -> None:
        """Says something."""
        self._said.append((text, workflow.time()))

    @workflow.update
    async def hear(self, text: str) -> str:
        """Gives back what it heard."""
        return text

    @workflow.query
    def said(self) -> str:
        """What was said."""
        return "".join(text for text, _ in self._said)


@workflow.defn
class Marked:
    """A workflow whose tasks record the time of signals, with no other command than a mark."""

    def __init__(self) -> None:
        self._times: list[float] = []

    @workflow.run
    async def run(self, marks: bool) -> None:
        """Runs until it is terminated.

        Args:
            marks: Whether each task that recorded something leaves a mark.
        """
        seen = 0
        while True:
            await workflow.wait_condition(lambda: len(self._times) > seen)  # noqa: B023 - awaited here
            seen = len(self._times)
            if marks:
                separate_task(seen)

    @workflow.signal
    def say(self) -> None:
        """Records the time."""
        self._times.append(workflow.time())

    @workflow.update
    async def refused(self) -> None:
        """Never runs."""

    @refused.validator
    def check_refused(self) -> None:
        """Rejects it, so that its task leaves no event of its own."""
        raise ValueError("it is refused")

    @workflow.query
    def times(self) -> list[float]:
        """The times of the signals."""
        return self._times
