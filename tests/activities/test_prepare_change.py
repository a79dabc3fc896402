"""The preparation of a change, before the run accepts it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from activity_kit import RUN, assert_referenced, crew
from structlog.testing import capture_logs
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from crewlog.activities.crew_activities import CrewActivities
from crewlog.canonical_json import hash_json
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, CrewName
from crewlog.state.calls import PREPARE_CHANGE, PrepareChange, PrepareChangeResult
from crewlog.state.components import split_run_id
from crewlog.store.in_process import InMemoryStore
from crewlog.testing.scripted import recorded_prompts, scripted
from readings import reading, reply

PROMPT = "The backend builds the service, then the writer writes about it, then the tester tests."
BUILDS = ("backend", "builds the service", [1])
WRITES = ("writer", "writes about it", [2])
TESTS = ("tester", "", [3])


@pytest.fixture
def prepare(env: ActivityEnvironment, activities: CrewActivities, store: InMemoryStore) -> Any:
    """Prepares a change of a crew."""

    async def change(base: CrewDefinition, **fields: Any) -> PrepareChangeResult:
        hash_ = await store.put_definition(RUN, base.to_json())
        task = PrepareChange(run=RUN, base=hash_, **fields)
        return await env.run(activities.prepare_change, task)

    return change


async def test_a_rejected_change_is_logged(prepare):
    gone = ({"op": "remove_agent", "name": "nobody"},)
    with capture_logs() as told, pytest.raises(ApplicationError) as refused:
        await prepare(crew(), operations=gone)
    assert refused.value.category is ApplicationErrorCategory.BENIGN, "the SDK logs a traceback"
    (line,) = told
    assert (line["event"], line["log_level"]) == ("a change was rejected", "info")
    assert line["why"] == "operations[0].name  the crew has no agent 'nobody'"
    with capture_logs() as told, pytest.raises(ApplicationError) as failed:
        await prepare(crew(), recipe=True, against=ContentHash("lost"))
    assert failed.value.category is not ApplicationErrorCategory.BENIGN, "people look into that"
    assert told == []


def names(made: PrepareChangeResult) -> list[str]:
    return [p.name for p in phases(CrewDefinition.from_json(made.definition))]


def test_the_activity_is_registered(activities: CrewActivities) -> None:
    assert activities.prepare_change in activities.all()
    defined: Any = activities.prepare_change
    assert defined.__temporal_activity_definition.name == PREPARE_CHANGE


async def test_operations_change_the_live_definition(prepare, store):
    base = crew()
    made = await prepare(base, operations=({"op": "remove_agent", "name": "backend"},))
    assert (made.what, made.base) == ("removes backend", definition_hash(base))
    definition = CrewDefinition.from_json(made.definition)
    assert list(definition.agents) == ["writer"]
    assert made.plan == lower(definition).to_json()
    assert await store.get_definition(definition_hash(definition)) == made.definition


async def test_each_split_run_has_a_valid_crew(prepare, store):
    """As the run's own definition: checked, stored, and lowered as every worker reads it."""
    base = crew(flow=[], graph={"root": "backend"}, channels={"x": {}})
    edges = {"listen": ["x"], "send": ["y"], "beside": "backend"}
    said = {"op": "edit_agent", "name": "writer", "set": edges}
    whole = await prepare(base, operations=(said,), command="more")
    assert whole.split_runs == ()
    apart = {"op": "edit_agent", "name": "writer", "set": {"beside": None}}
    made = await prepare(load_data(whole.definition), operations=(apart,), command="cut")
    (part,) = made.split_runs
    assert part.run == split_run_id(RUN, "cut", AgentName("writer"))
    for definition, topology in (
        (made.definition, GraphPlan.from_json(made.plan).component),
        (part.definition, part.component),
    ):
        read = load_data(definition)
        assert lower(read).component == topology
        assert await store.get_definition(definition_hash(read)) == definition
    assert made.plan == lower(load_data(made.definition)).to_json()
    assert (part.contents.agents, part.contents.nodes) == (("writer",), ("writer",))
    assert part.contents.channels == ("x", "y")
    stays = CrewDefinition.from_json(made.definition).graph
    assert stays is not None
    assert stays.away == {"writer": part.run}


async def test_an_agent_with_a_phase_cannot_be_split_off(prepare):
    """Crews that ran before such phases were refused have them still."""
    flow = [{"agent": "writer", "phase": "backend"}]
    wired = {"backend": {"wires": ["writer"]}}
    data = crew(flow=[], graph={}).to_json()
    agents = {name: {**each, **wired.get(name, {})} for name, each in data["agents"].items()}
    old = CrewDefinition.from_json({**data, "agents": agents, "flow": flow})
    other = {"op": "edit_agent", "name": "writer", "set": {"prompt": "q"}}
    assert (await prepare(old, operations=(other,), command="other")).split_runs == ()
    cut = {"op": "unwire", "name": "backend", "to": "writer"}
    with pytest.raises(ApplicationError, match="cannot move 'backend' to a split run") as refused:
        await prepare(old, operations=(cut,), command="cut")
    assert refused.value.type == "ComponentConflict"
    assert refused.value.non_retryable


