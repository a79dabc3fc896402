"""A model over real HTTP: `ChatOpenAI` against a server that speaks OpenAI's language."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from activity_kit import Log, crew
from temporalio.exceptions import ApplicationError

from covers import covers
from crewlog.failure_details import failure_details
from crewlog.state.calls import CallModelResult, ToolCallsRequested
from crewlog.state.excerpt import message_excerpt
from http_model import KEY, http_model

MODEL = "openai:gpt-4o-mini"


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    with http_model() as url:
        yield url


@pytest.fixture(autouse=True)
def environment(service, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", service)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


async def ask(model_call, log: Log, text: str, **backend: object) -> CallModelResult:
    log.says(text)
    definition = crew(MODEL, backend=backend)
    return await model_call(definition, log, tools=("add", "set_flag", "set_output"))


async def test_a_reply_with_its_usage_and_its_price(model_call, log):
    result = await ask(model_call, log, "hello", model_settings={"temperature": 0})
    assert message_excerpt(result.body) == "Hello."
    assert result.model.startswith("gpt-4o-mini")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (1000, 100)
    assert result.usage.cost == pytest.approx(0.00021)


@pytest.mark.parametrize(
    ("text", "brief", "end"),
    [
        ("use a tool", "3", "It is 3."),
        ("break a tool", "The arguments of 'add' cannot be used", "I see."),
    ],
)
@covers("C74")
async def test_a_turn_with_a_tool(model_call, tool_call, log, text, brief, end):
    asked = await ask(model_call, log, text)
    assert isinstance(asked.outcome, ToolCallsRequested)
    (tool,) = asked.outcome.calls
    assert tool.tool == "add"
    log.replied(asked, "backend", "private:backend")
    answer = await tool_call("add", body=asked.body, id=tool.id, batch=log.batch())
    assert message_excerpt(answer.body).startswith(brief)
    log.returned(answer, "backend")
    assert message_excerpt((await model_call(crew(MODEL), log, call=3)).body) == end


async def test_an_empty_reply_ends_the_turn(model_call, log):
    result = await ask(model_call, log, "say nothing")
    assert (result.body["content"], message_excerpt(result.body)) == ("", "")
    assert not isinstance(result.outcome, ToolCallsRequested)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("busy", "ModelRateLimited", "answered 429: the service says rate_limit_exceeded"),
        ("no quota", "ModelRequestRejected", "answered 429: the service says insufficient_quota"),
        ("broken", "ModelUnavailable", "'openai:gpt-4o-mini' answered 500"),
        ("no such model", "ModelRequestRejected", "answered 404: the service says model_not_found"),
        ("bad request", "ModelRequestRejected", "answered 400"),
    ],
)
async def test_rejections_and_transient_errors(model_call, log, text, kind, message):
    with pytest.raises(ApplicationError, match=message) as failed:
        await ask(model_call, log, text)
    assert failed.value.type == kind
    assert failed.value.non_retryable == (kind == "ModelRequestRejected")
    assert failure_details(failed.value).remedy, "a remedy"
    wait = failed.value.next_retry_delay
    assert wait == (timedelta(seconds=7) if text == "busy" else None)
    if text == "busy":
        details = failure_details(failed.value)
        assert details.call_again
        assert details.retry_after_seconds == 7.0, "the run waits so long between its rounds"


async def test_a_wrong_key(model_call, log, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-bad-key")
    with pytest.raises(ApplicationError, match="answered 401") as failed:
        await ask(model_call, log, "hello")
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)
    assert "OPENAI_API_KEY" in failure_details(failed.value).remedy


async def test_a_slow_model_times_out_before_the_activity(model_call, log):
    begun = time.monotonic()
    with pytest.raises(ApplicationError, match="did not answer in time") as failed:
        await ask(model_call, log, "be slow", timeout="1s")
    assert time.monotonic() - begun < 15  # the model would answer after 20
    assert (failed.value.type, failed.value.non_retryable) == ("ModelUnavailable", False)


async def test_an_unreachable_address(model_call, log, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ApplicationError, match="cannot be reached") as failed:
        await ask(model_call, log, "hello")
    assert (failed.value.type, failed.value.non_retryable) == ("ModelUnavailable", False)
    assert "OPENAI_BASE_URL" in failure_details(failed.value).remedy


async def test_an_unknown_setting(model_call, log):
    with pytest.raises(ApplicationError) as failed:
        await ask(model_call, log, "hello", model_settings={"temprature": 0})
    assert (failed.value.type, failed.value.non_retryable) == ("ModelRequestRejected", True)
    assert "model_settings" in failure_details(failed.value).remedy
