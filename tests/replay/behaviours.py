"""The behaviours whose histories are kept: each is a crew, and what people do to its run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowFailureError

from acceptance.builds import Deployment
from acceptance.harness import LIMIT, Site, calls, tool, until
from crewlog.client import Run
from crewlog.definition.operations import RemoveAgent
from crewlog.errors import ChangeConflict, CommandRejected, InvalidArguments, RunFailed
from readings import reply
from replay.graph_behaviours import DRIVES

Drive = Callable[[Site], Awaitable[Run | tuple[Run, ...]]]
BEHAVIOURS: dict[str, Drive] = {drive.__name__: drive for drive in DRIVES}
"""By the name of the files that keep the histories: of each execution of each run."""

PAIR: dict[str, Any] = {"a": [{"text": "A"}], "b": [{"text": "B"}]}


def behaviour(drive: Drive) -> Drive:
    BEHAVIOURS[drive.__name__] = drive
    return drive


async def _start(site: Site, name: str, crew: dict[str, Any]) -> Run:
    return await site.start(crew, id=name.replace("_", "-"))


async def _to_the_end(site: Site, name: str, crew: dict[str, Any]) -> Run:
    run = await _start(site, name, crew)
    await run.result(LIMIT)
    return run


async def _asked(run: Run) -> str:
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return view.interrupts[0]


async def _at_the_gate(site: Site, name: str) -> Run:
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate")},
    )
    run = await _start(site, name, crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


@behaviour
async def parallel_tools(site: Site) -> Run:
    """Three tools of a turn that end in another order than they were called: one is held."""
    batch = calls(("nap", {"seconds": 0.3}), ("echo", {"text": "x"}), ("nap", {"seconds": 0.15}))
    tools = {"nap": tool("nap"), "echo": tool("echo")}
    return await _to_the_end(
        site, "parallel_tools", site.crew({"a": [batch, {"text": "A"}]}, tools=tools)
    )


@behaviour
async def loop(site: Site) -> Run:
    """A decision that goes back twice, and then on."""
    crew = site.crew({"a": [{"text": f"draft {i}"} for i in range(3)]}, flags={"good": False})
    crew["flow"] = ["a", {"if": "not good", "go": "a", "at_most": 2, "else": "next"}]
    return await _to_the_end(site, "loop", crew)


@behaviour
async def join_quorum(site: Site) -> Run:
    """Two of three lanes are enough for what follows; the third comes after it."""
    late = [calls(("nap", {"seconds": 0.5})), {"text": "late"}]
    crew = site.crew({**PAIR, "late": late, "after": [{"text": "on"}]}, tools={"nap": tool("nap")})
    crew["flow"] = [{"parallel": ["a", "b", "late"], "join": 2}, "after"]
    return await _to_the_end(site, "join_quorum", crew)


@behaviour
async def interrupt_answered(site: Site) -> Run:
    """A question whose answer sets a flag and skips a phase; and a break before a node."""
    flow = [{"ask": "Go?", "sets": "go"}, "a", {"agent": "b", "only_if": "not go"}]
    run = await _start(site, "interrupt_answered", site.crew(PAIR, flow=flow))
    question = await _asked(run)
    await run.interrupt("a", by="ana", id="break")
    await run.answer(question, "approve", by="ana", id="yes")
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    await run.answer("i2", "approve", by="ana", id="on")
    await run.result(LIMIT)
    return run


@behaviour
async def pause_resume(site: Site) -> Run:
    """A pause while a tool runs, a message while it stands still, and nonsense."""
    run = await _at_the_gate(site, "pause_resume")
    await run.pause("lunch", by="ana", id="p1")
    site.open_gate(run, "g")
    await run.wait_until(lambda v: v.status == "paused" and not v.frontier[0].calls, LIMIT)
    await run.message("Be brief.", by="ana", id="m1")
    await site.temporal.get_workflow_handle(run.id).signal("dance", {"id": "d1"})
    await run.resume(by="ana", id="r1")
    await run.result(LIMIT)
    return run


@behaviour
async def refused_by_name(site: Site) -> Run:
    """A signal and an update that are not possible: their refusals name who sent them."""
    run = await _at_the_gate(site, "refused_by_name")
    await run.resume(by="ana", id="r1")
    with suppress(CommandRejected):
        await run.set_permission("nothing", [], by="ben", id="s1")
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


@behaviour
async def stop(site: Site) -> Run:
    """The signal `stop` while a tool runs."""
    run = await _at_the_gate(site, "stop")
    await run.stop("enough", by="ana", id="s1")
    await run.result(LIMIT)
    return run


@behaviour
async def cancel(site: Site) -> Run:
    """Temporal's cancel while a tool runs."""
    run = await _at_the_gate(site, "cancel")
    await run.cancel()
    await until_ended(run)
    return run


