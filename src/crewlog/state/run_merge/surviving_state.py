"""Uniting: what a run's state is once it has taken in what another run was.

    part_of(state)                  of the run that joins: what is taken over
    log_joins(state, part, names)   the logs that both have, or that come
    gone_from(state, agents)        whose names nobody gets who comes
    both_changed(one, two, names)   why there is no merge where both went on with an artifact
    union(state, part, names)       what is otherwise in the run that stays
    questions(part, names)          what was asked there, to be asked anew here

What belongs to a creature comes with it: its visits, the position inside its turn, its logs, its
outputs, what people ruled of it. Of what is said of the crew as a whole (flags, budgets, tags) the
surviving run's word holds. What is used counts once where both have it from before a split: so
usage and quotas are the larger of both, where the fact does not say what counts
(`RemainingBudget`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from crewlog.authority.permissions import EVERYONE, STRICTNESS, LivePermission
from crewlog.definition.renaming import NewNames
from crewlog.errors import ComponentConflict
from crewlog.ids import (
    RESERVED,
    AgentName,
    ContentHash,
    LogName,
    NodeName,
    RunId,
    StepId,
    artifact_log,
    child_step_log,
    is_artifact,
    item_number,
    node_of,
    step_id,
    visit_of,
)
from crewlog.ids import child_step_id as step_of_item
from crewlog.model import Json
from crewlog.state.command_outcomes import merged_filter, remember
from crewlog.state.components import Rename
from crewlog.state.field_policy import fields_where
from crewlog.state.journal import LogMerge, RunMerged
from crewlog.state.model import CrewState, FrontierStep, Interrupt, Output, Routing
from crewlog.usage import Usage

PRIVATE = "private:"
_ARTIFACT = "artifact:"
_TRANSFERRED = fields_where(CrewState, lambda policy: policy.merge == "transferred")


def transferred_state(state: CrewState) -> dict[str, Json]:
    """What is taken over of a run that joins another one, as JSON.

    Args:
        state: Its last state: none of its calls is under way.
    """
    return {key: value for key, value in state.to_json().items() if key in _TRANSFERRED}


class MergeNames(NamedTuple):
    """What the things of a run that joins are called in the one that stays."""

    called: NewNames
    """Its agents, channels and groups."""
    nodes: Mapping[NodeName, NodeName]
    """Where its creatures hear, by where they did: all of its nodes that are taken over."""
    comes: frozenset[AgentName]
    """Those who come, as they are called now."""
    first: Mapping[NodeName, int]
    """By node of now: how many visits it had, from which those that come are counted on."""
    quotas: Mapping[str, str]
    """Keys of quotas that are called otherwise."""

    @classmethod
    def of(cls, entry: RunMerged, visits: Mapping[NodeName, int]) -> MergeNames:
        """The names that a merge says.

        Args:
            entry: What the run that stays records.
            visits: The visits that it had by then, by node.
        """
        return cls(
            called=new_names(entry.renames),
            nodes=entry.nodes,
            comes=frozenset(entry.merged_agents),
            first={node: visits.get(node, 0) for node in entry.new_nodes},
            quotas=entry.quotas,
        )

    def step(self, step: StepId) -> StepId:
        """A visit, or an item's step."""
        if item := item_number(step):
            return step_of_item(self.step(visit_of(step)), item)
        node = node_of(step)
        now = self.nodes.get(node, node)
        return step_id(now, int(step.rpartition("#")[2]) + self.first.get(now, 0))

    def agent(self, name: AgentName) -> AgentName:
        """An agent."""
        return AgentName(self.called.agent(name))

    def log(self, log: LogName) -> LogName:
        """A log."""
        if log.startswith(PRIVATE):
            own = log.removeprefix(PRIVATE)
            if "#" in own:
                return child_step_log(self.step(StepId(own)))
            return LogName(PRIVATE + self.called.agent(own))
        if is_artifact(log):
            return artifact_log(self.called.artifact(log.removeprefix(_ARTIFACT)))
        return LogName(self.called.log(log))

    def logs(self, logs: tuple[LogName, ...]) -> tuple[LogName, ...]:
        """Several."""
        return tuple(map(self.log, logs))


