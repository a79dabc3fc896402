"""Agents whose last word has a form: a judge, who chooses the way, who only runs tools.

    The router chooses between a plan and doing it at once. If a plan is needed, …
    The judge says whether the goal is reached. If the goal is not reached, …
    The tests agent only runs run_pytest. If the tests fail, …

What conditions say of it in prose is one of the fields that such an agent sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crewlog.definition import conditions as c
from crewlog.definition.doing import DoneCall
from crewlog.definition.findings import listed
from crewlog.definition.replies import Reply
from crewlog.prompt import ast
from crewlog.prompt.ast import Words

if TYPE_CHECKING:
    from crewlog.prompt.assemble import Assembly


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EVALUATORS = "crewlog.evaluators:"
_PASSED = "passed"
_REACHED = _words("""
goal_reached reached goal_met met goal_achieved achieved goal_fulfilled fulfilled done goal_done
complete finished goal_attained attained enough
""")
_MISSED = _words("""
goal_missed missed goal_not_reached goal_unreached unreached
""")
_PASS = _words("""
pass passed passes succeed succeeds succeeded green fine clean
""")
_FAIL = _words("""
fail failed fails red broken faulty
""")
_PLANNING = _words("""
needed need needs necessary required requires chosen chooses choose wanted wants want called
picks picked decides decided worth due is for
""")
_DIRECT = _words("""
once direct directly simple itself immediately straight small
""")
_PLAN, _AT_ONCE = "plan_then_parallel", "direct_execution"


class Deciders:
    """Takes what is said of them.

    Args:
        crew: The draft that they belong to.
    """

    def __init__(self, crew: Assembly) -> None:
        self._crew = crew
        self._said: dict[str, ast.Decides] = {}
        self._used: set[str] = set()
        """Those whose choice a condition asks for."""

    def decides(self, said: ast.Decides) -> None:
        """`The judge says whether the goal is reached`."""
        member = self._crew.member(said.agent, said.words)
        offered = member.offered.reply if member.offered else None
        self._said[said.agent] = said
        text = f"decides {said.decision}"
        if offered is not None and offered.decision == said.decision:
            self._crew.note(said.agent, f"reply: {text}", said.words)
            return
        self._crew.setting(said.agent, "reply", Reply(decision=said.decision), text, said.words)

    def does(self, said: ast.Does) -> None:
        """`The tests agent only runs run_pytest`."""
        calls = tuple(DoneCall(tool=tool) for tool in said.tools)
        for agent in said.agents:
            member = self._crew.member(agent, said.words)
            own = member.offered.does if member.offered else ()
            if {call.tool for call in own} == {*said.tools}:
                self._crew.note(agent, f"does: {listed(said.tools)}", said.words)
                continue
            self._crew.setting(agent, "does", calls, listed(said.tools), said.words)
            evaluates = [self._evaluates(tool) for tool in said.tools]
            if any(evaluates):
                for key in ("signals", _PASSED):
                    member.outputs.setdefault(key, [])
        self._crew.authority.allow(
            ast.Allow(agents=said.agents, tools=said.tools, words=said.words)
        )

    def _evaluates(self, tool: str) -> bool:
        offered = self._crew.registry.tools.get(tool)
        return offered is not None and str(offered.run).startswith(_EVALUATORS)

    def sure(self, said: ast.Gate) -> tuple[str, ...]:
        """Takes `ask me if it is less than 70 % sure` of judges; the agents that are none."""
        others: list[str] = []
        for agent in said.agents:
            if self._decision(agent) == "terminate" and said.below:
                text = f"{said.below:g}"
                self._crew.setting(agent, "ask_below", said.below, text, said.words)
                self._crew.members[agent].outputs.setdefault("confidence", [])
            else:
                others.append(agent)
        return tuple(others)

    def tell(self) -> None:
        """Says of whom a choice is asked for that changes nothing."""
        for agent, said in self._said.items():
            if said.decision == "strategy" and agent not in self._used:
                self._crew.remarks.warning(
                    "unused",
                    f"nothing hangs on what {agent!r} chooses",
                    said.words,
                    "Say it: 'If a plan is needed, the A …; otherwise the B …'",
                )

    # -- conditions ------------------------------------------------------------------------------

    def meant(self, said: ast.Fact, words: tuple[Words, ...]) -> c.Condition | None:
        """What a condition in prose says of one of them; none where it says nothing of them."""
        if said.operator is not None:
            return None
        return self._goal(said) or self._way(said) or self._result(said, words)

    def _decision(self, agent: str) -> str | None:
        member = self._crew.members.get(agent)
        if agent in self._said:
            return self._said[agent].decision
        reply = member.offered.reply if member and member.offered else None
        return reply.decision if reply else None

    def _those(self, decision: str, agent: str | None) -> list[str]:
        names = [agent] if agent else [*self._crew.members]
        return [name for name in names if self._decision(name) == decision]

    def _goal(self, said: ast.Fact) -> c.Condition | None:
        if said.name not in _REACHED | _MISSED:
            return None
        judges = self._those("terminate", said.agent)
        near = "goal" in said.name or said.about == "goal" or said.agent
        if not near:
            judges = [name for name in judges if name in self._crew.workers()]
        if not judges:
            return None
        done = c.Fact(agent=judges[-1], name="done")
        return c.Not(of=done) if said.name in _MISSED else done

    def _way(self, said: ast.Fact) -> c.Condition | None:
        parts = {*said.name.split("_"), *said.about.split("_")}
        who = self._those("strategy", said.agent)
        if not who:
            return None
        if "plan" in parts and parts & _PLANNING:
            value = _PLAN
        elif parts & _DIRECT and not parts & {"plan"}:
            value = _AT_ONCE
        else:
            return None
        self._used.add(who[-1])
        return c.Fact(agent=who[-1], name="strategy", operator="==", value=value)

    def _result(self, said: ast.Fact, words: tuple[Words, ...]) -> c.Condition | None:
        """Whether the tests pass, where an agent without a model runs them."""
        crew = self._crew
        owner = said.agent
        plain = said.name.rpartition("_")[2]
        about = said.about or said.name.rpartition("_")[0]
        if owner is None:
            named = [n for n in (about, about.rstrip("s"), f"{about}s") if n in crew.members]
            owner = next((name for name in named if self._bare(name)), None)
        if owner is None and plain in _PASS | _FAIL:
            owner = next((name for name in crew.workers() if self._bare(name)), None)
        if owner is None or owner not in crew.members or not self._bare(owner):
            return None
        member = crew.members[owner]
        keys = [*(member.offered.outputs if member.offered else ()), *member.outputs]
        if plain in _PASS | _FAIL:
            if _PASSED not in keys:
                member.outputs.setdefault(_PASSED, [])
            passed = c.Fact(agent=owner, name=_PASSED)
            return c.Not(of=passed) if plain in _FAIL else passed
        if said.name not in keys:
            member.outputs.setdefault(said.name, [])
            say = f"{owner!r} has no model: its tool must return {said.name!r}"
            crew.remarks.warning("assumed", say, words, "Or let an agent with a model say it.")
        return c.Fact(agent=owner, name=said.name)

    def _bare(self, agent: str) -> bool:
        """Whether an agent has no model."""
        member = self._crew.members[agent]
        return bool(member.fields.get("does") or (member.offered and member.offered.does))
