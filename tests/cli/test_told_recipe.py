"""What is told of a run that goes back to its recipe, and of what is to be done before."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.cli.screen import Screen
from crewlog.cli.told_recipe import show_way_back, show_what_is_first, way_back_json
from crewlog.client.recipes import WayBack, check_nobody_comes_home
from crewlog.definition.load import load_data
from crewlog.errors import CommandRejected
from crewlog.ids import AgentName, RunId

CREW = load_data({"crew": "t", "model": "openai:x", "agents": {"ann": {"prompt": "p"}}})

STOP = "  Stop it first   crewlog stop r-1\n"


def way(*home: str, status: Any = "paused") -> WayBack:
    names = tuple(map(AgentName, home))
    what = "brings ann back"
    return WayBack(status, CREW, what, (), names, names, {}, (), (), 1)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (way(), ""),
        (way(status="waiting"), "  Pause it first   crewlog pause r-1\n"),
        (
            way("ann"),
            f"{STOP}  · ann comes home only to a run that has ended\n",
        ),
        (
            way("ann", "bob", status="waiting"),
            f"{STOP}  · ann and bob come home only to a run that has ended\n",
        ),
    ],
)
def test_what_an_open_run_needs_first(
    found: WayBack, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_what_is_first(Screen(), "r-1", found)
    assert capsys.readouterr().out == told


def test_who_comes_home_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_way_back(Screen(), "r-1", way("ann"))
    assert "its recipe  brings ann back" in capsys.readouterr().out
    assert way_back_json(way("ann"))["home"] == ["ann"]


@pytest.mark.parametrize(
    ("home", "said"),
    [
        (("ann",), "ann left for a run of its own, which has ended: it comes home, with all"),
        (("ann", "bob"), "ann and bob left for runs of their own, which have ended: they come"),
    ],
)
def test_an_open_run_to_which_somebody_comes_home_is_refused(
    home: tuple[str, ...], said: str
) -> None:
    check_nobody_comes_home(RunId("r-1"), way())
    with pytest.raises(CommandRejected) as refused:
        check_nobody_comes_home(RunId("r-1"), way(*home))
    assert said in refused.value.message
    assert "crewlog stop r-1" in refused.value.remedy
