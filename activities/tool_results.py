"""The results and exceptions of tools, checked before LangChain converts them to text."""

from __future__ import annotations

import functools
import inspect
import json
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from langchain_core.messages import ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command
from pydantic import BaseModel, ValidationError

from crewlog.activities.artifacts import operations_of
from crewlog.activities.files import as_text, data_of, without_base64
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


_WORST = (SystemExit, KeyboardInterrupt)
"""Exceptions that would end the worker."""
Elsewhere = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Awaitable[Any]]
"""Runs a coroutine in another event loop."""


def checked(
    tool: BaseTool, method: Callable[..., Any], elsewhere: Elsewhere | None = None
) -> Callable[..., Any]:
    """The tool's method, with its result made plain and its worst exceptions made harmless.

    Args:
        tool: The tool.
        method: Its method.
        elsewhere: Runs the coroutine of an async tool.
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            try:
                if elsewhere is None:
                    return _plain(tool, await method(*args, **kwargs))
                return _plain(tool, await elsewhere(lambda: method(*args, **kwargs)))
            except (ValidationError, BaseExceptionGroup, *_WORST) as exc:
                raise _harmless(exc) from exc

        return run_async

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return _plain(tool, method(*args, **kwargs))
        except (ValidationError, BaseExceptionGroup, *_WORST, CancelledError) as exc:
            raise _harmless(exc) from exc

    return run


def _harmless(exc: BaseException) -> Exception:
    if isinstance(exc, ValidationError):
        # ToolNode would take it for an error in the arguments of the model.
        return ToolValidationError(exc)
    if isinstance(exc, BaseExceptionGroup):
        group: BaseExceptionGroup[BaseException] = exc
        return ExceptionGroup(group.message, [_harmless(each) for each in flat_errors(group)])
    if isinstance(exc, Exception):
        return exc
    if isinstance(exc, SystemExit):
        return ToolException(f"SystemExit: the tool tried to exit with {exc.code!r}")
    return ToolException(f"{type(exc).__name__}: the tool raised it")


def _plain(tool: BaseTool, result: Any) -> Any:
    if tool.response_format == "content_and_artifact" and _is(result, tuple):
        parts: tuple[Any, ...] = result
        # The artifact stays data, even if it looks like content.
        plain = (
            *(_plain_value(tool, part) for part in parts[:1]),
            *(_json_value(tool, part) for part in parts[1:]),
        )
        for part in plain:
            _shallow(tool, part)  # the content is made text of; the artifact stays data
        return plain
    return _plain_value(tool, result)


def _plain_value(tool: BaseTool, value: Any) -> Any:
    """Returns a result that LangChain does not convert to text silently.

    Raises:
        NotJson: it is neither JSON nor a message nor a command.
    """
    if _is(value, Command):
        command: Command[Any] = value
        return _answered(tool, command)
    if isinstance(value, ToolMessage):
        return _keepable(tool, value)
    if _are_answers(value):
        answers: list[Any] = value
        return [
            _keepable(tool, each) if isinstance(each, ToolMessage) else _told(tool, each)
            for each in answers
        ]
    if value is None or isinstance(value, str):
        return value
    plain = _data(value)
    blocks: list[Any] = plain if isinstance(plain, list) else [plain]
    if _has_files(blocks):
        return [_as_block(block) for block in blocks]
    return without_base64(_json_value(tool, plain))


def _json_value(tool: BaseTool, value: Any) -> Any:
    """Returns data as JSON.

    Raises:
        NotJson: it is not JSON.
    """
    plain = _data(value)
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        why = "" if isinstance(exc, TypeError) else f" ({exc})"
        raise NotJson(
            f"the tool {tool.name!r} ran, but returned a {type(value).__name__}{why}, "
            "which is not JSON",
            remedy="Return text, numbers, lists or dicts.",
        ) from exc
    return plain


def _shallow(tool: BaseTool, value: Any) -> None:
    """Checks that the result of an activity can carry data.

    Raises:
        NotJson: it is nested too deeply.
    """
    try:
        check_depth(value)
    except ValueError as exc:
        raise NotJson(
            f"the tool {tool.name!r} ran, but what it returned cannot be kept: {exc}",
            remedy="Return less of it, or as text.",
        ) from exc


def _data(value: Any) -> Any:
    """Returns the plain data of a model or a dataclass; any other value unchanged."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value


