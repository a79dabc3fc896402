"""A run without a server: the engine, calls with scripted outcomes, and people at random.

`Simulation` does what the workflow's loop does: settle, make the ordered calls, let one of them
land, apply it. What a call answers follows from the seed and the call alone, never from the order
of things, so two schedules of one seed differ only in what was faster.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from typing_extensions import override

from crewlog.canonical_json import hash_json
from crewlog.errors import InvalidDefinition
from crewlog.graph.answers import answer_expired_interrupts
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import CallRequest
from crewlog.graph.swap.live_change import accept_change, change_report, swap
from crewlog.graph.swap.report import SwapReport
from crewlog.ids import CommandId, RunId, visit_number
from crewlog.state import journal as j
from crewlog.state.calls import (
    CallModelResult,
    CallToolResult,
    FinalMessage,
    FinalMessageInvalid,
    MessageOutcome,
    MessageUnusable,
    OutputValue,
    PrepareChangeResult,
    RequestedToolCall,
    StructuredOutput,
    ToolCallsRequested,
    ToolReturned,
)
from crewlog.state.checkpoints import checkpoint_kind
from crewlog.state.drafts import draft_text
from crewlog.state.finish_reason import BadEnding
from crewlog.state.fold import fold_journal
from crewlog.state.model import CrewState, Interrupt
from crewlog.state.recorder import Journal
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import QueuedCommand
from graph.crews import agents_in, plan_of

RUN = RunId("sim")
EPOCH = "1970-01-01T00:00:00.090Z"
"""A time that is over in some runs, and to come in others."""
APPENDED = {"ready": "append", "p0_0.list": "append", "p0_0.text": "append"}


def dice(seed: int | str) -> random.Random:
    """What is random in a test, the same in every process."""
    return random.Random(seed)  # noqa: S311


class Failure(NamedTuple):
    """A call that failed for good."""

    error: str
    error_type: str = "ToolMissing"


Outcome = CallModelResult | CallToolResult | Failure
Script = Callable[[CallRequest], Outcome]


def says(
    text: str,
    *tools: str,
    reply: StructuredOutput | None = None,
    errors: tuple[str, ...] = (),
    ending: BadEnding = "",
    **more: Any,
) -> CallModelResult:
    """A model's reply, asking for tools by name."""
    asked = tuple(
        RequestedToolCall(id=f"c{n}", tool=tool, excerpt="{}") for n, tool in enumerate(tools)
    )
    body = {
        "type": "ai",
        "content": text,
        "tool_calls": [{"id": a.id, "name": a.tool, "args": {}} for a in asked],
    }
    final = FinalMessageInvalid(errors=errors) if errors else FinalMessage(output=reply)
    outcome: MessageOutcome = final
    if tools:
        outcome = ToolCallsRequested(calls=asked, draft=hash_json(draft_text(body)))
    elif ending:
        outcome = MessageUnusable(ending=ending, accepted=final)
    return CallModelResult(body=body, hash=hash_json(body), outcome=outcome, **more)


_WRITES = frozenset({"flags", "outputs", "operations", "sends", "goto"})


def returns(text: str = "done", **more: Any) -> CallToolResult:
    """A tool's result; what it writes may be given without its `ToolReturned`."""
    body = {"type": "tool", "content": text, "tool_call_id": "c0"}
    writes = {key: more.pop(key) for key in _WRITES & more.keys()}
    if writes:
        more["outcome"] = ToolReturned(**writes)
    return CallToolResult(body=body, hash=hash_json(body), **more)


def final(order: CallRequest) -> Outcome:
    """The simplest script: every turn is one model call, every tool returns."""
    return returns() if order.call.tool else says(f"{order.step} is done")


class Replies:
    """Each step's model replies one after the other, then a final message; tools by their name."""

    def __init__(
        self, replies: Mapping[str, Sequence[Outcome]], tools: Mapping[str, Outcome] | None = None
    ) -> None:
        self._replies = {step: iter(found) for step, found in replies.items()}
        self._tools = tools or {}

    def __call__(self, order: CallRequest) -> Outcome:
        if order.call.tool is not None:
            at = f"{order.call.tool}/{order.call.call}"
            return self._tools.get(at) or self._tools.get(order.call.tool) or returns(at)
        return next(self._replies.get(order.step, iter(())), None) or final(order)


