"""Journal entries: the run's facts in order, in the past tense, as one tagged union.

An entry has no position of its own: it is at the position where it stands, one behind the entry
before. `RunMerged` alone says its own: a run that takes in another one goes on behind both.
What an entry says is enough for `reduce`: no plan, no store and no LangGraph is needed to fold a
journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter
from typing_extensions import override

from crewlog.authority.permissions import LivePermission
from crewlog.ids import (
    AgentName,
    CommandId,
    ContentHash,
    CrewName,
    FlagName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.model import Json, Model
from crewlog.run_status import EndReason
from crewlog.state.agent_inputs import WindowResult
from crewlog.state.claim import ClaimedAgent
from crewlog.state.components import Rename
from crewlog.state.finish_reason import BadEnding
from crewlog.state.item_specs import ItemSpec, ListSpec
from crewlog.state.model import (
    Call,
    CallDelay,
    Draft,
    Interrupt,
    ListedCallResult,
    PromptDiagnostic,
)
from crewlog.state.split import RemainingBudget, SplitContents
from crewlog.usage import Usage


class MessageRef(Model):
    """A message that an entry adds to logs."""

    body: ContentHash
    """The body's hash."""
    logs: tuple[LogName, ...]
    """The logs it is appended to, in this order."""
    inline: Json = None
    """The body itself, where no activity has stored it: people's messages."""


class LogMerge(Model):
    """A log that another run brings: what both have said in it is one log from here on.

    Its head is then `joined(one, two, position)`. Its messages are those of both, by journal
    position and then by body; one that both have from before they parted is there once.
    """

    log: LogName
    one: ContentHash = ContentHash("")
    """The head that the log has in this run; empty: this run has no message in it."""
    two: ContentHash
    """The head that it has in the other run."""
    more: int = 0
    """How many messages it gets. Where it is not known how many both have, all of the other run's:
    the log's length is then too large by those."""


class Entry(Model):
    """What every entry has.

    An entry that joins logs says so in its fields `joined` and `parents`: readers of the plain JSON
    go by these names, whatever its kind is.
    """

    at: int = 0
    """When, in milliseconds since the epoch, by the workflow's clock."""
    command_hash: str = ""
    """Of a command's outcome: the digest of what the command said, by which a repetition is told
    from another command of the same id. Empty: no command led to it, or an unreadable one."""
    transaction: int = 0
    """The position of the first entry of its transaction; 0: the entry is the first one.

    Entries of one command, of one call's completion, or of the end of one step are a transaction:
    they are recorded without a gap, and no state between two of them is one to continue from.
    """

    @property
    def message(self) -> MessageRef | None:
        """The message that the entry adds, if any."""
        return None

    @property
    def log_merges(self) -> tuple[LogMerge, ...]:
        """The logs that the entry joins with those of other runs, in this order."""
        return ()

    @property
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        """The runs that these logs come from: the run goes on from them, too."""
        return ()

    def position_after(self, before: int) -> int:
        """The position at which the entry stands that comes after the one at `before`."""
        return before + 1


class RunStarted(Entry):
    """The run began."""

    kind: Literal["RunStarted"] = "RunStarted"
    run: RunId
    crew: CrewName
    definition: ContentHash
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The flags' first values."""
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """Who may call a tool."""
    coordination_rules: tuple[str, ...] = ()
    """The coordination rules as text."""
    by: str = ""
    """Who started it."""
    started_at: int = 0
    """When it was started with a prompt, in milliseconds since the epoch; 0: now."""


class PromptReceived(Entry):
    """The run was started with a prompt: it has no crew yet."""

    kind: Literal["PromptReceived"] = "PromptReceived"
    run: RunId
    prompt: ContentHash
    """The hash of the prompt, which is a body."""
    inline: str
    """The prompt itself."""
    registry: str = ""
    """The registry that says what it may use."""
    by: str = ""
    """Who started the run."""


class PromptRead(Entry):
    """A model read the prompt, well or not."""

    kind: Literal["PromptRead"] = "PromptRead"
    agent: AgentName
    """Whose usage it is: `compiler`."""
    round: int
    """How often a model was asked by then."""
    model: str = ""
    usage: Usage = Usage()
    errors: int = 0
    """What did not hold in its reading: it is asked again, at most three times."""
    ending: BadEnding = ""
    """How its reply ended, where that is why it is no reading."""


class PromptCompiled(Entry):
    """The prompt makes a crew. Nothing of it runs before people have approved it."""

    kind: Literal["PromptCompiled"] = "PromptCompiled"
    definition: ContentHash
    crew: CrewName
    reader: Literal["forms", "model"]
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    requirements: tuple[str, ...] = ()


class PromptCompileFailed(Entry):
    """The prompt makes no crew: what is wrong with it."""

    kind: Literal["PromptCompileFailed"] = "PromptCompileFailed"
    reader: Literal["forms", "model"] = "forms"
    diagnostics: tuple[PromptDiagnostic, ...]


class DefinitionEdited(Entry):
    """People changed the definition: they are asked about the new one."""

    kind: Literal["DefinitionEdited"] = "DefinitionEdited"
    definition: ContentHash
    crew: CrewName
    by: str = ""


class DefinitionApproved(Entry):
    """People approved a definition: it, and no other, runs."""

    kind: Literal["DefinitionApproved"] = "DefinitionApproved"
    definition: ContentHash
    by: str = ""


class DefinitionRejected(Entry):
    """People rejected the definition: the run ends."""

    kind: Literal["DefinitionRejected"] = "DefinitionRejected"
    definition: ContentHash
    by: str = ""
    reason: str = ""


