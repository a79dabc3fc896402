"""Streamed replies: heartbeats have their text; the message is the same as without streaming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from activity_kit import crew, with_info
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from temporalio.exceptions import ApplicationError

from crewlog.activities.chat_models import register
from crewlog.activities.chunks import MAX_TAIL, StreamingUnsupported, join_message_chunks
from crewlog.errors import ModelUnavailable
from crewlog.redaction import REDACTED, register_secret
from crewlog.state.calls import Chunk
from crewlog.state.excerpt import message_excerpt
from http_model import KEY, http_model

OPENAI = {"model_provider": "openai"}
LONG = " ".join(f"word{n}" for n in range(600))
CALL = {"tool": "write_file", "args": {"path": "a", "content": "b"}, "id": "call_1"}


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with http_model() as url:
        yield url


def told_by(env: Any) -> list[Chunk]:
    told: list[Chunk] = []
    env.on_heartbeat = lambda *details: told.extend(Chunk.from_json(d) for d in details)
    return told


async def test_heartbeats_have_the_end_of_the_text(model_call, log, env):
    told = told_by(env)
    with_info(env, attempt=2)
    definition = crew({"pace": 8_000, "agents": {"backend": [{"text": LONG}]}})
    result = await model_call(definition, log)
    assert result.body["content"] == LONG
    assert len(told) >= 2
    for each in told:
        assert (each.step, each.call, each.agent, each.attempt) == ("backend#1", 1, "backend", 2)
        assert LONG[each.offset :].startswith(each.text)
    ends = [each.offset + len(each.text) for each in told]
    assert ends == sorted(set(ends)), "it grows"
    assert max(len(each.text) for each in told) == MAX_TAIL
    assert told[-1].offset > 0


async def test_a_secret_is_never_sent_in_part(model_call, log, env):
    told, secret = told_by(env), "¤" + " 0123" * 120
    register_secret(secret)
    text = f"{'word ' * 80}{secret} word {'word ' * 80}"
    result = await model_call(crew({"pace": 2_000, "agents": {"*": [{"text": text}]}}), log)
    assert REDACTED in result.body["content"]
    assert len(told) >= 3
    assert not [each.text for each in told if "¤" in each.text or "0123" in each.text]
    assert all(result.body["content"][each.offset :].startswith(each.text) for each in told)


@pytest.mark.parametrize("pace", [0, 100_000])
async def test_a_quick_reply_sends_nothing(model_call, log, env, pace):
    told = told_by(env)
    result = await model_call(crew({"pace": pace, "agents": {"*": [{"text": "Done."}]}}), log)
    assert (message_excerpt(result.body), told) == ("Done.", [])


async def test_streaming_can_be_disabled(model_call, log, env):
    told = told_by(env)
    script = {"pace": 1_000, "agents": {"*": [{"text": "one two three " * 20}]}}
    settings = {"model_settings": {"streaming": False}}
    result = await model_call(crew(script, backend=settings), log)
    assert result.body["content"].startswith("one two three")
    assert told == []


@pytest.mark.parametrize(
    "entry",
    [
        {"text": "All is  well.\n\n", "usage": {"input": 120, "output": 30}},
        {"text": "Writing.", "tool_calls": [CALL, {**CALL, "id": "call_2"}]},
        {"tool_calls": [CALL]},
        {"text": "", "nonsense": True},
    ],
)
async def test_chunks_make_the_same_message(model_call, log, entry):
    replies = [
        await model_call(crew({"pace": pace, "agents": {"*": [entry]}}), log, tools=("write_file",))
        for pace in (100_000, 0)
    ]
    assert replies[0].body == replies[1].body
    assert replies[0].usage == replies[1].usage
    assert replies[0].outcome == replies[1].outcome


@pytest.mark.parametrize("text", ["hello", "use a tool", "break a tool", "say nothing"])
async def test_chunks_make_the_same_message_over_http(model_call, log, service, monkeypatch, text):
    monkeypatch.setenv("OPENAI_BASE_URL", service)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    log.says(text)
    batch = log.batch()
    replies = [
        await model_call(
            crew("openai:gpt-4o-mini", backend={"model_settings": settings}),
            log,
            batch=batch,
            tools=("add",),
        )
        for settings in ({}, {"streaming": False})
    ]
    assert replies[0].body == replies[1].body
    assert replies[0].outcome == replies[1].outcome
    assert replies[0].usage == replies[1].usage


# -- what services do that LangChain's sum does not expect -------------------------------------


def piece(content: str = "", **fields: Any) -> AIMessageChunk:
    metadata = {**OPENAI, **fields.pop("metadata", {})}
    return AIMessageChunk(content, response_metadata=metadata, **fields)


def usage(output: int) -> dict[str, int]:
    return {"input_tokens": 10, "output_tokens": output, "total_tokens": 10 + output}


def test_repeated_usage_counts_once():
    end = {"finish_reason": "stop", "model_name": "m"}
    message: Any = join_message_chunks(
        [
            piece("a", metadata={"model_name": "m"}, usage_metadata=usage(1)),
            piece("b", metadata=end, usage_metadata=usage(2)),
            piece("", metadata=end, usage_metadata=usage(2)),
        ]
    )
    assert type(message) is AIMessage
    assert message.content == "ab"
    assert message.response_metadata == {**OPENAI, **end}
    assert message.usage_metadata == usage(2)


def test_parts_of_usage_are_added():
    first = AIMessageChunk("a", usage_metadata=usage(0))
    last = AIMessageChunk(
        "b", usage_metadata={"input_tokens": 0, "output_tokens": 7, "total_tokens": 7}
    )
    message: Any = join_message_chunks([first, last])
    assert message.usage_metadata == usage(7)


@pytest.mark.parametrize("text", ['{"path": "a", "con', "[1]", '{"path"'])
def test_arguments_that_were_cut_off_are_never_used(text):
    cut = tool_call_chunk(name="write_file", args=text, id="c1", index=0)
    message: Any = join_message_chunks(
        [piece(tool_call_chunks=[cut]), piece(metadata={"finish_reason": "length"})]
    )
    assert message.tool_calls == []
    assert [(c["name"], c["args"]) for c in message.invalid_tool_calls] == [("write_file", text)]


def test_a_stream_that_breaks_off_is_an_error():
    with pytest.raises(ModelUnavailable, match="message is incomplete"):
        join_message_chunks([piece("It is "), piece("not ")])


def test_lost_tool_calls_are_requested_again():
    with pytest.raises(StreamingUnsupported):
        join_message_chunks([piece(""), piece(metadata={"finish_reason": "tool_calls"})])


class _Refused(Exception):
    def __init__(self, fault: str, status: int) -> None:
        super().__init__(fault)
        self.status_code = status


class _Whole(BaseChatModel):
    """A service that refuses to stream."""

    tried: list[str]
    fault: str = "Your organization must be verified to stream this model."
    status: int = 400

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(self, *_args: Any, **_kwargs: Any) -> ChatResult:
        self.tried.append("whole")
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Here."))])

    async def _astream(self, *_args: Any, **_kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.tried.append("stream")
        raise _Refused(self.fault, self.status)
        yield ChatGenerationChunk(message=AIMessageChunk(""))


async def test_streaming_is_tried_once_if_a_service_rejects_it(model_call, log):
    model = _Whole(tried=[])
    register("whole", lambda *_: model)
    for _ in range(2):
        assert message_excerpt((await model_call(crew("whole:x"), log)).body) == "Here."
    assert model.tried == ["stream", "whole", "whole"]


@pytest.mark.parametrize("fault", ["Extra inputs are not permitted", "Unknown parameter"])
async def test_another_rejection_of_streaming_is_recognized(model_call, log, fault):
    model = _Whole(tried=[], fault=fault)
    register("other", lambda *_: model)
    for _ in range(2):
        assert message_excerpt((await model_call(crew("other:x"), log)).body) == "Here."
    assert model.tried == ["stream", "whole", "whole"]


@pytest.mark.parametrize(
    ("status", "fault"), [(401, "no such thing"), (400, "no such thing: prompt is too long")]
)
async def test_other_rejections_of_a_stream_are_not_retried(model_call, log, status, fault):
    model = _Whole(tried=[], fault=fault, status=status)
    register("refusing", lambda *_: model)
    with pytest.raises(ApplicationError, match="no such thing"):
        await model_call(crew("refusing:x"), log)
    assert model.tried == ["stream"]


class _Endless(_Whole):
    async def _astream(self, *_args: Any, **_kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        while True:
            await asyncio.sleep(0.01)
            yield ChatGenerationChunk(message=AIMessageChunk("on "))


async def test_a_reply_that_never_ends_times_out(model_call, log):
    register("endless", lambda *_: _Endless(tried=[]))
    definition = crew("endless:x", backend={"timeout": "0.5s"})
    with pytest.raises(ApplicationError, match="did not answer in time") as failed:
        await asyncio.wait_for(model_call(definition, log), 60)
    assert failed.value.type == "ModelUnavailable"


async def test_a_cancelled_reply_ends(model_call, log, env):
    writing = asyncio.Event()
    env.on_heartbeat = lambda *_: writing.set()
    definition = crew({"pace": 50, "agents": {"*": [{"text": LONG}]}})
    task = asyncio.ensure_future(model_call(definition, log))
    await asyncio.wait_for(writing.wait(), 60)
    env.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
