"""Forms of rights: which tools agents may call, and whose notes they see."""

from __future__ import annotations

import re
from functools import partial

from crewlog.definition import conditions as c
from crewlog.definition.findings import listed
from crewlog.prompt import reading as r
from crewlog.prompt.draft import Unmatched
from crewlog.prompt.phrases import PhraseReader
from crewlog.prompt.slots import Slots, opposite

_PERIODS = ("run", "hour", "day")


class RightForms(PhraseReader):
    """Takes the forms of rights."""

    def take_tools(self, slots: Slots) -> None:
        if slots["both"]:
            agents, tools = self._agents_and_tools(slots["both"])
        else:
            agents, tools = self._agents(slots["agents"]), self._tools(slots["tools"])
        self._right("may", agents, tools)
        self.spoken = agents or self.spoken

    def _agents_and_tools(self, text: str) -> tuple[list[str], list[str]]:
        """The agents and the tools of `the scout web_search`."""
        for gap in re.finditer(r"\s+(?:use\s+)?", text):
            try:
                return self._agents(text[: gap.start()]), self._tools(text[gap.end() :])
            except Unmatched:
                continue
        raise Unmatched("it is not clear who is given what")

    def take_only(self, slots: Slots) -> None:
        agents = self._agents(slots["agents"])
        self._right("only", agents, self._tools(slots["tools"]))
        self.spoken = agents or self.spoken

    def take_never(self, slots: Slots) -> None:
        tools, agents = self._tools(slots["tools"]), self._agents(slots["agents"])
        self._right("never", agents, tools)
        self.spoken = agents or self.spoken

    def take_ask_tool(self, slots: Slots) -> None:
        agents = self._agents(slots["agents"])
        self._right("ask", agents, self._tools(slots["tools"]) if slots["tools"] else [r.RISKY])

    def take_rule(self, slots: Slots) -> None:
        tools, agents = self._tools(slots["tools"]), self._agents(slots["agents"])
        condition = self._condition(slots["condition"], requirement=True)
        if slots.unless:
            condition = opposite(condition)
        self._right(
            "may" if slots["agents"] else "never", agents, tools, if_=c.render_condition(condition)
        )

    def take_quota(self, slots: Slots) -> None:
        period = slots["period"].strip().casefold()
        if period not in _PERIODS:
            raise Unmatched(f"calls are counted per {listed(_PERIODS, 'or')}")
        tools = self._tools(slots["tools"])
        count = self._bound(slots["bound"]) if slots["agents"] else self._count(slots["number"])
        agents = self._agents(slots["agents"])
        quota = f"{count} per {period}"
        self._right("may" if slots["agents"] else "never", agents, tools, quota=quota)

    def take_needs(self, slots: Slots) -> None:
        tools = self._tools(slots["tools"])
        for agent in self._agents(slots["agents"]):
            self._later(partial(self._need, agent, tools))

    def _need(self, agent: str, tools: list[str]) -> None:
        step = self._step_of(agent, 0)
        step.needs = tuple(tools)
        step.clauses += self.here

    def take_sight(self, slots: Slots) -> None:
        agents = self._agents(slots["agents"])
        owner = self._agent(slots["owner"]) if slots["owner"] else ""
        is_only = slots.text.casefold().startswith("only")

        def see(of: str, readers: list[str]) -> None:
            self.readers.append(self._made(r.Readers, of=of, readers=tuple(readers)))

        def put() -> None:
            if not agents:  # later, so that no other form takes the sentence
                raise Unmatched("no agent is named")
            working = self._working()
            if owner:
                others = [n for n in working if n not in agents and n != owner]
                see(owner, agents if is_only else others)
                return
            for blind in agents:
                see("*", [other for other in working if other != blind])

        self._later(put)
