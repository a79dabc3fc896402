"""Who has a turn for what people say, and what is told where nobody has."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.cli.told_hearers import hearing_in
from crewlog.definition.load import load_data
from crewlog.errors import CommandRejected
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.wakes import check_log, unread_log_reason, woken_agents
from crewlog.ids import AgentName, LogName, NodeName, StepId
from crewlog.state.model import FrontierStep

AGENTS: dict[str, Any] = {
    "keeper": {"listen": ["reports"], "send": ["tasks"]},
    "scout": {"listen": ["tasks"], "send": ["asides"]},
    "digger": {"listen": ["tasks"], "enabled": False},
}


def plan(root: str | None = None, **more: Any) -> GraphPlan:
    said = more.pop("agents", AGENTS)
    agents = {name: {"prompt": "p", **each} for name, each in said.items()}
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
        ("public", "the graph has no root agent, which messages to public wake"),
        ("channel:asides", "no agent listens to 'asides'"),
        ("group:all", "its readers read it only in their next turn, which it does not start"),
    ],
)
def test_it_is_told_why_nobody_has(log: str, why: str) -> None:
    found = hearing_in(plan(), LogName(log))
    assert (found.turns, found.words, found.why) == ((), "", why)
    ways = "--to channel:reports, --to channel:tasks, --to private:digger"
    assert found.remedy == f"Send it to a log that wakes an agent: {ways}."
    assert found.to_json()["warning"] == f"nobody has a turn for it: {why}"


def test_nobody_hears_itself() -> None:
    """What people say to public the root hears; what agents say there is there to be read."""
    found = plan("keeper", agents={**AGENTS, "scout": {**AGENTS["scout"], "listen": ["reports"]}})
    scout = AgentName("scout")
    assert woken_agents(found, LogName("channel:reports")) == ("keeper", "scout")
    assert woken_agents(found, LogName("channel:reports"), scout) == ("keeper",)
    assert woken_agents(found, LogName("readers:keeper+scout"), scout) == ("keeper",)
    assert woken_agents(found, LogName("public")) == ("keeper",)
    assert woken_agents(found, LogName("public"), scout) == ()
    assert woken_agents(plan(), LogName("public")) == ()


def test_in_a_crew_that_has_but_a_flow_nobody_hears() -> None:
    agents = {name: {} for name in AGENTS}
    flows = plan(agents=agents, graph=None, flow=[*agents])
    assert flows.component is None
    for log in ("public", "private:scout"):
        assert woken_agents(flows, LogName(log)) == ()
        assert unread_log_reason(flows, LogName(log)) == ("", ""), "they read it in their turns"
        check_log(flows, log)


def test_only_some_of_many_channels_are_named() -> None:
    agents = {"keeper": {"listen": ["d", "b", "a", "c", "e"], "send": ["f"]}}
    _, remedy = unread_log_reason(plan(agents=agents), LogName("channel:f"))
    ways = "--to channel:a, --to channel:b, --to channel:c, --to private:keeper"
    assert remedy == f"Send it to a log that wakes an agent: {ways}."


def test_what_a_flow_reads_is_not_lost() -> None:
    assert unread_log_reason(plan(flow=["keeper"]), LogName("public")) == ("", "")
    assert unread_log_reason(plan(flow=["keeper"]), LogName("channel:asides"))[0] != ""


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


def test_of_two_that_are_meant_the_channel_is_named() -> None:
    with pytest.raises(CommandRejected) as caught:
        check_log(plan(agents={"news": {"listen": ["news"]}}), "news")
    assert caught.value.remedy.startswith("Did you mean 'channel:news'?")


def test_a_log_that_is_like_no_other_is_no_slip() -> None:
    with pytest.raises(CommandRejected) as caught:
        check_log(plan(), "zzz")
    assert caught.value.remedy.startswith("Logs: ")


SOME: dict[str, Any] = {
    "keeper": {"listen": ["reports"], "reads": ["group:crew"]},
    "scout": {"listen": ["tasks"]},
    "mute": {"reads": []},
    "gone": {"listen": ["far"]},
}
PARTED: dict[str, Any] = {
    "agents": SOME,
    "graph": {"away": {"gone": "r.1"}},
    "groups": {"crew": ["keeper", "scout"]},
}
STEPS = [
    FrontierStep(step=StepId("scout#1"), node=NodeName("scout")),
    FrontierStep(
        step=StepId("scout#2.1"), node=NodeName("scout"), parent=StepId("scout#2"), item=1
    ),
]


@pytest.mark.parametrize(
    "log",
    [
        "public",
        "channel:tasks",
        "group:crew",
        "private:mute",
        "readers:keeper+scout",
        "private:scout#2.1",
    ],
)
def test_what_an_agent_reads_can_be_said_to_it(log: str) -> None:
    check_log(plan(**PARTED), log, STEPS)


def test_what_is_said_to_public_is_said_to_the_run() -> None:
    check_log(plan(agents={"mute": {"reads": []}}), "public")


@pytest.mark.parametrize(
    ("log", "remedy"),
    [
        ("channel:far", "It is read in the run r.1. Logs: "),
        ("private:gone", "It is read in the run r.1. Logs: "),
        ("readers:mute+scout", "Logs: "),
        ("readers:gone+scout", "Logs: "),
        ("private:scout#1", "Did you mean 'private:scout#2.1'? Logs: "),
    ],
)
def test_what_nobody_reads_here_is_refused(log: str, remedy: str) -> None:
    with pytest.raises(
        CommandRejected, match=f"nobody reads {log!r}".replace("+", r"\+")
    ) as caught:
        check_log(plan(**PARTED), log, STEPS)
    logs = (
        "channel:reports, channel:tasks, group:crew, private:keeper, private:mute, private:scout, "
        "private:scout#2.1, public"
    )
    assert caught.value.remedy == f"{remedy}{logs}."
