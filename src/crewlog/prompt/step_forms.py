"""Forms of the flow: who works, in what order, on what condition, and where the run goes back."""

from __future__ import annotations

import re

from crewlog.definition import conditions as c
from crewlog.definition.model import NAME_PATTERN
from crewlog.prompt import reading as r
from crewlog.prompt.draft import DraftStep, Share, Unmatched
from crewlog.prompt.names import crew_name, plain
from crewlog.prompt.phrases import BESIDE, PhraseReader, side_by_side
from crewlog.prompt.slots import Slots, items, key_of

_FINISHED = (
    r"(?:is|are|has|have|has been|have been)?\s*(?:both |all )?"
    r"(?:done|finished|complete|finish|finishes|back|ready)"
)
_ALL_DONE = re.compile(
    r"(?:both|all|they|all of them|both of them|all (?:of )?(?:that|this|it)|all \w+|everything)"
    rf"(?:'s)?\s+{_FINISHED}",
    re.IGNORECASE,
)
_SOME_DONE = re.compile(
    r"(?:the first|(?P<count>one|either|any|two|three|four|\d+))"
    rf"(?: of (?:them|these|the \w+))?\s+{_FINISHED}",
    re.IGNORECASE,
)
_AGENTS_DONE = re.compile(rf"(?P<agents>.+?)\s+{_FINISHED}", re.IGNORECASE)
_POLICIES = {
    "continue": r"(?:just )?(?:continue|go on|carry on)(?: without (?:it|them))?",
    "fail": r"(?:the run )?(?:stop|stops|fail|fails)",
    "ask": r"ask (?:me|a human)",
}
"""What happens where an agent fails."""


