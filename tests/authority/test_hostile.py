"""A hostile model, and people who rule meanwhile: nothing forbidden comes through the core.

`CREWLOG_HOSTILE` says how many calls are tried; by default some thousand, and 100,000 before a
release.
"""

from __future__ import annotations

import os
import random

from authority.hostile import AGENTS, RANK, SPELLINGS, TOOLS, Oracle, random_crew
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import check
from crewlog.graph.lowering.plans import lower_validated
from crewlog.graph.permission_commands import set_agent_permission, set_permission
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, FlagName, RunId
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal

CALLS = int(os.environ.get("CREWLOG_HOSTILE", "20000"))
EACH = 250
"""Calls in one run."""


def begin(rng: random.Random) -> tuple[RunContext, Oracle]:
    while True:
        written = random_crew(rng)
        definition = CrewDefinition.from_json(written)
        if not check(definition):
            break
    plan = lower_validated(definition)
    run = RunContext(plan, Journal(CrewState(run=RunId("r"))))
    run.record(
        j.RunStarted(
            run=RunId("r"),
            crew=plan.crew,
            definition=plan.definition,
            flags=plan.flags,
            permissions=plan.permissions,
        )
    )
    return run, Oracle(written)


def meanwhile(run: RunContext, oracle: Oracle, rng: random.Random) -> None:
    """Something happens: people rule, or a flag changes."""
    tool = rng.choice(TOOLS)
    dice = rng.random()
    if dice < 0.2:
        flag = rng.choice(("f", "g"))
        oracle.flags[flag] = not oracle.flags[flag]
        run.record(j.RunOutputSet(flag=FlagName(flag), value=oracle.flags[flag], by="people"))
    elif dice < 0.4:
        named = None if rng.random() < 0.3 else rng.sample(AGENTS, rng.randint(0, 4))
        agents = None if named is None else [AgentName(name) for name in named]
        set_permission(run, tool, agents)
        oracle.said.append(("row", tool, named))
    else:
        agent = rng.choice([*AGENTS, "*"])
        do = rng.choice(("allow", "ask", "deny", None))
        set_agent_permission(run, tool, agent, do)
        oracle.said.append(("cell", tool, agent, do or "inherit"))


def test_the_core_lets_nothing_pass_that_the_oracle_forbids() -> None:
    rng = random.Random(31)  # noqa: S311
    outcomes = dict.fromkeys(RANK, 0)
    tried = 0
    while tried < CALLS:
        run, oracle = begin(rng)
        for _ in range(EACH):
            tried += 1
            if rng.random() < 0.15:
                meanwhile(run, oracle, rng)
            agent = rng.choice(AGENTS)
            tool = rng.choice(TOOLS if rng.random() < 0.8 else SPELLINGS)
            decision = run.check(AgentName(agent), tool)
            expected = oracle.says(agent, tool)
            story = (oracle.crew, oracle.said, oracle.flags, agent, tool, decision)
            assert decision.outcome == expected, story
            assert decision.allowed == (expected != "deny")
            assert decision.reason
            assert bool(decision.rule) or expected == "allow"
            outcomes[expected] += 1
            if decision.allowed:
                keys = run.run_quota_keys(AgentName(agent), tool)
                if keys:
                    run.record(j.QuotaConsumed(step="s#1", call=tried, quotas=keys))
                oracle.count(agent, tool)
    assert min(outcomes.values()) > tried // 20, outcomes
