"""Nouns and predicates: the parts of a logical frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crewlog.prompt.grammar.phrase import Phrase, number
from crewlog.prompt.grammar.tokens import Token, phrase_of


def empty() -> Phrase:
    """No words."""
    return Phrase(())


# -- nouns -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Noun:
    """Of whom or what a noun phrase speaks."""

    tokens: tuple[Token, ...] = ()
    agents: Phrase = field(default_factory=empty)
    """Not those that something belongs to (`the writer's notes`)."""
    tools: Phrase = field(default_factory=empty)
    models: Phrase = field(default_factory=empty)
    quantifier: str = ""
    """`all`, `none` or nothing; `any` counts as `all`."""
    excepted: Phrase = field(default_factory=empty)
    """The agents or tools of `everyone but the writer`."""
    only: bool = False
    """`only the writer`, `nobody but the writer`, `the writer alone`."""
    others: bool = False
    """`nobody else`, `the others`."""
    things: bool = False
    """The quantifier speaks of tools: `everything but deploy`."""
    pronoun: str = ""
    """`it`, `they`, `you`, `i` or `me`."""
    words: tuple[str, ...] = ()
    """What is none of these."""

    def __bool__(self) -> bool:
        return bool(self.tokens)

    @property
    def phrase(self) -> Phrase:
        """Its units."""
        return phrase_of(self.tokens)

    @property
    def text(self) -> str:
        """Its units' text."""
        return " ".join(t.text for t in self.tokens)


AROUND = frozenset(
    ["both", "tool", "tools", "the", "either", "neither", "model", "agent", "agents"]
)


_QUANTIFIERS = {"all": "all", "none": "none", "no": "none"}


def noun(parts: Sequence[Token]) -> Noun:
    """What a stretch of tokens, all of one noun phrase, speaks of."""
    agents, tools, models, excepted = list[Token](), list[Token](), list[Token](), list[Token]()
    words: list[str] = []
    only = others = things = False
    quantifier = pronoun = ""
    behind = False
    for at, token in enumerate(parts):
        kind = token.kind
        owner = kind == "agent" and at + 1 < len(parts) and parts[at + 1].text == "'s"
        if kind == "except" or (kind == "but" and quantifier):
            behind = True
        elif behind and kind in {"agent", "tool", "act"}:
            excepted.append(token)
        elif owner or kind in {"sub", "prep", "not", "but", "sign", "modal", "who", "time"}:
            words.append(token.text)
        elif kind == "agent":
            agents.append(token)
        elif kind in {"tool", "act"}:
            tools.append(token)
        elif kind == "model":
            models.append(token)
        elif kind in _QUANTIFIERS:
            quantifier, others = quantifier or _QUANTIFIERS[kind], others or token.value == "else"
            things = things or token.value == "things"
        elif kind == "only" or token.text == "alone":
            only = True
        elif kind in {"pronoun", "i", "me"}:
            pronoun = token.value or kind
        elif kind == "word" and token.text not in AROUND:
            words.append(token.text)
    made = Noun(
        tokens=tuple(parts),
        agents=phrase_of(agents),
        tools=phrase_of(tools),
        models=phrase_of(models),
        quantifier=quantifier,
        excepted=phrase_of(excepted),
        only=only,
        others=others,
        things=things,
        pronoun=pronoun,
        words=tuple(words),
    )
    return nobody_but(made)


def nobody_but(made: Noun) -> Noun:
    """`nobody but the writer` is only the writer."""
    if made.quantifier == "none" and made.excepted and "@" in made.excepted.text:
        return replace(made, agents=made.excepted, excepted=empty(), quantifier="", only=True)
    if made.quantifier == "none" and made.things and made.excepted:
        return replace(
            made, tools=made.excepted, excepted=empty(), quantifier="", things=False, only=True
        )
    if made.quantifier == "none" and made.others and made.agents:
        return replace(made, quantifier="", only=True, others=False)
    return made


# -- frames ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """One predicate, in the active voice."""

    subject: Noun = field(default_factory=Noun)
    """Who does it; empty in commands and where the passive does not say."""
    verb: str = ""
    """The base form; `be` with what something is as object; empty where there is none."""
    object: Noun = field(default_factory=Noun)
    modal: str = ""
    """`may`, `must`, `should`, `will`, `want` or nothing."""
    negated: bool = False
    args: dict[str, Phrase] = field(default_factory=dict[str, Phrase])
    """What prepositions and subordinators lead: `by`, `to`, `from`, `without`, `with`, `for`,
    `about` (and `on`, `of`, …), `before`, `after`, `if`, `when`, `unless`, `until`."""
    adverbs: tuple[str, ...] = ()
    """`only`, words of time, what is left."""
    most: int | None = None
    """`at most 3 times`."""
    command: bool = False
    """An imperative."""
    passive: bool = False
    verbless: bool = False
    """Nouns side by side: `the writer: write_file`."""
    elided: bool = False
    """The subject is that of the frame before."""
    phrase: Phrase = field(default_factory=empty)
    """The units that it was read from."""

    @property
    def agents(self) -> Phrase:
        """The subject's agents."""
        return self.subject.agents

    @property
    def only(self) -> bool:
        """Whether nobody but the subject."""
        return self.subject.only

    @property
    def quantifier(self) -> str:
        """The subject's."""
        return self.subject.quantifier

    def takes(self, *names: str) -> bool:
        """Whether it has no other arguments than these."""
        return set(self.args) <= set(names)


_BOUNDS = (
    "at most",
    "at the most",
    "no more than",
    "not more than",
    "never more than",
    "up to",
    "max",
    "maximum",
    "a maximum of",
    "limited to",
)
TIMES = frozenset(
    [
        "time",
        "times",
        "round",
        "rounds",
        "attempt",
        "attempts",
        "try",
        "tries",
        "pass",
        "passes",
        "turn",
        "turns",
        "go",
        "goes",
        "iteration",
        "iterations",
        "hand-offs",
        "handoffs",
    ]
)


def bound(words: Sequence[str]) -> tuple[int, int, int] | None:
    """`at most 3 times` in a list of words: where it begins, where it ends, how many."""
    for at, word in enumerate(words):
        for lead in _BOUNDS:
            size = len(lead.split())
            if " ".join(words[at : at + size]) == lead and at + size < len(words):
                most = number(words[at + size])
                if most is not None and most >= 1:
                    stop = at + size + 1
                    return at, stop + (" ".join(words[stop : stop + 1]) in TIMES), int(most)
        most = number(word)
        if most is None or most < 1:
            continue
        end = at + 1 + (at + 1 < len(words) and words[at + 1] in TIMES)
        rest = " ".join(words[end : end + 3])
        for tail in ("at most", "at the most", "max", "maximum", "tops", "is plenty", "are plenty"):
            if rest == tail or rest.startswith(tail + " "):
                return at, end + len(tail.split()), int(most)
        if end > at + 1 or word in {"twice", "thrice"}:
            return at, end, int(most)
    return None
