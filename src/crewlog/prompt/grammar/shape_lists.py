"""Agents that the shape of a crew lists: a hub's, stages, those who share a plan."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.nouns import listed
from crewlog.prompt.grammar.sentences import Token

MESSAGE = word_set("message question request query ticket enquiry inquiry prompt input")
MESSAGES = MESSAGE | word_set(
    "messages questions requests queries tickets enquiries inquiries prompts inputs mail mails email "
    "emails"
)
EACH = word_set("each every any")
_ALL = EACH | word_set("all incoming")
SENDS = word_set(
    "sends passes hands routes forwards directs dispatches gives assigns delegates relays"
)
PICKS = word_set("picks chooses decides selects determines says names")
SPLITS = word_set("splits breaks divides plans cuts partitions")
WHAT_THEY_DO = word_set("answers begins starts first answer")
STEPS = word_set("steps parts tasks pieces slices")


_PLANS = SPLITS | word_set("distributes shares parcels assigns deals allots hands gives turns")
_PLANNED = word_set(
    "makes writes draws prepares sets lays creates works drafts devises comes produces lists"
)
_WORK = word_set("work task request feature job problem input goal everything it up out down them")
_CHECKS = word_set("check checks test tests verify verifies inspect inspects examine examines")
_DONE = word_set("it them this that everything their the all what every")


def checkers(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Those that check what a plan's workers did: `The tests and the compiler check their work`."""
    begin = 1 if tokens and tokens[0].text in {"then", "next", "finally", "first"} else 0
    begin += begin == 1 and tokens[1:2] != [] and tokens[1].text == ","
    items, end = listed(tokens, begin, any_noun=True)
    follows = [t.text for t in tokens[end : end + 3]]
    if follows[:1] in (["then"], ["both"], ["first"]):
        follows = follows[1:]
    checks = follows[:1] and follows[0] in _CHECKS and follows[1:2] and follows[1] in _DONE
    return items if checks else []


def plans(tokens: Sequence[Token]) -> bool:
    """Whether a sentence makes a plan that agents share."""
    words = {t.text for t in tokens}
    return bool(words & _PLANS) and bool(words & (STEPS | {"work"}))


def list_at(tokens: Sequence[Token], at: int, seen: set[str]) -> list[tuple[int, int]] | None:
    """The agents that a shape lists behind a word; none where the word begins no such list.

    Args:
        tokens: The sentence.
        at: The word.
        seen: The words before it.
    """
    word, previous = tokens[at].text, tokens[at - 1].text if at else ""
    chosen = bool(seen & PICKS) and bool(seen & (MESSAGE | {"which", "who", "one"}))
    if word == "to" and previous in MESSAGE and seen & SENDS and seen & EACH:
        return _listed(tokens, at)
    if word == "of" and chosen and previous in {"which", "one"}:
        return _several(tokens, at)
    if word in {"between", "among"} and chosen and seen & MESSAGE:
        return _several(tokens, at)
    if word == ":" and chosen and seen & (MESSAGE | WHAT_THEY_DO):
        return _several(tokens, at)
    if word in {"for", "among", "between"} and previous in STEPS and seen & SPLITS:
        return _several(tokens, at)
    if word == "to" and previous in (MESSAGES | {"it", "them", "on"}) and seen & SENDS:
        return _several(tokens, at, "or") if seen & MESSAGES and seen & _ALL else None
    if word == "of" and previous in {"best", "right"} and seen & PICKS and seen & MESSAGES:
        return _several(tokens, at)
    if word == "of" and previous in {"best", "right"} and seen & PICKS and seen & MESSAGES:
        return _several(tokens, at)
    if word in {":", "from", "among", "between", "of", ","} and seen & PICKS and seen & MESSAGES:
        return _several(tokens, at, "or") if seen & {"who", "which", "one", "between"} else None
    return _planned(tokens, at, seen, previous)


def _planned(
    tokens: Sequence[Token], at: int, seen: set[str], previous: str
) -> list[tuple[int, int]] | None:
    """Those who share a plan, in words that are said of things, too: agents by their nouns."""
    word = tokens[at].text
    shared = {"for", "among", "between", "over", "across", "to"}
    if word in shared and seen & _PLANS and previous in (STEPS | _WORK):
        return _several(tokens, at, plain=False)
    if (
        word in {"for", "to"}
        and seen & _PLANNED
        and "plan" in seen
        and previous in {"plan", "go", "goes", "given", "handed", *STEPS}
    ):
        return _several(tokens, at, plain=False)
    each = "each" in seen and bool(seen & STEPS) and bool(seen & {"agent", "who", "waits", "one"})
    if each and word in {":", "of", "for", "(", "from"}:
        return _several(tokens, at, plain=word in {":", "("})
    return None


def _several(
    tokens: Sequence[Token], at: int, joined: str = "", *, plain: bool = True
) -> list[tuple[int, int]] | None:
    items = _listed(tokens, at, plain=plain)
    if len(items) < 2:
        return None
    between = {t.text for t in tokens[items[0][1] : items[-1][0]]}
    return items if not joined or joined in between else None


_BEHIND = word_set("; depending whichever whoever whatever by according based")
"""What ends a list: words of how one of it is chosen."""


def _listed(tokens: Sequence[Token], at: int, *, plain: bool = True) -> list[tuple[int, int]]:
    # Behind a semicolon is what else there is to say, of any noun.
    end = next((j for j in range(at, len(tokens)) if tokens[j].text in _BEHIND), len(tokens))
    return listed(tokens[:end], at + 1, any_noun=plain)[0]
