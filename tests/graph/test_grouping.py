"""Agents that change their own graph: who may, once, in the order of their calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter
from typing_extensions import override

from covers import covers
from crewlog.authority.permissions import Decision
from crewlog.definition import group_tools
from crewlog.definition.apply import apply_operations
from crewlog.definition.creature_checks import new_warnings
from crewlog.definition.load import load_data
from crewlog.definition.model import GROUP_TOOLS, CrewDefinition
from crewlog.definition.operations import AddChannel, Operation
from crewlog.errors import CommandRejected, InvalidDefinition, UsageError
from crewlog.graph.group_tools import authorize_group_change, change_result_text, group_command_id
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_context import CallRequest
from crewlog.graph.swap.report import SwapReport
from crewlog.ids import AgentName, ContentHash, NodeName, RunId, StepId
from crewlog.state.calls import GraphOperationsReturned, PrepareChangeResult, SentMessage
from crewlog.state.components import ComponentChange
from crewlog.state.model import CommandOutcome, CrewState, FrontierStep, PendingChange
from crewlog.wire import Change
from crewlog.workflows import group_tools as group_changes
from crewlog.workflows.commands.queue import QueuedCommand, RefusedCommand
from graph.simulation import Outcome, Simulation, as_json, folded, returns, says

OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])
ROOT: dict[str, Any] = {"listen": ["reports"], "send": ["tasks"]}
PRIVILEGED: dict[str, Any] = {"privileged": True}
CREW: dict[str, dict[str, Any]] = {
    "root": ROOT,
    "scout": {"listen": ["tasks"], "send": ["reports"]},
}


def crew_of(agents: dict[str, dict[str, Any]], **more: Any) -> CrewDefinition:
    made = {name: {"prompt": "p", **edges} for name, edges in agents.items()}
    said = {"crew": "t", "model": "openai:x", "agents": made, "graph": {"root": "root"}, **more}
    return load_data(said)


def asked(operation: Operation) -> dict[str, Any]:
    return {"op": operation.op, **operation.to_json()}


class Living(Simulation):
    """A run whose agents change its crew: what the workflow does with a call of a group tool."""

    crew: CrewDefinition

    def prepared(self, order: CallRequest, operations: tuple[dict[str, Any], ...]) -> Any:
        command = Change.model_validate(
            {
                "id": group_command_id(order.step, order.call.call),
                "by": order.agent,
                "operations": operations,
            }
        )
        incoming = QueuedCommand("change", {})
        try:
            after = apply_operations(self.crew, command.operations)
        except InvalidDefinition as error:
            incoming.preparation = RefusedCommand(CommandRejected(str(error)))
        else:
            plan = lower(after)
            incoming.preparation = PrepareChangeResult(
                definition=after.to_json(),
                plan=plan.to_json(),
                base=lower(self.crew).definition,
                what=f"{[*after.agents]}",
                warnings=tuple(
                    f"{each.message}\n    {each.remedy}" for each in new_warnings(self.crew, after)
                ),
            )
        return group_changes.GroupToolChange(order, command, incoming)

    @override
    async def land(self, key: tuple[str, int]) -> None:
        order = self.flights[key]
        outcome = self.script(order)
        asked = getattr(outcome, "outcome", None)
        if not isinstance(asked, GraphOperationsReturned):
            await super().land(key)
            return
        await self.regroup(self.prepared(order, asked.operations))

    async def regroup(self, made: Any) -> None:
        key = (made.request.step, made.request.call.call)
        self.flights.pop(key, None)
        self.engine.at += 1
        await group_changes.apply(self.engine, made)
        preparation = made.incoming.preparation
        is_prepared = isinstance(preparation, PrepareChangeResult)
        if is_prepared and self.engine.plan.definition != lower(self.crew).definition:
            self.crew = CrewDefinition.from_json(preparation.definition)


async def begun(crew: CrewDefinition, script: Any) -> Living:
    sim = await Living.begin(lower(crew), script)
    assert isinstance(sim, Living)
    sim.crew = crew
    await sim.command("message", text="Go.")
    return sim


class Calls:
    """The root's first reply makes these calls of group tools; all other replies are final."""

    def __init__(self, *calls: tuple[str, Operation], by: str = "root") -> None:
        self.calls = calls
        self.by = by
        self.orders: list[CallRequest] = []

    def __call__(self, order: CallRequest) -> Outcome:
        if order.call.tool is None:
            first = order.step == f"{self.by}#1" and order.call.call == 1
            return says("", *(tool for tool, _ in self.calls)) if first else says("end")
        self.orders.append(order)
        return returns(
            outcome=GraphOperationsReturned(operations=(asked(self.calls[order.call.call - 2][1]),))
        )


