"""The draft of a reading: what the sentences so far say, and what the next one may refer to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar, get_origin

from crewlog.definition import conditions as c
from crewlog.prompt import reading as r
from crewlog.prompt.nouns import Names
from crewlog.prompt.registry import Registry
from crewlog.prompt.vocabulary import phrase_stems

PartT = TypeVar("PartT", bound=r.Part)


@dataclass
class Share:
    """One agent's share of a step."""

    agent: str
    task: str
    tools: tuple[str, ...] = ()
    beside: bool = False
    """Whether it works beside the share before."""


@dataclass
class DraftStep:
    """A step that is being made: the fields of `reading.Step`."""

    name: str
    agent: str
    task: str
    clauses: list[int]
    after: list[r.After]
    if_: str = ""
    when: str = ""
    within: str = ""
    late: str = ""
    each: str = ""
    needs: tuple[str, ...] = ()
    instead_of: str = ""


class Unmatched(Exception):
    """A form does not match after all; the text says why.

    Args:
        why: The reason.
        unlisted: What may be an agent, and would be one if the prompt listed it.
        weak: Whether another form's reason helps more.
    """

    def __init__(self, why: str, *, unlisted: str = "", weak: bool = False) -> None:
        super().__init__(why)
        self.unlisted = unlisted
        self.weak = weak


@cache
def _empty(model: type[r.Part]) -> dict[str, Any]:
    """The fields of a part that says nothing."""
    kinds = {name: known.annotation for name, known in model.model_fields.items()}
    return {n: () if get_origin(k) is tuple else 0 if k is int else "" for n, k in kinds.items()}


