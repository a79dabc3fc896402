"""Finding out who the agents of a prompt are, before anything is read.

An agent is what works: the subject of a verb of work, the one by whom something is done, the one
to whom work is handed or a tool is given, one beside whom another works. What is only spoken of
(`if the caller is unhappy`) is an agent where the prompt lets it work elsewhere, and else is not.
`casts` finds those that a prompt lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crewlog.prompt.grammar.leads import lead_ends
from crewlog.prompt.grammar.lexicon import (
    ADVERBS_OF_WORK,
    AUXILIARIES,
    BESIDE,
    BOSSES,
    CONDITIONALS,
    DEPARTMENTS,
    DETERMINERS,
    DEVICES,
    EMBEDDING,
    GENERIC,
    GIVING,
    HANDING,
    MODALS,
    NO_WORK_BY,
    OPENERS,
    PREPOSITIONS,
    RETURNING,
    SPEAKING_OF,
    STATIVE,
    VERBS,
    WANTING,
    agentive,
    known_verb,
    participle,
    singular,
    third_person,
    word_set,
)
from crewlog.prompt.grammar.nouns import (
    LONGEST_NAME,
    SIGNS,
    Head,
    after_determiners,
    before_verb,
    classified,
    done_to,
    head_end,
    head_of,
    in_name,
    listed,
    open_end,
    plural_noun,
    works_at,
)
from crewlog.prompt.grammar.sentences import Sentence, Token
from crewlog.prompt.grammar.verbs import lemma
from crewlog.prompt.names import agent_name

_OBJECTS = DETERMINERS | {"it", "them", "all", "both", "care", "over", "up", "out", "everything"}
_FIXED = frozenset(["this", "that", "its", "his", "her", "their"])


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
    works: bool = False
    """It does something, and is not only spoken of."""
    proper: bool = False
    """Always with a capital and without article: `Backend`."""
    bare: bool = False
    """Always without article."""
    titled: bool = False
    """Always called an agent: `the backup agent`."""


@dataclass(slots=True)
class Names:
    """The agents found so far."""

    tools: frozenset[str] = frozenset()
    """What the tools are called, in the spelling of names: no agents."""
    found: dict[str, Found] = field(default_factory=dict[str, Found])
    spoken_of: dict[str, Found] = field(default_factory=dict[str, Found])
    """Those of them that do nothing."""
    capitals: frozenset[str] = frozenset()
    """Words written with a capital where no sentence begins."""
    several: dict[int, int] = field(default_factory=dict[int, int])
    """Where the last list of agents ends, by the tokens it stands in: no member begins another."""

    def add(
        self,
        tokens: Sequence[Token],
        begin: int,
        end: int,
        *,
        introduced: bool = False,
        works: bool = True,
    ) -> bool:
        """Takes the noun phrase between two tokens as an agent."""
        last = end
        while end - begin > 1 and tokens[end - 1].text in {"agent", "agents"}:
            end -= 1
        while end - begin > 1 and tokens[begin].text in DETERMINERS:
            begin += 1
        name = self._name(tokens[begin:end]) if begin < end <= begin + LONGEST_NAME else ""
        if not name or name in GENERIC or name in self.tools:
            return False
        article = begin > 0 and tokens[begin - 1].text in DETERMINERS
        article = article or agentive(tokens[end - 1].text)
        proper = tokens[begin].capital and not article
        entry = self.found.get(name)
        if entry is None:
            start = tokens[begin].start
            entry = Found(name, start, tokens[end - 1].end, 0, introduced, works)
            entry.proper, entry.bare, entry.titled = proper, not article, True
            self.found[name] = entry
        elif works and (not entry.works or tokens[begin].start < entry.start):
            entry.start, entry.end = tokens[begin].start, tokens[end - 1].end
        entry.count += 1
        entry.introduced = entry.introduced or introduced
        entry.works = entry.works or works
        entry.proper = entry.proper and proper
        entry.bare = entry.bare and not article
        followed = end < len(tokens) and tokens[end].text in {"agent", "agents"}
        entry.titled = entry.titled and (end < last or followed)
        return True

    @staticmethod
    def _name(tokens: Sequence[Token]) -> str:
        last = tokens[-1].text
        words = [t.text for t in tokens[:-1]]
        if words and words[-1] in DETERMINERS:
            return ""
        if last.endswith("s") and agentive(singular(last)):
            last = singular(last)
        return agent_name(" ".join([*words, last]))


@dataclass(frozen=True, slots=True)
class Place:
    """A noun phrase that begins at a token, and what stands before it."""

    tokens: Sequence[Token]
    at: int
    begin: int
    """Behind the article."""

    @property
    def previous(self) -> str:
        """The word before it."""
        return self.tokens[self.at - 1].text if self.at else ""

    @property
    def before(self) -> str:
        """The word before that."""
        return self.tokens[self.at - 2].text if self.at > 1 else ""

    @property
    def article(self) -> bool:
        """Whether it has an article, or another word that says which."""
        return self.begin > self.at

    @property
    def introduced(self) -> bool:
        """Whether it is new: `a writer`."""
        return self.article and self.tokens[self.begin - 1].text in {"a", "an", "one"}

    @property
    def opens(self) -> bool:
        """Whether a clause may begin with it."""
        if self.at == 0 or self.previous in OPENERS | CONDITIONALS:
            return True
        return self.article and (self._led() or self._ordered())

    def _ordered(self) -> bool:
        """Whether words of order stand before it: `last of all the typesetter …`."""
        before = [t.text for t in self.tokens[max(0, self.at - 8) : self.at]]
        size = lead_ends(before)
        return bool(size) and (size == len(before) or before[-size - 1] in OPENERS)

    def _led(self) -> bool:
        """Whether what stands before it only says when or where: `after lunch the DJ plays`."""
        for j in range(self.at - 1, max(self.at - 5, 0) - 1, -1):
            word = self.tokens[j].text
            if word in PREPOSITIONS | {"after", "before"}:
                return j < self.at - 1 and (j == 0 or self.tokens[j - 1].text in OPENERS)
            if not in_name(word) and word not in DETERMINERS:
                return False
        return False

    def word(self, at: int) -> str:
        """A word; empty behind the end."""
        return self.tokens[at].text if at < len(self.tokens) else ""

    def head(self, end: int) -> Head:
        """What kind of noun it is."""
        return classified(head_of(self.tokens, self.begin, end), article=self.article)

    def add(self, names: Names, end: int, *, works: bool = True) -> bool:
        """Takes it as an agent."""
        return names.add(self.tokens, self.begin, end, introduced=self.introduced, works=works)


def discover(sentences: Sequence[Sentence], names: Names) -> None:
    """Collects the agents that work in the sentences of a prompt."""
    names.capitals = frozenset(
        t.text for s in sentences for t in s.tokens[1:] if t.capital and s.kind != "heading"
    )
    for sentence in sentences:
        if sentence.kind == "heading" or names_crew(sentence):
            continue
        for at in range(len(sentence.tokens)):
            if _may_begin(sentence.tokens, at):
                begin = after_determiners(sentence.tokens, at)
                if begin < len(sentence.tokens):
                    _phrase(Place(sentence.tokens, at, begin), names)
    names.spoken_of = {name: found for name, found in names.found.items() if not found.works}
    names.found = {name: found for name, found in names.found.items() if found.works}


def names_crew(sentence: Sentence) -> bool:
    """`Crew: release-notes`: the crew's own name is no agent."""
    tokens = sentence.tokens
    if not sentence.first or len(tokens) > 10:
        return False
    first = tokens[0].text if tokens else ""
    if first.startswith(("crew:", "team:")):
        return True
    plain = first in {"crew", "team"} and len(tokens) > 2 and tokens[1].text == ":"
    return plain and all(t.text != "," for t in tokens)


