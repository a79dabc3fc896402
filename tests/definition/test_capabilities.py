# ruff: noqa: E501  (answers are sentences)
"""Who can do what: the answers, and their reasons."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from crewlog.definition.capabilities import (
    Capability,
    Offer,
    callers,
    idle_tools,
    known_words,
    log_users,
    offer_of,
    readers,
    who,
    writers,
)
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.ids import ToolName
from crewlog.prompt.registry import offer_of_registry
from crewlog.prompt.registry_file import load_registry
from definition.crews import definitions

APP = """\
crew: app
model: openai:x
agents:
  ui:      {prompt: P., tools: [write_file], reads: [public, "group:design"]}
  backend: {prompt: P., writes_flags: [models_ready], outputs: [score], writes: ["group:design"]}
  audio:   {prompt: P., tools: [write_file, play], enabled: false}
  talker:  {prompt: P., tools: []}
tools:
  write_file: {run: "m:w", effects: write}
  play:       {run: "m:p"}
  wipe:       {run: "m:x"}
  read:       {run: "m:r", effects: read}
flow:
  - [ui, backend]
  - {ask: Ready?, sets: ready, phase: gate}
  - {agent: audio, when: backend.models_ready and ready, only_if: backend.score > 1, needs: [play]}
  - {if: not ready, go: ui, at_most: 2}
  - talker
permissions:
  write_file: [ui, backend]
  wipe: []
approvals:
  play:
"""
PRESS = """\
registry: press
agents:
  editor: {prompt: P., tools: [write_file]}
  idler:  {prompt: P.}
tools:
  write_file: {run: "m:w", grant: [author]}
  search:     {run: "m:s"}
  secret:     {run: "m:s", grant: []}
approvals: {write_file: [editor]}
"""
OFFERS = [offer_of(load_definition(APP), 3), offer_of_registry(load_registry(PRESS), 1)]


def told(found: list[Capability]) -> list[str]:
    return [
        f"{each.place}: {each.who or each.kind} {'can' if each.allowed else 'cannot'} {each.can}, "
        f"{each.reason}"
        for each in found
    ]


def test_who_can_call_a_tool() -> None:
    assert told(callers("write_file", OFFERS)) == [
        "crew app@3: ui can call, lists it, and permissions name it",
        "crew app@3: backend can call, lists no tools, so it has every one, and permissions name it",
        "crew app@3: audio cannot call, lists it, but permissions say that only ui and backend may; it is not enabled",
        "registry press@1: editor can call, lists it; each call waits for a person's yes",
        "registry press@1: prompt can call, a prompt may give it to author",
    ]
    assert told(callers("play", OFFERS)) == [
        "crew app@3: backend can call, lists no tools, so it has every one; each call waits for a person's yes",
        "crew app@3: audio can call, lists it; each call waits for a person's yes; it is not enabled",
    ]
    assert told(callers("search", OFFERS)) == [
        "registry press@1: prompt can call, a prompt may give it to any agent"
    ]
    assert callers("nothing", OFFERS) == []


def test_tools_that_nobody_may_call() -> None:
    assert [(each.place, each.what, each.reason) for each in idle_tools(OFFERS)] == [
        ("crew app@3", "wipe", "permissions say that nobody may"),
        ("registry press@1", "secret", "no agent has it"),
    ]


def test_who_writes_and_who_reads_a_key() -> None:
    assert told(writers("models_ready", OFFERS)) == [
        "crew app@3: backend can write, declares the flag"
    ]
    assert writers("backend.models_ready", OFFERS) == writers("models_ready", OFFERS)
    assert writers("ui.models_ready", OFFERS) == []
    assert told(writers("score", OFFERS)) == ["crew app@3: backend can write, declares the output"]
    assert told(writers("ready", OFFERS)) == ["crew app@3: gate can write, people's answer sets it"]
    assert told(readers("backend.models_ready", OFFERS)) == [
        "crew app@3: audio can need, waits for backend.models_ready and ready"
    ]
    assert told(readers("score", OFFERS)) == [
        "crew app@3: audio can read, is skipped unless backend.score > 1"
    ]
    assert [each.who for each in readers("ready", OFFERS)] == ["audio", "after_audio"]


def test_who_uses_a_log() -> None:
    assert told(log_users("group:design", OFFERS)) == [
        "crew app@3: ui can read, lists it under reads",
        "crew app@3: backend can write, its final messages go there",
    ]
    assert [each.can for each in log_users("private:ui", OFFERS)] == ["read", "write"]


def test_all_about_a_word() -> None:
    words = known_words(OFFERS)
    assert (words["play"], words["ready"], words["group:design"]) == ("tool", "key", "log")
    assert [(each.who, each.can) for each in who("play", OFFERS)] == [
        ("backend", "call"),
        ("audio", "call"),
        ("audio", "need"),
    ]
    assert all(who(word, OFFERS) or word in {"wipe", "secret"} for word in words)


def test_lists_and_builders_count() -> None:
    agents = {"plan": {"prompt": "p", "outputs": ["parts"]}, "work": {"prompt": "p"}}
    flow = ["plan", {"agent": "work", "for_each": "plan.parts"}]
    data = {"crew": "c", "model": "openai:x", "agents": agents, "flow": flow}
    [found] = readers("parts", [offer_of(load_data(data))])
    assert (found.who, found.reason) == ("work", "has a step for each of plan.parts")
    assert found.place == "crew c"


@given(definitions())
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_the_answers_are_those_that_a_run_gives(definition: CrewDefinition) -> None:
    try:
        plan = lower(definition)
    except InvalidDefinition:
        return
    offer: Offer = offer_of(definition)
    for tool in definition.tools:
        allowed = {each.who for each in callers(tool, [offer]) if each.allowed}
        named = plan.permissions.get(ToolName(tool))
        assert allowed == {
            name
            for name, rules in plan.agents.items()
            if tool in rules.tools and (named is None or name in named)
        }