class Draft:
    """A reading that is being made.

    Args:
        registry: What the prompt may use.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.names = Names(registry)
        self.tool_phrases = [
            (phrase_stems(said), name)
            for name, tool in registry.tools.items()
            for said in (name, *tool.words)
        ]
        self.here: tuple[int, ...] = ()
        """The clauses of the sentence that is read."""
        self.text = ""
        """Its words."""
        self.again = False
        """Whether a word says that it is a new step: `then`."""
        self.said_then = False
        self.crew = ""
        self.cast: list[str] = []
        """The agents that a list introduces."""
        self.agents: dict[str, tuple[list[int], list[str]]] = {}
        """For each agent its clauses, and the words about it."""
        self.outputs: dict[tuple[str, str], r.Output] = {}
        self.steps: dict[str, DraftStep] = {}
        self.waits: list[r.Wait] = []
        self.questions: list[r.Question] = []
        self.loops: list[r.Loop] = []
        self.uses: list[r.Use] = []
        self.rights: list[r.Right] = []
        self.readers: list[r.Readers] = []
        self.settings: list[r.Setting] = []
        self.last: list[str] = []
        """The steps of the block said last."""
        self.tail: list[r.After] = []
        """What the next step waits for."""
        self.before: list[str] = []
        """The agents that worked before that block."""
        self.spoken: list[str] = []
        """The agents that were spoken of last: what `it` and `they` are."""
        self.chain: list[c.Condition] = []
        """The conditions of the branches said last, for `otherwise`."""
        self.judges: list[str] = []
        """Agents that say whether the goal is reached: their output is `done`."""
        self.counts: Counter[str] = Counter()
        """How many steps each agent has."""
        self.tentative = ""
        """The step that only a question before it has spoken of so far."""
        self.pending: list[tuple[tuple[int, ...], Callable[[], None]]] = []
        """What may be said before the steps that it is about, with its clauses."""

    # -- agents ----------------------------------------------------------------------------------

    def _speak(self, *agents: str) -> None:
        """Adds agents that the sentence speaks of."""
        for agent in agents:
            clauses, _ = self.agents.setdefault(agent, ([], []))
            if not clauses or clauses[-1] != self.here[-1]:
                clauses += self.here

    def _working(self) -> list[str]:
        """The agents that have steps, or a share in a shape."""
        named = (v for use in self.uses for option in use.options for v in option.values)
        of_steps = (step.agent for step in self.steps.values())
        return list(dict.fromkeys((*(v for v in named if v in self.agents), *of_steps)))

    def _workers(self) -> list[str]:
        """The agents of the block said last."""
        found = [self.steps[name].agent for name in self.last if name in self.steps]
        uses = [use for use in self.uses if use.name in self.last]
        found += [v for use in uses for o in use.options for v in o.values if v in self.agents][:1]
        return list(dict.fromkeys(found)) or self.before

    def _first_clause(self, agent: str) -> list[int]:
        if agent in self.agents:
            return self.agents[agent][0][:1]
        none: list[int] = []
        return next((s.clauses[:1] for s in self.steps.values() if s.agent == agent), none)

    def _steps_of(self, agent: str) -> list[DraftStep]:
        found = [step for step in self.steps.values() if step.agent == agent]
        if not found:
            raise Unmatched(f"{agent!r} does nothing")
        return found

    def _step_of(self, agent: str, at: int) -> DraftStep:
        """The step of an agent that was meant when there were `at` steps."""
        found = self._steps_of(agent)
        later = [step for step in list(self.steps.values())[at:] if step.agent == agent]
        return (later or found)[0]

    def _latest(self, agent: str) -> str:
        """The latest step of an agent, or its phase in a shape, which is called as it is."""
        found = [name for name, step in self.steps.items() if step.agent == agent]
        if not found and any(agent in o.values for use in self.uses for o in use.options):
            return agent
        if not found:
            raise Unmatched(f"{agent!r} has not worked before")
        return found[-1]

    # -- steps -----------------------------------------------------------------------------------

    def _put(
        self,
        shares: Sequence[Share],
        *,
        beside: bool = False,
        after: list[r.After] | None = None,
        **fields: str,
    ) -> list[DraftStep]:
        """Adds the steps of a sentence: the first block, then one for each share that comes later.

        Args:
            shares: Who does what.
            beside: Whether the first block works beside the block said last.
            after: What the first block waits for, where it is not the block said last.
            fields: Fields of the steps of the first block.
        """
        fields = {name: value for name, value in fields.items() if value}
        made: list[DraftStep] = []
        blocks: list[list[Share]] = []
        for share in shares:
            if share.beside and blocks:
                blocks[-1].append(share)
            else:
                blocks.append([share])
        if "each" in fields and len(blocks) > 1:
            raise Unmatched("it is not clear which of the steps are done for each")
        is_plain = not (beside or fields or after is not None)
        for i, block in enumerate(blocks):
            first = i == 0
            if is_plain and self._goes_on(block, again=self.again and first):
                self._extend(block)
                continue
            joins = first and beside and bool(self.last)
            if joins:
                neighbour = self.steps.get(self.last[0])
                sources = self.tail if neighbour is None else neighbour.after
            else:
                self.before = self._workers()
                sources = self.tail if after is None or not first else after
            steps = [self._new(share, list(sources)) for share in block]
            for step in steps if first else ():
                vars(step).update(fields)
            made += steps
            self._end_block([*(self.last if joins else ()), *(step.name for step in steps)])
            if "if_" not in fields and not joins:
                self.chain = []
            self.spoken = list(dict.fromkeys(step.agent for step in steps))
        return made

    def _end_block(self, names: list[str]) -> None:
        """Lets what follows wait for all of some phases."""
        self.last = names
        self.tail = [r.After(of=tuple(names), need=len(names))]

    def _is_whole(self) -> bool:
        """Whether what follows waits for all of the block said last."""
        return self.tail == [r.After(of=tuple(self.last), need=len(self.last))]

    def _goes_on(self, block: Sequence[Share], *, again: bool) -> bool:
        """Whether a sentence only says more of what its agents are doing anyway."""
        working = [self.steps[name].agent for name in self.last if name in self.steps]
        same = {share.agent for share in block} <= set(working)
        return not again and same and len(set(working)) == len(working) and self._is_whole()

    def _extend(self, block: Sequence[Share]) -> None:
        for share in block:
            step = next(self.steps[n] for n in self.last if self.steps[n].agent == share.agent)
            step.task = ". ".join(task for task in (step.task, share.task) if task)
            step.clauses += self.here
            self._give(share)
        self.spoken = list(dict.fromkeys(share.agent for share in block))

    def _new(self, share: Share, sources: list[r.After]) -> DraftStep:
        known = self.steps.get(self.tentative)
        if known is not None and known.agent == share.agent:
            self._forget(known)
            if sources == [r.After(of=(known.name,), need=1)]:
                sources = known.after
        self.counts[share.agent] += 1
        count = self.counts[share.agent]
        name = share.agent if count == 1 else f"{share.agent}_{count}"
        step = DraftStep(name, share.agent, share.task, [*self.here], sources)
        self.steps[name] = step
        self._speak(share.agent)
        self._give(share)
        return step

    def _forget(self, step: DraftStep) -> None:
        """Takes a step back that only a question spoke of: what waited for it takes its place."""
        del self.steps[step.name]
        self.counts[step.agent] -= 1
        self.tentative = ""

        def passed(groups: list[r.After]) -> list[r.After]:
            kept = [group for group in groups if step.name not in group.of]
            return groups if len(kept) == len(groups) else kept + step.after

        for other in self.steps.values():
            other.after = passed(other.after)
        self.tail = passed(self.tail)

    def _give(self, share: Share) -> None:
        if share.tools:
            self._right("may", [share.agent], share.tools)

    # -- other parts -----------------------------------------------------------------------------

    def _made(self, model: type[PartT], **fields: Any) -> PartT:
        """A part of the sentence; a field that is not given says nothing."""
        return model.model_validate({**_empty(model), "clauses": self.here, **fields})

    def _with_here(self, clauses: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys((*clauses, *self.here)))

    def _output(
        self,
        agent: str,
        name: str,
        kind: Literal["boolean", "number", "choice", "list"],
        value: Any = None,
    ) -> None:
        known = self.outputs.get((agent, name))
        values = known.values if known is not None else ()
        if value is not None and value not in values:
            values = (*values, str(value))
        said = known.clauses if known is not None else ()
        clauses = self._with_here((*self._first_clause(agent), *said))
        self.outputs[agent, name] = self._made(
            r.Output, clauses=clauses, agent=agent, name=name, kind=kind, values=values
        )

    def _spoken_of(self, agents: Iterable[str]) -> tuple[int, ...]:
        """This sentence, and the clause that names whom a pronoun in it means."""
        named = self.names.mentioned(self.text)
        first = [n for a in agents if a not in named for n in self._first_clause(a)]
        return tuple(dict.fromkeys((*self.here, *first)))

    def _right(
        self,
        effect: Literal["may", "only", "never", "ask"],
        agents: Sequence[str],
        tools: Iterable[str],
        **fields: str,
    ) -> None:
        self._speak(*agents)
        right = self._made(
            r.Right, clauses=self._spoken_of(agents), effect=effect, agents=tuple(agents),
            tools=tuple(tools), **fields,
        )  # fmt: skip
        self.rights.append(right)

    def _setting(self, agents: Sequence[str], key: str, value: str) -> None:
        self._speak(*agents)
        clauses = self._spoken_of(agents)
        setting = self._made(r.Setting, clauses=clauses, agents=tuple(agents), key=key, value=value)
        self.settings.append(setting)

    def _question(self, ask: str, **fields: Any) -> str:
        """Adds a question; returns its name."""
        name = f"question_{len(self.questions) + 1}"
        self.questions.append(self._made(r.Question, name=name, ask=ask, **fields))
        return name

    def _loop(self, at: str, condition: c.Condition, to: str, at_most: int, then: str) -> None:
        clauses = tuple(dict.fromkeys((*self.here, *self.steps[at].clauses[-1:])))
        loop = self._made(
            r.Loop, clauses=clauses, at=at, to=to, at_most=at_most, then=then,
            if_=c.render_condition(condition),
        )  # fmt: skip
        self.loops.append(loop)
        self.chain = [condition]

    def _ends_loop(self, outcome: str) -> bool:
        """Sets the end of the last loop; false where it has one, or where there is no loop."""
        if not self.loops or self.loops[-1].then:
            return False
        last = self.loops[-1]
        update = {"then": outcome, "clauses": self._with_here(last.clauses)}
        self.loops[-1] = last.model_copy(update=update)
        return True

    def _last_step(self) -> str:
        if not self.last or self.last[-1] not in self.steps:
            raise Unmatched("no step comes just before")
        return self.last[-1]

    def _cast_only(self) -> bool:
        """Whether agents are only listed so far, so that their order follows from the list."""
        return bool(self.cast) and not self.steps

    def _later(self, put: Callable[[], None]) -> None:
        """Puts off what may be said before the step that it is about."""
        self.pending.append((self.here, put))

    # -- the end ---------------------------------------------------------------------------------

    def reading(self, ledger: Iterable[r.Account]) -> r.Reading:
        """The reading, with what became of the clauses."""
        steps: list[r.Step] = []
        for step in self.steps.values():
            lists = {"clauses": tuple(dict.fromkeys(step.clauses)), "after": tuple(step.after)}
            steps.append(r.Step.model_validate({**vars(step), **lists}))
        agents = tuple(
            r.Agent(clauses=tuple(clauses), name=name, about=". ".join(about))
            for name, (clauses, about) in self.agents.items()
        )
        return r.Reading(
            crew=self.crew, agents=agents, outputs=tuple(self.outputs.values()), steps=tuple(steps),
            waits=tuple(self.waits), questions=tuple(self.questions), loops=tuple(self.loops),
            uses=tuple(self.uses), rights=tuple(self.rights), readers=tuple(self.readers),
            settings=tuple(self.settings), ledger=tuple(ledger),
        )  # fmt: skip
