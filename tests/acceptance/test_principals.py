"""Signed commands on the real path: what is not proven or not allowed has no effect, and is told.

Commands go through Temporal's own client too, as anybody sends them who reaches the server.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from crewlog.authority.signatures import START, Signature
from crewlog.client import Client, Run, keys, starting
from crewlog.definition.load import load_data
from crewlog.definition.operations import EditAgent, EditCrew, EditPermission, RemoveAgent
from crewlog.errors import NotPermitted, RunFailed
from crewlog.evaluation import Case, Plan, StageOutput, Verdict, evaluate, exact
from crewlog.ids import LogName
from crewlog.payload_storage.converter import data_converter
from crewlog.state.calls import STORE_BATCH
from crewlog.usage import Usage
from crewlog.wire import WORKFLOW_TYPE, InitialMessage, InitialState
from crewlog.workers.workflow_runner import CrewRunner
from crewlog.workflows.commands.unauthenticated_signals import MAX_REJECTIONS
from crewlog.workflows.crew_run import CrewRun
from crewlog.workflows.sdk_workarounds import CrewRunInterceptor

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool, until

RIGHTS: dict[str, list[str]] = {
    "ada": ["view", "answer", "operate", "change", "grant"],
    "oncall": ["view", "operate"],
    "dev": ["change"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("keys")
    for name in (*RIGHTS, "eve"):
        keys.make(name, where)
    return where


def policy(folder: Path, **rights: list[str]) -> dict[str, Any]:
    principals = {
        name: {"key": keys.load(name, folder).public, "rights": given}
        for name, given in (rights or RIGHTS).items()
    }
    return {"mode": "signed", "principals": principals}


def client(site: Site, folder: Path, name: str | None) -> Client:
    made = site.client()
    made.use_key(str(folder / f"{name}.pem") if name else None)
    return made


async def at_a_gate(site: Site, folder: Path) -> Run:
    """A signed run that ada started, whose tool stands at a gate; she has it in her hands."""
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate")},
        flow=["a", "b"],
    )
    owner = client(site, folder, "ada")
    run = await owner.start(
        crew | {"policy": policy(folder), "permissions": {"gate": ["a", "b"]}},
        "go",
        by="mallory",
        execution_timeout=RUN_LIMIT,
    )
    site.runs.append(run)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


def of(site: Site, folder: Path, name: str | None, run: Run) -> Run:
    return client(site, folder, name).run(run.id)


async def refusals(run: Run) -> list[dict[str, Any]]:
    """What the run says of those whom it did not let in."""
    found = [item.data for item in (await run.journal(limit=1000)).entries]
    return [e for e in found if e.get("error_type") == "NotPermitted"]


async def raw(
    site: Site, run: Run, name: str, content: dict[str, Any], id: str | None = None
) -> None:
    """An update as Temporal's own client sends it."""
    try:
        handle = site.temporal.get_workflow_handle(run.id)
        await handle.execute_update(name, content, id=id)
    except WorkflowUpdateFailedError as error:
        kind = error.cause.type if isinstance(error.cause, ApplicationError) else None
        if kind == "NotPermitted":
            raise NotPermitted(str(error.cause)) from error
        raise


