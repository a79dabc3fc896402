"""`change` on the real server: the graph of a live run is replaced, and nothing is lost or doubled.

The runs stand at a gate that their tool waits at, or at a question, when they are changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, AddTool, EditAgent, EditCrew, RemoveAgent
from crewlog.errors import ChangeConflict, CommandConflict, CommandRejected
from crewlog.workflows.commands.processor import MAX_BLOCKED

from .harness import LIMIT, Site, calls, tool, until


def gated(site: Site, repeat: str | None = None) -> dict[str, Any]:
    """`a` waits at the gate `g` in mid-turn, then `b` speaks, then `c`."""
    return site.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "b": [{"text": "B"}],
            "c": [{"text": "C"}],
        },
        tools={"gate": tool("gate", repeat)},
        flow=["a", "b", "c"],
    ) | {"crew": "gated"}


def cut(crew: dict[str, Any], *flow: Any) -> dict[str, Any]:
    """The crew with another flow, and with the agents and tools that it needs."""
    named = {
        name
        for item in flow
        for name in (item if isinstance(item, list) else [item])
        if isinstance(name, str)
    }
    agents = {name: agent for name, agent in crew["agents"].items() if name in named}
    return {
        **crew,
        "agents": agents,
        "tools": crew["tools"] if named & {"a", "collector"} else {},
        "flow": list(flow),
    }


async def at_gate(site: Site, crew: Any, **options: Any) -> Run:
    run = await site.start(crew, **options)
    await until(lambda: site.ledger(run, "start"), "the tool")
    return run


async def outputs(run: Run) -> dict[str, Any]:
    result = await run.result(LIMIT)
    return {agent: found["text"] for agent, found in result.outputs.items()}


@covers("C2", "C7", "C122")
async def test_an_agent_is_added_while_a_step_is_in_flight(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    changed = await run.change(
        operations=[AddAgent(name="c", agent=crew["agents"]["c"], phase={"after": ["b"]})],
        wait=False,
    )
    assert (changed.swap, changed.graph_version) == (True, 2)
    assert (await run.status()).graph_version == 1  # it drains: the tool is under way
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    assert len(crews.ledger(run, "start")) == 1
    entries = await crews.entries(run)
    kinds = Counter(entry.kind for entry in entries)
    assert (kinds["ChangeAccepted"], kinds["GraphSwapped"], kinds["ExecutionContinuedAsNew"]) == (
        1,
        1,
        1,
    )
    order = [e.kind for e in entries if e.kind in ("ChangeAccepted", "ToolCallCompleted")]
    assert order == ["ChangeAccepted", "ToolCallCompleted"]


async def test_an_agent_is_removed_before_its_turn(crews: Site) -> None:
    run = await at_gate(crews, gated(crews))
    asyncio.get_running_loop().call_later(0.3, crews.open_gate, run, "g")
    changed = await run.change(operations=[RemoveAgent(name="b")])
    assert changed.report is not None
    assert await outputs(run) == {"a": "A", "c": "C"}


@covers("C19")
async def test_an_edited_prompt_is_what_the_next_turn_is_told(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.change(operations=[EditAgent(name="b", set={"prompt": "You are terse."})])
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B"}
    told = next(p for p in crews.prompted(run) if p["agent"] == "b")
    assert "You are terse." in str(told["messages"])


async def test_another_definition(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    changed = await run.change(definition=cut(crew, "a", ["b", "c"]), wait=False)
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    assert (await run.state()).definition == changed.definition
    assert (await run.graph()).plan["definition"] == changed.definition


async def test_a_dry_run_tells_and_records_nothing(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    before = (await run.status()).position
    new = crew
    told = await run.change(definition=new, dry_run=True)
    assert (told.graph_version, told.swap) == (2, True)
    assert "c" in told.plan["nodes"]
    assert told.report is not None
    with pytest.raises(ChangeConflict):
        await run.change(definition=new, dry_run=True, graph_version=7)
    assert (await run.status()).position == before
    assert not (await run.state()).commands
    changed = await run.change(definition=new, expect=told.definition, wait=False)
    assert changed.definition == told.definition
    crews.open_gate(run, "g")
    await run.result(LIMIT)


async def test_what_is_wrong_is_refused_and_changes_nothing(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    with pytest.raises(CommandRejected, match="nobody") as refused:
        await run.change(definition={**crew, "flow": ["a", "nobody"]}, id="bad")
    with pytest.raises(CommandRejected) as again:
        await run.change(definition={**crew, "flow": ["a", "nobody"]}, id="bad")
    assert refused.value.message.split()[:5] == again.value.message.split()[:5]
    with pytest.raises(ChangeConflict, match="graph v3"):
        await run.change(definition=crew, graph_version=3, id="stale")
    with pytest.raises(ChangeConflict):
        await run.change(definition=crew, graph_version=3, id="stale")
    with pytest.raises(ChangeConflict, match="and not to 0000"):
        await run.change(definition=crew, expect="0000")
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B"}
    refusals = await crews.entries(run, "CommandRejected")
    assert [e.command for e in refusals[:2]] == ["bad", "stale"]
    assert not await crews.entries(run, "ChangeAccepted", "GraphSwapped")


async def test_a_change_without_a_swap_takes_effect_while_another_one_drains(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.change(definition=crew, by="ana", wait=False)
    edit = EditAgent(name="b", set={"prompt": "Speak louder."})
    # The gate is shut: the answer does not wait for the swap.
    changed = await run.change(operations=[edit], timeout=LIMIT)
    assert not changed.swap
    state = await run.state()
    assert state.definition == changed.definition
    assert (state.graph_version, state.pending_change is not None) == (1, True)
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    await run.result(LIMIT)
    kinds = [
        e.kind
        for e in await crews.entries(run, "ChangeAccepted", "DefinitionChanged", "GraphSwapped")
    ]
    assert kinds == ["ChangeAccepted", "DefinitionChanged", "GraphSwapped"]
    (prompt,) = [p for p in crews.prompted(run) if p["agent"] == "b"]
    assert "Speak louder." in str(prompt["messages"])
    assert [p["agent"] for p in crews.prompted(run)][-1] == "c"


async def test_changes_that_need_a_swap_wait_for_a_pending_one(crews: Site) -> None:
    """A server allows ten updates in flight: more of them than may wait are refused."""
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.change(definition=crew, by="ana", wait=False)
    for dry in (True, False):
        with pytest.raises(ChangeConflict, match="another change by ana is pending, to graph v2"):
            # The gate is shut: an answer comes only if nothing is waited for.
            await run.change(
                definition=cut(crew, "a", "c"), graph_version=1, dry_run=dry, timeout=LIMIT
            )
    edit = EditAgent(name="c", set={"timeout": "90s"})
    versions = [None, 2] * 6
    others = (run.change(operations=[edit], graph_version=v, timeout=LIMIT) for v in versions)
    tasks = [asyncio.ensure_future(each) for each in others]
    refused = len(versions) - MAX_BLOCKED
    async with asyncio.timeout(LIMIT):
        while sum(task.done() for task in tasks) < refused:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
    await run.edit_state({"shared.told": True})
    assert (await run.state()).pending_change is not None
    assert sum(task.done() for task in tasks) == refused
    crews.open_gate(run, "g")
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    conflicts = [each for each in outcomes if isinstance(each, ChangeConflict)]
    assert len(conflicts) == refused
    assert not any(isinstance(each, BaseException) for each in outcomes if each not in conflicts)
    await run.result(LIMIT)
    rejected = [e.error_type for e in await crews.entries(run, "CommandRejected")]
    assert rejected == ["ChangeConflict"] * (refused + 1)


async def test_of_two_changes_at_once_one_wins(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    flows = [["a", "b", "c"], ["a", "c"]]
    asyncio.get_running_loop().call_later(0.5, crews.open_gate, run, "g")
    outcomes = await asyncio.gather(
        *(run.change(definition=cut(crew, *flow), graph_version=1) for flow in flows),
        return_exceptions=True,
    )
    lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(error) for error in lost] == [ChangeConflict]
    await run.result(LIMIT)
    swapped = await crews.entries(run, "GraphSwapped")
    assert [e.graph_version for e in swapped] == [2]
    rejected = await crews.entries(run, "CommandRejected")
    assert [e.error_type for e in rejected] == ["ChangeConflict"]


async def test_a_repeated_change_has_one_outcome(crews: Site) -> None:
    crew = gated(crews)
    new = crew
    run = await at_gate(crews, cut(crew, "a", "b"))
    first = await run.change(definition=new, id="once", wait=False)
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    again = await run.change(definition=new, id="once")
    assert (again.position, again.graph_version, again.swap) == (first.position, 2, True)
    with pytest.raises(CommandConflict, match="the id 'once' was used for another command"):
        await run.change(definition=cut(crew, "a", "c"), id="once")
    with pytest.raises(CommandConflict):
        await run.edit_state({"shared.ok": True}, id="once")
    await run.result(LIMIT)
    assert len(await crews.entries(run, "ChangeAccepted")) == 1


async def test_an_id_that_the_server_remembers_is_one_commands(crews: Site) -> None:
    """In one execution the server answers a repeated update id by itself, whatever is sent."""
    run = await crews.start(cut(gated(crews), {"ask": "Begin?"}, "b"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    first = await run.edit_state({"shared.ok": True}, id="x")
    assert (await run.edit_state({"shared.ok": True}, id="x", by="ana")).position == first.position
    with pytest.raises(CommandRejected, match="no node 'nowhere'") as refused:
        await run.redirect("nowhere", id="y")
    assert not isinstance(refused.value, CommandConflict)
    for id_ in ("x", "y"):
        with pytest.raises(CommandConflict, match=f"the id '{id_}' was used for another command"):
            await run.edit_state({"shared.ok": False}, id=id_)
        with pytest.raises(CommandConflict):
            await run.redirect("b", id=id_)
    sent = await run.pause(id="x")
    with pytest.raises(CommandConflict):
        await run.outcome(sent)
    assert ((await run.status()).status, (await run.state()).shared_context) == (
        "waiting",
        {"ok": True},
    )
    await run.stop()
    await run.result(LIMIT)
    with pytest.raises(CommandConflict):
        await run.edit_state({"shared.ok": False}, id="x")
    assert (await run.edit_state({"shared.ok": True}, id="x")).position == first.position


async def test_a_run_without_a_crew_is_not_changed(crews: Site) -> None:
    model = crews.script({"writer": [{"text": "W"}]})
    run = await crews.start("The writer writes.", model=model)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    with pytest.raises(CommandRejected, match="no crew yet"):
        await run.change(operations=[RemoveAgent(name="writer")])
    await run.answer("i1", "reject")
    await run.result(LIMIT)


async def test_an_open_question_keeps_its_id_over_the_swap(crews: Site) -> None:
    crew = gated(crews)
    run = await crews.start(cut(crew, {"ask": "Begin?"}, "b"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.change(definition=cut(crew, {"ask": "Begin?"}, "b", "c"))
    view = await run.status()
    assert (view.interrupts, view.graph_version, view.execution) == (("i1",), 2, 2)
    await run.answer("i1", "approve")
    assert await outputs(run) == {"b": "B", "c": "C"}


async def test_a_paused_run_swaps_and_stays_paused(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.pause("lunch", by="ana")
    crews.open_gate(run, "g")
    await run.change(definition=crew)
    view = await run.status()
    assert (view.status, view.graph_version) == ("paused", 2)
    assert "paused by ana" in view.wait_reason
    await run.resume()
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}


async def test_people_are_heard_while_it_drains(crews: Site) -> None:
    """A drain may last; only changes wait for it."""
    crew = gated(crews)
    fine = {"ask": "Fine?", "phase": "fine"}
    run = await at_gate(crews, cut(crew, ["a", fine], "b"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.change(definition=cut(crew, ["a", fine], "b", "c"), wait=False)
    await asyncio.wait_for(run.answer("i1", "approve"), LIMIT)
    assert (await run.status()).graph_version == 1
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}


async def test_a_run_that_is_stopped_does_not_swap(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    changing = asyncio.create_task(run.change(definition=cut(crew, "a", "c")))
    await run.wait_until(lambda view: view.position > 5, LIMIT)
    await until_accepted(run)
    await run.stop("enough")
    with pytest.raises(CommandRejected, match="was stopped"):
        await changing
    assert (await run.result(LIMIT)).status == "stopped"
    (failed,) = await crews.entries(run, "SwapFailed")
    assert failed.graph_version == 2
    assert crews.ledger(run, "cancelled")


async def until_accepted(run: Run) -> None:
    async with asyncio.timeout(LIMIT):
        while (await run.state()).pending_change is None:  # noqa: ASYNC110 - the run tells by a query
            await asyncio.sleep(0.02)


async def test_past_its_time_a_call_is_cancelled_and_made_again(crews: Site) -> None:
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.change(definition=crew, drain_timeout=0.2)
    assert (await run.status()).graph_version == 2
    await until(lambda: len(crews.ledger(run, "start")) == 2, "the call again")
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    starts = crews.ledger(run, "start")
    assert len({e["key"] for e in starts}) == 1
    assert len(await crews.entries(run, "ToolCallCompleted")) == 1


async def test_a_cancelled_call_that_must_not_be_repeated_asks_people(crews: Site) -> None:
    crew = gated(crews, "never")
    run = await at_gate(crews, cut(crew, "a", "b"))
    await run.change(definition=crew, drain_timeout=0.2)
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    assert (question.kind, view.graph_version) == ("outcome_unknown", 2)
    await run.answer(question.id, "done")
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    assert len(crews.ledger(run, "start")) == 1


async def test_signals_that_stream_in_over_the_swap_are_kept_in_order(crews: Site) -> None:
    crew = gated(crews)
    run = await crews.start(cut(crew, {"ask": "Begin?"}, "b"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    swaps = 5

    async def talk(sender: int) -> int:
        number = 0
        while not done.is_set():
            await run.message(f"{sender}:{number}", id=f"m-{sender}-{number}")
            number += 1
        return number

    done = asyncio.Event()
    talks = [asyncio.create_task(talk(sender)) for sender in range(4)]
    for number in range(swaps):
        more = ["c"] if number % 2 == 0 else []
        await run.change(definition=cut(crew, {"ask": "Begin?"}, "b", *more))
    done.set()
    said = await asyncio.gather(*talks)
    await run.answer("i1", "approve")
    assert await outputs(run) == {"b": "B", "c": "C"}
    added = [e.command for e in await crews.entries(run, "MessageAdded") if e.command]
    assert len(added) == len(set(added)) == sum(said)
    for sender, count in enumerate(said):
        own = [int(c.rpartition("-")[2]) for c in added if c.startswith(f"m-{sender}-")]
        assert own == list(range(count))
    assert len(await crews.entries(run, "GraphSwapped")) == swaps


@covers("C9")
async def test_a_disabled_agent_needs_no_other_graph(crews: Site) -> None:
    """What does not change the topology is in force at once, in the same execution."""
    crew = gated(crews)
    run = await at_gate(crews, crew)
    changed = await run.change(disable=["b"])
    assert (changed.swap, changed.graph_version) == (False, 1)
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert set(result.outputs) == {"a", "c"}
    assert result.executions == 1
    (ruled,) = await crews.entries(run, "DefinitionChanged")
    assert ruled.definition == changed.definition
    assert not await crews.entries(run, "ChangeAccepted", "GraphSwapped")


@covers("C8")
async def test_an_agent_that_goes_ends_its_turn_or_is_abandoned(crews: Site) -> None:
    for running, told in (("finish", {"a", "b"}), ("abandon", {"b"})):
        crew = gated(crews)
        run = await at_gate(crews, cut(crew, ["a", "b"], "c"))
        await run.wait_until(lambda view: view.completed_steps.get("b") == 1, LIMIT)
        changing = run.change(remove=["a"], running="abandon" if running == "abandon" else "finish")
        asyncio.get_running_loop().call_later(0.2, crews.open_gate, run, "g")
        changed = await changing
        assert changed.report is not None
        fates = {fate.step: fate.effect for fate in changed.report.steps}
        assert fates["a#1"] == ("finishes" if running == "finish" else "abandoned")
        result = await run.result(LIMIT)
        assert set(result.outputs) == {*told, "c"}


@covers("C11")
async def test_a_tool_that_is_added_is_usable_at_once(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "b": [calls(("say", {"text": "new"})), {"text": "B"}],
        },
        rules={"a": {"tools": ["gate"]}, "b": {"tools": []}},
        tools={"gate": tool("gate")},
        flow=["a", "b"],
    )
    run = await at_gate(crews, crew)
    changed = await run.change(
        operations=[
            AddTool(name="say", tool={**tool("echo"), "run": "added_deeds:echo"}, agents=("b",))
        ],
        wait=False,
    )
    assert not changed.swap
    crews.open_gate(run, "g")
    view = await run.wait_until(lambda view: "added_deeds" in view.wait_reason, LIMIT)
    assert "tool 'say'" in view.wait_reason
    (crews.project / "added_deeds.py").write_text("from deeds import echo\n")
    assert await outputs(run) == {"a": "A", "b": "B"}
    assert [e["text"] for e in crews.ledger(run, "start") if e["tool"] == "say"] == ["new"]


@covers("C3")
async def test_a_prompt_changes_a_run_by_the_forms(crews: Site) -> None:
    crew = crews.crew(
        {
            "collector": [calls(("gate", {"name": "g"})), {"text": "C"}],
            "writer": [{"text": "W"}],
            "checker": [{"text": "fine"}],
        },
        tools={"gate": tool("gate")},
    )
    run = await at_gate(crews, cut(crew, "collector", "writer"))
    with pytest.raises(CommandRejected, match="does not say who does what"):
        await run.change(prompt="Colourless green ideas sleep furiously.", reader="forms")
    prompt = (
        "The collector gathers the changes, then the writer drafts the notes, "
        "then the checker reviews them."
    )
    told = await run.change(prompt=prompt, reader="forms", dry_run=True)
    assert set(told.plan["nodes"]) == {"collector", "writer", "checker"}
    assert told.report is not None
    assert told.report.added == ("checker",)
    changed = await run.change(prompt=prompt, reader="forms", expect=told.definition, wait=False)
    assert changed.definition == told.definition
    crews.open_gate(run, "g")
    assert await outputs(run) == {"collector": "C", "writer": "W", "checker": "fine"}


async def test_a_prompt_that_a_model_reads_costs_the_compiler(crews: Site) -> None:
    """No reading of the model's holds: nothing is changed, and what it cost is the run's."""
    crew = gated(crews)
    run = await at_gate(crews, cut(crew, "a", "b"))
    reader = crews.script({"compiler": [{"text": "no crew"}, {"text": "still none"}] * 4})
    with pytest.raises(CommandRejected, match="the reply has no JSON object"):
        await run.change(prompt="Something quite else.", reader="model", model=reader)
    assert (await run.state()).usage["compiler"].calls > 1
    crews.open_gate(run, "g")
    assert await outputs(run) == {"a": "A", "b": "B"}


async def test_who_hears_is_no_phase_of_its_name_once_it_has_heard(crews: Site) -> None:
    """Its turns would be those of the phase, which would never run; what waits is heard."""
    crew = crews.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
            "b": [{"text": str(number)} for number in range(4)],
        },
        rules={"a": {"send": ["x"]}, "b": {"listen": ["x"]}},
        tools={"gate": tool("gate")},
        flow=["a"],
        graph={"idle": "300ms"},
    )
    run = await at_gate(crews, crew)
    for number in range(2):
        await run.message(str(number), to="channel:x")
    with pytest.raises(CommandRejected, match="'b' cannot be a phase from now on") as refused:
        await run.change(operations=[EditCrew(set={"flow": ["a", "b"]})])
    assert "Give the phase another name" in str(refused.value)
    named = EditCrew(set={"flow": ["a", {"agent": "b", "phase": "last"}]})
    await run.change(operations=[named], wait=False)
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    ended = sorted(entry.step for entry in await crews.entries(run, "StepCompleted"))
    assert ended == ["a#1", "b#1", "b#2", "last#1"]
