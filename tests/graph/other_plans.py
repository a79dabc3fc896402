"""Other plans for a run: the same one with something changed, at random."""

from __future__ import annotations

import random
from collections.abc import Callable

from crewlog.definition.conditions import parse_condition
from crewlog.graph.plan import GraphPlan, Join, PlanNode
from crewlog.ids import AgentName, NodeName

Change = Callable[[random.Random, GraphPlan], GraphPlan]


def other_plan(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """The plan with one to three things changed."""
    plan = plan.model_copy(update={"detached_steps": {}})
    for _ in range(rng.choice([1, 1, 2, 3])):
        plan = rng.choice(_CHANGES)(rng, plan)
    return plan.model_copy(update={"definition": f"d{rng.randrange(10**9)}"})


def without(plan: GraphPlan, gone: NodeName) -> GraphPlan:
    """The plan without a node: what waited for it waits for what it waited for."""
    join = plan.nodes[gone].join
    nodes: dict[NodeName, PlanNode] = {}
    for name, node in plan.nodes.items():
        if name == gone:
            continue
        if node.join is not None and gone in node.join.of:
            of = [s for s in node.join.of if s != gone]
            of += [s for s in (join.of if join else ()) if s not in of and s != name]
            node = node.model_copy(update={"join": _join(of, node.join), "entry": not of})
        nodes[name] = node.model_copy(update=_no_way_to(node, gone))
    return plan.model_copy(update={"nodes": nodes})


def _no_way_to(node: PlanNode, gone: NodeName) -> dict[str, object]:
    if node.decide is not None and gone in (node.decide.go, node.decide.otherwise):
        go = "end" if node.decide.go == gone else node.decide.go
        otherwise = "next" if node.decide.otherwise == gone else node.decide.otherwise
        return {"decide": node.decide.model_copy(update={"go": go, "otherwise": otherwise})}
    if node.route is not None and gone in node.route.nodes:
        to = tuple(target for target in node.route.to if target != gone)
        otherwise = "next" if node.route.otherwise == gone else node.route.otherwise
        return {"route": node.route.model_copy(update={"to": to, "otherwise": otherwise})}
    if node.ask is not None and gone in node.ask.options:
        options = tuple(option for option in node.ask.options if option != gone)
        return {"ask": node.ask.model_copy(update={"options": options})}
    return {"otherwise": "ask_human"} if node.otherwise == gone else {}


def _join(of: list[NodeName], old: Join) -> Join | None:
    if not of:
        return None
    need = len(of) if old.need == len(old.of) else min(old.need, len(of))
    return Join(of=tuple(of), need=need)


def _remove(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    return without(plan, rng.choice(list(plan.nodes))) if len(plan.nodes) > 2 else plan


def _insert(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """A new node between another one and all that waits for it, or beside that."""
    source = rng.choice(list(plan.nodes))
    name = NodeName(f"n{rng.randrange(10**6)}")
    between = rng.random() < 0.6
    nodes: dict[NodeName, PlanNode] = {}
    for each, node in plan.nodes.items():
        if between and node.join is not None and source in node.join.of:
            of = tuple(name if s == source else s for s in node.join.of)
            node = node.model_copy(update={"join": Join(of=of, need=node.join.need)})
        nodes[each] = node
        if each == source:
            join = Join(of=(source,), need=1)
            agent = AgentName(rng.choice(list(plan.agents)))
            nodes[name] = PlanNode(kind="agent", agent=agent, join=join)
    return plan.model_copy(update={"nodes": nodes})


def _replace(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """Another agent in the place of one."""
    names = [n for n, node in plan.nodes.items() if node.agent is not None]
    if not names:
        return plan
    name = rng.choice(names)
    agent = rng.choice(list(plan.agents))
    node = plan.nodes[name].model_copy(update={"agent": agent})
    return plan.model_copy(update={"nodes": {**plan.nodes, name: node}})


def _need(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """Another number of sources that a join needs."""
    names = [n for n, node in plan.nodes.items() if node.join and len(node.join.of) > 1]
    if not names:
        return plan
    name = rng.choice(names)
    join = plan.nodes[name].join
    assert join is not None
    node = plan.nodes[name].model_copy(
        update={"join": Join(of=join.of, need=rng.randint(1, len(join.of)))}
    )
    return plan.model_copy(update={"nodes": {**plan.nodes, name: node}})


def _earlier(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """A node that waits for another earlier one too, or for that instead."""
    names = list(plan.nodes)
    at = rng.randrange(1, len(names)) if len(names) > 1 else 0
    node = plan.nodes[names[at]]
    if at == 0 or node.join is None:
        return plan
    of = [] if rng.random() < 0.4 else list(node.join.of)
    source = rng.choice(names[:at])
    of += [source] if source not in of else []
    changed = node.model_copy(update={"join": Join(of=tuple(of), need=rng.randint(1, len(of)))})
    return plan.model_copy(update={"nodes": {**plan.nodes, names[at]: changed}})


def _when(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """Another requirement, or none."""
    names = [n for n, node in plan.nodes.items() if node.agent is not None]
    if not names:
        return plan
    name = rng.choice(names)
    when = rng.choice([None, parse_condition("ready"), parse_condition("ok or ready")])
    node = plan.nodes[name].model_copy(update={"when": when})
    return plan.model_copy(update={"nodes": {**plan.nodes, name: node}})


def _rules(rng: random.Random, plan: GraphPlan) -> GraphPlan:
    """Other rules and the same graph."""
    agent = rng.choice(list(plan.agents))
    rules = plan.agents[agent].model_copy(update={"max_calls": rng.choice([2, 25, 30])})
    named = rng.choice([None, (), (agent,)])
    return plan.model_copy(
        update={
            "agents": {**plan.agents, agent: rules},
            "permissions": {**plan.permissions, rng.choice(["read", "act"]): named},
        }
    )


_CHANGES: tuple[Change, ...] = (_remove, _insert, _replace, _need, _earlier, _when, _rules)
