"""What the run and its agents do whatever the work is: errors, limits, models, switches."""

from __future__ import annotations

from typing import Literal

from crewlog.prompt.ast import Limit, OnError, Switch, UseModel
from crewlog.prompt.grammar.frames import Frame, Noun, frames, noun, tokens
from crewlog.prompt.grammar.phrase import Phrase, number
from crewlog.prompt.grammar.rules import (
    Whom,
    doer,
    reads_first,
    said,
    whom,
    words_of,
)
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import ASK, FAIL, GO_ON, STOP

Policy = Literal["ask", "fail", "continue"]

# -- errors ----------------------------------------------------------------------------------------

_OVER = frozenset(
    [
        "over",
        "down",
        "out",
        "up",
        "an",
        "error",
        "errors",
        "wrong",
        "trouble",
        "problem",
        "problems",
        "stuck",
        "into",
        "in",
        "with",
        "at",
        "on",
        "a",
        "exception",
        "again",
        "the",
        "its",
        "his",
        "her",
        "task",
        "work",
        "job",
        "unexpectedly",
    ]
)
_ABLE = frozenset(
    ["work", "answer", "respond", "finish", "manage", "succeed", "deliver", "do", "make", "cope"]
)


def failure(state: State, phrase: Phrase) -> Whom | None:
    """Whose failure a clause speaks of: `the coder fails`, `anything goes wrong`."""
    found = frames(phrase)
    if len(found) != 1 or (found[0].modal in {"may", "want"} and not found[0].negated):
        return None
    frame = found[0]
    words = {*frame.object.words}
    for inside in frame.args.values():
        words |= {*inside.text.split()}
    if not frame.takes("about", "with") or words - _OVER - {"it"} or frame.object.tools:
        return None
    fails = frame.verb in FAIL - {"get", "go", "run", "throw", "hit", "hang", "time"}
    fails = fails or (frame.verb in FAIL and bool(words & (_OVER - {"the", "a", "in", "on"})))
    fails = fails or (frame.verb == "have" and bool(words & {"error", "problem", "problems"}))
    fails = fails or (frame.verb == "be" and bool(words & {"down", "stuck", "trouble"}))
    if frame.negated:
        fails = frame.verb in _ABLE and words <= {"it"}
    if not fails:
        return None
    if frame.subject.text in {"anything", "something", "any", "anything else"}:
        return Whom()
    return doer(state, frame)


_GOING = frozenset(
    [
        "on",
        "going",
        "with",
        "the",
        "it",
        "run",
        "others",
        "rest",
        "without",
        "him",
        "her",
        "them",
        "anyway",
        "regardless",
        "out",
        "that",
        "crew",
        "work",
        "one",
        "everything",
        "just",
        "and",
        "whole",
        "to",
        "next",
        "step",
        "as",
        "usual",
        "nevertheless",
        "in",
        "aside",
        "him",
        "be",
        "let",
        "mind",
    ]
)
_ENDING = frozenset(
    [
        "everything",
        "the",
        "run",
        "crew",
        "whole",
        "thing",
        "lot",
        "process",
        "it",
        "all",
        "there",
        "at",
        "once",
        "immediately",
        "right",
        "altogether",
        "up",
        "off",
        "we",
        "you",
        "down",
        "job",
    ]
)


def _policy(frame: Frame) -> Policy | None:
    """What to do: go on, stop, or ask."""
    if frame.subject.agents or frame.object.tools or frame.modal in {"may", "want"}:
        return None
    words = {w for w in frame.object.text.split() if not w.startswith("@")}
    for name, inside in frame.args.items():
        if name not in {"if", "when"}:
            words |= {w for w in inside.text.split() if not w.startswith("@")} | {name}
    if frame.negated:
        return "continue" if frame.verb in {"stop", "mind", "worry", "wait"} else None
    asks = frame.verb in ASK and (
        frame.object.pronoun == "me" or "me" in words or "a human" in frame.phrase.text
    )
    if asks:
        return "ask" if words <= _ASKED else None
    if frame.verb in STOP - {"fail", "break"} | {"fail"} and words <= _ENDING:
        return "fail"
    return "continue" if frame.verb in GO_ON and words - {"about"} <= _GOING else None


_ASKED = frozenset(
    [
        "me",
        "us",
        "human",
        "a",
        "what",
        "to",
        "do",
        "about",
        "it",
        "first",
        "how",
        "go",
        "on",
        "for",
        "help",
        "with",
        "then",
        "now",
        "decide",
        "people",
    ]
)


