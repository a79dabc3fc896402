"""The state of the surviving run after a run merge.

    transferred_state(state)                 the part of the merged run that is transferred
    log_merges(state, part, names)           the logs that the surviving run gets
    merged_state_changes(state, part, names) what changes in the surviving run
    questions(part, names)                   the interrupts of the merged run, to be raised again

What belongs to an agent comes with it: its steps, the position inside its turn, its logs, outputs
and permissions. For what belongs to the whole run (run outputs, budgets, tags) the surviving run's
values are kept. Usage from before a split counts once: usage and quotas are the larger of both, if
the entry does not say what counts (`RemainingBudget`).
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
    ARTIFACT,
    PRIVATE,
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
    is_private_log,
    item_number,
    node_of,
    parent_or_self,
    private_log,
    step_id,
    step_of_log,
    visit_number,
)
from crewlog.ids import child_step_id as step_of_item
from crewlog.model import Json
from crewlog.state.command_outcomes import add_outcome, merged_filter
from crewlog.state.components import Rename
from crewlog.state.field_policy import fields_where
from crewlog.state.journal import LogMerge, RunMerged
from crewlog.state.model import CrewState, FrontierStep, Interrupt, Output, Routing
from crewlog.usage import Usage

_TRANSFERRED = fields_where(CrewState, lambda policy: policy.merge == "transferred")


def transferred_state(state: CrewState) -> dict[str, Json]:
    """The part of the merged run's state that is transferred, as JSON.

    Args:
        state: Its last state: no call is in flight.
    """
    return {key: value for key, value in state.to_json().items() if key in _TRANSFERRED}


class MergeNames(NamedTuple):
    """The names of the merged run's things in the surviving run."""

    renames: NewNames
    """The renames of its agents, channels and groups."""
    nodes: Mapping[NodeName, NodeName]
    """The nodes of its agents, by their former names: all nodes that are transferred."""
    merged_agents: frozenset[AgentName]
    """Its agents, by their new names."""
    visit_offsets: Mapping[NodeName, int]
    """By new node: the visit number in the surviving run, from which its visits are counted."""
    quotas: Mapping[str, str]
    """The new keys of renamed quotas, by their former keys."""

    @classmethod
    def of(cls, entry: RunMerged, visits: Mapping[NodeName, int]) -> MergeNames:
        """The names of a merge.

        Args:
            entry: The entry of the merge.
            visits: The visit numbers of the surviving run before it, by node.
        """
        return cls(
            renames=new_names(entry.renames),
            nodes=entry.nodes,
            merged_agents=frozenset(entry.merged_agents),
            visit_offsets={node: visits.get(node, 0) for node in entry.new_nodes},
            quotas=entry.quotas,
        )

    def step(self, step: StepId) -> StepId:
        """The id of a step."""
        if item := item_number(step):
            return step_of_item(self.step(parent_or_self(step)), item)
        node = node_of(step)
        now = self.nodes.get(node, node)
        return step_id(now, visit_number(step) + self.visit_offsets.get(now, 0))

    def agent(self, name: AgentName) -> AgentName:
        """The name of an agent."""
        return AgentName(self.renames.agent(name))

    def log(self, log: LogName) -> LogName:
        """The name of a log."""
        if is_private_log(log):
            if (step := step_of_log(log)) is not None:
                return child_step_log(self.step(step))
            return private_log(AgentName(self.renames.agent(log.removeprefix(PRIVATE))))
        if is_artifact(log):
            return artifact_log(self.renames.artifact(log.removeprefix(ARTIFACT)))
        return LogName(self.renames.log(log))

    def logs(self, logs: tuple[LogName, ...]) -> tuple[LogName, ...]:
        """The names of logs."""
        return tuple(map(self.log, logs))


def removed_agents(state: CrewState, agents: Collection[str]) -> tuple[str, ...]:
    """The removed agents of a run: its steps and logs still have their names.

    Args:
        state: The run.
        agents: The agents of its definition.
    """
    return tuple(sorted({*map(str, state.visits), *map(str, state.usage)} - {*agents}))


