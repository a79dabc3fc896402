"""What a prompt that changes a crew leaves as it was: field by field, and none is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.model import AgentDefinition, CrewDefinition, ToolDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.edits import keep_names
from crewlog.prompt.keeping import AGENT, CREW, TOOL, kept
from crewlog.prompt.registry import registry_of_crew
from crewlog.prompt.registry_file import load_registry_data

PROMPT = "The writer writes the notes, then the editor edits them."
KEY = "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
BARE: dict[str, Any] = {
    "crew": "t",
    "model": "openai:x",
    "agents": {"writer": {"prompt": "Write."}, "editor": {"prompt": "Edit."}},
}
TOOLS: dict[str, Any] = {"send": {"run": "m:send"}, "fetch": {"run": "mcp:web/fetch"}}
OF_CREW: dict[str, Any] = {
    "crew": "another",
    "description": "Notes.",
    "model": "openai:y",
    "agents": {"writer": {"prompt": "p", "ask_below": 0.5}, "editor": {"prompt": "p"}},
    "tools": TOOLS,
    "mcp": {"web": {"command": "fetcher", "args": ["--safe"]}},
    "flow": ["editor", "writer"],
    "flags": {"ready": True},
    "permissions": {"send": []},
    "approvals": {"send": None},
    "groups": {"few": ["writer"], "gone": []},
    "rules": [{"tool": "send", "do": "never", "agents": ["writer"]}, {"tool": "*", "do": "ask"}],
    "timezone": "Europe/Berlin",
    "logs": {"findings": {"readers": ["editor"], "writers": ["writer"]}},
    "channels": {"drafts": {"description": "Drafts."}},
    "graph": {"root": "writer", "idle": "1h"},
    "artifacts": {"doc": {"writers": ["editor"], "initial": {"n": 1}}},
    "merge": {"ready": "append"},
    "limits": {"steps": 50, "tokens": 1000, "cost": 2.5, "wall": "1h", "parallel": 3},
    "interrupts": {"people": ["ana"], "approve_risk": "high", "expires": "2h"},
    "checkpoints": {"keep_last": 3},
    "window": {"last": 20, "summary": "extract"},
    "conversation": {"idle": "1h", "respond": ["writer"], "apology": "Sorry."},
    "memory": {"read": {"public": ["editor"]}, "write": {}, "retention": "30d"},
    "approval": "required",
    "policy": {"mode": "signed", "principals": {"ada": {"key": KEY, "rights": ["grant"]}}},
}
OF_AGENT: dict[str, Any] = {
    "does": [{"tool": "send", "args": {"to": "ana"}}],
    "in_order": True,
    "prompt": "Write well.",
    "description": "Writes.",
    "model": "openai:z",
    "model_settings": {"temperature": 0},
    "tools": ["send"],
    "reads": [],
    "writes": ["channel:drafts"],
    "outputs": ["confidence"],
    "writes_flags": ["ready"],
    "reply": "terminate",
    "max_calls": 3,
    "on_cap": "end",
    "timeout": 9,
    "heartbeat": 2,
    "retry": {"attempts": 1},
    "on_error": "fail",
    "ask_below": 0.5,
    "enabled": False,
    "pattern": "review_loop",
    "parent": "editor",
    "scratch": {"most": 3},
    "window": {"last": 5},
    "inputs": ["editor.text"],
    "shares": ["channel:drafts"],
    "listen": ["drafts"],
    "send": ["drafts"],
    "wires": ["editor"],
    "beside": "editor",
    "privileged": True,
}
OF_TOOL: dict[str, Any] = {
    "run": "m:other",
    "description": "Sends.",
    "effects": "read",
    "retry": "keyed",
    "timeout": 3,
    "heartbeat": 2,
    "policy": {"attempts": 1},
    "on_error": "fail",
    "queue": "apart",
    "placed": "local",
    "paths": ["notes/"],
    "secrets": {"GITHUB": "env:GITHUB"},
    "hosts": ["api.example.org"],
    "checks": {"path": "path"},
    "approved": "a" * 64,
    "risk": "high",
}
SAID = {"model", "flow"}
"""Of a crew, what the prompt says here."""


def crew_with(**more: Any) -> CrewDefinition:
    """A crew whose agents may have more; not checked, so that each field can stand alone."""
    return CrewDefinition.from_json({**BARE, "tools": TOOLS, "mcp": OF_CREW["mcp"], **more})


def changed(base: CrewDefinition, prompt: str = PROMPT) -> CrewDefinition:
    """The crew after a prompt that may use what it has."""
    registry = registry_of_crew(base)
    found = compile_prompt(prompt, registry).definition
    assert found is not None
    return kept(base, keep_names(base, found), registry, own=True)


def by_registry(base: CrewDefinition, **registry: Any) -> CrewDefinition:
    """The crew after a prompt that has a registry of its own."""
    offered = load_registry_data({"registry": "r", "model": "openai:x", **registry})
    found = compile_prompt(PROMPT, offered).definition
    assert found is not None
    return kept(base, keep_names(base, found), offered, own=False)


def test_each_field_is_decided_and_tried() -> None:
    for of, table, tried in (
        (CrewDefinition, CREW, OF_CREW),
        (AgentDefinition, AGENT, OF_AGENT),
        (ToolDefinition, TOOL, OF_TOOL),
    ):
        assert set(table) == set(of.model_fields), "say in prompt/keeping.py what becomes of it"
        assert set(tried) == set(of.model_fields), "try it here"


@pytest.mark.parametrize("key", sorted(set(CREW) - SAID - {"agents", "tools", "mcp"}))
def test_a_field_of_the_crew_stands(key: str) -> None:
    more: dict[str, Any] = {"permissions": {"send": []}} if key == "rules" else {}
    agents = {"writer": {"prompt": "Write.", "tools": ["send"], "writes_flags": ["ready"]}}
    base = crew_with(
        **{"agents": {**BARE["agents"], **agents}, **more, key: OF_CREW[key]},
    )
    assert getattr(base, key) == getattr(CrewDefinition.from_json({**BARE, key: OF_CREW[key]}), key)
    assert getattr(changed(base), key) == getattr(base, key)


def test_a_prompt_that_says_it_anew_is_heard() -> None:
    talk = OF_CREW["conversation"]
    base = crew_with(window=OF_CREW["window"], conversation=talk, artifacts=OF_CREW["artifacts"])
    said = (
        f"{PROMPT} Each agent sees the last 3 messages. A conversation ends after 5 minutes of "
        "silence. The writer changes the artifact doc. The writer changes the artifact table."
    )
    found = changed(base, said)
    assert found.window is not None
    assert found.window.last == 3
    assert found.conversation is not None
    assert found.conversation.idle == 300
    # Who may change what was there stays as it was: no prompt gives more.
    assert found.artifacts["doc"] == base.artifacts["doc"]
    assert found.artifacts["table"].writers == ("writer",)


@pytest.mark.parametrize("key", sorted(set(AGENT) - {"prompt"}))
def test_a_field_of_an_agent_stands(key: str) -> None:
    writer = {"prompt": "Write.", key: OF_AGENT[key]}
    base = crew_with(agents={"writer": writer, "editor": {"prompt": "Edit."}})
    assert getattr(changed(base).agents["writer"], key) == getattr(base.agents["writer"], key)


@pytest.mark.parametrize("key", sorted(set(AGENT) - {"prompt", "tools"}))
def test_a_field_of_an_agent_stands_that_a_registry_says_nothing_of(key: str) -> None:
    writer = {"prompt": "Write.", key: OF_AGENT[key]}
    base = crew_with(agents={"writer": writer, "editor": {"prompt": "Edit."}})
    assert getattr(by_registry(base).agents["writer"], key) == getattr(base.agents["writer"], key)


@pytest.mark.parametrize("key", sorted(TOOL))
def test_a_field_of_a_tool_stands(key: str) -> None:
    send = {"run": "m:send", key: OF_TOOL[key]}
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["send"]}}
    base = crew_with(agents=agents, tools={**TOOLS, "send": send})
    assert changed(base).tools["send"] == base.tools["send"]


def test_a_server_and_what_is_approved_of_its_tools_stand() -> None:
    fetch = {"run": "mcp:web/fetch", "approved": "b" * 64}
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["fetch"]}}
    found = changed(crew_with(agents=agents, tools={"fetch": fetch}))
    assert found.mcp["web"].args == ("--safe",)
    assert found.tools["fetch"].approved == "b" * 64


@pytest.mark.parametrize("key", sorted(key for key, how in TOOL.items() if how == "stands"))
def test_what_a_registry_would_take_from_a_tool(key: str) -> None:
    send = {"run": "m:send", key: OF_TOOL[key]}
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["send"]}}
    base = crew_with(agents=agents, tools={"send": send})
    offered = {"prompt": "Write.", "tools": ["send"]}
    with pytest.raises(InvalidDefinition) as caught:
        by_registry(base, agents={"writer": offered}, tools={"send": {"run": "m:send"}})
    assert f"{key!r} of the tool 'send' would be lost" in str(caught.value)
    assert "by operations" in str(caught.value)


@pytest.mark.parametrize("key", sorted(key for key, how in AGENT.items() if how == "stands"))
def test_what_a_registry_would_take_from_an_agent(key: str) -> None:
    other = {"reads": ["channel:x"], "writes": ["channel:x"], "ask_below": 0.2, "parent": "x"}
    other["shares"] = ["channel:x"]
    base = crew_with(
        agents={"writer": {"prompt": "W.", key: OF_AGENT[key]}, "editor": {"prompt": "E."}}
    )
    agents = {"writer": {"prompt": "W.", "outputs": ["confidence"], key: other[key]}}
    if key == "parent":
        agents["x"] = {"prompt": "x"}
    with pytest.raises(InvalidDefinition, match=f"'{key}' of the agent 'writer' would be lost"):
        by_registry(base, agents=agents)


def test_what_else_a_registry_would_take() -> None:
    base = crew_with(approval="required", limits={"steps": 50, "tokens": 9})
    with pytest.raises(InvalidDefinition, match="that approval is 'required' would be lost"):
        by_registry(base)
    assert by_registry(base, approval="required").limits == base.limits
    offered = load_registry_data({"registry": "r", "model": "openai:x"})
    found = compile_prompt(f"{PROMPT} At most 90 steps.", offered).definition
    assert found is not None
    base = crew_with(limits={"steps": 50})
    with pytest.raises(InvalidDefinition, match="limit of 'steps' is 50, and the prompt says 90"):
        kept(base, found, offered, own=False)


def test_what_a_memorys_tools_may_stands_too() -> None:
    """They are no tools of the crew's own: they come with its memory."""
    base = crew_with(
        memory={},
        permissions={"memory_write": ["editor"]},
        approvals={"memory_write": None},
        rules=[{"tool": "memory_read", "quota": "3 per run"}],
    )
    found = changed(base)
    assert found.permissions == base.permissions
    assert (found.approvals, found.rules, found.memory) == (base.approvals, base.rules, base.memory)


