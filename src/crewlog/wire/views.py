"""The results of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from crewlog.ids import (
    AgentName,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    ToolName,
)
from crewlog.model import Json, Model
from crewlog.run_status import EndReason, RunStatus
from crewlog.usage import Usage
from crewlog.wire.results import Response
from crewlog.wire.start import WireInput

__all__ = [
    "QUERIES",
    "CheckpointPage",
    "CheckpointView",
    "ConversationView",
    "EntryView",
    "GraphView",
    "InterruptView",
    "JournalPage",
    "LivePermissionView",
    "LogView",
    "OutcomeView",
    "OutputView",
    "Page",
    "PermissionCheckView",
    "PermissionView",
    "PermissionsPage",
    "PermissionsQuery",
    "QueryType",
    "QuotaUseView",
    "QuotaView",
    "RunView",
    "StateView",
    "StepView",
]


class StepView(Model):
    """A step that is not done."""

    step: StepId
    node: NodeName
    status: str
    """`ready`, `running`, `waiting`, `interrupted` or `queued`."""
    wait_reason: str = ""
    """The requirement of a waiting step, or the time until which it waits."""
    deadline: int = 0
    """The deadline of its timer or of its timeout, in milliseconds since the epoch; 0: none."""
    calls: tuple[str, ...] = ()
    """The calls in flight: `model`, or a tool with an excerpt of its arguments."""
    failure: str = ""
    """Why a call waits for a worker with its tool, an MCP server or the approval of a tool, and the
    remedy. The call is retried until it succeeds. Empty: no call waits."""
    agent: str = ""
    """The agent that the item of a child step names; empty: the agent of the node."""


class RunView(Model):
    """The query `status`: where a run is."""

    run: RunId
    crew: str
    status: RunStatus
    graph_version: int
    execution: int
    """The number of the execution, from 1."""
    position: int
    """The journal position."""
    started_at: int
    """Milliseconds since the epoch."""
    steps: int
    """Steps started."""
    frontier: tuple[StepView, ...] = ()
    """The steps that are not done."""
    completed_steps: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """Completed steps by node."""
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    interrupts: tuple[InterruptId, ...] = ()
    """The open interrupts."""
    wait_reason: str = ""
    """What the run waits for, for people; empty if a step makes progress."""
    is_idle: bool = False
    """Whether the run is idle: it waits for a message to its agents with channels."""
    merge_status: str = ""
    """The status of a run merge: `requested`, `coordinating`, `draining` or `frozen`; else
    empty."""
    usage: Usage = Usage()
    error: str = ""
    end_reason: EndReason = ""
    """Why the run ended; empty while it is open."""


class OutputView(Model):
    """An output of an agent."""

    value: Json = None
    """The value, if its JSON has at most 256 bytes."""
    body: ContentHash | None = None
    """The hash of the body in the store that has the value, if it is larger."""
    position: int
    """The journal position that set the output."""


class LogView(Model):
    """A log: an append-only chain of messages for one audience."""

    head: ContentHash
    """The head: it names the whole transcript."""
    length: int = 0
    """The number of messages."""


class OutcomeView(Model):
    """The one recorded outcome of a command."""

    ok: bool = True
    """Whether the command was applied."""
    position: int = 0
    """The journal position of its entry."""
    detail: str = ""
    """An excerpt of the reason of a refusal. The journal has the whole reason."""
    error_type: str = ""
    """The error type of a refusal."""
    graph_version: int = 0
    """Of a change with a swap: the new graph version; else 0."""
    hash: str = ""
    """The hash of the command. Empty if it is not known: then any command with the id is a
    repetition."""


class StateView(Model):
    """The query `state`: everything a run is, at its last journal position."""

    run: RunId
    crew: str = ""
    status: RunStatus
    graph_version: int
    execution: int
    """The number of the execution, from 1."""
    position: int
    """The journal position."""
    definition: str = ""
    """The hash of the live definition."""
    recipe: str = ""
    """The hash of the definition that the run was started with."""
    logs: dict[LogName, LogView] = Field(default_factory=dict[LogName, LogView])
    """The logs by name."""
    outputs: dict[AgentName, dict[str, OutputView]] = Field(
        default_factory=dict[AgentName, dict[str, OutputView]]
    )
    """The outputs by agent and key. `text` is the agent's last final message."""
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    shared: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Small values that every agent may read."""
    private: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """Small values by audience: `agent:A` or `group:G`."""
    coordination_rules: tuple[str, ...] = ()
    """The joins, conditions and branches of the crew, as text."""
    tags: dict[str, int] = Field(default_factory=dict[str, int])
    """The positions of tagged checkpoints, by tag."""
    commands: dict[str, OutcomeView] = Field(default_factory=dict[str, OutcomeView])
    """The outcomes of recent commands by id, oldest first; 100 at most."""
    usage: dict[AgentName, Usage] = Field(default_factory=dict[AgentName, Usage])
    """Usage by agent."""
    data: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The whole state as the workers have it, for diagnosis and for clients of the same version.
    Its keys are not part of the contract."""