def removed_agents(state: CrewState, agents: Collection[str]) -> tuple[str, ...]:
    """The agents that a run had and that were removed: its turns and logs have their names still.

    Args:
        state: The run.
        agents: The agents that its crew has.
    """
    return tuple(sorted({*map(str, state.visits), *map(str, state.usage)} - {*agents}))


def artifact_heads(state: CrewState) -> dict[LogName, ContentHash]:
    """The heads of the logs of a run's artifacts."""
    return {log: found.head for log, found in state.messages.items() if is_artifact(log)}


def new_names(renamed: Iterable[Rename]) -> NewNames:
    """The new names that a merge gives."""
    kinds: dict[str, dict[str, str]] = {"creature": {}, "channel": {}, "group": {}}
    for each in renamed:
        kinds[each.kind][each.was] = each.now
    return NewNames(kinds["creature"], kinds["channel"], kinds["group"])


def artifact_conflict(one: RunId, two: RunId, names: Sequence[str]) -> ComponentConflict:
    """The error for artifacts that two runs went on with side by side.

    Args:
        one: The run that stays.
        two: The run that joins.
        names: The artifacts, as the run that stays calls them.
    """
    several = "s" * (len(names) > 1)
    return ComponentConflict(
        f"the runs {one!r} and {two!r} have both changed the artifact{several} "
        f"{', '.join(map(repr, names))} since they were one: operations have one order only",
        remedy="Roll one of the two back to before it did (`crewlog rollback`), or give the "
        f"artifact{several} another name in one of them (`artifacts`), and ask again.",
    )


def log_merges(
    state: CrewState,
    part: CrewState,
    names: MergeNames,
    behind: Mapping[LogName, ContentHash] = MappingProxyType({}),
) -> tuple[LogMerge, ...]:
    """The logs that a run gets: those that only the other one has, and those that both go on with.

    How many messages both have from before a split is not known: a joined log's length is too large
    by those. An artifact that one side alone has changed since then goes on as that side has it.

    Args:
        state: The run that stays.
        part: The last state of the run that joins.
        names: What it called otherwise.
        behind: Of artifacts that both have: the head that is in the other one's log. It stays so
            while that one goes on, so it holds where either head is that one still.

    Raises:
        ComponentConflict: both have changed an artifact, whose operations have one order only.
    """
    found: list[LogMerge] = []
    for was, theirs in sorted(part.messages.items()):
        log = names.log(was)
        mine = state.messages.get(log)
        if mine is not None and mine.head == theirs.head:
            continue
        if mine is not None and is_artifact(log):
            older = behind.get(log)
            if older == theirs.head:
                continue  # this run alone went on with it
            if older != mine.head:
                raise artifact_conflict(state.run, part.run, [log.removeprefix(_ARTIFACT)])
            more = max(theirs.length - mine.length, 0)
            found.append(LogMerge(log=log, two=theirs.head, more=more))
            continue
        one = mine.head if mine is not None else ContentHash("")
        found.append(LogMerge(log=log, one=one, two=theirs.head, more=theirs.length))
    return tuple(found)


def questions(part: CrewState, names: MergeNames) -> tuple[Interrupt, ...]:
    """The questions that are open about steps that come, with the ids that they had there.

    What was asked of that run as a whole is no matter any more.
    """
    return tuple(
        asked.model_copy(update={"step": names.step(asked.step)})
        for asked in part.interrupts.values()
        if asked.step is not None and node_of(visit_of(asked.step)) in names.nodes
    )


def merged_steps(part: CrewState, names: MergeNames) -> dict[StepId, FrontierStep]:
    """The steps of a run's frontier that a run takes over with it, as they are called there."""
    return _steps(part.frontier, names)


def dropped_steps(entry: RunMerged) -> tuple[StepId, ...]:
    """The turns of a run that a run does not take over with it: of those who were removed there.

    Args:
        entry: What the run that stays records.
    """
    steps = {
        **entry.merged_state.get("frontier", {}),
        **entry.merged_state.get("detached_steps", {}),
    }
    return tuple(StepId(step) for step, found in steps.items() if found["node"] not in entry.nodes)


