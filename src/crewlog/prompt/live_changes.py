"""What was changed while a run lives, made again in the crew of another prompt.

    basis ──(changed while the run lives)──► live
      │ another prompt
      ▼
    fresh ──(the same changes)──► what the run goes on with

A prompt is compiled to a whole new crew: it says nothing of an agent that people or agents added
since. So the differences of the basis and the live crew that no other rule keeps are made again:
agents, their prompts, the steps of the flow, and what waits for what. What a prompt states itself
is the prompt's. A difference that cannot be made any more is a conflict, and refuses the change:
the run goes on as it was, and nothing is lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.definition.apply import edited
from crewlog.definition.findings import listed
from crewlog.definition.flow import Flow, Part, Wait
from crewlog.definition.model import AgentPhase, CrewDefinition
from crewlog.definition.operations import AddPhase, EditPhase, Operation, RemoveAgent, RemovePhase
from crewlog.definition.refusing import Refused
from crewlog.definition.unused import callers
from crewlog.errors import ChangeConflict
from crewlog.model import Json

_FOLLOWS = frozenset({"phase", "after"})
"""Fields of a phase that are compared in a way of their own."""


def added_agents(basis: CrewDefinition, live: CrewDefinition) -> tuple[str, ...]:
    """The agents that joined while the run lived."""
    return tuple(name for name in live.agents if name not in basis.agents)


def with_live_changes(
    fresh: CrewDefinition, basis: CrewDefinition, live: CrewDefinition
) -> CrewDefinition:
    """The crew of a prompt with the changes that were made while the run lived.

    Args:
        fresh: The compiled prompt, with the names that the live crew has.
        basis: The crew that those changes were made to.
        live: The crew that came of them.

    Raises:
        ChangeConflict: some of them cannot be made any more; each is named.
    """
    changes = _LiveChanges(fresh, basis, live)
    changes.make()
    if changes.conflicts:
        raise ChangeConflict(
            "the prompt leaves no place for what was changed while the run lives: "
            + "; ".join(changes.conflicts),
            remedy="Say it in the prompt as the run has it, or take it back first: "
            "`crewlog change RUN --remove …`.",
        )
    return changes.crew


class _LiveChanges:
    """The changes, one after the other."""

    def __init__(self, fresh: CrewDefinition, basis: CrewDefinition, live: CrewDefinition) -> None:
        self.crew = fresh
        self.conflicts: list[str] = []
        self._basis, self._live = basis, live
        self._was = {part.name: part for part in Flow(basis).parts()}
        self._is = {part.name: part for part in Flow(live).parts()}
        self._stated = {*fresh.agents}

    def make(self) -> None:
        self._add_agents()
        self._edit_prompts()
        for name in self._basis.agents:
            if name not in self._live.agents and name in self.crew.agents:
                self._apply(RemoveAgent(name=name), f"the agent {name!r} was removed")
        for name, part in self._is.items():
            if name not in self._was and not self._states(part):
                self._add_phase(part)
        for name, part in self._was.items():
            gone = name not in self._is and all(a in self._live.agents for a in _agents(part))
            if gone and name in Flow(self.crew).names():
                self._apply(RemovePhase(name=name), f"the step {name!r} was removed")
        for name in self._was:
            if name in self._is:
                self._edit_phase(name)

    # -- agents -------------------------------------------------------------------------------

    def _add_agents(self) -> None:
        """Adds agents as they are by now, with the tools that they call."""
        added = {
            name: self._live.agents[name]
            for name in added_agents(self._basis, self._live)
            if name not in self._stated
        }
        tools = {
            name: tool
            for name, tool in self._live.tools.items()
            if name not in self.crew.tools and {*callers(self._live, name)} & {*added}
        }
        self.crew = self.crew.model_copy(
            update={
                "agents": {**self.crew.agents, **added},
                "tools": {**self.crew.tools, **tools},
            }
        )

    def _edit_prompts(self) -> None:
        agents = dict(self.crew.agents)
        for name, agent in self.crew.agents.items():
            was, now = self._basis.agents.get(name), self._live.agents.get(name)
            if was is None or now is None or now.prompt in (was.prompt, agent.prompt):
                continue
            if agent.prompt == was.prompt:
                agents[name] = agent.model_copy(update={"prompt": now.prompt})
            else:
                self.conflicts.append(f"the prompt of the agent {name!r} was edited")
        self.crew = self.crew.model_copy(update={"agents": agents})

    # -- the flow -----------------------------------------------------------------------------

    def _states(self, part: Part) -> bool:
        """Whether the prompt has a step of its own in the place of one that was added."""
        known = {*Flow(self.crew).names()}
        own = _agents(part)
        stated = own and all(
            name in self._stated and name not in self._basis.agents for name in own
        )
        return part.name in known or bool(stated)

    def _add_phase(self, part: Part) -> None:
        there = {*Flow(self.crew).names()}
        before = tuple(
            name
            for name, other in self._is.items()
            if name in self._was and name in there and part.name in other.wait.of
        )
        phase = {**_fields(part), "phase": part.name, "after": _json(part.wait)}
        if _agents(part) == (part.name,):
            del phase["phase"]
        if gone := [name for name in part.wait.of if name not in there]:
            self.conflicts.append(
                f"the step {part.name!r} was added after {listed(map(repr, gone))}"
            )
            return
        self._apply(AddPhase(phase=phase, before=before), f"the step {part.name!r} was added")

    def _edit_phase(self, name: str) -> None:
        was, now = self._was[name], self._is[name]
        new = next((each for each in Flow(self.crew).parts() if each.name == name), None)
        old, edits = _fields(was), _fields(now)
        update: dict[str, Json] = {
            key: edits.get(key) for key in {*old, *edits} if old.get(key) != edits.get(key)
        }
        waited = self._waits(was, self._was)
        if waited != self._waits(now, self._is):
            update["after"] = _json(now.wait)
        if not update:
            return
        if new is None:
            self.conflicts.append(f"the step {name!r} was edited")
            return
        there, parts = _fields(new), {each.name: each for each in Flow(self.crew).parts()}
        for key in sorted(update):
            what = f"{key!r} of the step {name!r} was edited"
            if key == "after":
                done, same = new.wait.same(now.wait), self._waits(new, parts) == waited
            else:
                done = there.get(key) == edits.get(key)
                same = there.get(key) == old.get(key)
            if not done and not same:
                self.conflicts.append(what)
            elif not done:
                self._apply(EditPhase(name=name, set={key: update[key]}), what)

    def _waits(self, part: Part, parts: Mapping[str, Part]) -> Wait:
        """What a step waits for, of the steps that both crews have.

        In the place of a step that was added or removed stands what that one waits for: it was put
        between two others, or taken out, and that is a change of its own.
        """
        both = self._was.keys() & self._is.keys()
        found: set[str] = set()
        ahead, seen = [*part.wait.of], set[str]()
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in both or name not in parts:
                found.add(name)
            else:
                ahead += parts[name].wait.of
        of = tuple(sorted(found))
        whole = part.wait.whole or len(of) != len(part.wait.of)
        return Wait(of, len(of) if whole else part.wait.need, part.wait.entry and not of)

    def _apply(self, operation: Operation, what: str) -> None:
        try:
            self.crew = edited(self.crew, operation)
        except Refused as refused:
            why = "; ".join(each.message for each in refused.found)
            self.conflicts.append(f"{what}: {why}")


def _agents(part: Part) -> tuple[str, ...]:
    return part.item.agents if isinstance(part.item, AgentPhase) else ()


def _fields(part: Part) -> dict[str, Any]:
    """What a step is, but for its name and what it waits for."""
    data = part.item.to_json()
    return {key: value for key, value in data.items() if key not in _FOLLOWS}


def _json(wait: Wait) -> Json:
    after = wait.after()
    return after if isinstance(after, str) else _plain(after)


def _plain(after: Any) -> Json:
    return list(after) if isinstance(after, tuple) else after.to_json()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
