"""Where people come in: questions, approvals of tool calls, gates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crewlog.prompt.ast import Allow, Ask, AskTool, Cast, Gate
from crewlog.prompt.grammar import conduct, inside, sight
from crewlog.prompt.grammar.frames import Frame, Noun, Token, frames, noun, tokens
from crewlog.prompt.grammar.mentions import stem
from crewlog.prompt.grammar.phrase import Phrase, number
from crewlog.prompt.grammar.rules import (
    RULES,
    SINGLE,
    Whom,
    apply,
    doer,
    reads_alone,
    reads_first,
    refuse,
    said,
    spoken_of,
    things,
    whom,
    words_of,
)
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import (
    APPROVAL,
    APPROVE,
    ASK,
    NEED,
    REJECT,
    RISKY,
    UNSURE,
    USE,
    lemma,
)

# -- what people say and do ------------------------------------------------------------------------

_MINE = frozenset(
    ["my", "our", "human", "explicit", "manual", "me", "us", "prior", "somebody's", "someone's"]
)
_AROUND = frozenset(
    [
        "of",
        "a",
        "an",
        "the",
        "first",
        "prior",
        "explicit",
        "written",
        "clear",
        "express",
        "for",
        "it",
        "on",
        "that",
        "to",
        "do",
        "so",
        "getting",
        "having",
        "asking",
        "with",
        "this",
        "'s",
        "obtaining",
        "up",
        "sign",
        "off",
        "i",
        "we",
        "given",
        "said",
        "yes",
        "my",
        "our",
        "human",
        "manual",
        "always",
        "me",
        "green",
        "light",
        "thumbs",
        "say",
        "before",
    ]
)


def consent(parts: Sequence[Token]) -> bool:
    """Whether words speak of people's agreement: `my approval`, `asking me`, `I have approved`."""
    texts = [t.text for t in parts if t.kind != "comma"]
    flat = " ".join(texts).split()
    if not flat or any(t.kind in _NO_CONSENT for t in parts):
        return False
    people = [t for t in parts if t.kind == "me"]
    loose = [w for t in parts if t.kind != "me" for w in t.text.split()]
    given = [w for w in loose if w in APPROVAL]
    if given and (people or _MINE & {*flat}) and {*loose} - {*given} <= _AROUND:
        return True
    if lemma(flat[0]) in ASK and flat[0].endswith("ing"):
        return {*loose[1:]} <= {"with", "first", "for", "permission", "in", "to"}
    if people and len(people) == len(parts) - 1 and flat[-1] == "first":
        return False
    return parts[0].kind == "i" and _agrees(parts)


_NO_CONSENT = frozenset(["tool", "act", "agent", "model", "not", "no", "none"])


def _agrees(parts: Sequence[Token]) -> bool:
    """`I have approved it`, `I say so`, `we agree`."""
    words = [t.text for t in parts[1:] if t.kind not in {"modal", "time", "comma"}]
    verbs = [w for w in words if lemma(w) in APPROVE and w not in {"yes", "ok"}]
    strong = verbs and lemma(verbs[0]) == "have" and len(verbs) > 1
    plain = verbs and lemma(verbs[0]) != "have"
    return bool(strong or plain) and len(words) <= 9


@dataclass(frozen=True, slots=True)
class _Asked:
    """A frame that says that people are asked."""

    args: dict[str, Phrase]
    """What else it says: before what, when, about what."""
    by: Noun
    """Who asks; empty for a command."""
    thing: Noun
    """What is asked or approved."""


_HELP = frozenset(
    [
        "first",
        "for",
        "help",
        "advice",
        "opinion",
        "decision",
        "what",
        "to",
        "do",
        "instead",
        "about",
        "it",
        "me",
        "us",
        "of",
        "rather",
        "than",
        "guess",
        "guessing",
        "in",
        "then",
        "yes",
        "again",
        "input",
        "making",
        "stuff",
        "up",
        "a",
        "the",
        "decide",
        "how",
        "go",
        "on",
        "know",
        "so",
        "ok",
        "okay",
    ]
)


def asks(frame: Frame) -> _Asked | None:
    """Whether a frame says that people are asked, or that they approve; none if it does not."""
    if frame.negated or (
        frame.modal == "want" and frame.subject.pronoun != "i" and not frame.passive
    ):
        return None
    args = dict(frame.args)
    thing = frame.object
    if frame.quantifier == "none" or thing.quantifier == "none":
        return None
    if frame.verbless and "to" in args and args["to"].text in _BE_ASKED:
        return _Asked({k: v for k, v in args.items() if k != "to"}, Noun(), Noun())
    if (
        frame.passive
        and (thing.pronoun == "i" or thing.text == "to")
        and frame.verb in ASK | {"consult", "ask"}
    ):
        return _Asked(args, Noun(), Noun())
    if frame.subject.pronoun == "i":
        return _approved_by_me(frame, args)
    if frame.verb in ASK | NEED and frame.verb != "leave" and consent(thing.tokens):
        return _Asked(args, frame.subject, Noun())
    if frame.verb in _SHOWS and thing.tokens and thing.tokens[0].kind == "me":
        shown = noun(thing.tokens[1:])
        return _Asked(args, frame.subject, shown) if shown and _definite(shown) else None
    if frame.subject.pronoun == "me" and frame.verb == "see" and thing and _definite(thing):
        return _Asked(args, Noun(), thing)  # `show it to me`
    return _asks_somebody(frame, args) if frame.verb in ASK else None


