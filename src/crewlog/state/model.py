"""`CrewState`: everything a run is, at one journal position.

The workflow owns it whole; agents get projections. It is bounded: transcripts, outputs and the
trace are held as heads or references into content-addressed logs, so that what continue-as-new
carries does not grow with what was said. `crewlog.state.fold` is the only thing that changes it.

What a state knows of what its creatures hear: which message a visit is for, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from crewlog.authority.permissions import LivePermission
from crewlog.ids import (
    AgentName,
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
from crewlog.run_status import CLOSED, EndReason, RunStatus
from crewlog.state.components import Rename
from crewlog.state.conversation import Conversation, QueuedMessage
from crewlog.state.field_policy import FieldPolicy, fields_where
from crewlog.state.item_specs import ItemSpec, ListSpec
from crewlog.usage import Usage


class LogHead(Model):
    """Where a log stands: its head names the whole transcript."""

    head: ContentHash
    """The chain's last hash."""
    length: int = 0
    """How many messages it has."""


ElementPosition = tuple[int, int]
"""Where a value stands in a list that several steps add to: the journal position, and the item's
number in a visit that has a step for each; then the position is that of its list."""


class ListElement(Model):
    """A value in a list that several steps add to."""

    value: Json = None
    """The value, where its JSON is at most 256 bytes."""
    body: ContentHash | None = None
    """The body that holds it, where it is larger, or the message that is the text."""
    position: ElementPosition
    """Where it stands."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it, as of the output; empty: `public`."""
    spec: ItemSpec | None = None
    """What a large value says of how it is worked on as an item, where a node does that."""


class Output(Model):
    """An output of an agent: its value where it is small, and the body that holds it."""

    value: Json = None
    """The value, where its JSON is at most 256 bytes: what conditions look at."""
    body: ContentHash | None = None
    """The body that holds the value, where it is larger, or the message that is the text."""
    position: int
    """The journal position that set it."""
    items: int | None = None
    """How many items the list in the body has, where a node has a step for each of them."""
    spec: ListSpec | None = None
    """What these items say of how they are worked on, where they say anything."""
    elements: tuple[ListElement, ...] = ()
    """The values in order, where what steps set makes a list."""
    logs: tuple[LogName, ...] = ()
    """The logs that its agent wrote to when it was set: who reads one of them may see it. Empty:
    `public`."""

    @property
    def bodies(self) -> tuple[ContentHash, ...]:
        """The bodies that hold it."""
        return tuple(
            h for h in (self.body, *(part.body for part in self.elements)) if h is not None
        )


class Item(Model):
    """An item of a list that a node has a step for: itself where it is small, or where it is."""

    number: int
    """Which one, from 1."""
    of: int
    """How many there are."""
    value: Json = None
    """The item, where the list is small."""
    list_body: ContentHash | None = None
    """The body that holds the list."""
    body: ContentHash | None = None
    """The body that holds the item alone."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: nobody said it, and it is not asked."""
    is_withheld: bool = False
    """Whether its agent may not see it: the activity says so, and does not look."""


class ChildStepProgress(Model):
    """The position of a visit that has a step for each item of a list."""

    of: int
    """How many items there are."""
    started: int = 0
    """Items whose steps were started; they are started in order, as there is room."""
    done: int = 0
    """Items whose steps are done."""
    position: int = 0
    """The journal position of the list: it orders what the steps set."""
    items: Json = None
    """The list, where it is small."""
    list_body: ContentHash | None = None
    """The body that holds the list, where it is not."""
    elements: tuple[ListElement, ...] = ()
    """The items by themselves, where several steps made the list."""
    goto: tuple[NodeName, ...] = ()
    """Where its steps' tools handed off to: the run goes there once all are done."""
    former_steps: tuple[StepId, ...] = ()
    """The names that the visit had before, where the run went back to it."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see the list, as of the output."""
    agents: tuple[AgentName, ...] = ()
    """The agents that take the items' steps, where these name them; empty: the node's."""
    owners: tuple[int, ...] = ()
    """By item: which of them, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the items that it waits for, see `crewlog.state.item_specs.packed`; empty: none
    waits for another."""
    unstarted: tuple[int, ...] = ()
    """Where items wait for others: those that are not started."""
    failed: int = 0
    """Items whose steps failed, though the run goes on without them."""
    skipped: int = 0
    """Items whose steps were skipped."""

    def agent(self, number: int) -> AgentName | None:
        """The agent of an item's step, where items have agents of their own."""
        return self.agents[self.owners[number - 1]] if self.owners else None

    def item(self, number: int) -> Item:
        """The item of that number."""
        if self.elements:
            part = self.elements[number - 1]
            return Item(number=number, of=self.of, value=part.value, body=part.body, logs=part.logs)
        if self.list_body is not None:
            return Item(number=number, of=self.of, list_body=self.list_body, logs=self.logs)
        return Item(number=number, of=self.of, value=self.items[number - 1], logs=self.logs)


