"""A worker of somebody's own: its models answer in each of the forms that LangChain has."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult

from crewlog.activities.chat_models import register
from crewlog.workers.__main__ import connect
from crewlog.workers.process import run_process

SAID = '{"next": "writer"}'
FORMS: dict[str, Any] = {
    "text": SAID,
    "message": AIMessage(SAID),
    "blocks": AIMessage([{"type": "text", "text": SAID}]),
    "piece": AIMessageChunk(content=SAID),
    "chat-generation": ChatGeneration(message=AIMessage(SAID)),
    "generation": Generation(text=SAID),
    "chat-result": ChatResult(generations=[ChatGeneration(message=AIMessage(SAID))]),
    "llm-result": LLMResult(generations=[[Generation(text=SAID)]]),
    "data": {"next": "writer"},
    "message-as-data": {"role": "assistant", "content": SAID},
    "nothing-of-it": 42,
}


class Raw:
    """A runnable that gives a form as it is; a text in pieces, too."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def bind_tools(self, *_: Any, **__: Any) -> Raw:
        return self

    async def astream(self, *_: Any, **__: Any) -> Any:
        for piece in self.reply if isinstance(self.reply, str) else [self.reply]:
            yield piece

    async def ainvoke(self, *_: Any, **__: Any) -> Any:
        return self.reply


def build(name: str, _settings: Any, _timeout: float) -> Raw:
    return Raw(FORMS[name])


if __name__ == "__main__":
    register("form", "own_models:build")
    run_process(connect)
