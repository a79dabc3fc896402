"""Tools that the tests call: one for every way a tool may behave."""

import asyncio
import base64
import json
import sys
import threading
import time
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from crewlog.errors import OutcomeUnknown, ToolFailed
from crewlog.tool_call import current_call

seen: list[Any] = []
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A picture of one dot."""


def draw(mime_type: str = "image/png") -> list[dict[str, str]]:
    """Gives a file, as LangChain has files."""
    kind = mime_type.partition("/")[0]
    return [
        {"type": "text", "text": "Look:"},
        {
            "type": kind if kind in ("image", "audio", "video") else "file",
            "base64": base64.b64encode(PNG).decode(),
            "mime_type": mime_type,
        },
    ]


def returns(value: Any) -> Any:
    """Returns what it is given."""
    return value


def write_file(path: str, content: str) -> str:
    """Writes a file.

    Args:
        path: Where to.
        content: What.
    """
    call = current_call()
    target = call.resolve(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    seen.append((call, threading.current_thread() is threading.main_thread()))
    return f"wrote {len(content)} characters to {path}"


async def add(a: int, b: int) -> int:
    """Adds."""
    seen.append(current_call())
    return a + b


def undocumented(x: str) -> str:
    return x


def boom(kind: str) -> str:
    """Raises."""
    if kind == "exit":
        sys.exit(3)
    if kind == "validation":
        Point.model_validate({"x": "no"})
    if kind == "interrupt":
        interrupt("may I?")
    if kind == "tool_failed":
        raise ToolFailed("the disk is full", remedy="Delete something")
    if kind in GROUPS:
        raise GROUPS[kind]
    kinds = {"connection": ConnectionError, "timeout": TimeoutError, "value": ValueError}
    if kind == "surrogate":
        raise FileNotFoundError("no file a\udcff")
    raise kinds[kind]("it broke")


class Point(BaseModel):
    x: int


SHOP = ToolFailed("the shop is closed", remedy="Come back at 9")
GROUPS = {
    "one in a group": ExceptionGroup("in a task", [ExceptionGroup("deeper", [SHOP])]),
    "two in a group": ExceptionGroup("in tasks", [SHOP, ExceptionGroup("x", [KeyError("y")])]),
    "all pass": ExceptionGroup("in tasks", [TimeoutError("slow"), ConnectionError("away")]),
    "one passes": ExceptionGroup("in tasks", [TimeoutError("slow"), SHOP]),
    "worst": BaseExceptionGroup("in tasks", [SystemExit(3), KeyboardInterrupt()]),
    "unknown": ExceptionGroup("in tasks", [TimeoutError(), OutcomeUnknown("was it sent?")]),
    "ctrl-c": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
}


@dataclass
class Pair:
    left: int
    right: int


def gives(kind: str) -> Any:
    """Returns something."""
    return {
        "object": object(),
        "bytes": b"x",
        "nan": float("nan"),
        "model": Point(x=1),
        "dataclass": Pair(1, 2),
        "none": None,
        "large": "x" * 5_000_000,
        "list": [1, {"a": 2}],
        "surrogate": "a\ud800b",
    }[kind]


def hand_off(to: str, how: str = "plain") -> Command:
    """Goes to another agent."""
    if how == "parent":
        return Command(goto=to, graph=Command.PARENT, update={"flags": {"ready": True}})
    if how == "unknown":
        return Command(update={"colour": "red"})
    if how == "large":
        return Command(update={"outputs": {"spec": "x" * 1000, "small": 1}})
    if how in BAD_UPDATES:
        return Command(update=BAD_UPDATES[how])
    return Command(goto=to)


BAD_UPDATES: dict[str, Any] = {
    "flag": {"flags": {"ready": object()}},
    "output": {"outputs": {"spec": float("nan"), "x": 1}},
    "deep": {"outputs": {"spec": [{"a": {1, 2}}]}},
    "no_dict": {"flags": ["ready"]},
    "artifact": {"messages": [ToolMessage("x", tool_call_id="y", artifact=object())]},
    "tuple": {"outputs": {"spec": (1, {2: "x"})}},
    "nested": {"outputs": {"spec": json.loads("[" * 150 + "]" * 150)}},
    "surrogates": {"flags": {"f\ud800": "\ud800"}, "outputs": {"spec": ["\udc00" * 200]}},
}


def listed(how: str) -> list[Any]:
    """Answers, and gives a command besides."""
    return [
        ToolMessage("said", tool_call_id=current_call().id),
        Command(update=BAD_UPDATES[how]),
    ]


def with_message(id_: Annotated[str, InjectedToolCallId]) -> Command:
    """Answers by itself."""
    return Command(
        goto=["a", "b"],
        update={"messages": [ToolMessage("handed over", tool_call_id=id_)], "flags": {"x": 1}},
    )


def count_messages(prefix: str, state: Annotated[dict, InjectedState]) -> str:
    """Counts the messages it sees."""
    kinds = [m.type for m in state["messages"]]
    return f"{prefix} {state['agent']} {kinds}"


@tool
def decorated(word: str) -> str:
    """Shouts."""
    return word.upper()


class Classy(BaseTool):
    name: str = "classy"
    description: str = "Has a class"

    def _run(self, word: str) -> Any:
        return object() if word == "object" else word * 2


classy = Classy()
not_a_tool = 7

running = threading.Event()
noticed = threading.Event()


def slow_thread() -> str:
    """Runs until it is cancelled."""
    running.set()
    call = current_call()
    while not call.cancelled:
        call.heartbeat("working")
        time.sleep(0.01)
    noticed.set()
    return "stopped"


async def slow_async() -> str:
    """Sleeps."""
    running.set()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        noticed.set()
        raise
    return "woke"


def asks(name: str) -> str:
    """Says what an input of its agent is."""
    return json.dumps(current_call().input(name))


hog_ends = threading.Event()


async def hog() -> str:
    """Blocks its event loop."""
    hog_ends.wait(60)
    return "ended"
