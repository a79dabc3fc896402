"""Random crews with rules, and an oracle that says in another way what may happen in them.

The oracle reads the definition as it is written, and the commands that people gave one by one. It
shares nothing with the engine but the words.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

from crewlog.reporting.audit.view import AuditRecord

TOOLS = ("t0", "t1", "t2", "t3", "t4")
AGENTS = ("a", "b", "c", "d")
SPELLINGS = (
    "T0",
    "t0 ",
    " t1",
    "t9",
    "",
    "*",
    "t0,t1",
    "set_flag",
    "set_output",
    "__init__",
    "t1\x00",
)
RANK = {"allow": 0, "ask": 1, "deny": 2}


def random_crew(rng: random.Random) -> dict[str, Any]:
    """A crew as people write it; what contradicts itself is left out."""
    agents: dict[str, Any] = {}
    for n, name in enumerate(AGENTS):
        agents[name] = {"prompt": "p"}
        if rng.random() < 0.8:
            agents[name]["tools"] = rng.sample(TOOLS, rng.randint(0, 5))
        if rng.random() < 0.3:
            agents[name]["writes_flags"] = ["f", "g"]
        if n and rng.random() < 0.3:
            agents[name]["parent"] = parent = rng.choice(AGENTS[:n])
            if "writes_flags" not in agents[parent]:  # it would decide more than that one
                agents[name].pop("writes_flags", None)
    groups = {"g": rng.sample(AGENTS, rng.randint(0, 3)), "h": rng.sample(AGENTS, 2)}
    rules: list[dict[str, Any]] = []
    for _ in range(rng.randint(0, 5)):
        rule: dict[str, Any] = {"tool": rng.choice(["*", rng.choice(TOOLS), rng.sample(TOOLS, 2)])}
        if rng.random() < 0.6:
            rule["agents"] = rng.sample([*AGENTS, "group:g", "group:h"], rng.randint(1, 3))
        rule["do"] = rng.choice(["never", "ask", "ask"])
        if rng.random() < 0.5:
            rule["if"] = rng.choice(["f", "not f", "f and not g", "g or not f"])
        if rng.random() < 0.4:
            rule["do"] = "always"
            rule["quota"] = f"{rng.randint(1, 30)} per run"
        rules.append(rule)

    def table(nobody: float) -> dict[str, Any]:
        some = rng.sample(TOOLS, rng.randint(0, 2))
        return {
            t: None if rng.random() < 0.2 else rng.sample(AGENTS, 0 if rng.random() < nobody else 2)
            for t in some
        }

    return {
        "crew": "hostile",
        "model": "openai:x",
        "agents": agents,
        "tools": {t: {"run": "m:f"} for t in TOOLS},
        "flags": {"f": rng.random() < 0.5, "g": rng.random() < 0.5},
        "groups": groups,
        "rules": rules,
        "permissions": table(0.3),
        "approvals": table(0.1),
    }


@dataclass
class Oracle:
    """What may happen, from the crew as written and everything that happened since."""

    crew: dict[str, Any]
    said: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """`("row", tool, agents)` and `("cell", tool, agent, do)`, in order."""
    made: list[tuple[str, str, frozenset[int]]] = field(
        default_factory=list[tuple[str, str, frozenset[int]]]
    )
    """The calls that were counted, with the rules that counted them."""
    flags: dict[str, bool] = field(default_factory=dict[str, bool])

    def __post_init__(self) -> None:
        self.flags = dict(self.crew["flags"])

    def own(self, agent: str) -> set[str]:
        """The tools that the definition gives an agent."""
        written = self.crew["agents"][agent]
        given = set(written.get("tools", TOOLS))
        return given | ({"set_flag"} if written.get("writes_flags") else set())

    def line(self, agent: str) -> list[str]:
        """An agent, and those that it works for."""
        up = self.crew["agents"][agent].get("parent")
        return [agent, *(self.line(up) if up else [])]

    def true(self, condition: str | None) -> bool:
        """Whether a condition holds: they are few."""
        f, g = self.flags["f"], self.flags["g"]
        return {
            None: True,
            "f": f,
            "not f": not f,
            "f and not g": f and not g,
            "g or not f": g or not f,
        }[condition]

    def about(self, rule: dict[str, Any], agent: str, tool: str) -> bool:
        """Whether a rule is about a call now."""
        if tool in ("set_flag", "set_output") or not self.true(rule.get("if")):
            return False
        tools = TOOLS if rule["tool"] == "*" else rule["tool"]
        if tool not in ([tools] if isinstance(tools, str) else tools):
            return False
        if "agents" not in rule:
            return True
        return any(
            agent in self.crew["groups"][n[6:]] if n.startswith("group:") else n == agent
            for n in rule["agents"]
        )

    def live_permission(self, agent: str, tool: str) -> str | None:
        """What people said last of an agent and a tool, and did not take back."""
        mine: str | None = None
        every: str | None = None
        for kind, what, *rest in self.said:
            if what != tool:
                continue
            if kind == "row":
                (named,) = rest
                if named is not None:
                    mine = mine if agent in named or mine == "deny" else None
                    every = every if every == "deny" else None
                continue
            whom, do = rest
            do = None if do == "inherit" else do
            if whom == agent:
                mine = do
            elif whom == "*":
                if do is not None and mine is not None and RANK[mine] < RANK[do]:
                    mine = None
                every = do
        if mine is not None:
            return mine
        return every if every == "deny" or tool in self.own(agent) else None

    def alone(self, agent: str, tool: str) -> str:
        """What holds for an agent by itself, quotas aside."""
        known = tool in TOOLS or tool in self.own(agent)
        if not known:
            return "deny"
        live = self.live_permission(agent, tool)
        if live is not None:
            return live
        if tool not in self.own(agent):
            return "deny"
        row = self.crew["permissions"].get(tool)
        for kind, what, *rest in self.said:
            if kind == "row" and what == tool:
                row = rest[0]
        if row is not None and agent not in row:
            return "deny"
        said = {r["do"] for r in self.crew["rules"] if self.about(r, agent, tool)}
        if "never" in said:
            return "deny"
        held = self.crew["approvals"].get(tool, ())
        return "ask" if "ask" in said or held is None or agent in held else "allow"

    def full(self, agent: str, tool: str) -> bool:
        """Whether a quota that counts such a call is used up."""
        for n, rule in enumerate(self.crew["rules"]):
            if "quota" in rule and self.about(rule, agent, tool):
                same = [m for m, r in enumerate(self.crew["rules"]) if self._same(r, rule)]
                used = sum(1 for *_, rules in self.made if rules & {*same, n})
                if used >= int(rule["quota"].split()[0]):
                    return True
        return False

    @staticmethod
    def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two rules count the same calls: then they are one quota."""

        def key(rule: dict[str, Any]) -> Any:
            tools = rule["tool"]
            names = (tools,) if isinstance(tools, str) else tuple(sorted(tools))
            return names, rule.get("if"), "quota" in rule

        return key(one) == key(other) and one.get("agents") == other.get("agents")

    def says(self, agent: str, tool: str) -> str:
        """`allow`, `ask` or `deny`."""
        who = self.line(agent) if tool not in ("set_flag", "set_output") else [agent]
        found = max((self.alone(each, tool) for each in who), key=RANK.__getitem__)
        return "deny" if any(self.full(each, tool) for each in who) else found

    def count(self, agent: str, tool: str) -> None:
        """Counts a call that is made."""
        if tool in ("set_flag", "set_output"):
            return
        rules = frozenset(
            n
            for n, rule in enumerate(self.crew["rules"])
            for each in self.line(agent)
            if "quota" in rule and self.about(rule, each, tool)
        )
        self.made.append((agent, tool, rules))


def agrees(
    records: Iterable[AuditRecord], asked: Set[tuple[str, int]], made: Set[tuple[str, int]]
) -> None:
    """An audit tells of every call how it was judged, and of those made that they were.

    What was allowed when it was asked for, and was not made, is refused or asked about after.
    """
    judged: dict[tuple[str, int], list[str]] = {}
    called: list[tuple[str, int]] = []
    for record in records:
        key = (record.step, record.call or 0)
        if record.kind == "check":
            judged.setdefault(key, []).append(record.outcome)
        elif record.kind == "call":
            called.append(key)
    assert sorted(called) == sorted(made)
    assert judged.keys() == asked
    for key, outcomes in judged.items():
        assert outcomes[-1] in (("allowed", "asked") if key in made else ("denied", "asked"))
        assert outcomes.count("allowed") <= 1
        assert outcomes[0] == "allowed" or "allowed" not in outcomes
