"""Agents that may use some tools and nothing else, and are given others: reported, both places named."""

from __future__ import annotations

import re

from crewlog.prompt.ast import Allow, Words
from crewlog.prompt.grammar.state import State

_NOTHING_ELSE = re.compile(
    r"\b(?:nothing (?:but|except|else|other than)|no other tools?|no tools? (?:but|except|other than))\b",
    re.IGNORECASE,
)


def look_at_confined(state: State) -> None:
    """Reports tools of agents that are said to use nothing but others."""
    allowed = [said for said in state.statements if isinstance(said, Allow) and said.words]
    for said in allowed:
        if not said.agents or not _NOTHING_ELSE.search(_text(state, said)):
            continue
        for name in said.agents:
            more = [
                (tool, other)
                for other in allowed
                for tool in other.tools
                if tool not in said.tools and name in (other.agents or (name,))
            ]
            for tool, other in more[:1]:
                _report(state, name, tool, (*other.words, *said.words))


def _text(state: State, said: Allow) -> str:
    return state.text[said.words[0].start : said.words[-1].end]


def _report(state: State, name: str, tool: str, words: tuple[Words, ...]) -> None:
    places = " and ".join(state.place(each) for each in sorted(words, key=lambda w: w.start))
    state.remark(
        "contradiction",
        f"{name!r} may use {tool!r}, and is said to use nothing of the kind: {places}",
        words,
        "Keep one of the two.",
        severity="error",
    )