async def test_all_faults_are_reported(prepare):
    operations = (
        {"op": "remove_agent", "name": "backand"},
        {"op": "edit_agent", "name": "writer", "set": {"timeout": "soon"}},
    )
    with pytest.raises(ApplicationError) as caught:
        await prepare(crew(), operations=operations)
    assert caught.value.type == "InvalidDefinition"
    assert caught.value.non_retryable
    assert "operations[0].name  the crew has no agent 'backand'" in caught.value.message
    assert "Did you mean 'backend'?" in caught.value.message
    assert "operations[1].set.timeout" in caught.value.message


async def test_a_definition_and_a_registered_crew(prepare, store):
    other = crew(description="another")
    made = await prepare(crew(), definition=other.to_json())
    assert (made.definition, made.base) == (other.to_json(), "")
    await store.register_crew(CrewName("music"), other.to_json(), 1)
    named = await prepare(crew(), definition="music")
    assert named.definition == other.to_json()
    with pytest.raises(ApplicationError, match="no crew is registered as 'musik'"):
        await prepare(crew(), definition="musik")


async def test_the_recipe(prepare):
    base = crew()
    made = await prepare(base, recipe=True)
    assert made.definition == base.to_json()
    assert made.what == "returns to the definition that it was started with"


async def test_a_return_to_the_recipe_names_removed_agents(prepare, store):
    base = crew()
    more = base.model_copy(update={"agents": {**base.agents, "late": base.agents["writer"]}})
    force = await store.put_definition(RUN, more.to_json())
    made = await prepare(base, recipe=True, against=force)
    told = "returns to the definition that it was started with: removes late"
    assert made.what == told


async def test_a_run_refers_to_the_definitions_of_its_changes(prepare, store):
    """Also to those of pending, refused and dry changes, which its journal may not name."""
    base = crew(flow=[], graph={"root": "backend"}, channels={"x": {}})
    edges = {"listen": ["x"], "send": ["y"], "beside": "backend"}
    linked = ({"op": "edit_agent", "name": "writer", "set": edges},)
    whole = load_data((await prepare(base, operations=linked)).definition)
    apart = ({"op": "edit_agent", "name": "writer", "set": {"beside": None}},)
    assert (await prepare(whole, operations=apart, command="cut")).split_runs
    edit = ({"op": "edit_agent", "name": "writer", "set": {"prompt": "q"}},)
    await prepare(base, operations=edit, pending=definition_hash(whole))
    await prepare(base, definition=crew(description="another").to_json())
    recipe = crew(description="a later version").to_json()
    await prepare(base, recipe=True, definition=recipe, against=definition_hash(base))
    live, basis = await live_of(prepare, crew(), REVIEWER)
    assert (await prepare(live, prompt=PROMPT, **basis)).basis
    assert len(store._definitions) >= 10
    await assert_referenced(store, RUN)


async def test_a_suspicious_change_has_a_warning(prepare):
    agents = {"backend": {"prompt": "p", "listen": ["x"]}, "writer": {"prompt": "p", "send": ["x"]}}
    data = {"crew": "music", "model": "openai:x", "agents": agents, "graph": {"root": "writer"}}
    gone = ({"op": "remove_agent", "name": "backend"},)
    made = await prepare(CrewDefinition.from_json(data), operations=gone)
    say = "agent 'writer' sends to 'x', to which nobody listens"
    assert made.warnings == (f"{say}\n    Let an agent listen to 'x'.",)


async def test_an_agent_that_becomes_alone_in_a_run_has_a_warning(prepare):
    agents = {"backend": {"prompt": "p", "listen": ["x"]}, "writer": {"prompt": "p", "send": ["x"]}}
    data = {"crew": "music", "model": "openai:x", "agents": agents, "graph": {"root": "writer"}}
    late = {"prompt": "p", "listen": ["tasks"]}
    add = ({"op": "add_agent", "name": "late", "agent": late},)
    made = await prepare(CrewDefinition.from_json(data), operations=add, command="c")
    assert [part.component.agents.keys() for part in made.split_runs] == [{"late"}]
    (told,) = made.warnings
    assert told.startswith("'late' is alone in a run of its own")


