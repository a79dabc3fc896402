"""Who may read and write which scope of a memory: against the words of the rule, at random."""

from __future__ import annotations

import itertools
import random
from typing import Any

from crewlog.authority.memory_scopes import ACCESSES, authorize_memory, memory_scopes
from crewlog.definition.model import CrewDefinition

AGENTS = ("a", "b", "c")
SCOPES = (
    *(f"agent:{name}" for name in (*AGENTS, "", "zz")),
    *("public", "group:g", "group:h", "group:", "agent", "private:a", "channel:x", "", "*"),
    *("Public", " public", "agent:a ", "group:g/../public", "public\n", "agent:a:b"),
)
TABLES: list[Any] = [None, (), ("a",), ("a", "b")]
CREW = CrewDefinition.from_json(
    {
        "crew": "t",
        "model": "openai:x",
        "memory": {},
        "agents": {name: {"prompt": "p"} for name in AGENTS},
    }
)


def crew(table: dict[str, Any], logs: set[str]) -> CrewDefinition:
    """A crew whose agents have the same logs, and whose memory has the same table twice."""
    assert CREW.memory is not None
    edges = {"reads": tuple(sorted(logs)), "writes": tuple(sorted(logs))}
    agents = {name: agent.model_copy(update=edges) for name, agent in CREW.agents.items()}
    memory = CREW.memory.model_copy(update={"read": table, "write": table})
    return CREW.model_copy(update={"agents": agents, "memory": memory})


def expected(agent: str, scope: str, table: dict[str, Any], logs: set[str]) -> bool:
    """The rule in other words: the scope's log is the agent's, and the table gives the scope."""
    if scope == f"agent:{agent}":
        return "agent" in table and (table["agent"] is None or agent in table["agent"])
    if scope not in {"public", "group:g", "group:h"}:
        return False
    given = scope in table and (table[scope] is None or agent in table[scope])
    return given and scope in logs


def test_every_decision_is_the_rules() -> None:
    rng = random.Random(7)  # noqa: S311
    keys = ("agent", "public", "group:g", "group:h")
    seen = {True: 0, False: 0}
    for _ in range(2_000):
        table = {key: rng.choice(TABLES) for key in rng.sample(keys, rng.randint(0, 4))}
        logs = set(rng.sample(("public", "group:g", "group:h"), rng.randint(0, 3)))
        definition = crew(table, logs)
        for agent, scope in itertools.product(AGENTS, SCOPES):
            decision = authorize_memory(definition, agent, scope, rng.choice(ACCESSES))
            assert decision.allowed == expected(agent, scope, table, logs), (agent, scope, table)
            assert decision.reason
            seen[decision.allowed] += 1
        for agent in AGENTS:
            found = memory_scopes(definition, agent, "read")
            assert set(found) == {s for s in SCOPES if expected(agent, s, table, logs)}
    assert min(seen.values()) > 1_000


def test_a_reason_names_the_rule() -> None:
    table: dict[str, Any] = {"public": ("a",), "agent": ("a",)}

    def reason(agent: str, scope: str, logs: set[str], table: dict[str, Any] = table) -> str:
        return authorize_memory(crew(table, logs), agent, scope, "write").reason

    assert reason("b", "public", {"public"}) == (
        "memory.write does not give 'b' the scope 'public'"
    )
    assert reason("b", "agent:b", set()) == "memory.write does not give 'b' its own scope"
    assert reason("b", "agent:b", set(), {}) == (
        "memory.write does not name 'agent': no agent may write to its own scope"
    )
    assert reason("a", "public", set()) == "'a' may not write to the log 'public'"
    assert reason("a", "agent:b", set()) == "only 'b' may use 'agent:b'"
    assert reason("a", "group:g", {"group:g"}) == "memory.write does not name 'group:g'"
    assert reason("a", "private:a", set()) == "there is no memory scope 'private:a'"


def test_a_crew_without_a_memory_has_no_scopes() -> None:
    definition = CrewDefinition.from_json(
        {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p"}}}
    )
    assert memory_scopes(definition, "a", "read") == ()
    some = definition.from_json(definition.to_json() | {"memory": {}})
    assert memory_scopes(some, "a", "read") == ("agent:a", "public")
