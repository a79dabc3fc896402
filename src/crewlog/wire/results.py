"""The results of runs and updates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, CommandId, ContentHash, InterruptId, NodeName, RunId, StepId
from crewlog.model import Json, Model
from crewlog.run_status import EndReason, RunStatus
from crewlog.usage import Usage

__all__ = [
    "ArtifactResult",
    "BlockedNodeView",
    "ChangeEffect",
    "ChangeReport",
    "ChangeResult",
    "CommandResult",
    "ComponentChangeView",
    "RenameView",
    "Response",
    "RunResult",
    "StepChange",
]


class CommandResult(Model):
    """A command was applied."""

    id: CommandId
    position: int
    """The journal position of the entry that the command made."""
    detail: str = ""
    """What was decided."""
    hash: str = ""
    """The hash of the command with this outcome. The server itself answers a repeated update id
    with the first answer: a hash other than that of your command means that the id was used for
    another command."""


class RenameView(Model):
    """The new name that something of a merged run has in the surviving run."""

    kind: Literal["agent", "channel", "group"]
    """An agent with channels, a channel or a group."""
    run: RunId
    """The merged run."""
    was: str
    """The name in that run."""
    now: str
    """The name in the surviving run."""


class ComponentChangeView(Model):
    """What an operation does to components: the agents that are connected through channels."""

    kind: Literal["merge", "split", "nothing"] = "nothing"
    old_graph_ids: tuple[RunId, ...] = ()
    """The runs of the components before the operation, sorted."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The runs of the components after it, sorted."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The agents whose component is merged or split, or that are added, removed or connected to
    others. By their names after the operation, sorted."""
    renames: tuple[RenameView, ...] = ()
    """What a run merge renames."""


ChangeEffect = Literal[
    "kept", "moves", "finishes", "abandoned", "detached", "returns", "retracted", "starts"
]
"""What a change does to a step. `kept`: it continues. `moves`: it continues in another run.
`finishes`: its node is removed, its turn runs to its end, and nothing follows. `abandoned`: it is
cancelled. `detached`: its node is removed, and it waits until the node is back. `returns`: its node
is back. `retracted`: it has not begun, and waits again. `starts`: the change makes it ready."""


class StepChange(Model):
    """What a change does to a step."""

    step: StepId
    node: NodeName
    effect: ChangeEffect
    progress: str = ""
    """What the step does now, for people: `running: 1 call under way`, `waits for backend.ready`.
    """
    because: str = ""
    """Why, for people."""


class BlockedNodeView(Model):
    """A node that waits for something that cannot come in the new graph."""

    node: NodeName
    requirement: str
    """What it waits for: a condition, or the sources of a join."""
    because: str
    """Why that cannot come: `only backend sets models_ready`."""
    then: str
    """What the run will do: ask people, skip, or take the declared alternative."""


class ChangeReport(Model):
    """What a change does to a run."""

    graph_version: int
    """The graph version after the change."""
    swap: bool
    """Whether the run drains and continues with a new graph. If not, the change applies at once."""
    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    kept: tuple[NodeName, ...] = ()
    """Nodes of the same kind and the same agent in both graphs."""
    changed: tuple[NodeName, ...] = ()
    """Kept nodes with other joins, conditions or branches."""
    steps: tuple[StepChange, ...] = ()
    """The steps of the frontier, the detached steps, and the steps that the change starts."""
    blocked: tuple[BlockedNodeView, ...] = ()
    withdrawn: tuple[InterruptId, ...] = ()
    """Open interrupts that are withdrawn; some are raised again with another question."""
    notes: tuple[str, ...] = ()
    """Other effects: agents, tools and permissions; new nodes that the run has already passed."""
    warnings: tuple[str, ...] = ()
    """Effects that are perhaps not intended, such as a channel without a reader. The second line of
    each is the remedy."""
    component_change: ComponentChangeView | None = None
    """The change of components, if there is one."""
    at_once: bool = False
    """Whether the change applies at once although nodes are added or removed: only agents with
    channels are."""


class ChangeResult(CommandResult):
    """A change was accepted, or what it would do."""

    graph_version: int
    """The graph version after the change. It stays the same if no new graph is needed."""
    swap: bool = False
    """Whether the run drains and continues with a new graph. `GraphSwapped` or `SwapFailed` in the
    journal is the end of the swap."""
    definition: str = ""
    """The hash of the resulting definition: a value for `expect`."""
    report: ChangeReport | None = None
    """What the change does to the run."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a dry run: the resulting `GraphPlan`."""
    remarks: tuple[str, ...] = ()
    """Of a prompt: its diagnostics."""
    merge: str = ""
    """Of an operation that connects two runs: the id of the run merge. `RunMerged`,
    `RunEndedByMerge` or `MergeFailed` with that id follows in the journal within minutes."""


