"""Authorization of agents to read and write scopes of the crew's memory.

A scope has the audience of a log: `agent:A` that of `private:A`, `group:G` and `public` those of
the logs with these names. An agent may use a scope if it may use the log and the crew's `memory`
permits the scope. A model cannot change either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from crewlog.authority.permissions import Decision
from crewlog.definition.memory_checks import logs_of
from crewlog.definition.model import OWN_SCOPE, CrewDefinition

Table = Mapping[str, tuple[str, ...] | None]
"""The agents of each scope, as in a crew's `memory`: null means all, an empty list none."""
Access = Literal["read", "write"]
"""An access to a scope."""
ACCESSES: tuple[Access, ...] = ("read", "write")
"""The accesses, in the order of the memory tools."""

_VERBS: Mapping[str, str] = {"read": "read", "write": "write to"}


def agent_scope(agent: str) -> str:
    """The scope that only `agent` may use."""
    return f"{OWN_SCOPE}:{agent}"


def authorize_scope(
    agent: str,
    scope: str,
    *,
    access: Access,
    table: Table,
    logs: Collection[str],
) -> Decision:
    """Decides whether `agent` may read or write a scope.

    Args:
        agent: The agent.
        scope: `agent:A`, `group:G` or `public`.
        access: `read` or `write`.
        table: The crew's `memory.read` or `memory.write`.
        logs: The logs that the agent reads or writes, besides its own.
    """
    kind, colon, name = scope.partition(":")
    if kind == OWN_SCOPE and colon:
        if name != agent:
            return _deny(f"only {name!r} may use {scope!r}")
    elif not (scope == "public" or (kind == "group" and name)):
        return _deny(f"there is no memory scope {scope!r}")
    key = OWN_SCOPE if kind == OWN_SCOPE else scope
    if key not in table:
        return _deny(f"memory.{access} does not name {key!r}")
    agents = table[key]
    if agents is not None and agent not in agents:
        return _deny(f"memory.{access} does not give {key!r} to {agent!r}")
    if kind != OWN_SCOPE and scope not in logs:
        return _deny(f"{agent!r} may not {_VERBS[access]} the log {scope!r}")
    return Decision(allowed=True, reason=f"memory.{access} gives {key!r} to {agent!r}")


def authorize_memory(
    definition: CrewDefinition, agent: str, scope: str, access: Access
) -> Decision:
    """Decides whether an agent of a crew may read or write a scope of its memory."""
    if definition.memory is None:
        return _deny("the crew has no memory")
    table = definition.memory.read if access == "read" else definition.memory.write
    logs = logs_of(definition, agent, access)
    return authorize_scope(agent, scope, access=access, table=table, logs=logs)


def memory_scopes(definition: CrewDefinition, agent: str, access: Access) -> tuple[str, ...]:
    """The scopes that an agent of a crew may read or write, its own first."""
    if definition.memory is None:
        return ()
    table = definition.memory.read if access == "read" else definition.memory.write
    logs = logs_of(definition, agent, access)
    return accessible_scopes(agent, access=access, table=table, logs=logs)


def accessible_scopes(
    agent: str, *, access: Access, table: Table, logs: Collection[str]
) -> tuple[str, ...]:
    """The scopes that `agent` may read or write, its own first, then in the order of the table."""
    scopes = (agent_scope(agent) if key == OWN_SCOPE else key for key in table)
    accessible = [
        scope
        for scope in scopes
        if authorize_scope(agent, scope, access=access, table=table, logs=logs).allowed
    ]
    return tuple(sorted(accessible, key=lambda scope: scope != agent_scope(agent)))


def _deny(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