def _keepable(tool: BaseTool, message: ToolMessage) -> ToolMessage:
    """Returns the message in a form that the store can keep.

    Raises:
        NotJson: its content or artifact is not JSON.
    """
    try:
        check_depth(message_to_json(message))
    except (TypeError, ValueError, RecursionError) as exc:
        raise NotJson(
            f"the tool {tool.name!r} ran, but its ToolMessage holds what is not JSON ({exc})",
            remedy="Give it text, numbers, lists or dicts.",
        ) from exc
    return message


_CONTENT = frozenset(
    {"text", "image_url", "image", "json", "search_result", "custom_tool_call_output"}
    | {"document", "file"}
)
"""Types of content blocks that LangChain leaves unchanged in a tool result."""


def _has_files(blocks: list[Any]) -> bool:
    """Whether these are content blocks with at least one file."""
    return any(data_of(block) is not None for block in blocks) and all(
        isinstance(block, str | dict) for block in blocks
    )


def _as_block(block: Any) -> dict[str, Any]:
    """Returns a block that LangChain leaves unchanged; one unknown block makes all of them text."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if (data := data_of(block)) is None:
        return block if block.get("type") in _CONTENT else as_text(block)
    mime_type, text, name = data
    return {"type": "file", "base64": text, "mime_type": mime_type, "filename": name}


def _are_answers(value: Any) -> bool:
    """Whether it is a list of messages and commands, which `ToolNode` accepts."""
    items: list[Any] = value if _is(value, list) else []
    return bool(items) and all(isinstance(v, Command | ToolMessage) for v in items)


def _is(value: Any, kind: type[Any]) -> bool:
    """`isinstance` for what stays `Any`: type checkers would make it a generic of unknowns."""
    return isinstance(value, kind)


def _answered(tool: BaseTool, command: Command[Any]) -> Command[Any]:
    """Returns the command with a message for the call, which `ToolNode` requires.

    In a tool, the graph is the turn of the agent, and its parent is the graph of the run. Steps
    continue only in the graph of the run, so both mean that one.
    """
    command = _told(tool, command)
    update: Any = command.update
    told = convert_to_messages(update.get("messages") or [])
    id_ = current_call().id
    if not any(isinstance(m, ToolMessage) and m.tool_call_id == id_ for m in told):
        told = [*told, ToolMessage("Done.", tool_call_id=id_, name=tool.name)]
    return replace(command, graph=None, update={**update, "messages": told})


def _told(tool: BaseTool, command: Command[Any]) -> Command[Any]:
    """The command with an update that a run can take.

    Raises:
        NotJson: the update is not a dict, or its flags or outputs are not JSON.
    """
    given: Any = command.update or {}
    try:
        update: dict[str, Any] = dict(given)
    except (TypeError, ValueError) as exc:
        raise NotJson(
            f"the tool {tool.name!r} returned a Command whose update is a {type(given).__name__}",
            remedy="Give the update as a dict of flags, outputs and messages.",
        ) from exc
    for what in ("flags", "outputs"):
        if update.get(what) is not None:
            update[what] = _values(tool, what, update[what])
    if update.get("operations") is not None:
        update["operations"] = operations_of(tool.name, update["operations"])
    for message in convert_to_messages(update.get("messages") or []):
        if isinstance(message, ToolMessage):
            _keepable(tool, message)
    return replace(command, update=update)


def _values(tool: BaseTool, what: str, given: Any) -> dict[str, Json]:
    if not isinstance(given, Mapping):
        raise NotJson(
            f"the tool {tool.name!r} ran, but its Command's {what} are a {type(given).__name__}",
            remedy=f"Give {what} as a dict.",
        )
    values: Mapping[Any, Any] = given  # pyright: ignore[reportUnknownVariableType]
    out: dict[str, Json] = {}
    for key, value in values.items():
        try:
            # To JSON and back: a tuple becomes a list.
            out[str(key)] = json.loads(canonical(_data(value)))
            check_depth(out[str(key)])
        except (TypeError, ValueError, RecursionError) as exc:
            why = f" ({exc})" if isinstance(value, float | list | dict | tuple) else ""
            raise NotJson(
                f"the tool {tool.name!r} ran, but its Command sets {key!r} of its {what} to a "
                f"{type(value).__name__}, which is not JSON{why}",
                remedy="Give text, numbers, lists or dicts.",
            ) from exc
    return out
