"""Agents that the shape of a crew lists: a hub's, stages, those who share a plan."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.nouns import listed
from crewlog.prompt.grammar.sentences import Token

MESSAGE = word_set("message question request query ticket enquiry inquiry prompt input")
EACH = word_set("each every any")
SENDS = word_set(
    "sends passes hands routes forwards directs dispatches gives assigns delegates relays"
)
PICKS = word_set("picks chooses decides selects determines says names")
SPLITS = word_set("splits breaks divides plans cuts partitions")
WHAT_THEY_DO = word_set("answers begins starts first answer")
STEPS = word_set("steps parts tasks pieces slices")


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
    return None


def _several(tokens: Sequence[Token], at: int) -> list[tuple[int, int]] | None:
    items = _listed(tokens, at)
    return items if len(items) > 1 else None


def _listed(tokens: Sequence[Token], at: int) -> list[tuple[int, int]]:
    # Behind a semicolon is what else there is to say, of any noun.
    end = next((j for j in range(at, len(tokens)) if tokens[j].text == ";"), len(tokens))
    return listed(tokens[:end], at + 1, any_noun=True)[0]
