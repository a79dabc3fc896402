"""Tools, readers and groups of a reading: never more than the registry offers.

Rights for every agent hold for all agents of the crew, so all of this is worked out once these are
known. Of two clauses that contradict each other the stricter holds; `verify` reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from crewlog.definition import conditions as c
from crewlog.definition.conditions import ConditionSyntaxError, parse_condition
from crewlog.definition.findings import Path, listed
from crewlog.definition.model import EVERY_TOOL, GROUP, LogDefinition, Rule
from crewlog.prompt import reading as r
from crewlog.prompt.agents import Member
from crewlog.prompt.offered import reaches
from crewlog.prompt.registry import Registry
from crewlog.prompt.standing import CHANNEL

Table = dict[str, "tuple[str, ...] | None"]


class Rights:
    """Works the rights out.

    Args:
        read: The reading.
        registry: What the prompt may use.
        members: The crew's agents, who are given their tools and logs here.
        fault: Takes what cannot be done.
    """

    def __init__(
        self,
        read: r.Reading,
        registry: Registry,
        members: dict[str, Member],
        fault: Callable[..., None],
    ) -> None:
        self._read = read
        self._registry = registry
        self._members = members
        self._fault = fault
        self.permissions: Table = {}
        self.approvals: Table = {}
        self.rules: tuple[Rule, ...] = ()
        self.groups: dict[str, tuple[str, ...]] = {}
        self.logs: dict[str, LogDefinition] = {}
        self.tools: dict[str, dict[str, Any]] = {}
        """The tools that the crew has or names, each with its narrowed fields."""
        self.sources: list[tuple[str, Path, tuple[int, ...]]] = []

    def settle(self, needed: Iterable[str]) -> None:
        """Works all of it out.

        Args:
            needed: Tools without which steps are skipped.
        """
        self._group()
        only = self._give()
        self._take_away(only)
        self._rule()
        hosts = self._hosts()
        named = {tool for member in self._members.values() for tool in member.all_tools()}
        named |= {*needed, *self.permissions, *hosts}
        named |= {t for rule in self.rules for t in rule.tools if t != EVERY_TOOL}
        named |= {t for right in self._read.rights for t in right.tools}
        used = [tool for tool in self._registry.tools if tool in named]
        self._approve(used)
        self.tools = {tool: {"hosts": hosts[tool]} if tool in hosts else {} for tool in used}
        self._see()

    def _agents(self, right: r.Right) -> list[str]:
        """The agents that a right is about, groups resolved."""
        found = self._resolved(right.agents)
        here = [name for name in dict.fromkeys(found) if name in self._members]
        if len(here) < len(set(found)):
            gone = [name for name in found if name not in self._members]
            say = f"a right names {listed(gone)}, which has no step"
            self._fault("unsound", say, "Add a step that it does.", right.clauses)
        return here if right.agents else list(self._members)

    def _resolved(self, names: Iterable[str]) -> list[str]:
        """Agents, with those of the groups that are named."""
        groups = {**self._registry.groups, **self.groups}
        found: list[str] = []
        for name in names:
            found += groups.get(name.removeprefix(GROUP), ()) if name.startswith(GROUP) else [name]
        return found

    def _known(self, right: r.Right) -> list[str]:
        """The registry's tools that a right is about."""
        offered = self._registry.tools
        if EVERY_TOOL in right.tools:
            return list(offered)
        risky = r.RISKY in right.tools
        named = {*right.tools}
        return [t for t, tool in offered.items() if t in named or (risky and tool.risk == "high")]

    def _group(self) -> None:
        for setting in self._read.settings:
            if setting.key != "group":
                continue
            name, agents = setting.value, setting.agents
            log = f"{GROUP}{name}"
            offered = self._registry.agents.values()
            theirs = any(log in (*agent.reads, *agent.writes) for agent in offered)
            if name in self._registry.groups or theirs:
                if set(self._registry.groups.get(name, ())) != set(agents):
                    say = f"the group {name!r} is the registry's: a prompt cannot change it"
                    self._fault("not_offered", say, "Call it something else.", setting.clauses)
                continue
            self.groups[name] = tuple(a for a in agents if a in self._members)
            self.sources.append(("settings", ("groups", name), setting.clauses))

    # -- tools -----------------------------------------------------------------------------------

    def _give(self) -> dict[str, list[str]]:
        """Gives the tools; returns the agents of each tool that is limited by `only`."""
        only: dict[str, list[str]] = {}
        for right in self._read.rights:
            if right.effect == "never":
                continue
            agents = self._agents(right)
            if right.effect == "ask" and not right.agents:
                continue  # it is about all agents that have the tool
            for tool in self._known(right):
                self._grant(tool, agents, right)
                self.sources.append(("rights", ("tools", tool), right.clauses))
                if right.effect == "only":
                    known = only.get(tool)
                    # Of two the stricter holds: those whom both name.
                    only[tool] = agents if known is None else [a for a in known if a in agents]
        for tool, agents in only.items():
            self.permissions[tool] = tuple(agents)
            for name, member in self._members.items():
                if name not in agents and tool in member.tools:
                    member.tools.remove(tool)
        return only

    def _grant(self, tool: str, agents: Sequence[str], right: r.Right) -> None:
        grant = self._registry.tools[tool].grant
        for name in agents:
            member = self._members[name]
            if tool in member.all_tools():
                continue
            if grant is not None and name not in grant:
                if tool not in right.tools:
                    continue  # of all tools those that the registry lets prompts give
                whom = f"only to {listed(grant)}" if grant else "to no agent"
                say = f"a prompt may not give {tool!r} to {name!r}"
                how = f"The registry lets prompts give it {whom}."
                self._fault("not_offered", say, how, right.clauses)
                continue
            member.tools.append(tool)

    def _take_away(self, only: dict[str, list[str]]) -> None:
        for right in self._read.rights:
            if right.effect != "never" or right.if_ or right.quota or EVERY_TOOL in right.tools:
                continue
            agents = self._agents(right)
            for tool in self._known(right):
                for name in agents:
                    if tool in self._members[name].tools:
                        self._members[name].tools.remove(tool)
                self.sources.append(("rights", ("permissions", tool), right.clauses))
                having = only.get(tool, list(self._members))
                before = self.permissions.get(tool)
                self.permissions[tool] = tuple(
                    name
                    for name in having
                    if name not in agents
                    and tool in self._members[name].all_tools()
                    and (before is None or name in before)
                )

    def _rule(self) -> None:
        rules: list[Rule] = []
        for right in self._read.rights:
            every = EVERY_TOOL in right.tools
            if not (right.if_ or right.quota or (every and right.effect in {"never", "ask"})):
                continue
            tools = [EVERY_TOOL] if every else self._known(right)
            if not tools:
                continue
            condition = self._condition(right)
            if right.if_ and condition is None:
                continue
            fields: dict[str, Any] = {"tool": tools[0] if len(tools) == 1 else tuple(tools)}
            if right.agents:
                fields["agents"] = right.agents
            for more in _rules_of(right, condition):
                try:
                    rule = Rule.model_validate({**fields, **more})
                except ValueError:
                    continue  # `verify` reports it
                if rule not in rules:
                    rules.append(rule)
                self.sources.append(("rights", ("rules", rules.index(rule)), right.clauses))
        self.rules = tuple(rules)

    def place_rules(self, places: Sequence[int]) -> None:
        """Puts the sources of the rules where the definition has these rules.

        Args:
            places: The index in the definition for each of `rules`.
        """
        self.sources = [
            (what, ("rules", places[int(path[1])]) if path[0] == "rules" else path, clauses)
            for what, path, clauses in self.sources
        ]

    def _condition(self, right: r.Right) -> c.Condition | None:
        if not right.if_:
            return None
        try:
            parsed = parse_condition(right.if_)
        except ConditionSyntaxError:
            return None

        def owned(fact: c.Fact) -> c.Fact:
            owners = [name for name, member in self._members.items() if member.sets(fact.name)]
            if fact.agent is None and len(owners) == 1:
                return fact.model_copy(update={"agent": owners[0]})
            people = any(not o.agent and o.name == fact.name for o in self._read.outputs)
            known = fact.agent in owners if fact.agent is not None else people
            if not known:
                say = f"no agent sets {fact.name!r}"
                how = "Add an output with the agent that sets it, and its clauses."
                self._fault("unsound", say, how, right.clauses)
            return fact

        return c.mapped(parsed, owned)

    def _hosts(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for setting in self._read.settings:
            if setting.key != "hosts":
                continue
            tool, _, hosts = setting.value.partition(":")
            tool, named = (
                tool.strip(),
                tuple(host.strip() for host in hosts.split(",") if host.strip()),
            )
            offered = self._registry.tools.get(tool)
            if offered is None or not named:
                say = f"{setting.value!r} names no tool and its hosts"
                self._fault("invalid", say, "Write 'TOOL: example.com'.", setting.clauses)
                continue
            wide = [host for host in named if not reaches(offered.hosts, host)]
            if wide:
                may = (
                    f"It may reach {listed(offered.hosts)}."
                    if offered.hosts
                    else "It may reach none."
                )
                say = f"the registry does not let {tool!r} reach {listed(wide)}"
                self._fault("not_offered", say, may, setting.clauses)
                continue
            both = tuple(host for host in named if host in found.get(tool, named))
            if not both:
                say = f"two clauses limit the hosts of {tool!r}, and have no host in common"
                self._fault("contradiction", say, "Keep one of the two.", setting.clauses)
            found[tool] = both or found[tool]
        return found

    def _approve(self, used: Sequence[str]) -> None:
        offered = self._registry.tools
        for right in self._read.rights:
            if right.effect != "ask" or right.if_ or EVERY_TOOL in right.tools:
                continue
            tools = self._known(right)
            if r.RISKY in right.tools:
                tools = [tool for tool in used if offered[tool].risk == "high"]
                if not tools:
                    say = "no tool of high risk is used: there is nothing to ask before"
                    self._fault("unsound", say, "Name the tools.", right.clauses)
            for tool in tools:
                if not any(tool in member.all_tools() for member in self._members.values()):
                    say = f"calls of {tool!r} need an approval, and no agent has the tool"
                    how = "State which agents may use it."
                    self._fault("unsound", say, how, right.clauses)
                self._ask(tool, self._agents(right) if right.agents else None)
                self.sources.append(("rights", ("approvals", tool), right.clauses))
        for tool, whom in self._registry.approvals.items():
            if tool in used:
                here = None if whom is None else [name for name in whom if name in self._members]
                self._ask(tool, here)

    def _ask(self, tool: str, agents: Sequence[str] | None) -> None:
        known = self.approvals.get(tool, ())
        if agents is None or known is None:
            self.approvals[tool] = None
        else:
            self.approvals[tool] = tuple(dict.fromkeys((*known, *agents)))

    # -- who sees what ---------------------------------------------------------------------------

    def _see(self) -> None:
        """Gives an agent whose notes only some see a log of its own, which these read."""
        allowed: dict[str, list[str]] = {}
        clauses: dict[str, tuple[int, ...]] = {}
        for view in self._read.readers:
            names = list(self._members) if view.of == "*" else [view.of]
            for of in names:
                if of not in self._members:
                    continue
                clauses[of] = (*clauses.get(of, ()), *view.clauses)
                known = allowed.get(of, list(self._members))
                readers = self._resolved(view.readers)
                allowed[of] = [name for name in known if name in readers and name != of]
                self.sources.append(("readers", ("agents", of, "writes"), view.clauses))
        for name, member in self._members.items():
            others = [of for of in self._members if of != name]
            if others and all(name not in allowed.get(of, self._members) for of in others):
                views = tuple(n for of in others for n in clauses.get(of, ()))
                if not is_fixed(member, "reads", (), self._fault, views):
                    member.fields["reads"] = ()
        blind = {name for name, member in self._members.items() if member.fields.get("reads") == ()}
        for of, readers in allowed.items():
            # An agent that sees no notes reads no log: then these need no log of their own.
            if {*self._members} - {of, *readers} <= blind:
                continue
            self._own_log(of, readers, clauses[of])

    def _own_log(self, of: str, readers: Sequence[str], clauses: tuple[int, ...]) -> None:
        groups = self.groups or self._registry.groups
        log = f"{CHANNEL if groups else GROUP}{of}"
        agents = self._registry.agents
        whose = [name for name, agent in agents.items() if log in (*agent.reads, *agent.writes)]
        if whose:
            say = f"the log {log!r} is the registry's, for {listed(whose)}"
            self._fault("not_offered", say, "Call the agent something else.", clauses)
            return
        if is_fixed(self._members[of], "writes", (log,), self._fault, clauses):
            return
        self._members[of].fields["writes"] = (log,)
        if groups:
            self.logs[of] = LogDefinition(readers=tuple(readers), writers=(of,))
        for name in readers:
            member = self._members[name]
            offered = member.offered.reads if member.offered else ("public",)
            known: tuple[str, ...] = member.fields.get("reads", offered)
            reads = (*known, log)
            if log not in known and not is_fixed(member, "reads", reads, self._fault, clauses):
                member.fields["reads"] = reads


def is_fixed(
    member: Member,
    key: str,
    value: Any,
    fault: Callable[..., None],
    clauses: tuple[int, ...],
) -> bool:
    """Whether the registry sets a field of its own agent otherwise; then that is a fault.

    Args:
        member: The agent.
        key: The field.
        value: What the prompt would set it to.
        fault: Takes the fault.
        clauses: The clauses that would set it.
    """
    offered = member.offered
    if offered is None or key not in offered.model_fields_set or getattr(offered, key) == value:
        return False
    say = f"the registry sets {key!r} of its agent {member.name!r}, and a prompt cannot change it"
    fault("not_offered", say, "Leave it out, or change the registry.", clauses)
    return True


def _rules_of(right: r.Right, condition: c.Condition | None) -> Iterator[dict[str, Any]]:
    """What a right on a condition, or one that counts, says of calls."""
    when = {} if condition is None else {"if": condition}
    if right.effect == "ask":
        yield {"do": "ask", **when, **({"quota": right.quota} if right.quota else {})}
    elif right.effect == "never":
        yield {**when, **({"quota": right.quota} if right.quota else {"do": "never"})}
    else:
        if condition is not None:
            yield {"do": "never", "if": _negated(condition)}
        if right.quota:
            yield {"quota": right.quota}


def _negated(condition: c.Condition) -> c.Condition:
    return condition.of if isinstance(condition, c.Not) else c.Not(of=condition)