class CallDelay(Model):
    """What a call took before the attempt that answered."""

    attempts: int = 1
    """How many attempts there were, the one that answered included."""
    retries_ms: int = 0
    """The failed attempts, with the waits between them."""
    queue_ms: int = 0
    """How long the last attempt waited for a worker."""


class Call(Model):
    """A call of a turn that is not applied yet."""

    call: int
    """Its number in the step, from 1."""
    tool: str | None = None
    """The tool; none for a model call."""
    id: str = ""
    """The model's own id of the tool call."""
    message: ContentHash | None = None
    """The AI message that asked for it: the arguments are there."""
    excerpt: str = ""
    """The start of the arguments, for people."""
    status: Literal["ready", "interrupted", "buffered"] = "ready"
    """`ready`: to be made, or in flight; `interrupted`: waits for people; `buffered`: its result
    waits for earlier calls."""
    completion: Json = None
    """The answer of a held call, as the journal entry to be."""
    attempt: int = 1
    """Which try: people may have asked for another."""
    approved: str = ""
    """The interrupt by which people approved it, where its tool needs that."""
    quotas: tuple[str, ...] = ()
    """The quotas per run that it is counted in, by key."""
    arguments: ContentHash | None = None
    """The digest of the arguments that people are asked about, or have approved."""
    edited: bool = False
    """Whether these are others than the message's: people edited them, and the store has them."""
    approver: str = ""
    """Who approved it."""
    deadline: int = 0
    """Until when the approval holds, in milliseconds since the epoch; 0: no limit."""
    binding: str = ""
    """What the approval is bound to, see `crewlog.authority.bindings`."""


class ListedCallResult(Model):
    """What became of a call of an agent without a model."""

    id: str
    """The call's id: which of the calls that its definition names."""
    tool: str
    """The tool."""
    ok: bool = True
    """Whether it did what it is there for."""
    text: str = ""
    """The start of what it said."""


class Draft(Model):
    """What a turn ends with that may make no more model calls: a message with a text alone."""

    body: ContentHash
    """The message."""
    inline: Json = None
    """The message itself, where the store was away."""


class Turn(Model):
    """The position inside a running turn."""

    calls: tuple[Call, ...] = ()
    """What is not applied yet, in call order."""
    next_call: int = 1
    """The number of the next call."""
    model_calls: int = 0
    """Model calls so far."""
    expected: int = 0
    """Tool calls of the current batch."""
    returned: int = 0
    """Those of them that are applied."""
    start_position: int = 0
    """The journal position at which it began."""
    goto: tuple[NodeName, ...] = ()
    """Where a tool handed off to: the turn ends after this batch, and the run goes there."""
    confidence: float | None = None
    """How sure its agent said it is, in this turn, where that is asked for."""
    refused: int = 0
    """Final messages in a row that could not be used."""
    cut: int = 0
    """Replies in a row that the limit of output cut."""
    refusal: str = ""
    """The start of what its model said last, where it refused to answer; for people alone."""
    faults: tuple[str, ...] = ()
    """What was wrong with each of these, in short: whoever is asked once no try is left is told."""
    draft: Draft | None = None
    """The text of the last good reply that has one, where the turn may end at its agent's
    `max_calls`."""
    results: tuple[ListedCallResult, ...] = ()
    """What became of its calls so far, where its agent has no model."""
    unresolved: tuple[int, ...] = ()
    """Calls whose operations others came before: the next model call says which of them apply."""

    def with_renamed_entries(self, named: Callable[[Mapping[str, Json]], dict[str, Json]]) -> Turn:
        """The turn, where what its calls hold for later is called otherwise.

        Args:
            named: An entry to be, as JSON, by its names of now.
        """
        calls = tuple(
            call
            if call.completion is None
            else call.model_copy(update={"completion": [named(fact) for fact in call.completion]})
            for call in self.calls
        )
        return self.model_copy(update={"calls": calls})


class WakingMessage(Model):
    """The message that a visit is for."""

    log: LogName
    """The log that it was said in."""
    body: ContentHash
    """The message's hash."""
    by: str = ""
    """Who said it."""
    more: int = 0
    """Messages that came when as many visits waited as may: this one is for them, too."""


