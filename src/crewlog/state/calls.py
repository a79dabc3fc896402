"""What an activity is given, and what it gives back: small, flat, and never the transcript.

These are durable data: histories hold them. A field may be added with a default, never renamed.

Lists of which each item is for somebody: one value an item, with whom it names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)
from typing_extensions import override

from crewlog.authority.bindings import Approval
from crewlog.canonical_json import canonical, hash_json
from crewlog.definition.policy import Policy
from crewlog.ids import (
    AgentName,
    ContentHash,
    CrewName,
    LogName,
    NodeName,
    RunId,
    StepId,
    ToolName,
    idempotency_key,
)
from crewlog.model import Json, Model
from crewlog.state.agent_inputs import AgentInput, WindowResult
from crewlog.state.body_metadata import (
    body_usage,
    model_name,
    requested_tool_calls,
    usage_with_metadata,
    usage_without_metadata,
)
from crewlog.state.claim import ClaimedAgent
from crewlog.state.components import Component, ComponentChange
from crewlog.state.finish_reason import BadEnding
from crewlog.state.journal import Batch
from crewlog.state.model import (
    CallDelay,
    CommandOutcome,
    Item,
    LogHead,
    PromptDiagnostic,
    PromptReply,
    WakingMessage,
)
from crewlog.state.split import SplitContents
from crewlog.usage import Usage

PREPARE_RUN = "prepare_run"
COMPILE_PROMPT = "compile_prompt"
CALL_MODEL = "call_model"
CALL_TOOL = "call_tool"
STORE_BATCH = "store_batch"
END_RUN = "end_run"
PREPARE_CHANGE = "prepare_change"
READ_OTHER_RUN = "read_other_run"
PREPARE_MERGE = "prepare_merge"
RESTORE_STATE = "restore_state"
FIND_COMMAND = "find_command"
DELETE_REPLACED_RUN = "delete_replaced_run"
READ_TIME = "read_time"
RECORD_USE = "record_use"
CHECK_ARGUMENTS = "check_arguments"


class View(Model):
    """The logs that an agent may read, each at a head. The activity hydrates it to messages."""

    heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The logs that have messages, by name. In activities' inputs, a head that follows from the
    batch is left empty."""
    former_steps: tuple[StepId, ...] = ()
    """Of an item's step: the names that its visit had before, where the run went back to it. What
    was said under them is its own."""
    after: tuple[int, ...] = ()
    """Of an item's step: the items of its visit that it waited for. What its agent said of them is
    shown, as what somebody else said."""
    former_names: dict[LogName, tuple[LogName, ...]] = Field(
        default_factory=dict[LogName, tuple[LogName, ...]]
    )
    """The names that a log had before, where its channel or its agent was renamed: each of the same
    kind. It may begin where a log of such a name does."""

    def without(self, which: Callable[[LogName], bool]) -> View:
        """The view without some logs."""
        if not any(map(which, self.heads)):
            return self
        heads = {log: head for log, head in self.heads.items() if not which(log)}
        return self.model_copy(update={"heads": heads})


class SignedStart(Model):
    """A start, which one execution may use where it is signed. No history has it."""

    start: str = ""
    """Its digest: of what was signed, and with which key; empty where it carries no proof."""
    execution: str
    """Temporal's run id of the execution; a reset leaves it as it was."""
    content: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The start as it was sent; empty where it carries no proof."""
    at: int = 0
    """When it was started, in milliseconds since 1970."""


class PrepareRun(Model):
    """Resolve and validate what a run was started with."""

    run: RunId
    crew: str | dict[str, Json]
    """A registered crew's name, or an inline definition."""
    edited: bool = False
    """Whether it is a person's edit of what a prompt was made to: it may use what the registry
    offers, and no more."""
    registry: str = ""
    """Of an edit: the registry of the prompt; empty: one of nothing."""
    model: str = ""
    """The model of every agent, in the place of those that the crew names. Of an edit: the model
    that the prompt was compiled with, which it may use as well."""
    use: SignedStart | None = None
    """The start; none where the crew is not what a run begins with."""


class PrepareRunResult(Model):
    """A run's definition and plan."""

    definition: dict[str, Json]
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json]
    """The `GraphPlan` as JSON."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes; an unknown one stops a run for good."""


