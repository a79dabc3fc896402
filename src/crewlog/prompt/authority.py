"""What a prompt says of tools, approvals and who sees what; never more than its registry offers.

Rules about "everyone" hold for agents that are introduced later, too, so all of this is worked out
once the whole prompt has been taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import GROUP, LogDefinition
from crewlog.prompt import ast
from crewlog.prompt.ast import Words
from crewlog.prompt.registry import offered_tools
from crewlog.prompt.standing import CHANNEL

if TYPE_CHECKING:
    from crewlog.prompt.assemble import Assembly


@dataclass
class _Only:
    agents: list[str]
    words: tuple[Words, ...]


@dataclass
class Granted:
    """The tables of a definition, and where each row was said."""

    permissions: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    approvals: dict[str, tuple[str, ...] | None] = field(
        default_factory=dict[str, tuple[str, ...] | None]
    )
    words: dict[str, tuple[Words, ...]] = field(default_factory=dict[str, tuple[Words, ...]])
    """By tool."""
    logs: dict[str, LogDefinition] = field(default_factory=dict[str, LogDefinition])
    """Channels with their readers, where the crew has groups: there, `group:G` is a group's."""


class Authority:
    """Collects the rules of a prompt about tools and logs.

    Args:
        crew: The assembly whose agents they are about.
    """

    def __init__(self, crew: Assembly) -> None:
        self._crew = crew
        self._allowed: list[ast.Allow] = []
        self._denied: list[ast.Deny] = []
        self._asked: list[ast.AskTool] = []
        self._seen: list[ast.Sees] = []
        self._traits: list[ast.Trait] = []

    def allow(self, said: ast.Allow) -> None:
        """Takes `X may use T`."""
        self._introduce(said.agents, said.words)
        self._allowed.append(said)

    def deny(self, said: ast.Deny) -> None:
        """Takes `X may not use T`."""
        self._introduce(said.agents, said.words)
        self._denied.append(said)

    def ask_tool(self, said: ast.AskTool) -> None:
        """Takes `ask me before X uses T`."""
        self._introduce(said.agents, said.words)
        self._asked.append(said)

    def sees(self, said: ast.Sees) -> None:
        """Takes `only X sees Y's notes`."""
        self._introduce((*said.agents, *said.whose), said.words)
        self._seen.append(said)

    def for_all(self, said: ast.Trait) -> None:
        """Takes what is said of every agent."""
        self._traits.append(said)

    def settle(self) -> Granted:
        """Works out what all of it comes to, and gives the agents what is theirs."""
        for trait in self._traits:
            for member in self._crew.members.values():
                member.traits.append(trait.text)
        granted = Granted()
        only = self._give(granted)
        self._take_away(granted, only)
        self._crew.ruling.settle(granted)
        self._void()
        self._approvals(granted)
        self._logs(granted)
        return granted

    # -- tools -----------------------------------------------------------------------------------

    def _introduce(self, agents: Sequence[str], words: tuple[Words, ...]) -> None:
        for name in agents:
            self._crew.member(name, words)

    def known(self, tools: Sequence[str], words: tuple[Words, ...]) -> list[str]:
        """The tools that the registry offers; others are an error."""
        offered = self._crew.registry.tools
        for tool in tools:
            if tool not in offered:
                say = f"the registry offers no tool {tool!r}"
                self._crew.remarks.error(
                    "unknown_tool",
                    say,
                    words,
                    did_you_mean(tool, offered, offered_tools(self._crew.registry)),
                )
        return [tool for tool in tools if tool in offered]

    def _give(self, granted: Granted) -> dict[str, _Only]:
        only: dict[str, _Only] = {}
        for said in self._allowed:
            for tool in self.known(said.tools, said.words):
                names = said.agents or tuple(self._crew.members)
                self._grant(tool, names, said.words)
                granted.words[tool] = (*granted.words.get(tool, ()), *said.words)
                if not said.only:
                    continue
                if tool in only and set(only[tool].agents) != set(names):
                    say = f"two sentences say who alone may use {tool!r}"
                    self._crew.contradiction(say, (*only[tool].words, *said.words))
                only[tool] = _Only(list(names), said.words)
        for said in self._allowed:
            for tool in said.tools:
                if tool not in only or said.only:
                    continue
                if not said.agents or not set(said.agents) <= set(only[tool].agents):
                    say = f"others than those who alone may use {tool!r} are given it"
                    self._crew.contradiction(say, (*only[tool].words, *said.words))
        for tool, rule in only.items():
            granted.permissions[tool] = tuple(rule.agents)
        return only

    def _grant(self, tool: str, names: Sequence[str], words: tuple[Words, ...]) -> None:
        grant = self._crew.registry.tools[tool].grant
        for name in names:
            member = self._crew.members[name]
            if tool in member.all_tools():
                continue
            if grant is not None and name not in grant:
                whom = f"only to {listed(grant)}" if grant else "to nobody"
                self._crew.remarks.error(
                    "not_offered",
                    f"a prompt may not give {tool!r} to {name!r}",
                    words,
                    f"The registry lets prompts give it {whom}.",
                )
                continue
            member.tools.append(tool)

    def _take_away(self, granted: Granted, only: dict[str, _Only]) -> None:
        members = self._crew.members
        for said in self._denied:
            for tool in self.known(said.tools, said.words):
                names = said.agents or tuple(members)
                if not said.agents and tool in only:
                    say = f"nobody and somebody may use {tool!r}"
                    self._crew.contradiction(say, (*only[tool].words, *said.words))
                self._check_not_given(tool, said)
                for name in names:
                    if tool in members[name].tools:
                        members[name].tools.remove(tool)
                granted.words[tool] = (*granted.words.get(tool, ()), *said.words)
                having = only[tool].agents if tool in only else list(members)
                granted.permissions[tool] = tuple(
                    name
                    for name in having
                    if name not in names and tool in members[name].all_tools()
                )

    def _check_not_given(self, tool: str, denied: ast.Deny) -> None:
        for said in self._allowed:
            if tool not in said.tools:
                continue
            for name in dict.fromkeys(denied.agents):
                if name in said.agents:
                    say = f"{name!r} may and may not use {tool!r}"
                    self._crew.contradiction(say, (*said.words, *denied.words))
            if not said.agents and not denied.agents:
                say = f"everyone and no one may use {tool!r}"
                self._crew.contradiction(say, (*said.words, *denied.words))

    def _void(self) -> None:
        """Says which rights a rule takes back: `X may use T` beside `X must never call T`.

        The rule holds, so that nothing is given. A rule for some of those who have it may be an
        exception.
        """
        for tool, never in self._crew.ruling.forbidding():
            for said in self._allowed:
                if tool not in said.tools or not self._takes_back(never, said):
                    continue
                agents = [name for name in said.agents if not never.agents or name in never.agents]
                whom = listed(map(repr, agents)) if agents else "every agent"
                say = f"{whom} may use {tool!r}, and must never call it"
                remedy = "The 'never' holds. Leave out one of the two."
                self._crew.at_odds(say, (*said.words, *never.words), remedy)

    def _takes_back(self, never: ast.Rule, said: ast.Allow) -> bool:
        """Whether a rule forbids what a sentence gives by name."""
        if not never.agents and not never.groups:
            return True
        named = {*said.agents} & {*never.agents}
        groups = [set(members) for members in self._crew.ruling.groups.values()]
        return bool(named) and (named == {*said.agents} or {*said.agents} not in groups)

    def _approvals(self, granted: Granted) -> None:
        used = self.used(granted)
        offered = self._crew.registry.tools
        for said in self._asked:
            tools = self.known(said.tools, said.words)
            if not said.tools:
                tools = [tool for tool in used if offered[tool].risk == "high"]
                if not tools:
                    say = "no tool of high risk is used: there is nothing to ask before"
                    self._crew.remarks.warning("assumed", say, said.words)
            for tool in tools:
                granted.words[tool] = (*granted.words.get(tool, ()), *said.words)
                known = granted.approvals.get(tool, ())
                if not said.agents or known is None:
                    granted.approvals[tool] = None
                else:
                    granted.approvals[tool] = tuple(dict.fromkeys((*known, *said.agents)))
        for tool, whom in self._crew.registry.approvals.items():
            if tool in used:
                known = granted.approvals.get(tool, ())
                if whom is None or known is None:
                    granted.approvals[tool] = None
                else:
                    granted.approvals[tool] = tuple(dict.fromkeys((*known, *whom)))

    def used(self, granted: Granted) -> list[str]:
        """The tools that the crew has or speaks of, in the registry's order."""
        named = {tool for member in self._crew.members.values() for tool in member.all_tools()}
        named |= {tool for node in self._crew.nodes for tool in node.needs}
        named |= {*granted.permissions, *granted.approvals, *self._crew.ruling.tools()}
        return [tool for tool in self._crew.registry.tools if tool in named]

    # -- logs ------------------------------------------------------------------------------------

    def _logs(self, granted: Granted) -> None:
        members = self._crew.members
        known: dict[str, list[str]] = {
            name: list(m.offered.reads) if m.offered else ["public"] for name, m in members.items()
        }
        readers = {name: list(logs) for name, logs in known.items()}
        blind: list[str] = []
        for said in self._seen:
            if said.hidden and not said.whose:
                blind += said.agents
                continue
            for source in said.whose:
                log = self._log_of(source)
                if self._not_ours(source, log, said.words):
                    continue
                members[source].fields["writes"] = (log,)
                self._crew.note(source, f"writes: {log}", said.words)
                if said.hidden:
                    who = [n for n in members if n not in said.agents and n != source]
                else:
                    who = list(said.agents)
                self._channel(granted, log, source, who)
                for name in who:
                    if log not in readers[name]:
                        if self._crew.fixed(name, "reads", (*readers[name], log), said.words):
                            continue
                        readers[name].append(log)
                        self._crew.note(name, f"reads: {log}", said.words)
        for name, logs in readers.items():
            if name in blind:
                members[name].fields["reads"] = ()
            elif logs != known[name]:
                members[name].fields["reads"] = tuple(logs)

    def _log_of(self, source: str) -> str:
        """The log of an agent whose work only some see; `group:` is for groups, if there are."""
        groups = self._crew.ruling.groups or self._crew.registry.groups
        return f"{CHANNEL if groups else GROUP}{source}"

    @staticmethod
    def _channel(granted: Granted, log: str, source: str, who: Sequence[str]) -> None:
        """Says who reads a channel: it would be for all that list it."""
        if not log.startswith(CHANNEL):
            return
        before = granted.logs[source].readers if source in granted.logs else ()
        readers = tuple(dict.fromkeys((*(before or ()), *who)))
        granted.logs[source] = LogDefinition(readers=readers, writers=(source,))

    def _not_ours(self, source: str, log: str, words: tuple[Words, ...]) -> bool:
        """Whether a log is the registry's: a prompt must not lead anybody to what is in it."""
        if self._crew.fixed(source, "writes", (log,), words):
            return True
        offered = self._crew.registry.agents
        whose = [name for name, agent in offered.items() if log in (*agent.reads, *agent.writes)]
        if not whose:
            return False
        say = f"the log {log!r} is the registry's, for {listed(whose)}"
        self._crew.remarks.error("not_offered", say, words, "Call the agent something else.")
        return True