def spawn(crew: CrewDefinition, name: str = "w", **said: Any) -> Operation:
    return group_tools.add_node(crew, "root", name, **{"prompt": "p", **said})


def answers(sim: Living) -> list[tuple[bool, str]]:
    found = sim.facts("ToolCallCompleted")
    return [(e.get("ok", True), e["ref"]["inline"]["content"]) for e in found]


@covers("C113", "C115")
async def test_a_worker_is_brought_wired_and_retired_in_the_order_of_the_calls() -> None:
    crew = crew_of(CREW)
    script = Calls(
        ("group_add_node", spawn(crew, wires=["root"])),
        ("group_channel", group_tools.change_channel("connect", "tasks", "root", "w")),
        ("group_wire", group_tools.change_wire("w", "scout")),
        ("group_stop_node", group_tools.stop_node("scout")),
        ("group_start_node", group_tools.start_node("scout")),
        ("group_remove_node", group_tools.remove_node("w")),
    )
    sim = await begun(crew, script)
    await sim.run()
    assert [order.call.call for order in script.orders] == [2, 3, 4, 5, 6, 7]
    assert [ok for ok, _ in answers(sim)] == [True] * 6
    changes = sim.facts("ComponentChanged")
    assert [fact["graph_version"] for fact in changes] == [2, 3, 4, 5]
    assert [fact["affected_creatures"] for fact in changes] == [
        ["root", "w"],
        ["root", "w"],
        ["root", "scout", "w"],
        ["root", "scout", "w"],
    ]
    assert {fact["by"] for fact in changes} == {"root"}
    assert [fact["command"] for fact in changes] == [
        f"crewlog:group/root#1/{call}" for call in (2, 3, 4, 7)
    ]
    assert sim.facts("DefinitionChanged")[0]["command"] == "crewlog:group/root#1/5"
    said = answers(sim)[0][1]
    assert said.startswith("Done: ['root', 'scout', 'w']. The graph is v2 now. Affected: root, w.")
    assert as_json(folded(sim.journal)) == as_json(sim.state)
    assert not sim.facts("PermissionDenied")


@covers("C113")
async def test_an_agent_is_told_what_it_may_not_have_meant() -> None:
    sim = await begun(crew_of(CREW), Calls(("group_remove_node", group_tools.remove_node("scout"))))
    await sim.run()
    ((ok, said),) = answers(sim)
    assert ok
    assert "Affected: root, scout. agent 'root' sends to 'tasks', to which nobody listens." in said


