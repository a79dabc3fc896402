"""Tools of MCP servers as a crew's tools: approved as they describe themselves, or blocked.

A server may say today that its tool adds two numbers, and tomorrow that one should first send it
the keys. So a person approves what a tool says of itself, by a digest; what says anything else is
not shown to a model and not called. When a model is told of its tools, what the server said a
moment ago is good enough; before a call, the server and the store are asked anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import types
from mcp.shared.exceptions import McpError

from crewlog.authority.principals import approver
from crewlog.authority.signatures import SignedApproval
from crewlog.canonical_json import check_depth
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import ToolDefinition
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
from crewlog.mcp_servers.descriptions import LONGEST_TEXT, Described, cleaned_text, shortened
from crewlog.mcp_servers.sessions import Session, Sessions, called
from crewlog.model import Json
from crewlog.store.protocol import Store

FRESH_SECONDS = 15.0
"""How old what a server said may be, where a model is only told of it."""
MOST_PARTS = 50
"""Parts of one result."""
LARGEST_PART = 27_000_000
"""Characters of an image or file in a result, in base64."""
_GOES_ON = (
    "FILE is the crew's file. The run then goes on by itself; where no worker polls, "
    "`crewlog watch RUN` brings one."
)


class McpServerLost(ToolFailed):
    """A server went away while it ran a tool that may be called again."""

    retryable = True


@dataclass
class _Known:
    """What a server said, and what is approved of it."""

    at: float
    tools: dict[str, Described]
    approved: dict[str, str] = field(default_factory=dict[str, str])
    proofs: Sequence[SignedApproval] = ()
    """Signed approvals; looked up for crews alone whose policy is signed."""


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a server that may be used as it describes itself."""

    name: ToolName
    definition: ToolDefinition
    described: Described
    session: Session

    @property
    def key(self) -> str:
        """What tells it from others that are made of the same definition."""
        return f"{self.described.digest}/{id(self.session)}"

    def made(self) -> BaseTool:
        """The tool as LangChain has tools; its calls go to the session as it is then."""
        found, session, definition = self.described, self.session, self.definition

        async def bounded(request: MCPToolCallRequest, handler: Any) -> types.CallToolResult:
            del handler  # it would open a session for this call alone
            async with session.use() as opened:
                try:
                    asked = called(opened, found.name, request.args)
                    return _bounded(await session.answered(asked))
                except ConnectionError as exc:
                    raise _gone(session.name, found.name, definition.repeat, str(exc)) from exc
                except McpError as exc:
                    raise ToolFailed(_refusal(exc.error)) from exc

        tool = convert_mcp_tool_to_langchain_tool(
            None,
            types.Tool(name=found.name, description=found.description, inputSchema=found.schema),
            # Nothing is ever connected by this: the interceptor makes the call.
            connection={"transport": "stdio", "command": "", "args": []},
            tool_interceptors=[bounded],
        )
        told = self.definition.description or found.description or str(self.name)
        return tool.model_copy(update={"name": str(self.name), "description": told})


