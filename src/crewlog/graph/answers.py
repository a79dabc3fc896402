"""The effects of answers to interrupts.

A decision is one of the interrupt's options, or text where the interrupt takes text.

An interrupt may have a deadline, an absolute time that is stored in it, so continue-as-new and
rollbacks keep it; the run's timer fires at that time (`crewlog.graph.timers`). Then the crew's
policy answers, and the journal names the policy as the one who answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crewlog.authority.bindings import arguments_hash
from crewlog.definition.conditions import Fact, parse_condition
from crewlog.definition.times import due_in, moment_words
from crewlog.errors import InterruptNotOpen, NotPermitted
from crewlog.graph import interrupts
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import StopAnswer
from crewlog.graph.outputs import set_flag
from crewlog.graph.plan import END, NEXT
from crewlog.graph.run_context import RunContext
from crewlog.graph.turns import calls_of
from crewlog.ids import CommandId, FlagName, InterruptId, NodeName, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.answers import ESCALATED
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Interrupt


def find_interrupt(run: RunContext, interrupt_id: str) -> Interrupt:
    """The open interrupt with that id.

    Raises:
        InterruptNotOpen: there is none; the message names the open ones.
    """
    interrupt = run.state.interrupts.get(InterruptId(interrupt_id))
    if interrupt is None:
        open_ids = ", ".join(run.state.interrupts) or "none"
        if earlier := run.state.answers.get(InterruptId(interrupt_id)):
            principal = "the crew's policy" if earlier.expired else earlier.by
            raise InterruptNotOpen(
                f"the interrupt {interrupt_id!r} is not open: {principal} answered "
                f"{earlier.decision!r} {moment_words(earlier.at)}",
                remedy=f"Open now: {open_ids}.",
            )
        raise InterruptNotOpen(
            f"the interrupt {interrupt_id!r} is not open",
            remedy=f"Open now: {open_ids}. It may have been answered already.",
        )
    return interrupt


async def answer(
    engine: Engine,
    interrupt: Interrupt,
    decision: str,
    *,
    by: str,
    command: CommandId | None,
    reason: str = "",
    args: dict[str, Json] | None = None,
    expired: bool = False,
) -> None:
    """Records an answer and applies it.

    Args:
        engine: The run.
        interrupt: The interrupt.
        decision: An option or text; `edit` with `args`.
        by: The principal who answers.
        command: The command with the answer.
        reason: Why.
        args: For `edit`: the arguments that replace those of the message. The caller has validated
            them.
        expired: Whether the deadline has passed and the crew's policy answers.

    Raises:
        StopAnswer: the answer ends the run.
    """
    with engine.journal.transaction:
        await _apply_answer(
            engine, interrupt, decision, by, command, reason=reason, args=args, expired=expired
        )


async def _apply_answer(
    engine: Engine,
    interrupt: Interrupt,
    decision: str,
    by: str,
    command: CommandId | None,
    *,
    reason: str,
    args: dict[str, Json] | None,
    expired: bool,
) -> None:
    engine.record(
        j.InterruptAnswered(
            interrupt=interrupt.id,
            decision=decision,
            by=by,
            command=command,
            reason=reason,
            arguments=None if args is None else arguments_hash(args),
            inline=args,
            deadline=_approval_deadline(engine, interrupt, decision),
            expired=expired,
        )
    )
    if decision == "stop":
        raise StopAnswer
    if interrupt.kind == "tool_approval" and decision == "reject":
        await _reject_call(engine, interrupt, by, reason)
    if decision == "retry" and interrupt.kind in ("step_failed", "outcome_unknown"):
        _retry_call(engine, interrupt, by)
        return
    handler = _HANDLERS.get(interrupt.kind)
    if handler is not None:
        await handler(engine, interrupt, decision, by)


def _approval_deadline(engine: Engine, interrupt: Interrupt, decision: str) -> int:
    """Until when a call that is approved now must have begun; 0: no limit."""
    valid = engine.plan.interrupts.valid
    if valid is None or interrupt.kind != "tool_approval" or decision not in ("approve", "edit"):
        return 0
    return due_in(valid, engine.at)


async def _apply_low_confidence(
    engine: Engine, interrupt: Interrupt, decision: str, by: str
) -> None:
    entry = engine.state.frontier.get(interrupt.step) if interrupt.step else None
    if entry is None or entry.turn is None:
        return
    if decision == "go on":
        await engine.turns.end_confirmed_turn(entry.step, entry.turn.goto)
    elif decision != "again":
        engine.turns.send_to_agent(entry.step, decision, by)


async def _apply_question(engine: Engine, interrupt: Interrupt, decision: str, by: str) -> None:
    step = interrupt.step
    entry = engine.state.frontier.get(step) if step is not None else None
    if step is None or entry is None:
        return
    node = engine.plan.node_of(entry)
    because = f"{by or 'people'} said {decision!r}"
    if node.decide is not None:
        if decision == "again":
            await engine.repeat_branch(step)
        else:
            await engine.finish(step, NEXT, because=because)
        return
    if node.route is not None:
        target = decision if decision in engine.plan.nodes else END
        await engine.finish(step, target, because=because)
        return
    first, last = interrupt.options[0], interrupt.options[-1]
    if decision not in interrupt.options and interrupt.flag is None and interrupt.takes_text:
        await _apply_text(engine, interrupt, decision, by)
        return
    if interrupt.flag is not None:
        value = True if decision == first else False if decision == last else decision
        set_flag(engine, interrupt.flag, value, by)
    target = decision if decision in {*interrupt.options} & {*engine.plan.nodes} else NEXT
    is_refusal = decision == last and len(interrupt.options) > 1
    if target == NEXT and interrupt.flag is None and is_refusal:
        # Without a flag or a node of its own, a "no" would otherwise continue the run as a "yes".
        engine.record(j.StepCompleted(step=step, because=because))
        raise StopAnswer
    await engine.finish(step, target, because=because)


async def _apply_text(engine: Engine, interrupt: Interrupt, text: str, by: str) -> None:
    """Sends the run to the node that takes the text, and the text to the agent of that node."""
    step, to = interrupt.step, NodeName(interrupt.text_option)
    because = f"{by or 'people'} said {excerpt(text)!r}"
    node = engine.plan.nodes.get(to)
    if step is None:
        raise StopAnswer
    if node is None or node.agent is None:  # a change has removed it
        engine.record(j.StepCompleted(step=step, because=because))
        raise StopAnswer
    log = private_log(node.agent)
    engine.say(text, by=by, to=log, message_id=f"{step}/{interrupt.id}")
    await engine.finish(step, to, because=because)


async def _apply_requirement(engine: Engine, interrupt: Interrupt, decision: str, by: str) -> None:
    if interrupt.step is None:
        if decision == "go on":
            await engine.start_incomplete_join(NodeName(interrupt.detail))
        else:
            engine.record(j.RunCompleted())
        return
    if decision == "skip":
        because = f"skipped: {interrupt.detail} was not met"
        await engine.skip_step(interrupt.step, because=because)
        return
    if decision == "again":  # the step is ready, and reads its list again when it starts
        return
    if (flag := answer_output(interrupt, decision)) is not None:
        set_flag(engine, flag, True, by)
    engine.record(j.RequirementMet(step=interrupt.step, waived=True))


def answer_output(interrupt: Interrupt, decision: str) -> FlagName | None:
    """The flag that an answer to a requirement sets; none if it sets none."""
    if interrupt.kind != "requirement" or interrupt.step is None:
        return None
    if decision in ("skip", "again", "stop"):
        return None
    condition = parse_condition(interrupt.detail)
    if isinstance(condition, Fact) and condition.operator is None:
        return FlagName(condition.name)
    return None


def _retry_call(engine: Engine, interrupt: Interrupt, by: str) -> None:
    entry = engine.state.frontier.get(interrupt.step) if interrupt.step else None
    if entry is None or (interrupt.kind == "outcome_unknown" and entry.turn is None):
        return
    engine.record(j.StepRetried(step=entry.step, call=interrupt.call, by=by))


async def _skip_failed_step(engine: Engine, interrupt: Interrupt, decision: str, by: str) -> None:
    if interrupt.step is None or interrupt.step not in engine.state.frontier:
        return
    await engine.skip_step(interrupt.step, because="skipped after it failed")


async def _apply_outcome(engine: Engine, interrupt: Interrupt, decision: str, by: str) -> None:
    entry = engine.state.frontier.get(interrupt.step) if interrupt.step else None
    if entry is None or entry.turn is None:
        return
    call = next(c for c in entry.turn.calls if c.call == interrupt.call)
    outcome = "it was done" if decision == "done" else decision
    text = f"The tool did not answer. {by or 'A person'} says: {outcome}"
    await engine.turns.answer_call(entry.step, call, text, ok=True)


async def _reject_call(engine: Engine, interrupt: Interrupt, by: str, reason: str) -> None:
    entry = engine.state.frontier.get(interrupt.step) if interrupt.step else None
    call = next((c for c in calls_of(entry) if c.call == interrupt.call), None)
    if entry is not None and call is not None:
        engine.turns.release_quotas(entry.step, call)
        await engine.turns.answer_call(
            entry.step, call, interrupts.rejection_text(by, reason), ok=False
        )


Handler = Callable[[Engine, Interrupt, str, str], Awaitable[None]]
_HANDLERS: dict[str, Handler] = {
    "ask": _apply_question,
    "requirement": _apply_requirement,
    "step_failed": _skip_failed_step,
    "outcome_unknown": _apply_outcome,
    "low_confidence": _apply_low_confidence,
}


POLICY = "policy"
"""The principal of answers to expired interrupts."""
UNANSWERED = "nobody answered in time"


async def answer_expired_interrupts(engine: Engine) -> None:
    """Answers the interrupts whose deadline has passed, by the crew's policy."""
    for interrupt in list(engine.state.interrupts.values()):
        state = engine.state
        if state.status != "running" or state.is_draining:
            return
        if interrupt.id in state.interrupts and engine.timers.has_expired(interrupt):
            with engine.journal.transaction:
                await _answer_by_policy(engine, interrupt)


