"""Who sees what: `only the mediator sees the lawyer's notes`, `the sceptic works blind`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crewlog.prompt.ast import Sees
from crewlog.prompt.grammar.frames import Frame, Noun, Token, noun, tokens
from crewlog.prompt.grammar.lexicon import singular
from crewlog.prompt.grammar.rules import Whom, doer, reads_first, said, spoken_of, whom, words_of
from crewlog.prompt.grammar.state import State
from crewlog.prompt.grammar.verbs import HIDE, SEE, WORK, lemma

_LOOSE = frozenset(
    [
        "the",
        "own",
        "any",
        "all",
        "of",
        "a",
        "single",
        "thing",
        "part",
        "word",
        "bit",
        "one",
        "from",
        "by",
        "about",
        "at",
        "on",
        "into",
        "in",
        "what",
        "each",
        "whole",
        "entire",
        "and",
        "or",
        "other",
        "others",
        "other's",
        "this",
        "that",
        "to",
        "so",
        "far",
        "until",
        "finished",
        "done",
        "yet",
    ]
)
_MAKES = frozenset(
    [
        "do",
        "write",
        "say",
        "produce",
        "make",
        "find",
        "think",
        "draft",
        "come",
        "put",
        "deliver",
        "report",
        "work",
        "up",
        "conclude",
        "hand",
        "rate",
        "answer",
        "contribute",
        "suggest",
    ]
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is seen: the work of agents, of all the others, or anything."""

    whose: tuple[str, ...] = ()
    others: bool = False
    none: bool = False
    """`nothing`."""
    eyes: Noun | None = None


def _seen(state: State, parts: Sequence[Token]) -> _Seen | None:
    """What a stretch of words says is seen; none where it speaks of something else."""
    agents: list[Token] = []
    others = none = anything = made = False
    for at, token in enumerate(parts):
        text = token.text
        if token.kind == "agent":
            agents.append(token)
            follows = parts[at + 1].text if at + 1 < len(parts) else ""
            made = made or lemma(follows) in _MAKES
        elif (token.kind == "all" and token.value == "else") or (
            token.kind == "all" and token.value != "things"
        ):
            others = True
        elif token.kind in {"all", "none"} and token.value == "things":
            none, anything = none or token.kind == "none", True
        elif text in WORK:
            made = True
        elif token.kind in {"tool", "act", "model", "me", "i", "not", "modal", "sub", "sign"} or (
            token.kind == "word"
            and not (text in _LOOSE | {"'s"} or lemma(text) in _MAKES | {"be", "have"})
        ):
            return None
    if not (agents or others or anything) or (agents and not (made or anything)):
        return None
    return _Seen(state.names(noun(agents).agents.text), others, none)


@reads_first
def sees(state: State, frame: Frame) -> bool:
    """`Only the mediator sees the lawyer's notes`, `the editor may not see them`."""
    if frame.verb not in SEE or frame.modal in {"want", "need"} or frame.most:
        return False
    if not frame.takes("about", "from", "to", "by", "of") or frame.object.pronoun:
        return False
    parts = [*frame.object.tokens]
    for inside in frame.args.values():
        parts += tokens(inside)
    who = doer(state, frame)
    if any(t.kind == "mutual" for t in parts):
        return _each_other(state, frame, who, parts)
    seen = _seen(state, [t for t in parts if t.kind not in {"only", "time"}])
    if seen is None or who is None or (seen.none and frame.negated):
        return False
    if frame.verb in {"use", "have", "get"} and not seen.whose and not seen.others:
        return False
    return _see(state, frame, replace_only(who, frame), seen, hidden=frame.negated or seen.none)


def _each_other(state: State, frame: Frame, who: Whom | None, parts: Sequence[Token]) -> bool:
    """`The two must not see each other's work`."""
    named = noun([t for t in parts if t.kind != "mutual"])
    who = who or Whom(_neither_of_a_kind(state, frame))
    neither = who.nobody and not (who.excepted or who.others)
    if neither and not frame.negated:  # `neither may see the other's notes`
        who = Whom(who.agents or spoken_of(state, "they"))
        frame = replace(frame, negated=True)
    if len(who.agents) < 2 or who.only or who.nobody or not frame.negated:
        return False
    if named.agents or set(named.words) - WORK - _LOOSE - {"'s"}:
        return False
    for agent in who.agents:
        others = tuple(a for a in who.agents if a != agent)
        said(state, Sees(agents=(agent,), whose=others, hidden=True, words=words_of(frame)))
    state.subject = who.agents
    return True


