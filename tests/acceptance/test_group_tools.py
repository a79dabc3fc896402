"""Agents that change their own graph while it runs: workers come, are wired, work, and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

from covers import covers
from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool, until
from .test_creatures import living, rested, sends
from .test_memory import notes
from .test_splits import part_of, until_begun

QUEUE = "grouping"


def without(crew: dict[str, Any], *names: str) -> dict[str, Any]:
    """The crew before these agents come, whose replies its script has already."""
    for name in names:
        del crew["agents"][name]
    return crew


def answers(site: Site, run: Run, agent: str) -> list[str]:
    """What an agent's calls were answered, as its model saw it last."""
    last = [p["messages"] for p in site.prompted(run) if p["agent"] == agent][-1]
    return [m["content"] for m in last if m["type"] == "tool"]


@covers("C113", "C115", "C116")
async def test_a_root_brings_a_worker_and_gives_it_work_and_retires_it(crews: Site) -> None:
    crew = living(
        crews,
        {
            "root": [
                calls(
                    ("group_add_node", {"name": "digger", "prompt": "Dig.", "wires": ["root"]}),
                    ("group_channel", {"action": "add", "channel": "work", "description": "Do."}),
                    (
                        "group_channel",
                        {
                            "action": "connect",
                            "sender": "root",
                            "listener": "digger",
                            "channel": "work",
                        },
                    ),
                ),
                sends("work", "Dig here."),
                {"text": "Sent."},
                calls(("group_remove_node", {"name": "digger"})),
                {"text": "Over."},
            ],
            "digger": [{"text": "Gold."}],
        },
        {},
        root="root",
    )
    run = await crews.start(without(crew, "digger"), "Find gold.")
    await run.wait_until(lambda view: view.is_idle and view.steps == 3, LIMIT)
    changes = await crews.entries(run, "ComponentChanged")
    assert [c.affected_creatures for c in changes] == [
        ("digger", "root"),
        ("root",),
        ("digger", "root"),
        ("digger", "root"),
    ]
    assert [c.graph_version for c in changes] == [2, 3, 4, 5]
    assert {c.by for c in changes} == {"root"}
    said = answers(crews, run, "root")
    assert "The graph is v2 now. Affected: digger, root." in said[0]
    heard = [(e.log, e.by, e.to) for e in await crews.entries(run, "AgentsWoken")]
    assert heard == [
        ("public", "test", ("root",)),
        ("channel:work", "root", ("digger",)),
        ("readers:root", "digger", ("root",)),
    ]
    prompts = crews.prompted(run)
    (worker,) = [p["messages"][0]["content"] for p in prompts if p["agent"] == "digger"]
    assert "- You listen to work (Do.): root may send to it." in worker
    assert "- You work for root." in worker
    roots = [p["messages"][0]["content"] for p in prompts if p["agent"] == "root"]
    blocks = [text.partition("Your component, the agents connected with you:")[2] for text in roots]
    # Of five calls, the first knows nobody; the graph is another one after the first and the third.
    assert blocks[0] != blocks[1] == blocks[2] == blocks[3] != blocks[4]
    assert {
        text.partition("Your component, the agents connected with you:")[0] for text in roots
    } == {"You are root.\n\n"}
    assert "- digger: listens to work; is wired to root; works for root." in blocks[1]
    assert "digger" not in blocks[4]
    assert (await run.state()).execution == 1
    await run.stop()
    await run.result(LIMIT)


@covers("C114", "C115")
async def test_a_worker_that_tries_the_tools_is_refused(crews: Site) -> None:
    forged = [
        ("group_add_node", {"name": "mine", "prompt": "Help me."}),
        ("group_remove_node", {"name": "root"}),
        ("group_wire", {"name": "root", "to": "worker"}),
    ]
    crew = living(
        crews,
        {
            "root": [
                calls(
                    ("group_add_node", {"name": "worker", "like": "pattern", "wires": ["root"]}),
                    ("group_wire", {"name": "root", "to": "worker"}),
                ),
                {"text": "Go."},
                {"text": ""},
            ],
            "worker": [calls(*forged), {"text": "I may not."}],
            "pattern": [{"text": "?"}],
        },
        {"pattern": {"privileged": True, "beside": "root", "tools": []}},
        root="root",
    )
    run = await crews.start(without(crew, "worker"), "Begin.")
    await run.wait_until(lambda view: view.is_idle and view.steps == 3, LIMIT)
    denied = await crews.entries(run, "PermissionDenied")
    assert [(d.agent, d.tool, d.rule) for d in denied] == [
        ("worker", name, "tools") for name, _ in forged
    ]
    offered = answers(crews, run, "worker")
    assert all(text.startswith("Refused: ") and "group_" not in text[-30:] for text in offered)
    assert len(await crews.entries(run, "ComponentChanged")) == 2
    await run.stop()
    await run.result(LIMIT)


