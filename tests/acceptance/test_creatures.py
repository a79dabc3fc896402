"""Crews whose agents have turns for what they hear: in channels, over wires, from people."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Connect, RemoveAgent

from .harness import LIMIT, Site, calls, tool, until


def sends(channel: str, text: str) -> dict[str, Any]:
    return calls(("send_message", {"channel": channel, "text": text}))


def living(site: Site, agents: dict[str, Any], edges: dict[str, Any], **graph: Any) -> Any:
    """A crew of creatures, whose `edges` are what they listen to and where they send."""
    return site.crew(agents, rules=edges, graph=graph)


async def heard(site: Site, run: Run) -> Counter[tuple[str, str]]:
    """How often each creature had a turn for each message, by the message's text."""
    told: Counter[tuple[str, str]] = Counter()
    state = await run.state()
    assert not state.frontier
    bodies = await site.store.get_bodies(
        {entry.body for entry in await site.entries(run, "AgentsWoken")}
    )
    for entry in await site.entries(run, "AgentsWoken"):
        for node in entry.to:
            told[str(node), bodies[entry.body]["content"]] += 1
    started = Counter(entry.agent for entry in await site.entries(run, "StepStarted"))
    assert started == Counter(name for name, _ in told.elements())
    return told


async def rested(run: Run) -> None:
    await run.wait_until(lambda view: view.is_idle, LIMIT)


async def test_each_message_gives_each_listener_a_turn(crews: Site) -> None:
    crew = living(
        crews,
        {
            "keeper": [
                sends("tasks", "Dig."),
                {"text": "Sent."},
                {"text": "Good."},
                {"text": "Ok."},
            ],
            "scout": [sends("reports", "Seen."), {"text": "Done."}],
            "digger": [{"text": "Dug."}],
        },
        {
            "keeper": {"listen": ["reports"], "send": ["tasks"]},
            "scout": {"listen": ["tasks"], "send": ["reports"]},
            "digger": {"listen": ["tasks"], "wires": ["keeper"]},
        },
        root="keeper",
    )
    run = await crews.start(crew, "Begin.")
    await rested(run)
    assert await heard(crews, run) == {
        ("keeper", "Begin."): 1,
        ("scout", "Dig."): 1,
        ("digger", "Dig."): 1,
        ("keeper", "Seen."): 1,
        ("keeper", "Dug."): 1,
    }
    (first, *_) = [p for p in crews.prompted(run) if p["agent"] == "scout"]
    texts = [message["content"] for message in first["messages"]]
    assert "[keeper] Dig." in texts
    assert texts[-1] == "This turn is for what keeper said in channel:tasks: Dig."
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"