_SHOWS = frozenset(["show", "present"])


def _definite(thing: Noun) -> bool:
    """`The final issue`, `it`: what there is, and not what somebody would like there to be."""
    first = thing.tokens[0]
    return first.kind == "pronoun" or first.text in {"the", "its", "their", "your", "every"}


def _asks_somebody(frame: Frame, args: dict[str, Phrase]) -> _Asked | None:
    """`Ask me`, `check with me`, `wait for my approval`."""
    thing = frame.object
    for name in ("with", "to", "for", "by", "about"):
        inside_ = args.get(name)
        if inside_ is None:
            continue
        parts = tokens(inside_)
        if (parts and parts[0].kind == "me") or consent(parts):
            return _asked_by(frame, args, name, parts, thing)
    if thing.tokens and thing.tokens[0].kind == "me":
        for name in ("for", "to", "about", "with"):
            if name in args and {*args[name].text.split()} <= _HELP | APPROVAL | {"my", "a", "an"}:
                del args[name]
        rest = thing.tokens[1:]
        return _Asked(args, frame.subject, noun([t for t in rest if t.text not in _HELP]))
    return None


_BE_ASKED = frozenset(
    [
        "be asked",
        "be consulted",
        "approve it",
        "approve",
        "be told",
        "confirm it",
        "see it",
        "say yes",
    ]
)
"""What is left of `I want to be asked`."""


def _asked_by(
    frame: Frame, args: dict[str, Phrase], name: str, parts: Sequence[Token], thing: Noun
) -> _Asked | None:
    """`Check with me`, `wait for my approval`."""
    del args[name]
    rest = [t for t in parts[1:] if t.text not in _HELP] if not consent(parts) else []
    if name == "for" and not consent(parts):
        return None
    if name == "for" and thing.tokens and thing.tokens[0].kind == "me":
        thing = Noun()
    if name == "about" and thing.pronoun != "it" and frame.verb not in {"call", "run"}:
        return None
    if frame.verb in {"run", "clear", "bring", "refer", "hand", "leave"} and thing.pronoun == "it":
        thing = Noun()
    return _Asked(args, frame.subject, noun([*thing.tokens, *rest]))


def _approved_by_me(frame: Frame, args: dict[str, Phrase]) -> _Asked | None:
    """`I approve the plan`, `we have to give our consent`."""
    given = frame.verb in APPROVE - {"have", "give", "say", "allow"} or (
        frame.verb in {"have", "give", "say", "need", "want"} and _final(frame.object, args)
    )
    return _Asked(args, Noun(), frame.object) if given else None


def _final(thing: Noun, args: dict[str, Phrase]) -> bool:
    words = {*thing.words} | {w for p in args.values() for w in p.text.split()}
    return bool(words & (APPROVAL | {"look", "say", "final"}))


# -- what waits for an answer ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Target:
    """What may not happen before people have been asked."""

    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    risky: bool = False
    before: str = ""
    """An agent, before whose work."""
    task: Phrase | None = None


_ACTIONS = frozenset(
    [
        "tool",
        "tools",
        "action",
        "actions",
        "call",
        "calls",
        "operation",
        "operations",
        "thing",
        "things",
        "stuff",
        "one",
        "ones",
    ]
)
_PLAIN = frozenset(
    [
        "any",
        "a",
        "an",
        "the",
        "each",
        "every",
        "all",
        "use",
        "used",
        "is",
        "are",
        "run",
        "called",
        "of",
        "high",
        "risk",
        "anything",
        "that",
        "with",
        "being",
        "tool",
        "before",
        "gets",
        "get",
        "using",
        "goes",
        "ahead",
    ]
)


def _risky(parts: Sequence[Token]) -> bool:
    """`any risky tool is used`, `anything dangerous`, `anyone uses a tool of high risk`."""
    text = " ".join(t.text for t in parts)
    words = {w for t in parts if t.kind not in {"all", "pronoun", "no"} for w in t.text.split()}
    risky = bool(words & RISKY) or "high risk" in text
    named = bool(words & _ACTIONS) or any(t.value == "things" for t in parts)
    if any(t.kind in {"agent", "tool", "act", "not", "model"} for t in parts):
        return False
    loose = words - RISKY - _ACTIONS - _PLAIN
    return risky and named and all(lemma(w) in USE | {"be"} for w in loose)


def target(state: State, phrase: Phrase) -> _Target | None:
    """What a clause behind `before` speaks of."""
    parts = [t for t in tokens(phrase) if t.text not in {"first", "it may"}]
    if _risky(parts):
        return _Target(risky=True)
    if deeds := _deeds(state, parts):
        return _Target(tools=deeds)
    found = frames(phrase)
    if len(found) != 1:
        return None
    frame = found[0]
    if frame.negated or frame.most or frame.subject.others:
        return None
    tools = _used(state, frame)
    if tools:
        who = whom(state, frame.subject) if frame.subject else Whom()
        idle = frame.subject.text in {"anything", "they", "it", "something", "he", "she"}
        if who is None and not idle:
            return None
        agents = who.agents if who is not None and not who.excepted else ()
        if who is not None and (who.nobody or who.excepted or who.only):
            return None
        return _Target(tools=tools, agents=agents)
    return _work(state, frame, phrase)


