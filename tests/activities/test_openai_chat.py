"""What LangChain's client of chat completions loses, and Crewlog's keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from activity_kit import crew
from langchain_core.language_models import BaseChatModel
from langchain_openai.chat_models.base import BaseChatOpenAI
from temporalio.exceptions import ApplicationError

from crewlog.activities import chat_models
from crewlog.activities.chat_models import make_provider_model, register
from crewlog.failure_details import failure_details
from crewlog.state.calls import MessageUnusable
from crewlog.state.excerpt import message_excerpt
from scripted_service import Fails, Says, Script, Service, calls, openai_services

MODEL = "openai:m"


@pytest.fixture
def service(monkeypatch) -> Iterator[Callable[[Script], Service]]:
    with openai_services(monkeypatch) as start:
        yield start


@pytest.fixture(params=["openai", "azure_openai", "deep"])
def model(request, service, monkeypatch) -> str:
    """A model whose client speaks OpenAI's dialect: ours, another provider's, and one's own."""
    monkeypatch.setattr(chat_models, "_BUILDERS", {**chat_models._BUILDERS})
    if request.param == "azure_openai":
        # Its address follows that of the service, which a test starts later.
        register("azure_openai", _azure)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    register("deep", _deep)
    return f"{request.param}:m"


def _azure(name: str, settings: Mapping[str, Any], timeout: float) -> BaseChatModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_OPENAI_ENDPOINT", os.environ["OPENAI_BASE_URL"].removesuffix("/v1"))
        patch.delenv("OPENAI_BASE_URL")
        return make_provider_model("azure_openai", name, settings, timeout)


