"""How changes of a live run change the state."""

from __future__ import annotations

from crewlog.authority.permissions import with_live_permission, without_milder_permissions
from crewlog.canonical_json import canonical
from crewlog.ids import ContentHash, NodeName
from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.fold.handlers import REASON_LENGTH, Changes, Frontier, handles, with_item
from crewlog.state.fold.step import add_steps
from crewlog.state.frontier import with_queued_steps
from crewlog.state.live_permissions import agent_permission_change, tool_permission_change
from crewlog.state.model import (
    ChangedPermission,
    ChangeRecord,
    CrewState,
    FrontierStep,
    PendingChange,
)

CHANGES_KEPT = 100
"""The most changes that the state keeps; the journal has all of them."""

CHANGES_BYTES = 3 * 1024
"""The most bytes of JSON of these changes, unless there is only one: every execution carries
them."""

PERMISSION_REASON_LENGTH = 200
"""The same for the reason of a permission: it must not displace older changes."""


@handles(j.ChangeAccepted)
def _fold_change_accepted(_state: CrewState, entry: j.ChangeAccepted, position: int) -> Changes:
    change = PendingChange(
        command=entry.command or "",
        graph_version=entry.graph_version,
        definition=entry.definition,
        what=entry.what,
        by=entry.by,
        position=position,
        abandon=entry.abandon,
        nodes=entry.nodes,
        basis=entry.basis,
    )
    return {"pending_change": change}


@handles(j.SwapFailed)
def _fold_swap_failed(_state: CrewState, _entry: j.SwapFailed, _position: int) -> Changes:
    return {"pending_change": None}


RecordedChange = (
    j.DefinitionChanged
    | j.GraphReplacement
    | j.ToolPermissionSet
    | j.AgentPermissionSet
    | j.RunRolledBack
)
"""The entries that change a live run, and are listed among its changes."""


def with_change_record(
    state: CrewState,
    entry: RecordedChange,
    position: int,
    what: str,
    *,
    version: int | None = None,
    definition: ContentHash | None = None,
    reason: str = "",
    permission: ChangedPermission | None = None,
) -> tuple[ChangeRecord, ...]:
    """The last changes of a run with one more.

    Args:
        state: The run before it.
        entry: The entry that changes it.
        position: The position of the entry.
        what: What it changes, for people.
        version: The graph version after it; none: unchanged.
        definition: The definition after it; none: unchanged.
        reason: The reason, if the run reports it later.
        permission: The permission that it sets, if it sets one.
    """
    earlier = state.changes
    record = ChangeRecord(
        position=position,
        at=entry.at,
        by=entry.by,
        what=excerpt(what, REASON_LENGTH),
        graph_version=state.graph_version if version is None else version,
        definition=state.definition if definition is None else definition,
        number=(earlier[-1].number if earlier else 0) + 1,
        reason=excerpt(reason, PERMISSION_REASON_LENGTH),
        permission=permission,
    )
    records = [*earlier, record][-CHANGES_KEPT:]
    while (
        len(records) > 1 and sum(len(canonical(each.to_json())) for each in records) > CHANGES_BYTES
    ):
        del records[0]
    return tuple(records)


def _definition_changes(
    state: CrewState, entry: j.GraphReplacement | j.DefinitionChanged, version: int, position: int
) -> Changes:
    """What a new definition changes besides the graph."""
    return {
        "crew": entry.crew,
        "definition": entry.definition,
        "basis": entry.basis,
        "tool_permissions": dict(entry.permissions),
        "flags": {**entry.flags, **state.flags},
        "coordination_rules": entry.coordination_rules,
        "changes": with_change_record(
            state, entry, position, entry.what, version=version, definition=entry.definition
        ),
    }


@handles(j.DefinitionChanged)
def _fold_definition_changed(
    state: CrewState, entry: j.DefinitionChanged, position: int
) -> Changes:
    changes = _definition_changes(state, entry, state.graph_version, position)
    if state.pending_change is not None and entry.pending_definition:
        definition = {"definition": entry.pending_definition}
        changes["pending_change"] = state.pending_change.model_copy(update=definition)
    return changes


