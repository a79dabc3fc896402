"""Tools by name: `module:function`, imported by the worker and converted to LangChain tools."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import create_model
from temporalio import activity

from crewlog.activities.caches import LoadingCache
from crewlog.activities.event_loops import EventLoops
from crewlog.activities.tool_results import wrap_method
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import mcp_tool
from crewlog.errors import ToolMissing, ToolUnusable, error_text
from crewlog.ids import ToolName
from crewlog.model import Json

if TYPE_CHECKING:
    from crewlog.activities.mcp_tools import McpTools

BUILT_IN = ToolDefinition(run="crewlog:built_in", effects="read")
"""The definition of the built-in tools."""
_INVALIDATION_LOCK = threading.Lock()
"""Held while import caches are cleared: two threads that do it at once may raise KeyError."""


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool with its schema and its definition."""

    tool: BaseTool
    schema: dict[str, Json]
    """The schema for the model, in the form that all LangChain models accept."""
    reads_state: bool
    """Whether it needs the state (`InjectedState`, `ToolRuntime`): else the view is not read."""
    runs_in_thread: bool
    """Whether it runs in a thread, where it cannot be cancelled."""
    definition: ToolDefinition
    """Its definition in the crew."""

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON Schema of its arguments, as the model gets it."""
        function: dict[str, Json] = self.schema["function"]
        return function.get("parameters") or {}


class ToolLoader:
    """Loads and caches tools. A missing tool is looked for again at the next call.

    Args:
        most: The most cached tools.
        mcp: Makes the client of MCP servers when it is needed, since its import is slow; None: this
            worker uses no MCP server.
    """

    def __init__(self, most: int = 1024, mcp: Callable[[], McpTools] | None = None) -> None:
        self._make_mcp = mcp
        self._mcp: McpTools | None = None
        self._server_tools: LRUCache[tuple[ToolName, str, str], Tool] = LRUCache(most)
        self._tools: LoadingCache[tuple[ToolName, str], Tool] = LoadingCache(most)
        self._loops = EventLoops()

    async def load(self, name: ToolName, crew: CrewDefinition, *, for_call: bool = False) -> Tool:
        """Returns a tool of a crew; imports its module in a thread, so that heartbeats continue.

        Args:
            name: Its name in the crew.
            crew: The crew.
            for_call: Whether it is called now, and not only described to a model.

        Raises:
            ToolMissing: this worker lacks the module or the name, or it is not a tool, or its
                server is unavailable.
            ToolNotApproved: the description of a server's tool is not approved.
            ToolUnusable: its server does not offer it, or not in a usable form.
        """
        definition = crew.tools[name]
        if mcp_tool(definition.run) is not None:
            return await self._load_server_tool(name, crew, for_call=for_call)
        key = (name, definition.model_dump_json(exclude_defaults=True))
        return await self._tools.get_or_load(
            key, lambda: _import_tool(name, definition, self._loops)
        )

    async def close(self) -> None:
        """Ends the sessions with servers, and the loops of async tools."""
        await self._loops.close()
        if self._mcp is not None:
            await self._mcp.close()

    async def _load_server_tool(
        self, name: ToolName, crew: CrewDefinition, *, for_call: bool
    ) -> Tool:
        if self._make_mcp is None:
            raise ToolMissing(
                "this worker uses no MCP server",
                remedy="Run the crew on a worker that `crewlog worker` starts, or pass `mcp` to "
                "`ToolLoader`.",
                place=f"tool {name!r}",
            )
        if self._mcp is None:
            mcp = await asyncio.to_thread(self._make_mcp)
            self._mcp = self._mcp or mcp  # another call may have been quicker
        server_tool = await self._mcp.load(name, crew, for_call=for_call)
        definition = crew.tools[name]
        key = (name, definition.model_dump_json(exclude_defaults=True), server_tool.key)
        try:
            if key not in self._server_tools:
                self._server_tools[key] = make_tool(server_tool.build(), definition)
            return self._server_tools[key]
        except Exception as exc:
            raise ToolUnusable(
                f"the MCP server's description of the tool {name!r} cannot be used: "
                f"{type(exc).__name__}",
                remedy="Correct the server.",
                place=f"tool {name!r}",
            ) from exc

    async def schema(self, name: ToolName, crew: CrewDefinition) -> dict[str, Json]:
        """Returns the schema of a tool for a model.

        This worker need not have the module of a tool with a task queue of its own. Without it, the
        schema accepts any arguments, and the tool's worker checks them.
        """
        definition = crew.tools[name]
        try:
            return (await self.load(name, crew)).schema
        except ToolMissing:
            if definition.queue is None:
                raise
        anything: dict[str, Json] = {
            "type": "object",
            "properties": {},
            "additionalProperties": True,
        }
        function = {
            "name": name,
            "description": definition.description or _default_description(name),
            "parameters": anything,
        }
        return {"type": "function", "function": function}


def make_tool(
    tool: BaseTool, definition: ToolDefinition = BUILT_IN, loops: EventLoops | None = None
) -> Tool:
    """Returns a LangChain tool whose results are checked right after it ran.

    Args:
        tool: The tool.
        definition: Its definition in the crew.
        loops: The event loops of async tools; None: it runs in the worker's own loop.
    """
    copy = tool.model_copy()
    runs_in_thread = (
        tool.coroutine is None
        if isinstance(tool, StructuredTool)
        else getattr(type(tool), "_arun") is getattr(BaseTool, "_arun")  # noqa: B009 - as LangChain does
    )
    run_coroutine = None if loops is None or runs_in_thread else partial(loops.run, definition.run)
    for attribute in ("_run", "_arun"):
        method: Any = getattr(copy, attribute)
        # On the instance, since the class may belong to other code.
        object.__setattr__(copy, attribute, wrap_method(copy, method, run_coroutine))
    return Tool(
        tool=copy,
        schema=convert_to_openai_tool(tool),
        reads_state=_reads_state(tool),
        runs_in_thread=runs_in_thread,
        definition=definition,
    )


def build_tool(name: str, description: str, coroutine: Callable[..., Any], **fields: Any) -> Tool:
    """Returns a built-in tool; each argument has a type and a field of pydantic."""
    tool = StructuredTool.from_function(
        coroutine=coroutine,
        name=name,
        description=description,
        args_schema=create_model(name, **fields),
    )
    return make_tool(tool)


def _import_tool(name: ToolName, definition: ToolDefinition, loops: EventLoops) -> Tool:
    source = _import_object(name, definition.run)
    try:
        return make_tool(_as_tool(name, definition, source), definition, loops)
    except ToolMissing:
        raise
    except Exception as exc:
        raise ToolMissing(
            f"{definition.run!r} cannot be converted to a tool: {error_text(exc)}",
            remedy="Give its parameters type hints that JSON has: str, int, list, dict, …",
            place=f"tool {name!r}",
        ) from exc


def _import_object(name: ToolName, run: str) -> object:
    module_name, _, attribute = run.partition(":")
    module = _import_module(name, module_name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [n for n in dir(module) if not n.startswith("_")]
        raise ToolMissing(
            f"the module {module_name!r} has no {attribute!r}",
            remedy=did_you_mean(attribute, public, f"Define {attribute!r} in {module.__file__}.")
            + _definition_remedy(),
            place=f"tool {name!r}",
        ) from None


def _local_modules() -> list[str]:
    """Returns the modules and packages of the worker's directory."""
    try:
        paths = sorted(Path.cwd().iterdir())
    except OSError:
        return []
    files = [each.stem for each in paths if each.suffix == ".py"]
    return files + [each.name for each in paths if (each / "__init__.py").is_file()]