async def test_what_cannot_be_is_told_to_the_model_which_goes_on(crews: Site) -> None:
    crew = living(
        crews,
        {
            "root": [
                calls(
                    ("group_remove_node", {"name": "scuot"}),
                    ("group_remove_node", {"name": "root"}),
                    ("group_add_node", {"name": "no good", "prompt": "p"}),
                    ("group_add_node", {"name": "w"}),
                    ("group_channel", {"action": "connect", "sender": "root"}),
                    ("group_add_node", {"name": "scout", "prompt": "p"}),
                ),
                {"text": "So be it."},
            ],
            "scout": [{"text": "?"}],
        },
        {"scout": {"listen": ["x"], "beside": "root"}},
        root="root",
        idle="300ms",
    )
    run, result = await crews.finish(crew, "Try.")
    assert result.status == "completed"
    said = answers(crews, run, "root")
    wanted = [
        "the crew has no agent 'scuot'",
        "may not change 'root', which is privileged",
        "name",
        "Give it a prompt, or say which agent it is like.",
        "name the 'sender' and the 'listener'",
        "has an agent 'scout' already",
    ]
    assert [want for want, text in zip(wanted, said, strict=True) if want not in text] == []
    assert not await crews.entries(run, "ComponentChanged", "GraphSwapped")
    assert len(await crews.entries(run, "PermissionDenied")) == 1


async def test_a_change_that_drains_does_not_wait_for_the_call_that_asked_for_it(
    crews: Site,
) -> None:
    crew = crews.crew(
        {
            "planner": [
                calls(
                    ("group_remove_node", {"name": "writer"}),
                    ("group_add_node", {"name": "helper", "prompt": "Help.", "wires": ["planner"]}),
                ),
                {"text": "planned"},
            ],
            "writer": [{"text": "written"}],
            "last": [{"text": "last"}],
        },
        rules={"planner": {"privileged": True}},
        flow=["planner", "writer", "last"],
        graph={"idle": "300ms"},
    )
    run, result = await crews.finish(crew, "Go.")
    assert result.status == "completed"
    assert [e.step for e in await crews.entries(run, "StepStarted")] == ["planner#1", "last#1"]
    first, second = answers(crews, run, "planner")
    assert first.startswith("Accepted: ")
    assert "It holds once the running calls have ended. The graph is v2 then." in first
    assert second.startswith("Done: ")
    (swapped,) = await crews.entries(run, "GraphSwapped")
    assert (swapped.graph_version, swapped.by) == (2, "planner")
    assert result.executions == 2


@covers("C113")
async def test_people_may_have_to_approve_what_a_root_does(crews: Site) -> None:
    crew = living(
        crews,
        {
            "root": [
                calls(
                    ("group_stop_node", {"name": "scuot"}),
                    ("group_start_node", {"name": "scout"}),
                ),
                {"text": "Done."},
            ],
            "scout": [{"text": "?"}],
        },
        {"scout": {"listen": ["x"], "beside": "root"}},
        root="root",
        idle="300ms",
    )
    crew["approvals"] = {"group_stop_node": None}
    run = await crews.start(crew, "Go.")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert asked.question == "May root#1 call group_stop_node with scuot?"
    assert not await crews.entries(run, "DefinitionChanged")
    await run.edit_call(asked.id, "group_stop_node", {"name": "scout"}, by="ann")
    assert (await run.result(LIMIT)).status == "completed"
    first, second = answers(crews, run, "root")
    assert first.index('{"name": "scout"}') < first.index("Done: ") < first.index("switched off")
    assert second.startswith("Done: ")
    changed = await crews.entries(run, "DefinitionChanged")
    assert [(c.by, str(c.command)) for c in changed] == [
        ("root", "crewlog:group/root#1/2"),
        ("root", "crewlog:group/root#1/3"),
    ]


