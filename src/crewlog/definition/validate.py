"""What a definition means, checked: names that exist, an order that can be kept, loops that end.

`check` looks at data only; `crewlog.definition.load` adds the places in the text. Every check is a
small generator of findings, so that all faults are shown at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from crewlog.definition.agent_outputs import keeping_errors, outputs_of
from crewlog.definition.artifact_checks import artifact_findings
from crewlog.definition.artifacts import SCRATCH_TOOLS
from crewlog.definition.audience_checks import audience_findings, log_findings
from crewlog.definition.causes import causes, lists_of_agents
from crewlog.definition.conditions import Condition, facts_in
from crewlog.definition.context_checks import context_findings, summary_models
from crewlog.definition.conversation_checks import conversation_findings
from crewlog.definition.course_checks import course_findings
from crewlog.definition.creature_checks import creature_findings
from crewlog.definition.expand import Expanded, expand
from crewlog.definition.findings import Finding, Path, did_you_mean, listed, suggestion
from crewlog.definition.flow_checks import flow_findings
from crewlog.definition.interrupting import interrupt_findings
from crewlog.definition.memory_checks import memory_findings
from crewlog.definition.model import (
    MEMORY_TOOLS,
    POLICIES,
    AgentDefinition,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    ToolDefinition,
)
from crewlog.definition.order import Order, order_of
from crewlog.definition.parent_checks import parent_findings
from crewlog.definition.phases import Phase, at_work, phases
from crewlog.definition.pool_checks import counted_conflicts, counter_findings, pool_findings
from crewlog.definition.prices import price_findings
from crewlog.definition.providers import provider_of, slip_of
from crewlog.definition.reach_checks import reach_findings
from crewlog.definition.reply_checks import reply_findings
from crewlog.definition.rule_checks import rule_findings
from crewlog.definition.secrets import REMEDY, literals
from crewlog.definition.soundness import soundness_findings
from crewlog.definition.tool_call_checks import tool_call_findings
from crewlog.definition.unused import conditions_of, unused_findings
from crewlog.errors import Diagnostic
from crewlog.model import Json

BUILT_IN_TOOLS = ("set_flag", "set_output")
"""Tools that every crew has."""
RESERVED = frozenset(
    {"end", "fail", "next", "skip", "ask_human", "stop", "go", "START", "END", "__start__"}
    | {"__end__", "__interrupt__", "__root__"}
)
"""What a flow or LangGraph means something else by."""
_MODEL = re.compile(r"([a-z][a-z0-9_-]*):\S.*", re.DOTALL)
_WHERE_TOOLS = "Tools are defined under 'tools:'."


def check(definition: CrewDefinition) -> list[Diagnostic]:
    """Everything that is wrong with the meaning of a definition; places are paths in the data."""
    return [finding.diagnostic() for finding in findings(definition)]


def findings(definition: CrewDefinition) -> list[Finding]:
    """Everything that is wrong with the meaning of a definition."""
    return [each for each in all_findings(definition) if each.severity == "error"]


def standing(definition: CrewDefinition) -> list[Finding]:
    """Errors and warnings of what ran before: what is asked of new ones only is left out."""
    return [each for each in all_findings(definition) if not each.anew]


def warnings(definition: CrewDefinition) -> list[Diagnostic]:
    """What its author may not have meant, though the crew runs; places are paths in the data."""
    found = [*all_findings(definition), *price_findings(definition)]
    return [each.diagnostic() for each in found if each.severity == "warning"]


def all_findings(definition: CrewDefinition) -> list[Finding]:
    """Errors and warnings."""
    expanded = expand(definition)
    found = phases(expanded.definition)
    if expanded.faults:
        # Of the flow only what holds whatever the parts would have made.
        some = [*_without_flow(expanded.definition, found), *_undefined(found, definition)]
        kept = secret_findings(definition.to_json())
        lost = [replace(each, hides=True) for each in expanded.faults]
        return [*lost, *causes((expanded.original(each) for each in some), definition), *kept]
    plain = expanded.definition
    order = order_of(found)
    courses = course_findings(definition, expanded, found, order)
    known = [*_findings(plain, found, expanded, order), *courses]
    if order.whole and not order.waits:  # of phases that wait for each other nothing is known
        known += soundness_findings(plain, order.cut)
    known += _of_their_own(unused_findings(plain, found), known)
    secret = secret_findings(definition.to_json())
    told = causes((expanded.original(each) for each in known), definition)
    return [*_once(told), *secret]


def _of_their_own(warned: Iterable[Finding], known: list[Finding]) -> Iterator[Finding]:
    """Warnings that do not merely follow from an error: of the same place, or of a slip.

    Who writes `serch` for `search` has a tool that nobody calls, and is told of the slip alone.
    """
    errors = [each for each in known if each.severity == "error"]
    places = {each.path for each in errors}
    meant = {each.remedy for each in errors}
    for each in warned:
        slip = f"Did you mean {str(each.path[-1])!r}?"
        if each.path not in places and not any(slip in remedy for remedy in meant):
            yield each


def _once(found: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding once.

    The parts of a block share its `after` and its faults; and what a builder made of a phase has
    the faults of what the phase says.
    """
    seen: set[object] = set()
    for each in found:
        key = (each.path, each.word) if each.path[-1:] == ("after",) and each.word else each
        if key in seen or (each.path[-1:] == ("use",) and each.message in seen):
            continue
        seen.update((key, each.message))
        yield each


