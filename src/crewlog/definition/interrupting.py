"""When a run asks people by itself: which calls need a yes, and what is wrong with the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import CrewDefinition, Expiry, ToolDefinition

CONFIDENCE = "confidence"
"""The output or flag by which an agent says how sure it is."""
_RISKS = ("low", "high")


def approvals_of(definition: CrewDefinition) -> Mapping[str, tuple[str, ...] | None]:
    """The tools whose calls wait for a person's yes, by `approvals` and by their risk.

    With the agents that it holds for; null: every agent.
    """
    risk = definition.interrupts.approve_risk
    if risk is None:
        return definition.approvals
    high = {name: None for name, tool in definition.tools.items() if _reaches(tool, risk)}
    return {**definition.approvals, **high}


def _reaches(tool: ToolDefinition, risk: str) -> bool:
    return _RISKS.index(tool.risk) >= _RISKS.index(risk)


def interrupt_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """What is wrong with when a crew's runs ask people, and with what happens then."""
    yield from _expiry(("interrupts",), definition.interrupts)
    for kind, expiry in definition.interrupts.kinds.items():
        yield from _expiry(("interrupts", "kinds", kind), expiry)
    yield from _who_answers(definition)
    for name, agent in definition.agents.items():
        if agent.ask_below is not None and CONFIDENCE not in {
            *outputs_of(agent),
            *agent.writes_flags,
        }:
            say = f"agent {name!r} has 'ask_below', and cannot say how sure it is"
            remedy = f"Let it: outputs: [{CONFIDENCE}], and say in its prompt to set it, 0 to 1."
            yield Finding(("agents", name, "ask_below"), say, remedy, at="key")


def _who_answers(definition: CrewDefinition) -> Iterator[Finding]:
    """People who are asked and cannot answer: with a signed policy, all but its principals."""
    if definition.policy is None or not definition.policy.signed:
        return
    principals = definition.policy.principals
    can = [name for name, each in principals.items() if "answer" in each.rights]
    for path, name in _asked(definition):
        if name in can:
            continue
        if name in principals:
            say = f"{name!r} is to answer questions, and has not the right 'answer'"
            remedy = f"Give it: policy.principals.{name}.rights, with answer."
        else:
            say = f"{name!r} is to answer questions, and is no principal of the signed policy"
            who = f"Who can answer: {listed(can)}." if can else "Nobody has the right 'answer'."
            remedy = did_you_mean(name, can, who)
        yield Finding(path, say, remedy)


def _asked(definition: CrewDefinition) -> Iterator[tuple[Path, str]]:
    asks = definition.interrupts
    for place, name in enumerate(asks.people):
        yield ("interrupts", "people", place), name
    if asks.escalate_to is not None:
        yield ("interrupts", "escalate_to"), asks.escalate_to
    for kind, expiry in asks.kinds.items():
        if expiry.escalate_to is not None:
            yield ("interrupts", "kinds", kind, "escalate_to"), expiry.escalate_to


def _expiry(path: tuple[str, ...], expiry: Expiry) -> Iterator[Finding]:
    if expiry.default == "escalate" and expiry.escalate_to is None:
        say = "a question is to be escalated, and nobody is named to whom"
        yield Finding((*path, "default"), say, "Name them, e.g. escalate_to: ana.")
    if expiry.default != "escalate" and expiry.escalate_to is not None:
        say = f"'escalate_to' has no effect, since the default is {expiry.default!r}"
        yield Finding((*path, "escalate_to"), say, "Say default: escalate, or remove it.", at="key")
    if expiry.expires is None and "default" in expiry.model_fields_set:
        say = "'default' has no effect, since the question never expires"
        yield Finding((*path, "default"), say, "Say how long it is open, e.g. expires: 2h.")
