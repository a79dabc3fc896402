"""`GraphPlan`: a definition lowered to nodes, joins and rules; topology without prompts.

The plan is what the workflow needs to run a crew, and all that continue-as-new carries of the
definition. Joins are written at their target: a node names the sources it waits for and how many
of them. There are no other edges but those of decisions and answers (`Route`).
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
"""Route target: the run (or this branch of it) ends."""
FAIL = "fail"
"""Route target: the run fails."""
NEXT = "next"
"""Route target: on to what depends on this node."""
ASK_HUMAN = "ask_human"
"""Route target: people decide."""
SKIP = "skip"
"""Route target of an unmet requirement: go on as if done."""

# Kept short: this is data that every execution carries.


class Join(Model):
    """What a node waits for: `need` of the sources `of`."""

    of: tuple[NodeName, ...]
    """The sources, sorted as written."""
    need: int
    """How many of them; `len(of)` is all, 1 is any."""


class ConditionBranch(Model):
    """A decision: where to go when its condition holds, and how often."""

    when: ConditionText
    """Evaluated when the node is reached."""
    go: NodeName
    """A node, or `end`."""
    at_most: int | None = None
    """How often it may go there; none only where `go` is not behind it in a loop."""
    otherwise: str = NEXT
    """When `at_most` is used up: a node, `next`, `ask_human`, `end` or `fail`."""

    @property
    def passes(self) -> bool:
        """Whether it only ever goes on: a place to go to and to wait for."""
        return is_never(self.when)


class Route(Model):
    """A way that the value of an output names."""

    by: str
    """`agent.output`."""
    to: tuple[NodeName, ...]
    """The nodes that it may name."""
    otherwise: str = END
    """Where it names none of them: a node, `next`, `ask_human`, `end` or `fail`."""
    at_most: int = 1
    """How often it goes to each."""
    used_up: str = END
    """What happens beyond that: `next`, `ask_human`, `end` or `fail`."""

    @property
    def reads(self) -> Fact:
        """What it reads, as a condition reads it."""
        agent, _, name = self.by.partition(".")
        return Fact(agent=agent, name=name)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where it may go; words among them that are no nodes."""
        return tuple(dict.fromkeys((*self.to, self.otherwise)))


class Ask(Model):
    """A question to people."""

    question: str
    options: tuple[str, ...] = ("approve", "reject")
    """The first means yes. A node's name goes there; `stop` ends the run; any other goes on."""
    sets: FlagName | None = None
    """The flag that takes the answer."""
    words: bool = False
    """Whether other words are an answer too; where no flag takes them, they go to an agent."""
    shows: str = ""
    """`agent.output`, which people are shown with it."""


class Wait(Model):
    """A wait: for so long from when the node starts, or until a time."""

    seconds: float = 0
    """How long; 0 where `until` says it."""
    until: str = ""
    """A time with its zone, in ISO 8601."""