def secret_findings(data: Json) -> list[Finding]:
    """Texts in a definition, or in a part of one, that are secrets themselves."""
    return [
        Finding(path, f"this {why}: a secret has no place in a definition", REMEDY, quiet=True)
        for path, why in literals(data)
    ]


def part_findings(
    agents: Mapping[str, AgentDefinition], tools: Mapping[str, ToolDefinition]
) -> list[Finding]:
    """What is wrong with agents and tools by themselves, in whatever offers them."""
    return [
        *_names(agents, tools),
        *(
            fault
            for name, agent in agents.items()
            if agent.model is not None
            for fault in model_findings(agent.model, ("agents", name, "model"))
        ),
        *_tools(agents, tools),
        *_placements(tools),
        *_paths(tools),
        *log_findings(agents),
    ]


def _without_flow(definition: CrewDefinition, found: list[Phase]) -> list[Finding]:
    return [
        *part_findings(definition.agents, definition.tools),
        *_phase_names(found, definition),
        *_models(definition),
        *tool_call_findings(definition.agents, definition.callable_tools, outputs_of),
        *_permissions(definition, "permissions", "permission"),
        *_permissions(definition, "approvals", "approval"),
        *rule_findings(definition),
        *parent_findings(definition),
        *interrupt_findings(definition),
        *reply_findings(definition, [phase.name for phase in found]),
        *audience_findings(definition, found),
        *creature_findings(definition, found),
        *memory_findings(definition),
        *context_findings(definition, found),
        *artifact_findings(definition),
        *reach_findings(definition),
    ]


def _findings(
    definition: CrewDefinition, found: list[Phase], expanded: Expanded, order: Order
) -> list[Finding]:
    return [
        *_without_flow(definition, found),
        *_undefined(found, definition),
        *_names_in_flow(definition, found, expanded),
        *_phases(definition, found),
        *flow_findings(found, order, definition.agents),
        *_conditions(definition, found),
        *counter_findings(definition),
        *conversation_findings(definition, found),
    ]


def _names(
    agents: Mapping[str, AgentDefinition], tools: Mapping[str, ToolDefinition]
) -> Iterator[Finding]:
    for name in agents:
        if name in RESERVED:
            say = f"an agent cannot be called {name!r}: the word has a meaning of its own"
            yield Finding(("agents", name), say, f"Call it {name.strip('_').lower()}_agent.")
    for name in tools:
        if name in BUILT_IN_TOOLS:
            say = f"a tool cannot be called {name!r}: every crew has one of that name"
            yield Finding(("tools", name), say, "Choose another name.")


def _phase_names(found: list[Phase], definition: CrewDefinition) -> Iterator[Finding]:
    for phase in found:
        if phase.name in POLICIES and any(_fails_to(each, phase.name) for each in found):
            say = f"'on_error: {phase.name}' does not name the phase {phase.name!r}"
            remedy = f"The word has a meaning of its own there. Call the phase {phase.name}_phase."
            yield Finding((*phase.path, "phase"), say, remedy, severity="warning")
        if phase.item.phase in RESERVED and phase.name not in definition.agents:
            say = f"a phase cannot be called {phase.name!r}: the word has a meaning of its own"
            yield Finding((*phase.path, "phase"), say, "Choose another name.")


