"""Forms for people: what they are asked, when, and what their answers do."""

from __future__ import annotations

import re

from crewlog.definition import conditions as c
from crewlog.prompt import reading as r
from crewlog.prompt.draft import Unmatched
from crewlog.prompt.phrases import PhraseReader
from crewlog.prompt.slots import PRONOUNS, Slots, items

_ASKS = re.compile(r"(?:whether|if|which|what|who|how|about)\b", re.IGNORECASE)
_SURE = re.compile(r"\bconfiden(?:ce|t)\b|\bsure\b", re.IGNORECASE)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(%|percent|per cent)?")
_UNANSWERED = re.compile(r"(reject|stop)(?: it| the run)?|escalate(?: it)? to (\w+)", re.IGNORECASE)


class QuestionForms(PhraseReader):
    """Takes the forms for people."""

    def take_ask_before(self, slots: Slots) -> None:
        text, what = slots["step"], slots["what"]
        if self._names_tool(text):
            raise Unmatched("a tool is named here")
        shares = self._phrases(text)
        if len(shares) != 1:
            raise Unmatched("the question comes before one step")
        agent = shares[0].agent
        worked = any(step.agent == agent for step in self.steps.values())
        if "only after I have" in slots.text or "subject to" in slots.text:
            self._put(shares)
        elif not worked and not (self._cast_only() and agent in self.cast):
            self.again = True
            self.tentative = self._put(shares)[0].name
        place, at = len(self.questions), len(self.steps)
        self._question(f"Approve {what}?" if what else _go_on(text))
        self._speak(agent)

        def put() -> None:
            update = {"before": (self._step_of(agent, at).name,)}
            self.questions[place] = self.questions[place].model_copy(update=update)

        self._later(put)

    def take_rejected(self, slots: Slots) -> None:
        if not self.questions:
            raise Unmatched("there is no question before")
        last = self.questions[-1]
        options = ("approve", self._latest(self._agent(slots["agent"])))
        update = {"options": options, "clauses": self._with_here(last.clauses)}
        self.questions[-1] = last.model_copy(update=update)

    def take_ask(self, slots: Slots) -> None:
        text, question, only_if = slots["condition"], slots["question"], ""
        if question and not _ASKS.match(question):
            raise Unmatched("say what is asked: 'Ask me whether …'")
        if slots.text.casefold().startswith("otherwise"):
            if self._ends_loop("ask"):
                return
            only_if = c.render_condition(self._other_case())
        elif text:
            if _SURE.search(text):
                raise Unmatched("say it as: 'If its confidence is below 70 %, ask me.'")
            condition = self._condition(text, negated=slots.unless)
            self.chain = [*self.chain, condition]
            only_if = c.render_condition(condition)
        asked = question or (_go_on(text) if text else "Go on?")
        name = self._question(asked, after=tuple(self.tail), if_=only_if)
        self.tail = [r.After(of=(name,), need=1)]

    def take_unsure(self, slots: Slots) -> None:
        said = slots["agents"] or slots["agent"]
        if PRONOUNS.fullmatch(f"{said.strip()} "):
            said = ""
        # Without agents it holds for each that has a step; a number is about the last one.
        agents = self._agents(said)
        if not said and slots["percent"]:
            agents = self._workers()[-1:]
        value = ""
        if slots["percent"]:
            number = _PERCENT.fullmatch(slots["percent"].strip())
            if number is None:
                raise Unmatched(f"{slots['percent']!r} is no number")
            fraction = float(number[1]) / (100 if number[2] or float(number[1]) > 1 else 1)
            value = f"{fraction:g}"

        def put() -> None:
            for name in agents or self._working():
                self._ask_unsure(name, value)

        self._later(put)

    def _ask_unsure(self, agent: str, value: str) -> None:
        """Adds the questions after the steps of an agent that is unsure, or below a confidence."""
        steps = self._steps_of(agent)
        if agent in self.judges and value:
            self._setting([agent], "confidence", value)
            return
        self._output(agent, "confidence" if value else "unsure", "number" if value else "boolean")
        for step in steps:
            self._question(
                f"The {agent.replace('_', ' ')} is unsure. Go on?",
                clauses=tuple(dict.fromkeys((*self.here, *step.clauses[:1]))), at=step.name,
                options=("go on", step.name, "stop"),
                if_=f"not {agent}.confidence >= {value}" if value else f"{agent}.unsure",
            )  # fmt: skip

    def take_people(self, slots: Slots) -> None:
        if slots["people"]:
            people = items(slots["people"])
            if any(map(self.names.name_of, people)):
                raise Unmatched("agents do not answer")
            self._setting([], "may_answer", ", ".join(people))
        elif slots["default"]:
            default = _UNANSWERED.fullmatch(slots["default"])
            if default is None:
                raise Unmatched("it is not clear what happens then")
            value = default[1].casefold() if default[1] else f"escalate:{default[2]}"
            self._setting([], "answer_within", self._duration(slots["duration"]))
            self._setting([], "unanswered", value)
        else:
            self._setting([], "yes_valid", self._duration(slots["duration"]))


def _go_on(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}. Go on?"