def _used(state: State, frame: Frame) -> tuple[str, ...]:
    """The tools that a clause says are used: `it uses deploy`, `each use of it`, `deploy`."""
    thing = frame.object or frame.subject
    if frame.args and "with" in frame.args and not thing.tools:
        return things(state, noun(tokens(frame.args["with"])))
    if not frame.takes("for"):
        return ()
    if frame.verb and frame.verb not in USE | {"use", "do"}:
        return ()
    if frame.verb in {"do", ""} and thing.pronoun:
        return ()
    return things(state, thing)


def _work(state: State, frame: Frame, phrase: Phrase) -> _Target | None:
    """`the publisher publishes`."""
    pronoun = frame.subject.pronoun
    if (not frame.verb and not frame.agents) or any(t.kind == "comma" for t in tokens(phrase)):
        return None
    who = whom(state, frame.subject) if frame.subject else None
    if who is None or len(who.agents) != 1 or who.only or pronoun == "they":
        return None
    words = frame.subject.phrase.units
    rest = [u for u in phrase.units if u.start >= words[-1].end]
    return _Target(before=who.agents[0], task=Phrase(rest) if rest else None)


def _ask_for(state: State, frame: Frame, asked: _Asked, at: _Target) -> bool:
    """Says what waits for people."""
    words = words_of(frame)
    if at.risky:
        return said(state, AskTool(words=words))
    if at.tools:
        agents = at.agents
        if not agents and asked.by:
            who = whom(state, asked.by)
            agents = who.agents if who is not None and not who.nobody else ()
        state.tools = at.tools
        if agents:
            state.subject = agents
        return said(state, AskTool(tools=at.tools, agents=agents, words=words))
    if at.task is not None and (task := state.raw(at.task)):
        state.tasks.setdefault(at.before, task)
    return said(state, Ask(question=state.raw(frame.phrase), before=at.before, words=words))


@reads_first
def ask_before(state: State, frame: Frame) -> bool:
    """`Ask me before the publisher publishes`, `before anyone uses deploy`."""
    asked = asks(frame)
    if asked is None or len(asked.args) != 1 or not _idle(asked.thing, frame):
        return False
    name, inside_ = next(iter(asked.args.items()))
    if name not in {"before", "when", "if", "for", "to"}:
        return False
    if _states_doubt(state, inside_) is not None or consent(tokens(inside_)):
        return False
    at = target(state, inside_)
    by = whom(state, asked.by) if asked.by else None
    if at is None and name in {"before", "to"} and by is not None and len(by.agents) == 1:
        at = _gerund(state, inside_, by)
    if at is None or (name in {"if", "when"} and not _about_to(inside_, at)):
        return False
    if at.before and name != "before":
        return False
    return _ask_for(state, frame, asked, at)


def _idle(thing: Noun, frame: Frame) -> bool:
    """Whether what is asked or approved is left open, or text: `I approve the plan before …`."""
    return not thing.tools and not thing.agents and not thing.models


def _about_to(phrase: Phrase, at: _Target) -> bool:
    """`when the fixer wants to use it` is before it does."""
    return bool(at.tools or at.risky) and not re.search(r"\b(?:has|have) (?!to )", phrase.text)


def _gerund(state: State, phrase: Phrase, by: Whom) -> _Target | None:
    """`The mailer asks me before sending it`, `before it sends it`."""
    parts = tokens(phrase)
    if any(t.kind in {"agent", "tool", "act", "sub"} for t in parts) or not parts:
        return None
    first = parts[0]
    starts = first.text.endswith("ing") or first.kind in {"pronoun", "word"}
    return _Target(before=by.agents[0]) if starts else None


@reads_first
def needs_approval(state: State, frame: Frame) -> bool:
    """`deploy needs my approval`, `the memo needs my sign-off before the messenger sends it`."""
    asked = _needed(frame)
    if asked is None:
        return False
    named = things(state, frame.subject) if frame.subject.tools or frame.subject.pronoun else ()
    named = named or _deeds(state, frame.subject.tokens)
    if _risky(frame.subject.tokens) and not asked:
        return said(state, AskTool(words=words_of(frame)))
    if named and not (frame.subject.pronoun and not state.tools):
        if not _each_time(asked):
            return False
        if frame.subject.pronoun and state.last("allow", "ask_tool", "deny") is None:
            return False
        state.tools = named
        return said(state, AskTool(tools=named, words=words_of(frame)))
    if len(asked) > 1:
        return False
    who = doer(state, frame)
    if asked:
        at = target(state, next(iter(asked.values())))
        if at is None and who is not None and len(who.agents) == 1:
            at = _gerund(state, next(iter(asked.values())), who)
        if at is None or (who is None and (frame.subject.tools or frame.subject.quantifier)):
            return False
        return _ask_for(state, frame, _Asked({}, frame.subject, Noun()), at)
    if who is None or len(who.agents) != 1 or who.only or frame.subject.pronoun:
        return False
    state.subject = who.agents
    question = state.raw(frame.phrase)
    return said(state, Ask(question=question, before=who.agents[0], words=words_of(frame)))