class QuotaView(Model):
    """A quota in which a call is counted before it begins."""

    name: str
    """The name of the quota in the store."""
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """The time zone of hours and days."""
    rule: str = ""
    """The permission with the quota: `rules[1]`."""


class InterruptView(Model):
    """An element of the query `interrupts`, in LangChain's human-in-the-loop shape."""

    id: InterruptId
    kind: str
    """`ask`, `requirement`, `step_failed`, `outcome_unknown`, `tool_approval`, `limit`, `manual`,
    `low_confidence`, `budget`, `mcp_approval` or `approval`."""
    step: StepId | None = None
    """The step that waits; none if the whole run waits."""
    question: str
    detail: str = ""
    options: tuple[str, ...]
    """The options that a decision `respond` may name. `approve` and `reject` select the options of
    these names, else the first and the last."""
    takes_text: bool = False
    """Whether other words than the options are an answer, too."""
    text_option: str = ""
    """The option that other words select; its agent reads them. Empty: the words are the answer."""
    hash: str = ""
    """Of an `approval`: the hash of the definition."""
    to: tuple[str, ...] = ()
    """The principals that may answer. Empty: all with the right `answer`."""
    deadline: int = 0
    """The deadline, in milliseconds since the epoch; 0: none."""
    escalated: bool = False
    """Whether the interrupt was escalated to `to` because nobody answered in time."""
    reason: str = ""
    """Of a call: why it needs an approval."""
    rule: str = ""
    """The permission that asks: `rules[1]`, `approvals`, `live_permission`, `parent`,
    `interrupts.approve_risk`."""
    risk: str = ""
    """Of a call: `high` if its tool has high risk."""
    quotas: tuple[QuotaView, ...] = ()
    """Of a call: the quotas over several runs that it is counted in."""
    shows: ContentHash | None = None
    """The hash of the body with the detail, if it is large. Clients put it into `detail`."""
    limit_reached: str = ""
    """The limit that the interrupt is about, as `end_reason` names it."""
    exhausted_quota: str = ""
    """Of a call: that a quota is used up, so that no answer lets the call through now. Clients set
    it."""
    approved_at: int = 0
    """Of a tool of an MCP server: when it was approved after the interrupt was raised, in
    milliseconds since the epoch. Clients set it."""
    message: ContentHash | None = None
    """Of a call that is asked about again: the hash of the message with its arguments. Clients put
    them into `action_requests`."""
    call_id: str = ""
    """The id of the call in that message."""
    has_excerpts: bool = False
    """Whether the arguments in `action_requests` are excerpts: an approval is about all of them."""
    action_requests: tuple[dict[str, Json], ...]
    """`[{"name", "args", "description"}]`."""
    review_configs: tuple[dict[str, Json], ...]
    """`[{"action_name", "allowed_decisions"}]`."""


class EntryView(Model):
    """A journal entry."""

    position: int
    """The position, from 1."""
    kind: str
    """The kind of the entry: `StepCompleted`."""
    at: int = 0
    """When it was recorded, in milliseconds since the epoch."""
    transaction: int = 0
    """The position of the first entry of its transaction: what one command or one call led to."""
    data: dict[str, Json]
    """The entry as JSON, with `kind` and `at`."""


class JournalPage(Model):
    """The query `journal`: a part of the journal, as far as this execution has it."""

    entries: tuple[EntryView, ...] = ()
    first: int = 1
    """The first position that this execution has. The store has earlier ones."""
    position: int = 0
    """The last position."""
    base: int = 0
    """Of a fork: the position after which its journal begins."""


class CheckpointView(Model):
    """A checkpoint: a position to look at, to return to, or to fork from."""

    position: int
    kind: Literal["step", "start", "exchange", "fork", "rollback", "reopen", "tag"] = "step"
    """`step`, `exchange`: the end of one. `start`: the start of the run or of an exchange. `fork`,
    `rollback`, `reopen`: the run continues from another state. `tag`: a position with a tag."""
    step: StepId
    """The step that ended; empty for other kinds."""
    exchange: int = 0
    """The exchange that ended; 0 for other kinds."""
    node: NodeName
    """The node of the step; empty for other kinds."""
    agent: AgentName | None = None
    at: int = 0
    """Milliseconds since the epoch."""
    tags: tuple[str, ...] = ()


class CheckpointPage(Model):
    """The query `checkpoints`: a part of the checkpoints, as far as this execution has them."""

    checkpoints: tuple[CheckpointView, ...] = ()
    first: int = 1
    """The first position that this execution has. The store has earlier ones."""
    position: int = 0
    """The last position."""


Effect = Literal["allow", "deny", "ask"]


class LivePermissionView(Model):
    """A permission that was set on the live run."""

    do: Literal["allow", "deny", "ask", "permission"]
    """The effect for one agent. `permission`: the tool has a list of agents."""
    agent: str = ""
    """The agent; `*`: every agent. Empty for a list."""
    by: str = ""
    """Who set it; empty if the run does not know it any more."""
    at: int = 0
    """When, in milliseconds since the epoch; 0 if the run does not know it any more."""
    position: int = 0
    """The journal position; 0 if the run does not know it any more."""
    reason: str = ""
    """Why."""