async def until_ended(run: Run) -> None:
    async for _ in run.events():
        pass


@behaviour
async def continue_as_new(site: Site) -> Run:
    """Several executions: lanes with parallel tools are cut in mid-turn, a join in its middle."""
    batch = calls(("nap", {"seconds": 0.05}), ("echo", {"text": "x"}))
    calls_of = {"lane0": 2, "lane1": 10}  # one lane has arrived at the join while the other works
    agents: dict[str, Any] = {
        lane: [*[batch] * count, {"text": "done"}] for lane, count in calls_of.items()
    }
    tools = {"nap": tool("nap"), "echo": tool("echo")}
    crew = site.crew({**agents, "end": [{"text": "E"}]}, tools=tools, limits={"events": 50})
    crew["agents"]["closer"] = crew["agents"].pop("end")
    crew["model"] = site.script({**agents, "closer": [{"text": "E"}]})
    crew["flow"] = [list(agents), "closer"]
    return await _to_the_end(site, "continue_as_new", crew)


@behaviour
async def leaves_when_nothing_is_in_flight(site: Site) -> Run:
    """A call outlasts the history's length: another lane goes on, then waits; then all leave."""
    crew = site.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "c": [{"text": "C"}],
            "d": [{"text": "D"}],
        },
        tools={"gate": tool("gate")},
        limits={"events": 50},
    )
    crew["flow"] = [
        {"agent": "a", "after": []},
        {"ask": "Go?", "phase": "q", "after": []},
        {"agent": "c", "after": ["q"]},
        {"ask": "On?", "phase": "r"},
        {"agent": "d", "after": ["r"]},
    ]
    run = await _start(site, "leaves-when-nothing-is-in-flight", crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    await _asked(run)
    await _fill(site, run, 52)
    await run.answer("i1", "approve", id="yes")
    await run.wait_until(lambda view: "i2" in view.interrupts, LIMIT)
    await _fill(site, run, 78)
    await run.answer("i2", "approve", id="on")
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


async def _fill(site: Site, run: Run, events: int) -> None:
    """Talks to a run until its history has that many events."""
    handle = site.temporal.get_workflow_handle(run.id)
    while (length := (await handle.describe()).history_length) < events:
        await run.message(f"{length}", id=f"m{length}")


@behaviour
async def change_refused(site: Site) -> Run:
    """A change drains behind a call: a change of the old graph, and a rollback, are refused."""
    run = await _at_the_gate(site, "change_refused")
    places = (await run.checkpoints()).checkpoints
    await run.change(operations=[RemoveAgent(name="b")], id="first", wait=False)
    with suppress(ChangeConflict):
        await run.change(
            operations=[RemoveAgent(name="a")], id="second", graph_version=1, wait=False
        )
    with suppress(ChangeConflict):
        await run.rollback(places[0].position, id="third")
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


@behaviour
async def denied_tool(site: Site) -> Run:
    """A tool that the crew's permissions refuse, and one that there is not."""
    batch = calls(("echo", {"text": "x"}), ("nothing", {}))
    crew = site.crew(
        {"a": [batch, {"text": "A"}]}, tools={"echo": tool("echo")}, permissions={"echo": []}
    )
    return await _to_the_end(site, "denied_tool", crew)


@behaviour
async def for_each(site: Site) -> Run:
    """A step for each of three items, two at a time, over two executions; a list of their texts."""
    agents = {
        "a": [calls(("set_output", {"key": "list", "value": ["x", "y", "z"]})), {"text": "A"}],
        "b": [calls(("nap", {"seconds": 0.05})), {"text": "B"}],
        "c": [{"text": "C"}],
    }
    crew = site.crew(
        agents,
        rules={"a": {"outputs": ["list"]}},
        tools={"nap": tool("nap")},
        limits={"events": 50, "parallel": 2},
        merge={"b.text": "append"},
        flow=["a", {"agent": "b", "for_each": "a.list"}, "c"],
    )
    return await _to_the_end(site, "for_each", crew)


@behaviour
async def pool(site: Site) -> Run:
    """Items that name their agents and wait for each other, two at a time; one of them fails."""
    items = [
        {"id": "page", "agent": "web", "after": ["api", "db"], "task": "x" * 300},
        {"id": "api", "agent": "back", "after": "db"},
        {"id": "db", "agent": "back"},
        {"id": "logo", "agent": "art"},
        {"id": "news", "agent": "web"},
    ]
    plan = calls(("set_output", {"key": "list", "value": items}))
    nap = [calls(("nap", {"seconds": 0.05})), {"text": "built"}]
    said = {"back": nap, "web": nap, "art": [{"fail": "refused"}]}
    crew = site.crew(
        {"a": [plan, {"text": "A"}], **said, "c": [{"text": "C"}]},
        rules={"a": {"outputs": ["list"]}, "art": {"on_error": "continue"}},
        tools={"nap": tool("nap")},
        limits={"events": 50},
        merge={"back.text": "append"},
        flow=[
            "a",
            {"phase": "work", "for_each": "a.list", "by": "agent", "among": [*said], "at_once": 2},
            "c",
        ],
    )
    return await _to_the_end(site, "pool", crew)


@behaviour
async def tool_approval(site: Site) -> Run:
    """Two calls of a tool that needs a yes: one is approved, one refused; a third is held."""
    batch = calls(("risky", {"text": "x"}), ("risky", {"text": "y"}), ("echo", {"text": "z"}))
    tools = {"risky": tool("echo", "never", effects="external"), "echo": tool("echo")}
    crew = site.crew({"a": [batch, {"text": "A"}]}, tools=tools, approvals={"risky": None})
    run = await _start(site, "tool_approval", crew)
    await run.wait_until(
        lambda view: len(view.interrupts) == 2 and not view.frontier[0].calls, LIMIT
    )
    await run.answer("i2", "not that one", by="ana", id="no")
    await run.answer("i1", "approve", by="ana", id="yes")
    await run.result(LIMIT)
    return run


@behaviour
async def edited_arguments(site: Site) -> Run:
    """People answer a call with other arguments: a worker refuses some, and then takes others."""
    crew = site.crew(
        {"a": [calls(("risky", {"text": "x"})), {"text": "A"}]},
        tools={"risky": tool("echo", "never", effects="external")},
        approvals={"risky": None},
    )
    run = await _start(site, "edited_arguments", crew)
    question = await _asked(run)
    with suppress(InvalidArguments):
        await run.edit_call(question, "risky", {"txt": "y"}, by="ana", id="wrong")
    await run.edit_call(question, "risky", {"text": "y"}, by="ana", id="right")
    await run.result(LIMIT)
    return run


@behaviour
async def step_failed_retried(site: Site) -> Run:
    """A model that refuses; people let it try again."""
    run = await _start(
        site, "step_failed_retried", site.crew({"a": [{"fail": "refused"}, {"text": "A"}]})
    )
    await run.answer(await _asked(run), "retry", by="ana", id="again")
    await run.result(LIMIT)
    return run


STAND_IN: list[Any] = [
    {"agent": "b", "after": "go"},
    {"agent": "c", "after": {"any": ["a", "b"]}},
]


@behaviour
async def step_stands_in(site: Site) -> Run:
    """A model that refuses; another phase runs in the place of the step."""
    said = {"a": [{"fail": "refused"}], "b": [{"text": "B"}], "c": [{"text": "C"}]}
    flow = [{"agent": "a", "on_error": "b"}, *STAND_IN]
    return await _to_the_end(site, "step_stands_in", site.crew(said, flow=flow))


@behaviour
async def step_times_out(site: Site) -> Run:
    """A step hangs twice: people let it try again, and then skip it; another one has a stand-in."""
    hangs = [calls(("gate", {"name": "g"})), {"text": "A"}]
    said = {
        "a": hangs,
        "b": [{"text": "B"}],
        "c": [{"text": "C"}],
        "d": hangs,
        "e": [{"text": "E"}],
    }
    first = {"agent": "d", "timeout": "1s", "on_error": "ask"}
    flow = [first, {"agent": "a", "timeout": "1s", "on_error": "b"}, *STAND_IN, "e"]
    tools = {"gate": tool("gate", "safe", effects="read")}
    run = await _start(site, "step_times_out", site.crew(said, flow=flow, tools=tools))
    await run.answer(await _asked(run), "retry", by="ana", id="again")
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    await run.answer("i2", "skip", by="ana", id="skip")
    await run.result(LIMIT)
    return run


@behaviour
async def condition_unmet(site: Site) -> Run:
    """A condition that nothing is left to make true: people waive it."""
    flow = ["a", {"agent": "b", "when": "ready"}]
    run = await _start(site, "condition_unmet", site.crew(PAIR, flow=flow, flags={"ready": False}))
    await run.answer(await _asked(run), "set", by="ana", id="set")
    await run.result(LIMIT)
    return run


@behaviour
async def bad_start(site: Site) -> Run:
    """A definition that is none: the run fails, and says why."""
    await site.temporal.start_workflow(
        "CrewRun",
        {"crew": {"crew": "x"}},
        id="bad-start",
        task_queue="shared",
        execution_timeout=timedelta(seconds=LIMIT),
    )
    with suppress(WorkflowFailureError):
        await site.temporal.get_workflow_handle("bad-start").result()
    return site.client().run("bad-start")


PROMPT = "The collector gathers the changes, then the writer drafts the notes. Make it snappy."
READING = reply(
    ("collector", "gathers the changes", [1]),
    ("writer", "drafts the notes and makes them snappy", [2, 3]),
    of=3,
)


async def _prompted(site: Site, name: str, *answers: str) -> Run:
    """A run with a prompt; a model reads it, as is given."""
    said = [{"text": text} for text in (*answers, READING)]
    model = site.script({"compiler": said, "*": [{"text": "done"}]})
    id_ = name.replace("_", "-")
    return await site.start(PROMPT, id=id_, reader="model", model=model)


async def _definition(run: Run) -> dict[str, Any]:
    (question,) = await run.interrupts()
    return question.action_requests[0]["args"]["definition"]


@behaviour
async def prompt_approved(site: Site) -> Run:
    """A prompt whose reading is mended, a wrong edit, a right one, what is said before there is a
    crew, a pause over the approval, and the crew."""
    run = await _prompted(site, "prompt_approved", "Sure!")
    await _asked(run)
    definition = await _definition(run)
    with suppress(CommandRejected):
        await run.edit("i1", {**definition, "flow": ["nobody"]}, by="ana", id="wrong")
    await run.edit("i1", {**definition, "description": "edited"}, by="ana", id="edit")
    await run.message("Be brief.", by="ana", id="m1")
    await run.pause(by="ana", id="p1")
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    (question,) = await run.interrupts()
    await run.answer("i2", "approve", by="ana", id="yes", about=question.hash)
    await run.resume(by="ana", id="r1")
    await run.result(LIMIT)
    return run


@behaviour
async def prompt_rejected(site: Site) -> Run:
    """A prompt whose crew people reject, with a message that no crew ever gets."""
    run = await _prompted(site, "prompt_rejected")
    await _asked(run)
    await run.message("Be brief.", by="ana", id="m1")
    await run.answer("i1", "reject", by="ana", id="no", reason="no tester")
    await run.result(LIMIT)
    return run


@behaviour
async def prompt_invalid(site: Site) -> Run:
    """A prompt whose model answers nonsense to the end."""
    run = await _prompted(site, "prompt_invalid", *["What?"] * 4)
    with suppress(RunFailed):
        await run.result(LIMIT)
    return run


@behaviour
async def prompt_continued(site: Site) -> Run:
    """A prompt whose question is carried to another execution, with a message, and answered."""
    run = await _prompted(site, "prompt_continued")
    await _asked(run)
    edited = {**await _definition(run), "limits": {"events": 50}}
    await run.edit("i1", edited, by="ana", id="edit")
    await run.message("Be brief.", by="ana", id="m1")
    number = 0
    while (await run.status()).execution == 1:
        number += 1
        await run.pause(by="ana", id=f"p{number}")
        await run.resume(by="ana", id=f"r{number}")
        await run.wait_until(lambda view: view.status == "waiting", LIMIT)
    await run.answer("i2", "approve", by="ana", id="yes")
    await run.result(LIMIT)
    return run


@behaviour
async def prompt_stopped(site: Site) -> Run:
    """The signal `stop` while a model reads the prompt."""
    model = site.script({"compiler": [{"stall": 60, "text": "late"}]})
    run = await site.start(PROMPT, id="prompt-stopped", reader="model", model=model)
    await until(lambda: site.prompted(run), "the model")
    await run.stop("enough", by="ana", id="s1")
    await run.result(LIMIT)
    return run


@behaviour
async def moves_to_another_build(site: Site) -> Run:
    """Pinned to a build until another one is current, then continued as new on that one."""
    deployment = Deployment(site, "crewlog")
    await deployment.make_current(await deployment.build("a"), "a")
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate", heartbeat=30)},
    )
    run = await site.start(crew, id="moves-to-another-build", queue=deployment.name)
    await until(lambda: site.ledger(run, "start"), "the gate")
    await deployment.make_current(await deployment.build("b"), "b")
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