@reads_first
def unknown_needs(state: State, frame: Frame) -> bool:
    """`rocket_launcher needs my approval`: a name that looks like a tool's is no agent's."""
    if _needed(frame) is None or len(frame.agents.units) != 1:
        return False
    place = frame.agents.units[0]
    written = state.text[place.start : place.end]
    agent = state.names(place.text)[0]
    cast = any(isinstance(s, Cast) and agent in s.agents for s in state.statements)
    if "_" not in written or cast or agent in state.ever or agent in state.registry.agents:
        return False
    token = Token("word", written, (place,))
    return refuse(state, [token], ())


def _needed(frame: Frame) -> dict[str, Phrase] | None:
    """What a frame that says that something needs approval says besides; none if it does not."""
    args = dict(frame.args)
    if frame.quantifier == "none" or frame.object.quantifier == "none":
        return None
    if frame.negated or (frame.modal in {"may", "want"} and "only" not in frame.adverbs):
        return None
    if frame.verb in NEED | {"must", "go", "run", "be"} and consent(frame.object.tokens):
        return args
    for name in ("with", "for", "after", "about", "to", "until"):
        if name in args and consent(tokens(args[name])):
            waits = frame.verb in {"wait", "hold"}
            only = (
                waits
                if name == "until"
                else "only" in frame.adverbs or frame.verb in {"wait", "ask", "call", "hold"}
            )
            if name == "to":
                only = frame.verb in {"be", "subject"} and "subject" in frame.object.text
            del args[name]
            quiet = not frame.object or frame.object.text in {"subject", "only", "off"}
            return args if only and quiet and frame.verb != "ask" else None
    by = noun(tokens(args["by"])) if "by" in args else None
    if (
        frame.passive
        and frame.verb in APPROVE - {"see", "have", "give"}
        and (by is None or by.pronoun == "me")
    ):
        return {k: v for k, v in args.items() if k != "by"} if frame.modal else None
    return None


def _each_time(args: dict[str, Phrase]) -> bool:
    """`before it is used`, `for each call`: whenever a tool is called."""
    idle = {
        "it",
        "is",
        "are",
        "used",
        "they",
        "each",
        "every",
        "use",
        "call",
        "being",
        "run",
        "called",
    }
    return all(
        {*p.text.split()} <= idle | {"time", "single", "anyone", "uses", "anybody"}
        for p in args.values()
    )


@reads_first
def approves_tool(state: State, frame: Frame) -> bool:
    """`I approve every use of deploy`, `deploy must be approved by me`."""
    by_me = frame.subject.pronoun == "i" or (frame.passive and not frame.subject)
    by_me = by_me or frame.subject.pronoun == "me"
    if not by_me or frame.negated or frame.verb not in APPROVE - {"have", "see", "give", "say"}:
        return False
    if frame.modal == "may" or (frame.passive and not frame.modal and not frame.subject):
        return False
    if _risky(frame.object.tokens) and not frame.args:
        return said(state, AskTool(words=words_of(frame)))
    if "about" in frame.args and {*frame.object.text.split()} <= {"off", "it"}:
        inside_ = {k: v for k, v in frame.args.items() if k != "about"}
        behind = [t for t in tokens(frame.args["about"]) if t.text != "off"]
        frame = replace(frame, object=noun(behind), args=inside_)
    named = things(state, _without(frame.object, {"every", "each", "use", "call", "uses", "calls"}))
    named = (named if frame.object.tools else ()) or _deeds(state, frame.object.tokens)
    if not named or not _each_time(frame.args):
        return False
    state.tools = named
    return said(state, AskTool(tools=named, words=words_of(frame)))


_EVERY = frozenset(["every", "each", "any", "all", "single", "individual", "the", "a", "an", "of"])


def _deeds(state: State, parts: Sequence[Token]) -> tuple[str, ...]:
    """The tool whose deed is spoken of, every time: `every restart`, where it restarts services.

    A question is asked once; what is done again and again is approved where it is done.
    """
    texts = [t.text for t in parts]
    kinds = {t.kind for t in parts if t.text != "each"}
    if not texts or kinds - {"word", "prep", "all"}:
        return ()
    every = texts[0] in {"every", "each", "any"}
    deed = [stem(t) for t in texts if t not in _EVERY]
    if not deed or not (every or (texts[0] == "all" and texts[-1].endswith("s"))):
        return ()
    found = {
        number
        for words, number in state.roster.phrases.items()
        if deed[0] == words[0] and {*deed} <= {*words}
    }
    found |= {n for turned, n in state.roster.turned.items() if deed == [*turned]}
    return (state.roster.tools[found.pop()],) if len(found) == 1 else ()


def _without(named: Noun, words: set[str]) -> Noun:
    return noun([t for t in named.tokens if t.text not in words])