class CompilePrompt(Model):
    """Read a prompt, with the forms or by asking a model once, and make a definition of it."""

    prompt: ContentHash
    """The prompt's hash. The batch brings it along once; from then on it is a body in the store."""
    registry: str = ""
    """The registry that says what it may use; empty: nothing."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """Who reads it."""
    model: str = ""
    """The model of crews, in the place of the registry's; empty: the registry's."""
    replies: tuple[PromptReply, ...] = ()
    """What the model answered before, oldest first: it is told what does not hold in them."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet."""
    attempt: int = 1
    """Which try, counting those that people asked for."""


class CompilePromptResult(Model):
    """What a prompt comes to, or a model's answer that does not hold."""

    reader: Literal["forms", "model"] = "forms"
    """Who read it."""
    reply: PromptReply | None = None
    """What the model answered; none where it was not asked."""
    errors: int = 0
    """What does not hold in the answer."""
    again: bool = False
    """Whether the model must be asked once more; then there is nothing else yet."""
    definition: dict[str, Json] | None = None
    """The crew; none where there is an error."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Errors and warnings, in the order of the prompt."""
    requirements: tuple[str, ...] = ()
    model: str = ""
    """The model that answered, as it is called."""
    usage: Usage = Usage()
    """This call's usage."""
    journaled: bool = True
    """Whether the store has the input's batch."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch: the activity sets it last."""


def _last_started_step(batch: Any) -> str:
    """The step with whose beginning a batch ends, as JSON; empty where it ends otherwise."""
    match batch:
        case {"entries": [*_, {"kind": "StepStarted", "step": str(step)}]}:
            return step
        case _:
            return ""


class CallInput(Model):
    """What the inputs of both kinds of calls say."""

    run: RunId = RunId("")
    """The run; left out in activities' inputs, since it is the workflow's id."""
    step: StepId
    call: int = 1
    """The call's number in the step; run, step and call are the idempotency key."""
    agent: AgentName = AgentName("")
    """The agent; left out in activities' inputs where the node has its name."""
    definition: ContentHash
    view: View = View()
    """The logs that the agent may read."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet."""
    attempt: int = 1
    """Which try, counting those that people asked for. The idempotency key is the same for all."""
    position: int = 0
    """The journal position when it was scheduled, where the batch does not tell."""
    inputs: tuple[AgentInput, ...] = ()
    """What the agent asks for under `inputs`, as far as it is set and the agent may be given it."""

    @model_validator(mode="before")
    @classmethod
    def _with_step(cls, data: Any) -> Any:
        if isinstance(data, dict) and "step" not in data:
            given: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
            begun = _last_started_step(given.get("batch") or {})
            return {**given, "step": begun} if begun else given
        return data  # pyright: ignore[reportUnknownVariableType]

    @override
    def to_json(self) -> dict[str, Json]:
        """As JSON; without the step where the batch ends with its beginning, as it mostly does."""
        data = super().to_json()
        if _last_started_step(data.get("batch", {})) == self.step:
            del data["step"]
        return data

    @property
    def knows(self) -> int:
        """The position up to which the run had looked at what people ruled."""
        return self.position or (self.batch.last if self.batch.entries else 0)


class CallModel(CallInput):
    """Call an agent's model on its view."""

    tools: tuple[ToolName, ...] = ()
    """The tools that the model is offered, as permitted now."""
    item: Item | None = None
    """The item that the step is for, where its phase has a step for each."""
    unresolved: tuple[int, ...] = ()
    """Calls of the step of whose operations it is not known which apply."""
    waking_message: WakingMessage | None = None
    """The message that the step is for, where its agent heard one."""
    cut: int = 0
    """Replies in a row that the limit of output cut: the next one may be longer."""


class RequestedToolCall(Model):
    """A tool call that a model asked for."""

    id: str
    """The model's id of the call."""
    tool: str
    """The tool's name, as the model spelled it."""
    excerpt: str = ""
    """The start of the arguments, for people: at most 80 characters."""


