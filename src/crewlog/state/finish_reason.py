"""The finish reason of a model call, from the providers' words for it.

Each provider has its own key and words in a message's metadata. A word that the table lacks never
counts as success, since the message may be incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:  # the journal's readers need none of it
    from langchain_core.messages import AIMessage, BaseMessage

Ending = Literal["complete", "cut", "refused", "withheld", "empty", "unknown", "broken"]
"""Why a message ended.

- `complete`: the model finished its text, or asked for tool calls.
- `cut`: a limit on tokens or of the service truncated it: text and tool calls may be incomplete.
- `refused`: the model refused to answer; its text says so.
- `withheld`: a content filter of the service removed all or the rest of it.
- `empty`: it has no text, no tool calls and no files.
- `unknown`: the table lacks the provider's word; or there is no word and the message is empty.
- `broken`: the service failed while it answered. The call is retried like a failed call.
"""
BadFinishReason = Literal["cut", "refused", "withheld", "empty", "unknown"]
"""Why a message is not usable."""
BadEnding = Literal["", BadFinishReason]
"""Why a message is not usable; empty for a usable one."""

_WORDS: Mapping[Ending, frozenset[str]] = {
    "complete": frozenset(
        {
            # OpenAI, compatible services, and servers of open models
            *("stop", "tool_calls", "function_call", "eos", "eos_token", "completed"),
            # Anthropic and Bedrock
            *("end_turn", "stop_sequence", "tool_use"),
            "complete",  # Cohere
        }
    ),
    "cut": frozenset(
        {
            *("length", "max_tokens", "max_output_tokens", "model_length", "incomplete"),
            *("pause_turn", "model_context_window_exceeded"),
        }
    ),
    "refused": frozenset({"refusal"}),
    "withheld": frozenset(
        {
            *("content_filter", "content_filtered", "guardrail_intervened", "safety"),
            *("recitation", "language", "blocklist", "prohibited_content", "spii", "image_safety"),
            *("image_prohibited_content", "image_recitation", "error_toxic", "sensitive"),
        }
    ),
    "broken": frozenset(
        {
            *("error", "failed", "cancelled", "insufficient_system_resource", "load", "unload"),
            *("malformed_function_call", "malformed_response", "malformed_model_output"),
            *("malformed_tool_use", "unexpected_tool_call", "network_error"),
        }
    ),
}
_MEANINGS: Mapping[str, Ending] = {
    word: ending for ending, words in _WORDS.items() for word in words
}
_NAMES = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""The metadata keys that LangChain's integrations use."""
REASONING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Types of content blocks with a model's reasoning."""
REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message in which OpenAI-compatible services return a model's reasoning."""
CALL_BLOCKS = frozenset({"tool_call", "tool_use", "function_call", "invalid_tool_call"})
"""Types of content blocks that repeat a tool call."""

FAULTS: Mapping[str, str] = {
    "cut": "it was cut off at the limit of output, and none of its calls was made",
    "refused": "the model refused to answer",
    "withheld": "a content filter of its service withheld the reply",
    "empty": "it was empty: it had neither text nor a tool call",
    "unknown": "its service ended it without a reason that Crewlog knows",
}
"""What is wrong with a message, by its finish reason, for people and for the next model call."""
ACCEPTED_FAULTS: Mapping[str, str] = {**FAULTS, "cut": "it was cut off at the limit of output"}
"""What is wrong with a message that `bad_reply: accept` accepts."""
NO_READINGS: Mapping[str, str] = {
    "cut": "its reply was cut off at the limit of output",
    "refused": "it refused to answer",
    "withheld": "a content filter of its service withheld the reply",
    "empty": "its reply was empty",
    "unknown": "its service ended the reply without a reason that Crewlog knows",
}
"""Why a model's answer to a prompt is not a reading, by its finish reason."""
REMEDIES: Mapping[str, str] = {
    "cut": "Raise `max_tokens` in the agent's model_settings, or let its prompt ask for less",
    "refused": "Change what the agent is asked, or choose another model",
    "withheld": "Change what the agent is asked, or choose another model",
    "empty": "Let the agent's prompt say what its answer must be, or choose another model",
    "unknown": "Choose another model",
}
ACCEPT_REMEDY = "or take such replies as they are by `on_error: {bad_reply: accept}`."
"""The last part of every remedy."""


