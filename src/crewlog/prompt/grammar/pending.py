"""Subordinate clauses: conditions, waits and lists, kept for the clause they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crewlog.prompt.ast import Both, Cond, Fact, Not, Waits, Words
from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.conditions import state_word
from crewlog.prompt.grammar.lexicon import plural, word_set
from crewlog.prompt.grammar.phrase import Phrase, number
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.waits import done, who
from crewlog.prompt.names import plain

Kind = Literal["if", "unless", "until", "when", "once", "after", "while", "before", "each"]

_OPENING: dict[Kind, str] = {
    "if": (
        "if/in case/in the case that/in the event that/in the event/provided that/provided/"
        "providing that/providing/assuming that/assuming/supposing/supposing that/as long as/"
        "so long as/given that/on condition that/on the condition that/if and only if/"
        "if and when/should/only if/whenever it turns out that/in cases where"
    ),
    "unless": "unless/unless and until/except if/except when/except where",
    "until": "until/till/until such time as/up until",
    "when": "when/whenever/every time/each time/as often as/any time/when and only when",
    "once": (
        "once/as soon as/as soon as ever/the moment/the moment that/the minute/the minute that/"
        "the second/the instant/now that/only once/only when/not until/not before/immediately/"
        "just as soon as/once and only once/from the moment/the very moment"
    ),
    "after": (
        "after/only after/right after/straight after/directly after/immediately after/"
        "just after/not until after/soon after/shortly after"
    ),
    "while": "while/whilst",
    "before": "before",
    "each": (
        "for each/for every/for each and every/for every single/for each single/per/for all/"
        "for every one/for each one/with each/with every/for any"
    ),
}
_WORDS: dict[tuple[str, ...], Kind] = {
    tuple(words.split()): kind for kind, several in _OPENING.items() for words in several.split("/")
}
_LONGEST = max(map(len, _WORDS))
_LEADS = word_set("and but only just then so that")
"""What may stand before the word that opens the clause."""
_OPEN = {"if", "when", "once"}
"""Words after which a tool's being there is a need."""
_THERE = word_set("""
available there offered installed configured present enabled usable accessible provided registered
supported working up online set
""")
_USED = word_set("used called run had")
_READY = word_set("""
ready done complete completed finished available in there set exists exist arrived final settled
written built merged up delivered published prepared drafted
""")
_NO_LIST = word_set(
    "them these those it one ones of other time moment once reason sure now se capita annum"
)
_AFTER_NOUN = (
    w.PREPOSITIONS
    | w.OTHERS
    | w.AUXILIARIES
    | word_set("there found listed named given he she it they that")
)


@dataclass(slots=True)
class Pending:
    """What waits for its clause."""

    condition: Cond | None = None
    waits: Waits | None = None
    ready: Cond | None = None
    each: str | None = None
    maker: str | None = None
    needs: tuple[str, ...] = ()
    then: bool = False
    until: bool = False
    at_most: int | None = None
    """How often its clause is done over again, where the condition says it."""
    lasting: bool = False
    """`While the grade is under 8, …`: its clause is done again as long as this holds."""
    kind: Literal["if", "while", "before"] = "if"
    clause: Phrase | None = None
    """Of `while` and `before`: the clause itself."""
    words: list[Words] = field(default_factory=list[Words])

    def __bool__(self) -> bool:
        return bool(self.words)

    def merge(self, other: Pending) -> None:
        """Takes in another."""
        if self.condition is not None and other.condition is not None:
            self.condition = Both(of=(self.condition, other.condition))
        else:
            self.condition = self.condition or other.condition
        self.waits = self.waits or other.waits
        self.ready = self.ready or other.ready
        self.each, self.maker = self.each or other.each, self.maker or other.maker
        self.needs = (*self.needs, *other.needs)
        self.then, self.until = self.then or other.then, self.until or other.until
        self.at_most = self.at_most or other.at_most
        self.lasting = self.lasting or other.lasting
        self.words.extend(other.words)


def subordinate(state: State, phrase: Phrase) -> Pending | None:
    """What a subordinate clause says; none where nothing can be made of it."""
    said = [unit.text for unit in phrase.units]
    if not said or len(said) > 80:
        return None
    made = _of(state, phrase, said)
    if made is not None:
        made.words = [phrase.words]
    return made


def _of(state: State, phrase: Phrase, said: list[str]) -> Pending | None:
    at = 0
    opened = _opened(said, at)
    while opened is None and at < len(said) - 1 and said[at] in _LEADS:
        at += 1
        opened = _opened(said, at)
    if opened is None:
        turns = _by_turns(said)
        return _bare_first(said) if turns is None else turns
    kind, begin = opened
    rest = said[begin:]
    if kind == "each":
        return _each(state, rest)
    if kind == "while" and (lasting := _while(state, rest)) is not None:
        return lasting
    if kind == "while" or kind == "before":
        return Pending(kind=kind, clause=Phrase(phrase.units[begin:]))
    if kind in _OPEN and (needs := _needs(state, rest)) is not None:
        return needs if needs.needs else None
    if kind in {"if", "unless", "until"}:
        inverted = said[at] == "should"
        return _condition(state, kind, said[at:] if inverted else rest)
    return _waits(state, kind, rest)