@behaviour
async def timers(site: Site) -> Run:
    """Waits side by side: one that gives way to an earlier one, and one that ends in a pause."""
    crew = site.crew(
        {"slow": [calls(("nap", {"seconds": 1.2})), {"text": "S"}], **PAIR},
        tools={"nap": tool("nap")},
        rules={"slow": {"writes_flags": ["ready"]}},
    )
    bounded = {"agent": "b", "after": [], "when": "ready", "within": "2s", "else": "skip"}
    crew["flow"] = [["slow", {"wait": "500ms", "phase": "short"}], {"wait": "2s"}, "a", bounded]
    run = await _start(site, "timers", crew)
    await run.wait_until(lambda view: any(s.node == "wait_1" for s in view.frontier), LIMIT)
    await run.pause(by="ops")
    await asyncio.sleep(2.5)
    await run.resume(by="ops")
    await run.result(LIMIT)
    return run


@behaviour
async def asked(site: Site) -> Run:
    """Asked with the start, over several executions: said once, and answered by the last."""
    batch = calls(("nap", {"seconds": 0.02}), ("nap", {"seconds": 0.01}))
    crew = site.crew(
        {"a": [*[batch] * 9, {"text": "A"}]}, tools={"nap": tool("nap")}, limits={"events": 50}
    )
    run = site.client().run("asked")
    site.runs.append(run)
    await site.client().ask(crew, "Well?", id=run.id, by="test", timeout=LIMIT)
    return run