def _may_begin(tokens: Sequence[Token], at: int) -> bool:
    previous = tokens[at - 1].text if at else ""
    if previous in DETERMINERS and not (previous in {"that", "one"} and _called(tokens, at)):
        return False
    return (
        at == 0
        or tokens[at].text in DETERMINERS
        or previous in OPENERS | CONDITIONALS
        or previous in {"by", "per", "to"}
        or previous in WANTING
    )


def _called(tokens: Sequence[Token], at: int) -> bool:
    """`call it the writer`, `call that one the reader`."""
    return at > 1 and any(t.text in {"call", "called"} for t in tokens[max(0, at - 3) : at - 1])


def _phrase(place: Place, names: Names) -> None:
    if not in_name(place.word(place.begin)) and not place.article:
        return
    previous = place.previous
    governed = _GOVERNED.get(previous)
    if governed is not None and governed(place, names):
        return
    if previous in {"it", "him", "her", "them", "one", "that"} and _called(place.tokens, place.at):
        end = head_end(place.tokens, place.begin) or open_end(place.tokens, place.begin)
        if end > place.begin and place.article:
            place.add(names, end)
        return
    if previous in PREPOSITIONS and place.before not in {"soon", "long"}:
        _relative(place, names)
        return
    _subject(place, names)


# What governs a noun phrase: the word before it.


