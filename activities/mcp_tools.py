"""Tools of MCP servers as a crew's tools. Their descriptions need an approval.

The description of a tool is text for models, and its server may change it at any time, for example
to ask for keys. So people approve a description by its hash; a tool with another description is not
offered to models and not called. Offers use cached descriptions; before each call, the description
is read from the server and the approval from the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import types
from mcp.shared.exceptions import McpError

from crewlog.authority.principals import approver
from crewlog.authority.signatures import SignedApproval
from crewlog.canonical_json import check_depth
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.policy import Policy
from crewlog.definition.reaching import McpServer, mcp_tool
from crewlog.errors import (
    OutcomeUnknown,
    ToolError,
    ToolFailed,
    ToolMissing,
    ToolNotApproved,
    ToolUnusable,
)
from crewlog.ids import ToolName
from crewlog.mcp_servers.descriptions import LONGEST_TEXT, ToolDescription, clean_text, shorten
from crewlog.mcp_servers.sessions import Session, Sessions, call_tool
from crewlog.model import Json
from crewlog.store.protocol import Store

CACHE_SECONDS = 15.0
"""The greatest age of a description that is only offered to a model."""
MOST_PARTS = 50
"""The most parts of a result."""
LARGEST_PART = 27_000_000
"""The most characters of an image or file in a result, in base64."""
_CONTINUES = (
    "FILE is the crew's file. The run then continues by itself; if no worker polls, "
    "`crewlog watch RUN` starts one."
)


class McpServerLost(ToolFailed):
    """The connection to a server broke during a call of a tool that may be retried."""

    retryable = True


@dataclass
class _ServerCache:
    """The descriptions of a server's tools, and their approvals."""

    read_at: float
    """When the server was asked, by the monotonic clock."""
    tools: dict[str, ToolDescription]
    approvals: dict[str, str] = field(default_factory=dict[str, str])
    """The hashes of the approved descriptions, by tool."""
    signed_approvals: Sequence[SignedApproval] = ()
    """Read only for crews with a signed policy."""


@dataclass(frozen=True)
class ServerTool:
    """A tool of a server with an approved description."""

    name: ToolName
    definition: ToolDefinition
    described: ToolDescription
    session: Session

    @property
    def key(self) -> str:
        """Distinguishes it from other tools with the same definition."""
        return f"{self.described.hash}/{id(self.session)}"

    def build(self) -> BaseTool:
        """Returns the LangChain tool; its calls use the session of the server."""
        described, session, definition = self.described, self.session, self.definition

        async def call(request: MCPToolCallRequest, handler: Any) -> types.CallToolResult:
            del handler  # it would open a session for this call alone
            async with session.use() as opened:
                try:
                    request_sent = call_tool(opened, described.name, request.args)
                    return _clean_result(await session.wait_for(request_sent))
                except ConnectionError as exc:
                    raise _connection_error(
                        session.name, described.name, definition.repeat, str(exc)
                    ) from exc
                except McpError as exc:
                    raise ToolFailed(_error_text(exc.error)) from exc

        tool = convert_mcp_tool_to_langchain_tool(
            None,
            types.Tool(
                name=described.name,
                description=described.description,
                inputSchema=described.schema,
            ),
            # A placeholder that is never connected: the interceptor makes the call.
            connection={"transport": "stdio", "command": "", "args": []},
            tool_interceptors=[call],
        )
        description = definition.description or described.description or str(self.name)
        return tool.model_copy(update={"name": str(self.name), "description": description})