def _opened(said: Sequence[str], at: int) -> tuple[Kind, int] | None:
    """The word that opens the clause, and where the clause begins."""
    for length in range(_LONGEST, 0, -1):
        kind = _WORDS.get(tuple(said[at : at + length]))
        if kind is not None and len(said) >= at + length:
            return kind, at + length
    return None


# -- lists -----------------------------------------------------------------------------------------


def _each(state: State, said: Sequence[str]) -> Pending | None:
    """`for each of the planner's topics`, `per topic that the planner lists`."""
    at = 0
    maker = ""
    while at < len(said) and (said[at] in w.DETERMINERS | {"of", "such", "new", "single", "one"}):
        at += 1
    if said[at : at + 1] and said[at].startswith("@"):
        if said[at + 1 : at + 2] != ["'s"]:
            return None
        maker, at = said[at], at + 2
    at += said[at : at + 1] == ["new"]
    end = at
    while end < len(said) and said[end] not in _AFTER_NOUN and said[end][:1].isalpha():
        end += 1
    noun = said[at:end]
    if not noun or len(noun) > 4 or noun[-1] in _NO_LIST | w.TIME or noun[0] in w.AUXILIARIES:
        return None
    named = [word for word in said[end:] if word.startswith("@")]
    if named and not maker:
        maker = named[0]
    if said[end:] and not (named or _describes(said[end:])):
        return None
    makers = state.names(maker)
    return Pending(each=plain(plural(" ".join(noun))), maker=makers[0] if makers else None)


def _describes(said: Sequence[str]) -> bool:
    """Whether words only say which ones are meant: `on the list`, `that it finds`."""
    if said[0] in {"found", "listed", "named", "given"}:
        return True
    if said[0] in {"that", "which", "who", "it", "he", "she", "they"}:
        return 1 < len(said) <= 6
    return said[0] in word_set("in on of from") and 1 < len(said) <= 5


def _by_turns(said: Sequence[str]) -> Pending | None:
    """`topic by topic`, `one topic at a time`."""
    half = len(said) // 2
    if len(said) % 2 and said[half] in {"by", "for"} and list(said[:half]) == said[half + 1 :]:
        noun = said[:half]
    elif said[0] == "one" and list(said[-3:]) == ["at", "a", "time"]:
        noun = said[1:-3]
    else:
        return None
    if not 0 < len(noun) <= 3 or noun[-1] in _NO_LIST | word_set("step day little bit word side"):
        return None
    return Pending(each=plain(plural(" ".join(noun))))


def _bare_first(said: Sequence[str]) -> Pending | None:
    """`whoever is done first`."""
    found = done(said) if said[0] in {"whoever", "first"} or "first" in said[:2] else None
    return Pending(waits=Waits(join="any")) if found is not None else None


# -- needs -----------------------------------------------------------------------------------------


def _needs(state: State, said: Sequence[str]) -> Pending | None:
    """`configure_audio is available`, `the recorder can be used`, `we have deploy`.

    None where no tool is spoken of; empty where what is said of it is no need.
    """
    if not any(word[:1] in "#$" for word in said):
        return None
    have = said[:2] in (["we", "have"], ["there", "is"], ["there", "are"])
    at = 2 if have else 0
    begin = at
    small = word_set("the a an tool tools , and both all use to")
    while at < len(said) and (said[at][:1] in "#$" or said[at] in small):
        at += 1
    tools = state.tool_names(" ".join(said[begin:at]))
    rest = [word for word in said[at:] if word not in w.FILLERS]
    if not tools:
        return None
    if have and not rest:
        return Pending(needs=tools)
    if rest[:1] in (["is"], ["are"]) and len(rest) <= 3 and rest[-1] in _THERE:
        positive = not set(rest) & (w.NEGATIONS | {"or"})
        return Pending(needs=tools) if positive else Pending()
    if rest[:2] == ["can", "be"] and len(rest) == 3 and rest[2] in _USED:
        return Pending(needs=tools)
    if rest == ["exists"] or rest == ["exist"]:
        return Pending(needs=tools)
    return Pending() if set(rest) & {"available", "unavailable", "missing"} else None


# -- conditions and waits --------------------------------------------------------------------------


