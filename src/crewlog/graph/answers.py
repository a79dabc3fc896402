"""What people's answers do: one small function for each kind of interrupt.

A decision names one of the interrupt's options, or says something in words where the interrupt
takes them: a question that asks for words, or a call whose outcome nobody knew.

Questions that nobody answered in time: what the crew's policy says happens then.

When one expires stands in the question, as an absolute time, so it is carried and taken back with
it; the run's timer tells when that has come, see `crewlog.graph.timers`. What happens is journaled
as the policy's answer and not as a person's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crewlog.authority.bindings import arguments_hash
from crewlog.definition.times import due_in, moment_words
from crewlog.errors import InterruptNotOpen, NotPermitted
from crewlog.graph import interrupts
from crewlog.graph.bypasses import answer_output
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import StopAnswer
from crewlog.graph.outputs import set_flag
from crewlog.graph.plan import END, NEXT
from crewlog.graph.run_context import RunContext
from crewlog.graph.turns import calls_of
from crewlog.ids import CommandId, InterruptId, NodeName, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.answers import ESCALATED
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Interrupt


def find_interrupt(engine: RunContext, interrupt: str) -> Interrupt:
    """The open interrupt of that id.

    Raises:
        InterruptNotOpen: where it is not open; the message names those that are.
    """
    found = engine.state.interrupts.get(InterruptId(interrupt))
    if found is None:
        is_open = ", ".join(engine.state.interrupts) or "none"
        if known := engine.state.answers.get(InterruptId(interrupt)):
            who = "the crew's policy" if known.expired else known.by
            raise InterruptNotOpen(
                f"the interrupt {interrupt!r} is not open: {who} answered {known.decision!r} "
                f"{moment_words(known.at)}",
                remedy=f"Open now: {is_open}.",
            )
        raise InterruptNotOpen(
            f"the interrupt {interrupt!r} is not open",
            remedy=f"Open now: {is_open}. Somebody may have answered it already.",
        )
    return found


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
    """Records an answer and does what it says.

    Args:
        engine: The run.
        interrupt: The question.
        decision: An option or words; `edit` with `args`.
        by: Who answers.
        command: The command that does it.
        reason: Why.
        args: The arguments that a call is approved with instead of its message's; they are known
            to fit the tool.
        expired: Whether nobody answered in time, and the crew's policy does.

    Raises:
        StopAnswer: where the answer ends the run.
    """
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
        await _refuse(engine, interrupt, by, reason)
    if decision == "retry" and interrupt.kind in ("step_failed", "outcome_unknown"):
        _retry_call(engine, interrupt, by)
        return
    handler = _HANDLERS.get(interrupt.kind)
    if handler is not None:
        await handler(engine, interrupt, decision, by)


def _approval_deadline(engine: Engine, interrupt: Interrupt, decision: str) -> int:
    """Until when a call must have begun that people approve now; 0: no limit."""
    valid = engine.plan.interrupts.valid
    if valid is None or interrupt.kind != "tool_approval" or decision not in ("approve", "edit"):
        return 0
    return due_in(valid, engine.at)


async def _unsure(engine: Engine, asked: Interrupt, decision: str, by: str) -> None:
    entry = engine.state.frontier.get(asked.step) if asked.step else None
    if entry is None or entry.turn is None:
        return
    if decision == "go on":
        await engine.turns.end_confirmed_turn(entry.step, entry.turn.goto)
    elif decision != "again":
        engine.turns.send_to_agent(entry.step, decision, by)


async def _question(engine: Engine, asked: Interrupt, decision: str, by: str) -> None:
    step = asked.step
    entry = engine.state.frontier.get(step) if step is not None else None
    if step is None or entry is None:
        return
    node = engine.plan.node_of(entry)
    if node.decide is not None:
        if decision == "again":
            await engine.repeat_branch(step)
        else:
            await engine.finish(step, NEXT, because=f"{by or 'people'} said {decision!r}")
        return
    if node.route is not None:
        goes = decision if decision in engine.plan.nodes else END
        await engine.finish(step, goes, because=f"{by or 'people'} said {decision!r}")
        return
    first, last = asked.options[0], asked.options[-1]
    because = f"{by or 'people'} said {decision!r}"
    if decision not in asked.options and asked.flag is None and asked.takes_text:
        await _words(engine, asked, decision, by)
        return
    if asked.flag is not None:
        value = True if decision == first else False if decision == last else decision
        set_flag(engine, asked.flag, value, by)
    goes = decision if decision in {*asked.options} & {*engine.plan.nodes} else NEXT
    if goes == NEXT and asked.flag is None and decision == last and len(asked.options) > 1:
        # A "no" that nothing else takes must not read as a "yes".
        engine.record(j.StepCompleted(step=step, because=because))
        raise StopAnswer
    await engine.finish(step, goes, because=because)


async def _words(engine: Engine, asked: Interrupt, said: str, by: str) -> None:
    """Sends the run where a question's words go, and tells them to that agent alone."""
    step, to = asked.step, NodeName(asked.text_option)
    because = f"{by or 'people'} said {excerpt(said)!r}"
    node = engine.plan.nodes.get(to)
    if step is None:
        raise StopAnswer
    if node is None or node.agent is None:  # a change has removed it
        engine.record(j.StepCompleted(step=step, because=because))
        raise StopAnswer
    log = private_log(node.agent)
    engine.say(said, by=by, to=log, message_id=f"{step}/{asked.id}")
    await engine.finish(step, to, because=because)