@covers("C113")
async def test_a_worker_that_dies_in_between_leaves_each_change_made_once(site: Site) -> None:
    """SIGKILL after each of the calls' stages: the change is made, and not twice."""
    number = 3
    script = [
        calls(
            ("group_add_node", {"name": f"w{n}", "prompt": "Work.", "wires": ["root"]}),
            ("group_wire", {"name": "root", "to": f"w{n}"}),
            ("gate", {"name": f"g{n}"}),
        )
        for n in range(number)
    ]
    crew = living(
        site,
        {"root": [*script, {"text": ""}]},
        {"root": {"tools": ["gate"]}},
        root="root",
    )
    crew["tools"] = {"gate": tool("gate")}
    worker = await site.start_worker(QUEUE)
    run = await site.start(crew, "Go.", queue=QUEUE)
    for n in range(number):
        gates = n + 1
        await until(lambda gates=gates: len(site.ledger(run, "start")) >= gates, f"gate {n}")
        if n % 2:  # what is applied is not stored yet, or is
            await run.wait_until(lambda view, n=n: view.graph_version >= 2 * n + 2, LIMIT)
        worker.kill()
        worker = await site.start_worker(QUEUE)
        site.open_gate(run, f"g{n}")
    await rested(run)
    changes = await site.entries(run, "ComponentChanged")
    made = Counter(str(change.command) for change in changes)
    assert len(made) == 2 * number
    assert set(made.values()) == {1}
    assert [change.graph_version for change in changes] == [*range(2, 2 * number + 2)]
    last = [p["messages"][0]["content"] for p in site.prompted(run) if p["agent"] == "root"][-1]
    assert all(f"- w{n}: is wired to root; works for root." in last for n in range(number))
    await run.stop()
    await run.result(LIMIT)
    await site.settle()
    site.end_workers(QUEUE)


@covers("C113", "C102")
async def test_who_parts_the_graph_by_a_tool_is_told_and_goes_with_its_turn(crews: Site) -> None:
    """The one that asks is the one that leaves: what it asked for does not wait for its turn."""
    cut = {"action": "disconnect", "sender": "zoe", "listener": "ann"}
    crew = living(
        crews,
        {
            "zoe": [
                calls(("group_channel", cut), ("group_add_node", {"name": "w", "prompt": "Work."})),
                {"text": "alone"},
            ],
            "ann": [{"text": "?"}],
            "bob": [{"text": "?"}],
        },
        {
            "zoe": {"privileged": True, "listen": ["z"], "send": ["bridge"]},
            "ann": {"listen": ["bridge", "y"]},
            "bob": {"listen": ["y"]},
        },
        root="ann",
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.message("Part.", to="channel:z", by="dot")
    part = part_of(crews, run, "crewlog:group/zoe#1/2", "zoe")
    await until_begun(part)
    await part.wait_until(lambda view: view.is_idle and view.steps == 1, LIMIT)
    first, second = answers(crews, part, "zoe")
    assert first.startswith("Accepted: zoe sends no more to bridge")
    assert "It holds once the calls of the agents that leave have ended." in first
    assert f"The run splits: {part.id} continues separately." in first
    # What it asked for besides is asked of the graph that it is in by then.
    assert second.startswith("Done: adds w")
    assert {*(await part.state()).agent_outputs} == {"zoe"}
    (changed,) = await crews.entries(run, "ComponentChanged")
    assert (changed.change, changed.by) == ("split", "zoe")
    (own,) = await crews.entries(part, "ComponentChanged")
    assert own.affected_creatures == ("w", "zoe")
    (prompt,) = [p["messages"][0]["content"] for p in crews.prompted(part)]
    assert (
        "bridge"
        not in prompt.partition("Your component, the agents connected with you:")[2].partition(
            "All"
        )[0]
    )
    for each in (run, part):
        await each.stop()
        await each.result(LIMIT)


@covers("C115")
async def test_nobody_is_brought_by_a_name_that_the_memory_knows(crews: Site) -> None:
    """The memory of an agent alone is under its name, and outlives its run."""
    name = "remembers-vault"
    first = crews.crew({"vault": [notes("a secret", "agent:vault"), {"text": "Kept."}]}, memory={})
    await crews.finish(first | {"crew": name})
    brings = [{"name": each, "prompt": "Tell all.", "wires": ["root"]} for each in ("vault", "new")]
    crew = crews.crew(
        {"root": [calls(*(("group_add_node", each) for each in brings)), {"text": "Over."}]},
        memory={},
        graph={"root": "root"},
    )
    run = await crews.start(crew | {"crew": name}, "Go.")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    refused, brought = answers(crews, run, "root")
    assert (
        "another agent with the name 'vault' has memories that the new one must not read" in refused
    )
    assert brought.startswith("Done: adds new.")
