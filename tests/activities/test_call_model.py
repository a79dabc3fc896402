from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from activity_kit import HEARTBEAT, RUN, assert_referenced, crew, with_info
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from temporalio.exceptions import ApplicationError

from crewlog.activities.ai_messages import build_message
from crewlog.activities.chat_models import register
from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.server import Server
from crewlog.canonical_json import hash_json
from crewlog.errors import InvalidDefinition, NotPermitted
from crewlog.failure_details import failure_details
from crewlog.ids import AgentName, CrewName, StepId
from crewlog.state.body_metadata import requested_tool_calls
from crewlog.state.calls import (
    MergeNotification,
    PrepareRun,
    SignedStart,
    StoreBatch,
    StoreBatchResult,
)
from crewlog.state.excerpt import message_excerpt
from crewlog.state.journal import Batch
from crewlog.state.messages import message_to_json
from crewlog.testing.scripted import RECORD, recorded_prompts, scripted

CALLS = {"tool": "write_file", "args": {"path": "a", "content": "b" * 200}}


async def test_a_reply_is_stored_with_its_usage_and_tool_calls(model_call, store, log):
    script = {
        "agents": {
            "backend": [
                {"text": "Writing.", "tool_calls": [CALLS], "usage": {"input": 120, "output": 30}}
            ]
        }
    }
    definition = crew(script)
    log.says("build")
    result = await model_call(definition, log, tools=("write_file", "set_flag", "set_output"))
    assert result.stored
    assert message_excerpt(result.body) == "Writing."
    assert result.hash == hash_json(result.body)
    assert (result.body["name"], result.body["id"]) == ("backend", "backend#1/1")
    assert await store.get_bodies([result.hash]) == {result.hash: result.body}
    assert (result.usage.calls, result.usage.input_tokens, result.usage.output_tokens) == (
        1, 120, 30,
    )  # fmt: skip
    (asked,) = result.outcome.calls
    assert (asked.tool, asked.id) == ("write_file", result.body["tool_calls"][0]["id"])
    assert len(asked.excerpt) == 80
    journal = await store.read_journal(RUN)
    assert [row.entry["kind"] for row in journal] == ["MessageAdded"], "stored before the call"
    (given,) = recorded_prompts(definition.model or "")
    assert [m["type"] for m in given.messages] == ["system", "human"]
    assert given.tools == ("write_file", "set_flag", "set_output")
    assert (given.agent, given.run, given.step, given.call) == ("backend", RUN, "backend#1", 1)


async def test_a_scripted_reply_depends_on_the_transcript_only(model_call, activities, log, env):
    script = {
        "agents": {
            "backend": [
                {"text": "one"},
                {"text": "two"},
                {"when": "stop", "text": "stopped"},
                {"text": "three"},
            ],
            "*": [{"text": "other"}],
        }
    }
    definition = crew(script)
    said = []
    for number, text in enumerate(["go", "please stop", "go on", "on"], 1):
        log.says(text)
        # The same call again gives the same reply: it is a function of the prompt.
        batch_view = log.batch()
        first = await model_call(definition, log, batch=batch_view, call=number)
        again = await model_call(definition, log, batch=batch_view, call=number)
        assert (again.body, again.outcome, again.usage) == (first.body, first.outcome, first.usage)
        log.replied(first, "backend", call=number)
        said.append(message_excerpt(first.body))
    assert said == ["one", "stopped", "two", "three"]
    assert message_excerpt((await model_call(definition, log, agent="writer")).body) == "other"
    with pytest.raises(ApplicationError, match=r"has no reply 4 for 'backend'") as failed:
        await model_call(definition, log)
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)
    assert "agents.backend" in failure_details(failed.value).remedy


async def test_scripted_failures_end_after_their_number_of_attempts(model_call, log, env):
    script = {
        "agents": {
            "backend": [{"fail": "unavailable", "times": 2}, {"fail": "refused"}, {"text": "ok"}]
        }
    }
    definition = crew(script, backend={"retry": {"attempts": 2}})

    async def outcome(asked: int, attempt: int) -> str:
        with_info(env, attempt=attempt)
        try:
            return message_excerpt((await model_call(definition, log, attempt=asked)).body)
        except ApplicationError as exc:
            return str(exc.type)

    assert [await outcome(*a) for a in [(1, 1), (1, 2), (2, 1), (4, 1)]] == [
        "ModelUnavailable", "ModelUnavailable", "ModelRequestRejected", "ok",
    ]  # fmt: skip


