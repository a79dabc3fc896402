"""Which visit of a node is under way, and which wait behind it."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.ids import NodeName, StepId, item_number
from crewlog.state.model import FrontierStep


def queued(
    frontier: Mapping[StepId, FrontierStep], position: int, *, only: NodeName | None = None
) -> dict[StepId, FrontierStep]:
    """The frontier with one visit of each node under way, and the others queued behind it.

    Only a change of the graph can make two of one: a visit that comes back may find another. And
    only where a visit is gone without an end can one be queued behind none.
    """
    after = dict(frontier)
    visits = [e for e in frontier.values() if not item_number(e.step) and only in (None, e.node)]
    # A timer that is set goes on: its visit has begun, and waits for nothing else.
    timed = {e.step for e in visits if e.status == "waiting" and e.due and not e.requirement}
    active = {e.node for e in visits if e.status in ("running", "asking") or e.step in timed}
    for entry in sorted(visits, key=lambda e: e.status == "queued"):
        if entry.status not in ("ready", "waiting", "queued") or entry.step in timed:
            continue
        status = "waiting" if entry.requirement else "ready"
        if entry.node in active:
            status = "queued"
        active.add(entry.node)
        if status != entry.status:
            changes = {"status": status, "since": position, "reached": position}
            after[entry.step] = entry.model_copy(update=changes)
    return after
