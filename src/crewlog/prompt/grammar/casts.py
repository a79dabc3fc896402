"""Agents that a prompt lists: its cast, the labels of its lines, its arrows."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.grammar.discovery import Names, names_crew
from crewlog.prompt.grammar.lexicon import CAST, agentive, known_verb, third_person
from crewlog.prompt.grammar.nouns import (
    LONGEST_NAME,
    Head,
    after_determiners,
    classified,
    head_end,
    in_name,
    listed,
    open_end,
)
from crewlog.prompt.grammar.sentences import Sentence, Token
from crewlog.prompt.grammar.shape_lists import checkers, list_at, plans

_SIDE_BY_SIDE = frozenset(["next", "simultaneously", "parallel", "once", "time"])
_MADE_OF = frozenset(["consists", "consisting", "up", "composed", "team", "crew", "made"])
_SUPERVISES = frozenset(["supervises", "manages", "coordinates"])
_AMONG = frozenset([":", ",", "(", "from", "among", "between", "–", "of"])
_THERE = frozenset(
    [
        ("there", "is"),
        ("there", "are"),
        ("we", "have"),
        ("i", "want"),
        ("crew", "has"),
        ("team", "has"),
    ]
)
_THERE_TOO = frozenset([("we", "need"), ("i", "need"), ("i", "have"), ("we", "want")])


def listed_agents(sentences: Sequence[Sentence], names: Names) -> None:
    """Collects the agents that a prompt lists."""
    planned = False
    for sentence in sentences:
        if sentence.kind == "heading" or names_crew(sentence):
            continue
        _cast(sentence.tokens, names)
        for first, last in checkers(sentence.tokens) if planned else ():
            names.add(sentence.tokens, first, last, introduced=True)
        planned = planned or plans(sentence.tokens)
        if sentence.first:
            _label(sentence, names)
        _arrows(sentence.tokens, names)


def _cast(tokens: Sequence[Token], names: Names) -> None:
    marked = -10
    seen: set[str] = set()
    for at, token in enumerate(tokens):
        near = at - marked < 10
        for first, last in list_at(tokens, at, seen) or ():
            names.add(tokens, first, last, introduced=True)
        found = _list_at(tokens, at, seen, marked=near)
        if found is not None:
            items, many = found
            if len(items) > 1 or (items and token.text == ":" and many):
                for first, last in items:
                    names.add(tokens, first, last, introduced=True)
        if token.text in CAST:
            marked = at
        seen.add(token.text)


def _list_at(
    tokens: Sequence[Token], at: int, seen: set[str], *, marked: bool
) -> tuple[list[tuple[int, int]], bool] | None:
    """The agents listed behind a word, and whether one of them is a list."""
    word = tokens[at].text
    previous = tokens[at - 1].text if at else ""
    if word == ":" and (marked or seen & _SIDE_BY_SIDE):
        chosen = bool(seen & {"who", "which", "whose", "decides", "picks"})
        return listed(tokens, at + 1, any_noun=marked or chosen)[0], True
    if word in {":", "namely"} or (previous, word) in _THERE | _THERE_TOO:
        return _introduced(tokens, at + 1), False
    if word == "of" and (previous in _MADE_OF or (marked and previous in {"consist", "set"})):
        return listed(tokens, at + 1, any_noun=previous != "up" or marked)[0], False
    if word == "next" and seen & {"who", "which", "whose"} and at + 2 < len(tokens):
        begin = at + 2 if tokens[at + 1].text in _AMONG else at + 1
        return listed(tokens, begin, any_noun=begin == at + 2)[0], False
    delegates = word == "to" and previous in {"delegates", "work", "tasks"}
    if word in _SUPERVISES or delegates or (word in {"are", "is"} and marked and at < 5):
        return listed(tokens, at + 1)[0], False
    return None


def _introduced(tokens: Sequence[Token], at: int) -> list[tuple[int, int]]:
    """A list whose members are all new, and half of them at least agents by their heads."""
    items, _ = listed(tokens, at, any_noun=True)
    new = all(tokens[a - 1].text in {"a", "an", "one"} for a, _ in items)
    agents = sum(classified(tokens[b - 1]) is Head.AGENT for _, b in items)
    return items if new and len(items) > 1 and 2 * agents >= len(items) else []


def _label(sentence: Sentence, names: Names) -> None:
    """`Writer: drafts the notes`, at the beginning of a line; `- a writer` in a list of agents."""
    tokens = sentence.tokens
    at = after_determiners(tokens, 0)
    for j in range(at, min(at + LONGEST_NAME + 1, len(tokens) - 1)):
        if tokens[j].text in {":", "–"} and j > at:
            follows = tokens[j + 1].text
            if agentive(tokens[j - 1].text) or (third_person(follows) and known_verb(follows)):
                names.add(tokens, at, j, introduced=True)
            return
        if not in_name(tokens[j].text):
            break
    if sentence.kind != "item":
        return
    among = bool(CAST & {*sentence.section.split()})
    end = head_end(tokens, at) or (open_end(tokens, at) if among else None)
    if end is None or not (among or len(tokens) <= LONGEST_NAME + 1):
        return
    if end > at and (end == len(tokens) or tokens[end].text in {"(", ","}):
        names.add(tokens, at, end, introduced=True)


def _arrows(tokens: Sequence[Token], names: Names) -> None:
    stretches: list[tuple[int, int]] = []
    at = 0
    for j, token in enumerate(tokens):
        if token.text == "->":
            stretches.append((after_determiners(tokens, at), j))
            at = j + 1
    if not stretches:
        return
    stretches.append((after_determiners(tokens, at), len(tokens)))
    for begin, end in stretches:
        _between_arrows(tokens, begin, end, names, several=len(stretches) > 2)


def _between_arrows(
    tokens: Sequence[Token], begin: int, end: int, names: Names, *, several: bool
) -> None:
    words = [t.text for t in tokens[begin:end]]
    plain = all(in_name(w) for w in words) and 0 < len(words) <= LONGEST_NAME
    if plain and (agentive(words[-1]) or several):
        names.add(tokens, begin, end)
    elif words and head_end(tokens, begin) is not None:
        for first, last in listed(tokens, begin)[0]:
            names.add(tokens, first, last)