class MessageAdded(Entry):
    """People, or the run's input, said something."""

    kind: Literal["MessageAdded"] = "MessageAdded"
    ref: MessageRef
    by: str = ""
    command: CommandId | None = None
    asks: bool = False
    """Whether agents are shown it as their input from now on."""
    step: StepId | None = None
    """The step whose agent sent it; none: people, or the run's input."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class AgentsWoken(Entry):
    """A message gives agents a visit each: those that listen where it was said."""

    kind: Literal["AgentsWoken"] = "AgentsWoken"
    log: LogName
    """Where it was said."""
    body: ContentHash
    """The message's hash."""
    by: str = ""
    """Who said it."""
    to: tuple[NodeName, ...] = ()
    """The nodes that have a visit for it."""
    also: tuple[NodeName, ...] = ()
    """Those whose last visit is for it, too: as many wait there as may."""


class IdleStarted(Entry):
    """Nothing is to do: the run waits for the next message."""

    kind: Literal["IdleStarted"] = "IdleStarted"
    deadline: int = 0
    """Until when, in milliseconds since the epoch; 0: for ever."""


class MessageQueued(Entry):
    """People said something in the middle of a turn: it waits for a turn of its own."""

    kind: Literal["MessageQueued"] = "MessageQueued"
    ref: MessageRef
    """The message, and the logs that it is added to once its turn begins."""
    command: CommandId | None = None
    """The command that said it, where it was said now."""
    by: str = ""
    requeued: str = ""
    """The command that said it, where a rollback undid its turn: it waits before all others."""


class ExchangeStarted(Entry):
    """A turn of a conversation began: with a message, which came just before or waited."""

    kind: Literal["ExchangeStarted"] = "ExchangeStarted"
    exchange: int
    """Which one, from 1."""
    message_command: str = ""
    """The command that said the message."""
    by: str = ""
    """Who said it."""
    body: ContentHash | None = None
    """The message's hash."""
    outputs: tuple[str, ...] = ()
    """The outputs, as `agent.output`, that begin anew: several steps put them together."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The flags that do, with their first values."""


class ExchangeEnded(Entry):
    """A turn of a conversation is over, with an answer: the run waits for the next message."""

    kind: Literal["ExchangeEnded"] = "ExchangeEnded"
    exchange: int
    """Which one; 0: nothing was said yet."""
    agent: AgentName | None = None
    """Who gave the answer; none where the run did."""
    response: ContentHash | None = None
    """The agent's message that is the answer."""
    ref: MessageRef | None = None
    """The run's own answer, where no agent said anything."""
    error: str = ""
    """The last error of the turn."""
    warning: str = ""
    """The last bound that the turn came to, for people."""
    end_reason: EndReason = "completed"
    """Why the turn ended, for programs: the last bound that it came to and did not get past."""
    deadline: int = 0
    """Until when the next message is waited for, in milliseconds since the epoch; 0: for ever."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class IdleDeadlineSet(Entry):
    """How long a conversation waits for its next message is counted from now on."""

    kind: Literal["IdleDeadlineSet"] = "IdleDeadlineSet"
    deadline: int
    """Until when, in milliseconds since the epoch."""


class ReachedNode(Model):
    """A node that a route reached."""

    node: NodeName
    requirement: str = ""
    """What it must wait for; empty where it is ready."""


class NodesReached(Entry):
    """A completion was applied to the graph, and these nodes follow."""

    kind: Literal["NodesReached"] = "NodesReached"
    source: NodeName | None = None
    """The node that completed; none at the start."""
    to: tuple[ReachedNode, ...] = ()
    """The nodes reached."""
    arrived: tuple[NodeName, ...] = ()
    """The joins that the source arrived at."""
    outcome: tuple[str, ...] = ("next",)
    """Where the completion goes: `next`, `end`, `fail`, or nodes."""
    because: str = ""
    """A decision's reason."""
    loop: bool = False
    """Whether a decision went where it goes: counted against `at_most`."""
    reset: dict[NodeName, tuple[NodeName, ...]] = Field(
        default_factory=dict[NodeName, tuple[NodeName, ...]]
    )
    """Joins whose generation began anew, with the sources that count as done."""
    late: dict[NodeName, dict[NodeName, int]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int]]
    )
    """Arrivals of the generation before that are still to come, by join and source."""
    loop_reset: bool = False
    """Whether people allowed the decision its visits again."""
    branched: tuple[NodeName, ...] = ()
    """The nodes that it went to by a route: how often is counted."""


class BranchTargetRefused(Entry):
    """A route does not go where the output says: that names no way of it, or is used up."""

    kind: Literal["BranchTargetRefused"] = "BranchTargetRefused"
    step: StepId
    by: str
    """The output, `agent.output`."""
    because: str
    """Why, for people."""
    goes: str
    """What happens instead: a node, `next`, `end`, `ask_human` or `fail`."""
    used_up: bool = False
    """Whether the output does name a way, which may not be taken any more."""
    tried: NodeName | None = None
    """Then: the node that it leads to; the try is counted, as a way that is taken is."""


class StepStarted(Entry):
    """A step began."""

    kind: Literal["StepStarted"] = "StepStarted"
    step: StepId
    agent: AgentName | None = None
    """The agent whose turn it is; none for decisions and questions."""
    without_model: bool = False
    """Whether that agent asks no model."""
    parent: StepId | None = None
    """The parent step of a child step; none of any other."""
    item: int = 0
    """The number of the item that a child step is for, from 1; 0 of any other."""


