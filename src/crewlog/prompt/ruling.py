"""What a prompt says of calls, groups, budgets and questions: rules that only ever take away.

All of it is worked out once the whole prompt has been taken, since who decides a condition, and
which agents there are, may be said later. Nothing here gives a tool to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crewlog.authority.telling import questions
from crewlog.definition import conditions as c
from crewlog.definition.findings import Path, did_you_mean, listed
from crewlog.definition.interrupting import CONFIDENCE
from crewlog.definition.model import (
    EVERY_TOOL,
    GROUP,
    Expiry,
    InterruptPolicy,
    QuestionKind,
    Rule,
)
from crewlog.prompt import ast
from crewlog.prompt.ast import Words
from crewlog.prompt.authority import Granted
from crewlog.prompt.crew import speaks_of
from crewlog.prompt.offered import reaches

if TYPE_CHECKING:
    from crewlog.prompt.assemble import Assembly


class Ruling:
    """Collects what a prompt says of calls, groups, budgets and questions.

    Args:
        crew: The assembly that it is about.
    """

    def __init__(self, crew: Assembly) -> None:
        self._crew = crew
        self._said: list[tuple[ast.Rule, list[str]]] = []
        self._reach: list[ast.Reach] = []
        self._late: dict[QuestionKind | None, ast.Unanswered] = {}
        self._answers: ast.Answers | None = None
        self._yes: ast.Yes | None = None
        self._risk: ast.Risk | None = None
        self.groups: dict[str, tuple[str, ...]] = {}
        self.flags: dict[str, bool] = {}
        """Flags that people set, with their first value."""
        self.rules: list[Rule] = []
        self.places: list[tuple[Words, ...]] = []
        """Where each of the rules stands."""
        self.hosts: dict[str, tuple[str, ...]] = {}
        """What tools may reach, less than they are offered with."""
        self.budgets: dict[str, tuple[float, tuple[Words, ...]]] = {}
        self.words: dict[str, tuple[Words, ...]] = {}
        """Where the groups stand."""

    # -- taking ----------------------------------------------------------------------------------

    def rule(self, said: ast.Rule) -> None:
        """Takes `X must never call T`."""
        for name in said.agents:
            self._crew.member(name, said.words)
        self._said.append((said, self._crew.workers()))

    def group(self, said: ast.Group) -> None:
        """Takes `the group G has X and Y`."""
        for name in said.agents:
            self._crew.member(name, said.words)
        if self._not_ours(said):
            return
        known = self.groups.get(said.name)
        if known is not None and set(known) != set(said.agents):
            say = f"two things are said of who is in the group {said.name!r}"
            self._crew.contradiction(say, (*self.words[f"group {said.name}"], *said.words))
        self.groups[said.name] = said.agents
        self.words.setdefault(f"group {said.name}", said.words)

    def _not_ours(self, said: ast.Group) -> bool:
        """Whether a group is the registry's: a prompt must not lead anybody to what it reads."""
        registry = self._crew.registry
        log = f"{GROUP}{said.name}"
        theirs = any(log in (*a.reads, *a.writes) for a in registry.agents.values())
        if said.name not in registry.groups and not theirs:
            return False
        if set(registry.groups.get(said.name, ())) != set(said.agents):
            say = f"the group {said.name!r} is the registry's, and a prompt cannot change it"
            self._crew.remarks.error("not_offered", say, said.words, "Call it something else.")
        return True

    def budget(self, said: ast.Budget) -> None:
        """Takes `the run spends at most N tokens`."""
        what = next(key for key in ("tokens", "cost", "wall") if getattr(said, key) is not None)
        most: float = getattr(said, what)
        known = self.budgets.get(what)
        if known is not None and known[0] != most:
            say = f"two bounds are said for {what}: {known[0]:g} and {most:g}"
            self._crew.contradiction(say, (*known[1], *said.words))
        offered = getattr(self._crew.registry.limits, what)
        if offered is not None and most > offered:
            say = f"the registry's bound of {what} is {offered:g}, which holds"
            self._crew.remarks.warning("not_offered", say, said.words)
            most = offered
        self.budgets[what] = (most, said.words)

    def unanswered(self, said: ast.Unanswered) -> None:
        """Takes `if nobody answers within T, …`."""
        self._once("what happens where nobody answers", self._late.get(said.about), said)
        self._late[said.about] = said

    def answers(self, said: ast.Answers) -> None:
        """Takes `only P may answer`."""
        agents = [name for name in said.people if name in self._crew.members]
        if agents:
            say = f"{listed(agents)} cannot answer: agents do not"
            self._crew.remarks.error("invalid", say, said.words, "Name the people who may.")
        self._once("who may answer", self._answers, said)
        self._answers = said

    def yes(self, said: ast.Yes) -> None:
        """Takes `a yes holds for T`."""
        self._once("how long a yes holds", self._yes, said)
        self._yes = said

    def risk(self, said: ast.Risk) -> None:
        """Takes `calls of tools of high risk wait for a yes`; of two the stricter holds."""
        if self._risk is None or said.least == "low":
            self._risk = said

    def sure(self, said: ast.Sure) -> None:
        """Takes `X must be at least N % sure`."""
        for name in said.agents:
            member = self._crew.member(name, said.words)
            self._crew.setting(
                name, "ask_below", said.least, f"at least {said.least:g}", said.words
            )
            member.outputs.setdefault(CONFIDENCE, [])

    def reach(self, said: ast.Reach) -> None:
        """Takes `the tool T may reach only H`."""
        self._reach.append(said)

    def _once(self, what: str, known: ast.Statement | None, said: ast.Statement) -> None:
        nowhere: dict[str, object] = {"words": ()}
        if known and known.model_copy(update=nowhere) != said.model_copy(update=nowhere):
            self._crew.contradiction(f"two things are said of {what}", (*known.words, *said.words))

    # -- settling --------------------------------------------------------------------------------

    def settle(self, granted: Granted) -> None:
        """Makes the rules, and says of each tool where it is spoken of."""
        for said, context in self._said:
            self._settle(said, context, granted)
        for reach in self._reach:
            self._narrow(reach, granted)

    def _settle(self, said: ast.Rule, context: list[str], granted: Granted) -> None:
        tools = self._crew.authority.known(said.tools, said.words)
        if said.tools and not tools:
            return
        for group in said.groups:
            known = {**self._crew.registry.groups, **self.groups}
            if group not in known:
                say = f"nothing says who is in the group {group!r}"
                remedy = f"Say it, e.g. 'The group {group} has the writer.'"
                hint = did_you_mean(group, known, remedy)
                self._crew.remarks.error("invalid", say, said.words, hint)
                return
        condition = None
        if said.condition is not None:
            condition = self._condition(said.condition, said, context)
        for tool in tools:
            granted.words[tool] = (*granted.words.get(tool, ()), *said.words)
        agents = (*said.agents, *(f"{GROUP}{name}" for name in said.groups))
        fields: dict[str, Any] = {
            "tool": EVERY_TOOL if not tools else tools[0] if len(tools) == 1 else tuple(tools)
        }
        if agents:
            fields["agents"] = agents
        if said.do != "count":
            fields["do"] = said.do
        if condition is not None:
            fields["if"] = condition
        if said.most is not None:
            fields["quota"] = f"{said.most} per {said.per}"
        rule = Rule.model_validate(fields)
        if rule not in self.rules:
            self.rules.append(rule)
            self.places.append(said.words)

    def _condition(self, said: ast.Cond, rule: ast.Rule, context: list[str]) -> c.Condition:
        """A condition with those who decide it, by the whole prompt.

        Who is ruled should not decide whether: where nobody else is said to, that is remarked.
        """
        match said:
            case ast.Not():
                inner = self._condition(said.of, rule, context)
                return inner.of if isinstance(inner, c.Not) else c.Not(of=inner)
            case ast.Both() | ast.Either():
                parts = tuple(self._condition(part, rule, context) for part in said.of)
                return c.AllOf(of=parts) if isinstance(said, ast.Both) else c.AnyOf(of=parts)
            case ast.Fact():
                owner = said.agent or self._decider(said, rule, context)
                if owner is None and said.name in rule.people_set:
                    self.flags[said.name] = False
                    return c.Fact(name=said.name)
                if said.agent is None and owner is not None:
                    self._assumed(said, owner, rule)
                named = said.model_copy(update={"agent": owner})
                return self._crew.condition(named, context, rule.words)

    def _assumed(self, said: ast.Fact, owner: str, rule: ast.Rule) -> None:
        known = {**self._crew.registry.groups, **self.groups}
        ruled = {*rule.agents, *(name for group in rule.groups for name in known.get(group, ()))}
        if not ruled or owner in ruled:
            self._crew.remarks.warning(
                "assumed",
                f"it is not said who decides {said.name!r}: {owner} is assumed",
                rule.words,
                "Say it, e.g. 'only if the checker approves it'.",
            )

    def _decider(self, fact: ast.Fact, rule: ast.Rule, context: list[str]) -> str | None:
        """Who decides a fact: who does so elsewhere, else who speaks of it, else who worked."""
        members = self._crew.members
        deciding = [name for name, m in members.items() if fact.name in {*m.flags, *m.outputs}]
        if len(deciding) == 1:
            return deciding[0]
        if fact.name in rule.people_set:
            return None
        about = speaks_of(members.values(), fact.about, context)
        return about or (deciding[-1] if deciding else context[-1] if context else None)

    def _narrow(self, said: ast.Reach, granted: Granted) -> None:
        offered = self._crew.registry.tools
        for tool in self._crew.authority.known(said.tools, said.words):
            granted.words[tool] = (*granted.words.get(tool, ()), *said.words)
            wide = [host for host in said.hosts if not reaches(offered[tool].hosts, host)]
            if wide:
                there = offered[tool].hosts
                may = f"It may reach {listed(there)}." if there else "It may reach none."
                say = f"the registry does not let {tool!r} reach {listed(wide)}"
                self._crew.remarks.error("not_offered", say, said.words, may)
            known = self.hosts.get(tool)
            if known is not None and set(known) != set(said.hosts):
                say = f"two things are said of what {tool!r} may reach"
                self._crew.contradiction(say, said.words)
            self.hosts[tool] = said.hosts

    # -- what it comes to ------------------------------------------------------------------------

    def forbidding(self) -> Iterator[tuple[str, ast.Rule]]:
        """The tools that are never called, whatever holds, and what says so."""
        for said, _ in self._said:
            if said.do == "never" and said.condition is None:
                yield from ((tool, said) for tool in said.tools or self._crew.registry.tools)

    def interrupts(self) -> InterruptPolicy:
        """What is said of questions, as a definition has it."""
        fields: dict[str, Any] = {}
        if self._answers is not None:
            fields["people"] = self._answers.people
        if self._yes is not None:
            fields["valid"] = self._yes.wait
        if self._risk is not None:
            fields["approve_risk"] = self._risk.least
        for about, said in self._late.items():
            late = _expiry(said)
            if about is None:
                fields.update(late)
            else:
                fields.setdefault("kinds", {})[about] = Expiry.model_validate(late)
        return InterruptPolicy.model_validate(fields)

    def settings(self) -> Iterator[tuple[str, Path, tuple[Words, ...]]]:
        """The groups, and what is said of questions: in words, where, and by which words."""
        for name, agents in self.groups.items():
            yield f"group {name}: {listed(agents)}", ("groups", name), self.words[f"group {name}"]
        said = [*self._late.values(), self._answers, self._yes, self._risk]
        words = tuple(each for one in said if one is not None for each in one.words)
        for text in questions(self.interrupts()):
            yield f"questions: {text}", ("interrupts",), words

    def tools(self) -> Iterator[str]:
        """The tools that are spoken of here."""
        for rule in self.rules:
            yield from (tool for tool in rule.tools if tool != EVERY_TOOL)
        yield from self.hosts


def _expiry(said: ast.Unanswered) -> dict[str, Any]:
    found: dict[str, Any] = {"expires": said.wait}
    if said.otherwise != "reject":
        found["default"] = said.otherwise
    if said.escalate_to is not None:
        found["escalate_to"] = said.escalate_to
    return found
