"""Tokens: words with a place in the structure of a clause, and those that have none.

Several words may be one token: `no agent` is; `is allowed to`, in which words may stand, is not.
Fillers say nothing and are dropped here, so that nothing else need know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from crewlog.prompt.grammar.phrase import Phrase, Unit


def _table(text: str) -> dict[tuple[str, ...], tuple[str, str]]:
    """A line per kind: `kind value: ways to say it`, apart by `|`; indented lines go on."""
    out: dict[tuple[str, ...], tuple[str, str]] = {}
    kind = value = ""
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            head, _, line = line.partition(": ")
            kind, _, value = head.partition(" ")
        for way in line.split("|"):
            if way.strip():
                out[tuple(way.split())] = (kind, value)
    return out


_LEXICON = _table("""
fill: at its disposal | at his disposal | at hand | at their disposal | please | also | ever |
    always | at all | as well | too | of course | thanks | obviously | simply | just | really |
    actually | kindly | though | anyway | in any case | under any circumstances | freely |
    without exception | no matter what | explicitly | clearly | by the way | btw |
    for that matter | then | in addition | directly | itself | themselves | himself | herself |
    absolutely | again | access to | read access to | write access to | full access to |
    use of | the use of | any use of | calls to | calls of | call of | call to | uses of |
    every use of | every call of | every call to | each use of | each call to | each call of |
    whatsoever | in this crew | in this run | , ever | , please | at any time |
    of its own accord | on its own | by itself | completely | entirely | totally
time: for now | at the moment | for the moment | for the time being | this time | today |
    right now | until further notice | this week | this month | currently | on this run |
    this round | here | every time | each time | every single time | yet | now | still |
    for today | on this one
mutual: each other | one another | the other 's
all: all | everyone | everybody | every agent | all agents | all of the agents |
    all the agents | anybody | each agent | they all | all of them | each of them |
    every one of them | all of you | anyone | any agent | any of them | any of the agents |
    somebody | someone | an agent | one of them | you all | one of the agents | agents |
    the agents | whoever | the whole crew | the crew | everyone here
none: nobody | no one | no-one | noone | no agent | none of them | none of the agents |
    none of you | not one of them | not a single agent | neither of them | none | no agents |
    not anyone
none else: no other agent | none of the others | no others | no other agents | nobody else |
    no one else | no-one else | none else | no other | no agent else |
    none of the other agents
all else: everyone else | everybody else | anyone else | anybody else | all others |
    all the others | any other agent | every other agent | all other agents | the others |
    the other agents | the rest of the crew | others | other agents | the rest | someone else |
    somebody else
all things: everything | something | anything | all tools | all the tools | every tool |
    any tool | any tools
none things: nothing | no tool | no tools | none of the tools
except: except | except for | other than | apart from | save | save for | else but | else than |
    bar | aside from | excluding | with the exception of | besides | than
only sole: exclusive access to | sole access to | exclusive use of | exclusive rights to |
    sole use of | exclusive access | the exclusive right to use
only: only | solely | exclusively | none but | nobody but | no one but | no agent but |
    no-one but
modal may: may | can | could | might
modal must: must | shall | ought to | had better
modal should: should
modal will: will | would | is going to | are going to
no: no
not: under no circumstances | at no time | in no case | on no account | not | never |
    no longer | by no means | does not | do not | did not
and: and | or | plus | as well as | together with | along with | nor | , and | , or | , plus
but: but | yet | however | whereas | while at the same time
sub before: before | prior to
sub after: after
sub unless: unless
sub if: if | in case | provided | provided that | as long as | so long as | assuming |
    on condition that
sub when: when | whenever | as soon as | any time | anytime | once | where | every time that
sub until: until | till
who: who | which | that
prep by: by
prep to: to
prep from: from | away from
prep without: without | with no
prep with: with | using | via | through
prep for: for
prep about: past | about | on | over | of | at | in | into | as | among | between | under
me: me | us | a human | a person | humans | a human being | a colleague | a real person |
    the boss | the user | a supervisor | the human | a human operator | people | a real human |
    my boss
i: i | we
pronoun it: it | he | she | that one | this one | him | her | that | this
pronoun they: they | them | both | both of them | the two | the three | all three | these two |
    each
