"""Sentences about groups, calls, budgets, questions and reach, as the grammar reads them."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.findings import listed
from crewlog.prompt import ast
from crewlog.prompt.grammar.terms import ABOUT
from crewlog.prompt.phrases import lasting, named, the, unless_or_if


def authority_sentence(said: ast.AnyStatement) -> str:
    """The sentence for a statement; empty for one of another kind."""
    match said:
        case ast.Rule():
            return _rule(said)
        case ast.Group(name=name, agents=agents):
            return f"the group {name} has {named(agents)}"
        case ast.Budget():
            return _budget(said)
        case ast.Unanswered():
            return _unanswered(said)
        case ast.Answers(people=people):
            return f"only {listed(people)} may answer"
        case ast.Yes(wait=wait):
            return f"a yes holds for {lasting(wait)}"
        case ast.Risk(least=least):
            which = "high" if least == "high" else "any"
            return f"calls of tools of {which} risk wait for a person's yes"
        case ast.Sure(agents=agents, least=least):
            return f"{named(agents)} must be at least {_plain(least)} sure of its work"
        case ast.Reach(tools=tools, hosts=hosts):
            return f"the tool {listed(tools)} may reach only {listed(map(_host, hosts))}"
        case _:
            return ""


def _rule(said: ast.Rule) -> str:
    tools = listed(said.tools, "or") if said.tools else "any tool"
    who = _who(said.agents, said.groups)
    when = _when(said)
    if said.do == "ask":
        by = f" by {who}" if who else ""
        bound = f", at most {_times(said)}" if said.most is not None else ""
        return f"calls of {tools}{by} wait for a person's yes{bound}{when}"
    if said.do == "never":
        return f"{f'{who} must never' if who else 'nobody may ever'} call {tools}{when}"
    must = f"{who} must not" if who else "nobody may"
    return f"{must} call {tools} more than {_times(said)}{when}"


def _who(agents: Sequence[str], groups: Sequence[str]) -> str:
    found = [*(the(name) for name in agents), *(f"the group {name}" for name in groups)]
    return listed(found) if found else ""


def _when(said: ast.Rule) -> str:
    """` unless the checker approves it`, ` if 'open' is set`."""
    condition = said.condition
    if condition is None:
        return ""
    fact = condition.of if isinstance(condition, ast.Not) else condition
    if isinstance(fact, ast.Fact) and fact.name in said.people_set:
        return f" {'if' if fact is condition else 'unless'} '{fact.name}' is set"
    return f" {unless_or_if(condition)}"


def _times(said: ast.Rule) -> str:
    return f"{said.most} {'time' if said.most == 1 else 'times'} per {said.per}"


def _budget(said: ast.Budget) -> str:
    if said.tokens is not None:
        return f"the run spends at most {said.tokens} tokens"
    if said.cost is not None:
        return f"the run spends at most {_plain(said.cost)} dollars"
    return f"the run takes at most {lasting(said.wall or 0)}"


def _unanswered(said: ast.Unanswered) -> str:
    about = f" about {ABOUT[said.about]}" if said.about is not None else ""
    then = {"reject": "reject it", "stop": "stop"}.get(said.otherwise)
    then = then or f"escalate to {said.escalate_to}"
    return f"if nobody answers{about} within {lasting(said.wait)}, {then}"


def _plain(number: float) -> str:
    """A number as people write it: no exponent, and every digit that it has."""
    return f"{number:.15f}".rstrip("0").rstrip(".")


def _host(host: str) -> str:
    return f"the subdomains of {host[2:]}" if host.startswith("*.") else host