@reads_first
def only_with_approval(state: State, frame: Frame) -> bool:
    """`Nobody may use deploy without asking me`, `may use it only with my approval`."""
    found = [n for n in ("without", "unless", "until", "with", "after", "when", "if", "before")
             if n in frame.args and consent(tokens(frame.args[n]))]  # fmt: skip
    if len(found) != 1 or frame.modal == "want":
        return False
    name = found[0]
    others = [inside for n, inside in frame.args.items() if n != name]
    if others and (frame.object.tools or frame.verbless or not _said_of_work(frame, name)):
        return False
    denied = frame.negated or frame.quantifier == "none" or frame.object.quantifier == "none"
    twice = frame.negated and frame.quantifier == "none"
    if twice or (name in {"without", "unless", "until", "before"}) != denied:
        return False
    bound = "only" in frame.adverbs or frame.only
    if not denied and not bound and (name == "with" or frame.verbless):
        return False
    tools = things(state, frame.object) or (things(state, frame.subject) if frame.verbless else ())
    if tools and (frame.object.tools or frame.subject.tools or frame.object.pronoun):
        return _use_with_approval(state, frame, tools, denied=denied)
    if frame.object.tools:
        return False
    return _work_with_approval(state, frame, denied=denied)


def _said_of_work(frame: Frame, name: str) -> bool:
    """Whether what else a clause says only says where and how: `posts it to the blog`."""
    others = {n: inside for n, inside in frame.args.items() if n != name}
    plain = {*others} <= {"to", "about", "for", "from", "by"}
    return plain and not any(sign in p.text for p in others.values() for sign in "@#$~")


def _use_with_approval(state: State, frame: Frame, tools: tuple[str, ...], *, denied: bool) -> bool:
    if frame.verb and frame.verb not in USE:
        return False
    who = doer(state, frame) or (Whom() if not frame.subject or frame.subject.tools else None)
    if who is None or who.others or (who.only and denied) or (frame.only and denied):
        return False
    state.tools = tools
    if who.agents:
        state.subject = who.agents
    words = words_of(frame)
    if who.excepted:
        return False
    if not denied and who.agents and frame.verb:
        said(state, Allow(agents=who.agents, tools=tools, only=who.only, words=words))
    return said(state, AskTool(tools=tools, agents=who.agents, words=words))


def _work_with_approval(state: State, frame: Frame, *, denied: bool) -> bool:
    """`The mailer only starts after I have approved`, `… does not send it without my approval`."""
    who = doer(state, frame)
    if frame.verbless and _risky(frame.subject.tokens):
        return denied and said(state, AskTool(words=words_of(frame)))
    if frame.verbless and (who is None or frame.elided):
        return _that(state, frame)
    if (
        frame.command
        and denied
        and frame.object.agents
        and frame.verb in {"start", "run", "begin", "launch"}
    ):
        who = whom(state, frame.object)
    if who is None or len(who.agents) != 1 or who.only or (frame.verb == "be" and denied):
        return False
    state.subject = who.agents
    if task := _task(frame):
        state.tasks.setdefault(who.agents[0], state.raw(task))
    question = state.raw(frame.phrase)
    return said(state, Ask(question=question, before=who.agents[0], words=words_of(frame)))


def _task(frame: Frame) -> Phrase:
    """`Once I agree, the mailer | sends it`: what stands behind the agent, save the condition."""
    if frame.negated or frame.command or frame.verb in {"start", "begin", "run", "be"}:
        return Phrase(())
    fronted = frame.phrase.units[0].text[0] != "@"
    named = [i for i, unit in enumerate(frame.phrase.units) if unit.text[0] == "@"]
    return Phrase(frame.phrase.units[named[-1] + 1 :] if fronted and named else ())


def _that(state: State, frame: Frame) -> bool:
    """`… but not without asking me`: said of the tools, or else of the agent, just spoken of."""
    if (frame.subject and not frame.elided) or frame.object:
        return False
    words = words_of(frame)
    if _rights_spoken_of(state) and state.tools:
        made = AskTool(tools=state.tools, agents=state.subject, words=words)
        return said(state, made)
    if not state.subject:
        return False
    return said(state, Ask(question=state.raw(frame.phrase), before=state.subject[-1], words=words))


def _rights_spoken_of(state: State) -> bool:
    """Whether a right was said just before, and not only a tool that a step's work needs."""
    right, step = state.last("allow", "ask_tool", "deny"), state.last("step", sentence=True)
    if right is None or step is None:
        return right is not None
    worked, given = state.statements[step].words[0], state.statements[right].words[0]
    return not worked.start <= given.start < worked.end


@reads_first
def asks_first(state: State, frame: Frame) -> bool:
    """`… but asks me first`, `it has to ask me before it does`."""
    asked = asks(frame)
    told = frame.command and state.last("step", sentence=True) is not None
    if asked is None or not (frame.elided or told or frame.subject.pronoun in {"it", "they"}):
        return False
    words = {*frame.phrase.text.split()}
    before = asked.args.get("before")
    first = bool({"first", "beforehand"} & words) and not asked.args
    does = before is not None and {*before.text.split()} <= _DOES and len(asked.args) == 1
    if not (first or does) or asked.thing.tools or asked.thing.agents:
        return False
    agents = spoken_of(state, "it") or state.subject
    if state.last("allow", "ask_tool", "deny") is not None and state.tools:
        made = AskTool(tools=state.tools, agents=agents, words=words_of(frame))
        return said(state, made)
    if len(agents) != 1:
        return False
    question = state.raw(frame.phrase)
    return said(state, Ask(question=question, before=agents[0], words=words_of(frame)))


