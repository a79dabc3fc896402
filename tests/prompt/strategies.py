"""Random crews that are valid by construction, for properties that must hold of every crew.

A crew is rolled phase by phase: each phase waits for what is there already, each condition asks
what somebody who worked can decide. `Dice` decides; Hypothesis throws them in tests (and finds the
smallest crew that fails), a seeded generator when thousands are wanted quickly.

`plain` crews are those that English can say; others also have what only a definition can: retry
settings, names, queues, other targets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import reject
from hypothesis import strategies as st

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt.registry import Registry

T = TypeVar("T")


def _words(text: str) -> list[str]:
    return text.split()


AGENTS = _words("""
writer editor checker planner researcher publisher tester designer translator reviewer coder
ui_designer fact_checker copy_editor data_engineer release_manager log_analyst triager
lawyer accountant archivist illustrator narrator auditor scout summariser mediator
technical_writer network_engineer product_owner interviewer bookkeeper forecaster moderator
screener sound_designer currency_specialist risk_analyst librarian negotiator clerk curator
""")
FLAGS = _words("""
approved rejected tests_pass models_ready file_complete urgent alarm_gone facts_hold
draft_ready totals_match harmless
""")
NUMBERS = _words("""
score amount risk_level reading_speed settlement
""")
CHOICES = {
    "kind": ("bug", "question", "praise"),
    "priority": ("high", "medium", "low"),
    "category": ("travel", "food", "office"),
    "topic": ("sport", "politics"),
}
LISTS = _words("""
topics chapters clusters candidates lessons competitors
""")
TOOLS = _words("""
write_file web_search send_email deploy read_logs post_entry run_tests draw_chart
save_report query_data
""")
MODELS = ("openai:gpt-5", "openai:gpt-5-nano")
TASKS = (
    "drafts the notes",
    "gathers the changes of the week",
    "sums up what went wrong",
    "prepares a first version",
    "compares the figures with last month",
    "writes a short report",
    "collects the material",
    "polishes the wording",
    "turns it into one page",
    "looks for gaps in the argument",
)
TRAITS = (
    "should write short sentences",
    "should be strict but kind",
    "should avoid jargon",
    "should never sound bored",
)
SPANS = ("2h", "30m", "90m", "1d", "45s", "0.25s", "8d", 5400.5)
TIMES = ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00+01:00", "2031-02-28T23:59:30.5-05:30")
GROUPS = ("desk", "press_office", "night_shift")
QUOTAS = ("1 per run", "5 per run", "20 per hour", "100 per day")
SWITCHES = ("house_open", "weekend")
"""Flags that people set."""
PEOPLE = ("ana", "Bob", "the-boss", "eve")
HOSTS = ("example.com", "*.example.org", "api.example.net")
COURSES = (
    *("may run side by side", "which never come together", "leads to the end"),
    "its list:",  # of whose items another agent sees nothing
)
"""What chance cannot see coming."""
CREWS = ("release-notes", "weekly-newsletter", "incident-desk", "month-end", "crew")


class Dice:
    """What is decided by chance.

    Args:
        number: Draws a whole number between two bounds, both included.
    """

    def __init__(self, number: Any) -> None:
        self.number = number

    def chance(self, percent: int) -> bool:
        """True so often of a hundred times; false is the simpler case."""
        return bool(self.number(0, 99) >= 100 - percent)

    def one(self, of: Sequence[T]) -> T:
        return of[self.number(0, len(of) - 1)]

    def some(self, of: Sequence[T], least: int, most: int) -> list[T]:
        """Several different ones, in their order."""
        left = list(range(len(of)))
        for _ in range(len(of) - self.number(min(least, len(of)), min(most, len(of)))):
            left.pop(self.number(0, len(left) - 1))
        return [of[i] for i in left]


class Roll:
    """Rolls one crew."""

    def __init__(self, dice: Dice, size: int, *, plain: bool) -> None:
        self.dice = dice
        self.plain = plain
        start = dice.number(0, len(AGENTS) - 1)
        self.waiting = [AGENTS[(start + 7 * i) % len(AGENTS)] for i in range(size)]
        self.waiting = list(dict.fromkeys(self.waiting))
        self.agents: dict[str, dict[str, Any]] = {}
        self.nodes: list[dict[str, Any]] = []
        self.tail: tuple[list[str], int] = ([], 0)
        self.last: list[str] = []
        """The agents that worked last."""
        self.blocks = 0
        self.counts: dict[str, int] = {}
        self.latest: dict[str, str] = {}
        self.builder = False
        self.tools: dict[str, dict[str, Any]] = {}
        self.desks: dict[str, list[str]] = {}
        self.logs: dict[str, dict[str, Any]] = {}
        self.flags: dict[str, str] = {}
        """The agent that sets a flag."""
        self.many: set[str] = set()
        """Agents with a step for each item of a list, who decide nothing: their values would have
        to be put together."""

    # -- parts -----------------------------------------------------------------------------------

    def fresh(self) -> str:
        name = self.waiting.pop(0)
        self.agents[name] = {"tools": [], "outputs": [], "writes_flags": []}
        return name

    def phase(self, agent: str) -> str:
        count = self.counts[agent] = self.counts.get(agent, 0) + 1
        name = agent if count == 1 else f"{agent}_{count}"
        self.latest[agent] = name
        return name

    def add(self, name: str, kind: str, waits: tuple[list[str], int], **fields: Any) -> str:
        self.nodes.append(
            {"name": name, "kind": kind, "of": list(waits[0]), "need": waits[1]}
            | {"block": self.blocks, "fields": {k: v for k, v in fields.items() if v}}
        )
        return name

    def fact(self) -> str:
        """Something that one of the agents so far decides."""
        owners = self.last if self.last and self.dice.chance(80) else list(self.latest)
        owners = [name for name in owners if name not in self.many] or [next(iter(self.agents))]
        owner = self.agents[agent := self.dice.one(owners)]
        kind = self.dice.number(0, 2)
        if kind == 0 and (flag := self.flag(agent)):
            return f"{agent}.{flag}"
        if kind == 1:
            key = self.dice.one(NUMBERS)
            owner["outputs"].append(key)
            operator = self.dice.one(("<", ">", ">=", "<="))
            return f"{agent}.{key} {operator} {self.dice.one(('0.8', '0.5', '50', '20000'))}"
        key = self.dice.one(tuple(CHOICES))
        owner["outputs"].append(key)
        return f"{agent}.{key} == {self.dice.one(CHOICES[key])}"

    def flag(self, agent: str) -> str | None:
        """A flag that this agent alone sets; none where there are no more."""
        free = [flag for flag in FLAGS if self.flags.get(flag, agent) == agent]
        if agent in self.many or not free:
            return None
        flag = self.dice.one(free)
        self.flags[flag] = agent
        self.agents[agent]["writes_flags"].append(flag)
        return flag

    def condition(self) -> str:
        one = self.fact()
        how = self.dice.number(0, 11)
        if how < 7:
            return one
        if how < 10:
            return f"not {one}"
        other = self.fact()
        word = "and" if how == 10 else "or"
        return one if other == one else f"{one} {word} {other}"

    def task(self) -> str | None:
        return self.dice.one(TASKS) if self.dice.chance(60) else None

    # -- the work --------------------------------------------------------------------------------

    def work(self) -> None:
        self.alone()
        budget = 3 * len(self.waiting) + 3
        while self.waiting and budget:
            budget -= 1
            moves = (
                [self.alone] * 6
                + [self.parallel] * 4
                + [self.branches, self.if_so, self.each, self.after, self.when, self.again]
                + [self.back] * 3
                + [self.ask, self.stop, self.supervisor]
                + [self.pause, self.beside, self.within]
            )
            self.dice.one(moves)()
        while self.waiting:
            self.alone()
        if self.dice.chance(30):
            self.back()

    def step(self, agents: Sequence[str], waits: tuple[list[str], int], **fields: Any) -> None:
        self.blocks += 1
        names = []
        for agent in agents:
            name = self.phase(agent)
            names.append(name)
            self.add(name, "agent", waits, agent=agent, task=self.task(), **fields)
        self.tail, self.last = (names, len(names)), list(agents)

    def alone(self) -> None:
        if self.waiting:
            self.step([self.fresh()], self.tail)

    def again(self) -> None:
        others = [a for a in self.latest if a not in self.last]
        if others:
            self.step([self.dice.one(others)], self.tail)

    def parallel(self) -> None:
        agents = [self.fresh() for _ in range(min(len(self.waiting), self.dice.number(2, 4)))]
        if len(agents) < 2:
            if agents:
                self.step(agents, self.tail)
            return
        self.step(agents, self.tail)
        need = self.dice.one((len(agents), len(agents), 1, len(agents) - 1))
        if self.waiting:  # what follows decides how many it waits for
            self.tail = (self.tail[0], need)
            self.alone()

    def branches(self) -> None:
        count = min(len(self.waiting), self.dice.number(2, 3))
        if count < 2 or len(self.last) != 1 or self.last[0] in self.many:
            return
        owner, key = self.last[0], self.dice.one(tuple(CHOICES))
        if count - 1 > len(CHOICES[key]):
            return
        self.agents[owner]["outputs"].append(key)
        facts = [f"{owner}.{key} == {value}" for value in CHOICES[key][: count - 1]]
        either = " or ".join(facts)
        waits = self.tail
        self.blocks += 1
        names = []
        agents = [self.fresh() for _ in range(count)]
        last = f"not ({either})" if len(facts) > 1 else f"not {either}"
        for agent, only_if in zip(agents, [*facts, last], strict=True):
            names.append(self.phase(agent))
            task = self.task()
            self.add(names[-1], "agent", waits, agent=agent, only_if=only_if, task=task)
        self.tail, self.last = (names, len(names)), agents

    def if_so(self) -> None:
        if self.waiting:
            only_if = self.condition()
            self.step([self.fresh()], self.tail, only_if=only_if)

    def each(self) -> None:
        if self.waiting:
            makers = [name for name in self.latest if name not in self.many]
            maker, key = self.dice.one(makers), self.dice.one(LISTS)
            self.agents[maker]["outputs"].append(key)
            self.many.add(self.waiting[0])
            self.step([self.fresh()], self.tail, for_each=f"{maker}.{key}")

    def after(self) -> None:
        if self.waiting:
            agents = self.dice.some(list(self.latest), 1, 2)
            names = list(dict.fromkeys(self.latest[agent] for agent in agents))
            if names:
                self.step([self.fresh()], (names, len(names)))

    def when(self) -> None:
        if not self.waiting:
            return
        owner = self.dice.one(list(self.latest))
        flag = self.flag(owner)
        if flag is None:
            return
        names = [self.latest[owner]]
        if self.dice.chance(40) and self.tail[1] == len(self.tail[0]):
            names = list(dict.fromkeys([*self.tail[0], *names]))
        self.step([self.fresh()], (names, len(names)), when=f"{owner}.{flag}")

    def back(self) -> None:
        to = self.latest[self.dice.one(list(self.latest))]
        if to == "supervisor":
            return
        condition = self.condition()
        last = self.dice.one((None, "ask_human", "end", "fail"))
        fields = {"if": condition, "go": to, "at_most": self.dice.number(1, 5), "else": last}
        self.decide(fields)

    def stop(self) -> None:
        self.decide({"if": self.condition(), "go": "end"})

    def decide(self, fields: dict[str, Any]) -> None:
        self.blocks += 1
        name = self.add(f"#{len(self.nodes)}", "decide", self.tail, **fields)
        self.tail = ([name], 1)

    def ask(self) -> None:
        fields: dict[str, Any] = {"ask": "Go on?"}
        if self.dice.chance(40):
            fields["only_if"] = self.condition()
        elif self.dice.chance(40):
            to = self.latest[self.dice.one(list(self.latest))]
            if to != "supervisor":
                fields["options"] = ["approve", to]
        self.blocks += 1
        self.tail = ([self.add(f"#{len(self.nodes)}", "ask", self.tail, **fields)], 1)

    def time(self) -> dict[str, Any]:
        """How long, or until when."""
        if self.dice.chance(30):
            return {"wait_until": self.dice.one(TIMES)}
        return {"wait": self.dice.one(SPANS)}

    def pause(self) -> None:
        fields = self.time()
        if self.dice.chance(30):
            fields["only_if"] = self.condition()
        self.blocks += 1
        self.tail = ([self.add(f"#{len(self.nodes)}", "wait", self.tail, **fields)], 1)

    def beside(self) -> None:
        """A wait beside agents; what follows waits for all of them, or for some."""
        before = self.tail
        agents = [self.fresh() for _ in range(min(len(self.waiting), self.dice.number(1, 2)))]
        if not agents:
            return
        self.step(agents, before)
        name = self.add(f"#{len(self.nodes)}", "wait", before, **self.time())
        names = [*self.tail[0], name]
        self.tail = (names, len(names))
        if self.waiting:
            self.tail = (names, self.dice.one((len(names), len(names), 1)))
            self.alone()

    def within(self) -> None:
        """An agent that waits so long for a flag, and what happens then."""
        if len(self.waiting) < 2:
            return
        owner = self.dice.one(list(self.latest))
        flag = self.flag(owner)
        if flag is None:
            return
        names = [self.latest[owner]]
        how = self.dice.one(("skip", "ask_human", "", "phase"))
        late, instead = self.fresh(), self.fresh() if how == "phase" else ""
        fields = {"when": f"{owner}.{flag}", "within": self.dice.one(SPANS)}
        self.step([late], (names, len(names)), **fields, **{"else": instead or how})
        if instead:
            waiting = self.tail[0]
            self.blocks += 1
            name = self.phase(instead)
            self.add(name, "agent", ([], 0), agent=instead, task=self.task(), after="go")
            self.tail = ([*waiting, name], 1)

    def supervisor(self) -> None:
        if self.builder or len(self.waiting) < 3:
            return
        self.builder = True
        lead, *workers = [self.fresh() for _ in range(min(len(self.waiting), 4))]
        options = {"supervisor": lead, "workers": workers, "at_most": self.dice.number(1, 12)}
        self.blocks += 1
        self.add("supervisor", "use", self.tail, use="supervisor", **{"with": options})
        for agent in (*workers, lead):
            self.counts[agent] = 1
            self.latest[agent] = "supervisor"
        self.tail, self.last = (["supervisor"], 1), [*workers, lead]

    # -- questions and gates -----------------------------------------------------------------------

    def ask_before(self) -> None:
        for node in [n for n in self.nodes if n["kind"] == "agent"]:
            if not self.dice.chance(8) or _sent(node):
                continue
            at = next(i for i, n in enumerate(self.nodes) if n["block"] == node["block"])
            fields: dict[str, Any] = {"ask": "May it start?"}
            if node["fields"].get("only_if"):
                fields["only_if"] = node["fields"]["only_if"]
            earlier = {n["fields"]["agent"]: n["name"] for n in self.nodes[:at] if _works(n)}
            if earlier and self.dice.chance(40):
                fields["options"] = ["approve", earlier[self.dice.one(list(earlier))]]
            ask = {
                "name": f"before_{node['name']}",
                "kind": "ask",
                "of": node["of"],
                "need": node["need"],
                "block": -1 - len(self.nodes),
                "fields": fields,
                "named": True,
            }
            node["of"], node["need"] = [ask["name"]], 1
            self.nodes.insert(at, ask)

    def gates(self) -> None:
        gated: dict[str, str] = {}
        for agent in self.agents:
            if agent in self.many or not self.dice.chance(8):
                continue
            sure = self.dice.chance(50)
            key = "confidence" if sure else "unsure"
            mine = [n for n in self.nodes if _works(n) and n["fields"]["agent"] == agent]
            if not mine:
                continue
            self.agents[agent]["outputs"].append(key)
            for node in mine:
                name = node["name"]
                only_if = f"not {agent}.confidence >= 0.7" if sure else f"{agent}.unsure"
                options = ["go on", name, "stop"]
                gated[name] = f"gate_{name}"
                gate = {
                    "name": f"gate_{name}",
                    "kind": "ask",
                    "of": [name],
                    "need": 1,
                    "block": -1000 - len(gated),
                    "fields": {"ask": "Is it good?", "only_if": only_if, "options": options},
                    "named": True,
                    "gate": True,
                }
                at = [i for i, n in enumerate(self.nodes) if n["block"] == node["block"]]
                self.nodes.insert(at[-1] + 1, gate)
        for node in self.nodes:
            if not node.get("gate"):
                node["of"] = [gated.get(name, name) for name in node["of"]]

    # -- rules -----------------------------------------------------------------------------------

    def rules(self) -> dict[str, Any]:
        dice, names = self.dice, list(self.agents)
        offered = dice.some(TOOLS, 0, 5)
        self.tools = {tool: self.tool(tool) for tool in offered}
        out: dict[str, Any] = {"permissions": {}, "approvals": {}, "limits": {}}
        if dice.chance(25):
            desks = dice.some(GROUPS, 1, 2)
            out["groups"] = self.desks = {desk: dice.some(names, 1, 3) for desk in desks}
        for tool in offered:
            having = names if dice.chance(15) else dice.some(names, 0, 3)
            for name in having:
                self.agents[name]["tools"].append(tool)
            if not having or dice.chance(40):
                out["permissions"][tool] = having
            if dice.chance(25):
                out["approvals"][tool] = None if dice.chance(50) else dice.some(names, 1, 2)
        for node in self.nodes:
            if _works(node) and not _sent(node) and offered and dice.chance(6):
                node["fields"]["needs"] = dice.some(offered, 1, 2)
        out["limits"] = self.limits()
        for name in names:
            self.settings(name)
        self.sight(names)
        if self.logs:
            out["logs"] = self.logs
        self.calls(offered, out)
        if dice.chance(25):
            out["interrupts"] = self.questions()
        return out

    def limits(self) -> dict[str, Any]:
        dice = self.dice
        found: dict[str, Any] = {}
        if dice.chance(20):
            found["steps"] = dice.number(5, 500)
        if dice.chance(20):
            found["parallel"] = dice.number(1, 9)
        spent = (("tokens", 50_000), ("cost", 2.5), ("wall", "90m"))
        return {**found, **{what: most for what, most in spent if dice.chance(10)}}

    def calls(self, offered: Sequence[str], out: dict[str, Any]) -> None:
        """Rules over calls of tools, and what these may reach."""
        dice, rules = self.dice, list[dict[str, Any]]()
        for _ in range(dice.number(1, 3) if offered and dice.chance(40) else 0):
            tools = dice.some(offered, 1, 2) or [offered[0]]
            several = tools if len(tools) > 1 else tools[0]
            rule: dict[str, Any] = {"tool": dice.one((tools[0], several, "*"))}
            if dice.chance(60):
                agents = dice.some(list(self.agents), 0, 2)
                groups = [f"group:{name}" for name in dice.some(list(self.desks), 0, 1)]
                rule |= {"agents": [*agents, *groups]} if agents or groups else {}
            do = dice.one(("never", "ask", "always"))
            rule["do"] = do
            if do == "always" or (do == "ask" and dice.chance(30)):
                rule["quota"] = dice.one(QUOTAS)
            if dice.chance(50):
                rule["if"] = self.condition()
            elif dice.chance(30):
                switch = dice.one(SWITCHES)
                rule["if"] = dice.one((switch, f"not {switch}"))
                out["flags"] = {**out.get("flags", {}), switch: False}
            if rule not in rules:
                rules.append(rule)
        if rules:
            out["rules"] = rules
        for tool in offered:
            if dice.chance(10):
                self.tools[tool]["hosts"] = dice.some(HOSTS, 1, 3) or [HOSTS[0]]

    def questions(self) -> dict[str, Any]:
        """When people are asked, who answers, and what happens where nobody does."""
        dice = self.dice
        found: dict[str, Any] = {}
        if dice.chance(50):
            found["people"] = dice.some(PEOPLE, 1, 2) or [PEOPLE[0]]
        if dice.chance(30):
            found["valid"] = dice.one(SPANS)
        if dice.chance(30):
            found["approve_risk"] = dice.one(("high", "low"))
        if dice.chance(50):
            found |= self.late()
        if dice.chance(30):
            found["kinds"] = {dice.one(("ask", "tool_approval", "budget")): self.late()}
        return found

    def late(self) -> dict[str, Any]:
        default = self.dice.one(("reject", "stop", "escalate"))
        found = {"expires": self.dice.one(SPANS), "default": default}
        return {**found, "escalate_to": "eve"} if default == "escalate" else found

    def tool(self, name: str) -> dict[str, Any]:
        made = {"run": f"my_tools:{name}", "effects": self.dice.one(("read", "write", "external"))}
        if name in {"deploy", "send_email"}:
            made["risk"] = "high"
        return made

    def settings(self, name: str) -> None:
        agent, dice = self.agents[name], self.dice
        if dice.chance(10):
            agent["model"] = dice.one(MODELS)
        if dice.chance(10):
            agent["on_error"] = dice.one(("fail", "continue"))
        if dice.chance(5):
            agent["enabled"] = False
        if dice.chance(8):
            rounds = {"use": "review_loop", "with": {"rounds": dice.number(1, 4)}}
            agent["pattern"] = dice.one(("planner_executor", rounds))
        agent["prompt"] = f"You are the {name.replace('_', ' ')}."
        if dice.chance(30):
            trait = dice.one(TRAITS)
            mine = [n for n in self.nodes if _works(n) and n["fields"]["agent"] == name]
            if len(mine) == 1 and mine[0]["fields"].get("task"):
                trait = f"{mine[0]['fields'].pop('task')}. {trait}"
            agent["prompt"] += f" Your part: {trait}."
        if name not in self.many and dice.chance(8):
            agent["outputs"].append("confidence")
            agent["ask_below"] = dice.one((0.8, 0.57, 1))
        if not self.plain and dice.chance(30):
            agent["max_calls"] = dice.number(1, 50)
            agent["model_settings"] = {"temperature": 0}

    def sight(self, names: Sequence[str]) -> None:
        blind = self.dice.some(names, 0, 1) if self.dice.chance(10) else []
        for name in blind:
            self.agents[name]["reads"] = []
        if len(names) < 3 or not self.dice.chance(20):
            return
        source = self.dice.one(names)
        others = [n for n in names if n != source and n not in blind]
        readers = self.dice.some(others, 1, len(others))
        log = f"{'channel' if self.desks else 'group'}:{source}"
        if self.desks:  # there, `group:` is for groups
            self.logs[source] = {"readers": readers, "writers": [source]}
        self.agents[source]["writes"] = [log]
        for name in readers:
            self.agents[name]["reads"] = ["public", log]

    # -- the definition ----------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        self.work()
        self.ask_before()
        self.gates()
        rules = self.rules()
        self.name()
        named = {*rules["permissions"], *rules["approvals"]}
        named |= {tool for agent in self.agents.values() for tool in agent["tools"]}
        named |= {tool for node in self.nodes for tool in node["fields"].get("needs", ())}
        for rule in rules.get("rules", ()):
            named |= {rule["tool"]} if isinstance(rule["tool"], str) else {*rule["tool"]}
        for agent in self.agents.values():
            for key in ("outputs", "writes_flags"):
                agent[key] = list(dict.fromkeys(agent[key]))
        whole: dict[str, Any] = {
            "crew": self.dice.one(CREWS),
            "model": "openai:gpt-5-mini",
            "agents": self.agents,
            "tools": {tool: made for tool, made in self.tools.items() if tool in named},
            "flow": self.flow(),
            **rules,
        }
        if not self.plain:
            self.more(whole)
        return whole

    def name(self) -> None:
        """Names decisions and questions as the flow names them."""
        names: dict[str, str] = {}
        taken = {n["name"] for n in self.nodes if not n["name"].startswith("#")}
        asks = waits = 0
        for node in self.nodes:
            node["of"] = [names.get(name, name) for name in node["of"]]
            if not node["name"].startswith("#"):
                continue
            if node["kind"] == "ask":
                asks += 1
                base = f"ask_{asks}"
            elif node["kind"] == "wait":
                waits += 1
                base = f"wait_{waits}"
            else:
                base = "after_" + ("_".join(node["of"]) or "start")
            name, count = base[:64], 1
            while name in taken:
                count += 1
                name = f"{base[:60]}_{count}"
            taken.add(name)
            names[node["name"]] = node["name"] = name

    def flow(self) -> list[Any]:
        """The phases as people write them."""
        items: list[Any] = []
        previous: tuple[list[str], int] = ([], 0)
        groups = self.groups()
        for i, group in enumerate(groups):
            waits = (group[0]["of"], group[0]["need"])
            names = [node["name"] for node in group]
            after = None
            if waits != previous or self.dice.chance(5):
                after = None if _sent(group[0]) else _after(*waits)
            parts = [self.item(node) for node in group]
            following = groups[i + 1][0] if i + 1 < len(groups) else {"of": [], "need": 0}
            need = following["need"] if following["of"] == names else len(names)
            if len(parts) == 1:
                item = parts[0]
                if after is not None:
                    item["after"] = after
                items.append(item["agent"] if item.keys() == {"agent"} else item)
            elif after is None and need == len(names):
                items.append([p["agent"] if p.keys() == {"agent"} else p for p in parts])
            else:
                join: Any = {len(names): "all", 1: "any"}.get(need, need)
                block = {"parallel": parts, "join": join}
                items.append(block if after is None else {**block, "after": after})
            previous = (names, need)
        return items

    def groups(self) -> list[list[dict[str, Any]]]:
        """The phases with those that are written in one item together."""
        groups: list[list[dict[str, Any]]] = []
        for node in self.nodes:
            last = groups[-1][0] if groups else {}
            beside = [node[key] == last.get(key) for key in ("block", "of", "need")]
            alike = {node["kind"], last.get("kind")} <= {"agent", "wait"}
            if all(beside) and alike and not self.dice.chance(20):
                groups[-1].append(node)
            else:
                groups.append([node])
        return groups

    def item(self, node: dict[str, Any]) -> dict[str, Any]:
        item = dict(node["fields"])
        if node.get("named") or (node["kind"] == "agent" and node["name"] != item["agent"]):
            item["phase"] = node["name"]
        return item

    def more(self, whole: dict[str, Any]) -> None:
        """What only a definition can say."""
        dice = self.dice
        if dice.chance(50):
            whole["description"] = "Does: what it's told: “quickly”."
        if dice.chance(30):
            more = {"weekend": dice.one((True, False, "no", 3))}
            whole["flags"] = {**whole.get("flags", {}), **more}
        if dice.chance(30):
            whole["approval"] = dice.one(("required", "none"))
        if dice.chance(30):
            whole["limits"]["events"] = 500
        for tool in whole["tools"].values():
            if dice.chance(20):
                tool["timeout"] = dice.one((5, "2m", 0.5))
                tool["paths"] = ["notes/"]
        keys = [flag for agent in self.agents.values() for flag in agent["writes_flags"]]
        keys += [f"{name}.{key}" for name, agent in self.agents.items() for key in agent["outputs"]]
        if keys and dice.chance(40):
            whole["merge"] = {dice.one(keys): dice.one(("last", "append"))}
        for agent in whole["agents"].values():
            if dice.chance(15):
                agent["prompt"] = "Write notes.\n\n  Keep\tit short: yes, no, ~\n# and so on\n"
        for item in whole["flow"]:
            if isinstance(item, dict) and "ask" in item and dice.chance(30):
                item["sets"] = "answer"


def _works(node: dict[str, Any]) -> bool:
    return bool(node["kind"] == "agent")


def _sent(node: dict[str, Any]) -> bool:
    """Whether a phase starts only where another gives way to it."""
    return node["fields"].get("after") == "go"


def _after(of: list[str], need: int) -> Any:
    if need == len(of):
        return of
    return {"any": of} if need == 1 else {"quorum": need, "of": of}


def roll(dice: Dice, size: int, *, plain: bool) -> CrewDefinition | None:
    """A crew of that many agents; none where its courses cannot be run as they fell."""
    try:
        return load_data(Roll(dice, size, plain=plain).data())
    except InvalidDefinition as error:
        faults = [d.message for d in error.diagnostics if d.severity == "error"]
        if all(any(say in fault for say in COURSES) for fault in faults):
            return None
        raise


def seeded(seed: int, size: int, *, plain: bool = True) -> CrewDefinition | None:
    """The crew of a seed."""
    return roll(Dice(random.Random(seed).randint), size, plain=plain)  # noqa: S311


@st.composite
def crews(draw: Any, *, plain: bool = False, largest: int = 30) -> CrewDefinition:
    """Any crew; `plain` ones are those that English can say."""
    size = draw(st.one_of(st.integers(1, 6), st.integers(1, largest)))
    crew = roll(Dice(lambda least, most: draw(st.integers(least, most))), size, plain=plain)
    return reject() if crew is None else crew


def registry_for(crew: CrewDefinition) -> Registry:
    """A registry that offers what a crew uses."""
    tools = {name: tool.to_json() for name, tool in crew.tools.items()}
    for tool in tools.values():
        if tool.get("hosts"):
            tool["hosts"] = ["*"]  # more than what is said that it may reach
    return Registry.model_validate({"model": crew.model, "models": list(MODELS), "tools": tools})
