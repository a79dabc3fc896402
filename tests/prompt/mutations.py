"""Seeded damage to texts: what people, editors, networks and enemies do to a prompt or a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

STRANGE = (
    "\x00",
    "\u200b",
    "\u202e",
    "\u2066",
    "\U0001f9a6",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\ud800",
    "\udfff",
    "\ufeff",
    "\x85",
    "\u2028",
    "\x1b[31m",
    "e\u0301\u0301\u0301",
    "\u05d0\u05d1",
    "\uff24",
    "\r",
    "\t",
    "\\",
    "%s",
    "{}",
    "$(id)",
    "`",
    "'",
    '"',
)
PIECES = (
    " and",
    ", then",
    " if",
    " unless",
    " otherwise",
    " only",
    " not",
    " the",
    " after",
    " at most",
    " 99999999999999999999",
    " -1",
    " 0.8 %",
    "#",
    "- ",
    "1. ",
    "((((",
    "))))",
    "[[[[",
    "{a: ",
    "&x *x",
    "<<: *x",
    "!!python/object:os.system ",
    "? ",
    ": ",
    "---\n",
    "...\n",
    "```\n",
    "| ",
    "> ",
)


class Mutator:
    """Damages texts.

    Args:
        seed: The same seed does the same.
        texts: What is spliced in.
    """

    def __init__(self, seed: int, texts: Sequence[str]) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.texts = texts
        self.ways: tuple[Callable[[str], str], ...] = (
            self.truncated,
            self.shuffled,
            self.doubled,
            self.spliced,
            self.swapped_case,
            self.strange,
            self.long_token,
            self.unpunctuated,
            self.nested,
            self.without,
            self.inserted,
            self.lines_shuffled,
        )

    def one(self) -> str:
        """A damaged text."""
        text = self.random.choice(self.texts)
        for _ in range(self.random.randint(1, 3)):
            text = self.random.choice(self.ways)(text)
        return text

    def at(self, text: str) -> int:
        return self.random.randint(0, len(text))

    def truncated(self, text: str) -> str:
        cut = self.at(text)
        return text[:cut] if self.random.random() < 0.7 else text[cut:]

    def shuffled(self, text: str) -> str:
        words = text.split(" ")
        first = self.random.randint(0, max(0, len(words) - 1))
        some = words[first : first + self.random.randint(2, 30)]
        self.random.shuffle(some)
        return " ".join([*words[:first], *some, *words[first + len(some) :]])

    def doubled(self, text: str) -> str:
        a, b = sorted((self.at(text), self.at(text)))
        return text[:b] + text[a:b] * self.random.randint(1, 4) + text[b:]

    def spliced(self, text: str) -> str:
        other = self.random.choice(self.texts)
        return text[: self.at(text)] + other[self.at(other) :]

    def swapped_case(self, text: str) -> str:
        a, b = sorted((self.at(text), self.at(text)))
        return text[:a] + text[a:b].swapcase() + text[b:]

    def strange(self, text: str) -> str:
        for _ in range(self.random.randint(1, 12)):
            at = self.at(text)
            text = text[:at] + self.random.choice(STRANGE) + text[at:]
        return text

    def long_token(self, text: str) -> str:
        at = self.at(text)
        sign = self.random.choice(("x", "_", "a-", "9", "\u00e4", "' ", "the ", "not ", "if ", "."))
        return text[:at] + sign * self.random.choice((100, 2_000, 20_000)) + text[at:]

    def unpunctuated(self, text: str) -> str:
        gone = self.random.choice((".,;:", ".", ",", " ", "\n", ":-", "[]{}", "'\""))
        return text.translate({ord(sign): None for sign in gone})

    def nested(self, text: str) -> str:
        a, b = sorted((self.at(text), self.at(text)))
        depth = self.random.choice((1, 5, 200))
        left, right = self.random.choice(
            (("(", ")"), ("[", "]"), ("{", "}"), ("if ", ", "), ("not (", ")"), ('"', '"'))
        )
        return text[:a] + left * depth + text[a:b] + right * depth + text[b:]

    def without(self, text: str) -> str:
        words = text.split(" ")
        for _ in range(self.random.randint(1, 8)):
            if words:
                words.pop(self.random.randrange(len(words)))
        return " ".join(words)

    def inserted(self, text: str) -> str:
        for _ in range(self.random.randint(1, 6)):
            at = self.at(text)
            text = text[:at] + self.random.choice(PIECES) + text[at:]
        return text

    def lines_shuffled(self, text: str) -> str:
        lines = text.splitlines(keepends=True)
        self.random.shuffle(lines)
        return "".join(lines)
