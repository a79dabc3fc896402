"""Random crews in which every text is a canary, driven through the engine and the real activities.

Whatever is said in a run (messages, replies, arguments, results, errors, outputs, flags, reasons)
has a mark of its own, `<<17>>`. An oracle that shares no code with the engine notes whom each mark
is for, and every prompt and every state that a tool is given is searched for marks of others.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from authority import audience_tools
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.tool_loader import ToolLoader
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.graph.engine import Engine
from crewlog.graph.inputs import agent_inputs
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import fork, roll_back
from crewlog.graph.run_context import CallRequest
from crewlog.graph.swap.live_change import accept_change, change_report, swap
from crewlog.ids import AgentName, CommandId, RunId, StepId, ToolName, item_number, parent_or_self
from crewlog.state.batch_codec import pack_view
from crewlog.state.calls import (
    CallModel,
    CallModelResult,
    CallTool,
    CallToolResult,
    PrepareChangeResult,
)
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from crewlog.store.in_process import InMemoryStore
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import QueuedCommand

MARK = re.compile(r"<<(\d+)>>")
NAMES = ("ann", "bob", "cid", "dee")
TOOLS = {
    name: {"run": f"authority.audience_tools:{name}", "effects": "read"}
    for name in ("look", "fail", "hand")
}
Layout = dict[str, Any]
"""A crew as data: what the oracle looks at."""


# -- the oracle ------------------------------------------------------------------------------------


def reads(layout: Layout, agent: str, log: str) -> bool:
    """Whether an agent reads a log, by what the documentation says of audiences."""
    kind, _, name = log.partition(":")
    if kind == "private":
        return name == agent
    said = layout["agents"].get(agent)
    listed = ["public"] if said is None or "reads" not in said else said["reads"]
    if said is None or listed == []:
        return False
    if kind == "readers":
        return agent in name.split("+")
    if kind == "group" and layout.get("groups"):
        return agent in layout["groups"].get(name, [])
    if kind == "channel" and layout.get("logs", {}).get(name, {}).get("readers") is not None:
        return agent in _expanded(layout, layout["logs"][name]["readers"])
    return log in listed


def may_write(layout: Layout, agent: str, log: str) -> bool:
    """Whether an agent may list a log under `writes`."""
    kind, _, name = log.partition(":")
    if kind == "private":
        return name == agent
    if kind == "group" and layout.get("groups"):
        return agent in layout["groups"].get(name, [])
    if kind == "channel" and layout.get("logs", {}).get(name, {}).get("writers") is not None:
        return agent in _expanded(layout, layout["logs"][name]["writers"])
    return True


def _names(log: str, agent: str) -> bool:
    return log.startswith("readers:") and agent in log.removeprefix("readers:").split("+")


def _expanded(layout: Layout, named: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for each in named:
        found |= set(layout["groups"].get(each[6:], [])) if each.startswith("group:") else {each}
    return found


@dataclass(frozen=True)
class Canary:
    """Whom a text is for."""

    logs: tuple[str, ...] = ()
    """Who reads one of these."""
    owner: str = ""
    """The agent that it is of, or for."""
    kind: str = ""
    said: bool = False
    """Whether it stands in logs, where who reads them must see it."""


# -- layouts ---------------------------------------------------------------------------------------


def random_layout(rng: random.Random, names: Sequence[str]) -> Layout:
    """Groups, channels, and who lists what; nothing that the oracle forbids."""
    layout: Layout = {"agents": {name: {} for name in names}}
    if rng.random() < 0.7:
        layout["groups"] = {g: some(rng, names) for g in ("g", "h")}
    if rng.random() < 0.6:
        who = [*names, *(f"group:{g}" for g in layout.get("groups", {}))]
        layout["logs"] = {
            "board": {key: some(rng, who) for key in ("readers", "writers") if rng.random() < 0.7}
        }
    pool = ["public", "public", "group:g", "group:h", "channel:board", "channel:open"]
    for name in names:
        own = [*pool, f"private:{name}"]
        listed = [] if rng.random() < 0.08 else some(rng, own, 1)
        layout["agents"][name]["reads"] = ["public", "group:g", "channel:board", "channel:open"]
        allowed = [
            log for log in listed if reads({**layout, "agents": {name: {"reads": own}}}, name, log)
        ]
        layout["agents"][name]["reads"] = list(dict.fromkeys(allowed))
        to = [*pool, f"readers:{'+'.join(some(rng, names, 1))}"]
        writes = [log for log in some(rng, to) if may_write(layout, name, log)]
        layout["agents"][name]["writes"] = list(dict.fromkeys(writes))
    return layout


def some(rng: random.Random, of: Sequence[str], least: int = 0) -> list[str]:
    return rng.sample(list(of), rng.randint(least, min(3, len(of))))


More = Callable[[Layout, dict[str, Any]], None]
"""Adds something to a crew that is being made: to its layout, and to its data."""


def random_crew(
    rng: random.Random, flow: list[Any] | None = None, more: More | None = None
) -> tuple[Layout, CrewDefinition]:
    """A crew with random audiences, of a given flow or a random one."""
    while True:
        names = NAMES if flow is None else tuple(dict.fromkeys(agents_in(flow)))
        layout = random_layout(rng, names)
        data = copy.deepcopy(layout)
        for name in names:
            data["agents"][name] |= {
                "prompt": f"You are {name}.",
                "outputs": ["list"],
                "writes_flags": ["mood"],
                "tools": ["look", "fail", "hand"],
                "model_settings": {"streaming": False},
                "retry": {"attempts": 1},
                "on_error": rng.choice(["ask", "continue"]),
            }
        data |= {"crew": "t", "model": "canary:x", "flow": flow or random_flow(rng), "tools": TOOLS}
        data |= {
            "merge": {
                "mood": "last",
                **({f"{n}.list": rng.choice(["append", "last"]) for n in names}),
            }
        }
        data["approvals"] = rng.choice([{}, {}, {"look": None}])
        if more is not None:
            more(layout, data)
        try:
            return layout, load_data(data)
        except InvalidDefinition as error:
            # The one thing that the generator does not know: which items an agent may see.
            faults = [each for each in error.diagnostics if each.severity == "error"]
            known = ("may not see", "is to be shown")
            if not all(any(say in each.message for say in known) for each in faults):
                raise


def random_flow(rng: random.Random) -> list[Any]:
    flow: list[Any] = [[*rng.sample(NAMES, 2)]]
    first = list(flow[0])
    later = [name for name in NAMES if name not in first]
    flow += [
        {"agent": name, "for_each": f"{rng.choice(first)}.list"} if rng.random() < 0.4 else name
        for name in rng.sample(later, len(later))
    ]
    for i in range(rng.randint(1, 2)):
        name = rng.choice(NAMES)
        flow.append(
            {"agent": name, "phase": f"again{i}"}
            | rng.choice([{}, {}, {"for_each": f"{first[0]}.list"}])
        )
    return flow


def agents_in(flow: Sequence[Any]) -> Iterator[str]:
    for item in flow:
        if isinstance(item, list):
            yield from agents_in(item)
        else:
            yield item if isinstance(item, str) else item["agent"]


# -- the run ---------------------------------------------------------------------------------------


class _Model:
    """A model that says canaries, and has what it is told searched."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._schemas: Any = ()

    def bind_tools(self, schemas: Any) -> _Model:
        bound = _Model(self._world)
        bound._schemas = schemas
        return bound

    async def ainvoke(self, said: Any, config: Any) -> AIMessage:
        about = config["metadata"]
        if about["agent"] == "summary":
            return AIMessage(self._world.sum_up(said))
        self._world.look(
            about["agent"], about["step"], repr(said) + repr(self._schemas), whole=True
        )
        return self._world.reply(about["agent"], about["step"], about["call"])