async def _apply_requirement(engine: Engine, asked: Interrupt, decision: str, by: str) -> None:
    if asked.step is None:
        if decision == "go on":
            await engine.start_incomplete_join(NodeName(asked.detail))
        else:
            engine.record(j.RunCompleted())
        return
    if decision == "skip":
        because = f"skipped: {asked.detail} was not met"
        await engine.skip_step(asked.step, because=because)
        return
    if decision == "again":  # it is ready, and looks for its list once more
        return
    if (flag := answer_output(asked, decision)) is not None:
        set_flag(engine, flag, True, by)
    engine.record(j.RequirementMet(step=asked.step, waived=True))


def _retry_call(engine: Engine, asked: Interrupt, by: str) -> None:
    entry = engine.state.frontier.get(asked.step) if asked.step else None
    if entry is None or (asked.kind == "outcome_unknown" and entry.turn is None):
        return
    engine.record(j.StepRetried(step=entry.step, call=asked.call, by=by))


async def _failed(engine: Engine, asked: Interrupt, decision: str, by: str) -> None:
    if asked.step is None or asked.step not in engine.state.frontier:
        return
    because = "skipped after it failed"
    await engine.skip_step(asked.step, because=because)


async def _outcome(engine: Engine, asked: Interrupt, decision: str, by: str) -> None:
    entry = engine.state.frontier.get(asked.step) if asked.step else None
    if entry is None or entry.turn is None:
        return
    call = next(c for c in entry.turn.calls if c.call == asked.call)
    said = "it was done" if decision == "done" else decision
    await engine.turns.answer_call(
        entry.step, call, f"The tool did not answer. {by or 'A person'} says: {said}", ok=True
    )


async def _refuse(engine: Engine, asked: Interrupt, by: str, reason: str) -> None:
    entry = engine.state.frontier.get(asked.step) if asked.step else None
    call = next((c for c in calls_of(entry) if c.call == asked.call), None)
    if entry is not None and call is not None:
        engine.turns.release_quotas(entry.step, call)
        await engine.turns.answer_call(entry.step, call, interrupts.refusal(by, reason), ok=False)


Handler = Callable[[Engine, Interrupt, str, str], Awaitable[None]]
_HANDLERS: dict[str, Handler] = {
    "ask": _question,
    "requirement": _apply_requirement,
    "step_failed": _failed,
    "outcome_unknown": _outcome,
    "low_confidence": _unsure,
}


POLICY = "policy"
"""Who answers where nobody did."""
UNANSWERED = "nobody answered in time"


async def answer_expired_interrupts(engine: Engine) -> None:
    """Answers the questions whose time is over, as the crew's policy says."""
    for asked in list(engine.state.interrupts.values()):
        state = engine.state
        if state.status != "running" or state.is_draining:
            return
        if asked.id in state.interrupts and engine.timers.has_expired(asked):
            await _answer_by_policy(engine, asked)


async def _answer_by_policy(engine: Engine, asked: Interrupt) -> None:
    policy = engine.plan.interrupts.expiry(asked.kind)
    if policy.default == "escalate" and policy.escalate_to and not asked.escalated:
        _escalate(engine, asked, policy.escalate_to)
        return
    decision = "stop" if policy.default == "stop" else asked.refusal
    try:
        await answer(
            engine, asked, decision, by=POLICY, command=None, reason=UNANSWERED, expired=True
        )
    except StopAnswer:
        reason = f"{asked.id} was not answered in time"
        end_reason = asked.limit_reached or "stopped"
        engine.record(j.StopRequested(by=POLICY, reason=reason, end_reason=end_reason))


def _escalate(engine: Engine, asked: Interrupt, to: str) -> None:
    """Asks others the same, under an id of its own; whoever answers the old one is told so."""
    engine.record(
        j.InterruptAnswered(interrupt=asked.id, decision=ESCALATED, by=POLICY, expired=True)
    )
    number = InterruptId(f"i{engine.state.interrupt_count + 1}")
    again = {"id": number, "position": 0, "deadline": 0, "to": (to,), "escalated": True}
    engine.record(j.InterruptRaised(interrupt=asked.model_copy(update=again)))


def check_may_answer(run: RunContext, asked: Interrupt, by: str) -> None:
    """Checks that somebody may answer a question now.

    Raises:
        InterruptNotOpen: its time is over, and the crew's policy answers it.
        NotPermitted: others are asked.
    """
    if asked.deadline and run.at >= asked.deadline:
        raise InterruptNotOpen(
            f"the interrupt {asked.id!r} expired {moment_words(asked.deadline)}",
            remedy="The crew's policy answers it as soon as the run goes on.",
        )
    if asked.to and by not in asked.to:
        why = "it was escalated to" if asked.escalated else "it is asked of"
        people = ", ".join(asked.to)
        raise NotPermitted(
            f"{by or 'nobody named'!r} may not answer {asked.id!r}: {why} {people}",
            remedy=f"Let {'one of them' if len(asked.to) > 1 else people} answer.",
        )
