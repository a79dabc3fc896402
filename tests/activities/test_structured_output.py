"""Structured outputs of agents: the request to the model, and the parsing of its reply."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from activity_kit import crew, with_info
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from covers import covers
from crewlog.activities.chat_models import register
from crewlog.activities.transcripts import Transcript
from crewlog.canonical_json import hash_json
from crewlog.ids import AgentName, ContentHash
from crewlog.model import Json
from crewlog.redaction import register_secret
from crewlog.state.calls import (
    CallModelResult,
    FinalMessage,
    FinalMessageInvalid,
    MessageUnusable,
    ToolCallsRequested,
)
from crewlog.state.drafts import draft_text
from crewlog.testing.scripted import recorded_prompts, scripted

ROUTE = {"decision": "route", "among": ["writer"]}


def routing(model: str, reply: Any = None, **more: Any) -> Any:
    return crew(model, backend={"reply": reply or ROUTE, **more})


def said(result: CallModelResult) -> dict[str, Json]:
    outcome = result.outcome
    if isinstance(outcome, MessageUnusable):
        outcome = outcome.accepted
    assert isinstance(outcome, FinalMessage), outcome
    assert outcome.output is not None
    return {o.key: o.value if o.body is None else o.content for o in outcome.output.outputs}


async def test_a_structured_output_is_requested_and_parsed(model_call, log):
    model = scripted({"agents": {"*": [{"text": '```json\n{"next": "writer"}\n```'}]}})
    log.says("go")
    result = await model_call(routing(model), log)
    assert said(result) == {"next": "writer", "instructions": "", "rationale": ""}
    (given,) = recorded_prompts(model)
    system = given.messages[0]["content"]
    assert system.startswith("Build it.")
    assert '"enum": ["writer"]' in system


async def test_an_invalid_output_has_faults(model_call, log):
    model = scripted({"agents": {"*": [{"text": '{"next": "nobody"}'}]}})
    result = await model_call(routing(model), log)
    errors = ("'next': 'nobody' is not one of writer",)
    assert result.outcome == FinalMessageInvalid(errors=errors)
    assert result.body["content"] == '{"next": "nobody"}', "it is kept all the same"


async def test_a_reply_with_tool_calls_is_not_final(model_call, log):
    call = {"tool": "add", "args": {}}
    model = scripted({"agents": {"*": [{"text": "hm", "tool_calls": [call]}]}})
    result = await model_call(routing(model), log, tools=("add",))
    assert isinstance(result.outcome, ToolCallsRequested)


async def test_the_text_at_a_limit_is_a_message_of_its_own(model_call, log, store):
    call = {"tool": "add", "args": {"a": "SECRET"}}
    model = scripted({"agents": {"*": [{"text": "So far.", "tool_calls": [call]}]}})
    result = await model_call(crew(model, backend={"on_cap": "end"}), log, tools=("add",))
    (draft,) = (await store.get_bodies([result.outcome.draft])).values()
    assert draft == draft_text(result.body)
    assert (draft["content"], "SECRET" in json.dumps(draft)) == ("So far.", False)
    assert CallModelResult.model_validate(json.loads(json.dumps(result.to_json()))) == result
    assert (await model_call(crew(model), log, tools=("add",))).outcome.draft is None


async def test_an_incomplete_reply_is_parsed(model_call, log):
    end = {"finish_reason": "length"}
    register("raw", lambda *_: Raw(AIMessage(TEXT, response_metadata=end), streams=True))  # type: ignore[arg-type,return-value]
    result = await model_call(routing("raw:cut"), log)
    assert (result.ending, said(result)["next"]) == ("cut", "writer")


async def test_an_agent_without_structured_output_gets_no_instructions(model_call, log):
    model = scripted({"agents": {"*": [{"text": "done"}]}})
    result = await model_call(crew(model), log)
    assert result.outcome == FinalMessage()
    assert recorded_prompts(model)[0].messages[0]["content"] == "Build it."


async def test_a_large_output_is_stored_once(model_call, log, store):
    steps = [{"id": f"s{n}", "agent": "writer", "task": "write " * 9} for n in range(9)]
    model = scripted({"agents": {"*": [{"text": json.dumps({"steps": steps})}]}})
    result = await model_call(routing(model, {"decision": "plan", "among": ["writer"]}), log)
    found = {output.key: output for output in result.outcome.output.outputs}
    body = found["steps"].body
    assert body == hash_json(found["steps"].content)
    assert (await store.get_bodies([body]))[body][0]["after"] == []
    again = CallModelResult.model_validate(json.loads(json.dumps(result.to_json())))
    assert again == result


async def test_an_output_contains_no_secret(model_call, log):
    key = "sk-" + "a1B2" * 12
    register_secret(key)
    model = scripted({"agents": {"*": [{"text": f'{{"next": "writer", "rationale": "{key}"}}'}]}})
    result = await model_call(routing(model), log)
    assert key not in json.dumps(result.to_json())


async def test_a_worker_without_the_decision_fails_retryably(model_call, log, monkeypatch):
    model = scripted({"agents": {"*": [{"text": TEXT}]}})
    monkeypatch.setattr("crewlog.definition.decisions._registered", {})
    monkeypatch.setattr("crewlog.definition.decisions._load", lambda: None)
    with pytest.raises(ApplicationError, match="no decision is called 'route'"):
        await model_call(routing(model), log)


# -- any form that LangChain has ------------------------------------------------------------------

TEXT = '{"next": "writer"}'


class Said(BaseModel):
    """What a model with structured output gives."""

    next: str


FORMS: dict[str, Any] = {
    "str": TEXT,
    "AIMessage": AIMessage(TEXT),
    "blocks": AIMessage([{"type": "text", "text": TEXT}]),
    "chunk": AIMessageChunk(content=TEXT),
    "ChatGeneration": ChatGeneration(message=AIMessage(TEXT)),
    "Generation": Generation(text=TEXT),
    "ChatResult": ChatResult(generations=[ChatGeneration(message=AIMessage(TEXT))]),
    "LLMResult": LLMResult(generations=[[Generation(text=TEXT)]]),
    "message as data": {"role": "assistant", "content": TEXT},
    "data": {"next": "writer"},
    "model": Said(next="writer"),
}


class Raw:
    """A runnable that gives what it is told to, in one piece or in several."""

    def __init__(self, reply: Any, *, streams: bool) -> None:
        self.reply, self.streams = reply, streams

    def bind_tools(self, *_args: Any) -> Raw:
        return self

    async def astream(self, *_args: Any) -> Any:
        if not self.streams:
            raise ValueError("No generation chunks were returned")
        pieces = [self.reply] if not isinstance(self.reply, str) else self.reply
        for piece in pieces:
            yield piece

    async def ainvoke(self, *_args: Any) -> Any:
        return self.reply


@covers("C75")
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("name", FORMS)
async def test_every_type_of_reply_is_parsed(model_call, log, name, streams):
    register("raw", lambda *_: Raw(FORMS[name], streams=streams))  # type: ignore[arg-type,return-value]
    result = await model_call(routing("raw:x"), log)
    assert said(result)["next"] == "writer"
    assert (result.body["type"], result.body["name"]) == ("ai", "backend")


async def test_something_else_than_a_reply_is_an_error(model_call, log):
    register("raw", lambda *_: Raw(42, streams=False))  # type: ignore[arg-type,return-value]
    with pytest.raises(ApplicationError, match="something else than a reply") as failed:
        await model_call(routing("raw:y"), log)
    assert failed.value.type == "ModelUnavailable"


# -- services that can hold a model to a form ----------------------------------------------------


class Service:
    """A service of OpenAI's kind that says one thing, and may not know forms."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuses = ""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.asked.append(body)
                refused = service.refuses and "response_format" in body
                message = {"role": "assistant", "content": TEXT}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                answer = {"id": "r", "object": "chat.completion", "created": 1, "model": "m"}
                data = json.dumps(
                    {"error": {"message": service.refuses, "code": "invalid"}}
                    if refused
                    else {**answer, "choices": [choice]}
                ).encode()
                self.send_response(400 if refused else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    made = Service()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{made.server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    yield made
    made.server.shutdown()
    made.server.server_close()


WHOLE = {"model_settings": {"streaming": False, "extra_body": {"seed": 7}}}


@covers("C89")
async def test_a_response_format_is_sent(model_call, log, service):
    log.says("go")
    assert said(await model_call(routing("openai:m", **WHOLE), log))["next"] == "writer"
    (asked,) = service.asked
    assert asked["seed"] == 7
    found = asked["response_format"]["json_schema"]
    assert (found["name"], found["strict"]) == ("route", True)
    schema = found["schema"]
    assert schema["required"] == ["next", "instructions", "rationale"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["next"]["enum"] == ["writer"]
    assert "default" not in json.dumps(schema)


async def test_a_service_without_response_formats_gets_none(model_call, log, service):
    service.refuses = "This response_format type is unavailable now"
    for _ in range(2):
        assert said(await model_call(routing("openai:m", **WHOLE), log))["next"] == "writer"
    assert ["response_format" in each for each in service.asked] == [True, False, False]


async def test_another_rejection_is_an_error(model_call, log, service):
    service.refuses = "the prompt is too long"
    with pytest.raises(ApplicationError, match="too long"):
        await model_call(routing("openai:m", **WHOLE), log)


async def test_no_response_format_with_tools(model_call, log, service):
    await model_call(routing("openai:m", **WHOLE), log, tools=("add",))
    assert "response_format" not in service.asked[0]


async def test_a_retry_has_no_response_format(model_call, log, service, env):
    with_info(env, attempt=2)
    await model_call(routing("openai:m", **WHOLE), log)
    assert "response_format" not in service.asked[0]


def test_a_final_message_at_a_limit_is_shown_once_to_its_author():
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    said = AIMessage("So far.", name="a", id="a#1/1", tool_calls=[call])
    answer = ToolMessage("seen", tool_call_id="c1")
    transcript = Transcript(AgentName("a"))
    for position, (message, body) in enumerate([(said, "h1"), (answer, "h2"), (said, "h1")], 1):
        transcript.add(message, ContentHash(body), position)
    assert transcript.completed_messages() == [said, answer]