def _made_to_work(place: Place, names: Names) -> bool:
    """`have the writer draft it`, `I'd like a scout to …`, `send a scout and a liaison off`."""
    items, end = listed(place.tokens, place.at)
    to_work = place.word(end) in {"to", "on", "off", "that", "who", "do", "does", "doing"}
    verb = place.word(end)
    at_work = verb in VERBS or (verb.endswith("ing") and known_verb(lemma(verb)))
    if items and (to_work or (at_work and place.previous in _CAUSING)):
        for first, last in items:
            names.add(place.tokens, first, last, introduced=place.introduced)
        return True
    if place.previous not in _CAUSING:
        return False
    return _causative(place, names)


_CAUSING = frozenset(["have", "let", "get", "got", "has", "make"])


def _causative(place: Place, names: Names) -> bool:
    last = min(place.begin + LONGEST_NAME + 1, len(place.tokens))
    for j in range(place.begin + 1, last):
        word = place.word(j)
        head = place.head(j)
        if word in VERBS and head is Head.AGENT:
            return place.add(names, j)
        if word in VERBS - STATIVE and head in {Head.OPEN, Head.PLACE, Head.NAME}:
            named = head is Head.NAME and place.tokens[j - 1].capital
            if (named or place.article) and place.word(j + 1) in _OBJECTS:
                return place.add(names, j)
        if not in_name(word):
            break
    return False


def _by(place: Place, names: Names) -> bool:
    """`… is read by the checker`, `followed by the checker`."""
    end = head_end(place.tokens, place.begin)
    if end is not None and place.article:
        works = place.word(end) != "of"
        items, _ = listed(place.tokens, place.at)
        for first, last in items:
            names.add(place.tokens, first, last, works=works)
        return True
    other = _done_by(place)
    if other is None:
        return False
    place.add(names, other)
    for item in listed(place.tokens, place.at, any_noun=True)[0][1:]:
        if _kind(place.tokens, item) is not Head.THING:
            names.add(place.tokens, *item)
    return True


def _done_by(place: Place) -> int | None:
    """Where the name of one ends by whom something is done, whatever its head: `by the DBA`."""
    tokens, end = place.tokens, open_end(place.tokens, place.begin)
    if end == place.begin or place.word(end) in {"of", "in"} or not _passive(tokens, place.at - 1):
        return None
    head = place.head(end)
    if head is Head.NAME:
        return end if tokens[end - 1].capital else None
    if not place.article or tokens[place.begin - 1].text in _FIXED:
        return None
    if head is Head.PLACE:
        return end if end - place.begin > 1 else None
    return end if head in {Head.OPEN, Head.AGENT} else None


def _passive(tokens: Sequence[Token], by: int) -> bool:
    """Whether a participle with a form of `be` before it stands before `by`."""
    low = max(by - 6, 0)
    for back in range(by - 1, low - 1, -1):
        word = tokens[back].text
        if participle(word):
            near = {t.text for t in tokens[max(0, back - 5) : back]}
            return word not in NO_WORK_BY and (bool(near & _PASSIVE) or word == "followed")
        if not word.isalpha():
            return False
    return False


_PASSIVE = frozenset(
    ["is", "are", "gets", "get", "be", "was", "were", "being", "been", "then", "and"]
)


