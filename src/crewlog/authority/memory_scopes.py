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
from crewlog.definition.model import OWN_SCOPE, CrewDefinition, MemoryPolicy

Access = Literal["read", "write"]
"""An access to a scope."""
ACCESSES: tuple[Access, ...] = ("read", "write")
"""The accesses, in the order of the memory tools."""

_ScopeTable = Mapping[str, tuple[str, ...] | None]
"""`memory.read` or `memory.write` of a crew. Null means all agents, an empty list none."""
_VERBS: Mapping[str, str] = {"read": "read", "write": "write to"}


def agent_scope(agent: str) -> str:
    """The scope that only `agent` may use."""
    return f"{OWN_SCOPE}:{agent}"


def authorize_memory(
    definition: CrewDefinition, agent: str, scope: str, access: Access
) -> Decision:
    """Decides whether an agent of a crew may read or write a scope of its memory.

    Args:
        definition: The crew.
        agent: The agent.
        scope: `agent:A`, `group:G` or `public`.
        access: `read` or `write`.
    """
    if definition.memory is None:
        return _deny("the crew has no memory")
    table = _scope_table(definition.memory, access)
    return _authorize(agent, scope, access, table, logs_of(definition, agent, access))


def memory_scopes(definition: CrewDefinition, agent: str, access: Access) -> tuple[str, ...]:
    """The scopes that an agent of a crew may read or write, its own first."""
    if definition.memory is None:
        return ()
    table, logs = _scope_table(definition.memory, access), logs_of(definition, agent, access)
    scopes = (agent_scope(agent) if key == OWN_SCOPE else key for key in table)
    accessible = [
        scope for scope in scopes if _authorize(agent, scope, access, table, logs).allowed
    ]
    return tuple(sorted(accessible, key=lambda scope: scope != agent_scope(agent)))


def _scope_table(memory: MemoryPolicy, access: Access) -> _ScopeTable:
    return memory.read if access == "read" else memory.write


def _authorize(
    agent: str, scope: str, access: Access, table: _ScopeTable, logs: Collection[str]
) -> Decision:
    """Decides by the table of an access, and by the logs that the agent has besides its own."""
    kind, colon, name = scope.partition(":")
    is_own = kind == OWN_SCOPE
    if is_own and colon:
        if name != agent:
            return _deny(f"only {name!r} may use {scope!r}")
    elif not (scope == "public" or (kind == "group" and name)):
        return _deny(f"there is no memory scope {scope!r}")
    key = OWN_SCOPE if is_own else scope
    if key not in table:
        effect = f": no agent may {_VERBS[access]} its own scope" if is_own else ""
        return _deny(f"memory.{access} does not name {key!r}{effect}")
    what = f"{agent!r} its own scope" if is_own else f"{agent!r} the scope {scope!r}"
    agents = table[key]
    if agents is not None and agent not in agents:
        return _deny(f"memory.{access} does not give {what}")
    if not is_own and scope not in logs:
        return _deny(f"{agent!r} may not {_VERBS[access]} the log {scope!r}")
    return Decision(allowed=True, reason=f"memory.{access} gives {what}")


def _deny(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