async def test_only_proven_and_allowed_commands_have_an_effect(crews: Site, folder: Path) -> None:
    run = await at_a_gate(crews, folder)
    nobody, eve, oncall, dev = (of(crews, folder, n, run) for n in (None, "eve", "oncall", "dev"))
    paused = await nobody.pause(id="p1", by="ada")
    await eve.pause(id="p2", by="ada")
    await dev.pause(id="p3", by="ada")
    with pytest.raises(NotPermitted, match="has no signature"):
        await nobody.edit_state({"shared.x": 1}, by="ada")
    with pytest.raises(NotPermitted, match="which no principal has"):
        await eve.change(operations=[EditAgent(name="b", set={"prompt": "Obey."})], dry_run=True)
    with pytest.raises(NotPermitted, match="the right 'operate', which 'dev' does not have"):
        await dev.rollback(1)
    with pytest.raises(NotPermitted, match="the right 'grant', which 'oncall' does not have"):
        await oncall.set_permission("gate", ["b"])
    with pytest.raises(NotPermitted, match="the right 'answer', which 'oncall' does not have"):
        await oncall.answer("i1", "approve")
    set_permission = {"id": "s1", "by": "ada", "tool": "gate", "agents": ["b"]}
    with pytest.raises(NotPermitted, match="has no signature"):
        await raw(crews, run, "set_permission", set_permission, id="s1")
    assert (await run.status()).status == "running"
    told = await refusals(run)
    assert [(e["name"], e["by"]) for e in told] == [
        ("pause", "unverified ada"),
        ("pause", "unverified ada"),
        ("pause", "dev"),
        ("edit_state", "unverified ada"),
        ("change", f"unverified {nobody._session.user}"),
        ("rollback", "dev"),
        ("set_permission", "oncall"),
        ("answer", "oncall"),
        ("set_permission", "unverified ada"),
    ]
    outcome = await nobody.outcome(paused)
    assert outcome is not None
    assert (outcome.ok, outcome.error_type) == (False, "NotPermitted")
    # An id that somebody tried who was not let in is still free.
    assert (await run.set_permission("gate", ["a"], id="s1")).id == "s1"
    await oncall.pause(id="p1", by="mallory")
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    await run.resume()
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert [e.by for e in await crews.entries(run, "Paused")] == ["oncall"]
    assert [e.by for e in await crews.entries(run, "RunStarted")] == ["ada"]
    history = await crews.temporal.get_workflow_handle(run.id).fetch_history()
    replayer = Replayer(
        workflows=[CrewRun],
        workflow_runner=CrewRunner(),
        data_converter=data_converter(crews.payloads),
        namespace=crews.temporal.namespace,  # what is encrypted is bound to it
        interceptors=[CrewRunInterceptor()],
    )
    await replayer.replay_workflow(history)
    assert not (await run.rebuild()).missing


async def test_a_flood_of_unproven_signals_is_counted(crews: Site, folder: Path) -> None:
    run = await at_a_gate(crews, folder)
    handle = crews.temporal.get_workflow_handle(run.id)
    for first in range(0, MAX_REJECTIONS + 40, 20):
        names = range(first, first + 20)
        await asyncio.gather(*(handle.signal("pause", {"id": f"s{n}", "by": "x"}) for n in names))
    dev = of(crews, folder, "dev", run)
    await dev.pause(id="known")
    with pytest.raises(NotPermitted, match="has no signature"):
        await raw(crews, run, "ask", {"id": "q", "by": "x"})
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    told = await crews.entries(run, "CommandRejected")
    assert [e.by for e in told] == [*["unverified x"] * MAX_REJECTIONS, "dev", "unverified x", ""]
    assert told[-1].reason == "and 40 more signals that have no valid signature"
    assert {e.error_type for e in told} == {"NotPermitted"}


async def test_what_was_signed_holds_as_it_was_signed(crews: Site, folder: Path) -> None:
    run, other = await at_a_gate(crews, folder), await at_a_gate(crews, folder)
    key = keys.load("ada", folder)
    asked = {"id": "e1", "by": "ada", "set": {"shared.x": 1}}
    here = crews.temporal.namespace
    good = key.signed(run.id, "edit_state", asked, here)
    proof = Signature.from_json(good["proof"])
    late = {**good, "proof": proof.model_copy(update={"expires": int(time.time() * 1000) - 1})}
    wrong: list[tuple[Run, str, dict[str, Any]]] = [
        (other, "edit_state", good),
        (run, "edit_state", {**good, "set": {"shared.x": 2}}),
        (run, "edit_state", {**good, "by": "eve"}),
        (run, "edit_state", key.signed(run.id, "edit_state", asked, "another")),
        (run, "edit_state", key.signed(run.id, "edit_state", asked, "")),
        (run, "edit_state", {**good, "reason": "another"}),
        (run, "edit_state", {**good, "id": "e2"}),
        (run, "edit_state", {**late, "proof": late["proof"].to_json()}),
        (run, "edit_state", {**asked, "proof": None}),
        (run, "ask", {"id": "e1", "by": "ada", "text": "x", "proof": good["proof"]}),
        (run, "ask", {"id": "e1"}),
    ]
    for place, name, content in wrong:
        with pytest.raises(NotPermitted):
            await raw(crews, place, name, content)
    assert (await run.state()).shared_context == {}
    assert len(await refusals(run)) == len(wrong) - 1
    await raw(crews, run, "edit_state", good)
    assert (await run.state()).shared_context == {"x": 1}
    crews.open_gate(run, "g")
    crews.open_gate(other, "g")
    assert (await run.result(LIMIT)).status == "completed"
    assert (await other.result(LIMIT)).status == "completed"


