"""Finding out who the agents of a prompt are, before anything is read.

An agent is what works: the subject of a verb of work, the one by whom something is done, a member
of a cast, the one to whom work is handed or a tool is given. Where the words alone leave it open
(`the claim comes in`), the head of the name decides (`lexicon.agentive`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.grammar.lexicon import (
    DETERMINERS,
    FUNCTION,
    NOT_VERBS,
    OUTSIDERS,
    PRONOUNS,
    THINGS,
    VERBS,
    agentive,
    known_verb,
    singular,
    third_person,
)
from crewlog.prompt.grammar.sentences import Sentence, Token
from crewlog.prompt.names import agent_name

LONGEST_NAME = 5
"""Words."""

_SIGNS = frozenset([",", ";", ":", "(", ")", "–", "->", "<", ">", "<=", ">=", "=", "==", "!=", "%"])
_AUXILIARIES = frozenset(
    [
        "may",
        "can",
        "could",
        "should",
        "must",
        "has",
        "is",
        "was",
        "will",
        "shall",
        "does",
        "never",
        "always",
        "'s",
        "might",
        "needs",
    ]
)
_OPENERS = _SIGNS | frozenset(
    [
        "and",
        "but",
        "so",
        "then",
        "or",
        "next",
        "finally",
        "lastly",
        "meanwhile",
        "while",
        "afterwards",
        "first",
        "second",
        "third",
        "only",
        "after",
        "once",
        "before",
        "again",
        "that's",
        "simultaneously",
        "parallel",
        "time",
        "also",
        "now",
        "until",
    ]
)
_EMBEDDED = frozenset(
    [
        "what",
        "how",
        "why",
        "whether",
        "which",
        "that",
        "who",
        "whom",
        "where",
        "if",
        "unless",
        "when",
        "whenever",
        "until",
        "whoever",
    ]
)
_INSIDE = frozenset(["up", "down", "in"])
"""Inside a name: `top down analyst`, `stand in editor`."""
_GENERIC = frozenset(
    [
        "agent",
        "agents",
        "human",
        "person",
        "people",
        "crew",
        "team",
        "other",
        "others",
        "one",
        "thing",
        "user",
    ]
)
_MARKERS = frozenset(
    [
        "agents",
        "agent",
        "people",
        "roles",
        "specialists",
        "experts",
        "team",
        "crew",
        "members",
        "cast",
    ]
)
_PLACES = frozenset(
    [
        "department",
        "desk",
        "office",
        "unit",
        "squad",
        "team",
        "board",
        "panel",
        "lab",
        "bureau",
        "group",
        "service",
        "committee",
        "division",
        "cell",
        "section",
        "agency",
        "house",
        "newsroom",
        "studio",
        "workshop",
        "engine",
        "library",
    ]
)
"""Where people work: an agent with a word before it that says which, `the art department`."""
_IDLE = frozenset(
    ["baton", "ball", "torch", "floor", "spotlight", "curtain", "rest", "lot", "whole", "dust"]
)
"""What is passed on, and does nothing itself."""
_ABSTRACT = re.compile(r".*(?:ity|ness|tion|sion|ment|ance|ence|ism|ing|age|ure|ly|th|ics|s)$")
_DONE = re.compile(
    r".*(?:ed|en|wn|ne)$|(?:put|set|let|cut|read|built|sent|held|made|kept|dealt|found|brought|"
    r"bought|caught|taught|thought|sought|sold|told|led|fed|met|lit|hit|split|spelt|laid|paid|"
    r"said|swept|bound|wound|spun|dug|hung|struck|sung|begun|run|won|shot|left|lost|bent|lent|"
    r"heard|fought|understood|rid|recast|reset|rebuilt|overseen|underpinned|sworn)"
)
"""Participles, by their endings or by name."""
_STATES = frozenset(["comes", "works", "starts", "makes", "has", "counts", "pays", "says"])
_BY = frozenset(["by", "per"])
_ADVERBS = frozenset(
    [
        "then",
        "also",
        "next",
        "now",
        "simply",
        "just",
        "finally",
        "lastly",
        "again",
        "always",
        "both",
        "each",
        "all",
        "first",
        "still",
        "only",
        "never",
        "together",
        "simultaneously",
        "afterwards",
        "usually",
        "subsequently",
        "only",
    ]
)
_TO = frozenset(
    [
        "over",
        "on",
        "hand",
        "hands",
        "pass",
        "passes",
        "goes",
        "send",
        "sends",
        "handed",
        "passed",
        "give",
        "gives",
        "turn",
        "comes",
        "is",
        "followed",
        "forward",
        "forwards",
        "delegates",
        "assign",
        "assigns",
    ]
)


@dataclass(slots=True)
class Found:
    """An agent, as it was found."""

    name: str
    start: int
    """Where the prompt first speaks of it as one that works."""
    end: int
    count: int = 1
    introduced: bool = False
    """By a cast, or with `a`."""


@dataclass(slots=True)
class Names:
    """The agents found so far."""

    found: dict[str, Found] = field(default_factory=dict[str, Found])

    def add(self, tokens: Sequence[Token], introduced: bool = False) -> bool:
        """Takes a noun phrase, without article, as an agent."""
        while len(tokens) > 1 and tokens[-1].text in {"agent", "agents"}:
            tokens = tokens[:-1]
        while len(tokens) > 1 and tokens[0].text in DETERMINERS:
            tokens = tokens[1:]
        if not tokens or len(tokens) > LONGEST_NAME:
            return False
        last = tokens[-1].text
        words = [t.text for t in tokens[:-1]]
        if last.endswith("s") and agentive(singular(last)):
            last = singular(last)
        name = agent_name(" ".join([*words, last]))
        if not name or name in _GENERIC or (words and words[-1] in DETERMINERS):
            return False
        entry = self.found.get(name)
        if entry is None:
            self.found[name] = Found(name, tokens[0].start, tokens[-1].end, 1, introduced)
        else:
            entry.count += 1
            entry.introduced = entry.introduced or introduced
        return True


def in_name(word: str) -> bool:
    """Whether a word may be part of an agent's name."""
    return word not in FUNCTION and word not in _SIGNS and word[:1].isalpha()


