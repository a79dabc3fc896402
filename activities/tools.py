"""Tools by name: `module:function` to LangChain tools, imported where they run."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from temporalio import activity

from crewlog.activities.caches import LruCache, Made
from crewlog.activities.event_loops import EventLoops
from crewlog.activities.tool_results import checked
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import ToolDefinition
from crewlog.definition.policy import Policy
from crewlog.definition.reaching import McpServer, mcp_tool
from crewlog.errors import ToolMissing, ToolUnusable, in_words
from crewlog.ids import ToolName
from crewlog.model import Json

if TYPE_CHECKING:
    from crewlog.activities.mcp_tools import McpTools

BUILT_IN = ToolDefinition(run="crewlog:built_in", effects="read")
"""What the tools that every crew has are defined as."""
_INVALIDATING = threading.Lock()
"""Held while import caches are cleared: two threads that do it at once may raise KeyError."""


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool that is ready to be offered and to be run."""

    tool: BaseTool
    schema: dict[str, Json]
    """What the model is told, in the form that all LangChain models take."""
    reads_state: bool
    """Whether it asks for the state (`InjectedState`, `ToolRuntime`): else the view is not read."""
    in_thread: bool
    """Whether it runs in a thread, where it cannot be interrupted."""
    definition: ToolDefinition
    """What the crew says of it."""

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON Schema of its arguments, as the model is told it."""
        function: dict[str, Json] = self.schema["function"]
        return function.get("parameters") or {}


class ToolLoader:
    """Resolves tools and keeps them. What is missing is looked for again at the next call.

    Args:
        most: How many are kept.
        mcp: Makes what finds the tools of servers, when the first is needed: to import it takes
            its time. None where this worker speaks with no server.
    """

    def __init__(self, most: int = 1024, mcp: Callable[[], McpTools] | None = None) -> None:
        self._speak = mcp
        self._mcp: McpTools | None = None
        self._made: LruCache[tuple[ToolName, str, str], Tool] = LruCache(most)
        self._tools: Made[tuple[ToolName, str], Tool] = Made(most)
        self._loops = EventLoops()

    async def ready(
        self,
        name: ToolName,
        definition: ToolDefinition,
        servers: Mapping[str, McpServer] | None = None,
        *,
        for_call: bool = False,
        policy: Policy | None = None,
    ) -> Tool:
        """The tool of a crew; one that must be imported is imported in a thread.

        Its module may import anything, for as long as it takes: heartbeats go on meanwhile.

        Args:
            name: Its name in the crew.
            definition: What the crew says of it.
            servers: The crew's MCP servers.
            for_call: Whether it is to be called now, and not only shown to a model.
            policy: The crew's: it says whose approvals of servers' tools count.

        Raises:
            ToolMissing: where this worker has no such module or name, or it is no tool, or its
                server is away.
            ToolNotApproved: where nobody has approved what a server's tool says of itself.
            ToolUnusable: where its server does not offer it, or not in a usable form.
        """
        if mcp_tool(definition.run) is not None:
            return await self._of_server(
                name, definition, servers or {}, for_call=for_call, policy=policy
            )
        key = (name, definition.model_dump_json(exclude_defaults=True))
        return await self._tools.ready(key, lambda: _resolved(name, definition, self._loops))

    async def close(self) -> None:
        """Ends the sessions with servers, and the loops of async tools."""
        await self._loops.close()
        if self._mcp is not None:
            await self._mcp.close()

    async def _of_server(
        self,
        name: ToolName,
        definition: ToolDefinition,
        servers: Mapping[str, McpServer],
        *,
        for_call: bool,
        policy: Policy | None,
    ) -> Tool:
        if self._speak is None:
            raise ToolMissing("this worker speaks with no MCP server", place=f"tool {name!r}")
        if self._mcp is None:
            made = await asyncio.to_thread(self._speak)
            self._mcp = self._mcp or made  # another call may have been quicker
        offered = await self._mcp.ready(name, definition, servers, for_call=for_call, policy=policy)
        key = (name, definition.model_dump_json(exclude_defaults=True), offered.key)
        found = self._made.get(key)
        try:
            return found or self._made.put(key, make_tool(offered.made(), definition))
        except Exception as exc:
            raise ToolUnusable(
                f"what the MCP server says of the tool {name!r} cannot be used: "
                f"{type(exc).__name__}",
                remedy="The server has to be mended.",
                place=f"tool {name!r}",
            ) from exc

    async def schema(
        self,
        name: ToolName,
        definition: ToolDefinition,
        servers: Mapping[str, McpServer] | None = None,
        policy: Policy | None = None,
    ) -> dict[str, Json]:
        """What a model is told of a tool.

        A tool with a task queue of its own need not be importable where models are called: then
        its arguments are not described, and are checked where it runs.
        """
        try:
            return (await self.ready(name, definition, servers, policy=policy)).schema
        except ToolMissing:
            if definition.queue is None:
                raise
        anything: dict[str, Json] = {
            "type": "object",
            "properties": {},
            "additionalProperties": True,
        }
        about = {"name": name, "description": definition.description or _words(name)}
        return {"type": "function", "function": {**about, "parameters": anything}}


def make_tool(
    tool: BaseTool, definition: ToolDefinition = BUILT_IN, loops: EventLoops | None = None
) -> Tool:
    """A LangChain tool, ready; its results are checked where they are made.

    Args:
        tool: The tool.
        definition: What the crew says of it.
        loops: Where its coroutine runs; none: in the worker's own loop.
    """
    ready = tool.model_copy()
    in_thread = (
        tool.coroutine is None
        if isinstance(tool, StructuredTool)
        else getattr(type(tool), "_arun") is getattr(BaseTool, "_arun")  # noqa: B009 - as LangChain does
    )
    elsewhere = None if loops is None or in_thread else partial(loops.run, definition.run)
    for attribute in ("_run", "_arun"):
        method: Any = getattr(ready, attribute)
        # On the instance: the class may be anybody's.
        object.__setattr__(ready, attribute, checked(ready, method, elsewhere))
    return Tool(
        tool=ready,
        schema=convert_to_openai_tool(tool),
        reads_state=_reads_state(tool),
        in_thread=in_thread,
        definition=definition,
    )


def _resolved(name: ToolName, definition: ToolDefinition, loops: EventLoops) -> Tool:
    source = _find(name, definition.run)
    try:
        return make_tool(_as_tool(name, definition, source), definition, loops)
    except ToolMissing:
        raise
    except Exception as exc:
        raise ToolMissing(
            f"{definition.run!r} cannot be made a tool: {in_words(exc)}",
            remedy="Give its parameters type hints that JSON has: str, int, list, dict, …",
            place=f"tool {name!r}",
        ) from exc


def _find(name: ToolName, run: str) -> object:
    module_name, _, attribute = run.partition(":")
    module = _import(name, module_name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [n for n in dir(module) if not n.startswith("_")]
        raise ToolMissing(
            f"the module {module_name!r} has no {attribute!r}",
            remedy=did_you_mean(attribute, public, f"Define {attribute!r} in {module.__file__}.")
            + _if_misnamed(),
            place=f"tool {name!r}",
        ) from None


def _modules_here() -> list[str]:
    """The modules and packages of the worker's directory."""
    try:
        inside = sorted(Path.cwd().iterdir())
    except OSError:
        return []
    files = [each.stem for each in inside if each.suffix == ".py"]
    return files + [each.name for each in inside if (each / "__init__.py").is_file()]


