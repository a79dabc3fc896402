"""What a registry says of its own agents holds, whatever a reader makes of a prompt."""

from __future__ import annotations

import pytest
from tests.prompt.test_lower import part, reading, setting, step, used

from crewlog.prompt import reading as r
from crewlog.prompt.compile import assess, clauses_of
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
AGENTS = ("vault", "juror", "guard", "legal", "spy", "writer")


def told(sentence: str, *parts: r.Part) -> CompiledPrompt:
    """What a model's reading comes to: a sentence for the work of each agent, and one more.

    Args:
        sentence: The last sentence.
        parts: What it says; the clauses are put in here.
    """
    work = " ".join(f"The {agent} does its part." for agent in AGENTS)
    last = len(AGENTS) + 1
    steps = [
        step(agent, *AGENTS[max(0, i - 1) : i], task="does its part", clauses=(i + 1,))
        for i, agent in enumerate(AGENTS)
    ]
    said = [each.model_copy(update={"clauses": (last,)}) for each in parts]
    clauses = clauses_of(f"{work} {sentence}")
    assert len(clauses) == last
    read = reading(*steps, *said, ledger=used(*range(1, last + 1)))
    return assess(clauses, read, REGISTRY, reader="model")


def only(readers: str, of: str) -> r.Readers:
    """That some alone see what an agent writes."""
    return part(r.Readers, of=of, readers=tuple(readers.split()))


@pytest.mark.parametrize(
    ("sentence", "said", "refused"),
    [
        (
            "Only the spy sees the vault's notes.",
            only("spy", "vault"),
            "the registry sets 'writes' of its agent 'vault'",
        ),
        (
            "Only the spy sees legal's notes.",
            only("spy", "legal"),
            "the log 'group:legal' is the registry's, for vault",
        ),
        (
            "Only the juror sees the writer's notes.",
            only("juror", "writer"),
            "the registry sets 'reads' of its agent 'juror'",
        ),
        (
            "The spy must not see legal's notes.",
            only("vault juror guard writer", "legal"),
            "the log 'group:legal' is the registry's",
        ),
        (
            "The group legal has the spy.",
            setting("group", "legal", "spy"),
            "the group 'legal' is the registry's",
        ),
        (
            "The guard is switched on.",
            setting("enabled", "true", "guard"),
            "the registry sets 'enabled' of its agent 'guard'",
        ),
        (
            "If the guard fails, go on without it.",
            setting("on_error", "continue", "guard"),
            "the registry sets 'on_error' of its agent 'guard'",
        ),
        (
            "If an agent fails, go on without it.",
            setting("on_error", "continue"),
            "the registry sets 'on_error' of its agent 'guard'",
        ),
        (
            "The guard plans first.",
            setting("pattern", "planner_executor", "guard"),
            "the registry sets 'pattern' of its agent 'guard'",
        ),
        (
            "The guard uses the model gpt-5-nano.",
            setting("model", "gpt-5-nano", "guard"),
            "the registry sets 'model' of its agent 'guard'",
        ),
    ],
)
def test_a_prompt_cannot_change_it(sentence: str, said: r.Part, refused: str) -> None:
    found = told(sentence, said)
    assert not found.ok
    assert [fault.code for fault in found.faults] == ["not_offered"]
    assert refused in found.faults[0].message
    assert [remark.error for remark in found.remarks if remark.code == "not_offered"] == [True]
    assert found.definition is not None
    for name, agent in REGISTRY.agents.items():
        made = found.definition.agents[name]
        for key in agent.model_fields_set - {"prompt"}:
            assert getattr(made, key) == getattr(agent, key), (name, key)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("The guard is switched off.", setting("enabled", "false", "guard")),
        ("If the guard fails, the run fails.", setting("on_error", "fail", "guard")),
        ("The guard uses the model gpt-5-mini.", setting("model", "gpt-5-mini", "guard")),
        ("The guard reviews its own work.", setting("pattern", "review_loop", "guard")),
        ("The juror is switched off.", setting("enabled", "false", "juror")),
        (
            "Only the juror, the guard, legal, the spy and the writer see the vault's notes.",
            only("juror guard legal spy writer", "vault"),
        ),
    ],
)
def test_the_same_and_less_can_be_said(sentence: str, said: r.Part) -> None:
    found = told(sentence, said)
    assert found.ok, found.faults
    assert found.definition is not None
    assert found.definition.agents["vault"].writes == ("group:legal",)


def test_less_is_in_the_crew() -> None:
    found = told("The juror is switched off.", setting("enabled", "false", "juror"))
    assert found.definition is not None
    assert not found.definition.agents["juror"].enabled


def test_what_the_registry_leaves_open_can_be_said() -> None:
    found = told("Only the vault sees the writer's notes.", only("vault", "writer"))
    assert found.ok, found.faults
    assert found.definition is not None
    assert found.definition.agents["vault"].reads == ("public", "group:writer")
    assert found.definition.agents["writer"].writes == ("group:writer",)