@covers("C114", "C115")
def test_a_worker_has_no_group_tools_and_no_more_than_who_brought_it() -> None:
    crew = crew_of(
        {
            "root": {**ROOT, "tools": ["read"], "reads": [], "writes_flags": ["found"]},
            "boss": {"privileged": True, "wires": ["root"]},
            "scout": {
                "listen": ["tasks"],
                "tools": ["read", "act"],
                "writes_flags": ["found", "paid"],
                "privileged": True,
                "reads": ["public", "group:g"],
            },
        },
        groups={"g": ["scout"]},
        tools={"read": {"run": "m:f"}, "act": {"run": "m:f"}},
    )
    made = apply_operations(crew, [spawn(crew, like="scout", listen=["tasks"])])
    worker = made.agents["w"]
    assert (worker.parent, worker.privileged, worker.tools) == ("root", False, ("read",))
    assert (worker.reads, worker.writes_flags) == ((), ("found",))
    plain = apply_operations(crew, [spawn(crew)]).agents["w"]
    assert (plain.tools, plain.reads, plain.writes) == (("read",), (), ("public",))
    plan = lower(made)
    promoted = apply_operations(
        made, OPERATIONS.validate_python([{"op": "edit_agent", "name": "w", "set": PRIVILEGED}])
    )
    assert {*GROUP_TOOLS} <= {*lower(promoted).agents[AgentName("w")].tools}
    held = {name: {*rules.tools} & {*GROUP_TOOLS} for name, rules in plan.agents.items()}
    every = {*GROUP_TOOLS}
    assert held == {"root": every, "boss": every, "scout": every, "w": set()}
    with pytest.raises(UsageError, match="has no prompt"):
        group_tools.add_node(crew, "root", "w")


@covers("C115")
async def test_no_agent_brings_one_by_the_name_of_one_that_is_gone() -> None:
    """What that one heard and said is kept under its name, and would be the new one's."""
    crew = crew_of(CREW)
    remove = ("group_remove_node", group_tools.remove_node("scout"))
    brings = ("group_add_node", spawn(crew, "scout"))
    sim = await Living.begin(lower(crew), Calls(remove, brings, ("group_add_node", spawn(crew))))
    assert isinstance(sim, Living)
    sim.crew = crew
    await sim.command("message", text="Look.", to="channel:tasks")
    await sim.run()
    await sim.command("message", text="Go.")
    await sim.run()
    ((gone, _), (came, said), (other, _)) = answers(sim)
    assert (gone, came, other) == (True, False, True)
    assert "choose another name" in said
    assert len(sim.facts("PermissionDenied")) == 1


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"op": "remove_agent", "name": "root"}, "may not change 'root', which is privileged"),
        ({"op": "disable_agent", "name": "boss"}, "may not change 'boss', which is privileged"),
        (
            {"op": "edit_agent", "name": "scout", "set": {"privileged": True}},
            "may not use the operation",
        ),
        ({"op": "add_agent", "name": "w", "agent": {"prompt": "p"}}, "work for it"),
        (
            {"op": "add_agent", "name": "w", "agent": {"parent": "root", "privileged": True}},
            "have its rights",
        ),
        (
            {"op": "add_agent", "name": "w", "agent": {"parent": "root"}, "before": ["scout"]},
            "may not change the flow",
        ),
        (
            {"op": "add_agent", "name": "w", "agent": {"parent": "root", "tools": ["act"]}},
            "'root' cannot give act, which it does not have",
        ),
        ({"op": "wire", "name": "scout", "to": "far"}, "'far' is in another component"),
        ({"op": "connect", "sender": "far", "listener": "scout"}, "'far' is in another component"),
        ({"op": "edit_crew", "set": {"permissions": {}}}, "may not use the operation"),
    ],
)
async def test_what_no_agent_may_do_is_refused_and_on_record(
    operation: dict[str, Any], reason: str
) -> None:
    agents = {
        "root": {**ROOT, "tools": []},
        "boss": {"privileged": True, "wires": ["scout"]},
        "scout": {"listen": ["tasks"]},
        "far": {},
    }
    crew = crew_of(
        agents,
        graph={"root": "root", "away": {"far": "r.1"}},
        tools={"act": {"run": "m:f"}},
    )
    (forged,) = OPERATIONS.validate_python([operation])
    sim = await begun(crew, Calls(("group_wire", forged)))
    before = sim.engine.plan
    await sim.run()
    (denied,) = sim.facts("PermissionDenied")
    assert (denied["agent"], denied["tool"], denied["rule"]) == ("root", "group_wire", "privileged")
    assert reason in denied["reason"]
    assert answers(sim) == [(False, f"Refused: {denied['reason']}.")]
    assert sim.engine.plan == before
    assert sim.state.graph_version == 1