_DOES = frozenset(
    [
        "it",
        "he",
        "she",
        "they",
        "does",
        "do",
        "so",
        "that",
        "uses",
        "use",
        "it",
        "using",
        "doing",
        "each",
        "every",
        "call",
        "time",
        "may",
        "this",
        "them",
    ]
)

# -- gates -----------------------------------------------------------------------------------------

_DOUBTS = UNSURE | {"minds", "know"}
_AROUND_DOUBT = frozenset(
    [
        "in",
        "not",
        "is",
        "are",
        "be",
        "it",
        "he",
        "she",
        "they",
        "there",
        "feels",
        "gets",
        "feel",
        "get",
        "has",
        "have",
        "any",
        "ever",
        "really",
        "quite",
        "very",
        "about",
        "what",
        "to",
        "do",
        "how",
        "which",
        "whether",
        "the",
        "two",
        "itself",
        "becomes",
        "if",
        "when",
        "or",
        "still",
        "at",
        "all",
        "a",
        "bit",
        "does",
        "of",
        "answer",
        "best",
        "totally",
        "left",
        "was",
        "were",
    ]
)


@dataclass(frozen=True, slots=True)
class _Doubt:
    agents: tuple[str, ...] = ()
    """Empty: whoever asks."""
    every: bool = False
    below: float | None = None


def _states_doubt(state: State, phrase: Phrase) -> _Doubt | None:
    """`unsure`, `the checker is in doubt`, `its confidence is below 0.7`."""
    parts = tokens(phrase)
    words = [w for t in parts for w in t.text.split()]
    if any(t.kind in {"tool", "act", "model", "sign"} for t in parts):
        return None
    below = _below(words, parts)
    who = _who_doubts(state, parts)
    if below is not None and ({"confidence", "confident", "sure", "certain"} & {*words}):
        return replace(who, below=below)
    if "confidence" in words:
        return None
    doubts = [w for w in words if w in _DOUBTS]
    if not doubts:
        return None
    negated = any(t.kind == "not" for t in parts)
    positive = {*doubts} <= {"sure", "certain", "confident", "clear", "know"}
    if positive != negated:
        return None
    at = words.index(doubts[-1])
    loose = {w for w in words[: at + 1] if w[0] != "@"} - _DOUBTS - _AROUND_DOUBT
    loose -= {w for t in parts if t.kind in {"all", "not", "i"} for w in t.text.split()}
    return who if not loose and len(words) - at <= 12 else None


_LESS = ("below", "under", "less than", "lower than", "beneath", "short of", "<", "smaller than",
         "not at least", "worse than", "not")  # fmt: skip


def _below(words: list[str], parts: Sequence[Token]) -> float | None:
    """The share that a confidence is below."""
    text = " ".join(words)
    values = [(i, number(w)) for i, w in enumerate(words) if number(w) is not None]
    values = [(i, v) for i, v in values if words[i] not in {"once", "one"}]
    if len(values) != 1 or not any(f" {less} " in f" {text} " for less in _LESS):
        return None
    at, value = values[0][0], values[0][1] or 0.0
    percent = at + 1 < len(words) and words[at + 1] in {"%", "percent", "per"}
    share = value / 100 if percent or value > 1 else value
    known = _AROUND_DOUBT | _LOW
    loose = {w for w in words if w[0] != "@" and number(w) is None} - known
    loose -= {w for t in parts if t.kind in {"all", "not"} for w in t.text.split()}
    return round(share, 10) if 0 <= share <= 1 and not loose else None


_LOW = frozenset(
    [
        "confidence",
        "confident",
        "sure",
        "certain",
        "below",
        "under",
        "less",
        "than",
        "lower",
        "beneath",
        "short",
        "of",
        "<",
        "smaller",
        "at",
        "least",
        "worse",
        "drops",
        "drop",
        "falls",
        "fall",
        "goes",
        "lies",
        "sinks",
        "to",
        "%",
        "percent",
        "per",
        "cent",
        "score",
        "level",
        "value",
        "its",
        "his",
        "her",
        "their",
        "'s",
        "i",
        "the",
    ]
)


def _who_doubts(state: State, parts: Sequence[Token]) -> _Doubt:
    named = [t for t in parts if t.kind == "agent"]
    if named:
        return _Doubt(state.names(noun(named).agents.text))
    if any(t.kind == "all" for t in parts):
        return _Doubt(every=True)
    words = {w for t in parts for w in t.text.split()}
    if words & {"it", "he", "she", "its", "his", "her"} and len(state.subject) == 1:
        impersonal = {"clear", "unclear"} & words
        return _Doubt(() if impersonal else state.subject)
    return _Doubt()