def merged_state_changes(state: CrewState, part: CrewState, names: MergeNames) -> dict[str, Any]:
    """What is otherwise in a run that takes in another one, as a change of its state.

    Logs are joined by the fact itself, and questions are asked anew after it.

    Args:
        state: The run that stays, right before it.
        part: The last state of the run that joins.
        names: What it called otherwise.
    """
    frontier = {**state.frontier, **merged_steps(part, names)}
    commands, older = state.commands, merged_filter(state.older_commands, part.older_commands)
    for command, outcome in part.commands.items():
        if not command.startswith(RESERVED) and command not in commands:
            commands, older = remember(commands, older, command, outcome)
    return {
        "frontier": frontier,
        "detached_steps": {**state.detached_steps, **_steps(part.detached_steps, names)},
        "visits": merged_visit_numbers(state.visits, part, names),
        "routing": _routing(state.routing, part.routing, names),
        "former_names": _former_log_names(state, part, names),
        "agent_outputs": _outputs(state, part, names),
        "flags": {**part.flags, **state.flags},
        "flag_positions": {
            **{f: at for f, at in part.flag_positions.items() if f not in state.flags},
            **state.flag_positions,
        },
        "live_permissions": _rulings(state, part, names),
        "quotas": _maximum_counts(
            state.quotas, {names.quotas.get(key, key): n for key, n in part.quotas.items()}
        ),
        "shared_context": {**part.shared_context, **state.shared_context},
        "private_context": _private(state, part, names),
        "breakpoints": tuple(
            dict.fromkeys(
                (
                    *state.breakpoints,
                    *(names.nodes[n] for n in part.breakpoints if n in names.nodes),
                )
            )
        ),
        "commands": commands,
        "older_commands": older,
        "usage": _usage(state, part, names),
        "added_budgets": _maximum_counts(state.added_budgets, part.added_budgets),
        "idle": None if frontier else state.idle,
    }


# -- steps -----------------------------------------------------------------------------------


def _steps(entries: Mapping[StepId, FrontierStep], names: MergeNames) -> dict[StepId, FrontierStep]:
    return {
        names.step(step): _step(entry, names)
        for step, entry in entries.items()
        if entry.node in names.nodes
    }


def _step(entry: FrontierStep, names: MergeNames) -> FrontierStep:
    heard, mapped, redirect = entry.waking_message, entry.child_steps, entry.redirect
    if mapped is not None:
        now = names.step(entry.step)
        mapped = mapped.model_copy(
            update={
                "former_steps": mapped.former_steps
                if now == entry.step
                else (*mapped.former_steps, entry.step),
                "logs": names.logs(mapped.logs),
                "agents": tuple(map(names.agent, mapped.agents)),
                "elements": tuple(
                    each.model_copy(update={"logs": names.logs(each.logs)})
                    for each in mapped.elements
                ),
            }
        )
    return entry.model_copy(
        update={
            "step": names.step(entry.step),
            "parent": entry.parent and names.step(entry.parent),
            "node": names.nodes[entry.node],
            "waking_message": heard and heard.model_copy(update={"log": names.log(heard.log)}),
            "turn": entry.turn and entry.turn.with_renamed_entries(partial(_fact, names=names)),
            "child_steps": mapped,
            "redirect": redirect and names.nodes.get(redirect, redirect),
        }
    )


def _fact(fact: Mapping[str, Json], names: MergeNames) -> dict[str, Json]:
    """An entry to be, as JSON, by the names of now."""
    made = dict(fact)
    if step := made.get("step"):
        made["step"] = names.step(StepId(step))
    if agent := made.get("agent"):
        made["agent"] = names.agent(AgentName(agent))
    if logs := made.get("logs"):
        made["logs"] = [names.log(LogName(log)) for log in logs]
    if ref := made.get("ref"):
        made["ref"] = {**ref, "logs": [names.log(LogName(log)) for log in ref["logs"]]}
    return made


