"""What a crew's groups, logs, rules, questions and policy say to people who look at it."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.authority.authority_text import authority_lines
from crewlog.cli.explained import show_explanation
from crewlog.cli.screen import Screen
from crewlog.definition.load import load_data
from crewlog.reporting.explanation import explain

KEY = "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
OTHERS = [f"ed25519:{letter * 42}A=" for letter in "BCD"]
BARE: dict[str, Any] = {
    "crew": "paper",
    "model": "openai:x",
    "agents": {
        "scout": {"prompt": "Scout.", "outputs": ["confidence"], "ask_below": 0.7},
        "author": {"prompt": "Write.", "parent": "scout"},
    },
    "tools": {"send": {"run": "m:send"}},
}
MORE: dict[str, Any] = {
    "groups": {"desk": ["scout", "author"], "none": []},
    "logs": {"facts": {"readers": ["author", "scout"]}, "shut": {"writers": []}},
    "rules": [
        {"tool": "send", "agents": ["group:desk"], "quota": "5 per run", "reason": "Be brief."},
        {"tool": "*", "agents": ["author"], "do": "ask"},
    ],
    "interrupts": {
        "people": ["ana", "ben"],
        "approve_risk": "high",
        "valid": "10m",
        "expires": "2h",
        "default": "escalate",
        "escalate_to": "carla",
        "kinds": {"budget": {"expires": "1d", "default": "stop"}},
    },
    "limits": {"tokens": 200_000, "cost": 5, "wall": "1d"},
    "timezone": "Europe/Berlin",
    "policy": {
        "mode": "signed",
        "principals": {
            "ada": {"key": KEY, "rights": ["change", "grant"]},
            "ana": {"key": OTHERS[0], "rights": ["answer"]},
            "ben": {"key": OTHERS[1], "rights": ["answer"]},
            "carla": {"key": OTHERS[2], "rights": ["answer"]},
        },
    },
}
TOLD = [
    ("groups", "desk: scout and author"),
    ("groups", "none: nobody"),
    ("logs", "facts: read by author and scout, written by all that list it"),
    ("logs", "shut: read by all that list it, written by people alone"),
    ("rules", "send is called by scout and author at most 5 per run (Be brief)"),
    ("rules", "calls of every tool by author wait for a person's yes"),
    ("interrupts", "only ana and ben may answer"),
    ("interrupts", "calls of tools of high risk wait for a yes"),
    ("interrupts", "a yes to a call holds for 10m"),
    ("interrupts", "questions wait 2h, then they go to carla"),
    ("interrupts", "budgets: they wait 1d, then the run ends"),
    ("limits", "people are asked after 200,000 tokens, $5 or 1d"),
    ("policy", "ada may change and grant, by signed commands"),
    ("policy", "ana may answer, by signed commands"),
    ("policy", "ben may answer, by signed commands"),
    ("policy", "carla may answer, by signed commands"),
    ("timezone", "Europe/Berlin"),
]


def test_all_of_it_is_told() -> None:
    assert list(authority_lines(load_data({**BARE, **MORE}))) == TOLD
    assert list(authority_lines(load_data(BARE))) == []
    opened = load_data({**BARE, "policy": {"mode": "open"}})
    assert list(authority_lines(opened)) == [
        ("policy", "open: whoever reaches the server commands")
    ]


def test_a_node_is_explained_with_what_bounds_its_agent() -> None:
    crew = load_data({**BARE, **MORE})
    scout, author = explain(crew, "scout"), explain(crew, "author")
    assert scout.groups == author.groups == ("desk",)
    assert scout.rules == ("send is called by scout and author at most 5 per run",)
    assert author.rules[1] == "calls of every tool by author wait for a person's yes"
    assert scout.restrictions == ("people are asked where its confidence is below 0.7",)
    assert author.restrictions == ("it works for scout, and may no more than that one",)


def test_a_node_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    show_explanation(Screen(), explain(load_data({**BARE, **MORE}), "author"))
    said = capsys.readouterr().out
    for words in ("groups", "desk", "at most 5 per run", "it works for scout"):
        assert words in said
