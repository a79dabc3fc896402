"""Main clauses: whose work they are, and what the work is.

The ways in which English says that somebody works: `the writer drafts …`, `have the writer draft
…`, `… is drafted by the writer`, `over to the writer`, `followed by the writer`. What an agent is
or should do is no work of its own (a trait). Each reader looks at the units of one clause: who
stands where, and which verb, by its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crewlog.prompt.ast import Allow, AnyStatement, Cast, Part, Step, Trait, Waits
from crewlog.prompt.grammar.lexicon import (
    known_verb,
    participle,
    plural,
    third_person,
    verb_base,
    word_set,
)
from crewlog.prompt.grammar.moves import HELPING, MOVED, MOVES, PRONOUNS, Scan, ways
from crewlog.prompt.grammar.phrase import Phrase, Unit, number
from crewlog.prompt.grammar.rules import RULES, apply
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import lemma
from crewlog.prompt.names import plain


@dataclass(slots=True)
class Clause:
    """A clause of agents."""

    phrase: Phrase
    agents: tuple[str, ...] = ()
    task: str = ""
    works: bool = True
    beside: bool = False
    """It says so itself: `at the same time`."""
    again: bool = False
    then: bool = False
    """It says so itself, behind its subject: `the editor then checks it`."""
    waits: Waits | None = None
    """Whom it says itself that it waits for."""
    start: bool = False
    each: str | None = None
    statement: AnyStatement | None = None
    """What it is where it is no work."""
    before: list[AnyStatement] = field(default_factory=list[AnyStatement])
    behind: list[AnyStatement] = field(default_factory=list[AnyStatement])


_ABREAST = ways(
    "simultaneously|in parallel|parallel|at the same time|at once|side by side"
    "|concurrently|in tandem|together|jointly"
)
_MEANWHILE = ways(
    "meanwhile|at the same time|in the meantime|simultaneously|in parallel"
    "|alongside|concurrently|in tandem"
)
_WITH_ANOTHER = ways(
    "in parallel with|in parallel to|at the same time as|side by side with"
    "|in tandem with|together with|alongside|alongside of|simultaneously with"
    "|concurrently with|jointly with|parallel to"
)
_ORDERED = ways(
    "in parallel|simultaneously|at the same time|side by side|together|at once"
    "|next|then|last|first|again|concurrently|finally|afterwards|in tandem|both"
)
_ADVERBS = ways(
    "then|also|next|now|simply|just|finally|lastly|again|always|both|each|all"
    "|first|firstly|still|only|never|usually|subsequently|afterwards|eventually"
    "|later|meanwhile|simultaneously|together|carefully|quickly|immediately"
    "|directly|automatically|independently|separately|concurrently|briefly"
    "|thoroughly|in turn|in parallel|at the same time|at once|therefore|thus"
    "|once more|once again|jointly|three|already|merely|basically|too|,"
)
_PROSE = word_set(
    "people cast roles agents team crew who members participants staff traits "
    "style tone personalities characters"
)
"""Headings under which sentences about agents say what they are."""
_RELATIVES = word_set("who which that")


def read_clause(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """The clause that a phrase is; none where it is none that speaks of agents."""
    for read in _READERS:
        clause = read(state, phrase, marks)
        if clause is not None:
            _tools(state, clause)
            _with_another(state, clause)
            _then(clause)
            return clause
    return None


# -- words and where they stand --------------------------------------------------------------------


def _words(phrase: Phrase) -> list[str]:
    return [unit.text for unit in phrase.units]


def _named(state: State, words: Sequence[str]) -> tuple[str, ...]:
    return state.names(" ".join(words))


def _from(phrase: Phrase, at: int, end: int | None = None) -> Phrase:
    return Phrase(phrase.units[at:end])


def _is_agent(words: Sequence[str], at: int) -> bool:
    return at < len(words) and words[at].startswith("@")


def _first_agent(words: Sequence[str]) -> int:
    return next((i for i, word in enumerate(words) if word.startswith("@")), -1)


def _agents_at(words: Sequence[str], at: int) -> tuple[list[str], int]:
    """The agents that stand at a place, and where they end."""
    scan = Scan(words)
    scan.at = at
    scan.over({"both", "each", "either", "all", "every", "one"} if not _is_agent(words, at) else ())
    named = scan.agents()
    return list(named), scan.at if named else at


def _says(words: Sequence[str], phrases: Sequence[tuple[str, ...]]) -> bool:
    """Whether one of some phrases stands anywhere."""
    said = f" {' '.join(words)} "
    return any(f" {' '.join(way)} " in said for way in phrases)


def _beside(agents: Sequence[str], words: Sequence[str]) -> bool:
    return len(agents) == 1 and _says(words, _MEANWHILE)


def _with_another(state: State, clause: Clause) -> None:
    """`The optimist writes an outlook in parallel with the pessimist`: both do."""
    if not clause.agents or not clause.works:
        return
    words = _words(clause.phrase)
    for at in range(len(words)):
        scan = Scan(words)
        scan.at = at
        if scan.takes(_WITH_ANOTHER) and (named := scan.agents()):
            others = _named(state, named)
            if set(others) <= set(state.worked):
                clause.beside = True
            elif set(others) != set(clause.agents):
                clause.agents = tuple(dict.fromkeys((*clause.agents, *others)))
                clause.beside = False
            return


_THEN = word_set("then next subsequently thereafter afterwards finally")


def _then(clause: Clause) -> None:
    """`The editor then checks it`, `it is then checked by the editor`."""
    words = _words(clause.phrase)
    for at, word in enumerate(words[1:6], 1):
        before = words[at - 1]
        if word in _THEN and (before[0] == "@" or before in _BEING | PRONOUNS | {"has", "must"}):
            clause.then = clause.again = True
        if word == "by":
            return


# -- relative clauses ------------------------------------------------------------------------------


def _behind(state: State, clause: Clause, phrase: Phrase, at: int) -> None:
    """What is said of the agents behind them: `…, who writes the memo`, `… to write the memo`."""
    words = _words(phrase)
    if at < len(words) and words[at] == ",":
        at += 1
    if at < len(words) and words[at] in _RELATIVES | {"to", "and", "for"}:
        at += 1
    rest = _from(phrase, at)
    if not rest:
        return
    made = _rules_with(state, clause.agents, rest)
    if made is None:
        task, behind = _task_and_rules(state, clause.agents, rest)
        clause.task = state.raw(task)
        clause.behind.extend(behind)
    else:
        clause.behind.extend(made)


def _task_and_rules(
    state: State, agents: tuple[str, ...], rest: Phrase
) -> tuple[Phrase, list[AnyStatement]]:
    """`Hunts for the cause and reviews its own work`: the work, and what the rules say behind it."""
    for at, unit in enumerate(rest.units[:-1]):
        if at and unit.text in {"and", "but"}:
            made = _rules_with(state, agents, Phrase(rest.units[at + 1 :]))
            if made:
                return Phrase(rest.units[:at]), made
    return rest, []


def _rules_with(state: State, agents: tuple[str, ...], rest: Phrase) -> list[AnyStatement] | None:
    """What the rules say of agents and words that follow them."""
    if not rest:
        return None
    first = rest.units[0]
    units: list[Unit] = []
    for i, name in enumerate(agents):
        if i:
            units.append(Unit("and", first.start, first.start))
        units.append(Unit(f"@{state.roster.agents.index(name)}", first.start, first.start))
    before = len(state.statements)
    if not apply(state, Phrase([*units, *rest.units]), RULES):
        return None
    made = list(state.statements[before:])
    del state.statements[before:]
    return made


# -- the readers -----------------------------------------------------------------------------------


def _alone(state: State, phrase: Phrase, agents: tuple[str, ...], marks: set[str]) -> Clause:
    """Agents of whom nothing is said: an item of an order, or of a list of people."""
    if _in_prose(state) and not marks:
        return _statement(phrase, agents, Cast(agents=agents, words=(phrase.words,)))
    return Clause(phrase, agents, again=True)


def _list(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """Agents and nothing else: an item of an order."""
    words = _words(phrase)
    named, end = _agents_at(words, 0)
    scan = Scan(words)
    scan.at = end
    while named and scan.takes(_ORDERED):
        pass
    if not named or scan.rest:
        return None
    agents = _named(state, named)
    if state.described:
        return _trait(state, phrase, agents)
    return _alone(state, phrase, agents, marks)


def _in_prose(state: State) -> bool:
    return bool({*state.section.split()} & _PROSE)


def _statement(phrase: Phrase, agents: tuple[str, ...], said: AnyStatement) -> Clause:
    return Clause(phrase, agents, works=False, statement=said)


_CALLED_ON = ways("you|please|your job is|be|make sure|always|never|do not|remember")


def _vocative(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`Mediator, you should be generous`."""
    words = _words(phrase)
    named, end = _agents_at(words, 0)
    scan = Scan(words)
    scan.at = end
    scan.over({","})
    if not named or not scan.takes(_CALLED_ON) or not scan.rest:
        return None
    state.addressed = _named(state, named)
    return _trait(state, phrase, state.addressed)


