"""Who has a turn for what people say, and what is told where nobody has."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.cli.told_hearers import hearing_in
from crewlog.definition.load import load_data
from crewlog.errors import CommandRejected
from crewlog.graph.hearing import check_log, unheard
from crewlog.graph.lower import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import LogName

AGENTS: dict[str, Any] = {
    "keeper": {"listen": ["reports"], "send": ["tasks"]},
    "scout": {"listen": ["tasks"], "send": ["asides"]},
    "digger": {"listen": ["tasks"], "enabled": False},
}


def plan(root: str | None = None, **more: Any) -> GraphPlan:
    agents = {name: {"prompt": "p", **each} for name, each in AGENTS.items()}
    data = {"crew": "t", "model": "openai:x", "agents": agents, "graph": {"root": root}, **more}
    return lower(load_data(data))


@pytest.mark.parametrize(
    ("root", "log", "turns"),
    [
        ("keeper", "public", ("keeper",)),
        (None, "channel:tasks", ("digger", "scout")),
        (None, "private:scout", ("scout",)),
        (None, "readers:keeper+scout", ("keeper", "scout")),
    ],
)
def test_who_has_a_turn(root: str | None, log: str, turns: tuple[str, ...]) -> None:
    found = hearing_in(plan(root), LogName(log))
    assert (found.turns, found.why, found.remedy) == (turns, "", "")
    assert found.off == (("digger",) if "digger" in turns else ())
    assert found.words.startswith(": ")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("public", "the graph has no root, which hears what is said to public"),
        ("channel:asides", "no agent listens to 'asides'"),
        ("group:all", "who reads it does so in the next turn that something else gives"),
    ],
)
def test_it_is_told_why_nobody_has(log: str, why: str) -> None:
    found = hearing_in(plan(), LogName(log))
    assert (found.turns, found.words, found.why) == ((), "", why)
    ways = "--to channel:reports, --to channel:tasks, --to private:digger"
    assert found.remedy == f"Say it where somebody listens: {ways}."
    assert found.to_json()["warning"] == f"nobody has a turn for it: {why}"


def test_what_a_flow_reads_is_not_lost() -> None:
    assert unheard(plan(flow=["keeper"]), LogName("public")) == ("", "")
    assert unheard(plan(flow=["keeper"]), LogName("channel:asides"))[0] != ""


def test_a_root_that_lives_in_another_run_hears_nothing() -> None:
    policy = {"root": "keeper", "away": {"keeper": "t.1"}}
    assert "no root" in hearing_in(plan(graph=policy), LogName("public")).why


@pytest.mark.parametrize(
    ("log", "meant"),
    [
        ("tasks", "channel:tasks"),
        ("scout", "private:scout"),
        ("chanel:tasks", "channel:tasks"),
    ],
)
def test_a_log_that_nobody_reads_may_be_a_slip(log: str, meant: str) -> None:
    with pytest.raises(CommandRejected) as caught:
        check_log(plan(), log)
    assert caught.value.remedy.startswith(f"Did you mean {meant!r}? Logs: channel:")


def test_a_log_that_is_like_no_other_is_no_slip() -> None:
    with pytest.raises(CommandRejected) as caught:
        check_log(plan(), "zzz")
    assert caught.value.remedy.startswith("Logs: ")