class ParentStepStarted(Entry):
    """A step began that has a step of its own for each item of a list."""

    kind: Literal["ParentStepStarted"] = "ParentStepStarted"
    step: StepId
    agent: AgentName
    """Whose output the list is."""
    key: str
    """Which output of it."""
    of: int
    """How many items there are."""
    agents: tuple[AgentName, ...] = ()
    """The agents that take the items' steps, where these name them."""
    owners: tuple[int, ...] = ()
    """By item: which of them, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the items that it waits for, where any does; see
    `crewlog.state.item_specs.pack_numbers`."""


class ItemsRefused(Entry):
    """A list has items that cannot be worked on: no step of them begins."""

    kind: Literal["ItemsRefused"] = "ItemsRefused"
    step: StepId
    agent: AgentName
    """Whose output the list is."""
    key: str
    """Which output of it."""
    errors: tuple[str, ...]
    """What is wrong, for people: the first of it."""


class WriteRefused(Entry):
    """A value does not fit what other steps have set; what was there stays."""

    kind: Literal["WriteRefused"] = "WriteRefused"
    key: str
    """A flag, or an output as `agent.output`."""
    reducer: str
    """How the values combine: see `Merge`."""
    step: StepId | None = None
    """The step that would have set it."""
    by: str = ""
    """Its agent."""
    kept: str = ""
    """The start of what was there, and stays."""
    refused: str = ""
    """The start of what was to be set."""
    because: str = ""
    """Why the two do not fit, for people."""

    @property
    def description(self) -> str:
        """The conflict, for people: `verdict stays ship, not wait: the two are not the same`."""
        return f"{self.key} stays {self.kept}, not {self.refused}: {self.because}"


class RequirementMet(Entry):
    """A waiting step's requirement came true, or people waived it: it is ready."""

    kind: Literal["RequirementMet"] = "RequirementMet"
    step: StepId
    waived: bool = False


class ModelCallCompleted(Entry):
    """A model call answered."""

    kind: Literal["ModelCallCompleted"] = "ModelCallCompleted"
    step: StepId
    call: int
    agent: AgentName
    ref: MessageRef
    model: str = ""
    calls: tuple[Call, ...] = ()
    """The tool calls it asked for."""
    usage: Usage = Usage()
    excerpt: str = ""
    """The start of what it said, for people."""
    append: bool = False
    """Whether a final message is added to the agent's texts, instead of taking their place."""
    refused: bool = False
    """Whether it was to be final, and cannot be used: it is no text of the agent."""
    ending: BadEnding = ""
    """How it ended, where it is no good answer."""
    draft: Draft | None = None
    """Its text, with which the turn ends where it reaches its agent's `max_calls`; none where that
    is no text to end with."""
    window: WindowResult | None = None
    """What a window left out of its prompt; none where nothing."""
    without_model: bool = False
    """Whether no model was asked: the agent has none, and its definition says what it calls."""
    delay: CallDelay | None = None
    """What the call took before the attempt that answered; none where that is little."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class StructuredOutputParsed(Entry):
    """A final message was read; its fields follow, as outputs of the agent."""

    kind: Literal["StructuredOutputParsed"] = "StructuredOutputParsed"
    step: StepId
    call: int
    """The model call that said it; of a fallback, the last one."""
    agent: AgentName
    decision: str = ""
    """The decision; empty for a schema."""
    how: Literal["json", "lenient", "fallback"] = "json"
    """`json`: exactly as asked; `lenient`: it was clear what was meant; `fallback`: no try was any
    good, and the definition says what counts."""
    attempt: int = 1
    """Which try of the turn it was."""
    excerpt: str = ""
    """What it says, for people: `next = billing`."""
    confidence: float | None = None
    """How sure the agent says that it is, where that is asked for."""


class StructuredOutputRejected(Entry):
    """A final message is not of the form that it must have, or is no good answer."""

    kind: Literal["StructuredOutputRejected"] = "StructuredOutputRejected"
    step: StepId
    call: int
    agent: AgentName
    decision: str = ""
    attempt: int
    """Which try of the turn it was, from 1."""
    of: int
    """How many there are."""
    errors: tuple[str, ...]
    """What is wrong with it, each with its place."""
    ref: MessageRef | None = None
    """What its agent is told, and asked again; none where a fallback takes its place."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class TurnLimitReached(Entry):
    """A turn reached its agent's `max_calls`, and ends with what is there."""

    kind: Literal["TurnLimitReached"] = "TurnLimitReached"
    step: StepId
    agent: AgentName
    calls: int
    """The model calls that it took."""
    ref: MessageRef | None = None
    """The text of the last good reply that had one: it is final; none where there was none."""
    append: bool = False
    """Whether it is added to the agent's texts, instead of taking their place."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class ToolCallCompleted(Entry):
    """A tool call answered, with a result or with an error that the model sees."""

    kind: Literal["ToolCallCompleted"] = "ToolCallCompleted"
    step: StepId
    call: int
    agent: AgentName
    tool: str
    ref: MessageRef
    ok: bool = True
    excerpt: str = ""
    """The start of the result or the error, for people."""
    ms: int = 0
    """How long it took where it ran, in milliseconds."""
    confidence: float | None = None
    """How sure the agent said by it that it is, where that is asked for."""
    goto: tuple[NodeName, ...] = ()
    """Nodes that it hands off to, instead of what depends on the step."""
    model_next: bool = False
    """Whether it was the last of its batch, and the model is called with the results."""
    result: ListedCallResult | None = None
    """Where its agent has no model: what the final message is to say of it."""
    delay: CallDelay | None = None
    """What the call took before the attempt that answered; none where that is little."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class CompletionBuffered(Entry):
    """A tool call answered before an earlier one of its turn; it is applied after that."""

    kind: Literal["CompletionBuffered"] = "CompletionBuffered"
    step: StepId
    call: int
    entries: tuple[dict[str, Json], ...]
    """The entries to be, in order."""


