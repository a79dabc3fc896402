"""A hostile model in whole turns: the engine makes no call that the oracle forbids.

`CREWLOG_HOSTILE_TURNS` says how many calls are asked for; by default some thousand.
"""

from __future__ import annotations

import os
import random
from typing import Any

from audit_records import audit_records
from authority.hostile import AGENTS, SPELLINGS, TOOLS, Oracle, agrees, random_crew
from authority.test_hostile import meanwhile
from crewlog.canonical_json import hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import check
from crewlog.graph.lowering.plans import lower_validated
from crewlog.graph.run_context import CallRequest
from crewlog.ids import FlagName
from crewlog.state import journal as j
from crewlog.state.calls import CallModelResult, RequestedToolCall, ToolCallsRequested
from graph.simulation import Outcome, Simulation, returns, says

CALLS = int(os.environ.get("CREWLOG_HOSTILE_TURNS", "3000"))
NAMES = [name for name in SPELLINGS if name]
"""Other names than tools have; a reply that names none at all does not come from an activity."""
TURNS = 4
"""Replies of an agent that ask for tools."""


class Stubborn:
    """A model that asks for whatever it likes, with whatever arguments."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.replies: dict[str, int] = {}

    def __call__(self, order: CallRequest) -> Outcome:
        rng, step = self.rng, str(order.step)
        if order.call.tool is not None:
            return returns("done", ok=rng.random() < 0.8)
        self.replies[step] = self.replies.get(step, 0) + 1
        return says("done") if self.replies[step] > TURNS else self._asks()

    def _asks(self) -> CallModelResult:
        rng = self.rng
        tools = [rng.choice(TOOLS if rng.random() < 0.8 else NAMES) for _ in range(5)]
        args: list[Any] = [{}, {"a": rng.random()}, {"": [None]}, {"t0": {"t1": "*"}}]
        said: list[Any] = [{"id": f"c{n}", "name": tool} for n, tool in enumerate(tools)]
        body: dict[str, Any] = {"type": "ai", "content": "", "tool_calls": []}
        for call in said:
            if rng.random() < 0.1:  # what it says is no JSON
                unreadable = {**call, "args": rng.choice(("{", "", "null", '{"a": NaN}'))}
                body.setdefault("invalid_tool_calls", []).append(unreadable)
            else:
                body["tool_calls"].append({**call, "args": rng.choice(args)})
        asked = tuple(
            RequestedToolCall(id=f"c{n}", tool=tool, excerpt="{}") for n, tool in enumerate(tools)
        )
        outcome = ToolCallsRequested(calls=asked)
        return CallModelResult(body=body, hash=hash_json(body), outcome=outcome)


async def drive(oracle: Oracle, sim: Simulation, rng: random.Random) -> dict[tuple[str, int], str]:
    """Lets a run go on to its end; the calls of tools that were made."""
    made: dict[tuple[str, int], str] = {}
    while not sim.state.is_ended:
        if rng.random() < 0.1:
            rule(oracle, sim, rng)
        await sim.settle()
        sim.launch()
        for key, order in sim.flights.items():
            tool = order.call.tool
            if tool is None or key in made:
                continue
            made[key] = tool
            expected = oracle.says(order.agent, tool)
            story = (oracle.crew, oracle.said, order, expected)
            assert expected == "allow" or (expected == "ask" and order.call.approved), story
            oracle.count(order.agent, tool)
        if sim.flights:
            await sim.land(rng.choice(list(sim.flights)))
        elif sim.state.interrupts:
            question = next(iter(sim.state.interrupts.values()))
            choices = ["approve", "reject"] if question.tool else list(question.options[:1])
            await sim.answer(rng.choice(choices), question.id)
        else:
            assert sim.state.is_ended, (sim.state.status, sim.state.frontier)
    return made


def rule(oracle: Oracle, sim: Simulation, rng: random.Random) -> None:
    """People rule meanwhile. Flags stay: a quota counts what it is about when it is asked for."""
    flags = dict(oracle.flags)
    while True:
        meanwhile(sim.engine, oracle, rng)
        if oracle.flags == flags:
            return
        for flag, value in flags.items():
            if oracle.flags[flag] != value:
                oracle.flags[flag] = value
                sim.engine.record(j.RunOutputSet(flag=FlagName(flag), value=value, by="people"))


async def test_no_turn_makes_a_call_that_the_oracle_forbids() -> None:
    rng = random.Random(32)  # noqa: S311
    tried = calls = refused = 0
    while tried < CALLS:
        written = random_crew(rng)
        definition = CrewDefinition.from_json({**written, "flow": [{"parallel": [*AGENTS]}]})
        if check(definition):
            continue
        oracle = Oracle(written)
        sim = await Simulation.begin(lower_validated(definition), Stubborn(rng), seed=tried)
        made = await drive(oracle, sim, rng)
        asked = {
            (fact["step"], call["call"])
            for fact in sim.facts("ModelCallCompleted")
            for call in fact.get("calls", ())
        }
        denied = {(fact["step"], fact["call"]) for fact in sim.facts("PermissionDenied")}
        questions = [fact["interrupt"] for fact in sim.facts("InterruptRaised")]
        people = {(q.get("step"), q.get("call")) for q in questions}
        # What was not made is on record: as a refusal, or as a question to people.
        assert asked - made.keys() <= denied | people
        assert not denied & made.keys()
        journal = ((p, j.entry_from_json(e)) for p, e in enumerate(sim.journal, 1))
        agrees(audit_records(journal), asked, made.keys())
        assert sim.state.is_ended
        tried, calls, refused = tried + len(asked), calls + len(made), refused + len(denied)
    assert min(calls, refused) > tried // 10, (tried, calls, refused)