@reads_first
def on_error(state: State, frame: Frame) -> bool:
    """`If the coder fails, continue without it`."""
    inside = frame.args.get("if") or frame.args.get("when")
    if inside is None or frame.most:
        return False
    who = _meant(state, frame, inside) or failure(state, inside)
    policy = _policy(frame)
    if who is None or policy is None or who.nobody or who.excepted or who.only:
        return False
    plain = noun(tokens(inside)).pronoun in {"it", "they"} and not who.agents
    if plain:
        return False
    return said(state, OnError(agents=who.agents, policy=policy, words=words_of(frame)))


def _meant(state: State, frame: Frame, inside: Phrase) -> Whom | None:
    """`Carry on without the scout if it fails`: whom `it` stands for is named in the same clause."""
    without = frame.args.get("without")
    said_of = frames(inside)
    if without is None or len(said_of) != 1 or said_of[0].subject.pronoun not in {"it", "they"}:
        return None
    agents = state.names(noun(tokens(without)).agents.text)
    before, state.subject = state.subject, agents
    found = failure(state, inside) if agents else None
    state.subject = before
    return found


_OPTIONAL = frozenset(["optional", "dispensable", "nice-to-have", "a"])
_VITAL = frozenset(["essential", "critical", "vital", "crucial", "necessary", "indispensable"])


@reads_first
def optional(state: State, frame: Frame) -> bool:
    """`The narrator is optional`, `the checker may fail`, `its failure is no reason to stop`."""
    words = {*frame.object.words}
    who = doer(state, frame)
    owner = frame.subject
    if (
        who is None
        and len(owner.words) == 3
        and owner.words[2] in {"failure", "failures", "failing"}
    ):
        return _no_reason(state, frame, owner)
    if who is None or not who.agents or who.only or frame.args or frame.most or frame.object.tools:
        return False
    fails = frame.verb in {"fail", "break", "crash"} and frame.modal == "may" and not words
    free = frame.verb == "be" and bool(words) and words <= _OPTIONAL and not frame.negated
    free = free or (frame.verb == "be" and bool(words) and words <= _VITAL and frame.negated)
    if not (fails and not frame.negated) and not free:
        return False
    state.subject = who.agents
    return said(state, OnError(agents=who.agents, policy="continue", words=words_of(frame)))


def _no_reason(state: State, frame: Frame, owner: Noun) -> bool:
    """`The coder's failure is no reason to stop`, `… stops the run`, `… does not matter`."""
    agents = state.names(owner.agents.text or owner.words[0])
    words = {*frame.object.text.split()} | {w for p in frame.args.values() for w in p.text.split()}
    reason = (
        frame.verb == "be"
        and "reason" in words
        and words
        <= _ENDING | {"reason", "no", "a", "to", "stop", "for", "stopping", "end", "abort"}
    )
    idle = frame.verb in {"matter", "stop", "end", "hurt", "halt", "abort"} and words <= _ENDING
    if not agents or not (reason or idle):
        return False
    against = frame.negated != (reason and "no" in words)
    policy: Policy = "continue" if against else "fail"
    if frame.verb in {"matter", "hurt"} and not against:
        return False
    return said(state, OnError(agents=agents, policy=policy, words=words_of(frame)))


# -- limits ----------------------------------------------------------------------------------------

_SIDE = (
    "at a time",
    "at once",
    "at the same time",
    "in parallel",
    "simultaneously",
    "concurrently",
    "side by side",
    "at any time",
    "at any one time",
    "at any moment",
)
_STEPS = frozenset(["steps", "step", "turns", "moves", "actions"])
_UPPER = frozenset(
    [
        "at",
        "most",
        "no",
        "not",
        "more",
        "than",
        "never",
        "max",
        "maximum",
        "up",
        "to",
        "of",
        "limited",
        "limit",
        "within",
    ]
)
_AROUND = frozenset(
    [
        "the",
        "a",
        "run",
        "crew",
        "whole",
        "thing",
        "in",
        "all",
        "total",
        "overall",
        "altogether",
        "should",
        "may",
        "must",
        "can",
        "will",
        "take",
        "run",
        "have",
        "make",
        "use",
        "be",
        "has",
        "takes",
        "is",
        "are",
        "gets",
        "uses",
        "with",
        "and",
        "but",
        "please",
        "it",
        "we",
        "everything",
        "for",
        "per",
        "told",
        "tops",
        "there",
        "limit",
        "them",
        "agents",
        "agent",
        "phases",
        "tasks",
        "people",
        "workers",
        "jobs",
        "these",
        "or",
        "work",
        "working",
        "running",
        "going",
        "active",
        "do",
        "let",
        "allow",
        "so",
        ",",
        "steps",
        "cap",
        "stop",
        "after",
        "to",
        "team",
        "process",
        "workflow",
        "keep",
        "things",
        "makes",
        "runs",
        "any",
        "one",
        "time",
        "only",
        "plenty",
        "enough",
        "as",
        "than",
        "doing",
        "go",
        "our",
        "yourselves",
        "yourself",
        "cannot",
        "not",
        "never",
        "one's",
        "then",
        "parallel",
        "wide",
    ]
)


