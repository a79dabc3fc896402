"""How long a step waits for what it requires, and what happens then."""

from __future__ import annotations

from crewlog.prompt.ast import Cond, Not, Part, Within
from crewlog.prompt.grammar.clauses import read_clause
from crewlog.prompt.grammar.moves import outcome, skips
from crewlog.prompt.grammar.pending import subordinate
from crewlog.prompt.grammar.phrase import Phrase
from crewlog.prompt.grammar.state import State, Timed

BOUNDS = (
    "A step waits so long for what it requires; then it is skipped, people are asked, or another "
    "agent takes over: 'If the models are not ready within two hours, ask me.'"
)
"""What may be said instead."""


def who_waits(state: State, time: Timed) -> str | None:
    """The agent that a bound is said of; none where the bound stands in a condition."""
    if time.agent is None:
        return None
    named = state.names(time.agent) or (state.subject if len(state.subject) == 1 else ())
    return named[0] if named else None


_PEOPLE = frozenset(["i", "we", "you", "nobody", "no", "somebody", "someone", "there"])
"""What people do is asked, and questions have no bound."""


def late(state: State, phrase: Phrase) -> Cond | None:
    """What `if the models are not ready` waits for."""
    parsed = subordinate(state, phrase) if phrase else None
    condition = parsed.condition if parsed is not None else None
    if not isinstance(condition, Not) or {*phrase.text.split()[1:3]} & _PEOPLE:
        return None
    return condition.of


def instead(
    state: State, phrase: Phrase, seconds: float, ready: Cond | None, agent: str | None
) -> Within | None:
    """What happens where something did not come true in time; none where it is not understood."""
    said = phrase.text.split()
    skipped = state.names(" ".join(skips(said)))
    if skipped:
        name = skipped[0]
        if len(skipped) > 1 or name != (agent or name):
            return None
        return Within(wait=seconds, ready=ready, agent=name, otherwise="skip")
    then = outcome(said)
    if phrase.text in {f"skip {each}" for each in ("it", "him", "her", "them")}:
        return Within(wait=seconds, ready=ready, agent=agent, otherwise="skip")
    without = said.index("without") if "without" in said else -1
    if without > 0 and outcome(said[:without]) == "next" and len(said) == without + 2:
        for name in state.names(said[-1]):  # `go on without the painter`
            return Within(wait=seconds, ready=ready, agent=name, otherwise="skip")
    if then == "next" and without >= 0:
        return Within(wait=seconds, ready=ready, agent=agent, otherwise="skip")
    if then == "ask_human":
        return Within(wait=seconds, ready=ready, agent=agent, otherwise="ask_human")
    clause = read_clause(state, phrase, {"otherwise"}) if then is None else None
    if clause is None or len(clause.agents) != 1 or not clause.works or clause.behind:
        return None
    part = Part(agent=clause.agents[0], task=clause.task)
    state.ever.add(part.agent)
    state.subject = clause.agents
    return Within(wait=seconds, ready=ready, agent=agent, takes_over=part)