def _neither_of_a_kind(state: State, frame: Frame) -> tuple[str, ...]:
    """`Neither reviewer may see the other's review`: the two agents of that kind."""
    texts = [t.text for t in frame.subject.tokens]
    if len(texts) != 2 or texts[0] != "neither":
        return ()
    kind = dict.fromkeys(state.roster.heads.get(singular(texts[1]), ()))
    return tuple(state.roster.agent(n) for n in kind) if len(kind) == 2 else ()


def replace_only(who: Whom, frame: Frame) -> Whom:
    """`May be seen only by the writer`."""
    behind = frame.passive and "only" in frame.adverbs
    return replace(who, only=True) if behind else who


def _see(state: State, frame: Frame, who: Whom, seen: _Seen, *, hidden: bool) -> bool:
    words = words_of(frame)
    if not hidden:
        return _alone(state, frame, who, seen)
    if who.nobody or who.others or who.only:
        return False
    if who.excepted:  # "everyone but the chair must not see it"
        return _alone(state, frame, Whom(who.excepted, only=True), seen)
    if not who.agents or set(who.agents) & set(seen.whose):
        return False
    state.subject = who.agents
    blind = seen.others or not seen.whose
    return said(
        state, Sees(agents=who.agents, whose=() if blind else seen.whose, hidden=True, words=words)
    )


def _alone(state: State, frame: Frame, who: Whom, seen: _Seen) -> bool:
    """Only these see it; that somebody sees what everybody may see says nothing."""
    if not seen.whose or seen.others:
        return False
    if who.excepted and not who.agents and not who.nobody:
        made = Sees(agents=who.excepted, whose=seen.whose, hidden=True, words=words_of(frame))
        return said(state, made)
    if not who.only or not who.agents:
        return False
    return said(state, Sees(agents=who.agents, whose=seen.whose, words=words_of(frame)))


_HIDDEN = frozenset(
    ["hidden", "invisible", "secret", "away", "unseen", "concealed", "off-limits", "off", "limits"]
)
_SHOWN = frozenset(
    ["visible", "shown", "available", "open", "accessible", "readable", "meant", "intended"]
)


@reads_first
def is_seen(state: State, frame: Frame) -> bool:
    """`The lawyer's notes are for the mediator's eyes only`, `… stay hidden from the editor`."""
    thing = frame.subject or frame.object
    if frame.verb not in HIDE | {"be", "mean", "intend", "go", "send", "pass", "show", "read"}:
        return False
    if len(frame.args) != 1 or not frame.takes("for", "to", "from", "by") or frame.modal == "want":
        return False
    seen = _seen(state, thing.tokens)
    words = {*frame.object.words} - {"only", "strictly", "kept"} if frame.subject else set[str]()
    if seen is None or not seen.whose or seen.none:
        return False
    closed = frame.verb in HIDE or bool(words & _HIDDEN)
    if words - _HIDDEN - _SHOWN or (words & _HIDDEN and words & _SHOWN):
        return False
    eyes = tokens(next(iter(frame.args.values())))
    whose = noun([t for t in eyes if t.text not in {"'s", "eyes", "eye"}])
    who = whom(state, whose)
    if who is None:
        return False
    if "only" in frame.adverbs:
        who = replace(who, only=True)
    return _see(state, frame, who, seen, hidden=closed != frame.negated)


_BLIND = frozenset(
    ["blind", "blindly", "isolation", "blindfolded", "dark", "in", "the", "complete"]
)


@reads_first
def blind(state: State, frame: Frame) -> bool:
    """`The sceptic works blind`, `… without seeing what the others do`."""
    if frame.negated or frame.modal in {"want", "may", "need"} or frame.object.pronoun:
        return False
    who = doer(state, frame)
    if who is None or not who.agents or who.only:
        return False
    unseen = frame.args.get("without")
    if unseen is not None and len(frame.args) == 1 and _plain(frame):
        parts = tokens(unseen)
        if not parts or lemma(parts[0].text) not in SEE - {"use", "have", "get"}:
            return False
        seen = _seen(state, parts[1:])
        return seen is not None and _see(state, frame, who, replace(seen, none=False), hidden=True)
    inside = frame.args.get("about")
    words = {*frame.object.words, *(inside.text.split() if inside is not None else ())}
    if not frame.takes("about") or not words <= _BLIND | {"its", "his", "her", "work"}:
        return False
    if not words & (_BLIND - {"in", "the", "complete"}):
        return False
    state.subject = who.agents
    return said(state, Sees(agents=who.agents, hidden=True, words=words_of(frame)))


def _plain(frame: Frame) -> bool:
    """Whether the verb only says that somebody works: `writes`, `does its work`."""
    idle = {"its", "his", "her", "their", "work", "job", "part", "it", "this", "own"}
    return set(frame.object.words) <= idle
