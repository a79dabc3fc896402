"""A changed prompt changes the crew where it must, and nowhere else."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.prompt.strategies import crews, registry_for

from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.validate import check
from crewlog.prompt.ast import PromptAst
from crewlog.prompt.compile import compiled
from crewlog.prompt.edits import keep_names
from crewlog.prompt.registry import Registry
from crewlog.prompt.saying import say


def _crew(*flow: Any, flags: dict[str, list[str]] | None = None, **more: Any) -> CrewDefinition:
    parts = [part for item in flow for part in (item if isinstance(item, list) else [item])]
    names = [part if isinstance(part, str) else part.get("agent") for part in parts]
    agents = {
        name: {"prompt": f"You are the {name}.", "writes_flags": (flags or {}).get(name, [])}
        for name in names
        if name
    }
    return load_data(
        {"crew": "notes", "model": "openai:m", "agents": agents, "flow": [*flow], **more}
    )


def _names(crew: CrewDefinition) -> list[str]:
    return [phase.name for phase in phases(crew)]


DRAFT = {"agent": "writer", "task": "drafts the notes."}
POLISH = {"agent": "writer", "phase": "writer_2", "task": "polishes the notes."}


def test_a_later_phase_keeps_its_name_when_an_earlier_one_goes() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew("checker", {"agent": "writer", "task": "polishes the notes."})
    assert _names(keep_names(before, after)) == ["checker", "writer_2"]


def test_a_phase_keeps_its_name_when_another_comes_before_it() -> None:
    before = _crew(DRAFT, "checker")
    after = _crew(
        {"agent": "writer", "task": "collects links."},
        "checker",
        {**DRAFT, "phase": "writer_2"},
    )
    assert _names(keep_names(before, after)) == ["writer_2", "checker", "writer"]


def test_what_refers_to_a_phase_follows_it() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew(
        "checker",
        {"agent": "writer", "task": "polishes the notes."},
        {"ask": "Good?", "phase": "gate_writer", "options": ["go on", "writer", "stop"]},
        {"if": "approved", "go": "writer", "at_most": 2, "after": "gate_writer"},
        {"agent": "printer", "after": ["writer", "checker"]},
        flags={"checker": ["approved"]},
    )
    kept = keep_names(before, after)
    assert check(kept) == []
    assert _names(kept)[1:3] == ["writer_2", "gate_writer_2"]
    ask, decision, last = kept.flow[2:]
    assert getattr(ask, "options", ()) == ("go on", "writer_2", "stop")
    assert getattr(decision, "go", "") == "writer_2"
    assert getattr(last, "after", ()) == ("writer_2", "checker")


def test_a_question_keeps_its_number() -> None:
    before = _crew("writer", {"ask": "Nice?"}, "checker", {"ask": "Print it?"}, "printer")
    after = _crew("writer", "checker", {"ask": "Print it?"}, "printer")
    assert _names(keep_names(before, after)) == ["writer", "checker", "ask_2", "printer"]


def test_a_decision_keeps_its_name_when_something_comes_before_it() -> None:
    back = {"if": "approved", "go": "writer", "at_most": 2}
    flags = {"checker": ["approved"]}
    before = _crew("writer", "checker", back, "printer", flags=flags)
    after = _crew("writer", "checker", "lawyer", back, "printer", flags=flags)
    kept = keep_names(before, after)
    assert _names(kept) == ["writer", "checker", "lawyer", "after_checker", "printer"]


def test_a_flag_keeps_its_name_in_another_form() -> None:
    def crew(flag: str) -> CrewDefinition:
        back = {"if": f"not {flag}", "go": "writer", "at_most": 2}
        return _crew("writer", "tester", back, flags={"tester": [flag]})

    assert keep_names(crew("tests_pass"), crew("tests_are_passing")) == crew("tests_pass")
    assert keep_names(crew("tests_pass"), crew("facts_hold")) == crew("facts_hold")


def test_a_flag_of_another_agent_is_another_flag() -> None:
    def crew(flag: str, whose: str) -> CrewDefinition:
        back = {"if": f"not {flag}", "go": "writer", "at_most": 2}
        return _crew("writer", "tester", "reader", back, flags={whose: [flag]})

    fresh = crew("tests_are_passing", "reader")
    assert keep_names(crew("tests_pass", "tester"), fresh) == fresh


def test_where_a_decision_goes_in_the_end_follows_the_phase() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    after = _crew(
        "checker",
        {"if": "not read", "go": "checker", "at_most": 2, "else": "writer"},
        "printer",
        {"agent": "writer", "task": "polishes the notes."},
        flags={"checker": ["read"]},
    )
    kept = keep_names(before, after)
    assert check(kept) == []
    assert getattr(kept.flow[1], "otherwise", "") == "writer_2"


def test_joins_follow_the_phases_that_they_wait_for() -> None:
    before = _crew(DRAFT, "checker", POLISH)
    polish = {"agent": "writer", "task": "polishes the notes."}
    for join in ({"any": ["writer", "checker"]}, {"quorum": 2, "of": ["writer", "checker", "x"]}):
        after = _crew([polish, "checker", "x"], {"agent": "printer", "after": join})
        kept = keep_names(before, after)
        assert check(kept) == []
        waits = getattr(kept.flow[1], "after", None)
        of = getattr(waits, "any", ()) or getattr(waits, "of", ())
        assert of[:2] == ("writer_2", "checker")


def test_a_phase_of_another_agent_is_another_phase() -> None:
    before = _crew("writer", {"agent": "checker", "phase": "last", "task": "reads it."}, "printer")
    after = _crew("writer", {"agent": "lawyer", "task": "reads it."}, "printer")
    assert _names(keep_names(before, after)) == ["writer", "lawyer", "printer"]


def test_order_and_wording_stay() -> None:
    before = load_data(
        {
            "crew": "notes",
            "model": "openai:m",
            "agents": {
                "checker": {"prompt": "Check it.", "tools": ["b", "a"]},
                "writer": {"prompt": "Write.", "tools": []},
            },
            "tools": {"b": {"run": "x:b"}, "a": {"run": "x:a"}},
            "flow": ["writer", "checker"],
            "permissions": {"a": ["writer", "checker"]},
        }
    )
    after = load_data(
        {
            "crew": "notes",
            "model": "openai:m",
            "agents": {
                "writer": {"prompt": "Write.", "tools": []},
                "editor": {"prompt": "Edit.", "tools": []},
                "checker": {"prompt": "check  it", "tools": ["a", "b"]},
            },
            "tools": {"a": {"run": "x:a"}, "b": {"run": "x:b"}},
            "flow": ["writer", "editor", "checker"],
            "permissions": {"a": ["checker", "writer", "editor"]},
        }
    )
    kept = keep_names(before, after)
    assert list(kept.agents) == ["checker", "writer", "editor"]
    assert kept.agents["checker"] == before.agents["checker"]
    assert kept.permissions == {"a": ("writer", "editor", "checker")}
    assert list(kept.tools) == ["b", "a"]


@settings(max_examples=100, deadline=None)
@given(crews(plain=False, largest=12))
def test_without_a_change_nothing_changes(crew: CrewDefinition) -> None:
    kept = keep_names(crew, crew)
    assert kept == crew
    assert definition_hash(kept) == definition_hash(crew)


@settings(max_examples=100, deadline=None)
@given(crews(plain=True, largest=10), st.data())
def test_a_statement_less_keeps_the_names_of_the_rest(crew: CrewDefinition, data: Any) -> None:
    """Leaves one statement of the work out: every phase that is still there has its old name."""
    registry = registry_for(crew)
    said = say(crew, registry)
    whole = compiled("x", said.tree(), registry).definition
    gone = data.draw(st.integers(0, len(said.work) - 1))
    left = said.work.pop(gone)
    found = compiled("x", said.tree(), registry)
    if not found.ok or found.definition is None or whole is None:
        return
    kept = keep_names(whole, found.definition)
    assert check(kept) == [], left
    assert len({*_names(kept)}) == len(_names(kept))
    assert sorted(kept.agents) == sorted(found.definition.agents)
    # One phase each: its name is its agent's, whatever went before it.
    counts = [p.item.agent for p in phases(whole) if hasattr(p.item, "agent")]
    for phase in phases(kept):
        agent = getattr(phase.item, "agent", None)
        if agent is not None and counts.count(agent) == 1:
            assert phase.name == agent


def _told(crew: CrewDefinition) -> dict[str, tuple[str, str]]:
    """What is done in each phase of an agent, by the phase's name."""
    found: dict[str, tuple[str, str]] = {}
    for phase in phases(crew):
        agent = getattr(phase.item, "agent", None)
        if agent is not None:
            task = getattr(phase.item, "task", None) or crew.agents[agent].prompt
            found[phase.name] = (agent, task)
    return found


