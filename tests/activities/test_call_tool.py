from __future__ import annotations

import asyncio
from typing import Any

import crew_tools
import pytest
from activity_kit import HEARTBEAT, RUN, Log, crew, with_info
from temporalio.exceptions import ApplicationError

from crewlog.canonical_json import hash_json
from crewlog.errors import StoreUnavailable, UsageError
from crewlog.failure_details import failure_details
from crewlog.ids import LogName
from crewlog.state.calls import CallModelResult, OutputValue
from crewlog.state.excerpt import message_excerpt
from crewlog.tool_call import current_call


async def test_a_plain_function_runs_in_a_thread_with_its_call(tool_call, tmp_path):
    result = await tool_call("write_file", {"path": "notes/a.txt", "content": "hi"}, attempt=2)
    assert result.ok
    assert message_excerpt(result.body) == "wrote 2 characters to notes/a.txt"
    assert (tmp_path / "workspace" / RUN / "notes" / "a.txt").read_text() == "hi"
    call, in_main_thread = crew_tools.seen[-1]
    assert not in_main_thread
    assert (call.key, call.agent, call.tool, call.attempt, call.id) == (
        "music-1/backend#1/2", "backend", "write_file", 2, "c1",
    )  # fmt: skip
    with pytest.raises(UsageError, match="no current tool call"):
        current_call()


async def test_a_result_is_a_tool_message_that_the_store_has(tool_call, store):
    result = await tool_call("add", {"a": 1, "b": 2})
    assert result.body == {
        "type": "tool", "content": "3", "name": "add", "tool_call_id": "c1", "id": "backend#1/2",
    }  # fmt: skip
    assert result.hash == hash_json(result.body)
    assert await store.get_bodies([result.hash]) == {result.hash: result.body}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("model", '{"x": 1}'),
        ("dataclass", '{"left": 1, "right": 2}'),
        ("none", "null"),
        ("list", '[1, {"a": 2}]'),
        ("large", "x" * 5_000_000),
    ],
)
async def test_json_results(tool_call, kind, content):
    result = await tool_call("gives", {"kind": kind})
    assert result.ok
    assert result.body["content"] == content
    assert len(message_excerpt(result.body)) <= 120


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("gives", {"kind": "object"}, "'gives' ran, but returned a object, which is not JSON"),
        ("gives", {"kind": "bytes"}, "returned a bytes, which is not JSON. Return text, numbers"),
        ("gives", {"kind": "nan"}, "returned a float"),
        ("classy", {"word": "object"}, "'classy' ran, but returned a object"),
        ("add", {"a": "x"}, "The arguments of 'add' are not valid: a: .*integer.*; b: Field requi"),
        ("boom", {"kind": "value"}, "^ValueError: it broke$"),
        ("boom", {"kind": "exit"}, "the tool tried to exit with 3"),
        ("boom", {"kind": "validation"}, "ValidationError: 1 validation error for Point"),
        ("boom", {"kind": "interrupt"}, "LangGraph's interrupt"),
        ("boom", {"kind": "connection"}, "^ConnectionError: it broke$"),
        ("boom", {"kind": "one in a group"}, "^the shop is closed. Come back at 9$"),
        (
            "boom",
            {"kind": "two in a group"},
            "^2 errors: the shop is closed. Come back at 9; KeyError: 'y'$",
        ),
        (
            "boom",
            {"kind": "worst"},
            "^2 errors: .*tried to exit with 3; .*KeyboardInterrupt: the tool raised it$",
        ),
        ("boom", {"kind": "ctrl-c"}, "KeyboardInterrupt: the tool raised it$"),
        ("boom", {"kind": "cancelled"}, "CancelledError: the tool raised it$"),
        ("boom", {"kind": "tool_failed"}, "^the disk is full. Delete something$"),
        ("write_file", {"path": "../x", "content": ""}, "'../x' is not inside the workspace"),
        ("boom", {"kind": "surrogate"}, "^FileNotFoundError: no file a\ufffd$"),
        ("hand_off", {"to": "", "how": "flag"}, "sets 'ready' of its flags to a object, which is"),
        ("hand_off", {"to": "", "how": "output"}, "'spec' of its outputs to a float, .* not JSON"),
        ("hand_off", {"to": "", "how": "deep"}, "'spec' of its outputs to a list, .*type set"),
        ("hand_off", {"to": "", "how": "nested"}, "'spec' of its outputs to a list, .*100 levels"),
        ("hand_off", {"to": "", "how": "no_dict"}, "its Command's flags are a list. Give flags as"),
        ("hand_off", {"to": "", "how": "artifact"}, "returned a ToolMessage, which is not JSON"),
        ("listed", {"how": "output"}, "'spec' of its outputs to a float, .* not JSON"),
        ("hand_off", {"to": "x", "how": "unknown"}, r"updates \['colour'\]"),
        ("wirte_file", {}, "There is no tool 'wirte_file'. Did you mean 'write_file'?"),
        ("set_flag", {"flag": "other"}, "flag: Input should be 'ready'"),
    ],
)
async def test_errors_that_the_model_may_repair_are_messages(tool_call, tool, args, message):
    result = await tool_call(tool, args)
    assert not result.ok
    assert result.body["status"] == "error"
    assert "Traceback" not in result.body["content"]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.body["content"])


