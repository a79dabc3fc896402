"""Reading prompts with services compatible with OpenAI, with and without structured output."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cachetools import LRUCache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from crewlog.activities import prompt_compiler as reads
from crewlog.activities.chat_models import ModelFactory, register
from crewlog.activities.prompt_compiler import call_model
from crewlog.activities.usage import compute_usage
from crewlog.errors import ModelRequestRejected
from crewlog.model import Json
from crewlog.prompt.model_reader import LARGEST_REPLY, REPAIRS, take_reply
from crewlog.prompt.reading import reading_schema
from crewlog.prompt.registry import Registry
from crewlog.state.model import NoReading
from readings import reply

TEXT = "Ana drafts the notes, then the checker reviews them."
GOOD = reply(("ana", "drafts the notes", [1]), ("checker", "reviews them", [2]), of=2)
REGISTRY = Registry(model="openai:m")
NO_SCHEMA = "Unknown parameter: 'response_format'."
ALLOWED = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "items", "properties"}
    | {"required", "type"}
)
"""What a strict service takes of a schema."""

Body = dict[str, Any]
Says = Callable[[Body], tuple[int, Body | str]]


class Service:
    """A service of OpenAI's kind.

    Args:
        says: The status and the text of the answer to a request; or its error.
    """

    def __init__(self, says: Says) -> None:
        self.asked: list[Body] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body: Body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.asked.append(body)
                status, said = says(body)
                answer = said if isinstance(said, dict) else completion(said)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


def completion(text: str, end: str = "stop") -> Body:
    """A whole answer of a service."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": end,
    }
    return {
        "id": "r",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37},
    }


