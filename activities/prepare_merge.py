"""What two runs lead to that become one: a definition, checked and stored, and its plan.

Nothing is changed yet: the run that stays looks at what comes out, and takes it or refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.activities.definitions import Definitions
from crewlog.activities.open_run import lowered
from crewlog.authority.widening import widening
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition, TopologyRefused
from crewlog.graph.uniting import united
from crewlog.state.calls import PreparedMerge, PrepareMerge
from crewlog.state.uniting import part_of
from crewlog.store.loading import load_state
from crewlog.store.protocol import Store


@dataclass(frozen=True)
class MergePreparer:
    """Prepares merges on a worker."""

    store: Store
    definitions: Definitions

    async def run(self, task: PrepareMerge) -> PreparedMerge:
        """What a merge leads to, or why there can be none.

        That the other run is at rest, and has offered itself, its caller has seen: it has no other
        state from then on.

        Args:
            task: The merge.

        Raises:
            StoreIncomplete: the store lacks a part of the other run, or a definition.
        """
        state = await load_state(self.store, task.other, task.position)
        base = CrewDefinition.from_json(await self.store.get_definition(task.base))
        joins = CrewDefinition.from_json(await self.store.get_definition(state.definition))
        try:
            both = united(
                base,
                joins,
                stays=task.run,
                joins=task.other,
                edge=task.edge,
                asks=task.asks,
            )
            data = both.definition.to_json()
            definition, plan = await lowered(data, self.store, self.definitions)
        except TopologyRefused as error:
            return PreparedMerge(
                base=task.base, joins=task.other, refused=error.message, remedy=error.remedy
            )
        except InvalidDefinition as error:
            return PreparedMerge(
                base=task.base,
                joins=task.other,
                refused=f"the crew of both is none that can run: {error.message}",
                remedy="Change one of the two so that both fit each other, and ask again.",
            )
        signed = base.policy is not None and base.policy.signed
        after = CrewDefinition.from_json(definition)
        return PreparedMerge(
            definition=definition,
            plan=plan,
            base=task.base,
            joins=task.other,
            position=state.position,
            state=part_of(state),
            change=both.change,
            comes=both.comes,
            nodes=both.nodes,
            fresh=tuple(sorted(both.fresh)),
            quotas=both.quotas,
            what=f"{task.other} becomes part of it",
            widens=widening(base, after) if signed else None,
        )
