"""The results and exceptions of tools, wrap_method before LangChain converts them to text."""

from __future__ import annotations

import functools
import inspect
import json
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass, replace
from typing import Any, cast

from langchain_core.messages import ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command
from pydantic import BaseModel, ValidationError

from crewlog.activities.artifacts import parse_operations
from crewlog.activities.files import build_text_block, find_file, without_base64
from crewlog.canonical_json import canonical, check_depth
from crewlog.errors import ToolFailed, flat_errors
from crewlog.model import Json
from crewlog.state.messages import message_to_json
from crewlog.tool_call import current_call


class NotJson(ToolFailed):
    """A tool returned a value that cannot be stored. It ran, so the model gets the error."""


class ToolValidationError(Exception):
    """A validation error inside the tool, which is not about the arguments of the model."""

    def __init__(self, cause: ValidationError) -> None:
        super().__init__(str(cause))
        self.cause = cause


_ENDING_ERRORS = (SystemExit, KeyboardInterrupt)
"""Exceptions that would end the worker."""
CoroutineRunner = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Awaitable[Any]]
"""Runs a coroutine in an event loop."""


def wrap_method(
    tool: BaseTool, method: Callable[..., Any], run_coroutine: CoroutineRunner | None = None
) -> Callable[..., Any]:
    """Returns the tool's method, with plain results and without exceptions that end the worker.

    Args:
        tool: The tool.
        method: Its method.
        run_coroutine: Runs the coroutine of an async tool; None: in the worker's own loop.
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            try:
                if run_coroutine is None:
                    return _plain_result(tool, await method(*args, **kwargs))
                return _plain_result(tool, await run_coroutine(lambda: method(*args, **kwargs)))
            except (ValidationError, BaseExceptionGroup, *_ENDING_ERRORS) as exc:
                raise _convert_error(exc) from exc

        return run_async

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return _plain_result(tool, method(*args, **kwargs))
        except (ValidationError, BaseExceptionGroup, *_ENDING_ERRORS, CancelledError) as exc:
            raise _convert_error(exc) from exc

    return run


def _convert_error(exc: BaseException) -> Exception:
    if isinstance(exc, ValidationError):
        # ToolNode would take it for an error in the arguments of the model.
        return ToolValidationError(exc)
    if isinstance(exc, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exc)
        return ExceptionGroup(group.message, [_convert_error(each) for each in flat_errors(group)])
    if isinstance(exc, Exception):
        return exc
    if isinstance(exc, SystemExit):
        return ToolException(f"SystemExit: the tool tried to exit with {exc.code!r}")
    return ToolException(f"{type(exc).__name__}: the tool raised it")


def _plain_result(tool: BaseTool, result: Any) -> Any:
    if tool.response_format == "content_and_artifact" and _is(result, tuple):
        parts: tuple[Any, ...] = result
        # The artifact stays data, even if it looks like content.
        plain = (
            *(_plain_value(tool, part) for part in parts[:1]),
            *(_json_value(tool, part) for part in parts[1:]),
        )
        for part in plain:
            with _storable(tool, part):
                check_depth(part)  # the content is made text of; the artifact stays data
        return plain
    return _plain_value(tool, result)


def _plain_value(tool: BaseTool, value: Any) -> Any:
    """Returns a result that LangChain does not convert to text silently.

    Raises:
        NotJson: it is neither JSON nor a message nor a command.
    """
    if _is(value, Command):
        command: Command[Any] = value
        return _with_tool_message(tool, command)
    if isinstance(value, ToolMessage):
        return _checked_message(tool, value)
    if _is_answer_list(value):
        answers: list[Any] = value
        return [
            _checked_message(tool, each)
            if isinstance(each, ToolMessage)
            else _with_plain_update(tool, each)
            for each in answers
        ]
    if value is None or isinstance(value, str):
        return value
    plain = _data(value)
    blocks: list[Any] = plain if isinstance(plain, list) else [plain]  # pyright: ignore[reportUnknownVariableType]
    if _has_files(blocks):
        return [_as_block(block) for block in blocks]
    return without_base64(_json_value(tool, plain))


def _json_value(tool: BaseTool, value: Any) -> Any:
    """Returns data as JSON.

    Raises:
        NotJson: it is not JSON.
    """
    plain = _data(value)
    with _storable(tool, value):
        json.dumps(plain, allow_nan=False)
    return plain


@contextmanager
def _storable(tool: BaseTool, value: Any, what: str = "returned") -> Generator[None]:
    """Checks a value that is to be stored.

    Raises:
        NotJson: it is not JSON, or nested too deeply.
    """
    try:
        yield
    except (TypeError, ValueError, RecursionError) as exc:
        kind = type(value).__name__
        why = "" if f"type {kind} " in str(exc) else f" ({exc})"
        raise NotJson(
            f"the tool {tool.name!r} ran, but {what} a {kind}, which is not JSON{why}",
            remedy="Return text, numbers, lists or dicts, nested less deeply.",
        ) from exc


def _data(value: Any) -> Any:
    """Returns the plain data of a model or a dataclass; any other value unchanged."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value


