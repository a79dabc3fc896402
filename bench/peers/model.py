"""`bench:…`: the chat model that all peers with a model call. It answers at once.

What it does is told by its name and by the last message, so it costs the same at every length:

- `bench:say` says a text of 400 bytes;
- `bench:wait-2.0` says it after two seconds;
- `bench:new` says a text of 400 bytes that nobody has said before;
- `bench:large-1000000` says a text of a million bytes;
- `bench:nap-0.4` calls the tool `nap` once, then says it;
- `bench:naps-1.2+0.6` calls the tool `nap` twice in one reply, then says it;
- `bench:plan-3` sets the output `items`, a list that names the agents `worker0`, `worker1` and
  `worker2`, then says it;
- `bench:route-spoke1` names the agent `spoke1`, as a router does;
- `bench:lookup-20` calls the tool `lookup` twenty times, one after the other, then says it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult

TEXT = ("The quick brown fox jumps over the lazy dog. " * 9)[:400]
"""What every step says."""


class BenchModel(BaseChatModel):
    """Answers at once."""

    does: str = "say"

    @property
    def _llm_type(self) -> str:
        return "bench"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """It knows what it calls."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        verb, _, value = self.does.partition("-")
        if verb == "wait":
            await asyncio.sleep(float(value))
        return self._generate(messages, stop)

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        verb, _, value = self.does.partition("-")
        done = _calls_just_made(messages)
        if verb == "new":
            return AIMessage(f"{uuid4().hex} {TEXT}"[: len(TEXT)])
        if verb == "route":
            return AIMessage(json.dumps({"next": value}))
        if verb == "large":
            return AIMessage("x" * int(value))
        if verb == "nap" and not done:
            return _call("nap", {"seconds": float(value)}, done)
        if verb == "naps" and not done:
            return _together("nap", [{"seconds": float(each)} for each in value.split("+")])
        if verb == "plan" and not done:
            items = [{"agent": f"worker{number}"} for number in range(int(value))]
            return _call("set_output", {"key": "items", "value": items}, done)
        if verb == "lookup" and done < int(value):
            return _call("lookup", {"key": f"k{done}"}, done)
        return AIMessage(TEXT)


def _calls_just_made(messages: list[BaseMessage]) -> int:
    """The results of tools at the transcript's end, replies that called them in between."""
    count = 0
    for message in reversed(messages):
        if message.type == "tool":
            count += 1
        elif not (isinstance(message, AIMessage) and message.tool_calls):
            break
    return count


def _call(tool: str, args: dict[str, Any], number: int) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=tool, args=args, id=f"{tool}_{number}")])


def _together(tool: str, args: list[dict[str, Any]]) -> AIMessage:
    calls = [ToolCall(name=tool, args=each, id=f"{tool}_{n}") for n, each in enumerate(args)]
    return AIMessage("", tool_calls=calls)


def build(name: str, _settings: Mapping[str, Any], _timeout: float) -> BenchModel:
    """The model of that name, as the engine's model factory makes it."""
    return BenchModel(does=name)