@handles(j.GraphSwapped)
def replace_graph(state: CrewState, entry: j.GraphReplacement, position: int) -> Changes:
    """The changes of a new graph: its definition, and what becomes of each step."""
    remap, firings = entry.remap, dict(state.routing.firings)
    frontier, detached = _with_moved_steps(state, remap, firings)
    visits = dict(state.visits)
    for step in remap.retracted:
        node = frontier.pop(step).node
        visits[node] -= 1
        firings[node] -= 1
    for step, requirement in remap.requirements.items():
        current = frontier[step]
        status = current.status
        if status in ("ready", "waiting"):
            status = "waiting" if requirement else "ready"
        changes = {"requirement": requirement, "status": status, "since": position, "deadline": 0}
        frontier[step] = current.model_copy(update=changes)
    for reached in remap.reached:
        firings[reached.node] = firings.get(reached.node, 0) + 1
    by_join = {reached.node for reached in remap.reached}
    add_steps(frontier, visits, remap.reached, position, by_join=by_join, by_change=True)
    add_steps(frontier, visits, remap.replaced, position)
    arrivals = dict(state.routing.arrivals)
    for node in {*remap.passed} ^ {*state.routing.passed}:
        arrivals[node] = arrivals.get(node, 0) + (1 if node in remap.passed else -1)
    routing = state.routing.model_copy(
        update={
            "arrivals": arrivals,
            "passed": remap.passed,
            "generations": {**state.routing.generations, **remap.generations},
            "firings": {node: count for node, count in firings.items() if count},
        }
    )
    return {
        **_definition_changes(state, entry, entry.graph_version, position),
        "graph_version": entry.graph_version,
        "pending_change": None,
        "frontier": with_queued_steps(frontier, position),
        "detached_steps": detached,
        "visits": {node: count for node, count in visits.items() if count},
        "routing": routing,
    }


def _with_moved_steps(
    state: CrewState, remap: j.Remap, firings: dict[NodeName, int]
) -> tuple[Frontier, Frontier]:
    """The frontier and the detached steps after steps were detached or reattached."""
    frontier, detached = dict(state.frontier), dict(state.detached_steps)

    def count(step: FrontierStep, change: int) -> None:
        if step.by_join:
            firings[step.node] = max(0, firings.get(step.node, 0) + change)

    for step in remap.detached_turns:
        count(frontier[step], -1)
        changes = {"is_detached": True, "definition": state.definition}
        frontier[step] = frontier[step].model_copy(update=changes)
    for step in remap.detached:
        current = frontier.pop(step)
        count(current, 0 if current.is_detached else -1)
        changes = {"is_detached": False, "definition": current.definition or state.definition}
        detached[step] = current.model_copy(update=changes)
    for step in remap.reattached:
        current = detached.pop(step) if step in detached else frontier[step]
        count(current, 1)
        changes = {"is_detached": False, "definition": ContentHash("")}
        frontier[step] = current.model_copy(update=changes)
    return frontier, detached


@handles(j.ToolPermissionSet)
def _fold_tool_permission_set(
    state: CrewState, entry: j.ToolPermissionSet, position: int
) -> Changes:
    what = tool_permission_change(entry.tool, entry.agents)
    permission = ChangedPermission(tool=entry.tool, agents=entry.agents)
    return {
        "tool_permissions": with_item(state.tool_permissions, entry.tool, entry.agents),
        "live_permissions": without_milder_permissions(
            state.live_permissions, entry.tool, entry.agents
        ),
        "changes": with_change_record(
            state, entry, position, what, reason=entry.reason, permission=permission
        ),
    }


@handles(j.AgentPermissionSet)
def _fold_agent_permission_set(
    state: CrewState, entry: j.AgentPermissionSet, position: int
) -> Changes:
    what = agent_permission_change(entry.tool, entry.agent, entry.do)
    permission = ChangedPermission(tool=entry.tool, agent=entry.agent, do=entry.do)
    return {
        "live_permissions": with_live_permission(
            state.live_permissions, entry.tool, entry.agent, entry.do
        ),
        "changes": with_change_record(
            state, entry, position, what, reason=entry.reason, permission=permission
        ),
    }