class CallResult(Model):
    """A message that a call made. As JSON it leaves out what the body tells."""

    body: dict[str, Json]
    """The message, as `crewlog.state.messages` spells it."""
    hash: ContentHash
    """Its content hash."""
    stored: bool = True
    """Whether the store has the body; where it was away, the journal entry carries it inline."""
    journaled: bool = True
    """Whether the store has the input's batch."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch; 0: the message was composed without a
    call."""
    delay: CallDelay | None = None
    """What it took before the attempt that answered; none where that is nothing to speak of."""

    @classmethod
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _with_metadata(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("body"), dict):  # pyright: ignore[reportUnknownMemberType]
            given: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
            told: dict[str, Json] = {
                "hash": hash_json(given["body"]),
                **cls._metadata(given["body"]),
            }
            if isinstance(given.get("usage"), dict) and "usage" in told:
                given = {**given, "usage": usage_with_metadata(given["usage"], told["usage"])}
            return {**told, **given}
        return data  # pyright: ignore[reportUnknownVariableType]

    @override
    def to_json(self) -> dict[str, Json]:
        data = super().to_json()
        told: dict[str, Json] = {"hash": self.hash, **self._metadata(self.body)}
        if "usage" in told:
            data["usage"] = usage_without_metadata(data.get("usage", {}), told["usage"])
            told["usage"] = {}
        return {key: value for key, value in data.items() if told.get(key) != value}


INLINE_BYTES = 256
"""Bytes of an output's JSON that the journal and the state have themselves; larger ones are bodies
that they name."""


class OutputValue(Model):
    """An output that a call set: inline where its JSON is at most 256 bytes, else by its body."""

    key: str
    value: Json = None
    body: ContentHash | None = None
    content: Json = None
    """The large value itself, once, for the history."""
    recipients: tuple[str, ...] | None = None
    """Of an item that is for somebody: whom it names. None: it is no such item."""


class StructuredOutput(Model):
    """What a final message says, where it must be of a form: its fields, as outputs."""

    how: Literal["json", "lenient"] = "json"
    """Exactly as asked, or it was clear what was meant."""
    outputs: tuple[OutputValue, ...] = ()
    """The fields that it has."""


class CallModelResult(CallResult):
    """A model's reply."""

    tools: tuple[RequestedToolCall, ...] = ()
    """The tool calls it asks for, in order; empty where the turn is over."""
    model: str = ""
    """The model that answered, as it names itself."""
    usage: Usage = Usage()
    """This call's usage; `calls` is 1, and one more for every summary that it had made."""
    ending: BadEnding = ""
    """How it ended, where it is no good answer: then it asks for no tool."""
    window: WindowResult | None = None
    """What a window left out of its prompt; none where nothing."""
    reply: StructuredOutput | None = None
    """What it says, where it is the last of the turn and must be of a form."""
    errors: tuple[str, ...] = ()
    """Why it is not of that form."""
    draft: ContentHash | None = None
    """Of a reply that calls tools, where its text may be what the turn ends with: the message that
    has the text alone. The store has it where it has the body."""
    refused_operations: tuple[RefusedOperations, ...] = ()
    """What became of operations that were not settled: those of which some do not apply."""

    @classmethod
    @override
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        return {
            "tools": requested_tool_calls(body),
            "model": model_name(body),
            "usage": body_usage(body),
        }


class CallQuota(Model):
    """A quota over runs in which a call is to be counted before it begins."""

    key: str
    """Its name within the crew."""
    crew: CrewName
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """Whose hours and days."""
    rule: str = ""
    """The rule, for the reason of a refusal."""


def quota_store_name(crew: str, key: str) -> str:
    """The name in the store of a crew's quota over runs."""
    return f"{crew}/{key}"


def quota_idempotency_key(call: str, started: int) -> str:
    """The name in the store of a call that quotas over runs count.

    The call's own key is not enough: a run whose id is used again makes calls of the same keys.

    Args:
        call: The call's key, or the end of it that is the run's own.
        started: When its run started, in milliseconds since the epoch.
    """
    return f"{call}@{started}"


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


class RefusedOperations(Model):
    """Operations of a call of which some turned out not to apply."""

    call: int
    artifact: str
    refused: int
    """How many."""
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


class MergeNotification(Model):
    """Has another run look at what the store has of this one."""

    merge: str
    """The merge."""
    to: RunId
    """The other run."""