async def test_invalid_tool_calls_can_be_answered(model_call, log):
    result = await model_call(crew({"agents": {"*": [{"nonsense": True}]}}), log)
    assert [a.tool for a in result.outcome.calls] == ["no_such_tool", "broken_tool"]
    assert result.outcome.calls[1].id == result.body["invalid_tool_calls"][0]["id"]


async def test_a_stalled_model_sends_heartbeats_and_can_be_cancelled(model_call, log, env):
    beating = asyncio.Event()
    env.on_heartbeat = lambda *_: beating.set()
    with_info(env, heartbeat_timeout=HEARTBEAT)
    task = asyncio.ensure_future(model_call(crew({"agents": {"*": [{"stall": 60}]}}), log))
    await asyncio.wait_for(beating.wait(), 60)
    env.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY is not set"),
        ("gpt-5-mini", "there is no model 'gpt-5-mini'"),
        ("nobody:x", "there is no model 'nobody:x'"),
        ("scripted:/nowhere.yaml", "the script cannot be read: No such file"),
    ],
)
async def test_a_model_that_cannot_be_made(model_call, log, monkeypatch, model, message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ApplicationError, match=message) as failed:
        await model_call(crew(model), log)
    assert failed.value.non_retryable
    assert not failure_details(failed.value).effect_started


async def test_other_models_can_be_registered(model_call, log):
    register("fake", lambda name, _settings, _timeout: FakeListChatModel(responses=[name]))
    assert message_excerpt((await model_call(crew("fake:hello"), log)).body) == "hello"


def test_tool_calls_get_new_ids():
    reply = AIMessage(
        "",
        tool_calls=[{"name": "a", "args": {}, "id": i} for i in ("x", "x", None, "")],
        additional_kwargs={"tool_calls": "raw", "refusal": "I will not."},
        response_metadata={"model_name": "m", "id": "random", "system_fingerprint": "f"},
        id="run-random",
    )
    step = StepId("a_rather_long_name_of_a_node_that_goes_on#12")
    message = build_message(reply, AgentName("backend"), step, 3, model="m")
    ids = [c["id"] or "" for c in message.tool_calls]
    assert len(set(ids)) == 4
    assert not {"x", ""} & set(ids)
    again = build_message(reply, AgentName("backend"), step, 3, model="m")
    assert again == message, "the same for the same reply"
    others = [
        build_message(reply, AgentName("backend"), s, n, model="m")
        for s, n in ((step, 4), (StepId("b#1"), 3))
    ]
    assert len({c["id"] for m in (message, *others) for c in m.tool_calls}) == 12
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", i) for i in ids)
    assert [a["id"] for a in requested_tool_calls(message_to_json(message))] == ids
    body = message_to_json(message)
    assert (body["content"], body["response_metadata"]) == ("I will not.", {"model_name": "m"})
    assert "additional_kwargs" not in body


async def test_prompts_are_recorded_for_other_processes(model_call, log, tmp_path, monkeypatch):
    record = tmp_path / "prompts.jsonl"
    monkeypatch.setenv(RECORD, str(record))
    script = tmp_path / "s.yaml"
    script.write_text("agents: {'*': [{text: hi}]}\n")
    log.says("ä")
    await model_call(crew(scripted(script)), log)
    (line,) = record.read_text().splitlines()
    assert json.loads(line)["messages"][-1] == {"type": "human", "content": "ä"}


def test_an_error_in_a_script_names_its_place(tmp_path):
    script = tmp_path / "s.yaml"
    script.write_text("agents:\n  backend:\n    - {txet: hi}\n    - {when: '(', text: x}\n")
    with pytest.raises(InvalidDefinition) as failed:
        scripted(script)
    assert [d.line for d in failed.value.diagnostics] == [3, 4]
    assert "has no 'txet' here" in str(failed.value)
    assert "no regular expression" in str(failed.value)


async def test_each_start_of_a_registered_crew_stores_its_normal_form(activities, store, env):
    """The catalog has what was registered; a run names the normal form, and may outlive others."""
    data = crew("openai:x").to_json()
    short = {key: value for key, value in data.items() if key != "flow"}
    await store.register_crew(CrewName("music"), short, 0)
    assert hash_json(short) != hash_json(data)
    for _ in range(2):
        store._definitions.pop(hash_json(data), None)  # the last run that named it was deleted
        started = await env.run(activities.prepare_run, PrepareRun(run=RUN, crew="music"))
        assert started.definition == data
        assert await store.get_definition(hash_json(data)) == data


