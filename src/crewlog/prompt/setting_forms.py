"""Forms of settings: of agents, of the whole run, and the shapes that builders make."""

from __future__ import annotations

import re

from crewlog.prompt import reading as r
from crewlog.prompt.draft import Share, Unmatched
from crewlog.prompt.names import plain
from crewlog.prompt.phrases import PhraseReader
from crewlog.prompt.slots import Slots, items

_SHAPES = {
    "works next": ("supervisor", "supervisor", "workers"),
    "each message": ("hub", "router", "agents"),
    "which of": ("stages", "supervisor", "stages"),
    "splits": ("team", "planner", "workers"),
}
"""Builders by the words for them, with their options for the lead and for the others."""
_STATE = re.compile(r"\b(?:done|ready|finished|by|approved|rejected)\b")
_DUTY = re.compile(r"\b(?:should|must|needs to|has to)\b", re.IGNORECASE)


class SettingForms(PhraseReader):
    """Takes the forms of settings."""

    def take_model(self, slots: Slots) -> None:
        self._setting(self._agents(slots["agents"]), "model", slots["model"])

    def take_inside(self, slots: Slots) -> None:
        agent, bound = self._agent(slots["agent"]), slots["bound"]
        value = f"review_loop:{self._bound(bound)}" if bound else "planner_executor"
        self._setting([agent], "pattern", value)

    def take_switch(self, slots: Slots) -> None:
        off = re.search(r"switched\s+off", slots.text, re.IGNORECASE)
        self._setting(self._agents(slots["agents"]), "enabled", "false" if off else "true")

    def take_limit(self, slots: Slots) -> None:
        text = slots.text.casefold()
        if slots["duration"]:
            self._setting([], "max_time", self._duration(slots["duration"]))
            return
        key = "max_steps"
        if "dollar" in text or "token" in text:
            key = "max_cost" if "dollar" in text else "max_tokens"
        elif text.endswith("at a time") and not slots["number2"]:
            key = "max_parallel"
        self._setting([], key, str(self._count(slots["number"])))
        if slots["number2"]:
            self._setting([], "max_parallel", str(self._count(slots["number2"])))

    def take_trait(self, slots: Slots) -> None:
        agents = self._agents(slots["agents"])
        self._check_known(agents)
        if _STATE.search(slots["text"]) and not _DUTY.search(slots.text):
            raise Unmatched("this is no trait")
        self._guard(slots["text"], trait=True)
        for agent in agents or self._working():
            self._speak(agent)
            self.agents[agent][1].append(slots.behind("agents"))
        self.spoken = agents or self.spoken

    def take_group(self, slots: Slots) -> None:
        agents = [self._agent(each) for each in items(slots["names"])]
        self._setting(agents, "group", plain(slots["group"]))

    def take_conversation(self, slots: Slots) -> None:
        if slots["agent"]:
            agents = [self._agent(slots["agent"]), *self._agents(slots["others"])]
            self._setting(agents, "answers_first", "")
            return
        if "apology" in slots.text and not any(use.builder == "hub" for use in self.uses):
            raise Unmatched("no crew that people talk with comes before")
        value = self._duration(slots["duration"]) if slots["duration"] else ""
        self._setting([], "conversation", value)

    def take_turn(self, slots: Slots) -> None:
        if slots["agent"]:
            agent = self._agent(slots["agent"])
            self._put([Share(agent, slots.behind("agent"))])
            self._setting([agent], "decides", "terminate")
            self.judges.append(agent)
            return
        if not slots["agents"]:
            if not self.settings or self.settings[-1].key != "model_calls":
                raise Unmatched("nothing before says how often a model is called")
            self._setting(self.settings[-1].agents, "at_cap", "end")
            return
        agents = self._agents(slots["agents"])
        if slots["number"]:
            self._setting(agents, "window", str(self._count(slots["number"])))
        elif slots["bound"]:
            self._setting(agents, "model_calls", str(self._bound(slots["bound"])))
        elif slots["artifact"]:
            self._setting(agents, "artifact", plain(slots["artifact"]))
        else:
            self._setting(agents, "runs", ", ".join(self._tools(slots["tools"])))
        self.spoken = agents or self.spoken

    # -- shapes ----------------------------------------------------------------------------------

    def take_builder(self, slots: Slots) -> None:
        lead = self._agent(slots["lead"])
        names = self._new_names(slots["names"])
        if lead in names:
            raise Unmatched("these are no names of agents")
        builder, first, others = next(
            shape for words, shape in _SHAPES.items() if words in slots.text.casefold()
        )
        options = {first: (lead,), others: tuple(names)}
        if slots["bound"]:
            options["at_most"] = (str(self._bound(slots["bound"])),)
        if slots["number"]:
            options["at_once"] = (str(self._count(slots["number"])),)
        if builder == "hub":
            self._setting([], "conversation", "")
        self._speak(lead, *names)
        self._describe({lead, *names})
        name = f"{builder}_{len(self.uses) + 1}" if self.uses else builder
        use = self._made(
            r.Use, name=name, builder=builder, after=tuple(self.tail), options=_options(options)
        )
        self.uses.append(use)
        self.before = self._workers()
        self._end_block([name])
        self.spoken = names

    def _describe(self, agents: set[str]) -> None:
        """Lets the sentences so far describe agents, where they say no work of others."""
        described = [step for step in self.steps.values() if step.agent in agents]
        if len(described) < len(self.steps):
            return
        for step in described:
            clauses, about = self.agents[step.agent]
            clauses += [n for n in step.clauses if n not in clauses]
            about.append(step.task)
        self.steps.clear()
        self.counts.clear()
        self.tail, self.last = [], []

    def take_builder_more(self, slots: Slots) -> None:
        if not self.uses:
            raise Unmatched("no sentence before it says how the crew works as a whole")
        use = self.uses[-1]
        more: dict[str, tuple[str, ...]] = {}
        wanted = "team"
        if slots["fallback"]:
            wanted, more["fallback"] = "hub", (self._agent(slots["fallback"]),)
        elif slots["responder"]:
            wanted, more["responder"] = "stages", (self.names.add(slots["responder"]),)
        elif slots["what"]:
            more["approve"] = ("true",)
        elif slots["checks"]:
            more["checks"] = tuple(map(self.names.add, items(slots["checks"])))
        elif slots["reviewer"]:
            more["reviewer"] = (self._agent(slots["reviewer"]),)
            if slots["bound"]:
                more["rounds"] = (str(self._bound(slots["bound"])),)
        elif slots["number"]:
            more["at_once"] = (str(self._count(slots["number"])),)
        else:
            wanted, more["at_most"] = "hub", (str(self._bound(slots["bound"])),)
        if use.builder != wanted or not all(map(all, more.values())):
            raise Unmatched("this does not belong to the shape before")
        for key in ("fallback", "responder", "checks", "reviewer"):
            self._speak(*more.get(key, ()))
        options = {option.key: option.values for option in use.options} | more
        update = {"options": _options(options), "clauses": (*use.clauses, *self.here)}
        self.uses[-1] = use.model_copy(update=update)


def _options(values: dict[str, tuple[str, ...]]) -> tuple[r.Option, ...]:
    return tuple(r.Option(key=key, values=each) for key, each in values.items())