class StoreBatch(Model):
    """Store what no activity has stored."""

    run: RunId
    batch: Batch
    definition: ContentHash = ContentHash("")
    state: dict[str, Json] | None = None
    """The state at the batch's end, to be kept as a snapshot."""
    notifications: tuple[MergeNotification, ...] = ()
    """Given once all of it is stored; then the result is a `StoreBatchResult`."""


class StoreBatchResult(Model):
    """What became of the hints of a `StoreBatch`."""

    gone: tuple[RunId, ...] = ()
    """The runs that have ended, or never were."""
    unsent: tuple[MergeNotification, ...] = ()
    """The hints of which nobody knows whether they came."""


class EndRun(Model):
    """Store the rest of a run and fetch what its result shows."""

    run: RunId
    batch: Batch
    state: dict[str, Json]
    """The last state, to be kept as a snapshot."""
    outputs: tuple[ContentHash, ...] = ()
    """Bodies that hold outputs: messages, or large values."""
    notifications: tuple[MergeNotification, ...] = ()
    """Given once all of it is stored."""


class EndRunResult(Model):
    """The bodies asked for: a message's text, or the value."""

    outputs: dict[ContentHash, Json] = Field(default_factory=dict[ContentHash, Json])
    artifacts: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The crew's artifacts, as `crewlog.wire.ArtifactResult` spells them."""


class Chunk(Model):
    """What a model has written of a reply that is not done: details of its call's heartbeats."""

    step: StepId
    call: int
    """The call's number in the step."""
    agent: AgentName
    attempt: int = 1
    """The activity's attempt: another one begins anew."""
    offset: int = 0
    """Where in the reply `text` begins, in characters: what came before was told before."""
    text: str = ""
    """The end of what is written."""


class PrepareChange(Model):
    """Make the definition and the plan that a change leads to; nothing is changed yet."""

    run: RunId
    base: ContentHash
    """The definition that the run has."""
    command: str = ""
    """The command that asks for it. Where the graph falls apart the ids of its parts are made of
    it; empty: it stays one run however many graphs there are."""
    recipe: bool = False
    """Whether it is the recipe that is wanted: `base`, the definition that the run was started
    with, or `definition`, where that says how the recipe is written by now."""
    definition: str | dict[str, Json] | None = None
    """A registered crew's name, or a definition."""
    operations: tuple[dict[str, Json], ...] = ()
    """`crewlog.definition.operations`, as JSON."""
    prompt: str = ""
    registry: str = ""
    reader: Literal["auto", "forms", "model"] = "auto"
    model: str = ""
    replies: tuple[PromptReply, ...] = ()
    """What a model that reads the prompt answered before."""
    permissions: dict[str, tuple[AgentName, ...]] = Field(
        default_factory=dict[str, tuple[AgentName, ...]]
    )
    """Of a prompt: who may call the tools of which people have said so while the run lived."""
    basis: ContentHash = ContentHash("")
    """Of a prompt: the definition that was changed while the run lived; what comes of the prompt
    gets the same changes. Empty where it was not changed."""
    against: ContentHash = ContentHash("")
    """The definition in force, whose authority is compared with; by default `base`."""
    after: int | None = None
    """Of a run that goes on with its recipe after it had ended: the last position of its journal.
    Set, it claims the creatures that come home."""


class PreparedSplitRun(Model):
    """A part of a graph that fell apart: another run has it."""

    run: RunId
    """The run."""
    definition: dict[str, Json]
    """The crew that lives there, as canonical JSON."""
    topology: Component
    """Its creatures and channels."""
    contents: SplitContents
    """What goes with it."""


