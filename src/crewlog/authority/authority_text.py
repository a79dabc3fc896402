"""What groups, logs, rules, questions and the policy of a crew say, in words, to people."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.authority.permissions import permission_text, rules_of
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition, Expiry, InterruptPolicy, Limits
from crewlog.definition.times import duration_words

_KINDS = {
    "ask": "questions of the flow",
    "requirement": "what cannot come true",
    "step_failed": "failed steps",
    "outcome_unknown": "calls of which nobody knows the outcome",
    "tool_approval": "calls that wait for a yes",
    "low_confidence": "low confidence",
    "limit": "limits",
    "budget": "budgets",
    "mcp_approval": "tools of servers that nobody has approved",
    "manual": "what people ask for",
}
_LATE = {"reject": "they count as rejected", "stop": "the run ends"}


def terms(definition: CrewDefinition) -> Iterator[tuple[str, str]]:
    """What holds in a crew besides its agents, tools and flow: a label and a line each.

    Args:
        definition: A valid definition.
    """
    for name, members in definition.groups.items():
        yield "groups", f"{name}: {listed(members) or 'nobody'}"
    for name, log in definition.logs.items():
        yield "logs", f"{name}: read by {_who(log.readers)}, written by {_who(log.writers)}"
    for name, artifact in definition.artifacts.items():
        seen, changed = _all(artifact.readers), _all(artifact.writers)
        yield "artifacts", f"{name}: seen by {seen}, changed by {changed}"
    for rule in rules_of(definition):
        yield "rules", permission_text(rule) + (f" ({rule.reason})" if rule.reason else "")
    yield from (("interrupts", each) for each in questions(definition.interrupts))
    if bounds := _bounds(definition.limits):
        yield "limits", bounds
    if definition.policy is not None:
        yield from (("policy", each) for each in commands(definition))
    if definition.timezone != "UTC":
        yield "timezone", definition.timezone


def questions(policy: InterruptPolicy) -> Iterator[str]:
    """When a run asks by itself, who may answer, and what happens where nobody does."""
    if policy.people:
        yield f"only {listed(policy.people)} may answer"
    if policy.approve_risk is not None:
        which = "of high risk" if policy.approve_risk == "high" else "of any risk"
        yield f"calls of tools {which} wait for a yes"
    if policy.valid is not None:
        yield f"a yes to a call holds for {duration_words(policy.valid)}"
    if late := _late(policy):
        yield f"questions wait {late}"
    for kind, expiry in sorted(policy.kinds.items()):
        yield f"{_KINDS[kind]}: they wait {_late(expiry) or 'until somebody answers'}"


def commands(definition: CrewDefinition) -> Iterator[str]:
    """Who may command a crew's runs."""
    policy = definition.policy
    if policy is None or not policy.signed:
        yield "open: whoever reaches the server commands"
        return
    for name, principal in policy.principals.items():
        yield f"{name} may {listed(principal.rights) or 'do nothing'}, by signed commands"


def _who(named: tuple[str, ...] | None) -> str:
    return "all that list it" if named is None else listed(named) or "people alone"


def _all(named: tuple[str, ...] | None) -> str:
    return "every agent" if named is None else listed(named) or "people alone"


def _late(expiry: Expiry) -> str:
    if expiry.expires is None:
        return ""
    then = _LATE.get(expiry.default) or f"they go to {expiry.escalate_to or 'whoever is named'}"
    return f"{duration_words(expiry.expires)}, then {then}"


def _bounds(limits: Limits) -> str:
    parts = [
        f"{limits.tokens:,} tokens" if limits.tokens is not None else "",
        f"${limits.cost:g}" if limits.cost is not None else "",
        duration_words(limits.wall) if limits.wall is not None else "",
    ]
    found = [part for part in parts if part]
    return f"people are asked after {listed(found, 'or')}" if found else ""