async def _answer_by_policy(engine: Engine, interrupt: Interrupt) -> None:
    policy = engine.plan.interrupts.expiry(interrupt.kind)
    if policy.default == "escalate" and policy.escalate_to and not interrupt.escalated:
        _escalate(engine, interrupt, policy.escalate_to)
        return
    decision = "stop" if policy.default == "stop" else interrupt.refusal
    try:
        await answer(
            engine, interrupt, decision, by=POLICY, command=None, reason=UNANSWERED, expired=True
        )
    except StopAnswer:
        reason = f"{interrupt.id} was not answered in time"
        end_reason = interrupt.limit_reached or "stopped"
        engine.record(j.StopRequested(by=POLICY, reason=reason, end_reason=end_reason))


def _escalate(engine: Engine, interrupt: Interrupt, to: str) -> None:
    """Raises the interrupt for other people under a new id; answers to the old id are rejected."""
    engine.record(
        j.InterruptAnswered(interrupt=interrupt.id, decision=ESCALATED, by=POLICY, expired=True)
    )
    new_id = InterruptId(f"i{engine.state.interrupt_count + 1}")
    changes = {"id": new_id, "position": 0, "deadline": 0, "to": (to,), "escalated": True}
    engine.record(j.InterruptRaised(interrupt=interrupt.model_copy(update=changes)))


def check_may_answer(run: RunContext, interrupt: Interrupt, by: str) -> None:
    """Checks that a principal may answer an interrupt now.

    Raises:
        InterruptNotOpen: its deadline has passed, and the crew's policy answers it.
        NotPermitted: it is for other people.
    """
    if interrupt.deadline and run.at >= interrupt.deadline:
        raise InterruptNotOpen(
            f"the interrupt {interrupt.id!r} expired {moment_words(interrupt.deadline)}",
            remedy="The crew's policy answers it as soon as the run goes on.",
        )
    if interrupt.to and by not in interrupt.to:
        why = "it was escalated to" if interrupt.escalated else "it is asked of"
        people = ", ".join(interrupt.to)
        raise NotPermitted(
            f"{by or 'an unnamed client'!r} may not answer {interrupt.id!r}: {why} {people}",
            remedy=f"Let {'one of them' if len(interrupt.to) > 1 else people} answer.",
        )