async def test_a_prompt_keeps_names_and_settings_of_the_crew(prepare):
    base = crew(flow=[{"agent": "backend", "phase": "build"}, "writer"])
    made = await prepare(base, prompt=PROMPT, reader="forms")
    assert names(made) == ["build", "writer", "tester"]
    definition = CrewDefinition.from_json(made.definition)
    assert definition.crew == "music"
    assert definition.agents["backend"].writes_flags == ("ready",)
    assert definition.agents["backend"].tools == base.agents["backend"].tools
    assert definition.agents["tester"].tools == ()
    assert made.what.startswith("adds tester")


async def test_a_prompt_gives_an_agent_no_new_tools(prepare):
    base = crew(permissions={"boom": ["backend"], "add": ["backend", "writer"]})
    made = await prepare(base, prompt=f"{PROMPT} Only the writer may add.", reader="forms")
    assert made.definition["permissions"] == {"boom": ["backend"], "add": ["writer"]}
    prompt = f"{PROMPT} The tester may use boom."
    with pytest.raises(ApplicationError, match="boom"):
        await prepare(base, prompt=prompt, reader="forms")


async def test_a_prompt_does_not_restore_denied_tools(prepare):
    base = crew(permissions={"add": ["backend", "writer"]})
    by_hand = {"add": ("writer",), "boom": ()}
    said = f"{PROMPT} Only the backend may add."
    with pytest.raises(ApplicationError, match="permissions do not let backend call add"):
        await prepare(base, prompt=said, reader="forms", permissions=by_hand)
    made = await prepare(base, prompt=PROMPT, reader="forms", permissions=by_hand)
    assert made.definition["permissions"] == {"add": ["writer"], "boom": []}
    more = {"add": ("backend", "writer", "tester")}  # what people gave is the run's, still
    made = await prepare(base, prompt=PROMPT, reader="forms", permissions=more)
    assert made.definition["permissions"] == {"add": ["backend", "writer"]}


async def test_a_prompt_is_limited_to_its_registry(prepare, store):
    registry = {
        "registry": "closed",
        "model": "openai:x",
        "new_agents": False,
        "agents": {"backend": {"prompt": "Build."}, "writer": {"prompt": "Write."}},
    }
    await store.register({("registry", "closed"): registry}, 1)
    with pytest.raises(ApplicationError, match="tester"):
        await prepare(crew(), prompt=PROMPT, registry="closed", reader="forms")


async def test_a_model_reads_the_prompt_in_rounds(prepare):
    good = reply(BUILDS, WRITES, TESTS, of=3)
    model = scripted({"agents": {"compiler": [{"text": "no reading"}, {"text": good}], "*": []}})
    task: dict[str, Any] = {"prompt": PROMPT, "reader": "model", "model": model}
    first = await prepare(crew(), **task)
    assert (first.again, first.reply, first.definition) == (True, "no reading", {})
    assert first.usage.calls == 1
    second = await prepare(crew(), **task, replies=(first.reply,))
    assert (second.again, second.reply) == (False, good)
    assert names(second) == ["backend", "writer", "tester"]
    assert second.definition["agents"]["backend"]["writes_flags"] == ["ready"]
    _, asked = recorded_prompts(model)
    assert "the reply has no JSON object" in str(asked.messages[-1]["content"])


async def test_an_invalid_reading_changes_nothing(prepare):
    """The faults are those of the best reply; the usage of the last call is not lost."""
    half = reading([BUILDS, WRITES], of=2)
    why = {"clause": 3, "status": "cannot", "why": "nobody tests", "against": []}
    honest = json.dumps({**half, "ledger": [*half["ledger"], why]})
    replies = ("no", reply(BUILDS, of=1), honest)
    model = scripted({"agents": {"compiler": [{"text": "no"}] * 4, "*": []}})
    task: dict[str, Any] = {"prompt": PROMPT, "reader": "model", "model": model}
    assert (await prepare(crew(), **task, replies=replies[:2])).again
    with capture_logs() as told:
        made = await prepare(crew(), **task, replies=replies)
    assert "no part can say this: nobody tests" in made.refused
    assert "JSON" not in made.refused
    assert (made.again, made.definition, made.plan) == (False, {}, {})
    assert (made.reply, made.usage.calls) == ("no", 1)
    (line,) = [each for each in told if each["event"] == "a change was rejected"]
    assert line["why"] == made.refused.partition("\n")[0]


async def test_a_rejected_change_of_a_model_keeps_its_usage(prepare):
    """The prompt is understood; the crew that it makes would lose what people wrote."""
    good = reply(BUILDS, ("tester", "", [2]), of=2)
    model = scripted({"agents": {"compiler": [{"text": good}], "*": []}})
    base = crew(rules=[{"tool": "add", "agents": ["writer"], "do": "never"}])
    said = "The backend builds the service, then the tester tests."
    made = await prepare(base, prompt=said, reader="model", model=model)
    assert "the prompt has tester as new, and no writer" in made.refused
    assert (made.reply, made.usage.calls) == (good, 1)


