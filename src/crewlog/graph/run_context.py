"""What the parts of the engine share: the plan, the ledger, the time, and ways to record facts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

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
from crewlog.graph.plan import GraphPlan, PlanAgent
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
    MOST_ADDED,
    MOST_BYTES,
    ItemSpec,
    ListSpec,
    bounded_spec,
    item_spec,
    list_spec,
    unpacked_numbers,
)
from crewlog.state.live_permissions import agent_permission_change, last_change
from crewlog.state.model import Call, CrewState, Interrupt, Item
from crewlog.state.recorder import Journal
from crewlog.state.reducers import CONFLICTING, LISTS

_ENDS = (j.RunCompleted, j.RunStopped, j.RunFailed)


def message_body(
    text: str, *, by: str, message_id: str, files: tuple[FileRef, ...] = ()
) -> dict[str, Json]:
    """A message of people, as logs have it."""
    content = content_with_files(text, files) if files else text
    body: dict[str, Json] = {"type": "human", "content": content, "id": message_id}
    if by:
        body["name"] = by
    return body


def _common_audience(agent: AgentName, then: PlanAgent, now: PlanAgent) -> tuple[LogName, ...]:
    """The logs that an agent shares its outputs with by two rules at once; empty: `public`.

    Rules without outputs say nothing of sharing: then it is where the agent writes to.
    """
    allowed = (now.shares or (PUBLIC,)) if now.outputs else now.writes
    logs = then.shares or (PUBLIC,)
    if all(log in allowed or log == private_log(agent) for log in logs):
        return then.shares
    return tuple(dict.fromkeys((*(log for log in logs if log in allowed), private_log(agent))))


def disabled_reason(agent: AgentName) -> str:
    """Why an agent's step is skipped that takes no part."""
    return f"{agent} is switched off"


class CallRequest(NamedTuple):
    """A call that is to be made."""

    step: StepId
    agent: AgentName
    call: Call
    """A model call where `call.tool` is none."""