class PlanNode(Model):
    """A node: an agent's turn, a decision, a question, a wait, or a route."""

    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    """The agent, for an agent's turn."""
    join: Join | None = None
    """What it waits for; none for an entry node, and for one that is only ever sent to."""
    entry: bool = False
    """Whether the run starts with it."""
    when: ConditionText | None = None
    """A requirement: once reached, it waits until this holds."""
    only_if: ConditionText | None = None
    """Skipped where this does not hold when it is reached."""
    within: float | None = None
    """Seconds for which `when` is waited for; then it is as where it can no longer come true."""
    otherwise: str = ASK_HUMAN
    """Where `when` can no longer come true: a node, `skip`, or `ask_human`."""
    timeout: float | None = None
    """Seconds that one of its steps may take once it is started; then the step fails."""
    on_error: str = ""
    """Where one of its steps fails: `ask`, `fail`, `continue`, or a node that stands in; empty: as
    the agent's rules say."""
    needs: tuple[ToolName, ...] = ()
    """Skipped where its agent may not call these when it is reached."""
    for_each: str | None = None
    """`agent.output`: it has a step for each item of that list."""
    at_once: int | None = None
    """How many of these steps are under way at a time; none: as the limits say."""
    by: str = ""
    """The key at which an item names its agent; empty: all are `agent`'s."""
    among: tuple[AgentName, ...] = ()
    """The agents that items may name."""
    hears: bool = False
    """Whether it is where its agent hears: it has a visit for each message, and nothing follows."""
    decide: ConditionBranch | None = None
    ask: Ask | None = None
    wait: Wait | None = None
    route: Route | None = None

    @property
    def agents(self) -> tuple[AgentName, ...]:
        """The agents that may take its steps; none of a decision, a question, or a wait."""
        return tuple(dict.fromkeys((*((self.agent,) if self.agent else ()), *self.among)))

    @property
    def gives_way(self) -> bool:
        """Whether `otherwise` can be taken: it waits for a condition, or works on a list."""
        return self.when is not None or self.for_each is not None

    @property
    def stand_in(self) -> NodeName | None:
        """The node that runs in its place where a step of it fails; none where there is none."""
        return NodeName(self.on_error) if self.on_error not in ("", *POLICIES) else None

    @property
    def sends(self) -> tuple[tuple[str, str], ...]:
        """Where it sends the run besides the joins that wait for it: by which key, and the target.

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
    """What the workflow must know of the form of an agent's replies; activities read them."""

    decision: str = ""
    """The decision; empty for a schema."""
    tries: int = 3
    """How often the model is asked in all."""
    fields: tuple[str, ...] = ()
    """The outputs that a reply sets, besides `response`."""
    tagged: dict[str, str] = Field(default_factory=dict[str, str])
    """Those whose items are for whom they name, with the key at which they do."""
    fallback: dict[str, Json] | None = None
    """The outputs where no try was any good, in full; none: the step fails."""


class PlanAgent(Model):
    """What the workflow must know of an agent; its prompt stays in the definition."""

    tools: tuple[ToolName, ...] = ()
    """Tools that it has; the permissions in force say at each call which of them it may call."""
    reads: tuple[LogName, ...] = (LogName("public"),)
    """Logs it reads besides its own."""
    writes: tuple[LogName, ...] = (LogName("public"),)
    """Logs its final messages go to."""
    outputs: tuple[str, ...] = ()
    """Output keys it may set."""
    shares: tuple[LogName, ...] = ()
    """Logs whose readers may see its outputs: its own among them. Empty: `public`."""
    flags: tuple[FlagName, ...] = ()
    """Flags it may set."""
    max_calls: int = 25
    """Model calls in one turn."""
    reply: PlanStructuredOutput | None = None
    """The form of its final messages."""
    on_cap: Literal["fail", "end"] = "fail"
    """What becomes of a turn that reaches `max_calls`."""
    timeout: float = 180.0
    """Seconds for one model call."""
    heartbeat: float = 5.0
    """Seconds of silence after which its worker is taken for dead."""
    retry: Retry = Retry()
    on_error: Literal["ask", "fail", "continue"] = "ask"
    bad_reply: Literal["retry", "ask", "fail", "accept"] = "retry"
    """What becomes of a reply that is no good answer."""
    ask_below: float | None = None
    """People are asked before a turn is over whose `confidence` is lower."""
    enabled: bool = True
    """Whether its nodes run; else they are skipped."""
    scratch: bool = False
    """Whether it makes scratch notes: those are its own affair, whoever it works for."""
    inputs: tuple[str, ...] = ()
    """What it is shown of the run whatever it reads: the sources, once each."""
    within: tuple[AgentName, ...] = ()
    """The agents that it works for, the nearest first: it never may more than any of them."""
    does: tuple[DoneCall, ...] = ()
    """What it calls in each turn, where it has no model."""
    in_order: bool = False
    """Whether one after the other."""
    send: tuple[str, ...] = ()
    """Channels that it may send to."""
    wires: tuple[str, ...] = ()
    """Where its final messages go, too: agents, or `channel:C`."""


