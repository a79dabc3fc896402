"""How a transcript looks to one agent: what it said is its own, what others said is quoted.

Providers want tool results right after the message that asked for them, one for each call, and a
last message that is not the model's own. Parallel agents, people and cancelled turns know nothing
of that, so it is made here.
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
    item_number,
    visit_of,
)
from crewlog.state.excerpt import excerpt
from crewlog.state.finish_reason import CALL_BLOCKS, is_empty, without_reasoning
from crewlog.state.model import WakingMessage

LONGEST = 200_000
"""Characters of a message that a model is shown; the log keeps all of them."""
UNANSWERED = "This call was ended before it had a result."

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


Quotes = dict[ContentHash, BaseMessage]
"""Messages as all but their speaker are shown them, by the hash of the body."""


Spot = tuple[int, ContentHash]
"""Where a message stands: its position in the journal and its body. Journals that went on side by
side and became one have several messages at a position."""


Said = tuple[str, str]
"""Who said something, `tool` or `people`, and what."""


class GroupPositions:
    """Where the groups of a transcript stand in the journal, and what they are."""

    def __init__(self) -> None:
        self.first: list[Spot] = []
        """The spot of each group's first message: they grow."""
        self.of: dict[Spot, int] = {}
        """The group of the message at a spot."""
        self.own: dict[StepId, int] = {}
        """The first group of the agent's own in a step."""
        self.people: list[int] = []
        """The groups that people said."""
        self.hidden: list[Spot] = []
        """Spots of messages of its logs that the transcript does not show."""
        self.sums: list[int] = [0]
        """The tokens before each group, as far as they were asked for and have not changed."""
        self.before: list[tuple[tuple[Said, ...], Said]] = []
        """What was said right before each of the agent's replies in a group, and at its end; as far
        as it was asked for and has not changed."""

    def group(self, spot: Spot) -> None:
        """Notes a new group."""
        self.of[spot] = len(self.first)
        self.first.append(spot)

    def joins(self, spot: Spot, group: int) -> None:
        """Notes a message that belongs to a group that there is."""
        self.of[spot] = group
        del self.sums[group + 1 :]
        del self.before[group:]


class Transcript:
    """The messages of an agent's view: a reply and the results of its calls are one group.

    Args:
        agent: Whose view it is.
        quotes: Quoted messages that the run's transcripts share.
        step: The step, where it is that of an item. It sees nothing of what the agent says about
            the other items: its replies would stand here as this step's own, in another order each
            time.
        was: The names that the step's visit had before.
        after: The items that it waited for: what the agent said of these it is shown, quoted.
    """

    def __init__(
        self,
        agent: AgentName,
        quotes: Quotes | None = None,
        step: StepId | None = None,
        was: Sequence[StepId] = (),
        after: Sequence[int] = (),
    ) -> None:
        self._was = was
        self._after = after
        self._agent = agent
        self._step = step if step is not None and item_number(step) else None
        self._quotes: Quotes = {} if quotes is None else quotes
        self._groups: list[list[BaseMessage]] = []
        self.spots = GroupPositions()
        """Where its groups stand, for windows."""
        self._asked: dict[str, int] = {}
        """The group of every call of the agent's own, by the call's id."""
        self._open: dict[int, list[str]] = {}
        """Calls without a result, by group."""
        self._own: set[ContentHash] = set()
        """What the agent said: the last word of a turn that was capped comes once more."""

    def add(self, message: BaseMessage, body: ContentHash, position: int = 0) -> None:
        """Adds the next message by position and body, whose body has that hash."""
        spot = (position, body)
        if isinstance(message, AIMessage) and message.name == self._agent:
            if body in self._own:
                return
            if (item := self._sibling(message)) is not None:
                if item in self._after:
                    self._groups.append([] if is_empty(message) else [quoted(message)])
                    self.spots.group(spot)
                else:
                    self.spots.hidden.append(spot)
                return
            self._own.add(body)
            if (said_in := step_of(message)) is not None:
                said_in = self._step_now(said_in)
                self.spots.own.setdefault(said_in, len(self._groups))
            ids = call_ids(message)
            if ids:
                self._asked.update(dict.fromkeys(ids, len(self._groups)))
                self._open[len(self._groups)] = ids
            self._groups.append([] if is_empty(message) else [sendable_message(message)])
            self.spots.group(spot)
        elif isinstance(message, ToolMessage) and message.tool_call_id in self._asked:
            self._answer(message)
            self.spots.joins(spot, self._asked[message.tool_call_id])
        else:
            if isinstance(message, HumanMessage) and message.name != CREW:
                self.spots.people.append(len(self._groups))
            quote = self._quotes.get(body) or quoted(message)
            if quote is not message:
                self._quotes[body] = quote
            silent = isinstance(message, AIMessage) and is_empty(message)
            self._groups.append([] if silent else [quote])
            self.spots.group(spot)

    def _sibling(self, message: AIMessage) -> int | None:
        """The other item of the visit that a message is about; none where it is about none."""
        said_in = step_of(message)
        if self._step is None or said_in is None:
            return None
        said_in = self._step_now(said_in)
        other = said_in != self._step and visit_of(said_in) == visit_of(self._step)
        return item_number(said_in) if other else None

    def _step_now(self, said_in: StepId) -> StepId:
        return said_in if self._step is None else _as_now(said_in, self._step, self._was)

    def _answer(self, message: ToolMessage) -> None:
        index = self._asked[message.tool_call_id]
        group = self._groups[index]
        waiting = self._open.get(index, [])
        if message.tool_call_id not in waiting:  # people let the call be made again
            group[:] = [m for m in group if getattr(m, "tool_call_id", "") != message.tool_call_id]
        else:
            waiting.remove(message.tool_call_id)
            if not waiting:
                del self._open[index]
        group.append(message)

    def __len__(self) -> int:
        return len(self._groups)

    def group(self, index: int) -> list[BaseMessage]:
        """A group as it is now; a call that never got a result is given one that says so."""
        left = self._open.get(index, ())
        return [*self._groups[index], *map(_unanswered, left)]

    def messages(self) -> list[BaseMessage]:
        """All messages in order; calls without a result keep none."""
        return list(chain.from_iterable(self._groups))

    def complete(self) -> list[BaseMessage]:
        """All messages in order; a call that never got a result is given one that says so."""
        if not self._open:
            return self.messages()
        out: list[BaseMessage] = []
        for index, group in enumerate(self._groups):
            out += group
            out += map(_unanswered, self._open.get(index, ()))
        return out