def limit(state: State, phrase: Phrase) -> bool:
    """`At most 20 steps`, `no more than 3 at a time`."""
    text = phrase.text
    if len(phrase.units) > 30 or any(sign in text for sign in "#$~@"):
        return False
    if _is_made(state, phrase):
        return False
    side = next((s for s in sorted(_SIDE, key=len, reverse=True) if f" {s} " in f" {text} "), "")
    words = text.replace(side, " ", 1).split() if side else text.split()
    named = [w for w in words if number(w) is not None and w not in {"one", "once"}]
    stepped = _STEPS & {*words}
    if (
        len(named) != 1
        or bool(side) == bool(stepped)
        or not _is_upper(words, text, bare=bool(side))
    ):
        return False
    rest = {w for w in words if w != named[0] and not w.startswith("@")}
    nouns = rest - _AROUND - _UPPER - _STEPS
    if len(nouns) > 1 or (nouns and not next(iter(nouns)).endswith("s")):
        return False
    most = number(named[0])
    if most is None or most < 1 or most != int(most):
        return False
    what: Literal["steps", "parallel"] = "parallel" if side else "steps"
    return said(state, Limit(what=what, most=int(most), words=(phrase.words,)))


def _is_made(state: State, phrase: Phrase) -> bool:
    """Whether it is what a clause before it makes: `the planner makes | no more than five steps`."""
    before = state.text[: phrase.words.start].rstrip()
    step = state.last("step", sentence=True)
    return step is not None and before[-1:].isalpha()


def _is_upper(words: list[str], text: str, *, bare: bool) -> bool:
    if "least" in words or "fewer" in words or " or more" in text:
        return False
    upper = ("most", "max", "maximum", "limit", "limited", "within", "tops", "cap", "than", "up to")
    said_so = any(u in words or u in text for u in upper) or text.startswith("stop after")
    return said_so or (bare and len(words) == 1)


# -- models ----------------------------------------------------------------------------------------

_RUNS_ON = frozenset(
    ["use", "run", "work", "be", "get", "have", "need", "take", "power", "drive", "want"]
)
_MODELISH = frozenset(["the", "model", "default", "instead"])


@reads_first
def model(state: State, frame: Frame) -> bool:
    """`The writer uses the model gpt-5`, `use it for the writer`."""
    parts = [*frame.subject.tokens, *frame.object.tokens]
    for inside in frame.args.values():
        parts += tokens(inside)
    every = noun(parts)
    named = [u.text for u in every.models.units]
    if len(named) != 1 or frame.modal == "want" or frame.negated or frame.most:
        return False
    if frame.modal == "may" and frame.verb not in {"use", "run"}:
        return False
    if not frame.takes("about", "with", "for", "to", "by") or every.tools or every.excepted:
        return False
    if frame.verb not in _RUNS_ON | {"", "choose", "pick", "put", "go", "make"}:
        return False
    who = _whose_model(state, frame, every)
    if who is None or who.nobody or who.only or who.others:
        return False
    name = state.models[int(named[0][1:])]
    return said(state, UseModel(agents=who.agents, model=name, words=words_of(frame)))


def _whose_model(state: State, frame: Frame, every: Noun) -> Whom | None:
    words = {*every.words} - _MODELISH - {"'s", "crew", "one", "of"}
    if every.agents or every.quantifier:
        parts = [t for t in every.tokens if t.kind not in {"model", "word", "prep", "sign", "who"}]
        return whom(state, noun(parts)) if not words else None
    owners = [w for w in every.words if w.startswith("@")]
    if owners and not words - {*owners}:
        return Whom(state.names(" ".join(owners)))
    if words:
        return None
    if every.pronoun in {"it", "they"}:
        return Whom(state.subject) if state.subject else None
    bare = not frame.subject and (frame.verbless or frame.verb == "be")
    if bare and state.subject and "model" not in frame.subject.text:
        return Whom(state.subject)
    return Whom() if frame.command or "model" in every.text else None