class StepForms(PhraseReader):
    """Takes the forms of the flow."""

    def take_crew(self, slots: Slots) -> None:
        self.crew = crew_name(slots["name"])

    def take_agents(self, slots: Slots) -> None:
        names = self._new_names(slots["names"])
        self._speak(*names)
        self.cast += names

    def take_step(self, slots: Slots) -> None:
        bare = slots["bare"]
        shares = self._phrases(bare or slots["step"], adds=not bare, bare=bool(bare))
        if BESIDE.search(shares[0].task) and len({share.agent for share in shares}) > 1:
            for share in shares[1:]:
                share.beside = share.beside or share.task == shares[0].task
        if any(BESIDE.search(s.task) and not s.beside for s in shares[1:]):
            raise Unmatched("it is not clear which of these work side by side")
        self._put(side_by_side(shares))

    def take_parallel(self, slots: Slots) -> None:
        second = self._phrases(slots["second"])
        if slots["first"]:
            first = self._phrases(slots["first"])
            second[0].beside = True
            self.again = True
            self._put(side_by_side([*first, *second]))
            return
        if not self.last:
            raise Unmatched("no step comes before that this could be beside")
        self._put(side_by_side(second[:1]), beside=True)
        self._put(second[1:])

    def take_each(self, slots: Slots) -> None:
        maker = self._agent(slots["maker"]) if slots["maker"] else ""
        noun = plain(slots["items"]) or _plural(plain(slots["item"]))
        if not re.fullmatch(NAME_PATTERN, noun):
            raise Unmatched("it is not clear what the list is of")
        shares = self._phrases(slots["step"])
        if not maker:
            speaking = [a for a in self._working() if self._speaks_of(a, noun)]
            workers = self._workers()
            if not speaking and not workers:
                raise Unmatched(f"no agent makes the list of {noun}")
            maker = next((a for a in speaking if a in workers), (speaking or workers[-1:])[0])
        self._output(maker, noun, "list")
        self._put(shares, each=f"{maker}.{noun}")

    # -- conditions and loops --------------------------------------------------------------------

    def take_then(self, slots: Slots) -> None:
        outcome = self._outcome(slots["then"])
        if not outcome:
            raise Unmatched("another form has this sentence", weak=True)
        self._end_loop(outcome)

    def _end_loop(self, outcome: str) -> None:
        if not self._ends_loop(outcome):
            raise Unmatched("there is no loop before that this could end")

    def take_if_step(self, slots: Slots) -> None:
        if not slots["condition"]:
            other = self._other_case(
                "there is no condition before that this could be the other case of"
            )
            if outcome := self._outcome(slots["step"]):
                self._end_loop(outcome)
            else:
                shares = self._take_over(slots["step"])
                self._put(shares, beside=True, if_=c.render_condition(other))
            return
        shares = self._take_over(slots["step"])
        # A condition on the same output as that of the steps said last is another branch.
        steps = [self.steps[name] for name in self.last if name in self.steps]
        is_branch = any(step.if_ for step in steps) and self._is_whole()
        self.chain = self.chain if is_branch else []
        before = self.chain
        when = self._condition(slots["condition"], negated=slots.unless)
        branch = bool(before) and _same_fact(before[-1], when)
        self._put(shares, beside=branch, if_=c.render_condition(when))
        self.chain = [*(before if branch else []), when]

    def _take_over(self, text: str) -> list[Share]:
        if elliptic := re.fullmatch(r"(?P<who>(?:the|an?)\s.+?)\s+does(?: so| it)?", text):
            return [Share(self._agent(elliptic["who"]), "takes it")]
        return self._phrases(text)

    def take_back(self, slots: Slots) -> None:
        at_most = self._bound(slots["bound"])
        then = self._outcome(slots["then"])
        if slots["then"] and not then:
            raise Unmatched(f"{slots['then']!r} is nothing that can come then")
        if slots["agents"]:
            steps = [self._latest(agent) for agent in self._agents(slots["agents"])]
            if not steps or not all(step in self.steps for step in steps):
                raise Unmatched("a loop goes back to a step of its own")
            to = min(steps, key=list(self.steps).index)
        else:
            to = self._latest(self._agent(slots["agent"]))
        negated = bool(slots["agents"]) or slots.unless
        condition = self._condition(slots["condition"], negated=negated)
        last = self._last_step()
        owners = [fact.agent for fact in c.facts_in(condition) if fact.agent]
        at = next((n for n in reversed(self.last) if self.steps[n].agent in owners), last)
        self._loop(at, condition, to, at_most, then)

    def take_stop(self, slots: Slots) -> None:
        if slots["condition"]:
            condition = self._condition(slots["condition"], negated=slots.unless)
        else:
            condition = self._other_case()
            if self._ends_loop("end"):
                return
        self._loop(self._last_step(), condition, "end", 0, "")

    def take_skip(self, slots: Slots) -> None:
        agent = self._agent(slots["agent"])
        last = self.last
        if self._workers() == [agent] and self.before:
            self.last = []  # the condition is of the agents that worked before
        try:
            found = self._condition(slots["condition"], negated=not slots.unless)
        finally:
            self.last = last
        condition, at = c.render_condition(found), len(self.steps)

        def put() -> None:
            step = self._step_of(agent, at)
            step.if_ = f"({step.if_}) and ({condition})" if step.if_ else condition
            step.clauses += self.here

        self._later(put)

    # -- order -----------------------------------------------------------------------------------

    def take_after(self, slots: Slots) -> None:
        shares = self._phrases(slots["step"])
        groups, when = self._done(slots["done"].strip())
        shares[0].beside = False
        if self.said_then:
            groups = [*self.tail, *groups]
        self._put(side_by_side(shares), after=groups, when=when)

    def _done(self, text: str) -> tuple[list[r.After], str]:
        """What `both are done`, `the writer finishes`, `the models are ready` wait for."""
        if _ALL_DONE.fullmatch(text):
            return self._block(len(self.last)), ""
        if some := _SOME_DONE.fullmatch(text):
            count = (some["count"] or "one").casefold()
            return self._block(1 if count in {"one", "either", "any"} else self._count(count)), ""
        if re.search(r"\bor\b", text, re.IGNORECASE):
            raise Unmatched(
                "'or' leaves open what is waited for: say 'as soon as one of them is done'"
            )
        who = _AGENTS_DONE.fullmatch(text)
        if who is not None and not re.search(r"'s\s+\w+$", who["agents"]):
            named = [self.names.name_of(each) for each in items(who["agents"])]
            if all(named):
                steps = tuple(self._latest(name) for name in named)
                return [r.After(of=steps, need=len(steps))], ""
        condition = self._condition(text, requirement=True)
        owners = [fact.agent for fact in c.facts_in(condition) if fact.agent]
        steps = tuple(dict.fromkeys(self._latest(owner) for owner in owners))
        return [r.After(of=steps, need=len(steps))], c.render_condition(condition)

    def _block(self, need: int) -> list[r.After]:
        if not self.last or need > len(self.last):
            raise Unmatched("it is not clear who is meant")
        return [r.After(of=tuple(self.last), need=need)]

    def take_wait(self, slots: Slots) -> None:
        name = f"wait_{len(self.waits) + 1}"
        length = self._duration(slots["duration"]) if slots["duration"] else ""
        until = "" if length else self._time(slots["time"])
        shares = self._phrases(slots["step"]) if slots["step"] else []
        wait = self._made(r.Wait, name=name, after=tuple(self.tail), length=length, until=until)
        self.waits.append(wait)
        self.before = self._workers()
        self._end_block([name])
        if shares:
            self.again = True
            self._put(shares)

    # -- delays and failures ---------------------------------------------------------------------

    def take_late(self, slots: Slots) -> None:
        within = self._duration(slots["duration"])
        waiting = [step for step in self.steps.values() if step.when]
        if slots["agent"]:
            agent = self._agent(slots["agent"])
            waiting = [step for step in waiting if step.agent == agent]
        if slots["condition"]:
            when = self._condition(slots["condition"], requirement=True)
            ready = c.render_condition(when.of if isinstance(when, c.Not) else when)
            waiting = [step for step in waiting if step.when == ready]
        if len(waiting) != 1:
            raise Unmatched("no step waits for this, or several do")
        self._late(waiting[0], slots["late"], within)

    def _late(self, step: DraftStep, text: str, within: str) -> None:
        skip = re.fullmatch(r"skip (?P<agent>.+)", text, re.IGNORECASE)
        policy = key_of(_POLICIES, text)
        if policy == "ask":
            step.late = "ask"
        elif skip:
            if skip["agent"].casefold() != "it" and self._agent(skip["agent"]) != step.agent:
                raise Unmatched("another step waits")
            step.late = "skip"
        else:
            self._instead(step, text)
        step.within = within
        step.clauses += self.here

    def _instead(self, step: DraftStep, text: str) -> None:
        """`the archive takes over`: a step that stands in for another."""
        text = re.sub(r"^(?:use|have|let)\s+", "", text)
        text = re.sub(r"\s+instead$", "", text)
        shares = self._phrases(text if self.names.subject(text) else f"{text} takes over")
        if len(shares) != 1:
            raise Unmatched("one agent can stand in for one other")
        tail = self.tail
        self._new(shares[0], []).instead_of = step.name
        self.tail = tail

    def take_on_error(self, slots: Slots) -> None:
        agent, text = self._agent(slots["agent"]), slots["error"].strip()
        policy = key_of(_POLICIES, text)
        if policy and not slots["duration"]:
            self._setting([agent], "on_error", policy)
            return
        step = self.steps.get(self._latest(agent))
        if step is None:
            raise Unmatched(f"{agent!r} works inside a shape, where none can stand in")
        if step.when:
            raise Unmatched(
                f"{agent!r} waits for a condition: say what happens where that does not come true"
            )
        if slots["duration"]:
            if policy == "fail":  # what the agent's own policy says of every failure
                self._setting([agent], "on_error", policy)
                step.within = self._duration(slots["duration"])
                step.clauses += self.here
                return
            how = "skip it" if policy == "continue" else text
            self._late(step, how, self._duration(slots["duration"]))
        else:
            self._instead(step, text)


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def _same_fact(one: c.Condition, other: c.Condition) -> bool:
    """Whether two conditions ask for the same output: then they are branches of one choice."""
    first, second = ([(f.agent, f.name) for f in c.facts_in(each)] for each in (one, other))
    return len(first) == 1 and first == second
