"""What a prompt that changes a crew leaves as it was: field by field, and none is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from tests.prompt.test_lower import part, reading, right, setting, step, used

from crewlog.definition.load import load_data
from crewlog.definition.model import AgentDefinition, CrewDefinition, ToolDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt import reading as r
from crewlog.prompt.compile import assess, clauses_of, compile_prompt
from crewlog.prompt.keeping import AGENT, CREW, TOOL, How, kept
from crewlog.prompt.registry import registry_of_crew
from crewlog.prompt.registry_file import load_registry_data
from crewlog.prompt.renaming import keep_names

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
SAID_HERE = {"model", "flow"}
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


@pytest.mark.parametrize("key", sorted(set(CREW) - SAID_HERE - {"agents", "tools", "mcp"}))
def test_a_field_of_the_crew_stands(key: str) -> None:
    more: dict[str, Any] = {"permissions": {"send": []}} if key == "rules" else {}
    agents = {"writer": {"prompt": "Write.", "tools": ["send"], "writes_flags": ["ready"]}}
    base = crew_with(
        **{"agents": {**BARE["agents"], **agents}, **more, key: OF_CREW[key]},
    )
    assert getattr(base, key) == getattr(CrewDefinition.from_json({**BARE, key: OF_CREW[key]}), key)
    assert getattr(changed(base), key) == getattr(base, key)


@pytest.mark.parametrize("key", sorted(set(CREW) - SAID_HERE - {"agents", "tools", "mcp"}))
def test_a_field_of_the_crew_stands_that_a_registry_says_nothing_of(key: str) -> None:
    agents = {"writer": {"prompt": "Write.", "tools": ["send"], "writes_flags": ["ready"]}}
    base = crew_with(agents={**BARE["agents"], **agents}, **{key: OF_CREW[key]})
    offered = {"prompt": "Write.", "tools": ["send"]}
    more = {"approval": "required"} if key == "approval" else {}
    found = by_registry(base, agents={"writer": offered}, tools={"send": TOOLS["send"]}, **more)
    assert getattr(found, key) == getattr(base, key)


def test_a_prompt_that_says_it_anew_is_heard() -> None:
    talk = OF_CREW["conversation"]
    base = crew_with(window=OF_CREW["window"], conversation=talk, artifacts=OF_CREW["artifacts"])
    said = (
        f"{PROMPT} Each agent sees the last 3 messages. A conversation ends after 5 minutes of "
        "silence. The writer changes the artifact table."
    )
    found = changed(base, said)
    assert found.window is not None
    assert found.window.last == 3
    assert found.conversation is not None
    assert found.conversation.idle == 300
    # What no prompt can say of a conversation stays.
    assert (found.conversation.respond, found.conversation.apology) == (("writer",), "Sorry.")
    assert found.artifacts["doc"] == base.artifacts["doc"]
    assert found.artifacts["table"].writers == ("writer",)
    with pytest.raises(InvalidDefinition, match="artifact doc: writers"):
        changed(base, f"{PROMPT} The writer changes the artifact doc.")


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


@pytest.mark.parametrize("env", [{}, {"A": "2"}, {"A": "1", "B": "2"}])
def test_what_a_registry_would_take_from_a_server(env: dict[str, str]) -> None:
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["fetch"]}}
    web = {"command": "fetcher", "env": {"A": "1"}}
    base = crew_with(agents=agents, tools={"fetch": TOOLS["fetch"]}, mcp={"web": web})
    more: dict[str, Any] = {
        "agents": {"writer": {"prompt": "Write.", "tools": ["fetch"]}},
        "tools": {"fetch": TOOLS["fetch"]},
    }
    assert by_registry(base, mcp={"web": web}, **more).mcp == base.mcp
    with pytest.raises(InvalidDefinition, match="would change MCP server web: env"):
        by_registry(base, mcp={"web": {**web, "env": env}}, **more)


@pytest.mark.parametrize("key", sorted(set(TOOL) - {"hosts"}))
def test_what_a_registry_would_take_from_a_tool(key: str) -> None:
    send = {"run": "m:send", key: OF_TOOL[key]}
    agents = {**BARE["agents"], "writer": {"prompt": "Write.", "tools": ["send"]}}
    base = crew_with(agents=agents, tools={"send": send})
    offered = {"prompt": "Write.", "tools": ["send"]}
    with pytest.raises(InvalidDefinition) as caught:
        by_registry(base, agents={"writer": offered}, tools={"send": {"run": "m:send"}})
    assert f"would change tool send: {key}" in str(caught.value)
    assert "crewlog change RUN --edit" in str(caught.value)


OF_REGISTRY: dict[str, Any] = {
    "reads": ["channel:x"],
    "writes": ["channel:x"],
    "shares": ["channel:x"],
    "ask_below": 0.2,
    "max_calls": 9,
    "parent": "x",
    "in_order": False,
    "description": "Other.",
    "model_settings": {"temperature": 1},
    "timeout": 99,
    "heartbeat": 9,
    "retry": {"attempts": 2},
    "scratch": {"most": 9},
    "listen": ["x"],
    "send": ["x"],
    "wires": ["channel:x"],
    "beside": "x",
    "privileged": False,
}
"""Values of an agent in a registry that are other, and looser, than `OF_AGENT`."""
FIRM: set[How] = {"base", "strict"}


@pytest.mark.parametrize("key", sorted(key for key, how in AGENT.items() if how in FIRM))
def test_what_a_registry_would_take_from_an_agent(key: str) -> None:
    base = crew_with(
        agents={"writer": {"prompt": "W.", key: OF_AGENT[key]}, "editor": {"prompt": "E."}}
    )
    agents = {"writer": {"prompt": "W.", "outputs": ["confidence"], key: OF_REGISTRY[key]}}
    agents["x"] = {"prompt": "x"}
    with pytest.raises(InvalidDefinition, match=f"would change agent writer: {key}"):
        by_registry(base, agents=agents)


def test_what_else_a_registry_would_take() -> None:
    base = crew_with(approval="required", limits={"steps": 50, "tokens": 9})
    with pytest.raises(InvalidDefinition, match="would change approval required → understood"):
        by_registry(base)
    assert by_registry(base, approval="required").limits == base.limits
    offered = load_registry_data({"registry": "r", "model": "openai:x"})
    found = compile_prompt(f"{PROMPT} At most 90 steps.", offered).definition
    assert found is not None
    base = crew_with(limits={"steps": 50})
    with pytest.raises(InvalidDefinition, match="would change limit steps 50 → 90"):
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
        (
            {"rules": [{"tool": "send", "agents": ["writer"], "do": "never"}]},
            "rule removed: send never by writer",
        ),
        ({"approvals": {"send": ["writer"]}}, "approval of calls of send: writer → nobody's"),
        ({"groups": {"few": ["writer"]}}, "group few: \u2013 writer"),
        ({"logs": {"x": {"writers": ["writer"]}}}, "log x: writers \u2013 writer"),
        ({"memory": {"write": {"public": ["writer"]}}}, "memory.write.public \u2013 writer"),
        (
            {"agents": {"writer": {"prompt": "W.", "ask_below": 0.5}, "editor": {"prompt": "E."}}},
            "agent writer: ask_below",
        ),
        (
            {
                "agents": {
                    "writer": {"prompt": "W.", "retry": {"attempts": 1}},
                    "editor": {"prompt": "E."},
                }
            },
            "agent writer: retry",
        ),
        (
            {
                "agents": {
                    "writer": {"prompt": "W.", "reads": ["channel:x"]},
                    "editor": {"prompt": "E."},
                }
            },
            "agent writer: reads",
        ),
        ({"permissions": {"send": ["writer"]}}, "permission to call send: writer → nobody"),
    ],
)
def test_an_agent_under_another_name_does_not_lose_what_is_said_of_it(
    more: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        changed(crew_with(**more), "The author writes the notes, then the editor edits them.")
    said = f"{fault} would be lost: the prompt has author as new, and no writer"
    assert said in str(caught.value)
    assert "Keep the name" in str(caught.value)
    assert "crewlog change RUN --remove writer" in str(caught.value)


def test_an_agent_of_whom_nothing_is_said_may_be_called_otherwise() -> None:
    found = changed(crew_with(), "The author writes the notes, then the editor edits them.")
    assert sorted(found.agents) == ["author", "editor"]


FLOW = "The writer writes the notes, then the editor edits them, then the printer prints them."
SAID: dict[str, tuple[r.Part, ...]] = {
    "The writer may use send at most 5 times per run.": (
        right("may", "writer", "send", quota="5 per run"),
    ),
    "The writer may use send at most 3 times per run.": (
        right("may", "writer", "send", quota="3 per run"),
    ),
    "The writer may use send.": (right("may", "writer", "send"),),
    "The group few has the writer and the editor.": (setting("group", "few", "writer", "editor"),),
    "Only ana and bob may answer.": (setting("may_answer", "ana, bob"),),
    "Only ana may answer.": (setting("may_answer", "ana"),),
    "Only eve may answer.": (setting("may_answer", "eve"),),
    "If nobody answers within 2 hours, stop.": (
        setting("answer_within", "2h"),
        setting("unanswered", "stop"),
    ),
    "If nobody answers within 3 hours, stop.": (
        setting("answer_within", "3h"),
        setting("unanswered", "stop"),
    ),
    "If nobody answers within 2 hours, reject it.": (
        setting("answer_within", "2h"),
        setting("unanswered", "reject"),
    ),
    "If nobody answers within 2 hours, eve answers.": (
        setting("answer_within", "2h"),
        setting("unanswered", "escalate: eve"),
    ),
    "A yes holds for an hour.": (setting("yes_valid", "1h"),),
    "Spend at most 2 dollars.": (setting("max_cost", "2"),),
    "Spend at most 1 dollar.": (setting("max_cost", "1"),),
    "Spend at most 3 dollars.": (setting("max_cost", "3"),),
    "The tool send may reach only a.example.org.": (setting("hosts", "send: a.example.org"),),
    "The tool send may reach only b.example.org.": (setting("hosts", "send: b.example.org"),),
    "The writer must be at least 0.5 sure of its work.": (setting("confidence", "0.5", "writer"),),
    "The writer must be at least 0.9 sure of its work.": (setting("confidence", "0.9", "writer"),),
    "The writer must be at least 0.4 sure of its work.": (setting("confidence", "0.4", "writer"),),
    "Only the editor sees the writer's notes.": (
        part(r.Readers, of="writer", readers=("editor",)),
    ),
    "Only the printer sees the writer's notes.": (
        part(r.Readers, of="writer", readers=("printer",)),
    ),
    "Only the writer may use send.": (right("only", "writer", "send"),),
    "Only the editor may use send.": (right("only", "editor", "send"),),
    "The editor may use send.": (right("may", "editor", "send"),),
    "Ask me before the writer uses send.": (right("ask", "writer", "send"),),
}
"""What a model reads in sentences, besides who does what."""
RULED = (
    "The writer may use send at most 5 times per run. The group few has the writer and the editor. "
    "Only ana and bob may answer. If nobody answers within 2 hours, stop. Spend at most 2 dollars. "
    "The tool send may reach only a.example.org. The writer must be at least 0.5 sure of its work. "
    "Only the editor sees the writer's notes."
)
OFFERED: dict[str, Any] = {
    "registry": "r",
    "model": "openai:x",
    "tools": {"send": {"run": "m:send", "hosts": ["*.example.org"]}},
}


def ruled(base: CrewDefinition | None, more: str) -> CrewDefinition:
    """The crew of a prompt that a model reads, put over the one before where there is one."""
    offered = load_registry_data(OFFERED)
    clauses = clauses_of(f"{FLOW} {more}")
    work = ("writer", "editor", "printer")
    parts: list[r.Part] = [
        step(name, *work[max(0, i - 1) : i], task=clauses[i + 1].text, clauses=(i + 1,))
        for i, name in enumerate(work)
    ]
    for clause in [*clauses][len(work) :]:
        parts += [p.model_copy(update={"clauses": (clause.number,)}) for p in SAID[clause.text]]
    read = reading(*parts, ledger=used(*(clause.number for clause in clauses)))
    found = assess(clauses, read, offered, reader="model", previous=base)
    assert found.definition is not None
    assert found.ok, found.faults
    return found.definition if base is None else kept(base, found.definition, offered, own=False)


def test_what_a_prompt_says_of_authority_stands_and_is_not_said_twice() -> None:
    base = ruled(None, RULED)
    assert base.agents["writer"].writes == ("channel:writer",)
    assert ruled(base, RULED) == base
    # What it no longer says holds all the same, as far as a prompt cannot take it back.
    plain = ruled(base, "The writer may use send.")
    for key in ("rules", "groups", "interrupts", "limits", "logs", "tools"):
        assert getattr(plain, key) == getattr(base, key)
        assert getattr(plain, key) != getattr(ruled(None, "The writer may use send."), key)
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
        ("Only eve may answer.", "interrupts.people + eve, \u2013 ana, \u2013 bob"),
        ("If nobody answers within 3 hours, stop.", "interrupts.expires 2h → 3h"),
        ("If nobody answers within 2 hours, reject it.", "interrupts.default stop → reject"),
        ("If nobody answers within 2 hours, eve answers.", "interrupts.escalate_to"),
        ("The writer may use send. The tool send may reach only b.example.org.", "send: hosts"),
        ("Spend at most 3 dollars.", "limit cost 2 → 3"),
        ("The writer must be at least 0.4 sure of its work.", "agent writer: ask_below 0.5 → 0.4"),
    ],
)
def test_a_prompt_does_not_say_otherwise(text: str, lost: str) -> None:
    base = ruled(None, RULED)
    with pytest.raises(InvalidDefinition) as caught:
        ruled(base, text)
    assert lost in str(caught.value)


@pytest.mark.parametrize("text", ["Only the editor may use send.", "The editor may use send."])
def test_a_prompt_gives_no_tool_that_the_permissions_refuse(text: str) -> None:
    base = ruled(None, "Only the writer may use send.")
    assert ruled(base, "The writer may use send.").permissions == {"send": ("writer",)}
    with pytest.raises(InvalidDefinition, match="do not let editor call send"):
        ruled(base, text)


def test_an_approval_stays_where_the_prompt_says_nothing_of_it() -> None:
    base = ruled(None, "Ask me before the writer uses send.")
    assert ruled(base, "The writer may use send.").approvals == base.approvals != {}


PRIVATE = "Only the editor sees the writer's notes."


def test_a_prompt_shows_work_to_no_other_agent() -> None:
    with pytest.raises(InvalidDefinition, match="'printer' would see the work of 'writer'"):
        ruled(ruled(None, PRIVATE), "Only the printer sees the writer's notes.")


def test_a_prompt_shows_work_to_fewer_agents() -> None:
    data = ruled(None, PRIVATE).to_json()
    data["agents"]["printer"]["reads"] = ["public", "group:writer"]
    base = CrewDefinition.from_json(data)
    silent = ruled(base, "The writer may use send.")
    assert {n: a.reads for n, a in silent.agents.items()} == {
        n: a.reads for n, a in base.agents.items()
    }
    found = ruled(base, PRIVATE)
    assert found.agents["printer"].reads == ("public",)
    assert found.agents["editor"].reads == ("public", "group:writer")


def test_a_group_takes_no_member_that_would_see_more() -> None:
    said = "The group few has the writer and the editor."
    data = ruled(None, said).to_json()
    data["groups"]["few"] = ["writer"]
    assert ruled(CrewDefinition.from_json(data), said).groups == {"few": ("writer", "editor")}
    data["agents"]["writer"]["writes"] = ["group:few"]
    with pytest.raises(InvalidDefinition, match="'editor' would see the work of 'writer'"):
        ruled(CrewDefinition.from_json(data), said)


def test_logs_that_people_list_are_not_lost() -> None:
    data = ruled(None, PRIVATE).to_json()
    data["agents"]["printer"]["reads"] = ["public", "channel:facts"]
    data["agents"]["editor"]["reads"] += ["channel:facts"]
    base = CrewDefinition.from_json(data)
    assert ruled(base, "The writer may use send.").agents["editor"] == base.agents["editor"]
    with pytest.raises(InvalidDefinition, match="agent editor: reads \u2013 channel:facts"):
        ruled(base, PRIVATE)


def test_a_group_that_people_wrote_turns_private_work_into_a_channel() -> None:
    said = "Only the editor sees the writer's notes."
    assert ruled(None, said).agents["writer"].writes == ("group:writer",)
    base = crew_with(groups={"few": ["writer"]})
    found = ruled(base, said)
    assert found.agents["writer"].writes == ("channel:writer",)
    assert found.logs["writer"].readers == ("editor",)
