"""Sentences that say several things of one agent, of which one is a bounded right.

`The clerk serves the callers and may use refund at most 5 times per day` is read as two sentences:
what rules over calls is read as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.grammar.calls import COUNTS
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.phrase import Unit, number
from crewlog.prompt.grammar.state import State

_JOINING = word_set("and but")
_MODALS = word_set("may can must")
_WINDOWS = word_set("run hour day")
_TIMES = word_set("times time calls call")


def apart(units: Sequence[Unit]) -> list[list[Unit]]:
    """The sentences that one agent's `… and may …` joins, each with the agent in front."""
    texts = [unit.text for unit in units]
    if not texts or texts[0][0] != "@":
        return [list(units)]
    for at in range(2, len(texts) - 2):
        if texts[at][0] == "@":
            break  # whose right it is may be doubted
        if texts[at] in _JOINING and texts[at + 1] in _MODALS:
            first = list(units[: at - (texts[at - 1] == ",")])
            place = units[at + 1].start
            return [first, *apart([Unit(texts[0], place, place), *units[at + 1 :]])]
    return [list(units)]


def uncounted(state: State, units: Sequence[Unit]) -> tuple[str, str]:
    """What is wrong with a bound that is not read, and what to say."""
    texts = [unit.text for unit in units]
    named = " ".join(text for text in texts if text[0] in "@#$")
    agent = next(iter(state.names(named)), "X").replace("_", " ")
    tool = next(iter(state.tool_names(named)), "T")
    at = next((i for i, text in enumerate(texts) if text in _TIMES or text in COUNTS), None)
    if at is None:
        return (
            "bounds calls by what no prompt can say, and gives nothing",
            (
                "A prompt counts calls, per run, hour or day, and forbids them by what agents decide. "
                f"Say 'Ask me before the {agent} uses {tool}.', or check it in the tool."
            ),
        )
    most = COUNTS.get(texts[at]) or (number(texts[at - 1]) if at else None) or 5
    window = next((text for text in texts[at:] if text in _WINDOWS), "run")
    return (
        "cannot be counted like that, and gives nothing",
        (
            f"Say it in a sentence of its own: 'The {agent} must not call {tool} more than "
            f"{most:g} times per {window}.' Calls are counted per run, hour or day."
        ),
    )
