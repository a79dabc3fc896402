"""The transcript of an agent: its own messages, and quotes of the messages of others.

Providers require tool results right after the message with the tool calls, one for each call, and
a last message that is not the model's own. Parallel agents, users and cancelled turns do not keep
to that order, so it is restored here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from crewlog.content_blocks import is_file
from crewlog.definition.model import AgentDefinition
from crewlog.ids import (
    CREW,
    PUBLIC,
    AgentName,
    ContentHash,
    StepId,
    child_step_id,
    is_step_id,
    item_number,
    parent_or_self,
)
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import CALL_BLOCKS, is_empty, without_reasoning
from crewlog.state.model import WakingMessage

LONGEST_MESSAGE = 200_000
"""The most characters of a message that a model gets; the log has all of them."""
NO_RESULT = "This call was ended before it had a result."

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


Quotes = dict[ContentHash, BaseMessage]
"""Messages as quoted for other agents than their author, by the hash of the body."""


MessageKey = tuple[int, ContentHash]
"""The position of a message in the journal and its body. After a run merge, several messages may
have one position."""


AttributedText = tuple[str, str]
"""The source of a text, `tool` or `people`, and the text."""


class GroupIndex:
    """Where the groups of a transcript are in the journal."""

    def __init__(self) -> None:
        self.first_keys: list[MessageKey] = []
        """The key of the first message of each group, in ascending order."""
        self.group_of: dict[MessageKey, int] = {}
        """The group of each message."""
        self.first_group_of_step: dict[StepId, int] = {}
        """The first group of the agent's own messages in each step."""
        self.user_groups: list[int] = []
        """The groups that users wrote."""
        self.hidden_keys: list[MessageKey] = []
        """The messages of the logs that the transcript does not show."""
        self.token_sums: list[int] = [0]
        """The tokens before each group, as far as they are computed."""
        self.preceding_texts: list[tuple[tuple[AttributedText, ...], AttributedText]] = []
        """For each group, as far as computed: the text before each message of the agent in it, and
        the last text of the group."""

    def add_group(self, key: MessageKey) -> None:
        """Adds a group."""
        self.group_of[key] = len(self.first_keys)
        self.first_keys.append(key)

    def add_to_group(self, key: MessageKey, group: int) -> None:
        """Adds a message to a group, and drops what was computed of this group and later ones."""
        self.group_of[key] = group
        del self.token_sums[group + 1 :]
        del self.preceding_texts[group:]


class Transcript:
    """The messages of an agent's view. A message and the results of its tool calls are one group.

    Args:
        agent: The agent of the view.
        quotes: Quoted messages, which the transcripts of a run share.
        step: The step; a child step does not see the agent's messages about other items. They would
            look like messages of this step, in another order each time.
        former_steps: The former ids of the step's visit.
        awaited_items: The items that the step waited for: the agent's messages about these are
            quoted.
    """

    def __init__(
        self,
        agent: AgentName,
        quotes: Quotes | None = None,
        step: StepId | None = None,
        former_steps: Sequence[StepId] = (),
        awaited_items: Sequence[int] = (),
    ) -> None:
        self._former_steps = former_steps
        self._awaited_items = awaited_items
        self._agent = agent
        self._step = step if step is not None and item_number(step) else None
        self._quotes: Quotes = {} if quotes is None else quotes
        self._groups: list[list[BaseMessage]] = []
        self.index = GroupIndex()
        self._group_of_call: dict[str, int] = {}
        """The group of each tool call of the agent, by the id of the call."""
        self._open_calls: dict[int, list[str]] = {}
        """The tool calls without a result, by group."""
        self._own_bodies: set[ContentHash] = set()
        """The agent's own messages: the final message at a limit is in the log twice."""

    def add(self, message: BaseMessage, body: ContentHash, position: int = 0) -> None:
        """Adds the next message by position and body.

        Args:
            message: The message.
            body: The hash of its body.
            position: Its position in the journal.
        """
        key = (position, body)
        if isinstance(message, AIMessage) and message.name == self._agent:
            if body in self._own_bodies:
                return
            if (item := self._find_other_item(message)) is not None:
                if item in self._awaited_items:
                    self._groups.append([] if is_empty(message) else [quote_message(message)])
                    self.index.add_group(key)
                else:
                    self.index.hidden_keys.append(key)
                return
            self._own_bodies.add(body)
            if (step := find_step(message)) is not None:
                step = self._current_id(step)
                self.index.first_group_of_step.setdefault(step, len(self._groups))
            ids = call_ids(message)
            if ids:
                self._group_of_call.update(dict.fromkeys(ids, len(self._groups)))
                self._open_calls[len(self._groups)] = ids
            self._groups.append([] if is_empty(message) else [sendable_message(message)])
            self.index.add_group(key)
        elif isinstance(message, ToolMessage) and message.tool_call_id in self._group_of_call:
            self._add_result(message)
            self.index.add_to_group(key, self._group_of_call[message.tool_call_id])
        else:
            if isinstance(message, HumanMessage) and message.name != CREW:
                self.index.user_groups.append(len(self._groups))
            quote = self._quotes.get(body) or quote_message(message)
            if quote is not message:
                self._quotes[body] = quote
            silent = isinstance(message, AIMessage) and is_empty(message)
            self._groups.append([] if silent else [quote])
            self.index.add_group(key)

    def _find_other_item(self, message: AIMessage) -> int | None:
        """Returns the item of a message about another item of the visit; None: it is about none."""
        step = find_step(message)
        if self._step is None or step is None:
            return None
        step = self._current_id(step)
        other = step != self._step and parent_or_self(step) == parent_or_self(self._step)
        return item_number(step) if other else None

    def _current_id(self, step: StepId) -> StepId:
        return step if self._step is None else _current_id(step, self._step, self._former_steps)

    def _add_result(self, message: ToolMessage) -> None:
        index = self._group_of_call[message.tool_call_id]
        group = self._groups[index]
        waiting = self._open_calls.get(index, [])
        if message.tool_call_id not in waiting:  # the call was made again after an answer of people
            group[:] = [m for m in group if getattr(m, "tool_call_id", "") != message.tool_call_id]
        else:
            waiting.remove(message.tool_call_id)
            if not waiting:
                del self._open_calls[index]
        group.append(message)

    def __len__(self) -> int:
        return len(self._groups)

    def group(self, index: int) -> list[BaseMessage]:
        """Returns a group; a tool call without a result gets one."""
        return [*self._groups[index], *map(_missing_result, self._open_calls.get(index, ()))]

    def messages(self) -> list[BaseMessage]:
        """Returns all messages in order."""
        return list(chain.from_iterable(self._groups))

    def completed_messages(self) -> list[BaseMessage]:
        """Returns all messages in order; a tool call without a result gets one."""
        if not self._open_calls:
            return self.messages()
        return [message for index in range(len(self)) for message in self.group(index)]


