"""Questions that nobody answered in time: what the crew's policy says happens then.

When one expires stands in the question, as an absolute time, so it is carried and taken back with
it; the run's timer tells when that has come, see `crewlog.graph.waits`. What happens is journaled
as the policy's answer and not as a person's.
"""

from __future__ import annotations

from crewlog.definition.times import moment_words
from crewlog.errors import InterruptNotOpen, NotPermitted
from crewlog.graph.answers import StopAnswer, answer
from crewlog.graph.engine import Engine
from crewlog.graph.facts import RunFacts
from crewlog.ids import InterruptId
from crewlog.state import journal as j
from crewlog.state.answered import ESCALATED
from crewlog.state.model import Interrupt

POLICY = "policy"
"""Who answers where nobody did."""
UNANSWERED = "nobody answered in time"


async def answer_expired_interrupts(engine: Engine) -> None:
    """Answers the questions whose time is over, as the crew's policy says."""
    for asked in list(engine.state.interrupts.values()):
        state = engine.state
        if state.status != "running" or state.still:
            return
        if asked.id in state.interrupts and engine.waits.has_expired(asked):
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
        end_reason = asked.bound or "stopped"
        engine.record(j.StopRequested(by=POLICY, reason=reason, end_reason=end_reason))


def _escalate(engine: Engine, asked: Interrupt, to: str) -> None:
    """Asks others the same, under an id of its own; whoever answers the old one is told so."""
    engine.record(
        j.InterruptAnswered(interrupt=asked.id, decision=ESCALATED, by=POLICY, expired=True)
    )
    number = InterruptId(f"i{engine.state.asked + 1}")
    again = {"id": number, "position": 0, "due": 0, "to": (to,), "escalated": True}
    engine.record(j.InterruptRaised(interrupt=asked.model_copy(update=again)))


def check_may_answer(run: RunFacts, asked: Interrupt, by: str) -> None:
    """Checks that somebody may answer a question now.

    Raises:
        InterruptNotOpen: its time is over, and the crew's policy answers it.
        NotPermitted: others are asked.
    """
    if asked.due and run.at >= asked.due:
        raise InterruptNotOpen(
            f"the interrupt {asked.id!r} expired {moment_words(asked.due)}",
            remedy="The crew's policy answers it as soon as the run goes on.",
        )
    if asked.to and by not in asked.to:
        why = "it was escalated to" if asked.escalated else "it is asked of"
        people = ", ".join(asked.to)
        raise NotPermitted(
            f"{by or 'nobody named'!r} may not answer {asked.id!r}: {why} {people}",
            remedy=f"Let {'one of them' if len(asked.to) > 1 else people} answer.",
        )