async def test_an_approval_of_a_deleted_run_is_none_of_the_next_one(
    crews: Site, folder: Path
) -> None:
    """The next run of the id has another crew's calls, and knows nothing of the old commands."""
    crew = crews.crew(
        {"a": [calls(("risky", {"text": "5"})), {"text": "A"}]},
        tools={"risky": {**tool("echo"), "risk": "high"}},
        interrupts={"approve_risk": "high"},
    )
    crew["policy"] = policy(folder)
    owner = client(crews, folder, "ada")
    run = await owner.start(crew, "go", execution_timeout=RUN_LIMIT)
    asked = {"id": "yes", "by": "ada", "interrupt": "i1", "decisions": [{"type": "approve"}]}
    key = keys.load("ada", folder)
    yes = key.signed(run.id, "answer", asked, crews.temporal.namespace)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await raw(crews, run, "answer", yes)
    await run.result(LIMIT)
    await owner.delete(run.id)
    again = await owner.start(crew, "go", id=run.id, execution_timeout=RUN_LIMIT)
    crews.runs.append(again)
    await again.wait_until(lambda view: bool(view.interrupts), LIMIT)
    with pytest.raises(NotPermitted, match="another run of this id has used this"):
        await raw(crews, again, "answer", yes)
    await again.answer("i1", "reject")
    await again.result(LIMIT)
    assert len(crews.ledger(run, "start", tool="echo")) <= 1


async def test_a_rollback_of_a_signed_run_is_in_the_store_when_it_is_answered(
    crews: Site, folder: Path
) -> None:
    """Forks are judged by the policy that is there; and its tool's call is not over yet."""
    run = await at_a_gate(crews, folder)
    await run.pause()
    (first, *_) = (await run.checkpoints()).checkpoints
    await run.rollback(first.position)
    assert len(await crews.entries(run, "RunRolledBack")) == 1
    crews.open_gate(run, "g")
    await run.resume()
    assert (await run.result(LIMIT)).status == "completed"


async def test_a_rollback_gives_back_no_permission_that_people_took_away(
    crews: Site, folder: Path
) -> None:
    """Of all agents and of one: it stays as it is by now, whoever goes back."""
    run = await at_a_gate(crews, folder)
    (first, *_) = (await run.checkpoints()).checkpoints
    await run.pause()
    await run.set_permission("gate", ["b"])
    await run.deny("b", "gate")
    ruled = await run.state()
    with pytest.raises(NotPermitted, match="agent a may call gate, which is forbidden now"):
        await of(crews, folder, "oncall", run).rollback(first.position)
    await run.rollback(first.position)
    assert await crews.entries(run, "RunRolledBack")
    state = await run.state()
    assert (state.tool_permissions, state.live_permissions) == (
        ruled.tool_permissions,
        ruled.live_permissions,
    )
    assert state.live_permissions
    for agent in ("a", "b"):
        assert (await run.why(agent, "gate")).outcome == "deny"
    await run.stop()
    crews.open_gate(run, "g")
    await run.result(LIMIT)


async def test_nobody_from_outside_uses_the_ids_of_the_run_itself(
    crews: Site, folder: Path
) -> None:
    """No policy asks for the proof of what a run itself does."""
    run = await at_a_gate(crews, folder)
    handle = crews.temporal.get_workflow_handle(run.id)
    await handle.signal("stop", {"id": "crewlog:cancel", "by": "mallory"})
    await handle.signal("pause", {"id": "crewlog:x", "by": "mallory"})
    for name, content in (
        ("edit_state", {"set": {"shared.x": 1}}),
        ("set_permission", {"tool": "gate", "agents": ["a"]}),
        ("change", {"operations": [{"op": "edit_agent", "name": "b", "set": {"prompt": "X"}}]}),
    ):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(name, {"id": f"crewlog:{name}", "by": "ada", **content})
        assert "are the run's own" in str(refused.value.cause)
    state = await run.state()
    assert (state.status, state.shared_context) == ("running", {})
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    told = [e.reason for e in await crews.entries(run, "CommandRejected")]
    assert len(told) == 2
    assert all("are the run's own" in reason for reason in told)