@reads_first
def gate(state: State, frame: Frame) -> bool:
    """`When unsure, the mediator asks a human`, `if its confidence is below 0.7, ask me`."""
    asked = asks(frame) or _looks(frame)
    if asked is None or not {"if", "when"} & {*asked.args} or asked.thing.tools:
        return False
    when = asked.args.get("if") or asked.args.get("when")
    rest = {k: v for k, v in asked.args.items() if k not in {"if", "when"}}
    harmless = all({*p.text.split()} <= _HELP for p in rest.values())
    doubt = _states_doubt(state, when) if when is not None else None
    if doubt is None or not harmless or asked.thing.agents:
        return False
    who = _who_asks(state, frame, asked, doubt)
    if who is None:
        return False
    if who and not (set(doubt.agents) and set(doubt.agents) != set(who) and asked.by.agents):
        state.subject = who
    return said(state, Gate(agents=who, below=doubt.below, words=words_of(frame)))


def _looks(frame: Frame) -> _Asked | None:
    """`…, I'd rather see it myself`, `let me decide`."""
    if frame.negated:
        return None
    mine = frame.subject.pronoun in {"i", "me"}
    looks = frame.verb in {"see", "look", "check", "decide", "take", "have", "know", "want", "hear"}
    args = {k: v for k, v in frame.args.items() if k != "about"}
    return _Asked(args, Noun(), Noun()) if mine and looks else None


def _who_asks(state: State, frame: Frame, asked: _Asked, doubt: _Doubt) -> tuple[str, ...] | None:
    """The agents whose doubt it is; empty for all, none where it cannot be told."""
    if doubt.agents:
        return doubt.agents
    if asked.by:
        who = whom(state, asked.by)
        if who is None and not (asked.by.pronoun and doubt.every):
            return None
        if who is not None and (who.nobody or who.only or who.excepted or who.others):
            return None
        return who.agents if who is not None and not doubt.every else ()
    if frame.elided and state.subject:
        return state.subject
    if doubt.below is not None and not doubt.every:
        return state.subject
    return ()


# -- questions -------------------------------------------------------------------------------------


def rejects(phrase: Phrase) -> bool:
    """`I reject it`, `I say no`, `the answer is no`, `I don't approve`."""
    parts = tokens(phrase)
    words = [t.text for t in parts]
    if words in (["not"], ["no"], ["it", "is", "rejected"], ["rejected"]):
        return True
    if any(t.kind in {"agent", "tool", "act"} for t in parts) or len(words) > 9:
        return False
    if words[-1:] == ["no"] and "answer" in words:
        return True
    if not parts or parts[0].kind != "i":
        return False
    negated = any(t.kind == "not" for t in parts)
    verbs = {lemma(w) for w in words[1:]}
    if negated:
        return bool(verbs & (APPROVE | {"like", "want", "be"})) or len(words) <= 3
    if "no" in words:
        return "say" in verbs or "answer" in verbs
    return (
        bool(verbs & (REJECT - {"say", "turn", "withhold"}))
        or "unhappy" in words
        or ("turn" in verbs and "down" in words)
        or ("against" in words)
    )


_RETURN = frozenset(
    [
        "back",
        "it",
        "this",
        "that",
        "we",
        "you",
        "everything",
        "goes",
        "go",
        "is",
        "sent",
        "send",
        "sends",
        "hand",
        "hands",
        "handed",
        "kick",
        "kicks",
        "kicked",
        "comes",
        "come",
        "passed",
        "pass",
        "gets",
        "get",
        "going",
        "start",
        "starts",
        "over",
        "return",
        "returns",
        "returned",
        "with",
        "from",
        "at",
        "to",
        "straight",
        "right",
        "then",
        "must",
        "should",
        "has",
        "again",
        "the",
        "please",
        "for",
        "another",
        "work",
        "changes",
        "corrections",
        "rewrite",
        "rework",
        "text",
        "draft",
        "plan",
        "thing",
        "all",
        "way",
        "bounce",
        "bounces",
        "throw",
        "thrown",
        "give",
        "once",
        "more",
        ",",
        "a",
    ]
)
_REDO = frozenset(
    [
        "revise",
        "redo",
        "rewrite",
        "try",
        "rework",
        "repeat",
        "start",
        "go",
        "do",
        "correct",
        "improve",
        "fix",
        "amend",
        "change",
        "have",
    ]
)


def _return_to(state: State, parts: Sequence[Token]) -> str:
    """Whom words send something back to; empty where they say something else."""
    named = [t for t in parts if t.kind == "agent"]
    if len(named) != 1:
        return ""
    words = [w for t in parts if t.kind != "agent" for w in t.text.split()]
    agent = state.names(named[0].text)[0]
    backward = bool({"back", "return", "returns", "returned"} & {*words}) or (
        "over" in words and bool({"start", "starts"} & {*words})
    )
    if backward and {*words} <= _RETURN:
        return agent
    redone = parts[0].kind == "agent" and any(lemma(w) in _REDO for w in words[:3])
    return agent if redone and len(words) <= 8 else ""


