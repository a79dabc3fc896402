# ruff: noqa: E501  (tables of cases: a case is a line)
"""A LangGraph graph as a part of a flow: what it becomes, what it refuses, and that it runs
alike."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from crewlog import choose, route
from crewlog.definition.builders import Built, Place
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import DefinitionError
from crewlog.graph.lowering.flow_translation import UntranslatableGraph, translate
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_context import CallRequest
from crewlog.state.calls import CallModelResult, CallToolResult
from definition.kit import registered
from graph.simulation import Simulation, returns, run, says

NAMES = [*"abcdefgh"]


class State(TypedDict, total=False):
    ran: Annotated[list[str], operator.add]
    approved: bool
    ok: bool


def graph(*edges: Any, **choices: Any) -> Any:
    """A graph of its edges; a list as a source waits for all. The nodes are those named."""
    made: Any = StateGraph(State)
    named = [n for s, t in edges for n in ([s, t] if isinstance(s, str) else [*s, t])]
    named += [*choices]
    named += [t for c in choices.values() for t in c.targets if t != END]
    for name in dict.fromkeys(n for n in named if n not in (START, END)):
        made.add_node(name, lambda _state: {})
    for source, target in edges:
        made.add_edge(source, target)
    for source, choice in choices.items():
        made.add_conditional_edges(source, choice)
    return made


def chain(*names: str) -> list[tuple[str, str]]:
    """`START`, the nodes, `END`."""
    return [*zip((START, *names), (*names, END), strict=True)]


def crew(agents: Any = NAMES) -> CrewDefinition:
    made = {name: {"prompt": "p", "writes_flags": ["approved", "ok"]} for name in agents}
    merge = {"approved": "last", "ok": "last"}
    return CrewDefinition.from_json(
        {"crew": "t", "model": "openai:x", "agents": made, "merge": merge, "flow": [*agents]}
    )


def built(made: Any, **more: Any) -> Built:
    return translate(made, Place(more.pop("phase", "part"), crew(), **more))


def shown(part: Built) -> list[str]:
    """The items in short: `b after a`, `a.choice: not approved → a`."""
    found: list[str] = []
    for item in part.items:
        fields = item.model_dump(mode="json", by_alias=True, exclude_none=True)  # type: ignore[union-attr]
        after = fields.get("after")
        what = f"{fields['phase']}"
        if "if" in fields:
            bound = (
                f" ≤{fields['at_most']} {fields.get('else', 'next')}" if "at_most" in fields else ""
            )
            what += f": {fields['if']} → {fields['go']}{bound}"
        found.append(f"{what} after {after}")
    return found


def test_a_chain_is_a_chain() -> None:
    part = built(graph(*chain("a", "b", "c")))
    assert shown(part) == ["a after []", "b after ['a']", "c after ['b']"]
    assert part.last == "c"


def test_a_review_loop_is_a_decision_that_goes_back() -> None:
    back = route(when="approved", then="c", otherwise="a", at_most=3)
    part = built(graph((START, "a"), ("a", "b"), ("c", END), b=back))
    assert shown(part) == [
        "a after []",
        "b after ['a']",
        "b.choice: not approved → a ≤3 ask_human after b",
        "c after ['b.choice']",
    ]
    assert part.last == "c"


def test_nodes_may_say_their_agent_and_their_task() -> None:
    made: Any = StateGraph(State)
    made.add_node("draft", lambda _s: {}, metadata={"agent": "a", "task": "Write."})
    made.add_node("mend", lambda _s: {}, metadata={"agent": "a"})
    made.add_edge(START, "draft")
    made.add_edge("draft", "mend")
    first, second = built(made.compile()).items
    assert (first.agent, first.phase, first.task) == ("a", "draft", "Write.")  # type: ignore[union-attr]
    assert (second.agent, second.phase, second.task) == ("a", "mend", None)  # type: ignore[union-attr]


def test_in_a_pattern_other_nodes_are_steps_of_the_agent() -> None:
    made: Any = StateGraph(State)
    made.add_node("draft", lambda _s: {})
    made.add_node("b", lambda _s: {})
    made.add_edge(START, "draft")
    made.add_edge("draft", "b")
    items = built(made, agent="a", task="Do it.").items
    assert [(i.agent, i.task) for i in items] == [("a", "Do it."), ("b", "Do it.")]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # A list waits for all.
        (graph((START, "a"), (START, "b"), (["a", "b"], "c")), "c after ['a', 'b']"),
        # Plain edges that arrive together are the same.
        (graph((START, "a"), (START, "b"), ("a", "c"), ("b", "c")), "c after ['a', 'b']"),
        # Only one of them arrives.
        (
            graph((START, "a"), ("b", "d"), ("c", "d"), a=route(when="ok", then="b", otherwise="c")),
            "d after {'any': ['b', 'c']}",
        ),
        # A choice with three ways.
        (
            graph((START, "a"), a=choose({"b": "ok", "c": "approved"}, otherwise="d")),
            "a.choice_2: approved → c after a.choice",
        ),
        (graph((START, "a"), a=route(when="ok", then="b")), "a.choice: ok → b after a"),
        (
            graph((START, "a"), ("a", "b"), b=route(when="ok", then=END, otherwise="a", at_most=1)),
            "b.choice: not ok → a ≤1 ask_human after b",
        ),
        (
            graph((START, "a"), a=choose({"b": "ok", "a": "approved"}, otherwise="a", at_most=2, used_up="fail")),
            "a.choice_2: not ok and not approved → a ≤2 fail after a.choice",
        ),
    ],
)  # fmt: skip
def test_edges_become_what_they_mean(made: Any, expected: str) -> None:
    assert expected in shown(built(made)), shown(built(made))


def test_what_ends_in_several_nodes_ends_in_one_place() -> None:
    part = built(graph((START, "a"), (START, "b"), ("a", END), ("b", END)))
    assert part.last == "part.done"
    assert shown(part)[-1].endswith("after ['a', 'b']")
    fork = built(graph((START, "a"), a=route(when="ok", then="b", otherwise="c")))
    assert shown(fork)[-1].endswith("after {'any': ['b', 'c']}")
    early = built(graph((START, "a"), ("b", END), a=route(when="ok", then=END, otherwise="b")))
    assert "a.choice: ok → part.done after a" in shown(early)


# -- what is refused ------------------------------------------------------------------------------


def code(_state: Any) -> str:
    return "b"


def sends(_state: Any) -> list[Send]:
    return [Send("b", {})]


def commands(_state: Any) -> Command[Any]:
    return Command(goto="b")


def with_node(**more: Any) -> Any:
    made = graph(*chain("a", "b"))
    made.add_node("c", lambda _s: {}, **more)
    made.add_edge("b", "c")
    return made


def with_path(path: Any, *more: Any) -> Any:
    made = graph((START, "a"), ("b", END), *more)
    made.add_conditional_edges("a", path)
    return made


def with_subgraph() -> Any:
    made = graph(*chain("a"))
    made.add_node("b", graph(*chain("c")).compile())
    made.add_edge("a", "b")
    return made


REFUSED: list[tuple[Any, str, str, str]] = [
    (with_path(code), "decided by the function 'code', which is code", "crewlog.route", "conditional edges of 'a'"),
    (with_path(sends), "which is code", "map_reduce", "conditional edges of 'a'"),
    (with_node(defer=True), "'c' has defer=True", "add_edge([a, b], node)", "node 'c'"),
    (with_node(destinations=("a",)), "'c' has destinations", "add_conditional_edges", "node 'c'"),
    (with_subgraph(), "'b' is a graph of its own", "a builder of it", "node 'b'"),
    (graph(*chain("a", "z")), "the agent 'z', which the crew does not have", "metadata", "node 'z'"),
    (graph(*chain("a", "b"), ("b", "a")), "closes a cycle without a limit", "at_most=3", "edge 'b' → 'a'"),
    (graph((START, "a"), ("a", "b"), b=route(when="ok", then="a")), "'b' goes back to 'a' without a limit", "at_most=3", "conditional edges of 'b'"),
    (graph((START, "a"), (START, "b"), ("b", "c"), ("a", "d"), ("c", "d")), "at different times it is reached from a and c", "add_edge(['a', 'c'], 'd')", "node 'd'"),
    (graph((START, "a"), (START, "b"), ("a", "b")), "'b' starts with the graph, and again after a", "two nodes", "node 'b'"),
    (graph((START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("e", "d"), c=route(when="ok", then="e")), "would run once", "add_edge", "node 'd'"),
    (graph((START, "a"), ("b", "a"), ), "nothing leads to the node 'b'", "add_edge(START", "node 'b'"),
    (graph((START, "a"), (START, "b"), (["a", "b"], "c"), ("a", "c")), "it would run for each", "one list edge", "node 'c'"),
    (graph((START, "a"), ("a", "b"), **{START: route(when="ok", then="b")}), "begins with conditional edges", "Begin with an agent", ""),
    (graph(), "the graph has no nodes", "add_node", ""),
]  # fmt: skip


@pytest.mark.parametrize(("made", "message", "remedy", "place"), REFUSED)
def test_what_is_no_data_is_refused(made: Any, message: str, remedy: str, place: str) -> None:
    with pytest.raises(UntranslatableGraph) as raised:
        built(made)
    assert message in raised.value.message
    assert remedy in raised.value.remedy
    assert place in raised.value.place
    assert raised.value.remedy


def test_a_target_that_is_not_there_is_refused() -> None:
    made = graph((START, "a"), ("a", "b"))
    made.add_conditional_edges("b", route(when="ok", then="bb"))
    with pytest.raises(UntranslatableGraph, match="may go to the node 'bb'") as raised:
        built(made)
    assert raised.value.remedy == "Did you mean 'b'?"
    loose = graph((START, "a"))
    loose.add_edge("a", "x")
    with pytest.raises(UntranslatableGraph, match="names the node 'x'"):
        built(loose)


def test_path_maps_and_annotated_commands_are_read() -> None:
    made = graph((START, "a"), ("a", "b"))
    made.add_conditional_edges(
        "b", route(when="ok", then="yes", otherwise="no"), {"yes": END, "no": "a"}
    )
    with pytest.raises(UntranslatableGraph, match="without a limit"):
        built(made)
    with pytest.raises(UntranslatableGraph, match="is no StateGraph"):
        translate(7, Place("p", crew()))
    with pytest.raises(DefinitionError, match="cannot be read"):
        route(when="ok and", then="a")
    with pytest.raises(DefinitionError, match="at least one condition"):
        choose({})


def test_a_fault_of_a_graph_is_a_finding_at_its_use() -> None:
    def make(_options: Any, place: Place) -> Any:
        return translate(graph(*chain("a", "z")), place)

    with registered("drawn", make), pytest.raises(DefinitionError) as raised:
        load_data(crew(["a"]).to_json() | {"flow": [{"use": "drawn"}]})
    assert "flow[0].use" in str(raised.value)
    assert "the agent 'z'" in str(raised.value)


# -- it runs as LangGraph does --------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Any, dict[str, int]]:
    """A graph at random, and how often `approved` must be asked at each node before it is true."""
    count = draw(st.integers(2, 7))
    names = NAMES[:count]
    edges: list[tuple[Any, str]] = []
    choices: dict[str, Any] = {}
    for i, name in enumerate(names):
        before = names[:i]
        kind = draw(st.sampled_from(["plain", "plain", "list", "two", "start"])) if i else "start"
        free = [n for n in before if n not in choices]
        if kind == "start" or not free:
            edges.append((START, name))
        elif kind == "plain":
            edges.append((draw(st.sampled_from(free)), name))
        else:
            some = draw(st.lists(st.sampled_from(free), min_size=1, max_size=3, unique=True))
            edges += [(some, name)] if kind == "list" else [(s, name) for s in some]
        if i and i + 1 < count and draw(st.integers(0, 3)) == 0:
            pick = draw(st.sampled_from(["fork", "back"]))
            targets = names[i + 1 :] if pick == "fork" else before
            then = draw(st.sampled_from(targets))
            rest = draw(st.sampled_from([END, *names[i + 1 :]]))
            when = draw(st.sampled_from(["ok", "not ok"])) if pick == "fork" else f"not {name}.fine"
            choices[name] = route(when=when, then=then, otherwise=rest, at_most=4)
    patience = {name: draw(st.integers(1, 3)) for name in names}
    return graph(*edges, **choices), patience


def langgraph_runs(made: Any, patience: dict[str, int], ok: bool) -> Counter[str]:
    """How often each node runs in LangGraph itself."""
    counts: Counter[str] = Counter()
    again: Any = StateGraph(dict)

    def node(name: str) -> Any:
        def step(_state: Any) -> dict[str, Any]:
            counts[name] += 1
            return {name: {"fine": counts[name] >= patience[name]}}

        return step

    class Merged(TypedDict, total=False):
        ok: bool
        a: Any
        b: Any
        c: Any
        d: Any
        e: Any
        f: Any
        g: Any
        h: Any

    again = StateGraph(Merged)
    for name in made.nodes:
        again.add_node(name, node(name))
    for source, target in made.edges:
        again.add_edge(source, target)
    for sources, target in made.waiting_edges:
        again.add_edge([*sources], target)
    for source, branches in made.branches.items():
        for branch in branches.values():
            again.add_conditional_edges(source, branch.path.func)
    again.compile().invoke({"ok": ok}, {"recursion_limit": 60})
    return counts


async def crewlog_runs(made: Any, patience: dict[str, int], ok: bool) -> Counter[str]:
    agents = {n: {"prompt": "p", "outputs": ["fine"]} for n in made.nodes}

    def make(_options: Any, place: Place) -> Any:
        return translate(made, place)

    with registered("drawn", make):
        data = {"crew": "t", "model": "openai:x", "agents": agents, "flags": {"ok": ok}}
        plan = lower(load_data(data | {"flow": [{"use": "drawn"}]}))
    first = next(iter(n for n in plan.nodes if n == "drawn"))
    name_of = {"drawn": plan.nodes[first].agent}

    def script(order: CallRequest) -> CallModelResult | CallToolResult:
        node, _, visit = str(order.step).partition("#")
        agent = str(name_of.get(node, node))
        if order.call.tool is None:
            return says("", *(["set_output"] if order.call.call == 1 else []))
        fine = int(visit) >= patience[agent]
        return returns("", outputs=[{"key": "fine", "value": fine}])

    sim: Simulation = await run(plan, script)
    assert sim.state.status == "completed", sim.state.interrupts
    return Counter(str(name_of.get(s.partition("#")[0], s.partition("#")[0])) for s in sim.ran())


TAKEN: Counter[str] = Counter()


@settings(max_examples=250, deadline=None, suppress_health_check=[*HealthCheck])
@given(graphs(), st.booleans())
async def test_each_node_runs_as_often_as_in_langgraph(
    made_patience: tuple[Any, dict[str, int]], ok: bool
) -> None:
    made, patience = made_patience
    try:
        translate(made, Place("drawn", crew()))
    except UntranslatableGraph:
        TAKEN["refused"] += 1
        return
    TAKEN["taken"] += 1
    assert await crewlog_runs(made, patience, ok) == langgraph_runs(made, patience, ok)


def test_enough_of_the_graphs_were_taken() -> None:
    assert TAKEN["taken"] > 40, TAKEN