async def test_a_run_rests_and_goes_on_when_somebody_speaks(crews: Site) -> None:
    crew = living(
        crews,
        {"a": [{"text": "one"}, {"text": "two"}], "b": [{"text": "three"}]},
        {"a": {"listen": ["x"], "writes": ["public"]}, "b": {"listen": ["y"], "beside": "a"}},
        idle="10m",
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.message("first", to="channel:x", by="ann")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await run.message("second", to="private:a", by="ann")
    await run.message("third", to="channel:y", by="a")  # a person may have an agent's name
    await run.wait_until(lambda view: view.steps == 3 and view.is_idle, LIMIT)
    assert await heard(crews, run) == {("a", "first"): 1, ("a", "second"): 1, ("b", "third"): 1}
    await run.message("nobody", to="channel:z")
    await run.stop()
    await run.result(LIMIT)
    (refused,) = await crews.entries(run, "CommandRejected")
    assert "nobody reads 'channel:z'" in refused.reason


async def test_it_ends_when_nothing_happens_for_long_enough(crews: Site) -> None:
    crew = living(crews, {"a": [{"text": "one"}]}, {"a": {"listen": ["x"]}}, root="a", idle="300ms")
    run, result = await crews.finish(crew, "Go.")
    assert (result.status, result.outputs["a"]["text"]) == ("completed", "one")
    assert [e.kind for e in (await crews.entries(run))[-2:]] == ["IdleStarted", "RunCompleted"]


async def test_it_ends_once_its_goal_is_reached(crews: Site) -> None:
    crew = living(
        crews,
        {"a": [calls(("set_flag", {"flag": "done"})), {"text": "end"}]},
        {"a": {"listen": ["x"], "writes_flags": ["done"]}},
        root="a",
        ends_on=["done"],
    )
    _, result = await crews.finish(crew, "Go.")
    assert (result.status, result.flags["done"]) == ("completed", True)


async def test_a_crew_may_have_a_flow_and_creatures(crews: Site) -> None:
    crew = crews.crew(
        {
            "planner": [sends("tasks", "Look."), {"text": "planned"}],
            "writer": [{"text": "written"}, {"text": "and heard"}],  # in either order
            "scout": [{"text": "found"}],
        },
        rules={
            "planner": {"send": ["tasks"]},
            "writer": {"listen": ["asides"]},
            "scout": {"listen": ["tasks"], "wires": ["channel:asides"]},
        },
        flow=["planner", "writer"],
        graph={"idle": "300ms"},
    )
    run, result = await crews.finish(crew, "Go.")
    assert result.status == "completed"
    steps = [e.step for e in await crews.entries(run, "StepStarted")]
    assert sorted(steps) == ["planner#1", "scout#1", "writer#1", "writer.inbox#1"]


async def test_who_floods_an_agent_is_heard_by_its_last_waiting_turn(crews: Site) -> None:
    crew = living(
        crews,
        {"a": [{"text": str(n)} for n in range(40)]},
        {"a": {"listen": ["x"]}},
        queue=3,
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.pause()
    await asyncio.gather(*(run.message(f"m{n}", to="channel:x") for n in range(20)))
    await run.wait_until(lambda view: len(view.frontier) == 3, LIMIT)
    await run.resume()
    await rested(run)
    entries = await crews.entries(run, "AgentsWoken")
    assert sum(len(e.to) for e in entries) == 3
    assert sum(len(e.also) for e in entries) == 17
    last = crews.prompted(run)[-1]["messages"]
    assert all(any(f"m{n}" == m["content"] for m in last) for n in range(20))
    assert "And for 17 more that came since." in last[-1]["content"]
    await run.stop()
    await run.result(LIMIT)


async def test_what_an_agent_may_not_send_to_is_refused(crews: Site) -> None:
    crew = living(
        crews,
        {"a": [sends("y", "No."), {"text": "end"}], "b": [{"text": "?"}]},
        {"a": {"listen": ["x"], "send": ["x"]}, "b": {"listen": ["y"]}},
        root="a",
        idle="300ms",
    )
    run, result = await crews.finish(crew, "Go.")
    assert result.status == "completed"
    assert not [e for e in await crews.entries(run, "AgentsWoken") if e.log == "channel:y"]
    (returned,) = await crews.entries(run, "ToolCallCompleted")
    assert not returned.ok


async def test_a_live_graph_is_changed_at_once(crews: Site) -> None:
    """Somebody comes, is heard, and goes, while another one is in the middle of a turn."""
    crew = living(
        crews,
        {
            "keeper": [calls(("gate", {"name": "open"})), {"text": "kept"}],
            "scout": [{"text": "seen"}, {"text": "seen again"}],
            "late": [{"text": "late"}],
        },
        {
            "keeper": {"listen": ["x"], "tools": ["gate"]},
            "scout": {"listen": ["y"], "beside": "keeper"},
        },
        idle="1h",
    )
    crew["tools"] = {"gate": tool("gate")}
    late = crew["agents"].pop("late")
    run = await crews.start(crew, "")
    await run.message("Go.", to="channel:x")
    await until(lambda: crews.ledger(run, "start"), "the tool")
    add = AddAgent(name="late", agent={**late, "listen": ["z"], "beside": "keeper"})
    dry = await run.change(operations=[add], dry_run=True)
    assert dry.report.at_once
    assert (await run.status()).graph_version == 1
    changed = await run.change(operations=[add, Connect(sender="scout", listener="late")])
    assert (changed.swap, changed.graph_version) == (False, 2)
    await run.message("hello", to="channel:z")
    await crews.spoken(run, "late")
    view = await run.status()
    assert [step.step for step in view.frontier] == ["keeper#1"]
    await run.change(operations=[RemoveAgent(name="late")])
    crews.open_gate(run, "open")
    await rested(run)
    changes = await crews.entries(run, "ComponentChanged")
    assert [[(e.event, e.agent) for e in change.events] for change in changes] == [
        [("CREATURE_STARTED", "late")],
        [("CREATURE_STOPPED", "late")],
    ]
    assert [change.affected_creatures for change in changes] == [("late", "scout")] * 2
    # Untouched means untouched: not even the prompt is another one.
    first, second = [p["messages"] for p in crews.prompted(run) if p["agent"] == "keeper"]
    assert second[: len(first)] == first
    assert (await run.state()).execution == 1
    await run.stop()
    await run.result(LIMIT)


async def test_who_is_stopped_and_started_is_told_as_an_event(crews: Site) -> None:
    crew = living(
        crews,
        {"a": [{"text": "one"}], "b": [{"text": "two"}]},
        {"a": {"listen": ["x"]}, "b": {"listen": ["x"]}},
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.change(disable=["b"])
    await run.message("hello", to="channel:x")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await run.change(enable=["b"])
    await run.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    told = [
        event for entry in await crews.entries(run, "DefinitionChanged") for event in entry.events
    ]
    assert [(event.event, event.agent) for event in told] == [
        ("CREATURE_STOPPED", "b"),
        ("CREATURE_STARTED", "b"),
    ]