def provider_finish_reason(message: BaseMessage) -> str:
    """The provider's word for why a message ended; empty if it gives none."""
    metadata: Mapping[str, Any] = message.response_metadata
    details = metadata.get("incomplete_details")
    if details and isinstance(details, Mapping) and details.get("reason"):  # pyright: ignore[reportUnknownMemberType]
        return str(cast("Mapping[str, Any]", details)["reason"])
    if blocked := _blocked(metadata):
        return blocked
    for name in _NAMES:
        if reason := metadata.get(name):
            return str(reason)
    return ""


def finish_reason(message: BaseMessage) -> Ending:
    """Why a message ended."""
    if _blocked(message.response_metadata):
        return "withheld"
    ending: Ending = "complete"
    if reason := provider_finish_reason(message):
        ending = _MEANINGS.get(reason.lower(), "unknown")
    if ending == "complete" and _has_refusal(message):
        return "refused"
    if ending == "complete" and is_empty(message):
        return "empty" if reason else "unknown"  # without a word, the model may have had more
    return ending


def _blocked(metadata: Mapping[str, Any]) -> str:
    """Why Google's service blocked the prompt; empty if it did not."""
    feedback = metadata.get("prompt_feedback")
    if not feedback or not isinstance(feedback, Mapping):
        return ""
    found: Any = cast("Mapping[str, Any]", feedback).get("block_reason")
    word = str(getattr(found, "value", found) or "")
    return "" if word.endswith("UNSPECIFIED") else word


def _has_refusal(message: BaseMessage) -> bool:
    content: Any = message.content
    if message.additional_kwargs.get("refusal"):
        return True
    if not isinstance(content, list):
        return False
    blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    return any(
        isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "refusal"
        for block in blocks
    )


def is_empty(message: BaseMessage) -> bool:
    """Whether an AI message has no text, no tool calls and no files."""
    calls: Any = getattr(message, "tool_calls", None)
    if calls or getattr(message, "invalid_tool_calls", None):
        return False
    content: Any = message.content
    if isinstance(content, str):
        return not content.strip()
    return all(_is_empty_block(block) for block in cast("list[Any]", content))


def _is_empty_block(block: Any) -> bool:
    if isinstance(block, str):
        return not block.strip()
    if not isinstance(block, dict):
        return False
    block_ = cast("dict[str, Any]", block)
    kind = block_.get("type")
    if kind in ("text", "output_text"):
        return not str(block_.get("text") or "").strip()
    return kind in REASONING or kind in CALL_BLOCKS


def without_reasoning(message: AIMessage) -> AIMessage:
    """The message without its model's reasoning, for other agents."""
    extra = {k: v for k, v in message.additional_kwargs.items() if k not in REASONING_KEYS}
    content: Any = message.content
    if isinstance(content, list):
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        content = without_blocks(blocks, REASONING)
        if len(content) < len(blocks):
            content = [_without_id(block) for block in content]
    if content == message.content and len(extra) == len(message.additional_kwargs):
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": extra})


def _without_id(block: Any) -> Any:
    """A block without the id that links it to reasoning in OpenAI's Responses API."""
    if not isinstance(block, dict):
        return block
    found = cast("dict[str, Any]", block)
    if found.get("type") not in ("text", "output_text", "function_call"):
        return found
    return {key: value for key, value in found.items() if key != "id"}


def without_blocks(blocks: list[Any], kinds: frozenset[str]) -> list[Any]:
    """Content blocks, except those of some types."""
    return [
        block
        for block in blocks
        if not isinstance(block, dict) or cast("dict[str, Any]", block).get("type") not in kinds
    ]