class Idle(Model):
    """Nothing is to do: the run waits for the next message."""

    deadline: int = 0
    """Until when, in milliseconds since the epoch; 0: for ever."""
    position: int = 0
    """The journal position since which it rests."""


class FrontierStep(Model):
    """A step that is not done: ready, running, waiting or queued."""

    step: StepId
    """Its id."""
    node: NodeName
    """The node of the plan."""
    parent: StepId | None = None
    """The parent step of a child step; none of any other."""
    item: int = 0
    """The number of the item that a child step is for, from 1; 0 of any other."""
    status: Literal["ready", "running", "waiting", "interrupted", "queued"] = "ready"
    """`waiting` for its condition, `asking` people, `queued` behind an earlier visit."""
    since: int = 0
    """The journal position of the last change of status."""
    reached: int = 0
    """The journal position at which its node was reached, and no earlier visit stood before it."""
    requirement: str = ""
    """What a waiting step waits for, as a condition's text."""
    turn: Turn | None = None
    """The position inside its turn, once it runs."""
    child_steps: ChildStepProgress | None = None
    """The position of its items' steps, where it has a step for each item of a list."""
    deadline: int = 0
    """When the timer is over that it waits for, or that limits the time of a started step, in
    milliseconds since the epoch; 0: none."""
    is_detached: bool = False
    """Whether a change took its node away: its turn goes on to its end, and nothing follows."""
    definition: ContentHash = ContentHash("")
    """The definition whose node it visits, where a change took that away; else the run's own."""
    redirect: NodeName | None = None
    """Where people sent the run, once this is done, instead of what follows it."""
    waking_message: WakingMessage | None = None
    """The message that it is for, where its agent heard one."""

    @property
    def parent_or_self(self) -> StepId:
        """The parent step of a child step; any other step itself."""
        return self.parent or self.step


class PromptDiagnostic(Model):
    """Something to know about a prompt: what was not understood, or what was assumed."""

    code: str
    """What kind of thing it is: see `crewlog.prompt.faults.Code`."""
    severity: Literal["error", "warning"] = "warning"
    """With an error there is no crew that may run."""
    message: str
    remedy: str = ""
    line: int = 0
    """From 1; 0 where it is about no place."""
    column: int = 0
    """From 1."""

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}  " if self.line else ""
        return f"{place}{self.message}" + (f"\n    {self.remedy}" if self.remedy else "")


class NoReading(Model):
    """A model's reply to a prompt that is no reading, since it did not end well."""

    ending: Literal["cut", "refused", "withheld", "empty", "unknown"]
    """How it ended."""


PromptReply = str | NoReading
"""A model's reply to a prompt: the text of a reading, whether that holds or not."""


