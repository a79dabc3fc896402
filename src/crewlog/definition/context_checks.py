"""What is wrong with windows and inputs: of sources that nobody makes, or that are for others."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.audiences import Audiences
from crewlog.definition.context import OFF, Input, Window
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import AgentDefinition, AskPhase, CrewDefinition
from crewlog.definition.phases import Phase
from crewlog.ids import PUBLIC, named_readers
from crewlog.model import Json

TEXT = "text"
"""The output that every agent has."""


def window_of(crew: CrewDefinition, agent: AgentDefinition) -> Window | None:
    """The window that holds for an agent; none where its model is shown all."""
    found = crew.window if agent.window is None else agent.window
    return found if found is not None and found.cuts else None


def windows_in(crew: CrewDefinition) -> Iterator[tuple[Window, Path]]:
    """The windows that are written, and where."""
    if crew.window is not None:
        yield crew.window, ("window",)
    for name, agent in crew.agents.items():
        if agent.window is not None:
            yield agent.window, ("agents", name, "window")


def summary_models(crew: CrewDefinition) -> Iterator[tuple[str, Path]]:
    """The models that sum up what windows leave out, and where they are named."""
    for window, path in windows_in(crew):
        if window.model is not None:
            yield window.model, (*path, "summary")


def summary_settings(
    model: str, agent: AgentDefinition, *, by_crew: bool, model_of_agent: str
) -> dict[str, Json]:
    """What of an agent's settings also holds for a model that sums up: how its service is reached.

    A key and an address go together, and to nobody but the service that they are for: that of the
    agent's own model. Another one of the same kind is taken to be there, too; but what the crew
    says for all agents is none at an address that one of them has.

    Args:
        model: The model that sums up.
        agent: The agent.
        by_crew: Whether it is the crew's window that says so, and not the agent's own.
        model_of_agent: The agent's model.
    """
    given = agent.model_settings
    same = model == model_of_agent
    if not same and model.partition(":")[0] != model_of_agent.partition(":")[0]:
        return {}
    if not same and by_crew and "base_url" in given:
        return {}
    return {key: given[key] for key in ("api_key", "base_url") if key in given}


def context_findings(crew: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """What is wrong with the windows and the inputs of a crew."""
    for window, path in windows_in(crew):
        if window.summary != OFF and not window.cuts:
            say = "the window has a summary, and leaves nothing out"
            remedy = "Say how much of the transcript is shown: last: 20, or tokens: 8000."
            yield Finding((*path, "summary"), say, remedy, severity="warning")
    audiences = Audiences(crew)
    asked = {p.item.sets for p in found if isinstance(p.item, AskPhase) and p.item.sets}
    flags = {*crew.flags, *asked, *(f for a in crew.agents.values() for f in a.writes_flags)}
    for name, agent in crew.agents.items():
        called: dict[str, Input] = {}
        for i, each in enumerate(agent.inputs):
            at: Path = ("agents", name, "inputs", i)
            label = each.as_ or each.from_
            if called.setdefault(label, each) is not each:
                say = f"agent {name!r} has two inputs that are called {label!r}"
                yield Finding(at, say, "Give one of them another name: as: …")
            if each.kind == "flag" and each.name not in flags:
                say = f"agent {name!r} is to be shown the flag {each.name!r}, which nobody writes"
                add = "Add it to an agent's writes_flags, or give it a value under 'flags:'."
                yield Finding(at, say, did_you_mean(each.name, flags, add), word=each.from_)
            elif each.output is not None:
                yield from _output(crew, audiences, name, each, at)


def _output(
    crew: CrewDefinition, audiences: Audiences, name: str, each: Input, path: Path
) -> Iterator[Finding]:
    maker, key = each.output or ("", "")
    agent = crew.agents.get(maker)
    if agent is None:
        say = f"agent {name!r} is to be shown {each.from_}: no agent is called {maker!r}"
        remedy = did_you_mean(maker, crew.agents, "Agents are under 'agents:'.")
        yield Finding(path, say, remedy, word=each.from_)
        return
    known = (*outputs_of(agent), TEXT)
    if key not in known:
        say = f"agent {name!r} is to be shown {each.from_}, and {maker!r} has no output {key!r}"
        remedy = did_you_mean(key, known, f"Add it to {maker}: outputs: [{key}].")
        yield Finding(path, say, remedy, word=each.from_)
    elif agent.reply is not None and key in agent.reply.tagged:
        return  # each item says whom it is for
    elif not _is_given(audiences, maker, key, name):
        logs = audiences.writes(maker) if key == TEXT else audiences.shares(maker)
        to = f"is for who reads {listed(logs, 'or')}" if logs else f"is for {maker!r} alone"
        say = f"agent {name!r} is to be shown {each.from_}, which {to}"
        remedy = f"Let {maker} share its outputs with it: shares: [readers:{name}], or [public]."
        if key == TEXT:
            remedy = f"Let {maker} write to a log that {name} reads, or hand on an output of its."
        yield Finding(path, say, remedy, word=each.from_)


def _is_given(audiences: Audiences, maker: str, key: str, name: str) -> bool:
    """Whether an agent may be given an output; see `crewlog.authority.audiences.may_read_input`."""
    if maker == name:
        return True
    logs = audiences.writes(maker) if key == TEXT else audiences.shares(maker)
    return any(
        log == PUBLIC or name in named_readers(log) or not audiences.no_reader(name, log)
        for log in logs
    )
