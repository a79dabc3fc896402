"""Hand-offs: each item of a tagged list reaches whom it names, by the rules of all audiences."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import check, warnings
from crewlog.graph.engine import Engine
from crewlog.graph.inputs import agent_inputs
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, RunId, StepId
from crewlog.state.calls import CallModelResult, FinalMessage, StructuredOutput, addressed_items
from crewlog.state.fold import fold_journal
from crewlog.state.journal import Batch, entry_from_json
from crewlog.store.projection import project

SCHEMA = {"type": "object", "properties": {"context": {"type": "array"}, "found": {}}}
AGENTS: dict[str, Any] = {
    "finder": {
        "prompt": "Find.",
        "writes": [],
        "shares": ["public"],
        "reply": {"schema": SCHEMA, "tagged": {"context": "for"}},
    },
    **{
        name: {"prompt": "Work.", "reads": reads, "inputs": ["finder.context", "finder.found"]}
        for name, reads in {"ann": [], "bob": [], "cid": ["public", "group:g"]}.items()
    },
}
CREW = {"crew": "t", "model": "scripted:x", "agents": AGENTS, "groups": {"g": ["cid", "finder"]}}


async def handed_on(items: Any, **changes: Any) -> Engine:
    """A run whose finder has just replied."""
    engine = await Engine.begin(
        lower(load_data({**CREW, **changes})), RunId("r"), input_text="go", by="eve", at=1
    )
    await engine.advance(set())
    body = {"type": "ai", "content": "all of it", "name": "finder", "id": "finder#1/1"}
    outputs = (*addressed_items("context", items, "for"), *addressed_items("found", "x", "-"))
    outputs = tuple(
        each.model_copy(update={"recipients": None}) if each.key == "found" else each
        for each in outputs
    )
    result = CallModelResult.model_validate(
        {"body": body, "outcome": FinalMessage(output=StructuredOutput(outputs=outputs))}
    )
    await engine.turns.apply_model_call(StepId("finder#1"), 1, result)
    return engine


def seen(engine: Engine, agent: str) -> list[Any]:
    """What an agent is given of the list."""
    given = agent_inputs(engine, AgentName(agent), StepId(f"{agent}#1"))
    (found,) = [each for each in given if each.source == "finder.context"]
    return [part.value for part in found.elements]


ITEMS: list[dict[str, Any]] = [
    {"n": 1, "for": "ann"},
    {"n": 2, "for": ["bob", "ann"]},
    {"n": 3, "for": "BOB"},
    {"n": 4, "for": "all"},
    {"n": 5, "for": "group:g"},
    {"n": 6, "for": "nobody"},
    {"n": 7},
    {"n": 8, "for": ["ann", "who"]},
]


async def test_each_item_reaches_whom_it_names_and_nobody_else() -> None:
    engine = await handed_on(ITEMS)
    numbers = {who: [item["n"] for item in seen(engine, who)] for who in ("ann", "bob", "cid")}
    assert numbers == {"ann": [1, 2, 4], "bob": [2, 3, 4], "cid": [4, 5]}
    facts = [e for _, e in engine.journal.page(0, 100) if e["kind"] == "AddressedItemUndelivered"]
    assert [(each["item"], each["recipients"]) for each in facts] == [
        (6, "'nobody'"),
        (7, "nobody"),
        (8, "'ann' and 'who'"),
    ]
    own = agent_inputs(engine, AgentName("finder"), StepId("finder#1"))
    assert own == ()


async def test_the_whole_text_is_for_nobody_else_and_plain_fields_are_as_ever() -> None:
    engine = await handed_on(ITEMS)
    outputs = engine.state.agent_outputs[AgentName("finder")]
    assert outputs["response"].logs == outputs["text"].logs == ("private:finder",)
    assert outputs["found"].logs == (), "public"


async def test_another_reply_hands_on_anew_and_large_items_are_bodies() -> None:
    large = {"n": "long " * 100, "for": "ann"}
    engine = await handed_on([large, {"n": 2, "for": "bob"}])
    (part,) = agent_inputs(engine, AgentName("ann"), StepId("ann#1"))[0].elements
    (value,) = addressed_items("context", [large], "for")
    assert part.body == value.body
    facts = [e for _, e in engine.journal.page(0, 100)]
    journal = [entry_from_json(each) for each in facts]
    assert part.body not in project(RunId("r"), Batch(entries=tuple(facts))).bodies, "it is stored"
    assert fold_journal(RunId("r"), journal) == engine.state


def test_what_is_wrong_with_a_hand_off() -> None:
    def crew(**finder: Any) -> Any:
        return load_data({**CREW, "agents": {**AGENTS, "finder": {**AGENTS["finder"], **finder}}})

    assert not check(crew())
    assert not [w for w in warnings(crew()) if "all items" in w.message]
    (warned,) = [w for w in warnings(crew(writes=["public"])) if "all items" in w.message]
    assert "writes: []" in warned.remedy
    with pytest.raises(Exception, match="no field 'contxt' to hand on"):
        crew(reply={"schema": SCHEMA, "tagged": {"contxt": "for"}})


async def test_items_are_worked_on_by_those_whom_they_name_also_where_these_read_nothing() -> None:
    work = {"phase": "work", "for_each": "finder.context", "by": "for", "among": ["ann", "bob"]}
    flow = ["finder", work, {"agent": "cid", "phase": "look", "for_each": "finder.context"}]
    items = [{"for": "ann", "t": "1"}, {"for": "bob", "t": "2"}, {"for": "ann", "t": "3"}]
    engine = await handed_on(items, flow=flow)
    await engine.advance(set())
    orders = [*engine.pending_calls(set())]
    shown = [(order.agent, engine.child_steps.item(order.step)) for order in orders]
    assert [agent for agent, _ in shown] == ["ann", "bob", "ann"]
    assert [item and (item.is_withheld, item.value) for _, item in shown] == [
        (False, item) for item in items
    ]
    look = engine.visible_item(AgentName("cid"), shown[0][1], StepId("look#1.1"))  # type: ignore[arg-type]
    assert (look.is_withheld, look.value) == (True, None), "the flow gives it what is for others"


def test_a_list_may_be_shared_with_who_works_on_it_by_name() -> None:
    makes = {"prompt": "Make.", "outputs": ["list"], "writes": [], "shares": ["readers:ann"]}
    agents = {"finder": makes, "ann": AGENTS["ann"] | {"inputs": []}, "bob": {"prompt": "Work."}}
    for agent, told in (("ann", 0), ("bob", 1)):
        flow = ["finder", {"agent": agent, "for_each": "finder.list"}]
        found = check(CrewDefinition.from_json({**CREW, "agents": agents, "flow": flow}))
        said = [each for each in found if "its list" in each.message]
        assert len(said) == told, found
        assert all("shares its outputs with readers:ann" in each.message for each in said)
