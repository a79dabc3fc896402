"""Windows, inputs, hand-offs and stages on real servers: what models are shown."""

from __future__ import annotations

import json
from typing import Any

from covers import covers
from crewlog.canonical_json import hash_json
from crewlog.client import Run

from .harness import Site, calls

CONTEXT = {
    "found": ["trigger", "mail"],
    "context": [
        {"context": "connect trigger to mail", "relevancy": "builder"},
        {"context": "mail needs a subject", "relevancy": "configurator"},
        {"context": "nobody asked", "relevancy": "gardener"},
    ],
}
SCHEMA = {
    "type": "object",
    "required": ["found", "context"],
    "properties": {"found": {"type": "array"}, "context": {"type": "array"}},
}
STAGES = ("discovery", "builder", "configurator")


def prompts(site: Site, run: Run, agent: str) -> list[Any]:
    return [each["messages"] for each in site.prompted(run) if each["agent"] == agent]


def text_of(messages: Any) -> str:
    return "\n".join(each["content"] for each in messages)


def stage_crew(site: Site, *more: str, hops: str = "first", route: Any = None) -> dict[str, Any]:
    """A supervisor, stages and a responder; more stages come last."""
    first = {"next": "discovery", "instructions": "find a trigger and a mail node"}
    replies: list[Any] = [{"text": json.dumps(each)} for each in (route or [first])]
    stages = (*STAGES, *more)
    agents: dict[str, Any] = {
        "supervisor": replies,
        "discovery": [{"text": json.dumps(CONTEXT)}],
        **{name: [{"text": f"{name} is done"}] * 3 for name in stages if name != "discovery"},
        "responder": [{"text": "It is built."}],
    }
    context = {"from": "discovery.context", "as": "Context"}
    rules: dict[str, Any] = {
        "discovery": {"reply": {"schema": SCHEMA, "tagged": {"context": "relevancy"}}},
        "builder": {"inputs": ["discovery.found", context]},
        "configurator": {"inputs": [context]},
    }
    options = {"supervisor": "supervisor", "stages": stages, "responder": "responder"}
    flow = [{"use": "stages", "with": {**options, "hops": hops}}]
    return site.crew(agents, rules=rules, flow=flow)


@covers("C76", "C78", "C79", "C80", "C81", "C82", "C83")
async def test_stages_hand_on_what_each_of_them_needs_and_no_more(crews: Site) -> None:
    run, result = await crews.finish(stage_crew(crews), "a mail at nine")
    assert result.outputs["responder"]["text"] == "It is built."
    (discovery,) = prompts(crews, run, "discovery")
    (builder,) = prompts(crews, run, "builder")
    (configurator,) = prompts(crews, run, "configurator")
    assert "a mail at nine" in text_of(discovery)
    assert "find a trigger and a mail node" in text_of(discovery)
    assert "- connect trigger to mail" in text_of(builder)
    assert "- trigger\n- mail" in text_of(builder)
    assert "subject" not in text_of(builder)
    assert "mail needs a subject" in text_of(configurator)
    assert "connect trigger" not in text_of(configurator)
    for each in (discovery, builder, configurator):
        assert [message["type"] for message in each] == ["system", "human"]
        assert "is done" not in text_of(each)
    for agent in ("builder", "configurator", "supervisor", "responder"):
        assert not any("nobody asked" in text_of(each) for each in prompts(crews, run, agent))
    (answer,) = prompts(crews, run, "responder")
    assert "builder is done" in text_of(answer)
    assert "configurator is done" in text_of(answer)
    # What they share is the answer, what was found and what the supervisor says: no word of others.
    state = await run.state()
    assert {*state.agent_outputs} == {"supervisor", *STAGES, "responder"}
    keys = {a: {*found} - {"text", "response"} for a, found in state.agent_outputs.items()}
    assert keys["supervisor"] == {"next", "instructions", "rationale"}
    assert keys["discovery"] == {"found", "context"}
    assert keys["builder"] == keys["configurator"] == keys["responder"] == set()
    assert (state.flags, state.shared_context) == ({}, {})
    said = await crews.entries(run, "ModelCallCompleted")
    assert [each.agent for each in said if "public" in each.ref.logs] == ["responder"]
    assert {each.agent for each in said} == {*keys}
    (missed,) = await crews.entries(run, "AddressedItemUndelivered")
    assert (missed.key, missed.item, missed.recipients) == ("context", 3, "'gardener'")