@covers("C114")
async def test_who_is_not_privileged_is_refused_the_tools_and_cannot_be_ruled_to_have_them() -> (
    None
):
    crew = crew_of(CREW)
    script = Calls(("group_remove_node", group_tools.remove_node("root")), by="scout")
    sim = await begun(crew, script)
    await sim.command("message", text="Go.", to="channel:tasks")
    await sim.run()
    assert not script.orders
    (denied,) = sim.facts("PermissionDenied")
    assert (denied["agent"], denied["rule"]) == ("scout", "tools")
    ruled = await sim.command("set_permission", tool="group_wire", agent="scout", do="allow")
    assert "the agent is not privileged" in str(ruled.error)
    denying = await sim.command("set_permission", tool="group_wire", agent="root", do="deny")
    assert denying.error is None


async def test_who_was_removed_meanwhile_changes_nothing() -> None:
    crew = crew_of({**CREW, "boss": {"privileged": True, "listen": ["tasks"], "send": ["tasks"]}})
    script = Calls(("group_wire", group_tools.change_wire("scout", "root")), by="boss")
    sim = await begun(crew, script)
    await sim.command("message", text="Go.", to="channel:tasks")
    while ("boss#1", 2) not in sim.flights:
        await sim.finish("boss#1")
    left = load_data({**crew.to_json(), "agents": {n: crew.agents[n].to_json() for n in CREW}})
    await sim.change(lower(left))
    await sim.run()
    (denied,) = sim.facts("PermissionDenied")
    assert denied["reason"] == "'boss' is not in the component any more"


async def test_a_change_of_a_crew_that_has_moved_on_is_prepared_anew() -> None:
    crew = crew_of(CREW)
    script = Calls(("group_add_node", spawn(crew)))
    sim = await begun(crew, script)
    await sim.finish("root#1")
    order = sim.flights["root#1", 2]
    stale = sim.prepared(order, (asked(spawn(crew)),))
    other = apply_operations(crew, [spawn(crew, "other")])
    await sim.change(lower(other))
    sim.crew = other
    await sim.regroup(stale)
    assert not answers(sim)
    await sim.run()
    assert [ok for ok, _ in answers(sim)] == [True]
    assert {*sim.engine.plan.agents} == {"root", "scout", "other", "w"}


@covers("C113")
async def test_a_call_changes_the_graph_once() -> None:
    crew = crew_of(CREW)
    sim = await begun(crew, Calls(("group_add_node", spawn(crew))))
    await sim.finish("root#1")
    made = sim.prepared(sim.flights["root#1", 2], (asked(spawn(crew)),))
    await sim.regroup(made)
    await sim.regroup(made)  # whoever lands twice finds nobody who waits
    assert len(answers(sim)) == len(sim.facts("ComponentChanged")) == 1
    command = sim.state.commands[group_command_id(StepId("root#1"), 2)]
    assert command.ok


async def test_what_makes_no_crew_is_told_to_the_model() -> None:
    crew = crew_of(CREW)
    sim = await begun(crew, Calls(("group_add_node", spawn(crew, listen=["secret"]))))
    await sim.run()
    ((ok, said),) = answers(sim)
    assert not ok
    assert "listens to 'secret', where 'root', whom it works for" in said
    assert sim.state.graph_version == 1


async def test_a_worker_sends_where_it_may_though_its_parent_only_listens() -> None:
    crew = crew_of(
        {"root": {"listen": ["x"]}, "w": {"listen": ["x"], "send": ["x"], "parent": "root"}}
    )

    def script(order: CallRequest) -> Outcome:
        if order.call.tool:
            return returns(sends=(SentMessage(channel="x", text="seen"),))
        first = order.step == "w#1" and order.call.call == 1
        return says("", "send_message") if first else says("")

    sim = await begun(crew, script)
    await sim.command("message", text="look", to="channel:x")
    await sim.run()
    assert not sim.facts("PermissionDenied")
    assert "root#3" in sim.ran()