def _definition_remedy() -> str:
    """Returns how to correct the definition of a live run, which does not follow the file."""
    if not activity.in_activity():
        return ""
    run = activity.info().workflow_id
    return (
        f" If the name in crew.yaml is wrong: correct it, and `crewlog change {run} --definition "
        "crew.yaml`."
    )


def _import_module(name: ToolName, module_name: str) -> ModuleType:
    place = f"tool {name!r}"
    with _INVALIDATION_LOCK:
        importlib.invalidate_caches()  # the module may be newer than the worker
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name and (module_name == exc.name or module_name.startswith(f"{exc.name}.")):
            raise ToolMissing(
                f"there is no module {exc.name!r} on this worker",
                remedy=did_you_mean(
                    exc.name,
                    _local_modules(),
                    "Start the worker in the crew's directory, or install the module there.",
                )
                + _definition_remedy(),
                place=place,
            ) from exc
        raise ToolMissing(
            f"the module {module_name!r} cannot be imported: it imports {exc.name!r}, "
            "which is not installed",
            remedy=f"Install {exc.name!r} where the worker runs.",
            place=place,
        ) from exc
    except (Exception, SystemExit) as exc:
        raise ToolMissing(
            f"the module {module_name!r} cannot be imported: {error_text(exc)}",
            remedy="Correct the module; the run continues with the next attempt.",
            place=place,
        ) from exc


def _as_tool(name: ToolName, definition: ToolDefinition, source: object) -> BaseTool:
    if isinstance(source, BaseTool):
        description = definition.description or source.description
        return source.model_copy(update={"name": str(name), "description": description})
    if isinstance(source, type) or not callable(source):
        kind = f"the class {source.__name__!r}" if isinstance(source, type) else repr(source)[:80]
        raise ToolMissing(
            f"{definition.run!r} is {kind}, not a function or a LangChain tool",
            remedy="Name a function, or an object made by @tool.",
            place=f"tool {name!r}",
        )
    function: Callable[..., Any] = source
    is_async = inspect.iscoroutinefunction(function)
    return StructuredTool.from_function(
        func=None if is_async else function,
        coroutine=function if is_async else None,
        name=name,
        description=definition.description
        or inspect.getdoc(function)
        or _default_description(name),
        parse_docstring=bool(inspect.getdoc(function)),
        error_on_invalid_docstring=False,
    )


def _default_description(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _reads_state(tool: BaseTool) -> bool:
    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    function = function or getattr(tool, "_run")  # noqa: B009 - the method that tools define
    hints: dict[str, Any] = {}
    for source in (function, tool.get_input_schema()):
        try:
            hints |= typing.get_type_hints(source, include_extras=True)
        except (NameError, TypeError):  # a hint that only type checkers can resolve
            return True
    return any(_is_state_hint(hint) for hint in hints.values())


def _is_state_hint(hint: Any) -> bool:
    # By name: LangGraph's classes, subclasses of users, or LangChain's re-exports.
    marks = (hint, *getattr(hint, "__metadata__", ()))
    kinds = {c.__name__ for m in marks for c in (m if isinstance(m, type) else type(m)).__mro__}
    origin: Any = typing.get_origin(hint)
    return bool({"InjectedState", "ToolRuntime"} & {*kinds, getattr(origin, "__name__", "")})
