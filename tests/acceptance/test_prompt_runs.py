"""Runs that are started with a prompt: compiled, asked about, approved, and only then run."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from covers import covers
from crewlog.canonical_json import hash_json
from crewlog.client import Run
from crewlog.definition.model import CrewDefinition
from crewlog.errors import ApprovalMismatch, CommandRejected, InterruptNotOpen, InvalidPrompt
from readings import reading, reply

from .harness import LIMIT, SHARED, Site

PROMPT = """\
# Release notes

The collector gathers the changes, then the writer drafts the notes.
Make it snappy.
"""
GATHERS = ("collector", "gathers the changes", [2])
DRAFTS = ("writer", "drafts the notes and makes them snappy", [3, 4])
GOOD = {"text": reply(GATHERS, DRAFTS, of=4, crew="release-notes")}
PLAIN = "# Notes\n\nThe collector gathers the changes, then the writer drafts the notes."
"""What the forms understand, too."""
LOOPED = """\
# Release notes

The collector gathers the changes, then the writer drafts the notes.
If it finds gaps, back to the collector.
"""
GAPS = {"clauses": [4], "agent": "writer", "name": "gaps", "kind": "boolean", "values": []}
BACK = {"clauses": [4], "at": "writer", "if": "writer.gaps", "to": "collector", "at_most": 0}
ASSUMED = {
    "text": reply(
        GATHERS,
        ("writer", "drafts the notes", [3]),
        of=4,
        crew="release-notes",
        outputs=[GAPS],
        loops=[{**BACK, "then": ""}],
    )
}
"""A reading of `LOOPED`, which says no bound: one is assumed."""
WORK = {"collector": [{"text": "C"}], "writer": [{"text": "W"}]}


def model(site: Site, *answers: dict[str, Any], **more: Any) -> str:
    """A model that compiles as is given, and then plays the crew."""
    return site.script({"compiler": list(answers), **WORK, "*": [{"text": "?"}]}, **more)


async def begun(site: Site, *answers: dict[str, Any], **options: Any) -> Run:
    prompt = options.pop("prompt", PROMPT)
    given = {"reader": "model", "model": model(site, *(answers or (GOOD,))), **options}
    return await site.start(prompt, "v2..HEAD", **given)


async def asked(run: Run, number: int = 1) -> Any:
    await run.wait_until(lambda view: view.interrupts == (f"i{number}",), LIMIT)
    (question,) = await run.interrupts()
    return question


def definition_of(question: Any) -> dict[str, Any]:
    (action,) = question.action_requests
    assert action["name"] == "run_crew"
    return action["args"]["definition"]


async def kinds(site: Site, run: Run) -> list[str]:
    return [entry.kind for entry in await site.entries(run)]


@covers("C4", "C30")
async def test_a_prompt_runs_once_it_is_approved(crews: Site) -> None:
    run = await begun(crews)
    question = await asked(run)
    assert (question.kind, question.options) == ("approval", ("approve", "reject"))
    definition = definition_of(question)
    assert question.hash == hash_json(definition) == question.action_requests[0]["args"]["hash"]
    assert question.hash in question.detail
    assert definition["agents"]["writer"]["prompt"].endswith("and makes them snappy.")
    assert question.action_requests[0]["args"]["remarks"] == []
    assert question.review_configs[0]["allowed_decisions"] == ["approve", "reject", "edit"]
    assert not [p for p in crews.prompted(run) if p["agent"] != "compiler"]

    view = await run.status()
    assert (view.status, view.crew) == ("waiting", "release-notes")
    graph = await run.graph()
    assert list(graph.plan["nodes"]) == ["collector", "writer"]
    await run.answer("i1", "approve", by="ana", about=question.hash)
    result = await run.result(LIMIT)
    assert result.outputs["writer"]["text"] == "W"
    assert result.usage["compiler"].calls == 1
    state = await run.state()
    assert state.definition == question.hash == state.prompt.approved
    assert (state.prompt.reader, state.prompt.rounds) == ("model", 1)
    assert await crews.store.get_bodies([state.prompt.text]) == {state.prompt.text: PROMPT}
    told = await kinds(crews, run)
    assert told[:8] == [
        "PromptReceived",
        "PromptRead",
        "PromptCompiled",
        "InterruptRaised",
        "InterruptAnswered",
        "DefinitionApproved",
        "RunStarted",
        "MessageAdded",
    ]
    row = await crews.store.get_run(run.id)
    assert (row.crew, row.definition, row.started_by) == ("release-notes", question.hash, "test")
    assert row.started_at == state.started_at == (await crews.entries(run, "PromptReceived"))[0].at


async def test_what_is_assumed_is_told_with_its_place_where_people_are_asked(crews: Site) -> None:
    run = await begun(crews, ASSUMED, prompt=LOOPED)
    question = await asked(run)
    (remark,) = question.action_requests[0]["args"]["remarks"]
    assert (remark["code"], remark["severity"]) == ("assumed", "warning")
    assert (remark["line"], remark["column"]) == (4, 1)
    told = "4:1  the prompt states no bound for going back to collector: 3 times is assumed"
    assert told in question.detail
    assert question.question == "Run the crew 'release-notes', with 1 remark?"
    assert definition_of(question)["flow"][-1]["at_most"] == 3
    await run.answer("i1", "reject")
    assert (await run.result(LIMIT)).status == "stopped"


async def test_the_bare_update_approves(crews: Site) -> None:
    run = await begun(crews)
    question = await asked(run)
    answer = {
        "id": "a1",
        "by": "ana",
        "interrupt": "i1",
        "hash": question.hash,
        "decisions": [{"type": "approve"}],
    }
    handle = crews.temporal.get_workflow_handle(run.id)
    accepted = await handle.execute_update("answer", answer, id="a1")
    assert (accepted["id"], accepted["detail"]) == ("a1", "approve")
    again = await run.answer("i1", "approve", id="a1")
    assert again.position == accepted["position"]
    assert (await run.result(LIMIT)).status == "completed"


async def test_a_rejection_ends_the_run_with_its_reason(crews: Site) -> None:
    run = await begun(crews)
    await asked(run)
    handle = crews.temporal.get_workflow_handle(run.id)
    await run.message("kept for the crew", id="m1")
    answer = {
        "id": "no",
        "by": "ana",
        "interrupt": "i1",
        "decisions": [{"type": "reject", "message": "the tester is missing"}],
    }
    await handle.execute_update("answer", answer, id="no")
    result = await run.result(LIMIT)
    assert (result.status, result.steps, result.outputs) == ("stopped", 0, {})
    (rejected,) = await crews.entries(run, "DefinitionRejected")
    assert (rejected.by, rejected.reason) == ("ana", "the tester is missing")
    (stopped,) = await crews.entries(run, "RunStopped")
    assert stopped.because == "ana rejected the crew: the tester is missing"
    (refused,) = await crews.entries(run, "CommandRejected")
    assert refused.command == "m1"
    assert (await crews.store.get_run(run.id)).status == "stopped"


async def test_another_hash_is_refused_and_the_question_stays(crews: Site) -> None:
    run = await begun(crews)
    question = await asked(run)
    with pytest.raises(ApprovalMismatch, match=f"'i1' is about the definition {question.hash}"):
        await run.answer("i1", "approve", about="another")
    assert (await asked(run)).hash == question.hash
    await run.answer("i1", "approve", about=question.hash)
    await run.result(LIMIT)


async def test_an_edit_is_checked_and_asked_about_anew(crews: Site) -> None:
    run = await begun(crews, ASSUMED, prompt=LOOPED)
    question = await asked(run)
    edited = definition_of(question)
    wrong = {**edited, "flow": ["collector", "tester"], "limits": {"steps": 0}}
    with pytest.raises(CommandRejected, match="limits") as refused:
        await run.edit("i1", wrong)
    assert "steps" in str(refused.value)
    wrong = {**edited, "flow": ["collector", "tester", "nobody"]}
    with pytest.raises(CommandRejected, match="tester") as refused:
        await run.edit("i1", wrong)
    assert "nobody" in str(refused.value)
    assert (await asked(run)).hash == question.hash

    edited["agents"]["editor"] = {"prompt": "You edit."}
    edited["flow"] = ["collector", "editor"]
    del edited["agents"]["writer"]
    accepted = await run.edit("i1", CrewDefinition.from_json(edited), by="ana")
    second = await asked(run, 2)
    assert second.hash == accepted.detail == hash_json(definition_of(second)) != question.hash
    assert second.action_requests[0]["args"]["remarks"] == []
    with pytest.raises(InterruptNotOpen):
        await run.answer("i1", "approve", about=question.hash)
    with pytest.raises(ApprovalMismatch):
        await run.answer("i2", "approve", about=question.hash)
    await run.answer("i2", "approve", about=second.hash)
    result = await run.result(LIMIT)
    assert list(result.outputs) == ["collector", "editor"]
    state = await run.state()
    assert state.definition == second.hash
    assert state.prompt.edited
    (fact,) = await crews.entries(run, "DefinitionEdited")
    assert (fact.definition, fact.by) == (second.hash, "ana")


async def test_an_edit_and_an_approval_at_once_have_one_winner(crews: Site) -> None:
    run = await begun(crews)
    edited = definition_of(await asked(run))
    edited["description"] = "edited"
    outcomes = await asyncio.gather(
        run.edit("i1", edited), run.answer("i1", "approve"), return_exceptions=True
    )
    assert sum(isinstance(each, InterruptNotOpen) for each in outcomes) == 1, outcomes
    if isinstance(outcomes[1], InterruptNotOpen):
        await asked(run, 2)
        await run.answer("i2", "approve")
    assert (await run.result(LIMIT)).status == "completed"


async def test_signals_before_the_approval_are_kept(crews: Site) -> None:
    run = await begun(crews)
    await asked(run)
    await run.message("Be brief.", by="ana", id="m1")
    await run.message("Be kind.", by="ana", id="m2")
    await run.interrupt("writer", by="ana", id="b1")
    await run.pause(by="ana", id="p1")
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    await run.answer("i1", "approve")
    await run.wait_until(lambda view: not view.interrupts, LIMIT)
    await crews.stored(run)
    assert (await crews.store.get_run(run.id)).status == "paused"
    assert not await crews.entries(run, "RunStarted")
    await run.resume(by="ana", id="p2")
    await asked(run, 2)  # the break before the writer
    await run.answer("i2", "approve")
    await run.result(LIMIT)
    said = [e.command for e in await crews.entries(run, "MessageAdded")]
    assert said == [None, "m1", "m2"]
    prompt = next(p for p in crews.prompted(run) if p["agent"] == "writer")
    assert "Be kind." in str(prompt["messages"])


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_it_stops_while_it_waits(crews: Site, how: str) -> None:
    run = await begun(crews)
    await asked(run)
    if how == "stop":
        await run.stop("enough", by="ana")
        assert (await run.result(LIMIT)).status == "stopped"
    else:
        await run.cancel()
        await asyncio.wait_for(_ended(run), LIMIT)
    assert (await kinds(crews, run))[-1] == "RunStopped"
    assert (await crews.store.get_run(run.id)).status == "stopped"


async def _ended(run: Run) -> None:
    async for _ in run.events():
        pass


async def test_it_stops_while_it_compiles(crews: Site) -> None:
    run = await begun(crews, {"stall": 60, **GOOD})
    await run.wait_until(lambda view: view.position >= 1, LIMIT)
    view = await run.status()
    assert (view.status, view.crew, view.interrupts) == ("running", "", ())
    assert (await run.graph()).plan["nodes"] == {}
    assert await run.interrupts() == []
    await run.stop("enough", by="ana")
    assert (await run.result(LIMIT)).status == "stopped"


async def test_a_model_mends_its_answer(crews: Site) -> None:
    half = reply(GATHERS, DRAFTS, of=3, crew="release-notes")  # nothing of the last sentence
    run = await begun(crews, {"text": "Sure! Here it is."}, {"text": half}, GOOD)
    await asked(run)
    reads = await crews_reads(crews, run)
    assert reads == [(1, 1), (2, 1), (3, 0)]
    first, second, third = crews.prompted(run)
    assert [len(p["messages"]) for p in (first, second, third)] == [2, 4, 6]
    assert "the reply has no JSON object" in second["messages"][-1]["content"]
    said = third["messages"][-1]["content"]
    assert "clause 4 is not accounted for: 'Make it snappy.'" in said
    await run.answer("i1", "approve")
    result = await run.result(LIMIT)
    assert result.usage["compiler"].calls == 3


async def crews_reads(site: Site, run: Run) -> list[tuple[int, int]]:
    await run.wait_until(lambda view: view.position > 0, LIMIT)
    page = await run.journal()
    found = [item.data for item in page.entries if item.data["kind"] == "PromptRead"]
    return [(entry["round"], entry.get("errors", 0)) for entry in found]


async def test_nonsense_to_the_end_is_an_invalid_prompt(crews: Site) -> None:
    run = await begun(crews, *[{"text": "What a nice prompt!"}] * 4)
    with pytest.raises(InvalidPrompt, match="the reply has no JSON object"):
        await run.result(LIMIT)
    assert len(crews.prompted(run)) == 4
    state = await run.state()
    assert (state.status, state.error_type) == ("failed", "InvalidPrompt")
    assert await crews.store.get_bodies([state.prompt.text]) == {state.prompt.text: PROMPT}
    assert (await kinds(crews, run))[-2:] == ["PromptCompileFailed", "RunFailed"]


async def test_a_reading_that_never_holds_is_told_with_its_places(crews: Site) -> None:
    """Of all replies the best: the one with the fewest faults."""
    half = reply(GATHERS, ("deployer", "drafts the notes", [3]), of=3, crew="release-notes")
    worse = reply(("deployer", "drafts the notes", [3]), of=1)
    run = await begun(crews, *[{"text": said} for said in (worse, half, "no", worse)])
    with pytest.raises(InvalidPrompt) as failed:
        await run.result(LIMIT)
    told = str(failed.value)
    assert "3:36" in told
    assert "the clauses 3 do not name 'deployer'" in told
    assert "4:1" in told
    assert "clause 4 is not accounted for: 'Make it snappy.'" in told
    assert "clause 2" not in told
    assert len(crews.prompted(run)) == 4


async def test_what_no_part_can_say_makes_no_crew(crews: Site) -> None:
    """A model that says so honestly is not asked to invent something, and nothing runs."""
    why = {"clause": 4, "status": "cannot", "why": "no part is a style", "against": []}
    given = reading([GATHERS, ("writer", "drafts the notes", [3])], of=3)
    honest = json.dumps({**given, "ledger": [*given["ledger"], why]})
    run = await begun(crews, *[{"text": honest}] * 4)
    with pytest.raises(InvalidPrompt, match=r"4:1 .*this: no part is a style"):
        await run.result(LIMIT)
    assert not await crews.entries(run, "InterruptRaised", "RunStarted")


async def test_a_model_is_needed_and_there_is_none(crews: Site) -> None:
    run = await crews.start(PROMPT, reader="model")
    with pytest.raises(InvalidPrompt, match="a model is to read the prompt, and none"):
        await run.result(LIMIT)


async def test_an_unknown_registry_is_said(crews: Site) -> None:
    run = await crews.start(PROMPT, reader="model", registry="nowhere", model="scripted:x")
    with pytest.raises(InvalidPrompt, match="no registry is registered as 'nowhere'"):
        await run.result(LIMIT)


async def test_a_model_that_refuses_is_asked_again_by_people(crews: Site) -> None:
    run = await begun(crews, {"fail": "refused"}, GOOD)
    question = await asked(run)
    assert (question.kind, question.options) == ("step_failed", ("retry", "stop"))
    await run.answer("i1", "retry")
    await asked(run, 2)
    await run.answer("i2", "approve")
    assert (await run.result(LIMIT)).status == "completed"


async def test_people_may_let_the_forms_read_what_a_model_refuses(crews: Site) -> None:
    run = await crews.start(PLAIN, model=model(crews, {"fail": "refused"}))
    question = await asked(run)
    assert (question.kind, question.options) == ("step_failed", ("retry", "forms", "stop"))
    await run.answer("i1", "forms")
    assert list(definition_of(await asked(run, 2))["agents"]) == ["collector", "writer"]
    assert (await run.state()).prompt.reader == "forms"
    await run.answer("i2", "approve")
    assert (await run.result(LIMIT)).status == "completed"


async def test_the_worker_is_killed_while_people_are_asked(site: Site) -> None:
    worker = await site.start_worker("prompts")
    run = await begun(site, queue="prompts")
    question = await asked(run)
    worker.kill()
    await site.start_worker("prompts")
    assert (await asked(run)) == question
    await run.answer("i1", "approve", about=question.hash)
    assert (await run.result(LIMIT)).outputs["writer"]["text"] == "W"
    assert len([p for p in site.prompted(run) if p["agent"] == "compiler"]) == 1
    await site.settle()
    site.end_workers("prompts")


async def test_the_worker_is_killed_while_a_model_reads(site: Site) -> None:
    worker = await site.start_worker("prompts")
    bad = {"text": "no"}
    run = await begun(site, bad, {"stall": 3, **GOOD}, queue="prompts")
    async with asyncio.timeout(LIMIT):
        while len(site.prompted(run)) < 2:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.02)
    worker.kill()
    await site.start_worker("prompts")
    await asked(run)
    rounds = [len(p["messages"]) for p in site.prompted(run)]
    assert rounds == [2, 4, 4]  # only the call that was under way is made again
    await run.answer("i1", "approve")
    await run.result(LIMIT)
    await site.settle()
    site.end_workers("prompts")


async def test_it_continues_as_new_while_people_are_asked(crews: Site) -> None:
    run = await begun(crews)
    question = await asked(run)
    edited = definition_of(question)
    edited["limits"] = {"events": 50}
    await run.edit("i1", edited, id="e1")
    question = await asked(run, 2)
    await run.message("kept", id="m1")
    for number in range(14):
        await run.pause(id=f"p{number}")
        await run.wait_until(lambda view: view.status == "paused", LIMIT)
        await run.resume(id=f"r{number}")
        await run.wait_until(lambda view: view.status == "waiting", LIMIT)
    view = await run.wait_until(lambda view: view.execution > 1, LIMIT)
    assert view.interrupts == ("i2",)
    assert view.crew == "release-notes"
    assert (await asked(run, 2)) == question
    again = await run.edit("i1", edited, id="e1")
    assert again.detail == "applied before"
    with pytest.raises(ApprovalMismatch):
        await run.answer("i2", "approve", about="x")
    await run.answer("i2", "approve", about=question.hash)
    result = await run.result(LIMIT)
    assert result.outputs["writer"]["text"] == "W"
    said = [e.command for e in await crews.entries(run, "MessageAdded")]
    assert said == [None, "m1"]


@covers("C4")
@pytest.mark.parametrize("reader", ["auto", "forms"])
async def test_the_forms_read_a_prompt_without_a_model(crews: Site, reader: str) -> None:
    """`auto`: the script says nothing for the compiler, so that no model is asked."""
    said = {**WORK, "*": [{"text": "?"}]}
    of_forms = {**said, "compiler": [GOOD]} if reader == "forms" else said
    run = await crews.start(PLAIN, model=crews.script(of_forms), reader=reader)
    question = await asked(run)
    assert list(definition_of(question)["agents"]) == ["collector", "writer"]
    await run.answer("i1", "approve", about=question.hash)
    assert (await run.result(LIMIT)).outputs["writer"]["text"] == "W"
    state = await run.state()
    assert (state.prompt.reader, state.prompt.rounds) == ("forms", 0)
    assert not [p for p in crews.prompted(run) if p["agent"] == "compiler"]


async def test_a_model_reads_where_one_is_configured(crews: Site) -> None:
    """Also what the forms would understand."""
    plain = reply(GATHERS, ("writer", "drafts the notes", [3]), of=3, crew="notes")
    run = await crews.start(PLAIN, model=model(crews, {"text": plain}))
    await asked(run)
    prompt = (await run.state()).prompt
    assert (prompt.reader, prompt.rounds) == ("model", 1)
    await run.stop()


async def test_what_the_forms_do_not_understand_makes_no_crew(crews: Site) -> None:
    for reader in ("auto", "forms"):
        silent = crews.script({**WORK, "*": [{"text": "?"}]})
        run = await crews.start(PROMPT, model=silent, reader=reader)
        with pytest.raises(InvalidPrompt, match="4:1  it is not clear who works here"):
            await run.result(LIMIT)
        (refused,) = await crews.entries(run, "PromptCompileFailed")
        assert refused.reader == "forms"
        assert [each.code for each in refused.diagnostics] == ["not_understood"]
        assert not crews.prompted(run)


async def test_what_the_registry_does_not_offer_is_said_with_its_place(crews: Site) -> None:
    prompt = "The writer drafts the notes.\nThe writer uses the model gpt-9."
    run = await crews.start(prompt, reader="forms", model=model(crews))
    with pytest.raises(InvalidPrompt, match=r"2:1 .*does not offer the model 'gpt-9'"):
        await run.result(LIMIT)


async def test_a_registry_is_found_by_its_name(crews: Site) -> None:
    registry = {
        "registry": "office",
        "model": crews.script({**WORK, "*": [{"text": "?"}]}),
        "tools": {"echo": {"run": "deeds:echo", "effects": "read", "words": ["say it aloud"]}},
    }
    await crews.store.register({("registry", "office"): registry}, 1)
    run = await crews.start("The writer may use echo. The writer drafts.", registry="office")
    definition = definition_of(await asked(run))
    assert definition["agents"]["writer"]["tools"] == ["echo"]
    assert definition["model"] == registry["model"]
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).status == "completed"


async def command_line(site: Site, *words: str) -> tuple[int, Any]:
    """What a command says, and how it exits."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *words, "--json"),
        env=site.environ(SHARED),
        cwd=site.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), LIMIT)
    assert process.returncode is not None
    assert b"Traceback" not in said, said
    return process.returncode, json.loads(out.splitlines()[-1] if words[0] == "answer" else out)


async def test_the_command_line_answers_and_shows(crews: Site) -> None:
    run = await begun(crews)
    question = await asked(run)
    code, shown = await command_line(crews, "show", run.id)
    assert code == 0
    assert (shown["status"], shown["crew"], shown["prompt"]) == ("waiting", "release-notes", PROMPT)
    assert shown["interrupts"][0]["hash"] == question.hash
    code, said = await command_line(crews, "answer", run.id, "approve")  # and it follows the run
    assert (code, said["event"], said["status"]) == (0, "result", "completed")

    run = await begun(crews)
    await asked(run)
    code, _ = await command_line(
        crews, "answer", run.id, "reject", "--reason", "too short", "--detach"
    )
    assert code == 0
    assert (await run.result(LIMIT)).status == "stopped"
    (rejected,) = await crews.entries(run, "DefinitionRejected")
    assert rejected.reason == "too short"

    run = await begun(crews, *[{"text": "no"}] * 4)
    with pytest.raises(InvalidPrompt):
        await run.result(LIMIT)
    code, shown = await command_line(crews, "show", run.id)
    assert (code, shown["status"], shown["prompt"]) == (0, "failed", PROMPT)
    assert "the reply has no JSON object" in shown["error"]