class PromptState(Model):
    """The prompt that a run was started with, and what it came to."""

    text: ContentHash
    """The body that holds the prompt."""
    registry: str = ""
    """The registry that says what it may use; empty: nothing."""
    reader: Literal["forms", "model", ""] = ""
    """Who read it, once it is compiled."""
    rounds: int = 0
    """How often a model was asked."""
    definition: ContentHash | None = None
    """The definition that people are asked about, or have approved."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """What there is to know about it."""
    requirements: tuple[str, ...] = ()
    """`audio depends on backend.models_ready`."""
    edited: bool = False
    """Whether people changed the definition."""
    approved: ContentHash | None = None
    """The definition that may run, once people have approved it."""
    approved_by: str = ""


class InterruptQuota(Model):
    """A quota over runs in which a call is to be counted that people are asked about."""

    name: str
    """Its name in the store."""
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """Whose hours and days."""
    rule: str = ""
    """The rule that says it: `rules[1]`."""


class Interrupt(Model):
    """A question to people that the run, or a step of it, waits on."""

    id: InterruptId
    """Its id in the run: `i1`, `i2`, …"""
    kind: Literal[
        "ask",
        "requirement",
        "step_failed",
        "outcome_unknown",
        "tool_approval",
        "limit",
        "manual",
        "approval",
        "low_confidence",
        "budget",
        "mcp_approval",
    ]
    """Why it is asked."""
    question: str
    """What is asked, for people."""
    step: StepId | None = None
    """The step that waits; none for the whole run."""
    call: int | None = None
    """The call of the step that waits."""
    options: tuple[str, ...] = ("approve", "reject")
    """Answers to choose from; see `approval` and `refusal`."""
    detail: str = ""
    """The error or the requirement in full."""
    flag: FlagName | None = None
    """The flag that the answer sets."""
    takes_text: bool = False
    """Whether other words than the options are an answer too."""
    text_option: str = ""
    """The option that such words mean: its agent is told them. Empty: the answer is the words."""
    hash: ContentHash | None = None
    """The definition that is to be approved: the answer is about it and no other."""
    position: int = 0
    """The journal position that raised it."""
    tool: str = ""
    """The tool that is to be called, where people are asked for that."""
    args: Json = None
    """The arguments of that call, long texts in them shortened."""
    message: ContentHash | None = None
    """The AI message that asks for the call, with all of its arguments: what is approved."""
    arguments: ContentHash | None = None
    """The digest of all of these arguments."""
    call_id: str = ""
    """The call's id in that message, where the run does not have the arguments any more: whoever
    shows the question looks them up there."""
    deadline: int = 0
    """When it expires, in milliseconds since the epoch; 0: never."""
    to: tuple[str, ...] = ()
    """Who may answer; nobody named: whoever may answer at all."""
    escalated: bool = False
    """Whether nobody answered in time, and it was handed to `to`."""
    budget: Literal["tokens", "cost", "wall", "price", ""] = ""
    """Which budget is used up, where people are asked for more; `price`: that of cost cannot be
    counted."""
    more: float = 0
    """How much more `go on` allows: tokens, US dollars, or seconds."""
    reason: str = ""
    """Of a call: why people are asked about it, with what the rule says of that."""
    rule: str = ""
    """What decided that: `rules[1]`, `approvals`, `ruling`, `parent`, `interrupts.approve_risk`."""
    risk: Literal["high", ""] = ""
    """Of a call: what its tool may do; empty: nothing out of the way."""
    quotas: tuple[InterruptQuota, ...] = ()
    """Of a call: where it is counted before it begins; whether that is used up the store knows."""
    shows: ContentHash | None = None
    """The body that holds what people are shown with it, where that is large."""
    limit_reached: EndReason = ""
    """The bound that people are asked about: why the run ends, where their answer stops it."""

    @property
    def approval(self) -> str:
        """What `approve` means: the option of that name, else the first."""
        return "approve" if "approve" in self.options else self.options[0]

    @property
    def refusal(self) -> str:
        """What `reject` means: the option of that name, else the last."""
        return "reject" if "reject" in self.options else self.options[-1]


class InterruptAnswer(Model):
    """How a question was answered, in short; the journal has all of it."""

    decision: str
    """The option, or the start of the words."""
    by: str = ""
    """Who; empty: nobody named, or where nobody answered in time."""
    expired: bool = False
    """Whether nobody answered in time, and the crew's policy did."""
    at: int = 0
    """When, in milliseconds since the epoch."""


class Routing(Model):
    """Who is done and who has arrived where: what LangGraph's routers read."""

    completed: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """Completed visits by node."""
    arrivals: dict[NodeName, dict[NodeName, int]] = Field(
        default_factory=dict[NodeName, dict[NodeName, int]]
    )
    """Arrivals at a join, by join and source, since its generation began; below zero where the
    generation before still owes some."""
    completed_before: dict[NodeName, tuple[NodeName, ...]] = Field(
        default_factory=dict[NodeName, tuple[NodeName, ...]]
    )
    """Sources that count as done at a join since a decision went back behind it."""
    loops: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often a decision went where it goes, since it was last reset."""
    fired: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often a join had fired when a change of the graph made it another one: what arrives
    makes it fire only beyond that."""
    sent: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """How often a node was reached without its join, since the join's generation began."""


class StatusReason(Model):
    """Where and why the run stands still, and what was running."""

    reason: str = ""
    """Who asked for it and why."""
    by: str = ""
    """The principal."""
    position: int = 0
    """The journal position since which it stands."""
    end_reason: EndReason = "stopped"
    """Of a run that is stopping: why it ends."""


class PendingChange(Model):
    """A change of the graph that was accepted: the run drains, and goes on with the new graph."""

    command: str
    """The command that asked for it."""
    graph_version: int
    """The version that the new graph will have."""
    definition: ContentHash
    """The definition of the new graph."""
    what: str = ""
    """What changes, in a line."""
    by: str = ""
    """Who asked for it."""
    position: int = 0
    """The journal position that accepted it."""
    abandon: bool = False
    """Whether steps whose nodes go are cut off in mid-turn; else their turns go on to the end."""
    nodes: tuple[NodeName, ...] = ()
    """Of a split: the nodes that another run has from then on. They alone wait for it."""
    basis: ContentHash = ContentHash("")
    """The basis of the new definition; see `CrewState.basis`."""

    def drains(self, node: NodeName) -> bool:
        """Whether nothing starts at a node until the change is there."""
        return not self.nodes or node in self.nodes