@pytest.mark.parametrize("tool", GROUP_TOOLS)
def test_a_crew_with_creatures_has_no_tool_of_such_a_name(tool: str) -> None:
    with pytest.raises(InvalidDefinition, match=f"a tool cannot be called '{tool}'"):
        crew_of(CREW, tools={tool: {"run": "m:t"}})


async def test_a_quota_bounds_how_many_agents_come() -> None:
    rule = {"tool": "group_add_node", "quota": "2 per run"}
    crew = crew_of(CREW, rules=[rule])
    spawns = [("group_add_node", spawn(crew, name)) for name in ("u", "v", "w")]
    sim = await begun(crew, Calls(*spawns))
    await sim.run()
    assert [ok for ok, _ in answers(sim)] == [True, True, False]
    (denied,) = sim.facts("PermissionDenied")
    assert "2 per run" in denied["reason"]
    assert {*sim.engine.plan.agents} == {"root", "scout", "u", "v"}


def test_who_is_gone_changes_nothing_though_another_one_has_its_name() -> None:
    step = StepId("root#1")
    here = FrontierStep(step=step, node=NodeName("root"), status="running")
    gone = here.model_copy(update={"is_detached": True})
    for entry, allowed in ((here, True), (gone, False)):
        state = CrewState(run=RunId("r"), frontier={step: entry})
        run: Any = SimpleNamespace(plan=lower(crew_of(CREW)), state=state)
        found = authorize_group_change(run, step, AgentName("root"), [AddChannel(name="more")])
        assert found.allowed == allowed
        elsewhere = authorize_group_change(
            run, StepId("root#2"), AgentName("root"), [AddChannel(name="more")]
        )
        assert not elsewhere.allowed


BROUGHT: dict[str, Any] = {
    "prompt": "p",
    "description": "d",
    "model": "openai:y",
    "tools": ["read", "unknown"],
    "reads": ["public"],
    "writes": ["public"],
    "shares": [],
    "writes_flags": [],
    "listen": ["tasks"],
    "send": ["reports"],
    "wires": ["root"],
    "parent": "root",
}


@pytest.mark.parametrize(
    ("agent", "operation", "reason"),
    [
        ("root", {"op": "add_agent", "name": "w", "agent": BROUGHT}, ""),
        (
            "root",
            {"op": "add_agent", "name": "w", "agent": {**BROUGHT, "parent": "scout"}},
            "'root' may only add agents that work for it and have its rights",
        ),
        (
            "root",
            {"op": "add_agent", "name": "w", "agent": BROUGHT, "phase": {"phase": "p"}},
            "agents may not change the flow",
        ),
        (
            "root",
            {"op": "add_agent", "name": "w", "agent": {**BROUGHT, "tools": ["act", "pay"]}},
            "'root' cannot give act or pay, which it does not have",
        ),
        ("root", {"op": "remove_agent", "name": "scout"}, ""),
        ("root", {"op": "enable_agent", "name": "far"}, "'far' is in another component"),
        ("root", {"op": "disable_agent", "name": "nobody"}, ""),
        ("root", {"op": "unwire", "name": "scout", "to": "nobody"}, ""),
        ("root", {"op": "wire", "name": "scout", "to": "channel:far"}, ""),
        ("root", {"op": "wire", "name": "far", "to": "scout"}, "'far' is in another component"),
        (
            "scout",
            {"op": "add_channel", "name": "more"},
            "'scout' is not privileged, and may not change the component",
        ),
        (
            "far",
            {"op": "add_channel", "name": "more"},
            "'far' is not in the component any more",
        ),
    ],
)
def test_what_an_agent_may_ask_for(agent: str, operation: dict[str, Any], reason: str) -> None:
    """What names nobody is no matter of rights: why it cannot be, the crew itself tells."""
    crew = crew_of(
        {"root": {**ROOT, "tools": ["read"]}, "scout": {"listen": ["tasks"]}, "far": {}},
        graph={"root": "root", "away": {"far": "r.1"}},
        tools={name: {"run": "m:f"} for name in ("read", "act", "pay")},
    )
    step = StepId(f"{agent}#1")
    entry = FrontierStep(step=step, node=NodeName(agent), status="running")
    state = CrewState(run=RunId("r"), frontier={step: entry})
    run: Any = SimpleNamespace(plan=lower(crew), state=state)
    operations = OPERATIONS.validate_python([operation])
    found = authorize_group_change(run, step, AgentName(agent), operations)
    said = reason or f"{agent!r} is privileged"
    assert found == Decision(allowed=not reason, reason=said, rule="privileged")


