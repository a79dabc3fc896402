"""What a registry says of its own agents holds, whatever a reader makes of a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt.ast import PromptAst
from crewlog.prompt.compile import compiled
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5-nano"],
        "agents": {
            "vault": {"prompt": "You keep what is secret.", "writes": ["group:legal"]},
            "juror": {"prompt": "You decide by yourself.", "reads": []},
            "guard": {
                "prompt": "You look at it twice.",
                "enabled": False,
                "on_error": "fail",
                "pattern": "review_loop",
                "model": "openai:gpt-5-mini",
            },
        },
    }
)
WORKS = [
    {"kind": "step", "parts": [{"agent": agent}]} for agent in ("vault", "juror", "guard", "legal")
]


def reading(*statements: dict[str, Any]) -> CompiledPrompt:
    words = [{"start": 0, "end": 6}]
    said = [{**each, "words": words} for each in (*WORKS, *statements)]
    tree = PromptAst.model_validate({"statements": said})
    return compiled("A crew.", tree, REGISTRY, reader="llm")


def only(agent: str, whose: str) -> dict[str, Any]:
    return {"kind": "sees", "agents": [agent], "whose": [whose]}


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        (only("spy", "vault"), "the registry sets 'writes' of its agent 'vault'"),
        (only("spy", "legal"), "the log 'group:legal' is the registry's, for vault"),
        (only("juror", "writer"), "the registry sets 'reads' of its agent 'juror'"),
        ({"kind": "sees", "agents": ["spy"], "whose": ["legal"], "hidden": True}, "the log 'group"),
        ({"kind": "switch", "agents": ["guard"], "enabled": True}, "the registry sets 'enabled'"),
        ({"kind": "on_error", "agents": ["guard"], "policy": "continue"}, "sets 'on_error' of"),
        ({"kind": "on_error", "policy": "continue"}, "the registry sets 'on_error' of"),
        ({"kind": "inside", "agent": "guard", "use": "planner_executor"}, "sets 'pattern' of"),
        ({"kind": "model", "agents": ["guard"], "model": "gpt-5-nano"}, "sets 'model' of"),
    ],
)
def test_a_prompt_cannot_change_it(said: dict[str, Any], refused: str) -> None:
    found = reading(said)
    assert not found.ok
    told = [remark for remark in found.remarks if remark.error]
    assert [remark.code for remark in told] == ["not_offered"]
    assert refused in told[0].diagnostic.message
    assert told[0].words
    assert found.definition is not None
    for name, agent in REGISTRY.agents.items():
        made = found.definition.agents[name]
        for key in agent.model_fields_set - {"prompt"}:
            assert getattr(made, key) == getattr(agent, key), (name, key)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "switch", "agents": ["guard"]},
        {"kind": "on_error", "agents": ["guard"], "policy": "fail"},
        {"kind": "model", "agents": ["guard"], "model": "gpt-5-mini"},
        {"kind": "switch", "agents": ["juror"]},
        {"kind": "sees", "agents": ["vault"], "hidden": True},
    ],
)
def test_the_same_and_less_can_be_said(said: dict[str, Any]) -> None:
    assert [r for r in reading(said).remarks if r.code == "not_offered"] == []


def test_what_the_registry_leaves_open_can_be_said() -> None:
    found = reading({"kind": "step", "parts": [{"agent": "writer"}]}, only("vault", "writer"))
    assert found.definition is not None
    assert found.definition.agents["vault"].reads == ("public", "group:writer")
    assert found.definition.agents["writer"].writes == ("group:writer",)