async def test_arguments_that_are_not_json_get_an_error_message(tool_call):
    bad = {"name": "add", "args": '{"a": ', "id": "c1", "error": None, "type": "invalid_tool_call"}
    body = {"type": "ai", "content": "", "name": "backend", "invalid_tool_calls": [bad]}
    result = await tool_call("add", body=body)
    assert not result.ok
    assert "cannot be used: they are no JSON" in message_excerpt(result.body)


@pytest.mark.parametrize("fields", [{"permitted": False}, {"agent": "writer"}, {"to_run": "boom"}])
async def test_a_permission_is_for_one_agent_and_one_tool(tool_call, fields):
    before = len(crew_tools.seen)
    result = await tool_call("add", {"a": 1, "b": 2}, **fields)
    assert not result.ok
    assert message_excerpt(result.body) == "You may not use the tool 'add'."
    assert len(crew_tools.seen) == before


async def test_commands_become_plain_data(tool_call, store):
    handed = await tool_call("hand_off", {"to": "writer"})
    assert (handed.returned.goto, handed.body["content"], handed.ok) == (("writer",), "Done.", True)
    parent = await tool_call("hand_off", {"to": "writer", "how": "parent"})
    assert (parent.returned.goto, parent.returned.flags) == (("writer",), {"ready": True})
    own = await tool_call("with_message")
    assert (own.returned.goto, own.returned.flags, own.body["content"]) == (
        ("a", "b"),
        {"x": 1},
        "handed over",
    )
    large = await tool_call("hand_off", {"to": "", "how": "large"})
    body = hash_json("x" * 1000)
    assert large.returned.outputs == (
        OutputValue(key="spec", body=body, content="x" * 1000),
        OutputValue(key="small", value=1),
    )
    assert await store.get_bodies([body]) == {body: "x" * 1000}


async def test_the_update_of_a_command_becomes_plain_json(tool_call, store):
    plain = await tool_call("hand_off", {"to": "", "how": "tuple"})
    assert plain.returned.outputs == (OutputValue(key="spec", value=[1, {"2": "x"}]),)
    mended = await tool_call("hand_off", {"to": "", "how": "surrogates"})
    mended.model_dump_json().encode()
    assert mended.returned.flags == {"f\ufffd": "\ufffd"}
    (large,) = mended.returned.outputs
    assert large.content == ["\ufffd" * 200]
    assert await store.get_bodies([large.body]) == {large.body: large.content}
    said = await tool_call("gives", {"kind": "surrogate"})
    assert said.body["content"] == "a\ufffdb"
    assert said.hash == hash_json(said.body)