pronoun you: you
sign: : | ( | ) | – | -> | =
comma: ,
stop: ;
""")
_LONGEST: dict[str, int] = {}
for _way in _LEXICON:
    _LONGEST[_way[0]] = max(len(_way), _LONGEST.get(_way[0], 0))
_BEHIND_IS = frozenset(
    [
        "on",
        "allowed",
        "permitted",
        "off",
        "out",
        "not",
        "free",
        "able",
        "the",
        "a",
        "switched",
        "forbidden",
        "barred",
        "never",
        "welcome",
        "to",
        "unsure",
        "stuck",
        "optional",
        "only",
    ]
)
_KINDS = {"@": "agent", "#": "tool", "$": "act", "~": "model"}


_BEHIND_NEITHER = frozenset(
    ["may", "must", "can", "should", "will", "sees", "reads", "gets", "knows"]
)
_INVERTED = frozenset(
    ["i", "we", "you", "it", "he", "she", "they", "this", "that", "anything", "something"]
)
"""Subjects behind `should`, where it is `if`."""


@dataclass(slots=True)
class Token:
    """A unit, or several with one place in the structure."""

    kind: str
    value: str
    units: tuple[Unit, ...]
    text: str = field(init=False)
    """As it stands."""

    def __post_init__(self) -> None:
        self.text = (
            self.units[0].text if len(self.units) == 1 else " ".join(u.text for u in self.units)
        )


def tokens(phrase: Phrase) -> list[Token]:
    """The tokens of a phrase; fillers, which say nothing, are none."""
    units = phrase.units
    out: list[Token] = []
    at = 0
    while at < len(units):
        token = _in_place(_token(units, at), out, units, at)
        if token.kind != "fill":
            out.append(token)
        at += len(token.units)
    return out


def little(units: Sequence[Unit], at: int) -> int:
    """How many units from a place say no more than when, or nothing at all; 0 if they say more."""
    token = _token(units, at) if at < len(units) else None
    return len(token.units) if token is not None and token.kind in {"fill", "time"} else 0


def _in_place(token: Token, out: list[Token], units: Sequence[Unit], at: int) -> Token:
    """A token as it is meant where it stands: `by using`, `should the writer fail`."""
    if token.text == "using" and out and out[-1].kind in {"prep", "sub", "not"}:
        return Token("word", "using", token.units)
    behind = [u.text for u in units[at + 1 : at + 3]]
    of_two = token.text == "neither" and behind[:1] and behind[0] in _BEHIND_NEITHER
    if of_two and behind[-1][0] != "@":  # not `neither may the tester`
        return Token("none", "", token.units)
    if token.text == "just" and at + 1 < len(units) and units[at + 1].text[:1] == "@":
        return Token("only", "", token.units)
    if token.text == "'s" and out and out[-1].kind in {"agent", "all", "none", "pronoun"}:
        return _is_or_own(token, units[at + 1].text if at + 1 < len(units) else "")
    if token.text == "should" and (not out or out[-1].kind in {"comma", "but"}):
        follows = units[at + 1].text if at + 1 < len(units) else ""
        if follows[:1] == "@" or follows in _INVERTED:
            return Token("sub", "if", token.units)
    return token


def _token(units: Sequence[Unit], at: int) -> Token:
    first = units[at].text
    if first[0] in _KINDS and first[1:].isdigit():
        return Token(_KINDS[first[0]], "", (units[at],))
    for size in range(min(_LONGEST.get(first, 0), len(units) - at), 0, -1):
        known = _LEXICON.get(tuple(u.text for u in units[at : at + size]))
        if known is not None:
            return Token(*known, tuple(units[at : at + size]))
    return Token("word", first, (units[at],))


def _is_or_own(token: Token, follows: str) -> Token:
    """`the writer's on gpt-5`, `the writer's got deploy` and `the writer's notes`."""
    place = token.units[0]
    verb = "has" if follows == "got" else "is" if follows in _BEHIND_IS else "'s"
    kind = "word" if verb != "'s" else token.kind
    return Token(kind, verb, (Unit(verb, place.start, place.end),))


def phrase_of(parts: Iterable[Token]) -> Phrase:
    """Tokens as a phrase again."""
    return Phrase([u for token in parts for u in token.units])
