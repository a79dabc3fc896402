"""What follows from what a prompt says, whoever read it: the AST in, the definition out."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.model import CrewDefinition
from crewlog.prompt import ast
from crewlog.prompt.ast import Fact, Not, Part, PromptAst, Step, Waits, Words
from crewlog.prompt.compile import compiled
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry import Registry

TEXT = "One sentence.\nAnother sentence. " * 20
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5"],
        "tools": {
            "read_file": {"run": "t:read", "effects": "read"},
            "write_file": {"run": "t:write", "effects": "write"},
            "deploy": {"run": "t:deploy", "risk": "high", "grant": ["operator"]},
            "wipe": {"run": "t:wipe", "risk": "high", "grant": []},
        },
        "agents": {"librarian": {"prompt": "You know the books.", "tools": ["read_file"]}},
        "limits": {"steps": 100, "parallel": 10},
    }
)


def said(kind: Any, start: int = 0, /, **fields: Any) -> Any:
    """A statement, with a place of its own."""
    return kind(words=(Words(start=start, end=start + 12),), **fields)


def step(*agents: str, **fields: Any) -> Step:
    parts = tuple(Part(agent=agent, task=f"does {agent} things") for agent in agents)
    return said(Step, 0, parts=parts, **fields)


def compile_(*statements: Any, registry: Registry = REGISTRY) -> CompiledPrompt:
    return compiled(TEXT, PromptAst(statements=statements), registry)


def crew(*statements: Any, registry: Registry = REGISTRY) -> CrewDefinition:
    found = compile_(*statements, registry=registry)
    assert found.definition is not None, found.remarks
    assert found.ok, [r.diagnostic.message for r in found.remarks]
    return found.definition


def flow(*statements: Any) -> Any:
    return crew(*statements).to_json()["flow"]


def codes(found: CompiledPrompt) -> list[str]:
    return [remark.code for remark in found.remarks]


def test_what_is_said_later_comes_later() -> None:
    assert flow(step("a"), step("b", "c"), step("d")) == ["a", ["b", "c"], "d"]


def test_more_about_who_has_just_worked_is_no_new_phase() -> None:
    assert flow(step("a"), step("a")) == ["a"]
    again = flow(step("a"), step("a", again=True))
    assert [item["phase"] for item in again[1:]] == ["a_2"]


def test_more_about_each_of_those_side_by_side_is_no_new_phase() -> None:
    found = crew(
        step("scout", "archivist"),
        said(Step, 20, parts=(Part(agent="scout", task="reads the news"),)),
        said(Step, 40, parts=(Part(agent="archivist", task="reads the feeds"),)),
        step("editor"),
    )
    assert found.to_json()["flow"] == [["scout", "archivist"], "editor"]
    assert "reads the news" in found.agents["scout"].prompt
    assert "reads the feeds" in found.agents["archivist"].prompt


def test_a_word_of_order_makes_a_new_phase_of_one_of_those_side_by_side() -> None:
    found = flow(step("scout", "archivist"), step("scout", again=True))
    assert found[-1] == {"agent": "scout", "phase": "scout_2", "task": "does scout things"}


def test_of_those_side_by_side_the_one_spoken_of_last_decides() -> None:
    more = said(Step, 20, parts=(Part(agent="scout", task="reads the news"),))
    stop = said(ast.Stop, 40, condition=Fact(name="urgent"))
    found = crew(step("scout", "archivist"), more, stop, step("editor"))
    assert found.agents["scout"].writes_flags == ("urgent",)


def test_the_first_to_finish_is_enough_where_the_words_say_so() -> None:
    found = flow(step("a", "b", "c"), step("d", after=Waits(join="any")))
    assert found == [{"parallel": ["a", "b", "c"], "join": "any"}, "d"]
    found = flow(step("a", "b", "c"), said(ast.Join, waits=Waits(join=2)), step("d"))
    assert found == [{"parallel": ["a", "b", "c"], "join": 2}, "d"]


def test_an_agent_may_be_waited_for_before_it_is_spoken_of() -> None:
    found = flow(step("audio", after=Waits(of=("backend",))), step("backend", start=True))
    assert found == [
        {"agent": "audio", "after": "backend"},
        {"agent": "backend", "after": []},
    ]


def test_a_requirement_waits_for_whoever_speaks_of_the_thing() -> None:
    models = said(Step, parts=(Part(agent="backend", task="writes the data models"),))
    ready = Fact(name="models_ready", about="models")
    made = crew(models, step("ui"), step("audio", ready=ready))
    assert made.to_json()["flow"][2] == {
        "agent": "audio",
        "after": "backend",
        "when": "backend.models_ready",
    }
    assert made.agents["backend"].writes_flags == ("models_ready",)
    assert "models_ready" in made.agents["backend"].prompt


def test_a_condition_is_decided_by_who_worked_just_before() -> None:
    rejected = Fact(name="rejected")
    back = said(ast.Back, condition=rejected, to="a", at_most=2, otherwise="end")
    made = crew(step("a"), step("b"), back)
    assert made.to_json()["flow"][2] == {"if": "rejected", "go": "a", "at_most": 2, "else": "end"}
    assert made.agents["b"].writes_flags == ("rejected",)


def test_otherwise_is_where_no_branch_before_holds() -> None:
    branches = [
        Step(parts=(Part(agent=n, only_if=Fact(name="kind", operator="==", value=n)),), place=p)
        for n, p in (("bug", "next"), ("question", "beside"))
    ]
    other = Step(parts=(Part(agent="other", otherwise=True),), place="beside")
    found = flow(step("triage"), *branches, other, step("archivist"))
    assert [part["only_if"] for part in found[1]] == [
        "triage.kind == 'bug'",
        "triage.kind == 'question'",
        "not (triage.kind == 'bug' or triage.kind == 'question')",
    ]
    assert found[2] == "archivist"


def test_otherwise_after_a_loop_is_the_way_on() -> None:
    back = said(ast.Back, condition=Not(of=Fact(name="approved")), to="a", at_most=1)
    other = Step(parts=(Part(agent="c", otherwise=True),), place="beside")
    assert flow(step("a"), step("b"), back, other)[3] == "c"


def test_a_loop_without_a_bound_gets_one_and_says_so() -> None:
    found = compile_(step("a"), said(ast.Back, condition=Fact(name="bad"), to="a"))
    assert codes(found) == ["assumed"]
    assert found.definition is not None
    assert found.definition.to_json()["flow"][1]["at_most"] == 3


def test_gates_stand_between_a_phase_and_what_waits_for_it() -> None:
    found = flow(step("a", "b"), step("c"), said(ast.Gate, agents=("a",)))
    assert found[1]["phase"] == "gate_a"
    assert found[1]["after"] == "a"
    assert found[1]["options"] == ["go on", "a", "stop"]
    assert found[2] == {"agent": "c", "after": ["gate_a", "b"]}


def test_a_question_stands_before_its_phase_alone() -> None:
    ask = said(ast.Ask, question="May b?", before="b", reject_to="a")
    found = flow(step("a"), step("b", "c"), ask, step("d"))
    assert found[1] == {"ask": "May b?", "phase": "before_b", "options": ["approve", "a"]}
    assert found[2] == ["b", {"agent": "c", "after": "a"}]
    assert found[3] == "d"


def test_a_list_that_is_known_later_is_its_makers_output() -> None:
    each = Step(parts=(Part(agent="digger", for_each="topics"),))
    made = crew(step("planner"), each, step("editor"))
    assert made.to_json()["flow"][1] == {"agent": "digger", "for_each": "planner.topics"}
    assert made.agents["planner"].outputs == ("topics",)


def test_agents_get_the_tools_that_are_said_and_no_others() -> None:
    made = crew(
        step("a"),
        step("b"),
        said(ast.Allow, agents=("a",), tools=("write_file",), only=True),
        said(ast.Allow, tools=("read_file",)),
    )
    assert made.agents["a"].tools == ("write_file", "read_file")
    assert made.agents["b"].tools == ("read_file",)
    assert made.permissions == {"write_file": ("a",)}
    assert set(made.tools) == {"write_file", "read_file"}


def test_what_is_denied_is_left_with_the_others() -> None:
    made = crew(
        step("a"),
        step("b"),
        said(ast.Allow, tools=("write_file",)),
        said(ast.Deny, agents=("b",), tools=("write_file",)),
        said(ast.Deny, tools=("wipe",)),
    )
    assert made.permissions == {"write_file": ("a",), "wipe": ()}
    assert made.agents["b"].tools == ()


@pytest.mark.parametrize("agents", [("writer",), ()])
def test_a_prompt_cannot_give_what_the_registry_does_not_let_it_give(agents: Any) -> None:
    found = compile_(step("writer"), said(ast.Allow, agents=agents, tools=("deploy",)))
    assert codes(found) == ["not_offered"]
    assert not found.ok
    assert "only to operator" in found.remarks[0].diagnostic.remedy
    assert found.definition is not None
    assert found.definition.agents["writer"].tools == ()


def test_a_tool_that_is_not_there_is_an_error_with_a_guess() -> None:
    found = compile_(step("writer"), said(ast.Allow, agents=("writer",), tools=("write_flie",)))
    assert codes(found) == ["unknown_tool"]
    assert "write_file" in found.remarks[0].diagnostic.remedy


@pytest.mark.parametrize(
    "pair",
    [
        (
            said(ast.Allow, 3, agents=("a",), tools=("write_file",)),
            said(ast.Deny, 40, agents=("a",), tools=("write_file",)),
        ),
        (
            said(ast.Allow, 3, agents=("a",), tools=("write_file",), only=True),
            said(ast.Allow, 40, agents=("b",), tools=("write_file",), only=True),
        ),
        (
            said(ast.Allow, 3, agents=("a",), tools=("write_file",), only=True),
            said(ast.Allow, 40, tools=("write_file",)),
        ),
        (
            said(ast.Allow, 3, agents=("a",), tools=("write_file",), only=True),
            said(ast.Deny, 40, tools=("write_file",)),
        ),
        (said(ast.Limit, 3, what="steps", most=5), said(ast.Limit, 40, what="steps", most=6)),
        (
            said(ast.UseModel, 3, agents=("a",), model="gpt-5"),
            said(ast.UseModel, 40, agents=("a",), model="gpt-5-mini"),
        ),
    ],
)
def test_sentences_that_contradict_each_other_are_both_named(pair: Any) -> None:
    found = compile_(step("a"), step("b"), *pair)
    assert codes(found) == ["contradiction"]
    message = found.remarks[0].diagnostic.message
    assert "line 1, column 4" in message
    assert "line 2, column 27" in message
    assert not found.ok


def test_a_prompt_can_lower_bounds_and_not_raise_them() -> None:
    assert crew(step("a"), said(ast.Limit, what="steps", most=20)).limits.steps == 20
    found = compile_(step("a"), said(ast.Limit, what="parallel", most=50))
    assert codes(found) == ["not_offered"]
    assert found.definition is not None
    assert found.definition.limits.parallel == 10


def test_who_may_see_whose_work() -> None:
    made = crew(
        step("lawyer"),
        step("mediator"),
        step("clerk"),
        said(ast.Sees, agents=("mediator",), whose=("lawyer",)),
        said(ast.Sees, agents=("clerk",), hidden=True),
    )
    assert made.agents["lawyer"].writes == ("group:lawyer",)
    assert made.agents["mediator"].reads == ("public", "group:lawyer")
    assert made.agents["clerk"].reads == ()


def test_an_agent_of_the_registry_keeps_its_prompt_and_its_tools() -> None:
    made = crew(step("librarian"))
    assert made.agents["librarian"].prompt == "You know the books."
    assert made.agents["librarian"].tools == ("read_file",)
    assert made.to_json()["flow"][0]["task"] == "does librarian things"


def test_an_agent_that_never_works_is_left_out_and_that_is_said() -> None:
    found = compile_(said(ast.Cast, agents=("a", "idler")), step("a"))
    assert codes(found) == ["unused"]
    assert found.definition is not None
    assert set(found.definition.agents) == {"a"}


def test_a_cast_alone_works_in_the_order_in_which_it_is_named() -> None:
    assert flow(said(ast.Cast, agents=("b", "a"))) == ["b", "a"]


def test_risky_tools_are_those_of_high_risk_that_are_used() -> None:
    made = crew(
        step("operator"),
        said(ast.Allow, agents=("operator",), tools=("deploy", "write_file")),
        said(ast.AskTool),
    )
    assert made.approvals == {"deploy": None}


def test_approvals_of_the_registry_stay_whatever_is_said() -> None:
    registry = REGISTRY.model_copy(update={"approvals": {"write_file": None}})
    allow = said(ast.Allow, agents=("a",), tools=("write_file",))
    ask = said(ast.AskTool, tools=("write_file",), agents=("b",))
    assert crew(step("a"), step("b"), allow, ask, registry=registry).approvals == {
        "write_file": None
    }


def test_every_part_has_the_words_it_came_from() -> None:
    back = said(ast.Back, 33, condition=Fact(name="bad"), to="a", at_most=2)
    found = compile_(step("a"), step("b"), back)
    decision = next(part for part in found.provenance if part.what == "decision")
    assert decision.path == ("flow", 2)
    assert decision.words == (Words(start=33, end=45),)
    assert "bad → a (≤ 2)" in decision.text


def test_what_several_steps_may_set_at_once_gets_a_rule_and_that_is_said() -> None:
    each = Step(parts=(Part(agent="digger", for_each="topics"),))
    found = compile_(step("planner"), each, said(ast.Gate, agents=("digger",)))
    assert codes(found) == ["assumed"]
    assert found.ok
    assert found.definition is not None
    assert found.definition.merge == {"digger.unsure": "last"}


def test_two_reasons_to_skip_an_agent_both_count() -> None:
    skips = [
        said(ast.Skip, agent="printer", condition=Fact(name=name)) for name in ("short", "draft")
    ]
    only_if = flow(step("writer"), step("printer"), *skips)[1]["only_if"]
    assert only_if == "not writer.short and not writer.draft".replace("writer.", "")


def test_who_worked_before_decides_whether_the_last_one_is_skipped() -> None:
    skip = said(ast.Skip, agent="printer", condition=Fact(name="short"))
    made = crew(step("writer"), step("printer"), skip)
    assert made.agents["writer"].writes_flags == ("short",)
    assert made.agents["printer"].writes_flags == ()


def test_a_question_that_is_said_twice_is_asked_once() -> None:
    ask = said(ast.Ask, question="Print it?", before="printer")
    names = [item.get("phase") for item in flow(step("writer"), step("printer"), ask, ask)[1:2]]
    assert names == ["before_printer"]
    assert len(flow(step("writer"), step("printer"), ask, ask)) == 3