def reject(state: State, phrase: Phrase) -> bool:
    """`If I reject it, back to the writer`."""
    parts = tokens(phrase)
    agents = [i for i, t in enumerate(parts) if t.kind == "agent"]
    if len(agents) != 1 or len(phrase.units) > 40:
        return False
    split = _condition_and_rest(parts)
    if split is None:
        return False
    condition, rest, mine = split
    to = _return_to(state, rest)
    if not to or (condition is not None and not rejects(condition)):
        return False
    at = len(state.statements) - 1
    while at >= max(0, len(state.statements) - 3) and state.statements[at].kind != "ask":
        at -= 1
    if at < max(0, len(state.statements) - 3):
        return False
    if not mine and at != len(state.statements) - 1:
        return False
    ask = state.statements[at]
    if not isinstance(ask, Ask) or not _just_asked(state, at, ask):
        return False
    return state.replace(at, reject_to=to, words=(*ask.words, phrase.words))


def _just_asked(state: State, at: int, ask: Ask) -> bool:
    """Whether no other question, work or unread words stand between a question and its answer."""
    for other in state.statements[at + 1 :]:
        awaited = other.kind == "step" and any(p.agent == ask.before for p in other.parts)
        if not awaited and other.kind not in {"allow", "deny", "trait"}:
            return False
    end = max(words.end for words in ask.words)
    unread = [r for r in state.remarks if r.code == "not_understood"]
    return not any(words.start >= end for remark in unread for words in remark.words)


def _condition_and_rest(
    parts: list[Token],
) -> tuple[Phrase | None, list[Token], bool] | None:
    """`if I say no` and `back to the writer`, in either order."""
    first = parts[0]
    if first.kind == "sub" and first.value in {"if", "when"}:
        for i in range(2, len(parts)):
            head = Phrase([u for t in parts[1:i] for u in t.units])
            if rejects(head) and (parts[i].kind in {"comma", "agent"} or parts[i].text in _RETURN):
                behind = parts[i + 1 :] if parts[i].kind == "comma" else parts[i:]
                grown = (
                    i + 1 < len(parts) and parts[i].kind != "comma" and parts[i].kind == "pronoun"
                )
                if grown and parts[i + 1].kind == "comma":
                    continue
                return head, behind, any(t.kind == "i" for t in parts[1:i]) or "no" in head.text
        return None
    if first.text in {"otherwise", "else"}:
        behind = parts[1:]
        while behind and behind[0].kind == "comma":
            behind = behind[1:]
        return None, behind, False
    subs = [i for i, t in enumerate(parts) if t.kind == "sub"]
    if len(subs) == 1 and parts[subs[0]].value in {"if", "when"}:
        head = Phrase([u for t in parts[subs[0] + 1 :] for u in t.units])
        return head, parts[: subs[0]], any(t.kind == "i" for t in parts[subs[0] :])
    texts = [t.text for t in parts[:2]]
    if "rejection" in texts or texts[0] == "no":
        behind = [
            t
            for t in parts
            if t.text not in {"a", "rejection", "no", "means", "takes", "sends", "leads"}
        ]
        return None, behind, True
    return None


@reads_alone
def ask_here(state: State, frame: Frame) -> bool:
    """`Ask me whether the tone is right`."""
    asked = asks(frame)
    if asked is None or {"before", "unless", "until", "after"} & {*asked.args}:
        return False
    if {*"#$"} & {*frame.phrase.text}:  # about a tool, and not understood
        return False
    if frame.subject.agents or frame.subject.quantifier or frame.subject.tools or frame.elided:
        return False
    if frame.object.agents and frame.verb not in ASK:
        return False
    looks = frame.subject.pronoun == "i" and frame.verb in {"see", "read", "look", "check", "have"}
    if looks and (frame.adverbs or len(frame.object.text.split()) > 3):
        return False
    if "when" in asked.args or ("if" in asked.args and _decides_itself(state, asked.args["if"])):
        return False
    words = frame.phrase.text.split()
    if (
        frame.subject.pronoun == "i"
        and frame.verb in {"see", "look", "check", "have"}
        and "before" in words
    ):
        return False
    _asked_once(state, frame)
    return said(state, Ask(question=state.raw(frame.phrase), words=words_of(frame)))


def _asked_once(state: State, frame: Frame) -> None:
    """`I approve every draft` is asked once, where it stands: that is said."""
    texts = [t.text for t in frame.object.tokens]
    if frame.verb not in APPROVE or texts[:1] not in (["every"], ["each"], ["any"]):
        return
    words = frame.phrase.words
    state.remark(
        "read_as_words",
        f"{state.shown(words)!r} is asked once, at this place in the order",
        [words],
        "To be asked every time, name the tool: 'Ask me before anyone uses T.'",
    )


def _decides_itself(state: State, phrase: Phrase) -> bool:
    """Whether `ask me if …` names a case rather than the question."""
    found = state.condition(phrase.text)
    fact = getattr(found, "of", found)
    known = {"approved", "rejected", "accepted", "urgent"}
    return getattr(fact, "operator", None) is not None or getattr(fact, "name", "") in known


RULES[:0] = [reject, conduct.limit, inside.plan_and_execute]

__all__ = ["RULES", "SINGLE", "apply", "conduct", "inside", "sight"]