class PlanTool(Model):
    """What the workflow must know of a tool."""

    effects: Literal["read", "write", "external"] = "external"
    repeat: Literal["safe", "keyed", "never"] = "never"
    timeout: float = 60.0
    """Seconds for one try."""
    heartbeat: float = 5.0
    """Seconds of silence after which its worker is taken for dead."""
    retry: Retry = Retry()
    on_error: Literal["model", "fail"] = "model"
    queue: str | None = None
    """The task queue of its workers; by default the run's."""
    placed: Literal["activity", "local"] = "activity"
    """Where it runs; `local` within the workflow's worker."""
    risk: Literal["low", "high"] = "low"
    """What a wrong call may do, for people who are asked about one."""


class PlanArtifact(Model):
    """What the workflow must know of an artifact; what it is stays in its log."""

    readers: tuple[AgentName, ...] | None = None
    """Agents that see it; none: every agent."""
    writers: tuple[AgentName, ...] | None = None
    """Agents that may change it; none: every agent."""


class DetachedStep(Model):
    """A step whose node was removed: what it needs to end its turn, or to come back."""

    node: PlanNode
    """The node that was removed."""
    agent: PlanAgent
    """The settings of its agent."""
    among: dict[AgentName, PlanAgent] = Field(default_factory=dict[AgentName, PlanAgent])
    """The settings of the agents that its items may name."""
    tools: dict[ToolName, PlanTool] = Field(default_factory=dict[ToolName, PlanTool])
    """The tools that it could call when its node was removed."""
    artifacts: dict[str, PlanArtifact] = Field(default_factory=dict[str, PlanArtifact])
    """The artifacts of that time; the definition of its prompt knows their readers."""
    definition: ContentHash
    """The definition that has the prompt of its agent."""


class GraphPlan(Model):
    """A crew's graph and rules."""

    crew: CrewName
    definition: ContentHash
    """The definition it was lowered from."""
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
    """Tools whose calls wait for a person's yes, with the agents it holds for; none: all."""
    checks: tuple[Permission, ...] = ()
    """The crew's rules over tool calls."""
    timezone: str = "UTC"
    """Whose days the quotas count."""
    merge: dict[str, Merge] = Field(default_factory=dict[str, Merge])
    """How the values of a flag, or of an output as `agent.output`, combine; by default `last`."""
    artifacts: dict[str, PlanArtifact] = Field(default_factory=dict[str, PlanArtifact])
    """Who sees and who changes which artifact."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """First values."""
    rules: tuple[str, ...] = ()
    """The coordination rules as text, one per join, condition and decision."""
    limits: Limits = Limits()
    conversation: Conversation | None = None
    """How it is talked to; none: a run ends once its flow has."""
    graph: GraphPolicy | None = None
    """How its agents live that hear; none: no agent has turns but by the flow."""
    topology: Component | None = None
    """Which agents live in its graph, and how they are connected; none where none hears."""
    interrupts: InterruptPolicy = InterruptPolicy()
    """Who answers questions, and what happens to those that nobody answers."""
    policy: Policy | None = None
    """Who may command; none: whoever reaches the server."""
    detached_steps: dict[StepId, DetachedStep] = Field(default_factory=dict[StepId, DetachedStep])
    """The steps whose nodes were removed, without child steps: those that end their turns, and
    those that wait until their node is back."""

    @property
    def away(self) -> Mapping[str, str]:
        """Agents that live in other runs, with these."""
        return self.graph.away if self.graph is not None else {}

    def wake_node_of(self, agent: AgentName) -> NodeName | None:
        """Where an agent hears; none where it does not live in the graph."""
        for name in (NodeName(agent), NodeName(f"{agent}{INBOX}")):
            if name in self.nodes and self.nodes[name].hears:
                return name
        return None

    def detached_step(self, step: FrontierStep | None) -> DetachedStep | None:
        """What the plan keeps for a step whose node was removed, or for its parent step.

        None for any other step, and for none.
        """
        return self.detached_steps.get(step.parent_or_self) if step is not None else None

    def node_of(self, step: FrontierStep) -> PlanNode:
        """The node of a step, also one that was removed."""
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
"""Tools that every crew has; an agent is offered them where it declares flags or outputs."""