def _if_misnamed() -> str:
    """What to do where the definition is wrong: a run keeps the one that it was given last."""
    if not activity.in_activity():
        return ""
    run = activity.info().workflow_id
    return (
        f" If the name in crew.yaml is wrong: correct it, and `crewlog change {run} --definition "
        "crew.yaml`."
    )


def _import(name: ToolName, module_name: str) -> ModuleType:
    place = f"tool {name!r}"
    with _INVALIDATING:
        importlib.invalidate_caches()  # the module may have been written since the worker began
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name and (module_name == exc.name or module_name.startswith(f"{exc.name}.")):
            raise ToolMissing(
                f"there is no module {exc.name!r} on this worker",
                remedy=did_you_mean(
                    exc.name,
                    _modules_here(),
                    "Start the worker in the crew's directory, or install the module there.",
                )
                + _if_misnamed(),
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
            f"the module {module_name!r} cannot be imported: {in_words(exc)}",
            remedy="Mend the module; the run goes on with the next try.",
            place=place,
        ) from exc


def _as_tool(name: ToolName, definition: ToolDefinition, source: object) -> BaseTool:
    if isinstance(source, BaseTool):
        told = definition.description or source.description
        return source.model_copy(update={"name": str(name), "description": told})
    if isinstance(source, type) or not callable(source):
        what = f"the class {source.__name__!r}" if isinstance(source, type) else repr(source)[:80]
        raise ToolMissing(
            f"{definition.run!r} is {what}, not a function or a LangChain tool",
            remedy="Name a function, or an object that @tool made.",
            place=f"tool {name!r}",
        )
    function: Callable[..., Any] = source
    is_async = inspect.iscoroutinefunction(function)
    return StructuredTool.from_function(
        func=None if is_async else function,
        coroutine=function if is_async else None,
        name=name,
        description=definition.description or inspect.getdoc(function) or _words(name),
        parse_docstring=bool(inspect.getdoc(function)),
        error_on_invalid_docstring=False,
    )


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _reads_state(tool: BaseTool) -> bool:
    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    function = function or getattr(tool, "_run")  # noqa: B009 - the method that tools define
    hints: dict[str, Any] = {}
    for source in (function, tool.get_input_schema()):
        try:
            hints |= typing.get_type_hints(source, include_extras=True)
        except (NameError, TypeError):  # names that only type checkers see: then look at no cost
            return True
    # By name: the marks are LangGraph's, a user's subclass of them, or LangChain's re-exports.
    return any(_marks_state(hint) for hint in hints.values())


def _marks_state(hint: Any) -> bool:
    marks = (hint, *getattr(hint, "__metadata__", ()))
    kinds = {c.__name__ for m in marks for c in (m if isinstance(m, type) else type(m)).__mro__}
    origin: Any = typing.get_origin(hint)
    return bool({"InjectedState", "ToolRuntime"} & {*kinds, getattr(origin, "__name__", "")})
