"""Search attributes and the position memo of an execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from crewlog.ids import StepId
from crewlog.reporting.live_run.progress import search_attributes
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.sdk_workarounds import separate_task

PHASE_INTERVAL_MS = 5000
"""The shortest interval between updates of the phase alone, since each update is an event."""


class Visibility:
    """Updates the search attributes of an execution.

    Args:
        context: What the parts of the execution share.
        calls_in_flight: The calls in flight, with what each waits for.
        drained_steps: The steps that the execution waits for before it continues as new.
    """

    def __init__(
        self,
        context: ExecutionContext,
        calls_in_flight: Callable[[], Mapping[tuple[StepId, int], str]],
        drained_steps: Callable[[], Sequence[StepId]],
    ) -> None:
        self._context = context
        self._calls_in_flight = calls_in_flight
        self._drained_steps = drained_steps
        self._attributes: dict[str, Any] = {}
        self._attributes_set_at = 0
        self._marked = (0, 0)
        """The journal position and `context.events` at the end of the last task."""

    def update(self) -> None:
        """Updates the search attributes that changed."""
        if not self._context.search_attributes:
            return
        new = search_attributes(
            self._context.engine.plan,
            self._context.engine.state,
            self._calls_in_flight(),
            drained_steps=self._drained_steps(),
            quiet=self._context.quiet,
        )
        changed = {key: value for key, value in new.items() if self._attributes.get(key) != value}
        is_recent = self._context.engine.at - self._attributes_set_at < PHASE_INTERVAL_MS
        if not changed or (set(changed) == {"CrewlogPhase"} and is_recent):
            return
        workflow.upsert_search_attributes(
            [SearchAttributeKey.for_keyword(key).value_set(value) for key, value in new.items()]
        )
        self._attributes, self._attributes_set_at = new, self._context.engine.at
        self._context.events += 1

    def mark_task(self) -> None:
        """Leaves an event if this workflow task recorded entries and issued no Temporal command."""
        position, commands = self._marked
        if position != self._context.engine.state.position and commands == self._context.events:
            separate_task(self._context.engine.state.position)
        self._marked = (self._context.engine.state.position, self._context.events)
