"""Shapes of crews in the words of people: all ways to say a thing give that thing."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {
            "run_pytest": {"run": "crewlog.evaluators:run_pytest", "effects": "write"},
            "lint": {"run": "crewlog.evaluators:lint", "effects": "write"},
        },
    }
)
PLAN = "The planner splits the work into steps for the programmer and the writer."
ROUTED = "The router sends each message to billing, legal or general."
STAGED = (
    "The supervisor decides which of discovery, builder and configurator begins; they work in this "
    "order, and the responder answers. The builder changes the artifact workflow."
)


def compiled(text: str) -> CompiledPrompt:
    """A prompt, of which nothing is left over."""
    found = compile_prompt(text, REGISTRY)
    # That a router is told nothing of its agents is another matter, and said to everybody.
    told = [each.diagnostic.message for each in found.remarks]
    assert [each for each in told if "is told nothing of it" not in each] == []
    assert found.definition is not None
    return found


def crew(text: str) -> dict[str, Any]:
    """The definition of a prompt of which nothing is left over."""
    definition = compiled(text).definition
    assert definition is not None
    return definition.to_json()


def shape(text: str) -> dict[str, Any]:
    """The options of the shape that a crew's flow begins with."""
    return dict(crew(text)["flow"][0]["with"])


@pytest.mark.parametrize(
    "text",
    [
        "A router picks who answers each message: billing, legal or general.",
        "The dispatcher reads every ticket and passes it on to billing, legal or general.",
        (
            "The router forwards all incoming questions to billing, legal or general, depending "
            "on the topic."
        ),
        "The router hands each mail to billing, legal or general, whichever fits best.",
        "Every message goes first to the router, which hands it to billing, legal or general.",
        "The router decides for each question who answers it: billing, legal or general.",
        "For every message, the router picks the best of billing, legal and general.",
        "The concierge takes each request and sends it to billing, legal or general by its topic.",
    ],
)
def test_hubs(text: str) -> None:
    assert shape(text)["agents"] == ["billing", "legal", "general"]
    assert "conversation" in crew(text)


@pytest.mark.parametrize(
    "text",
    [
        "If the reply cannot be read after three tries, take general.",
        "If the router's answer can't be read after 3 attempts, general answers.",
        "When its choice cannot be parsed after three tries, it goes to general.",
        "The router gets three tries; then general answers.",
        "After three replies that cannot be read, general takes over.",
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    made = shape(f"{ROUTED} {text}")
    assert (made["tries"], made["fallback"]) == (3, "general")


@pytest.mark.parametrize(
    "text",
    [
        "Legal answers before billing.",
        "Legal's answer counts before billing's.",
        "Prefer what legal says over what billing says.",
        "Prefer the answer of legal to that of billing.",
        "The answers count in this order: legal, billing.",
    ],
)
def test_whose_answer_counts_first(text: str) -> None:
    assert crew(f"{ROUTED} {text}")["conversation"] == {"respond": ["legal", "billing"]}


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("The lead breaks the feature down into tasks for the programmer and the writer.", {}),
        ("The lead divides the work among the programmer and the writer.", {}),
        (
            (
                "The lead lists the steps, each with the agent that does it and what it waits for: "
                "the programmer or the writer; at most two at a time."
            ),
            {"at_once": 2},
        ),
        (
            (
                "The lead draws up the steps, each with who does it: the programmer or the writer, "
                "no more than 3 at once."
            ),
            {"at_once": 3},
        ),
        ("The lead makes a plan whose steps go to the programmer and the writer.", {}),
        ("The lead assigns the steps of the plan to the programmer and the writer.", {}),
        (
            (
                "The lead makes a plan for the programmer and the writer, and I approve it. They "
                "work two at a time."
            ),
            {"approve": True, "at_once": 2},
        ),
        (
            (
                "The lead splits the work into steps for the programmer and the writer; they "
                "carry them out two at a time."
            ),
            {"at_once": 2},
        ),
    ],
)
def test_teams(text: str, more: dict[str, Any]) -> None:
    assert shape(text) == {"planner": "lead", "workers": ["programmer", "writer"], **more}


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("They work two at a time.", 2),
        ("At most three of them work at once.", 3),
        ("They do their tasks, no more than 2 at a time.", 2),
        ("No more than four steps are under way at the same time.", 4),
        ("The steps are carried out two at a time.", 2),
    ],
)
def test_pools(text: str, most: int) -> None:
    assert shape(f"{PLAN} {text}")["at_once"] == most


@pytest.mark.parametrize(
    "text",
    [
        "The tests and the compiler check their work before the reviewer.",
        "The tests and the compiler check it.",
        "Then the tests and the compiler check the work, before the reviewer sees it.",
        "The tests and the compiler verify what they made.",
        "The tests and the compiler check their work before the review.",
    ],
)
@pytest.mark.parametrize(
    ("again", "rounds"),
    [
        (" The reviewer says who must work again, at most 2 times.", 2),
        (" The reviewer sends back whoever must do it again, at most twice.", 2),
        (" The reviewer decides who has to redo it, no more than three times.", 3),
        (" The reviewer looks at the results and says who must try again, at most once.", 1),
        (" The reviewer gives the work back to those who have to work again.", 0),
    ],
)
def test_checks_and_reviews(text: str, again: str, rounds: int) -> None:
    made = shape(f"{PLAN} {text}{again}")
    assert made["checks"] == ["tests", "compiler"]
    assert (made["reviewer"], made.get("rounds", 0)) == ("reviewer", rounds)