@pytest.mark.parametrize("reader", ["auto", "model"])
async def test_a_model_with_replies_for_the_compiler_reads(prepare, reader):
    good = {"text": reply(BUILDS, WRITES, TESTS, of=3)}
    model = scripted({"agents": {"compiler": [good], "*": []}})
    made = await prepare(crew(), prompt=PROMPT, reader=reader, model=model)
    assert (made.reply, names(made)) == (good["text"], ["backend", "writer", "tester"])


async def test_the_forms_read_without_such_a_model(prepare):
    model = scripted({"agents": {"backend": [], "*": [{"text": "no reading"}]}})
    made = await prepare(crew(), prompt=PROMPT, model=model)
    assert (made.reply, names(made)) == (None, ["backend", "writer", "tester"])
    assert recorded_prompts(model) == []


async def test_a_base_that_the_store_lacks(env, activities):
    task = PrepareChange(run=RUN, base=ContentHash("0" * 64), recipe=True)
    with pytest.raises(ApplicationError) as caught:
        await env.run(activities.prepare_change, task)
    assert caught.value.type != "InternalError"


REVIEWER = {"op": "add_agent", "name": "reviewer", "agent": {"prompt": "Review."}}


async def live_of(prepare: Any, base: CrewDefinition, *operations: dict[str, Any]) -> Any:
    """A crew that was changed while a run lived, and what a change by a prompt is told of it."""
    made = await prepare(base, operations=operations)
    return CrewDefinition.from_json(made.definition), {"basis": made.base, "reader": "forms"}


def waits(made: PrepareChangeResult) -> dict[str, tuple[str, ...]]:
    return {each.name: each.sources for each in phases(CrewDefinition.from_json(made.definition))}


async def test_a_prompt_keeps_an_added_agent_and_its_place(prepare, store):
    base = crew(flow=[{"agent": "backend", "phase": "build"}, "writer"])
    placed = {**REVIEWER, "phase": {"after": "build"}, "before": ["writer"]}
    live, told = await live_of(prepare, base, placed)
    made = await prepare(live, prompt=PROMPT, **told)
    assert made.definition["agents"]["reviewer"] == {"prompt": "Review."}
    assert waits(made)["reviewer"] == ("build",)
    assert "reviewer" in waits(made)["writer"]
    assert waits(made)["tester"] == ("writer",)
    assert "removes reviewer" not in made.what
    alone = await store.get_definition(hash_json(made.basis))
    assert "reviewer" not in alone["agents"]


async def test_another_prompt_applies_the_same_changes_again(prepare):
    live, told = await live_of(prepare, crew(), REVIEWER)
    first = await prepare(live, prompt=PROMPT, **told)
    told["basis"] = hash_json(first.basis)
    again = CrewDefinition.from_json(first.definition)
    made = await prepare(again, prompt=PROMPT.rpartition(",")[0] + ".", **told)
    assert made.definition["agents"].keys() == {"backend", "writer", "reviewer"}


async def test_a_prompt_does_not_restore_removed_agents(prepare):
    live, told = await live_of(prepare, crew(), {"op": "remove_agent", "name": "writer"})
    made = await prepare(live, prompt="The backend builds it, then the tester tests.", **told)
    assert made.definition["agents"].keys() == {"backend", "tester"}


async def test_an_added_agent_without_a_place_is_a_conflict(prepare):
    base = crew(flow=["backend", "writer"])
    live, told = await live_of(prepare, base, {**REVIEWER, "phase": {"after": "writer"}})
    with pytest.raises(ApplicationError, match="'reviewer' was added after 'writer'") as refused:
        await prepare(live, prompt="The backend builds the service.", **told)
    assert refused.value.type == "ChangeConflict"


async def test_an_added_agent_need_not_be_in_the_registry(prepare, store):
    agents = {"backend": {"prompt": "Build."}, "writer": {"prompt": "Write."}}
    registry = {"registry": "closed", "model": "scripted:#1", "new_agents": False}
    await store.register({("registry", "closed"): registry | {"agents": agents}}, 1)
    own = {**REVIEWER, "agent": {"prompt": "Review.", "tools": ["add"]}}
    live, told = await live_of(prepare, crew(), own)
    said = "The backend builds the service, then the writer writes about it."
    made = await prepare(live, prompt=said, registry="closed", **told)
    assert made.definition["agents"]["reviewer"]["tools"] == ["add"]
    assert "add" in made.definition["tools"]
