"""What the providers' words for the end of a reply mean."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage

from crewlog.state.finish_reason import finish_reason, is_empty, without_reasoning

CALL = {"name": "put", "args": {}, "id": "c"}


@pytest.mark.parametrize(
    ("metadata", "ending"),
    [
        ({}, "complete"),
        ({"finish_reason": "stop"}, "complete"),
        ({"finish_reason": "tool_calls"}, "complete"),
        ({"stop_reason": "end_turn"}, "complete"),
        ({"stop_reason": "tool_use"}, "complete"),
        ({"stopReason": "stop_sequence"}, "complete"),
        ({"finish_reason": "STOP"}, "complete"),
        ({"done_reason": "stop"}, "complete"),
        ({"status": "completed"}, "complete"),
        ({"finish_reason": "length"}, "cut"),
        ({"stop_reason": "max_tokens"}, "cut"),
        ({"finish_reason": "MAX_TOKENS"}, "cut"),
        ({"done_reason": "length"}, "cut"),
        ({"stop_reason": "model_context_window_exceeded"}, "cut"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "cut",
        ),
        ({"finish_reason": "content_filter"}, "withheld"),
        ({"stop_reason": "refusal"}, "refused"),
        ({"finish_reason": "SAFETY"}, "withheld"),
        ({"stopReason": "guardrail_intervened"}, "withheld"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "withheld"),
        ({"finish_reason": "error"}, "broken"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "broken"),
        ({"finish_reason": "insufficient_system_resource"}, "broken"),
        ({"status": "failed"}, "broken"),
        ({"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, "withheld"),
        ({"prompt_feedback": {"block_reason": "JAILBREAK"}}, "withheld"),
        ({"prompt_feedback": {"block_reason": None}, "finish_reason": "STOP"}, "complete"),
        ({"prompt_feedback": {"block_reason": 0}, "finish_reason": "STOP"}, "complete"),
        ({"finish_reason": "because"}, "unknown"),
        ({"finish_reason": "FINISH_REASON_UNSPECIFIED"}, "unknown"),
    ],
)
@pytest.mark.parametrize("content", ["text", [{"type": "text", "text": "text"}]])
def test_a_provider_s_word(metadata, ending, content):
    assert finish_reason(AIMessage(content, response_metadata=metadata)) == ending


@pytest.mark.parametrize(
    ("message", "empty"),
    [
        (AIMessage(""), True),
        (AIMessage(" \n"), True),
        (AIMessage([]), True),
        (AIMessage([{"type": "text", "text": ""}]), True),
        (AIMessage([{"type": "thinking", "thinking": "hm"}]), True),
        (AIMessage("", additional_kwargs={"reasoning_content": "hm"}), True),
        (AIMessage("x"), False),
        (AIMessage([{"type": "image", "base64": "eA=="}]), False),
        (AIMessage("", tool_calls=[CALL]), False),
        (
            AIMessage(
                "",
                invalid_tool_calls=[
                    {
                        "name": "put",
                        "args": "{",
                        "id": "c",
                        "error": None,
                        "type": "invalid_tool_call",
                    }
                ],
            ),
            False,
        ),
    ],
)
def test_a_reply_without_text_calls_and_files_is_empty(message, empty):
    assert is_empty(message) is empty
    message.response_metadata = {"finish_reason": "stop"}
    assert finish_reason(message) == ("empty" if empty else "complete")


def test_a_reply_in_which_nothing_came_is_no_reply_without_words():
    assert finish_reason(AIMessage("")) == "unknown"
    assert finish_reason(AIMessage("text")) == "complete"


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I cannot."}),
        AIMessage([{"type": "refusal", "refusal": "I cannot."}]),
    ],
)
def test_a_refusal_is_one_whatever_its_service_says_of_the_end(message):
    message.response_metadata = {"finish_reason": "stop"}
    assert finish_reason(message) == "refused"


def test_a_reply_is_left_without_its_reasoning():
    blocks = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Done.", "id": "msg_1"},
    ]
    message = AIMessage(blocks, additional_kwargs={"reasoning_content": "hm", "kept": 1})
    found = without_reasoning(message)
    # OpenAI takes a message by its id only with the reasoning before it.
    assert found.content == [{"type": "text", "text": "Done."}]
    assert found.additional_kwargs == {"kept": 1}
    plain = AIMessage("Done.")
    assert without_reasoning(plain) is plain
