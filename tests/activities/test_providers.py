"""Each provider's dialect, from Crewlog's build of the model to its reading of the reply.

The provider's own client makes every request and reads every answer; see `dialects`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from activity_kit import RUN, Log, crew
from crew_tools import PNG
from langchain_core.messages import HumanMessage
from temporalio.exceptions import ApplicationError

from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.chunks import stream_message
from crewlog.canonical_json import hash_json
from crewlog.content_blocks import file_label
from crewlog.definition.providers import PROVIDERS
from crewlog.failure_details import failure_details
from crewlog.graph.run_context import message_body
from crewlog.ids import AgentName, StepId
from crewlog.message_files import files_of
from crewlog.payload_storage.file_store import FileStore
from crewlog.state.agent_inputs import AgentInput
from crewlog.state.calls import CallModelResult, FinalMessage
from crewlog.state.excerpt import message_excerpt
from crewlog.state.finish_reason import finish_reason
from crewlog.store.in_process import InMemoryStore
from dialects import DIALECTS, KEY, READ, SIGNATURE, WRITTEN, Asked, Dialect, Said, Service, serving

DRAW = {"draw": {"run": "crew_tools:draw", "effects": "read"}}
THOUGHT = "One and two make three; nobody else may know."


@dataclass
class Team:
    """A crew whose agents speak one dialect."""

    service: Service
    dialect: Dialect
    streaming: bool
    model_call: Callable[..., Any]
    tool_call: Callable[..., Any]

    def settings(self, **more: Any) -> dict[str, Any]:
        whole = {} if self.streaming else {"streaming": False}
        return self.dialect.settings_at(self.service, **whole, **more)

    async def ask(self, log: Log, *said: Said, agent: str = "backend", **fields: Any) -> Any:
        self.service.next += said
        more = fields.pop("definition", {})
        settings = self.settings(**fields.pop("settings", {}))
        definition = crew(
            self.dialect.model, backend={"model_settings": settings, **more}, tools=DRAW
        )
        writer = definition.agents[AgentName("writer")].model_copy(
            update={"model_settings": settings}
        )
        definition = definition.model_copy(
            update={"agents": {**definition.agents, AgentName("writer"): writer}}
        )
        if agent != "backend":
            fields |= {"batch": log.batch(), "view": log.view()}
        return await self.model_call(
            definition, log, agent=AgentName(agent), step=StepId(f"{agent}#1"), **fields
        )


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


@pytest.fixture(params=["stream", "whole"])
def streaming(request: pytest.FixtureRequest) -> bool:
    return request.param == "stream"


@pytest.fixture(params=DIALECTS)
def team(
    request: pytest.FixtureRequest,
    service: Service,
    streaming: bool,
    model_call: Callable[..., Any],
    tool_call: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Team:
    monkeypatch.setenv("TEAM_KEY", KEY)
    service.next.clear()
    service.asked.clear()
    return Team(service, DIALECTS[request.param], streaming, model_call, tool_call)


async def test_a_reply_with_usage_and_the_agents_key(team: Team, log: Log) -> None:
    log.says("Hello.")
    result: CallModelResult = await team.ask(log, Said("Good morning to all of you."))
    assert message_excerpt(result.body) == "Good morning to all of you."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (READ, WRITTEN)
    (asked,) = team.service.asked
    assert team.dialect.key(asked) == KEY
    streams = asked.body.get("stream") or asked.path.endswith(":streamGenerateContent")
    if team.dialect is not DIALECTS["ollama"]:  # its client streams at all times
        assert bool(streams) is team.streaming
    assert KEY not in json.dumps(result.body)


async def test_a_turn_with_thinking_and_a_tool(team: Team, log: Log) -> None:
    """What a model thought goes back to it within the turn, and to nobody else."""
    log.says("What is 1 + 2?")
    asks = Said("I shall add.", THOUGHT, calls=[("add", {"a": 1, "b": 2})])
    tools = ("add",)
    first = await team.ask(log, asks, tools=tools, settings=team.dialect.thinks)
    assert [(tool.tool, message_excerpt(first.body)) for tool in first.outcome.calls] == [
        ("add", "I shall add.")
    ]
    log.replied(first, "backend", "private:backend")
    answer = await team.tool_call(
        "add", body=first.body, id=first.outcome.calls[0].id, batch=log.batch()
    )
    assert message_excerpt(answer.body) == "3"
    log.returned(answer, "backend")

    final = Said("It is 3.", THOUGHT)
    last = await team.ask(log, final, tools=tools, settings=team.dialect.thinks, call=3)
    assert message_excerpt(last.body) == "It is 3."
    again = json.dumps(team.service.asked[-1].body)
    assert "I shall add." in again
    assert THOUGHT in again or SIGNATURE in again
    log.replied(last, "backend", call=3)

    await team.ask(log, Said("I see."), agent="writer", settings=team.dialect.thinks)
    other = json.dumps(team.service.asked[-1].body)
    assert "It is 3." in other
    assert THOUGHT not in other
    assert SIGNATURE not in other


async def test_several_calls_of_one_reply(team: Team, log: Log) -> None:
    log.says("Add.")
    calls: list[tuple[str, dict[str, Any] | str]] = [
        ("add", {"a": 1, "b": 2}),
        ("write_file", {"path": "a.txt", "content": 'a "quoted" text'}),
    ]
    result = await team.ask(log, Said(calls=calls), tools=("add", "write_file"))
    made = result.body["tool_calls"]
    assert [(call["name"], call["args"]) for call in made] == calls
    assert len({call["id"] for call in made}) == 2


async def test_arguments_that_are_not_json_are_not_sent_back(team: Team, log: Log) -> None:
    texts = (DIALECTS["chat"], DIALECTS["responses"])
    if team.dialect not in texts and (
        team.dialect is not DIALECTS["anthropic"] or not team.streaming
    ):
        pytest.skip("the service gives an object in this dialect")
    log.says("Add.")
    # JSON has no line break within a text; what the model means by it is clear.
    written = '{"path": "a", "content": "one\ntwo"}'
    said = Said(calls=[("add", '{"a": 1, bad'), ("write_file", written)])
    first = await team.ask(log, said, tools=("add", "write_file"))
    log.replied(first, "backend", "private:backend")
    (id_,) = (call["id"] for call in first.body["invalid_tool_calls"])
    answer = await team.tool_call("add", body=first.body, id=id_, batch=log.batch())
    assert not answer.ok
    assert "they are no JSON" in message_excerpt(answer.body)
    log.returned(answer, "backend")
    await team.ask(log, Said("It is 3."), tools=("add", "write_file"), call=3)
    sent = list(_arguments_in(team.service.asked[-1].body))
    assert sorted(sent, key=len) == [{}, {"path": "a", "content": "one\ntwo"}]


def _arguments_in(sent: Any) -> Iterator[Any]:
    """The arguments of all tool calls of a request, as data."""
    if isinstance(sent, list):
        for each in sent:
            yield from _arguments_in(each)
    elif isinstance(sent, dict):
        if isinstance(sent.get("arguments"), str):
            yield json.loads(sent["arguments"])
        elif sent.get("type") == "tool_use":
            yield sent["input"]
        else:
            yield from _arguments_in(list(sent.values()))


async def test_a_blocked_prompt_is_withheld(team: Team, log: Log) -> None:
    if team.dialect is not DIALECTS["google"]:
        pytest.skip("the service says it as the end of a reply")
    log.says("Hello.")
    result = await team.ask(log, Said(blocks=True))
    assert result.ending == "withheld"
    assert result.body["response_metadata"]["finish_reason"] == "PROHIBITED_CONTENT"


async def test_an_image_of_a_user_is_sent_to_the_model(
    team: Team, log: Log, tmp_path: Path
) -> None:
    (ref,) = await FileStore(tmp_path / "payloads").put_all([PNG])
    body = message_body("What is it?", by="", message_id="m1", files=(ref,))
    assert len(json.dumps(body)) < 300, "the history has no bytes"
    log.adds(body)
    result = await team.ask(log, Said("A dot."))
    assert message_excerpt(result.body) == "A dot."
    (asked,) = team.service.asked
    assert shows_png(asked)
    assert ref.sha256 not in json.dumps(asked.body)
    # Another agent, which is told of it later, is shown it as well.
    log.replied(result, "backend")
    await team.ask(log, Said("I see."), agent="writer")
    assert shows_png(team.service.asked[-1])


async def test_an_image_in_an_input_is_sent_and_named(
    team: Team, log: Log, store: InMemoryStore, tmp_path: Path
) -> None:
    (ref,) = await FileStore(tmp_path / "payloads").put_all([PNG])
    body = message_body("What is it?", by="", message_id="input", files=(ref,))
    await store.put_bodies(RUN, {hash_json(body): body})
    log.says("Go.")
    given = (AgentInput(source="input", body=hash_json(body)),)
    await team.ask(log, Said("A dot."), definition={"inputs": ["input"]}, inputs=given)
    (asked,) = team.service.asked
    assert shows_png(asked)
    assert f"What is it? {file_label(ref.block)}" in str(asked.body)


async def test_an_image_of_a_tool_is_stored_and_sent(team: Team, log: Log, tmp_path: Path) -> None:
    log.says("Draw.")
    first = await team.ask(log, Said(calls=[("draw", {})]), tools=("draw",))
    log.replied(first, "backend", "private:backend")
    answer = await team.tool_call(
        "draw",
        body=first.body,
        id=first.outcome.calls[0].id,
        batch=log.batch(),
        crew=crew(tools=DRAW),
    )
    assert answer.ok
    (ref,) = files_of(answer.body)
    assert (ref.mime_type, ref.size) == ("image/png", len(PNG))
    assert base64.b64encode(PNG).decode() not in json.dumps(answer.body)
    assert await FileStore(tmp_path / "payloads").get(ref.sha256) == PNG
    assert file_label(ref.block) in message_excerpt(answer.body)
    log.returned(answer, "backend")
    await team.ask(log, Said("Done."), tools=("draw",), call=3)
    assert shows_png(team.service.asked[-1])


async def test_an_image_that_a_model_makes_is_stored(team: Team, log: Log, tmp_path: Path) -> None:
    if team.dialect not in (DIALECTS["google"], DIALECTS["responses"]):
        pytest.skip("the service makes no images in this dialect")
    log.says("Draw.")
    image = base64.b64encode(PNG).decode()
    result = await team.ask(log, Said("Here it is.", image=image))
    (ref,) = files_of(result.body)
    assert (ref.mime_type, ref.size) == ("image/png", len(PNG))
    assert image not in json.dumps(result.body)
    assert await FileStore(tmp_path / "payloads").get(ref.sha256) == PNG
    assert message_excerpt(result.body) == f"Here it is. {file_label(ref.block)}"
    log.replied(result, "backend")
    await team.ask(log, Said("I see."), agent="writer")
    assert shows_png(team.service.asked[-1])
    await team.ask(log, Said("Done."), call=2)
    assert file_label(ref.block) in str(team.service.asked[-1].body)


SHAPE = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


async def test_a_structured_output(team: Team, log: Log) -> None:
    log.says("Where?")
    result = await team.ask(
        log, Said('{"city": "Rome"}'), definition={"outputs": ["city"], "reply": {"schema": SHAPE}}
    )
    assert isinstance(result.outcome, FinalMessage), result.outcome
    assert result.outcome.output is not None
    assert [(each.key, each.value) for each in result.outcome.output.outputs] == [("city", "Rome")]
    # The service is held to the schema, in its own words for that.
    (asked,) = team.service.asked
    native = {k: v for k, v in asked.body.items() if k not in ("messages", "contents", "input")}
    native = {k: v for k, v in native.items() if not k.lower().startswith("system")}
    assert '"city"' in json.dumps(native)


async def test_the_finish_reason_is_read(team: Team, service: Service) -> None:
    async def ending(said: Said) -> tuple[str, Any]:
        service.next.append(said)
        settings = team.settings()
        model = await ModelFactory().get(team.dialect.model, settings, 30.0)
        if team.streaming:
            message: Any = await stream_message(model, _hello(), {}, lambda _: None)
        else:
            message = await model.ainvoke(_hello())
        return finish_reason(message), message.response_metadata

    complete, metadata = await ending(Said("All is said."))
    name, word = team.dialect.stop
    assert (complete, metadata.get(name)) == ("complete", word)
    said, shown = team.dialect.cut
    cut, metadata = await ending(Said("All is", end=said))
    assert cut == "cut", metadata
    assert shown in json.dumps(metadata)


async def test_a_reply_that_breaks_off_is_an_error(team: Team, log: Log) -> None:
    if not team.streaming:
        pytest.skip("a whole reply that breaks off is no JSON")
    log.says("Hello.")
    with pytest.raises(ApplicationError, match="message is incomplete") as failed:
        await team.ask(log, Said("Half of it is never said.", "Thinks. A lot.", breaks=True))
    assert (failed.value.type, failed.value.non_retryable) == ("ModelUnavailable", False)


@pytest.mark.parametrize(
    ("status", "refused"), [(401, True), (404, True), (400, True), (429, False), (503, False)]
)
async def test_errors_of_a_service(team: Team, log: Log, status: int, refused: bool) -> None:
    log.says("Hello.")
    # A stream that is refused is asked for again in one piece.
    with pytest.raises(
        ApplicationError, match=f"answered {status}: .*The service says no"
    ) as failed:
        await team.ask(log, *[Said(status=status)] * 2)
    assert failed.value.non_retryable is refused
    remedy = failure_details(failed.value).remedy
    variables = PROVIDERS[team.dialect.model.partition(":")[0]].keys
    assert status != 401 or not variables or variables[0] in remedy


def shows_png(asked: Asked) -> bool:
    """Whether a request has the picture; Google's client has another alphabet of base64."""
    text = json.dumps(asked.body).replace("-", "+").replace("_", "/")
    return base64.b64encode(PNG).decode() in text


def _hello() -> list[Any]:
    return [HumanMessage("Hello.")]
