"""The slots of the forms: their words as agents, tools, numbers, durations and conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from crewlog.definition import conditions as c
from crewlog.definition.times import parse_time
from crewlog.prompt.conditions import Said, read_condition
from crewlog.prompt.draft import Draft, Unmatched
from crewlog.prompt.nouns import EVERYONE, does_things
from crewlog.prompt.vocabulary import (
    MONTHS,
    NUMBERS,
    durations_in,
    phrase_stems,
    stems_of,
    words_of,
)

PRONOUNS = re.compile(
    r"(?:it|they|he|she|both|both of them|all of them|each of them|all three|these|those)\s+",
    re.IGNORECASE,
)
_EVERY_AGENT = re.compile(r"(?:every|each|all|any)(?: of the)? agents?")
_NAME = re.compile(r"(?P<noun>(?i:the|an?)\s+[\w'-]+(?:\s+[\w'-]+)?)|[A-Z][\w-]*")
"""Words that may be an agent that nothing introduces."""
_TIME = re.compile(
    rf"(?:(?P<year>\d{{4}})-(?P<month>\d\d?)-(?P<day>\d\d?)"
    rf"|(?P<day2>\d\d?)(?:st|nd|rd|th)?\s+(?P<name>{'|'.join(MONTHS)})\w*\s+(?P<year2>\d{{4}}))"
    r"(?:,?\s+(?:at\s+)?|T)(?P<hour>\d\d?)(?::(?P<minute>\d\d))?\s*(?P<zone>UTC|GMT|Z|[+-]\d\d:?\d\d)",
    re.IGNORECASE,
)
_OUTCOMES = {
    "ask": r"(?:please )?(?:ask|consult|tell) (?:me|us|a human)|it is my call|I decide",
    "end": r"(?:we |the run |just )?(?:gives? up|stops?|ends?|forget it)(?: there| here)?",
    "fail": r"(?:the run )?fails?",
    "next": r"(?:we |the run |just )?(?:go(?:es)? on|continues?|carry on|carries on|move on|moves on)",
}


class Slots(dict[str, str]):
    """The words in the slots of a form; a slot that the sentence leaves out is empty."""

    def __init__(self, found: re.Match[str]) -> None:
        super().__init__({name: said for name, said in found.groupdict().items() if said})
        self.text = found.group()
        self._found = found

    def __missing__(self, name: str) -> str:
        return ""

    def behind(self, name: str) -> str:
        """The words of the sentence behind a slot."""
        return self.text[self._found.end(name) :].strip()

    @property
    def unless(self) -> bool:
        """Whether `unless` stands before the condition."""
        before = self.text[: self._found.start("condition")]
        return before.rstrip().casefold().endswith("unless")


_TURNED = re.compile(r"\b(?:no|not|none|nothing|without|except|every|each|any)\b", re.IGNORECASE)
_RELATIVE = re.compile(r"(?:who|which|that|whose)\b", re.IGNORECASE)
_LONGEST_NAME = 4
"""Words from which a text is more of a sentence than a name."""
_VAGUE = re.compile(
    r"\b(?:between|at\s+most|at\s+least|up\s+to|more\s+than|less\s+than|about|before|after|or)\b",
    re.IGNORECASE,
)
"""Words that make more of a duration than one time."""


class SlotReader(Draft):
    """A draft that reads the words of slots."""

    def _agents(self, text: str) -> list[str]:
        """The agents of a slot: known names or who was spoken of; none for everyone, or no words."""
        text = text.strip()
        folded = re.sub(r"^(?:the|all of the)\s+", "", text.casefold())
        everyone = folded.replace(" ", "_") in EVERYONE or _EVERY_AGENT.fullmatch(folded)
        if not text or everyone:
            return []
        if PRONOUNS.fullmatch(f"{folded} "):
            if not self.spoken:
                raise Unmatched(f"it is not clear who {text!r} is")
            return list(self.spoken)
        found: list[str] = []
        for each in map(str.strip, items(text)):
            name = self.names.name_of(each)
            said = None if name else _NAME.fullmatch(each)
            if said is not None and (
                said["noun"] is None or len(each.split()) == 2 or does_things(each.split()[-1])
            ):
                name = self.names.add(each)
            if not name:
                if _RELATIVE.match(each):
                    raise Unmatched(
                        "a relative clause is read in no form: make two sentences of it"
                    )
                long = len(each.split()) > _LONGEST_NAME
                raise Unmatched(f"{each!r} is no agent that this reader knows", weak=long)
            found.append(name)
        if not found:
            raise Unmatched("no agent is named")
        return list(dict.fromkeys(found))

    def _agent(self, text: str) -> str:
        found = self._agents(text)
        if len(found) != 1:
            raise Unmatched(f"{text.strip()!r} is not one agent")
        return found[0]

    def _check_known(self, agents: Sequence[str]) -> None:
        """Refuses a name that may be a thing: `a claim comes in`."""
        for name in agents:
            offered = name in self.registry.agents or name in self.agents
            doer = does_things(name.rpartition("_")[2])
            if not offered and not doer and self.names.roles[name] < 2:
                raise Unmatched(
                    f"it is not clear whether {name!r} is an agent",
                    unlisted=name,
                )

    def _new_names(self, text: str) -> list[str]:
        """The agents that a list introduces."""
        names = [self.names.add(each) for each in items(text)]
        if not all(names):
            raise Unmatched("these are no names of agents")
        return names

    # -- tools, numbers, times -------------------------------------------------------------------

    def _tools(self, text: str) -> list[str]:
        """The tools of a slot, by name, by the words of the name or by the registry's words."""
        found: list[str] = []
        for each in items(
            re.sub(r"^(?:the tools?|both)\s+", "", text.strip(), flags=re.IGNORECASE)
        ):
            tool = self._tool(each)
            if not tool:
                raise Unmatched(f"the registry offers no tool for {each.strip()!r}")
            found.append(tool)
        if not found:
            raise Unmatched("no tool is named")
        return list(dict.fromkeys(found))

    def _tool(self, text: str) -> str:
        plain_text = text.strip().strip("`'\"")
        if plain_text in self.registry.tools:
            return plain_text
        if _TURNED.search(plain_text):
            return ""  # `no deploy`, `not publish`
        said = phrase_stems(plain_text)
        exact = [name for phrase, name in self.tool_phrases if phrase == said]
        near = {name for phrase, name in self.tool_phrases if phrase and {*phrase} == {*said}}
        return exact[0] if exact else near.pop() if len(near) == 1 else ""

    def _bound(self, text: str) -> int:
        """`at most 3 times`, `twice at most` as a number; 0 where there is no bound."""
        if not text:
            return 0
        said = [word for word in words_of(text) if word in NUMBERS or word.isdecimal()]
        if len(said) != 1:
            raise Unmatched(f"{text!r} is no bound")
        return self._count(said[0])

    def _count(self, text: str) -> int:
        word = text.strip().casefold().replace(",", "")
        number = NUMBERS.get(word, float(word) if word.isdecimal() else 0)
        if number != int(number) or number < 1:
            raise Unmatched(f"{text!r} is no number")
        return int(number)

    def _duration(self, text: str) -> str:
        said = durations_in(text)
        vague = _VAGUE.search(text)
        if not said or vague or re.sub(r"[\w.,/ -]+", "", text).strip():
            raise Unmatched(f"{text!r} is no duration")
        seconds = max(said)
        for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
            if seconds >= size and seconds % size == 0:
                return f"{seconds / size:g}{unit}"
        return f"{seconds:g}s"

    def _time(self, text: str) -> str:
        """`1 December 2026 at 9:00 UTC`, `2026-12-01 09:00 UTC` as a time with its zone."""
        found = _TIME.fullmatch(text.strip())
        iso = text
        if found is not None:
            month = int(found["month"] or MONTHS.index(found["name"][:3].casefold()) + 1)
            day = int(found["day"] or found["day2"])
            zone = {"utc": "Z", "gmt": "Z", "z": "Z"}.get(found["zone"].casefold(), found["zone"])
            clock = f"{int(found['hour']):02}:{found['minute'] or '00'}{zone}"
            iso = f"{found['year'] or found['year2']}-{month:02}-{day:02}T{clock}"
        try:
            return parse_time(iso)
        except ValueError as error:
            raise Unmatched(f"{text!r} is no time: {error}") from None

    def _outcome(self, text: str) -> str:
        """What can come after a loop, by its words; empty where they are none of it."""
        return key_of(_OUTCOMES, text.strip())

    # -- conditions ------------------------------------------------------------------------------

    def _condition(
        self, text: str, *, negated: bool = False, requirement: bool = False
    ) -> c.Condition:
        """A condition of which each fact has the agent that decides it; its outputs are declared."""
        said = read_condition(text, self._agent_of)
        if said is None:
            raise Unmatched(f"{text!r} is no condition that this reader knows")
        found = self._decided(said, requirement=requirement)
        return opposite(found) if negated else found

    def _agent_of(self, text: str) -> str:
        """The agent of some words in a condition; `she` is who was spoken of last."""
        if text.strip().casefold() in {"it", "she", "he"} and len(self.spoken) == 1:
            return self.spoken[0]
        return self.names.name_of(text)

    def _decided(self, said: Said, *, requirement: bool) -> c.Condition:
        parts = tuple(self._decided(each, requirement=requirement) for each in said.of)
        match said.kind:
            case "not":
                return opposite(parts[0])
            case "all":
                return c.AllOf(of=parts)
            case "any":
                return c.AnyOf(of=parts)
            case _:
                return self._fact(said, requirement=requirement)

    def _fact(self, said: Said, *, requirement: bool) -> c.Fact:
        name = said.name
        if name == "goal_reached" and self.judges:
            return c.Fact(agent=self.judges[-1], name="done")
        if name == "kind" and self.chain and said.operator == "==":
            asked = next((f for f in c.facts_in(self.chain[-1]) if f.operator == "=="), None)
            name = asked.name if asked is not None else name
        owner = said.agent or self._owner(name, said.about, requirement=requirement)
        kind: Literal["boolean", "number", "choice"] = "boolean"
        if said.operator is not None:
            kind = "choice" if isinstance(said.value, str) else "number"
        self._output(owner, name, kind, said.value if kind == "choice" else None)
        return c.Fact(agent=owner, name=name, operator=said.operator, value=said.value)

    def _owner(self, name: str, about: str, *, requirement: bool) -> str:
        """The agent that decides an output which the words give to no agent."""
        chained = [fact for when in self.chain for fact in c.facts_in(when) if fact.name == name]
        if chained and chained[-1].agent and not requirement:
            return chained[-1].agent
        workers = self._workers()
        among = self._working() if requirement else workers
        speaking = [agent for agent in among if about and self._speaks_of(agent, about)]
        if speaking and (requirement or len(workers) > 1):
            near = [agent for agent in speaking if agent in workers]
            return (near or speaking)[0]
        if not workers:
            raise Unmatched(f"no step comes before that could set {name!r}")
        return workers[-1]

    def _speaks_of(self, agent: str, about: str) -> bool:
        wanted = stems_of(about)
        tasks = " ".join(step.task for step in self.steps.values() if step.agent == agent)
        return bool(wanted) and wanted <= stems_of(tasks)

    def _other_case(self, why: str = "there is no condition before") -> c.Condition:
        """The condition of `otherwise`: none of the conditions of the branches holds."""
        if not self.chain:
            raise Unmatched(why)
        if len(self.chain) == 1:
            return opposite(self.chain[0])
        return c.Not(of=c.AnyOf(of=tuple(self.chain)))


def items(text: str) -> list[str]:
    """The items of `a, b and c`."""
    parts = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s*&\s*", text.strip())
    return [re.sub(r"^both\s+", "", part) for part in parts if part.strip()]


def opposite(condition: c.Condition) -> c.Condition:
    """The condition that holds where another does not."""
    return condition.of if isinstance(condition, c.Not) else c.Not(of=condition)


def key_of(patterns: dict[str, str], text: str) -> str:
    """The key of the first pattern that a text matches as a whole; empty where none does."""
    found = (key for key, each in patterns.items() if re.fullmatch(each, text, re.IGNORECASE))
    return next(found, "")
