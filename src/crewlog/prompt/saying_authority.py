"""Groups, rules over calls, budgets, questions and reach of a crew, as statements.

What no sentence says of them is named, each thing by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crewlog.authority.rules import rule_words, rules_of
from crewlog.authority.telling import questions
from crewlog.definition import conditions as c
from crewlog.definition.findings import listed
from crewlog.definition.interrupting import CONFIDENCE
from crewlog.definition.model import (
    EVERY_TOOL,
    GROUP,
    CrewDefinition,
    Expiry,
    InterruptPolicy,
    Limits,
    LogDefinition,
    Rule,
)
from crewlog.definition.quotas import quota_of
from crewlog.prompt import ast
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.names import agent_name, plain
from crewlog.prompt.offered import reaches
from crewlog.prompt.registry import Registry
from crewlog.prompt.standing import CHANNEL, with_standing

if TYPE_CHECKING:
    from crewlog.prompt.saying import Teller

_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PERSON = re.compile(r"[A-Za-z][\w-]{0,62}[A-Za-z0-9]|[A-Za-z]")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*")
_TAKEN = word_set("""
a an the this that of in is has and or with who which called named for to by any each every no group
groups one whole first second next same other another i me we us you he she it they them nobody
somebody someone anyone anybody everyone everybody people person human humans agent agents not set
flag tool tools
""")
"""Words that are no name of a group, a person or a flag."""


class AuthorityTeller:
    """Says who is in which group, what holds for calls, budgets, questions and reach.

    Args:
        teller: Who says the work.
    """

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._crew: CrewDefinition = teller.crew
        self._registry = teller.registry
        offered = teller.registry or Registry()
        bare = teller.crew.model_copy(update={"groups": {}, "rules": ()})
        self._given = with_standing(bare, offered.groups, offered.rules)
        self._flags: set[str] = set()
        """Flags that people set, and that a rule speaks of."""

    def tell(self) -> None:
        """Says groups, rules and questions."""
        for name, members in self._crew.groups.items():
            self._group(name, members)
        known = {rule_words(rule) for rule in rules_of(self._given)}
        for rule in rules_of(self._crew):
            if rule_words(rule) not in known:
                self._rule(self._crew.rules[rule.place], rule.place, rule_words(rule))
        self._questions(self._crew.interrupts)
        flags = [name for name in self._crew.flags if name not in self._flags]
        if flags:
            self._teller.unsaid(f"the first values of flags: {listed(sorted(flags))}")
        logs = [name for name, log in self._crew.logs.items() if not self.is_own(name, log)]
        if logs:
            self._teller.unsaid(f"who reads and writes {listed(sorted(logs))}")

    def _add(self, said: ast.AnyStatement) -> None:
        self._teller.said.rules.append(said)

    # -- groups and logs -------------------------------------------------------------------------

    def _group(self, name: str, members: Sequence[str]) -> None:
        if self._given.groups.get(name) == members:
            return
        ours = name not in self._given.groups and members
        offered = self._registry.agents.values() if self._registry is not None else ()
        log = f"{GROUP}{name}"
        theirs = any(log in (*agent.reads, *agent.writes) for agent in offered)
        if ours and not theirs and _WORD.fullmatch(name) and name not in _TAKEN:
            self._add(ast.Group(name=name, agents=tuple(members)))
        else:
            self._teller.unsaid(f"the group {name!r}")

    def log_of(self, name: str) -> str:
        """The log of an agent whose work only some may see, as a prompt makes it."""
        return f"{CHANNEL if self._crew.groups else GROUP}{name}"

    def is_own(self, name: str, log: LogDefinition) -> bool:
        """Whether a log is that of an agent, and for those who list it: a prompt can say so."""
        agents = self._crew.agents
        reading = [n for n, agent in agents.items() if f"{CHANNEL}{name}" in agent.reads]
        return (
            bool(self._crew.groups)
            and name in agents
            and agents[name].writes == (f"{CHANNEL}{name}",)
            and log.writers == (name,)
            and set(log.readers or ()) == set(reading)
        )

    # -- rules -----------------------------------------------------------------------------------

    def _rule(self, rule: Rule, place: int, words: str) -> None:
        said = self._said(rule)
        if said is None:
            self._teller.unsaid(f"the rule that {words}")
            return
        if rule.reason:
            self._teller.unsaid(f"why rules[{place}] holds: {rule.reason}")
        self._add(said)

    def _said(self, rule: Rule) -> ast.Rule | None:
        if rule.do == "always" and rule.quota is None:
            return None
        tools = () if rule.tool == EVERY_TOOL else rule.tools
        if not set(tools) <= set(self._crew.tools):
            return None
        agents = tuple(name for name in rule.agents or () if not name.startswith(GROUP))
        groups = tuple(n.removeprefix(GROUP) for n in rule.agents or () if n.startswith(GROUP))
        if (*agents, *(f"{GROUP}{name}" for name in groups)) != (rule.agents or ()):
            return None  # agents come first, as they are said
        unsaid = len(self._teller.said.unsaid)
        condition = people = None
        if rule.if_ is not None:
            people = self._by_people(rule.if_)
            plain_ = people is not None
            condition = _asked(rule.if_) if plain_ else self._teller.condition(rule.if_, [])
        if len(self._teller.said.unsaid) > unsaid:
            return None
        quota = None if rule.quota is None else quota_of(rule.quota)
        return ast.Rule(
            do="count" if rule.do == "always" else rule.do,
            tools=tools,
            agents=agents,
            groups=groups,
            condition=condition,
            people_set=() if people is None else (people,),
            most=quota and quota.most,
            per=quota and quota.per,
        )

    def _by_people(self, condition: c.Condition) -> str | None:
        """The flag that people set and that a condition asks for; none where it is another one."""
        fact = condition.of if isinstance(condition, c.Not) else condition
        if not isinstance(fact, c.Fact) or fact.operator is not None or fact.agent is not None:
            return None
        name = fact.name
        plainly = _WORD.fullmatch(name) and name not in _TAKEN
        told = self._crew.flags.get(name) is False and not self._teller.writers.get(name)
        if not plainly or not told or name in {*self._crew.agents, *self._crew.tools}:
            return None
        self._flags.add(name)
        return name

    # -- questions -------------------------------------------------------------------------------

    def _questions(self, policy: InterruptPolicy) -> None:
        before = InterruptPolicy()
        if policy.people and all(map(self._is_person, policy.people)):
            self._add(ast.Answers(people=policy.people))
            policy = policy.model_copy(update={"people": ()})
        if policy.valid is not None:
            self._add(ast.Yes(wait=policy.valid))
            policy = policy.model_copy(update={"valid": None})
        if policy.approve_risk is not None:
            self._add(ast.Risk(least=policy.approve_risk))
            policy = policy.model_copy(update={"approve_risk": None})
        if self._late(None, policy):
            plainly = {"expires": None, "default": "reject", "escalate_to": None}
            policy = policy.model_copy(update=plainly)
        kinds = {key: each for key, each in policy.kinds.items() if not self._late(key, each)}
        policy = policy.model_copy(update={"kinds": kinds})
        if policy != before:
            for words in questions(policy):
                self._teller.unsaid(f"of what a run asks people by itself: {words}")

    def _late(self, about: str | None, expiry: Expiry) -> bool:
        """Says what happens where nobody answers; whether it could."""
        if expiry.expires is None:
            return False
        if expiry.escalate_to is not None and not self._is_person(expiry.escalate_to):
            return False
        if (expiry.default == "escalate") != (expiry.escalate_to is not None):
            return False
        self._add(
            ast.Unanswered.model_validate(
                {
                    "wait": expiry.expires,
                    "otherwise": expiry.default,
                    "escalate_to": expiry.escalate_to,
                    "about": about,
                }
            )
        )
        return True

    def _is_person(self, name: str) -> bool:
        """Whether a name can be said, and nothing else is called so."""
        if not _PERSON.fullmatch(name) or name.lower() in _TAKEN:
            return False
        words = {word for agent in self._crew.agents for word in (agent, *agent.split("_"))}
        words |= {word for tool in self._crew.tools for word in (tool, *plain(tool).split("_"))}
        return name.lower() not in words and agent_name(name) not in words

    # -- budgets, reach, and how sure an agent is ------------------------------------------------

    def budgets(self, limits: Limits, most: Limits) -> None:
        """Says what a run may spend, where that is less than the registry's bounds."""
        for what in ("tokens", "cost", "wall"):
            has, offered = getattr(limits, what), getattr(most, what)
            if has == offered:
                continue
            if has is None or (offered is not None and has > offered):
                self._teller.unsaid(f"the bound of {what}: {has}")
            else:
                self._add(ast.Budget.model_validate({what: has}))

    def sure(self, name: str, least: float | None, offered: float | None) -> None:
        """Says how sure an agent must be."""
        if least == offered:
            return
        own = self._crew.agents[name]
        if least is None or offered is not None or CONFIDENCE not in own.outputs:
            self._teller.unsaid(f"ask_below of the agent {name!r}")
            return
        self._teller.outputs[name].add(CONFIDENCE)
        self._add(ast.Sure(agents=(name,), least=least))

    def reach(self, tool: str) -> bool:
        """Says what a tool may reach; whether the crew's tool is the registry's but for that."""
        offered = self._registry.tools.get(tool) if self._registry is not None else None
        made = self._crew.tools[tool]
        if offered is None or made != offered.definition().model_copy(update={"hosts": made.hosts}):
            return False
        if not made.hosts or not all(
            _HOST.fullmatch(h) and reaches(offered.hosts, h) for h in made.hosts
        ):
            return False
        self._add(ast.Reach(tools=(tool,), hosts=made.hosts))
        return True


def _asked(condition: c.Condition) -> ast.Cond:
    """A flag that people set, or that it is not set."""
    if isinstance(condition, c.Not):
        return ast.Not(of=_asked(condition.of))
    assert isinstance(condition, c.Fact)  # noqa: S101
    return ast.Fact(name=condition.name)
