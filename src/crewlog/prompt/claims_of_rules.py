"""What a model's statement claims of rules, people and hosts, and the prompt does not say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from crewlog.prompt import ast
from crewlog.prompt.ast import AnyStatement
from crewlog.prompt.grammar.lexicon import NUMBERS
from crewlog.prompt.quotes import Prompt
from crewlog.prompt.registry import Registry

Path = tuple[str | int, ...]
Claim = tuple[Path, str, str]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_END = re.compile(r"[.!?;](?=\s|$)|\n\s*\n|\n(?=\s*[-*#•])")
_LONGEST = 1_000
"""Characters of a sentence that are looked at."""
_NUMBER = re.compile(r"([0-9]+(?:[.,][0-9]+)*)\s?(k\b|%|percent)?|[a-z]+", re.IGNORECASE)
_OFTEN = {"once": 1.0, "twice": 2.0, "thrice": 3.0}
_COUNTED = re.compile(
    r"\b(?:at most|no more than|not more than|more than|up to|a maximum of|maximally|max\.?)\s+"
    r"(?:\S+\s+(?:times?|calls?)\b|once\b|twice\b)|\b(?:times|once|twice) (?:per|an?|each|every) "
    r"(?:run|hour|day|week|month)\b",
    re.IGNORECASE,
)
_MAY_IF = re.compile(
    r"\b(?:may|can|allowed to|permitted to)\b.*\bonly (?:if|when|while|after|once|as long as)\b"
    r"|\b(?:may|can|allowed to|permitted to)\b.*\b(?:unless|until)\b",
    re.IGNORECASE | re.DOTALL,
)


def claims_of_rules(said: AnyStatement, prompt: Prompt, registry: Registry) -> Iterator[Claim]:
    """What a statement about calls, groups, people, budgets or hosts has that no words say."""
    quoted = Prompt(" ".join(prompt.text[w.start : w.end] for w in said.words))
    match said:
        case ast.Rule():
            yield from _rule(said, prompt, quoted, registry)
        case ast.Group(name=name):
            if not _NAME.fullmatch(name) or not prompt.names(name):
                yield ("name",), f"the prompt speaks of no group {name!r}", "Use its own noun."
        case ast.Answers(people=people):
            yield from _named(("people",), people, quoted)
        case ast.Unanswered(escalate_to=name) if name is not None:
            yield from _named((), [name], quoted, "escalate_to")
        case ast.Budget():
            yield from _number("tokens", said.tokens, quoted)
            yield from _number("cost", said.cost, quoted)
        case ast.Sure(least=least):
            yield from _number("least", least, quoted)
        case ast.Reach(hosts=hosts):
            there = _hosts(quoted.text)
            for index, host in enumerate(hosts):
                if host.removeprefix("*.").casefold() not in there:
                    yield ("hosts", index), f"the quotes do not name the host {host!r}", ""
        case _:
            pass


def _rule(said: ast.Rule, prompt: Prompt, quoted: Prompt, registry: Registry) -> Iterator[Claim]:
    for index, group in enumerate(said.groups):
        if group not in registry.groups and not prompt.names(group):
            yield ("groups", index), f"the prompt speaks of no group {group!r}", ""
    for index, name in enumerate(said.people_set):
        if not _NAME.fullmatch(name) or not prompt.names(name):
            yield ("people_set", index), f"the prompt speaks of no flag {name!r}", ""
    yield from _number("most", said.most, quoted)


def _hosts(text: str) -> set[str]:
    """The words of a text that may be hosts."""
    return {word.strip(".,;:!?()\"'*").casefold() for word in text.split()}


def _named(path: Path, names: Sequence[str], quoted: Prompt, key: str = "") -> Iterator[Claim]:
    for index, name in enumerate(names):
        if quoted.find(name) is None:
            where: Path = (key,) if key else (*path, index)
            yield where, f"the quotes do not name {name!r}", "Write names as the words do."


def _number(key: str, value: float | None, quoted: Prompt) -> Iterator[Claim]:
    if value is not None and not any(abs(value - each) < 1e-9 for each in _numbers(quoted.text)):
        say = f"the quotes do not say the number {value:g}"
        yield (key,), say, "Quote the words that say it, and say no other number."


def _numbers(text: str) -> Iterator[float]:
    """The numbers that a text has, in digits and in words."""
    for found in _NUMBER.finditer(text):
        digits, unit = found[1], (found[2] or "").lower()
        if digits is None:
            word = found[0].lower()
            if word in _OFTEN or word in NUMBERS:
                yield float(_OFTEN[word] if word in _OFTEN else NUMBERS[word])
            continue
        whole = re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", digits)
        try:
            number = float(digits.replace(",", "") if whole else digits.replace(",", "."))
        except ValueError:
            continue
        yield number * 1000 if unit == "k" else number
        if unit in {"%", "percent"}:
            yield number / 100


def unbounded(said: Sequence[AnyStatement], text: str) -> Iterator[int]:
    """Rights whose sentence counts calls, or says a condition, where no statement takes that up.

    Steps and traits do not: there it would only be told to the agent.
    """
    bare = (ast.Allow, ast.Step, ast.Trait, ast.Cast)
    taken = [w for each in said if not isinstance(each, bare) for w in each.words]
    for index, each in enumerate(said):
        if isinstance(each, ast.Allow) and any(_free(w, taken, text) for w in each.words):
            yield index


def _free(words: ast.Words, taken: Sequence[ast.Words], text: str) -> bool:
    """Whether the rest of a sentence has a bound that nothing takes up."""
    stop = _END.search(text, words.end)
    end = min(stop.start() if stop else len(text), words.start + _LONGEST)
    sentence = text[words.start : max(end, words.end)][: 2 * _LONGEST]
    for pattern in (_COUNTED, _MAY_IF):
        for found in pattern.finditer(sentence):
            last = words.start + found.end()
            if not any(each.start < last <= each.end for each in taken):
                return True
    return False
