"""Approving what tools of MCP servers say of themselves, as the principal that one is."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from crewlog.authority.signatures import APPROVE, Signature, SignedApproval
from crewlog.client.journal import OpenStore
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.definition.reaching import mcp_tool
from crewlog.definition.times import moment_words
from crewlog.errors import CrewlogError, NotPermitted
from crewlog.ids import RunId, ToolName
from crewlog.store.protocol import Store
from crewlog.wire import InterruptView

if TYPE_CHECKING:
    from crewlog.client.session import Session

MCP_APPROVAL = "mcp_approval"
"""The kind of question that asks for an approval of a server's tool."""
_TOOL = re.compile(r"the tool '([^']+)'")
"""How such a question names the crew's tool."""
Asked = TypeVar("Asked", bound=InterruptView)


async def with_approved(
    open_store: OpenStore, run: RunId, questions: Sequence[Asked]
) -> list[Asked]:
    """Questions, those marked whose tool was approved after they were asked.

    A run takes such a question back once a worker makes the call again: until then, the question
    says so in the place of what was wrong. Where the store is away, nothing is marked.

    Args:
        open_store: Opens the store; only where a question asks for an approval.
        run: The run that asks.
        questions: Its questions.
    """
    found: list[Asked] = []
    for each in questions:
        made = each
        if each.kind == MCP_APPROVAL:
            with suppress(CrewlogError):
                made = await _with_approved(await open_store(), run, each)
        found.append(made)
    return found


async def _with_approved(store: Store, run: RunId, asked: Asked) -> Asked:
    if (tool := await asked_tool(store, run, asked)) is None:
        return asked
    at = (await store.list_approval_times(tool[0])).get(tool[1], 0)
    rows = await store.list_interrupts(run)
    raised = next((row.at for row in rows if row.id == asked.id), 0)
    if not raised or at <= raised:
        return asked
    detail = (
        f"It was approved {moment_words(at)}. The run calls it again within ten seconds where a "
        f"worker polls its task queue; `crewlog watch {run}` brings one. Does this stay open, the "
        "tool says something else by now: `crewlog mcp list` shows it."
    )
    return asked.model_copy(update={"approved_at": at, "detail": detail})


async def asked_tool(store: Store, run: RunId, asked: InterruptView) -> tuple[str, str] | None:
    """The tool that a question asks an approval of: its server's `source`, and its name there.

    Args:
        store: The store, which has the run's definition.
        run: The run that asks.
        asked: The question.
    """
    row, named = await store.get_run(run), _TOOL.search(asked.question)
    if row is None or not row.definition or named is None:
        return None
    crew = CrewDefinition.from_json(await store.get_definition(row.definition))
    tool = crew.tools.get(ToolName(named[1]))
    found = mcp_tool(tool.run) if tool is not None else None
    if found is None or found[0] not in crew.mcp:
        return None
    return crew.mcp[found[0]].source, found[1]


async def approve_tool(
    session: Session,
    policy: Policy | None,
    source: str,
    tool: str,
    description_hash: str,
    *,
    by: str,
    told: str,
) -> str:
    """Keeps that somebody approves a tool of a server; signed, where there is a key.

    Args:
        session: The connection.
        policy: The policy of the crew that it is approved for.
        source: The server, as `McpServer.source` names it.
        tool: The tool's name there.
        description_hash: The hash of the description of the tool.
        by: Who approves it, where nothing proves that.
        told: What the tool says of itself, for people who look at it once it has changed.

    Returns:
        Who approved it.

    Raises:
        NotPermitted: the policy is signed, and who signs has not the right `grant`.
        StoreUnavailable: the store is away.
    """
    from crewlog.authority.principals import (  # noqa: PLC0415 - slow, and few have servers
        EVERY_CREW,
        approval_content,
        approver,
    )

    at = int(time.time() * 1000)
    content = approval_content(source, tool, description_hash)
    signed = session.signed(EVERY_CREW, APPROVE, content)
    made: SignedApproval | None = None
    if "proof" in signed:
        proof = Signature.from_json(signed["proof"])
        made = SignedApproval(
            source=source, tool=tool, hash=description_hash, by=by, at=at, signature=proof
        )
    if policy is not None and policy.signed:
        by = approver(policy, [made] if made else [], tool, description_hash, at=at)
        if not by:
            raise NotPermitted(
                f"the crew's policy lets those approve {tool!r} who have the right 'grant', and "
                + ("the key that signs is none of theirs" if made else "nothing signs this"),
                remedy="Sign it with the key of one of them: `crewlog keys list` has yours, "
                "CREWLOG_KEY chooses one.",
            )
    store = await session.store()
    if made is not None:
        await store.put_signed_approval(made.model_copy(update={"by": by}))
    await store.approve_tool(source, tool, description_hash, by, at, told)
    return by