def _to(place: Place, names: Names) -> bool:
    """`hands over to the editor`, `it is up to the editor`, `available to the editor`."""
    low = max(0, place.at - 14)
    for j in range(place.at - 2, low - 1, -1):
        word = place.word(j)
        if word in SIGNS:
            return False
        if word in HANDING or word in RETURNING:
            break
    else:
        return False
    if not place.article and not place.tokens[place.begin].capital and place.before not in HANDING:
        return False
    strong = word in HANDING
    items, _ = listed(place.tokens, place.at)
    for first, last in items:
        if classified(head_of(place.tokens, first, last)) is Head.AGENT:
            names.add(place.tokens, first, last, works=strong)
    return bool(items)


def _with(place: Place, names: Names) -> bool:
    """`in parallel with the editor`, `start over with the editor`."""
    if place.before not in BESIDE and place.previous != "alongside":
        return False
    end = head_end(place.tokens, place.begin)
    return end is not None and place.add(names, end, works=place.before not in {"over", "again"})


def _for(place: Place, names: Names) -> bool:
    """`reserved for the editor`."""
    if place.before not in {"only", "reserved", "exclusively", "exclusive", "just", "solely"}:
        return False
    end = head_end(place.tokens, place.begin)
    return end is not None and place.add(names, end)


def _turn(place: Place, names: Names) -> bool:
    """`next comes the editor`, `then it is the editor's turn`, `it is the editor who …`."""
    tokens, end = place.tokens, head_end(place.tokens, place.begin)
    if end is None or not place.article:
        return False
    if place.before in {"first", "next", "then", "up", "last", "turn", "finally", "lastly"}:
        return place.add(names, end)
    turn = any(t.text in {"turn", "job", "task"} for t in tokens[end : end + 3])
    who = place.word(end) in {"who", "that"}
    return place.before in {"it", "that"} and (turn or who) and place.add(names, end)


def _giving(place: Place, names: Names) -> bool:
    """`give the bisector git_log`."""
    end = head_end(place.tokens, place.begin)
    if end is None or end >= len(place.tokens) or place.tokens[end].key not in names.tools:
        return False
    return place.add(names, end)


def _asked_of(place: Place, names: Names) -> bool:
    """`only then does the detective act`, `should the crawler fail`."""
    end = head_end(place.tokens, place.begin)
    if end is None or not place.article or not in_name(place.word(end)):
        return False
    return place.add(names, end, works=place.previous != "should")


_GOVERNED: dict[str, Callable[[Place, Names], bool]] = {
    "by": _by,
    "per": _by,
    "to": _to,
    "with": _with,
    "alongside": _with,
    "for": _for,
    "does": _asked_of,
    "should": _asked_of,
    "comes": _turn,
    "is": _turn,
    **dict.fromkeys(WANTING, _made_to_work),
    **dict.fromkeys(GIVING, _giving),
}


# The subject of a clause.


def _subject(place: Place, names: Names) -> None:
    if place.previous in EMBEDDING - CONDITIONALS and not (
        place.previous == "where" and place.introduced
    ):
        _spoken_of(place, names)
        return
    end = before_verb(place.tokens, place.begin)
    if end is not None and end < len(place.tokens):
        if place.word(end) == "'s" or done_to(place.tokens, end):
            if place.head(end) is Head.AGENT:
                place.add(names, end, works=place.word(end + 1) in _DUTIES)
            return
        if _WORKS[place.head(end)](place, end, names):
            place.add(names, end, works=not _spoken(place, end))
            return
    if place.opens and (_several(place, names) or _caused(place, names)):
        return
    _relative(place, names)


def _caused(place: Place, names: Names) -> bool:
    """`let the dramatist write and the musician play`: the verb is governed from far."""
    end = head_end(place.tokens, place.begin)
    if end is None or not place.article or place.word(end) not in VERBS:
        return False
    low = max(0, place.at - 20)
    caused = any(t.text in _CAUSING for t in place.tokens[low : place.at])
    return caused and place.previous in {"and", ","} and place.add(names, end)


def _spoken_of(place: Place, names: Names) -> None:
    """The subject of a clause inside another: `what the customer wants`."""
    end = before_verb(place.tokens, place.begin)
    if end is not None and place.article and place.head(end) is Head.AGENT:
        place.add(names, end, works=False)