class PermissionDenied(Entry):
    """A call was refused before it was scheduled."""

    kind: Literal["PermissionDenied"] = "PermissionDenied"
    step: StepId
    call: int
    agent: AgentName
    tool: str
    reason: str
    rule: str = ""
    """What decided: `permissions`, `rules[1]`, `ruling`; empty: none of these did."""


class QuotaConsumed(Entry):
    """A call was counted in quotas per run."""

    kind: Literal["QuotaConsumed"] = "QuotaConsumed"
    step: StepId
    call: int
    quotas: tuple[str, ...]
    """By their keys."""


class QuotaReleased(Entry):
    """A call that was counted is not made: its quotas have it back."""

    kind: Literal["QuotaReleased"] = "QuotaReleased"
    step: StepId
    call: int
    quotas: tuple[str, ...]


class RunOutputSet(Entry):
    """A flag got a value."""

    kind: Literal["RunOutputSet"] = "RunOutputSet"
    flag: FlagName
    value: Json
    """No default: by `==`, 1 would equal true, and the entry as JSON would lose it."""
    by: str = ""
    """The agent, or the principal."""
    reducer: str = ""
    """How it was merged with what there was: see `Merge`. Of `union` and `update` the value is what
    comes to it, of the others what there is now."""
    append: bool = False
    """Whether it is added to the flag's list, instead of taking the place of its value."""
    step: StepId | None = None
    """For a value that is added: the step of an item, whose place in the list it takes."""


class OutputSet(Entry):
    """An agent's output got a value."""

    kind: Literal["OutputSet"] = "OutputSet"
    agent: AgentName
    key: str
    value: Json = None
    """The value, where it is small."""
    body: ContentHash | None = None
    """The body that holds it, where it is not."""
    inline: Json = None
    """The large value itself, where the store was away when it was made."""
    items: int | None = None
    """How many items a large list has, where a node has a step for each of them."""
    specs: tuple[ItemSpec, ...] = ()
    """Of a large value that is added to a list: what it says of how it is worked on as an item."""
    spec: ListSpec | None = None
    """What the items of a large list say of how they are worked on, where they say anything."""
    reducer: str = ""
    """How it was merged with what there was: see `Merge`. Of `union` and `update` the value is what
    comes to it, of the others what there is now."""
    append: bool = False
    """Whether it is added to the output's list, instead of taking the place of its value."""
    step: StepId | None = None
    """For a value that is added: the step of an item, whose place in the list it takes."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it: those that its agent writes to; empty: `public`."""


class AddressedItemUndelivered(Entry):
    """An item that is for whom it names reaches nobody: it names nobody that there is."""

    kind: Literal["AddressedItemUndelivered"] = "AddressedItemUndelivered"
    step: StepId
    agent: AgentName
    key: str
    """The output."""
    item: int
    """Which one, from 1."""
    recipients: str = ""
    """Whom it names, for people."""


class ArtifactOperationsApplied(Entry):
    """A tool's operations were added to an artifact's log; those that do not apply change nothing.

    The content is what folding the log makes of it (`crewlog.state.artifacts`).
    """

    kind: Literal["ArtifactOperationsApplied"] = "ArtifactOperationsApplied"
    step: StepId
    call: int
    agent: AgentName
    artifact: str
    ref: MessageRef
    """The body that holds the operations, and the artifact's log."""
    count: int
    """How many operations there are."""
    refused: int = 0
    """How many of them were left out, since they do not apply to what the artifact was."""
    reasons: tuple[str, ...] = ()
    """The first of them, each with its reason."""
    moved: bool = False
    """Whether the artifact had changed since the operations were tried on it: how many apply is
    known where the log is folded, and told by `ArtifactOperationsRefused` where some do not."""
    base: ContentHash = ContentHash("")
    """Of an entry that is held: the log's head when the operations were tried."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class ArtifactOperationsRefused(Entry):
    """Of operations that others came before, some did not apply."""

    kind: Literal["ArtifactOperationsRefused"] = "ArtifactOperationsRefused"
    step: StepId
    call: int
    agent: AgentName
    artifact: str
    refused: int
    """How many were left out."""
    reasons: tuple[str, ...] = ()
    """The first of them, each with its reason."""


class StepCompleted(Entry):
    """A step ended well."""

    kind: Literal["StepCompleted"] = "StepCompleted"
    step: StepId
    because: str = ""
    """For a skipped or answered step: why."""
    skipped: bool = False
    goto: tuple[NodeName, ...] = ()
    """For the step of an item: nodes that it hands off to, once all items are done."""
    used_up: bool = False
    """For a decision: whether it would go back, and may not any more."""


class StepFailed(Entry):
    """A step cannot go on; what follows is decided by the agent's `on_error`."""

    kind: Literal["StepFailed"] = "StepFailed"
    step: StepId
    call: int | None = None
    error: str
    error_type: str = ""
    agent: AgentName | None = None
    """The agent, where the run goes on without it: the error is its output `error`."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see that; empty: `public`."""
    has_stand_in: bool = False
    """Whether another node takes its place."""


class StepRetried(Entry):
    """People, or a policy, let a failed step try again from where it failed."""

    kind: Literal["StepRetried"] = "StepRetried"
    step: StepId
    call: int | None = None
    by: str = ""


class InterruptRaised(Entry):
    """The run asked people."""

    kind: Literal["InterruptRaised"] = "InterruptRaised"
    interrupt: Interrupt