def artifact_heads(state: CrewState) -> dict[LogName, ContentHash]:
    """The heads of the logs of a run's artifacts."""
    return {log: found.head for log, found in state.messages.items() if is_artifact(log)}


def new_names(renamed: Iterable[Rename]) -> NewNames:
    """The names after some renames."""
    kinds: dict[str, dict[str, str]] = {"agent": {}, "channel": {}, "group": {}}
    for each in renamed:
        kinds[each.kind][each.was] = each.now
    return NewNames(kinds["agent"], kinds["channel"], kinds["group"])


def artifact_conflict(one: RunId, two: RunId, names: Sequence[str]) -> ComponentConflict:
    """The error for artifacts that both runs changed.

    Args:
        one: The surviving run.
        two: The merged run.
        names: The artifacts, by their names in the surviving run.
    """
    several = "s" * (len(names) > 1)
    return ComponentConflict(
        f"the runs {one!r} and {two!r} have both changed the artifact{several} "
        f"{', '.join(map(repr, names))} since their split: operations have one order only",
        remedy="Roll one of the two back to before its changes (`crewlog rollback`), or give the "
        f"artifact{several} another name in one of them (`artifacts`), and retry.",
    )


def log_merges(
    state: CrewState,
    merged: CrewState,
    names: MergeNames,
    shared_heads: Mapping[LogName, ContentHash] = MappingProxyType({}),
) -> tuple[LogMerge, ...]:
    """The logs that the surviving run gets: new ones, and those that both runs extend.

    How many messages both have from before a split is not known: the length of a merged log counts
    them twice. An artifact that only one run has changed since then continues as that run has it.

    Args:
        state: The surviving run.
        merged: The last state of the merged run.
        names: Its new names.
        shared_heads: Of artifacts that both have: the head that is in the other run's log, too.

    Raises:
        ComponentConflict: both have changed an artifact, whose operations have one order only.
    """
    result: list[LogMerge] = []
    for was, theirs in sorted(merged.messages.items()):
        log = names.log(was)
        mine = state.messages.get(log)
        if mine is not None and mine.head == theirs.head:
            continue
        if mine is not None and is_artifact(log):
            shared_head = shared_heads.get(log)
            if shared_head == theirs.head:
                continue  # this run alone changed it
            if shared_head != mine.head:
                raise artifact_conflict(state.run, merged.run, [log.removeprefix(ARTIFACT)])
            more = max(theirs.length - mine.length, 0)
            result.append(LogMerge(log=log, two=theirs.head, more=more))
            continue
        one = mine.head if mine is not None else ContentHash("")
        result.append(LogMerge(log=log, one=one, two=theirs.head, more=theirs.length))
    return tuple(result)


def merged_interrupts(merged: CrewState, names: MergeNames) -> tuple[Interrupt, ...]:
    """The open interrupts about transferred steps, with the ids of the merged run.

    Interrupts about that run as a whole are dropped.
    """
    return tuple(
        interrupt.model_copy(update={"step": names.step(interrupt.step)})
        for interrupt in merged.interrupts.values()
        if interrupt.step is not None and node_of(interrupt.step) in names.nodes
    )


def merged_steps(merged: CrewState, names: MergeNames) -> dict[StepId, FrontierStep]:
    """The transferred steps of the merged run's frontier, by their new ids."""
    return _renamed_steps(merged.frontier, names)


def dropped_steps(entry: RunMerged) -> tuple[StepId, ...]:
    """The steps of the merged run that are not transferred: those of removed agents.

    Args:
        entry: The entry of the merge.
    """
    steps = {
        **entry.merged_state.get("frontier", {}),
        **entry.merged_state.get("detached_steps", {}),
    }
    return tuple(StepId(step) for step, found in steps.items() if found["node"] not in entry.nodes)


