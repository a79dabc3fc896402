"""Tool calls, their outcomes and their start records."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from typing_extensions import override

from crewlog.authority.bindings import Approval
from crewlog.ids import AgentName, ContentHash, NodeName, RunId, ToolName, idempotency_key
from crewlog.model import Json, Model
from crewlog.state.calls.call import CallInput, CallResult, NamedOutcome
from crewlog.state.calls.output import OutputValue
from crewlog.state.calls.quota import CallQuota

CALL_TOOL = "call_tool"
CHECK_ARGUMENTS = "check_arguments"


class CallTool(CallInput):
    """Executes one tool call of an AI message."""

    tool: ToolName
    id: str
    """The model's id of the call."""
    message: ContentHash
    """The AI message that contains the arguments."""
    permitted: bool = True
    """Whether the workflow allowed the call; the activity checks again."""
    approved: str = ""
    """The interrupt by which people approved the call; empty if it needed no approval."""
    approval: Approval | None = None
    """What the approval is bound to; none if the call needed none."""
    has_live_permission: bool = False
    """Whether a permission set on the live run decides instead of the definition's."""
    quotas: tuple[CallQuota, ...] = ()
    """The quotas over several runs that count the call."""
    run_started_at: int = 0
    """When the run was started, in milliseconds since the epoch, if there are such quotas: another
    run with the same id has other calls."""


def start_record_key(run: RunId, task: CallTool) -> str:
    """The key of the start record of an attempt of a call with the retry mode `never`."""
    return f"{idempotency_key(run, task.step, task.call)}/{task.attempt}"


def attempt_owner(execution: str, activity: str, attempt: int) -> str:
    """The owner of a start record: an attempt of an activity in an execution."""
    return f"{execution}/{activity}/{attempt}"


class ArtifactChange(Model):
    """Operations on an artifact that a tool returned."""

    artifact: str
    body: ContentHash
    """The hash of the body that contains them."""
    content: Json = None
    """The body itself, once, for the history."""
    count: int
    """The number of operations."""
    base: ContentHash = ContentHash("")
    """The head of the artifact's log against which they were checked; empty if they were not."""
    refused: int = 0
    """How many of them did not apply there."""
    reasons: tuple[str, ...] = ()
    """The first of those, each with its reason."""


class SentMessage(Model):
    """A message that an agent sends to a channel."""

    channel: str
    text: str


class ToolReturned(Model):
    """The tool ran. The message is its result, or an error that the model may see and repair.

    The workflow checks that the agent may do each of these.
    """

    kind: Literal["returned"] = "returned"
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The run outputs that it set, by `set_flag` or a LangGraph `Command`."""
    outputs: tuple[OutputValue, ...] = ()
    """The outputs that it set, by `set_output` or a LangGraph `Command`."""
    operations: tuple[ArtifactChange, ...] = ()
    """Operations on artifacts."""
    sends: tuple[SentMessage, ...] = ()
    """Messages to channels."""
    goto: tuple[NodeName, ...] = ()
    """The nodes that a LangGraph `Command` goes to: a handoff."""


class GraphOperationsReturned(NamedOutcome):
    """A group tool ran: its agent wants to change its component.

    The workflow checks that the agent may, and answers the call with the result of the change.
    """

    kind: Literal["graph_operations"] = "graph_operations"
    operations: tuple[dict[str, Json], ...]
    """The operations, as `crewlog.definition.operations` in JSON."""


class ToolCallInvalid(NamedOutcome):
    """The call names no tool, or its arguments are not valid: the model may repair it."""

    kind: Literal["invalid"] = "invalid"
    unmade: bool = True
    """Whether no attempt of the call has started: then the quotas of the run do not count it."""


class ToolCallDenied(NamedOutcome):
    """The activity did not authorize the call; the journal has the reason, too."""

    kind: Literal["denied"] = "denied"
    reason: str
    """Why, for people."""
    rule: str = ""
    """What decided, as in `PermissionDenied`."""


def _outcome_kind(value: Any) -> str:
    return str(value.get("kind", "returned") if isinstance(value, dict) else value.kind)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


ToolOutcome = Annotated[
    Annotated[ToolReturned, Tag("returned")]
    | Annotated[GraphOperationsReturned, Tag("graph_operations")]
    | Annotated[ToolCallInvalid, Tag("invalid")]
    | Annotated[ToolCallDenied, Tag("denied")],
    Discriminator(_outcome_kind),
]
"""The outcome of a tool call. As JSON, `ToolReturned` has no `kind`, since it is the usual one."""


class CallToolResult(CallResult):
    """The message of a tool, and the outcome of the call."""

    ok: bool = True
    """Whether the message is a result; else it is an error."""
    ms: int = 0
    """How long the tool took, in milliseconds."""
    outcome: ToolOutcome = ToolReturned()
    quota_periods: dict[str, str] = Field(default_factory=dict[str, str])
    """The hour or day in which each quota over several runs counts the call, by the quota's name in
    the store. A rebuild counts the call again from this."""
    run_started_at: int = 0
    """`CallTool.run_started_at`, if quotas count the call."""

    @classmethod
    @override
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        return {"ok": False} if body.get("status") == "error" else {}

    @property
    def returned(self) -> ToolReturned:
        """What the tool returned; nothing if it did not run or changes its component."""
        return self.outcome if isinstance(self.outcome, ToolReturned) else ToolReturned()


class CheckArguments(Model):
    """Checks the arguments that people edited, before their answer is accepted."""

    definition: ContentHash
    """The definition that has the tool."""
    tool: ToolName
    args: dict[str, Json]
    agent: AgentName = AgentName("")
    """The agent that makes the call: built-in tools differ by agent."""


class CheckArgumentsResult(Model):
    """Whether the arguments satisfy the schema of the tool."""

    fault: str = ""
    """What is wrong with them; empty if they are valid."""
