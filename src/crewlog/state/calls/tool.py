"""Tool calls, their outcomes and their start records."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Tag, model_serializer
from typing_extensions import override

from crewlog.authority.bindings import Approval
from crewlog.ids import AgentName, ContentHash, NodeName, RunId, ToolName, idempotency_key
from crewlog.model import Json, Model
from crewlog.state.calls.call import CallInput, CallResult
from crewlog.state.calls.output import OutputValue
from crewlog.state.calls.quota import CallQuota

CALL_TOOL = "call_tool"
CHECK_ARGUMENTS = "check_arguments"


class CallTool(CallInput):
    """Execute one tool call of a reply; the view is for tools that ask for the state."""

    tool: ToolName
    id: str
    """The model's id of the call: which of the reply's calls."""
    message: ContentHash
    """The AI message that has the arguments."""
    permitted: bool = True
    """Whether the workflow's check allowed it; the activity checks again."""
    approved: str = ""
    """The interrupt by which people approved the call, where its tool needs that."""
    approval: Approval | None = None
    """What that yes is bound to; none where nobody was asked."""
    ruled: bool = False
    """Whether people ruled of the agent and the tool while the run lived: that counts in the place
    of the definition's approvals and rules."""
    quotas: tuple[CallQuota, ...] = ()
    """The quotas over runs in which the call is counted."""
    run_started_at: int = 0
    """When the run started, in milliseconds since the epoch, where there are such quotas: it tells
    the call from those of other runs that had this id."""


def start_record_key(run: RunId, task: CallTool) -> str:
    """What a try claims in the store before it begins a call that must not be repeated."""
    return f"{idempotency_key(run, task.step, task.call)}/{task.attempt}"


def attempt_owner(execution: str, activity: str, attempt: int) -> str:
    """The name of one try: of an activity, in an execution."""
    return f"{execution}/{activity}/{attempt}"


class ArtifactChange(Model):
    """Operations on an artifact that a tool returned."""

    artifact: str
    body: ContentHash
    """The body that holds them."""
    content: Json = None
    """The body itself, once, for the history."""
    count: int
    """How many operations there are."""
    base: ContentHash = ContentHash("")
    """The head of the artifact's log when they were tried on it; empty: nobody looked."""
    refused: int = 0
    """How many did not apply then."""
    reasons: tuple[str, ...] = ()
    """The first of them, each with its reason."""


class SentMessage(Model):
    """What an agent sends to a channel."""

    channel: str
    text: str


class ToolReturned(Model):
    """The tool ran. The message is its result, or an error that the model may see and repair.

    The workflow checks that the agent may do each of these.
    """

    kind: Literal["returned"] = "returned"
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Flags that it set, by `set_flag` or a `Command`."""
    outputs: tuple[OutputValue, ...] = ()
    """Outputs that it set, by `set_output` or a `Command`."""
    operations: tuple[ArtifactChange, ...] = ()
    """Operations on artifacts."""
    sends: tuple[SentMessage, ...] = ()
    """Messages to channels."""
    goto: tuple[NodeName, ...] = ()
    """Nodes that a `Command` goes to: a handoff."""


class _NamedOutcome(Model):
    @model_serializer(mode="wrap")
    def _with_kind(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Json]:
        return {"kind": type(self).model_fields["kind"].default, **serialize(self)}


class GraphOperationsReturned(_NamedOutcome):
    """A group tool ran: its agent wants to change its component.

    The workflow checks that the agent may, and answers the call with the result of the change.
    """

    kind: Literal["graph_operations"] = "graph_operations"
    operations: tuple[dict[str, Json], ...]
    """The operations, as `crewlog.definition.operations` in JSON."""


class ToolCallInvalid(_NamedOutcome):
    """The call names no tool, or its arguments are not valid: the model may repair it."""

    kind: Literal["invalid"] = "invalid"
    unmade: bool = True
    """Whether no attempt of the call has begun: then the quotas of the run do not count it."""


class ToolCallDenied(_NamedOutcome):
    """The activity did not authorize the call; the journal has the reason, too."""

    kind: Literal["denied"] = "denied"
    reason: str
    """Why, for people."""
    rule: str = ""
    """The permission or check that decided."""


def _outcome_kind(value: Any) -> str:
    return str(value.get("kind", "returned") if isinstance(value, dict) else value.kind)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


ToolOutcome = Annotated[
    Annotated[ToolReturned, Tag("returned")]
    | Annotated[GraphOperationsReturned, Tag("graph_operations")]
    | Annotated[ToolCallInvalid, Tag("invalid")]
    | Annotated[ToolCallDenied, Tag("denied")],
    Discriminator(_outcome_kind),
]
"""What became of a tool call. As JSON, `ToolReturned` has no `kind`, since it is the usual one."""


class CallToolResult(CallResult):
    """A tool's message, and what became of the call."""

    ok: bool = True
    """Whether the message is a result; else it is an error."""
    ms: int = 0
    """How long the tool took, in milliseconds."""
    outcome: ToolOutcome = ToolReturned()
    """What became of the call."""
    quota_periods: dict[str, str] = Field(default_factory=dict[str, str])
    """The quotas over runs that count the call, by their names in the store, each with the hour or
    day: what a store has lost is counted again by them."""
    run_started_at: int = 0
    """The call's own `started`, where quotas count it."""

    @classmethod
    @override
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        return {"ok": False} if body.get("status") == "error" else {}

    @property
    def returned(self) -> ToolReturned:
        """What the tool returned; nothing, if it did not run or changes its component."""
        return self.outcome if isinstance(self.outcome, ToolReturned) else ToolReturned()


class CheckArguments(Model):
    """Check the arguments that people put in the place of a call's, before they are accepted."""

    definition: ContentHash
    """The definition that has the tool."""
    tool: ToolName
    args: dict[str, Json]
    agent: AgentName = AgentName("")
    """Whose call it is: the tools that every crew has are made for each agent."""


class CheckArgumentsResult(Model):
    """Whether arguments fit a tool."""

    fault: str = ""
    """What is wrong with them; empty: nothing."""
