"""What is wrong with the channels and wires of a crew, and with how its graph lives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.definition.audiences import CHANNEL, Audiences
from crewlog.definition.creatures import (
    INBOX,
    channels_named,
    creature_nodes,
    creatures_of,
    outlets,
)
from crewlog.definition.ending_checks import ending_findings
from crewlog.definition.expand import expand
from crewlog.definition.findings import Finding, Path, did_you_mean, listed, suggestion
from crewlog.definition.model import GROUP_TOOLS, SEND_MESSAGE, AgentDefinition, CrewDefinition
from crewlog.definition.operations import (
    AddAgent,
    AddChannel,
    Connect,
    Disconnect,
    Operation,
    RemoveChannel,
)
from crewlog.definition.phases import Phase, at_work, phases
from crewlog.ids import PUBLIC

_AGENTS = "Agents are under 'agents:'."


def creature_findings(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Everything that is wrong with a crew's creatures."""
    if not definition.lives:
        return
    for tool in (SEND_MESSAGE, *GROUP_TOOLS):
        if tool in definition.tools:
            say = f"a tool cannot be called {tool!r}: a crew with channels has one of that name"
            yield Finding(("tools", tool), say, "Choose another name.")
    if definition.conversation is not None:
        say = "a crew with channels is no conversation: its agents answer what they hear"
        yield Finding(("conversation",), say, "Remove it; 'graph.root' hears people.", at="key")
    yield from _policy(definition)
    yield from ending_findings(definition, found)
    taken = {phase.name for phase in found}
    for name, agent in definition.agents.items():
        yield from _edges(definition, name, agent)
        if name in taken and f"{name}{INBOX}" in taken:
            say = f"a phase cannot be called {name + INBOX!r}: there {name!r} hears"
            yield Finding(("agents", name), say, "Choose another name for the phase.")
    yield from _phases_of_others(definition, found)
    yield from _channels(definition)
    yield from _lonely(definition, found)


