"""Who may read and write which part of a crew's memory.

A scope goes by the log of its name: `agent:A` by `private:A`, `group:G` and `public` by the logs
of that name. An agent has a scope only where it has that log, and where the crew's `memory` gives
the scope; nothing that a model asks for can widen either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from crewlog.authority.permissions import Decision
from crewlog.definition.memory_checks import logs_of
from crewlog.definition.model import OWN_SCOPE, CrewDefinition

Table = Mapping[str, tuple[str, ...] | None]
"""Agents by scope, as a crew's `memory` has them: null is everybody, an empty list nobody."""
Way = Literal["read", "write"]
"""What can be done with a scope."""
WAYS: tuple[Way, ...] = ("read", "write")
"""What can be done with a scope, in the order of the memory's tools."""

_DOES: Mapping[str, str] = {"read": "read", "write": "write to"}


def agent_scope(agent: str) -> str:
    """The scope that only `agent` has."""
    return f"{OWN_SCOPE}:{agent}"


def authorize_scope(
    agent: str,
    scope: str,
    *,
    way: Way,
    table: Table,
    logs: Collection[str],
) -> Decision:
    """Whether `agent` may read a scope, or write into it.

    Args:
        agent: Who asks.
        scope: `agent:A`, `group:G` or `public`, as it was asked for.
        way: What it is to be done.
        table: The crew's `memory.read`, or `memory.write`.
        logs: The logs that the agent reads, or writes to, besides its own.
    """
    kind, colon, name = scope.partition(":")
    if kind == OWN_SCOPE and colon:
        if name != agent:
            return _no(f"{scope!r} is the memory of {name!r} alone")
    elif not (scope == "public" or (kind == "group" and name)):
        return _no(f"there is no scope {scope!r} of a memory")
    key = OWN_SCOPE if kind == OWN_SCOPE else scope
    if key not in table:
        return _no(f"memory.{way} does not name {key!r}")
    named = table[key]
    if named is not None and agent not in named:
        return _no(f"memory.{way} does not give {key!r} to {agent!r}")
    if kind != OWN_SCOPE and scope not in logs:
        return _no(f"{agent!r} may not {_DOES[way]} the log {scope!r}")
    return Decision(allowed=True, reason=f"memory.{way} gives {key!r} to {agent!r}")


def authorize_memory(definition: CrewDefinition, agent: str, scope: str, way: Way) -> Decision:
    """Whether an agent of a crew may read a scope of the crew's memory, or write into it."""
    if definition.memory is None:
        return _no("the crew has no memory")
    table = definition.memory.read if way == "read" else definition.memory.write
    logs = logs_of(definition, agent, way)
    return authorize_scope(agent, scope, way=way, table=table, logs=logs)


def memory_scopes(definition: CrewDefinition, agent: str, way: Way) -> tuple[str, ...]:
    """The scopes that an agent of a crew may read, or write into: its own first."""
    if definition.memory is None:
        return ()
    table = definition.memory.read if way == "read" else definition.memory.write
    logs = logs_of(definition, agent, way)
    return accessible_scopes(agent, way=way, table=table, logs=logs)


def accessible_scopes(
    agent: str, *, way: Way, table: Table, logs: Collection[str]
) -> tuple[str, ...]:
    """The scopes that `agent` may read, or write into: its own first, then as they are named."""
    named = (agent_scope(agent) if key == OWN_SCOPE else key for key in table)
    found = [
        scope
        for scope in named
        if authorize_scope(agent, scope, way=way, table=table, logs=logs).allowed
    ]
    return tuple(sorted(found, key=lambda scope: scope != agent_scope(agent)))


def _no(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