def merged_state_changes(state: CrewState, merged: CrewState, names: MergeNames) -> dict[str, Any]:
    """What a merge changes in the state of the surviving run.

    The entry itself merges logs, and interrupts are raised again after it.

    Args:
        state: The surviving run, right before the entry.
        merged: The last state of the merged run.
        names: Its new names.
    """
    frontier = {**state.frontier, **merged_steps(merged, names)}
    commands, older = state.commands, merged_filter(state.older_commands, merged.older_commands)
    for command, outcome in merged.commands.items():
        if not command.startswith(RESERVED) and command not in commands:
            commands, older = add_outcome(commands, older, command, outcome)
    return {
        "frontier": frontier,
        "detached_steps": {**state.detached_steps, **_renamed_steps(merged.detached_steps, names)},
        "visits": merged_visit_numbers(state.visits, merged, names),
        "routing": _merged_routing(state.routing, merged.routing, names),
        "former_names": _former_log_names(state, merged, names),
        "agent_outputs": _merged_outputs(state, merged, names),
        "flags": {**merged.flags, **state.flags},
        "flag_positions": {
            **{f: at for f, at in merged.flag_positions.items() if f not in state.flags},
            **state.flag_positions,
        },
        "live_permissions": _permissions(state, merged, names),
        "quotas": _maximum_counts(
            state.quotas, {names.quotas.get(key, key): n for key, n in merged.quotas.items()}
        ),
        "shared_context": {**merged.shared_context, **state.shared_context},
        "private_context": _private_context(state, merged, names),
        "breakpoints": tuple(
            dict.fromkeys(
                (
                    *state.breakpoints,
                    *(names.nodes[n] for n in merged.breakpoints if n in names.nodes),
                )
            )
        ),
        "commands": commands,
        "older_commands": older,
        "usage": _merged_usage(state, merged, names),
        "added_budgets": _maximum_counts(state.added_budgets, merged.added_budgets),
        "idle": None if frontier else state.idle,
    }


# -- steps -----------------------------------------------------------------------------------


def _renamed_steps(
    steps: Mapping[StepId, FrontierStep], names: MergeNames
) -> dict[StepId, FrontierStep]:
    return {
        names.step(step): _renamed_step(step_, names)
        for step, step_ in steps.items()
        if step_.node in names.nodes
    }


def _renamed_step(entry: FrontierStep, names: MergeNames) -> FrontierStep:
    waking_message, progress, redirect = entry.waking_message, entry.child_steps, entry.redirect
    if progress is not None:
        new_id = names.step(entry.step)
        progress = progress.model_copy(
            update={
                "former_steps": progress.former_steps
                if new_id == entry.step
                else (*progress.former_steps, entry.step),
                "logs": names.logs(progress.logs),
                "agents": tuple(map(names.agent, progress.agents)),
                "elements": tuple(
                    each.model_copy(update={"logs": names.logs(each.logs)})
                    for each in progress.elements
                ),
            }
        )
    return entry.model_copy(
        update={
            "step": names.step(entry.step),
            "parent": entry.parent and names.step(entry.parent),
            "node": names.nodes[entry.node],
            "waking_message": waking_message
            and waking_message.model_copy(update={"log": names.log(waking_message.log)}),
            "turn": entry.turn
            and entry.turn.with_renamed_entries(partial(_renamed_entry, names=names)),
            "child_steps": progress,
            "redirect": redirect and names.nodes.get(redirect, redirect),
        }
    )


def _renamed_entry(entry: Mapping[str, Json], names: MergeNames) -> dict[str, Json]:
    """An entry of a buffered completion, as JSON, with the new names."""
    renamed = dict(entry)
    if step := renamed.get("step"):
        renamed["step"] = names.step(StepId(step))
    if agent := renamed.get("agent"):
        renamed["agent"] = names.agent(AgentName(agent))
    if logs := renamed.get("logs"):
        renamed["logs"] = [names.log(LogName(log)) for log in logs]
    if ref := renamed.get("ref"):
        renamed["ref"] = {**ref, "logs": [names.log(LogName(log)) for log in ref["logs"]]}
    return renamed


def merged_visit_numbers(
    visits: Mapping[NodeName, int], merged: CrewState, names: MergeNames
) -> dict[NodeName, int]:
    """The visit numbers by node, including those of the merged run."""
    visits = dict(visits)
    for was, now in names.nodes.items():
        number = merged.visits.get(was, 0) + names.visit_offsets.get(now, 0)
        if number:
            visits[now] = max(visits.get(now, 0), number)
    return visits


