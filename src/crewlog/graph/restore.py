"""Rollback, fork, split run and reopen: an engine that continues from a stored state.

`crewlog.state.restore` makes the state from the stored one, which the caller loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.definition.audiences import CHANNEL
from crewlog.errors import ChangeConflict, CommandRejected
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap.report import is_same_graph, permissions_after
from crewlog.ids import (
    AgentName,
    InterruptId,
    LogName,
    RunId,
    StepId,
    ToolName,
    private_log,
)
from crewlog.state import journal as j
from crewlog.state.claim import ClaimedAgent
from crewlog.state.components import Component
from crewlog.state.model import CrewState, Interrupt, LogHead
from crewlog.state.recorder import Journal
from crewlog.state.restore import (
    ReopenPoint,
    RestoredState,
    fork_state,
    recorded_state,
    reopen_state,
    rollback_state,
    steps_without_interrupt,
)
from crewlog.state.run_merge.protocol import check_no_merge


def roll_back(
    engine: Engine, to: int, then: CrewState, plan: GraphPlan, *, by: str, **who: Any
) -> None:
    """Returns a run to a checkpoint: open interrupts are withdrawn, those of the checkpoint raised.

    The calls in flight belong to steps that do not exist any more: their results are not applied.

    Args:
        engine: The run; it continues with `plan`.
        to: The checkpoint's position.
        then: The state of the checkpoint.
        plan: The plan of the run at the checkpoint.
        by: The principal.
        who: `reason` and `command` of the entry.

    Raises:
        CommandRejected: the run has no crew yet, is stopping, or was split or merged since.
        ChangeConflict: it has a pending change or run merge.
    """
    now = engine.state
    if engine.prompt.is_active:
        raise CommandRejected(
            "cannot roll back: the run has no crew yet",
            remedy="Send the command again once the crew is approved.",
        )
    if now.status == "stopping":
        raise CommandRejected(
            "cannot roll back: the run is stopping",
            remedy=f"Resume it once it has stopped: `crewlog resume {now.run}`.",
        )
    if to < now.rollback_floor:
        raise CommandRejected(
            f"cannot roll back to {to}: the run was split or merged at {now.rollback_floor}",
            remedy=f"Fork it instead: `crewlog fork {now.run}@{to}` starts from that checkpoint.",
        )
    if now.pending_change is not None:
        raise ChangeConflict(
            "cannot roll back: the run is about to swap to graph version "
            f"{now.pending_change.graph_version}",
            remedy="Roll back once `GraphSwapped` or `SwapFailed` is in its journal.",
        )
    check_no_merge(now)
    with engine.journal.transaction:
        _roll_back(engine, to, then, plan, by=by, **who)


def _roll_back(
    engine: Engine, to: int, then: CrewState, plan: GraphPlan, *, by: str, **who: Any
) -> None:
    now = engine.state
    for asked in list(now.interrupts.values()):
        engine.record(j.InterruptAnswered(interrupt=asked.id, decision="withdrawn", by=by))
    permissions = permissions_after(engine.plan, plan, now)
    # What people set on the live run stays in force, also for agents that come back.
    for tool, agents in now.tool_permissions.items():
        if agents != engine.plan.permissions.get(ToolName(tool)):
            known = agents if agents is None else tuple(a for a in agents if a in plan.agents)
            permissions[tool] = known
    then = then.model_copy(update={"tool_permissions": permissions})
    restored = rollback_state(engine.state, then, other_graph=not is_same_graph(engine.plan, plan))
    engine.record(
        j.RunRolledBack(to=to, state=recorded_state(restored.state, "rollback"), by=by, **who)
    )
    engine.use(_with_detached_steps(plan, restored))
    engine.exchanges.requeue_message(now.conversation)
    _raise_interrupts(engine, restored.questions)


def fork(
    plan: GraphPlan,
    then: CrewState,
    run: RunId,
    *,
    by: str,
    at: int,
    checkpoint: int = 0,
    journal: Journal | None = None,
) -> Engine:
    """A new run that starts from a checkpoint of another run.

    Args:
        plan: The plan of the other run at the checkpoint.
        then: Its state there; the new journal continues after its position.
        run: The new run.
        by: Who starts it.
        at: The time, in milliseconds since the epoch.
        checkpoint: The position that the command names.
        journal: The new run's journal; by default an empty one at that position.
    """
    forked = fork_state(then, run)
    journal = journal or Journal(CrewState(run=run, position=then.position))
    engine = Engine(_with_detached_steps(plan, forked), journal)
    engine.at = at
    with journal.transaction:
        engine.record(
            j.RunForked(
                run=run,
                state=recorded_state(forked.state, "fork"),
                by=by,
                source=then.run,
                to=then.position,
                checkpoint=checkpoint,
            )
        )
        _raise_interrupts(engine, forked.questions)
    return engine


def start_split_run(
    plan: GraphPlan, then: CrewState, source: RunId, *, by: str, at: int, split: str
) -> Engine:
    """A split run. Its steps, turns and interrupts keep their names; its interrupts are open again.

    Args:
        plan: The plan of the split run.
        then: Its first state, of `crewlog.state.split`.
        source: The original run.
        by: Who split it.
        at: The time, in milliseconds since the epoch.
        split: The command that split it.
    """
    engine = Engine(plan, Journal(CrewState(run=then.run, position=then.position)))
    engine.at = at
    fields = recorded_state(then, "split")
    engine.record(
        j.RunForked(run=then.run, source=source, to=then.position, state=fields, split=split, by=by)
    )
    return engine


def reopen(
    plan: GraphPlan,
    journal: Journal,
    then: CrewState,
    point: ReopenPoint,
    *,
    by: str,
    at: int,
    reason: str = "",
    claimed: Mapping[AgentName, ClaimedAgent] | None = None,
) -> Engine:
    """Continues an ended run: steps and calls keep their names and start records.

    A failure that ended it is retried; people are asked about a branch that ended it.

    Args:
        plan: The plan to continue with.
        journal: The journal of the run.
        then: Its state right before the end.
        point: The position of that state, and the branch that ended the run.
        by: The principal.
        at: The time, in milliseconds since the epoch.
        reason: Why.
        claimed: Agents that return from ended runs with the recipe.
    """
    engine = Engine(plan, journal)
    engine.at = at
    with journal.transaction:
        if (change := engine.state.pending_change) is not None:
            error = "the run was terminated first"
            engine.record(j.SwapFailed(graph_version=change.graph_version, error=error))
        if (merge := engine.state.pending_merge) is not None:
            why = f"{engine.state.run!r} was terminated first"
            engine.record(j.MergeFailed(merge=merge.merge, other=merge.other, reason=why))
        fields = recorded_state(reopen_state(then), "rollback")
        engine.record(
            j.RunReopened(
                to=point.position, state=fields, by=by, reason=reason, claimed={**(claimed or {})}
            )
        )
        for step, call in list(steps_without_interrupt(engine.state)):
            engine.record(j.StepRetried(step=step, call=call, by=by))
        for asked in list(engine.state.interrupts.values()):
            if asked.deadline:  # it may have passed since the run ended
                deadline = engine.interrupt_policy_fields(asked.kind).get("deadline", 0)
                engine.record(j.InterruptDeadlineSet(interrupt=asked.id, deadline=deadline))
        if point.decision is not None and point.decision in engine.state.frontier:
            _ask_about_branch(engine, point.decision)
    return engine


def with_returning_logs(
    then: CrewState, moved: Mapping[LogName, LogHead], plan: GraphPlan
) -> CrewState:
    """A run's state with the logs of agents that return from split runs.

    Args:
        then: The state, without the logs that only these agents read.
        moved: The heads of these logs when the agents moved to split runs.
        plan: The plan that the run continues with.
    """
    component = plan.component or Component()
    logs = {private_log(name) for name in component.agents}
    logs |= {LogName(f"{CHANNEL}{name}") for name in component.channels}
    added = {log: at for log, at in moved.items() if log in logs and log not in then.messages}
    return then.model_copy(update={"messages": {**then.messages, **added}}) if added else then


def _with_detached_steps(plan: GraphPlan, restored: RestoredState) -> GraphPlan:
    """The plan with the detached steps under their restored names."""
    names = restored.names
    steps = {
        names[step]: detached
        for step, detached in plan.detached_steps.items()
        if step in names and names[step] in restored.state.detached_steps
    }
    return plan.model_copy(update={"detached_steps": dict(sorted(steps.items()))})


def _ask_about_branch(engine: Engine, step: StepId) -> None:
    engine.ask(
        "ask",
        f"{engine.state.frontier[step].node} ended the run. What now?",
        step=step,
        options=("continue", "again", "stop"),
    )


def _raise_interrupts(engine: Engine, interrupts: tuple[Interrupt, ...]) -> None:
    """Raises interrupts again, with new numbers and deadlines."""
    for asked in interrupts:
        id_ = InterruptId(f"i{engine.state.interrupt_count + 1}")
        policy_fields = {
            "deadline": 0,
            "to": (),
            "escalated": False,
            **engine.interrupt_policy_fields(asked.kind),
        }
        again = asked.model_copy(update={"id": id_, "position": 0, **policy_fields})
        engine.record(j.InterruptRaised(interrupt=again))
