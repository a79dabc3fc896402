"""Hostile strings for a pattern, made of the pattern itself.

A pattern that backtracks for ever does so because a repeat in it can read the same words in more
than one way. So for each repeat of its parse tree: what leads there, then what the repeat's body
reads, many times over, then something that nothing reads.
"""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterator
from typing import Any

sre: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
MANY = 4
"""A repeat of at least that many times can be pumped."""
ENDS = ("", " \x00")
"""What follows the pumped words: nothing, or what no pattern reads."""
_CHARS = "a e0@#~ ,.-_'()\n\tA%<"
_CATEGORIES = {
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)

Node = tuple[Any, Any]


class Hostile:
    """What is made of one pattern."""

    def __init__(self, pattern: re.Pattern[str], seed: int = 1, *, samples: int = 4) -> None:
        self.random = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
        self.samples = samples
        self.tree = list(parser.parse(pattern.pattern, pattern.flags))
        said = re.sub(r"\\.|\(\?P?<\w+>|\(\?[:=!<>]+", " ", pattern.pattern)
        self.words = sorted(set(re.findall(r"[a-z]+", said))) or ["a"]

    @staticmethod
    def grown(lead: str, pump: str, length: int) -> Iterator[str]:
        """A pumped string, with each of the ends."""
        body = lead + pump * max(1, (length - len(lead)) // len(pump))
        for end in ENDS:
            yield body + end

    def pumps(self) -> list[tuple[str, str]]:
        """What leads to each repeat, and what it reads."""
        found: dict[tuple[str, str], None] = {}
        for lead, body in self._repeats(self.tree, ""):
            bodies = [b for b in dict.fromkeys(self._bodies(body)) if b.strip()]
            for one in bodies:
                found[lead, one] = None
            for _ in range(self.samples):
                some = self.random.choices(bodies, k=self.random.randint(2, 4)) if bodies else []
                if some:
                    found[lead, "".join(some)] = None
        return list(found)

    def _bodies(self, body: list[Node]) -> Iterator[str]:
        if len(body) == 1 and _reads(body[0], "a") and _reads(body[0], " "):
            words = self.random.sample(self.words, min(len(self.words), 4 * self.samples))
            yield " ".join(words) + " "
            yield from (f"{word} " for word in words[: self.samples])
        yield from self._each(body)
        for _ in range(self.samples):
            yield self._some(body)

    def _repeats(self, nodes: list[Node], lead: str) -> Iterator[tuple[str, list[Node]]]:
        for op, value in nodes:
            if op in _REPEATS:
                body = list(value[2])
                if value[1] >= MANY:
                    yield lead, body
                yield from self._repeats(body, lead)
            else:
                for inner in _inner(op, value):
                    yield from self._repeats(inner, lead)
            lead += self._node(op, value, least=True)

    def _each(self, nodes: list[Node]) -> Iterator[str]:
        """One string for each branch at the top of a body, and for each option of it."""
        before = ""
        for at, (op, value) in enumerate(nodes):
            branches = value[1] if op is sre.BRANCH else ()
            after = "".join(self._node(o, v, least=True) for o, v in nodes[at + 1 :])
            for branch in branches:
                yield before + self._some(list(branch), least=True) + after
            for inner in _inner(op, value) if op not in (sre.BRANCH, *_REPEATS) else ():
                for text in self._each(inner):
                    yield before + text + after
            if op in _REPEATS and value[0] == 0:
                yield before + self._some(list(value[2])) + after
            before += self._node(op, value, least=True)
        yield before

    def _some(self, nodes: list[Node], *, least: bool = False) -> str:
        return "".join(self._node(op, value, least=least) for op, value in nodes)

    def _node(self, op: Any, value: Any, *, least: bool = False) -> str:
        if op is sre.LITERAL:
            return chr(value)
        if op is sre.NOT_LITERAL:
            return "a" if value != ord("a") else "b"
        if op is sre.ANY:
            return "a"
        if op is sre.IN:
            return self._char(value)
        if op is sre.BRANCH:
            return self._some(list(self.random.choice(value[1])), least=least)
        if op in _REPEATS:
            return self._repeated(value, least=least)
        inner = _inner(op, value)
        return self._some(inner[0], least=least) if inner else ""

    def _repeated(self, value: Any, *, least: bool) -> str:
        low, high, body = value
        nodes = list(body)
        if len(nodes) == 1 and nodes[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL) and high > 1:
            word = self.random.choice(self.words)
            if (low or not least) and all(_reads(nodes[0], c) for c in word):
                return word[: high if isinstance(high, int) else None]
        count = low if least else self.random.randint(low, max(low, min(int(high), low + 2)))
        return "".join(self._some(nodes, least=least) for _ in range(count))

    def _char(self, value: Any) -> str:
        fits = [c for c in _CHARS if _in(value, c)]
        if fits:
            return self.random.choice(fits[:4])
        return next(
            (
                chr(v if o is sre.LITERAL else v[0])
                for o, v in value
                if o in (sre.LITERAL, sre.RANGE)
            ),
            "a",
        )


def _inner(op: Any, value: Any) -> list[list[Node]]:
    if op is sre.SUBPATTERN:
        return [list(value[3])]
    if op is sre.ATOMIC_GROUP:
        return [list(value)]
    if op is sre.BRANCH:
        return [list(branch) for branch in value[1]]
    return []


def _reads(node: Node, char: str) -> bool:
    op, value = node
    if op not in (sre.ANY, sre.NOT_LITERAL, sre.IN):
        return False
    if op is sre.ANY:
        return char != "\n"
    return chr(value) != char if op is sre.NOT_LITERAL else _in(value, char)


def _in(value: Any, char: str) -> bool:
    negated = any(op is sre.NEGATE for op, _ in value)
    said = any(
        (op is sre.LITERAL and chr(v) == char)
        or (op is sre.RANGE and v[0] <= ord(char) <= v[1])
        or (op is sre.CATEGORY and re.match(_CATEGORIES[v], char) is not None)
        for op, v in value
    )
    return said != negated
