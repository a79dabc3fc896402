"""Words that look like a rule and ended up in an agent's task: reported, never dropped."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from crewlog.prompt.ast import Ask, Step, Trait, Use, Words
from crewlog.prompt.grammar.outsiders import at_work, instead_of
from crewlog.prompt.grammar.phrase import agents_in
from crewlog.prompt.grammar.state import State

_CONTROL = re.compile(
    r"\b(?:if|unless|until|after|before|once|when|only|at most|at the most|in which case|no more than|in parallel|repeat|otherwise|wait for|wait until|"
    r"must not|may not|asks? me|asks? a human|skip|stop|provided|as long as|so long as|on condition|[a-z]+ (?:permitting|allowing)|given (?:that|enough|good)|in emergencies|every other time|in case|in the event|assuming|up to [a-z0-9]+ times|[a-z0-9]+ times at most|"
    r"within [a-z0-9.]+ (?:second|minute|hour|day|week)s?|neither|for each|for every"
    r"|(?:shares?|keeps?|stays?|remains?) [a-z ]{0,40}(?:private|secret|confidential|to itself|to themselves)"
    r"|(?:needs?|requires?|gets?|obtains?) [a-z' ]{0,40}(?:permission|approval|consent)"
    r"|(?:times?|calls?|[0-9]+ [a-z]+) (?:per|an?|each|every) (?:run|hour|day|week)|nothing but|nothing else|confidential|on behalf of|rights? of|(?:its|their) own calls)\b",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"\b(?:at once|once more|once again|once a [a-z]+|not only|if (?:needed|necessary|possible|any|there (?:is|are) any)|when (?:needed|necessary|possible)|before and after|if at all|(?:checks?|says?|sees|decides?|tells?|judges?|determines?|looks) if|look after|looks after)\b",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?:never|at (?:the very )?(?:most|least)|(?:(?:no|not) )?(?:more|less|fewer|greater) than(?: [a-z0-9]+)?"
    r"|not|cannot|[a-z]+n['’]t|no|none|nothing|nobody|neither|nor|without|except(?:ing)?|but those|apart from|other than"
    r"|or (?:fewer|less|more)|maximum of|minimum of|exactly|just (?:one|once|two|twice)|avoids?|avoiding|refrains?|forbidden|prohibited|banned|barred|excluded|excludes|excluding"
    r"|rarely|seldom|hardly|scarcely|leaves? out|skips)\b",
    re.IGNORECASE,
)
"""What forbids or bounds something: of an agent in a shape, it may be meant as a rule about that."""
_NO_BOUND = re.compile(
    r"\b(?:not (?:only|just|merely)|no matter|whether or not|no doubt|if not (?:already|yet)|nothing but|nothing else)\b",
    re.IGNORECASE,
)


def look_at_tasks(state: State) -> None:
    """Reports words of control in tasks and traits."""
    shaped = _in_shapes(state)
    starts = [unit.start for unit in state.units] if shaped else []
    added = {(phrase.words.start, phrase.words.end) for phrase in state.glued}
    asked = [s.words for s in state.statements if isinstance(s, Ask)]
    for statement in state.statements:
        if not isinstance(statement, Step | Trait) or not statement.words:
            continue
        if statement.words in asked:  # the step that a question comes before
            continue
        clause = statement.words[0]
        glued = [words for words in statement.words[1:] if (words.start, words.end) in added]
        several = isinstance(statement, Step) and (
            len(statement.parts) > 1 or statement.place == "beside"
        )
        for words in (clause, *glued):
            _report(state, words, several=several)
            if shaped and _speaks_of(state, statement, words, shaped, starts):
                _report_bound(state, words)
            _report_times(state, words)
            _report_people(state, words)


def _in_shapes(state: State) -> set[str]:
    """The agents that stand in a hub, share a plan, or are stages."""
    uses = [said for said in state.statements if isinstance(said, Use)]
    return {name for said in uses for name in said.agents}


def _speaks_of(
    state: State, said: Step | Trait, words: Words, shaped: set[str], starts: Sequence[int]
) -> bool:
    """Whether what is told is told to, or speaks of, one of these agents."""
    told = said.agents if isinstance(said, Trait) else [part.agent for part in said.parts]
    if not told or not shaped.isdisjoint(told):  # a trait of nobody by name is everybody's
        return True
    inside = state.units[bisect_left(starts, words.start) : bisect_left(starts, words.end)]
    return any(state.roster.agent(n) in shaped for unit in inside for n in agents_in(unit.text))


def _report(state: State, words: Words, *, several: bool) -> None:
    for found in _CONTROL.finditer(_without(_HARMLESS, state, words)):
        if several and found[0].lower() == "in parallel":
            continue
        _as_words(state, words, found)


def _report_bound(state: State, words: Words) -> None:
    """The first word that forbids or bounds something, where no other has been reported there."""
    said = _without(_NO_BOUND, state, words)
    taken = [m.span() for m in _CONTROL.finditer(_without(_HARMLESS, state, words))]
    for found in _BOUND.finditer(said):
        if not any(start < found.end() and found.start() < end for start, end in taken):
            _as_words(state, words, found)
            return


def _without(harmless: re.Pattern[str], state: State, words: Words) -> str:
    said = state.text[words.start : words.end]
    return harmless.sub(lambda m: " " * len(m[0]), said)


def _as_words(state: State, words: Words, found: re.Match[str]) -> None:
    state.remark(
        "read_as_words",
        f"{found[0]!r} was read as part of what an agent is told, not as a rule",
        [Words(start=words.start + found.start(), end=words.start + found.end())],
        "If it is a rule, say it in a sentence of its own.",
    )


def _report_times(state: State, words: Words) -> None:
    for time in state.told_times:
        if words.start <= time.start < words.end:
            state.remark(
                "read_as_words",
                f"{state.shown(time)!r} is a part of what an agent is told: nothing waits for it",
                [time],
                f"To wait, say it in front: 'Wait until {state.shown(time)}, then …'.",
            )


def _report_people(state: State, words: Words) -> None:
    for who, start, end in at_work(state.text[words.start : words.end]):
        if who in state.roster.keys:
            continue
        place = Words(start=words.start + start, end=words.start + end)
        state.remark(
            "read_as_words",
            f"{state.shown(place)!r} is only part of what an agent is told: {who!r} is taken for "
            "people, and for no agent",
            [place],
            instead_of(who),
        )