def _unanswered(call: str) -> ToolMessage:
    return ToolMessage(UNANSWERED, tool_call_id=call, status="error")


def step_of(message: BaseMessage) -> StepId | None:
    """The step that a reply was made in; none where its id does not say so."""
    step, _, call = (message.id or "").rpartition("/")
    return StepId(step) if call.isdecimal() and "#" in step else None


def _as_now(said_in: StepId, step: StepId, was: Sequence[StepId]) -> StepId:
    """An item's step by the name that its visit has now, where it had another one before."""
    if not item_number(said_in) or visit_of(said_in) not in was:
        return said_in
    return child_step_id(visit_of(step), item_number(said_in))


def with_item(
    transcript: Sequence[BaseMessage], item: str, step: StepId, was: Sequence[StepId] = ()
) -> list[BaseMessage]:
    """The transcript with the step's item, right before what the agent has said about it."""
    return with_message_before_turn(transcript, shortened(HumanMessage(item)), step, was)


def with_message_before_turn(
    transcript: Sequence[BaseMessage],
    message: BaseMessage,
    step: StepId,
    was: Sequence[StepId] = (),
) -> list[BaseMessage]:
    """The transcript with a message right before what the agent has said in a step."""

    def own(message: BaseMessage) -> bool:
        said_in = step_of(message)
        return said_in is not None and _as_now(said_in, step, was) == step

    at = next((i for i, m in enumerate(transcript) if own(m)), len(transcript))
    return [*transcript[:at], message, *transcript[at:]]


def with_waking_message(
    transcript: Sequence[BaseMessage], message: BaseMessage, heard: WakingMessage, step: StepId
) -> list[BaseMessage]:
    """The transcript with which message a step is for: others may have come since it was said.

    Args:
        transcript: What the agent sees.
        message: The message.
        heard: Where it was said, and by whom.
        step: The step.
    """
    where = f" in {heard.log}" if heard.log != PUBLIC else ""
    told = f"This turn is for what {heard.by or 'people'} said{where}: {excerpt(message.text, 300)}"
    if heard.more:
        told += f"\nAnd for {heard.more} more that came since."
    return with_message_before_turn(transcript, HumanMessage(told, name=CREW), step)


def sendable_message(message: AIMessage) -> AIMessage:
    """An agent's own message as its model is shown it again.

    A call whose arguments could not be read goes without them: services refuse what is no JSON, and
    some clients drop such a call and keep its result. The result quotes what was wrong.
    """
    ill = [ToolCall(name=c["name"] or "", args={}, id=c["id"]) for c in message.invalid_tool_calls]
    calls = [*message.tool_calls, *ill]
    update: dict[str, Any] = {}
    if ill:
        update |= {"tool_calls": calls, "invalid_tool_calls": []}
    content: Any = message.content
    if calls and isinstance(content, list):
        by_id = {call["id"]: call["args"] for call in calls}
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        sent = [_readable(block, by_id) for block in blocks]
        if sent != blocks:
            update["content"] = sent
    return message.model_copy(update=update) if update else message