def _fails_to(phase: Phase, name: str) -> bool:
    return isinstance(phase.item, AgentPhase) and phase.item.on_error == name


def model_findings(model: str, path: Path) -> Iterator[Finding]:
    """What is wrong with the name of a model."""
    prefix, colon, name = model.partition(":")
    meant = slip_of(prefix) if colon else ""
    if meant and prefix != meant and name.strip():
        say = f"the model {model!r} has the prefix {prefix!r}."
        yield Finding(path, say, f"Did you mean {f'{meant}:{name}'!r}?")
    elif not _MODEL.fullmatch(model):
        say = f"the model {model!r} is neither PROVIDER:NAME nor scripted:FILE"
        plain = ":" not in model and model
        near = f"{provider_of(model)}:{model}" if plain else "openai:gpt-5-mini"
        yield Finding(path, say, f"For example: model: {near}")


def _models(definition: CrewDefinition) -> Iterator[Finding]:
    if definition.model is not None:
        yield from model_findings(definition.model, ("model",))
    for model, path in summary_models(definition):
        yield from model_findings(model, path)
    agents = definition.agents.items()
    without = [name for name, agent in agents if agent.model is None and not agent.does]
    if definition.model is None and without:
        yield Finding(
            ("agents", without[0], "model"),
            f"agent {without[0]!r} has no model, and the crew has none"
            if len(without) == 1
            else f"the agents {listed(map(repr, without))} have no model, and the crew has none",
            "Add a line for the whole crew: model: openai:gpt-5-mini",
        )


def _placements(tools: Mapping[str, ToolDefinition]) -> Iterator[Finding]:
    """A local tool may run again with its workflow task, and runs where the workflow does."""
    for name, tool in tools.items():
        if tool.placed != "local":
            continue
        path: Path = ("tools", name, "placed")
        if tool.effects != "read":
            say = f"the tool {name!r} is placed local, and its effects are {tool.effects!r}"
            yield Finding(path, say, "Only a tool with 'effects: read' may be placed local.")
        if tool.queue is not None:
            say = f"the tool {name!r} is placed local, and on the queue {tool.queue!r}"
            yield Finding(path, say, "Remove one of the two: local is where the run's worker is.")


def _tools(
    agents: Mapping[str, AgentDefinition], tools: Mapping[str, ToolDefinition]
) -> Iterator[Finding]:
    for name, agent in agents.items():
        for i, tool in enumerate(agent.tools or ()):
            path: Path = ("agents", name, "tools", i)
            if tool in BUILT_IN_TOOLS:
                key = "writes_flags" if tool == "set_flag" else "outputs"
                say = f"agent {name!r} lists {tool!r}, which comes by itself"
                yield Finding(path, say, f"Name what it may set in its '{key}' instead.")
            elif tool in MEMORY_TOOLS and tool not in tools:
                way = tool.removeprefix("memory_")
                say = f"agent {name!r} lists {tool!r}, which comes by itself with 'memory:'"
                yield Finding(path, say, f"Give it a scope under 'memory.{way}' instead.")
            elif tool in SCRATCH_TOOLS and tool not in tools and agent.scratch is not None:
                say = f"agent {name!r} lists {tool!r}, which comes by itself with 'scratch:'"
                yield Finding(path, say, "Leave it out here.")
            elif tool not in tools:
                say = f"agent {name!r} uses the tool {tool!r}, which is not defined."
                yield Finding(path, say, f"{did_you_mean(tool, tools)} {_WHERE_TOOLS}".strip())
        if "text" in agent.outputs:
            path = ("agents", name, "outputs", agent.outputs.index("text"))
            say = f"agent {name!r} declares the output 'text', which is always there"
            yield Finding(path, say, "It is the agent's final message; choose another name.")


