"""Work that a sentence gives to people: they are no agents, so that nobody of the crew does it.

`The clerk serves the callers, then the customer reviews it` has one agent. That its second half is
only told to the clerk is said, with what to write where an agent is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crewlog.prompt.grammar.lexicon import (
    GENERIC,
    OUTSIDERS,
    STATIVE,
    VERBS,
    known_verb,
    singular,
    third_person,
    word_set,
)

_PEOPLE = OUTSIDERS | (GENERIC & word_set("human person people somebody someone user"))
_NAMELESS = GENERIC | word_set("anybody anyone everybody everyone guys nobody public")
"""What no agent can be called."""
_AT_WORK = re.compile(
    r"(?:^|[,;:–]|\b(?:and|but|then|next|finally|lastly|afterwards?|while|meanwhile)\b)[\s,]*"
    r"(?:(?:and|but|then|next|finally|lastly|afterwards?|later|also|after that|in the end)\b[\s,]*)*"
    r"(?P<said>(?:(?:the|a|an|my|our|your|every|each|some|all|one of the)\s+)*"
    rf"(?P<who>{'|'.join(sorted(_PEOPLE))})\s+"
    r"(?:(?:then|also|always|finally|only|just|carefully|quickly)\s+)?(?P<verb>[a-z-]+))\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\s*(?:(?:and|but|then|next|finally|also|after that|only)\b[\s,]*)*"
    rf"(?:(?:the|my|our|your|every|each)\s+)+(?P<who>{'|'.join(sorted(_PEOPLE))})\s+[a-z]",
    re.IGNORECASE,
)


def at_work(said: str) -> Iterator[tuple[str, int, int]]:
    """The people of whom words say that they work, and where in the words that stands."""
    for found in _AT_WORK.finditer(said):
        then = "then" in found[0].lower().split()
        if _works(found["who"].lower(), found["verb"].lower(), then=then):
            yield found["who"].lower(), *found.span("said")


def _works(who: str, verb: str, *, then: bool) -> bool:
    """Whether a verb says that they do something, and not how they are; behind `then`, any does."""
    if verb in STATIVE:
        return False
    if who == "people" or singular(who) != who:
        return verb in VERBS
    return third_person(verb) and (then or known_verb(verb))


def outsider(said: str) -> str:
    """Whom words speak of that are no agent: `The boss may use drop`; empty for nobody."""
    found = _SUBJECT.match(said)
    return "" if found is None else found["who"].lower()


def instead_of(who: str) -> str:
    """What to say where an agent is meant by a word for people."""
    one = singular(who)
    named = "" if who in _NAMELESS or one in _NAMELESS else f", or 'the {one} agent'"
    return (
        f"If an agent is meant, say another name than {who!r}{named}. "
        "To ask people, say 'Ask me before the X …'."
    )
