"""`GraphPlan`: a definition lowered to nodes, joins and agent settings, without prompts.

The plan is what the workflow needs to run a crew, and the only part of the definition that
continue-as-new carries. A join is written at its target: a node names its sources and how many of
them it waits for. All other edges belong to branches, questions and stand-ins (`PlanNode.sends`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from crewlog.authority.permissions import Permission
from crewlog.definition.conditions import Fact, is_never
from crewlog.definition.creatures import INBOX
from crewlog.definition.doing import DoneCall
from crewlog.definition.model import (
    POLICIES,
    ConditionText,
    Conversation,
    GraphPolicy,
    InterruptPolicy,
    Limits,
    Merge,
    Retry,
)
from crewlog.definition.policy import Policy
from crewlog.ids import (
    AgentName,
    ContentHash,
    CrewName,
    FlagName,
    LogName,
    NodeName,
    StepId,
    ToolName,
)
from crewlog.model import Json, Model
from crewlog.state.components import Component
from crewlog.state.model import FrontierStep

END = "end"
"""Target: this path of the run ends."""
FAIL = "fail"
"""Target: the run fails."""
NEXT = "next"
"""Target: the nodes that depend on this one."""
ASK_HUMAN = "ask_human"
"""Target: people decide."""
SKIP = "skip"
"""Target of a requirement that cannot come true: the step is skipped."""

# Field names are short because every execution carries this data.


class Join(Model):
    """A node waits for `need` of the sources `of`."""

    of: tuple[NodeName, ...]
    """The sources, in the order of the definition."""
    need: int
    """How many of them: `len(of)` is all, 1 is any."""


class ConditionBranch(Model):
    """A branch by a condition."""

    when: ConditionText
    """Evaluated when the node is reached."""
    go: NodeName
    """The target while the condition holds: a node, or `end`."""
    at_most: int | None = None
    """How often the run may go to `go`; none only where `go` begins no loop."""
    otherwise: str = NEXT
    """The target once `at_most` is reached: a node, `next`, `ask_human`, `end` or `fail`."""

    @property
    def passes(self) -> bool:
        """Whether it always continues with the next node: it is only a place to go to."""
        return is_never(self.when)


class Route(Model):
    """A branch by the value of an output, which names the target."""

    by: str
    """The output, as `agent.output`."""
    to: tuple[NodeName, ...]
    """The nodes that the value may name."""
    otherwise: str = END
    """The target for any other value: a node, `next`, `ask_human`, `end` or `fail`."""
    at_most: int = 1
    """How often the run may go to each node."""
    used_up: str = END
    """The target once `at_most` is reached: `next`, `ask_human`, `end` or `fail`."""

    @property
    def reads(self) -> Fact:
        """The output, as a condition reads it."""
        agent, _, name = self.by.partition(".")
        return Fact(agent=agent, name=name)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its targets: nodes, and words such as `next`."""
        return tuple(dict.fromkeys((*self.to, self.otherwise)))


class Ask(Model):
    """A question to people."""

    question: str
    options: tuple[str, ...] = ("approve", "reject")
    """The first approves. The name of a node goes to it; `stop` ends the run; others go on."""
    sets: FlagName | None = None
    """The run output that the answer sets."""
    words: bool = False
    """Whether people may answer with text; an agent reads it where no run output takes it."""
    shows: str = ""
    """The output that people see with the question, as `agent.output`."""


class Wait(Model):
    """A wait: for a duration from the start of the step, or until a time."""

    seconds: float = 0
    """The duration; 0 with `until`."""
    until: str = ""
    """The time with its zone, in ISO 8601."""


