"""Data sets are made of journals and the store, when somebody asks: runs pay nothing for them.

What a stage was shown is made again as it was made for its first model call: the state at the
beginning of the step says at which heads its logs stood, the definition of then says what it may
read, and the same code that hydrates a call's view makes the messages. So a case has what the stage
itself could see and nothing else, and a stage that is tried on it is shown the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from crewlog.activities.definitions import Definitions
from crewlog.activities.render import with_item
from crewlog.activities.sight import Sight
from crewlog.activities.views import Hydrator
from crewlog.client import Client, Run
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition
from crewlog.errors import UsageError
from crewlog.evaluation.cases import Case, StageInput, StageOutput
from crewlog.graph.facts import RunFacts
from crewlog.graph.lower import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, RunId, StepId, item_of, node_of, visit_of
from crewlog.model import Json
from crewlog.state.calls import CallModel
from crewlog.state.journal import JournalEntry, entry_from_json
from crewlog.state.ledger import Ledger
from crewlog.state.messages import message_from_json, message_to_json
from crewlog.state.model import CrewState, Item
from crewlog.state.reduce import reduce
from crewlog.state.trace import StepTrace, trace_of
from crewlog.store.protocol import Store

PAGE = 1000


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
    turns = [step for step in trace_of(entries).all_steps() if step.agent is not None]
    known = dict.fromkeys(str(step.agent) for step in turns)
    if unknown := [stage for stage in stages if stage not in known]:
        raise _no_stage(run, unknown[0], known)
    wanted = {
        step.began: (step, AgentName(str(step.agent)))
        for step in turns
        if step.fate == "completed" and step.calls and (not stages or step.agent in stages)
    }
    reader = _Reader(await client.store(), RunId(run))
    found: list[Case] = []
    state = CrewState(run=RunId(run))
    for position, entry in entries:
        if not state.position:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": position - 1})
        state = reduce(state, entry)
        if position in wanted:
            found.append(await reader.case(state, *wanted[position]))
    return found


async def _journal(run: Run) -> list[tuple[int, JournalEntry]]:
    found: list[tuple[int, JournalEntry]] = []
    while True:
        page = await run.journal(found[-1][0] if found else 0, PAGE)
        found += ((item.position, entry_from_json(item.entry)) for item in page.entries)
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
    """

    def __init__(self, store: Store, run: RunId) -> None:
        self._store = store
        self._run = run
        self._definitions = Definitions(store)
        self._sight = Sight(store, self._definitions, Hydrator(store))
        self._plans: dict[ContentHash, GraphPlan] = {}

    async def case(self, state: CrewState, step: StepTrace, agent: AgentName) -> Case:
        """A step as a case.

        Args:
            state: The run's state at the step's beginning.
            step: The step.
            agent: Whose it is.
        """
        models = [call for call in step.calls if call.tool is None and call.body is not None]
        task = await self._task(state, step.step, agent)
        return Case(
            run=self._run,
            step=step.step,
            stage=agent,
            phase=node_of(step.step),
            crew=state.crew,
            definition=task.definition,
            input=StageInput(messages=await self._messages(task)),
            output=await self._output(step),
            model=models[-1].model if models else "",
            usage=step.usage,
            ms=(step.ended or 0) - (step.started or 0),
        )

    async def _messages(self, task: CallModel) -> tuple[dict[str, Json], ...]:
        """What the stage was shown."""
        shown: list[BaseMessage] = await self._sight.transcript(task)
        if (item := await self._sight.item(task)) is not None:
            shown = with_item(shown, item, task.step, task.view.was)
        return tuple(message_to_json(each) for each in shown)

    async def _task(self, state: CrewState, step: StepId, agent: AgentName) -> CallModel:
        """A step's first model call, as the run made it."""
        visit = state.frontier.get(visit_of(step))
        definition = (visit.definition if visit else "") or state.definition
        facts = RunFacts(await self._plan(ContentHash(definition)), Ledger(state))
        item: Item | None = None
        if item_of(step) and visit is not None and visit.mapped is not None:
            item = facts.sees(agent, visit.mapped.item(item_of(step)), step)
        return CallModel(
            run=self._run,
            step=step,
            agent=agent,
            definition=ContentHash(definition),
            view=facts.view(agent, step),
            item=item,
        )

    async def _plan(self, definition: ContentHash) -> GraphPlan:
        found = self._plans.get(definition)
        if found is None:
            data = await self._store.get_definition(definition)
            found = self._plans[definition] = lower(CrewDefinition.from_json(data))
        return found

    async def _output(self, step: StepTrace) -> StageOutput:
        """What a step set, and what it said at last."""
        large = {value["body"] for value in step.sets.values() if _is_body(value)}
        said = next((c.body for c in reversed(step.calls) if c.tool is None and c.body), None)
        bodies = await self._store.get_bodies({*large, *([said] if said else [])})
        found = {k: bodies[v["body"]] if _is_body(v) else v for k, v in step.sets.items()}
        fields = {k.partition(".")[2]: v for k, v in found.items() if "." in k}
        flags = {k: v for k, v in found.items() if "." not in k}
        text = message_from_json(bodies[said]).text if said else None
        return StageOutput(fields=fields or None, flags=flags or None, text=text)


def _is_body(value: Json) -> bool:
    return isinstance(value, dict) and [*value] == ["body"]  # pyright: ignore[reportUnknownArgumentType]