class QuotaUseView(Model):
    """A quota of a permission, and how much of it is used."""

    rule: str
    """The permission with the quota: `rules[1]`."""
    quota: str
    """`5 per run`."""
    used_calls: int | None = None
    """Calls that are used; none if it is not known. Clients ask the store for hours and days."""
    remaining_calls: int | None = None
    """Calls that are left; none if it is not known."""
    key: str = ""
    """The name of the quota within the crew."""
    zone: str = ""
    """The time zone of hours and days."""
    crew: str = ""
    """For hours and days: the crew whose runs are counted together."""


class PermissionCheckView(Model):
    """One check of a cell of the permission matrix."""

    rule: str
    """What is checked: `tools`, `permissions`, `rules[1]`, `approvals`, `interrupts.approve_risk`,
    `live_permission`, `parent`."""
    text: str
    """What it says, for people."""
    outcome: Effect | Literal[""] = ""
    """The effect on a call; empty: none."""
    applies: bool = True
    """Whether it applies now: its condition holds, and no live permission replaces it."""
    decides: bool = False
    """Whether it decided the outcome."""


class PermissionView(Model):
    """A cell of the permission matrix: whether an agent may call a tool, and why."""

    agent: AgentName
    tool: ToolName
    outcome: Effect
    """`allow`, `ask` (each call needs an approval) or `deny`."""
    reason: str
    """Why, with the permission that decided."""
    rule: str = ""
    """The permission that decided; empty: no permission is against the call."""
    has_tool: bool = True
    """Whether the definition gives the tool to the agent."""
    live_permission: LivePermissionView | None = None
    """The live permission that applies."""
    may_change: bool = False
    """Whether a condition may change the outcome."""
    quotas: tuple[QuotaUseView, ...] = ()
    """The quotas that a call would be counted in now."""
    checks: tuple[PermissionCheckView, ...] = ()
    """Every check in order, if the query asks for them."""


class PermissionsPage(Model):
    """The query `permissions`: a part of the permission matrix, row by row."""

    run: RunId
    crew: str = ""
    graph_version: int = 1
    position: int = 0
    """The journal position."""
    agents: tuple[AgentName, ...] = ()
    """All agents of the run."""
    remote_agents: dict[AgentName, RunId] = Field(default_factory=dict[AgentName, RunId])
    """Remote agents, with the runs that a split moved them to."""
    tools: tuple[ToolName, ...] = ()
    """All tools that agents of the crew may have."""
    cells: tuple[PermissionView, ...] = ()
    """The cells of this page."""
    total: int = 0
    """The number of cells on all pages."""
    live: bool = True
    """Whether the run itself answered. A client sets it to false if the store did."""


class GraphView(Model):
    """The query `graph`."""

    version: int
    """The graph version."""
    plan: dict[str, Json]
    """The `GraphPlan` as JSON. Its keys are not part of the contract."""
    mermaid: str
    """The drawing, with nodes coloured by their status."""
    statuses: dict[NodeName, str] = Field(default_factory=dict[NodeName, str])
    """`done`, `running`, `ready`, `waiting`, `interrupted`. Nodes without a step are left out."""


class ConversationView(Model):
    """The query `conversation`: where a conversation is."""

    run: RunId
    exchange: int
    """The number of the current or last exchange; 0: none has begun."""
    is_waiting: bool
    """Whether the run waits for the next message."""
    queued_messages: int = 0
    """Messages in the message queue."""
    deadline: int = 0
    """The deadline for the next message, in milliseconds since the epoch; 0: none."""
    last_response: Response | None = None
    """The last response."""


class Page(WireInput):
    """The part of a journal, or of the checkpoints, that a query returns."""

    after: int = Field(default=0, ge=0)
    """The position after which the page begins."""
    limit: int = Field(default=200, ge=1, le=1000)
    """The largest number of elements."""


class PermissionsQuery(WireInput):
    """The part of the permission matrix that a query returns."""

    agents: tuple[str, ...] = Field(default=(), max_length=1000)
    """The agents. Empty: all."""
    tools: tuple[str, ...] = Field(default=(), max_length=1000)
    """The tools. Empty: all."""
    checks: bool = False
    """Whether to return each check of each cell."""
    after: int = Field(default=0, ge=0)
    """The number of cells to skip, row by row."""
    limit: int = Field(default=200, ge=1, le=1000)
    """The largest number of cells."""


@dataclass(frozen=True)
class QueryType:
    """The models of a query's argument and result."""

    result: type[Model]
    argument: type[Model] | None = None
    """None: the query has no argument."""
    is_list: bool = False
    """Whether the result is a list."""


QUERIES: Mapping[str, QueryType] = {
    "status": QueryType(RunView),
    "state": QueryType(StateView),
    "graph": QueryType(GraphView),
    "interrupts": QueryType(InterruptView, is_list=True),
    "journal": QueryType(JournalPage, Page),
    "checkpoints": QueryType(CheckpointPage, Page),
    "permissions": QueryType(PermissionsPage, PermissionsQuery),
    "conversation": QueryType(ConversationView),
}
"""The queries by their names."""