def merged_visit_numbers(
    visits: Mapping[NodeName, int], part: CrewState, names: MergeNames
) -> dict[NodeName, int]:
    """How many visits there were by node, with those that come."""
    visits = dict(visits)
    for was, now in names.nodes.items():
        begun = part.visits.get(was, 0) + names.first.get(now, 0)
        if begun:
            visits[now] = max(visits.get(now, 0), begun)
    return visits


def _routing(mine: Routing, theirs: Routing, names: MergeNames) -> Routing:
    """How often those who come were done: nothing else leads to them, or follows."""
    done = dict(mine.completed)
    for was, now in names.nodes.items():
        if times := theirs.completed.get(was, 0):
            before = done.get(now, 0)
            done[now] = before + times if now in names.first else max(before, times)
    return mine.model_copy(update={"completed": done})


# -- logs and values -------------------------------------------------------------------------


def _former_log_names(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[LogName, tuple[LogName, ...]]:
    """The names that logs had before."""
    found = dict(state.former_names)
    for was in part.messages:
        log = names.log(was)
        before = (*((was,) if was != log else ()), *part.former_names.get(was, ()))
        if before:
            found[log] = tuple(dict.fromkeys((*found.get(log, ()), *before)))
    return found


def _outputs(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[AgentName, dict[str, Output]]:
    """The outputs by agent: of those who come, what they set last."""
    found = dict(state.agent_outputs)
    for was, outputs in part.agent_outputs.items():
        agent = names.agent(was)
        if agent in names.comes or agent not in found:
            found[agent] = {key: _output(output, names) for key, output in outputs.items()}
    return found


def _output(output: Output, names: MergeNames) -> Output:
    parts = tuple(
        part.model_copy(update={"logs": names.logs(part.logs)}) if part.logs else part
        for part in output.elements
    )
    return output.model_copy(update={"logs": names.logs(output.logs), "elements": parts})


def _private(state: CrewState, part: CrewState, names: MergeNames) -> dict[str, dict[str, Json]]:
    """Small values by audience: of those who come, their own as they were."""
    own = "agent:"
    found = dict(state.private_context)
    for was, values in part.private_context.items():
        agent = was.removeprefix(own)
        to = own + names.called.agent(agent) if agent != was else names.called.member(was)
        comes = agent != was and to.removeprefix(own) in names.comes
        there = {} if comes else found.get(to, {})
        found[to] = {**values, **there}
    return found


# -- who may do what, and what is used -------------------------------------------------------


def _rulings(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[str, dict[str, LivePermission]]:
    """What people ruled in either run: of those who come, the stricter where both say something."""
    found = {tool: dict(row) for tool, row in state.live_permissions.items()}
    before = {now: was for was, now in names.called.agents.items()}
    for tool, row in part.live_permissions.items():
        here: dict[str, LivePermission] = found.get(tool, {})
        more: dict[str, LivePermission] = {}
        for agent in sorted(names.comes):
            ruled = _ruled(row, before.get(agent, agent))
            known = _ruled(here, agent)
            if ruled is not None and (known is None or STRICTNESS[ruled] > STRICTNESS[known]):
                more[agent] = ruled
        if more:
            found[tool] = {**here, **more}
    return found


def _ruled(row: Mapping[str, LivePermission], agent: str) -> LivePermission | None:
    """What a tool's rulings say of an agent."""
    return row[agent] if agent in row else row.get(EVERYONE)


def _maximum_counts(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: max(each[key] for each in (one, two) if key in each)
        for key in dict.fromkeys((*one, *two))
    }


def _usage(state: CrewState, part: CrewState, names: MergeNames) -> dict[AgentName, Usage]:
    """What each agent used: where both count it, both do from before they parted."""
    found = dict(state.usage)
    for was, theirs in part.usage.items():
        agent = names.agent(was)
        mine = found.get(agent)
        found[agent] = theirs if mine is None else _most(mine, theirs)
    return found


def _most(one: Usage, two: Usage) -> Usage:
    return Usage(
        calls=max(one.calls, two.calls),
        tool_calls=max(one.tool_calls, two.tool_calls),
        input_tokens=max(one.input_tokens, two.input_tokens),
        output_tokens=max(one.output_tokens, two.output_tokens),
        cost=max(one.cost, two.cost),
        unpriced=one.unpriced or two.unpriced,
    )
