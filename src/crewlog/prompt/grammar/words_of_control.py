"""Words that look like a rule and ended up in an agent's task: reported, never dropped."""

from __future__ import annotations

import re

from crewlog.prompt.ast import Ask, Step, Trait, Words
from crewlog.prompt.grammar.outsiders import at_work, instead_of
from crewlog.prompt.grammar.state import State

_CONTROL = re.compile(
    r"\b(?:if|unless|until|after|before|once|when|only|at most|at the most|in which case|no more than|in parallel|repeat|otherwise|wait for|wait until|"
    r"must not|may not|asks? me|asks? a human|skip|stop|provided|as long as|in case|assuming|up to [a-z0-9]+ times|[a-z0-9]+ times at most|"
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


def look_at_tasks(state: State) -> None:
    """Reports words of control in tasks and traits."""
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
            _report_times(state, words)
            _report_people(state, words)


def _report(state: State, words: Words, *, several: bool) -> None:
    said = state.text[words.start : words.end]
    hidden = _HARMLESS.sub(lambda m: " " * len(m[0]), said)
    for found in _CONTROL.finditer(hidden):
        start, end = words.start + found.start(), words.start + found.end()
        if several and found[0].lower() == "in parallel":
            continue
        state.remark(
            "read_as_words",
            f"{found[0]!r} was read as part of what an agent is told, not as a rule",
            [Words(start=start, end=end)],
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
