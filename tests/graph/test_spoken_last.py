"""In which order a run's result has its agents' outputs: the last words come last."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.cli.asking import _answers
from crewlog.cli.ending import last_words
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, RunId
from crewlog.reporting.live_run.results import ordered_outputs
from crewlog.state.model import Output
from crewlog.wire import RunResult


def crew(root: str | None, **more: Any) -> CrewDefinition:
    agents = {name: {"prompt": "p", "listen": ["x"]} for name in "abc"}
    return load_data(
        {"crew": "t", "model": "openai:x", "agents": agents, "graph": {"root": root}, **more}
    )


def said(**positions: int) -> dict[AgentName, dict[str, Output]]:
    return {
        AgentName(name): {"text": Output(value=f"{name} says", position=at)}
        for name, at in positions.items()
    }


@pytest.mark.parametrize(
    ("root", "positions", "order"),
    [
        (None, {"a": 9, "b": 4, "c": 6}, "bca"),
        ("b", {"a": 9, "b": 4, "c": 6}, "cab"),
        ("c", {"a": 9, "b": 4}, "ba"),
    ],
)
def test_who_spoke_last_comes_last_and_the_root_behind_all(
    root: str | None, positions: dict[str, int], order: str
) -> None:
    found = ordered_outputs(said(**positions), lower(crew(root)))
    assert "".join(name for name, _ in found) == order
    outputs = {name: {"text": out["text"].value} for name, out in found}
    result = RunResult(run=RunId("r"), status="completed", outputs=outputs)
    assert last_words(result) == f"{order[-1]} says"
    answers = _answers(result, crew(root))
    assert [*answers] == ([root] if root in positions else [*order])


def test_a_root_that_said_nothing_is_not_the_last() -> None:
    found = said(a=3) | {AgentName("b"): {"score": Output(value=1, position=8)}}
    assert [name for name, _ in ordered_outputs(found, lower(crew("b")))] == ["b", "a"]
