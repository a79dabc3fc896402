"""Sentences about the shape of a whole crew, each against the statement that it makes."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry

REGISTRY = Registry(model="openai:gpt-5-mini")
HUB = {"router": "router", "agents": ["billing", "technician", "general"]}
STAGES = {
    "supervisor": "supervisor",
    "stages": ["discovery", "builder", "configurator"],
    "responder": "responder",
}
TEAM = {"planner": "planner", "workers": ["coder", "tester"]}


def said(text: str) -> list[dict[str, Any]]:
    """The statements of a prompt as data, without their places; nothing of it is left over."""
    found = read(text, REGISTRY)
    assert not found.remarks, list(found.remarks)
    return [s.model_dump(exclude_defaults=True, exclude={"words"}) for s in found.ast.statements]


def options(text: str, use: str) -> dict[str, Any]:
    """The options of the one shape that a prompt names."""
    found = read(text, REGISTRY)
    assert not found.remarks, list(found.remarks)
    shapes = [s for s in found.ast.statements if s.kind == "use"]
    assert [s.use for s in shapes] == [use]
    assert {*shapes[0].agents} == {*_names(shapes[0].options)}
    return dict(shapes[0].options)


def _names(of: dict[str, Any]) -> list[str]:
    lists = [name for key in ("agents", "stages", "workers") for name in of.get(key, ())]
    single = ("router", "fallback", "supervisor", "responder", "planner", "reviewer")
    return [*lists, *(of[key] for key in single if key in of)]


@pytest.mark.parametrize(
    "text",
    [
        "The router sends each message to billing, technician or general.",
        "The router passes every question to one of billing, technician and general.",
        "For each message, the router picks one of billing, technician and general.",
        "For every request the router chooses between billing, technician and general.",
        "The router decides who answers each message: billing, technician or general.",
        "The router decides who answers: billing, technician or general.",
        (
            "The router hands each query to either the billing agent, the technician or the general "
            "agent."
        ),
    ],
)
def test_a_hub_in_many_words(text: str) -> None:
    assert options(text, "hub") == HUB
    assert [s.kind for s in read(text, REGISTRY).ast.statements] == ["use", "conversation"]


@pytest.mark.parametrize(
    ("more", "added"),
    [
        ("Anything else goes to general.", {"fallback": "general"}),
        ("What fits nobody goes to the helper.", {"fallback": "helper"}),
        ("If nobody fits, general answers.", {"fallback": "general"}),
        ("Each of them answers at most once per message.", {"at_most": 1}),
        ("Each works at most 2 times per message.", {"at_most": 2}),
    ],
)
def test_what_follows_a_hub_belongs_to_it(more: str, added: dict[str, Any]) -> None:
    begun = "The router sends each message to billing, technician or general."
    assert options(f"{begun} {more}", "hub") == {**HUB, **added}


def test_what_follows_stands_in_the_same_sentence_too() -> None:
    text = (
        "The router sends each message to billing, technician or general, at most twice each; "
        "if nobody fits, general answers."
    )
    assert options(text, "hub") == {**HUB, "at_most": 2, "fallback": "general"}


@pytest.mark.parametrize(
    "text",
    [
        "The postman passes every message to the lawyer and the clerk.",
        "The clerk sends each message to the archivist.",
        "The router may send each message to billing or general.",
    ],
)
def test_what_is_no_hub_makes_none(text: str) -> None:
    assert not [s for s in read(text, REGISTRY).ast.statements if s.kind == "use"]


@pytest.mark.parametrize(
    "text",
    [
        (
            "The supervisor decides which of discovery, builder and configurator begins; they work in "
            "this order, and the responder answers."
        ),
        (
            "The supervisor picks which of discovery, builder and configurator works first, then they "
            "follow in this order and finally the responder sums up."
        ),
        (
            "The supervisor decides which stage begins: discovery, builder or configurator; then the "
            "stages follow in that order, and the responder tells the user what came of it."
        ),
    ],
)
def test_stages_in_order(text: str) -> None:
    assert options(text, "stages") == STAGES


@pytest.mark.parametrize(
    "text",
    [
        (
            "After each stage, the supervisor decides which of discovery, builder and configurator "
            "works next, and finally the responder answers."
        ),
        (
            "The supervisor decides after each stage which of discovery, builder and configurator goes "
            "next; in the end the responder answers the user."
        ),
    ],
)
def test_stages_with_a_supervisor_at_every_hop(text: str) -> None:
    assert options(text, "stages") == {**STAGES, "hops": "every_hop"}


PLAN = "The planner splits the work into steps for the coder and the tester."


@pytest.mark.parametrize(
    ("more", "added"),
    [
        ("They carry out their steps, two at a time.", {"at_once": 2}),
        ("The coder and the tester carry them out, at most 3 at once.", {"at_once": 3}),
        ("They do their steps.", {}),
        ("I approve the plan first.", {"approve": True}),
        ("Show me the plan for approval.", {"approve": True}),
        ("The reviewer says who must work again.", {"reviewer": "reviewer"}),
        (
            "The reviewer decides who works again; only those do, at most twice.",
            {"reviewer": "reviewer", "rounds": 2},
        ),
    ],
)
def test_a_team_with_a_plan(more: str, added: dict[str, Any]) -> None:
    assert options(f"{PLAN} {more}", "team") == {**TEAM, **added}


def test_work_goes_on_behind_a_team() -> None:
    made = said(f"{PLAN} They carry out their steps, two at a time. Then the writer sums it up.")
    assert made[0]["options"] == {**TEAM, "at_once": 2}
    assert made[1]["parts"] == ({"agent": "writer", "task": "sums it up"},)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("The router sees the last 5 messages.", {"agents": ("router",), "last": 5}),
        ("Each agent sees only the last 20 messages.", {"last": 20}),
        (
            "Everyone sees only the last 20 messages; older ones are summed up.",
            {"last": 20, "summary": "extract"},
        ),
        (
            "The router sees the last ten messages and a summary of the older ones.",
            {"agents": ("router",), "last": 10, "summary": "extract"},
        ),
        ("The crew talks with its users.", {}),
        ("This is a conversation.", {}),
        ("A conversation ends after 30 minutes of silence.", {"idle": 1800.0}),
        ("The conversation ends after 8 hours without a message.", {"idle": 28800.0}),
    ],
)
def test_windows_and_conversations(text: str, made: dict[str, Any]) -> None:
    assert said(text) == [made]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (
            "The scout may call its model at most 8 times; then it goes on with what it has.",
            {"agents": ("scout",), "most": 8, "ends": True},
        ),
        ("Each agent takes at most 12 model calls per turn.", {"most": 12}),
        ("If an agent fails, the user gets an apology.", {"policy": "continue"}),
        (
            "The scout and the clerk change the artifact workflow.",
            {"name": "workflow", "writers": ("scout", "clerk")},
        ),
    ],
)
def test_bounds_apologies_and_artifacts(text: str, made: dict[str, Any]) -> None:
    assert said(f"There are two agents: a scout and a clerk. {text}")[1:] == [made]


DUTIES = "Billing answers questions about invoices. The technician answers technical ones."
ROUTED = "The router sends each message to billing or the technician."


@pytest.mark.parametrize("text", [f"{DUTIES} {ROUTED}", f"{ROUTED} {DUTIES}"])
def test_what_agents_of_a_hub_do_is_what_the_router_chooses_by(text: str) -> None:
    made = compile_prompt(text, REGISTRY).definition
    assert made is not None
    assert [type(item).__name__ for item in made.flow] == ["BuilderPhase"]
    assert made.agents["billing"].description == "Answers questions about invoices."
    assert made.agents["technician"].description == "Answers technical ones."
    assert made.conversation is not None


def test_who_works_after_a_shape_has_a_phase_of_its_own() -> None:
    made = compile_prompt(f"{PLAN} The coder writes code. Then the coder tidies up.", REGISTRY)
    assert made.definition is not None
    flow = [getattr(item, "phase", None) or item for item in made.definition.flow[1:]]
    assert flow == ["coder_2"]


def test_what_belongs_to_a_shape_needs_one() -> None:
    for text in ("Anything else goes to general.", "I approve the plan first."):
        assert not [s for s in read(text, REGISTRY).ast.statements if s.kind == "use"]
