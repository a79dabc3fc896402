"""Crews for tests of the graph: small flows, and generated ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan


def agents_in(flow: Any) -> list[str]:
    """The agents that a flow names, once each, in order."""
    if isinstance(flow, str):
        return [flow]
    if isinstance(flow, list):
        return list(dict.fromkeys(name for item in flow for name in agents_in(item)))
    if "for_each" in flow:
        return list(dict.fromkeys([*filter(None, [flow.get("agent")]), *flow.get("among", [])]))
    return [flow["agent"]] if "agent" in flow else agents_in(flow.get("parallel", []))


def crew(
    flow: list[Any], agents: dict[str, dict[str, Any]] | None = None, **more: Any
) -> CrewDefinition:
    """A crew of the agents that the flow names; the flag `ok` is there."""
    made = {name: {"prompt": "p"} | (agents or {}).get(name, {}) for name in agents_in(flow)}
    data = {"crew": "t", "model": "openai:x", "agents": made, "flow": flow, "flags": {"ok": False}}
    return load_data(data | more)


def plan_of(
    flow: list[Any], agents: dict[str, dict[str, Any]] | None = None, **more: Any
) -> GraphPlan:
    """The plan of `crew`."""
    return lower(crew(flow, agents, **more))


def flutter() -> GraphPlan:
    """The Flutter music app: two in parallel, an aggregator, audio once the models are ready."""
    return plan_of(
        [
            ["ui_designer", "backend"],
            "aggregator",
            {"agent": "audio", "when": "backend.models_ready"},
        ],
        {"backend": {"writes_flags": ["models_ready"]}},
    )


@st.composite
def flows(draw: st.DrawFn) -> list[Any]:
    """Valid flows: sequences, blocks, joins of all kinds on earlier phases, loops, questions."""
    flow: list[Any] = []
    names: list[str] = []
    for i in range(draw(st.integers(1, 7))):
        kind = draw(
            st.sampled_from(["agent", "agent", "list", "parallel", "after", "loop", "ask", "end"])
        )
        here = [f"p{i}_{j}" for j in range(draw(st.integers(1, 4)))]
        if kind == "list":
            flow.append(here)
        elif kind == "parallel":
            join = draw(st.sampled_from(["all", "any", len(here)]))
            flow.append({"parallel": here, "join": join})
        elif kind == "after" and names:
            of = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
            after = draw(
                st.sampled_from([of, [], {"any": of}, {"all": of}, {"quorum": len(of), "of": of}])
            )
            flow.append({"agent": here[0], "after": after})
            here = here[:1]
        elif kind == "loop" and names:
            go = draw(st.sampled_from(names))
            here = [f"d{i}"]
            flow.append({"if": "not ok", "go": go, "at_most": 2, "phase": here[0]})
        elif kind == "ask":
            here = [f"q{i}"]
            flow.append({"ask": "Ok?", "phase": here[0]})
        elif kind == "end" and names:
            here = [f"d{i}"]
            flow.append({"if": "ok", "go": "end", "phase": here[0]})
        else:
            here = here[:1]
            flow.append(here[0])
        names += here
    if not agents_in(flow):
        flow.append("last")
    return flow