def _permissions(
    definition: CrewDefinition, key: Literal["permissions", "approvals"], one: str
) -> Iterator[Finding]:
    table = definition.permissions if key == "permissions" else definition.approvals
    for tool, named in table.items():
        if tool not in definition.callable_tools:
            say = f"{key} name the tool {tool!r}, which is not defined."
            where = "It comes with 'memory:'." if tool in MEMORY_TOOLS else _WHERE_TOOLS
            remedy = f"{did_you_mean(tool, definition.tools)} {where}".strip()
            yield Finding((key, tool), say, remedy, at="key")
        for i, name in enumerate(named or ()):
            if name not in definition.agents:
                say = f"the {one} for {tool!r} names the agent {name!r}, which is not defined."
                remedy = did_you_mean(name, definition.agents, "Agents are under 'agents:'.")
                yield Finding((key, tool, i), say, remedy)


def _paths(tools: Mapping[str, ToolDefinition]) -> Iterator[Finding]:
    for name, tool in tools.items():
        for i, folder in enumerate(tool.paths):
            if folder.startswith(("/", "~")) or ".." in folder.split("/") or not folder.strip():
                say = f"tool {name!r} may write to {folder!r}, which is outside the run's workspace"
                remedy = "Name folders inside the workspace, e.g. notes/."
                yield Finding(("tools", name, "paths", i), say, remedy)


def _undefined(found: list[Phase], definition: CrewDefinition) -> Iterator[Finding]:
    for phase in found:
        item = phase.item
        if not isinstance(item, AgentPhase):
            continue
        named = [("agent", item.agent)] if item.agent or item.by is None else []
        for key, name in [*named, *(("among", name) for name in item.among)]:
            if name not in definition.agents:
                say = f"the flow names the agent {name!r}, which is not defined."
                remedy = did_you_mean(name, definition.agents, "Agents are under 'agents:'.")
                at = (key, item.among.index(name)) if key == "among" else (key,)
                yield Finding((*phase.path, *at), say, remedy, word=name)


def _names_in_flow(
    definition: CrewDefinition, found: list[Phase], expanded: Expanded
) -> Iterator[Finding]:
    by_name: dict[str, Phase] = {}
    for phase in found:
        other = by_name.setdefault(phase.name, phase)
        if other is not phase:
            yield _same_name(phase, other, expanded)
    used = {*at_work(found)}
    slips = {suggestion(name, definition.agents) for name in used - definition.agents.keys()}
    for name in definition.agents if not definition.lives else ():
        if name not in used | slips:  # of a slip the slip alone is told
            say = f"agent {name!r} is in no phase of the flow"
            also = f", name it in {lists}" if (lists := lists_of_agents(expanded)) else ""
            remedy = f"Add '- {name}' under 'flow:'{also}, or remove it."
            yield Finding(("agents", name), say, remedy)


def _same_name(phase: Phase, other: Phase, expanded: Expanded) -> Finding:
    item = phase.item
    here, there = expanded.origin(phase.path), expanded.origin(other.path)
    made = [origin for origin in (here, there) if origin is not None and origin.use]
    if made:
        own = next((origin for origin in made if not origin.head), made[0])
        say = f"two phases are called {phase.name!r}: {own.part} makes one"
        others = [origin.part for origin in made if origin is not own]
        say += f", and {others[0]} makes one" if others else ", and the flow has one"
        remedy = "Name one of the two, e.g. phase: second"
        if own.use[:1] == ("flow",):
            remedy += f"; a part's phases are then called second.{phase.name}"
        return Finding((*phase.path, "phase"), say, f"{remedy}.")
    if isinstance(item, AgentPhase) and item.agent and item.phase in (None, item.agent):
        say = f"the agent {item.agent!r} is in the flow twice under one name"
        remedy = f"Name the phases, e.g. {{agent: {item.agent}, phase: {item.agent}_again}}."
        if isinstance(other.item, AgentPhase) and other.item.agent == item.agent:
            remedy += " To repeat it in a loop, use {if: …, go: …, at_most: …}."
        return Finding(phase.path, say, remedy)
    say = f"two phases are called {phase.name!r}"
    return Finding((*phase.path, "phase"), say, "Choose another name for one.")


