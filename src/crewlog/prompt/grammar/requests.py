"""What the prompt asks of its reader, however politely, as the plain command.

`I would be grateful if you asked me before …`, `could you ask me before …` and `you always ask me
before …` are `ask me before …`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.phrase import Unit
from crewlog.prompt.grammar.sentences import Sentence, Token
from crewlog.prompt.grammar.verbs import ASK, KNOWN, finite, lemma

_OPENING = frozenset([",", ";", ":", "–", "(", "and", "but", "so", "then", "also", "now", "oh"])
"""What a request may stand behind."""
_ADVERBS = frozenset(
    [
        "always",
        "just",
        "really",
        "also",
        "kindly",
        "simply",
        "still",
        "much",
        "very",
        "rather",
        "first",
        "ever",
        "all",
        "only",
        "quite",
    ]
)
_WILL = frozenset(["would", "will", "do", "could", "should", "might", "can"])
_WANT = frozenset(
    ["like", "want", "need", "prefer", "expect", "wish", "love", "ask", "beg", "urge", "trust"]
)
_GLAD = frozenset(
    [
        "grateful",
        "glad",
        "happy",
        "obliged",
        "pleased",
        "delighted",
        "thankful",
        "nice",
        "good",
        "great",
        "kind",
        "best",
        "better",
        "lovely",
        "helpful",
        "wonderful",
        "appreciated",
        "fine",
        "safer",
        "wise",
    ]
)
_PEOPLE = frozenset(["me", "us", "with", "for", "i", "my", "our", "a"])


def plainly(units: list[Unit]) -> list[Unit]:
    """The units of a sentence with requests as commands."""
    if any(u.text[0] == "@" and _text(units, i + 1) == "," and _text(units, i + 2) == "you"
           for i, u in enumerate(units[:1])):  # fmt: skip
        return units  # `Mediator, you …` speaks to an agent
    out: list[Unit] = []
    at = 0
    while at < len(units):
        opens = not out or out[-1].text in _OPENING
        if opens and (behind := _to_look(units, at)) is not None:
            out += [units[at], Unit("must", units[at + 1].start, units[behind - 1].end)]
            out.append(units[behind])
            at = behind
        elif opens and (behind := _request(units, at)) is not None:
            at = behind
            verb = units[at]
            out.append(Unit(lemma(verb.text), verb.start, verb.end))
        else:
            out.append(units[at])
        at += 1
    return out


def _text(units: Sequence[Unit], at: int) -> str:
    return units[at].text if at < len(units) else ""


def _past(units: Sequence[Unit], at: int, words: frozenset[str]) -> int:
    while _text(units, at) in words:
        at += 1
    return at


def _request(units: Sequence[Unit], at: int) -> int | None:
    """Where the verb of a request stands that begins at a place."""
    first = _text(units, at)
    if first == "you":
        return _said_to_you(units, at)
    if first in {"could", "would", "can", "will"} and _text(units, at + 1) == "you":
        return _verb(units, _past(units, at + 2, _ADVERBS))
    if first in {"i", "we"}:
        return _wished(units, at + 1)
    if first == "it" and _text(units, at + 1) in _WILL | {"is"}:
        return _if_you(units, at + 1)
    if first == "make" and _text(units, at + 1) == "sure":
        behind = at + 2 + (_text(units, at + 2) == "that")
        return _said_to_you(units, behind)
    return None


_LOOKS = frozenset(
    ["see", "read", "check", "review", "inspect", "approve", "confirm", "okay", "authorise"]
)


def _to_look(units: Sequence[Unit], at: int) -> int | None:
    """Where the verb stands of `I want to see the report`: people are to see what there is."""
    if _text(units, at) not in {"i", "we"}:
        return None
    behind = _past(units, at + 1, _ADVERBS | _WILL)
    if _text(units, behind) not in {"want", "like", "wish", "need"}:
        return None
    verb = behind + 2
    if _text(units, behind + 1) != "to" or _text(units, verb) not in _LOOKS:
        return None
    what = _text(units, verb + 1)
    return verb if what in _WHAT_THERE_IS else None


_WHAT_THERE_IS = frozenset(
    ["the", "it", "this", "that", "them", "its", "their", "every", "each", "any", "all"]
)


def _said_to_you(units: Sequence[Unit], at: int) -> int | None:
    """`You always ask me`: whom you ask is a person."""
    if _text(units, at) != "you":
        return None
    at = _past(units, at + 1, _ADVERBS)
    if _text(units, at) in {"must", "should", "shall", "can", "will"}:
        at = _past(units, at + 1, _ADVERBS)
    elif _text(units, at) in {"have", "need"} and _text(units, at + 1) == "to":
        at += 2
    asks = _text(units, at) in ASK and _text(units, at + 1) in _PEOPLE
    return at if asks else None


def _wished(units: Sequence[Unit], at: int) -> int | None:
    """`I would like you to …`, `I would be grateful if you …`, `I would appreciate it if you …`."""
    behind = _past(units, at, _ADVERBS | _WILL)
    if _text(units, behind) in _WANT and _text(units, behind + 1) == "you":
        to = behind + 2
        return _verb(units, _past(units, to + 1, _ADVERBS)) if _text(units, to) == "to" else None
    if _text(units, behind) == "appreciate":
        behind += 1 + (_text(units, behind + 1) == "it")
        return _after_if(units, behind)
    return _if_you(units, at)


def _if_you(units: Sequence[Unit], at: int) -> int | None:
    """`… would be grateful if you`."""
    at = _past(units, at, _ADVERBS | _WILL | {"be", "am", "are", "is"})
    while _text(units, at) in _GLAD:
        at += 1
    return _after_if(units, at) if _text(units, at - 1) in _GLAD else None


def _after_if(units: Sequence[Unit], at: int) -> int | None:
    if _text(units, at) not in {"if", "when"} or _text(units, at + 1) != "you":
        return None
    return _verb(units, _past(units, at + 2, _ADVERBS | {"would", "could", "will", "can"}))


def _verb(units: Sequence[Unit], at: int) -> int | None:
    verb = _text(units, at)
    known = lemma(verb) in KNOWN and not finite(verb) and not verb.endswith("ing")
    return at if known else None


# -- questions and answers -------------------------------------------------------------------------

_LONGEST_QUESTION = 7
"""Words."""
_NO_CASE = word_set("""
could can would will may shall should why how what who whom where when which whose you we i me us
okay ok right yes please
""")
"""Words of questions that put no case."""


def answered(parts: Sequence[Sentence]) -> list[Sentence]:
    """Sentences with a short question and its answer as one (`approved? Back to the writer`)."""
    out: list[Sentence] = []
    for part in parts:
        asked = out[-1] if out else None
        if asked is not None and _puts_case(asked) and part.kind == asked.kind and not part.first:
            case = _case(asked.tokens)
            comma = Token(",", asked.stop, asked.stop)
            answer = part.tokens
            opening = tuple(t.text for t in answer[:2])
            if opening == ("if", "not"):
                case[0] = Token("unless", asked.start, asked.start)
            if opening in {("if", "not"), ("if", "so"), ("if", "yes")}:
                answer = answer[2 + (len(answer) > 2 and answer[2].text == ",") :]
            out[-1] = replace(asked, tokens=(*case, comma, *answer), end=part.end)
        else:
            out.append(part)
    return out


def _puts_case(sentence: Sentence) -> bool:
    said = [token.text for token in sentence.tokens]
    short = len(said) <= _LONGEST_QUESTION and sentence.kind != "heading"
    return short and sentence.end.startswith("?") and not {*said} & (_NO_CASE | {",", "if"})


def _case(tokens: Sequence[Token]) -> list[Token]:
    """`Is it approved`, `tests red` and `any errors` as conditions."""
    start = tokens[0].start
    opening = Token("if", start, start)
    first, last = tokens[0].text, tokens[-1]
    if first in {"is", "are"} and len(tokens) > 2:
        return [opening, *tokens[1:-1], tokens[0], last]
    if first in w.DO | {"has", "have"} and len(tokens) > 2:
        return [Token("should", start, start), *tokens[1:]]
    if first in {"any", "no"}:
        there = [Token("there", start, start), Token("are", start, start)]
        return [opening, *there, *tokens]
    if len(tokens) > 1 and last.text in w.STATES and not {t.text for t in tokens} & w.AUXILIARIES:
        many = tokens[-2].text.endswith("s")
        return [opening, *tokens[:-1], Token("are" if many else "is", last.start, last.start), last]
    return [opening, *tokens]
