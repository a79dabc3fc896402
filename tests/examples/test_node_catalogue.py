"""The catalogue of the workflow builder, and its judgement of workflows."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Inside

DAILY = {"type": "trigger.schedule", "parameters": {"rule": "days"}}
WEATHER = {"type": "world.weather_now", "parameters": {"place": "Kyiv"}}
MAIL = {
    "type": "message.gmail_send",
    "parameters": {"to": "me@example.org", "subject": "Rain", "body": "{{Weather.rain}}"},
}


def flow(nodes: dict[str, Any], *connections: tuple[str, ...]) -> dict[str, Any]:
    ends = [(*each, "main", "main")[:4] if len(each) == 2 else each for each in connections]
    return {
        "nodes": nodes,
        "connections": {
            f"{a}:{out}->{b}:{into}": {"from": a, "output": out, "to": b, "input": into}
            for a, b, out, into in ends
        },
    }


def test_every_type_of_the_catalogue_is_whole(inside: Inside) -> None:
    (catalogue,) = inside("workflow_builder", "catalogue")
    types = catalogue.catalogue().values()
    assert len(types) >= 100
    kinds = {"text", "number", "boolean", "list", "json", "choice", "expression"}
    for each in types:
        assert each.about.endswith(".")
        assert bool(each.inputs) != each.trigger
        assert each.type.partition(".")[0] == each.group
        for parameter in each.parameters.values():
            assert parameter.kind in kinds
            assert bool(parameter.options) == (parameter.kind == "choice")
            assert parameter.about


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("send an email", "message.email_send"),
        ("weather forecast of a city", "world.weather_forecast"),
        ("schedule", "trigger.schedule"),
        ("post to slack", "message.slack_post"),
    ],
)
def test_a_search_finds_what_fits_best(inside: Inside, words: str, first: str) -> None:
    (catalogue,) = inside("workflow_builder", "catalogue")
    assert catalogue.search(words)[0].type == first


def test_a_sound_workflow_has_no_faults(inside: Inside) -> None:
    (checking,) = inside("workflow_builder", "checking")
    sound = flow(
        {"Daily": DAILY, "Weather": WEATHER, "Mail": MAIL},
        ("Daily", "Weather"),
        ("Weather", "Mail"),
    )
    assert checking.faults_of(sound) == []
    assert checking.credentials_of(sound) == ["google_mail", "openweather"]


@pytest.mark.parametrize(
    ("nodes", "connections", "said"),
    [
        ({}, [], "it has no nodes"),
        (
            {"Daily": {"type": "trigger.shedule"}},
            [],
            "no node type 'trigger.shedule'. Did you mean",
        ),
        ({"Daily": {"type": "trigger.schedule"}}, [], "Daily: the parameter 'rule' is missing"),
        (
            {"Daily": {"type": "trigger.schedule", "parameters": {"rule": "yearly"}}},
            [],
            "'rule' is 'yearly'. It is one of: minutes",
        ),
        (
            {"Daily": {"type": "trigger.schedule", "parameters": {"rule": "days", "every": "2"}}},
            [],
            "'every' is a str. It takes: number",
        ),
        (
            {"Daily": {"type": "trigger.schedule", "parameters": {"rule": "days", "evry": 2}}},
            [],
            "has no parameter 'evry'",
        ),
        ({"Weather": WEATHER}, [], "nothing starts it"),
        ({"Daily": DAILY, "Weather": WEATHER}, [], "Weather: no trigger leads to it"),
        ({"Daily": DAILY}, [("Daily", "Weather")], "there is no node 'Weather'"),
        (
            {"Daily": DAILY, "Weather": WEATHER},
            [("Daily", "Weather", "rain", "main")],
            "'Daily' has no output 'rain'",
        ),
        (
            {"Daily": DAILY, "Weather": WEATHER},
            [("Daily", "Weather"), ("Weather", "Daily")],
            "'Daily' has no input 'main'. Its inputs: none",
        ),
        (
            {"Daily": DAILY, "Mail": MAIL},
            [("Daily", "Mail")],
            "it uses a result of 'Weather', which is no node",
        ),
        (
            {"Daily": DAILY, "Mail": MAIL, "Weather": WEATHER},
            [("Daily", "Mail"), ("Mail", "Weather")],
            "it uses a result of 'Weather', which does not come before it",
        ),
        (
            {"Daily": DAILY, "A": {"type": "flow.do_nothing"}, "B": {"type": "flow.do_nothing"}},
            [("Daily", "A"), ("A", "B"), ("B", "A")],
            "A: it is part of a circle",
        ),
    ],
)
def test_each_fault_is_told_with_its_remedy(
    inside: Inside, nodes: dict[str, Any], connections: list[tuple[str, ...]], said: str
) -> None:
    (checking,) = inside("workflow_builder", "checking")
    assert said in "\n".join(map(str, checking.faults_of(flow(nodes, *connections))))


def test_a_loop_in_batches_may_be_led_back_to(inside: Inside) -> None:
    (checking,) = inside("workflow_builder", "checking")
    nodes = {
        "Daily": DAILY,
        "Loop": {"type": "flow.batch_loop"},
        "Step": {"type": "flow.do_nothing"},
    }
    ends = [("Daily", "Loop"), ("Loop", "Step", "batch", "main"), ("Step", "Loop")]
    assert checking.faults_of(flow(nodes, *ends)) == []