class RunContext:
    """A run's plan and ledger, with the questions that can be asked of them."""

    def __init__(self, plan: GraphPlan, ledger: Journal) -> None:
        self.plan = plan
        self.ledger = ledger
        self.at = 0
        """The time that new entries get, in milliseconds since the epoch."""
        self.digest = ""
        """The digest of the command that is being applied; its outcome gets it."""

    state: CrewState = cast("CrewState", property(attrgetter("ledger.state")))
    """The live state. The getter is not a Python function, since a step asks for it 100 times."""

    def waits_for_calls(self, step: StepId) -> bool:
        """Whether the run still waits for the calls of a step.

        It does not once the step is gone, or failed as a whole: people are asked then.
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
        kind = type(entry)  # compared by `is`: the sandbox makes `isinstance` four calls
        if kind in _ENDS:
            self._fail_unfinished()
        update: dict[str, Any] = {"at": self.at}
        if kind is j.RunCompleted:
            if "end_reason" not in entry.model_fields_set:
                update["end_reason"] = self.state.limit_reached or "completed"
        elif kind is j.RunStopped and (info := self.state.status_reason) is not None:
            update["end_reason"] = info.end_reason
        if self.digest and getattr(entry, "command", None):
            update["command_hash"] = self.digest
        # The entry is new and has no other owner. A copy would cost a step some 50 Python calls.
        vars(entry).update(update)
        entry.model_fields_set.update(update)
        self.ledger.record(entry)

    def _fail_unfinished(self) -> None:
        """Records that a swap, or a run merge without an offer, failed: the run ends first."""
        if self.state.pending_change is not None:
            version = self.state.pending_change.graph_version
            self.record(j.SwapFailed(graph_version=version, error="the run ended first"))
        joining = self.state.pending_merge
        # Of what it has offered, only the other run's word says what becomes.
        if joining is not None and joining.status != "offered":
            why = f"{self.state.run!r} ended first"
            self.record(j.MergeFailed(merge=joining.merge, other=joining.other, reason=why))

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
        """Adds a message of people to a log, or to several; its hash."""
        body = message_body(text, by=by, message_id=message_id, files=files)
        logs = to if isinstance(to, tuple) else (to,)
        ref = j.MessageRef(body=hash_json(body), logs=logs, inline=body)
        asks = by != CREW and self.is_shown_as_request(logs)
        self.record(j.MessageAdded(ref=ref, by=by, command=command, asks=asks))
        return ref.body

    def is_shown_as_request(self, logs: Collection[LogName]) -> bool:
        """Whether a message to some logs is shown to agents as what they are asked."""
        wanted = any(WHOLE in each.inputs for each in self.plan.agents.values())
        return wanted and PUBLIC in logs

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
        if bound := interrupt_end_reason(kind):
            more["limit_reached"] = bound
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
        """Until when a question of a kind that is asked now is open, and who may answer it."""
        policy = self.plan.interrupts
        expires = policy.expiry(kind).expires
        if kind == "approval" or (expires is None and not policy.people):
            return {}
        due = 0 if expires is None else due_in(expires, self.at)
        return {"deadline": due, "to": policy.people}

    def check_approval(self, step: StepId, call: Call) -> Decision:
        """Whether people have approved a call as it is to be made now."""
        return check_binding(call.binding, call_binding(self.state.run, step, call), at=self.at)

    def agent_of(self, step: StepId) -> AgentName | None:
        """The agent of a step: its node's, or the one that its item names.

        None for a decision, a question or a wait, and for a visit whose items all name their own.
        """
        state = self.state
        entry = state.frontier.get(step) or state.detached_steps.get(step)
        if entry is None:
            return None
        named = item_agent(state, step) if entry.parent else None
        return named or self.plan.node_of(entry).agent

    def step_log(self, step: StepId, agent: AgentName) -> LogName:
        """The log of what an agent writes while it works on a step.

        A child step has a log of its own: child steps of one agent that run in parallel would mix
        their calls in one log.
        """
        entry = self.state.frontier.get(step)
        if entry is not None and entry.parent:
            return child_step_log(step)
        return private_log(agent)

    def has_list_reducer(self, key: str) -> bool:
        """Whether what steps set of a flag, or of `agent.output`, makes a list."""
        return self.plan.merge.get(key) in LISTS

    def reducer_fields(self, key: str, step: StepId | None = None) -> dict[str, Any]:
        """What a fact that sets a flag or an output says of how its value is combined."""
        how = self.plan.merge.get(key, "last")
        said: dict[str, Any] = {"reducer": how} if how in CONFLICTING else {}
        if how not in LISTS:
            return said
        return said | {
            "append": True,
            "step": step if step is not None and self._is_child_step(step) else None,
        }

    def _is_child_step(self, step: StepId) -> bool:
        entry = self.state.frontier.get(step)
        return entry is not None and entry.parent is not None

    def list_spec_fields(
        self, name: str, value: Json, *, small: bool, step: bool = True
    ) -> dict[str, Any]:
        """What a fact that sets an output says of it as a list that nodes have a step each for.

        Of a small value nothing: it is in the state, and looked at when it is needed.

        Args:
            name: The output, as `agent.output`.
            value: What is set.
            small: Whether the fact has the value itself.
            step: Whether steps set it, whose values may be added to a list, or else people.
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
        shape = list_spec(items, keys)
        return {
            "items": len(items),
            **({"spec": self._bounded(name, shape)} if shape is not None else {}),
        }

    def item_spec_fields(self, name: str, values: Sequence[Json]) -> dict[str, Any]:
        """What a fact that adds values to a list says of them as items that nodes work on."""
        nodes = [node for node in self.plan.nodes.values() if node.for_each == name]
        keys = {node.by for node in nodes if node.by}
        shapes = tuple(self._short(item_spec(value, keys)) for value in values) if nodes else ()
        return {"specs": shapes} if any(shape != ItemSpec() for shape in shapes) else {}

    def _short(self, shape: ItemSpec) -> ItemSpec:
        """What an item says that is added to a list by itself, where that is short enough."""
        waits = len(shape.after)
        if waits <= MOST_ADDED:
            return shape
        fault = (
            f"it waits for {waits:,} others, and at most {MOST_ADDED} where it is added to a list"
        )
        return shape.model_copy(update={"after": (), "error": fault})

    def _bounded(self, name: str, shape: ListSpec) -> ListSpec:
        """A list's shape, where there is room for it beside those of the run's other lists."""
        less = bounded_spec(shape)
        others = sum(
            len(canonical(output.spec.to_json()))
            for agent, found in self.state.agent_outputs.items()
            for key, output in found.items()
            if output.spec is not None and f"{agent}.{key}" != name
        )
        size = len(canonical(less.to_json()))
        if size + others <= MOST_BYTES:
            return less
        said = f"what its items say of agents and others takes {size:,} bytes as JSON, those of"
        return ListSpec(
            errors=(f"{said} the run's other lists {others:,}, and all at most {MOST_BYTES:,}",)
        )

    def fail(self, error: str, end_reason: EndReason = "") -> None:
        """Ends the run without success.

        Args:
            error: Why, for people.
            end_reason: The bound that it may not pass, where that is why.
        """
        self.record(j.RunFailed(error=error, end_reason=end_reason or "failed"))

    def holds(self, condition: Condition) -> bool:
        """Whether a condition holds now."""
        return holds(condition, self.state.flags, self.output_values())

    def output_values(self) -> dict[AgentName, dict[str, Json]]:
        """The outputs by agent and key, as conditions see them."""
        return {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self.state.agent_outputs.items()
        }

    def view(self, agent: AgentName, step: StepId | None = None) -> View:
        """The logs that an agent may read, each at its head; in an item's step, that one's too."""
        reads, logs = self.readable_logs(agent, step), self.state.messages
        readable = [*reads, private_log(agent)]
        was: tuple[StepId, ...] = ()
        after: tuple[int, ...] = ()
        child = self.state.frontier.get(step) if step is not None else None
        if child is not None and child.parent is not None:
            readable.append(child_step_log(child.step))
            parent = self.state.frontier.get(child.parent)
            if parent is not None and (mapped := parent.child_steps) is not None:
                was = mapped.former_steps
                after = unpacked_numbers(mapped.after[child.item - 1]) if mapped.after else ()
        readable += (log for log in logs if agent in named_readers(log))
        heads = {
            log: logs[log].head
            for log in readable
            if log in logs and may_read(agent, log, reads=reads, step=step).allowed
        }
        heads |= artifact_heads(self.plan, self.state, agent, step)
        before = self.state.former_names
        formerly = {log: before[log] for log in heads if log in before} if before else {}
        return View(heads=heads, former_steps=was, after=after, former_names=formerly)

    def readable_logs(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs that an agent reads besides its own, in a step.

        One that ends a turn though its node is gone has the rules of then; what its crew has taken
        from it since, it does not read any more.
        """
        reads, now = self.rules_of(agent, step).reads, self.plan.agents.get(agent)
        return reads if now is None else tuple(log for log in reads if log in now.reads)

    def writable_logs(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs that an agent's final message goes to, in a step; see `readable_logs`."""
        writes, now = self.rules_of(agent, step).writes, self.plan.agents.get(agent)
        if now is None:
            return writes
        return tuple(log for log in writes if may_write(agent, log, writes=now.writes).allowed)

    def output_audience(self, agent: AgentName, step: StepId | None = None) -> tuple[LogName, ...]:
        """The logs whose readers may see what an agent sets of its outputs; empty: `public`.

        One that ends a turn though its node is gone shares with whom its rules of then and those of
        now both say; see `readable_logs`. Where that is nobody, it is the agent's own.
        """
        rules, now = self.rules_of(agent, step), self.plan.agents.get(agent)
        if now is None or now is rules:
            return rules.shares
        return _common_audience(agent, rules, now)

    def visible_item(self, agent: AgentName, item: Item, step: StepId) -> Item:
        """An item as an agent may be shown it, in a step: without what it may not see."""
        if may_read_input(
            agent, item.logs, reads=self.readable_logs(agent, step), step=step
        ).allowed:
            return item
        return Item(number=item.number, of=item.of, logs=item.logs, is_withheld=True)

    def rules_of(self, agent: AgentName, step: StepId | None = None) -> PlanAgent:
        """The settings of an agent, in a step: a detached step keeps those that it had."""
        if step is None or not self.plan.detached_steps:
            return self.plan.agents[agent]
        return self.plan.plan_agent_of(find_step(self.state, step), agent)

    def has_no_model(self, agent: AgentName | None) -> bool:
        """Whether an agent's definition lists its tool calls."""
        rules = self.plan.agents.get(agent) if agent is not None else None
        return rules is not None and bool(rules.does)

    def tools_of(self, agent: AgentName, step: StepId | None = None) -> tuple[ToolName, ...]:
        """The tools that an agent may call now, in a step."""
        rules = self.rules_of(agent, step)
        given = [
            ToolName(tool)
            for tool, row in self.state.live_permissions.items()
            if tool not in rules.tools and row.get(agent) in ("allow", "ask")
        ]
        return tuple(
            tool for tool in (*rules.tools, *given) if self.check(agent, tool, step).allowed
        )

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
        rules = self.rules_of(agent, step)
        decision = self._check(agent, tool, rules.tools, counted)
        for parent in rules.within:
            if not decision.allowed:
                break
            above = self.plan.agents.get(parent)
            offered = above.tools if above is not None else ()
            if tool == SEND_MESSAGE:  # where it sends is bounded by its definition
                offered = (*offered, ToolName(tool))
            # What everybody may set is the agent's own business: its flags and its outputs.
            if tool not in EVERY_CREW_HAS and not (rules.scratch and tool in SCRATCH_TOOLS):
                decision = limit_to_parent(decision, self._check(parent, tool, offered, counted))
        return decision

    def missing_tool_reason(self, agent: AgentName, needs: Sequence[ToolName]) -> str:
        """Why an agent cannot do what needs tools; empty where it may call them all."""
        for tool in needs:
            decision = self.check(agent, tool)
            if not decision.allowed:
                return f"it needs {tool}: {decision.reason}"
        return ""

    def run_quota_keys(
        self, agent: AgentName, tool: str, step: StepId | None = None
    ) -> tuple[str, ...]:
        """The quotas per run that a call is counted in now, by their keys."""
        found = self._quotas(agent, tool, step)
        return tuple(dict.fromkeys(r.key for r in found if is_per_run(r.quota)))

    def quotas(
        self, agent: AgentName, tool: str, step: StepId | None = None
    ) -> tuple[CallQuota, ...]:
        """The quotas over runs in which a call is to be counted before it begins."""
        found: dict[Counted, Permission] = {}
        for each in self._quotas(agent, tool, step):
            if is_per_run(each.quota):
                continue
            # Two rules for the same calls are counted as one: the lesser of them holds for both.
            where = self.quota_store(each)
            known = found.setdefault(where, each)
            if quota_of(each.quota).most < quota_of(known.quota).most:
                found[where] = each
        return tuple(
            CallQuota(
                key=where.key,
                crew=CrewName(where.crew),
                quota=rule.quota,
                zone=where.zone,
                rule=rule.describe("is used up"),
            )
            for where, rule in sorted(found.items(), key=lambda each: (each[0].key, each[0].crew))
        )

    def quota_store(self, rule: Permission) -> Counted:
        """Where the calls of a quota over runs are counted."""
        own = Counted(crew=self.plan.crew, key=rule.key, zone=self.plan.timezone)
        return rule.counted or own

    def has_live_permission(self, agent: AgentName, tool: str, step: StepId | None = None) -> bool:
        """Whether people ruled of an agent and a tool while the run lived."""
        offered = self.rules_of(agent, step).tools
        found = live_permission(
            agent, tool, agent_tools=offered, live_permissions=self.state.live_permissions
        )
        return found is not None

    def live_permission_reason(self, agent: AgentName, tool: str) -> str:
        """Why people ruled of an agent and a tool what counts now; empty where they did not say."""
        row = self.state.live_permissions.get(tool, {})
        whom = agent if agent in row else EVERYONE
        if whom not in row:
            return ""
        made = last_change(self.state, agent_permission_change(tool, whom, row[whom]))
        return made.reason if made is not None else ""

    def _quotas(self, agent: AgentName, tool: str, step: StepId | None) -> list[Permission]:
        """The quotas of a call: an agent that works for another one uses up that one's, too."""
        if not self.plan.checks or tool in EVERY_CREW_HAS:
            return []
        who = (agent, *self.rules_of(agent, step).within)
        return [
            rule
            for each in who
            for rule in quota_permissions(each, tool, self.plan.checks, self.holds)
        ]

    def _check(
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
