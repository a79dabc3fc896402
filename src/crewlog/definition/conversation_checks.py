"""Checks of a conversation: who answers, and that somebody can."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.findings import Finding, did_you_mean, listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import Phase, at_work
from crewlog.ids import named_readers


def conversation_findings(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Everything that is wrong with how a crew is talked to, but for its conditions."""
    talk = definition.conversation
    if talk is None:
        return
    working = at_work(found)
    for i, name in enumerate(talk.respond):
        path = ("conversation", "respond", i)
        if name not in definition.agents:
            say = f"'respond' names the agent {name!r}, which is not defined."
            remedy = did_you_mean(name, definition.agents, "Agents are under 'agents:'.")
            yield Finding(path, say, remedy)
        elif name in talk.respond[:i]:
            yield Finding(path, f"'respond' names {name!r} twice", "Name it once.")
        elif name not in working:
            say = f"{name!r} is to answer, and has no phase"
            yield Finding(path, say, f"Add '- {name}' under 'flow:', or take it out.")
        elif all(map(named_readers, definition.agents[name].writes)):
            say = f"{name!r} is to answer, and writes for {_whom(definition.agents[name].writes)}"
            remedy = "What it says to them is shown to whoever asks: take it out, or let it write."
            yield Finding(path, say, remedy, severity="warning")


def _whom(writes: tuple[str, ...]) -> str:
    """Whom an agent writes for that writes to no log of several."""
    return listed(dict.fromkeys(each for log in writes for each in named_readers(log))) or "nobody"