class InterruptAnswered(Entry):
    """People answered."""

    kind: Literal["InterruptAnswered"] = "InterruptAnswered"
    interrupt: InterruptId
    decision: str
    """The option taken, or words."""
    by: str = ""
    command: CommandId | None = None
    reason: str = ""
    """Why, as who answered said it; of a call that was refused, its model is told."""
    arguments: ContentHash | None = None
    """Of an edited call: the digest of the arguments that run instead of the message's."""
    inline: Json = None
    """These arguments."""
    deadline: int = 0
    """Of an approved call: until when that holds, in milliseconds since the epoch; 0: no limit."""
    expired: bool = False
    """Whether nobody answered in time, and the crew's policy did."""


class InterruptDeadlineSet(Entry):
    """A question got another time to expire, since the run had ended meanwhile."""

    kind: Literal["InterruptDeadlineSet"] = "InterruptDeadlineSet"
    interrupt: InterruptId
    deadline: int = 0
    """When it expires now, in milliseconds since the epoch; 0: never."""


class BreakpointSet(Entry):
    """People asked to be asked before a node, or before the next step."""

    kind: Literal["BreakpointSet"] = "BreakpointSet"
    node: NodeName
    """A node, or `*`."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class Paused(Entry):
    """Nothing new starts; what runs finishes."""

    kind: Literal["Paused"] = "Paused"
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class RunResumed(Entry):
    """The run goes on."""

    kind: Literal["RunResumed"] = "RunResumed"
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class StopRequested(Entry):
    """The run ends with what is there."""

    kind: Literal["StopRequested"] = "StopRequested"
    by: str = ""
    reason: str = ""
    end_reason: EndReason = "stopped"
    """Why the run ends, for programs; see `RunStopped`."""
    command: CommandId | None = None


class StepCancelled(Entry):
    """A running step was ended by a stop or a cancellation."""

    kind: Literal["StepCancelled"] = "StepCancelled"
    step: StepId


class CommandRejected(Entry):
    """A command was not understood, or is not possible; nothing else changed."""

    kind: Literal["CommandRejected"] = "CommandRejected"
    name: str
    reason: str
    by: str = ""
    command: CommandId | None = None
    error_type: str = ""
    """The kind of refusal, where it is one of its own: `ChangeConflict`."""
    interrupt: str = ""
    """Of an answer: the question that it was to."""
    tried: str = ""
    """Of an answer: what it said, the start of edited arguments."""


class ExecutionContinuedAsNew(Entry):
    """The run goes on in a new execution with the state carried over."""

    kind: Literal["ExecutionContinuedAsNew"] = "ExecutionContinuedAsNew"
    execution: int
    """The new one, from 2."""
    because: str = ""


class ChangeAccepted(Entry):
    """A change of the graph was accepted: the run drains, and goes on with the new graph."""

    kind: Literal["ChangeAccepted"] = "ChangeAccepted"
    graph_version: int
    """The version that the new graph will have."""
    definition: ContentHash
    """The definition of the new graph."""
    what: str = ""
    """What changes, in a line."""
    abandon: bool = False
    """Whether steps whose nodes go are cut off in mid-turn."""
    nodes: tuple[NodeName, ...] = ()
    """Of a split: the nodes that leave for other runs, which alone wait for it."""
    basis: ContentHash = ContentHash("")
    """The crew that was changed while the run lives; empty where this is a whole one."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class ComponentEvent(Model):
    """What became of a creature or a wire."""

    event: Literal[
        "CREATURE_STARTED",
        "CREATURE_STOPPED",
        "OUTPUT_WIRE_ADDED",
        "OUTPUT_WIRE_REMOVED",
        "PARENT_LINK_CHANGED",
        "SESSION_FORKED",
        "CREATURE_SESSION_ATTACHED",
    ]
    creature: AgentName
    to: str = ""
    """Of a wire: where it leads; of a parent link: whom it works for now; of a session: the run."""


