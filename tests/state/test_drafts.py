"""What others are shown of a reply that calls tools: its text and its files alone."""

from __future__ import annotations

import json

from crewlog.ids import AgentName
from crewlog.state.drafts import draft_text
from crewlog.state.messages import message_from_json

FILE = {"type": "image", "sha256": "ab" * 32, "mime_type": "image/png", "size": 3}
CALLS = [{"name": "put", "args": {"path": "SECRET"}, "id": "c1", "type": "tool_call"}]


def test_a_draft_has_neither_calls_nor_reasoning() -> None:
    body = {
        "type": "ai",
        "content": "I write it.",
        "name": AgentName("a"),
        "id": "a#1/1",
        "tool_calls": CALLS,
        "invalid_tool_calls": CALLS,
        "additional_kwargs": {"reasoning_content": "SECRET", "signatures": {"c1": "SECRET"}},
        "usage_metadata": {"input_tokens": 1, "output_tokens": 2},
    }
    said = {"type": "ai", "content": "I write it.", "name": "a", "id": "a#1/1"}
    assert draft_text(body) == said


def test_a_draft_of_parts_has_the_texts_and_the_files() -> None:
    text = {"type": "text", "text": "I write it.", "id": "m1", "signature": "SECRET"}
    parts = [
        {"type": "thinking", "thinking": "SECRET", "signature": "SECRET"},
        {"type": "a_new_kind", "text": "SECRET"},
        {"type": "tool_use", "name": "put", "input": {"path": "SECRET"}, "id": "c1"},
    ]
    draft = draft_text({"type": "ai", "content": [*parts, text, FILE, "and", {"type": "text"}]})
    assert draft["content"] == [
        {"type": "text", "text": "I write it."},
        FILE,
        {"type": "text", "text": "and"},
    ]
    assert "SECRET" not in json.dumps(draft)
    assert message_from_json(draft).text == "I write it.and"
