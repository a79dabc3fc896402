"""Message bodies: every LangChain message that is kept comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from crewlog.canonical_json import hash_json, utf8_json
from crewlog.errors import InternalError
from crewlog.state.excerpt import excerpt
from crewlog.state.messages import message_from_json, message_to_json

PARTS: list[Any] = [
    {"type": "text", "text": "Look:"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    "and this",
]
CALL: Any = {"name": "act", "args": {"n": 1, "deep": [None, {"x": "é"}]}, "id": "c1"}
BAD: Any = {"name": "act", "args": "{broken", "id": "c2", "error": "no JSON"}
USAGE: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
MESSAGES: list[BaseMessage] = [
    HumanMessage("Hello", id="m1", name="eve"),
    HumanMessage(""),
    HumanMessage(PARTS),
    SystemMessage("You are.", id="s"),
    AIMessage("Hi", id="a1", name="ann"),
    AIMessage(""),
    AIMessage("", tool_calls=[CALL, {**CALL, "id": "c3"}]),
    AIMessage("Hm", invalid_tool_calls=[BAD], tool_calls=[CALL]),
    AIMessage(PARTS[:1], usage_metadata=USAGE),
    AIMessage(
        "x",
        response_metadata={"model_name": "m", "logprobs": None, "finish_reason": "stop"},
        additional_kwargs={"refusal": None, "reasoning": ["a", {"b": 0}]},
    ),
    ToolMessage("42", tool_call_id="c1", name="act", id="t1"),
    ToolMessage("", tool_call_id="c1"),
    ToolMessage("broke", tool_call_id="c1", status="error"),
    ToolMessage(PARTS[:2], tool_call_id="c1", artifact={"rows": [1, 0, False]}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: f"{m.type}-{str(m.content)[:8]}")
def test_a_message_comes_back_as_it_was(message: BaseMessage) -> None:
    body = message_to_json(message)
    back = message_from_json(json.loads(json.dumps(body)))
    assert back == message
    assert type(back) is type(message)
    assert back.model_dump() == message.model_dump()
    assert message_to_json(back) == body
    assert hash_json(message_to_json(back)) == hash_json(body)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: f"{m.type}-{str(m.content)[:8]}")
def test_a_body_has_only_what_says_something(message: BaseMessage) -> None:
    body = message_to_json(message)
    assert body["type"] == message.type
    assert "content" in body
    said = [value for key, value in body.items() if key != "content"]
    assert not [value for value in said if value in (None, "", [], {}, "success")]


def test_a_streamed_message_is_kept_as_a_whole_one() -> None:
    back = message_from_json(message_to_json(AIMessageChunk("Hi", id="a")))
    assert back == AIMessage("Hi", id="a")


@pytest.mark.parametrize(
    "message",
    [ChatMessage("x", role="r"), FunctionMessage("x", name="f"), RemoveMessage(id="m1")],
)
def test_other_messages_are_refused(message: BaseMessage) -> None:
    with pytest.raises(InternalError, match=f"type '{message.type}' cannot be kept"):
        message_to_json(message)


@pytest.mark.parametrize("kind", ["remove", "chat", "function", "constructor", None, 3, ["ai"]])
def test_a_body_of_another_type_makes_nothing(kind: Any) -> None:
    with pytest.raises(InternalError, match="unknown type"):
        message_from_json({"type": kind, "content": "x", "id": "m1"})


def test_a_body_is_not_changed_by_reading_it() -> None:
    body = message_to_json(MESSAGES[6])
    before = json.dumps(body)
    message_from_json(body)
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("a\n  b\tc", 120, "a b c"), ("", 5, ""), ("abcde", 5, "abcde"), ("abcdef", 5, "abcd…")],
)
def test_brief(text: str, limit: int, expected: str) -> None:
    assert excerpt(text, limit) == expected
    assert len(excerpt(text, limit)) <= limit


def test_texts_that_no_payload_can_carry_are_mended() -> None:
    message = AIMessage(
        [{"type": "text", "text": "a\ud800", "x\udc00": [None, 1, "\ud83d\ude00"]}],
        name="n\udfff",
        tool_calls=[{**CALL, "args": {"k": "\ud83d"}}],
    )
    body = message_to_json(message)
    json.dumps(body, ensure_ascii=False).encode()
    (part,) = body["content"]  # type: ignore[misc]
    assert part["text"] == "a\ufffd"
    assert body["name"] == "n\ufffd"
    assert message_to_json(message_from_json(body)) == body


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain é \U0001f600", "plain é \U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("a\ud83d", "a\ufffd"),
        ({"\ud800": ["\udc00", {"a": None}, 1]}, {"\ufffd": ["\ufffd", {"a": None}, 1]}),
    ],
)  # fmt: skip
def test_scrubbed(value: Any, expected: Any) -> None:
    assert utf8_json(value) == expected
    assert utf8_json(expected) == expected
