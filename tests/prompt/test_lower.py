"""What readings come to: the flow, who may do what, who sees what, and what cannot be lowered."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.prompt import reading as r
from crewlog.prompt.compile import assess, clauses_of
from crewlog.prompt.lower import ASSUMED_ROUNDS, Lowered, lower_reading
from crewlog.prompt.registry import Registry

P = TypeVar("P", bound=r.Part)
LISTS: dict[type[r.Part], str] = {
    r.Agent: "agents",
    r.Output: "outputs",
    r.Step: "steps",
    r.Wait: "waits",
    r.Question: "questions",
    r.Loop: "loops",
    r.Use: "uses",
    r.Right: "rights",
    r.Readers: "readers",
    r.Setting: "settings",
}
TOOLS: dict[str, Any] = {
    "look": {"run": "m:look"},
    "file": {"run": "m:file"},
    "post": {"run": "m:post", "risk": "high"},
    "ship": {"run": "m:ship", "risk": "high"},
    "fetch": {"run": "m:fetch", "hosts": ["*.example.org"]},
    "own": {"run": "m:own", "grant": ["writer"]},
}
REGISTRY = Registry.model_validate(
    {"model": "openai:x", "models": ["openai:y"], "tools": TOOLS, "limits": {"steps": 50}}
)


# -- readings by hand ------------------------------------------------------------------------------


def part(model: type[P], **said: Any) -> P:
    """A part of a reading, of clause 1, of which all is empty that is not said.

    Args:
        model: What it is.
        said: Its fields; `if_` is `if`.
    """
    data: dict[str, Any] = {"clauses": (1,)}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if get_origin(kind) is Literal:
            data[name] = "" if "" in get_args(kind) else get_args(kind)[0]
        elif name != "clauses":
            data[name] = {str: "", int: 0}.get(kind, ()) if isinstance(kind, type) else ()
    return model.model_validate({**data, **said})


def after(*of: str, need: int = 0) -> tuple[r.After, ...]:
    """One group of steps, of which all are needed where no number is said."""
    return (r.After(of=of, need=need or len(of)),)


def step(name: str, *of: str, **said: Any) -> r.Step:
    """A step of the agent of its name, after all of some others."""
    data = {"agent": name, "task": "works", "after": after(*of) if of else ()}
    return part(r.Step, name=name, **{**data, **said})


def right(effect: str, agents: str, tools: str, **said: Any) -> r.Right:
    """A right of agents to tools, each list with spaces between."""
    named = {"agents": tuple(agents.split()), "tools": tuple(tools.split())}
    return part(r.Right, effect=effect, **named, **said)


def setting(key: str, value: str, *agents: str, **said: Any) -> r.Setting:
    """A setting of agents, or without them of the crew."""
    return part(r.Setting, key=key, value=value, agents=agents, **said)


def reading(*parts: r.Part, crew: str = "", ledger: tuple[r.Account, ...] = ()) -> r.Reading:
    """A reading of some parts, each in the list of its kind."""
    lists: dict[str, list[r.Part]] = {name: [] for name in r.PARTS}
    for each in parts:
        lists[LISTS[type(each)]].append(each)
    return r.Reading.model_validate({"crew": crew, "ledger": ledger, **lists})


def used(*clauses: int) -> tuple[r.Account, ...]:
    """A ledger in which all of some clauses are used."""
    return tuple(r.Account(clause=n, status="used", why="", against=()) for n in clauses)


def lowered(*parts: r.Part, registry: Registry = REGISTRY) -> Lowered:
    """What some parts are lowered to."""
    return lower_reading(reading(*parts), registry)


def made(*parts: r.Part, registry: Registry = REGISTRY) -> CrewDefinition:
    """The crew of some parts in which nothing is wrong."""
    found = lowered(*parts, registry=registry)
    assert found.faults == []
    assert found.definition is not None
    return found.definition


def flow(*parts: r.Part) -> list[Any]:
    """The flow of some parts as it stands in crew.yaml."""
    return made(*parts).to_json()["flow"]


def sources(crew: CrewDefinition) -> dict[str, tuple[str, ...]]:
    """What each phase waits for."""
    return {phase.name: phase.sources for phase in phases(crew)}


WRITER, CHECKER = step("writer"), step("checker", "writer")
WORK = (WRITER, CHECKER, step("printer", "checker"))
APPROVED = part(r.Output, agent="checker", name="approved")
BACK = part(r.Loop, at="checker", if_="not checker.approved", to="writer", at_most=2, then="ask")
LOOP = {"if": "not approved", "go": "writer", "at_most": 2, "else": "ask_human"}


# -- steps -----------------------------------------------------------------------------------------


def test_a_reading_in_which_nobody_works_makes_no_crew() -> None:
    found = lowered(part(r.Agent, name="writer"))
    assert found.definition is None
    assert [fault.code for fault in found.faults] == ["unsound", "invalid"]
    assert found.faults[-1].message == "the prompt does not say who does what"


def test_steps_stand_in_the_order_in_which_they_wait_whatever_the_order_of_the_reading() -> None:
    assert flow(*reversed(WORK)) == ["writer", "checker", "printer"]
    assert flow(WRITER, step("editor"), step("printer", "writer", "editor")) == [
        ["writer", "editor"],
        "printer",
    ]


def test_some_of_a_group_are_enough() -> None:
    three = (WRITER, step("editor"), step("lawyer"))
    of = ("writer", "editor", "lawyer")
    assert sources(made(*three, step("printer", after=after(*of, need=2)))) == {
        **dict.fromkeys(of, ()),
        "printer": of,
    }
    needs = [phases(made(*three, step("p", after=after(*of, need=n))))[-1].need for n in (1, 2, 3)]
    assert needs == [1, 2, 3]


def test_a_phase_cannot_wait_for_some_of_a_group_and_for_another_group() -> None:
    both = (*after("writer", "editor", need=1), *after("lawyer"))
    found = lowered(WRITER, step("editor"), step("lawyer"), step("printer", after=both))
    (fault,) = found.faults
    assert (fault.code, fault.path) == ("invalid", ("steps", 3, "after"))


def test_an_agent_with_two_steps_has_a_task_for_each_and_one_with_one_has_it_in_its_prompt() -> (
    None
):
    crew = made(
        step("writer", task="drafts it"),
        step("checker", "writer", task="reviews it"),
        step("second", "checker", agent="writer", task="polishes it"),
    )
    assert crew.to_json()["flow"] == [
        {"agent": "writer", "task": "drafts it"},
        "checker",
        {"agent": "writer", "phase": "writer_2", "task": "polishes it"},
    ]
    assert "drafts" not in crew.agents["writer"].prompt
    assert "reviews it" in crew.agents["checker"].prompt


def test_conditions_lists_and_needed_tools_of_a_step() -> None:
    crew = made(
        step("planner"),
        part(r.Output, agent="planner", name="trivial"),
        part(r.Output, agent="planner", name="level", kind="choice", values=("low", "high")),
        step("writer", "planner", each="planner.topics", if_="planner.level == 'high'"),
        step("printer", "writer", needs=("look",), if_="not planner.trivial"),
    )
    assert crew.to_json()["flow"] == [
        "planner",
        {"agent": "writer", "only_if": "planner.level == 'high'", "for_each": "planner.topics"},
        {"agent": "printer", "only_if": "not trivial", "needs": ["look"]},
    ]
    assert crew.agents["planner"].writes_flags == ("trivial",)
    assert crew.agents["planner"].outputs == ("level", "topics")
    assert "the output 'topics' to a list" in crew.agents["planner"].prompt
    assert list(crew.tools) == ["look"]


def test_what_people_decide_is_a_flag_of_the_crew() -> None:
    said = part(r.Output, agent="", name="urgent")
    assert made(*WORK[:2], said, step("printer", "checker", if_="urgent")).flags == {
        "urgent": False
    }


# -- loops -----------------------------------------------------------------------------------------


def test_what_follows_a_step_follows_its_loop() -> None:
    assert flow(BACK, APPROVED, *WORK) == ["writer", "checker", LOOP, "printer"]
    crew = made(*WORK, APPROVED, BACK, step("mailer", "checker", "writer"))
    assert sources(crew)["printer"] == ("after_checker",)
    assert sources(crew)["mailer"] == ("after_checker", "writer")
    assert sources(crew)["checker"] == ("writer",)  # the loop's own step does not wait for it


def test_a_second_loop_of_a_step_follows_the_first() -> None:
    end = part(r.Loop, at="checker", if_="checker.spam", to="end", clauses=(2,))
    spam = part(r.Output, agent="checker", name="spam")
    assert flow(*WORK, APPROVED, spam, end, BACK) == [
        "writer",
        "checker",
        LOOP,
        {"if": "spam", "go": "end"},
        "printer",
    ]


@pytest.mark.parametrize(
    ("then", "otherwise"),
    [
        ("ask", "ask_human"),
        ("end", "end"),
        ("fail", "fail"),
        ("next", None),
        ("printer", "printer"),
    ],
)
def test_what_comes_after_the_last_round(then: str, otherwise: str | None) -> None:
    crew = made(*WORK, APPROVED, BACK.model_copy(update={"then": then}))
    assert getattr(crew.flow[2], "otherwise", "") == otherwise


def test_a_loop_without_a_bound_is_given_one_and_people_are_told() -> None:
    found = lowered(*WORK, APPROVED, BACK.model_copy(update={"at_most": 0, "then": ""}))
    assert found.definition is not None
    assert found.definition.to_json()["flow"][2] == {**LOOP, "at_most": ASSUMED_ROUNDS}
    assert [(note.code, note.clauses) for note in found.notes] == [("assumed", (1,))]
    assert f"{ASSUMED_ROUNDS} times is assumed" in found.notes[0].message


def test_a_loop_without_a_condition_is_a_fault() -> None:
    found = lowered(*WORK, BACK.model_copy(update={"if_": "", "clauses": (4,)}))
    assert [(f.code, f.clauses, f.path) for f in found.faults] == [("unsound", (4,), ("loops", 0))]


AGENTS = ("writer", "checker", "editor", "lawyer", "printer", "mailer")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_nothing_starts_before_the_loop_of_what_it_follows(data: Any) -> None:
    """Steps after any of those before, some with a loop back to any of these."""
    count = data.draw(st.integers(2, len(AGENTS)))
    of = {
        name: data.draw(
            st.lists(st.sampled_from(AGENTS[:i]), unique=True, max_size=3) if i else st.just([])
        )
        for i, name in enumerate(AGENTS[:count])
    }
    looped = data.draw(st.lists(st.sampled_from(AGENTS[:count]), unique=True))
    parts: list[r.Part] = [step(name, *before) for name, before in of.items()]
    for name in looped:
        parts.append(part(r.Output, agent=name, name="fine"))
        parts.append(BACK.model_copy(update={"at": name, "if_": f"not {name}.fine", "to": name}))
    found = lowered(*data.draw(st.permutations(parts)))
    assert [fault for fault in found.faults if fault.code != "invalid"] == []
    assert found.definition is not None
    waits = sources(found.definition)
    for name, before in of.items():
        assert set(waits[name]) == {f"after_{b}" if b in looped else b for b in before}


# -- questions and waits ---------------------------------------------------------------------------


def test_a_question_before_a_step_waits_for_what_the_step_waited_for() -> None:
    ask = part(r.Question, name="q", ask="Print it?", before=("printer",))
    assert flow(*WORK, APPROVED, BACK, ask) == [
        "writer",
        "checker",
        LOOP,
        {"ask": "Print it?", "phase": "before_printer"},
        "printer",
    ]


def test_a_question_before_a_step_is_asked_only_where_the_step_is_done() -> None:
    last = step("printer", "checker", if_="checker.approved")
    ask = part(r.Question, name="q", ask="Print it?", before=("printer",))
    found = flow(WRITER, CHECKER, last, APPROVED, ask)
    assert [each["only_if"] for each in found[2:]] == ["approved", "approved"]


def test_a_question_before_a_step_needs_as_many_as_the_step_did() -> None:
    last = step("printer", after=after("writer", "editor", need=1))
    ask = part(r.Question, name="q", ask="Print it?", before=("printer",))
    found = {p.name: p for p in phases(made(WRITER, step("editor"), last, ask))}
    assert found["before_printer"].need == 1
    assert found["printer"].sources == ("before_printer",)


def test_a_question_at_a_step_comes_before_its_loop_and_what_follows_waits_for_both() -> None:
    ask = part(
        r.Question, name="q", ask="Fine?", at="checker", options=("go on", "checker", "stop")
    )
    assert flow(*WORK, APPROVED, BACK, ask) == [
        "writer",
        "checker",
        {"ask": "Fine?", "phase": "gate_checker", "options": ["go on", "checker", "stop"]},
        LOOP,
        "printer",
    ]
    crew = made(*WORK, APPROVED, BACK, ask, step("mailer", "checker"))
    assert sources(crew)["gate_checker"] == ("checker",)
    assert sources(crew)["after_gate_checker"] == ("gate_checker",)
    assert sources(crew)["printer"] == sources(crew)["mailer"] == ("after_gate_checker",)


def test_a_question_of_its_own_comes_where_it_is_said() -> None:
    ask = part(r.Question, name="q", ask="Fine?", after=after("checker"), if_="checker.approved")
    crew = made(WRITER, CHECKER, APPROVED, ask, step("editor", "checker"), step("printer", "q"))
    assert sources(crew) == {
        "writer": (),
        "checker": ("writer",),
        "ask_1": ("checker",),
        "editor": ("checker",),
        "printer": ("ask_1",),
    }


def test_a_wait_and_a_question_before_a_step_come_one_after_the_other() -> None:
    found = flow(
        *WORK,
        part(r.Wait, name="w", length="2h", before=("printer",)),
        part(r.Question, name="q", ask="Print it?", before=("printer",)),
    )
    assert found == [
        "writer",
        "checker",
        {"ask": "Print it?", "phase": "before_printer"},
        {"wait": 7200.0, "phase": "before_printer_2"},
        "printer",
    ]


def test_a_wait_after_a_step_until_a_time() -> None:
    until = "2026-12-01T09:00:00+01:00"
    wait = part(r.Wait, name="w", until=until, after=after("writer"))
    assert flow(WRITER, wait, step("printer", "w")) == ["writer", {"wait_until": until}, "printer"]


# -- stand-ins -------------------------------------------------------------------------------------

READY = part(r.Output, agent="vendor", name="ready")
VENDOR = step("vendor")
PAINTER = step("painter", "vendor", when="vendor.ready", within="2h")
ARCHIVE = step("archive", instead_of="painter")


def test_a_stand_in_starts_where_the_other_is_late_and_one_of_the_two_is_enough() -> None:
    assert flow(VENDOR, READY, PAINTER, ARCHIVE, step("printer", "painter")) == [
        "vendor",
        {"agent": "painter", "when": "vendor.ready", "within": 7200.0, "else": "archive"},
        {"agent": "archive", "after": "go"},
        {"agent": "printer", "after": {"any": ["painter", "archive"]}},
    ]


def test_what_waits_for_both_of_them_waits_for_one_of_them() -> None:
    last = step("printer", "painter", "archive", "editor")
    crew = made(VENDOR, READY, PAINTER, ARCHIVE, step("editor", "vendor"), last)
    found = phases(crew)[-1]
    assert set(found.sources) == {"painter", "archive", "editor"}
    assert found.need == 2


def test_what_follows_a_stand_in_follows_its_loop() -> None:
    again = part(r.Loop, at="archive", if_="not archive.found", to="archive", at_most=2, then="end")
    found = part(r.Output, agent="archive", name="found")
    crew = made(VENDOR, READY, PAINTER, ARCHIVE, step("printer", "painter"), again, found)
    assert set(sources(crew)["printer"]) == {"painter", "after_archive"}


@pytest.mark.parametrize(("late", "otherwise"), [("ask", "ask_human"), ("skip", "skip")])
def test_what_happens_where_a_step_waits_too_long(late: str, otherwise: str) -> None:
    crew = made(VENDOR, READY, PAINTER.model_copy(update={"late": late}))
    assert getattr(crew.flow[1], "otherwise", "") == otherwise


# -- steps that fail, and steps that take too long -------------------------------------------------


FAILING = step("archive", instead_of="vendor")


def test_a_stand_in_where_a_step_fails() -> None:
    assert flow(VENDOR, FAILING, step("printer", "vendor")) == [
        {"agent": "vendor", "on_error": "archive"},
        {"agent": "archive", "after": "go"},
        {"agent": "printer", "after": {"any": ["vendor", "archive"]}},
    ]


def test_a_stand_in_where_a_step_takes_too_long() -> None:
    late = VENDOR.model_copy(update={"within": "10m"})
    assert flow(late, FAILING, step("printer", "vendor"))[0] == {
        "agent": "vendor",
        "timeout": 600.0,
        "on_error": "archive",
    }


@pytest.mark.parametrize(("late", "policy"), [("ask", "ask"), ("skip", "continue"), ("", None)])
def test_the_longest_time_of_a_step_without_when(late: str, policy: str | None) -> None:
    printer = step("printer", "vendor", within="2h", late=late)
    written = {"agent": "printer", "timeout": 7200.0}
    if policy is not None:
        written["on_error"] = policy
    assert flow(VENDOR, printer) == ["vendor", written]


def test_a_question_before_a_stand_in() -> None:
    asked = part(r.Question, name="q", ask="Go?", before=("archive",))
    assert flow(VENDOR, READY, PAINTER, ARCHIVE, step("printer", "painter"), asked)[1:4] == [
        {"agent": "painter", "when": "vendor.ready", "within": 7200.0, "else": "before_archive"},
        {"ask": "Go?", "phase": "before_archive", "after": "go"},
        "archive",
    ]
    assert flow(VENDOR, FAILING, step("printer", "vendor"), asked)[0] == {
        "agent": "vendor",
        "on_error": "before_archive",
    }


def test_a_question_before_a_stand_in_and_another_step_is_a_fault() -> None:
    asked = part(r.Question, name="q", ask="Go?", before=("archive", "printer"))
    (fault, *_) = lowered(VENDOR, FAILING, step("printer", "vendor"), asked).faults
    assert "before a step that stands in and before one that does not" in fault.message


@pytest.mark.parametrize(
    "more",
    [
        (VENDOR.model_copy(update={"within": "10m", "late": "ask"}),),
        (VENDOR, setting("on_error", "continue", "vendor")),
    ],
)
def test_a_step_that_fails_has_one_policy(more: tuple[r.Part, ...]) -> None:
    (fault,) = lowered(*more, FAILING, step("printer", "vendor")).faults
    assert fault.code == "invalid"
    assert "two things are said to happen where 'vendor' fails" in fault.message


REACHED = "The vendor names the price. If the vendor cannot be reached, use the archive."


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (step("archive", instead_of="vendor", clauses=(2,)), []),
        (step("archive", "vendor", clauses=(2,)), ["what comes in its place"]),
    ],
)
def test_a_clause_about_a_stand_in_is_never_a_plain_step(archive: r.Step, said: list[str]) -> None:
    read = reading(step("vendor", task="names the price"), archive, ledger=used(1, 2))
    found = assess(clauses_of(REACHED), read, REGISTRY, reader="model")
    told = " ".join(fault.message for fault in found.faults if fault.code == "obligation")
    assert bool(told) == bool(said)
    assert all(each in told for each in said)


def test_a_policy_of_the_crew_does_not_hold_for_a_step_with_a_stand_in() -> None:
    crew = made(VENDOR, FAILING, step("printer", "vendor"), setting("on_error", "continue"))
    assert getattr(crew.flow[0], "on_error", "") == "archive"
    assert crew.agents["archive"].on_error.failure == "continue"


# -- tools -----------------------------------------------------------------------------------------


def test_ask_on_a_tool_for_named_agents_gives_it_to_them() -> None:
    crew = made(*WORK, right("ask", "writer printer", "post"))
    assert crew.approvals == {"post": ("writer", "printer")}
    assert [crew.agents[a].tools for a in ("writer", "checker", "printer")] == [
        ("post",),
        (),
        ("post",),
    ]


def test_ask_on_a_tool_for_everybody_gives_it_to_nobody() -> None:
    crew = made(*WORK, right("may", "writer", "post"), right("ask", "", "post"))
    assert crew.approvals == {"post": None}
    assert [name for name, agent in crew.agents.items() if agent.tools] == ["writer"]
    fault = lowered(*WORK, right("ask", "", "post")).faults[0]
    assert fault.message == "calls of 'post' need an approval, and no agent has the tool"


def test_ask_on_tools_of_high_risk_is_about_those_that_are_used() -> None:
    ask = right("ask", "", "risk:high")
    assert made(*WORK, right("may", "writer", "post look"), ask).approvals == {"post": None}
    (fault,) = lowered(*WORK, right("may", "writer", "look"), ask).faults
    assert "no tool of high risk is used" in fault.message


def test_of_two_onlys_on_one_tool_the_stricter_holds() -> None:
    both = (right("only", "writer checker", "look"), right("only", "checker printer", "look"))
    for rights in (both, both[::-1]):
        crew = made(*WORK, *rights)
        assert crew.permissions == {"look": ("checker",)}
        assert [name for name, agent in crew.agents.items() if agent.tools] == ["checker"]
    none = made(*WORK, right("only", "writer", "look"), right("only", "printer", "look"))
    assert none.permissions == {"look": ()}
    assert not any(agent.tools for agent in none.agents.values())


def test_only_takes_a_tool_from_whom_others_give_it_to() -> None:
    for rights in (("may", "only"), ("only", "may")):
        of = {"may": right("may", "writer", "look"), "only": right("only", "checker", "look")}
        crew = made(*WORK, *(of[effect] for effect in rights))
        assert crew.permissions == {"look": ("checker",)}
        assert crew.agents["writer"].tools == ()


def test_never_takes_a_tool_away_and_leaves_it_to_the_others() -> None:
    crew = made(*WORK, right("never", "checker", "look"), right("may", "writer checker", "look"))
    assert crew.permissions == {"look": ("writer",)}
    assert crew.agents["checker"].tools == ()
    nobody = made(*WORK, right("may", "writer", "look"), right("never", "", "look"))
    assert nobody.permissions == {"look": ()}


def test_a_tool_of_the_registrys_agent_is_taken_by_a_permission() -> None:
    offered = Registry.model_validate(
        {
            "model": "openai:x",
            "tools": TOOLS,
            "agents": {"writer": {"prompt": "You write.", "tools": ["look"]}},
        }
    )
    for rule in (right("only", "checker", "look"), right("never", "writer", "look")):
        crew = made(*WORK, right("may", "checker", "look"), rule, registry=offered)
        assert crew.agents["writer"].tools == ("look",)
        assert crew.permissions == {"look": ("checker",)}


def test_two_nevers_on_one_tool_hold_together() -> None:
    own = {name: {"prompt": "You work.", "tools": ["look"]} for name in ("writer", "checker")}
    offered = Registry.model_validate({"model": "openai:x", "tools": TOOLS, "agents": own})
    two = (right("never", "writer", "look"), right("never", "checker", "look"))
    crew = made(*WORK, right("may", "printer", "look"), *two, registry=offered)
    assert crew.permissions == {"look": ("printer",)}


def test_quotas_are_rules() -> None:
    may = made(*WORK, right("may", "writer", "look", quota="5 per run"))
    assert may.agents["writer"].tools == ("look",)
    never = made(
        *WORK, right("may", "writer", "look"), right("never", "", "look", quota="20 per hour")
    )
    assert never.agents["writer"].tools == ("look",)
    assert never.permissions == {}
    ask = made(*WORK, right("ask", "writer", "look", quota="3 per day"))
    assert ask.approvals == {"look": ("writer",)}
    assert [crew.to_json()["rules"] for crew in (may, never, ask)] == [
        [{"tool": "look", "agents": ["writer"], "quota": "5 per run"}],
        [{"tool": "look", "quota": "20 per hour"}],
        [{"tool": "look", "agents": ["writer"], "do": "ask", "quota": "3 per day"}],
    ]


@pytest.mark.parametrize(
    ("effect", "condition", "rule"),
    [
        ("may", "checker.approved", {"do": "never", "if": "not approved"}),
        ("may", "not checker.approved", {"do": "never", "if": "approved"}),
        ("never", "not approved", {"do": "never", "if": "not approved"}),
        ("ask", "checker.approved", {"do": "ask", "if": "approved"}),
    ],
)
def test_a_right_on_a_condition_is_a_rule(
    effect: str, condition: str, rule: dict[str, str]
) -> None:
    may, said = right("may", "printer", "look"), right(effect, "printer", "look", if_=condition)
    crew = made(*WORK, APPROVED, may, said)
    assert crew.to_json()["rules"] == [{"tool": "look", "agents": ["printer"], **rule}]
    assert crew.agents["printer"].tools == ("look",)
    assert (crew.permissions, crew.approvals) == ({}, {})


def test_a_right_on_a_condition_that_nobody_decides_is_a_fault() -> None:
    said = right("may", "printer", "look", if_="checker.approved", clauses=(6,))
    fault = lowered(*WORK, said).faults[0]
    assert (fault.code, fault.message, fault.clauses) == (
        "unsound",
        "no agent sets 'approved'",
        (6,),
    )


@pytest.mark.parametrize(("effect", "do"), [("never", "never"), ("ask", "ask")])
def test_all_tools_are_named_by_a_rule(effect: str, do: str) -> None:
    crew = made(*WORK, right("may", "writer", "look"), right(effect, "writer", "*"))
    assert crew.to_json()["rules"] == [{"tool": "*", "agents": ["writer"], "do": do}]


def test_a_right_of_a_group_is_a_right_of_its_agents() -> None:
    desk = setting("group", "desk", "writer", "checker")
    crew = made(*WORK, desk, right("may", "group:desk", "look", quota="5 per run"))
    assert crew.groups == {"desk": ("writer", "checker")}
    assert [name for name, agent in crew.agents.items() if agent.tools] == ["writer", "checker"]
    assert crew.rules[0].agents == ("group:desk",)


def test_a_tool_that_prompts_may_not_give_to_an_agent_is_not_given() -> None:
    found = lowered(*WORK, right("may", "writer checker", "own", clauses=(5,)))
    assert [(f.code, f.clauses) for f in found.faults] == [("not_offered", (5,))]
    assert "may not give 'own' to 'checker'" in found.faults[0].message
    assert found.definition is not None
    assert found.definition.agents["writer"].tools == ("own",)
    assert found.definition.agents["checker"].tools == ()


def test_what_a_registry_asks_about_is_asked_whatever_is_said() -> None:
    offered = Registry.model_validate(
        {"model": "openai:x", "tools": TOOLS, "approvals": {"look": ["writer"], "ship": None}}
    )
    crew = made(*WORK, right("may", "writer checker", "look"), registry=offered)
    assert crew.approvals == {"look": ("writer",)}  # nobody has `ship`
    more = made(*WORK, right("ask", "checker", "look"), registry=offered)
    assert more.approvals == {"look": ("checker", "writer")}


def test_a_tool_reaches_less_and_never_more() -> None:
    may = right("may", "writer", "fetch")
    less = made(*WORK, may, setting("hosts", "fetch: a.example.org"))
    assert less.tools["fetch"].hosts == ("a.example.org",)
    (fault,) = lowered(*WORK, may, setting("hosts", "fetch: a.example.com")).faults
    assert (fault.code, "reach a.example.com" in fault.message) == ("not_offered", True)


# -- who sees what ---------------------------------------------------------------------------------

FOUR = (*WORK, step("mailer", "printer"))


def _seen(crew: CrewDefinition, of: str) -> list[str]:
    """Who reads what an agent writes."""
    (log,) = crew.agents[of].writes
    return [name for name, agent in crew.agents.items() if log in (agent.reads or ())]


def test_several_whitelists_of_an_agents_readers_intersect() -> None:
    one = part(r.Readers, of="writer", readers=("checker", "printer"))
    two = part(r.Readers, of="writer", readers=("printer", "mailer"))
    for readers, left in (
        ([one], ["checker", "printer"]),
        ([one, two], ["printer"]),
        ([two, one], ["printer"]),
        ([one, two, part(r.Readers, of="writer", readers=("mailer",))], []),
    ):
        crew = made(*FOUR, *readers)
        assert crew.agents["writer"].writes == ("group:writer",)
        assert _seen(crew, "writer") == left
        assert _seen(crew, "checker") == [*crew.agents]


def test_an_agent_whom_no_whitelist_has_reads_nothing() -> None:
    blind = part(r.Readers, of="*", readers=("writer", "checker", "printer"))
    crew = made(*FOUR, blind)
    assert crew.agents["mailer"].reads == ()
    assert all(agent.writes == ("public",) for agent in crew.agents.values())
    # A whitelist of one agent, and that nobody is shown to the mailer, hold together.
    crew = made(*FOUR, blind, part(r.Readers, of="writer", readers=("checker", "mailer")))
    assert crew.agents["mailer"].reads == ()
    assert _seen(crew, "writer") == ["checker"]


def test_a_whitelist_that_everybody_has_needs_no_log() -> None:
    crew = made(*FOUR, part(r.Readers, of="writer", readers=("checker", "printer", "mailer")))
    assert crew.agents["writer"].writes == ("public",)


def test_in_a_crew_with_groups_the_log_of_an_agent_is_a_channel() -> None:
    only = part(r.Readers, of="writer", readers=("mailer",))
    crew = made(*FOUR, setting("group", "desk", "checker", "printer"), only)
    assert crew.agents["writer"].writes == ("channel:writer",)
    assert crew.agents["mailer"].reads == ("public", "channel:writer")
    log = crew.logs["writer"]
    assert (log.readers, log.writers) == (("mailer",), ("writer",))


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        (setting("enabled", "false", "writer"), "enabled", False),
        (setting("on_error", "ask", "writer"), "on_error", "ask"),
        (setting("on_error", "continue"), "on_error", "continue"),
        (setting("confidence", "70 %", "writer"), "ask_below", 0.7),
        (setting("confidence", "0.7", "writer"), "ask_below", 0.7),
        (setting("model", "y", "writer"), "model", "openai:y"),
        (setting("model_calls", "12", "writer"), "max_calls", 12),
        (setting("at_cap", "go on", "writer"), "on_cap", "end"),
    ],
)
def test_a_setting_of_an_agent(said: r.Setting, key: str, value: Any) -> None:
    crew = made(*WORK, said)

    def of(crew: CrewDefinition, name: str) -> Any:
        found = getattr(crew.agents[name], key)
        return found.failure if key == "on_error" else found

    assert of(crew, "writer") == value
    others = [of(crew, name) for name in ("checker", "printer")]
    assert others == ([value] * 2 if not said.agents else [of(made(*WORK), "writer")] * 2)


def test_an_agent_that_says_how_sure_it_is_has_an_output_for_it() -> None:
    crew = made(*WORK, setting("confidence", "0.7", "writer"))
    assert crew.agents["writer"].outputs == ("confidence",)
    assert "set the output 'confidence' to how sure you are" in crew.agents["writer"].prompt


@pytest.mark.parametrize(("said", "most"), [(["20"], 20), (["20", "30"], 20), (["30", "20"], 20)])
def test_the_lowest_bound_holds(said: list[str], most: int) -> None:
    crew = made(*WORK, *(setting("max_steps", each) for each in said))
    assert crew.limits.steps == most


def test_a_bound_beyond_the_registrys_changes_nothing_and_people_are_told() -> None:
    found = lowered(*WORK, setting("max_steps", "90", clauses=(4,)))
    assert found.definition is not None
    assert found.definition.limits.steps == 50
    assert [(note.clauses, "registry's steps of 50" in note.message) for note in found.notes] == [
        ((4,), True)
    ]


def test_two_things_said_about_one_field_contradict_each_other() -> None:
    one = setting("on_error", "ask", "writer", clauses=(4,))
    other = setting("on_error", "fail", "writer", clauses=(6,))
    (fault,) = lowered(*WORK, one, other).faults
    assert (fault.code, fault.clauses) == ("contradiction", (4, 6))
    assert lowered(*WORK, one, one).faults == []


def test_who_answers_and_until_when() -> None:
    crew = made(
        *WORK,
        setting("may_answer", "ana, ben"),
        setting("answer_within", "2h"),
        setting("unanswered", "escalate: ana"),
        setting("yes_valid", "10m"),
    )
    asked = crew.interrupts
    assert (asked.people, asked.valid) == (("ana", "ben"), 600.0)
    assert (asked.expires, asked.default, asked.escalate_to) == (7200.0, "escalate", "ana")
    (fault,) = lowered(*WORK, setting("may_answer", "ana, writer")).faults
    assert fault.message == "writer cannot answer: agents do not"


# -- what cannot be lowered ------------------------------------------------------------------------


QUESTION = part(r.Question, name="q", ask="Go?", clauses=(7,))


@pytest.mark.parametrize(
    ("wrong", "path", "name"),
    [
        (step("x", "bob", clauses=(7,)), ("steps", 3, "after"), "bob"),
        (BACK.model_copy(update={"at": "bob", "clauses": (7,)}), ("loops", 0, "at"), "bob"),
        (BACK.model_copy(update={"to": "bob", "clauses": (7,)}), ("loops", 0, "to"), "bob"),
        (BACK.model_copy(update={"then": "bob", "clauses": (7,)}), ("loops", 0, "then"), "bob"),
        (QUESTION.model_copy(update={"before": ("bob",)}), ("questions", 0, "before", 0), "bob"),
        (QUESTION.model_copy(update={"after": after("bob")}), ("questions", 0, "after"), "bob"),
        (QUESTION.model_copy(update={"at": "bob"}), ("questions", 0, "at"), "bob"),
        (
            part(r.Wait, name="w", length="2h", before=("bob",), clauses=(7,)),
            ("waits", 0, "before", 0),
            "bob",
        ),
        (step("x", instead_of="bob", clauses=(7,)), ("steps", 3, "instead_of"), "bob"),
        (BACK.model_copy(update={"to": "writter", "clauses": (7,)}), ("loops", 0, "to"), "writter"),
    ],
)
def test_an_unknown_step_is_a_fault_with_its_place(wrong: r.Part, path: Any, name: str) -> None:
    found = lowered(*WORK, APPROVED, wrong)
    fault = found.faults[0]
    assert (fault.code, fault.message) == ("invalid", f"there is no step {name!r}")
    assert (fault.clauses, fault.path) == ((7,), path)
    assert (
        "'writer'" if name == "writter" else "There are: writer, checker, printer"
    ) in fault.remedy


@pytest.mark.parametrize(
    ("wrong", "path", "message"),
    [
        (step("x", "writer", if_="checker.aproved"), ("steps", 3, "if"), "'checker.aproved'"),
        (step("x", "writer", when="checker.aproved"), ("steps", 3, "when"), "'checker.aproved'"),
        (step("x", "writer", if_="bob.approved"), ("steps", 3, "if"), "'bob.approved'"),
        (step("x", "writer", if_="urgent"), ("steps", 3, "if"), "'urgent'"),
        (BACK.model_copy(update={"if_": "bob.x"}), ("loops", 0, "if"), "'bob.x'"),
        (part(r.Question, name="q", ask="Go?", if_="bob.x"), ("questions", 0, "if"), "'bob.x'"),
        (part(r.Wait, name="w", length="1h", if_="bob.x"), ("waits", 0, "if"), "'bob.x'"),
        (step("x", "writer", each="bob.topics"), ("steps", 3, "each"), "'bob.topics'"),
    ],
)
def test_what_nobody_decides_is_a_fault_with_its_place(
    wrong: r.Part, path: Any, message: str
) -> None:
    found = lowered(*WORK, APPROVED, wrong.model_copy(update={"clauses": (7,)}))
    fault = found.faults[0]
    assert message in fault.message
    assert (fault.code, fault.clauses, fault.path) == ("unsound", (7,), path)


def test_two_steps_of_one_name_are_a_fault() -> None:
    found = lowered(*WORK, step("writer", "printer", clauses=(7,)))
    fault = found.faults[0]
    assert (fault.code, fault.clauses, fault.path) == ("invalid", (7,), ("steps", 3, "name"))


def test_an_agent_that_does_nothing_is_a_fault_and_no_member() -> None:
    idle = part(r.Agent, name="night_guard", about="is quick", clauses=(7,))
    found = lowered(*WORK, idle, right("may", "night_guard", "look", clauses=(8,)))
    assert found.definition is not None
    assert "night_guard" not in found.definition.agents
    assert [(f.code, f.clauses, f.path) for f in found.faults] == [
        ("unsound", (7,), ("agents", 0)),
        ("unsound", (8,), ()),
    ]
    assert found.faults[0].message == "'night_guard' does nothing"
    assert "Then the night guard" in found.faults[0].remedy


def test_an_agent_of_a_builders_part_does_something() -> None:
    options = [("router", "lead"), ("others", "writer checker")]
    use = part(
        r.Use,
        name="hub",
        builder="hub",
        options=[r.Option(key=key, values=tuple(values.split())) for key, values in options],
    )
    agents = [part(r.Agent, name=name) for name in ("lead", "writer", "checker")]
    found = lowered(use, *agents)
    assert [f for f in found.faults if f.code == "unsound"] == []
    assert found.definition is not None
    assert list(found.definition.agents) == ["lead", "writer", "checker"]


def test_a_builder_that_the_registry_does_not_offer_is_not_used() -> None:
    offered = REGISTRY.model_copy(update={"builders": ("supervisor",)})
    use = part(r.Use, name="hub", builder="hub", clauses=(4,))
    found = lowered(*WORK, use, registry=offered)
    assert [(f.code, f.clauses) for f in found.faults] == [("not_offered", (4,))]
    assert "hub" in found.faults[0].message
    (fault,) = lowered(*WORK, part(r.Use, name="x", builder="hubb")).faults
    assert "no builder is called 'hubb'" in fault.message


@pytest.mark.parametrize(
    ("steps", "stuck"),
    [
        ([step("writer", "checker"), step("checker", "writer", clauses=(2,))], "writer, checker"),
        ([step("writer", "writer")], "writer"),
        (
            [
                step("planner"),
                step("writer", "planner", "editor"),
                step("checker", "writer", clauses=(2,)),
                step("editor", "checker", clauses=(3,)),
            ],
            "writer, checker, editor",
        ),
    ],
)
def test_steps_that_wait_for_each_other_are_a_fault(steps: list[r.Step], stuck: str) -> None:
    fault = lowered(*steps).faults[0]
    assert fault.code == "unsound"
    assert fault.message == f"{stuck} wait for each other"
    assert set(fault.clauses) == {n for s in steps if s.name in stuck for n in s.clauses}
    assert "writer_2" in fault.remedy


def test_a_loop_is_no_cycle() -> None:
    assert lowered(*WORK, APPROVED, BACK).faults == []


def test_an_agent_that_the_registry_does_not_offer_is_a_fault() -> None:
    offered = Registry.model_validate(
        {"model": "openai:x", "new_agents": False, "agents": {"writer": {"prompt": "You write."}}}
    )
    (fault,) = lowered(WRITER, step("checker", "writer", clauses=(2,)), registry=offered).faults
    assert (fault.code, fault.clauses) == ("not_offered", (2,))
    assert "'checker'" in fault.message


# -- where it comes from ---------------------------------------------------------------------------


def test_every_part_of_the_crew_has_the_clauses_that_it_comes_from() -> None:
    found = lowered(
        step("writer", clauses=(1,)),
        step("checker", "writer", clauses=(2, 3)),
        APPROVED.model_copy(update={"clauses": (3,)}),
        BACK.model_copy(update={"clauses": (4,)}),
        step("printer", "checker", clauses=(5,)),
        part(r.Question, name="q", ask="Print it?", before=("printer",), clauses=(6,)),
        right("ask", "printer", "post", clauses=(7,)),
        right("may", "writer", "look", quota="2 per run", clauses=(8,)),
        part(r.Readers, of="writer", readers=("checker",), clauses=(9,)),
        setting("max_steps", "20", clauses=(10,)),
        setting("model", "y", "writer", clauses=(11,)),
    )
    assert found.faults == []
    come_from = {(each.what, *each.path): each.clauses for each in found.sources}
    assert come_from == {
        ("agents", "agents", "writer"): (1,),
        ("agents", "agents", "checker"): (2, 3),
        ("agents", "agents", "printer"): (5,),
        ("steps", "flow", 0): (1,),
        ("steps", "flow", 1): (2, 3),
        ("loops", "flow", 2): (4,),
        ("questions", "flow", 3): (6,),
        ("steps", "flow", 4): (5,),
        ("rights", "tools", "post"): (7,),
        ("rights", "tools", "look"): (8,),
        ("rights", "rules", 0): (8,),
        ("rights", "approvals", "post"): (7,),
        ("readers", "agents", "writer", "writes"): (9,),
        ("settings", "limits", "steps"): (10,),
        ("settings", "agents", "writer", "model"): (11,),
    }