def refusal(message: str) -> tuple[int, Body]:
    return 400, {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def loose_in(schema: Any) -> list[str]:
    """What a strict service would not take of a schema."""
    if isinstance(schema, list):
        return [found for each in schema for found in loose_in(each)]
    if not isinstance(schema, dict):
        return []
    found = [f"keyword {key!r}" for key in schema.keys() - ALLOWED]
    if "$ref" in schema and len(schema) > 1:
        found.append("$ref beside other keywords")
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            found.append("additionalProperties")
        if schema.get("required") != list(schema.get("properties", {})):
            found.append("required")
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found += loose_in(list(value.values()))
        elif key in ("items", "anyOf"):
            found += loose_in(value)
    return found


def schema_in_messages(body: Body) -> bool:
    return '"$defs"' in json.dumps([each["content"] for each in body["messages"]]).replace("\\", "")


def strict(body: Body) -> tuple[int, Body | str]:
    """Holds the model to a strict schema, and answers nothing without one."""
    asked = body.get("response_format") or {}
    form = asked.get("json_schema") or {}
    if asked.get("type") != "json_schema" or form.get("strict") is not True:
        return refusal("this service answers only with a strict json_schema")
    if found := loose_in(form.get("schema")):
        return refusal(f"the schema is not strict: {found}")
    if schema_in_messages(body):
        return refusal("the messages repeat the schema")
    return 200, GOOD


def plain(body: Body) -> tuple[int, Body | str]:
    """Knows no structured output; its model wraps the JSON in words and a fence."""
    if "response_format" in body:
        return refusal(NO_SCHEMA)
    if not schema_in_messages(body):
        return 200, "Which schema?"
    return 200, f"Here it is:\n```json\n{GOOD}\n```"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(reads, "_PLAIN", LRUCache[str, bool](8))  # tests share no refusals


@contextmanager
def serving(says: Says, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    made = Service(says)
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


async def asked(*replies: str, models: ModelFactory | None = None) -> tuple[Any, Any]:
    told: dict[str, Json] = {"run": "r"}
    return await call_model(TEXT, REGISTRY, replies, models or ModelFactory(), told)


def assert_understood(said: str) -> None:
    compiled = take_reply(TEXT, [said], REGISTRY).compiled
    assert compiled is not None
    assert compiled.ok
    assert compiled.definition is not None
    assert list(compiled.definition.agents) == ["ana", "checker"]


async def test_the_schema_is_sent_once_besides_the_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(strict, monkeypatch) as service:
        said, message = await asked()
        again, _ = await asked("no", "nor this")
    assert_understood(said)
    assert_understood(again)
    first, second = service.asked  # one request each: nothing was refused
    for body in service.asked:
        assert body["response_format"]["json_schema"]["schema"] == reading_schema()
        assert json.dumps(body).count('"$defs"') == 1
        assert "tools" not in body
    assert [each["role"] for each in first["messages"]] == ["system", "user"]
    assert [each["role"] for each in second["messages"][2:]] == ["assistant", "user"] * 2
    used = await compute_usage(message, "openai:m")
    assert (used.calls, used.input_tokens, used.output_tokens) == (1, 30, 7)


async def test_structured_output_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = ModelFactory()
    with serving(plain, monkeypatch) as service:
        said, _ = await asked(models=models)
        again, _ = await asked("no", models=models)
        other, _ = await asked(models=ModelFactory())
    for each in (said, again, other):
        assert_understood(each)
    assert ["response_format" in body for body in service.asked] == [True, False, False, False]
    refused, *answered = service.asked
    assert not schema_in_messages(refused)
    for body in answered:
        (at,) = (n for n, each in enumerate(body["messages"]) if '"$defs"' in each["content"])
        assert body["messages"][at]["role"] == "system"
        assert body["messages"][at]["content"].count('"$defs"') == 1


async def test_another_rejection_is_an_error_and_the_schema_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuses = [True, True]  # with the schema, and without it

    def once(body: Body) -> tuple[int, Body | str]:
        return refusal("no credit is left") if refuses.pop() else strict(body)

    with serving(once, monkeypatch) as service:
        with pytest.raises(ModelRequestRejected, match="no credit is left"):
            await asked()
        refuses.append(False)
        assert_understood((await asked())[0])
    assert ["response_format" in body for body in service.asked] == [True, False, True]


@pytest.mark.parametrize(
    ("end", "ending", "told"),
    [
        ("length", "cut", "cut off at the limit of output"),
        ("content_filter", "withheld", "its service withheld the reply"),
        ("because", "unknown", "without a reason that Crewlog knows"),
    ],
)
async def test_an_incomplete_reply_is_no_reading(
    monkeypatch: pytest.MonkeyPatch, end: str, ending: Any, told: str
) -> None:
    with serving(lambda _: (200, completion(GOOD, end)), monkeypatch) as service:
        said, _ = await asked()
    assert said == NoReading(ending=ending)
    assert len(service.asked) == 1
    assert take_reply(TEXT, [said], REGISTRY).compiled is None  # the model is asked again
    done = take_reply(TEXT, [said] * (REPAIRS + 1), REGISTRY).compiled
    assert done is not None
    (remark,) = done.remarks
    assert told in remark.diagnostic.message
    assert "the reader `forms`" in remark.diagnostic.remedy


async def test_a_refusal_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = completion("")
    answer["choices"][0]["message"]["refusal"] = "I will not."
    with serving(lambda _: (200, answer), monkeypatch):
        assert (await asked())[0] == NoReading(ending="refused")


async def test_a_long_reply_is_truncated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(lambda _: (200, "x" * (LARGEST_REPLY + 10)), monkeypatch):
        said, _ = await asked()
    assert len(said) == LARGEST_REPLY + 1
    assert take_reply(TEXT, [said], REGISTRY).faults == 1


class Model(BaseChatModel):
    """A model of another kind, without tools; it says one thing.

    Args:
        answer: What it says.
    """

    answer: AIMessage
    heard: list[tuple[list[BaseMessage], dict[str, Any]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "model"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.heard.append((messages, kwargs))
        return ChatResult(generations=[ChatGeneration(message=self.answer)])


class NoTools(Exception):
    """The error of a service that does not support tools."""

    status_code = 400

    def __str__(self) -> str:
        return "this model does not support tools"


class WithTools(Model):
    """The same with tools, which may be too much for its service."""

    refuses: bool = False

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        if self.refuses and "tools" in kwargs:
            raise NoTools
        return result


async def of(model: Model, *replies: str) -> Any:
    """What a model of another kind says."""
    register("other", lambda *_: model)
    told: dict[str, Json] = {"run": "r"}
    offered = Registry(model="other:m")
    said, _ = await call_model(TEXT, offered, replies, ModelFactory(), told)
    return said


def schemas_in(messages: Sequence[BaseMessage]) -> list[str]:
    """The kinds of the messages that have the schema."""
    return [each.type for each in messages if '"$defs"' in str(each.content)]


async def test_the_arguments_of_a_tool_call_are_the_reply() -> None:
    call = ToolCall(name="reading", args=json.loads(GOOD), id="c1", type="tool_call")
    model = WithTools(answer=AIMessage("", tool_calls=[call]))
    said = await of(model)
    assert json.loads(said) == json.loads(GOOD)
    assert_understood(said)
    ((messages, options),) = model.heard
    (tool,) = options["tools"]
    assert tool["function"]["parameters"]["required"] == reading_schema()["required"]
    assert schemas_in(messages) == []


async def test_a_model_with_tools_may_reply_with_text() -> None:
    model = WithTools(answer=AIMessage(f"Sure.\n{GOOD}"))
    assert_understood(await of(model))
    assert len(model.heard) == 1


async def test_a_model_without_tools_gets_the_schema_as_text() -> None:
    model = Model(answer=AIMessage(GOOD))
    assert_understood(await of(model, "no"))
    ((messages, options),) = model.heard
    assert "tools" not in options
    assert schemas_in(messages) == ["system"]


async def test_tools_are_tried_once_if_a_service_rejects_them() -> None:
    model = WithTools(answer=AIMessage(GOOD), refuses=True)
    assert_understood(await of(model))
    assert_understood(await of(model))
    assert ["tools" in options for _, options in model.heard] == [True, False, False]
    assert [schemas_in(messages) for messages, _ in model.heard] == [[], ["system"], ["system"]]


def test_the_test_services_can_reject() -> None:
    """A check that cannot fail shows nothing."""
    form: Body = {"name": "reading", "schema": reading_schema(), "strict": True}
    body: Body = {
        "messages": [{"role": "user", "content": TEXT}],
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    assert strict(body) == (200, GOOD)
    assert strict({**body, "response_format": {"type": "json_object"}})[0] == 400
    assert strict({"messages": body["messages"]})[0] == 400
    whole = json.dumps(reading_schema())
    assert strict({**body, "messages": [{"role": "system", "content": whole}]})[0] == 400
    loose: Body = {"type": "json_schema", "json_schema": {**form, "strict": False}}
    assert strict({**body, "response_format": loose})[0] == 400
    schema = {**reading_schema(), "required": ["crew"]}
    other: Body = {"type": "json_schema", "json_schema": {**form, "schema": schema}}
    assert strict({**body, "response_format": other})[0] == 400
    assert plain(body)[0] == 400
    assert plain({"messages": body["messages"]}) == (200, "Which schema?")