class McpTools:
    """The tools of MCP servers on a worker.

    Args:
        store: The store with the approvals.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions = Sessions()
        self._caches: dict[str, _ServerCache] = {}

    async def load(self, name: ToolName, crew: CrewDefinition, *, for_call: bool) -> ServerTool:
        """Returns a tool of a server whose description is approved.

        If the crew's policy is signed, a principal with the right `grant` must have signed the
        approval.

        Args:
            name: Its name in the crew.
            crew: The crew.
            for_call: Whether it is called now, and not only offered to a model.

        Raises:
            ToolMissing: the server is unavailable.
            ToolUnusable: the server does not offer the tool, or not in a usable form.
            ToolNotApproved: its description is not approved.
        """
        definition, policy = crew.tools[name], crew.policy
        server_name, remote = mcp_tool(definition.run) or ("", "")
        server = crew.mcp.get(server_name)
        place = f"tool {name!r}"
        if server is None:
            raise ToolMissing(
                f"there is no MCP server {server_name!r}",
                remedy=did_you_mean(server_name, crew.mcp, "Add it to 'mcp' of the crew.")
                + f" Or correct 'run' of the tool {str(name)!r}.",
                place=place,
            )
        session = self._sessions.of(server_name, server)
        signed = policy is not None and policy.signed and definition.approved is None
        cache = await self._read(session, server, fresh=for_call, with_signed=signed)
        described = cache.tools.get(remote)
        if described is None:
            raise ToolUnusable(
                f"the MCP server {server_name!r} does not offer a tool {remote!r}",
                remedy=did_you_mean(remote, cache.tools, "`crewlog mcp list` lists its tools.")
                + f" Correct 'run' of the tool {str(name)!r} in the crew, or its server.",
                place=place,
            )
        if described.fault:
            raise ToolUnusable(
                f"the tool {remote!r} of the MCP server {server_name!r} cannot be used: "
                f"{described.fault}",
                remedy="Correct the server.",
                place=place,
            )
        _check_approval(name, server_name, definition, described, policy if signed else None, cache)
        return ServerTool(name, definition, described, session)

    async def close(self) -> None:
        """Ends all sessions."""
        await self._sessions.close()

    async def _read(
        self, session: Session, server: McpServer, *, fresh: bool, with_signed: bool
    ) -> _ServerCache:
        key = server.model_dump_json()
        cache = self._caches.get(key)
        if cache is None or fresh or time.monotonic() - cache.read_at > CACHE_SECONDS:
            tools = await session.list_tools()
            approvals = await self._store.list_approved_tools(server.source)
            cache = self._caches[key] = _ServerCache(time.monotonic(), tools, approvals)
        elif any(cache.approvals.get(name) != each.hash for name, each in cache.tools.items()):
            # A run may wait for an approval, which it should notice at once.
            cache.approvals = await self._store.list_approved_tools(server.source)
        if with_signed:
            cache.signed_approvals = await self._store.list_signed_approvals(server.source)
        return cache


def _connection_error(server: str, tool: str, repeat: str, why: str) -> ToolError:
    """Returns the error of a call whose server disconnected before it answered."""
    message = (
        f"the MCP server {server!r} disconnected while it ran {clean_text(tool)!r}: "
        f"{shorten(clean_text(why), 500)}"
    )
    place = f"MCP server {server!r}"
    if repeat != "never":
        return McpServerLost(
            message, remedy="Correct the server; the next call restarts it.", place=place
        )
    return OutcomeUnknown(
        message,
        remedy="Find out whether it happened, then answer the run's question. The next call "
        "restarts the server.",
        place=place,
    )


def _check_approval(
    name: ToolName,
    server: str,
    definition: ToolDefinition,
    described: ToolDescription,
    policy: Policy | None,
    cache: _ServerCache,
) -> None:
    """Checks that the present description of a tool is approved; if by a policy, signed."""
    approved = definition.approved or cache.approvals.get(described.name)
    fault, key = f"nobody has approved the tool {name!r} of the MCP server {server!r}", ""
    if policy is not None:
        now = int(time.time() * 1000)
        if approver(policy, cache.signed_approvals, described.name, described.hash, at=now):
            return
        fault = (
            "no principal with the right 'grant' in the crew's policy has signed an approval of "
            f"the present description of the tool {name!r} of the MCP server {server!r}"
        )
        key = " with the key of such a principal"
    elif approved == described.hash:
        return
    elif approved:
        fault = (
            f"the tool {name!r} of the MCP server {server!r} is not the one that was approved: its "
            "description has changed"
        )
    tool = clean_text(described.name)
    raise ToolNotApproved(
        fault,
        remedy=f"Read it with `crewlog mcp show FILE {server} {tool}`, then{key} "
        f"`crewlog mcp approve FILE {server} {tool}`. {_CONTINUES}",
        place=f"tool {name!r}",
    )


def _error_text(error: types.ErrorData) -> str:
    """Returns the message of a server's error, and its data."""
    text = clean_text(error.message)
    if error.data is not None:
        text += "\n" + clean_text(json.dumps(error.data, ensure_ascii=False))
    return shorten(text, LONGEST_TEXT)


