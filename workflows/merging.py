"""A merge of two runs, in the workflow: when a run looks at another one, and what it does then.

    a hint, or a time    an activity loads what the store has of the other run
    loop                 `crewlog.state.joining` says what follows; it is recorded, stored, and told
    `unite`              an activity makes the crew of both; one fact takes the other run in

A hint is the signal `merging`. What it says is believed by nobody: it is a reason to look. The
activities are waited for beside the loop, so that whoever works goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import CrewlogError, RunMerged
    from crewlog.graph.engine import Engine
    from crewlog.graph.taking_in import take_in
    from crewlog.ids import RunId
    from crewlog.state import journal as j
    from crewlog.state.called import called_there, renamed_words
    from crewlog.state.calls import (
        LOOK_AT_RUN,
        PREPARE_MERGE,
        LookAtRun,
        LookedAt,
        PreparedMerge,
        PrepareMerge,
    )
    from crewlog.state.joining import hints_again, looks_at, looks_to, may_unite, next_move
    from crewlog.state.model import CrewState
    from crewlog.state.uniting import artifact_heads

from crewlog.workflows import gate
from crewlog.workflows.activity_options import PREPARING, STORING

if TYPE_CHECKING:
    from crewlog.workflows.inbox import Incoming

MERGING = "merging"
"""The signal that has a run look at another one."""
UNITE_LIMIT = timedelta(seconds=60)
"""How long the crew of both may take to be made: the other run stands still meanwhile."""
HINTS = 20
"""Hints that are kept until they are followed; those that come beyond come again."""


class Merging:
    """A run's part in merges."""

    def __init__(self) -> None:
        self._hints: dict[str, RunId] = {}
        """The runs to look at, by merge."""
        self._task: asyncio.Task[LookedAt | PreparedMerge] | None = None
        self._known: LookedAt | None = None
        """What was seen last: what follows may only wait for what is under way here."""
        self._asked = ""
        """The merge that the other run was told of, in this execution."""
        self._looked = 0
        """When the run looked last, or when its stage began, in milliseconds since the epoch."""
        self._unsure = False
        """Whether the server is to be asked whether there is the other run."""
        self._telling: set[asyncio.Task[None]] = set()

    def hint(self, data: Any) -> None:
        """Takes a hint: `op` and `run`, both texts; what is none is nothing."""
        op, run = (data.get("op"), data.get("run")) if isinstance(data, dict) else (None, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if isinstance(op, str) and isinstance(run, str) and run and len(self._hints) < HINTS:
            self._hints[op] = RunId(run)

    @property
    def stirs(self) -> bool:
        """Whether there is something for the loop to go on with."""
        if self._task is not None:
            return self._task.done()
        return bool(self._hints) or self._unsure

    def due(self, state: CrewState) -> int | None:
        """When the run is to look again, in milliseconds since the epoch; none: at no time."""
        if self._task is not None or state.joining is None:
            return None
        return looks_at(state, max(self._looked, state.joining.at))

    async def go_on(
        self, engine: Engine, flush: Callable[[], Awaitable[None]], *, landed: bool
    ) -> None:
        """Does what is to be done, as far as nothing must be waited for.

        Args:
            engine: The run's engine.
            flush: Stores what is not stored yet.
            landed: Whether nothing of the run is under way.
        """
        await self._take(engine, flush, landed=landed)
        joining = engine.state.joining
        if joining is not None and joining.stage == "asked" and self._asked != joining.op:
            self._asked = joining.op
            await flush()
            self.tell(engine, joining.op, joining.other)
        if self._task is not None or engine.state.closed:
            return
        if joining is not None and joining.stage == "joins" and landed and self._known is not None:
            known, self._known = self._known, None
            await self._follow(engine, known, flush, landed=True)
            return
        self._look_on(engine)

    async def _take(
        self, engine: Engine, flush: Callable[[], Awaitable[None]], *, landed: bool
    ) -> None:
        """Takes what an activity has found, or made."""
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            try:
                found = task.result()
            except ActivityError as error:
                if gate.not_ours(error) is not None:
                    raise
                await self._give_up(engine, error, flush)
            else:
                if isinstance(found, LookedAt):
                    await self._follow(engine, found, flush, landed=landed)
                else:
                    await self._take_in(engine, found, flush)

    def _look_on(self, engine: Engine) -> None:
        """Begins to look, where there is a hint, or where it is time."""
        joining = engine.state.joining
        due = self.due(engine.state)
        if joining is not None and (joining.op in self._hints or self._unsure):
            self._hints.pop(joining.op, None)
            self._look(engine, joining.op, joining.other, sure=not self._unsure)
        elif self._hints:
            op, run = self._hints.popitem()
            self._look(engine, op, looks_to(engine.state, op, run), sure=True)
        elif joining is not None and due is not None and due <= engine.at:
            if hints_again(engine.state):
                self.tell(engine, joining.op, joining.other)
            self._look(engine, joining.op, joining.other, sure=False)
        self._unsure = False  # else it was about a merge that has ended

    def tell(self, engine: Engine, op: str, to: RunId) -> None:
        """Gives another run a hint. What the run did is stored before.

        Args:
            engine: The run's engine.
            op: The merge.
            to: The other run.
        """
        task = asyncio.create_task(self._tell(engine.state.run, op, to))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, run: RunId, op: str, to: RunId) -> None:
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(to)
        try:
            await handle.signal(MERGING, {"op": op, "run": run})
        except FailureError:
            self._unsure = True  # it has ended, or there never was one

    def _look(
        self, engine: Engine, op: str, other: RunId, *, sure: bool, recall: bool = False
    ) -> None:
        """Begins to look at another run."""
        self._looked, self._unsure = engine.at, False
        task = LookAtRun(
            run=engine.state.run,
            definition=engine.plan.definition,
            other=other,
            op=op,
            sure=sure,
            recall=recall,
        )
        self._task = asyncio.create_task(self._looked_at(task))

    async def _looked_at(self, task: LookAtRun) -> LookedAt:
        found: LookedAt = await workflow.execute_activity(
            LOOK_AT_RUN,
            task,
            result_type=LookedAt,
            summary=f"looks at {task.other}",
            **STORING,
        )
        return found

    async def _follow(
        self,
        engine: Engine,
        seen: LookedAt,
        flush: Callable[[], Awaitable[None]],
        *,
        landed: bool,
    ) -> None:
        """Does what follows from what was seen, one fact after the other."""
        engine.at = max(engine.at, seen.at)
        other = CrewState.from_json(seen.state) if seen.state is not None else None
        topology = engine.plan.topology
        self._known = seen
        while True:
            move = next_move(
                engine.state,
                other,
                seen.op,
                engine.at,
                landed=landed,
                gone=seen.gone,
                creatures=len(topology.creatures) if topology is not None else 0,
                flow=bool(topology is not None and topology.flow),
                refusal="" if topology is not None else "it has no graph of creatures",
                recalled=seen.recalled,
            )
            if move is None:
                return
            if move.does == "recall":
                self._look(engine, seen.op, move.to, sure=not seen.gone, recall=True)
                return
            if move.does == "unite":
                if artifact_heads(engine.state):
                    await flush()  # what leads to them is looked at
                self._task = asyncio.create_task(self._prepared(engine, seen))
                return
            assert move.fact is not None  # noqa: S101 - what is recorded is a fact
            engine.record(move.fact, **move.fields)
            if engine.state.closed:
                return  # merged: nobody waits for its word
            await flush()
            self.tell(engine, str(move.fields["op"]), move.to)

    async def _give_up(
        self, engine: Engine, error: ActivityError, flush: Callable[[], Awaitable[None]]
    ) -> None:
        """Goes on alone where the union could not be made; what was not seen is looked at later."""
        workflow.logger.error("a merge does not go on: %s", error.cause, exc_info=error)
        joining = engine.state.joining
        if error.activity_type != PREPARE_MERGE or joining is None:
            return
        if may_unite(engine.state, joining.op):
            why = f"the crew of both could not be made: {error.cause or error}"
            engine.record(j.MergeFailed, op=joining.op, other=joining.other, why=why[:2000])
            await flush()
            self.tell(engine, joining.op, joining.other)

    async def _prepared(self, engine: Engine, seen: LookedAt) -> PreparedMerge:
        joining = engine.state.joining
        assert joining is not None  # noqa: S101 - it survives
        other = CrewState.from_json(seen.state or {})
        made: PreparedMerge = await workflow.execute_activity(
            PREPARE_MERGE,
            PrepareMerge(
                run=engine.state.run,
                base=engine.plan.definition,
                other=other.run,
                position=other.position,
                edge=joining.edge,
                asks=joining.priority[1],
                artifacts=artifact_heads(engine.state),
            ),
            result_type=PreparedMerge,
            **PREPARING,
            schedule_to_close_timeout=UNITE_LIMIT,
        )
        return made

    async def _take_in(
        self, engine: Engine, prepared: PreparedMerge, flush: Callable[[], Awaitable[None]]
    ) -> None:
        """Takes the other run in, or tells it why not."""
        joining = engine.state.joining
        if joining is None or not may_unite(engine.state, joining.op):
            return
        try:
            take_in(engine, prepared, op=joining.op, by=joining.by)
        # Whatever it is, it would fail the workflow's task for ever: both go on as they were.
        except Exception as error:  # noqa: BLE001
            told = "the run %s could not be taken in: both go on as they were"
            workflow.logger.error(told, joining.other, exc_info=error)
            why = str(error) if isinstance(error, CrewlogError) else repr(error)
            engine.record(j.MergeFailed, op=joining.op, other=joining.other, why=why[:2000])
        await flush()
        self.tell(engine, joining.op, joining.other)


async def forward(state: CrewState, incoming: Incoming) -> None:
    """Hands what is said to a merged run on to the one that it is part of; or tells who waits.

    Only what is said: whoever stops this run does not mean that one, and the questions of that one
    have other numbers.

    Args:
        state: The run, as it ended.
        incoming: A signal, which is handed on, or an update, whose client is told where to ask.
    """
    into = state.merged_into
    assert into is not None  # noqa: S101 - it is merged
    if incoming.asked:
        called = renamed_words(state.renamed_there)
        incoming.error = RunMerged(
            f"the run {state.run!r} is part of {into!r} by now" + (f"; {called}" if called else ""),
            remedy=f"Look at that run, and send it there: {into}",
        )
        incoming.done = True
    elif incoming.name == "message":
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(into)
        with suppress(FailureError):  # that one has ended, too: nobody waits for it any more
            await handle.signal(incoming.name, _called_there(state, incoming.data))


def _called_there(state: CrewState, data: Any) -> Any:
    """What is said, to whom it is meant for: the other run may mean another one by that name."""
    to = data.get("to") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(to, str):
        return data
    return {**data, "to": called_there(to, state.renamed_there)}
