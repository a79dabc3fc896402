"""Operations on a definition: what they change, what they leave alone, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from crewlog.definition.apply import apply_operations
from crewlog.definition.flow import Flow, Wait
from crewlog.definition.load import load_data
from crewlog.definition.model import AgentPhase, CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.definition.phases import phases
from crewlog.definition.validate import check
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.graph.lowering.plans import lower
from definition.kit import registered
from graph.crews import crew, flows

OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])


def after(definition: CrewDefinition, *operations: dict[str, Any]) -> CrewDefinition:
    return apply_operations(definition, OPERATIONS.validate_python(operations))


def refused(definition: CrewDefinition, *operations: dict[str, Any]) -> list[Diagnostic]:
    with pytest.raises(InvalidDefinition) as caught:
        after(definition, *operations)
    return caught.value.diagnostics


def only(found: list[Diagnostic]) -> tuple[str, str, str]:
    (one,) = found
    return one.place, one.message, one.remedy


def flow_of(definition: CrewDefinition) -> Any:
    return definition.model_dump(mode="json", by_alias=True, exclude_defaults=True)["flow"]


def waits(definition: CrewDefinition) -> dict[str, Wait]:
    return {part.name: part.wait for part in Flow(definition).parts()}


def remove(name: str) -> dict[str, Any]:
    return {"op": "remove_agent", "name": name}


def add(name: str, **more: Any) -> dict[str, Any]:
    return {"op": "add_agent", "name": name, "agent": {"prompt": "p"}, **more}


def edit_phase(name: str, **fields: Any) -> dict[str, Any]:
    return {"op": "edit_phase", "name": name, "set": fields}


FLUTTER = crew(
    [["ui", "backend"], "aggregator", {"agent": "audio", "when": "backend.models_ready"}],
    {"backend": {"writes_flags": ["models_ready"], "outputs": ["files"]}},
)
NOTES = crew(
    ["collector", "writer", "checker", {"if": "not ok", "go": "writer", "at_most": 3}, "publisher"]
)


# -- removing ------------------------------------------------------------------------------------


def test_the_next_waits_for_what_the_removed_one_waited_for() -> None:
    assert flow_of(after(crew(["a", "b", "c"]), remove("b"))) == ["a", "c"]
    assert flow_of(after(crew(["a", "b", "c"]), remove("a"))) == ["b", "c"]
    assert flow_of(after(crew(["a", "b", "c"]), remove("c"))) == ["a", "b"]


def test_a_condition_on_its_flag_stays_and_people_can_set_it() -> None:
    left = after(FLUTTER, remove("backend"))
    assert flow_of(left) == ["ui", "aggregator", {"agent": "audio", "when": "models_ready"}]
    assert left.flags == {"ok": False, "models_ready": None}


def test_waits_and_questions_keep_their_conditions_too() -> None:
    flow = ["a", {"wait": "1h", "only_if": "a.late"}, {"ask": "Go?", "only_if": "a.late"}, "b"]
    left = after(crew(flow, {"a": {"writes_flags": ["late"]}}), remove("a"))
    assert [item.get("only_if") for item in flow_of(left)[:2]] == ["late", "late"]


def test_a_condition_on_its_output_is_refused_with_a_remedy() -> None:
    by_output = after(FLUTTER, edit_phase("audio", when="backend.files == 'x'"))
    place, message, remedy = only(refused(by_output, remove("backend")))
    assert place == "operations[0].flow.audio.when"
    assert message == "'when' of 'audio' looks at backend.files, an output of 'backend'"
    assert (
        remedy == "Say it in an operation before this one: edit_phase audio, with another 'when'."
    )
    left = after(by_output, edit_phase("audio", when=None), remove("backend"))
    assert flow_of(left) == ["ui", "aggregator", "audio"]


def test_a_loop_goes_back_to_what_followed() -> None:
    back = {"if": "not ok", "go": "checker", "at_most": 3}
    assert flow_of(after(NOTES, remove("writer"))) == ["collector", "checker", back, "publisher"]


def test_a_loop_of_nothing_goes_with_what_it_repeated() -> None:
    loop = crew(["a", "b", {"if": "not ok", "go": "b", "at_most": 2}, "c"])
    assert flow_of(after(loop, remove("b"))) == ["a", "c"]


def test_a_decision_keeps_its_name_when_what_it_followed_goes() -> None:
    left = after(NOTES, remove("checker"))
    assert [p.name for p in phases(left)] == ["collector", "writer", "after_checker", "publisher"]


def test_questions_keep_their_numbers() -> None:
    asks = crew(["a", {"ask": "One?"}, "b", {"ask": "Two?"}, {"agent": "c", "after": "ask_2"}])
    left = after(asks, {"op": "remove_phase", "name": "ask_1"})
    assert [p.name for p in phases(left)] == ["a", "b", "ask_2", "c"]
    assert check(left) == []


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ("b", Wait.all("start")),
        (["a", "b"], Wait.all("a")),
        (["a", "b", "other"], Wait.all("a", "other")),
        ({"any": ["a", "b"]}, Wait.all("a")),
        ({"quorum": 2, "of": ["a", "b", "other"]}, Wait.all("a", "other")),
        ({"quorum": 1, "of": ["a", "b", "other"]}, Wait(("a", "other"), 1)),
        ({"all": ["b", "other"]}, Wait.all("other")),
    ],
)
def test_joins_wait_for_the_others(waiting: Any, expected: Wait) -> None:
    base = crew(["start", ["a", "b", "other"], {"agent": "end_", "after": waiting}])
    assert waits(after(base, remove("b")))["end_"].same(expected)


def test_a_join_waits_for_what_only_the_removed_one_waited_for() -> None:
    base = crew(["a", {"agent": "x", "after": []}, {"agent": "b", "after": ["x"]}])
    joined = crew([*flow_of(base), {"agent": "z", "after": {"any": ["a", "b"]}}])
    assert waits(after(joined, remove("b")))["z"].same(Wait(("a", "x"), 1))


def test_a_join_that_cannot_be_said_is_refused() -> None:
    some = {"agent": "some", "after": {"any": ["a", "b"]}}
    base = crew([["a", "b", "c"], some, {"agent": "z", "after": ["some", "c"]}])
    place, message, remedy = only(refused(base, remove("some")))
    assert place == "operations[0].flow.z.after"
    assert message.startswith("'z' waits for some of some and c; without 'some'")
    assert "edit_phase z" in remedy


def test_a_block_that_loses_a_part_waits_for_no_more_than_it_has() -> None:
    base = crew([{"parallel": ["a", "b", "c"], "join": 3}, "d"])
    left = after(base, remove("c"), remove("b"))
    assert waits(left)["d"].same(Wait.all("a"))
    assert check(left) == []


def test_what_sends_to_one_of_two_followers_is_refused() -> None:
    base = crew(
        ["a", "b", ["c", "d"], {"if": "not ok", "go": "b", "at_most": 2, "else": "ask_human"}]
    )
    place, message, remedy = only(refused(base, remove("b")))
    assert place == "operations[0].flow.after_c_d.go"
    assert message == (
        "'go' of 'after_c_d' names the phase 'b', which goes, and c and d come after it"
    )
    assert "edit_phase after_c_d, with another 'go'" in remedy
    left = after(base, edit_phase("after_c_d", go="a"), remove("b"))
    assert [p.name for p in phases(left)] == ["a", "c", "d", "after_c_d"]


def test_an_else_without_its_phase_asks_people() -> None:
    base = crew(
        ["a", {"agent": "b", "when": "ok", "else": "c"}, {"agent": "c", "after": "go"}],
        {"a": {"writes_flags": ["ok"]}},
    )
    assert flow_of(after(base, remove("c"))) == ["a", {"agent": "b", "when": "ok"}]


def test_an_answer_that_went_there_goes_to_what_followed() -> None:
    ask = {"ask": "Again?", "options": ["no", "b"]}
    left = after(crew(["a", "b", "c", ask]), remove("b"))
    assert flow_of(left)[-1] == {"ask": "Again?", "options": ["no", "c"]}


def test_an_answer_that_went_to_the_end_is_refused() -> None:
    ask = {"ask": "Again?", "options": ["go on", "b"], "phase": "q"}
    base = crew(["a", ask, "c", {"agent": "b", "after": "go"}])
    place, message, _ = only(refused(base, remove("b")))
    assert place == "operations[0].flow.q.options"
    assert message == (
        "'options' of 'q' names the phase 'b', which goes, and nothing comes after it"
    )


def test_permissions_and_approvals_never_widen() -> None:
    base = crew(
        ["a", "b"],
        tools={"act": {"run": "m:f"}, "read": {"run": "m:f"}},
        permissions={"act": ["b"], "read": ["a", "b"]},
        approvals={"act": ["b"], "read": None},
    )
    left = after(base, remove("b"))
    assert left.permissions == {"act": (), "read": ("a",)}
    assert left.approvals == {"read": None}


def test_merge_of_what_nobody_sets_goes() -> None:
    base = crew(
        ["a", ["b", "c"]],
        {"b": {"writes_flags": ["f"], "outputs": ["o"]}, "c": {"writes_flags": ["f"]}},
        merge={"f": "last", "b.o": "last"},
    )
    assert after(base, remove("b")).merge == {"f": "last"}
    assert after(base, remove("b"), remove("c")).merge == {}


def test_a_list_that_nobody_makes_is_refused() -> None:
    base = crew(["a", {"agent": "b", "for_each": "a.list"}], {"a": {"outputs": ["list"]}})
    place, message, remedy = only(refused(base, remove("a")))
    assert place == "operations[0].flow.b.for_each"
    assert message == "'b' has a step for each item of 'a.list', which 'a' makes"
    assert "remove_phase b" in remedy


def test_a_part_that_names_the_agent_is_refused() -> None:
    base = load_data(
        {
            "crew": "c",
            "model": "openai:x",
            "agents": {name: {"prompt": "p"} for name in ("lead", "a", "b")},
            "flow": [{"use": "supervisor", "with": {"supervisor": "lead", "workers": ["a", "b"]}}],
        }
    )
    place, message, remedy = only(refused(base, remove("b")))
    assert place == "operations[0].flow.supervisor.with"
    assert message == "the part 'supervisor', made by the builder 'supervisor', names 'b'"
    assert "edit_phase supervisor, with other options ('with')" in remedy
    options = {"supervisor": "lead", "workers": ["a"]}
    left = after(base, edit_phase("supervisor", **{"with": options}), remove("b"))
    assert list(left.agents) == ["lead", "a"]
    assert check(left) == []


def test_a_pattern_that_names_the_agent_is_refused() -> None:
    class Options(CrewDefinition.__base__):  # type: ignore[misc,name-defined]
        critic: str

    def expand(options: Any, place: Any) -> list[Any]:
        return [AgentPhase(agent=place.agent, phase=place.phase)]

    with registered("criticised", expand, kind="agent", options=Options):
        pattern = {"use": "criticised", "with": {"critic": "b"}}
        place, message, _ = only(
            refused(crew(["a", "b"], {"a": {"pattern": pattern}}), remove("b"))
        )
    assert place == "operations[0].agents.a.pattern.with"
    assert message == "the pattern 'criticised' of 'a' names 'b'"


def test_what_waits_inside_of_a_pattern_waits_for_the_next() -> None:
    base = crew(["a", "b", {"agent": "c", "after": "b.review"}], {"b": {"pattern": "review_loop"}})
    assert flow_of(after(base, remove("b"))) == ["a", {"agent": "c", "after": "a"}]


def test_the_only_agent_stays() -> None:
    assert only(refused(crew(["a"]), remove("a")))[:2] == (
        "operations[0].name",
        "'a' is the only agent of the crew",
    )


# -- adding --------------------------------------------------------------------------------------


def test_without_a_place_it_comes_last() -> None:
    assert flow_of(after(crew(["a", "b"]), add("n"))) == ["a", "b", "n"]
    assert waits(after(crew(["a", {"agent": "b", "after": []}]), add("n")))["n"].same(
        Wait.all("a", "b")
    )


def test_last_of_ways_apart_is_after_the_one_that_is_taken() -> None:
    base = crew(
        [
            "a",
            {"if": "ok", "go": "sorry", "phase": "d", "at_most": 1},
            "b",
            {"agent": "sorry", "after": "go"},
        ],
        {"a": {"writes_flags": ["ok"]}},
    )
    assert waits(after(base, add("n")))["n"].same(Wait(("b", "sorry"), 1))


def test_after_and_before() -> None:
    base = crew(["a", "b", "c"])
    assert waits(after(base, add("n", phase={"after": "a"})))["n"] == Wait.all("a")
    both = waits(after(base, add("n", phase={"after": "a"}, before=["c"])))
    assert both["c"].same(Wait.all("b", "n"))
    assert both["b"].same(Wait.all("a"))
    between = waits(after(base, add("n", before=["b"])))
    assert between["n"].same(Wait.all("a"))
    assert between["b"].same(Wait.all("n"))
    first = waits(after(base, add("n", before=["a"])))
    assert first["n"].entry
    assert first["a"].same(Wait.all("n"))


def test_before_what_is_only_sent_to_is_refused() -> None:
    base = crew(["a", {"if": "ok", "go": "b", "at_most": 1}, {"agent": "b", "after": "go"}])
    place, message, _ = only(refused(base, add("n", before=["b"])))
    assert place == "operations[0].before"
    assert message == "'b' starts only when it is sent to, so it cannot wait for n"


def test_a_block_can_be_added() -> None:
    block = {"op": "add_phase", "phase": {"parallel": ["a", {"agent": "b", "phase": "b2"}]}}
    base = crew(["x", "b"])
    agents = {"op": "add_agent", "name": "y", "agent": {"prompt": "p"}}
    made = waits(
        after(base, {**block, "phase": {"parallel": [{"agent": "b", "phase": "b2"}, "y"]}}, {
            **agents, "phase": {"phase": "y2"}
        })
    )  # fmt: skip
    assert made["b2"] == made["y"] == Wait.all("b")


def test_names_that_are_taken() -> None:
    assert only(refused(FLUTTER, add("ui"))) == (
        "operations[0].name",
        "the crew has an agent 'ui' already",
        "Use edit_agent, or choose another name.",
    )


# -- editing -------------------------------------------------------------------------------------


def test_null_puts_the_default_back() -> None:
    base = crew(["a"], {"a": {"timeout": 5, "model": "openai:y", "tools": []}})
    edit = {
        "op": "edit_agent",
        "name": "a",
        "set": {"timeout": None, "tools": None, "model": "openai:z"},
    }
    agent = after(base, edit).agents["a"]
    assert (agent.timeout, agent.tools, agent.model) == (180.0, None, "openai:z")


def test_agents_are_switched() -> None:
    off = after(FLUTTER, {"op": "disable_agent", "name": "backend"})
    assert not off.agents["backend"].enabled
    assert after(off, {"op": "enable_agent", "name": "backend"}) == FLUTTER


def test_tools() -> None:
    base = crew(["a", "b"], {"a": {"tools": []}})
    tool = {"op": "add_tool", "name": "t", "tool": {"run": "m:f"}, "agents": ["a", "b"]}
    more = after(base, tool, {"op": "set_permission", "tool": "t", "agents": ["a"]})
    assert (more.agents["a"].tools, more.agents["b"].tools) == (("t",), None)
    assert more.permissions == {"t": ("a",)}
    assert after(more, {"op": "remove_tool", "name": "t"}) == base
    edited = after(more, {"op": "edit_tool", "name": "t", "set": {"effects": "read"}})
    assert edited.tools["t"].effects == "read"


def test_a_tool_that_a_phase_needs_is_not_removed() -> None:
    base = crew(["a", {"agent": "b", "needs": ["t"]}], tools={"t": {"run": "m:f"}})
    place, message, remedy = only(refused(base, {"op": "remove_tool", "name": "t"}))
    assert (place, message) == (
        "operations[0].name",
        "'b' needs the tool 't', without which it would always be skipped",
    )
    assert "edit_phase b" in remedy


def test_a_phase_is_edited_where_it_stands() -> None:
    base = crew([["a", "b"], "c", {"if": "not ok", "go": "c", "at_most": 1}])
    edited = after(base, edit_phase("b", task="more"), edit_phase("c", after=["a"]))
    assert flow_of(edited)[0] == ["a", {"agent": "b", "task": "more"}]
    assert [p.name for p in phases(edited)] == ["a", "b", "c", "after_c"]
    assert waits(edited)["c"] == Wait.all("a")
    assert waits(after(edited, edit_phase("c", after=None)))["c"].same(Wait.all("a", "b"))


def test_a_phase_that_is_renamed_is_found_under_its_new_name() -> None:
    renamed = after(NOTES, edit_phase("writer", phase="drafts"))
    assert [p.name for p in phases(renamed)][:3] == ["collector", "drafts", "checker"]
    assert check(renamed) == []
    assert flow_of(after(renamed, edit_phase("drafts", phase=None))) == flow_of(NOTES)


def test_a_name_that_another_phase_has_is_refused() -> None:
    place, message, _ = only(refused(NOTES, edit_phase("writer", phase="checker")))
    assert (place, message) == (
        "operations[0].set.phase",
        "the crew has a phase 'checker' already",
    )


def test_the_crew_itself() -> None:
    edited = after(NOTES, {"op": "edit_crew", "set": {"limits": {"steps": 9}, "model": "openai:y"}})
    assert (edited.limits.steps, edited.model) == (9, "openai:y")
    assert only(refused(NOTES, {"op": "edit_crew", "set": {"agents": {}}})) == (
        "operations[0].set.agents",
        "'agents' is not set by edit_crew",
        "Use add_agent, remove_agent and edit_agent.",
    )


# -- faults --------------------------------------------------------------------------------------


def test_all_faults_come_together_each_at_its_operation() -> None:
    found = refused(
        FLUTTER,
        {"op": "add_agent", "name": "mock", "agent": {"promt": "p"}, "phase": {"wen": "ok"}},
        {"op": "edit_agent", "name": "backand", "set": {"model": "openai:y"}},
        {"op": "edit_agent", "name": "ui", "set": {"timeout": "soon"}},
        edit_phase("audio", when="nobody_sets_it"),
        {"op": "set_permission", "tool": "mock", "agents": None},
    )
    assert [each.place for each in found] == [
        "operations[0].agent.promt",
        "operations[0].phase.wen",
        "operations[1].name",
        "operations[2].set.timeout",
        "operations[3].set.when",
    ]
    assert found[2].remedy == "Did you mean 'backend'?"


def test_one_operation_may_make_up_for_another() -> None:
    swap = [remove("backend"), add("mock", phase={"before": ()})]
    assert refused(FLUTTER, *swap)  # `before` is the operation's, not the phase's
    left = after(
        FLUTTER,
        {
            "op": "add_phase",
            "phase": {"agent": "mock", "after": "ui"},
            "before": ["aggregator"],
        },
        {"op": "add_agent", "name": "mock", "agent": {"prompt": "p"}, "phase": {"phase": "late"}},
        remove("backend"),
    )
    assert waits(left)["aggregator"].same(Wait.all("mock"))


def test_what_is_wrong_in_the_end_is_blamed_on_its_operation() -> None:
    found = refused(
        NOTES,
        {"op": "edit_agent", "name": "writer", "set": {"prompt": "other"}},
        {"op": "edit_agent", "name": "writer", "set": {"tools": ["git_log"]}},
        {"op": "disable_agent", "name": "checker"},
    )
    assert [(each.place, each.message) for each in found] == [
        (
            "operations[1].set.tools[0]",
            "agent 'writer' uses the tool 'git_log', which is not defined.",
        )
    ]


def test_nothing_to_do_changes_nothing() -> None:
    assert after(FLUTTER) is FLUTTER


# -- of random crews -----------------------------------------------------------------------------


@st.composite
def changes(draw: st.DrawFn, definition: CrewDefinition) -> dict[str, Any]:
    agents, names = list(definition.agents), [phase.name for phase in phases(definition)]
    some = st.lists(st.sampled_from(names), max_size=2, unique=True)
    kind = draw(st.sampled_from(["remove_agent", "remove_phase", "add", "edit_phase", "disable"]))
    if kind == "add":
        place = draw(st.sampled_from([{}, {"after": draw(some)}, {"after": {"any": names[:2]}}]))
        return add(f"new{draw(st.integers(0, 2))}", phase=place, before=draw(some))
    if kind == "edit_phase":
        fields = draw(
            st.sampled_from(
                [{"after": draw(some)}, {"after": None}, {"phase": "other"}, {"task": "t"}]
            )
        )
        return edit_phase(draw(st.sampled_from(names)), **fields)
    if kind == "disable":
        return {"op": "disable_agent", "name": draw(st.sampled_from(agents))}
    whose = agents if kind == "remove_agent" else names
    return {"op": kind, "name": draw(st.sampled_from(whose))}


@settings(max_examples=150, deadline=None)
@given(flows(), st.data())
def test_what_comes_out_is_a_crew_or_an_error_that_names_its_operation(
    flow: list[Any], data: st.DataObject
) -> None:
    try:
        base = crew(flow)
    except InvalidDefinition:
        assume(False)
        return
    operations = data.draw(st.lists(changes(base), min_size=1, max_size=4))
    try:
        made = after(base, *operations)
    except InvalidDefinition as error:
        for each in error.diagnostics:
            section, number, *_ = each.path
            assert section == "operations"
            assert 0 <= int(number) < len(operations)
            assert each.message
    else:
        assert check(made) == []
        assert load_data(made.to_json()) == made


@settings(max_examples=150, deadline=None)
@given(flows(), st.data())
def test_removing_what_was_added_gives_the_same_plan(flow: list[Any], data: st.DataObject) -> None:
    try:
        base = crew(flow)
    except InvalidDefinition:
        assume(False)
        return
    names = [phase.name for phase in phases(base)]
    place = data.draw(
        st.sampled_from([{}, {"after": names[:2]}, {"after": {"any": names[-2:]}}, {"after": []}])
    )
    back = after(base, add("new", phase=place), remove("new"))
    assert back.agents == base.agents
    was = lower(base)
    assert lower(back).model_copy(update={"definition": was.definition}) == was


@settings(max_examples=200, deadline=None)
@given(flows(), st.data())
def test_what_stays_keeps_its_name_its_place_and_what_came_before(
    flow: list[Any], data: st.DataObject
) -> None:
    try:
        base = crew(flow)
    except InvalidDefinition:
        assume(False)
        return
    gone = data.draw(st.sampled_from(list(base.agents)))
    try:
        left = after(base, remove(gone))
    except InvalidDefinition:
        return
    was, now = [p.name for p in phases(base)], [p.name for p in phases(left)]
    assert now == [name for name in was if name in now]
    loops = {name for name in was if name not in now and name != gone}
    assert all(name.startswith("d") for name in loops)  # that repeated it, and nothing else
    if all(wait.whole for wait in waits(base).values()):
        before, since = _before(base), _before(left)
        for name in now:
            assert since[name] == before[name] - {gone} - loops


def _before(definition: CrewDefinition) -> dict[str, set[str]]:
    sources = {name: set(wait.of) for name, wait in waits(definition).items()}
    found: dict[str, set[str]] = {}
    for name, own in sources.items():
        seen: set[str] = set()
        stack = [*own]
        while stack:
            source = stack.pop()
            if source not in seen:
                seen.add(source)
                stack.extend(sources[source])
        found[name] = seen
    return found


@pytest.mark.parametrize(
    ("operations", "more"),
    [
        ([remove("x")], False),
        ([{"op": "edit_agent", "name": "a", "set": {"timeout": "z"}}], False),
        ([{"op": "edit_agent", "name": "a", "set": {"timeout": "z", "prompt": "p"}}], False),
        ([{"op": "edit_agent", "name": "a", "set": {"tools": ["nope"]}}], False),
        ([{"op": "edit_agent", "name": "a", "set": {"timeout": "z", "tools": ["nope"]}}], True),
        ([{"op": "edit_agent", "name": "x", "set": {"timeout": "z"}}], True),
        ([add("a")], False),
        ([add("a", agent={"prompt": 1})], True),
        ([add("a", agent={"prompt": "p", "tools": ["nope"]})], True),
        ([add("c", agent={"promt": "p"}), edit_phase("c", when="a.b")], True),
        ([add("c", agent={"promt": "p"})], False),
        ([add("c", agent={"prompt": 1})], False),
    ],
)
def test_more_faults_are_announced_only_where_something_was_not_looked_at(
    operations: list[dict[str, Any]], more: bool
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        after(crew(["a", "b"]), *operations)
    assert caught.value.more_may_follow is more
    assert ("More errors may follow" in str(caught.value)) is more
