"""Who may call and set what, and the reasons that people read."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.authority.permissions import authorize_output, authorize_tool

KNOWN = {"read", "write", "act"}


@pytest.mark.parametrize(
    ("tool", "offered", "permissions", "reason"),
    [
        ("read", ["read"], {}, None),
        ("read", ["read"], {"read": None}, None),
        ("read", ["read"], {"read": ("a", "b")}, None),
        ("read", ["read"], {"read": ("b",)}, "permissions do not let 'a' call 'read'"),
        ("read", ["read"], {"read": ()}, "permissions do not let 'a' call 'read'"),
        ("read", ["write"], {"read": ("a",)}, "'read' is not among the tools of 'a'"),
        ("read", [], {}, "'read' is not among the tools of 'a'"),
        ("raed", ["raed"], {"raed": ("a",)}, "there is no tool 'raed'"),
        ("", [""], {}, "there is no tool ''"),
        ("READ", ["read"], {}, "there is no tool 'READ'"),
        ("read ", ["read"], {}, "there is no tool 'read '"),
    ],
)
def test_tools(tool: str, offered: list[str], permissions: Any, reason: str | None) -> None:
    decision = authorize_tool(
        "a", tool, agent_tools=offered, crew_tools=KNOWN, permissions=permissions
    )
    assert decision.allowed is (reason is None)
    assert decision.reason == (reason or "'read' is among the tools of 'a'")


def test_a_permission_never_widens_what_a_definition_offers() -> None:
    for permitted in (None, (), ("a",), ("a", "b")):
        decision = authorize_tool(
            "a", "act", agent_tools=["read"], crew_tools=KNOWN, permissions={"act": permitted}
        )
        assert not decision.allowed


@pytest.mark.parametrize("kind", ["flag", "output"])
def test_writes(kind: str) -> None:
    assert authorize_output(kind, "a", "ok", ["ok", "x"]).allowed
    refused = authorize_output(kind, "a", "OK", ["ok", "x"])
    assert not refused.allowed
    assert refused.reason == f"'a' may not set the {kind} 'OK': it does not declare it"