class PrepareChangeResult(Model):
    """What a change leads to."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition that it is a change of; empty where it stands for itself."""
    basis: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a prompt: the crew that it says, without what was changed while the run lived, where that
    is another one."""
    what: str = ""
    """What changes, in a line, for people."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Of a prompt: what there is to know about it."""
    reply: PromptReply | None = None
    """What a model answered that reads the prompt."""
    again: bool = False
    """Whether the model must be asked once more; then there is no definition yet."""
    refused: str = ""
    """Of a prompt that a model read: all faults, where the change makes no crew. The result, and no
    failure, has them, since a failure has no usage."""
    usage: Usage = Usage()
    widens: tuple[str, ...] | None = None
    """By what it gives somebody more than the definition in force; none where nobody has looked."""
    compared: ContentHash = ContentHash("")
    """The definition that was in force when somebody looked."""
    split_runs: tuple[PreparedSplitRun, ...] = ()
    """Where the graph falls apart: those that other runs have from then on. What the run itself
    keeps is `definition`."""
    warnings: tuple[str, ...] = ()
    """What whoever changes may not have meant, as `SwapReport` has it."""
    claimed: dict[AgentName, ClaimedAgent] = Field(default_factory=dict[AgentName, ClaimedAgent])
    """Creatures that come home, as `RunReopened` has them: they are claimed."""


class ReadOtherRun(Model):
    """Load the last stored state of another run, for one that is to be one graph with it."""

    run: RunId
    """The run that looks."""
    definition: ContentHash
    """The definition that it has."""
    other: RunId
    """Whom to look at."""
    merge: str
    """The merge."""
    sure: bool = True
    """Whether it is there for certain; else the server is asked whether it has ended."""
    recall: bool = False
    """Whether its journal is searched for the merge's outcome."""


class ReadOtherRunResult(Model):
    """What the store has of another run."""

    merge: str
    """The merge."""
    state: dict[str, Json] | None = None
    """Of its last `CrewState` what the merge needs, see
    `crewlog.state.run_merge.protocol.glimpse`; none: nothing of it is stored."""
    gone: bool = False
    """Whether it was ended from outside, or never was: the store takes nothing more of it."""
    recalled: bool = False
    """Whether the state tells of the merge as the journal does."""
    at: int = 0
    """When it was looked at, in milliseconds since the epoch."""


class PrepareMerge(Model):
    """Make the definition and the plan of two runs that become one; nothing is changed yet."""

    run: RunId
    """The run that stays."""
    base: ContentHash
    """The definition that it has."""
    other: RunId
    """The run that joins."""
    position: int = 0
    """The position of its last state, at which it rests; 0: the last one that is stored."""
    operation: dict[str, Json]
    """The `connect` or `wire` that is to tie the two, by the names of each."""
    asks: RunId
    """The run of its sender, or of the agent that is wired."""
    artifacts: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The heads of the artifacts' logs that the run which stays has, all of them stored."""
    removed: tuple[str, ...] = ()
    """The agents that the run had which stays, or with `decide` the one that asks, and that were
    removed there."""
    decide: bool = False
    """Whether either may be the one that stays, as comes out: then it is told what would be."""
    merged: tuple[str, ...] = ()
    """The merges by which others became part of the run, by its own journal: what is stored of
    those may not say it yet."""


class PrepareMergeResult(Model):
    """Two runs as one."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition of the run that stays, of which it is a change."""
    merged_run: RunId = RunId("")
    """The run that joins."""
    position: int = 0
    """The position of its last state."""
    adds_budgets: bool = False
    """Whether what each has left of quotas and budgets is put together: both bound the same by the
    same, and come of one run by splits alone, which have divided it."""
    state: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What is taken over of that; see `crewlog.state.run_merge.surviving_state`."""
    change: ComponentChange = ComponentChange()
    """What becomes of the graphs, with what is called otherwise."""
    agents: tuple[AgentName, ...] = ()
    """The creatures that come, as they are called now."""
    nodes: dict[NodeName, NodeName] = Field(default_factory=dict[NodeName, NodeName])
    """Where they hear from now on, by where they did."""
    new_nodes: tuple[NodeName, ...] = ()
    """Those of these nodes that the run that stays did not know."""
    quotas: dict[str, str] = Field(default_factory=dict[str, str])
    """The keys of quotas that are called otherwise."""
    artifact_heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """Of artifacts that both have: the head that the other one's log goes on from, or has, too."""
    what: str = ""
    """What changes, in a line, for people."""
    widens: tuple[str, ...] | None = None
    """By what it gives somebody more than the definition in force; none where nobody has looked."""
    warnings: tuple[str, ...] = ()
    """Where it is only asked for: what whoever asks may not have meant, as `SwapReport` has it."""
    refused: str = ""
    """Why the two cannot be one; empty: they can."""
    remedy: str = ""