def _per(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`One researcher per topic`."""
    words = _words(phrase)
    scan = Scan(words)
    scan.over(word_set("there is are we need use with have send put then one a an"))
    if not _is_agent(words, scan.at):
        return None
    agents = _named(state, [scan.word])
    scan.at += 1
    if not scan.takes(ways("per|for each|for every|to each|to every|on each|on every")):
        return None
    begin = scan.at
    while scan.word and scan.word[0].isalpha() and scan.word not in _RELATIVES | {"to", "and"}:
        scan.at += 1
    noun = " ".join(words[begin : scan.at])
    if not noun or scan.at - begin > 4:
        return None
    clause = Clause(phrase, agents, each=plain(plural(noun)))
    _behind(state, clause, phrase, scan.at)
    return clause


_AWAITS = ways("for|on|until|after")
_FINISH = ways(
    "to finish|to be done|to be ready|to complete|is done|are done|has finished"
    "|have finished|is ready|are ready|is finished|are finished|is through"
    "|are through|finish|finishes|to be finished|are both done|have both finished"
)


def _waiting(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`The coder waits for the planner and the architect`."""
    words = _words(phrase)
    named, end = _agents_at(words, 0)
    scan = Scan(words)
    scan.at = end
    scan.over(HELPING | {"only", "first"})
    if not named or verb_base(scan.word) not in word_set(
        "wait depend rely start come follow work go run begin"
    ):
        return None
    alone = verb_base(scan.word) == "follow"
    scan.at += 1
    if not scan.takes(_AWAITS) and not alone:
        return None
    either = scan.word == "either"
    if not scan.takes(ways("both|all of|either|either of|any of")) and not _is_agent(
        words, scan.at
    ):
        return None
    begin = scan.at
    others = scan.agents()
    either = either or "or" in words[begin : scan.at]
    scan.takes(_FINISH)
    if scan.takes(_BUT_NOT) and not scan.agents():
        return None
    task = ""
    if scan.takes(_AND_THEN) and known_verb(verb_base(scan.word)):
        task = state.raw(_from(phrase, scan.at))
        scan.at = len(words)
    if not others or scan.rest:
        return None
    waits = Waits(of=_named(state, others), join="any" if either else "all")
    return Clause(phrase, _named(state, named), task=task, waits=waits)


_BUT_NOT = ways("but not for|, but not for|, not for|but not on|( not for|and not for")
_AND_THEN = ways("and|, and|and then|, and then|, then|) and|, and only then|and only then")


_MEMBERS = word_set(
    "agent agents people persons roles team crew specialists experts members "
    "cast players colleagues workers staff assistants us you participants "
    "parties characters hands bots helpers professionals"
)
_INTRODUCES = word_set(
    ": – , of are is include includes including comprises namely with both being has have"
)
_CAST_LEADS = ways(
    "there are|there is|we have|we have got|you are|meet|we need|i need|set up"
    "|we are|use|who is who :|it takes|build|create|introducing|we use|i have"
    "|so there are|now there are|employ|let there be|our crew is|assemble"
)
_CAST_TAIL = word_set(
    "in the crew team all working together told and nobody else who work that on "
    "it this , both at simultaneously parallel same time once side by is are one "
    "here today project job case"
)


def _cast(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`There are three agents: a planner, a coder and a tester`."""
    words = _words(phrase)
    first = _first_agent(words)
    if first < 0:
        return None
    begin = first - (first > 0 and words[first - 1] == "both")
    head = words[:begin]
    named, end = _agents_at(words, begin)
    if not head:
        return _cast_behind(state, phrase, named, end)
    members = bool(_MEMBERS & {*head}) and head[-1] in _INTRODUCES
    if not (members or tuple(head) in _CAST_LEADS) or not {*words[end:]} <= _CAST_TAIL:
        return None
    agents = _named(state, named)
    if len(agents) > 1 and (_says(words, _ABREAST[:6]) or _says(words, ways("work on|work at"))):
        return Clause(phrase, agents, task=state.raw(_from(phrase, 0, begin)))
    state.subject = agents
    return _statement(phrase, agents, Cast(agents=agents, words=(phrase.words,)))


def _cast_behind(state: State, phrase: Phrase, named: list[str], end: int) -> Clause | None:
    """`The planner, the coder and the tester are the crew`."""
    scan = Scan(_words(phrase))
    scan.at = end
    if not named or not scan.takes(ways("are|make up|form|is|work in|belong to|constitute")):
        return None
    scan.over(word_set("in on the our my your a whole of"))
    if scan.word not in _MEMBERS:
        return None
    agents = _named(state, named)
    state.subject = agents
    return _statement(phrase, agents, Cast(agents=agents, words=(phrase.words,)))


def cast(state: State, phrase: Phrase) -> bool:
    """A cast whose list was cut into several segments."""
    clause = _cast(state, phrase, set()) if "@" in phrase.text else None
    if clause is None:
        return False
    if clause.statement is not None:
        return state.say(clause.statement)
    parts = tuple(Part(agent=a, task=clause.task) for a in clause.agents)
    return state.step(Step(parts=parts, words=(phrase.words,)))


RULES.append(cast)

_NEXTISH = word_set(
    "then next last finally up now comes come is are it time for over to on "
    "followed by after that along enter follows follow and there the one in line "
    "our here we move moves turn turns bring call cue with word goes step job "
    "belongs falls part task"
)
_NEXT = word_set(
    "comes come followed follows follow time over enter up next on along cue "
    "call bring by with turn"
)
_BEHIND = _RELATIVES | {"to", "for", "and", ","}


def _comes(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`Followed by the editor, who …`, `next comes the editor`, `it is the editor's turn`."""
    words = _words(phrase)
    first = _first_agent(words)
    if first < 0 or not {*words[:first]} <= _NEXTISH:
        return None
    named, end = _agents_at(words, first)
    turn = tuple(words[end : end + 2]) == ("'s", "turn")
    if not turn and not {*words[:first]} & _NEXT:
        return None
    end += 2 if turn else 0
    while turn and end < len(words) and words[end] in {"again", "now", "once", "more"}:
        end += 1
    if end < len(words) and words[end] not in _BEHIND:
        return None
    clause = Clause(phrase, _named(state, named), again=True)
    _behind(state, clause, phrase, end)
    return clause


def _each_at(words: Sequence[str], at: int) -> Sequence[str]:
    """The noun behind `each` or `every` at a place: `each topic`."""
    if at >= len(words) or words[at] not in {"each", "every"}:
        return ()
    end = at + 1
    while end < len(words) and words[end][0].isalpha() and words[end] not in HELPING | MOVED:
        if end > at + 1 and (third_person(words[end]) or words[end] in {"of", "in", "to", "from"}):
            break
        end += 1
    return words[at + 1 : end] if at + 1 < end <= at + 4 else ()


def _any_of(state: State, named: Unit) -> bool:
    """Whether an agent is one of several that do the same: `a coder`."""
    return state.text[named.start : named.end].lower().startswith(("a ", "an ", "one "))


_GIVEN = MOVED | word_set("delegated assigned delivered shipped entrusted submitted presented left")
_GIVE = MOVES | word_set("delegate deliver assign entrust submit present leave supply")
_ALONG = word_set("on over along off straight directly up down all out for further now then , back")


def _hands(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`It is handed over to the editor, who …`: the one who receives works next."""
    words = _words(phrase)
    scan = Scan(words)
    giver = scan.agents()
    each = _each_at(words, scan.at)
    if each:
        scan.at += 1 + len(each)
    elif not giver:
        scan.noun()
    scan.over(PRONOUNS | HELPING)
    if verb_base(scan.word) not in _GIVE and scan.word not in _GIVEN:
        return None
    scan.at += 1
    scan.over(_ALONG - {"back"})
    scan.over(PRONOUNS - {"who", "which"} | {"of", "baton"})
    scan.noun()
    scan.over(_ALONG - {"back"})
    if scan.word not in {"to", "onto"} or not _is_agent(words, scan.at + 1):
        return None
    scan.at += 1
    agents = _named(state, scan.agents())
    scan.takes(ways("'s desk"))
    if scan.word and scan.word not in _BEHIND:
        return None
    clause = Clause(phrase, agents, again=True)
    if each and _any_of(state, phrase.units[scan.at - 1]):
        clause.each = plain(plural(" ".join(each)))
    elif each:
        return None
    first = _named(state, giver)
    if first and first != agents and first[0] not in state.ever:
        state.step(Step(parts=(Part(agent=first[0]),), words=(phrase.words,)))
    if scan.word:
        _behind(state, clause, phrase, scan.at)
    return clause


_CAUSES = word_set(
    "have let get make ask tell use has want like need call instruct task allow "
    "assign send put bring"
)
_BEFORE_CAUSE = word_set("you we i please would like want to can should must will just")


def _made(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`Have the writer draft it`, `ask the writer to draft it`."""
    words = _words(phrase)
    scan = Scan(words)
    while scan.word in _BEFORE_CAUSE and not _is_agent(words, scan.at + 1):
        scan.at += 1
    cause = scan.word
    if cause not in _CAUSES:
        return None
    scan.at += 1
    scan.over({"in", "got"})
    named = scan.agents()
    scan.over(word_set("both then all now first off also"))
    scan.over({"to"})
    if not named or not scan.rest:
        return None
    agents, task = _named(state, named), _from(phrase, scan.at)
    goes = (
        known_verb(scan.word)
        or scan.word.endswith("ing")
        or scan.word in word_set("go be do in at simultaneously off side")
    )
    if not goes and len(agents) < 2 and cause in {"send", "use", "ask", "call", "tell", "put"}:
        return None
    return Clause(phrase, agents, task=state.raw(task), beside=_beside(agents, _words(task)))


_BEING = word_set("is are get gets be was were being been becomes")
_NOT_WORK = word_set("used seen approved called caused limited driven affected")
"""Participles that make nobody work: rights, decisions, reasons."""


_WITH_PARTICIPLE = word_set("and then have get let")
"""`Have it looked over by the editor`."""


def _done(word: str) -> bool:
    """Whether a word may say what is done to something: a participle, or `borne`."""
    return participle(word) or (len(word) > 3 and word.endswith("ne"))


def _passive(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`The draft is then checked by the editor, who …`."""
    words = _words(phrase)
    for at, word in enumerate(words):
        if word != "by" or not at:
            continue
        named, end = _agents_at(words, at + 1)
        if not named:
            continue
        ahead = words[:at]
        verbs = [i for i, w in enumerate(ahead) if _done(w)]
        if not verbs or not ({*ahead} & _BEING or verbs[0] == 0 or ahead[0] in _WITH_PARTICIPLE):
            return None
        if {*ahead[verbs[0] :]} & _NOT_WORK and len(verbs) == 1:
            return None
        agents = _named(state, named)
        clause = Clause(phrase, agents, task=state.raw(phrase), beside=_beside(agents, words))
        clause.each = _for_each(state, phrase, at)
        if end + 1 < len(words) and words[end] in {",", "("} and words[end + 1] in _RELATIVES:
            made = _rules_with(state, agents, _from(phrase, end + 2))
            clause.behind.extend(made or ())
        return clause
    return None


def _for_each(state: State, phrase: Phrase, by: int) -> str | None:
    """`A summary of each source is written by a reader`: what there is a reader for."""
    if not _any_of(state, phrase.units[by + 1]):
        return None
    words = _words(phrase)[:by]
    for at in range(len(words)):
        if (noun := _each_at(words, at)) and (not at or words[at - 1] in {"of", "for", "from"}):
            return plain(plural(" ".join(noun)))
    return None


# -- the agent first -------------------------------------------------------------------------------


def _subject(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    words = _words(phrase)
    named, end = _agents_at(words, 0)
    if not named:
        return None
    agents = _named(state, named)
    scan = Scan(words)
    scan.at = end
    scan.over({"both", "all", "each"})
    if scan.word == "'s" and scan.words[scan.at + 1 : scan.at + 2] not in (
        ["on"],
        ["up"],
        ["next"],
    ):
        return _trait(state, phrase, agents) if "then" not in marks else None
    rest = _from(phrase, scan.at)
    aside = _aside(state, phrase, agents, rest, marks)
    return aside if aside is not None else _work(state, phrase, agents, rest, marks)


_AS = word_set("as in at on during every given based to")
_SHORT = 3
"""Words that stand in front without a comma: `every week`."""
_BY_MEANS = word_set("using with via through by")
_NOT_FRONTED = word_set(
    "me i my us we our you ask approval approve not no only unless if when until "
    "before after most than more least without nobody anyone everyone everybody "
    "all parallel once soon"
)


def _fronted(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`Using deploy, the publisher …`, `as a former journalist, the editor …`."""
    words = _words(phrase)
    first = _first_agent(words)
    ahead = words[: max(first, 0)]
    comma = ahead[-1:] == [","]
    ahead = ahead[:-1] if comma else ahead
    if not ahead or "," in ahead or {*ahead} & _NOT_FRONTED or (not comma and len(ahead) > _SHORT):
        return None
    tools = any(word[0] in "#$" for word in ahead)
    if any(word[0] in "@~" or number(word) is not None for word in ahead):
        return None
    if ahead[0] not in (_BY_MEANS if tools else _AS):
        return None
    clause = _subject(state, _from(phrase, first), marks)
    if clause is None:
        return None
    clause.phrase = phrase
    if clause.task and not tools:
        clause.task = state.raw(phrase)
    if isinstance(clause.statement, Trait):
        text = state.raw(phrase)
        clause.statement = clause.statement.model_copy(
            update={"text": text, "words": (phrase.words,)}
        )
    return clause


def _aside(
    state: State, phrase: Phrase, agents: tuple[str, ...], rest: Phrase, marks: set[str]
) -> Clause | None:
    """`The clerk, who may send emails, checks …`; `the drafter, using the archive, writes …`."""
    words = _words(rest)
    at = 1 if words[:1] in ([","], ["("]) else 0
    relative = words[at : at + 1] != [] and words[at] in _RELATIVES
    begin = at + 1 if relative else at
    if not relative and not (at and words[at : at + 1] and words[at] in _ASIDES):
        return None
    close = next((i for i in range(begin, len(words)) if words[i] in {",", ")"}), -1)
    inner = _from(rest, begin, close if close >= 0 else None)
    main = _from(rest, close + 1) if close >= 0 else Phrase(())
    made = _rules_with(state, agents, inner)
    if not main:
        if not relative:
            return None
        task = state.raw(inner) if made is None else ""
        return Clause(phrase, agents, task=task, behind=made or [])
    if made is None and relative:
        return _told_aside(state, phrase, agents, inner, main, marks)
    clause = _work(state, phrase, agents, main if made is not None else rest, marks)
    if clause is None and relative and made is None:  # `the editor, who is a stickler, reads it`
        clause = _work(state, phrase, agents, main, marks)
        made = [Trait(agents=agents, text=state.raw(inner), words=(inner.words,))]
    if clause is not None:
        clause.behind.extend(made or ())
    return clause


def _told_aside(
    state: State,
    phrase: Phrase,
    agents: tuple[str, ...],
    inner: Phrase,
    main: Phrase,
    marks: set[str],
) -> Clause | None:
    """`The advocate, who is impatient, tries to …`: who it is, or more of what it does."""
    clause = _work(state, phrase, agents, main, marks)
    if clause is None:
        return None
    if _is_trait(_words(inner)):
        said = Trait(agents=agents, text=state.raw(inner), words=(inner.words,))
        clause.behind.append(said)
    elif clause.works:
        clause.task = f"{state.raw(inner)}, {clause.task}".strip(", ")
    return clause


_ASIDES = word_set("using with via through armed equipped having")
_PLAIN_VERBS = word_set(
    "come go work start act follow step take kick begin jump join get set lead "
    "open chime run do finish close wrap pick have proceed be"
)
_PLAIN_TAIL = word_set(
    "next then first last second third in up after that now at the end turn "
    "afterwards on there too finally to work again it this things from with same "
    "time parallel simultaneously side by over off going started floor its his "
    "her their thing part job bit right away straight immediately and once more "
    "both all go alongside concurrently together , own do"
)
_NOT_ALONE = word_set("take do have get open set lead pick kick be")
"""Verbs that say nothing without what follows them."""


def _plainly_works(words: Sequence[str]) -> bool:
    """Whether it only says that somebody works: `takes over`, `is next`, `goes first`."""
    scan = Scan(words)
    while scan.takes(_ADVERBS):
        pass
    if scan.word in {"can", "may", "must", "should", "will"}:
        scan.at += 1
    scan.over({"immediately", "directly", "already"})
    verb = {"is": "be", "are": "be"}.get(scan.word, verb_base(scan.word))
    tail = scan.rest[1:]
    if verb not in _PLAIN_VERBS or not {*tail} <= _PLAIN_TAIL:
        return False
    if scan.word in {"work", "go", "run"} and not tail and scan.at:
        return True
    return bool(tail) or verb not in _NOT_ALONE


_BE = word_set("is are was were 's")
_TO_WORK = word_set(
    "to asked told going next up on given handed brought called invited set "
    "supposed expected tasked due meant"
)
_LIKES = word_set(
    "care know like hate love speak believe prefer behave want avoid remember "
    "respect stay sound tend value enjoy dislike understand own live"
)
_MANNER = ways(
    "should|shall|ought|never|always|does not|do not|may not|can not|must not"
    "|will not|need not|needs not|needs to be|has to be|have to be|must be|would"
    "|could|may|can|might|be|had better|has been|have been|keeps in mind|acts as"
    "|acts like|thinks like|thinks in|used to|shall not|should not"
)
_TURNS = word_set(
    "look go try think read say turn shot stab peek crack word chat glance play "
    "browse first last final closer"
)


def _at_work(words: Sequence[str]) -> bool:
    """`Is writing the text`: what it does, and not what it is."""
    ing = words[1] if len(words) > 1 and words[0] in {"is", "are"} else ""
    return ing.endswith("ing") and known_verb(lemma(ing)) and ing not in {"lacking", "being"}


def _is_trait(words: Sequence[str]) -> bool:
    """Whether the words behind an agent say what it is or how it is to behave."""
    scan = Scan(words)
    while scan.word in {"both", "all", "each", "also", "always"} and len(scan.rest) > 1:
        scan.at += 1
    rest = scan.rest
    if scan.word in _BE:
        return len(rest) > 1 and rest[1] not in _TO_WORK and not _at_work(rest)
    if (
        scan.word in {"has", "have"}
        and rest[1:2]
        and rest[1] in word_set("a an the no some good great years")
    ):
        return not {*rest[2:4]} & _TURNS
    return verb_base(scan.word) in _LIKES or scan.takes(_MANNER)


_STRONG = ways(
    "has to|have to|needs to|need to|is to|are to|is going to|are going to"
    "|is asked to|are asked to|is told to|are told to|is set to|is supposed to"
    "|is expected to|is called to|is brought in to|is invited to|is due to"
    "|is meant to|is tasked with|are tasked with|is given the job of|will|gets to"
    "|get to|are supposed to"
)
_WEAK = ways("must|should|shall|may|can|could|gets")
_CHARGE = ways("is responsible for|is in charge of|are responsible for|are in charge of")


def _duty(words: Sequence[str]) -> tuple[str, int]:
    """How firmly words say that an agent is to work now, and where its work begins."""
    scan = Scan(words)
    scan.over({"both", "all", "then", "also", "now"})
    begin = scan.at
    if scan.word in {"is", "are"}:  # `is then to …`
        scan.at += 1
        while scan.word != "to" and scan.takes(_ADVERBS):
            pass
        if scan.word == "to":
            return "strong", scan.at + 1
        scan.at = begin
    for kind, said in (("strong", _STRONG), ("charge", _CHARGE), ("weak", _WEAK)):
        if scan.takes(said):
            return kind, scan.at
    return "", 0


def _works_now(state: State, agents: tuple[str, ...], duty: str, marks: set[str]) -> bool:
    """Whether `has to`, `is to` and `should` speak of a turn rather than of how to behave."""
    fresh = not set(agents) <= state.ever
    ordered = bool(marks & {"then", "first", "beside", "after_that", "otherwise"})
    return (fresh or ordered) if duty == "strong" else (fresh and ordered)


def _work(
    state: State, phrase: Phrase, agents: tuple[str, ...], rest: Phrase, marks: set[str]
) -> Clause | None:
    words = _words(rest)
    while words and words[0] in {",", ":", "–"}:
        words, rest = words[1:], _from(rest, 1)
    again = bool(marks & {"then", "after_that"}) or words[:1] == ["again"]
    if not words:
        return _alone(state, phrase, agents, marks)
    if _plainly_works(words):
        return _works(state, phrase, agents, words, marks, again=again)
    duty, at = _duty(words)
    if duty and _works_now(state, agents, duty, marks) and at < len(words):
        task = state.raw(_from(rest, at))
        return Clause(phrase, agents, task=task, beside=_beside(agents, words), again=again)
    if duty or _is_trait(words):
        return _trait(state, phrase, agents)
    if _at_work(words):
        return Clause(phrase, agents, task=state.raw(_from(rest, 1)), again=again)
    scan = Scan(words)
    while scan.takes(_ADVERBS):
        pass
    started, first = _from(rest, scan.at), scan.word
    if state.described and not third_person(first):
        return _trait(state, phrase, agents)
    if not _verb(first, agents):
        if state.labelled:
            return Clause(phrase, agents, task=state.raw(rest))
        if first not in word_set("with to on 's") and scan.at == 0:
            return None
    return _works(state, phrase, agents, words, marks, again=again, task=state.raw(started))


def _works(
    state: State,
    phrase: Phrase,
    agents: tuple[str, ...],
    words: Sequence[str],
    marks: set[str],
    *,
    again: bool,
    task: str = "",
) -> Clause:
    """A clause of work, or what an agent is told where that stands under `People`."""
    if _in_prose(state) and not marks & {"then", "first", "beside"}:
        said = Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,))
        return _statement(phrase, agents, said)
    ends = {tuple(words[-2:]), tuple(words[-3:])}
    return Clause(
        phrase,
        agents,
        task=task,
        beside=_beside(agents, words),
        start=bool(ends & _AT_ONCE) or words[-1] == "immediately",
        again=again or "again" in words,
    )


_AT_ONCE = frozenset(
    ways("right away|straight away|from the start|the very start|from the beginning")
)


def _verb(word: str, agents: Sequence[str]) -> bool:
    known = third_person(word) or known_verb(word) or word in {"again", "has", "gets"}
    return word.startswith("$") or known or len(agents) > 1


def _trait(state: State, phrase: Phrase, agents: tuple[str, ...]) -> Clause:
    state.subject = agents
    said = Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,))
    return _statement(phrase, agents, said)


