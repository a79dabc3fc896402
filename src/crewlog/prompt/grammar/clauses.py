"""Main clauses: whose work they are, and what the work is.

The ways in which English says that somebody works: `the writer drafts …`, `have the writer draft
…`, `… is drafted by the writer`, `over to the writer`, `followed by the writer`. What an agent is
or should do is no work of its own (a trait).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from crewlog.prompt.ast import Allow, AnyStatement, Cast, Part, Step, Trait, Waits
from crewlog.prompt.grammar.lexicon import known_verb, plural, third_person
from crewlog.prompt.grammar.phrase import Phrase, Unit, pattern
from crewlog.prompt.grammar.rules import AGENT, RULES, apply, rule
from crewlog.prompt.grammar.state import Match, State
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
    waits: Waits | None = None
    """Whom it says itself that it waits for."""
    start: bool = False
    each: str | None = None
    statement: AnyStatement | None = None
    """What it is where it is no work."""
    before: list[AnyStatement] = field(default_factory=list[AnyStatement])
    behind: list[AnyStatement] = field(default_factory=list[AnyStatement])


_SUBJECT = pattern(
    r"(?:both |each |every |one |a new |either )?(?P<who>{A})(?: (?:both|all|each))?(?= |$)"
)
_MADE = pattern(
    r"(?:(?:you|we|i|please|would|like|want|to|can|should|must|will) )*(?:have|let|get|make|ask|tell|use|lets|has|want|like|need|call|instruct|task|bring in|allow|assign|send|put) "
    r"(?P<who>{A}) (?:both |then |all |now |first |off )*(?:to )?(?P<task>.+)"
)
_PASSIVE = pattern(
    r"(?P<what>.*?)(?:^| )(?:is|are|gets?|be|was|were|being)(?: [^,;]{0,90}?)? by (?:both )?(?P<who>{A})(?P<rest>(?: .*)?)"
)
_PASSIVE_BARE = pattern(
    r"(?P<what>[a-z-]+(?:ed|en|ne|wn)(?: .*)?) by (?P<who>{A})(?P<rest>(?: .*)?)"
)
_HANDS = pattern(
    r"(?:(?:{A}|it|he|she|they|that|this|the [a-z ]+?|everything|we|you|work) )?(?:(?:then|now|just|is|are|gets?|must|should|will|can|to|has|the baton|the work|the word|control) )*"
    r"(?:passes|pass|passed|hands|hand|handed|gives|give|given|sends|send|sent|forwards?|forwarded|goes|go|moves?|delegates?|delegated|turns?|transfers?|assigned|assigns?|over|on|off|falls|comes|routes?|routed|delivers|delivered|shipped) "
    r"(?:(?:it|them|this|that|things|everything|all of it|all that|the [a-z -]+?|its [a-z -]+?|his [a-z ]+?|her [a-z ]+?|work) )?(?:(?:on|over|along|off|straight|directly|up|down|all|for [a-z]+|out) )*to (?P<who>{A})(?P<rest>(?: ,? ?(?:who|which|that|to|for|and|,|so that) .+| 's desk)?)"
)
_COMES = pattern(
    r"(?:(?:then|next|last|finally|up|now|after that|and|it is|there|followed|is|the next one is|next in line is) )*(?:followed by|comes|come|up is|is|next is|it is time for|time for|enter|over to|on to|follows?|there is|it is up to|up to|we (?:turn|go|move on|come) to|bring in|call in|call|cue|now it is|along comes|with|by) (?P<who>{A})(?P<rest>(?: ?,? (?:who|which|that|to|for|and) .+)?)"
)
_TURN = pattern(
    r"(?:(?:then|now|next|and|it|is|will be|comes|has) )*(?P<who>{A}) 's turn(?P<rest>(?: (?:to|,|and|with) .+)?)|(?:(?:then|now|next|it|is) )*(?:the |it is the )?turn (?:of|for) (?P<whom>{A})(?P<more>(?: (?:to|,|and) .+)?)"
)
_DOES = pattern(
    r"(?P<who>{A})(?: (?:,|then|both|all|also|now|next))* (?:(?:is|are|comes|goes|works?|starts?|acts?|follows|steps in|gets? to work|takes over|takes it from there|kicks? (?:things |it )?off|begins?|jumps in|joins(?: in)?|gets going|gets started|can start|may start|sets to work|takes the floor|goes to work|gets in|is on|leads off|opens|chimes in|runs?|does its (?:thing|part|work|job|bit)|finishes (?:it |things )?(?:off|up)?|closes|is up|wraps (?:it |things )?up|picks (?:it )?up|has its turn|do their thing|comes in)(?: (?:next|then|first|last|second|third|in|up|after that|now|at the end|in turn|afterwards|on|there|too|finally|to work|work|again|on this|things|it|from there|with it|at the same time|in parallel|simultaneously|side by side))*)"
)
_PER = pattern(
    r"(?:(?:there is|we need|use|with|have|send|put|then) )?(?:one |a |an )?(?P<who>{A1}) (?:per|for each|for every) (?P<noun>[a-z][a-z -]{0,30})(?P<rest>(?: ,? ?(?:who|which|that|to|and) .+)?)"
)
_WANTED = pattern(
    r"(?:(?:there (?:is|are|will be|shall be)|(?:we|i|you) (?:need|have|want|have got|use|start with|will need|would like|would send|send|begin with|got|should have|are|hire|employ)|let there be|take|add|set up|meet|introducing|include|start with|use|we also have|it (?:starts|begins) with|someone ,|somebody ,|call (?:it|her|him|them)|this is|here (?:is|are)) )+(?P<who>{A})(?: (?:who|that|which|to|:|–))? ?(?P<task>.*)"
)
_MEMBERS = r"(?:agents?|people|persons|roles|team|crew|specialists|experts|members|cast|players|colleagues|workers|staff|assistants|of us|of you|pairs of eyes|participants|parties|characters|hands|bots)"
_CAST_HEAD = rf"(?:[^@#$]*?\b{_MEMBERS}\b[^@#$]{{0,60}}?(?::|–|,| of| are| is| includes?| including| comprises| namely| with| as follows :)|(?:so |now )?(?:there (?:are|is)|we have(?: got)?|you are|meet|we need|i need|set up|we are|use|who is who :|it takes|build|create|introducing|we use|i have)(?: both)?)"
_CAST = pattern(
    rf"{_CAST_HEAD} ?(?P<who>{{A}})(?P<rest>(?: (?:in the (?:crew|team)|in all|working together|all told|and nobody else|who work together|on (?:it|this|the team|the crew)|,? ?(?:both |all )?(?:at it |working |who work |work )?(?:simultaneously|in parallel|at the same time|at once|side by side)|work together|that work together))*)"
)
_CAST_BEHIND = pattern(
    r"(?P<who>{A}) (?:are|make up|form|is|work in) (?:the|our|my|your|in the|on the|a) (?:crew|team|agents|cast|members|people|whole (?:crew|team))(?: .*)?"
)
_BOTH_WORK = re.compile(
    r"\b(?:simultaneously|in parallel|parallel|at the same time|at once|side by side|concurrently)\b"
)
_BESIDE = re.compile(
    r"\b(?:meanwhile|at the same time|in the meantime|in parallel with (?:that|this|it|@[0-9]+)|simultaneously|in parallel|alongside(?: @[0-9]+)?|concurrently)\b"
)
_TRAIT = pattern(
    r"(?P<who>{A})(?: (?:both|all|each|also|always))* (?:(?:is|are|was|were|'s|has been)(?! (?:to|asked to|told to|going to|next|up|on|given|handed|brought|called|invited|set to|supposed to|expected to)\b)|should|shall|must(?! also)|ought to|never|always|does not|do not|may not|can not|must not|needs to be|has to be|have to be|needs not|need not|had better|would|could|can be|may be|cares?|knows?|likes?|hates?|loves?|speaks|believes|prefers?|tends to|has (?:a|an|the|no|some|good|great|years|an eye)(?! (?:[a-z]+ )?(?:look|go|try|think|read|say|turn|shot|stab|peek|crack|word|chat|glance|play|browse)\b)|thinks (?:like|in)|behaves|wants|keeps in mind|avoids?|remembers?|respects?|stays?|acts? (?:as|like)|sounds?|may|can|could|might|will not|be)(?= )"
)
_DUTY = pattern(
    r"(?P<who>{A})(?: (?:both|all|then|also|now))* (?:has to|have to|must|needs to|need to|(?:is|are) (?:{ADV} )?to|should|shall|will|is going to|are going to|is asked to|are asked to|is told to|is supposed to|is expected to|is set to|gets to|is called to|is brought in to|is given the job of|is invited to|may|can|could|gets|is due to|is meant to|is tasked with|is responsible for|is in charge of|takes care of)(?= )"
)
_ADVERBS = pattern(r"(?:{ADV} |, )*")
_PROSE = frozenset(
    [
        "people",
        "cast",
        "roles",
        "agents",
        "team",
        "crew",
        "who",
        "members",
        "participants",
        "staff",
        "traits",
        "style",
        "tone",
        "personalities",
        "characters",
    ]
)
_STARTS = re.compile(
    r"^(?:again|in parallel|together|side by side|simultaneously|also|both|all|then|next|now|at the same time|on (?:this|it))\b"
)
_NO_TASK = re.compile(r"^(?:is|are|'s)$")


def read_clause(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """The clause that a phrase is; none where it is none that speaks of agents."""
    for read in _READERS:
        clause = read(state, phrase, marks)
        if clause is not None:
            _tools(state, clause)
            return clause
    return None


def _named(state: State, text: str | None) -> tuple[str, ...]:
    return state.names(text or "")


def _turn(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    for compiled in (_TURN, _COMES, _HANDS):
        found = compiled.fullmatch(phrase.text)
        if found is None:
            continue
        groups = found.groupdict()
        name = "who" if groups.get("who") else "whom"
        agents = _named(state, groups[name])
        rest = groups.get("rest") or groups.get("more") or ""
        clause = Clause(phrase, agents, task=_task_of(state, phrase, found, rest), again=True)
        if compiled is _HANDS and (first := re.match(r"@[0-9]+", phrase.text)) is not None:
            giver = _named(state, first[0])
            if giver != agents and giver[0] not in state.ever:
                state.step(Step(parts=(Part(agent=giver[0]),), words=(phrase.words,)))
        if rest:
            tail = re.sub(r"^ ?,? ?(?:who|which|that|to|and|for) ", "", rest)
            _as_rule(state, clause, agents, phrase, tail)
        return clause
    return None


def _task_of(state: State, phrase: Phrase, found: re.Match[str], rest: str) -> str:
    text = rest.strip(" ,")
    if not text:
        return ""
    at = phrase.text.rfind(text)
    task = state.raw(phrase.part(at)) if at >= 0 else ""
    return re.sub(r"^(?:who|which|that|to|and|for|,)\s+", "", task)


def _as_rule(
    state: State, clause: Clause, agents: tuple[str, ...], phrase: Phrase, tail: str
) -> bool:
    """Whether a relative clause is a rule about its agent: `the clerk, who may send emails`."""
    at = phrase.text.rfind(tail)
    if at < 0 or not tail:
        return False
    rest = phrase.part(at)
    made = _rules_with(state, agents, rest)
    if made is None:
        return False
    clause.behind.extend(made)
    clause.task = ""
    return True


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


_WAITS = pattern(
    r"(?P<who>{A}) (?:(?:then|first|only|must|has to|have to|should) )*(?:waits?|has to wait|depends?|relies|starts after|comes after|follows|works after|goes after|runs after) ?(?:for|on|until|after)? ?(?:both |all of |either )?(?P<of>{A})(?: (?:to (?:finish|be done|be ready|complete)|(?:is|are|has|have) (?:both |all )?(?:done|finished|ready|through)|finish(?:es)?))?"
)


def _waiting(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """`The coder waits for the planner and the architect`."""
    found = _WAITS.fullmatch(phrase.text)
    if found is None:
        return None
    join = "any" if " or " in found["of"] or "either " in phrase.text else "all"
    waits = Waits(of=_named(state, found["of"]), join=join)
    return Clause(phrase, _named(state, found["who"]), waits=waits)


_USING = pattern(
    r"(?:, |\( )?(?:(?:using|with|via|through|who (?:has|uses|may use|can use)|armed with|equipped with|has) )?(?P<tools>{T}) [,)] ?(?P<main>.+)"
)


def _passive(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    text = phrase.text
    if text.startswith("@") and not text.startswith("@"):
        return None
    found = _PASSIVE.fullmatch(text) or _PASSIVE_BARE.fullmatch(text)
    if found is None or re.search(r"\b(?:used|seen|approved|called) by", text[: found.end("who")]):
        return None
    agents = _named(state, found["who"])
    clause = Clause(phrase, agents, task=state.raw(phrase))
    clause.beside = len(agents) == 1 and _BESIDE.search(text) is not None
    rest = found["rest"].strip()
    if (tail := re.match(r"(?:,|\() ?(?:who|which) (.+)", rest)) is not None:
        _as_rule(state, clause, agents, phrase, tail[1])
    return clause


def _made(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    found = _MADE.fullmatch(phrase.text)
    if found is None:
        return None
    agents = _named(state, found["who"])
    first = found["task"].split()[0]
    if (
        not known_verb(first)
        and not re.match(r"(?:go|be|do|in|at|simultaneously|off|side)\b", first)
        and len(agents) < 2
    ) and found[0].split()[0] in {"send", "use", "ask", "call", "tell"}:
        return None
    task = phrase.part(found.start("task"))
    return Clause(phrase, agents, task=state.raw(task), beside=_beside(agents, found["task"]))


def _per(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    found = _PER.fullmatch(phrase.text)
    if found is None:
        return None
    agents = _named(state, found["who"])
    each = plain(plural(found["noun"].strip()))
    return Clause(phrase, agents, task=_task_of(state, phrase, found, found["rest"]), each=each)


def _subject(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    text = phrase.text
    found = _SUBJECT.match(text)
    if found is None:
        return None
    agents = _named(state, found["who"])
    rest = phrase.part(found.end())
    if (
        rest
        and rest.text.startswith("'s ")
        and not rest.text.startswith(("'s on ", "'s up ", "'s next"))
    ):
        return _trait(state, phrase, agents) if not marks & {"then"} else None
    if (using := _USING.fullmatch(rest.text)) is not None:
        clause = _work(state, phrase, agents, rest.part(using.start("main")), marks)
        if clause is not None:
            tools = state.tool_names(using["tools"])
            clause.behind.append(Allow(agents=agents, tools=tools, words=(phrase.words,)))
        return clause
    if (
        relative := re.match(
            r"(?:, )?(?:who|which|that) (?P<rel>.+?) ,(?: |$)(?P<main>.*)", rest.text
        )
    ) is not None and relative["main"]:
        inner = rest.part(relative.start("rel"), relative.end("rel"))
        made = _rules_with(state, agents, inner)
        main = rest.part(relative.start("main"))
        clause = _work(state, phrase, agents, main if made is not None else rest, marks)
        if clause is not None and made is not None:
            clause.behind.extend(made)
        return clause
    if (relative := re.match(r"(?:, )?(?:who|which|that) (?P<rel>.+)", rest.text)) is not None:
        clause = Clause(phrase, agents, task=state.raw(rest.part(relative.start("rel"))))
        _as_rule(state, clause, agents, phrase, relative["rel"])
        return clause
    return _work(state, phrase, agents, rest, marks)


def _work(
    state: State, phrase: Phrase, agents: tuple[str, ...], rest: Phrase, marks: set[str]
) -> Clause | None:
    text = rest.text.strip(" ,:–")
    rest = rest.part(max(0, rest.text.find(text))) if text else Phrase(())
    prose = bool({*state.section.split()} & _PROSE)
    whole = f"@0 {text}"
    plain_works = _DOES.fullmatch(whole) is not None
    again = bool(marks & {"then", "after_that"}) or text.startswith("again")
    if not text:
        if prose and not marks:
            return Clause(
                phrase, agents, works=False, statement=Cast(agents=agents, words=(phrase.words,))
            )
        return Clause(phrase, agents, again=True)
    if not plain_works:
        if (made := _DUTY.match(whole)) is not None and _works_now(state, agents, made[0], marks):
            duty = rest.part(made.end() - 3)
            return Clause(
                phrase, agents, task=state.raw(duty), beside=_beside(agents, text), again=again
            )
        if _TRAIT.match(whole) is not None or _DUTY.match(whole) is not None:
            return _trait(state, phrase, agents)
    started = rest.part(_ADVERBS.match(text).end()) if _ADVERBS.match(text) else rest  # type: ignore[union-attr]
    first = (started.text.split() or [""])[0]
    verb = (
        first.startswith("$")
        or third_person(first)
        or known_verb(first)
        or len(agents) > 1
        or plain_works
        or first in {"again", "has", "gets"}
    )
    if state.described and not third_person(first):
        return _trait(state, phrase, agents)
    if not verb and state.labelled:
        return Clause(phrase, agents, task=state.raw(rest))
    if not verb and not re.match(
        r"(?:in parallel|at the same time|simultaneously|again|next|then|first|with|to|on|'s)\b",
        started.text or text,
    ):
        return None
    if prose and not marks & {"then", "first", "beside"}:
        return Clause(
            phrase,
            agents,
            works=False,
            statement=Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,)),
        )
    task = "" if plain_works else state.raw(started)
    start = re.search(
        r"\b(?:right away|straight away|from the (?:very )?start|from the beginning|immediately)$",
        text,
    )
    return Clause(
        phrase,
        agents,
        task=task,
        beside=_beside(agents, text),
        start=start is not None,
        again=again or re.search(r"\bagain\b", text) is not None,
    )


def _works_now(state: State, agents: tuple[str, ...], duty: str, marks: set[str]) -> bool:
    """Whether `has to`, `is to` and `should` speak of a turn rather than of how to behave."""
    word = duty.split(" ", 1)[1] if " " in duty else duty
    fresh = not set(agents) <= state.ever
    ordered = bool(marks & {"then", "first", "beside", "after_that", "otherwise"})
    if re.search(
        r"(?:is|are) (?:[a-z]+ )?to|has to|have to|going to|asked to|told to|set to|needs? to|brought in|called to|invited|tasked|due to|will$",
        word,
    ):
        return fresh or ordered
    if re.search(r"in charge|responsible|takes care", word):
        return fresh and ordered
    return ordered and fresh


def _trait(state: State, phrase: Phrase, agents: tuple[str, ...]) -> Clause:
    state.subject = agents
    said = Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,))
    return Clause(phrase, agents, works=False, statement=said)


def _beside(agents: tuple[str, ...], text: str) -> bool:
    return len(agents) == 1 and _BESIDE.search(text) is not None


def _wanted(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    found = _WANTED.fullmatch(phrase.text)
    if found is None:
        return None
    agents = _named(state, found["who"])
    task = found["task"].strip(" ,:–")
    if not task or _BOTH_WORK.fullmatch(task):
        return None
    rest = phrase.part(phrase.text.rfind(task))
    clause = Clause(phrase, agents, task=state.raw(rest))
    first = task.split()[0]
    if not (third_person(first) or known_verb(first) or len(agents) > 1):
        return None
    _as_rule(state, clause, agents, phrase, task)
    return clause


def _cast(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    found = _CAST_BEHIND.fullmatch(phrase.text) or _CAST.fullmatch(phrase.text)
    if found is None:
        return None
    agents = _named(state, found["who"])
    if len(agents) < 1:
        return None
    if len(agents) > 1 and (
        _BOTH_WORK.search(phrase.text) or re.search(r"\bwork (?:on|at)\b", phrase.text)
    ):
        return Clause(phrase, agents, task=state.raw(phrase.part(0, found.start("who"))))
    state.subject = agents
    said = Cast(agents=agents, words=(phrase.words,))
    return Clause(phrase, agents, works=False, statement=said)


@rule(
    _CAST.pattern,
    _CAST_BEHIND.pattern,
    hint=AGENT,
)
def cast(state: State, match: Match) -> bool:
    """`There are three agents: a planner, a coder and a tester`."""
    clause = _cast(state, match.phrase, set())
    if clause is None:
        return False
    if clause.statement is not None:
        return state.say(clause.statement)
    parts = tuple(Part(agent=a, task=clause.task) for a in clause.agents)
    return state.step(Step(parts=parts, words=match.words))


_CALLED_ON = pattern(
    r"(?P<who>{A}) ?,? (?:you|please|your job is|be|make sure|always|never|do not|remember)(?: .+)"
)
_ALL_TRAIT = pattern(
    r"(?:{ALL}|they|you|you all|we|agents|nobody|no one) (?:should|must|shall|may not|can not|must not|ought to|has to|have to|needs to|need to|always|never|is|are|does|do|writes?|works?|keeps?|speaks?|uses?|answers?|stays?|cites?|may|can)(?: .+)"
)


def _vocative(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    found = _CALLED_ON.fullmatch(phrase.text)
    if found is None:
        return None
    state.addressed = _named(state, found["who"])
    return _trait(state, phrase, state.addressed)


def _about_all(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    if _ALL_TRAIT.fullmatch(phrase.text) is None or not re.match(
        r"(?:every agent|all agents|everyone|everybody|each agent|agents|all of (?:them|the agents)|the agents|nobody|no one|you all|they (?:all )?(?:should|must)|you (?:all )?(?:should|must|always|never))\b",
        phrase.text,
    ):
        return None
    if re.search(r"[@#$][0-9]", phrase.text):
        return None
    agents = state.addressed if phrase.text.startswith("you ") else ()
    said = Trait(agents=agents, text=state.raw(phrase), words=(phrase.words,))
    return Clause(phrase, agents, works=False, statement=said)


_WITH = pattern(
    r"(?:\b(?:with|using|via|through|by using|uses?|calls?|runs?|by means of|with the help of|employs?|has|draws on|by calling|with access to|from)|, using) (?:(?:the|its|his|her|our) )?(?P<tools>{T})"
)


def _tools(state: State, clause: Clause) -> None:
    """The tools that a clause of work gives: `… with send_email`."""
    if not clause.agents or clause.statement is not None:
        return
    for found in _WITH.finditer(clause.phrase.text):
        verb = found[0].split()[0]
        if "$" in found["tools"] and verb in {"calls", "call", "runs", "run", "from", "has"}:
            continue
        tools = state.tool_names(found["tools"])
        if any(isinstance(s, Allow) and set(tools) <= set(s.tools) for s in clause.behind):
            continue
        words = (clause.phrase.group(found, "tools").words,)
        state.tools = tools
        clause.behind.append(Allow(agents=clause.agents, tools=tools, words=words))


def _list(state: State, phrase: Phrase, marks: set[str]) -> Clause | None:
    """Agents and nothing else: an item of an order."""
    found = re.fullmatch(
        pattern(
            r"(?:both )?(?P<who>{A})(?: (?:in parallel|simultaneously|at the same time|side by side|together|at once|next|then|last|first|again|concurrently))*"
        ).pattern,
        phrase.text,
    )
    if found is None:
        return None
    agents = _named(state, found["who"])
    if state.described:
        return _trait(state, phrase, agents)
    if {*state.section.split()} & _PROSE and not marks:
        return Clause(
            phrase, agents, works=False, statement=Cast(agents=agents, words=(phrase.words,))
        )
    return Clause(phrase, agents, again=True)


_Reader = Callable[[State, Phrase, set[str]], Clause | None]
_READERS: tuple[_Reader, ...] = (
    _list,
    _vocative,
    _per,
    _waiting,
    _cast,
    _turn,
    _made,
    _passive,
    _subject,
    _wanted,
    _about_all,
)