async def test_the_built_in_tools(tool_call):
    flag = await tool_call("set_flag", {"flag": "ready"})
    assert (flag.returned.flags, message_excerpt(flag.body)) == (
        {"ready": True},
        "The flag ready is now true.",
    )
    output = await tool_call("set_output", {"key": "spec", "value": {"a": [1]}})
    assert output.returned.outputs == (OutputValue(key="spec", value={"a": [1]}),)


async def test_langchain_tools_and_bare_functions(tool_call):
    assert message_excerpt((await tool_call("decorated", {"word": "hi"})).body) == "HI"
    assert message_excerpt((await tool_call("classy", {"word": "ab"})).body) == "abab"
    assert message_excerpt((await tool_call("undocumented", {"x": "y"})).body) == "y"


async def test_a_tool_with_injected_state_gets_the_agents_view(tool_call, store):
    log = Log()
    log.says("build")
    body = {
        "type": "ai", "content": "", "name": "backend",
        "tool_calls": [
            {"name": "count_messages", "args": {"prefix": "saw"}, "id": "c1", "type": "tool_call"}
        ],
    }  # fmt: skip
    log.replied(CallModelResult(body=body, hash=hash_json(body)), "backend", "private:backend")
    batch = log.batch()
    view = log.view("public", "private:backend")
    result = await tool_call("count_messages", body=body, batch=batch, view=view)
    assert message_excerpt(result.body) == "saw backend ['human', 'ai']"


