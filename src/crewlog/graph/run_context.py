"""The context that the parts of the engine share: plan, journal, time, recording of entries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, cast

from crewlog.authority.audiences import may_read, may_read_input, may_write
from crewlog.authority.bindings import check_binding
from crewlog.authority.permissions import (
    EVERY_CREW_HAS,
    EVERYONE,
    Decision,
    Permission,
    authorize_tool,
    limit_to_parent,
    live_permission,
    quota_permissions,
)
from crewlog.canonical_json import canonical, hash_json
from crewlog.definition.artifacts import SCRATCH_TOOLS
from crewlog.definition.conditions import Condition, holds
from crewlog.definition.context import WHOLE
from crewlog.definition.model import SEND_MESSAGE, Counted
from crewlog.definition.quotas import is_per_run, quota_of
from crewlog.definition.times import due_in
from crewlog.graph.artifacts import artifact_heads
from crewlog.graph.plan import NEXT, GraphPlan, PlanAgent
from crewlog.ids import (
    CREW,
    PUBLIC,
    AgentName,
    CommandId,
    ContentHash,
    CrewName,
    FlagName,
    InterruptId,
    LogName,
    NodeName,
    StepId,
    ToolName,
    child_step_log,
    named_readers,
    private_log,
)
from crewlog.message_files import FileRef, content_with_files
from crewlog.model import Json
from crewlog.run_status import EndReason, interrupt_end_reason
from crewlog.state import journal as j
from crewlog.state.answers import call_binding
from crewlog.state.calls import CallQuota, View
from crewlog.state.frontier import find_step, item_agent
from crewlog.state.item_specs import (
    MAX_APPENDED_IDS,
    MAX_SPEC_BYTES,
    ItemSpec,
    ListSpec,
    bounded_spec,
    item_spec,
    list_spec,
    unpack_numbers,
)
from crewlog.state.live_permissions import last_change
from crewlog.state.model import Call, ChangedPermission, CrewState, Interrupt, Item
from crewlog.state.recorder import Journal
from crewlog.state.reducers import LIST_REDUCERS, REFUSING_REDUCERS

_ENDS = (j.RunCompleted, j.RunStopped, j.RunFailed)


def message_body(
    text: str, *, by: str, message_id: str, files: tuple[FileRef, ...] = ()
) -> dict[str, Json]:
    """The body of a message of people."""
    content = content_with_files(text, files) if files else text
    body: dict[str, Json] = {"type": "human", "content": content, "id": message_id}
    if by:
        body["name"] = by
    return body


def _common_audience(agent: AgentName, before: PlanAgent, now: PlanAgent) -> tuple[LogName, ...]:
    """The audience of an agent's outputs by its former and its current settings; empty: `public`.

    Settings without outputs have no audience of them: then its final messages' logs count.
    """
    allowed = (now.shares or (PUBLIC,)) if now.outputs else now.writes
    logs = before.shares or (PUBLIC,)
    if all(log in allowed or log == private_log(agent) for log in logs):
        return before.shares
    return tuple(dict.fromkeys((*(log for log in logs if log in allowed), private_log(agent))))


def disabled_reason(agent: AgentName) -> str:
    """Why a step of a disabled agent is skipped."""
    return f"{agent} is switched off"


class CallRequest(NamedTuple):
    """A call to make."""

    step: StepId
    agent: AgentName
    call: Call
    """A model call if `call.tool` is none."""


class CompleteStep(Protocol):
    """Completes a step of the frontier."""

    async def __call__(
        self,
        step: StepId,
        /,
        *,
        outcome: str = NEXT,
        because: str = "",
        skipped: bool = False,
        handoff: Sequence[NodeName] = (),
    ) -> None:
        """Complete the step and start what follows it.

        Args:
            step: The step.
            outcome: The outcome that the node's router gets.
            because: The reason, for the journal.
            skipped: Whether the step is skipped.
            handoff: The nodes to go to instead of those of the router.
        """


class RunContext:
    """A run's plan and journal, and what follows from both."""

    def __init__(self, plan: GraphPlan, journal: Journal) -> None:
        self.plan = plan
        self.journal = journal
        self.at = 0
        """The time of new entries, in milliseconds since the epoch."""
        self.command_hash = ""
        """The hash of the command that is being applied; its outcome gets it."""

    state: CrewState = cast("CrewState", property(attrgetter("journal.state")))
    """The live state. The getter is no Python function, since a step reads it 100 times."""

    def waits_for_calls(self, step: StepId) -> bool:
        """Whether the run applies the calls of a step.

        It does not once the step has ended, or failed as a whole and people are asked.
        """
        state = self.state
        if step not in state.frontier or not state.interrupts:
            return step in state.frontier
        asked = (each for each in state.interrupts.values() if each.step == step)
        return not any(each.kind == "step_failed" and each.call is None for each in asked)

    def record(self, entry: j.JournalEntry) -> None:
        """Records an entry at the engine's time.

        A run that ends while it drains for a change, or before a run merge has an offer, records
        first that the swap or the run merge failed.
        """
        kind = type(entry)
        if kind in _ENDS and self._has_unfinished_work():
            with self.journal.transaction:
                self._fail_unfinished()
                self.record(entry)
            return
        update: dict[str, Any] = {"at": self.at}
        if kind is j.RunCompleted:
            if "end_reason" not in entry.model_fields_set:
                update["end_reason"] = self.state.limit_reached or "completed"
        elif kind is j.RunStopped and (info := self.state.status_reason) is not None:
            update["end_reason"] = info.end_reason
        if self.command_hash and getattr(entry, "command", None):
            update["command_hash"] = self.command_hash
        # The entry is new and has no other owner. A copy would cost a step some 50 Python calls.
        vars(entry).update(update)
        entry.model_fields_set.update(update)
        self.journal.record(entry)

    def _has_unfinished_work(self) -> bool:
        """Whether a swap is pending, or a run merge for which the run is not frozen."""
        merge = self.state.pending_merge
        # Only the coordinator decides how the merge of a frozen run ends.
        return self.state.pending_change is not None or (
            merge is not None and merge.status != "frozen"
        )

    def _fail_unfinished(self) -> None:
        """Records that a swap or an unfrozen run merge failed, since the run ends first."""
        if (change := self.state.pending_change) is not None:
            error = "the run ended first"
            self.record(j.SwapFailed(graph_version=change.graph_version, error=error))
        merge = self.state.pending_merge
        if merge is not None and merge.status != "frozen":
            reason = f"{self.state.run!r} ended first"
            self.record(j.MergeFailed(merge=merge.merge, other=merge.other, reason=reason))

    def say(
        self,
        text: str,
        *,
        by: str,
        to: LogName | tuple[LogName, ...],
        message_id: str,
        command: CommandId | None = None,
        files: tuple[FileRef, ...] = (),
    ) -> ContentHash:
        """Adds a message of people to one or more logs; returns its hash."""
        body = message_body(text, by=by, message_id=message_id, files=files)
        logs = to if isinstance(to, tuple) else (to,)
        ref = j.MessageRef(body=hash_json(body), logs=logs, inline=body)
        asks = by != CREW and self.is_shown_as_request(logs)
        self.record(j.MessageAdded(ref=ref, by=by, command=command, asks=asks))
        return ref.body

    def is_shown_as_request(self, logs: Collection[LogName]) -> bool:
        """Whether agents read a message to some logs as the run input."""
        has_readers = any(WHOLE in each.inputs for each in self.plan.agents.values())
        return has_readers and PUBLIC in logs

    def ask(
        self,
        kind: str,
        question: str,
        *,
        step: StepId | None = None,
        call: int | None = None,
        options: Sequence[str] = ("approve", "reject"),
        detail: str = "",
        flag: FlagName | None = None,
        words: bool = False,
        **more: Any,
    ) -> None:
        """Raises an interrupt; `more` are further fields of it."""
        more = {**self.interrupt_policy_fields(kind), **more}
        if end_reason := interrupt_end_reason(kind):
            more["limit_reached"] = end_reason
        self.record(
            j.InterruptRaised(
                interrupt=Interrupt.model_validate(
                    {
                        "id": InterruptId(f"i{self.state.interrupt_count + 1}"),
                        "kind": kind,
                        "question": question,
                        "step": step,
                        "call": call,
                        "options": tuple(options),
                        "detail": detail,
                        "flag": flag,
                        "takes_text": words,
                        **more,
                    }
                ),
            )
        )

    def interrupt_policy_fields(self, kind: str) -> dict[str, Any]:
        """The deadline of an interrupt that is raised now, and the people who may answer it."""
        policy = self.plan.interrupts
        expires = policy.expiry(kind).expires
        if kind == "approval" or (expires is None and not policy.people):
            return {}
        deadline = 0 if expires is None else due_in(expires, self.at)
        return {"deadline": deadline, "to": policy.people}

    def check_approval(self, step: StepId, call: Call) -> Decision:
        """Whether the approval of a call is valid for it as it is now."""
        return check_binding(call.binding, call_binding(self.state.run, step, call), at=self.at)

    def agent_of(self, step: StepId) -> AgentName | None:
        """The agent of a step: that of its node, or the one that its item names.

        None for a branch, a question or a wait, and for a parent step whose items name the agents.
        """
        state = self.state
        entry = state.frontier.get(step) or state.detached_steps.get(step)
        if entry is None:
            return None
        of_item = item_agent(state, step) if entry.parent else None
        return of_item or self.plan.node_of(entry).agent

    def step_log(self, step: StepId, agent: AgentName) -> LogName:
        """The log that an agent writes to during a step.

        A child step has a log of its own, since child steps of one agent may run in parallel.
        """
        entry = self.state.frontier.get(step)
        if entry is not None and entry.parent:
            return child_step_log(step)
        return private_log(agent)

    def has_list_reducer(self, key: str) -> bool:
        """Whether the reducer of a run output, or of `agent.output`, makes a list."""
        return self.plan.merge.get(key) in LIST_REDUCERS

    def reducer_fields(self, key: str, step: StepId | None = None) -> dict[str, Any]:
        """The fields of a journal entry that say how the value of an output is combined."""
        reducer = self.plan.merge.get(key, "last")
        fields: dict[str, Any] = {"reducer": reducer} if reducer in REFUSING_REDUCERS else {}
        if reducer not in LIST_REDUCERS:
            return fields
        return fields | {
            "append": True,
            "step": step if step is not None and self._is_child_step(step) else None,
        }

    def _is_child_step(self, step: StepId) -> bool:
        entry = self.state.frontier.get(step)
        return entry is not None and entry.parent is not None

    def list_spec_fields(
        self, name: str, value: Json, *, small: bool, step: bool = True
    ) -> dict[str, Any]:
        """The fields of a journal entry that describe an output as the list of a node.

        A small value needs none: it is in the state, and read when it is needed.

        Args:
            name: The output, as `agent.output`.
            value: The value.
            small: Whether the entry has the value itself.
            step: Whether a step sets it, whose value a reducer may add to a list; else people.
        """
        nodes = [node for node in self.plan.nodes.values() if node.for_each == name]
        if small or not nodes:
            return {}
        keys = {node.by for node in nodes if node.by}
        if step and self.has_list_reducer(name):
            return self.item_spec_fields(name, [value])
        if not isinstance(value, list):
            return {}
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        spec = list_spec(items, keys)
        return {
            "items": len(items),
            **({"spec": self._limit_list_spec(name, spec)} if spec is not None else {}),
        }

    def item_spec_fields(self, name: str, values: Sequence[Json]) -> dict[str, Any]:
        """The fields of a journal entry that describe values that are added to a node's list."""
        nodes = [node for node in self.plan.nodes.values() if node.for_each == name]
        keys = {node.by for node in nodes if node.by}
        specs = tuple(self._limit_item_spec(item_spec(v, keys)) for v in values) if nodes else ()
        return {"specs": specs} if any(spec != ItemSpec() for spec in specs) else {}

    def _limit_item_spec(self, spec: ItemSpec) -> ItemSpec:
        """The description of an item that is added to a list, or an error if it is too long."""
        count = len(spec.after)
        if count <= MAX_APPENDED_IDS:
            return spec
        limit = f"at most {MAX_APPENDED_IDS} in a list that grows"
        error = f"it waits for {count:,} others, and {limit}"
        return spec.model_copy(update={"after": (), "error": error})

    def _limit_list_spec(self, name: str, spec: ListSpec) -> ListSpec:
        """The description of a list, or an error if all lists of the run need too much space."""
        spec = bounded_spec(spec)
        others = sum(
            len(canonical(output.spec.to_json()))
            for agent, found in self.state.agent_outputs.items()
            for key, output in found.items()
            if output.spec is not None and f"{agent}.{key}" != name
        )
        size = len(canonical(spec.to_json()))
        if size + others <= MAX_SPEC_BYTES:
            return spec
        sizes = f"the agents and labels of its items take {size:,} bytes as JSON, those of"
        return ListSpec(
            errors=(
                f"{sizes} the run's other lists {others:,}, and all at most {MAX_SPEC_BYTES:,}",
            )
        )

    def fail(self, error: str, end_reason: EndReason = "") -> None:
        """Ends the run without success.

        Args:
            error: Why, for people.
            end_reason: The limit that it reached, if that is why.
        """
        self.record(j.RunFailed(error=error, end_reason=end_reason or "failed"))

    def holds(self, condition: Condition) -> bool:
        """Whether a condition holds now."""
        return holds(condition, self.state.flags, self.output_values())

    def output_values(self) -> dict[AgentName, dict[str, Json]]:
        """The outputs by agent and key, as conditions read them."""
        return {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self.state.agent_outputs.items()
        }

    def view(self, agent: AgentName, step: StepId | None = None) -> View:
        """The logs that an agent may read, each at its head, with that of its child step."""
        reads, logs = self.readable_logs(agent, step), self.state.messages
        readable = [*reads, private_log(agent)]
        former_steps: tuple[StepId, ...] = ()
        after: tuple[int, ...] = ()
        child = self.state.frontier.get(step) if step is not None else None
        if child is not None and child.parent is not None:
            readable.append(child_step_log(child.step))
            parent = self.state.frontier.get(child.parent)
            if parent is not None and (children := parent.child_steps) is not None:
                former_steps = children.former_steps
                after = unpack_numbers(children.after[child.item - 1]) if children.after else ()
        readable += (log for log in logs if agent in named_readers(log))
        heads = {
            log: logs[log].head
            for log in readable
            if log in logs and may_read(agent, log, reads=reads, step=step).allowed
        }
        heads |= artifact_heads(self.plan, self.state, agent, step)
        names = self.state.former_names
        former_names = {log: names[log] for log in heads if log in names} if names else {}
        return View(heads=heads, former_steps=former_steps, after=after, former_names=former_names)

    def readable_logs(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs that an agent reads in a step, besides its private log.

        A detached step keeps the settings of its agent, without what a change took from the agent.
        """
        reads, now = self.rules_of(agent, step).reads, self.plan.agents.get(agent)
        return reads if now is None else tuple(log for log in reads if log in now.reads)

    def writable_logs(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs that the final message of a step goes to; see `readable_logs`."""
        writes, now = self.rules_of(agent, step).writes, self.plan.agents.get(agent)
        if now is None:
            return writes
        return tuple(log for log in writes if may_write(agent, log, writes=now.writes).allowed)

    def output_audience(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs whose readers may see an agent's outputs; empty: `public`.

        For a detached step both its settings and the agent's current ones must allow a log. If
        none is left, only the agent sees them.
        """
        settings, now = self.rules_of(agent, step), self.plan.agents.get(agent)
        if now is None or now is settings:
            return settings.shares
        return _common_audience(agent, settings, now)

    def visible_item(self, agent: AgentName, item: Item, step: StepId) -> Item:
        """An item as an agent may see it in a step: withheld if the agent may not read it."""
        if may_read_input(
            agent, item.logs, reads=self.readable_logs(agent, step), step=step
        ).allowed:
            return item
        return Item(number=item.number, of=item.of, logs=item.logs, is_withheld=True)

    def rules_of(self, agent: AgentName, step: StepId | None = None) -> PlanAgent:
        """The settings of an agent in a step; a detached step keeps those that it had."""
        if step is None or not self.plan.detached_steps:
            return self.plan.agents[agent]
        return self.plan.plan_agent_of(find_step(self.state, step), agent)

    def has_no_model(self, agent: AgentName | None) -> bool:
        """Whether an agent's definition lists its tool calls."""
        settings = self.plan.agents.get(agent) if agent is not None else None
        return settings is not None and bool(settings.does)

    def tools_of(self, agent: AgentName, step: StepId | None = None) -> tuple[ToolName, ...]:
        """The tools that an agent may call now, in a step."""
        tools = self.rules_of(agent, step).tools
        added = [
            ToolName(tool)
            for tool, row in self.state.live_permissions.items()
            if tool not in tools and row.get(agent) in ("allow", "ask")
        ]
        return tuple(tool for tool in (*tools, *added) if self.check(agent, tool, step).allowed)

    def check(
        self,
        agent: AgentName,
        tool: str,
        step: StepId | None = None,
        *,
        counted: Collection[str] = (),
    ) -> Decision:
        """Whether an agent may call a tool now, in a step.

        Args:
            agent: The agent.
            tool: The tool.
            step: The step that calls it.
            counted: The quotas that the call is counted in already.
        """
        settings = self.rules_of(agent, step)
        decision = self._authorize(agent, tool, settings.tools, counted)
        for name in settings.within:
            if not decision.allowed:
                break
            parent = self.plan.agents.get(name)
            tools = parent.tools if parent is not None else ()
            if tool == SEND_MESSAGE:  # its definition limits the channels
                tools = (*tools, ToolName(tool))
            # No parent agent limits what an agent may set, nor its notes.
            if tool not in EVERY_CREW_HAS and not (settings.scratch and tool in SCRATCH_TOOLS):
                decision = limit_to_parent(decision, self._authorize(name, tool, tools, counted))
        return decision

    def missing_tool_reason(self, agent: AgentName, needs: Sequence[ToolName]) -> str:
        """Why an agent may not call all of some tools; empty: it may."""
        for tool in needs:
            decision = self.check(agent, tool)
            if not decision.allowed:
                return f"it needs {tool}: {decision.reason}"
        return ""

    def run_quota_keys(
        self, agent: AgentName, tool: str, step: StepId | None = None
    ) -> tuple[str, ...]:
        """The keys of the quotas per run that a call counts in now."""
        rules = self._quotas(agent, tool, step)
        return tuple(dict.fromkeys(rule.key for rule in rules if is_per_run(rule.quota)))

    def quotas(
        self, agent: AgentName, tool: str, step: StepId | None = None
    ) -> tuple[CallQuota, ...]:
        """The quotas across runs that a call must be counted in before it starts."""
        strictest: dict[Counted, Permission] = {}
        for rule in self._quotas(agent, tool, step):
            if is_per_run(rule.quota):
                continue
            # Two quotas with one counter: the lower one decides.
            counter = self.quota_counter(rule)
            lowest = strictest.setdefault(counter, rule)
            if quota_of(rule.quota).most < quota_of(lowest.quota).most:
                strictest[counter] = rule
        return tuple(
            CallQuota(
                key=counter.key,
                crew=CrewName(counter.crew),
                quota=rule.quota,
                zone=counter.zone,
                rule=rule.describe("is used up"),
            )
            for counter, rule in sorted(
                strictest.items(), key=lambda pair: (pair[0].key, pair[0].crew)
            )
        )

    def quota_counter(self, rule: Permission) -> Counted:
        """The counter of a quota across runs."""
        own = Counted(crew=self.plan.crew, key=rule.key, zone=self.plan.timezone)
        return rule.counted or own

    def has_live_permission(self, agent: AgentName, tool: str, step: StepId | None = None) -> bool:
        """Whether people set a permission of an agent for a tool on the live run."""
        tools = self.rules_of(agent, step).tools
        permission = live_permission(
            agent, tool, agent_tools=tools, live_permissions=self.state.live_permissions
        )
        return permission is not None

    def live_permission_reason(self, agent: AgentName, tool: str) -> str:
        """The reason that people gave for a permission of the live run; empty: none."""
        row = self.state.live_permissions.get(tool, {})
        name = agent if agent in row else EVERYONE
        if name not in row:
            return ""
        permission = ChangedPermission(tool=tool, agent=name, do=row[name])
        change = last_change(self.state, permission)
        return change.reason if change is not None else ""

    def _quotas(self, agent: AgentName, tool: str, step: StepId | None) -> list[Permission]:
        """The quotas of a call: those of its agent and of the agent's parent agents."""
        if not self.plan.checks or tool in EVERY_CREW_HAS:
            return []
        agents = (agent, *self.rules_of(agent, step).within)
        return [
            rule
            for name in agents
            for rule in quota_permissions(name, tool, self.plan.checks, self.holds)
        ]

    def _authorize(
        self, agent: AgentName, tool: str, offered: Sequence[ToolName], counted: Collection[str]
    ) -> Decision:
        return authorize_tool(
            agent,
            tool,
            agent_tools=offered,
            crew_tools={*self.plan.tools, *offered},
            permissions=self.state.tool_permissions,
            approvals=self.plan.approvals,
            rules=self.plan.checks,
            live_permissions=self.state.live_permissions,
            holds=self.holds,
            used=self.state.quotas,
            counted=counted,
        )
