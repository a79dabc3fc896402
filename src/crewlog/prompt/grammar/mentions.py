"""Mentions: which words of a sentence speak of which agent, and of which tool.

Agents are those of `nouns`, called by their whole name or by the last words of it where these fit
one of them only. Tools are the registry's and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from crewlog.prompt.ast import Words
from crewlog.prompt.grammar.casts import listed_agents
from crewlog.prompt.grammar.discovery import WRITERS, Found, Names, discover
from crewlog.prompt.grammar.lexicon import (
    BOSSES,
    DETERMINERS,
    FUNCTION,
    IRREGULAR_FORMS,
    MODALS,
    ROLES,
    agentive,
    known_verb,
    singular,
)
from crewlog.prompt.grammar.nouns import works_at
from crewlog.prompt.grammar.phrase import Unit, unit
from crewlog.prompt.grammar.sentences import Sentence, Token
from crewlog.prompt.names import agent_name, plain
from crewlog.prompt.registry import Registry

_LONGEST = 6
_LEFT_OUT = frozenset(["the", "a", "an", "my", "our", "your", "their", "any", "some"])
_LEFT_OUT_INSIDE = _LEFT_OUT | {
    "these",
    "those",
    "all",
    "more",
    "new",
    "its",
    "his",
    "her",
    "whole",
}
_PARTICLES = frozenset(["up", "down", "out", "in", "off", "away", "back", "over", "on", "online"])
_WHICH = {"both": 2, "the": 0, "all": 0, "of": 0, "two": 2, "three": 3, "four": 4, "five": 5}
"""Words before a plural that means several agents, and how many."""


_NOUNS_OF_WORK = frozenset(
    ["search", "quer", "lookup", "acces", "edit", "export", "updat", "request"]
)
"""Stems of verbs that are nouns, too: `a web search`."""


@dataclass(frozen=True, slots=True)
class Slip:
    """A name that is nearly, and not, that of a known agent."""

    name: str
    meant: str
    words: Words


@dataclass(slots=True)
class Roster:
    """The agents and tools of a prompt."""

    agents: list[str] = field(default_factory=list[str])
    """By number."""
    tools: list[str] = field(default_factory=list[str])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    """What agents are called."""
    unclear: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Short names that fit several agents."""
    slips: list[Slip] = field(default_factory=list[Slip])
    strangers: list[Slip] = field(default_factory=list[Slip])
    """Agents that do not stand in a registry that wants no others."""
    names: dict[str, int] = field(default_factory=dict[str, int])
    """Tools by name, spelled plainly."""
    models: list[str] = field(default_factory=list[str])
    model_keys: dict[str, int] = field(default_factory=dict[str, int])
    """Models by name, whole or without what makes them."""
    phrases: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    """Tools by stems of words."""
    beginnings: set[str] = field(default_factory=set[str])
    """The first stems of these."""
    turned: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Tools by a thing and what is done with it: `web searches` for `search the web`."""
    heads: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Agents by the last word of their names."""
    proper: set[int] = field(default_factory=set[int])
    """Agents that are written with a capital only."""
    bare: set[int] = field(default_factory=set[int])
    """Agents that never have an article."""
    titled: set[int] = field(default_factory=set[int])
    """Things that are agents only where they are called so: `the backup agent`."""

    @classmethod
    def of(cls, sentences: Sequence[Sentence], registry: Registry) -> Roster:
        """Who and what a prompt speaks of."""
        roster = cls()
        known: dict[str, str] = {}
        for name, agent in registry.agents.items():
            for words in (name, *agent.words):
                if key := agent_name(words):
                    known[key] = name
        found = Names(frozenset(plain(name) for name in registry.tools))
        listed_agents(sentences, found)
        discover(sentences, found)
        roster._take_agents(found, known, new_agents=registry.new_agents)
        roster._take_tools(registry)
        for model in (registry.model, *registry.models):
            if model and model not in roster.models:
                for key in (model, model.rpartition(":")[2], model.rpartition("/")[2]):
                    roster.model_keys.setdefault(plain(key), len(roster.models))
                roster.models.append(model)
        return roster

    def _take_agents(self, found: Names, known: dict[str, str], *, new_agents: bool) -> None:
        numbers: dict[str, int] = {}

        def number(name: str) -> int:
            if name not in numbers:
                numbers[name] = len(self.agents)
                self.agents.append(name)
            return numbers[name]

        for key, name in known.items():
            self.keys[key] = number(name)
        aliases = _short(found, known)
        every = {**found.found, **found.spoken_of}
        alike = _Alike([*known, *found.found])
        for key, entry in every.items():
            if key in self.keys or key in aliases:
                continue
            at = Words(start=entry.start, end=entry.end)
            meant = _nearest(key, alike, every, known)
            if meant:
                self.slips.append(Slip(key, known.get(meant, meant), at))
                continue
            if not entry.works:
                continue
            if not new_agents:
                self.strangers.append(Slip(key, "", at))
            self.keys[key] = number(key)
            self._take_ways(self.keys[key], entry)
        self._take_heads(found)
        for key, names in aliases.items():
            if len(names) == 1 and names[0] in self.keys:
                self.keys[key] = self.keys[names[0]]
            else:
                self.unclear[key] = names

    def _take_ways(self, number: int, entry: Found) -> None:
        """How an agent is called, where that tells it from a thing of the same name."""
        if entry.proper:
            self.proper.add(number)
        if entry.bare:
            self.bare.add(number)
        if entry.titled and not agentive(entry.name.rpartition("_")[2]):
            self.titled.add(number)

    def _take_heads(self, found: Names) -> None:
        for key in found.found:
            number = self.keys.get(key)
            if number is not None:
                head = key.partition("_of_")[0].rpartition("_")[2]
                self.heads.setdefault(head, []).append(number)

    def _take_tools(self, registry: Registry) -> None:
        for at, (name, tool) in enumerate(registry.tools.items()):
            self.tools.append(name)
            self.names[plain(name)] = at
            for words in (name.replace("_", " ").replace("-", " ").replace(".", " "), *tool.words):
                plain_words = [w for w in words.lower().split() if w not in _LEFT_OUT]
                stems = tuple(stem(w) for w in plain_words)
                self._take_phrase(stems, at)
                if len(stems) > 2 and plain_words[1] in _PARTICLES:
                    self._take_phrase((stems[0], *stems[2:], stems[1]), at)
                elif len(stems) > 2 and plain_words[-1] in _PARTICLES:
                    self._take_phrase((stems[0], stems[-1], *stems[1:-1]), at)
                elif len(stems) == 2 and known_verb(plain_words[0]):
                    self.turned.setdefault((stems[1], stems[0]), at)

    def _take_phrase(self, stems: tuple[str, ...], at: int) -> None:
        if stems:
            self.beginnings.add(stems[0])
            self.phrases.setdefault(stems, at)

    def agent(self, number: int) -> str:
        """An agent's name."""
        return self.agents[number]

    def marked(self, sentence: Sentence) -> list[Unit]:
        """A sentence with its mentions in the place of the words."""
        tokens = sentence.tokens
        out: list[Unit] = []
        at = 0
        while at < len(tokens):
            group = self._group(tokens, at)
            if group is not None:
                members, stop = group
                out.extend(_enumerated(tokens, at, stop, members))
                at = stop
                continue
            done = self._done_with(tokens, at)
            if done is not None:
                number, noun, verb = done
                out.append(Unit(f"${number}", tokens[at].start, tokens[noun - 1].end))
                out.extend(unit(token) for token in tokens[noun:verb])
                out.append(Unit("used", tokens[verb].start, tokens[verb].end))
                at = verb + 1
                continue
            mention = self._tool(tokens, at) or self._agent(tokens, at)
            if mention is None:
                out.append(unit(tokens[at]))
                at += 1
                continue
            text, stop = mention
            out.append(Unit(text, tokens[at].start, tokens[stop - 1].end))
            at = stop
        return out

    def _agent(self, tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
        begin = at
        while begin < len(tokens) and tokens[begin].text in DETERMINERS:
            begin += 1
        if begin >= len(tokens) or (begin > at and tokens[at].text in {"this", "that", "another"}):
            return None
        whose = tokens[begin - 1].text if begin else ""
        if whose in WRITERS and tokens[begin].text in BOSSES:
            return None  # `Ask my boss`: of those who write the prompt, also beside an agent `boss`
        bare = begin == at
        if bare and not _stands_alone(tokens, at):
            return None
        for stop in range(min(begin + _LONGEST, len(tokens)), begin, -1):
            number = self._named(tokens, begin, stop)
            if number is None:
                continue
            titled = stop < len(tokens) and tokens[stop].text in {"agent", "agents"}
            called = titled or self._called(number, tokens[begin:stop], bare=bare)
            if not called and not (bare and _at_work(tokens, at, stop)):
                continue
            stop += titled
            return f"@{number}", stop
        return None

    def _named(self, tokens: Sequence[Token], begin: int, stop: int) -> int | None:
        key = "_".join(t.key for t in tokens[begin:stop])
        number = self.keys.get(key)
        if number is None and tokens[stop - 1].text.endswith("s"):
            front = [t.key for t in tokens[begin : stop - 1]]
            number = self.keys.get("_".join([*front, singular(tokens[stop - 1].key)]))
        return number

    def _called(self, number: int, tokens: Sequence[Token], *, bare: bool) -> bool:
        """Whether an agent is called like that: `Audio` is no agent in `the audio files`."""
        if (number in self.proper or number in self.titled) and not tokens[0].capital:
            return False
        return bare or number not in self.bare or tokens[0].capital

    def _group(self, tokens: Sequence[Token], at: int) -> tuple[Sequence[int], int] | None:
        """`both analysts`, `the two writers`: all of the agents with that head."""
        begin, count = at, 0
        while begin < len(tokens) and begin - at < 4 and tokens[begin].text in _WHICH:
            count = max(count, _WHICH[tokens[begin].text])
            begin += 1
        if begin == at or begin >= len(tokens) or not tokens[begin].text.endswith("s"):
            return None
        head = singular(tokens[begin].key)
        members = self.heads.get(head, ())
        if len(members) < 2 or (head in self.keys and not count) or count not in {0, len(members)}:
            return None
        stop = begin + 1
        if stop < len(tokens) and tokens[stop].text in {"agent", "agents"}:
            stop += 1
        return members, stop

    def _turned(self, tokens: Sequence[Token], at: int) -> int | None:
        """`web searches` and `file editing`, but not `the tests run`."""
        if at + 1 >= len(tokens) or tokens[at].text in FUNCTION:
            return None
        done = tokens[at + 1].text
        noun = done.endswith("ing") or stem(done) in _NOUNS_OF_WORK
        return self.turned.get((stem(tokens[at].text), stem(done))) if noun else None

    def _done_with(self, tokens: Sequence[Token], at: int) -> tuple[int, int, int] | None:
        """`Invoices may be paid` speaks of the tool to pay invoices: which, its noun, the verb.

        Only a right is said like that; `the invoices are paid` is what somebody does.
        """
        begin = noun = at
        while begin < len(tokens) and tokens[begin].text in _LEFT_OUT_INSIDE:
            begin += 1
        noun = begin
        while noun < len(tokens) and noun - begin < 4 and tokens[noun].text not in FUNCTION:
            noun += 1
        if noun == begin or noun >= len(tokens) or tokens[noun].text not in MODALS:
            return None
        verb = noun + 1
        while verb < len(tokens) and tokens[verb].text in {"not", "only", "never", "be"}:
            verb += 1
        if verb >= len(tokens) or tokens[verb - 1].text not in {"be", "only"}:
            return None
        nouns = [stem(t.text) for t in tokens[begin:noun]]
        number = self.phrases.get((stem(tokens[verb].text), *nouns))
        return None if number is None else (number, noun, verb)

    def _tool(self, tokens: Sequence[Token], at: int) -> tuple[str, int] | None:
        begin = at
        while begin < len(tokens) and tokens[begin].text in _LEFT_OUT:
            begin += 1
        if begin >= len(tokens):
            return None
        if (number := self.names.get(tokens[begin].key)) is not None:
            said = self._said(tokens, begin)  # `save notes`, where the tool `save` is called so
            if said is not None and said[0] == f"${number}" and said[1] > begin + 1:
                return said
            return f"#{number}", begin + 1
        for stop in (begin + 2, begin + 1):
            written = "_".join(t.key or t.text for t in tokens[begin:stop])
            if (number := self.model_keys.get(written)) is not None:
                return f"~{number}", min(stop, len(tokens))
        if (number := self._turned(tokens, begin)) is not None:
            return f"${number}", begin + 2
        return self._said(tokens, begin)

    def _said(self, tokens: Sequence[Token], begin: int) -> tuple[str, int] | None:
        """A tool by its words, the most of them."""
        if stem(tokens[begin].text) not in self.beginnings:
            return None
        stems: list[str] = []
        best: tuple[str, int] | None = None
        for stop in range(begin + 1, min(begin + 9, len(tokens)) + 1):
            if tokens[stop - 1].text not in _LEFT_OUT_INSIDE:
                stems.append(stem(tokens[stop - 1].text))
            number = self.phrases.get(tuple(stems))
            if number is not None and tokens[stop - 1].text not in _LEFT_OUT_INSIDE:
                best = f"${number}", stop
        return best


def _stands_alone(tokens: Sequence[Token], at: int) -> bool:
    """Whether a name without article may stand at a token."""
    if not at:
        return True
    previous, token = tokens[at - 1].text, tokens[at]
    if known_verb(token.text) and previous in MODALS | {"to", "not", "never", "please"}:
        return False
    return token.capital or not previous[:1].isalpha() or previous in FUNCTION


def _at_work(tokens: Sequence[Token], at: int, stop: int) -> bool:
    """Whether a name in small letters works: `if not, pricing tries again`, `back to pricing`."""
    previous = tokens[at - 1].text if at else ""
    if previous in {"to", "with"}:
        return at > 1 and tokens[at - 2].text in {"back", "over", "returns", "goes"}
    begins = not previous or previous in {",", ";", ":", "then", "and", "otherwise", "else"}
    return begins and stop < len(tokens) and works_at(tokens, stop)


def _enumerated(
    tokens: Sequence[Token], at: int, stop: int, members: Sequence[int]
) -> Iterator[Unit]:
    """Several agents in the place of the words that mean them all."""
    start, end = tokens[at].start, tokens[stop - 1].end
    if tokens[at].text == "both":
        yield unit(tokens[at])
    for i, number in enumerate(members):
        if i:
            yield Unit("and" if i == len(members) - 1 else ",", start, end)
        yield Unit(f"@{number}", start, end)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """`files`, `writes` and `writing` without their endings; the same for both sides."""
    word = IRREGULAR_FORMS.get(word, word)
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] in "ey":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou" else word