class McpTools:
    """The tools of servers, on one worker.

    Args:
        store: Where approvals are kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions = Sessions()
        self._known: dict[str, _Known] = {}

    async def ready(
        self,
        name: ToolName,
        definition: ToolDefinition,
        servers: Mapping[str, McpServer],
        *,
        for_call: bool,
        policy: Policy | None = None,
    ) -> OfferedTool:
        """A tool of a server, approved.

        Args:
            name: Its name in the crew.
            definition: What the crew says of it.
            servers: The crew's servers.
            for_call: Whether it is to be called now, and not only shown to a model.
            policy: The crew's: where it is signed, who may grant must have signed the approval.

        Raises:
            ToolMissing: where the server is away.
            ToolUnusable: where the server does not offer the tool, or not in a usable form.
            ToolNotApproved: where nobody has approved what it says of itself.
        """
        server_name, remote = mcp_tool(definition.run) or ("", "")
        server = servers.get(server_name)
        place = f"tool {name!r}"
        if server is None:
            raise ToolMissing(f"there is no MCP server {server_name!r}", place=place)
        session = self._sessions.of(server_name, server)
        signed = policy is not None and policy.signed and definition.approved is None
        known = await self._ask(session, server, fresh=for_call, proofs=signed)
        found = known.tools.get(remote)
        if found is None:
            raise ToolUnusable(
                f"the MCP server {server_name!r} does not offer a tool {remote!r}",
                remedy=did_you_mean(remote, known.tools, "`crewlog mcp list` says what it offers.")
                + f" Correct 'run' of the tool {str(name)!r} in the crew, or its server.",
                place=place,
            )
        if found.fault:
            raise ToolUnusable(
                f"the tool {remote!r} of the MCP server {server_name!r} cannot be used: "
                f"{found.fault}",
                remedy="Its server has to be mended.",
                place=place,
            )
        if policy is not None and signed:
            _check_proven(name, server_name, found, policy, known.proofs)
        else:
            approved = definition.approved or known.approved.get(remote)
            _check_approved(name, server_name, found, approved)
        return OfferedTool(name, definition, found, session)

    async def close(self) -> None:
        """Ends all sessions."""
        await self._sessions.close()

    async def _ask(
        self, session: Session, server: McpServer, *, fresh: bool, proofs: bool
    ) -> _Known:
        key = server.model_dump_json()
        known = self._known.get(key)
        if known is None or fresh or time.monotonic() - known.at > FRESH_SECONDS:
            tools = await session.tools()
            approved = await self._store.list_approved_tools(server.source)
            known = self._known[key] = _Known(time.monotonic(), tools, approved)
        elif any(known.approved.get(name) != each.digest for name, each in known.tools.items()):
            # A run may wait for just that: it need not wait for the server to be asked again.
            known.approved = await self._store.list_approved_tools(server.source)
        if proofs:
            known.proofs = await self._store.list_signed_approvals(server.source)
        return known


def _gone(server: str, tool: str, repeat: str, why: str) -> ToolError:
    """What a call comes to whose server went away before it answered."""
    say = (
        f"the MCP server {server!r} went away while it ran {cleaned_text(tool)!r}: "
        f"{shortened(cleaned_text(why), 500)}"
    )
    place = f"MCP server {server!r}"
    if repeat != "never":
        return McpServerLost(
            say, remedy="Mend the server; the next call starts it anew.", place=place
        )
    return OutcomeUnknown(
        say,
        remedy="Find out whether it happened, then answer the run's question. The next call "
        "starts the server anew.",
        place=place,
    )


def _check_proven(
    name: ToolName,
    server: str,
    found: Described,
    policy: Policy,
    proofs: Sequence[SignedApproval],
) -> None:
    if approver(policy, proofs, found.name, found.digest, at=int(time.time() * 1000)):
        return
    raise ToolNotApproved(
        f"nobody who has the right 'grant' by the crew's policy has signed an approval of the tool "
        f"{name!r} of the MCP server {server!r} as it is",
        remedy=f"Somebody who has it looks at it with `crewlog mcp show FILE {server} "
        f"{cleaned_text(found.name)}`, then approves it with their key: `crewlog mcp approve FILE "
        f"{server} {cleaned_text(found.name)}`. {_GOES_ON}",
        place=f"tool {name!r}",
    )


def _check_approved(name: ToolName, server: str, found: Described, approved: str | None) -> None:
    if approved == found.digest:
        return
    say = (
        f"the tool {name!r} of the MCP server {server!r} is not the one that was "
        "approved: what it says of itself has changed"
        if approved
        else f"nobody has approved the tool {name!r} of the MCP server {server!r}"
    )
    raise ToolNotApproved(
        say,
        remedy=f"Look at it with `crewlog mcp show FILE {server} {cleaned_text(found.name)}`, then "
        f"`crewlog mcp approve FILE {server} {cleaned_text(found.name)}`. {_GOES_ON}",
        place=f"tool {name!r}",
    )


def _refusal(error: types.ErrorData) -> str:
    """What a server says where it refuses a call, with what only its data says."""
    said = cleaned_text(error.message)
    if error.data is not None:
        said += "\n" + cleaned_text(json.dumps(error.data, ensure_ascii=False))
    return shortened(said, LONGEST_TEXT)


def _bounded(result: types.CallToolResult) -> types.CallToolResult:
    """A server's result as a transcript can take it: cleaned, not too long, of known kinds.

    What only its structured content says becomes text, since that is all that models are shown.
    """
    left = LONGEST_TEXT
    parts: list[types.ContentBlock] = []
    for part in result.content[:MOST_PARTS]:
        made = _part(part, left)
        if isinstance(made, types.TextContent):
            left = max(0, left - len(made.text))
        parts.append(made)
    if len(result.content) > MOST_PARTS:
        parts.append(_text(f"({len(result.content) - MOST_PARTS:,} more parts are left out)"))
    content = None if _repeats(result) else result.structuredContent
    data, text = _structured(content, left)
    if text and not _is_said(data, [part.text for part in parts if _is_text(part)]):
        parts.append(_text(text))
    return types.CallToolResult(
        content=parts or [_text("(nothing)")], structuredContent=data, isError=result.isError
    )


def _repeats(result: types.CallToolResult) -> bool:
    """Whether the structured content is the parts once more, as the SDK's servers give them."""
    content = result.structuredContent or {}
    parts = [part.model_dump(mode="json", by_alias=True) for part in result.content]
    inner = content.get("result", content) if len(content) == 1 else content
    return inner in (parts, *parts[:1])