TASKS = ["drafts", "polishes", "prints", "sends", "reads"]
WORK = st.lists(
    st.tuples(st.sampled_from(["writer", "checker", "lead"]), st.sampled_from(TASKS)),
    min_size=2,
    max_size=8,
    unique=True,
)


def _worked(work: list[tuple[str, str]]) -> CrewDefinition:
    """Agents that work in turn, each as often as it is named."""
    steps = [
        {"kind": "step", "again": True, "parts": [{"agent": agent, "task": f"{task} it"}]}
        for agent, task in work
    ]
    found = compiled(
        "x", PromptAst.model_validate({"statements": steps}), Registry(model="openai:m")
    )
    assert found.ok
    assert found.definition is not None
    return found.definition


@settings(max_examples=200, deadline=None)
@given(WORK, st.data())
def test_swapped_sentences_keep_their_names(work: list[tuple[str, str]], data: Any) -> None:
    before = _worked(work)
    one, other = data.draw(st.tuples(*[st.integers(0, len(work) - 1)] * 2))
    work[one], work[other] = work[other], work[one]
    kept = keep_names(before, _worked(work))
    assert check(kept) == []
    assert _told(kept) == _told(before)


@settings(max_examples=200, deadline=None)
@given(WORK, st.data())
def test_a_sentence_more_renames_nothing(work: list[tuple[str, str]], data: Any) -> None:
    before = _worked(work)
    at = data.draw(st.integers(0, len(work)))
    agent = data.draw(st.sampled_from(["writer", "checker", "lead", "lawyer"]))
    kept = keep_names(before, _worked([*work[:at], (agent, "counts"), *work[at:]]))
    assert check(kept) == []
    found = _told(kept)
    for name, (who, what) in _told(before).items():
        assert found[name][0] == who
        task = next(task for task in TASKS if task in what)
        assert task in found[name][1]