def _condition(state: State, kind: Kind, said: Sequence[str]) -> Pending | None:
    if kind == "until" and _no_state(said):
        return None
    condition = state.condition(" ".join(said))
    if condition is None:
        return None
    if kind in {"unless", "until"}:
        condition = condition.of if isinstance(condition, Not) else Not(of=condition)
    return Pending(condition=condition, until=kind == "until")


def _no_state(said: Sequence[str]) -> bool:
    """`until bedtime`: a word by itself that no thing is."""
    return len(said) == 1 and not state_word(said[0])


_ROUNDS_LEFT = re.compile(
    r" (?:and|but) (?:only )?(?:at most|no more than|not more than|fewer than|less than) (?P<most>[a-z0-9]+) "
    r"(?:times|rounds|attempts|tries|iterations|passes|revisions|drafts|versions)"
    r"(?: (?:have|has|were|was)(?: been)?(?: done| made| tried| used| run| over| written)?)?$"
)


def rounds_left(text: str) -> int | None:
    """The bound at the end of a condition: `and fewer than four rounds have been done`."""
    left = _ROUNDS_LEFT.search(f" and {text}")
    most = number(left["most"]) if left is not None else None
    return int(most) if most is not None and most >= 1 else None


def _while(state: State, said: Sequence[str]) -> Pending | None:
    """`While the grade is under 8 (and fewer than four rounds have been done)`: a loop's condition.

    None where somebody is at work, who is no condition: `while the author writes`.
    """
    text = " ".join(said)
    left = _ROUNDS_LEFT.search(text)
    most = rounds_left(text)
    if left is not None and most:
        text = text[: left.start()]
    condition = state.condition(text)
    if condition is None or not _lasts(text.split(), condition):
        return None
    return Pending(condition=condition, lasting=True, at_most=most)


def _lasts(said: Sequence[str], condition: Cond) -> bool:
    """Whether a condition is a state that lasts and nobody's work: `the tests fail`, `rejected`."""
    found = list(facts(condition))
    if _decided(condition) or any(fact.operator is not None for fact in found):
        return True
    agent = any(x[0] == "@" and said[i + 1 : i + 2] != ["'s"] for i, x in enumerate(said))
    being = [i for i, word in enumerate(said[:-1]) if word in w.BE]
    busy = any(said[i + 1].endswith("ing") for i in being)
    them = said[0] in w.MANY | {"it", "he", "she", "both", "we", "i", "you"} and not being
    return not agent and not busy and not them


def _waits(state: State, kind: Kind, said: Sequence[str]) -> Pending | None:
    if not said or (_no_state(said) and not said[0].startswith("@")):
        return None
    if (waits := _done(state, kind, said)) is not None:
        return waits
    condition = state.condition(" ".join(said))
    if _acts(kind, said, condition):
        found = who(said)
        return Pending(waits=Waits(of=state.names(found.agents if found else "")))
    if condition is None:
        return None
    if kind == "when" and not all(_is_ready(fact) for fact in facts(condition)):
        return Pending(condition=condition)
    return Pending(ready=condition)


def _done(state: State, kind: Kind, said: Sequence[str]) -> Pending | None:
    """`both are done`, `after the writer`, `as soon as two of them are back`."""
    found = done(said)
    if found is None and kind == "after":
        found = who(said)
        if found is None or found.end != len(said) or found.that:
            return None
    if found is None:
        return None
    if found.that:
        return Pending(then=True)
    return Pending(waits=Waits(of=state.names(found.agents), join=found.join))


def _is_ready(fact: Fact) -> bool:
    return fact.operator is None and fact.name.rpartition("_")[2] in _READY


def facts(cond: Cond) -> Iterator[Fact]:
    """The facts of a condition."""
    if isinstance(cond, Fact):
        yield cond
    elif isinstance(cond, Not):
        yield from facts(cond.of)
    else:
        for part in cond.of:
            yield from facts(part)


def _acts(kind: Kind, said: Sequence[str], condition: Cond | None) -> bool:
    """Whether `once the writer has drafted it` speaks of work and not of what is decided."""
    found = who(said)
    if found is None or not found.agents or found.end >= len(said):
        return False
    rest = [word for word in said[found.end :] if word not in w.FILLERS]
    perfect = rest[:1] in (["has"], ["have"])
    if (kind == "when" and not perfect) or set(rest[:2]) & w.NEGATIONS or not rest:
        return False
    at = 1 if rest[0] in w.BE | w.HAVE else 0
    verb = w.INFLECTED.get(rest[at]) if at < len(rest) else None
    if condition is None:
        return verb is not None and not (verb.base in w.SAYS and "that" in rest)
    if verb is None or rest[0] in w.BE:
        return False
    names = {fact.name.split("_")[0] for fact in facts(condition)}
    return bool(names & {verb.base, w.third(verb.base), rest[at]}) and not _decided(condition)


def _decided(condition: Cond) -> bool:
    return any(fact.name in w.DECISIONS.values() for fact in facts(condition))
