"""What LangChain's client of chat completions loses, and Crewlog's keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from activity_kit import crew

from crewlog.state.brief import brief_of
from scripted_service import Fails, Says, Script, Service, calls, openai_services

MODEL = "openai:m"


@pytest.fixture
def service(monkeypatch) -> Iterator[Callable[[Script], Service]]:
    with openai_services(monkeypatch) as start:
        yield start


def backend(streaming: bool, **more: Any) -> Any:
    return crew(MODEL, backend={"model_settings": {"streaming": streaming}, **more})


both = pytest.mark.parametrize("streaming", [True, False])


@both
async def test_a_refusal_is_the_text_and_is_refused(model_call, log, service, streaming):
    pieces = [{"refusal": "I can"}, {"refusal": "not."}]
    service(lambda *_: Says({"refusal": "I cannot."}, pieces=pieces))
    log.says("go")
    result = await model_call(backend(streaming), log)
    assert (result.ending, brief_of(result.body)) == ("refused", "I cannot.")


@both
@pytest.mark.parametrize("end", ["length", "content_filter", "because"])
async def test_a_reply_that_is_cut_asks_for_no_tool(model_call, log, service, streaming, end):
    service(lambda *_: Says({"content": "half", **calls('{"a": 1, "b": 2}')}, end=end))
    log.says("go")
    result = await model_call(backend(streaming), log, tools=("add",))
    expected = {"length": "cut", "content_filter": "withheld", "because": "unknown"}
    assert (result.ending, result.tools) == (expected[end], ())
    assert brief_of(result.body) == "half"
    assert result.body["response_metadata"]["finish_reason"] == end


@both
@pytest.mark.parametrize("arguments", ['"abc"', "123", "[1]", "null", '"{\\"a\\": 1}"', '{"a": '])
async def test_arguments_that_are_no_object_are_answered(
    model_call, tool_call, log, service, streaming, arguments
):
    service(lambda *_: Says(calls('{"a": 1, "b": 2}', arguments, name="add"), end="tool_calls"))
    log.says("go")
    asked = await model_call(backend(streaming), log, tools=("add",))
    assert len(asked.tools) == 2
    assert len(asked.body["tool_calls"]) == 1
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call("add", body=asked.body, id=asked.tools[1].id, batch=log.batch())
    assert not answer.ok
    assert "arguments of 'add' cannot be used" in brief_of(answer.body)


async def test_a_name_in_each_piece_is_one_name(model_call, log, service):
    whole = '{"a": 1, "b": 2}'
    pieces = [
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": part},
                }
            ]
        }
        for part in ("", whole[:5], whole[5:])
    ]
    service(lambda *_: Says(calls(whole, name="add"), "tool_calls", pieces))
    log.says("go")
    (tool,) = (await model_call(backend(True), log, tools=("add",))).tools
    assert tool.tool == "add"


@both
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_within_the_turn_and_is_in_no_final_message(
    model_call, tool_call, log, service, streaming, key
):
    def script(number: int, _: Any) -> Says:
        if number == 0:
            return Says({key: "private", **calls('{"a": 1, "b": 2}', name="add")}, "tool_calls")
        return Says({"content": "It is 3.", key: "private too"})

    models = service(script)
    log.says("go")
    asked = await model_call(backend(streaming), log, tools=("add",))
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call("add", body=asked.body, id=asked.tools[0].id, batch=log.batch())
    log.returned(answer, "backend")
    final = await model_call(backend(streaming), log, call=3)
    mine = [m for m in models.asked[1]["messages"] if m["role"] == "assistant"]
    assert [m.get(key) for m in mine] == ["private"]
    assert "private" not in str(final.body)
    # Another turn does not show what was thought in this one.
    log.replied(final, "backend", call=3)
    log.says("again")
    await model_call(backend(streaming), log, step="backend#2")
    assert "private" not in str(models.asked[2])


async def test_an_empty_message_is_not_sent_back(model_call, log, service):
    models = service(lambda n, _: Says({"content": ""} if n == 0 else {"content": "Here."}))
    log.says("go")
    result = await model_call(backend(False), log)
    assert result.ending == "empty"
    log.replied(result, "backend", "private:backend")
    log.says("again")
    await model_call(backend(False), log, call=2)
    assert [m["role"] for m in models.asked[1]["messages"]] == ["system", "user", "user"]


async def test_calls_with_broken_arguments_go_back_as_calls(model_call, tool_call, log, service):
    models = service(
        lambda n, _: (
            Says(calls('{"a": ', name="add"), "tool_calls") if n == 0 else Says({"content": "x"})
        )
    )
    log.says("go")
    asked = await model_call(backend(False), log, tools=("add",))
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call("add", body=asked.body, id=asked.tools[0].id, batch=log.batch())
    log.returned(answer, "backend")
    await model_call(backend(False), log, call=3)
    (mine,) = (m for m in models.asked[1]["messages"] if m["role"] == "assistant")
    assert mine["tool_calls"][0]["function"]["arguments"] == "{}"


@both
async def test_a_service_that_failed_in_the_middle_is_asked_again(
    model_call, log, service, streaming
):
    service(lambda *_: Says({"content": "half a te"}, end="error"))
    log.says("go")
    with pytest.raises(Exception, match="failed while it answered") as failed:
        await model_call(backend(streaming), log)
    assert not failed.value.non_retryable


async def test_a_form_that_is_refused_in_other_words_is_left_out(model_call, log, service):
    def script(_: int, asked: dict[str, Any]) -> Says | Fails:
        if "response_format" in asked:
            return Fails(400, {"error": {"message": "Extra inputs are not permitted"}})
        return Says({"content": '{"n": 1}'})

    models = service(script)
    form = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for _ in range(2):
        log.says("go")
        result = await model_call(backend(False, reply=form), log)
        assert result.reply is not None
    assert [("response_format" in each) for each in models.asked] == [True, False, False]


async def test_a_cut_reply_is_asked_for_again_with_a_larger_limit(model_call, log, service):
    models = service(lambda *_: Says({"content": "half"}, end="length"))
    log.says("go")
    settings = {"model_settings": {"streaming": False, "max_tokens": 100}}
    for cut in (0, 1, 2):
        await model_call(crew(MODEL, backend=settings), log, cut=cut)
    assert [each["max_completion_tokens"] for each in models.asked] == [100, 200, 400]