def _missing_result(call: str) -> ToolMessage:
    return ToolMessage(NO_RESULT, tool_call_id=call, status="error")


def find_step(message: BaseMessage) -> StepId | None:
    """Returns the step of a model's message, by its id; None: the id names no step."""
    step, _, call = (message.id or "").rpartition("/")
    return StepId(step) if call.isdecimal() and is_step_id(step) else None


def _current_id(other: StepId, step: StepId, former_steps: Sequence[StepId]) -> StepId:
    """Returns the present id of a child step whose visit had another id before a rollback."""
    if not item_number(other) or parent_or_self(other) not in former_steps:
        return other
    return child_step_id(parent_or_self(step), item_number(other))


def with_item(
    transcript: Sequence[BaseMessage],
    item: str,
    step: StepId,
    former_steps: Sequence[StepId] = (),
) -> list[BaseMessage]:
    """Returns the transcript with the item of a step, before the agent's messages in the step."""
    message = truncate_message(HumanMessage(item))
    return with_message_before_turn(transcript, message, step, former_steps)


def with_message_before_turn(
    transcript: Sequence[BaseMessage],
    message: BaseMessage,
    step: StepId,
    former_steps: Sequence[StepId] = (),
) -> list[BaseMessage]:
    """Returns the transcript with a message before the agent's messages in a step."""

    def is_of_step(message: BaseMessage) -> bool:
        other = find_step(message)
        return other is not None and _current_id(other, step, former_steps) == step

    at = next((i for i, m in enumerate(transcript) if is_of_step(m)), len(transcript))
    return [*transcript[:at], message, *transcript[at:]]


def with_waking_message(
    transcript: Sequence[BaseMessage], message: BaseMessage, waking: WakingMessage, step: StepId
) -> list[BaseMessage]:
    """Returns the transcript with a note that says which message woke a step.

    Other messages may have come since.

    Args:
        transcript: The transcript of the agent.
        message: The message.
        waking: Its log and its author.
        step: The step.
    """
    where = f" in {waking.log}" if waking.log != PUBLIC else ""
    note = f"This turn is for what {waking.by or 'people'} said{where}: "
    note += excerpt(message.text, 300)
    if waking.more:
        note += f"\nAnd for {waking.more} more that came since."
    return with_message_before_turn(transcript, HumanMessage(note, name=CREW), step)


def sendable_message(message: AIMessage) -> AIMessage:
    """Returns an agent's own message in a form that its service accepts.

    Services refuse arguments that are not JSON, and some clients drop such a call and keep its
    result. So the call gets empty arguments; its result quotes what was wrong.
    """
    invalid = [
        ToolCall(name=c["name"] or "", args={}, id=c["id"]) for c in message.invalid_tool_calls
    ]
    calls = [*message.tool_calls, *invalid]
    update: dict[str, Any] = {}
    if invalid:
        update |= {"tool_calls": calls, "invalid_tool_calls": []}
    content: Any = message.content
    if calls and isinstance(content, list):
        by_id = {call["id"]: call["args"] for call in calls}
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        sent = [_with_json_arguments(block, by_id) for block in blocks]
        if sent != blocks:
            update["content"] = sent
    return message.model_copy(update=update) if update else message


