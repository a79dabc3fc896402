"""Groups of agents that a prompt names, found before anything is read: no group is an agent.

`The group desk has the writer and the checker`, `The writer and the checker form the desk group`,
`The reviewers (the writer and the checker) form a group`. Wherever the prompt speaks of one, a
sign stands in the place of the words (`&0`), so that nobody takes it for an agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.sentences import Sentence, Token

SIGN = "&"
_HAS = word_set("has contains includes comprises :")
_FORM = word_set("form forms make makes are")
_MEMBERS = {("members", "of"), ("agents", "in"), ("agents", "of"), ("everyone", "in")}
_CALLED = word_set("called named")
_NO_NAME = word_set(
    "a an the this that of in is has and or with who which called named for to by any each every "
    "no group groups one whole first second next same other another : , ( )"
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(slots=True)
class NamedGroups:
    """The groups of a prompt and its registry."""

    names: list[str] = field(default_factory=list[str])
    """By number."""
    bare: set[str] = field(default_factory=set[str])
    """Those that are called by their name alone: `the reviewers`."""
    members: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The agents of each, once they are known."""

    @classmethod
    def of(cls, sentences: Iterable[Sentence], known: Iterable[str]) -> NamedGroups:
        """The groups that sentences name, and those of the registry."""
        found = cls()
        for name in known:
            found.add(name)
        for sentence in sentences:
            if sentence.kind != "heading":
                found._look(sentence.tokens)
        return found

    def add(self, name: str, *, bare: bool = False) -> None:
        """Takes a name."""
        if _NAME.fullmatch(name) and name not in _NO_NAME:
            if name not in self.names:
                self.names.append(name)
            if bare:
                self.bare.add(name)

    def _look(self, tokens: Sequence[Token]) -> None:
        words = [token.text for token in tokens]
        at = 1 if words[:1] == ["the"] else 0
        if "group" not in words or len(words) < at + 3:
            return
        behind = words[at + 2] if len(words) > at + 2 else ""
        end = at + 4 if behind in {"consists", "made"} else at + 3
        listed = words[end : end + 1] in (["the"], ["a"], ["an"]) or {",", "and"} & {*words[end:]}
        opens = behind in _HAS or words[at + 2 : at + 4] in (["consists", "of"], ["made", "of"])
        opens = opens and bool(listed)
        if words[at] == "group" and opens:
            self.add(tokens[at + 1].key)
        elif words[at + 1] == "group" and opens:
            self.add(tokens[at].key)
        form = next((i for i, word in enumerate(words) if word in _FORM), -1)
        if form <= 0 or words[form + 1 : form + 2] not in (["a"], ["the"], ["one"]):
            return
        rest = words[form + 2 :]
        if rest[:1] == ["group"]:
            named = form + 3 + (rest[1:2] != [] and rest[1] in _CALLED)
            if words[at + 1] == "(" and words[form - 1] == ")":
                self.add(tokens[at].key, bare=True)
            elif named < len(tokens):
                self.add(tokens[named].key)
        elif rest[1:2] == ["group"]:
            self.add(tokens[form + 2].key)

    def marked(self, sentence: Sentence) -> Sentence:
        """A sentence with signs in the place of the groups that it speaks of."""
        if not self.names or sentence.kind == "heading":
            return sentence
        tokens, out, at = sentence.tokens, list[Token](), 0
        while at < len(tokens):
            found = self._at(tokens, at)
            if found is None:
                out.append(tokens[at])
                at += 1
                continue
            number, end = found
            sign = f"{SIGN}{number}"
            out.append(Token(sign, tokens[at].start, tokens[end - 1].end))
            at = end
        return replace(sentence, tokens=tuple(out)) if len(out) < len(tokens) else sentence

    def _at(self, tokens: Sequence[Token], at: int) -> tuple[int, int] | None:
        begin = at + (tokens[at].text in {"the", "a", "one"})
        if begin >= len(tokens):
            return None
        here = tokens[begin]
        follows = tokens[begin + 1] if begin + 1 < len(tokens) else None
        if here.text == "group" and follows is not None:
            named = begin + 1 + (follows.text in _CALLED)
            if named < len(tokens) and tokens[named].key in self.names:
                return self.names.index(tokens[named].key), named + 1
        if here.key in self.names and follows is not None and follows.text == "group":
            return self.names.index(here.key), begin + 2
        of = [token.text for token in tokens[max(0, at - 2) : at]]
        if here.key in self.names and tuple(of) in _MEMBERS and begin > at:
            return self.names.index(here.key), begin + 1
        if here.key in self.bare and (begin > at or at == 0):
            return self.names.index(here.key), begin + 1
        return None

    def of_sign(self, sign: str) -> str:
        """The group that a sign stands for."""
        return self.names[int(sign[len(SIGN) :])]