def _short(found: Names, known: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Names that are the end of longer ones (`analyst` of `market_analyst`), said later."""
    ends: defaultdict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys([*found.found, *known]):
        head, of, _ = name.partition("_of_")
        words = head.split("_")
        for i in range(0 if of else 1, len(words)):
            ends["_".join(words[i:])].append(name)
    out: dict[str, tuple[str, ...]] = {}
    for name, longer in ends.items():
        entry = found.found.get(name)
        if name in known:
            continue
        mentioned = [n for n in longer if n in found.found]
        if entry is None:
            if len(mentioned) == 1:
                out[name] = (mentioned[0],)
            continue
        earlier = [n for n in mentioned if found.found[n].start < entry.start]
        if earlier and not entry.introduced:
            out[name] = tuple(earlier)
    return out


class _Alike:
    """Names by what is left of them without one letter: a slip of one leaves the same."""

    def __init__(self, names: Iterable[str]) -> None:
        self._numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self._left: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._numbers:
            for rest in _without_one(name):
                self._left[rest].append(name)

    def to(self, name: str) -> list[str]:
        """The names that a name may be a slip of, in their order."""
        near = {other for rest in _without_one(name) for other in self._left[rest]}
        return sorted(near - {name}, key=self._numbers.__getitem__)


def _without_one(name: str) -> set[str]:
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def _nearest(key: str, alike: _Alike, found: dict[str, Found], known: dict[str, str]) -> str:
    """The agent that a name is a slip of the pen for; empty where it stands for itself."""
    entry = found[key]
    if entry.introduced or all(w in ROLES for w in key.split("_")[-1:]):
        return ""
    for other in alike.to(key):
        if other not in known:
            rival = found[other]
            later = rival.start > entry.start and not rival.introduced
            if rival.count < entry.count or (rival.count == entry.count and later):
                continue
        if slip(key, other):
            return other
    return ""


def slip(wrong: str, right: str) -> bool:
    """Whether one name becomes the other by one typical slip: letters swapped, doubled, dropped."""
    if abs(len(wrong) - len(right)) > 1 or min(len(wrong), len(right)) < 5 or wrong == right:
        return False
    at = 0
    while at < min(len(wrong), len(right)) and wrong[at] == right[at]:
        at += 1
    if at == 0:
        return False
    if wrong[at + 1 :] == right[at:] or wrong[at:] == right[at + 1 :]:
        return True
    if wrong[at + 2 :] == right[at + 2 :] and wrong[at : at + 2] == right[at : at + 2][::-1]:
        return True
    vowels = "aeiouy"
    return (
        wrong[at + 1 :] == right[at + 1 :]
        and wrong[at : at + 1] in vowels
        and right[at : at + 1] in vowels
    )