@covers("C86")
async def test_a_stage_returns_what_it_declares_and_is_asked_for_what_it_lacks(crews: Site) -> None:
    crew = stage_crew(crews)
    less = {"text": json.dumps({"found": ["trigger"]})}
    mine = calls(("set_output", {"key": "nodes", "value": ["trigger"]}))
    more = calls(("set_output", {"key": "gossip", "value": "psst"}))
    crew["agents"]["builder"]["outputs"] = ["nodes"]
    crew["model"] = crews.script(
        {
            "supervisor": [{"text": json.dumps({"next": "discovery", "instructions": "go"})}],
            "discovery": [less, {"text": json.dumps(CONTEXT)}],
            "builder": [mine, more, {"text": "built"}],
            "configurator": [{"text": "set"}],
            "responder": [{"text": "It is built."}],
        }
    )
    run, result = await crews.finish(crew, "a mail at nine")
    outputs: Any = result.outputs
    assert outputs["responder"]["text"] == "It is built."
    (refused,) = await crews.entries(run, "StructuredOutputRejected")
    assert (refused.agent, "'context'" in str(refused.errors)) == ("discovery", True)
    assert outputs["discovery"]["found"] == CONTEXT["found"]
    assert outputs["builder"]["nodes"] == ["trigger"]
    assert "gossip" not in outputs["builder"]
    assert "Input should be 'nodes'" in text_of(prompts(crews, run, "builder")[-1])
    assert "psst" not in text_of(prompts(crews, run, "responder")[0])


@covers("C77", "C86")
async def test_with_every_hop_the_stages_come_back_and_the_responder_ends(crews: Site) -> None:
    route = [{"next": name, "instructions": f"go, {name}"} for name in (*STAGES, "responder")]
    run, _ = await crews.finish(stage_crew(crews, hops="every_hop", route=route), "a mail")
    steps = [each.step for each in await crews.entries(run, "StepStarted")]
    agents = [step.split("#")[0] for step in steps if ".route" not in step and ".back" not in step]
    assert agents == [
        "stages", "discovery", "stages", "builder", "stages", "configurator", "stages", "responder",
    ]  # fmt: skip
    assert "go, builder" in text_of(prompts(crews, run, "builder")[0])
    assert "builder is done" in text_of(prompts(crews, run, "supervisor")[2])


@covers("C76", "C77")
async def test_a_stage_at_its_cap_ends_with_the_responders_report(crews: Site) -> None:
    route = [{"next": name, "instructions": f"go, {name}"} for name in ("discovery", "builder")]
    crew = stage_crew(crews, hops="every_hop", route=route)
    busy = calls(("set_output", {"key": "nodes", "value": ["trigger"]}))
    crew["agents"]["builder"] |= {"max_calls": 1, "outputs": ["nodes"]}
    crew["model"] = crews.script(
        {
            "supervisor": [{"text": json.dumps(each)} for each in route],
            "discovery": [{"text": json.dumps(CONTEXT)}],
            "builder": [busy],
            "responder": [{"text": "It is half built."}],
        }
    )
    run, result = await crews.finish(crew, "a mail")
    assert result.outputs["responder"]["text"] == "It is half built."
    assert (result.status, result.end_reason) == ("completed", "call_limit_reached")
    (capped,) = await crews.entries(run, "TurnLimitReached")
    assert capped.agent == "builder"


@covers("C92", "C73")
async def test_another_stage_leaves_the_prompts_of_the_others_as_they_are(crews: Site) -> None:
    before, _ = await crews.finish(stage_crew(crews), "a mail at nine")
    after, result = await crews.finish(stage_crew(crews, "validator"), "a mail at nine")
    assert result.outputs["validator"]["text"] == "validator is done"
    for stage in STAGES:
        one, other = (hash_json(prompts(crews, run, stage)) for run in (before, after))
        assert one == other, stage


@covers("C64", "C94")
async def test_a_window_keeps_prompts_flat_and_its_summaries_are_made_once(crews: Site) -> None:
    rounds = 40
    said = "word " * 30
    agents = {
        "a": [{"text": f"a{n} {said}"} for n in range(rounds)],
        "b": [{"text": f"b{n} {said}"} for n in range(rounds)],
        "summary": [{"when": ".", "text": "they count"}],
    }
    flow = ["a", "b", {"if": "not over", "go": "a", "at_most": rounds - 1}]
    crew = crews.crew(agents, flow=flow, rules={"b": {"writes_flags": ["over"]}})
    del crew["agents"]["summary"]
    crew["window"] = {"last": 5, "summary": crew["model"]}
    run, result = await crews.finish(crew, "count")
    sizes = [len(text_of(each)) for each in prompts(crews, run, "b")]
    assert max(sizes[8:]) <= 1.1 * max(sizes[8:16]), sizes
    made = prompts(crews, run, "summary")
    public = [each for each in made if "count" in text_of(each) or "[a] a" in text_of(each)]
    assert len({text_of(each) for each in made}) == len(made), "none is made twice"
    assert len(public) <= 2 * rounds // 8 + 1
    calls = sum(usage.calls for usage in result.usage.values())
    assert calls == 2 * rounds + len(made)
    last = prompts(crews, run, "b")[-1]
    assert "they count" in last[1]["content"]
    assert last[-1]["content"].startswith(f"[a] a{rounds - 1}")
    told = [each.window for each in await crews.entries(run, "ModelCallCompleted") if each.window]
    assert sum(each.summaries for each in told) == len(made)
    assert not any(each.error for each in told)