class Remap(Model):
    """What another graph does to the frontier and to the routing facts."""

    detached_turns: tuple[StepId, ...] = ()
    """Steps in mid-turn whose nodes are gone: their turns go on to the end."""
    detached: tuple[StepId, ...] = ()
    """Steps whose nodes are gone: they are kept aside."""
    reattached: tuple[StepId, ...] = ()
    """Steps that were leaving or kept aside, and whose nodes are there again."""
    retracted: tuple[StepId, ...] = ()
    """Visits that had not begun and whose joins are not met in the new graph; their numbers are
    free again."""
    reached: tuple[ReachedNode, ...] = ()
    """Nodes that the new graph makes ready."""
    requirements: dict[StepId, str] = Field(default_factory=dict[StepId, str])
    """What steps that have not begun wait for now; empty: nothing."""
    arrivals: dict[NodeName, dict[NodeName, int]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int]]
    )
    """The arrivals at joins, where they are others than before."""
    fired: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often joins have fired that are others now, or are gone."""
    completed_before: dict[NodeName, tuple[NodeName, ...]] = Field(
        default_factory=dict[NodeName, tuple[NodeName, ...]]
    )
    """The sources that count as done at joins, where they are more than before."""


class GraphReplacement(Entry):
    """The run has another graph from here on."""

    graph_version: int
    """The version of the new graph."""
    crew: CrewName
    definition: ContentHash
    remap: Remap = Remap()
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """Who may call a tool from now on: the whole matrix."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """First values of flags that are new."""
    coordination_rules: tuple[str, ...] = ()
    """The coordination rules as text."""
    basis: ContentHash = ContentHash("")
    """The crew that was changed while the run lives; empty where this is a whole one."""
    what: str = ""
    """What changed, in a line."""
    by: str = ""


class GraphSwapped(GraphReplacement):
    """The run goes on with another graph."""

    kind: Literal["GraphSwapped"] = "GraphSwapped"


class SplitRun(Model):
    """A part of a graph that is a run of its own from here on."""

    run: RunId
    """The run."""
    definition: ContentHash
    """The crew that lives there."""
    contents: SplitContents
    """What goes with it."""


class ComponentChanged(GraphReplacement):
    """Other creatures live in the graph, or they are connected otherwise; it holds at once."""

    kind: Literal["ComponentChanged"] = "ComponentChanged"
    change: Literal["merge", "split", "nothing"] = "nothing"
    """What became of the graphs."""
    old_graph_ids: tuple[RunId, ...] = ()
    """The graphs that it touched."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The graphs that came of them."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The creatures whose graph became one with another, or fell apart; else those whose
    surroundings are other ones than before."""
    events: tuple[ComponentEvent, ...] = ()
    """What became of creatures and wires."""
    split_runs: tuple[SplitRun, ...] = ()
    """Of a split: the runs that others are from here on; the state of each is what this run's was
    right before, as far as it is theirs."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """Of a split: what those who stay may use still."""
    split: str = ""
    """Of a split: the command that asked for it, whose outcome is that it was accepted."""
    reason: str = ""
    command: CommandId | None = None


class RunMerged(GraphReplacement):
    """The graph of another run became a part of this one: its creatures live here from now on.

    It holds at once. What the other run was is in it whole, so that nothing else is needed to go
    on: that run's journal ends, and this one goes on behind both.
    """

    kind: Literal["RunMerged"] = "RunMerged"
    position: int = Field(gt=0)
    """Where it stands: behind the last positions of both journals."""
    previous_position: int
    """The position of the entry before it: those in between are in no journal of this run."""
    change: Literal["merge"] = "merge"
    """What became of the graphs."""
    old_graph_ids: tuple[RunId, ...] = ()
    """The graphs that it touched."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The graph that came of them."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The creatures whose surroundings are other ones than before."""
    events: tuple[ComponentEvent, ...] = ()
    """What became of creatures and wires."""
    merged_run: RunId
    """The run that joined."""
    merge: str
    """The command that asked for it."""
    merged_state: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What that run was: the fields of its last state that are taken over."""
    renames: tuple[Rename, ...] = ()
    """What it called otherwise."""
    merged_agents: tuple[AgentName, ...] = ()
    """The creatures that come, as they are called now."""
    nodes: dict[NodeName, NodeName] = Field(default_factory=dict[NodeName, NodeName])
    """Where its creatures hear from now on, by where they did."""
    new_nodes: tuple[NodeName, ...] = ()
    """Those of these nodes whose visits are counted on from the ones that the name had here."""
    quotas: dict[str, str] = Field(default_factory=dict[str, str])
    """The keys of quotas that are called otherwise now, by those that they had there."""
    joined: tuple[LogMerge, ...] = ()
    """The logs that it brought, by the names that they have now."""
    parents: tuple[RunId, ...] = ()
    """The run that brought them."""
    remaining_budget: RemainingBudget = RemainingBudget()
    """Of runs that had parted: what both may use still."""
    reason: str = ""

    @property
    @override
    def log_merges(self) -> tuple[LogMerge, ...]:
        return self.joined

    @property
    @override
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        return self.parents

    @override
    def position_after(self, before: int) -> int:
        return self.position


class MergeRequested(Entry):
    """The run asks another one to be one graph with it."""

    kind: Literal["MergeRequested"] = "MergeRequested"
    merge: str
    """The merge's id, the same in both runs."""
    other: RunId
    """The run that is asked."""
    operation: Json = None
    """What ties them: the operation that names the other run."""
    what: str = ""
    """The same, in a line: `connect a to b over c`."""
    agents: int = 0
    """How many creatures the run has: the smaller one joins the larger."""
    has_flow: bool = False
    """Whether it has a flow: then the other one joins it."""
    deadline: int
    """Until when an answer is waited for, in milliseconds since the epoch."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class MergeAccepted(Entry):
    """The run agrees to be one graph with another one."""

    kind: Literal["MergeAccepted"] = "MergeAccepted"
    merge: str
    """The merge's id."""
    other: RunId
    """The other run."""
    status: Literal["draining", "surviving"]
    """Whether this run becomes part of the other one, or takes that in."""
    deadline: int
    """Until when it must have landed what is under way, or the other one must have offered itself,
    in milliseconds since the epoch."""
    other_position: int
    """The journal position at which the other run came into the merge."""
    other_started_at: int = 0
    """When the other run was started, in milliseconds since the epoch."""
    operation: Json = None
    """Of a run that was asked: what ties them."""
    agents: int = 0
    """Of a run that was asked: how many creatures the other one has."""
    has_flow: bool = False
    """Of a run that was asked: whether the other one has a flow."""
    requested_at: int = 0
    """Of a run that was asked: when, in milliseconds since the epoch, by the other's clock."""
    by: str = ""
    """Of a run that was asked: who asked for it."""


class MergeOffered(Entry):
    """All that was under way has landed: the other run may take this one in.

    From here on the run records nothing that changes it, before it has read the other one's word.
    """

    kind: Literal["MergeOffered"] = "MergeOffered"
    merge: str
    """The merge's id."""
    other: RunId
    """The run that may take this one in."""


class MergeFailed(Entry):
    """The run does not become one graph with another one: both go on by themselves."""

    kind: Literal["MergeFailed"] = "MergeFailed"
    merge: str
    """The merge's id. Of a request that the run refuses, it has never been in that merge."""
    other: RunId
    """The other run."""
    reason: str
    """Why, for people, with what to do about it."""