def test_where_no_graph_is_left_nobody_changes_it() -> None:
    step = StepId("root#1")
    entry = FrontierStep(step=step, node=NodeName("root"), status="running")
    state = CrewState(run=RunId("r"), frontier={step: entry})
    flows = load_data(
        {"crew": "t", "model": "openai:x", "agents": {"root": {"prompt": "p"}}, "flow": ["root"]}
    )
    run: Any = SimpleNamespace(plan=lower(flows), state=state)
    found = authorize_group_change(run, step, AgentName("root"), [AddChannel(name="more")])
    assert "is not in the component any more" in found.reason


def report(
    kind: Literal["split", "nothing"], affected: tuple[str, ...] = (), **more: Any
) -> SwapReport:
    change = ComponentChange(
        kind=kind,
        old_graph_ids=(RunId("r"),),
        new_graph_ids=(RunId("r"), *((RunId("r.1"),) if kind == "split" else ())),
        affected_creatures=tuple(map(AgentName, affected)),
    )
    return SwapReport(**{"graph_version": 2, "swap": False, "component_change": change, **more})


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (report("nothing", ("a", "b")), "Done: w. The graph is v2 now. Affected: a, b."),
        (report("nothing"), "Done: w. The graph is v2 now."),
        (report("nothing", component_change=None), "Done: w. The graph is v2 now."),
        (
            report("nothing", swap=True),
            "Accepted: w. It holds once the running calls have ended. The graph is v2 then.",
        ),
        (
            report("split", ("b",), swap=True),
            (
                "Accepted: w. It holds once the calls of the agents that leave have ended. "
                "The graph is v2 then. Affected: b. The run splits: r.1 continues separately."
            ),
        ),
        (
            report("nothing", warnings=("one\n    remedy",), notes=("2", "3", "4", "5", "6")),
            "Done: w. The graph is v2 now. one. 2. 3. 4. 5.",
        ),
    ],
)
def test_an_agent_is_told_what_came_of_it(found: SwapReport, said: str) -> None:
    assert change_result_text("w", found) == said


@pytest.mark.parametrize(
    ("state", "ok", "said"),
    [
        (
            {"commands": {group_command_id(StepId("root#1"), 2): CommandOutcome(position=1)}},
            True,
            "Done before.",
        ),
        (
            {
                "pending_change": PendingChange(
                    command="c", graph_version=2, definition=ContentHash("d")
                )
            },
            False,
            "Refused: another change of the graph is pending. Try again in a moment.",
        ),
    ],
    ids=["done", "changing"],
)
async def test_a_call_of_what_was_done_or_cannot_be_done_now_is_answered(
    state: dict[str, Any], ok: bool, said: str
) -> None:
    crew = crew_of(CREW)
    sim = await begun(crew, Calls(("group_add_node", spawn(crew))))
    await sim.finish("root#1")
    made = sim.prepared(sim.flights["root#1", 2], (asked(spawn(crew)),))
    sim.engine.journal.state = sim.state.model_copy(update=state)
    await group_changes.apply(sim.engine, made)
    assert answers(sim) == [(ok, said)]
    assert not sim.facts("ComponentChanged")
