"""`CrewState`: the state of a run at a journal position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

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
from crewlog.run_status import ENDED, EndReason, RunStatus
from crewlog.state.components import Rename
from crewlog.state.conversation import Conversation, QueuedMessage
from crewlog.state.field_policy import IN_ENTRY, FieldPolicy, Operation, fields_where
from crewlog.state.model.change import ChangeRecord, PendingChange
from crewlog.state.model.interrupt import Interrupt, InterruptAnswer
from crewlog.state.model.merge import MergeOutcome, PendingMerge
from crewlog.state.model.output import ElementPosition, Output
from crewlog.state.model.prompt import PromptState
from crewlog.state.model.run import CommandOutcome, Idle, LogHead, SourceRun, StatusReason
from crewlog.state.model.step import FrontierStep, Routing
from crewlog.usage import Usage


class CrewState(Model):
    """The state of a run at a journal position."""

    run: Annotated[
        RunId,
        FieldPolicy(rollback="kept", fork="start", split="start", merge="transferred"),
    ]
    """The id of the run."""
    crew: Annotated[
        CrewName,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("run",)
        ),
    ] = CrewName("")
    """The name of the crew."""
    definition: Annotated[
        ContentHash,
        FieldPolicy(
            rollback="restored", fork="copied", split="computed", merge="dropped", diff=("graph",)
        ),
    ] = ContentHash("")
    """The hash of the live definition."""
    graph_version: Annotated[
        int,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = 1
    """The number of the plan within the run, from 1."""
    execution: Annotated[
        int,
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped", diff=("run",)),
    ] = 1
    """The number of the present execution, from 1: continue-as-new starts the next one."""
    position: Annotated[
        int,
        FieldPolicy(rollback="kept", fork="start", split="start", merge="transferred"),
    ] = 0
    """The position of the last applied entry."""
    started_at: Annotated[
        int,
        FieldPolicy(rollback="kept", fork="entry", split="entry", merge="transferred"),
    ] = 0
    """When the run was started, in milliseconds since the epoch."""
    status: Annotated[
        RunStatus,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("run",)
        ),
    ] = "running"
    """The status of the run as a whole."""
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
    """The heads of the logs that have messages."""
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
    """The run outputs."""
    flag_positions: Annotated[
        dict[FlagName, tuple[ElementPosition, ...]],
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="transferred"),
    ] = Field(default_factory=dict[FlagName, tuple[ElementPosition, ...]])
    """The positions of the values of a run output that steps add to."""
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
    """The agents that may call a tool. Null: all that have it; an empty list: none."""
    live_permissions: Annotated[
        dict[str, dict[str, LivePermission]],
        FieldPolicy(
            rollback="kept",
            fork="copied",
            split="copied",
            merge="transferred",
            diff=("live_permissions",),
        ),
    ] = Field(default_factory=dict[str, dict[str, LivePermission]])
    """The permissions that people set on the live run, by tool and agent, `*` for every agent. They
    replace what the definition says."""
    quotas: Annotated[
        dict[str, int],
        FieldPolicy(
            rollback="kept", fork="reset", split="computed", merge="transferred", diff=("quotas",)
        ),
    ] = Field(default_factory=dict[str, int])
    """How many calls of each quota per run are used, by the quota's key."""
    coordination_rules: Annotated[
        tuple[str, ...],
        FieldPolicy(rollback="restored", fork="copied", split="computed", merge="dropped"),
    ] = ()
    """The joins, conditions and branches of the crew, as text."""
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
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped"),
    ] = LogHead(head=ContentHash(""))
    """The head of the journal, which is a chain like a log: equal heads mean equal journals. Its
    length is the position."""
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
    """The open interrupts."""
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
    """The steps that are not done, in the order in which they were reached."""
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
    """The visit number of the last step, by node; never repeated."""
    execution_count: Annotated[
        dict[NodeName, int],
        FieldPolicy(rollback="restored", fork="copied", split="reset", merge="dropped"),
    ] = Field(default_factory=dict[NodeName, int])
    """How often a branch chose each node, including the times that its limit did not allow. It does
    not count the steps of the node. Of a conversation, in the present exchange."""
    interrupt_count: Annotated[
        int, FieldPolicy(rollback="kept", fork="copied", split="copied", merge="dropped")
    ] = 0
    """The number of interrupts so far."""
    breakpoints: Annotated[
        tuple[NodeName, ...],
        FieldPolicy(
            rollback="restored", fork="copied", split="reset", merge="transferred", diff=("breaks",)
        ),
    ] = ()
    """The nodes with a breakpoint; `*` is the next step, at any node."""
    commands: Annotated[
        dict[str, CommandOutcome],
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="transferred"),
    ] = Field(default_factory=dict[str, CommandOutcome])
    """The outcomes of recent commands, by id, oldest first: the newest 100, or fewer if they are
    long."""
    older_commands: Annotated[
        str,
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="transferred"),
    ] = ""
    """The ids of all older commands, as a Bloom filter; see `crewlog.state.command_outcomes`. Empty
    if there are none."""
    usage: Annotated[
        dict[AgentName, Usage],
        FieldPolicy(
            rollback="kept",
            fork="reset",
            split="copied",
            merge="transferred",
            diff=("usage",),
        ),
    ] = Field(default_factory=dict[AgentName, Usage])
    """The tokens, calls and cost of each agent."""
    steps: Annotated[
        int,
        FieldPolicy(
            rollback="restored", fork="copied", split="copied", merge="dropped", diff=("usage",)
        ),
    ] = 0
    """The number of steps started."""
    step_limit_raises: Annotated[
        int, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = 0
    """How often people let the run continue past its limit of steps."""
    added_budgets: Annotated[
        dict[str, float],
        FieldPolicy(rollback="kept", fork="reset", split="computed", merge="transferred"),
    ] = Field(default_factory=dict[str, float])
    """`tokens` and `cost`: what people, a split or a run merge added to the budget; negative if
    less is left. `wall` is no amount: the time until which people let the run continue, in
    milliseconds since the epoch."""
    answers: Annotated[
        dict[InterruptId, InterruptAnswer],
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped"),
    ] = Field(default_factory=dict[InterruptId, InterruptAnswer])
    """The last answered interrupts, oldest first: a later answer is rejected with the name of the
    principal who was first."""
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
    """The last limit that the run reached, or the last reply that was accepted though it was not
    usable, in a sentence; of a conversation, in the present exchange."""
    limit_reached: Annotated[
        EndReason, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """The last limit that ended the calls of a turn, or the loop of a branch. Empty: none, or its
    node has made another attempt. Of a conversation, in the present exchange."""
    limit_node: Annotated[
        NodeName, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = NodeName("")
    """The node that reached that limit."""
    end_reason: Annotated[
        EndReason, FieldPolicy(rollback="computed", fork="reset", split="reset", merge="dropped")
    ] = ""
    """Why the run ended; empty while it is open."""
    error_type: Annotated[
        str, FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped")
    ] = ""
    """The type of the failure, if it has one: `InvalidPrompt`."""
    prompt: Annotated[
        PromptState | None,
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped"),
    ] = None
    """The prompt that the run was started with; none for any other start."""
    recipe: Annotated[
        ContentHash,
        FieldPolicy(rollback="kept", fork="entry", split="entry", merge="dropped"),
    ] = ContentHash("")
    """The definition that the run was started with; `definition` is the live one."""
    basis: Annotated[
        ContentHash, FieldPolicy(rollback="restored", fork="reset", split="reset", merge="dropped")
    ] = ContentHash("")
    """The last whole definition that the run was given: by its start, a definition or a prompt. Set
    only if operations or a run merge have changed the definition since. The result of a later
    prompt gets those changes again."""
    pending_change: Annotated[
        PendingChange | None,
        FieldPolicy(
            rollback="computed", fork="reset", split="reset", merge="dropped", diff=("graph",)
        ),
    ] = None
    """The change for which the run drains."""
    rollback_floor: Annotated[
        int, FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped")
    ] = 0
    """The position of the last split or run merge: a rollback cannot go behind it."""
    changes: Annotated[
        tuple[ChangeRecord, ...],
        FieldPolicy(rollback="entry", fork="reset", split="reset", merge="dropped"),
    ] = ()
    """The last changes of the live run, oldest first; the journal has all of them."""
    detached_steps: Annotated[
        dict[StepId, FrontierStep],
        FieldPolicy(
            rollback="computed",
            fork="copied",
            split="computed",
            merge="transferred",
            diff=("detached_steps",),
        ),
    ] = Field(default_factory=dict[StepId, FrontierStep])
    """Steps whose nodes a change removed: they continue when their nodes are back."""
    tags: Annotated[
        dict[str, int],
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped", diff=("tags",)),
    ] = Field(default_factory=dict[str, int])
    """The checkpoints' positions by tag."""
    source: Annotated[
        SourceRun | None,
        FieldPolicy(rollback="kept", fork="entry", split="entry", merge="dropped"),
    ] = None
    """The run that this one was forked or split from."""
    conversation: Annotated[
        Conversation | None,
        FieldPolicy(rollback="computed", fork="computed", split="copied", merge="dropped"),
    ] = None
    """The present exchange; none if the run is no conversation."""
    exchanges: Annotated[
        int, FieldPolicy(rollback="kept", fork="copied", split="copied", merge="dropped")
    ] = 0
    """The number of exchanges started; never repeated."""
    message_queue: Annotated[
        tuple[QueuedMessage, ...],
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped"),
    ] = ()
    """Messages that arrived during an exchange: each gets an exchange of its own."""
    idle: Annotated[
        Idle | None, FieldPolicy(rollback="restored", fork="copied", split="reset", merge="dropped")
    ] = None
    """Set while a run of agents with channels waits for a message."""
    request: Annotated[
        ContentHash | None,
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="dropped"),
    ] = None
    """The message of people that agents with the input `input` receive."""
    former_names: Annotated[
        dict[LogName, tuple[LogName, ...]],
        FieldPolicy(rollback="restored", fork="copied", split="copied", merge="transferred"),
    ] = Field(default_factory=dict[LogName, tuple[LogName, ...]])
    """The former names of logs whose channels or agents were renamed."""
    pending_merge: Annotated[
        PendingMerge | None,
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped", diff=("graph",)),
    ] = None
    """The run merge that is not decided."""
    merges: Annotated[
        dict[str, MergeOutcome],
        FieldPolicy(rollback="kept", fork="reset", split="reset", merge="dropped", diff=("graph",)),
    ] = Field(default_factory=dict[str, MergeOutcome])
    """The outcomes of the last merges by id, oldest first; the journal has all of them."""
    merged_runs: Annotated[
        dict[RunId, tuple[Rename, ...]],
        FieldPolicy(
            rollback="kept",
            fork="reset",
            split="reset",
            merge="transferred",
            diff=("graph",),
        ),
    ] = Field(default_factory=dict[RunId, tuple[Rename, ...]])
    """The last runs that were merged into this one, oldest first, with their renames. Commands that
    were sent to one of them use its names."""

    @property
    def is_conversation_idle(self) -> bool:
        """Whether it is a conversation between two exchanges."""
        return self.conversation is not None and self.conversation.is_idle and not self.frontier

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended."""
        return self.status in ENDED

    @property
    def is_draining(self) -> bool:
        """Whether nothing new may start before a swap or a run merge.

        For a split, only the nodes of the split runs are drained: `PendingChange.drains`.
        """
        drains = self.pending_change is not None and not self.pending_change.nodes
        return drains or (self.pending_merge is not None and self.pending_merge.is_draining)

    @property
    def detached_turns(self) -> tuple[StepId, ...]:
        """The steps of the frontier whose nodes a change removed, and whose turns run to their end.

        Steps without a turn are in `detached_steps`: they wait until their nodes are back.
        """
        return tuple(step for step, each in self.frontier.items() if each.is_detached)

    @property
    def surviving_run(self) -> RunId | None:
        """The run that this one was merged into; none if it was not."""
        return self._run_merge.other if self._run_merge is not None else None

    @property
    def surviving_run_renames(self) -> tuple[Rename, ...]:
        """The renames of a merged run in the surviving run."""
        return self._run_merge.renames if self._run_merge is not None else ()

    @property
    def _run_merge(self) -> MergeOutcome | None:
        merged = [each for each in self.merges.values() if each.outcome == "merged"]
        return merged[-1] if self.status == "merged" and merged else None

    @property
    def total_usage(self) -> Usage:
        """The usage of all agents."""
        return sum(self.usage.values(), Usage())


RECORDED: Mapping[Operation, frozenset[str]] = {
    "rollback": fields_where(CrewState, lambda policy: policy.rollback in IN_ENTRY),
    "fork": fields_where(CrewState, lambda policy: policy.fork in IN_ENTRY),
    "split": fields_where(CrewState, lambda policy: policy.split in IN_ENTRY),
}
"""The fields whose values the entry of an operation records. The entry of a reopen records those of
a rollback."""