def _readable(block: Any, args: Mapping[str | None, dict[str, Any]]) -> Any:
    """A block of content; one that spells a call has the arguments of that call as JSON."""
    if not isinstance(block, dict):
        return block
    found = cast("dict[str, Any]", block)
    of_call = args.get(found.get("call_id") or found.get("id"))
    if found.get("type") not in CALL_BLOCKS or of_call is None:
        return found
    if "arguments" in found:  # OpenAI's Responses: a text
        return (
            found if _is_object(found["arguments"]) else {**found, "arguments": json.dumps(of_call)}
        )
    cleaned_text = {k: v for k, v in found.items() if k != "partial_json"}
    key = "args" if "args" in found else "input"
    if found["type"] == "invalid_tool_call":
        cleaned_text["type"] = "tool_call"
    return {**cleaned_text, key: of_call}


def _is_object(text: Any) -> bool:
    """Whether a text is a JSON object as services take it."""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def without_old_reasoning(
    transcript: list[BaseMessage], step: StepId, was: Sequence[StepId] = ()
) -> list[BaseMessage]:
    """The transcript with what the agent's model thought in this turn, and in no earlier one."""
    thinks = [
        i
        for i, m in enumerate(transcript)
        if (m.additional_kwargs or type(m.content) is list) and type(m) is AIMessage
    ]
    if not thinks:
        return transcript
    out = [*transcript]
    for i in thinks:
        message = out[i]
        said_in = step_of(message)
        if said_in is None or _as_now(said_in, step, was) != step:
            out[i] = without_reasoning(cast("AIMessage", message))
    return out


def call_ids(message: AIMessage) -> list[str]:
    """The ids of all calls that a reply asks for, well-formed or not."""
    return [c["id"] or "" for c in (*message.tool_calls, *message.invalid_tool_calls)]


def quoted(message: BaseMessage) -> BaseMessage:
    """What somebody else said, as the agent is shown it.

    The speaker is in the text, since providers ignore or refuse names; the name is given as well.
    """
    if isinstance(message, HumanMessage):
        if message.name is None or message.name == safe_name(message.name):
            return message
        return message.model_copy(update={"name": safe_name(message.name)})
    speaker = message.name or message.type
    name, text = safe_name(speaker), f"[{speaker}] {message.text}"
    content: Any = message.content
    files = [block for block in content if is_file(block)] if isinstance(content, list) else []
    if not files:
        return HumanMessage(text, name=name)
    return HumanMessage([{"type": "text", "text": text}, *files], name=name)


def safe_name(name: str) -> str:
    """A name that every provider takes."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "_"


def shortened(message: BaseMessage) -> BaseMessage:
    """The message with its text cut to what a model can be shown."""
    content: Any = message.content
    if isinstance(content, str):
        if len(content) <= LONGEST:
            return message
        return message.model_copy(update={"content": _cut(content)})
    blocks: list[Any] = [
        _cut(b)
        if isinstance(b, str)
        else {**b, "text": _cut(b["text"])}
        if isinstance(b.get("text"), str)
        else b
        for b in content
    ]
    return message if blocks == content else message.model_copy(update={"content": blocks})


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n[Cut here: {len(text):,} characters in all.]"


def prompt(
    agent: AgentName,
    definition: AgentDefinition,
    tools: Sequence[str],
    transcript: Sequence[BaseMessage],
    task: str | None = None,
    form: str = "",
    graph: str = "",
) -> list[BaseMessage]:
    """What the agent's model is given: the system message, the transcript, and a turn to take.

    Args:
        agent: The agent.
        definition: Its definition.
        tools: The tools that it is offered.
        transcript: The messages that it sees.
        task: What it is to do in this phase.
        form: What its final message must be.
        graph: What it is told of the graph that it lives in: the last, since it changes most often.
    """
    system = "\n\n".join(filter(None, [_system(definition, tools, task), form, graph]))
    out: list[BaseMessage] = [_system_message(system), *transcript]
    last = out[-1]
    if isinstance(last, AIMessage):
        out.append(HumanMessage("It is your turn again."))
    elif isinstance(last, SystemMessage):
        # Some providers refuse a conversation in which nobody has spoken.
        out.append(HumanMessage("It is your turn."))
    return out


@lru_cache(maxsize=1024)
def _system_message(text: str) -> SystemMessage:
    return SystemMessage(text)


def _system(definition: AgentDefinition, tools: Sequence[str], task: str | None) -> str:
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
        lines.append(f"Hand results on with set_output. Outputs: {names}.")
    return "\n\n".join(lines)