_WANTED = word_set(
    "there is are will be shall we i you need have want got use start with would "
    "like send begin should hire employ let take add set up meet introducing "
    "include also it starts begins someone somebody , call her him them this "
    "here a"
)


def _wanted(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`We need a writer who drafts the notes`."""
    words = _words(phrase)
    first = _first_agent(words)
    if first < 1 or not {*words[:first]} <= _WANTED:
        return None
    named, end = _agents_at(words, first)
    begin = end + (end < len(words) and words[end] in _RELATIVES | {"to", ":", "–"})
    task = _from(phrase, begin)
    if not task or {*_words(task)} <= {w for way in _ABREAST for w in way}:
        return None
    verb = task.units[0].text
    if not (third_person(verb) or known_verb(verb) or len(named) > 1):
        return None
    clause = Clause(phrase, _named(state, named))
    _behind(state, clause, phrase, end)
    return clause


_EVERYONE = ways(
    "every agent|all agents|everyone|everybody|each agent|agents|all of them"
    "|all of the agents|the agents|nobody|no one|you all|they all|they|you"
    "|all of you"
)


def _about_all(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`Everyone should write British English`."""
    words = _words(phrase)
    scan = Scan(words)
    if not scan.takes(_EVERYONE) or any(word[0] in "@#$" for word in words):
        return None
    manner = _is_trait(scan.rest) or bool(_duty(scan.rest)[0])
    if words[0] in {"they", "you"} and "all" not in words[:2]:
        if scan.word not in {"should", "must", "always", "never"}:
            return None
    elif not manner and not known_verb(scan.word):
        return None
    agents = state.addressed if words[0] == "you" and words[1:2] != ["all"] else ()
    return _statement(
        phrase, agents, Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,))
    )