class RandomScript:
    """Outcomes at random, by the seed and the call; calmer with every visit, so runs end."""

    def __init__(self, plan: GraphPlan, seed: int) -> None:
        self.plan = plan
        self.seed = seed

    def __call__(self, order: CallRequest) -> Outcome:
        call = order.call
        rng = dice(f"{self.seed}/{order.step}/{call.call}/{call.attempt}")
        visit = visit_number(order.step)
        wild = visit <= 3 and call.call <= 9 and call.attempt == 1
        if wild and rng.random() < 0.06:
            kind = "OutcomeUnknown" if call.tool and rng.random() < 0.6 else "ModelRequestRejected"
            return Failure(f"{order.step}/{call.call} broke", kind)
        if call.tool is None:
            return self._reply(order, rng, wild=wild)
        return self._result(order, rng, wild=wild)

    def _reply(self, order: CallRequest, rng: random.Random, *, wild: bool) -> CallModelResult:
        rules = self.plan.agents.get(order.agent)
        offered = [*(rules.tools if rules else ("read", "act")), "secret", "no_such_tool"]
        count = rng.choice((0, 0, 1, 2, 3)) if wild else 0
        tools = [rng.choice(offered[:-2] * 4 + offered) for _ in range(count)]
        usage = {"calls": 1, "input_tokens": rng.randrange(100), "cost": rng.random() / 100}
        text = f"{order.step}/{order.call.call}"
        return says(text, *tools, usage=usage, stored=rng.random() < 0.8)

    def _result(self, order: CallRequest, rng: random.Random, *, wild: bool) -> CallToolResult:
        more: dict[str, Any] = {"ok": rng.random() < 0.9, "stored": rng.random() < 0.8}
        if rng.random() < 0.4:
            flag = rng.choice(["ok", "ready", "other"])
            more["flags"] = {flag: rng.choice([True, False, 1, 0, "text", None, 2.5])}
        pooled = any(node.among for node in self.plan.nodes.values())
        if rng.random() < (0.1 if pooled else 0.3):
            value = rng.choice([1, True, 0.5, "x", [1], {"a": None}])
            more["outputs"] = (OutputValue(key=rng.choice(["score", "other"]), value=value),)
        elif rng.random() < (0.9 if pooled else 0.5):
            more["outputs"] = (_list(rng, self.plan),)
        if any(node.route is not None for node in self.plan.nodes.values()):
            where = rng.choice([*self.plan.nodes, *self.plan.nodes, "nowhere", "end", 1, None])
            more["outputs"] = (*more.get("outputs", ()), OutputValue(key="next", value=where))
        if wild and rng.random() < 0.06:
            more["goto"] = (rng.choice([*self.plan.nodes, "nowhere"]),)
        return returns(f"{order.step}/{order.call.call}", **more)


def _list(rng: random.Random, plan: GraphPlan) -> OutputValue:
    """A list to have a step for each item of, mostly: small or large, empty, or none at all."""
    value = rng.choice([[], ["a"], [1, None, {}], [True] * 5, "no list", ["x" * 100] * 4])
    among = sorted({agent for node in plan.nodes.values() for agent in node.among})
    if among and rng.random() < 0.8:
        value = items_at_random(rng, among, rng.randrange(7), bad=0.05)
    if len(json.dumps(value)) <= 256:
        return OutputValue(key="list", value=value)
    return OutputValue(key="list", body=hash_json(value), content=value)


def items_at_random(
    rng: random.Random, among: Sequence[str], count: int, *, bad: float = 0.0
) -> list[dict[str, Any]]:
    """Items that name their agents and wait for each other, in an order that is not theirs."""
    numbers = list(range(count))
    rng.shuffle(numbers)
    found: list[dict[str, Any]] = []
    for number in numbers:
        earlier = [f"i{other}" for other in range(number)]
        item: dict[str, Any] = {"id": f"i{number}", "agent": rng.choice(among)}
        if earlier and rng.random() < 0.6:
            item["after"] = rng.sample(earlier, rng.randint(1, min(3, number)))
        if rng.random() < bad:
            item |= rng.choice(
                [{"agent": "nobody"}, {"after": ["i99"]}, {"id": "i0"}, {"after": [f"i{number}"]}]
            )
        found.append(item)
    if found and rng.random() < 0.3:
        found[0]["task"] = "long " * 60
    return found