class Response(Model):
    """The response that ends an exchange of a conversation."""

    exchange: int
    """The number of the exchange, from 1."""
    message: CommandId = CommandId("")
    """The command of the message that began the exchange; `input` for a run input without an id."""
    text: str = ""
    """The text of the response. Empty if only the store still has it."""
    agent: AgentName | None = None
    """The agent of the response; none if no agent produced a message."""
    body: ContentHash | None = None
    """The hash of the response in the store."""
    error: str = ""
    """The last error of the exchange."""
    warning: str = ""
    """One sentence about the last limit that the exchange reached, the last failed step that it
    continued without, or the last reply of a model that was truncated, withheld or empty. The
    response is what there was by then."""
    end_reason: EndReason = "completed"
    """Why the exchange ended, for programs: `completed`, `failed`, or the limit that it reached."""


class ArtifactResult(Model):
    """An artifact at the end of its run."""

    content: Json = None
    """The document, if its JSON has at most 16 KB. `crewlog artifact` prints any document."""
    size: int = 0
    """The bytes of its JSON."""
    calls: int = 0
    """Tool calls with operations on it."""
    applied: int = 0
    """Operations that were applied."""
    missed: int = 0
    """Operations that were not applied."""
    valid: bool | None = None
    """Whether it satisfies its schema; none if it has no schema."""
    faults: tuple[str, ...] = ()
    """The violations of the schema."""


class RunResult(Model):
    """The result of a run, or the response of a conversation that continues."""

    run: RunId
    status: RunStatus
    """`completed`, `stopped` or `merged`. A failed run has an error and no result. `waiting`: the
    response of a conversation."""
    outputs: dict[AgentName, dict[str, Json]] = Field(
        default_factory=dict[AgentName, dict[str, Json]]
    )
    """Outputs by agent and key. `text` is the agent's last final message. The agents are in the
    order of these messages, with the root agent at the end."""
    artifacts: dict[str, ArtifactResult] = Field(default_factory=dict[str, ArtifactResult])
    """The artifacts of the crew by name."""
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    steps: int = 0
    """Steps started."""
    executions: int = 1
    usage: dict[AgentName, Usage] = Field(default_factory=dict[AgentName, Usage])
    """Usage by agent."""
    total: Usage = Usage()
    """Usage of all agents."""
    position: int = 0
    """The last journal position."""
    ms: int = 0
    """Milliseconds from start to end."""
    warning: str = ""
    """One sentence about the last limit that the run reached, the last failed step that it
    continued without, or the last reply of a model that was truncated, withheld or empty."""
    end_reason: EndReason = "completed"
    """Why the run ended, for programs: `completed` by its flow, `idle`, `stopped`, or the limit
    that it reached. Of a conversation that continues: why the exchange ended."""
    is_idle: bool = False
    """Whether the run is completed because it was idle for too long: then it may be reopened."""
    surviving_run: RunId | None = None
    """Of a merged run: the surviving run."""
    renames: tuple[RenameView, ...] = ()
    """Of a merged run: the new names of its agents, channels and groups in the surviving run, where
    the old name may mean something else."""
    response: Response | None = None
    """Of a conversation: the response."""