class Worker(ModelFactory):
    """A worker for many runs, and its store: it keeps what tools took to make."""

    def __init__(self, workspace: Path) -> None:
        super().__init__()
        self.store = InMemoryStore()
        self.world: World | None = None
        self._workspace = workspace
        self.activities = self._made()

    def _made(self) -> CrewActivities:
        return CrewActivities(self.store, workspace=self._workspace, models=self, tools=_TOOLS)

    def restart(self) -> None:
        """Forgets what is in memory, but for the tools."""
        runner = self.activities._tools._runner  # pyright: ignore
        self.activities = self._made()
        self.activities._tools._runner = runner  # pyright: ignore

    async def get(self, model: str, settings: Any, timeout: float) -> Any:
        assert self.world is not None
        return _Model(self.world)


_TOOLS = ToolLoader()


@dataclass
class Leak:
    """A mark that was shown to whom it is not for, or not shown to whom it is for."""

    what: str
    agent: str
    step: str
    mark: int
    canary: Canary


@dataclass
class World:
    """A run, its worker, and the oracle."""

    rng: random.Random
    worker: Worker
    changes: bool = True
    more: More | None = None
    layout: Layout = field(default_factory=dict[str, Any])
    canaries: dict[int, Canary] = field(default_factory=dict[int, Canary])
    leaks: list[Leak] = field(default_factory=list[Leak])
    refusals: list[str] = field(default_factory=list[str])
    """What activities said of views and items that they refused."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    flights: list[tuple[CallRequest, Any, int]] = field(default_factory=list[Any])
    places: list[tuple[int, CrewState, GraphPlan, Layout, Any]] = field(default_factory=list[Any])
    gone: dict[str, Layout] = field(default_factory=dict[str, Any])
    """The last layout that had an agent which is gone."""
    _commands: int = 0
    _marks: int = 0

    def __post_init__(self) -> None:
        self.store = self.worker.store
        self.worker.world = self
        audience_tools.seen[:] = [lambda agent, step, text: self.look(agent, step, text)]

    def mark(
        self, logs: Sequence[str] = (), owner: str = "", kind: str = "", *, said: bool = False
    ) -> str:
        self._marks += 1
        self.canaries[self._marks] = Canary(tuple(logs), owner, kind, said)
        return f"<<{self._marks}>>"

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def of(self, agent: str) -> Layout:
        """The layout that holds for an agent: the last that has it."""
        return self.layout if agent in self.layout["agents"] else self.gone.get(agent, self.layout)

    # -- what agents are shown -----------------------------------------------------------------

    def look(self, agent: str, step: str, text: str, *, whole: bool = False) -> None:
        """Searches what an agent is shown."""
        self.count("looks")
        found = {int(mark) for mark in MARK.findall(text)}
        for mark in sorted(found):
            canary = self.canaries[mark]
            if not self._is_for(agent, canary) and not self.is_given(agent, step, canary):
                self.leaks.append(Leak("shown", agent, step, mark, canary))
        detached = parent_or_self(StepId(step)) in self.engine.plan.detached_steps
        if not whole or detached or item_number(StepId(step)) or self.more:
            return
        for mark, canary in self.canaries.items():
            if canary.said and mark not in found and self._in_logs(agent, canary):
                self.leaks.append(Leak("missing", agent, step, mark, canary))

    def is_given(self, agent: str, step: str, canary: Canary) -> bool:
        """Whether an agent is shown something though it reads no log with it."""
        # An item of a public list is for whom the flow gives it to, and so is one that names it.
        kept = canary.kind in ("output", "edited", "tagged") and bool(item_number(StepId(step)))
        return kept and any(log == "public" or _names(log, agent) for log in canary.logs)

    def shares(self, agent: str) -> list[str]:
        """The logs whose readers may see an agent's outputs."""
        return list(self.of(agent)["agents"][agent]["writes"])

    def _in_logs(self, agent: str, canary: Canary) -> bool:
        return any(reads(self.of(agent), agent, log) for log in canary.logs)

    def _is_for(self, agent: str, canary: Canary) -> bool:
        return canary.owner == agent or self._in_logs(agent, canary)

    async def show_all(self) -> None:
        """Lets every agent of the crew look."""
        for agent in self.layout["agents"]:
            batch, name = self.engine.journal.batch(), AgentName(agent)
            task = CallModel(
                run=self.engine.state.run,
                step=StepId(f"{agent}#1"),
                agent=name,
                definition=self.engine.plan.definition,
                view=pack_view(self.engine.view(name), self.engine.journal.extended_logs),
                batch=batch,
            )
            filled = await self.worker.activities._batches.unpack_input(_sent(task))  # pyright: ignore
            sight = self.worker.activities._models._view_reader  # pyright: ignore
            self.look(agent, task.step, repr(await sight.read_transcript(filled)), whole=True)

    def sum_up(self, said: Any) -> str:
        """A summary that keeps nothing to itself."""
        self.count("summaries")
        return " ".join(dict.fromkeys(f"<<{mark}>>" for mark in MARK.findall(repr(said))))

    # -- what agents say -------------------------------------------------------------------------

    def reply(self, agent: str, step: str, call: int) -> AIMessage:
        rng = self.rng
        own = lambda kind: self.mark(owner=agent, kind=kind)  # noqa: E731
        if rng.random() < 0.03:
            raise RuntimeError(f"the service is away {own('failure')}")
        if call > 6 or rng.random() < 0.5:
            return AIMessage(f"final {own('final')}")
        calls: list[dict[str, Any]] = []
        for n in range(rng.randint(1, 2)):
            nodes = [*self.engine.plan.nodes]
            items = [own("output") for _ in range(rng.randint(0, 3))]
            if rng.random() < 0.2:
                items = [item + "long " * 60 for item in items]
            name, args = rng.choice(
                [
                    ("look", {"note": own("args")}),
                    ("fail", {"note": own("args")}),
                    ("hand", {"note": own("args"), "to": rng.choice(nodes)}),
                    ("nope", {"note": own("args")}),
                    ("look", {"wrong": own("args")}),
                    ("set_flag", {"flag": "mood", "value": own("flag")}),
                    *[("set_output", {"key": "list", "value": items})] * 4,
                    ("set_output", {"key": own("args"), "value": 1}),
                ]
            )
            if name == "hand" and rng.random() < 0.7:
                name, args = "look", {"note": own("args")}
            calls.append({"name": name, "args": args, "id": f"{step}/{call}/{n}"})
        return AIMessage(f"working {own('aside')}", tool_calls=calls)

    # -- the engine's side ---------------------------------------------------------------------

    async def begin(self, number: int) -> None:
        self.layout, definition = random_crew(self.rng, more=self.more)
        run = RunId(f"hunt-{number}")
        await self.store.put_definition(run, definition.to_json())
        self.engine = await Engine.begin(
            lower(definition),
            run,
            input_text=f"Go. {self.mark(['public'], kind='input', said=True)}",
            by="eve",
            at=1,
        )

    async def run(self, rounds: int = 40) -> None:
        for _ in range(rounds):
            self.engine.at += 1
            await self.engine.advance({(o.step, o.call.call) for o, _, _ in self.flights})
            if self.engine.state.is_ended:
                return
            self.keep_place()
            if self.changes and self.rng.random() < 0.25:
                await self._somebody()
            await self._launch()
            if self.flights:
                await self._land(self.rng.randrange(len(self.flights)))
            elif self.engine.state.interrupts:
                await self._answer()
            else:
                return

    async def _launch(self) -> None:
        keys = {(o.step, o.call.call) for o, _, _ in self.flights}
        for order in list(self.engine.pending_calls(keys)):
            position = self.engine.state.position
            try:
                result = await self._call(order)
            except ApplicationError as error:
                result = error
                self._refused(error)
            self.flights.append((order, result, position))

    def _refused(self, error: ApplicationError) -> None:
        """Looks at a call that failed for good: what the workflow allowed, the worker does."""
        self.count(str(error.type))
        if error.type == "LogAccessDenied":
            self.refusals.append(error.message)

    async def _call(self, order: CallRequest) -> Any:
        engine, call, batch = self.engine, order.call, self.engine.journal.batch()
        said: dict[str, Any] = {
            "run": engine.state.run,
            "step": order.step,
            "call": call.call,
            "agent": order.agent,
            "definition": engine.plan.definition_hash_of(engine.state.frontier[order.step]),
            "view": pack_view(engine.view(order.agent, order.step), engine.journal.extended_logs),
            "batch": batch,
            "attempt": call.attempt,
            "inputs": agent_inputs(engine, order.agent, order.step),
        }
        env = ActivityEnvironment()
        if call.tool is None:
            task = CallModel(
                tools=engine.tools_of(order.agent, order.step),
                item=engine.child_steps.item(order.step),
                **said,
            )
            self.count("items" if task.item is not None else "calls")
            return await env.run(self.worker.activities.call_model, _sent(task))
        assert call.message is not None
        task_ = CallTool(
            tool=ToolName(call.tool),
            id=call.id,
            message=call.message,
            approved=call.approved,
            **said,
        )
        return await env.run(self.worker.activities.call_tool, _sent(task_))

    async def _land(self, which: int) -> None:
        order, result, position = self.flights.pop(which)
        engine, agent = self.engine, str(order.agent)
        engine.at += 1
        if isinstance(result, ApplicationError):
            # The error may have a canary of the model's: it is for people. Where the run goes on
            # without it, it is told to who reads what its agent writes.
            goes_on = engine.rules_of(order.agent, order.step).on_error == "continue"
            writes = tuple(self.of(agent)["agents"][agent]["writes"])
            for mark in map(int, MARK.findall(result.message)):
                if goes_on:
                    self.canaries[mark] = Canary(writes, agent, "failure")
            if result.type == "OutcomeUnknown":
                engine.ask_about_unknown_outcome(order.step, order.call.call, result.message)
                return
            await engine.apply_call_failure(
                order.step, order.call.call, result.message, str(result.type)
            )
            return
        if result.journaled:
            engine.journal.mark_stored(position)
        there = order.step in engine.state.frontier
        writes = list(self.of(agent)["agents"][agent]["writes"])
        for mark in map(int, MARK.findall(json.dumps(result.to_json()))):
            canary = self.canaries[mark]
            if there and canary.kind == "final" and canary.owner == agent:
                # One that ends a turn though its phase is gone may write to less than it lists.
                entry = engine.state.frontier[order.step]
                said = engine.plan.detached_step(entry) is None
                self.canaries[mark] = Canary(tuple(writes), agent, "said", said=said)
            if there and canary.kind == "output" and isinstance(result, CallToolResult):
                self.canaries[mark] = Canary(tuple(self.shares(agent)), agent, "output")
        if isinstance(result, CallModelResult):
            await engine.turns.apply_model_call(order.step, order.call.call, result)
        else:
            for output in result.returned.outputs:
                for mark in map(int, MARK.findall(json.dumps([output.value, output.content]))):
                    self.canaries[mark] = Canary(tuple(self.shares(agent)), agent, "output")
            await engine.turns.apply_tool_call(order.step, order.call.call, result)

    # -- people --------------------------------------------------------------------------------

    async def command(self, name: str, **content: Any) -> QueuedCommand:
        self._commands += 1
        incoming = QueuedCommand(name, {"id": f"c{self._commands}", "by": "eve", **content})
        await apply_command(self.engine, incoming)
        return incoming

    async def _answer(self) -> None:
        asked = self.rng.choice(list(self.engine.state.interrupts.values()))
        frontier, plan = self.engine.state.frontier, self.engine.plan
        agent = str(plan.node_of(frontier[asked.step]).agent) if asked.step else ""
        options = [o for o in asked.options if o not in ("stop", "retry")] or ["stop"]
        said = self.rng.choice(options)
        if asked.kind == "tool_approval" and self.rng.random() < 0.5:
            said = f"not with that, {self.mark(owner=agent, kind='reason')}"
        if asked.kind == "step_failed" and self.rng.random() < 0.4:
            said = "retry"
        decisions = [{"type": "respond", "message": said}]
        incoming = await self.command("answer", interrupt=asked.id, decisions=decisions)
        assert incoming.error is None, incoming.error

    async def _somebody(self) -> None:
        rng = self.rng
        what = rng.choice(
            [
                "message",
                "message",
                "edit",
                "change",
                "change",
                "rollback",
                "fork",
                "restore",
                "worker",
            ]
        )
        self.count(what)
        match what:
            case "message":
                await self.message()
            case "edit":
                await self._edit()
            case "change":
                await self.change()
            case "rollback" | "fork":
                await self.back(forks=what == "fork")
            case "restore":
                await self._drain()
                state, plan = self.engine.state.to_json(), self.engine.plan.to_json()
                journal = Journal.from_carry(
                    CrewState.from_json(state), self.engine.journal.unpacked_batch()
                )
                at = self.engine.at
                self.engine = Engine(GraphPlan.from_json(json.loads(json.dumps(plan))), journal)
                self.engine.at = at
            case _:
                self.worker.restart()

    async def message(self) -> None:
        names = [*self.layout["agents"]]
        pool = ["public", "group:g", "group:h", "channel:board", "channel:open"]
        pool += [f"private:{n}" for n in names] + [f"readers:{'+'.join(some(self.rng, names, 1))}"]
        log = self.rng.choice(pool)
        mark = self.mark(kind="unsaid")
        incoming = await self.command("message", text=f"Hear: {mark}", to=log)
        if incoming.error is None:
            self.canaries[self._marks] = Canary((log,), "", "message", said=True)

    async def _edit(self) -> None:
        agent = self.rng.choice([*self.layout["agents"]])
        items = [self.mark(self.shares(agent), agent, "edited") for _ in range(2)]
        values = {f"outputs.{agent}.list": items, "shared.tone": self.mark(kind="shared")}
        values[f"private.agent:{agent}.hint"] = self.mark(kind="hint")
        await self.command("edit_state", set=values, reason=self.mark(kind="reason"))

    async def change(self) -> None:
        plan = self.engine.plan
        made = await self._other()
        if made is None:
            return
        layout, definition = made
        await self.store.put_definition(self.engine.state.run, definition.to_json())
        other = lower(definition)
        prepared = PrepareChangeResult(plan=json.loads(json.dumps(other.to_json())))
        report, new = change_report(self.engine, prepared, abandon=self.rng.random() < 0.2)
        self._commands += 1
        command = CommandId(f"c{self._commands}")
        accept_change(self.engine, new, report, by="eve", command=command)
        if report.swap:
            await self._drain()
            if self.engine.state.is_ended:
                return
            self.engine = swap(self.engine).engine
            self.count("swaps")
        if self.engine.plan.definition != plan.definition:
            for name in self.layout["agents"]:
                if name not in layout["agents"]:
                    self.gone[name] = self.layout
            self.layout = layout

    async def _other(self) -> tuple[Layout, CrewDefinition] | None:
        definition = load_data(await self.store.get_definition(self.engine.plan.definition))
        flow = definition.to_json()["flow"]
        if self.rng.random() < 0.3 and len(flow) > 2:  # a phase goes
            flow = [item for i, item in enumerate(flow) if i != self.rng.randrange(1, len(flow))]
        flow = json.loads(json.dumps(flow))
        makers = {
            item["for_each"].split(".")[0]
            for item in flow
            if isinstance(item, dict) and "for_each" in item
        }
        if not makers <= {*agents_in(flow)}:
            return None
        for _ in range(10):
            try:
                return random_crew(self.rng, flow, self.more)
            except InvalidDefinition:
                continue
        return None

    async def _drain(self) -> None:
        while self.flights:
            await self._land(0)

    def keep_place(self) -> None:
        state = self.engine.state
        if state.status == "running" and state.pending_change is None:
            kept = (
                state.position,
                state,
                self.engine.plan,
                self.layout,
                (dict(self.canaries), dict(self.gone)),
            )
            self.places.append(kept)

    async def back(self, *, forks: bool) -> None:
        to, then, plan, layout, (canaries, gone) = self.rng.choice(self.places)
        # As the activity does that loads the checkpoint: what is before it is in the store.
        whole = await self.worker.activities._batches.unpack_batch(self.engine.journal.batch())  # pyright: ignore
        if whole.entries:
            await self.store.append(self.engine.state.run, whole)
        self.engine.journal.mark_stored(self.engine.state.position)
        if forks:
            self.flights.clear()
            self._commands += 1
            run = RunId(f"{then.run}-f{self._commands}")
            self.engine = fork(plan, then, run, by="eve", at=self.engine.at)
            self.places.clear()
        else:
            roll_back(self.engine, to, then, plan, by="eve", command=CommandId(f"r{self._marks}"))
            self._commands += 1
            self.flights.clear()  # what is under way is not applied
        self.layout, self.gone = layout, gone
        # What was said since is in no log; the marks stay, and are for nobody.
        for mark, canary in self.canaries.items():
            old = canaries.get(mark)
            self.canaries[mark] = old if old is not None else Canary(kind=f"gone {canary.kind}")


async def glance(seed: int, worker: Worker) -> World:
    """A random crew in which much has been said, seen by all; then as another crew; then back.

    It goes through the workers' own way to a transcript, without models and tools: of such there
    can be many more.
    """
    world = World(random.Random(seed), worker)  # noqa: S311
    await world.begin(seed)
    for _ in range(12):
        await world.message()
    await world.show_all()
    world.keep_place()
    await world.change()
    for _ in range(4):
        await world.message()
    await world.show_all()
    await world.back(forks=seed % 2 == 0)
    await world.show_all()
    return world


def _sent(task: Any) -> Any:
    """A call's input as it crosses the wire."""
    return type(task).from_json(json.loads(json.dumps(task.to_json())))


async def hunt(seed: int, worker: Worker, *, changes: bool = True) -> World:
    """A random crew, run with random people; `leaks` has what went wrong."""
    world = World(random.Random(seed), worker, changes=changes)  # noqa: S311
    await world.begin(seed)
    await world.run()
    return world