async def test_a_run_refers_to_its_definition_before_its_first_entry(activities, store, env):
    for data in (crew("openai:x").to_json(), crew("openai:y").to_json()):
        await env.run(activities.prepare_run, PrepareRun(run=RUN, crew=data))
    edit: Any = {"crew": "c", "model": "openai:z", "agents": {"a": {"prompt": "p"}}}
    edited = PrepareRun(run=RUN, crew=edit, edited=True, model="openai:z")
    await env.run(activities.prepare_run, edited)
    assert len(store._definitions) == 3
    await assert_referenced(store, RUN)


async def test_a_rejected_start_stores_no_definition(activities, store, env, monkeypatch):
    async def reject(*_: Any) -> None:
        raise NotPermitted("the start was used before", remedy="Start it again.")

    monkeypatch.setattr(activities._executions, "record_start", reject)
    with_info(env, workflow_id=RUN, is_local=True)
    start = PrepareRun(run=RUN, crew=crew("openai:x").to_json(), use=SignedStart(execution="e"))
    with pytest.raises(ApplicationError, match="used before"):
        await env.run(activities.prepare_run, start)
    assert store._definitions == {}


async def test_open_run_resolves_registered_and_inline_crews(activities, store, env):
    data = crew("openai:x").to_json()
    inline = await env.run(activities.prepare_run, PrepareRun(run=RUN, crew=data))
    assert inline.definition == data
    assert inline.plan["crew"] == "music"
    assert await store.get_definition(hash_json(data)) == data
    await store.register_crew(CrewName("music"), data, 0)
    assert await env.run(activities.prepare_run, PrepareRun(run=RUN, crew="music")) == inline
    with pytest.raises(ApplicationError, match="no crew is registered as 'musik'") as failed:
        await env.run(activities.prepare_run, PrepareRun(run=RUN, crew="musik"))
    assert failed.value.type == "InvalidDefinition"
    assert "Did you mean 'music'?" in failed.value.message
    wrong: Any = {"crew": "c", "agents": {"a": {"prompt": "p", "tools": ["t"]}}, "flow": ["b"]}
    with pytest.raises(ApplicationError) as failed:
        await env.run(activities.prepare_run, PrepareRun(run=RUN, crew=wrong))
    assert failed.value.non_retryable
    assert "'t'" in failed.value.message
    assert "'b'" in failed.value.message, "all faults at once"


async def test_flush_stores_the_batch_and_a_snapshot(activities, store, env, log):
    log.says("one")
    log.says("two")
    await env.run(
        activities.store_batch, StoreBatch(run=RUN, batch=log.batch(), state={"run": RUN})
    )
    assert len(await store.read_journal(RUN)) == 2
    snapshot = await store.get_snapshot(RUN, 2)
    assert snapshot is not None
    assert snapshot.position == 2


async def test_notifications_are_sent_after_storing(store, env, log, tmp_path):
    stored = []

    class Notified(Server):
        async def send_notification(self, run, notification):
            stored.append((run, notification.to, len(await store.read_journal(RUN))))
            return notification.to != "c"

    activities = CrewActivities(store, workspace=tmp_path, server=Notified())
    log.says("one")
    given = tuple(MergeNotification(merge="r/x", to=to) for to in "abc")
    flush = StoreBatch(run=RUN, batch=log.batch(), notifications=given)
    told = await env.run(activities.store_batch, flush)
    assert told == StoreBatchResult(unsent=given[2:])
    assert stored == [(RUN, to, 1) for to in "abc"]
    assert await env.run(activities.store_batch, StoreBatch(run=RUN, batch=Batch.EMPTY)) is None


async def test_a_tool_on_other_workers_is_offered_without_its_arguments(model_call, log):
    away = {"run": "elsewhere:f", "queue": "gpu", "description": "Renders."}
    definition = crew({"agents": {"*": [{"text": "ok"}]}}, tools={"render": away})
    await model_call(definition, log, tools=("render",))
    assert recorded_prompts(definition.model or "")[0].tools == ("render",)
    here = crew({"agents": {"*": [{"text": "ok"}]}}, tools={"render": {"run": "elsewhere:f"}})
    with pytest.raises(ApplicationError, match="no module 'elsewhere'"):
        await model_call(here, log, tools=("render",))