@pytest.mark.parametrize(
    "text",
    [
        "Show me the plan and ask whether it is right.",
        "Ask me first whether the plan is right.",
        "I want to see the plan before anything is done.",
        "I must approve the plan before anyone starts.",
        "Nobody starts before I have approved the plan.",
    ],
)
def test_a_plan_that_people_see(text: str) -> None:
    assert shape(f"{PLAN} {text}")["approve"] is True


@pytest.mark.parametrize(
    "text",
    [
        "Then the tests agent only runs run_pytest.",
        "Then the tests agent runs run_pytest without a model.",
        "Then the tests agent just calls run_pytest and nothing else.",
        "Then the tests agent needs no model: it only runs run_pytest.",
        "Then, without a model, the tests agent runs run_pytest.",
    ],
)
@pytest.mark.parametrize(
    "back",
    [
        "If the tests fail, the programmer tries again, at most 2 times.",
        "Unless the tests pass, back to the programmer, at most 2 times.",
        "If the tests do not pass, the programmer tries again, at most twice.",
        "If the tests failed, back to the programmer, at most 2 times.",
    ],
)
def test_agents_without_a_model(text: str, back: str) -> None:
    made = crew(f"The programmer writes the code. {text} {back} Then the writer sums up.")
    assert made["agents"]["tests"]["does"] == [{"tool": "run_pytest"}]
    assert made["flow"][:2] == ["programmer", "tests"]
    assert made["flow"][2] == {"if": "not tests.passed", "go": "programmer", "at_most": 2}


@pytest.mark.parametrize(
    "text",
    [
        "The router chooses between a plan and doing it at once.",
        "The router decides whether to plan first or to do it directly.",
        "The router says whether a plan is needed.",
        "The router looks at the request and decides whether it needs a plan.",
        "The router picks between planning and doing it right away.",
    ],
)
@pytest.mark.parametrize(
    "ways",
    [
        "If a plan is needed, the planner plans the work; otherwise the writer writes it.",
        "If it chooses a plan, the planner plans the work; otherwise the writer writes it.",
        "If the router wants a plan, the planner plans the work, otherwise the writer writes it.",
        "If it needs a plan, the planner plans the work; otherwise the writer writes it.",
    ],
)
def test_a_plan_or_at_once(text: str, ways: str) -> None:
    made = crew(f"{text} {ways}")
    assert made["agents"]["router"]["reply"] == "strategy" or made["agents"]["router"]["reply"] == {
        "decision": "strategy"
    }
    plan = "router.strategy == 'plan_then_parallel'"
    assert made["flow"] == [
        "router",
        [{"agent": "planner", "only_if": plan}, {"agent": "writer", "only_if": f"not {plan}"}],
    ]


@pytest.mark.parametrize(
    "text",
    [
        (
            "The judge says whether the goal is reached and how sure it is; ask me where it is "
            "less than 70 % sure."
        ),
        "The judge decides whether the goal is met. If it is less than 70 % sure, ask me.",
        "The judge checks if the goal has been achieved. If its confidence is below 0.7, ask me.",
        "Then the judge tells whether the goal is reached; if it is less than 70% sure, ask me.",
    ],
)
@pytest.mark.parametrize(
    "back",
    [
        "If the goal is not reached, the planner plans again, at most once.",
        "Unless the goal is reached, back to the planner, at most once.",
        "If the goal isn't met, go back to the planner, at most once.",
        "If the goal has not been reached, the planner tries again, at most once.",
    ],
)
def test_whether_the_goal_is_reached(text: str, back: str) -> None:
    made = crew(f"The planner plans the work. The writer writes it. {text} {back}")
    judge = made["agents"]["judge"]
    assert judge["reply"] in ("terminate", {"decision": "terminate"})
    assert judge["ask_below"] == 0.7
    assert made["flow"] == [
        "planner",
        "writer",
        "judge",
        {"if": "not judge.done", "go": "planner", "at_most": 1},
    ]


@pytest.mark.parametrize(
    "text",
    [
        (
            "The builder sees the request, what discovery found and the artifact workflow, and "
            "nothing else."
        ),
        "The builder sees only the request, discovery's findings and the workflow.",
        (
            "The builder is shown the question, the findings of discovery and the workflow, and "
            "nothing more."
        ),
        "The builder works only with the request, what discovery found and the workflow.",
    ],
)
def test_what_a_stage_is_shown(text: str) -> None:
    made = crew(f"{STAGED} {text}")["agents"]["builder"]
    sources = [each if isinstance(each, str) else each["from"] for each in made["inputs"]]
    assert sources == ["input", "discovery.text", "artifact:workflow"]
    assert made["reads"] == []


def test_what_each_stage_is_shown() -> None:
    each = "Each stage sees only the request and the supervisor's instructions."
    one = "The builder sees only the request and the workflow."
    for text in (f"{each} {one}", f"{one} {each}"):
        agents = crew(f"{STAGED} {text}")["agents"]
        assert agents["builder"]["inputs"] != agents["discovery"]["inputs"]
        assert agents["discovery"]["inputs"] == agents["configurator"]["inputs"]


@pytest.mark.parametrize("name", ["pricing", "billing", "cart", "theming"])
def test_names_without_article_in_small_letters(name: str) -> None:
    made = crew(
        f"{name.capitalize()} writes the prices. The reviewer reviews them. If the reviewer "
        f"rejects it, {name} tries again, at most 2 times, otherwise the run goes on."
    )
    assert made["flow"] == [name, "reviewer", {"if": "rejected", "go": name, "at_most": 2}]