# -- tools of a clause -----------------------------------------------------------------------------

_USES = ways(
    "with|using|via|through|by using|uses|use|calls|call|runs|run|by means of"
    "|with the help of|employs|has|draws on|by calling|with access to|from"
    "|relying on|by way of|armed with|equipped with|making use of|utilising"
    "|utilizing"
)
_BY_NAME_ONLY = word_set("calls call runs run from has")
"""What gives a tool only by its name: `runs the tests` is work."""
_ENDS = word_set(", ( ) ; and but for to only")
_NOT = word_set("not without never no instead than except")


def _tools(state: State, clause: Clause) -> None:
    """The tools that a clause of work gives: `… with send_email`."""
    if not clause.agents or clause.statement is not None:
        return
    words, at = _words(clause.phrase), 0
    while at < len(words):
        if words[at][0] not in "#$":
            at += 1
            continue
        end = _tools_end(words, at)
        if _given(words, at):
            tools = state.tool_names(" ".join(words[at:end]))
            if not any(isinstance(s, Allow) and set(tools) <= set(s.tools) for s in clause.behind):
                state.tools = tools
                at_words = (_from(clause.phrase, at, end).words,)
                clause.behind.append(Allow(agents=clause.agents, tools=tools, words=at_words))
        at = end


def _tools_end(words: Sequence[str], at: int) -> int:
    """Where a list of tools ends."""
    end = at + 1
    while end < len(words):
        ahead = end
        while ahead < len(words) and words[ahead] in {",", "and", "or", "the", "tool", "both"}:
            ahead += 1
        if ahead >= len(words) or words[ahead][0] not in "#$":
            break
        end = ahead + 1
    return end


_PERHAPS = word_set("may can could might would")
"""`Thinks it may use deploy` gives nothing; what may be used is a rule, and read as such."""


def _given(words: Sequence[str], at: int) -> bool:
    """Whether the words before a tool say that it is used for the work."""
    begin, end = at, _tools_end(words, at)
    while begin and words[begin - 1] in word_set("the its his her our their both tool tools"):
        begin -= 1
    for way in _USES:
        start = begin - len(way)
        if start >= 0 and tuple(words[start:begin]) == way:
            if way == ("has",) and end < len(words) and words[end] not in _ENDS:
                return False  # `has deploy envy`
            plainly = words[at].startswith("#") or way[0] not in _BY_NAME_ONLY
            return plainly and not {*words[max(0, start - 2) : start]} & (_NOT | _PERHAPS)
    return False


_Reader = Callable[[State, Phrase, set[str]], Clause | None]
_READERS: tuple[_Reader, ...] = (
    _list,
    _vocative,
    _per,
    _waiting,
    _cast,
    _comes,
    _hands,
    _made,
    _passive,
    _subject,
    _fronted,
    _wanted,
    _about_all,
)