@reads_first
def other_model(state: State, frame: Frame) -> bool:
    """A model that the registry does not offer: said so when the definition is made."""
    parts = list(frame.object.tokens)
    for name in ("about", "with"):
        if name in frame.args:
            parts += tokens(frame.args[name])
    texts = [t.text for t in parts if t.text not in {"the", "a"}]
    if len(texts) != 2 or "model" not in texts or frame.negated or frame.modal in {"may", "want"}:
        return False
    if frame.verb not in _RUNS_ON | {"put"} or not frame.takes("about", "with", "for"):
        return False
    name = next((t for t in texts if t != "model"), "")
    if name in _COMMON or not name or name[0] in "@#$~":
        return False
    inside = frame.args.get("for")
    who = whom(state, noun(tokens(inside))) if inside is not None else doer(state, frame)
    if who is None and frame.subject:
        return False
    agents = who.agents if who is not None else ()
    return said(state, UseModel(agents=agents, model=name, words=words_of(frame)))


_COMMON = frozenset(
    [
        "same",
        "default",
        "best",
        "small",
        "large",
        "big",
        "fast",
        "cheap",
        "other",
        "this",
        "that",
        "usual",
        "own",
        "new",
    ]
)

# -- switches --------------------------------------------------------------------------------------

_OFF = frozenset(
    [
        "off",
        "inactive",
        "out",
        "unavailable",
        "absent",
        "on",
        "leave",
        "holiday",
        "duty",
        "disabled",
        "idle",
        "asleep",
        "benched",
        "not",
        "in",
        "use",
        "needed",
        "active",
        "paused",
        "parked",
        "a",
        "break",
    ]
)
_OFFS = frozenset(
    [
        "switch",
        "turn",
        "disable",
        "deactivate",
        "pause",
        "suspend",
        "bench",
        "park",
        "exclude",
        "leave",
        "shut",
        "retire",
    ]
)


@reads_first
def switch(state: State, frame: Frame) -> bool:
    """`The tester is switched off for now`, `leave the tester out`."""
    if frame.verb == "do" and {*frame.args} == {"without"} and frame.subject.pronoun == "i":
        whose = whom(state, noun(tokens(frame.args["without"])))
        if whose is None or not whose.agents or frame.negated or frame.object:
            return False
        return said(state, Switch(agents=whose.agents, words=words_of(frame)))
    if frame.modal in {"may", "want"} or not frame.takes("about") or frame.most:
        return False
    inside = frame.args.get("about")
    behind = {*inside.text.split()} if inside is not None else set[str]()
    thing = frame.object if frame.command or not frame.subject else frame.subject
    rest = {*frame.object.words} - set(thing.words) if thing is not frame.object else set[str]()
    words = {*frame.object.words, *behind} | rest
    if not _is_off(frame, words):
        return False
    plain = noun([t for t in thing.tokens if t.kind == "agent" or t.kind in {"and", "pronoun"}])
    who = whom(state, plain) if plain else None
    if who is None or not who.agents:
        return False
    state.subject = who.agents
    return said(state, Switch(agents=who.agents, words=words_of(frame)))


def _is_off(frame: Frame, words: set[str]) -> bool:
    if frame.command or frame.passive or frame.verb in {"switch", "turn"}:
        off = frame.verb in _OFFS and words <= {"off", "out"} and not frame.negated
        return off and (frame.verb not in {"switch", "turn", "leave", "shut"} or bool(words))
    if frame.verb == "be":
        in_use = words in ({"active"}, {"in", "use"}, {"needed"}, {"on"}, {"on", "duty"})
        if frame.negated:
            return in_use
        return bool(words) and words <= _OFF and not in_use
    if frame.verb == "sit":
        return "out" in words and words <= {"out", "this", "one", "it"}
    if frame.verb == "take":
        return words == {"part"} and (frame.object.quantifier == "none") != frame.negated
    idle = frame.verb in {"work", "run", "participate", "join"} and bool(frame.adverbs)
    return idle and frame.negated and not words