@behaviour
async def ruled(site: Site) -> Run:
    """People rule while a call is under way: it is in the store before they are answered."""
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), calls(("echo", {"text": "x"})), {"text": "A"}]},
        tools={"gate": tool("gate"), "echo": tool("echo")},
    )
    crew["rules"] = [{"tool": "*", "quota": "5 per run"}, {"tool": "echo", "quota": "9 per day"}]
    run = await _start(site, "ruled", crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    await run.rule("a", "echo", "deny", by="ana", id="r1")
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


@behaviour
async def replies(site: Site) -> Run:
    """A decision: garbage up to a question, a retry, garbage up to the good; then a capped turn."""
    plan = [{"id": f"s{n}", "agent": "b", "task": "a part of it " * 9} for n in range(4)]
    good = {"text": json.dumps({"steps": plan})}
    bad = [{"text": "hm"}, {"text": '{"steps": []}'}]
    look = calls(("echo", {"text": "x"}), text="So far.")
    crew = site.crew(
        {"a": [*bad, *bad[:1], good], "b": [look, look]},
        rules={
            "a": {"reply": {"decision": "plan", "among": ["b"], "tries": 2}},
            "b": {"max_calls": 1, "on_cap": "end"},
        },
        tools={"echo": tool("echo")},
        flow=["a", "b"],
    )
    run = await _start(site, "replies", crew)
    await run.answer(await _asked(run), "retry", by="ana", id="again")
    await run.result(LIMIT)
    return run


@behaviour
async def talks_over_executions(site: Site) -> Run:
    """Turns, messages that wait for theirs, an answer by `ask`, and continuing as new between."""
    bye = calls(("set_flag", {"flag": "bye", "value": True}))
    agents = {"a": [{"when": "bye", "of": "people", **bye}, {"when": ".", "text": "A"}]}
    crew = site.crew(
        agents,
        rules={"a": {"writes_flags": ["bye"]}},
        conversation={"idle": "1h", "ends_on": ["bye"]},
        limits={"events": 50},
    )
    run = await _start(site, "talks_over_executions", crew)
    await run.wait_until(lambda view: view.wait_reason.startswith("the next"), LIMIT)
    for number in range(3):
        await asyncio.gather(*(run.send(f"{number}.{n}", id=f"m{number}{n}") for n in range(3)))
    await run.message("bye")
    await run.result(LIMIT)
    return run


@behaviour
async def artifacts(site: Site) -> Run:
    """Operations that are held, left out, settled by the next reply and refused; and notes."""
    new = {"op": "add", "path": "/a", "value": {}}
    inner = {"op": "add", "path": "/a/b", "value": 1}
    none = {"op": "remove", "path": "/none"}
    batch = calls(
        ("change", {"operations": [new], "after": "g"}),
        ("change", {"operations": [inner, none]}),
        ("note", {"text": "look again"}),
    )
    again = calls(("change", {"operations": [{"op": "merge", "path": "/a", "value": {"c": 2}}]}))
    crew = site.crew(
        {"a": [batch, *[again] * 6, {"text": "A"}], "b": [again, {"text": "B"}]},
        rules={"a": {"scratch": {"most": 3}}},
        tools={"change": {"run": "building:change", "effects": "read", "heartbeat": 1}},
        artifacts={"doc": {"writers": ["a"], "schema": {"required": ["a"]}}},
        limits={"events": 50},
    )
    run = await _start(site, "artifacts", crew)

    async def held() -> bool:
        kinds = [item.data["kind"] for item in (await run.journal()).entries]
        return kinds.count("CompletionBuffered") == 2

    async with asyncio.timeout(LIMIT):
        while not await held():  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.05)
    site.open_gate(run, "g")
    await run.result(LIMIT)
    return run


@behaviour
async def agents_change_their_graph(site: Site) -> Run:
    """Group tools: applied in their order, refused, denied; and one that the run drains for."""
    crew = site.crew(
        {
            "root": [
                calls(
                    ("group_add_node", {"name": "w", "prompt": "Work.", "wires": ["root"]}),
                    ("group_wire", {"name": "root", "to": "w"}),
                    ("group_remove_node", {"name": "nobody"}),
                    ("group_remove_node", {"name": "root"}),
                    ("group_remove_node", {"name": "late"}),
                ),
                {"text": "Go."},
                calls(("group_remove_node", {"name": "w"}), ("set_flag", {"flag": "over"})),
                {"text": ""},
            ],
            "w": [{"text": "Done."}],
            "late": [{"text": "?"}],
        },
        rules={"root": {"writes_flags": ["over"], "privileged": True}},
        graph={"ends_on": ["over"]},
        flow=["root", "late"],
    )
    del crew["agents"]["w"]
    return await _to_the_end(site, "agents_change_their_graph", crew)