LIVE_PERMISSIONS = ["allow", "deny", "ask", "inherit"]
RULES: list[list[dict[str, Any]]] = [
    [{"tool": ["read", "act"], "quota": "2 per run"}],
    [{"tool": "read", "do": "ask", "if": "ready"}, {"tool": "act", "do": "never", "if": "ok"}],
    [{"tool": "*", "quota": "5 per run", "reason": "it costs"}, {"tool": "act", "do": "ask"}],
]
EXPIRIES: list[dict[str, Any]] = [
    {"expires": "1h", "default": "reject"},
    {"expires": "1h", "default": "escalate", "escalate_to": "boss"},
    {"approve_risk": "low", "kinds": {"tool_approval": {"expires": "1h"}}},
]


def random_plan(
    rng: random.Random,
    *,
    ruled: bool = False,
    does: bool = False,
    pooled: bool = False,
    routed: bool = False,
) -> GraphPlan:
    """A valid crew at random: lanes, joins of all kinds, loops, questions, conditions, tools.

    Args:
        rng: Dice.
        ruled: Whether it may have rules, quotas, and questions that expire: what was counted, and
            the time, are not undone by a rollback, so that it may then end otherwise.
        does: Whether some of its agents ask no model: those whose names end with `DOES`.
        pooled: Whether items name their agents and wait for each other, and values are put
            together in ways that may conflict.
        routed: Whether outputs say where it goes.
    """
    while True:
        try:
            return _attempt(rng, ruled=ruled, does=does, pooled=pooled, routed=routed)
        except InvalidDefinition:
            continue


def _attempt(
    rng: random.Random, *, ruled: bool, does: bool, pooled: bool, routed: bool
) -> GraphPlan:
    flow: list[Any] = []
    names: list[str] = []
    for i in range(rng.randint(2, 7)):
        here = [f"p{i}_{k}" for k in range(rng.randint(2, 4))]
        earlier = rng.sample(names, min(len(names), rng.randint(1, 3)))
        kind = rng.choice(
            ["agent", "lanes", "lanes", "after", "loop", "loop", "ask", "end", "wait"]
        )
        if kind == "lanes":
            join = rng.choice(["all", "any", rng.randint(1, len(here))])
            flow.append({"parallel": [_phase(rng, n, names) for n in here], "join": join})
        elif kind == "after" and earlier:
            quorum = {"quorum": rng.randint(1, len(earlier)), "of": earlier}
            after = rng.choice([earlier, {"any": earlier}, quorum])
            here = here[:1]
            flow.append(_phase(rng, here[0], names) | {"after": after})
        elif kind == "loop" and names:
            here, last = [f"d{i}"], rng.choice(["next", "ask_human", "end", "next", "next", "fail"])
            flow.append(
                {
                    "if": rng.choice(["not ok", "ready", "not p0_0.score >= 1"]),
                    "go": rng.choice(names),
                    "at_most": rng.randint(1, 3),
                    "else": last,
                    "phase": here[0],
                }
            )
        elif kind == "ask":
            here = [f"q{i}"]
            asks: dict[str, Any] = {"ask": "Well?", "phase": here[0]}
            if earlier and rng.random() < 0.3:
                asks["options"] = ["yes", earlier[0], "no"]
            flow.append(
                asks
                | ({"sets": "ready", "words": rng.random() < 0.5} if rng.random() < 0.6 else {})
            )
        elif kind == "wait":
            here = [f"w{i}"]
            time = rng.choice([{"wait": rng.choice(["3ms", "1h"])}, {"wait_until": EPOCH}])
            flow.append(time | {"phase": here[0]})
        elif kind == "end" and names:
            here = [f"d{i}"]
            flow.append({"if": "ok", "go": "end", "phase": here[0]})
        else:
            here = here[:1]
            flow.append(_phase(rng, here[0], names))
        names += here
    flow.append("last")
    if pooled:
        _pool(rng, flow)
    if routed:
        _route(rng, flow)
    agents = {name: _agent(rng) | (_does(name) if does else {}) for name in agents_in(flow)}
    if routed:
        agents = {
            name: each | {"outputs": [*each["outputs"], "next"]} for name, each in agents.items()
        }
    appended = rng.choice([{}, {}, APPENDED]) if "p0_0" in agents else {}
    approvers = [name for name in ("p0_0", "p1_0") if name in agents]
    tools = {name: {"run": "m:f"} for name in ("read", "act", "secret")}
    return plan_of(
        flow,
        agents,
        tools=tools,
        flags={"ok": False, "ready": None},
        permissions={"secret": []},
        merge={"ok": "last", "ready": "last"}
        | {f"{name}.{key}": "last" for name in agents for key in agents[name]["outputs"]}
        | appended
        | (rng.choice(MERGED) if pooled else {}),
        approvals=rng.choice([{}, {}, {"act": None}, {"act": approvers}]),
        limits={"steps": rng.choice([8, 1000, 1000])},
        rules=rng.choice([[], *RULES]) if ruled else [],
        interrupts=rng.choice([{}, *EXPIRIES]) if ruled else {},
    )