def _phases(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """What a phase needs besides its agent: tools, and the list that it has a step for each of."""
    for phase in found:
        item = phase.item
        if isinstance(item, AskPhase) and item.shows is not None:
            yield from _shown(definition, phase, item.shows)
        if not isinstance(item, AgentPhase):
            continue
        for i, tool in enumerate(item.needs):
            if tool not in definition.tools:
                say = f"{phase.name!r} needs the tool {tool!r}, which is not defined."
                remedy = f"{did_you_mean(tool, definition.tools)} {_WHERE_TOOLS}".strip()
                yield Finding((*phase.path, "needs", i), say, remedy)
        yield from pool_findings(phase, item)
        if item.for_each is None:
            continue
        maker, _, key = item.for_each.partition(".")
        path = (*phase.path, "for_each")
        agent = definition.agents.get(maker)
        if agent is None:
            say = f"{phase.name!r} takes its list of the agent {maker!r}, which is not defined."
            remedy = did_you_mean(maker, definition.agents, "Agents are under 'agents:'.")
            yield Finding(path, say, remedy, word=maker)
        elif key not in outputs_of(agent):
            say = f"agent {maker!r} has no output {key!r}, the list of {phase.name!r}"
            remedy = did_you_mean(key, outputs_of(agent), f"Add it: outputs: [{key}].")
            yield Finding(path, say, remedy, word=item.for_each)


def _shown(definition: CrewDefinition, phase: Phase, shows: str) -> Iterator[Finding]:
    maker, _, key = shows.partition(".")
    agent = definition.agents.get(maker)
    outputs = (*outputs_of(agent), "text") if agent is not None else ()
    if key not in outputs:
        say = f"{phase.name!r} shows {shows!r}, and there is no such output"
        near = did_you_mean(key, outputs) or did_you_mean(maker, definition.agents)
        yield Finding((*phase.path, "shows"), say, near or "Write agent.output.", word=shows)


def _conditions(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    flags = set(definition.flags)
    flags.update(flag for agent in definition.agents.values() for flag in agent.writes_flags)
    flags.update(p.item.sets for p in found if isinstance(p.item, AskPhase) and p.item.sets)
    flags.update(counted_conflicts(definition))
    for phase in found:
        for key, condition in conditions_of(phase).items():
            yield from _facts(condition, (*phase.path, key), definition, flags)
    for i, rule in enumerate(definition.rules):
        if rule.if_ is not None:
            yield from _facts(rule.if_, ("rules", i, "if"), definition, flags)
    talk = definition.conversation
    for i, condition in enumerate(talk.ends_on if talk is not None else ()):
        yield from _facts(condition, ("conversation", "ends_on", i), definition, flags)


def _facts(
    condition: Condition, path: Path, definition: CrewDefinition, flags: Collection[str]
) -> Iterator[Finding]:
    for fact in facts_in(condition):
        if fact.agent is None:
            if fact.name not in flags:
                yield _unknown_flag(fact.name, path, definition, flags)
        elif (agent := definition.agents.get(fact.agent)) is None:
            say = f"the condition looks at the agent {fact.agent!r}, which is not defined."
            remedy = did_you_mean(fact.agent, definition.agents, "Agents are under 'agents:'.")
            yield Finding(path, say, remedy, word=fact.agent)
        elif fact.name not in (known := _said_of(agent)):
            if fact.name == "error" and fact.agent in keeping_errors(
                definition, phases(definition)
            ):
                continue
            say = f"agent {fact.agent!r} neither writes the flag {fact.name!r} nor has it as output"
            add = f"Add it to the agent's writes_flags or outputs, e.g. outputs: [{fact.name}]."
            remedy = did_you_mean(fact.name, known, add)
            yield Finding(path, say, remedy, word=f"{fact.agent}.{fact.name}")


def _said_of(agent: AgentDefinition) -> tuple[str, ...]:
    """What conditions may look at of an agent."""
    error = ("error",) if agent.on_error.failure == "continue" else ()
    return (*agent.writes_flags, *outputs_of(agent), "text", *error)


def _unknown_flag(
    name: str, path: Path, definition: CrewDefinition, flags: Collection[str]
) -> Finding:
    makers = [who for who, agent in definition.agents.items() if name in outputs_of(agent)]
    if makers:
        remedy = f"It is an output of {makers[0]!r}: write {makers[0]}.{name}."
    else:
        remedy = did_you_mean(
            name, flags, "Add it to an agent's writes_flags, or give it a value under 'flags:'."
        )
    return Finding(path, f"nobody writes the flag {name!r}", remedy, word=name)