def _checked_message(tool: BaseTool, message: ToolMessage) -> ToolMessage:
    """Returns the message in a form that the store can keep.

    Raises:
        NotJson: its content or artifact is not JSON.
    """
    with _storable(tool, message):
        check_depth(message_to_json(message))
    return message


_CONTENT = frozenset(
    {"text", "image_url", "image", "json", "search_result", "custom_tool_call_output"}
    | {"document", "file"}
)
"""Types of content blocks that LangChain leaves unchanged in a tool result."""


def _has_files(blocks: list[Any]) -> bool:
    """Whether these are content blocks with at least one file."""
    return any(find_file(block) is not None for block in blocks) and all(
        isinstance(block, str | dict) for block in blocks
    )


def _as_block(block: Any) -> dict[str, Any]:
    """Returns a block that LangChain leaves unchanged; one unknown block makes all of them text."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if (data := find_file(block)) is None:
        return block if block.get("type") in _CONTENT else build_text_block(block)
    mime_type, text, name = data
    return {"type": "file", "base64": text, "mime_type": mime_type, "filename": name}


def _is_answer_list(value: Any) -> bool:
    """Whether it is a list of messages and commands, which `ToolNode` accepts."""
    items: list[Any] = value if _is(value, list) else []
    return bool(items) and all(isinstance(v, Command | ToolMessage) for v in items)


def _is(value: Any, kind: type[Any]) -> bool:
    """`isinstance` for what stays `Any`: type checkers would make it a generic of unknowns."""
    return isinstance(value, kind)


def _with_tool_message(tool: BaseTool, command: Command[Any]) -> Command[Any]:
    """Returns the command with a message for the call, which `ToolNode` requires.

    In a tool, the graph is the turn of the agent, and its parent is the graph of the run. Steps
    continue only in the graph of the run, so both mean that one.
    """
    command = _with_plain_update(tool, command)
    update: Any = command.update
    messages = convert_to_messages(update.get("messages") or [])
    id_ = current_call().id
    if not any(isinstance(m, ToolMessage) and m.tool_call_id == id_ for m in messages):
        messages = [*messages, ToolMessage("Done.", tool_call_id=id_, name=tool.name)]
    return replace(command, graph=None, update={**update, "messages": messages})


def _with_plain_update(tool: BaseTool, command: Command[Any]) -> Command[Any]:
    """Returns the command with an update of plain data.

    Raises:
        NotJson: the update is not a dict, or its flags or outputs are not JSON.
    """
    value: Any = command.update or {}
    try:
        update: dict[str, Any] = dict(value)
    except (TypeError, ValueError) as exc:
        raise NotJson(
            f"the tool {tool.name!r} returned a Command whose update is a {type(value).__name__}",
            remedy="Give the update as a dict of flags, outputs and messages.",
        ) from exc
    for what in ("flags", "outputs"):
        if update.get(what) is not None:
            update[what] = _values(tool, what, update[what])
    if update.get("operations") is not None:
        update["operations"] = parse_operations(tool.name, update["operations"])
    for message in convert_to_messages(update.get("messages") or []):
        if isinstance(message, ToolMessage):
            _checked_message(tool, message)
    return replace(command, update=update)


def _values(tool: BaseTool, what: str, value: Any) -> dict[str, Json]:
    if not isinstance(value, Mapping):
        raise NotJson(
            f"the tool {tool.name!r} ran, but its Command's {what} are a {type(value).__name__}",
            remedy=f"Give {what} as a dict.",
        )
    values: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
    out: dict[str, Json] = {}
    for key, value in values.items():
        with _storable(tool, value, f"its Command sets {key!r} of its {what} to"):
            # To JSON and back: a tuple becomes a list.
            out[str(key)] = json.loads(canonical(_data(value)))
            check_depth(out[str(key)])
    return out
