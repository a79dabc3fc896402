"""Describes the groups, logs, rules, interrupts, limits and policy of a crew."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.authority.permissions import definition_permissions, permission_text
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition, Expiry, InterruptPolicy, Limits
from crewlog.definition.times import duration_words

_KINDS = {
    "ask": "questions of the flow",
    "requirement": "requirements that cannot be met",
    "step_failed": "failed steps",
    "outcome_unknown": "calls with an unknown outcome",
    "tool_approval": "calls that wait for a yes",
    "low_confidence": "low confidence",
    "limit": "limits",
    "budget": "budgets",
    "mcp_approval": "tools of MCP servers without an approval",
    "manual": "interrupts that people requested",
}
_DEFAULTS = {"reject": "they count as rejected", "stop": "the run ends"}


def authority_lines(definition: CrewDefinition) -> Iterator[tuple[str, str]]:
    """The settings of a crew besides agents, tools and flow, each as a label and a line.

    Args:
        definition: A valid definition.
    """
    for name, members in definition.groups.items():
        yield "groups", f"{name}: {listed(members) or 'nobody'}"
    for name, log in definition.logs.items():
        yield (
            "logs",
            f"{name}: read by {_log_agents(log.readers)}, written by {_log_agents(log.writers)}",
        )
    for name, artifact in definition.artifacts.items():
        readers, writers = _artifact_agents(artifact.readers), _artifact_agents(artifact.writers)
        yield "artifacts", f"{name}: seen by {readers}, changed by {writers}"
    for rule in definition_permissions(definition):
        yield "rules", permission_text(rule) + (f" ({rule.reason})" if rule.reason else "")
    yield from (("interrupts", each) for each in interrupt_lines(definition.interrupts))
    if limits := _limits(definition.limits):
        yield "limits", limits
    if definition.policy is not None:
        yield from (("policy", each) for each in policy_lines(definition))
    if definition.timezone != "UTC":
        yield "timezone", definition.timezone


def interrupt_lines(policy: InterruptPolicy) -> Iterator[str]:
    """Yields when a run interrupts, who may answer, and what happens without an answer."""
    if policy.people:
        yield f"only {listed(policy.people)} may answer"
    if policy.approve_risk is not None:
        which = "of high risk" if policy.approve_risk == "high" else "of any risk"
        yield f"calls of tools {which} wait for a yes"
    if policy.valid is not None:
        yield f"a yes to a call holds for {duration_words(policy.valid)}"
    if text := _expiry(policy):
        yield f"questions wait {text}"
    for kind, expiry in sorted(policy.kinds.items()):
        yield f"{_KINDS[kind]}: they wait {_expiry(expiry) or 'until somebody answers'}"


def policy_lines(definition: CrewDefinition) -> Iterator[str]:
    """Yields the principals that may command the runs of a crew, with their rights."""
    policy = definition.policy
    if policy is None or not policy.signed:
        yield "open: whoever reaches the server commands"
        return
    for name, principal in policy.principals.items():
        yield f"{name} may {listed(principal.rights) or 'do nothing'}, by signed commands"


def _log_agents(named: tuple[str, ...] | None) -> str:
    return "all that list it" if named is None else listed(named) or "people alone"


def _artifact_agents(named: tuple[str, ...] | None) -> str:
    return "every agent" if named is None else listed(named) or "people alone"


def _expiry(expiry: Expiry) -> str:
    if expiry.expires is None:
        return ""
    then = _DEFAULTS.get(expiry.default) or f"they go to {expiry.escalate_to or 'whoever is named'}"
    return f"{duration_words(expiry.expires)}, then {then}"


def _limits(limits: Limits) -> str:
    parts = [
        f"{limits.tokens:,} tokens" if limits.tokens is not None else "",
        f"${limits.cost:g}" if limits.cost is not None else "",
        duration_words(limits.wall) if limits.wall is not None else "",
    ]
    amounts = [part for part in parts if part]
    return f"people are asked after {listed(amounts, 'or')}" if amounts else ""