class RestoreState(Model):
    """Load the state of a run at a checkpoint, with the plan that it had there."""

    run: RunId
    """Whose: for a fork another run than the one that asks."""
    position: int = 0
    """The checkpoint."""
    reopen: bool = False
    """Whether the run has ended and goes on: then its state is wanted right before what ended
    it."""
    recipe: bool = False
    """With `reopen`: whether it goes on with its recipe, to which creatures may come back."""
    split_after: int | None = None
    """Set where the run that asks was parted from it: its journal says so above this position."""
    executions: tuple[str, ...] = ()
    """With `reopen`: the executions that have ended, whose activities may be storing still: that is
    refused from here on."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet, of the run that asks."""
    against: ContentHash = ContentHash("")
    """The definition in force, whose authority the state's is compared with; by default the last
    one of the run that is loaded."""
    use: SignedStart | None = None
    """The start of the run that asks, which goes on from what is loaded; none for a rollback."""


class RestoreStateResult(Model):
    """A run at a checkpoint."""

    position: int
    """The position that the state is of: the checkpoint's, with the routing that belongs to it."""
    state: dict[str, Json]
    """The `CrewState`."""
    definition: dict[str, Json]
    """The definition that it had there."""
    plan: dict[str, Json]
    """The `GraphPlan` that it had there."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes."""
    last: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a run that goes on after its end: the `CrewState` at the end of its journal."""
    decision: str = ""
    """Of such a run: the step of the decision that ended it."""
    widens: tuple[str, ...] | None = None
    """By what the definition that it had there gives somebody more than the one in force does; none
    where nobody has looked."""
    policy: Policy | None = None
    """The policy in force of the run that is loaded, whatever it was at the checkpoint."""
    compared: ContentHash = ContentHash("")
    """The definition in force that it was compared with: `RestoreState.against`."""
    split: str = ""
    """Of a part of another run: the command that parted them."""
    by: str = ""
    """Of the same: who gave it."""
    former_logs: dict[LogName, LogHead] = Field(default_factory=dict[LogName, LogHead])
    """Of a run that goes on with its recipe: the logs of those who left it for runs of their own,
    as they were then."""
    begins: bool = True
    """Whether the policy lets the start in."""
    older: tuple[dict[str, Json], ...] = ()
    """The definitions of steps whose nodes a change took away: the history must have them, to
    rebuild a fork from that alone."""


class FindCommand(Model):
    """Look in the journal for the outcome of a command that the state does not remember."""

    run: RunId
    command: str
    """The command's id."""


class FindCommandResult(Model):
    """What the stored journal says of a command."""

    outcome: CommandOutcome | None = None
    """Its outcome; none where it has none."""


class RecordUse(Model):
    """Note for good that a start or a command is used, also where its run is deleted."""

    used: str
    """What is used: a hash of what was signed, or encrypted."""
    owner: str
    """The execution that uses it: Temporal's run id."""


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


class DeleteReplacedRun(Model):
    """Remove the rows of an ended run whose id another one has, which has recorded nothing yet."""

    run: RunId
    executions: tuple[str, ...] = ()
    """The executions of the ended run that may still store something: it is refused."""
    start: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What the other run is started with, as it was sent: the ended run's policy must let its
    sender do that."""
    at: int = 0
    """When it was started, in milliseconds since 1970."""
    use: SignedStart | None = None
    """The start: where it is signed, it replaces a signed run once."""


def addressed_items(key: str, value: Json, tag: str) -> list[OutputValue]:
    """The items of a value, each as a value of its own; a value that is no list is its one item.

    Args:
        key: The output.
        value: Its value.
        tag: The key of an item that names whom it is for.
    """
    items: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return [_item(key, item, tag) for item in items]


def _item(key: str, item: Json, tag: str) -> OutputValue:
    named: Json = item.get(tag) if isinstance(item, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    said = named if isinstance(named, list) else [named]  # pyright: ignore[reportUnknownVariableType]
    whom = tuple(each for each in said if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
    if len(canonical(item)) <= INLINE_BYTES:
        return OutputValue(key=key, value=item, recipients=whom)
    return OutputValue(key=key, body=hash_json(item), content=item, recipients=whom)
