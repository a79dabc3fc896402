"""Going back to a checkpoint, beginning from one of another run, and going on after the end.

Each records what it does and leaves an engine that goes on from there; `crewlog.state.restore`
says what the state is. The state comes from the store: whoever calls has had it loaded.
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
    private_log,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.claim import ClaimedAgent
from crewlog.state.components import Component
from crewlog.state.model import NEVER_RESTORED, CrewState, Interrupt, LogHead
from crewlog.state.recorder import Journal
from crewlog.state.restore import (
    ReopenPoint,
    RestoredState,
    fork_state,
    reopen_state,
    rollback_state,
    steps_without_interrupt,
)
from crewlog.state.run_merge.protocol import check_no_merge


def roll_back(
    engine: Engine, to: int, then: CrewState, plan: GraphPlan, *, by: str, **who: Any
) -> None:
    """Takes a run back to a checkpoint: open questions are withdrawn, those of then asked anew.

    Calls under way belong to steps that are gone: what they answer is not applied.

    Args:
        engine: The run; from here on it follows `plan`.
        to: The checkpoint's position.
        then: The state that it stands for.
        plan: The plan that the run had there.
        by: Who asked for it.
        who: `reason` and `command` of the fact.

    Raises:
        CommandRejected: the run has no crew yet, or is ending.
        ChangeConflict: it is about to change its graph, or to be one with another run.
    """
    now = engine.state
    if engine.prompt.is_active:
        raise CommandRejected("the run has no crew yet: there is nothing to go back to")
    if now.status == "stopping":
        raise CommandRejected("the run is ending; it does not go back any more")
    if to < now.rollback_floor:
        raise CommandRejected(
            f"creatures left for other runs, or came from one, at {now.rollback_floor}: it does "
            "not go back beyond",
            remedy=f"They live where they are now. `crewlog fork {now.run}@{to}` begins as it was "
            "there.",
        )
    if now.pending_change is not None:
        raise ChangeConflict(
            f"the run is about to go on with graph v{now.pending_change.graph_version}",
            remedy="Roll back once `GraphSwapped` or `SwapFailed` is in its journal.",
        )
    check_no_merge(now)
    for asked in list(now.interrupts.values()):
        engine.record(j.InterruptAnswered(interrupt=asked.id, decision="withdrawn", by=by))
    # What people said while the run lived of who may call a tool holds on: it was not the run's.
    kept = permissions_after(engine.plan, plan, now)
    then = then.model_copy(update={"tool_permissions": kept})
    back = rollback_state(engine.state, then, other_graph=not is_same_graph(engine.plan, plan))
    engine.record(j.RunRolledBack(to=to, state=_restored_fields(back.state), by=by, **who))
    engine.use(_with_detached_steps(plan, back))
    engine.exchanges.requeue_message(now.conversation)
    _ask_anew(engine, back.questions)


def fork(
    plan: GraphPlan,
    then: CrewState,
    run: RunId,
    *,
    by: str,
    at: int,
    checkpoint: int = 0,
    ledger: Journal | None = None,
) -> Engine:
    """A new run that goes on from where another one was.

    Args:
        plan: The plan that the other one had there.
        then: Its state there; the new run's journal goes on after its position.
        run: The new run.
        by: Who starts it.
        at: When.
        checkpoint: The checkpoint's position, as it was asked for.
        ledger: An empty one at that position, by default.
    """
    made = fork_state(then, run)
    own = ledger or Journal(CrewState(run=run, position=then.position))
    engine = Engine(_with_detached_steps(plan, made), own)
    engine.at = at
    # The numbers of questions go on: what was answered there has its number in this journal, too.
    kept = _restored_fields(made.state) | {
        "interrupt_count": then.interrupt_count,
        "exchanges": then.exchanges,
    }
    engine.record(
        j.RunForked(
            run=run,
            state=kept,
            by=by,
            source=then.run,
            to=then.position,
            checkpoint=checkpoint,
        )
    )
    _ask_anew(engine, made.questions)
    return engine


def start_split_run(
    plan: GraphPlan, then: CrewState, source: RunId, *, by: str, at: int, split: str
) -> Engine:
    """A run that is a part of another one from here on.

    Steps, turns and questions keep their names; what was asked there is asked here anew.

    Args:
        plan: The plan of the part.
        then: Its first state, as `crewlog.state.split.parted` gives it.
        source: The run that it was a part of.
        by: Who parted them.
        at: When.
        split: The command that did.
    """
    engine = Engine(plan, Journal(CrewState(run=then.run, position=then.position)))
    engine.at = at
    kept = _restored_fields(then) | {
        name: value
        for name, value in then.to_json().items()
        if name in ("interrupt_count", "exchanges", "usage", "added_budgets")
    }
    engine.record(
        j.RunForked(run=then.run, source=source, to=then.position, state=kept, split=split, by=by)
    )
    return engine


def reopen(
    plan: GraphPlan,
    ledger: Journal,
    then: CrewState,
    found: ReopenPoint,
    *,
    by: str,
    at: int,
    reason: str = "",
    claimed: Mapping[AgentName, ClaimedAgent] | None = None,
) -> Engine:
    """Lets a run go on that had ended: steps and calls keep their names, and their claims.

    What failed and ended it is tried once more; of a decision that ended it, people are asked.

    Args:
        plan: The plan to go on with.
        ledger: The run where it ended.
        then: Its state right before.
        found: Where that was, and whether a decision ended it.
        by: Who starts it again.
        at: When.
        reason: Why.
        claimed: Agents that return from ended runs with the recipe.
    """
    engine = Engine(plan, ledger)
    engine.at = at
    if then.idle is not None:  # its `idle` begins anew
        then = then.model_copy(update={"idle": None})
    if (meant := engine.state.pending_change) is not None:
        error = "the run was ended first, from outside"
        engine.record(j.SwapFailed(graph_version=meant.graph_version, error=error))
    if (joining := engine.state.pending_merge) is not None:
        why = f"{engine.state.run!r} was ended first, from outside"
        engine.record(j.MergeFailed(merge=joining.merge, other=joining.other, reason=why))
    kept = _restored_fields(reopen_state(then))
    engine.record(
        j.RunReopened(
            to=found.position, state=kept, by=by, reason=reason, claimed={**(claimed or {})}
        )
    )
    for step, call in list(steps_without_interrupt(engine.state)):
        engine.record(j.StepRetried(step=step, call=call, by=by))
    for asked in list(engine.state.interrupts.values()):
        if asked.deadline:  # it may be over since the run ended; people get their time anew
            due = engine.interrupt_policy_fields(asked.kind).get("deadline", 0)
            engine.record(j.InterruptDeadlineSet(interrupt=asked.id, deadline=due))
    if found.decision is not None and found.decision in engine.state.frontier:
        _ask_about_branch(engine, found.decision)
    return engine


def with_returning_logs(
    then: CrewState, left: Mapping[LogName, LogHead], plan: GraphPlan
) -> CrewState:
    """A run's state with what creatures can read again that had left for other runs.

    Args:
        then: The state, without the logs that only they could read.
        left: These logs, as they were when their creatures left.
        plan: The plan that the run goes on with: its creatures and channels are there.
    """
    graph = plan.topology or Component()
    own = {private_log(name) for name in graph.creatures}
    own |= {LogName(f"{CHANNEL}{name}") for name in graph.channels}
    kept = {log: at for log, at in left.items() if log in own and log not in then.messages}
    return then.model_copy(update={"messages": {**then.messages, **kept}}) if kept else then


def _with_detached_steps(plan: GraphPlan, back: RestoredState) -> GraphPlan:
    """A plan that knows, under their names of now, the steps that are kept aside."""
    left = {
        back.names[visit]: found
        for visit, found in plan.detached_steps.items()
        if visit in back.names and back.names[visit] in back.state.detached_steps
    }
    return plan.model_copy(update={"detached_steps": dict(sorted(left.items()))})


def _ask_about_branch(engine: Engine, step: StepId) -> None:
    engine.ask(
        "ask",
        f"{engine.state.frontier[step].node} ended the run. What now?",
        step=step,
        options=("continue", "again", "stop"),
    )


def _ask_anew(engine: Engine, questions: tuple[Interrupt, ...]) -> None:
    for asked in questions:
        number = InterruptId(f"i{engine.state.interrupt_count + 1}")
        anew = {
            "deadline": 0,
            "to": (),
            "escalated": False,
            **engine.interrupt_policy_fields(asked.kind),
        }
        again = asked.model_copy(update={"id": number, "position": 0, **anew})
        engine.record(j.InterruptRaised(interrupt=again))


def _restored_fields(state: CrewState) -> dict[str, Json]:
    """The state as an entry holds it: without what is not taken from there, but for the run."""
    gone = NEVER_RESTORED - {"run"}
    return {key: value for key, value in state.to_json().items() if key not in gone}