MERGED: list[dict[str, str]] = [
    {"ready": "agree", "last.score": "sum"},
    {"ready": "union", "ok": "max"},
    {"ready": "sum", "ok": "agree"},
    {"ready": "update", "ok": "min"},
]


def _pool(rng: random.Random, flow: list[Any]) -> None:
    """Makes pools of the phases that have a step for each item of a list, and adds one."""
    for number, maker in enumerate(agents_in(flow)[:2]):
        pool: dict[str, Any] = {"agent": "each", "phase": f"each{number}"}
        at = next(i for i, item in enumerate(flow, 1) if maker in agents_in(item))
        flow.insert(at, pool | {"for_each": f"{maker}.list"})
    known = [name for name in agents_in(flow) if name != "last"]
    whole = [item for item in flow if isinstance(item, dict)]
    inner = [part for item in whole for part in item.get("parallel", [item])]
    for phase in (each for each in inner if "for_each" in each):
        among = sorted({phase["agent"], *rng.sample(known, min(2, len(known)))})
        phase |= rng.choice([{"by": "agent", "among": among}] * 3 + [{}])
        phase |= rng.choice([{"at_once": rng.randint(1, 3)}, {}])
        phase |= rng.choice([{"else": "skip"}, {}]) if "else" not in phase else {}


def _route(rng: random.Random, flow: list[Any]) -> None:
    """Adds routes by what agents before them say, to whatever there is: forward, or back."""
    names = [name for name in agents_in(flow) if not name.startswith("each")]
    for number in range(rng.randint(1, 2)):
        by = rng.choice([name for name in agents_in(flow) if name != "last"][:4] or ["last"])
        at = next(i for i, item in enumerate(flow, 1) if by in agents_in(item))
        to = rng.sample(names, min(len(names), rng.randint(1, 3)))
        route = {"route": f"{by}.next", "to": to, "at_most": rng.randint(1, 3)}
        route["else"] = rng.choice(["next", "next", "next", "end", "ask_human", to[0]])
        route["else_used_up"] = rng.choice(["next", "next", "next", "end", "ask_human", "fail"])
        flow.insert(rng.randint(at, max(at, len(flow) - 1)), route | {"phase": f"r{number}"})


def _phase(rng: random.Random, name: str, earlier: list[str]) -> dict[str, Any]:
    phase: dict[str, Any] = {"agent": name}
    if rng.random() < 0.15:
        phase["when"] = rng.choice(["ready", "ok or ready"])
        phase["else"] = rng.choice(["skip", "ask_human", *earlier[:1]])
        phase |= rng.choice([{}, {"within": "2ms"}])
    if rng.random() < 0.1:
        phase["only_if"] = "not ok"
    agents = [name for name in earlier if name.startswith("p")]
    if agents and rng.random() < 0.25:
        phase["for_each"] = f"{rng.choice(agents)}.list"
    if rng.random() < 0.06:
        phase["needs"] = rng.sample(["read", "act", "secret"], 1)
    return phase


def _agent(rng: random.Random) -> dict[str, Any]:
    return {
        "tools": ["read", "act"],
        "max_calls": rng.choice([2, 25]),
        "writes_flags": ["ok", "ready"],
        "outputs": ["score", "list"],
        "enabled": rng.random() < 0.97,
        "on_error": rng.choice(["ask", "ask", "continue", "continue", "fail"]),
        "writes": rng.choice([["public"], ["group:g"], ["public", "group:g"]]),
    }


DOES = "_2"
"""The third agents of blocks ask no model, where a crew is to have such."""