@pytest.mark.parametrize(
    ("run", "message", "remedy"),
    [
        ("nowhere.at_all:f", "there is no module 'nowhere' on this worker", "Start the worker in"),
        ("crew_tools:wirte_file", "'crew_tools' has no 'wirte_file'", "Did you mean 'write_file'"),
        ("crew_tools:not_a_tool", "is 7, not a function", "Name a function"),
        ("crew_tools:Classy", "is the class 'Classy'", "Name a function, or an object"),
        ("needs_missing:f", "it imports 'not_installed_at_all', which is not", "Install 'not_inst"),
        ("broken_module:f", "cannot be imported: SyntaxError", "Correct the module"),
    ],
)
async def test_a_missing_tool_is_an_error_with_a_remedy(
    tool_call, tmp_path, monkeypatch, run, message, remedy
):
    (tmp_path / "needs_missing.py").write_text("import not_installed_at_all\n")
    (tmp_path / "broken_module.py").write_text("def f(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ApplicationError, match=message) as failed:
        await tool_call("x", crew=crew(tools={"x": {"run": run}}))
    assert (failed.value.type, failed.value.non_retryable) == ("ToolMissing", True)
    details = failure_details(failed.value)
    assert (details.place, details.effect_started, details.call_again) == ("tool 'x'", False, True)
    assert details.remedy.startswith(remedy)


async def test_a_tool_that_fails_the_step(tool_call):
    tools = {"boom": {"run": "crew_tools:boom", "on_error": "fail"}}
    with pytest.raises(ApplicationError, match="'boom' raised ValueError: it broke") as failed:
        await tool_call("boom", {"kind": "value"}, crew=crew(tools=tools))
    assert (failed.value.type, failed.value.non_retryable) == ("ToolFailed", True)
    assert failure_details(failed.value).effect_started


async def test_transient_errors_are_retried_if_the_retry_mode_allows(tool_call, env):
    tools = {"boom": {"run": "crew_tools:boom", "retry": "keyed", "policy": {"attempts": 3}}}
    for attempt in (1, 2):
        with_info(env, attempt=attempt)
        with pytest.raises(ApplicationError) as failed:
            await tool_call("boom", {"kind": "timeout"}, crew=crew(tools=tools))
        assert (failed.value.type, failed.value.non_retryable) == ("ToolFailed", False)
    with_info(env, attempt=3)
    last = await tool_call("boom", {"kind": "timeout"}, crew=crew(tools=tools))
    assert message_excerpt(last.body) == "TimeoutError: it broke"


async def test_an_error_group_is_transient_if_all_its_errors_are(tool_call):
    tools = {"boom": {"run": "crew_tools:boom", "retry": "safe", "policy": {"attempts": 3}}}
    with pytest.raises(ApplicationError, match="2 errors: TimeoutError: slow; Conn") as failed:
        await tool_call("boom", {"kind": "all pass"}, crew=crew(tools=tools))
    assert not failed.value.non_retryable
    told = await tool_call("boom", {"kind": "one passes"}, crew=crew(tools=tools))
    assert message_excerpt(told.body).startswith("2 errors: TimeoutError: slow; the shop")
    tools = {"boom": {"run": "crew_tools:boom", "retry": "never"}}
    with pytest.raises(ApplicationError, match="was it sent") as asked:
        await tool_call("boom", {"kind": "unknown"}, crew=crew(tools=tools))
    assert asked.value.type == "OutcomeUnknown"


@pytest.mark.parametrize("tool", ["slow_thread", "slow_async"])
async def test_a_cancellation_reaches_the_tool(tool_call, env, tool):
    crew_tools.running.clear()
    crew_tools.noticed.clear()
    beats: list[Any] = []
    beating = asyncio.Event()

    def beat(*details: Any) -> None:
        beats.append(details)
        beating.set()

    env.on_heartbeat = beat
    with_info(env, heartbeat_timeout=HEARTBEAT)
    task = asyncio.ensure_future(tool_call(tool))
    await asyncio.to_thread(crew_tools.running.wait, 60)
    await asyncio.wait_for(beating.wait(), 60)
    env.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert crew_tools.noticed.is_set()
    assert tool == "slow_async" or ("working",) in beats
    count = len(beats)
    await asyncio.sleep(0.2)
    assert len(beats) == count, "a heart that beats after the end"


async def test_a_result_survives_an_unavailable_store(tool_call, store, monkeypatch):
    async def away(_run: Any, _bodies: Any) -> None:
        raise StoreUnavailable("away")

    async def call() -> Any:
        return await tool_call("add", {"a": 1, "b": 2})

    await call()  # which puts the definition and the reply
    monkeypatch.setattr("crewlog.activities.batches._RETRY_DELAYS", (0.0,))
    put = store.put_bodies
    calls = 0

    async def first_then_away(run: Any, bodies: Any) -> None:
        nonlocal calls
        calls += 1
        await (put if calls == 1 else away)(run, bodies)

    monkeypatch.setattr(store, "put_bodies", first_then_away)
    result = await call()
    assert result.ok
    assert not result.stored


async def test_an_unavailable_store_before_the_effect_is_a_retry(tool_call, store, monkeypatch):
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("Postgres is away", remedy="Start it")

    monkeypatch.setattr(store, "append", away)
    log = Log()
    log.says("hi")
    before = len(crew_tools.seen)
    with pytest.raises(ApplicationError, match="Postgres is away") as failed:
        await tool_call("add", {"a": 1, "b": 2}, batch=log.batch())
    assert (failed.value.type, failed.value.non_retryable) == ("StoreUnavailable", False)
    details = failure_details(failed.value)
    assert (details.place, details.remedy, details.effect_started) == ("", "Start it", False)
    assert len(crew_tools.seen) == before
    assert LogName("public") in log.heads


async def test_a_call_without_its_approval_is_denied(tool_call):
    args = {"a": 1, "b": 2}
    for approvals, approved, ok in [
        ({"add": None}, "", False),
        ({"add": ["backend"]}, "", False),
        ({"add": ["writer"]}, "", True),
    ]:
        definition = crew(approvals=approvals)
        result = await tool_call("add", args, crew=definition, approved=approved)
        assert result.ok is ok
        assert ("Nobody has approved this call of 'add'." in result.body["content"]) is not ok