class PlanNode(Model):
    """A node: an agent, a branch by a condition or a value, a question to people, or a wait."""

    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    """The agent, of a node of the kind `agent`."""
    join: Join | None = None
    """Its join; none for an entry point, and for a node that only branches and handoffs reach."""
    entry: bool = False
    """Whether the run starts with it."""
    when: ConditionText | None = None
    """The requirement: a step that is reached waits until this holds."""
    only_if: ConditionText | None = None
    """A step is skipped if this does not hold when it is reached."""
    within: float | None = None
    """Seconds that a step waits for `when`; then `otherwise` applies."""
    otherwise: str = ASK_HUMAN
    """The target if `when` can no longer come true: a node, `skip`, or `ask_human`."""
    timeout: float | None = None
    """Seconds that a step may take once it is started; then it fails."""
    on_error: str = ""
    """What happens when a step fails: `ask`, `fail`, `continue`, or the node of a stand-in; empty:
    what the settings of the agent say."""
    needs: tuple[ToolName, ...] = ()
    """The gate: a step is skipped if its agent may not call all of these when it is reached."""
    for_each: str | None = None
    """The list, as `agent.output`: a step has a child step for each of its items."""
    at_once: int | None = None
    """The most child steps that run at a time; none: as the limits say."""
    by: str = ""
    """The key at which an item names its agent; empty: `agent` takes them all."""
    among: tuple[AgentName, ...] = ()
    """The agents that items may name."""
    is_wake_node: bool = False
    """Whether it is the wake node of its agent: each message starts a step, and nothing follows."""
    decide: ConditionBranch | None = None
    ask: Ask | None = None
    wait: Wait | None = None
    route: Route | None = None

    @property
    def agents(self) -> tuple[AgentName, ...]:
        """The agents that may take its steps; none of a branch, a question or a wait."""
        return tuple(dict.fromkeys((*((self.agent,) if self.agent else ()), *self.among)))

    @property
    def gives_way(self) -> bool:
        """Whether `otherwise` can apply: the node has a requirement or a list."""
        return self.when is not None or self.for_each is not None

    @property
    def stand_in(self) -> NodeName | None:
        """The node that the run goes to when a step fails; none: it has none."""
        return NodeName(self.on_error) if self.on_error not in ("", *POLICIES) else None

    @property
    def sends(self) -> tuple[tuple[str, str], ...]:
        """Its edges besides those to joins, each with its key and its target.

        The keys are `go`, `to`, `answer`, `else` and `on_error`. A target is a node or a word such
        as `next`.
        """
        if self.decide is not None:
            return ("go", self.decide.go), ("else", self.decide.otherwise)
        if self.route is not None:
            return *(("to", to) for to in self.route.to), ("else", self.route.otherwise)
        if self.ask is not None:
            return tuple(("answer", option) for option in self.ask.options)
        otherwise = (("else", self.otherwise),) if self.gives_way else ()
        return otherwise if self.stand_in is None else (*otherwise, ("on_error", self.stand_in))


class PlanStructuredOutput(Model):
    """What the workflow needs of an agent's structured output; activities have the schema."""

    decision: str = ""
    """The kind of the decision; empty for a schema."""
    tries: int = 3
    """The most model calls for one valid message."""
    fields: tuple[str, ...] = ()
    """The outputs that a message sets, besides `response`."""
    tagged: dict[str, str] = Field(default_factory=dict[str, str])
    """The outputs with addressed items, each with the key at which an item names its agents."""
    fallback: dict[str, Json] | None = None
    """All outputs that are set when no message was valid; none: the step fails."""


class PlanAgent(Model):
    """What the workflow needs of an agent; its prompt stays in the definition."""

    tools: tuple[ToolName, ...] = ()
    """Its tools; at each call the permissions in force say whether it may call it."""
    reads: tuple[LogName, ...] = (LogName("public"),)
    """The logs that it reads besides its private log."""
    writes: tuple[LogName, ...] = (LogName("public"),)
    """The logs that its final messages go to."""
    outputs: tuple[str, ...] = ()
    """The outputs that it may set."""
    shares: tuple[LogName, ...] = ()
    """The logs whose readers may see its outputs, its private log included. Empty: `public`."""
    flags: tuple[FlagName, ...] = ()
    """The run outputs that it may set."""
    max_calls: int = 25
    """The most model calls in one turn."""
    reply: PlanStructuredOutput | None = None
    """Its structured output; none: plain text."""
    on_cap: Literal["fail", "end"] = "fail"
    """What happens to a turn that reaches `max_calls`."""
    timeout: float = 180.0
    """Seconds for one model call."""
    heartbeat: float = 5.0
    """Seconds without a heartbeat after which its worker counts as lost."""
    retry: Retry = Retry()
    on_error: Literal["ask", "fail", "continue"] = "ask"
    bad_reply: Literal["retry", "ask", "fail", "accept"] = "retry"
    """What happens to a message that is empty, cut off or refused."""
    ask_below: float | None = None
    """People are asked before a turn ends whose `confidence` is lower."""
    enabled: bool = True
    """Whether its steps run; otherwise they are skipped."""
    scratch: bool = False
    """Whether it makes notes. No parent agent limits this."""
    inputs: tuple[str, ...] = ()
    """The inputs that it reads, whatever logs it reads."""
    within: tuple[AgentName, ...] = ()
    """Its parent agents, the nearest first: it never has more rights than any of them."""
    does: tuple[DoneCall, ...] = ()
    """Its tool calls in each turn, of an agent without a model."""
    in_order: bool = False
    """Whether these calls run one after the other."""
    send: tuple[str, ...] = ()
    """The channels that it may send to."""
    wires: tuple[str, ...] = ()
    """Its output wires: agents, or `channel:C`."""


class PlanTool(Model):
    """What the workflow needs of a tool."""

    effects: Literal["read", "write", "external"] = "external"
    repeat: Literal["safe", "keyed", "never"] = "never"
    timeout: float = 60.0
    """Seconds for one attempt."""
    heartbeat: float = 5.0
    """Seconds without a heartbeat after which its worker counts as lost."""
    retry: Retry = Retry()
    on_error: Literal["model", "fail"] = "model"
    queue: str | None = None
    """The task queue of its workers; by default the run's."""
    placed: Literal["activity", "local"] = "activity"
    """How it runs: as an activity, or as a local activity."""
    risk: Literal["low", "high"] = "low"
    """How much harm a wrong call can do; people see it when they are asked about a call."""