def _with_json_arguments(block: Any, args: Mapping[str | None, dict[str, Any]]) -> Any:
    """Returns a content block; one of a tool call gets the arguments of the call as JSON."""
    if not isinstance(block, dict):
        return block
    fields = cast("dict[str, Any]", block)
    of_call = args.get(fields.get("call_id") or fields.get("id"))
    if fields.get("type") not in CALL_BLOCKS or of_call is None:
        return fields
    if "arguments" in fields:  # OpenAI's Responses: a text
        if _is_json_object(fields["arguments"]):
            return fields
        return {**fields, "arguments": json.dumps(of_call)}
    complete = {k: v for k, v in fields.items() if k != "partial_json"}
    key = "args" if "args" in fields else "input"
    if fields["type"] == "invalid_tool_call":
        complete["type"] = "tool_call"
    return {**complete, key: of_call}


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def without_old_reasoning(
    transcript: list[BaseMessage], step: StepId, former_steps: Sequence[StepId] = ()
) -> list[BaseMessage]:
    """Returns the transcript without the reasoning of the agent's earlier turns."""
    candidates = [
        i
        for i, m in enumerate(transcript)
        if (m.additional_kwargs or type(m.content) is list) and type(m) is AIMessage
    ]
    if not candidates:
        return transcript
    out = [*transcript]
    for i in candidates:
        message = out[i]
        other = find_step(message)
        if other is None or _current_id(other, step, former_steps) != step:
            out[i] = without_reasoning(cast("AIMessage", message))
    return out


def call_ids(message: AIMessage) -> list[str]:
    """Returns the ids of all tool calls of a message, valid or not."""
    return [c["id"] or "" for c in (*message.tool_calls, *message.invalid_tool_calls)]


def quote_message(message: BaseMessage) -> BaseMessage:
    """Returns a message as other agents than its author see it.

    The text has the author, too, since providers ignore or refuse names.
    """
    if isinstance(message, HumanMessage):
        if message.name is None or message.name == safe_name(message.name):
            return message
        return message.model_copy(update={"name": safe_name(message.name)})
    author = message.name or message.type
    name, text = safe_name(author), f"[{author}] {message.text}"
    content: Any = message.content
    blocks: list[Any] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
    files = [block for block in blocks if is_file(block)]
    if not files:
        return HumanMessage(text, name=name)
    return HumanMessage([{"type": "text", "text": text}, *files], name=name)


def safe_name(name: str) -> str:
    """Returns a name that every provider accepts."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "_"


def truncate_message(message: BaseMessage) -> BaseMessage:
    """Returns the message with its texts truncated to `LONGEST_MESSAGE`."""
    content: Any = message.content
    if isinstance(content, str):
        text = truncate_text(content, LONGEST_MESSAGE)
        return message if text is content else message.model_copy(update={"content": text})
    blocks: list[Any] = [
        truncate_text(b, LONGEST_MESSAGE)
        if isinstance(b, str)
        else {**b, "text": truncate_text(b["text"], LONGEST_MESSAGE)}
        if isinstance(b.get("text"), str)
        else b
        for b in content
    ]
    return message if blocks == content else message.model_copy(update={"content": blocks})


def truncate_text(text: str, most: int) -> str:
    """Returns the text, or its first `most` characters and a note that it was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[Cut here: {len(text):,} characters in all.]"


def build_prompt(
    agent: AgentName,
    definition: AgentDefinition,
    tools: Sequence[str],
    transcript: Sequence[BaseMessage],
    task: str | None = None,
    output_instructions: str = "",
    awareness_block: str = "",
) -> list[BaseMessage]:
    """Returns the messages for the agent's model: system message, transcript, request of a turn.

    Args:
        agent: The agent.
        definition: Its definition.
        tools: The tools that it may call.
        transcript: The messages that it sees.
        task: The task of its phase.
        output_instructions: What its final message must be.
        awareness_block: The description of its component; at the end, since it changes most often.
    """
    parts = [_system_text(definition, tools, task), output_instructions, awareness_block]
    out: list[BaseMessage] = [_system_message("\n\n".join(filter(None, parts))), *transcript]
    last = out[-1]
    if isinstance(last, AIMessage):
        out.append(HumanMessage("It is your turn again."))
    elif isinstance(last, SystemMessage):
        # Some providers refuse a conversation without a message of a user.
        out.append(HumanMessage("It is your turn."))
    return out


@lru_cache(maxsize=1024)
def _system_message(text: str) -> SystemMessage:
    return SystemMessage(text)


def _system_text(definition: AgentDefinition, tools: Sequence[str], task: str | None) -> str:
    lines = [definition.prompt]
    if task:
        lines.append(f"Your task now: {task}")
    if definition.writes_flags and "set_flag" in tools:
        names = ", ".join(definition.writes_flags)
        lines.append(f"Set a flag with set_flag when what it says is so. Flags: {names}.")
    if definition.scratch is not None and "note" in tools:
        lines.append("Make notes for yourself with note; look at them with notes.")
    if definition.outputs and "set_output" in tools:
        names = ", ".join(definition.outputs)
        lines.append(f"Set results with set_output. Outputs: {names}.")
    return "\n\n".join(lines)
