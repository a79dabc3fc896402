"""What creatures are told of their graph: another text exactly where an operation affects them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from langchain_core.messages import SystemMessage

from covers import covers
from crewlog.activities.transcripts import build_prompt
from crewlog.definition import operations as o
from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.errors import InvalidDefinition
from crewlog.graph.awareness import HEADING, AwarenessBlocks
from crewlog.graph.lowering.components import MAX_DESCRIPTION
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, RunId
from crewlog.state.components import Component, affected_agents
from graph.simulation import dice

NAMES = tuple("abcdefgh")
PIPES = ("p", "q", "r", "s")
RUN = RunId("r")
TURN = "Each message starts a turn of yours."


def crew(agents: dict[str, dict[str, Any]], **more: Any) -> CrewDefinition:
    made = {name: {"prompt": f"You are {name}.", **edges} for name, edges in agents.items()}
    return load_data({"crew": "t", "model": "openai:x", "agents": made, **more})


def system(definition: CrewDefinition, name: str) -> str:
    """An agent's system prompt."""
    who, block = AgentName(name), AwarenessBlocks(definition).block(AgentName(name))
    (message, *_) = build_prompt(who, definition.agents[who], [], [], "Look.", "As JSON.", block)
    assert isinstance(message, SystemMessage)
    return message.text


def topology(definition: CrewDefinition) -> Component:
    found = lower(definition).component
    assert found is not None
    return found


def operations(rng: Random, definition: CrewDefinition) -> Iterator[Operation]:
    """What may be asked of a crew, without end; some of it is refused."""
    while True:
        here, every = [*definition.agents], [*NAMES]
        one, two, pipe = rng.choice(every), rng.choice(every), rng.choice(PIPES)
        to = rng.choice([two, f"channel:{pipe}"])
        some = rng.sample(PIPES, rng.randint(0, 3))
        edges = rng.choice(
            [
                {"listen": some},
                {"send": some},
                {"wires": [f"channel:{each}" for each in some]},
                {"parent": rng.choice(here)},
                {"beside": rng.choice([None, *here])},
                {"privileged": rng.random() < 0.5},
                {"prompt": rng.choice("xy")},
                {"enabled": rng.random() < 0.5},
            ]
        )
        yield rng.choice(
            [
                o.AddAgent(name=one, agent={"prompt": f"You are {one}.", "listen": some}),
                o.AddAgent(name=one, like=two, agent={"parent": rng.choice(here)}),
                o.AddAgent(name=one, agent={"prompt": "p"}, phase={"after": []}),
                o.RemoveAgent(name=one),
                o.AddChannel(name=pipe, description=f"For {pipe}."),
                o.RemoveChannel(name=pipe),
                o.Connect(sender=one, listener=two, channel=pipe),
                o.Disconnect(sender=one, listener=two),
                o.Wire(name=one, to=to),
                o.Unwire(name=one, to=rng.choice([*definition.agents[here[0]].wires, to])),
                o.EditAgent(name=rng.choice(here), set=edges),
            ]
        )


@covers("C116", "C98")
@pytest.mark.parametrize("seed", range(40))
def test_a_prompt_is_another_one_exactly_where_an_operation_affects_its_agent(seed: int) -> None:
    rng = dice(f"awareness/{seed}")
    now = crew(
        {"a": {"listen": ["p"], "privileged": True}, "b": {"send": ["p"]}, "c": {"wires": ["a"]}},
        graph={"root": "b"} if seed % 2 else {},
    )
    told: Counter[str] = Counter()
    for _ in range(60):
        operation = next(operations(rng, now))
        if now.channels and rng.random() < 0.1:
            pipe = rng.choice([*now.channels])
            other = now.channels[pipe].model_copy(update={"description": rng.choice("xy")})
            then = now.model_copy(update={"channels": {**now.channels, pipe: other}})
        else:
            try:
                then = apply_operations(now, [operation])
            except InvalidDefinition:
                continue
        disturbed = affected_agents({RUN: topology(now)}, {RUN: topology(then)})
        for name in {*now.agents} & {*then.agents}:
            before, after = system(now, name), system(then, name)
            ours = (now.agents[name].prompt, then.agents[name].prompt)
            if ours[0] != ours[1]:
                continue  # that is the operation's own doing
            assert (before != after) == (name in disturbed), (operation, name, before, after)
            # And only the block: what stands before it is the same byte for byte.
            assert before.split(HEADING)[0] == after.split(HEADING)[0]
            told["changed" if before != after else "same"] += 1
        now = then
    assert told["changed"] > 10
    assert told["same"] > 20


def test_what_a_creature_is_told() -> None:
    made = crew(
        {
            "keeper": {"listen": ["reports"], "send": ["tasks"]},
            "scout": {
                "listen": ["tasks"],
                "wires": ["channel:reports", "keeper"],
                "parent": "keeper",
            },
            "alone": {"beside": "scout"},
        },
        channels={"tasks": {"description": "what is\nto be done"}, "spare": {}},
        graph={"root": "keeper"},
    )
    assert AwarenessBlocks(made).block(AgentName("scout")).splitlines() == [
        HEADING,
        f"- You listen to tasks (what is to be done): keeper may send to it. {TURN}",
        "- The final message of your turn goes to the channel reports: read by keeper.",
        "- The final message of your turn goes to keeper.",
        "- You work for keeper.",
    ]
    assert AwarenessBlocks(made).block(AgentName("alone")).splitlines() == [
        HEADING,
        "- You stay in one component with scout.",
        "- No channel and no wire leads to you or from you.",
    ]
    assert AwarenessBlocks(made).block(AgentName("keeper")).splitlines() == [
        HEADING,
        f"- You listen to reports: scout may send to it. {TURN}",
        "- You may send to tasks (what is to be done): read by scout.",
        "- You receive the final message of each turn of scout.",
        "- These agents work for you: scout.",
        "- You may change the component by the group tools. All of it:",
        "- alone: stays with scout.",
        "- keeper: privileged; listens to reports; sends to tasks.",
        "- scout: listens to tasks; is wired to channel:reports, keeper; works for keeper.",
        "- Channels: reports, spare, tasks (what is to be done).",
    ]


def test_what_a_channel_is_for_is_told_in_short_and_plainly() -> None:
    said = "obey\x1b[2J the \u202elast line" + " and so on" * 1000
    made = crew({"a": {"listen": ["x"]}}, channels={"x": {"description": said}})
    block = AwarenessBlocks(made).block(AgentName("a"))
    assert "(obey[2J the last line and so on" in block
    assert "…): no agent sends to it" in block
    assert len(block) < MAX_DESCRIPTION + 200


def test_who_lives_in_no_graph_is_told_of_none() -> None:
    flow = crew({"a": {}, "b": {}})
    assert AwarenessBlocks(flow).block(AgentName("a")) == ""
    assert system(flow, "a") == "You are a.\n\nYour task now: Look.\n\nAs JSON."
    parted = crew({"a": {"listen": ["x"]}, "b": {}}, graph={"away": {"b": "r.1"}})
    assert AwarenessBlocks(parted).block(AgentName("b")) == ""
