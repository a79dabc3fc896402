"""`ScriptedChatModel`: a chat model that says what a script says. No key, no network, no chance.

Which reply comes next is told by the transcript, never by the process: it is the number of replies
of the agent that the prompt already holds. So a script goes on rightly after a worker was killed,
in another process, and after a rewind.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool

from crewlog.errors import ModelRequestRejected, ModelUnavailable
from crewlog.model import Json
from crewlog.testing.filling import filled
from crewlog.testing.script_file import (
    ANY_AGENT,
    Entry,
    Reply,
    Script,
    read_script,
    replies_of,
    script_of,
)

RECORD = "CREWLOG_SCRIPT_RECORD"
"""The environment variable that names a file which every prompt is appended to, as a JSON line."""
_CHARACTERS_PER_TOKEN = 4
_METADATA = "scripted_metadata"


@dataclass(frozen=True)
class Prompt:
    """What a scripted model was given."""

    file: str
    agent: str
    run: str
    step: str
    call: int
    attempt: int
    tools: tuple[str, ...]
    """The tools it was offered."""
    messages: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    """Each message's type, name, content and calls."""


_kept: dict[str, list[Prompt]] = {}
"""The prompts to be asked for, by script."""
_in_process: dict[str, Script] = {}
_read: dict[tuple[str, int, int], Script] = {}


def recorded_prompts(model: str) -> list[Prompt]:
    """The prompts that a script's model was given in this process, in order.

    Args:
        model: The name that `scripted` returned. Other scripts' prompts are not kept: a worker
            would only collect them.
    """
    return _kept.get(model.removeprefix("scripted:"), [])


def scripted(script: Mapping[str, Json] | str | Path) -> str:
    """The name of a model that says what the script says, to be given to an agent or a crew.

    Args:
        script: The script as data, for models called in this process; or its file, for any.

    Raises:
        InvalidDefinition: where it is no script.
    """
    if isinstance(script, str | Path):
        read_script(Path(script))
        _kept.setdefault(str(script), [])
        return f"scripted:{script}"
    name = f"#{len(_in_process) + 1}"
    _in_process[name] = script_of(dict(script))
    _kept[name] = []
    return f"scripted:{name}"


def build(name: str, _settings: Mapping[str, Json], _timeout: float) -> ScriptedChatModel:
    """The model of a script, as the model factory makes it; settings do not matter to it."""
    _script(name)
    return ScriptedChatModel(file=name)


def _script(file: str) -> Script:
    if file in _in_process:
        return _in_process[file]
    path = Path(file)
    try:
        stat = path.stat()
    except OSError:
        return read_script(path)  # which says what is wrong
    # The file may be changed while it is used: a person writes it while trying it.
    key = (file, stat.st_mtime_ns, stat.st_size)
    if key not in _read:
        _read[key] = read_script(path)
    return _read[key]


@dataclass(frozen=True)
class _Caller:
    """Who calls, as the call's metadata says."""

    agent: str
    run: str
    step: str
    call: int
    attempt: int
    asked: int
    earlier: tuple[tuple[str, str], ...] = ()
    """What was said before each reply of the agent's that its prompt does not hold, and by whom:
    `tool` or `people`."""

    @staticmethod
    def of(metadata: Mapping[str, Any]) -> _Caller:
        return _Caller(
            agent=str(metadata.get("agent", ANY_AGENT)),
            run=str(metadata.get("run", "")),
            step=str(metadata.get("step", "")),
            call=int(metadata.get("call", 0)),
            attempt=int(metadata.get("attempt", 1)),
            asked=int(metadata.get("asked", 1)),
            earlier=tuple((by, said) for by, said in metadata.get("earlier", ())),
        )