class ChangeRecord(Model):
    """A change that was made to a run while it lived."""

    position: int
    """The journal position that made it."""
    at: int = 0
    """When, in milliseconds since the epoch."""
    by: str = ""
    """Who made it."""
    what: str
    """What was changed, in a line."""
    graph_version: int
    """The graph's version since."""
    definition: ContentHash
    """The definition since."""
    number: int
    """Which of the run's changes it is, from 1."""
    reason: str = ""
    """Of who may call what: why people said so."""


class SourceRun(Model):
    """The run that a run was forked from."""

    run: RunId
    position: int
    """The journal position up to which they are the same."""
    checkpoint: int = 0
    """The checkpoint that it was forked from, as it was asked for; 0 where nobody said it."""
    split: str = ""
    """The command that parted it from that run; empty where it is a fork."""


MergeStatus = Literal["requested", "draining", "surviving", "offered"]
"""Where a run is in a merge: it has asked for it; it lands what is under way, to become part of the
other run; it takes the other one in; it waits for the other's word on what it has offered."""


class PendingMerge(Model):
    """A merge with another run that is under way; see `crewlog.state.run_merge.protocol`."""

    merge: str
    """The merge's id, the same in both runs; see `crewlog.ids.merge_id`."""
    other: RunId
    """The other run."""
    status: MergeStatus
    at: int = 0
    """When the stage began, in milliseconds since the epoch."""
    deadline: int = 0
    """Until when it may last, in milliseconds since the epoch; 0: for ever."""
    operation: Json = None
    """The operation that asked for it."""
    agents: int = 0
    """Of the run that asked: how many creatures it had then."""
    has_flow: bool = False
    """Of the run that asked: whether it has a flow."""
    priority: tuple[int, RunId]
    """When it was asked for, and by which run: of two requests, the smaller one goes first."""
    position: int
    """The journal position at which this run came into it."""
    other_position: int = 0
    """The position at which the other run did; 0: it is not known to have."""
    other_started_at: int = 0
    """When the other run was started, in milliseconds since the epoch: one that has its id later
    is another one."""
    by: str = ""
    """Who asked for it."""

    @property
    def is_draining(self) -> bool:
        """Whether nothing new may start meanwhile."""
        return self.status in ("draining", "offered")


class MergeOutcome(Model):
    """How a merge ended for a run."""

    outcome: Literal["merged", "failed"]
    other: RunId
    """The other run."""
    position: int
    """The journal position that says so; of the run that was taken in, that of the other run."""
    start_position: int = 0
    """The journal position at which the run came into it; 0: it never did."""
    reason: str = ""
    """Why it failed, with what to do about it; its start, the journal has all of it."""
    renames: tuple[Rename, ...] = ()
    """Of the run that was taken in: what of it is called otherwise in the other one."""


class CommandOutcome(Model):
    """The one recorded outcome of a command."""

    ok: bool = True
    """Whether it was applied."""
    position: int = 0
    """The journal position of its fact."""
    detail: str = ""
    """Why not, where it was not, in short: the whole reason is in the journal, at `position`."""
    error_type: str = ""
    """The kind of refusal, where it is one of its own: `ChangeConflict`."""
    graph_version: int = 0
    """Of a change that another graph comes of: the version of that; else 0."""
    hash: str = ""
    """The digest of what the command said; another command of its id has another one. Empty where
    nobody kept it: then whatever has its id is a repetition."""

    def is_duplicate(self, digest: str) -> bool:
        """Whether a command of the same id, with this digest, is this one once more."""
        return not self.hash or not digest or self.hash == digest


class StepError(Model):
    """Why a step failed, where the run went on without it."""

    step: StepId
    agent: AgentName
    error: str
    """Its start; the journal has all of it."""
    position: int
    """The journal position that says so."""