@settings(max_examples=100, deadline=None)
@given(crews(plain=True, largest=10), st.data())
def test_a_renamed_agent_leaves_the_others_alone(crew: CrewDefinition, data: Any) -> None:
    registry = registry_for(crew)
    said = say(crew, registry)
    tree = said.tree()
    whole = compiled("x", tree, registry).definition
    assert whole is not None
    old = data.draw(st.sampled_from(sorted(whole.agents)))
    assume(old not in registry.agents)
    text = tree.model_dump_json(by_alias=True).replace(f'"{old}"', '"zoe"')
    found = compiled("x", PromptAst.model_validate_json(text), registry)
    assume(found.ok)
    assert found.definition is not None
    kept = keep_names(whole, found.definition)
    assert check(kept) == []
    assert sorted(kept.agents) == sorted("zoe" if name == old else name for name in whole.agents)
    for was, now in zip(phases(whole), phases(kept), strict=True):
        agent = getattr(was.item, "agent", None)
        if agent is not None and agent != old:
            assert now.name == was.name
    for name, agent in whole.agents.items():
        if name != old:  # a log that is called by its writer is called by the new name
            reads = ["group:zoe" if log == f"group:{old}" else log for log in agent.reads or ()]
            now = kept.agents[name]
            assert sorted(now.reads or ()) == sorted(reads)
            assert now.model_copy(update={"reads": agent.reads}) == agent