class PlanArtifact(Model):
    """What the workflow needs of an artifact; its content is in its log."""

    readers: tuple[AgentName, ...] | None = None
    """The agents that may read it; none: every agent."""
    writers: tuple[AgentName, ...] | None = None
    """The agents that may change it; none: every agent."""


class DetachedStep(Model):
    """What a step whose node was removed needs to end its turn, or to continue later."""

    node: PlanNode
    """The node that was removed."""
    agent: PlanAgent
    """The settings of its agent."""
    among: dict[AgentName, PlanAgent] = Field(default_factory=dict[AgentName, PlanAgent])
    """The settings of the agents that its items may name."""
    tools: dict[ToolName, PlanTool] = Field(default_factory=dict[ToolName, PlanTool])
    """The tools that it could call when its node was removed."""
    artifacts: dict[str, PlanArtifact] = Field(default_factory=dict[str, PlanArtifact])
    """The artifacts when its node was removed."""
    definition: ContentHash
    """The definition that has the prompt of its agent."""


class GraphPlan(Model):
    """A crew's graph, and the settings of its agents and tools."""

    crew: CrewName
    definition: ContentHash
    """The definition that it was lowered from."""
    nodes: dict[NodeName, PlanNode]
    """In the order of the flow."""
    agents: dict[AgentName, PlanAgent]
    tools: dict[ToolName, PlanTool] = Field(default_factory=dict[ToolName, PlanTool])
    permissions: dict[ToolName, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[ToolName, tuple[AgentName, ...] | None]
    )
    approvals: dict[ToolName, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[ToolName, tuple[AgentName, ...] | None]
    )
    """The tools whose calls need an approval, each with the agents that need it; none: all."""
    checks: tuple[Permission, ...] = ()
    """The permissions with conditions, quotas or people."""
    timezone: str = "UTC"
    """The time zone of the days that quotas count."""
    merge: dict[str, Merge] = Field(default_factory=dict[str, Merge])
    """The reducers of run outputs, and of outputs as `agent.output`; by default `last`."""
    artifacts: dict[str, PlanArtifact] = Field(default_factory=dict[str, PlanArtifact])
    """The readers and writers of each artifact."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The run outputs, each with its first value."""
    rules: tuple[str, ...] = ()
    """The coordination rules as text: one for each join, condition and branch."""
    limits: Limits = Limits()
    conversation: Conversation | None = None
    """The settings of a conversation; none: the run ends with its flow."""
    graph: GraphPolicy | None = None
    """The settings of agents with channels; none: the crew has no such agents."""
    component: Component | None = None
    """The component: agents with channels, and how they are connected; none: there are none."""
    interrupts: InterruptPolicy = InterruptPolicy()
    """Who answers interrupts, and what happens to those without an answer."""
    policy: Policy | None = None
    """Who may command; none: every client that reaches the server."""
    detached_steps: dict[StepId, DetachedStep] = Field(default_factory=dict[StepId, DetachedStep])
    """The steps whose nodes were removed, without their child steps: those that end their turns,
    and those that wait until their node is back."""

    @property
    def away(self) -> Mapping[str, str]:
        """The remote agents, each with its run."""
        return self.graph.away if self.graph is not None else {}

    def wake_node_of(self, agent: AgentName) -> NodeName | None:
        """The node at which messages start steps of an agent; none: it is not in the component."""
        for name in (NodeName(agent), NodeName(f"{agent}{INBOX}")):
            if name in self.nodes and self.nodes[name].is_wake_node:
                return name
        return None

    def detached_step(self, step: FrontierStep | None) -> DetachedStep | None:
        """What the plan keeps for a detached step, or for its parent step; none for any other."""
        return self.detached_steps.get(step.parent_or_self) if step is not None else None

    def node_of(self, step: FrontierStep) -> PlanNode:
        """The node of a step, which may have been removed."""
        detached = self.detached_step(step) if self.detached_steps else None
        return detached.node if detached is not None else self.nodes[step.node]

    def plan_agent_of(self, step: FrontierStep | None, agent: AgentName) -> PlanAgent:
        """The settings of the agent that takes a step."""
        detached = self.detached_step(step) if self.detached_steps else None
        if detached is None:
            return self.agents[agent]
        return detached.among.get(agent, detached.agent)

    def plan_tool_of(self, step: FrontierStep | None, tool: str) -> PlanTool | None:
        """The settings of a tool that a step calls; none for one that the crew does not have."""
        detached = self.detached_step(step) if self.detached_steps else None
        tools = self.tools if detached is None else {**self.tools, **detached.tools}
        return tools.get(ToolName(tool))

    def definition_hash_of(self, step: FrontierStep | None) -> ContentHash:
        """The definition that has the prompt of a step's agent."""
        detached = self.detached_step(step) if self.detached_steps else None
        return detached.definition if detached is not None else self.definition


BUILT_IN_TOOLS: tuple[ToolName, ...] = (ToolName("set_flag"), ToolName("set_output"))
"""Tools that every crew has; an agent has them if it declares run outputs or outputs."""