class CrewState(Model):
    """The state of a run at a journal position."""

    run: Annotated[
        RunId,
        FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="transferred"),
    ]
    """The run."""
    crew: Annotated[
        CrewName,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("run",)
        ),
    ] = CrewName("")
    """The crew's name."""
    definition: Annotated[
        ContentHash,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("graph",)
        ),
    ] = ContentHash("")
    """The definition's content hash."""
    graph_version: Annotated[
        int,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = 1
    """Which plan of the run, from 1."""
    execution: Annotated[
        int,
        FieldPolicy(
            rollback="never restored", fork="reset", split="reset", merge="dropped", diff=("run",)
        ),
    ] = 1
    """Which execution of the chain, from 1."""
    position: Annotated[
        int,
        FieldPolicy(rollback="never restored", fork="copied", split="copied", merge="transferred"),
    ] = 0
    """The journal position: entries applied so far."""
    started_at: Annotated[
        int,
        FieldPolicy(rollback="never restored", fork="reset", split="copied", merge="transferred"),
    ] = 0
    """When the run started, in milliseconds since the epoch."""
    status: Annotated[
        RunStatus,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("run",)
        ),
    ] = "running"
    """What the run is doing as a whole."""
    messages: Annotated[
        dict[LogName, LogHead],
        FieldPolicy(
            rollback="computed",
            fork="copied",
            split="computed",
            merge="transferred",
            diff=("messages",),
        ),
    ] = Field(default_factory=dict[LogName, LogHead])
    """The logs by name, as heads."""
    agent_outputs: Annotated[
        dict[AgentName, dict[str, Output]],
        FieldPolicy(
            rollback="restored",
            fork="copied",
            split="copied",
            merge="transferred",
            diff=("outputs",),
        ),
    ] = Field(default_factory=dict[AgentName, dict[str, Output]])
    """Outputs by agent and key; `text` is the final message of the last turn."""
    flags: Annotated[
        dict[FlagName, Json],
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="transferred", diff=("flags",)
        ),
    ] = Field(default_factory=dict[FlagName, Json])
    """Flags."""
    flag_positions: Annotated[
        dict[FlagName, tuple[ElementPosition, ...]],
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="transferred"),
    ] = Field(default_factory=dict[FlagName, tuple[ElementPosition, ...]])
    """Where each value stands in the list of a flag that steps add to."""
    tool_permissions: Annotated[
        dict[str, tuple[AgentName, ...] | None],
        FieldPolicy(
            rollback="restored",
            fork="copied",
            split="copied",
            merge="transferred",
            diff=("permissions",),
        ),
    ] = Field(default_factory=dict[str, tuple[AgentName, ...] | None])
    """Who may call a tool: null inherits, an empty list means nobody."""
    live_permissions: Annotated[
        dict[str, dict[str, LivePermission]],
        FieldPolicy(
            rollback="kept", fork="copied", split="copied", merge="transferred", diff=("rulings",)
        ),
    ] = Field(default_factory=dict[str, dict[str, LivePermission]])
    """What people ruled while the run lived, by tool and agent, `*` for every agent: it counts in
    the place of what the definition says."""
    quotas: Annotated[
        dict[str, int],
        FieldPolicy(
            rollback="kept", fork="reset", split="computed", merge="transferred", diff=("quotas",)
        ),
    ] = Field(default_factory=dict[str, int])
    """How many calls of quotas per run are used, by the quota's key."""
    coordination_rules: Annotated[
        tuple[str, ...],
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped"),
    ] = ()
    """The crew's rules as text: its joins, conditions and decisions."""
    shared_context: Annotated[
        dict[str, Json],
        FieldPolicy(
            rollback="restored",
            fork="copied",
            split="copied",
            merge="transferred",
            diff=("shared",),
        ),
    ] = Field(default_factory=dict[str, Json])
    """Small values that every agent may read."""
    private_context: Annotated[
        dict[str, dict[str, Json]],
        FieldPolicy(
            rollback="restored",
            fork="copied",
            split="copied",
            merge="transferred",
            diff=("private",),
        ),
    ] = Field(default_factory=dict[str, dict[str, Json]])
    """Small values by audience: `agent:A` or `group:G`."""
    execution_trace: Annotated[
        LogHead,
        FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="dropped"),
    ] = LogHead(head=ContentHash(""))
    """The journal itself, as a chain: equal heads mean equal journals."""
    interrupts: Annotated[
        dict[InterruptId, Interrupt],
        FieldPolicy(
            rollback="computed",
            fork="reset",
            split="computed",
            merge="transferred",
            diff=("interrupts",),
        ),
    ] = Field(default_factory=dict[InterruptId, Interrupt])
    """The open questions."""
    status_reason: Annotated[
        StatusReason | None,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("run",)
        ),
    ] = None
    """Set while the run is paused or stopping."""
    routing: Annotated[
        Routing,
        FieldPolicy(
            rollback="restored",
            fork="copied",
            split="reset",
            merge="transferred",
            diff=(
                "done",
                "loops",
            ),
        ),
    ] = Routing()
    """What the routers read."""
    frontier: Annotated[
        dict[StepId, FrontierStep],
        FieldPolicy(
            rollback="computed",
            fork="computed",
            split="computed",
            merge="transferred",
            diff=("frontier",),
        ),
    ] = Field(default_factory=dict[StepId, FrontierStep])
    """The steps that are not done, in the order they were reached."""
    visits: Annotated[
        dict[NodeName, int],
        FieldPolicy(
            rollback="computed",
            fork="copied",
            split="computed",
            merge="transferred",
            diff=("visits",),
        ),
    ] = Field(default_factory=dict[NodeName, int])
    """Visits begun, by node; never repeated."""
    execution_count: Annotated[
        dict[NodeName, int],
        FieldPolicy(rollback="restored", fork="copied", split="reset", merge="dropped"),
    ] = Field(default_factory=dict[NodeName, int])
    """How often a route would send the run to a node, also where it may not any more; in a
    conversation, in its present turn."""
    interrupt_count: Annotated[
        int, FieldPolicy(rollback="never restored", fork="copied", split="copied", merge="dropped")
    ] = 0
    """Interrupts raised so far."""
    breakpoints: Annotated[
        tuple[NodeName, ...],
        FieldPolicy(
            rollback="restored", fork="copied", split="reset", merge="transferred", diff=("breaks",)
        ),
    ] = ()
    """Nodes before which people asked to be asked; `*` is the next step, whichever it is."""
    commands: Annotated[
        dict[str, CommandOutcome],
        FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="transferred"),
    ] = Field(default_factory=dict[str, CommandOutcome])
    """The outcome of recent commands, by id, oldest first: the newest 100, or fewer where they are
    long."""
    older_commands: Annotated[
        str,
        FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="transferred"),
    ] = ""
    """The ids of all others, as a Bloom filter; see `crewlog.state.command_outcomes`. Empty where
    there are none."""
    usage: Annotated[
        dict[AgentName, Usage],
        FieldPolicy(
            rollback="never restored",
            fork="reset",
            split="copied",
            merge="transferred",
            diff=("usage",),
        ),
    ] = Field(default_factory=dict[AgentName, Usage])
    """What each agent used."""
    steps: Annotated[
        int,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("usage",)
        ),
    ] = 0
    """Steps started."""
    step_limit_raises: Annotated[
        int, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = 0
    """How often people let the run go on past its limit of steps."""
    added_budgets: Annotated[
        dict[str, float],
        FieldPolicy(rollback="never restored", fork="reset", split="computed", merge="transferred"),
    ] = Field(default_factory=dict[str, float])
    """What people added to budgets: `tokens`, `cost`; and as `wall` until when the run may go on,
    in milliseconds since the epoch."""
    answers: Annotated[
        dict[InterruptId, InterruptAnswer],
        FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="dropped"),
    ] = Field(default_factory=dict[InterruptId, InterruptAnswer])
    """The last questions that were answered, oldest first: whoever comes too late is told who
    was first."""
    error: Annotated[
        str,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("run",)
        ),
    ] = ""
    """Why the run failed."""
    warning: Annotated[
        str, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """The last bound that the run came to, in a sentence: of a route, a loop, or an agent's calls;
    or the last bad reply that was taken as it is. In a conversation, in its present turn."""
    limit_reached: Annotated[
        EndReason, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """The last bound that it came to and did not get past; in a conversation, in this turn."""
    limit_node: Annotated[
        NodeName, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = NodeName("")
    """The node that came to it."""
    end_reason: Annotated[
        EndReason, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """Why it ended; empty while it goes on."""
    error_type: Annotated[
        str, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """The kind of failure, where it has one: `InvalidPrompt`."""
    errors: Annotated[
        tuple[StepError, ...],
        FieldPolicy(rollback="restored", fork="copied", split="reset", merge="dropped"),
    ] = ()
    """The last errors that the run went on without, oldest first."""
    prompt: Annotated[
        PromptState | None,
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped"),
    ] = None
    """What the run was started with, where that was a prompt."""
    recipe: Annotated[
        ContentHash,
        FieldPolicy(rollback="never restored", fork="computed", split="copied", merge="dropped"),
    ] = ContentHash("")
    """The definition that the run was started with; `definition` is the live one."""
    basis: Annotated[
        ContentHash, FieldPolicy(rollback="restored", fork="reset", split="copied", merge="dropped")
    ] = ContentHash("")
    """The last whole crew that the run was given, by its start, a definition or a prompt, where it
    was changed since by operations or a merge: another prompt is given the same changes. Empty
    where it was not."""
    pending_change: Annotated[
        PendingChange | None,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = None
    """The change that the run drains for."""
    rollback_floor: Annotated[
        int, FieldPolicy(rollback="never restored", fork="reset", split="reset", merge="dropped")
    ] = 0
    """The position at which creatures left for another run, or came from one, the last time: it
    does not go back beyond."""
    changes: Annotated[
        tuple[ChangeRecord, ...],
        FieldPolicy(rollback="never restored", fork="reset", split="copied", merge="dropped"),
    ] = ()
    """The last changes that were made to it, oldest first; all of them are in the journal."""
    detached_steps: Annotated[
        dict[StepId, FrontierStep],
        FieldPolicy(
            rollback="computed",
            fork="copied",
            split="computed",
            merge="transferred",
            diff=("parked",),
        ),
    ] = Field(default_factory=dict[StepId, FrontierStep])
    """Steps whose nodes a change took away: they come back when their nodes do."""
    tags: Annotated[
        dict[str, int],
        FieldPolicy(
            rollback="never restored", fork="reset", split="reset", merge="dropped", diff=("tags",)
        ),
    ] = Field(default_factory=dict[str, int])
    """Names that people gave to checkpoints, with their positions."""
    source: Annotated[
        SourceRun | None,
        FieldPolicy(rollback="never restored", fork="copied", split="copied", merge="dropped"),
    ] = None
    """What it was forked from."""
    conversation: Annotated[
        Conversation | None,
        FieldPolicy(rollback="computed", fork="computed", split="copied", merge="dropped"),
    ] = None
    """The conversation that it is."""
    exchanges: Annotated[
        int, FieldPolicy(rollback="never restored", fork="copied", split="copied", merge="dropped")
    ] = 0
    """Turns of it that have begun; never repeated."""
    message_queue: Annotated[
        tuple[QueuedMessage, ...],
        FieldPolicy(rollback="never restored", fork="reset", split="copied", merge="dropped"),
    ] = ()
    """Messages that came during a turn: each gets one of its own."""
    idle: Annotated[
        Idle | None, FieldPolicy(rollback="restored", fork="copied", split="reset", merge="dropped")
    ] = None
    """Set while nothing is to do in a run whose agents hear."""
    request: Annotated[
        ContentHash | None,
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped"),
    ] = None
    """The message of people that agents are shown as their input, where they ask for it."""
    former_names: Annotated[
        dict[LogName, tuple[LogName, ...]],
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="transferred"),
    ] = Field(default_factory=dict[LogName, tuple[LogName, ...]])
    """The names that logs had before, where their channels or agents were renamed."""
    pending_merge: Annotated[
        PendingMerge | None,
        FieldPolicy(
            rollback="never restored", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = None
    """The merge with another run that is under way."""
    merges: Annotated[
        dict[str, MergeOutcome],
        FieldPolicy(
            rollback="never restored", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = Field(default_factory=dict[str, MergeOutcome])
    """The last merges that ended, by their ids, oldest first; all of them are in the journal."""
    merged_runs: Annotated[
        dict[RunId, tuple[Rename, ...]],
        FieldPolicy(
            rollback="never restored",
            fork="reset",
            split="reset",
            merge="transferred",
            diff=("graph",),
        ),
    ] = Field(default_factory=dict[RunId, tuple[Rename, ...]])
    """The last runs that are part of this one by now, oldest first, with what of each is called
    otherwise here: what was said to one of them, and comes here, is meant as that one called it."""

    @property
    def is_conversation_idle(self) -> bool:
        """Whether it is a conversation between two turns."""
        return self.conversation is not None and self.conversation.is_idle and not self.frontier

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended."""
        return self.status in CLOSED

    @property
    def is_draining(self) -> bool:
        """Whether nothing new may start.

        What is under way lands first, and then the run has another graph, or is part of another.
        Where some leave for another run, only they are still: `PendingChange.halts`.
        """
        drains = self.pending_change is not None and not self.pending_change.nodes
        return drains or (self.pending_merge is not None and self.pending_merge.is_draining)

    @property
    def detached_turns(self) -> tuple[StepId, ...]:
        """The steps that end here, as their nodes are gone; see `FrontierStep.leaving`."""
        return tuple(step for step, entry in self.frontier.items() if entry.is_detached)

    @property
    def surviving_run(self) -> RunId | None:
        """The run that this one is part of now; none where it is one of its own."""
        return self._run_merge.other if self._run_merge is not None else None

    @property
    def surviving_run_renames(self) -> tuple[Rename, ...]:
        """What of a merged run is called otherwise in the one that it is part of now."""
        return self._run_merge.renames if self._run_merge is not None else ()

    @property
    def _run_merge(self) -> MergeOutcome | None:
        merged = [each for each in self.merges.values() if each.outcome == "merged"]
        return merged[-1] if self.status == "merged" and merged else None

    @property
    def total_usage(self) -> Usage:
        """What all agents used."""
        return sum(self.usage.values(), Usage())


NEVER_RESTORED = fields_where(CrewState, lambda policy: policy.rollback == "never restored")
"""Fields that the entries of rollback, fork and reopen do not record."""
