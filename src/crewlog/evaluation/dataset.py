"""Data sets are made of journals and the store, when somebody asks: runs pay nothing for them.

What a stage was shown is made again as it was made for its first model call: the state at the
beginning of the step says at which heads its logs stood, the definition of then says what it may
read, and the same code that hydrates a call's view makes the messages. So a case has what the stage
itself could see and nothing else, and a stage that is tried on it is shown the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from crewlog.activities.call_context import CallTranscripts
from crewlog.activities.definitions import Definitions, agent_of
from crewlog.activities.hydrator import Hydrator
from crewlog.activities.inputs import Inputs, as_json
from crewlog.activities.summaries import Summaries
from crewlog.activities.view_reader import ViewReader
from crewlog.client import Client, Run
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition
from crewlog.definition.replies import RESPONSE
from crewlog.errors import UsageError
from crewlog.evaluation.cases import Case, StageInput, StageOutput
from crewlog.graph.inputs import agent_inputs
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, ContentHash, RunId, StepId, item_number, node_of, parent_or_self
from crewlog.model import Json
from crewlog.reporting.trace.builder import run_trace
from crewlog.reporting.trace.view import StepTrace
from crewlog.state.calls import CallModel
from crewlog.state.fold import fold
from crewlog.state.journal import (
    ArtifactOperationsApplied,
    JournalEntry,
    OutputSet,
    StructuredOutputParsed,
    StructuredOutputRejected,
    ToolCallCompleted,
    TurnLimitReached,
    entry_from_json,
)
from crewlog.state.messages import message_from_json, message_to_json
from crewlog.state.model import CrewState, Item
from crewlog.state.recorder import Journal
from crewlog.store.protocol import Store

PAGE = 1000
SETTING = (StructuredOutputParsed, StructuredOutputRejected, TurnLimitReached, ToolCallCompleted)
"""What flags and outputs follow that a step sets."""


async def dataset(client: Client, run: str, stages: Sequence[str] = ()) -> list[Case]:
    """The cases of a run: each step in which an agent came to an end by itself.

    Args:
        client: The client.
        run: The run's id; it may be under way.
        stages: The agents whose steps are wanted; none: all.

    Raises:
        RunNotFound: neither the server nor the store knows the run.
        UsageError: its crew has no agent of such a name.
        StoreUnavailable: the store is away.
        StoreIncomplete: rows of the run are missing.
    """
    entries = await _journal(client.run(run))
    turns = [step for step in run_trace(entries).all_steps() if step.agent is not None]
    known = dict.fromkeys(str(step.agent) for step in turns)
    if unknown := [stage for stage in stages if stage not in known]:
        raise _no_stage(run, unknown[0], known)
    wanted = [
        (step, AgentName(str(step.agent)))
        for step in turns
        if step.status == "completed" and _replied(step) and (not stages or step.agent in stages)
    ]
    places = {at for step, _ in wanted for at in (step.start_position, step.checkpoint)}
    states = _states(RunId(run), entries, places)
    reader = _Reader(await client.store(), RunId(run), entries)
    return [
        await reader.case(
            states[step.start_position or 0], states[step.checkpoint or 0], step, agent
        )
        for step, agent in sorted(wanted, key=lambda each: each[0].start_position or 0)
    ]


Entries = Sequence[tuple[int, JournalEntry]]


def _replied(step: StepTrace) -> bool:
    """Whether its model was ever shown anything: a step may be gone on without before that."""
    return any(call.tool is None and call.body is not None for call in step.calls)


def _states(run: RunId, entries: Entries, places: Collection[int | None]) -> dict[int, CrewState]:
    """The states at some positions: what is the same in them is there once."""
    found: dict[int, CrewState] = {}
    state = CrewState(run=run)
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": position - 1})
        state = fold(state, entry)
        if position in places:
            found[position] = state
    return found


async def _journal(run: Run) -> list[tuple[int, JournalEntry]]:
    found: list[tuple[int, JournalEntry]] = []
    while True:
        page = await run.journal(found[-1][0] if found else 0, PAGE)
        found += ((item.position, entry_from_json(item.data)) for item in page.entries)
        if not page.entries or found[-1][0] >= page.position:
            return found


def _no_stage(run: str, stage: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    return UsageError(
        f"no agent {stage!r} took a turn in the run {run!r}",
        remedy=did_you_mean(stage, names, f"Those who did: {', '.join(names) or 'none'}."),
        place=f"run {run!r}",
    )


class _Reader:
    """Makes cases of a run's steps.

    Args:
        store: Where bodies, logs and definitions are.
        run: The run.
        entries: Its journal.
    """

    def __init__(self, store: Store, run: RunId, entries: Entries) -> None:
        self._store = store
        self._run = run
        self._entries = entries
        self._definitions = Definitions(store)
        self._view_reader = ViewReader(store, self._definitions, Hydrator(store))
        self._inputs = Inputs(store, self._definitions, self._view_reader)
        # Summaries that no call has made are not made now.
        self._contexts = CallTranscripts(self._view_reader, self._inputs, Summaries(store, None))
        self._plans: dict[ContentHash, GraphPlan] = {}

    async def case(
        self, before: CrewState, after: CrewState, step: StepTrace, agent: AgentName
    ) -> Case:
        """A step as a case.

        Args:
            before: The run's state at the step's beginning.
            after: And at its end.
            step: The step.
            agent: Whose it is.
        """
        models = [call for call in step.calls if call.tool is None and call.body is not None]
        task = await self._task(before, step.step, agent)
        return Case(
            run=self._run,
            step=step.step,
            stage=agent,
            phase=node_of(step.step),
            crew=before.crew,
            definition=task.definition,
            input=await self._input(task),
            output=await self._output(step, agent, await self._task(after, step.step, agent)),
            model=models[-1].model if models else "",
            usage=step.usage,
            ms=(step.ended_at or 0) - (step.started_at or 0),
        )

    async def _input(self, task: CallModel) -> StageInput:
        """What the stage was shown."""
        crew = await self._definitions.get(task.definition)
        agent = agent_of(crew, task.agent)
        model = agent.model or crew.model or ""
        shown = (await self._contexts.build_without_inputs(task, crew, agent, model)).transcript
        values: dict[str, Json] = {}
        for declared, value in await self._inputs.values(task, agent):
            values[declared.from_] = _together(
                values.get(declared.from_), as_json(value, files=False)
            )
        artifacts = await self._view_reader.read_artifacts(task)
        return StageInput(
            messages=tuple(message_to_json(each) for each in shown),
            item=await self._view_reader.read_item(task) or "",
            inputs=values,
            artifacts={name: content.value for name, content in artifacts.items()},
        )

    async def _task(self, state: CrewState, step: StepId, agent: AgentName) -> CallModel:
        """A step's model call, as the run would make it in a state."""
        visit = state.frontier.get(parent_or_self(step))
        definition = ContentHash((visit.definition if visit else "") or state.definition)
        facts = RunContext(await self._plan(definition), Journal(state))
        item: Item | None = None
        if item_number(step) and visit is not None and visit.child_steps is not None:
            item = facts.visible_item(agent, visit.child_steps.item(item_number(step)), step)
            if item.is_withheld:  # an agent without a model does without, and any other is refused
                item = None
        return CallModel(
            run=self._run,
            step=step,
            agent=agent,
            definition=definition,
            view=facts.view(agent, step),
            inputs=agent_inputs(facts, agent, step),
            item=item,
        )

    async def _plan(self, definition: ContentHash) -> GraphPlan:
        found = self._plans.get(definition)
        if found is None:
            data = await self._store.get_definition(definition)
            found = self._plans[definition] = lower(CrewDefinition.from_json(data))
        return found

    async def _output(self, step: StepTrace, agent: AgentName, task: CallModel) -> StageOutput:
        """What a step set and did, and what it said at last."""
        facts = self._facts(step)
        sets = {k: v for k, v in step.values.items() if k != f"{agent}.{RESPONSE}"}
        own = False
        for fact in facts:
            if isinstance(fact, SETTING):
                own = fact.step == step.step
            elif own and isinstance(fact, OutputSet) and fact.agent == agent and fact.append:
                # All that it adds to a list is its own, and not the last of it alone.
                value = fact.value if fact.body is None else {"body": fact.body}
                name = f"{agent}.{fact.key}"
                before = sets[name] if isinstance(sets.get(name), _Added) else _Added()
                sets[name] = _Added([*before, value])
        applied = [
            f for f in facts if isinstance(f, ArtifactOperationsApplied) and f.step == step.step
        ]
        said = next((c.body for c in reversed(step.calls) if c.tool is None and c.body), None)
        wanted = {v["body"] for value in sets.values() for v in _values(value) if _is_body(v)}
        wanted |= {fact.ref.body for fact in applied} | ({said} if said else set())
        bodies = await self._store.get_bodies(wanted)

        def read(value: Json) -> Json:
            if isinstance(value, _Added):
                return [*map(read, value)]
            return bodies[value["body"]] if _is_body(value) else value

        artifacts: dict[str, Json] = {}
        operations: list[dict[str, Json]] = []
        if applied:
            changed = {fact.artifact for fact in applied}
            there = await self._view_reader.read_artifacts(task)
            artifacts = {name: there[name].value for name in there if name in changed}
            for fact in applied:
                each: list[dict[str, Json]] = bodies[fact.ref.body].get("operations", [])
                operations += ({"artifact": fact.artifact, **operation} for operation in each)
        return StageOutput(
            fields={k.partition(".")[2]: read(v) for k, v in sets.items() if "." in k} or None,
            flags={k: read(v) for k, v in sets.items() if "." not in k} or None,
            artifacts=artifacts or None,
            operations=tuple(operations) or None,
            text=message_from_json(bodies[said]).text if said else None,
        )

    def _facts(self, step: StepTrace) -> list[JournalEntry]:
        """What happened while a step was at work; not all of it is its own."""
        base = self._entries[0][0]
        first, last = step.start_position or 0, step.checkpoint or 0
        return [entry for _, entry in self._entries[first - base + 1 : last - base + 1]]


class _Added(list[Json]):
    """Values that a step adds to a list."""


def _values(value: Json) -> list[Json]:
    return value if isinstance(value, _Added) else [value]


def _together(one: Json, other: Json) -> Json:
    """What two inputs of one source are given of it."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [*one, *(each for each in other if each not in one)]  # pyright: ignore[reportUnknownVariableType]


def _is_body(value: Json) -> bool:
    return isinstance(value, dict) and [*value] == ["body"]  # pyright: ignore[reportUnknownArgumentType]
