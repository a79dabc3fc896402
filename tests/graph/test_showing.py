"""What a question shows: an output as it is when people are asked."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.errors import InvalidDefinition
from crewlog.state.calls import OutputValue
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, returns, run, says

STEPS = [{"id": "api", "agent": "w", "task": "Build it", "after": ["db"]}, "then rest"]


async def asking(value: Any, body: Any = None) -> Simulation:
    agents = {"p": {"outputs": ["steps"], "tools": ["plan"]}}
    flow = ["p", {"ask": "So?", "phase": "gate", "shows": "p.steps"}, "last"]
    plan = plan_of(flow, agents, tools={"plan": {"run": "m:f"}})
    output = OutputValue(key="steps", value=value, body=body and hash_json(body), content=body)
    script = Replies({"p#1": [says("", "plan")]}, {"plan": returns(outputs=(output,))})
    return await run(plan, script)


async def test_a_small_one_is_in_words_and_of_a_large_one_there_is_its_hash() -> None:
    asked = (await asking(STEPS)).asked()
    assert asked.detail == "1. api (w, after db): Build it\n2. then rest"
    assert asked.shows is None
    large = [*STEPS, "x" * 300]
    asked = (await asking(None, large)).asked()
    assert (asked.detail, asked.shows) == ("the output p.steps", hash_json(large))


def test_what_is_no_output_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match=r"shows 'a.steps', and there is no such output"):
        plan_of(["a", {"ask": "So?", "shows": "a.steps"}])