def _spoken(place: Place, end: int) -> bool:
    """Whether a condition only says how somebody is: `if the caller is unhappy`."""
    word = place.word(end)
    if place.introduced and word in {"is", "was"}:  # `a good editor is hard to find`
        following = place.word(end + 1)
        return not participle(following) and following not in {"responsible", "in", "there", "to"}
    if place.previous not in CONDITIONALS or place.introduced:
        return False
    if _OVER & {word, place.word(end + 1)}:
        return False
    return word in AUXILIARIES - MODALS or word in SPEAKING_OF


def _agent_works(place: Place, end: int, names: Names) -> bool:
    head = place.tokens[end - 1]
    if head.text in DEVICES and end - place.begin == 1 and not _acts(place, end):
        return False
    if place.article or (head.text == "agent" and end - place.begin > 1):
        return True
    if not place.opens:
        return False
    coordinated = place.previous in {"and", "or"} and end - place.begin == 1
    return not (coordinated and known_verb(head.text))


def _acts(place: Place, end: int) -> bool:
    """Whether a verb says more than a machine can do."""
    word = place.word(end)
    if word in MODALS | {"has", ",", "(", "never", "always"} or works_at(place.tokens, end):
        return True
    follows = place.word(end + 1)
    return third_person(word) and (
        follows in _OBJECTS or (word in _CHOOSES and follows in _CHOICES)
    )


_CHOOSES = frozenset(
    ["picks", "chooses", "decides", "selects", "determines", "says", "names", "looks", "judges"]
)
_CHOICES = frozenset(
    ["who", "whom", "whoever", "which", "between", "whether", "among", "one", "at", "from", "where"]
)
"""What follows a choice that no machine makes: `the router picks who answers`."""


def _place_works(place: Place, end: int, names: Names) -> bool:
    if not place.article or not place.opens or end - place.begin < 2:
        return False
    if place.previous in CONDITIONALS:
        return False
    return _may(place, end) or works_at(place.tokens, end)


def _may(place: Place, end: int) -> bool:
    """`only the desk may …`."""
    return place.word(end) in MODALS and (
        place.previous == "only"
        or (place.previous in {"but", "except"} and place.before in {"nobody", "one", "none"})
    )


def _name_works(place: Place, end: int, names: Names) -> bool:
    head = place.tokens[end - 1]
    several = any(not t.capital for t in place.tokens[place.begin : end - 1])
    if not place.opens or plural_noun(head.text) or several:
        return False
    verb = place.word(end)
    if place.previous in CONDITIONALS:
        return head.capital and bool(_OVER & {verb, place.word(end + 1)})
    if not head.capital:
        return head.text in DEPARTMENTS and end - place.begin < 2 and works_at(place.tokens, end)
    if place.begin > 0 or head.shouted:
        return third_person(verb) or verb in MODALS or verb in ADVERBS_OF_WORK
    sure = head.text in names.capitals or head.text in DEPARTMENTS
    if sure and (works_at(place.tokens, end) or verb in MODALS):
        return True
    if end == 1 and verb in _STARTING and place.word(end + 1) in _TIMED:
        return any(other.proper for other in names.found.values())
    return end < 3 and works_at(place.tokens, end) and place.word(end + 1) in _OBJECTS


_STARTING = frozenset(["starts", "begins", "works", "runs", "waits"])
_TIMED = frozenset(["as", "once", "when", "after", "while", "for", "until", "only", "immediately"])
"""What says when a turn comes: among agents called by their bare names, whose it is is one."""
_DUTIES = frozenset(["job", "task", "turn", "duty", "responsibility", "business"])
_JUDGING = frozenset(["decides", "votes", "judges", "approves", "reviews", "signs", "watches"])
"""What nobody does but people, even where no object is said."""
_OVER = frozenset(["finishes", "finished", "done", "through", "approves", "rejects"])


def _open_works(place: Place, end: int, names: Names) -> bool:
    head = place.tokens[end - 1]
    if not place.article or not place.opens or plural_noun(head.text):
        return False
    if place.tokens[place.begin - 1].text in _FIXED or place.previous in CONDITIONALS:
        return False
    objectless = end + 1 >= len(place.tokens) or place.word(end + 1) in SIGNS
    return _may(place, end) or (
        works_at(place.tokens, end) and (not objectless or place.word(end) in _JUDGING)
    )