def after_determiners(tokens: Sequence[Token], at: int) -> int:
    """The first token of a noun phrase after `the`, `one of the` and the like."""
    while at < len(tokens) and tokens[at].text in DETERMINERS | {"new", "single", "second"}:
        at += 1
    return at


def before_verb(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name that begins at a token ends, if a verb that it could be the subject of follows."""
    fallback: int | None = None
    for j in range(at, min(at + LONGEST_NAME + 1, len(tokens))):
        word = tokens[j].text
        if j > at:
            head = tokens[j - 1].text
            if agentive(head) and word in VERBS and not agentive(word):
                break  # `the writer and the painter compare notes`
            verb = third_person(word) or word in _AUXILIARIES or _adverb_and_verb(tokens, j)
            if (verb or _aside(tokens, j)) and (agentive(head) or head == "agent"):
                return j
            proper = at > 0 and tokens[j - 1].capital and third_person(word)
            if fallback is None and (proper or (third_person(word) and known_verb(word))):
                fallback = j
        if word == "of" and at < j < len(tokens) - 1 and in_name(tokens[j + 1].text):
            continue
        if not in_name(word) and not (j > at and word in _INSIDE):
            break
    return fallback


def _aside(tokens: Sequence[Token], at: int) -> bool:
    """`the writer, using …` and `the writer (web_search) drafts`."""
    if tokens[at].text not in {",", "("} or at + 1 >= len(tokens):
        return False
    if tokens[at].text == ",":
        return tokens[at + 1].text in {"using", "who", "when", "if"}
    close = next((j for j in range(at, min(at + 9, len(tokens))) if tokens[j].text == ")"), 0)
    return bool(close) and close + 1 < len(tokens) and third_person(tokens[close + 1].text)


def _adverb_and_verb(tokens: Sequence[Token], at: int) -> bool:
    return (
        tokens[at].text in _ADVERBS
        and at + 1 < len(tokens)
        and (known_verb(tokens[at + 1].text) or tokens[at + 1].text in _AUXILIARIES | _ADVERBS)
    )


def head_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name with the head of an agent ends, whatever follows."""
    end: int | None = None
    for j in range(at, min(at + LONGEST_NAME, len(tokens))):
        word = tokens[j].text
        if not in_name(word) and not (j > at and word in _INSIDE):
            break
        if agentive(word) or (agentive(singular(word)) and word not in OUTSIDERS):
            end = j + 1
        elif end is not None:
            break
    return end


def plain_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a noun phrase of any kind ends, in a list that can hold nothing but agents."""
    j = at
    while j < len(tokens) and j - at < LONGEST_NAME and in_name(tokens[j].text):
        if j > at and third_person(tokens[j].text) and known_verb(tokens[j].text):
            break
        j += 1
    return j if j > at else None


def proper_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name in capitals ends: `Backend`, `QA`."""
    j = at
    while j < len(tokens) and tokens[j].capital and in_name(tokens[j].text) and j - at < 3:
        j += 1
    return j if j > at else None


def listed(
    tokens: Sequence[Token], at: int, *, any_noun: bool = False
) -> tuple[list[tuple[int, int]], int]:
    """The noun phrases of a list that begins at a token, and where the list ends."""
    items: list[tuple[int, int]] = []
    end = at
    while at < len(tokens):
        begin = after_determiners(tokens, at)
        stop = head_end(tokens, begin) or proper_end(tokens, begin)
        if stop is None and any_noun:
            stop = plain_end(tokens, begin)
        if stop is None:
            break
        items.append((begin, stop))
        end = at = stop
        if at < len(tokens) and tokens[at].text == "(":
            while at < len(tokens) and tokens[at].text != ")":
                at += 1
            at += 1
        separated = False
        while at < len(tokens) and tokens[at].text in {",", "and", "or", ";", "then"}:
            at, separated = at + 1, True
        if not separated:
            break
    return items, end


def names_crew(sentence: Sentence) -> bool:
    """`Crew: release-notes`: the crew's own name is no agent."""
    tokens = sentence.tokens
    if not sentence.first or len(tokens) > 10:
        return False
    if tokens[0].text.startswith(("crew:", "team:")):
        return True
    plain = tokens[0].text in {"crew", "team"} and len(tokens) > 2 and tokens[1].text == ":"
    return plain and all(t.text != "," for t in tokens)


def discover(sentences: Sequence[Sentence], names: Names) -> None:
    """Collects the agents of a prompt."""
    for sentence in sentences:
        if sentence.kind == "heading" or names_crew(sentence):
            continue
        tokens = sentence.tokens
        _cast(sentence, names)
        _label(sentence, names)
        _arrows(tokens, names)
        for at, token in enumerate(tokens):
            previous = tokens[at - 1].text if at else ""
            if previous in DETERMINERS:
                continue
            if token.text in DETERMINERS or at == 0 or previous in _OPENERS or _hands(tokens, at):
                _subject(tokens, at, previous, names)


def _subject(tokens: Sequence[Token], at: int, previous: str, names: Names) -> None:
    begin = after_determiners(tokens, at)
    if begin >= len(tokens) or not in_name(tokens[begin].text):
        return
    article = begin > at
    introduced = article and tokens[begin - 1].text in {"a", "an", "one"}
    opens = at == 0 or previous in _OPENERS
    if previous in {"like", "want", "need", "ask", "wants", "send", "put"}:
        end = head_end(tokens, begin)
        if (
            end is not None
            and end < len(tokens)
            and tokens[end].text in {"to", "on", "off", "that", "who"}
        ):
            names.add(tokens[begin:end], introduced)
            return
    if (
        previous in {"it", "him", "her", "them", "one"}
        and at > 1
        and tokens[at - 2].text in {"call", "that", "this"}
    ):
        end = head_end(tokens, begin) or plain_end(tokens, begin)
        if end is not None and article:
            names.add(tokens[begin:end], introduced=True)
            return
    if previous in {"have", "let", "get", "has"} and _made_to_work(
        tokens, begin, names, introduced
    ):
        return
    if previous == "by" and (end := _done_by(tokens, at, begin)) is not None:
        names.add(tokens[begin:end], introduced)
        return
    if _hands(tokens, at):
        end = head_end(tokens, begin)
        if end is not None and (article or previous != "by"):
            for first, last in listed(tokens, at)[0]:
                names.add(tokens[first:last], introduced)
        return
    if _embedded(tokens, at):
        return
    end = before_verb(tokens, begin)
    if end is not None and _works(tokens, begin, end, opens=opens, article=article):
        names.add(tokens[begin:end], introduced)
    elif opens or article:
        _several(tokens, at, names, opens=opens)
        _relative(tokens, begin, names, introduced)


def _done_by(tokens: Sequence[Token], at: int, begin: int) -> int | None:
    """Where the name of one ends by whom something is done, whatever its head: `by the DBA`."""
    back = at - 2
    while back >= 0 and at - back < 6 and not _DONE.fullmatch(tokens[back].text):
        if not tokens[back].text.isalpha():
            return None
        back -= 1
    passive = back > 0 and any(
        t.text in {"is", "are", "gets", "get", "be", "was", "being", "then", "and", "been"}
        for t in tokens[max(0, back - 4) : back]
    )
    if not passive or back < 0 or at - back >= 6:
        return None
    if tokens[back].text in {"driven", "caused", "limited", "increased", "reduced", "followed"}:
        return None
    end = begin
    while end < len(tokens) and end - begin < LONGEST_NAME and in_name(tokens[end].text):
        end += 1
    if end == begin or (end < len(tokens) and tokens[end].text in {"of", "in"}):
        return None
    head, article = tokens[end - 1], begin > at
    if agentive(head.text) or head.text == "agent":
        return None  # what is found by its head has its own way
    if head.shouted or (head.capital and not article):
        return end if head.text not in PRONOUNS else None
    if not article or tokens[begin - 1].text in {"this", "that", "its", "his", "her", "their"}:
        return None
    if head.text in _PLACES:
        return end if end - begin > 1 or head.text == "newsroom" else None
    thing = head.text in THINGS | OUTSIDERS | PRONOUNS | _IDLE
    return None if thing or _ABSTRACT.fullmatch(head.text) else end


def _embedded(tokens: Sequence[Token], at: int) -> bool:
    previous = tokens[at - 1].text if at else ""
    return previous in _EMBEDDED


def _works(tokens: Sequence[Token], begin: int, end: int, *, opens: bool, article: bool) -> bool:
    head, verb = tokens[end - 1], tokens[end].text
    if head.text == "agent" and end - begin > 1:
        return True
    if not article and not opens:
        return False
    if agentive(head.text):
        return article or not known_verb(head.text) or end - begin > 1 or begin == 0
    if head.capital and opens and begin > 0 and third_person(verb) and head.text not in PRONOUNS:
        return True
    if head.shouted and verb not in _AUXILIARIES and head.text not in PRONOUNS:
        return third_person(verb)
    if head.text in _PLACES and article and end - begin > 1 and opens:
        return known_verb(verb) and third_person(verb) and verb not in _STATES
    if verb in _AUXILIARIES or head.text in THINGS | OUTSIDERS | PRONOUNS | _IDLE:
        return False
    if begin == 0 and head.capital and not article:
        return _plain_subject(tokens, end)
    if not opens or not known_verb(verb) or verb in _STATES:
        return False
    if head.text.endswith("s") and head.text not in NOT_VERBS:
        return False
    return (article and tokens[begin - 1].text != "this") or head.capital


def _plain_subject(tokens: Sequence[Token], end: int) -> bool:
    """`Audio mixes the tracks`: a bare word that does something known to something."""
    verb = tokens[end].text
    if end > 2 or not known_verb(verb) or not third_person(verb) or verb in _STATES:
        return False
    if end + 1 >= len(tokens) or _ABSTRACT.fullmatch(tokens[end - 1].text):
        return False
    after = tokens[end + 1].text
    return after in DETERMINERS | {"it", "them", "all", "both", "care", "over", "up", "out"}


def _several(tokens: Sequence[Token], at: int, names: Names, *, opens: bool) -> None:
    items, end = listed(tokens, at)
    if len(items) < 2:
        return
    word = tokens[end].text if end < len(tokens) else "."
    heads = all(agentive(tokens[b - 1].text) and a > 0 for a, b in items)
    ends = word in {",", ".", "–", ";", ")", "both"} or end == len(tokens)
    if opens and heads and ends and (at == 0 or tokens[at - 1].text in {"then", "next", ","}):
        if all(tokens[a - 1].text in DETERMINERS for a, _ in items):
            for first, last in items:
                names.add(tokens[first:last], introduced=True)
        return
    follows = word in VERBS or word in _ADVERBS | _AUXILIARIES | {"are", "have"}
    if follows and opens:
        for first, last in items:
            names.add(tokens[first:last])


def _relative(tokens: Sequence[Token], begin: int, names: Names, introduced: bool) -> None:
    end = head_end(tokens, begin)
    if end is None or end + 1 >= len(tokens):
        return
    at = end + 1 if tokens[end].text == "," else end
    relative = tokens[at].text in {"who", "that"} and at + 1 < len(tokens)
    if (relative and third_person(tokens[at + 1].text)) or tokens[end].text == "per":
        names.add(tokens[begin:end], introduced)
    elif tokens[end - 1].text == "agent":
        names.add(tokens[begin:end])


def _made_to_work(tokens: Sequence[Token], begin: int, names: Names, introduced: bool) -> bool:
    items, end = listed(tokens, begin)
    if len(items) > 1 and end < len(tokens) and tokens[end].text in VERBS:
        return all(names.add(tokens[a:b], introduced) for a, b in items)
    for j in range(begin + 1, min(begin + LONGEST_NAME + 1, len(tokens))):
        if tokens[j].text in VERBS and agentive(tokens[j - 1].text):
            return names.add(tokens[begin:j], introduced)
        if not in_name(tokens[j].text):
            break
    return False


def _hands(tokens: Sequence[Token], at: int) -> bool:
    """Whether what stands before a token hands work, or a tool, to what begins there."""
    previous = tokens[at - 1].text if at else ""
    if previous in _BY:
        return True
    if (
        previous in {"for", "to"}
        and at > 1
        and tokens[at - 2].text in {"only", "reserved", "available", "exclusively"}
    ):
        return True
    if previous == "to":
        return any(t.text in _TO for t in tokens[max(0, at - 8) : at - 1])
    if previous in {"comes", "is"} and at > 1:
        return tokens[at - 2].text in {"next", "then", "up", "last", "turn"}
    if previous in {"is", "it"} and at > 1 and tokens[at - 2].text == "it":
        return any(t.text == "turn" for t in tokens[at : at + 7])
    return False


def _cast(sentence: Sentence, names: Names) -> None:
    tokens = sentence.tokens
    words = [t.text for t in tokens]
    for i, word in enumerate(words):
        marked = any(w in _MARKERS for w in words[max(0, i - 9) : i])
        if word == ":" and i + 1 < len(words):
            works = {"next", "simultaneously", "parallel", "once", "time"} & {*words[:i]}
            if not (marked or works):
                continue
            items, _ = listed(tokens, i + 1, any_noun=marked)
        elif word == "of" and (
            words[i - 1] in {"consists", "consisting", "up", "composed", "team", "crew", "made"}
            or (marked and words[i - 1] in {"consist", "set"})
        ):
            items, _ = listed(tokens, i + 1, any_noun=words[i - 1] != "up" or marked)
        elif word == "next" and {"who", "which", "whose"} & {*words[:i]} and i + 2 < len(words):
            at = (
                i + 2
                if words[i + 1] in {":", ",", "(", "from", "among", "between", "–", "of"}
                else i + 1
            )
            items, _ = listed(tokens, at)
        elif (
            word in {"supervises", "manages", "coordinates"}
            or (word == "to" and words[i - 1] in {"delegates", "work", "tasks"})
            or (word in {"are", "is"} and marked and i < 5)
        ):
            items, _ = listed(tokens, i + 1)
        else:
            continue
        if len(items) > 1 or (items and word == ":"):
            for first, last in items:
                names.add(tokens[first:last], introduced=True)


def _label(sentence: Sentence, names: Names) -> None:
    """`Writer: drafts the notes`, at the beginning of a line."""
    tokens = sentence.tokens
    if not sentence.first:
        return
    at = after_determiners(tokens, 0)
    for j in range(at, min(at + LONGEST_NAME + 1, len(tokens) - 1)):
        if tokens[j].text in {":", "–"} and j > at:
            follows = tokens[j + 1].text
            if agentive(tokens[j - 1].text) or (third_person(follows) and known_verb(follows)):
                names.add(tokens[at:j], introduced=True)
            return
        if not in_name(tokens[j].text):
            return
    if len(tokens) <= LONGEST_NAME + 1 and sentence.kind == "item":
        end = head_end(tokens, at)
        if end is not None and (end == len(tokens) or tokens[end].text == "("):
            names.add(tokens[at:end], introduced=True)


def _arrows(tokens: Sequence[Token], names: Names) -> None:
    if sum(t.text == "->" for t in tokens) == 0:
        return
    at, stretch = 0, list[tuple[int, int]]()
    for j in range(len(tokens) + 1):
        if j == len(tokens) or tokens[j].text == "->":
            stretch.append((after_determiners(tokens, at), j))
            at = j + 1
    for begin, end in stretch:
        words = [t.text for t in tokens[begin:end]]
        plain = all(in_name(w) for w in words) and 0 < len(words) <= LONGEST_NAME
        if plain and (agentive(words[-1]) or len(stretch) > 2):
            names.add(tokens[begin:end])
        elif words:
            stop = head_end(tokens, begin)
            if stop is not None:
                for first, last in listed(tokens, begin)[0]:
                    names.add(tokens[first:last])