class ScriptedChatModel(BaseChatModel):
    """Says what a script says.

    Args:
        file: The script's file, or the name of one that `scripted` made.
    """

    file: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def speaks_for(self, agent: str) -> bool:
        """Whether the script names an agent; `*` names none."""
        return agent in _script(self.file).agents

    def bind_tools(
        self, tools: Sequence[Any], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offers tools; the script decides what it calls."""
        names: list[str] = [convert_to_openai_tool(t)["function"]["name"] for t in tools]
        return cast("Runnable[LanguageModelInput, AIMessage]", self.bind(tools=names, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        caller = _Caller.of(run_manager.metadata if run_manager else {})
        reply, wait = self._next(messages, caller, kwargs)
        if wait:
            await asyncio.sleep(wait)
        result = self._result(reply, messages, caller)
        if takes := self._writing_takes(result):
            await asyncio.sleep(takes)
        return result

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """The reply piece by piece; in one piece, as it is, where the script has no pace."""
        if not _script(self.file).pace:
            reply = await self.ainvoke(input, config, stop=stop, **kwargs)
            yield cast("AIMessageChunk", reply)
            return
        # LangChain tells `_astream` nothing of the call's metadata.
        kwargs[_METADATA] = dict((config or {}).get("metadata") or {})
        async for piece in super().astream(input, config, stop=stop, **kwargs):
            yield piece

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        given = run_manager.metadata if run_manager else {}
        caller = _Caller.of(kwargs.pop(_METADATA, given))
        reply, wait = self._next(messages, caller, kwargs)
        await asyncio.sleep(wait)
        message = cast("AIMessage", self._result(reply, messages, caller).generations[0].message)
        pace = _script(self.file).pace
        for word in re.findall(r"\s*\S+|\s+$", message.text):
            await asyncio.sleep(len(word) / pace if pace else 0)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        yield ChatGenerationChunk(message=_rest(message))

    def _writing_takes(self, result: ChatResult) -> float:
        pace = _script(self.file).pace
        return len(result.generations[0].message.text) / pace if pace else 0.0

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        caller = _Caller.of(run_manager.metadata if run_manager else {})
        reply, wait = self._next(messages, caller, kwargs)
        if wait:
            time.sleep(wait)
        result = self._result(reply, messages, caller)
        if takes := self._writing_takes(result):
            time.sleep(takes)
        return result

    def _next(
        self, messages: list[BaseMessage], caller: _Caller, kwargs: Mapping[str, Any]
    ) -> tuple[Reply, float]:
        script = _script(self.file)
        _record(self.file, caller, messages, kwargs.get("tools") or ())
        entries = script.agents.get(caller.agent) or script.agents.get(ANY_AGENT, ())
        ordered, matched = replies_of(entries)
        reply = _matching(matched, messages[-1])
        if reply is None:
            number = _replies_in_order(matched, messages, caller.agent)
            # Replies that a window left out were said, too.
            number += sum(_matching(matched, _said(*each)) is None for each in caller.earlier)
            if number >= len(ordered):
                raise ModelRequestRejected(
                    f"the script {self.file!r} has no reply {number + 1} for {caller.agent!r}",
                    remedy=f"Add an entry under agents.{caller.agent}, or under '*'.",
                    place=self.file,
                )
            reply = ordered[number]
        return reply, script.delay + sum(e.stall for e in reply.trouble)

    def _result(self, reply: Reply, messages: list[BaseMessage], caller: _Caller) -> ChatResult:
        failed = 0
        for trouble in reply.trouble:
            if trouble.fail is None:
                continue
            # A refusal is not retried by itself: there its tries are those that people asked for.
            tries = caller.asked if trouble.fail == "refused" else caller.attempt
            failed += trouble.times
            if tries <= failed:
                _fail(trouble, self.file, caller.agent)
        message = _message(filled(reply.entry, messages[-1].text), messages, caller)
        return ChatResult(generations=[ChatGeneration(message=message)])


def _matching(matched: Sequence[Reply], last: BaseMessage) -> Reply | None:
    kind = "tool" if isinstance(last, ToolMessage) else "people"
    fitting = (r for r in matched if r.entry.of in (None, kind))
    return next((r for r in fitting if re.search(r.entry.when or "", last.text)), None)


def _said(by: str, text: str) -> BaseMessage:
    return ToolMessage(text, tool_call_id="") if by == "tool" else HumanMessage(text)


def _replies_in_order(matched: Sequence[Reply], messages: list[BaseMessage], agent: str) -> int:
    """How many replies of the agent's the prompt holds that did not come from a `when`."""
    return sum(
        1
        for before, message in zip([messages[0], *messages], messages, strict=False)
        if isinstance(message, AIMessage)
        and message.name in (None, agent)
        and _matching(matched, before) is None
    )


def _fail(entry: Entry, file: str, agent: str) -> None:
    said = f"the script {file!r} lets {agent!r} fail: {entry.fail}"
    remedy = "It passes after as many tries as `times` says."
    if entry.fail == "refused":
        raise ModelRequestRejected(said, remedy=remedy, place=file)
    raise ModelUnavailable(said, remedy=remedy, place=file)


def _message(entry: Entry, messages: list[BaseMessage], caller: _Caller) -> AIMessage:
    number = sum(isinstance(m, AIMessage) for m in messages) + 1
    prefix = f"{re.sub(r'[^A-Za-z0-9_-]', '_', caller.agent)[:24]}_{number}"
    calls = [
        ToolCall(name=c.tool, args=c.args, id=c.id or f"{prefix}_{i}")
        for i, c in enumerate(entry.tool_calls, 1)
    ]
    invalid: list[InvalidToolCall] = []
    if entry.nonsense in (True, "tool"):
        calls.append(ToolCall(name="no_such_tool", args={}, id=f"{prefix}_x"))
    if entry.nonsense in (True, "json"):
        broken = InvalidToolCall(
            type="invalid_tool_call",
            name="broken_tool",
            args='{"path": ',
            id=f"{prefix}_y",
            error=None,
        )
        invalid.append(broken)
    text = entry.text or ""
    tokens_in = entry.usage.input if entry.usage else _tokens(sum(map(_length, messages)))
    said = text + "".join(json.dumps(c.args) for c in entry.tool_calls)
    tokens_out = entry.usage.output if entry.usage else _tokens(len(said))
    return AIMessage(
        text,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        usage_metadata=UsageMetadata(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            total_tokens=tokens_in + tokens_out,
        ),
        response_metadata={"model_name": "scripted", "finish_reason": "stop"},
    )


def _rest(message: AIMessage) -> AIMessageChunk:
    """What comes after the words: the calls, the usage and the end."""
    chunks = [
        tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=number)
        for number, c in enumerate(message.tool_calls)
    ]
    chunks += [
        tool_call_chunk(name=c["name"], args=c["args"], id=c["id"], index=number)
        for number, c in enumerate(message.invalid_tool_calls, len(chunks))
    ]
    return AIMessageChunk(
        content="",
        tool_call_chunks=chunks,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def _length(message: BaseMessage) -> int:
    content: Any = message.content
    return len(content if isinstance(content, str) else message.text)


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)


def _record(file: str, caller: _Caller, messages: list[BaseMessage], tools: Sequence[str]) -> None:
    path = os.environ.get(RECORD)
    if not path and file not in _kept:
        return
    prompt = Prompt(
        file=file,
        agent=caller.agent,
        run=caller.run,
        step=caller.step,
        call=caller.call,
        attempt=caller.attempt,
        tools=tuple(tools),
        messages=[_shown(m) for m in messages],
    )
    if file in _kept:
        _kept[file].append(prompt)
    if path:
        line = json.dumps(asdict(prompt), ensure_ascii=False) + "\n"
        # One write of an appending file: lines of several processes do not mix.
        with Path(path).open("ab", buffering=0) as out:
            out.write(line.encode())


def _shown(message: BaseMessage) -> dict[str, Json]:
    shown: dict[str, Json] = {"type": message.type, "content": message.text}
    if message.name:
        shown["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        shown["tool_calls"] = [{"tool": c["name"], "args": c["args"]} for c in message.tool_calls]
    return shown