def _does(name: str) -> dict[str, Any]:
    calls = [{"tool": "read", "args": {"n": 1}}, "act"]
    return {"does": calls, "in_order": name < "p3"} if name.endswith(DOES) else {}


@dataclass
class Witness(Journal):
    """A journal that keeps the live state after every entry."""

    states: list[CrewState] = field(default_factory=list[CrewState])

    @override
    def record(self, entry: j.JournalEntry) -> j.JournalEntry:
        recorded = super().record(entry)
        self.states.append(self.state)
        return recorded


@dataclass
class Simulation:
    """A run and its surroundings."""

    engine: Engine
    script: Script
    rng: random.Random = field(default_factory=lambda: dice(0))
    people: bool = False
    """Whether people command and answer at random; else the run is left when it asks."""
    other: Callable[[random.Random, GraphPlan], GraphPlan] | None = None
    """Makes the plans that the run is changed to at random; none: it keeps its own."""
    parallel: int = 64
    timers: bool = True
    """Whether time passes where nothing else goes on; else the test rings."""
    restore_at: Callable[[int], bool] = lambda _drain: False
    """Whether to begin a new engine from the state at a drain, by the drain's number."""
    flights: dict[tuple[str, int], CallRequest] = field(default_factory=dict[Any, CallRequest])
    made: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """The calls made, as step, call and attempt, in order."""
    landed: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The calls that landed, in order."""
    restored: list[CrewState] = field(default_factory=list[CrewState])
    """The states that new engines began from."""
    _hands: random.Random = field(default_factory=lambda: dice("hands"))
    _before: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _commands: int = 0
    _drains: int = 0

    @classmethod
    async def begin(
        cls, plan: GraphPlan, script: Script = final, *, seed: int = 0, **more: Any
    ) -> Simulation:
        """A new run; nothing is settled yet."""
        with mock.patch("crewlog.graph.engine.Journal", Witness):
            engine = await Engine.begin(plan, RUN, input_text="Go.", by="eve", at=1)
        return cls(engine, script, dice(seed), _hands=dice(f"{seed}/hands"), **more)

    # -- looking ------------------------------------------------------------------------------

    @property
    def state(self) -> CrewState:
        return self.engine.state

    @property
    def journal(self) -> list[dict[str, Any]]:
        """The whole journal, over all engines."""
        return [*self._before, *self.engine.journal.entries]

    def facts(self, kind: str) -> list[dict[str, Any]]:
        """The journal's entries of a kind."""
        return [entry for entry in self.journal if entry["kind"] == kind]

    def ran(self) -> list[str]:
        """The steps started, in order."""
        return [entry["step"] for entry in self.facts("StepStarted")]

    def asked(self) -> Interrupt:
        """The one open question."""
        (question,) = self.state.interrupts.values()
        return question

    # -- moving -------------------------------------------------------------------------------

    async def run(self, rounds: int = 400) -> Simulation:
        """Goes on until the run ends, or waits for people who are not simulated."""
        for _ in range(rounds):
            if await self.round():
                return self
        if self.state.is_ended or not self.people:
            return self
        await self.command("stop", reason="enough")
        await self.settle()
        return self

    async def round(self) -> bool:
        """Lets one thing happen; true where nothing more will."""
        if self.people and self.rng.random() < 0.3:
            await self._somebody()
        if self.people and self._hands.random() < 0.08:
            await self._by_hand()
        if self.people and self.rng.random() < 0.15:
            await self.drain()
        if self.other is not None and self._hands.random() < 0.04 and not self.state.is_ended:
            plan = self.other(self._hands, self.engine.plan)
            await self.change(plan, abandon=self._hands.random() < 0.3)
        await self.settle()
        self.launch()
        if self.flights:
            await self.land(self.rng.choice(list(self.flights)))
        elif self.state.is_ended:
            return True
        elif self._time_passes():
            self.ring()
            await self.settle()
        elif self.state.interrupts or self.state.status == "paused":
            if not self.people:
                return True
            await self._somebody(must=True)
        elif (
            self.engine.timers.next_deadline() is not None
            or self.state.is_conversation_idle
            or self.state.idle
        ):
            return True
        else:
            raise AssertionError(f"nothing moves and nobody is asked: {self.state.frontier}")
        return False

    async def settle(self) -> None:
        """Moves what needs no call, or ends a run that is to stop."""
        self.engine.at += 1
        await answer_expired_interrupts(self.engine)
        if self.state.status in ("stopping", "failed"):
            self.flights.clear()
        if self.state.status == "stopping":
            self.engine.stop()
        await self.engine.advance(self._keys())
        for key in [key for key in self.flights if self._is_cancelled(key[0])]:
            del self.flights[key]

    def _is_cancelled(self, step: Any) -> bool:
        """Whether a step failed as a whole, and its calls are cancelled."""
        return step in self.state.frontier and not self.engine.waits_for_calls(step)

    def launch(self) -> None:
        """Makes the calls that are to be made, as far as there is room."""
        for order in list(self.engine.pending_calls(self._keys()))[
            : self.parallel - len(self.flights)
        ]:
            self.flights[order.step, order.call.call] = order
            self.made.append((order.step, order.call.call, order.call.attempt))

    async def land(self, key: tuple[str, int]) -> None:
        """Applies how a call ended."""
        order = self.flights.pop(key)
        self.landed.append(key)
        if self.state.is_ended:
            return
        outcome = self.script(order)
        self.engine.at += 1
        if isinstance(outcome, CallModelResult):
            await self.engine.turns.apply_model_call(order.step, order.call.call, outcome)
        elif isinstance(outcome, CallToolResult):
            await self.engine.turns.apply_tool_call(order.step, order.call.call, outcome)
        elif outcome.error_type == "OutcomeUnknown":
            self.engine.ask_about_unknown_outcome(order.step, order.call.call, outcome.error)
        else:
            await self.engine.apply_call_failure(order.step, order.call.call, *outcome)

    async def finish(self, *steps: str) -> None:
        """Lets calls of these steps land, one each, in this order."""
        for step in steps:
            await self.settle()
            self.launch()
            await self.land(next(key for key in self.flights if key[0] == step))
        await self.settle()
        self.launch()

    def _time_passes(self) -> bool:
        running = self.timers and self.state.status == "running"
        return running and self.engine.timers.next_deadline() is not None

    def ring(self) -> None:
        """Lets time pass until the next timer is over."""
        due = self.engine.timers.next_deadline()
        assert due is not None, "no timer runs"
        self.engine.at = max(self.engine.at, due)
        self.engine.timers.fire(due)

    async def drain(self) -> None:
        """Lets everything land that is in flight, and perhaps goes on in a new engine."""
        while self.flights:
            await self.land(self.rng.choice(list(self.flights)))
        self._drains += 1
        if self.restore_at(self._drains) and not self.state.is_ended:
            await self.restore()

    async def restore(self) -> None:
        """Goes on in a fresh engine from the state as JSON, as continue-as-new does."""
        plan = json.loads(json.dumps(self.engine.plan.to_json()))
        state = json.loads(json.dumps(self.state.to_json()))
        self._before += self.engine.journal.entries
        self.restored.append(self.state)
        journal = type(self.engine.journal)(CrewState.from_json(state))
        at = self.engine.at
        self.engine = Engine(GraphPlan.from_json(plan), journal)
        self.engine.at = at

    async def change(
        self, plan: GraphPlan, *, abandon: bool = False, what: str = "another crew"
    ) -> SwapReport:
        """Goes on with another plan, as the workflow does: accepted, drained, swapped."""
        prepared = PrepareChangeResult(plan=json.loads(json.dumps(plan.to_json())))
        self._commands += 1
        report, made = change_report(self.engine, prepared, abandon=abandon)
        accept_change(
            self.engine,
            made,
            report,
            what=what,
            by="eve",
            command=CommandId(f"cmd{self._commands}"),
            abandon=abandon,
        )
        while self.flights and report.swap:
            await self.land(self.rng.choice(list(self.flights)))
        if not self.state.is_ended:
            self.engine = swap(self.engine).engine
        return report

    def _keys(self) -> Any:
        return set(self.flights)

    # -- people -------------------------------------------------------------------------------

    async def command(self, name: str, **content: Any) -> QueuedCommand:
        """Sends a command as the inbox takes it."""
        self._commands += 1
        incoming = QueuedCommand(name, {"id": f"cmd{self._commands}", "by": "eve", **content})
        await apply_command(self.engine, incoming)
        return incoming

    async def answer(self, decision: str, interrupt: str = "", by: str = "eve") -> QueuedCommand:
        """Answers an interrupt, by default the only one."""
        decisions = [{"type": "respond", "message": decision}]
        return await self.command(
            "answer",
            interrupt=interrupt or self.asked().id,
            decisions=decisions,
            by=by,
        )

    async def _somebody(self, *, must: bool = False) -> None:
        rng, state = self.rng, self.state
        if state.status == "paused":
            await self.command("resume")
        elif state.interrupts and (must or rng.random() < 0.5):
            question = state.interrupts[rng.choice(list(state.interrupts))]
            words = ["so it is"] if question.takes_text else []
            options = [o for o in question.options if o != "stop"] * 8 + ["stop", *words]
            tired = state.interrupt_count > 25 and "stop" in question.options
            by = next(iter(question.to), "eve")
            await self.answer("stop" if tired else rng.choice(options), question.id, by)
        elif must or rng.random() < 0.3:
            name = rng.choice(["pause", "message", "interrupt", "interrupt", "nonsense", "stop"])
            if name == "stop" and rng.random() < 0.8:
                return
            node = rng.choice(["*", "no_such_node", *self.engine.plan.nodes])
            content = {"message": {"text": "Well?"}, "interrupt": {"node": node}}
            await self.command(name, **content.get(name, {}))

    def _places(self) -> list[int]:
        """The checkpoints there are, and one to come.

        Whether another position of an older execution is one, only the store knows.
        """
        found = [
            position
            for position, entry in enumerate(self.journal, 1)
            if checkpoint_kind(entry["kind"], entry.get("source"), entry.get("because", ""))
        ]
        return [*found, self.state.position + 9]

    async def _by_hand(self) -> None:
        """Somebody changes the run, and not its graph."""
        rng, plan = self._hands, self.engine.plan
        nodes: list[str] = [*plan.nodes]
        steps: list[str | None] = [None, *self.state.frontier]
        agent = rng.choice([*plan.agents])
        values: list[dict[str, Any]] = [
            {"flags.ok": rng.choice([True, 1, None]), "shared.tone": "calm"},
            {"flags.ready": ["x"], f"outputs.{agent}.text": rng.choice(["short", "long " * 80])},
            {f"outputs.{agent}.list": ["a", "b" * 300], f"private.agent:{agent}.hint": 1},
        ]
        allowed: list[Any] = [None, [], [agent], [*plan.agents]]
        tool = rng.choice(["read", "act", "set_flag"])
        name, content = rng.choice(
            [
                ("edit_state", {"set": rng.choice(values)}),
                ("edit_state", {"delete": [*rng.choice(values)]}),
                ("redirect", {"node": rng.choice(nodes), "step": rng.choice(steps)}),
                ("redirect", {"node": rng.choice(nodes), "step": steps[-1], "cut": True}),
                ("set_permission", {"tool": "read", "agents": rng.choice(allowed)}),
                (
                    "set_permission",
                    {"tool": tool, "agent": agent, "do": rng.choice(LIVE_PERMISSIONS)},
                ),
                ("tag", {"checkpoint": rng.choice(self._places()), "tag": "here"}),
            ]
        )
        await self.command(name, **content)


async def run(plan: GraphPlan, script: Script = final, **more: Any) -> Simulation:
    """Runs a crew until it ends or asks."""
    return await (await Simulation.begin(plan, script, **more)).run()


def as_json(state: CrewState) -> str:
    """A state as text: `==` of models would take 1 for true."""
    return json.dumps(state.to_json())


def folded(journal: list[dict[str, Any]]) -> CrewState:
    """The state that a journal of JSON entries stands for."""
    return fold_journal(
        RUN, (j.entry_from_json(json.loads(json.dumps(entry))) for entry in journal)
    )


_CREWS: dict[int, Simulation] = {}


async def crew_run(seed: int) -> Simulation:
    """A random crew, run to its end with random people; made once in a session."""
    if seed not in _CREWS:
        _CREWS[seed] = await run_crew(seed)
    return _CREWS[seed]


async def run_crew(seed: int, **more: Any) -> Simulation:
    """The same, made anew."""
    kinds = {
        "ruled": seed % 3 == 1,
        "does": seed % 2 == 1,
        "pooled": seed % 4 in (2, 3),
        "routed": seed % 5 == 2,
    }
    plan = random_plan(dice(seed), **kinds)
    return await run(plan, RandomScript(plan, seed), seed=seed, people=True, **more)
