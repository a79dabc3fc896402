"""Behaviours of graphs that become several runs, or one: the histories of all of them are kept."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from acceptance.harness import LIMIT, RUN_LIMIT, Site, calls, tool, until
from acceptance.test_splits import part_of, until_begun
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Connect, Disconnect, EditCrew, RemoveAgent
from crewlog.errors import CommandRejected
from crewlog.ids import AgentName, RunId
from crewlog.workflows.commands.changes import SPLIT_AT_START


async def _living(
    site: Site, name: str, agents: dict[str, Any], edges: dict[str, Any], **more: Any
) -> Run:
    crew = site.crew(agents, rules=edges, graph={}, **more)
    return await site.start(crew, "", id=name)


async def _stop(*runs: Run, id: str = "s1") -> None:
    for each in runs:
        await each.stop(by="ana", id=id)
        await each.result(LIMIT)


async def graph_parts(site: Site) -> tuple[Run, ...]:
    """One leaves with her turn, for which nobody else waits; and both graphs go on."""
    run = await _living(
        site,
        "graph-parts",
        {
            "ann": [calls(("gate", {"name": "g"})), {"text": "1"}, {"text": "2"}],
            "bob": [{"text": "3"}],
            "cid": [{"text": "4"}],
        },
        {
            "ann": {"listen": ["x"], "send": ["bridge"]},
            "bob": {"listen": ["bridge", "y"]},
            "cid": {"listen": ["y"]},
        },
        tools={"gate": tool("gate")},
    )
    await run.wait_until(lambda view: view.is_idle, LIMIT)
    await run.message("work", to="channel:x", by="ana", id="m1")
    await until(lambda: site.ledger(run, "start"), "the gate")
    cut = Disconnect(sender="ann", listener="bob")
    changed = await run.change(operations=[cut], by="ana", id="cut", wait=False)
    await run.message("meanwhile", to="channel:y", by="ana", id="m2")
    await run.wait_until(lambda view: view.steps == 3 and len(view.frontier) == 1, LIMIT)
    site.open_gate(run, "g")
    await run.swapped(changed)
    part = part_of(site, run, "cut", "ann")
    await until_begun(part)
    await part.message("after", to="channel:x", by="ana", id="m3")
    await part.wait_until(lambda view: view.steps == 4 and view.is_idle, LIMIT)
    await _stop(run, part)
    return run, part


async def graph_parts_in_debt(site: Site) -> tuple[Run, ...]:
    """Its budget is used up when it parts: each part asks for its share, and goes on with that."""
    used = {"usage": {"input": 30, "output": 10}}
    run = await _living(
        site,
        "graph-parts-in-debt",
        {
            "ann": [{"text": str(number), **used} for number in range(3)],
            "bob": [],
            "cid": [],
        },
        {
            "ann": {"listen": ["x"], "send": ["bridge"]},
            "bob": {"listen": ["bridge", "y"]},
            "cid": {"listen": ["y"]},
        },
        limits={"tokens": 60},
    )
    await run.wait_until(lambda view: view.is_idle, LIMIT)
    for number in (1, 2):
        await run.message("work", to="channel:x", by="ana", id=f"m{number}")
        await run.wait_until(lambda view, n=number: view.steps == n and view.is_idle, LIMIT)
    await run.message("more", to="channel:x", by="ana", id="m3")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    cut = Disconnect(sender="ann", listener="bob")
    changed = await run.change(operations=[cut], by="ana", id="cut", wait=False)
    await run.swapped(changed)
    part = part_of(site, run, "cut", "ann")
    await until_begun(part)
    await part.wait_until(lambda view: bool(view.interrupts), LIMIT)
    [asked] = await part.interrupts()
    await part.answer(asked.id, "go on", by="ana", id="r1")
    await part.wait_until(lambda view: view.steps == 3 and view.is_idle, LIMIT)
    await _stop(run, part)
    return run, part


async def graphs_join(site: Site) -> tuple[Run, ...]:
    """The smaller one joins once its call has landed, its turn goes on in the other one, and what
    is said to it meanwhile is handed on."""
    one = await _living(
        site,
        "graphs-join-one",
        {"ann": [], "bob": []},
        {"ann": {"listen": ["x"], "send": ["y"]}, "bob": {"listen": ["y"]}},
    )
    two = await _living(
        site,
        "graphs-join-two",
        {"dan": [calls(("gate", {"name": "g"})), {"text": "went on"}, {"text": "2"}]},
        {"dan": {"listen": ["z"]}},
        tools={"gate": tool("gate")},
    )
    for each in (one, two):
        await each.wait_until(lambda view: view.is_idle, LIMIT)
    await two.message("work", to="channel:z", by="ana", id="m1")
    await until(lambda: site.ledger(two, "start"), "the gate")
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("dan"), channel="tie", other=RunId(two.id)
    )
    changed = await one.change(operations=[tie], by="ana", id="tie", wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    await two.message("meanwhile", to="channel:z", by="ana", id="m2")
    site.open_gate(two, "g")
    await one.merged(changed)
    await two.result(LIMIT)
    # The first turn counts where it began, the second one here.
    await one.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await one.stop(by="ana", id="s1")
    await one.result(LIMIT)
    return one, two


async def graphs_ask_each_other(site: Site) -> tuple[Run, ...]:
    """Two requests that meet: one gives way, and one merge comes about."""
    agents = {"ann": [{"text": "A"}], "bob": [{"text": "B"}]}
    edges = {"ann": {"listen": ["x"], "send": ["y"]}, "bob": {"listen": ["y"]}}
    one = await _living(site, "graphs-ask-one", agents, edges)
    more = {"dan": [{"text": "D"}]}
    two = await _living(site, "graphs-ask-two", more, {"dan": {"listen": ["z"]}})
    for each in (one, two):
        await each.wait_until(lambda view: view.is_idle, LIMIT)

    await asyncio.gather(
        one.change(operations=[_tie("ann", "dan", two)], by="ana", id="there"),
        two.change(operations=[_tie("dan", "ann", one)], by="ben", id="back"),
        return_exceptions=True,
    )
    await two.result(LIMIT)
    await one.stop(by="ana", id="s1")
    await one.result(LIMIT)
    return one, two


async def graphs_ask_in_a_ring(site: Site) -> tuple[Run, ...]:
    """Three requests in a ring: one gives way, and one is answered when its run is in no merge."""
    runs: list[Run] = []
    for name in ("ann", "bob", "cid"):
        says, edges = {name: [{"text": name}]}, {name: {"listen": [f"for-{name}"]}}
        runs.append(await _living(site, f"graphs-ring-{name}", says, edges))
        await runs[-1].wait_until(lambda view: view.is_idle, LIMIT)
    one, two, three = runs
    await asyncio.gather(
        one.change(operations=[_tie("ann", "bob", two)], by="ana", id="first"),
        two.change(operations=[_tie("bob", "cid", three)], by="ana", id="second"),
        three.change(operations=[_tie("cid", "ann", one)], by="ana", id="third"),
        return_exceptions=True,
    )
    for each in runs:
        if not (await each.state()).is_ended:
            await each.stop(by="ana", id="s1")
    for each in runs:
        await each.result(LIMIT)
    return one, two, three


async def graph_is_asked_while_it_joins(site: Site) -> tuple[Run, ...]:
    """Another run asks one that joins, and waits for a call: it joins all the same, and ends."""
    runs: list[Run] = []
    for name, gated in (("ann", False), ("bob", True), ("cid", False)):
        says = [calls(("gate", {"name": "g"})), {"text": name}] if gated else [{"text": name}]
        edges = {name: {"listen": [f"for-{name}"]}}
        tools = {"tools": {"gate": tool("gate")}} if gated else {}
        runs.append(await _living(site, f"graph-is-asked-{name}", {name: says}, edges, **tools))
        await runs[-1].wait_until(lambda view: view.is_idle, LIMIT)
    one, two, three = runs
    await two.message("work", to="channel:for-bob", by="ana", id="m1")
    await until(lambda: site.ledger(two, "start"), "the gate")
    first = await one.change(operations=[_tie("ann", "bob", two)], id="first", wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    second = await three.change(operations=[_tie("cid", "bob", two)], id="second", wait=False)
    site.open_gate(two, "g")
    await one.merged(first)
    with suppress(CommandRejected):
        await three.merged(second)
    await two.result(LIMIT)
    await _stop(one, three)
    return one, two, three


def _tie(sender: str, listener: str, other: Run) -> Connect:
    return Connect(
        sender=AgentName(sender),
        listener=AgentName(listener),
        channel=f"to-{listener}",
        other=RunId(other.id),
    )


async def begins_in_pieces(site: Site) -> tuple[Run, ...]:
    """A crew of which no channel leads from some to the others: they begin in a run each."""
    run = await _living(
        site,
        "begins-in-pieces",
        {"ann": [{"text": "1"}], "bob": [{"text": "2"}], "cid": [{"text": "3"}]},
        {"ann": {"listen": ["x"]}, "bob": {"listen": ["y"]}, "cid": {"listen": ["y"]}},
    )
    part = part_of(site, run, f"{SPLIT_AT_START}/1", "ann")
    await until_begun(part)
    await part.message("here", to="channel:x", by="ana", id="m1")
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await run.message("there", to="channel:y", by="ana", id="m2")
    await run.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    await _stop(run, part)
    return run, part


async def goes_on_from_its_recipe(site: Site) -> tuple[Run, ...]:
    """A run that was parted goes on as its crew is written: it rests anew, and is parted anew."""
    run = await _living(
        site,
        "goes-on-from-its-recipe",
        {"ann": [{"text": "1"}, {"text": "2"}], "bob": [{"text": "3"}], "cid": [{"text": "4"}]},
        {"ann": {"listen": ["x"]}, "bob": {"listen": ["y"]}, "cid": {"listen": ["y"]}},
    )
    part = part_of(site, run, f"{SPLIT_AT_START}/1", "ann")
    await until_begun(part)
    await run.message("there", to="channel:y", by="ana", id="m1")
    await run.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    await _stop(run, part)
    await run.reopen("recipe", by="ana", execution_timeout=RUN_LIMIT)
    again = part_of(site, run, f"{SPLIT_AT_START}/2", "ann")
    await until_begun(again)
    await again.message("here", to="channel:x", by="ana", id="m2")
    await again.wait_until(lambda view: view.steps == 3 and view.is_idle, LIMIT)
    await _stop(run, again, id="s2")
    return run, again


async def hears_apart_from_phases(site: Site) -> tuple[Run, ...]:
    """Who has heard is made a phase of its name, which is refused; then of another one."""
    run = await _living(
        site,
        "hears-apart-from-phases",
        {
            "ann": [calls(("gate", {"name": "g"})), {"text": "1"}],
            "bob": [{"text": "2"}, {"text": "3"}],
        },
        {"ann": {"send": ["x"]}, "bob": {"listen": ["x"]}},
        tools={"gate": tool("gate")},
        flow=["ann"],
    )
    await until(lambda: site.ledger(run, "start"), "the gate")
    await run.message("here", to="channel:x", by="ana", id="m1")
    await run.wait_until(lambda view: view.steps == 2 and len(view.frontier) == 1, LIMIT)
    with suppress(CommandRejected):
        own = EditCrew(set={"flow": ["ann", "bob"]})
        await run.change(operations=[own], by="ana", id="c1", wait=False)
    other = EditCrew(set={"flow": ["ann", {"agent": "bob", "phase": "last"}]})
    changed = await run.change(operations=[other], by="ana", id="c2", wait=False)
    site.open_gate(run, "g")
    await run.swapped(changed)
    await run.wait_until(lambda view: view.steps == 3 and view.is_idle, LIMIT)
    await _stop(run)
    return (run,)


async def has_again_what_waited(site: Site) -> tuple[Run, ...]:
    """Who is removed in mid-turn, with two turns waiting, comes back: each of them once."""
    own: dict[str, Any] = {
        "ann": [],
        "bob": [calls(("gate", {"name": "g"})), {"text": "1"}, {"text": "2"}, {"text": "3"}],
    }
    edges = {"ann": {"send": ["x"], "listen": ["y"]}, "bob": {"listen": ["x"]}}
    name, tools = "has-again-what-waited", {"gate": tool("gate")}
    crew = site.crew(own, rules=edges, graph={}, tools=tools)
    run = await site.start(crew, "", id=name)
    await run.wait_until(lambda view: view.is_idle, LIMIT)
    await run.message("1", to="channel:x", by="ana", id="m1")
    await until(lambda: site.ledger(run, "start"), "the gate")
    for number in (2, 3):
        await run.message(str(number), to="channel:x", by="ana", id=f"m{number}")
    bob = crew["agents"]["bob"]
    for id_, change in (
        ("go", RemoveAgent(name="bob")),
        ("back", AddAgent(name="bob", agent=bob)),
    ):
        await run.change(operations=[change], by="ana", id=id_)
    site.open_gate(run, "g")
    await run.wait_until(lambda view: view.steps == 3 and view.is_idle, LIMIT)
    await _stop(run)
    return (run,)


async def may_where_it_goes_what_people_let_it(site: Site) -> tuple[Run, ...]:
    """Who comes into another run may call there what people let it, though its crew does not."""
    one = await _living(
        site,
        "may-where-it-goes-one",
        {"ann": [], "bob": []},
        {"ann": {"listen": ["x"], "send": ["y"]}, "bob": {"listen": ["y"]}},
    )
    two = await _living(
        site,
        "may-where-it-goes-two",
        {"dan": [calls(("gate", {"name": "g"})), {"text": "may"}]},
        {"dan": {"listen": ["z"]}},
        tools={"gate": tool("gate")},
        permissions={"gate": []},
    )
    for each in (one, two):
        await each.wait_until(lambda view: view.is_idle, LIMIT)
    await two.set_permission("gate", ["dan"], by="ana", id="p1")
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("dan"), channel="tie", other=RunId(two.id)
    )
    changed = await one.change(operations=[tie], by="ana", id="tie", wait=False)
    await one.merged(changed)
    await two.result(LIMIT)
    site.open_gate(one, "g")
    await one.message("work", to="channel:z", by="ana", id="m1")
    await one.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await _stop(one)
    assert site.ledger(one, "start"), "it called it"
    return one, two


async def ends_turns_of_who_was_removed(site: Site) -> tuple[Run, ...]:
    """Who was removed in mid-turn ends it: before its run is part of another one; or beside who
    comes, and calls what it might."""
    gate = {"gate": tool("gate")}
    one = await _living(
        site,
        "ends-turns-one",
        {
            "ann": [],
            "bob": [*(calls(("gate", {"name": name})) for name in "gh"), {"text": "1"}],
        },
        {"ann": {"send": ["x"]}, "bob": {"listen": ["x"]}},
        tools=gate,
        permissions={"gate": ["bob"]},
    )
    two = await _living(
        site,
        "ends-turns-two",
        {"dan": [calls(("gate", {"name": "g"})), {"text": "2"}], "eve": [{"text": "heard"}]},
        {"dan": {"listen": ["z"], "send": ["w"]}, "eve": {"listen": ["w"]}},
        tools=gate,
    )
    work = ((one, "x", "bob"), (two, "z", "dan"))
    for run, channel, name in work:
        await run.wait_until(lambda view: view.is_idle, LIMIT)
        await run.message("work", to=f"channel:{channel}", by="ana", id="m1")
        await until(lambda run=run: site.ledger(run, "start"), "the gate")
        if name == "dan":
            await run.message("more", to=f"channel:{channel}", by="ana", id="m2")
        await run.change(operations=[RemoveAgent(name=name)], by="ana", id="go")
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("eve"), channel="tie", other=RunId(two.id)
    )
    changed = await one.change(operations=[tie], by="ana", id="tie", wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    site.open_gate(two, "g")
    await one.merged(changed)
    await two.result(LIMIT)
    for name in "gh":
        site.open_gate(one, name)
    await one.wait_until(lambda view: view.is_idle, LIMIT)
    await _stop(one)
    assert len(site.ledger(one, "start", tool="gate")) == 2, "it went on calling"
    done = {run.id: [e.step for e in await site.entries(run, "StepCompleted")] for run, *_ in work}
    assert "bob#1" in done[one.id]
    assert "dan#1" in done[two.id]
    return one, two


DRIVES = (
    graph_parts,
    graph_parts_in_debt,
    graphs_join,
    graphs_ask_each_other,
    graphs_ask_in_a_ring,
    graph_is_asked_while_it_joins,
    begins_in_pieces,
    goes_on_from_its_recipe,
    hears_apart_from_phases,
    has_again_what_waited,
    may_where_it_goes_what_people_let_it,
    ends_turns_of_who_was_removed,
)