def test_content_blocks_of_tool_calls_get_the_new_ids():
    content: Any = [
        "text",
        {"type": "text", "text": "Hm", "id": "x"},
        {"type": "tool_use", "id": "x", "name": "a", "input": {}},
        {"type": "function_call", "id": "fc_1", "call_id": "y", "name": "b"},
        {"type": "tool_call", "id": "x", "name": "c", "args": {}},
        {"type": "tool_use", "id": "unknown", "name": "d", "input": {}},
    ]
    calls: Any = [{"name": n, "args": {}, "id": i} for n, i in (("a", "x"), ("b", "y"), ("c", "x"))]
    bad: Any = [{"name": "e", "args": "{", "id": "z", "error": None}]
    reply = AIMessage(content, tool_calls=calls, invalid_tool_calls=bad)
    message = build_message(reply, AgentName("backend"), StepId("backend#1"), 1, model="m")
    a, b, c = (call["id"] for call in message.tool_calls)
    assert message.content == [
        {"type": "text", "text": "text"},
        content[1],
        {**content[2], "id": a},
        {**content[3], "call_id": b},
        {**content[4], "id": c},
        content[5],
    ]
    assert message.invalid_tool_calls[0]["id"] not in (None, "z", a, b, c)
    assert content[2]["id"] == "x", "the reply is not changed"


async def test_parallel_phases_of_one_agent_see_their_own_results(model_call, tool_call, log):
    """A model that always numbers its calls alike."""
    same = {"tool": "undocumented", "args": {"x": "saw"}, "id": "call_0"}
    replies = [{"tool_calls": [{**same, "args": {"x": x}}]} for x in ("first", "second")]
    definition = crew({"agents": {"*": [*replies, {"text": "done"}]}})
    one = await model_call(definition, log, step=StepId("one#1"))
    # The other phase is asked when the first reply is in the log, and not yet answered.
    log.replied(one, "backend", "private:backend")
    two = await model_call(definition, log, step=StepId("two#1"))
    log.replied(two, "backend", "private:backend")
    for reply, step in ((two, "two#1"), (one, "one#1")):
        (asked,) = reply.outcome.calls
        result = await tool_call(
            asked.tool, body=reply.body, id=asked.id, step=StepId(step), crew=definition
        )
        log.returned(result, "backend")
    for step in ("one#1", "two#1"):
        await model_call(
            definition,
            log,
            batch=log.batch(),
            step=StepId(step),
            call=3,
            view=log.view("private:backend"),
        )
        shown = recorded_prompts(definition.model or "")[-1].messages[1:]
        assert [m.get("tool_calls") or m["content"] for m in shown] == [
            [{"tool": "undocumented", "args": {"x": "first"}}], "first",
            [{"tool": "undocumented", "args": {"x": "second"}}], "second",
        ]  # fmt: skip


async def test_texts_that_are_not_utf8_are_repaired(model_call, log):
    register("broken", lambda *_: _Broken(responses=[""]))
    result = await model_call(crew("broken:x"), log)
    result.model_dump_json().encode()
    json.dumps(result.body, ensure_ascii=False).encode()
    assert result.body["content"] == "a\ufffdb \U0001f600"
    assert result.body["tool_calls"][0]["args"] == {"k\ufffd": ["\ufffd"]}
    well, ill = result.outcome.calls
    assert (well.tool, well.excerpt) == ("t\ufffd", "['\ufffd']")
    assert (ill.tool, ill.excerpt) == ("u\ufffd", '{"\ufffd')
    assert result.hash == hash_json(result.body)


class _Broken(FakeListChatModel):
    async def _agenerate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        low = "\ud800"
        message = AIMessage(
            f"a{low}b \ud83d\ude00",
            tool_calls=[{"name": f"t{low}", "args": {f"k{low}": [low]}, "id": low}],
            invalid_tool_calls=[
                {"name": f"u{low}", "args": f'{{"{low}', "id": "", "error": None,
                 "type": "invalid_tool_call"},
            ],
        )  # fmt: skip
        return ChatResult(generations=[ChatGeneration(message=message)])


class _Deep(FakeListChatModel):
    async def _agenerate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        args = json.loads('{"a":' * 150 + "1" + "}" * 150)
        message = AIMessage("", tool_calls=[{"name": "t", "args": args, "id": "c"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


async def test_arguments_that_are_nested_too_deeply_fail_the_call(model_call, log):
    register("deep", lambda *_: _Deep(responses=[""]))
    with pytest.raises(ApplicationError, match="100 levels") as failed:
        await model_call(crew("deep:x"), log)
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)


async def test_an_unknown_provider_is_refused_with_the_known_ones(model_call, log):
    with pytest.raises(ApplicationError, match="'elsewhere' is unknown") as failed:
        await model_call(crew("elsewhere:x"), log)
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)
    assert "anthropic" in failure_details(failed.value).remedy
    assert "scripted" in failure_details(failed.value).remedy


async def test_a_missing_package_is_refused_with_its_name(model_call, log):
    with pytest.raises(ApplicationError, match="'langchain-aws', which is not installed") as failed:
        await model_call(crew("bedrock_converse:amazon.nova"), log)
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)
    assert "pip install 'crewlog[bedrock]'" in failure_details(failed.value).remedy
