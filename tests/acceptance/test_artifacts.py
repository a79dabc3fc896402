"""Artifacts on real servers: who may, in which order, what stays, and what nobody is shown."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from temporalio.api.enums.v1 import EventType

from covers import covers
from crewlog.client import ArtifactView, Run
from crewlog.definition.operations import EditCrew
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import artifact_log
from crewlog.state.artifacts import fold
from crewlog.state.calls import CALL_TOOL

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls
from .test_deleting import gone, until_true
from .test_rebuild import QUEUE, assert_same, db, dump, is_whole, lose  # noqa: F401 - the fixture

TOOLS = {
    name: {"run": f"building:{name}", "effects": "read", "heartbeat": 1}
    for name in ("change", "attach", "look", "grow")
}
SCHEMA = {"type": "object", "required": ["nodes"], "properties": {"nodes": {"type": "object"}}}
MARK = "m4rked-value"
"""A value that is in the artifact and in nothing that anybody says."""


def add(path: str, value: Any = 1, op: str = "add", **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **({} if op == "remove" else {"value": value}), **more}


def change(*operations: dict[str, Any], after: str = "") -> tuple[str, dict[str, Any]]:
    return ("change", {"operations": list(operations), "after": after})


def crew(site: Site, agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    artifacts = {"workflow": {"schema": SCHEMA, "initial": {"nodes": {}}}}
    return site.crew(agents, tools=TOOLS, **{"artifacts": artifacts, **more})


def prompts(site: Site, run: Run, agent: str) -> list[str]:
    return [json.dumps(p["messages"]) for p in site.prompted(run) if p["agent"] == agent]


@covers("C85", "C88")
async def test_operations_of_a_turn_are_applied_in_call_order_whatever_ended_first(
    crews: Site,
) -> None:
    turn = calls(
        change(add("/nodes/a", {"n": 1}), after="slow"),
        change(add("/nodes/a/b", 2), add("/nodes/nope/x", 3)),
        ("attach", {"operations": [add("/nodes/a/n", 5, "replace"), add("/nodes/a/c", 6)]}),
    )
    agents = {
        "builder": [turn, calls(("look", {"artifact": "workflow"})), {"text": "built"}],
        "reader": [calls(("look", {"artifact": "workflow", "path": "/nodes/a"})), {"text": "read"}],
    }
    run = await crews.start(crew(crews, agents))

    async def held() -> bool:
        page = await run.journal()
        return sum(item.data["kind"] == "CompletionBuffered" for item in page.entries) == 2

    await until_true(held)
    crews.open_gate(run, "slow")
    result = await run.result(LIMIT)
    # The second call adds to what the first one makes, and came back before it.
    built = {"nodes": {"a": {"n": 5, "b": 2, "c": 6}}}
    assert result.artifacts["workflow"].content == built
    assert (result.artifacts["workflow"].valid, result.artifacts["workflow"].missed) == (True, 1)
    # The model is told what did not apply, and nothing else of the artifact.
    told = prompts(crews, run, "builder")[1]
    assert "Left out of the artifact 'workflow'" in told
    assert "2: add '/nodes/nope/x': there is no 'nope' on the way" in told
    # What is not settled when the call returns is settled in the journal by the next model call.
    applied = await crews.entries(run, "ArtifactOperationsApplied")
    assert [(e.call, e.count, e.moved) for e in applied] == [
        (2, 1, False), (3, 2, True), (4, 2, True)
    ]  # fmt: skip
    (settled,) = await crews.entries(run, "ArtifactOperationsRefused")
    assert (settled.call, settled.refused) == (3, 1)
    # A tool sees the whole, as of its call, and cannot change it past the operations.
    assert f"it is {json.dumps(built, sort_keys=True)}" in prompts(crews, run, "builder")[
        2
    ].replace('\\"', '"')
    assert (await run.artifact("workflow")).content == built


@covers("C85")
async def test_who_may_not_see_or_change_an_artifact_does_not(crews: Site) -> None:
    mine = {"artifact": "workflow"}
    agents = {
        "builder": [calls(change(add("/nodes/a", MARK, **mine))), {"text": "built"}],
        "thief": [
            calls(
                change(add("/nodes/a", "stolen", **mine), add("/x", artifact="other")),
                ("look", mine),
                change(add("", {"nodes": {}}, artifact="secret")),
            ),
            {"text": "tried"},
        ],
        "blind": [
            calls(
                change(add("/nodes/a", "guess", "test", **mine), add("/nodes/b", 1, **mine)),
                change(add("/nodes/c", 2, **mine)),
            ),
            {"text": "wrote"},
        ],
    }
    who = {"readers": ["builder"], "writers": ["builder", "blind"]}
    artifacts = {
        "workflow": {"initial": {"nodes": {}}, **who},
        "secret": {"readers": [], "writers": []},
    }
    run, result = await crews.finish(crew(crews, agents, artifacts=artifacts))
    assert result.artifacts["workflow"].content == {"nodes": {"a": MARK, "c": 2}}
    assert result.artifacts["secret"].content == {}
    denied = await crews.entries(run, "PermissionDenied")
    assert [(e.agent, e.reason) for e in denied] == [
        ("thief", "'thief' may not change the artifact 'workflow'"),
        ("thief", "there is no artifact 'other'"),
        ("thief", "'thief' may not change the artifact 'secret'"),
    ]
    refused = [record async for record in run.audit(outcome="denied")]
    assert [(r.agent, r.tool) for r in refused] == [("thief", "change")] * 3
    thief = prompts(crews, run, "thief")[1]
    assert "'thief' sees no artifact 'workflow'" in thief
    assert "may not change the artifact" in thief
    # Who writes and does not read is not told what applies: that would tell what is there.
    assert "Left out" not in prompts(crews, run, "blind")[1]
    seen = [p for p in crews.prompted(run) if p["agent"] != "builder"]
    assert MARK not in json.dumps(seen)


async def built(crews: Site, own: str = "", **more: Any) -> tuple[Run, list[ArtifactView]]:
    """A run that has built something in two steps and asks what now."""
    agents = {
        "a": [calls(change(add("/nodes/a", MARK + own))), {"text": "A"}],
        "b": [calls(change(add("/nodes/a", op="remove"), add("/nodes/b", [1]))), {"text": "B"}],
        "c": [
            calls(change(add("/nodes/c", 3))),
            calls(("look", {"artifact": "workflow"})),
            {"text": "C"},
        ],
    }
    data = crew(crews, agents, flow=["a", "b", {"ask": "Well?"}, "c"], **more.pop("crew", {}))
    run = await crews.start(data, **more)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    steps = [c.position for c in (await run.checkpoints()).checkpoints if c.kind == "step"]
    return run, [await run.artifact("workflow", at) for at in steps]


async def go_on(run: Run) -> None:
    (question,) = await run.interrupts()
    await run.answer(question.id, "approve")


@covers("C85")
async def test_an_artifact_goes_back_and_is_forked_with_its_run(crews: Site) -> None:
    run, (after_a, after_b) = await built(crews)
    assert after_a.content == {"nodes": {"a": MARK}}
    assert after_b.content == {"nodes": {"b": [1]}}
    fork = await run.fork(after_a.position, execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await fork.wait_until(lambda view: bool(view.interrupts), LIMIT)
    assert (await fork.artifact("workflow")).content == after_b.content
    assert (await fork.artifact("workflow")).calls == 2
    await go_on(fork)
    assert (await fork.result(LIMIT)).artifacts["workflow"].content == {"nodes": {"b": [1], "c": 3}}
    await run.rollback(after_a.position)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    view = await run.artifact("workflow")
    assert (view.content, view.calls) == (after_b.content, 2)  # b has worked again, on a's alone
    await run.change(operations=[EditCrew(set={"artifacts": {"workflow": {"initial": {"z": 1}}}})])
    assert (await run.artifact("workflow")).content == after_b.content  # what was, was
    await go_on(run)
    result = await run.result(LIMIT)
    assert result.artifacts["workflow"].content == {"nodes": {"b": [1], "c": 3}}
    assert result.artifacts["workflow"].valid is None
    assert MARK not in json.dumps([p for p in crews.prompted(run) if p["agent"] != "a"])
    with pytest.raises(UsageError, match="has no artifact 'x'"):
        await run.artifact("x")


async def test_an_artifact_is_rebuilt_from_histories_alone(site: Site, db: Any) -> None:  # noqa: F811
    await site.start_worker(QUEUE) if not site.has_worker(QUEUE) else None
    run, _ = await built(site, queue=QUEUE, crew={"limits": {"events": 50}})
    await go_on(run)
    result = await run.result(LIMIT)
    expected = await dump(db)
    whole = await run.artifact("workflow")
    assert whole.content == result.artifacts["workflow"].content
    await lose(db)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), expected)
    assert await run.artifact("workflow") == whole


async def test_a_deleted_run_leaves_nothing_of_its_artifacts(crews: Site) -> None:
    own = secrets.token_hex(4)  # the same operations in another run keep their bodies
    run, _ = await built(crews, own)
    await go_on(run)
    await run.result(LIMIT)
    state = await run.state()
    links = await crews.store.read_log(state.messages[artifact_log("workflow")].head)
    bodies = await crews.store.get_bodies([link.body for link in links])
    ordered = [bodies[link.body] for link in links]
    assert fold(ordered, {}).value == {"nodes": {"b": [1], "c": 3}}
    await crews.client().delete(run.id)
    await gone(crews, run)
    db_ = await asyncpg.connect(crews.endpoints.database_url)
    try:
        kept = await db_.fetchval(
            "SELECT count(*) FROM crewlog.bodies WHERE hash = $1 AND unreferenced_at IS NULL",
            links[0].body,
        )
    finally:
        await db_.close()
    assert kept == 0
    with pytest.raises(StoreIncomplete):
        await crews.store.read_log(state.messages[artifact_log("workflow")].head)


@covers("C44")
async def test_scratch_notes_are_bounded_and_shown_to_who_made_them_alone(crews: Site) -> None:
    def note(*texts: str) -> dict[str, Any]:
        return calls(*(("note", {"text": text}) for text in texts))

    agents = {
        "a": [
            note(f"one {MARK}"),
            note("two", "three"),
            note("x" * 21),
            calls(("notes", {})),
            note("four"),
            {"text": "done"},
        ],
        "b": [calls(("notes", {})), {"text": "done"}],
        "c": [calls(("look", {"artifact": "a.notes"}), ("notes", {})), {"text": "done"}],
    }
    rules = {name: {"scratch": {"most": 2, "longest": 20}} for name in ("a", "b")}
    run, result = await crews.finish(crew(crews, agents, rules=rules))
    assert result.status == "completed"
    assert "workflow" in result.artifacts
    assert "a.notes" not in result.artifacts
    a = prompts(crews, run, "a")
    assert "Noted: 1 of at most 2 notes." in a[1]
    assert "at most 20 characters" in a[3]
    assert r'oldest first:\n1. a: \"two\"\n2. a: \"three\""' in a[4]
    assert "Your notes: there are none" in prompts(crews, run, "b")[1]
    refused = prompts(crews, run, "c")[1]
    assert "'c' sees no artifact 'a.notes'" in refused
    assert "You may not use" in refused or "Refused" in refused
    others = [p for p in crews.prompted(run) if p["agent"] != "a"]
    assert MARK not in json.dumps(others)
    kept = (await run.artifact("a.notes")).content
    assert [each["text"] for each in kept] == ["three", "four"]


@covers("C44")
async def test_a_curator_makes_memories_of_notes_as_the_documentation_has_it(crews: Site) -> None:
    page = (Path(__file__).parents[2] / "docs/authority/memory.md").read_text()
    text = page[page.index("## A curator") :].partition("```yaml\n")[2].partition("```")[0]
    remembers = {"memories": [{"text": "Refunds take 14 days.", "key": "refunds"}]}
    agents: dict[str, Any] = {
        "researcher": [calls(("note", {"text": f"refunds: 14 days {MARK}"})), {"text": "found"}],
        "author": [calls(("memory_read", {}), ("notes", {})), {"text": "written"}],
        "curator": [
            calls(("notes", {"of": "researcher"}), ("memory_read", {"query": "refunds"})),
            calls(("memory_write", remembers)),
            {"text": "kept"},
        ],
    }
    crew_ = {**yaml.safe_load(text), "crew": f"curated-{secrets.token_hex(4)}"}
    crew_["model"] = crews.script(agents)
    first, result = await crews.finish(crew_)
    assert result.status == "completed"
    assert MARK in prompts(crews, first, "curator")[1]
    assert MARK not in "".join(prompts(crews, first, "author"))
    second, _ = await crews.finish(crew_)
    assert "There are no entries in" in prompts(crews, first, "author")[1]
    assert "Refunds take 14 days." in prompts(crews, second, "author")[1]
    found = await crews.client().memory.read(crew_["crew"], "public", "refunds")
    assert [each.key for each in found.memories] == ["refunds"]


@covers("C85")
async def test_the_command_shows_an_artifact_and_what_was_changed(crews: Site) -> None:
    run, (after_a, after_b) = await built(crews)

    async def shown(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "crewlog.cli.main", "artifact", run.id, *arguments),
            cwd=crews.project,
            env=crews.environ(SHARED),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
        return out.decode()

    first, second = str(after_a.position), str(after_b.position)
    outs = await asyncio.gather(
        shown(),
        shown("workflow", "--at", first, "--json"),
        shown("--diff", first, second),
    )
    assert "3 operations of 2 calls" in outs[0]
    assert "✓ valid" in outs[0]
    assert json.loads(outs[1]) == after_a.model_dump(mode="json")
    assert f'− /nodes/a   "{MARK}"' in outs[2]  # noqa: RUF001
    assert "+ /nodes/b   [1]" in outs[2]


async def test_one_operation_costs_the_same_however_large_the_artifact_is(crews: Site) -> None:
    rounds = 12

    async def measured(kb: int) -> tuple[float, float]:
        """History bytes of a tool call and what follows of it, and its milliseconds at best."""
        turns = [calls(("grow", {"path": f"/nodes/big{n}", "kb": kb})) for n in range(4)]
        turns += [calls(change(add(f"/nodes/n{n:02}", n))) for n in range(rounds)]
        run, result = await crews.finish(crew(crews, {"builder": [*turns, {"text": "built"}]}))
        assert result.artifacts["workflow"].applied == rounds + 4
        assert result.artifacts["workflow"].size > 4000 * kb
        handle = crews.temporal.get_workflow_handle(run.id)
        events = [event async for event in handle.fetch_history_events()]
        names = {
            n: event.activity_task_scheduled_event_attributes.activity_type.name
            for n, event in enumerate(events)
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        }
        begun = [n for n, name in names.items() if name == CALL_TOOL][-rounds:]
        sizes = sum(event.ByteSize() for event in events[begun[0] : begun[-1]])
        after = [next(m for m in names if m > n) for n in begun]
        took = [
            (events[m].event_time.ToMicroseconds() - events[n].event_time.ToMicroseconds()) / 1000
            for n, m in zip(begun, after, strict=True)
        ]
        return sizes / (rounds - 1), min(took)

    more: list[float] = []
    for _ in range(5):  # what else the machine does only adds
        small, small_ms = await measured(0)
        large, large_ms = await measured(250)
        assert abs(large - small) < 20, "times and ids are a few bytes longer or shorter"
        more.append(large_ms - small_ms)
        if more[-1] < 15:
            break
    assert min(more) < 15