class RunEndedByMerge(Entry):
    """Another run has taken this one in: it ends, and goes on there."""

    kind: Literal["RunEndedByMerge"] = "RunEndedByMerge"
    merge: str
    """The merge's id."""
    run: RunId
    """The run that it is part of now."""
    position: int
    """The position in that run's journal that says so."""
    renames: tuple[Rename, ...] = ()
    """What of this run is called otherwise there."""


class SwapFailed(Entry):
    """The change did not come about; the run goes on with the graph that it had."""

    kind: Literal["SwapFailed"] = "SwapFailed"
    graph_version: int
    """The version that the new graph would have had."""
    error: str


class DefinitionChanged(Entry):
    """What needs no other graph was changed; it holds from the next step on."""

    kind: Literal["DefinitionChanged"] = "DefinitionChanged"
    crew: CrewName
    definition: ContentHash
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """Who may call a tool from now on: the whole matrix."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """First values of flags that are new."""
    coordination_rules: tuple[str, ...] = ()
    """The coordination rules as text."""
    events: tuple[ComponentEvent, ...] = ()
    """Creatures that are switched on or off by it."""
    basis: ContentHash = ContentHash("")
    """The crew that was changed while the run lives; empty where this is a whole one."""
    what: str = ""
    """What changed, in a line."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class ToolPermissionSet(Entry):
    """People said who may call a tool; it holds from the next call on."""

    kind: Literal["ToolPermissionSet"] = "ToolPermissionSet"
    tool: str
    agents: tuple[AgentName, ...] | None
    """Null: every agent that has it; an empty list: nobody."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class AgentPermissionSet(Entry):
    """People ruled of an agent's calls of a tool; it holds from the next call on."""

    kind: Literal["AgentPermissionSet"] = "AgentPermissionSet"
    tool: str
    agent: str
    """The agent; `*`: every one."""
    do: LivePermission | None
    """Null: what the definition says holds again."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class Edit(Model):
    """A value that people put into the state."""

    path: str
    """`flags.NAME`, `outputs.AGENT.KEY`, `shared.NAME`, or `private.AUDIENCE.NAME`."""
    value: Json = None
    """The value; of a large output the `inline` of `body`."""
    body: ContentHash | None = None
    """The body that holds a large output."""
    inline: Json = None
    """That body."""
    items: int | None = None
    """How many items a large list has, where a node has a step for each of them."""
    specs: tuple[ItemSpec, ...] = ()
    """Of a list that steps add to: what each value says of how it is worked on as an item."""
    spec: ListSpec | None = None
    """What the items of a large list say of how they are worked on, where they say anything."""
    append: bool = False
    """Whether it is a list that steps add to: `value` has its values, whatever their size."""
    delete: bool = False
    """Whether it is taken away instead."""
    logs: tuple[LogName, ...] = ()
    """Of an output: the logs whose readers may see it; empty: `public`."""


class StateEdited(Entry):
    """People changed the state."""

    kind: Literal["StateEdited"] = "StateEdited"
    edits: tuple[Edit, ...]
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class StepRedirected(Entry):
    """People sent a step elsewhere than where it was going."""

    kind: Literal["StepRedirected"] = "StepRedirected"
    step: StepId
    node: NodeName
    """Where the run goes instead of what follows the step."""
    cut: bool = False
    """Whether the step ends now; else its turn goes on to its end."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class TimerStarted(Entry):
    """A step waits for a time; or it is started, and fails at that time if it is not done."""

    kind: Literal["TimerStarted"] = "TimerStarted"
    step: StepId
    deadline: int
    """In milliseconds since the epoch."""


class TimerFired(Entry):
    """The time that a step waited for has come."""

    kind: Literal["TimerFired"] = "TimerFired"
    step: StepId


class CheckpointTagged(Entry):
    """People gave a checkpoint a name."""

    kind: Literal["CheckpointTagged"] = "CheckpointTagged"
    checkpoint: int
    """Its position."""
    tag: str
    by: str = ""
    command: CommandId | None = None


class RunRolledBack(Entry):
    """The run went back to a checkpoint. What was done since stays in the journal."""

    kind: Literal["RunRolledBack"] = "RunRolledBack"
    to: int
    """The checkpoint's position."""
    state: dict[str, Json]
    """The state from here on: the checkpoint's, with what never goes back (visits, outcomes of
    commands, usage) as it was."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class RunForked(Entry):
    """The run began as a copy of another one at a checkpoint."""

    kind: Literal["RunForked"] = "RunForked"
    run: RunId
    """This run."""
    source: RunId
    """The other one."""
    to: int
    """The position of what follows from the checkpoint; this run's journal goes on after it."""
    state: dict[str, Json]
    """The state that it begins with."""
    checkpoint: int = 0
    """The checkpoint's own position, as it was asked for; 0: it is a part, and no copy."""
    split: str = ""
    """The command that parted them, where their graph fell apart: then it is no copy."""
    by: str = ""


class LogsMerged(Entry):
    """Logs of other runs became the run's own."""

    kind: Literal["LogsMerged"] = "LogsMerged"
    joined: tuple[LogMerge, ...] = ()
    """The logs. One that several runs bring is there for each of them."""
    parents: tuple[RunId, ...] = ()
    """The runs that bring them."""

    @property
    @override
    def log_merges(self) -> tuple[LogMerge, ...]:
        return self.joined

    @property
    @override
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        return self.parents


