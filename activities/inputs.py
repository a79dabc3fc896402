"""The inputs of an agent: calls carry references, and the worker reads the values.

The workflow lists the inputs that are set and that the agent may read. The worker checks this list
against the definition, and reads only what the definition declares and permits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache
from langchain_core.messages import BaseMessage, HumanMessage

from crewlog.activities.batches import read_bodies
from crewlog.activities.definitions import Definitions
from crewlog.activities.transcripts import truncate_message
from crewlog.activities.view_reader import ViewReader
from crewlog.authority.audiences import may_read_input
from crewlog.content_blocks import content_text, is_file
from crewlog.definition.context import WHOLE, Input
from crewlog.definition.context_checks import TEXT
from crewlog.definition.decisions import reply_fields
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.definition.replies import RESPONSE
from crewlog.ids import AgentName, ContentHash, LogName
from crewlog.model import Json
from crewlog.state.agent_inputs import AgentInput
from crewlog.state.calls import CallInput
from crewlog.state.journal import Batch
from crewlog.state.messages import is_message, message_from_json
from crewlog.store.protocol import Store


@dataclass(frozen=True)
class WithFiles:
    """The content of a message with files, as the value of an input.

    Only messages have files: a block of a file in an output or a flag is data.
    """

    blocks: list[Any]
    """The content."""

    @property
    def text(self) -> str:
        """Its text, with the names of its files."""
        return content_text(self.blocks)


Value = Json | WithFiles | list[Json | WithFiles]
Values = list[tuple[Input, Value]]
"""The inputs that are set, with their values."""
MOST_BODIES = 256
"""The number of values in the cache: the calls of a turn read the same ones."""
INTRODUCTION = "What you are given:"
"""The first line of the block of inputs."""


class Inputs:
    """Reads inputs.

    Args:
        store: The store with large values.
        definitions: The cache of definitions, which declare the inputs.
        view_reader: Reads artifacts.
    """

    def __init__(self, store: Store, definitions: Definitions, view_reader: ViewReader) -> None:
        self._store = store
        self._definitions = definitions
        self._view_reader = view_reader
        self._bodies: LRUCache[ContentHash, Json] = LRUCache(MOST_BODIES)

    async def values(self, task: CallInput, agent: AgentDefinition) -> Values:
        """Returns the values of the inputs that are set, in the order of their declaration.

        Raises:
            LogAccessDenied: the view has an artifact that the agent may not see.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a value.
        """
        if not agent.inputs:
            return []
        access = await self._definitions.find_access(task.definition, task.agent)

        def may(logs: Collection[LogName]) -> bool:
            return may_read_input(task.agent, logs, reads=access.reads, step=task.step).allowed

        by_source = {each.source: _readable_part(each, task.agent, may) for each in task.inputs}
        artifacts: Mapping[str, Any] = {}
        if any(each.kind == "artifact" for each in agent.inputs):
            artifacts = await self._view_reader.read_artifacts(task)
        crew = await self._definitions.get(task.definition)
        sources = {each.from_ for each in agent.inputs}
        inputs = [
            each for each in by_source.values() if each is not None and each.source in sources
        ]
        bodies = await self._read(task.batch, (hash_ for each in inputs for hash_ in _bodies(each)))
        values: Values = []
        for each in agent.inputs:
            if each.kind == "artifact":
                if (artifact := artifacts.get(each.name)) is None:
                    continue
                value = artifact.value
            elif (input_ := by_source.get(each.from_)) is None:
                continue
            else:
                of_message = _is_message_source(each.from_, crew)
                value = _value(input_, bodies, is_message_source=of_message)
            value, is_set = _select(each, value)
            if is_set:
                values.append((each, value))
        return values

    async def _read(
        self, batch: Batch, hashes: Iterable[ContentHash]
    ) -> Mapping[ContentHash, Json]:
        wanted = dict.fromkeys(hashes)
        bodies = {hash_: body for hash_ in wanted if (body := self._bodies.get(hash_)) is not None}
        missing = [hash_ for hash_ in wanted if hash_ not in bodies]
        for hash_, body in (await read_bodies(self._store, batch, missing)).items():
            bodies[hash_] = self._bodies[hash_] = body
        return bodies


def _readable_part(input_: AgentInput, agent: AgentName, may: Any) -> AgentInput | None:
    """Returns an input without the parts that its agent may not read; None: nothing is left."""
    if input_.elements:
        return input_.model_copy(
            update={"elements": tuple(p for p in input_.elements if may(p.logs))}
        )
    maker = input_.source.partition(".")[0]
    return input_ if maker == agent or may(input_.logs) else None


def _bodies(input_: AgentInput) -> Iterator[ContentHash]:
    for each in input_.elements or (input_,):
        if each.body is not None:
            yield each.body


def _is_message_source(source: str, crew: CrewDefinition) -> bool:
    """Whether a source is a message, and not an output.

    An output may have the same keys as a message, since a model or a tool chose them.
    """
    maker, _, key = source.partition(".")
    if source == WHOLE or key == TEXT:
        return True
    agent = crew.agents.get(AgentName(maker))
    if key != RESPONSE or agent is None or agent.reply is None:
        return False
    return RESPONSE not in (*agent.outputs, *reply_fields(agent.reply))


def _value(
    input_: AgentInput, bodies: Mapping[ContentHash, Json], *, is_message_source: bool
) -> Value:
    """Returns the value of an input."""

    def load(value: Json, hash_: ContentHash | None) -> Json | WithFiles:
        if hash_ is None:
            return value
        body = bodies[hash_]
        # People may have set a text there that is not a message.
        if not is_message_source or not is_message(body):
            return body
        content: Json = body["content"]
        blocks: list[Json] = content if isinstance(content, list) else []  # pyright: ignore[reportUnknownVariableType]
        has_files = any(map(is_file, blocks))
        return WithFiles(blocks) if has_files else message_from_json(body).text

    if input_.elements:
        return [load(each.value, each.body) for each in input_.elements]
    return load(input_.value, input_.body)


def _select(declaration: Input, value: Value) -> tuple[Value, bool]:
    """Returns the part of a value that an input selects, and whether it exists."""
    if not declaration.where:
        return value, True
    if not isinstance(value, list):
        return value, declaration.takes(value)
    items: list[Value] = value  # pyright: ignore[reportUnknownVariableType]
    selected = [item for item in items if declaration.takes(item)]
    return selected, bool(selected)


# -- formats for models and tools ----------------------------------------------------------------


def input_message(values: Values, crew: CrewDefinition) -> BaseMessage | None:
    """Returns the message with the inputs of an agent; None: it has no inputs."""
    if not values:
        return None
    parts = [
        f"{each.as_ or each.from_}:\n{_format_value(value, _hidden_keys(each, crew))}"
        for each, value in values
    ]
    text = "\n\n".join([INTRODUCTION, *parts])
    files = [file for _, value in values for file in _files(value)]
    return truncate_message(
        HumanMessage([{"type": "text", "text": text}, *files] if files else text)
    )


def _files(value: Value) -> Iterator[dict[str, Json]]:
    """Returns the files of the messages in an input."""
    parts: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    for part in parts:
        if isinstance(part, WithFiles):
            yield from (block for block in part.blocks if is_file(block))


def _hidden_keys(declaration: Input, crew: CrewDefinition) -> Collection[str]:
    """Returns the keys whose values are the same in all selected items, or name their agents."""
    maker, key = declaration.output or ("", "")
    agent = crew.agents.get(maker)
    tagged = agent.reply.tagged if agent is not None and agent.reply is not None else {}
    fixed = {key for key, value in declaration.where.items() if not isinstance(value, tuple)}
    return fixed | ({tagged[key]} if key in tagged else set())


def _format_value(value: Value, hidden: Collection[str]) -> str:
    if isinstance(value, list):
        items: list[Value] = value  # pyright: ignore[reportUnknownVariableType]
        return "\n".join(f"- {_format_item(item, hidden)}" for item in items) or "none"
    return _format_text(value)


def _format_item(item: Value, hidden: Collection[str]) -> str:
    if not isinstance(item, dict):
        return _format_text(item)
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    left = {key: value for key, value in fields.items() if key not in hidden}
    if len(left) == 1:
        return _format_text(next(iter(left.values())))
    return "; ".join(f"{key}: {_format_text(value)}" for key, value in left.items())


def _format_text(value: Value) -> str:
    if isinstance(value, WithFiles):
        return value.text
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def declared_names(agent: AgentDefinition) -> tuple[str, ...]:
    """Returns the names of the inputs of an agent, with their sources."""
    names = (name for each in agent.inputs for name in (each.as_, each.from_) if name)
    return tuple(dict.fromkeys(names))


def tool_inputs(values: Values) -> dict[str, Json]:
    """Returns the inputs for a tool, by name and by source."""
    by_source: dict[str, Json] = {}
    by_name: dict[str, Json] = {}
    for each, value in values:
        plain = as_json(value, files=True)
        by_source.setdefault(each.from_, plain)
        if each.as_:
            by_name[each.as_] = plain
    return by_source | by_name


def as_json(value: Value, *, files: bool) -> Json:
    """Returns an input as JSON.

    Args:
        value: The input.
        files: Whether a message with files becomes its blocks; otherwise its text.
    """
    if isinstance(value, list):
        items: list[Value] = value  # pyright: ignore[reportUnknownVariableType]
        return [as_json(item, files=files) for item in items]
    if isinstance(value, WithFiles):
        return value.blocks if files else value.text
    return value