def _thing_works(place: Place, end: int, names: Names) -> bool:
    """`Then the boss reviews it`: a boss who is given work; `the boss approves it` may be people."""
    if place.tokens[end - 1].text not in BOSSES or end - place.begin > 1 or not place.opens:
        return False
    if not place.article or place.tokens[place.begin - 1].text in _FIXED | WRITERS:
        return False
    if place.previous in CONDITIONALS or not works_at(place.tokens, end):
        return False
    verbs = [t.text for t in place.tokens[end : end + 2]]
    return not any(lemma(verb) in _CONSENTING for verb in verbs)


WRITERS = frozenset(["my", "our", "your"])
"""Before `boss`: of those who write the prompt, and so no agent of the crew."""
_CONSENTING = word_set(
    "accept agree allow answer approve ask authorise authorize confirm decide decline endorse insist "
    "object permit refuse reject sign veto"
)
"""What people do for a crew, so that it may be meant of them."""


_WORKS: dict[Head, Callable[[Place, int, Names], bool]] = {
    Head.AGENT: _agent_works,
    Head.PLACE: _place_works,
    Head.NAME: _name_works,
    Head.OPEN: _open_works,
    Head.THING: _thing_works,
}


_SUBORDINATE = CONDITIONALS | {"once", "after", "before", "while", "as", "because", "since"}


def _several(place: Place, names: Names) -> bool:
    """`The writer, the painter and the field team compare notes`."""
    tokens = place.tokens
    if place.at < names.several.get(id(tokens), 0):
        return True  # the rest of a list that was read from its first member
    items, end = listed(tokens, place.at, any_noun=True)
    kinds = [_kind(tokens, item) for item in items]
    if Head.THING in kinds:  # `A and B, side by side`
        first = kinds.index(Head.THING)
        items, kinds = items[:first], kinds[:first]
        end = items[-1][1] if items else end
    if kinds[:1] == [Head.OPEN] and place.previous in _SUBORDINATE:
        return False  # "unless the numbers match, the auditor …"
    if len(items) < 2 or not {Head.AGENT, Head.NAME, Head.PLACE} & {*kinds}:
        return False
    word = place.word(end)
    follows = word in (VERBS | ADVERBS_OF_WORK | AUXILIARIES | {"are", "have", "both"}) - {"'s"}
    alone = word in {"", ",", ".", "–", ";", ")"} and place.previous in {"", "then", "next", ","}
    articles = all(a > 0 and tokens[a - 1].text in DETERMINERS for a, _ in items)
    sure = articles and {*kinds} == {Head.AGENT}
    if not follows and not (sure and (alone or in_name(word))):
        return False
    if not all(names.add(tokens, a, b) for a, b in items):
        return False
    names.several = {id(tokens): end}
    return True


def _kind(tokens: Sequence[Token], item: tuple[int, int]) -> Head:
    begin, end = item
    article = begin > 0 and tokens[begin - 1].text in DETERMINERS
    kind = classified(head_of(tokens, begin, end), article=article)
    if kind is Head.OPEN and not article:
        return Head.THING
    if kind is Head.PLACE and end - begin < 2:
        return Head.THING
    if kind is Head.THING and agentive(singular(tokens[end - 1].text)):
        return Head.AGENT
    return kind


def _relative(place: Place, names: Names) -> None:
    """`the reviewer, who reads it`, `a helper per product`, `the Audio agent`."""
    if not place.article:
        return
    end = head_end(place.tokens, place.begin) or open_end(place.tokens, place.begin)
    if end == place.begin or end + 1 >= len(place.tokens):
        return
    kind = place.head(end)
    at = end + 1 if place.word(end) == "," else end
    verb = at + 2 if place.word(at + 1) in ADVERBS_OF_WORK else at + 1
    relative = place.word(at) in {"who", "that"} and third_person(place.word(verb))
    if kind is Head.AGENT and (relative or place.word(end) == "per"):
        place.add(names, end)
    elif relative and kind in {Head.OPEN, Head.NAME} and place.word(at) == "who":
        if at > end and verb < len(place.tokens) and works_at(place.tokens, verb):
            place.add(names, end)
    elif place.word(end - 1) == "agent":
        place.add(names, end)