def test_a_tool_that_a_rule_forbids_now_is_not_forgotten() -> None:
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["send"]}}
    base = crew_with(agents=agents, rules=[{"tool": "send", "do": "never"}])
    found = changed(base)
    assert found.agents["writer"].tools == ("send",)
    assert ("send" in found.tools, found.rules) == (True, base.rules)


def test_an_agent_that_only_goes_takes_along_what_is_said_of_it() -> None:
    base = load_data(
        {
            **BARE,
            "tools": {"send": TOOLS["send"]},
            "groups": {"few": ["writer", "editor"]},
            "logs": {"x": {"readers": ["writer", "editor"]}, "y": {"readers": ["writer"]}},
            "rules": [{"tool": "send", "agents": ["writer"], "do": "ask"}],
        }
    )
    found = changed(base, "The editor edits the notes.")
    assert list(found.agents) == ["editor"]
    assert (found.rules, found.groups) == ((), {"few": ("editor",)})
    # A log whose readers are all gone is for nobody, and not for everybody.
    assert [log.readers for log in found.logs.values()] == [("editor",), ()]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"rules": [{"tool": "send", "agents": ["writer"], "do": "never"}]}, "rules[0] is about"),
        ({"approvals": {"send": ["writer"]}}, "approvals of 'send' name"),
        ({"groups": {"few": ["writer"]}}, "the group 'few' has"),
        ({"logs": {"x": {"writers": ["writer"]}}}, "the log 'x' names"),
        ({"memory": {"write": {"public": ["writer"]}}}, "who may write the memory 'public' names"),
        (
            {"agents": {"writer": {"prompt": "W.", "ask_below": 0.5}, "editor": {"prompt": "E."}}},
            "'ask_below' is set of",
        ),
    ],
)
def test_an_agent_under_another_name_does_not_lose_what_is_said_of_it(
    more: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        changed(crew_with(**more), "The author writes the notes, then the editor edits them.")
    said = f"{fault} 'writer', which the prompt does not have; 'author' is new there"
    assert said in str(caught.value)
    assert "Call it 'writer' in the prompt, too." in str(caught.value)
    assert "crewlog change RUN --remove writer" in str(caught.value)


def test_an_agent_of_whom_nothing_is_said_may_be_called_otherwise() -> None:
    found = changed(crew_with(), "The author writes the notes, then the editor edits them.")
    assert list(found.agents) == ["author", "editor"]


RULED = (
    "The writer may use send at most 5 times per run. The group few has the writer and the editor. "
    "Only ana and bob may answer. If nobody answers within 2 hours, stop. Spend at most 2 dollars. "
    "The tool send may reach only a.example.org. The writer must be at least 0.5 sure of its work. "
    "Only the few group sees the writer's notes."
)
OFFERED: dict[str, Any] = {
    "registry": "r",
    "model": "openai:x",
    "tools": {"send": {"run": "m:send", "hosts": ["*.example.org"]}},
}


def ruled(base: CrewDefinition | None, more: str) -> CrewDefinition:
    """The crew of a prompt, put over the one before where there is one."""
    offered = load_registry_data(OFFERED)
    found = compile_prompt(f"{PROMPT} {more}", offered, previous=base)
    assert found.definition is not None
    assert found.ok, found.remarks
    return found.definition if base is None else kept(base, found.definition, offered, own=False)


def test_what_a_prompt_says_of_authority_stands_and_is_not_said_twice() -> None:
    base = ruled(None, RULED)
    again = ruled(base, RULED)
    assert again == base
    # What it no longer says holds all the same, as far as a prompt cannot take it back.
    plain = ruled(base, "The writer may use send.")
    for key in ("rules", "groups", "interrupts", "limits", "logs", "tools"):
        assert getattr(plain, key) == getattr(base, key)
    assert plain.agents["writer"].ask_below == 0.5
    assert plain.agents["writer"].writes == ("channel:writer",)


def test_a_prompt_that_says_less_makes_it_stricter() -> None:
    found = ruled(
        ruled(None, RULED),
        "The writer may use send at most 3 times per run. Only ana may answer. Spend at most 1 "
        "dollar. A yes holds for an hour. The writer must be at least 0.9 sure of its work.",
    )
    assert [rule.quota for rule in found.rules] == ["5 per run", "3 per run"]
    assert (found.interrupts.people, found.interrupts.valid) == (("ana",), 3600.0)
    assert found.interrupts.expires == 7200.0
    assert (found.limits.cost, found.agents["writer"].ask_below) == (1.0, 0.9)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Only eve may answer.", "who may answer would be lost"),
        ("If nobody answers within 3 hours, stop.", "what happens where nobody answers would"),
        ("If nobody answers about a call within an hour, stop.", "nobody answers (tool_approval)"),
        ("The writer may use send. The tool send may reach only b.example.org.", "'hosts' of"),
        ("Spend at most 3 dollars.", "limit of 'cost' is 2.0, and the prompt says 3.0"),
        ("The writer must be at least 0.4 sure of its work.", "'ask_below' of the agent"),
    ],
)
def test_a_prompt_does_not_say_otherwise(text: str, lost: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        ruled(ruled(None, RULED), text)
    assert lost in str(caught.value)


def test_a_group_that_people_wrote_turns_private_work_into_a_channel() -> None:
    base = crew_with(groups={"few": ["writer"]})
    found = ruled(base, "Only the editor sees the writer's notes.")
    assert found.agents["writer"].writes == ("channel:writer",)
    assert found.logs["writer"].readers == ("editor",)