def _phases_of_others(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Phases that have the name of an agent which none of them is for.

    It hears at a node of its own name, but where a phase has that: an agent that leaves for a run
    without the flow, and comes home, would hear at another node each time. One that works in the
    flow stays with it.
    """
    working = at_work(found)
    for phase in found:
        if phase.name in definition.agents and phase.name not in working:
            path = (*phase.path, "phase") if phase.item.phase is not None else phase.path
            say = (
                f"the phase {phase.name!r} has the name of an agent that is in no phase, and that "
                "hears at a node of its own name"
            )
            remedy = "Give the phase another name: phase: NAME"
            yield Finding(path, say, remedy, anew=True)


def _agent(definition: CrewDefinition, name: str, path: Path, says: str) -> Iterator[Finding]:
    """An agent that something names."""
    if name not in definition.agents:
        say = f"{says} the agent {name!r}, which is not defined."
        yield Finding(path, say, did_you_mean(name, definition.agents, _AGENTS))


def _policy(definition: CrewDefinition) -> Iterator[Finding]:
    policy = definition.graph
    if policy is None:
        return
    if policy.root is not None:
        yield from _agent(definition, policy.root, ("graph", "root"), "'graph' has as its root")
    for name in policy.away:
        yield from _agent(definition, name, ("graph", "away", name), "'graph.away' names")
    if {*policy.away} >= {*definition.agents}:
        say = "nobody would be left in the graph: every agent lives in another run"
        remedy = "Leave at least one of them here. To end a run, stop it: crewlog stop RUN"
        yield Finding(("graph", "away"), say, remedy)


def _edges(definition: CrewDefinition, name: str, agent: AgentDefinition) -> Iterator[Finding]:
    """What an agent listens to, sends to and is wired to."""
    audiences = Audiences(definition)
    for key, channels in (("listen", agent.listen), ("send", agent.send)):
        for i, channel in enumerate(channels):
            path: Path = ("agents", name, key, i)
            if channel in channels[:i]:
                yield Finding(path, f"agent {name!r} names {channel!r} twice", "Name it once.")
            named = audiences.named(f"{CHANNEL}{channel}", write=key == "send")
            if named is not None and name not in named:
                does, whose = (
                    ("listens to", "readers") if key == "listen" else ("sends to", "writers")
                )
                say = f"agent {name!r} {does} {channel!r}, and is not among its {whose}"
                remedy = f"Add {name} to the {whose} of {channel!r} under 'logs:', or take it out."
                yield Finding(path, say, remedy)
    for i, to in enumerate(agent.wires):
        path = ("agents", name, "wires", i)
        if to in agent.wires[:i]:
            yield Finding(path, f"agent {name!r} is wired to {to!r} twice", "Name it once.")
        elif to == name:
            yield Finding(path, f"agent {name!r} is wired to itself", "Take it out.")
        elif not to.startswith(CHANNEL):
            yield from _agent(definition, to, path, f"agent {name!r} is wired to")
    if agent.beside is not None:
        path = ("agents", name, "beside")
        yield from _agent(definition, agent.beside, path, f"agent {name!r} is beside")
        if agent.beside == name:
            yield Finding(path, f"agent {name!r} is beside itself", "Take it out.")


def _channels(definition: CrewDefinition) -> Iterator[Finding]:
    """Channels with names that mean something else, and those that lead to nobody."""
    agents = {name: definition.agents[name] for name in creatures_of(definition)}
    heard = {channel for agent in agents.values() for channel in agent.listen}
    known = heard | {*definition.channels}
    for name in definition.channels:
        if name == PUBLIC:
            say = f"a channel cannot be called {PUBLIC!r}: that is the log of all who list it"
            yield Finding(("channels", name), say, "Choose another name.", at="key")
    for name, agent in agents.items():
        ways = [(("send", i), channel, "sends") for i, channel in enumerate(agent.send)]
        ways += [
            (("wires", i), to.removeprefix(CHANNEL), "is wired")
            for i, to in enumerate(agent.wires)
            if to.startswith(CHANNEL)
        ]
        for place, channel, does in ways:
            if channel in heard:
                continue
            near = suggestion(channel, known - {channel})
            remedy = f"Did you mean {near!r}?" if near else f"Let an agent listen to {channel!r}."
            say = f"agent {name!r} {does} to {channel!r}, to which nobody listens"
            path: Path = ("agents", name, *place)
            yield Finding(path, say, remedy, severity="warning")


def _lonely(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Agents that nothing ever gives a turn."""
    working = at_work(found)
    wired = {to for agent in definition.agents.values() for to in agent.wires}
    root = definition.graph.root if definition.graph is not None else None
    for agent in creature_nodes(definition, found).values():
        own = definition.agents[agent]
        if own.listen or not own.enabled or agent in working or agent in wired or agent == root:
            continue
        say = f"agent {agent!r} listens to no channel, and nothing else gives it a turn"
        remedy = "Let it listen to one, wire an agent to it, or make it the root."
        yield Finding(("agents", agent), say, remedy, severity="warning")


# -- what a change leads to ----------------------------------------------------------------------


def new_warnings(
    before: CrewDefinition,
    after: CrewDefinition,
    operations: Iterable[Operation] = (),
    parts: Iterable[CrewDefinition] = (),
) -> Iterator[Finding]:
    """What the author of a change may not have meant: what was so before is not told again.

    Args:
        before: The crew that lives.
        after: The crew that it is to be.
        operations: By what, where it is known.
        parts: Those that other runs have from then on.
    """
    if not after.lives:
        return
    for each in operations:
        match each:
            case Disconnect():
                yield from _unheard_since(before, after, each)
            case RemoveChannel():
                yield from _way_gone(before, after, each.name)
            case AddAgent() | AddChannel() | Connect():
                yield from _misspelt(before, each)
            case _:
                pass
    for part in parts:
        yield from _alone(part)
    yield from _waiting(before, after)
    root = _root(before)
    if root is not None and _root(after) is None:
        say = f"{root!r} was the root: what people say to public gives nobody a turn any more"
        remedy = "Say it to an agent or a channel: crewlog message RUN TEXT --to private:AGENT, "
        yield Finding(("graph",), say, f"{remedy}or --to channel:C.", severity="warning")
    known = {each.message for each in _warnings(before)}
    yield from (each for each in _warnings(after) if each.message not in known)


def _unheard_since(
    before: CrewDefinition, after: CrewDefinition, op: Disconnect
) -> Iterator[Finding]:
    """Whom an agent hears no more that is disconnected from another one, but for that one."""
    was, now = before.agents.get(op.listener), after.agents.get(op.listener)
    if was is None or now is None:
        return
    here = {*creatures_of(after)} - {op.sender, op.listener}
    for channel in was.listen:
        said = [n for n in before.agents if n in here and channel in outlets(after.agents[n])]
        if channel in now.listen or not said:
            continue
        say = f"{op.listener!r} hears {listed(said)} no more over {channel!r}, either"
        remedy = f"Connect them anew: crewlog graph connect RUN {said[0]} {op.listener}"
        yield Finding(("agents", op.listener), say, remedy, severity="warning")


def _way_gone(before: CrewDefinition, after: CrewDefinition, channel: str) -> Iterator[Finding]:
    """Who is heard no more by those who listened to a channel that goes."""
    here = creatures_of(before)
    listening = [n for n in here if channel in before.agents[n].listen]
    for speaker in (n for n in here if channel in outlets(before.agents[n])):
        lost = [n for n in listening if n != speaker and not _hears(after, n, speaker)]
        if lost:
            hear = "hears" if len(lost) == 1 else "hear"
            say = f"{listed(map(repr, lost))} {hear} {speaker!r} no more: {channel!r} was the way"
            remedy = f"Connect them anew: crewlog graph connect RUN {speaker} {lost[0]}"
            yield Finding(("agents", speaker), say, remedy, severity="warning")


def _hears(crew: CrewDefinition, listener: str, speaker: str) -> bool:
    here = creatures_of(crew)
    if listener not in here or speaker not in here:
        return False
    said = crew.agents[speaker]
    return listener in said.wires or not {*outlets(said)}.isdisjoint(crew.agents[listener].listen)


def _misspelt(before: CrewDefinition, op: AddAgent | AddChannel | Connect) -> Iterator[Finding]:
    """Channels that come with an operation and are called much as one that there is."""
    here = creatures_of(before)
    known = {*before.channels, *(c for n in here for c in channels_named(before.agents[n]))}
    by = f": {op.name!r} is the first to name it" if isinstance(op, AddAgent) else ""
    for path, channel in _channels_of(op):
        near = suggestion(channel, known) if channel not in known else ""
        if near and not channel.startswith(near):  # `tasks-2` is meant beside `tasks`
            say = f"the channel {channel!r} is a new one{by}"
            yield Finding(path, say, f"Did you mean {near!r}?", severity="warning")


def _channels_of(op: AddAgent | AddChannel | Connect) -> Iterator[tuple[Path, str]]:
    """The channels that an operation names, and what of a crew does so then."""
    match op:
        case AddChannel():
            yield ("channels", op.name), op.name
        case Connect():
            if op.channel is not None:
                yield ("agents", op.sender, "send"), op.channel
        case AddAgent():
            for key in ("listen", "send", "wires"):
                names = op.agent.get(key)
                for i, name in enumerate(names if isinstance(names, list) else ()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                    channel = str(name).removeprefix(CHANNEL)  # pyright: ignore[reportUnknownArgumentType]
                    if key != "wires" or channel != name:
                        yield ("agents", op.name, key, i), channel


def _alone(part: CrewDefinition) -> Iterator[Finding]:
    """Who is a part by itself: nobody speaks to it, and nobody hears it."""
    here = creatures_of(part)
    if len(here) == 1:
        (name,) = here
        say = f"{name!r} is alone in a run of its own: nobody there speaks to it or hears it"
        remedy = "Let it listen or send where others are, wire it, or say whom it stays beside."
        yield Finding(("agents", name), say, remedy, severity="warning")


def _waiting(before: CrewDefinition, after: CrewDefinition) -> Iterator[Finding]:
    """Where what is said waits for somebody who was switched off."""
    here = creatures_of(after)
    awake = [after.agents[n] for n in here if after.agents[n].enabled]
    for name in here:
        agent, was = after.agents[name], before.agents.get(name)
        if agent.enabled or was is None or not was.enabled:
            continue
        places = [c for c in agent.listen if not any(c in each.listen for each in awake)]
        if _root(after) == name:
            places.insert(0, PUBLIC)
        if places:
            say = f"what is said in {listed(places)} waits: only {name!r} has a turn for it"
            remedy = f"It is switched off until crewlog graph start RUN {name}"
            yield Finding(("agents", name), say, remedy, severity="warning")


def _root(crew: CrewDefinition) -> str | None:
    """The root, where it lives in the crew's own graph."""
    root = crew.graph.root if crew.graph is not None else None
    return root if root in creatures_of(crew) else None


def _warnings(crew: CrewDefinition) -> Iterator[Finding]:
    plain = expand(crew).definition
    found = creature_findings(plain, phases(plain))
    return (each for each in found if each.severity == "warning")