def _merged_routing(mine: Routing, theirs: Routing, names: MergeNames) -> Routing:
    """The completed steps by node. Nothing else leads to the transferred nodes or follows them."""
    completed = dict(mine.completed)
    for was, now in names.nodes.items():
        if count := theirs.completed.get(was, 0):
            before = completed.get(now, 0)
            completed[now] = before + count if now in names.visit_offsets else max(before, count)
    return mine.model_copy(update={"completed": completed})


# -- logs and values -------------------------------------------------------------------------


def _former_log_names(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[LogName, tuple[LogName, ...]]:
    """The former names of logs."""
    result = dict(state.former_names)
    for was in part.messages:
        log = names.log(was)
        former = (*((was,) if was != log else ()), *part.former_names.get(was, ()))
        if former:
            result[log] = tuple(dict.fromkeys((*result.get(log, ()), *former)))
    return result


def _merged_outputs(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[AgentName, dict[str, Output]]:
    """The outputs by agent; of the merged run's agents, those that it has."""
    result = dict(state.agent_outputs)
    for was, outputs in part.agent_outputs.items():
        agent = names.agent(was)
        if agent in names.merged_agents or agent not in result:
            result[agent] = {key: _renamed_output(output, names) for key, output in outputs.items()}
    return result


def _renamed_output(output: Output, names: MergeNames) -> Output:
    elements = tuple(
        element.model_copy(update={"logs": names.logs(element.logs)}) if element.logs else element
        for element in output.elements
    )
    return output.model_copy(update={"logs": names.logs(output.logs), "elements": elements})


def _private_context(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[str, dict[str, Json]]:
    """Small values by audience; of the merged run's agents, those that it has."""
    prefix = "agent:"
    result = dict(state.private_context)
    for was, values in part.private_context.items():
        agent = was.removeprefix(prefix)
        to = prefix + names.renames.agent(agent) if agent != was else names.renames.member(was)
        is_transferred = agent != was and to.removeprefix(prefix) in names.merged_agents
        present = {} if is_transferred else result.get(to, {})
        result[to] = {**values, **present}
    return result


# -- permissions and usage -------------------------------------------------------------------


def _permissions(
    state: CrewState, part: CrewState, names: MergeNames
) -> dict[str, dict[str, LivePermission]]:
    """The permissions of both runs; for the merged run's agents, the stricter ones."""
    result = {tool: dict(row) for tool, row in state.live_permissions.items()}
    former_names = {now: was for was, now in names.renames.agents.items()}
    for tool, row in part.live_permissions.items():
        own: dict[str, LivePermission] = result.get(tool, {})
        additions: dict[str, LivePermission] = {}
        for agent in sorted(names.merged_agents):
            theirs = _permission_of(row, former_names.get(agent, agent))
            mine = _permission_of(own, agent)
            if theirs is not None and (mine is None or STRICTNESS[theirs] > STRICTNESS[mine]):
                additions[agent] = theirs
        if additions:
            result[tool] = {**own, **additions}
    return result


def _permission_of(row: Mapping[str, LivePermission], agent: str) -> LivePermission | None:
    """The permission of an agent for a tool."""
    return row[agent] if agent in row else row.get(EVERYONE)


def _maximum_counts(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: max(each[key] for each in (one, two) if key in each)
        for key in dict.fromkeys((*one, *two))
    }


def _merged_usage(state: CrewState, part: CrewState, names: MergeNames) -> dict[AgentName, Usage]:
    """The usage by agent: where both runs have one, they share that from before a split."""
    result = dict(state.usage)
    for was, theirs in part.usage.items():
        agent = names.agent(was)
        mine = result.get(agent)
        result[agent] = theirs if mine is None else _maximum_usage(mine, theirs)
    return result


def _maximum_usage(one: Usage, two: Usage) -> Usage:
    return Usage(
        calls=max(one.calls, two.calls),
        tool_calls=max(one.tool_calls, two.tool_calls),
        input_tokens=max(one.input_tokens, two.input_tokens),
        output_tokens=max(one.output_tokens, two.output_tokens),
        cost=max(one.cost, two.cost),
        unpriced=one.unpriced or two.unpriced,
    )