async def test_a_change_widens_nothing_without_grant(crews: Site, folder: Path) -> None:
    run = await at_a_gate(crews, folder)
    dev, owner = of(crews, folder, "dev", run), run
    added = {"shell": tool("note") | {"description": "x"}}
    for other in (policy(folder, dev=["grant"]), None):
        with pytest.raises(
            NotPermitted, match=r"policy.*needs the right 'grant', which 'dev' does not have"
        ):
            await dev.change(operations=[EditCrew(set={"policy": other})])
    definition = (await owner.state()).definition
    base = await crews.store.get_definition(definition)
    with pytest.raises(NotPermitted, match="added tool shell"):
        await dev.change(definition={**base, "tools": {**base["tools"], **added}}, dry_run=True)
    await owner.set_permission("gate", [])
    await dev.change(operations=[EditPermission(tool="gate", agents=("a",))])
    assert (await owner.state()).tool_permissions["gate"] == (), "what people set stays in force"
    await owner.set_permission("gate", None)
    with pytest.raises(NotPermitted, match="permission to call gate: a → a and b"):
        await dev.change(operations=[EditPermission(tool="gate", agents=("a", "b"))])
    rotated = policy(folder, eve=RIGHTS["ada"])
    await owner.pause()  # it swaps all the same, and does not end before the others have spoken
    crews.open_gate(run, "g")
    await owner.change(operations=[EditCrew(set={"policy": rotated})])
    with pytest.raises(NotPermitted, match="which no principal has"):
        await owner.edit_state({"shared.x": 1})
    await of(crews, folder, "eve", run).stop()
    assert (await run.result(LIMIT)).status == "stopped"


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not look itself whether a run would be let begin."""
    monkeypatch.setattr(starting, "check_start", lambda *_: None)


@pytest.mark.usefixtures("careless")
async def test_who_may_not_start_a_run_of_a_signed_crew(crews: Site, folder: Path) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}) | {"policy": policy(folder)}
    for name in (None, "eve", "dev"):
        run = await client(crews, folder, name).start(crew, "go", execution_timeout=RUN_LIMIT)
        with pytest.raises(RunFailed, match=r"has no signature|no principal has|needs the right"):
            await run.result(LIMIT)
        with pytest.raises(WorkflowFailureError) as failed:
            await crews.temporal.get_workflow_handle(run.id).result()
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == "NotPermitted"
    answer = await client(crews, folder, "oncall").ask(crew, "go", execution_timeout=RUN_LIMIT)
    assert answer.status == "completed"


@pytest.mark.usefixtures("careless")
async def test_what_a_run_begins_with_is_held_to_the_rules_of_edits_and_messages(
    crews: Site, folder: Path
) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Go?", "sets": "ok"}, "a"])
    signed = crew | {"policy": policy(folder)}
    body = {"type": "ai", "content": "I did it.", "name": "a"}
    yes = InitialState(values={"flags.ok": True})
    said = InitialState(messages=(InitialMessage(body=body, log=LogName("private:a")),))
    lost = InitialState(logs=(LogName("private:b"),))
    for who, what, given, kind in (
        ("oncall", signed, yes, "NotPermitted"),
        ("ada", signed, said, "NotPermitted"),
        ("ada", crew, lost, "InvalidStart"),
    ):
        run = await client(crews, folder, who).start(
            what, "go", initial_state=given, execution_timeout=RUN_LIMIT
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await crews.temporal.get_workflow_handle(run.id).result()
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == kind


async def test_a_stage_of_a_signed_crew_is_not_tried_on_what_others_said(
    crews: Site, folder: Path
) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}) | {"policy": policy(folder)}
    owner = client(crews, folder, "ada")

    async def tried(*messages: dict[str, Any]) -> str:
        of = {"stage": "a", "input": {"messages": list(messages)}, "expected": {"text": "A"}}
        case = Case.from_json(of)

        async def compare(case: Case, got: StageOutput, _: str) -> tuple[Verdict, Usage]:
            return exact(case, got), Usage()

        plan = Plan(uuid4().hex, load_data(crew), {1: case}, [None], compare)
        return (await evaluate(owner, plan)).outcome

    assert await tried({"type": "human", "content": "go"}) == "passed"
    with pytest.raises(NotPermitted, match="no person says") as refused:
        await tried({"type": "ai", "content": "hello", "name": "b"})
    assert "without `policy`" in refused.value.remedy


async def test_who_would_be_refused_is_told_before_anything_begins_or_ends(
    crews: Site, folder: Path
) -> None:
    run = await at_a_gate(crews, folder)
    crew = crews.crew({"a": [{"text": "A"}]})
    signed = crew | {"policy": policy(folder)}
    (first, *_) = (await run.checkpoints()).checkpoints
    for name in (None, "eve", "dev"):
        whose = client(crews, folder, name)
        with pytest.raises(NotPermitted, match="nothing was started"):
            await whose.start(signed, "go", id=f"{run.id}-x")
        for other in (crew, signed):
            with pytest.raises(NotPermitted, match="nothing was started"):
                await whose.start(other, "go", id=run.id, existing="replace")
        with pytest.raises(NotPermitted, match="nothing was started"):
            await whose.run(run.id).fork(first.position)
        with pytest.raises(NotPermitted, match="nothing was started"):
            await whose.schedules.create(f"{run.id}-s", signed, every=timedelta(days=1))
    assert (await run.status()).status == "running"
    await run.stop()
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "stopped"
    with pytest.raises(NotPermitted, match="nothing was started"):
        await of(crews, folder, "dev", run).resume()
    oncall = client(crews, folder, "oncall")
    again = await oncall.start(
        crew, "go", id=run.id, existing="replace", execution_timeout=RUN_LIMIT
    )
    assert (await again.result(LIMIT)).status == "completed"
    history = await crews.temporal.get_workflow_handle(run.id).fetch_history()
    begun = history.events[0].workflow_execution_started_event_attributes
    (sent,) = await data_converter(crews.payloads).decode(begun.input.payloads)
    assert sent["queue"] == oncall.task_queue


@pytest.mark.usefixtures("careless")
async def test_a_fork_and_a_resumption_shed_no_policy(crews: Site, folder: Path) -> None:
    run = await at_a_gate(crews, folder)
    crews.open_gate(run, "g")
    await run.result(LIMIT)
    (first, *_) = (await run.checkpoints()).checkpoints
    nobody, oncall = of(crews, folder, None, run), of(crews, folder, "oncall", run)
    free = [EditCrew(set={"policy": None})]
    for whose, operations, why in (
        (nobody, [], "has no signature"),
        (oncall, free, "the right 'change', which 'oncall' does not have"),
    ):
        forked = await whose.fork(
            first.position, operations=operations, execution_timeout=RUN_LIMIT
        )
        with pytest.raises(RunFailed, match=why):
            await forked.result(LIMIT)
    moved = {"fork": {"run": run.id, "position": first.position}, "by": "x", "queue": "elsewhere"}
    elsewhere = keys.load("oncall", folder).signed(
        f"{run.id}-q", START, moved, crews.temporal.namespace
    )
    refused = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        elsewhere,
        id=f"{run.id}-q",
        task_queue=run._session.task_queue,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await refused.result()
    assert "'elsewhere'" in str(failed.value.cause)
    forked = await oncall.fork(first.position, execution_timeout=RUN_LIMIT)
    crews.runs.append(forked)
    crews.open_gate(forked, "g")
    assert (await forked.result(LIMIT)).status == "completed"
    assert [e.by for e in await crews.entries(forked, "RunForked")] == ["oncall"]


@pytest.mark.usefixtures("careless")
async def test_a_run_that_goes_on_after_its_end_keeps_its_policy(crews: Site, folder: Path) -> None:
    run = await at_a_gate(crews, folder)
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"
    await of(crews, folder, "dev", run).resume()
    with pytest.raises(RunFailed, match="the right 'operate', which 'dev' does not have"):
        await run.result(LIMIT)
    crews.open_gate(run, "g")
    await of(crews, folder, "oncall", run).resume()
    assert (await run.result(LIMIT)).status == "completed"
    assert [e.by for e in await crews.entries(run, "RunReopened")] == ["oncall"]


async def test_who_may_not_change_a_crew_goes_on_with_no_other_recipe(
    crews: Site, folder: Path
) -> None:
    run = await at_a_gate(crews, folder)
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"
    written = await crews.store.get_definition((await run.state()).definition)
    written["agents"]["a"]["prompt"] = "Do otherwise."
    oncall = of(crews, folder, "oncall", run)
    await oncall.reopen("recipe", recipe=written, execution_timeout=RUN_LIMIT)
    with pytest.raises(RunFailed, match="the right 'change', which 'oncall' does not have"):
        await run.result(LIMIT)
    assert not await crews.entries(run, "RunReopened")
    await oncall.reopen("recipe", execution_timeout=RUN_LIMIT)
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"


async def test_a_signed_start_is_used_once(crews: Site, folder: Path) -> None:
    """Whoever can read a history has the start, and sends it again: by Temporal's own client."""
    ada = client(crews, folder, "ada")
    script = [calls(("echo", {"text": "once"})), calls(("gate", {"name": "g"})), {"text": "A"}]
    crew = crews.crew({"a": script}, tools={"echo": tool("echo"), "gate": tool("gate")})
    crew |= {"policy": policy(folder), "permissions": {"echo": ["a"], "gate": ["a"]}}

    async def stopped(run: Run, made: int) -> None:
        await until(lambda: len(crews.ledger(run, "start")) == made, "the gate")
        await run.stop()
        assert (await run.result(LIMIT)).status == "stopped"

    async def refused_again(run: Run) -> None:
        handle = crews.temporal.get_workflow_handle(run.id)
        begun = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        (sent,) = await data_converter(crews.payloads).decode(begun.input.payloads)
        before = await crews.journal(run)
        # The last character of a signature has bits that say nothing: it is spelt in many ways.
        proof, spelt = sent["proof"], sent["proof"]["signature"]
        other = proof | {"signature": f"{spelt[:-3]}{chr(ord(spelt[-3]) + 1)}=="}
        again = await crews.temporal.start_workflow(
            WORKFLOW_TYPE,
            sent | {"proof": other},
            id=run.id,
            task_queue=begun.task_queue.name,
            execution_timeout=RUN_LIMIT,
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await again.result()
        assert "this start was used before" in str(failed.value.cause)
        assert await crews.journal(run) == before

    run = await ada.start(crew, "go", execution_timeout=RUN_LIMIT)
    await stopped(run, 2)
    await refused_again(run)
    await ada.start(crew, "go", id=run.id, existing="replace", execution_timeout=RUN_LIMIT)
    await stopped(run, 4)
    await refused_again(run)
    await run.resume()
    await stopped(run, 5)
    await refused_again(run)
    forked = await run.fork(3, execution_timeout=RUN_LIMIT)
    crews.open_gate(forked, "g")
    assert (await forked.result(LIMIT)).status == "completed"
    await refused_again(forked)


async def test_another_policy_is_stored_before_anybody_is_told_of_it(
    crews: Site, folder: Path
) -> None:
    run = await at_a_gate(crews, folder)
    rotated = policy(folder, eve=RIGHTS["ada"])
    await run.pause()
    changes = [EditCrew(set={"policy": rotated}), RemoveAgent(name="b")]
    await run.change(operations=changes, wait=False)
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    eve = of(crews, folder, "eve", run)
    first = crews.temporal.get_workflow_handle(run.id, run_id=await first_execution(crews, run))
    events = (await first.fetch_history()).events
    named = [
        e.activity_task_scheduled_event_attributes.activity_type.name
        for e in events
        if e.HasField("activity_task_scheduled_event_attributes")
    ]
    assert named[-1] == STORE_BATCH
    (start, *_) = (await eve.checkpoints()).checkpoints
    await eve.rollback(start.position)
    await crews.stored(run)
    row = await crews.store.get_run(run.id)
    assert row is not None
    assert row.definition == (await eve.state()).definition
    assert (await run.status()).status == "paused"
    await run.stop()  # the policy is ada's again
    assert (await run.result(LIMIT)).status == "stopped"


async def first_execution(site: Site, run: Run) -> str:
    described = await site.temporal.get_workflow_handle(run.id).describe()
    found = described.raw_description.workflow_execution_info.first_run_id
    return str(found)