class _Deep(BaseChatOpenAI):
    """A client that names a provider of its own, as those of DeepSeek and xAI do."""

    def _convert_chunk_to_generation_chunk(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._convert_chunk_to_generation_chunk(*args, **kwargs)
        if found is not None:
            found.message.response_metadata["model_provider"] = "deep"
        return found


def _deep(name: str, settings: Mapping[str, Any], timeout: float) -> BaseChatModel:
    given = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": "k", "max_retries": 0}
    return _Deep(model=name, timeout=timeout, **given, **settings)


def backend(streaming: bool, model: str = MODEL, **more: Any) -> Any:
    return crew(model, backend={"model_settings": {"streaming": streaming}, **more})


both = pytest.mark.parametrize("streaming", [True, False])


@both
async def test_a_refusal_is_the_text_of_the_reply(model_call, log, service, streaming, model):
    pieces = [{"refusal": "I can"}, {"refusal": "not."}]
    service(lambda *_: Says({"refusal": "I cannot."}, pieces=pieces))
    log.says("go")
    result = await model_call(backend(streaming, model), log)
    assert (result.ending, message_excerpt(result.body)) == ("refused", "I cannot.")


@both
@pytest.mark.parametrize("end", ["length", "content_filter", "because"])
async def test_a_reply_that_is_cut_off_calls_no_tool(
    model_call, log, service, streaming, model, end
):
    service(lambda *_: Says({"content": "half", **calls('{"a": 1, "b": 2}')}, end=end))
    log.says("go")
    result = await model_call(backend(streaming, model), log, tools=("add",))
    expected = {"length": "cut", "content_filter": "withheld", "because": "unknown"}
    assert result.outcome == MessageUnusable(ending=expected[end])
    assert message_excerpt(result.body) == "half"
    assert result.body["response_metadata"]["finish_reason"] == end


@both
@pytest.mark.parametrize("arguments", ['"abc"', "123", "[1]", "null", '"{\\"a\\": 1}"', '{"a": '])
async def test_arguments_that_are_not_an_object_get_an_error(
    model_call, tool_call, log, service, streaming, model, arguments
):
    service(lambda *_: Says(calls('{"a": 1, "b": 2}', arguments, name="add"), end="tool_calls"))
    log.says("go")
    asked = await model_call(backend(streaming, model), log, tools=("add",))
    assert len(asked.outcome.calls) == 2
    assert len(asked.body["tool_calls"]) == 1
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call(
        "add", body=asked.body, id=asked.outcome.calls[1].id, batch=log.batch()
    )
    assert not answer.ok
    assert "arguments of 'add' cannot be used" in message_excerpt(answer.body)


async def test_a_name_in_each_chunk_is_one_name(model_call, log, service):
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
    (tool,) = (await model_call(backend(True), log, tools=("add",))).outcome.calls
    assert tool.tool == "add"


def part(args: str, name: str = "", **fields: Any) -> dict[str, Any]:
    """A piece of a tool call."""
    function = {"arguments": args, **({"name": name} if name else {})}
    return {"tool_calls": [{"type": "function", "function": function, **fields}]}


@pytest.mark.parametrize(
    "fields",
    [
        ({}, {}, {}),
        ({"index": None}, {"index": None}, {"index": None}),
        ({"index": 0}, {}, {}),
        ({"index": 0, "id": "c1"}, {"index": 0, "id": "c2"}, {"index": 0, "id": "c3"}),
    ],
)
async def test_a_call_in_chunks_keeps_its_arguments(model_call, log, service, model, fields):
    pieces = [
        part("", "add", **{"id": "c", **fields[0]}),
        part('{"a": 1, ', **fields[1]),
        part('"b": 2}', **fields[2]),
    ]
    chat_models = service(lambda *_: Says({}, "tool_calls", pieces))
    log.says("go")
    asked = await model_call(backend(True, model), log, tools=("add",))
    assert [(c["name"], c["args"]) for c in asked.body["tool_calls"]] == [("add", {"a": 1, "b": 2})]
    assert len(chat_models.asked) == 1


async def test_a_call_that_lost_its_name_is_requested_without_streaming(
    model_call, log, service, model
):
    whole = calls('{"a": 1, "b": 2}', name="add")
    pieces = [part("", "add", index=0, id="c"), part('{"a": 1, "b": 2}', index=1)]
    chat_models = service(lambda *_: Says(whole, "tool_calls", pieces))
    log.says("go")
    asked = await model_call(backend(True, model), log, tools=("add",))
    assert [c["args"] for c in asked.body["tool_calls"]] == [{"a": 1, "b": 2}]
    assert "invalid_tool_calls" not in asked.body
    assert [bool(each.get("stream")) for each in chat_models.asked] == [True, False]


@both
@pytest.mark.parametrize(
    ("body", "said", "remedy"),
    [
        ({"detail": "Not authenticated"}, "Not authenticated", "api_key: env:NAME"),
        ({"message": "Forbidden"}, "Forbidden", "another key"),
        ({"error": "Invalid API key"}, "Invalid API key", "api_key: env:NAME"),
        ({"error": {"message": "none left", "code": "insufficient_quota"}}, "none left", "credit"),
        ({"error": {"message": "Insufficient balance"}}, "Insufficient balance", "credit"),
        ({"object": "error", "message": "bad n", "code": 400}, "bad n", "model_settings"),
        (
            {"object": "error", "message": "bad n", "type": "BadRequestError", "choices": []},
            "bad n",
            "model_settings",
        ),
    ],
)
async def test_an_error_with_status_200_is_not_retried(
    model_call, log, service, streaming, model, body, said, remedy
):
    service(lambda *_: Fails(200, body))
    log.says("go")
    with pytest.raises(ApplicationError, match=said) as failed:
        await model_call(backend(streaming, model), log)
    assert failed.value.non_retryable
    assert remedy in failure_details(failed.value).remedy


@both
@pytest.mark.parametrize("body", [{"choices": []}, {"choices": None}, {"detail": "Try later"}])
async def test_a_response_without_a_reply_is_an_error(
    model_call, log, service, streaming, model, body
):
    service(lambda *_: Fails(200, body))
    log.says("go")
    with pytest.raises(
        ApplicationError, match=body.get("detail", "no choices|message is incomplete")
    ) as failed:
        await model_call(backend(streaming, model), log)
    assert not failed.value.non_retryable


async def test_an_error_of_the_responses_api(model_call, log, service):
    service(lambda *_: Fails(200, {"detail": "Not authenticated"}))
    log.says("go")
    settings = {"model_settings": {"use_responses_api": True}}
    with pytest.raises(ApplicationError, match="Not authenticated") as failed:
        await model_call(crew(MODEL, backend=settings), log)
    assert failed.value.non_retryable


async def test_a_stream_without_an_end_has_broken_off(model_call, log, service, model):
    service(lambda *_: Says({"content": "the first half"}, end=None))
    log.says("go")
    with pytest.raises(ApplicationError, match="message is incomplete") as failed:
        await model_call(backend(True, model), log)
    assert not failed.value.non_retryable
    # In one piece it is there to its last character.
    result = await model_call(backend(False, model), log)
    assert (result.ending, message_excerpt(result.body)) == ("", "the first half")


@both
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_reasoning_is_sent_back_within_the_turn_only(
    model_call, tool_call, log, service, streaming, model, key
):
    def script(number: int, _: Any) -> Says:
        if number == 0:
            return Says({key: "private", **calls('{"a": 1, "b": 2}', name="add")}, "tool_calls")
        return Says({"content": "It is 3.", key: "private too"})

    chat_models = service(script)
    log.says("go")
    asked = await model_call(backend(streaming, model), log, tools=("add",))
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call(
        "add", body=asked.body, id=asked.outcome.calls[0].id, batch=log.batch()
    )
    log.returned(answer, "backend")
    final = await model_call(backend(streaming, model), log, call=3)
    mine = [m for m in chat_models.asked[1]["messages"] if m["role"] == "assistant"]
    assert [m.get(key) for m in mine] == ["private"]
    assert "private" not in str(final.body)
    # Another turn does not show what was thought in this one.
    log.replied(final, "backend", call=3)
    log.says("again")
    await model_call(backend(streaming, model), log, step="backend#2")
    assert "private" not in str(chat_models.asked[2])


async def test_an_empty_message_is_not_sent_back(model_call, log, service):
    chat_models = service(lambda n, _: Says({"content": ""} if n == 0 else {"content": "Here."}))
    log.says("go")
    result = await model_call(backend(False), log)
    assert result.ending == "empty"
    log.replied(result, "backend", "private:backend")
    log.says("again")
    await model_call(backend(False), log, call=2)
    assert [m["role"] for m in chat_models.asked[1]["messages"]] == ["system", "user", "user"]


async def test_calls_with_invalid_arguments_are_sent_back(model_call, tool_call, log, service):
    chat_models = service(
        lambda n, _: (
            Says(calls('{"a": ', name="add"), "tool_calls") if n == 0 else Says({"content": "x"})
        )
    )
    log.says("go")
    asked = await model_call(backend(False), log, tools=("add",))
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call(
        "add", body=asked.body, id=asked.outcome.calls[0].id, batch=log.batch()
    )
    log.returned(answer, "backend")
    await model_call(backend(False), log, call=3)
    (mine,) = (m for m in chat_models.asked[1]["messages"] if m["role"] == "assistant")
    assert mine["tool_calls"][0]["function"]["arguments"] == "{}"


@both
async def test_a_call_is_retried_after_an_error_in_the_stream(model_call, log, service, streaming):
    service(lambda *_: Says({"content": "half a te"}, end="error"))
    log.says("go")
    with pytest.raises(Exception, match="failed while it answered") as failed:
        await model_call(backend(streaming), log)
    assert not failed.value.non_retryable


async def test_a_rejected_response_format_is_left_out(model_call, log, service):
    def script(_: int, asked: dict[str, Any]) -> Says | Fails:
        if "response_format" in asked:
            return Fails(400, {"error": {"message": "Extra inputs are not permitted"}})
        return Says({"content": '{"n": 1}'})

    chat_models = service(script)
    form = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for _ in range(2):
        log.says("go")
        result = await model_call(backend(False, reply=form), log)
        assert result.outcome.output is not None
    assert [("response_format" in each) for each in chat_models.asked] == [True, False, False]


async def test_a_reply_that_is_cut_off_is_retried_with_a_larger_limit(model_call, log, service):
    chat_models = service(lambda *_: Says({"content": "half"}, end="length"))
    log.says("go")
    settings = {"model_settings": {"streaming": False, "max_tokens": 100}}
    for cut in (0, 1, 2):
        await model_call(crew(MODEL, backend=settings), log, cut=cut)
    assert [each["max_completion_tokens"] for each in chat_models.asked] == [100, 200, 400]
