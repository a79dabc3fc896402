"""The active voice: who does it, whatever is said first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crewlog.prompt.grammar.predicate import AROUND, Frame, Noun, nobody_but, noun
from crewlog.prompt.grammar.tokens import Token, tokens
from crewlog.prompt.grammar.verbs import ENABLE, GIVE, HIDE, HINDER, KNOWN, RESERVE, SHOW, lemma


def logical(made: Frame) -> Frame:
    """A frame with its logical subject."""
    if made.passive:
        made = _active(made)
    if made.verb in RESERVE and made.passive and {"for", "to"} & set(made.args):
        return _reserved(made)
    ruled = made.passive or made.command or made.subject.pronoun in {"i", "you"}
    if not ruled:  # what an agent gives to another is its work, and no right
        return made
    if made.verb in GIVE | ENABLE:
        return _nobody(_enabled(made))
    if made.verb in SHOW | HIDE | HINDER:
        return _shown(made)
    return made


def _nobody(made: Frame) -> Frame:
    """`Do not let anyone but the auditor use it`: only the auditor may."""
    subject = made.subject
    if not made.negated or subject.quantifier != "all" or not subject.text.startswith("any"):
        return made
    only = nobody_but(replace(subject, quantifier="none"))
    return replace(made, subject=only, negated=False) if only.only else made


def _active(made: Frame) -> Frame:
    """`write_file is used by the writer` is the writer's use of it."""
    args = dict(made.args)
    by = args.pop("by", None)
    done = made.subject
    if made.object:  # "the writer is given write_file", "is shown the notes"
        return replace(made, args={**args, **({"by": by} if by else {})})
    if by is None:
        if made.verb in GIVE | SHOW | ENABLE | HINDER | HIDE:
            return made
        return replace(made, subject=Noun(), object=done)
    doer = noun(tokens(by))
    only = doer.only or "only" in made.adverbs
    adverbs = tuple(a for a in made.adverbs if a != "only")
    subject = replace(doer, only=only)
    return replace(made, subject=subject, object=done, args=args, adverbs=adverbs)


def _enabled(made: Frame) -> Frame:
    """`Give the writer write_file`, `let the writer use it`, `it is given to the writer`."""
    args = dict(made.args)
    parts = list(made.object.tokens)
    to = tokens(args["to"]) if "to" in args else []
    if made.passive and made.subject.agents:
        who, thing = made.subject, parts
    elif made.passive:
        who, thing = noun(to), list(made.subject.tokens)
        to = []
    else:
        end = _recipient(parts)
        who, thing = noun(parts[:end]), parts[end:]
        if not who and to:
            who, to = noun(to), []
    if not (who.agents or who.quantifier or who.pronoun):
        return made
    args.pop("to", None)
    if "with" in args and not thing:
        thing = tokens(args.pop("with"))
    verb, thing = _granted(thing, to)
    only = who.only or "only" in made.adverbs
    negated = made.negated
    return replace(
        made,
        subject=replace(who, only=only),
        verb=verb,
        object=noun(thing),
        args=args,
        modal="may",
        negated=negated,
        command=False,
        passive=False,
    )


def _reserved(made: Frame) -> Frame:
    """`deploy is reserved for the writer`."""
    args = dict(made.args)
    whom = noun(tokens(args.pop("for") if "for" in args else args.pop("to")))
    thing = made.subject or made.object
    subject = replace(whom, only=True)
    return replace(made, subject=subject, verb="use", modal="may", object=thing, args=args)


def _recipient(parts: Sequence[Token]) -> int:
    """Where the first of two objects ends: `the writer | write_file`."""
    end = 0
    while end < len(parts):
        token = parts[end]
        joined = token.kind in {"and", "comma", "except", "but"} and end
        follows = parts[end + 1].kind if end + 1 < len(parts) else ""
        owner = end + 1 < len(parts) and parts[end + 1].text == "'s"
        named = token.kind in {"agent", "all", "none", "only", "pronoun"}
        second = token.kind == "agent" and end and parts[end - 1].kind in {"agent", "pronoun"}
        if (
            token.value != "things"
            and not owner
            and not second
            and (named or token.text in AROUND | {"alone"})
        ) or (joined and follows in {"agent", "all", "none"}):
            end += 1
        else:
            break
    return end


_ACCESS = frozenset(["access", "right", "permission", "leave", "the", "a", "full", "rights"])


def _granted(thing: list[Token], to: list[Token]) -> tuple[str, list[Token]]:
    """The verb and the object of what somebody may do: `use write_file`, `access to write_file`."""
    rest = [t for t in thing if t.text not in _ACCESS] + to
    if rest and rest[0].kind == "word" and lemma(rest[0].text) in KNOWN:
        return lemma(rest[0].text), rest[1:]
    return "have", rest


def _shown(made: Frame) -> Frame:
    """`Show the writer the notes`, `hide them from the writer`, `keep the writer from deploy`."""
    if made.negated and made.verb in HINDER:
        return made  # what is not forbidden is not thereby given
    args = dict(made.args)
    negated = made.negated != (made.verb in HIDE | HINDER)
    if made.passive:
        who, thing = made.subject, made.object
        if "from" in args and who.agents and made.verb in HINDER and "@" not in args["from"].text:
            thing = noun(
                [t for t in tokens(args.pop("from")) if t.kind in {"tool", "act", "and", "comma"}]
            )
        elif "from" in args or ("to" in args and made.verb in SHOW):
            who, thing = (
                noun(tokens(args.pop("from") if "from" in args else args.pop("to"))),
                made.subject,
            )
    elif made.verb in HINDER and "to" in args and made.object.agents:
        who, thing = _kept(made.object, noun(tokens(args.pop("to"))))
    elif "from" in args:
        who, thing = _kept(made.object, noun(tokens(args.pop("from"))))
    elif "to" in args and made.verb in SHOW:
        who, thing = noun(tokens(args.pop("to"))), made.object
    else:
        parts = made.object.tokens
        end = _recipient(parts)
        if made.verb not in SHOW or not end or end == len(parts) or parts[end].text == "'s":
            return made
        who, thing = noun(parts[:end]), noun(parts[end:])
    if not (who.agents or who.quantifier or who.pronoun):
        return made
    only = who.only or ("only" in made.adverbs)
    verb = "use" if thing.tools else "see"
    return replace(
        made,
        subject=replace(who, only=only),
        object=thing,
        verb=verb,
        negated=negated,
        modal="may",
        args=args,
        command=False,
    )


def _kept(thing: Noun, other: Noun) -> tuple[Noun, Noun]:
    """Who is kept from what: `keep deploy from the writer`, `keep the writer from deploy`."""
    if thing.agents and not other.agents:
        parts = [t for t in other.tokens if t.kind in {"tool", "act", "and", "comma"}]
        return thing, noun(parts)
    return other, noun([t for t in thing.tokens if t.text != "away"])