def _clean_result(result: types.CallToolResult) -> types.CallToolResult:
    """Returns a server's result for a transcript: cleaned, shortened, of known kinds.

    Structured content that no text repeats becomes a text, since models get texts only.
    """
    left = LONGEST_TEXT
    parts: list[types.ContentBlock] = []
    for part in result.content[:MOST_PARTS]:
        clean = _clean_part(part, left)
        if isinstance(clean, types.TextContent):
            left = max(0, left - len(clean.text))
        parts.append(clean)
    if len(result.content) > MOST_PARTS:
        parts.append(_text(f"({len(result.content) - MOST_PARTS:,} more parts are left out)"))
    data, text = _structured(result, left)
    if text:
        parts.append(_text(text))
    return types.CallToolResult(
        content=parts or [_text("(nothing)")], structuredContent=data, isError=result.isError
    )


def _structured(result: types.CallToolResult, left: int) -> tuple[dict[str, Json] | None, str]:
    """Returns structured content as data, unless it is too long, and as a text for a model.

    The text is empty if the parts repeat the content, for clients that do not read that. Servers of
    the SDK wrap a value that is not an object, send a text for each item of a list, and repeat
    parts as data.
    """
    content = result.structuredContent
    if content is None:
        return None, ""
    parts = [part.model_dump(mode="json", by_alias=True) for part in result.content]
    inner: Json = content.get("result", content) if len(content) == 1 else content
    if inner in (parts, *parts[:1]):
        return None, ""
    try:
        check_depth(content)
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as exc:
        return None, f"(its structured content is left out: {exc})"
    if len(text) > LONGEST_TEXT:
        return None, clean_text(shorten(text, left))
    data = _clean_json(content)
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    values = [_parse_text(each) for each in texts]
    if values in ([content], [inner]) or texts == [inner] or inner in (values, texts):
        return data, ""
    return data, shorten(json.dumps(data, ensure_ascii=False), left)


def _parse_text(text: str) -> Json:
    """Returns the value of a JSON text; any other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(k)): _clean_json(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_clean_json(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _clean_part(part: types.ContentBlock, left: int) -> types.ContentBlock:
    if isinstance(part, types.TextContent):
        return _text(shorten(clean_text(part.text), left))
    if isinstance(part, types.ImageContent) and len(part.data) <= LARGEST_PART:
        return types.ImageContent(type="image", data=part.data, mimeType=clean_text(part.mimeType))
    if isinstance(part, types.AudioContent) and len(part.data) <= LARGEST_PART:
        return _file(part.data, part.mimeType)  # LangChain's adapter rejects audio
    if isinstance(part, types.EmbeddedResource):
        inner = part.resource
        if isinstance(inner, types.TextResourceContents):
            return _text(shorten(clean_text(inner.text), left))
        if len(inner.blob) <= LARGEST_PART:
            return _file(inner.blob, inner.mimeType or "application/octet-stream")
    if isinstance(part, types.ResourceLink):
        return _text(shorten(clean_text(str(part.uri)), min(left, 2_000)))
    return _text(f"(a part of the kind {part.type!r} is left out)")


def _file(data: str, mime_type: str) -> types.EmbeddedResource:
    blob = types.BlobResourceContents.model_validate(
        {"uri": "file:///part", "blob": data, "mimeType": clean_text(mime_type)}
    )
    return types.EmbeddedResource(type="resource", resource=blob)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