class RunReopened(Entry):
    """A run that had ended goes on."""

    kind: Literal["RunReopened"] = "RunReopened"
    to: int
    """The position whose state it goes on with."""
    state: dict[str, Json]
    """The state that it goes on with."""
    by: str = ""
    reason: str = ""
    claimed: dict[AgentName, ClaimedAgent] = Field(default_factory=dict[AgentName, ClaimedAgent])
    """Where it goes back to its recipe: creatures that come home by that, from runs that have
    ended. Those do not go on with them any more."""


class RunCompleted(Entry):
    """The run reached its end."""

    kind: Literal["RunCompleted"] = "RunCompleted"
    exchanges: int = 0
    """Of a conversation: how many turns it had. It may be taken up again."""
    end_reason: EndReason = "completed"
    """Why, for programs: the last bound that it came to and did not get past, or `completed`."""


class RunStopped(Entry):
    """The run was ended by people."""

    kind: Literal["RunStopped"] = "RunStopped"
    because: str = ""
    end_reason: EndReason = "stopped"
    """Why, for programs: the bound that people were asked about as they ended it, or `stopped`."""


class RunFailed(Entry):
    """The run cannot go on."""

    kind: Literal["RunFailed"] = "RunFailed"
    error: str
    error_type: str = ""
    """The kind of failure, where it has one: `InvalidPrompt`."""
    end_reason: EndReason = "failed"
    """Why, for programs: the bound that it may not pass, or `failed`."""


JournalEntry = Annotated[
    RunStarted
    | PromptReceived
    | PromptRead
    | PromptCompiled
    | PromptCompileFailed
    | DefinitionEdited
    | DefinitionApproved
    | DefinitionRejected
    | MessageAdded
    | NodesReached
    | BranchTargetRefused
    | AgentsWoken
    | IdleStarted
    | MessageQueued
    | ExchangeStarted
    | ExchangeEnded
    | IdleDeadlineSet
    | StepStarted
    | ParentStepStarted
    | ItemsRefused
    | RequirementMet
    | ModelCallCompleted
    | StructuredOutputParsed
    | StructuredOutputRejected
    | TurnLimitReached
    | ToolCallCompleted
    | CompletionBuffered
    | PermissionDenied
    | QuotaConsumed
    | QuotaReleased
    | RunOutputSet
    | OutputSet
    | AddressedItemUndelivered
    | WriteRefused
    | ArtifactOperationsApplied
    | ArtifactOperationsRefused
    | StepCompleted
    | StepFailed
    | StepRetried
    | InterruptRaised
    | InterruptAnswered
    | InterruptDeadlineSet
    | BreakpointSet
    | Paused
    | RunResumed
    | StopRequested
    | StepCancelled
    | CommandRejected
    | ExecutionContinuedAsNew
    | ChangeAccepted
    | GraphSwapped
    | ComponentChanged
    | RunMerged
    | MergeRequested
    | MergeAccepted
    | MergeOffered
    | MergeFailed
    | RunEndedByMerge
    | SwapFailed
    | DefinitionChanged
    | ToolPermissionSet
    | AgentPermissionSet
    | StateEdited
    | StepRedirected
    | TimerStarted
    | TimerFired
    | CheckpointTagged
    | RunRolledBack
    | RunForked
    | LogsMerged
    | RunReopened
    | RunCompleted
    | RunStopped
    | RunFailed,
    Field(discriminator="kind"),
]
"""One fact of a run."""

_ADAPTER: TypeAdapter[JournalEntry] = TypeAdapter(JournalEntry)
_validate = _ADAPTER.validator.validate_python


def entry_to_json(entry: JournalEntry) -> dict[str, Json]:
    """An entry as plain JSON data: its kind, and what differs from the default."""
    return {"kind": entry.kind, **entry.to_json()}


def entry_from_json(data: Json) -> JournalEntry:
    """The entry that `entry_to_json` made `data` from.

    Raises:
        pydantic.ValidationError: where `data` is no entry.
    """
    entry: JournalEntry = _validate(data)
    return entry


def entry_position(entry: Mapping[str, Json], before: int) -> int:
    """The position at which an entry stands, as JSON, that comes after the one at `before`."""
    position: int = entry["position"] if entry.get("kind") == "RunMerged" else before + 1
    return position


def preceding_position(entry: Mapping[str, Json], position: int) -> int:
    """The position of what comes before an entry, as JSON, at a position."""
    before: int = entry["previous_position"] if entry.get("kind") == "RunMerged" else position - 1
    return before


def is_contiguous(entry: Mapping[str, Json], position: int, after: int) -> bool:
    """Whether no entry lacks between a position and an entry, as JSON, at a later one."""
    return preceding_position(entry, position) <= after < position


_KIND = itemgetter("kind")


class Batch(Model):
    """Consecutive journal entries on their way to the store, with where they join on.

    The chain links of the logs are not sent: they follow from the entries and the heads before.
    In activities' inputs the entries are packed, see `crewlog.state.batch_codec`.
    """

    EMPTY: ClassVar[Batch]

    first: int = 1
    """The position of the first entry."""
    at: int | None = None
    """The time of the first entry, where the entries are packed."""
    heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The logs' heads before it: those that the entries extend."""
    entries: tuple[dict[str, Json], ...] = ()
    """The entries as `entry_to_json` makes them."""

    @property
    def last(self) -> int:
        """The position of the last entry; the one before `first` where there is none."""
        positions = self.positions()
        return positions[-1] if positions else self.first - 1

    def positions(self) -> Sequence[int]:
        """The positions of the entries, in order."""
        if "RunMerged" not in map(_KIND, self.entries):
            return range(self.first, self.first + len(self.entries))
        found: list[int] = []
        at = self.first - 1
        for entry in self.entries:
            at = entry_position(entry, at)
            found.append(at)
        return found


Batch.EMPTY = Batch()
