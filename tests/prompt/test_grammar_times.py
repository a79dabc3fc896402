"""Waits in words: for so long, until a time, and how long a requirement is waited for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.corpus.cases import differences, meaning

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.graph.dry_run import dry_run
from crewlog.graph.lower import lower
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.english import expressible, to_english
from crewlog.prompt.grammar.times import lapse_at
from crewlog.prompt.offered import not_offered
from crewlog.prompt.registry import LONGEST_WAIT, Registry

REGISTRY = Registry.model_validate(
    {"model": "openai:gpt-5", "tools": {"deploy": {"run": "a:b", "risk": "high"}}}
)
W, C, P = "writer", "checker", "publisher"
TWO, MORNING = {"wait": "2h"}, {"wait_until": "2026-12-01T09:00:00Z"}
READY: dict[str, Any] = {"agent": "painter", "when": "backend.models_ready"}
MODELS = "The backend builds the models. Once the models are ready, the painter paints. "


def read(text: str) -> CompiledPrompt:
    return compile_prompt(text, REGISTRY)


def crew_of(found: CompiledPrompt) -> CrewDefinition:
    assert found.definition is not None, [r.diagnostic.message for r in found.remarks]
    return found.definition


def flow_of(found: CompiledPrompt) -> list[Any]:
    return list(crew_of(found).to_json()["flow"])  # type: ignore[arg-type, call-overload]


def same(found: CompiledPrompt, flow: list[Any]) -> None:
    """Whether a prompt is understood, and gives a flow."""
    assert found.understood, [r.diagnostic.render() for r in found.remarks]
    crew = crew_of(found)
    expected = crew.to_json() | {"flow": flow}
    assert flow_of(found) == load_data(expected).to_json()["flow"]


# -- for so long -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "flow"),
    [
        ("Wait two hours, then the checker reads it.", [W, TWO, C]),
        ("Wait two hours and then the checker reads it.", [W, TWO, C]),
        ("Please wait for 2 hours. Finally the checker reads it.", [W, TWO, C]),
        ("Hold on for 2h, then the checker reads it.", [W, TWO, C]),
        ("Then the crew pauses for 120 minutes. The checker reads it.", [W, TWO, C]),
        ("After two hours the checker reads it.", [W, TWO, C]),
        ("Two hours later, the checker reads it.", [W, TWO, C]),
        ("Two hours after that, the checker reads it.", [W, TWO, C]),
        ("Two hours later it is read by the checker.", [W, TWO, C]),
        ("Once two hours have passed, the checker reads it.", [W, TWO, C]),
        ("Then, after a pause of two hours, the checker reads it.", [W, TWO, C]),
        ("After waiting for two hours, the checker reads it.", [W, TWO, C]),
        ("Let two hours pass. Then the checker reads it.", [W, TWO, C]),
        ("Take a break of two hours. The checker reads it.", [W, TWO, C]),
        ("Then there is a two-hour pause. Then the checker reads it.", [W, TWO, C]),
        ("The checker reads it two hours later.", [W, TWO, C]),
        ("The checker reads it after two hours.", [W, TWO, C]),
        ("The checker reads it two hours after the writer finishes.", [W, TWO, C]),
        ("The checker waits two hours and then reads it.", [W, TWO, C]),
        ("The checker waits two hours. The checker reads it.", [W, TWO, C]),
        ("Have the checker read it two hours later.", [W, TWO, C]),
        ("Wait two hours before the checker reads it.", [W, TWO, C]),
        ("Wait two hours before going on. The checker reads it.", [W, TWO, C]),
        (
            "The checker reads it, and after another hour the publisher posts it.",
            [W, C, {"wait": "1h"}, P],
        ),
        (
            "The checker reads it, then the publisher posts it. Wait 30 minutes before it starts.",
            [W, C, {"wait": "30m"}, P],
        ),
        (
            "The checker reads it. Two hours after the writer finishes, the publisher posts it.",
            [W, C, {**TWO, "after": W}, P],
        ),
        ("Meanwhile, wait two hours. Then the checker reads it.", [[W, TWO], C]),
        ("Wait two hours. Then ask me whether to go on.", [W, TWO, {"ask": "Go on?"}]),
    ],
)
def test_a_wait_for_so_long(words: str, flow: list[Any]) -> None:
    same(read(f"The writer drafts it. {words}"), flow)


def test_agents_that_only_wait_work_all_the_same() -> None:
    same(
        read("The writer waits two hours, the checker waits an hour."), [TWO, W, {"wait": "1h"}, C]
    )
    found = read(
        "The editor drafts it. The writer and the checker wait two hours and then read it."
    )
    same(found, ["editor", TWO, [W, C]])
    assert not read("Wait two hours. Ask me.").ok


def test_a_wait_may_come_first_and_beside_others() -> None:
    same(read("Wait ten minutes, then the writer drafts it."), [{"wait": "10m"}, W])
    found = read(
        "The writer and the editor work in parallel; meanwhile wait 10 minutes. As soon as any of "
        "them is done, the checker reads it."
    )
    same(found, [{"parallel": [W, "editor", {"wait": "10m"}], "join": "any"}, C])


READ = "The writer drafts it. The checker reads it. "


@pytest.mark.parametrize(
    ("words", "flow"),
    [
        ("If approved, wait two hours.", [{**TWO, "only_if": "approved"}]),
        ("Wait two hours if approved.", [{**TWO, "only_if": "approved"}]),
        ("Wait two hours, unless approved.", [{**TWO, "only_if": "not approved"}]),
        (
            "If approved, wait two hours, then the publisher posts it.",
            [{**TWO, "only_if": "approved"}, {"agent": P, "only_if": "approved"}],
        ),
        (
            "If approved, after two hours the publisher posts it; otherwise the editor mends it.",
            [
                {**TWO, "only_if": "approved"},
                [
                    {"agent": P, "only_if": "approved"},
                    {"agent": "editor", "only_if": "not approved"},
                ],
            ],
        ),
        (
            "If approved, wait two hours; otherwise the editor mends it.",
            [{**TWO, "only_if": "approved"}, {"agent": "editor", "only_if": "not approved"}],
        ),
        (
            "If approved, the publisher posts it; otherwise, after two hours, the editor mends it.",
            [
                {"agent": P, "only_if": "approved"},
                {**TWO, "only_if": "not approved"},
                {"agent": "editor", "only_if": "not approved"},
            ],
        ),
        (
            "Unless approved, back to the writer after two hours, at most 3 times, otherwise ask me.",
            [
                {**TWO, "only_if": "not approved"},
                {"if": "not approved", "go": W, "at_most": 3, "else": "ask_human"},
            ],
        ),
    ],
)
def test_a_wait_under_a_condition(words: str, flow: list[Any]) -> None:
    same(read(READ + words), [W, C, *flow])


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("two hours", 7200),
        ("an hour and a half", 5400),
        ("half an hour", 1800),
        ("a quarter of an hour", 900),
        ("three quarters of an hour", 2700),
        ("1h30m", 5400),
        ("2 hours and 30 minutes", 9000),
        ("one and a half days", 129_600),
        ("twenty four hours", 86_400),
        ("forty-five minutes", 2700),
        ("ninety seconds", 90),
        ("another two hours", 7200),
        ("1,5 hours", 5400),
        ("0.25 seconds", 0.25),
        ("two weeks", 1_209_600),
    ],
)
def test_durations(words: str, seconds: float) -> None:
    said = words.split()
    found = lapse_at(said, 0)
    assert found is not None
    assert (found.end, found.seconds) == (len(said), seconds)


# -- until a time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("Wait until 2026-12-01 09:00 UTC. Then", "2026-12-01T09:00:00Z"),
        ("Wait until 1 December 2026 at 9:00 UTC, then", "2026-12-01T09:00:00Z"),
        ("Wait until 9:00 UTC on 1 December 2026, then", "2026-12-01T09:00:00Z"),
        ("Wait until 2026-12-01T09:00:00+01:00. Then", "2026-12-01T09:00:00+01:00"),
        ("Wait until December 1st, 2026, 9 am CET. Then", "2026-12-01T09:00:00+01:00"),
        ("Wait until 1 Dec 2026 at 9 a.m. UTC. Then", "2026-12-01T09:00:00Z"),
        ("Wait until Tuesday, 1 December 2026 at 5:30 pm UTC+2. Then", "2026-12-01T17:30:00+02:00"),
        ("Wait until 2026-12-01 at noon (UTC). Then", "2026-12-01T12:00:00Z"),
        ("Until 2026-12-01 09:00 UTC, wait. Then", "2026-12-01T09:00:00Z"),
        ("Nothing happens until 2026-12-01 09:00 UTC. Then", "2026-12-01T09:00:00Z"),
        ("On 1 December 2026 at 9:00 UTC", "2026-12-01T09:00:00Z"),
        ("Not before 2026-12-01 09:00 UTC,", "2026-12-01T09:00:00Z"),
    ],
)
def test_a_wait_until_a_time(words: str, until: str) -> None:
    found = read(f"The writer drafts it. {words} the publisher posts it.")
    same(found, [W, {"wait_until": until}, P])
    assert not found.remarks


@pytest.mark.parametrize(
    "words",
    [
        "The publisher posts it, but not before 2026-12-01 09:00 UTC.",
        "The publisher waits until 2026-12-01 09:00 UTC and then posts it.",
        "The publisher starts at 2026-12-01 09:00 UTC.",
    ],
)
def test_an_agent_that_waits_until_a_time(words: str) -> None:
    found = read(f"The writer drafts it. {words}")
    same(found, [W, MORNING, P])
    assert not found.remarks


def test_what_a_time_leaves_out_is_assumed_and_said() -> None:
    found = read("The writer drafts it. Wait until 1 December 2026 at 9:00. The checker reads it.")
    same(found, [W, MORNING, C])
    (remark,) = found.remarks
    assert (remark.code, remark.severity) == ("assumed", "warning")
    assert "UTC is assumed" in remark.diagnostic.message
    day = read("The writer drafts it. Wait until 2026-12-01, then the checker reads it.")
    same(day, [W, {"wait_until": "2026-12-01T00:00:00Z"}, C])
    assert [r.code for r in day.remarks] == ["assumed", "assumed"]


# -- how long a requirement is waited for --------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "within", "then"),
    [
        ("If the models are not ready within two hours, skip the painter.", "2h", "skip"),
        ("If they are not ready within two hours, skip it.", "2h", "skip"),
        ("Skip the painter if the models are not ready within 90 minutes.", "90m", "skip"),
        ("Unless the models are ready within a day, go on without the painter.", "1d", "skip"),
        ("Should the models not be ready within a day, skip the painter.", "1d", "skip"),
        ("If the models are not ready after two hours, skip the painter.", "2h", "skip"),
        ("If the models are not ready within two hours, ask me.", "2h", "ask_human"),
        ("Ask me if the models are not ready within two hours.", "2h", "ask_human"),
        ("The painter waits for that at most 2 hours; otherwise ask me.", "2h", "ask_human"),
        ("It waits for that no longer than 30 minutes, otherwise skip it.", "30m", "skip"),
    ],
)
def test_a_bound_of_a_requirement(words: str, within: str, then: str) -> None:
    found = read(f"{MODELS}{words} Finally the printer prints.")
    same(found, ["backend", READY | {"within": within, "else": then}, "printer"])


@pytest.mark.parametrize(
    "words",
    [
        "If the models are not ready within two hours, the sketcher takes over.",
        "If the backend's models are not ready within 2h, the sketcher draws a sketch instead.",
        "The painter waits for that at most two hours; otherwise the sketcher draws a sketch.",
    ],
)
def test_another_agent_takes_over(words: str) -> None:
    found = read(f"{MODELS}{words} Then the printer prints.")
    painter = READY | {"within": "2h", "else": "sketcher"}
    sketcher = {"agent": "sketcher", "after": "go"}
    printer = {"agent": "printer", "after": {"any": ["painter", "sketcher"]}}
    same(found, ["backend", painter, sketcher, printer])


async def test_who_takes_over_may_stand_beside_others() -> None:
    found = read(
        f"{MODELS}Meanwhile, the designer draws. If the models are not ready within two hours, the "
        "sketcher takes over. Then the printer prints."
    )
    painter = READY | {"within": "2h", "else": "sketcher"}
    both = {"quorum": 2, "of": ["painter", "designer", "sketcher"]}
    sketcher = {"agent": "sketcher", "after": "go"}
    printer = {"agent": "printer", "after": both}
    same(found, ["backend", [painter, "designer"], sketcher, printer])
    assert expressible(crew_of(found), REGISTRY) == []
    again = read(to_english(crew_of(found), REGISTRY))
    assert differences(meaning(crew_of(found)), meaning(crew_of(again))) == []
    told = await dry_run(lower(crew_of(found)))
    assert told.end == "completed"
    assert [step.node for step in told.steps][-1] == "printer"


def test_a_bound_may_say_what_is_required() -> None:
    found = read(
        "The backend builds the models, then the painter paints. If the models are not ready "
        "within two hours, skip the painter."
    )
    same(found, ["backend", READY | {"within": "2h", "else": "skip"}])


# -- what cannot be waited for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "Wait until 9:00",
        "Wait until noon",
        "Wait until tomorrow",
        "Wait until next Monday",
        "Wait until 1 December at 9:00",
        "Wait until 31 February 2026",
        "Wait until Monday, 1 December 2026 at 9:00 UTC",
        "Wait until 2026-12-01 25:00 UTC",
        "Wait until 2026-12-01 09:00 Europe/Berlin",
        "Wait a while",
        "Wait a few minutes",
        "Wait two months",
        "Wait two working days",
        "Wait at most two hours",
        "Wait two hours for the editor",
        "Wait between one and two hours",
        "Wait 0 minutes",
    ],
)
def test_what_says_no_time_is_reported(words: str) -> None:
    found = read(f"The writer drafts it. {words}. The checker reads it.")
    assert [r.code for r in found.remarks] == ["not_understood"]
    assert words.partition(",")[0] in found.remarks[0].diagnostic.message
    assert found.remarks[0].diagnostic.remedy
    assert flow_of(found) == [W, C]


@pytest.mark.parametrize("words", ["At 9:00,", "At noon", "After two months"])
def test_a_clause_at_no_time_is_said_without_it(words: str) -> None:
    found = read(f"The writer drafts it. {words} the checker reads it.")
    assert [r.code for r in found.remarks] == ["not_understood"]
    assert flow_of(found) == [W, C]


@pytest.mark.parametrize(
    "words",
    [
        "If the models are not ready within two hours, stop.",
        "If the models are not ready by 2026-12-01 09:00 UTC, skip the painter.",
        "If the models are not ready within a few minutes, skip the painter.",
        "If I do not answer within two hours, skip the painter.",
    ],
)
def test_bounds_that_no_step_keeps_are_reported(words: str) -> None:
    found = read(MODELS + words)
    assert not found.understood
    assert "within" not in str(flow_of(found))
    assert "only_if" not in str(flow_of(found))


def test_a_bound_needs_a_step_that_waits() -> None:
    found = read("The backend builds the models. If they are not ready within two hours, ask me.")
    assert not found.ok
    assert any("no step waits for this" in r.diagnostic.message for r in found.remarks)


def test_a_time_in_a_task_is_reported() -> None:
    found = read("The writer drafts it. The publisher posts it at 2026-12-01 09:00 UTC.")
    assert flow_of(found) == [W, P]
    (remark,) = found.remarks
    assert remark.code == "read_as_words"
    assert "nothing waits for it" in remark.diagnostic.message
    (within,) = read("The writer drafts it. The checker reads it within two hours.").remarks
    assert within.code == "read_as_words"


@pytest.mark.parametrize(
    "words",
    [
        "After two hours, the checker may use deploy.",
        "The checker may use deploy after two hours.",
        "Wait two hours, then the checker may use deploy.",
        "On 2026-12-01 at 9:00 UTC the checker may use deploy.",
        "Only the checker may use deploy, but not before 2026-12-01 09:00 UTC.",
        "If approved, after two hours the checker may use deploy.",
    ],
)
def test_a_right_is_not_given_after_a_time(words: str) -> None:
    found = read(f"The writer drafts it. The checker reads it. {words}")
    crew = crew_of(found)
    assert not found.understood
    assert not any(agent.tools for agent in crew.agents.values())
    assert flow_of(found) == [W, C]


@pytest.mark.parametrize(
    "words",
    [
        "The verifier watches the alarm for five minutes.",
        "The checker may use deploy. The festival is two weeks away.",
        "The checker reads the notes of the last two days.",
    ],
)
def test_other_durations_are_no_waits(words: str) -> None:
    flow = flow_of(read(f"The writer drafts it. {words} The checker reads it."))
    assert not any("wait" in str(item) for item in flow)


# -- how long prompts may wait -------------------------------------------------------------------------


def test_a_prompt_may_wait_a_year() -> None:
    same(read("The writer drafts it. Wait 365 days, then the checker reads it."), [
        W, {"wait": "365d"}, C,
    ])  # fmt: skip
    for words in ("Wait 366 days", "Wait 1,000,000,000 days"):
        found = read(f"The writer drafts it. {words}, then the checker reads it.")
        (error,) = [r for r in found.remarks if r.error]
        assert error.code == "not_offered"
        assert "365 days" in error.diagnostic.remedy
    late = read(f"{MODELS}If the models are not ready within 400 days, skip the painter.")
    assert [r.code for r in late.remarks if r.error] == ["not_offered"]


def test_an_edit_may_wait_a_year_too() -> None:
    def faults(**item: Any) -> list[str]:
        agents = {W: {"prompt": "p", "writes_flags": ["ok"], "tools": []}, C: {"prompt": "p"}}
        agents[C]["tools"] = []
        data = {"crew": "t", "model": "openai:gpt-5", "agents": agents, "flow": [W, item, C]}
        return [f.message for f in not_offered(load_data(data), Registry(model="openai:gpt-5"))]

    late = {"agent": C, "phase": "late", "when": "ok"}
    assert faults(wait=LONGEST_WAIT) == []
    assert faults(wait_until="2099-01-01T00:00:00Z") == []
    assert faults(wait="366d") == ["366d is longer than prompts, and edits, may wait"]
    assert faults(**late, within="366d") == ["366d is longer than prompts, and edits, may wait"]
    assert faults(**late, within="365d") == []


# -- edits, and the way back ---------------------------------------------------------------------------


def test_waits_keep_their_names_over_an_edit() -> None:
    first = read(
        "The writer drafts it. Wait two hours. The checker reads it. Wait a day. The publisher posts it."
    )
    before = crew_of(first)
    assert [p.name for p in phases(before)] == [W, "wait_1", C, "wait_2", P]
    changed = compile_prompt(
        "The writer drafts it. The checker reads it. Wait a day. The publisher posts it.",
        REGISTRY,
        previous=before,
    )
    assert [p.name for p in phases(crew_of(changed))] == [W, C, "wait_2", P]
    more = compile_prompt(
        "Wait an hour. The writer drafts it. Wait two hours. The checker reads it. Wait a day. "
        "The publisher posts it.",
        REGISTRY,
        previous=before,
    )
    names = [p.name for p in phases(crew_of(more))]
    assert names[1:] == [W, "wait_1", C, "wait_2", P]
    assert names[0] not in names[1:]


def test_a_wait_that_lasts_longer_keeps_its_name() -> None:
    before = crew_of(read("The writer drafts it. Wait two hours. The checker reads it."))
    text = "The writer drafts it. Wait three hours. The checker reads it."
    crew = crew_of(compile_prompt(text, REGISTRY, previous=before))
    assert [p.name for p in phases(crew)] == [W, "wait_1", C]
    assert crew.flow[1].wait == 10_800  # type: ignore[union-attr]


def test_english_says_waits_and_bounds() -> None:
    crew = crew_of(
        read(
            f"{MODELS}If the models are not ready within two hours, the sketcher draws a sketch. "
            "Wait until 2026-12-01 09:00 UTC. Then the printer prints. Meanwhile, wait a day. If approved, wait 90 "
            "seconds. Finally the publisher posts it."
        )
    )
    assert expressible(crew, REGISTRY) == []
    text = to_english(crew, REGISTRY)
    assert "The painter waits for that at most 2 hours; otherwise the sketcher draws a" in text
    assert "Then wait until 2026-12-01 09:00 UTC." in text
    assert "Meanwhile, wait 1 day." in text
    assert "wait 90 seconds." in text


def test_english_does_not_say_what_prompts_may_not() -> None:
    agents = {W: {"prompt": "p", "writes_flags": ["ok"]}, C: {"prompt": "p"}}
    late = {"agent": C, "when": "ok", "within": "500d"}
    data = {"crew": "t", "model": "openai:m", "agents": agents, "flow": [W, {"wait": "400d"}, late]}
    left = expressible(load_data(data))
    assert any("wait_1" in each for each in left)
    assert any("how long 'checker' waits" in each for each in left)