def _structured(content: dict[str, Any] | None, left: int) -> tuple[dict[str, Json] | None, str]:
    """Structured content as it is kept, none where it is too long, and as text for a model."""
    if content is None:
        return None, ""
    try:
        check_depth(content)
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as exc:
        return None, f"(its structured content is left out: {exc})"
    if len(text) > LONGEST_TEXT:
        return None, cleaned_text(shortened(text, left))
    data = _cleaned(content)
    return data, shortened(json.dumps(data, ensure_ascii=False), left)


def _is_said(data: dict[str, Json] | None, texts: list[str]) -> bool:
    """Whether texts say the same, as servers add them for clients that read no structured content.

    What is no object is wrapped into one by the servers of the SDK, and of a list each item has a
    text.
    """
    if data is None:
        return False
    said = [_read(text) for text in texts]
    inner = data.get("result", data) if len(data) == 1 else data
    return said in ([data], [inner]) or texts == [inner] or inner in (said, texts)


def _read(text: str) -> Json:
    """What a text is as JSON; itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return cleaned_text(value)
    if isinstance(value, dict):
        return {cleaned_text(str(k)): _cleaned(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_cleaned(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _is_text(part: types.ContentBlock) -> TypeGuard[types.TextContent]:
    return isinstance(part, types.TextContent)


def _part(part: types.ContentBlock, left: int) -> types.ContentBlock:
    if isinstance(part, types.TextContent):
        return _text(shortened(cleaned_text(part.text), left))
    if isinstance(part, types.ImageContent) and len(part.data) <= LARGEST_PART:
        return types.ImageContent(
            type="image", data=part.data, mimeType=cleaned_text(part.mimeType)
        )
    if isinstance(part, types.AudioContent) and len(part.data) <= LARGEST_PART:
        return _file(part.data, part.mimeType)  # LangChain's adapter takes no audio
    if isinstance(part, types.EmbeddedResource):
        inner = part.resource
        if isinstance(inner, types.TextResourceContents):
            return _text(shortened(cleaned_text(inner.text), left))
        if len(inner.blob) <= LARGEST_PART:
            return _file(inner.blob, inner.mimeType or "application/octet-stream")
    if isinstance(part, types.ResourceLink):
        return _text(shortened(cleaned_text(str(part.uri)), min(left, 2_000)))
    return _text(f"(a part of the kind {part.type!r} is left out)")


def _file(data: str, mime_type: str) -> types.EmbeddedResource:
    blob = types.BlobResourceContents.model_validate(
        {"uri": "file:///part", "blob": data, "mimeType": cleaned_text(mime_type)}
    )
    return types.EmbeddedResource(type="resource", resource=blob)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
