"""Manual commands, starts and rollbacks need the rights for what they touch."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from temporalio.exceptions import ApplicationError

from crewlog.authority.principals import signed_text
from crewlog.authority.signatures import START
from crewlog.errors import NotPermitted
from crewlog.graph.answers import answer
from crewlog.graph.plan import GraphPlan
from crewlog.graph.touches import (
    live_permission_touches,
    permission_condition_names,
    permission_touches,
    restore_touches,
)
from crewlog.ids import AgentName
from crewlog.state.calls import RestoreStateResult
from crewlog.state.model import CrewState, Output
from crewlog.wire import InitialState, StartRun
from crewlog.workflows.authorization import authorize_start, check_initial_state
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import QueuedCommand
from graph.crews import plan_of
from graph.simulation import RUN, Simulation, final

RIGHTS = {"ops": ["operate"], "boss": ["operate", "answer"], "ada": ["operate", "grant", "answer"]}
KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n, name in enumerate(RIGHTS)
}
FOREVER = 2**50


def public(name: str) -> str:
    raw = KEYS[name].public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"ed25519:{base64.b64encode(raw).decode()}"


def policy() -> dict[str, Any]:
    principals = {name: {"key": public(name), "rights": given} for name, given in RIGHTS.items()}
    return {"mode": "signed", "principals": principals}


def signed_plan() -> GraphPlan:
    return plan_of(
        ["a", {"ask": "Publish?", "sets": "ok"}, "b", {"agent": "c", "after": "a"}],
        {"a": {"outputs": ["risk"], "writes_flags": ["free"]}},
        tools={"send": {"run": "deeds:send"}},
        flags={"closed": True},
        rules=[{"tool": "send", "do": "never", "if": "closed or a.risk > 1"}],
        policy=policy(),
    )


async def send(
    sim: Simulation, who: str, name: str, prepared: RestoreStateResult | None = None, **content: Any
) -> QueuedCommand:
    """Sends a signed command to the engine."""
    data = {"id": f"{who}-{len(sim.journal)}", "by": who, **content}
    text = signed_text(sim.state.run, name, FOREVER, data, "")
    signature = base64.b64encode(KEYS[who].sign(text)).decode()
    data["proof"] = {"key": public(who), "expires": FOREVER, "signature": signature}
    incoming = QueuedCommand(name, data)
    incoming.preparation = prepared
    await apply_command(sim.engine, incoming)
    return incoming


async def begun() -> Simulation:
    sim = await Simulation.begin(signed_plan(), final)
    await sim.settle()
    return sim


@pytest.mark.parametrize(
    ("content", "who"),
    [
        ({"set": {"flags.closed": False}}, {"ada"}),
        ({"delete": ["flags.closed"]}, {"ada"}),
        ({"set": {"outputs.a.risk": 0}}, {"ada"}),
        ({"set": {"flags.ok": True}}, {"ada", "boss"}),
        ({"set": {"flags.free": 1, "shared.closed": 1}}, {"ada", "boss", "ops"}),
    ],
)
async def test_an_edit_needs_the_right_for_the_value_that_it_sets(
    content: dict[str, Any], who: set[str]
) -> None:
    sim = await begun()
    for name in RIGHTS:
        error = (await send(sim, name, "edit_state", **content)).error
        assert (error is None) is (name in who), error
        if error is not None:
            assert isinstance(error, NotPermitted)
            assert "reads" in str(error) or "sets" in str(error)


@pytest.mark.parametrize(
    ("flow", "path", "who"),
    [
        (["a", {"ask": "Publish?", "only_if": "risky"}, "b"], "flags.risky", {"ada", "boss"}),
        (["a", {"if": "a.risk > 1", "go": "b"}, {"ask": "Go?"}, "b"], "outputs.a.risk",
         {"ada", "boss"}),
        (["a", {"ask": "Publish?", "only_if": "risky"}, "b"], "flags.free", {"ada", "boss", "ops"}),
        (["a", {"agent": "b", "only_if": "risky"}], "flags.risky", {"ada", "boss", "ops"}),
    ],
)  # fmt: skip
async def test_an_edit_of_a_value_that_a_question_depends_on_needs_answer(
    flow: list[Any], path: str, who: set[str]
) -> None:
    plan = plan_of(
        flow,
        {"a": {"outputs": ["risk"], "writes_flags": ["free", "risky"]}},
        flags={"risky": True, "free": True},
        policy=policy(),
    )
    sim = await Simulation.begin(plan, final)
    await sim.settle()
    for name in RIGHTS:
        error = (
            await send(
                sim, name, "edit_state", set={path: 0 if "risk" in path and "a." in path else False}
            )
        ).error
        assert (error is None) is (name in who), error


@pytest.mark.parametrize(("by", "who"), [("agent", {"ada", "boss"}), (None, set(RIGHTS))])
@pytest.mark.parametrize("way", ["edit", "start"])
async def test_an_edit_of_a_list_whose_items_name_their_agents_needs_answer(
    by: str | None, who: set[str], way: str
) -> None:
    """A list whose items all have one agent needs only `operate`."""
    work = {"agent": "b", "for_each": "a.steps"} | ({"by": by, "among": ["b", "c"]} if by else {})
    agents: dict[str, Any] = {"a": {"outputs": ["steps"]}, "b": {}, "c": {}}
    plan = plan_of(["a", {"ask": "Is this the plan?"}, work], agents, policy=policy())
    sim = await Simulation.begin(plan, final)
    await sim.settle()
    values = {"outputs.a.steps": [{"agent": "c", "task": "publish"}]}
    for name in RIGHTS:
        if way == "edit":
            error: Exception | None = (await send(sim, name, "edit_state", set=values)).error
        else:
            error = start_error(name, {"values": values}, plan)
        assert (error is None) is (name in who), error


async def test_a_rollback_to_behind_an_answered_question_touches_a_place() -> None:
    sim = await Simulation.begin(signed_plan(), final)
    await sim.run()
    plan, asks = sim.engine.plan, sim.state
    decisions = [{"type": "approve"}]
    found = await send(sim, "boss", "answer", interrupt=sim.asked().id, decisions=decisions)
    assert found.error is None
    before = sim.state
    assert [entry.node for entry in before.frontier.values()] == ["b"]
    await sim.run()
    assert touched(plan, sim.state, asks) == []
    assert touched(plan, sim.state, before) == ["place"]


async def test_a_redirect_in_a_flow_with_a_question_needs_answer() -> None:
    sim = await begun()
    found = [(await send(sim, name, "redirect", node="b")).error for name in RIGHTS]
    assert [type(error) for error in found] == [NotPermitted, type(None), type(None)]
    sim = await begun()
    error = (await send(sim, "ops", "redirect", node="c")).error
    assert "a redirect of the place of the run in a flow that asks people needs" in str(error)


def touched(plan: GraphPlan, now: CrewState, then: CrewState) -> list[str]:
    """What a rollback touches."""
    return [
        touch.kind for touch in restore_touches(permission_condition_names(plan), plan, now, then)
    ]


@pytest.mark.parametrize(
    ("flags", "who"),
    [
        ({"closed": True}, {"ada", "boss", "ops"}),
        ({"closed": False}, {"ada"}),
        ({"closed": True, "ok": True}, {"ada", "boss"}),
    ],
)
async def test_a_rollback_needs_the_rights_for_the_values_that_it_changes(
    flags: dict[str, Any], who: set[str]
) -> None:
    for name in RIGHTS:
        sim = await begun()
        plan, then = sim.engine.plan, sim.state.model_copy(update={"flags": flags})
        loaded = RestoreStateResult(
            position=2,
            state=then.to_json(),
            definition={},
            plan=plan.to_json(),
            widens=(),
            compared=plan.definition,
        )
        error = (await send(sim, name, "rollback", loaded, position=2)).error
        assert (error is None) is (name in who), error


@pytest.mark.parametrize(
    ("read", "word", "allowed"),
    [
        ("tests_ok", "set", {"ada"}),
        ("tests_ok", "skip", {"boss", "ada"}),
        ("other", "set", {"boss", "ada"}),
    ],
)
async def test_an_answer_that_sets_what_a_permission_reads_needs_grant(
    read: str, word: str, allowed: set[str]
) -> None:
    for name in RIGHTS:
        plan = plan_of(
            [{"agent": "a", "when": "tests_ok"}],
            tools={"send": {"run": "deeds:send"}},
            flags={"tests_ok": False, "other": False},
            rules=[{"tool": "send", "do": "never", "if": f"not {read}"}],
            policy=policy(),
        )
        sim = await Simulation.begin(plan, final)
        await sim.settle()
        decisions = [{"type": "respond", "message": word}]
        found = await send(sim, name, "answer", interrupt=sim.asked().id, decisions=decisions)
        assert (found.error is None) is (name in allowed), found.error
        assert sim.state.flags["tests_ok"] is (name in allowed and word == "set")  # type: ignore[index]
        if name == "boss" and found.error is not None:
            assert isinstance(found.error, NotPermitted)
            assert "flags.tests_ok, which the condition of a permission reads" in str(found.error)
            assert sim.asked().options == ("set", "skip", "stop"), "it is still open"


@pytest.mark.parametrize("way", ["edit", "redirect", "rollback"])
@pytest.mark.parametrize(
    ("people", "to", "who"),
    [
        (["mia"], None, {"ada"}),
        (["boss"], None, {"ada", "boss"}),
        (["boss"], "mia", {"ada"}),
        ([], "mia", {"ada"}),
        ([], "boss", {"ada", "boss"}),
    ],
)
async def test_a_principal_who_is_not_asked_needs_grant_instead_of_answer(
    way: str, people: list[str], to: str | None, who: set[str]
) -> None:
    for name in RIGHTS:
        plan = signed_plan()
        asks = plan.interrupts.model_copy(update={"people": tuple(people)})
        plan = plan.model_copy(update={"interrupts": asks})
        sim = await Simulation.begin(plan, final)
        await sim.run()
        state, asked = sim.engine.state, sim.asked()
        if to is not None:
            changed = asked.model_copy(update={"to": (to,), "escalated": True})
            sim.engine.journal.state = state.model_copy(update={"interrupts": {asked.id: changed}})
        prepared, content = None, {}
        if way == "rollback":
            then = state.model_copy(update={"flags": {"closed": True, "ok": True}})
            prepared = RestoreStateResult(
                position=2,
                state=then.to_json(),
                definition={},
                plan=plan.to_json(),
                widens=(),
                compared=plan.definition,
            )
            content = {"position": 2}
        elif way == "edit":
            content = {"set": {"flags.ok": True}}
        else:
            content = {"node": "b"}
        names = {"edit": "edit_state"}
        error = (await send(sim, name, names.get(way, way), prepared, **content)).error
        assert (error is None) is (name in who), error
        assert error is None or isinstance(error, NotPermitted)


async def test_a_redirect_of_a_step_that_asks_needs_answer() -> None:
    """Also if it asks because of low confidence, and the flow has no question."""
    plan = plan_of(
        ["a", "b"], {"a": {"outputs": ["confidence"], "ask_below": 0.7}}, policy=policy()
    )
    sim = await Simulation.begin(plan, final)
    await sim.run()
    assert sim.asked().kind == "low_confidence"
    error = (await send(sim, "ops", "redirect", node="b")).error
    assert isinstance(error, NotPermitted)
    assert "a redirect of a#1, which asks i1 (low_confidence)" in str(error)
    assert (await send(sim, "boss", "redirect", node="b")).error is None


ASK = {"ask": "Publish?", "phase": "q"}
RISKY = {"a": {"writes_flags": ["risky"], "outputs": ["risk"]}}


def asking_plan(*flow: Any, people: tuple[str, ...] = ()) -> GraphPlan:
    flags = {"risky": True, "note": 0, "more": False, "good": False}
    asks = {"people": [*people]} if people else {}
    return plan_of([*flow], RISKY, flags=flags, policy=policy(), interrupts=asks)


def loaded(sim: Simulation, then: CrewState) -> RestoreStateResult:
    """A checkpoint of a run, as a worker loads it."""
    plan = sim.engine.plan
    return RestoreStateResult(
        position=then.position,
        state=then.to_json(),
        definition={},
        plan=plan.to_json(),
        widens=(),
        compared=plan.definition,
    )


OPS, BOSS = {"ops", "boss", "ada"}, {"boss", "ada"}


@pytest.mark.parametrize(
    ("flow", "content", "who"),
    [
        (("a", {**ASK, "only_if": "risky"}, "b"), {"set": {"flags.risky": False}}, BOSS),
        (("a", {**ASK, "only_if": "risky"}, "b"), {"delete": ["flags.risky"]}, BOSS),
        (("a", {**ASK, "only_if": "risky"}, "b"), {"set": {"flags.note": 1}}, OPS),
        (("a", {**ASK, "only_if": "a.risk > 1"}, "b"), {"set": {"outputs.a.risk": 0}}, BOSS),
        (("a", {"if": "not risky", "go": "b"}, ASK, "b"), {"set": {"flags.risky": False}}, BOSS),
        (("a", {"if": "not risky", "go": "b"}, "c", "b"), {"set": {"flags.risky": False}}, OPS),
        (
            ("a", {"if": "not good", "go": "a", "at_most": 3}, ASK, "b"),
            {"set": {"flags.good": True}},
            BOSS,
        ),
        (({"agent": "a", "when": "good"}, "b"), {"set": {"flags.good": True}}, BOSS),
    ],
)
async def test_an_edit_that_decides_whether_people_are_asked_needs_answer(
    flow: tuple[Any, ...], content: dict[str, Any], who: set[str]
) -> None:
    plan = asking_plan(*flow)
    for name in RIGHTS:
        sim = await Simulation.begin(plan, final)
        await (sim.settle() if isinstance(flow[0], str) else sim.run())
        found = await send(sim, name, "edit_state", **content)
        assert (found.error is None) is (name in who), found.error
        assert found.error is None or isinstance(found.error, NotPermitted)


@pytest.mark.parametrize(
    ("flow", "node", "who"),
    [
        (("a", {"if": "not risky", "go": "b"}, ASK, "b"), "b", BOSS),
        (("a", {"if": "not risky", "go": "b"}, ASK, "b"), "q", BOSS),
        (("a", {"if": "not risky", "go": "c"}, "b", "c"), "c", OPS),
        (("a", {"if": "not good", "go": "a", "at_most": 3}, "b", ASK, "c"), "b", BOSS),
    ],
)
async def test_a_redirect_needs_answer_only_if_the_flow_asks_people(
    flow: tuple[Any, ...], node: str, who: set[str]
) -> None:
    for name in RIGHTS:
        sim = await Simulation.begin(asking_plan(*flow), final)
        await sim.settle()
        found = await send(sim, name, "redirect", node=node)
        assert (found.error is None) is (name in who), found.error


LOOP = ("a", ASK, "b", {"if": "not more", "go": "a", "at_most": 3})


async def answered_once(plan: GraphPlan) -> tuple[Simulation, CrewState, CrewState]:
    """A run whose question was approved, with its states before and after the answer."""
    sim = await Simulation.begin(plan, final)
    await sim.run()
    before = sim.state
    await answer(sim.engine, sim.asked(), "approve", by="mia", command=None)
    then = sim.state
    await sim.run()
    return sim, before, then


@pytest.mark.parametrize("people", [(), ("boss",), ("ada",)])
async def test_a_rollback_to_behind_a_question_needs_answer(people: tuple[str, ...]) -> None:
    who = {"ada"} if people == ("ada",) else BOSS
    for name in RIGHTS:
        sim, _, then = await answered_once(asking_plan(*LOOP, people=people))
        found = await send(sim, name, "rollback", loaded(sim, then), position=then.position)
        assert (found.error is None) is (name in who), found.error
        if name == "ops":
            assert "the place of the run behind q, which asks people" in str(found.error)


async def test_a_rollback_to_before_a_question_needs_only_operate() -> None:
    sim, before, _ = await answered_once(asking_plan(*LOOP))
    found = await send(sim, "ops", "rollback", loaded(sim, before), position=before.position)
    assert found.error is None
    assert sim.asked().step == "q#3"


async def test_a_value_that_an_agent_sets_again_needs_no_answer() -> None:
    plan = asking_plan("a", "x", {**ASK, "only_if": "risky or a.risk"}, "b")
    sim = await Simulation.begin(plan, final)
    await sim.settle()
    first = sim.state
    await sim.run()
    output = {AgentName("a"): {"risk": Output(value=7, position=2)}}
    flags = {**first.flags, "risky": 7}
    later = sim.state.model_copy(update={"agent_outputs": output, "flags": flags})
    assert touched(plan, later, first) == []
    edited = first.model_copy(update={"flags": {**first.flags, "note": 7}})
    assert touched(plan, edited, first) == []
    assert touched(plan, later, sim.state) == ["flow", "flow"]


async def test_a_rollback_that_changes_what_a_question_reads_needs_answer() -> None:
    plan = asking_plan("a", "x", {**ASK, "only_if": "risky or a.risk"}, "b")
    for name in RIGHTS:
        sim = await Simulation.begin(plan, final)
        await sim.run()
        output = {AgentName("a"): {"risk": Output(value=7, position=2)}}
        then = sim.state.model_copy(update={"agent_outputs": output})
        found = await send(sim, name, "rollback", loaded(sim, then), position=then.position)
        assert (found.error is None) is (name in BOSS), found.error
        if name == "ops":
            assert "outputs.a.risk, which the flow that asks people reads" in str(found.error)


@pytest.mark.parametrize(
    ("now", "then", "other"),
    [(True, False, False), (True, True, False), (False, True, True), (None, True, True)],
)
async def test_a_rollback_may_take_an_answer_back_but_not_restore_one(
    now: bool | None, then: bool, other: bool
) -> None:
    plan = plan_of(["a", {"ask": "Publish?", "sets": "ok"}, "b"], flags={"ok": False})
    state = (await Simulation.begin(plan, final)).state
    at, back = (state.model_copy(update={"flags": {"ok": each}}) for each in (now, then))
    assert ("flow" in touched(plan, at, back)) is other


def start_error(who: str, given: dict[str, Any], plan: GraphPlan) -> ApplicationError | None:
    """The error of a signed start with an initial state."""
    data = StartRun(crew="crew", by=who, initial_state=InitialState.from_json(given)).to_json()
    text = signed_text("sim", START, FOREVER, data, "")
    signature = base64.b64encode(KEYS[who].sign(text)).decode()
    data["proof"] = {"key": public(who), "expires": FOREVER, "signature": signature}
    start = StartRun.model_validate(data)
    try:
        start, checked = authorize_start(start, data, plan.policy, "sim", 0)
        check_initial_state(start, checked, plan, RUN)
    except ApplicationError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("values", "who"),
    [
        ({"flags.closed": False}, {"ada"}),
        ({"outputs.a.risk": 0}, {"ada"}),
        ({"flags.ok": True}, {"ada", "boss"}),
        ({"flags.free": 1, "shared.closed": 1}, {"ada", "boss", "ops"}),
    ],
)
def test_an_initial_value_needs_the_right_of_an_edit(values: dict[str, Any], who: set[str]) -> None:
    for name in RIGHTS:
        error = start_error(name, {"values": values}, signed_plan())
        assert (error is None) is (name in who), error
        assert error is None or error.type == "NotPermitted"
    plan = signed_plan()
    open_plan = plan.model_copy(update={"policy": None})
    assert start_error("ops", {"values": values}, open_plan) is None
    asks = plan.interrupts.model_copy(update={"people": ("mia",)})
    error = start_error("boss", {"values": values}, plan.model_copy(update={"interrupts": asks}))
    assert (error is None) is ("ops" in who), "who is not asked does not answer"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"body": {"type": "human", "content": "x", "name": "ops"}, "log": "private:b"}, ""),
        ({"body": {"type": "human", "content": "x"}}, ""),
        ({"body": {"type": "human", "content": "x", "name": "ada"}}, "said by 'ada'"),
        ({"body": {"type": "human", "content": "x", "artifact": {}}}, "has artifact"),
        ({"body": {"type": "ai", "content": "x", "name": "b"}}, "of the type 'ai'"),
        ({"body": {"type": "tool", "content": "x", "tool_call_id": "c"}}, "of the type 'tool'"),
        ({"body": {"type": "system", "content": "x"}}, "of the type 'system'"),
    ],
)
def test_initial_messages_are_those_of_the_principal(message: dict[str, Any], told: str) -> None:
    given = {"messages": [message]}
    for who in ("ops", "ada") if told and "'ada'" not in told else ("ops",):
        error = start_error(who, given, signed_plan())
        assert told in str(error) if told else error is None
        assert error is None or error.type == "NotPermitted"
    assert start_error("ops", given, signed_plan().model_copy(update={"policy": None})) is None


@pytest.mark.parametrize("signed", [True, False])
def test_initial_messages_go_to_logs_with_readers(signed: bool) -> None:
    plan = signed_plan() if signed else signed_plan().model_copy(update={"policy": None})
    body = {"type": "human", "content": "x"}
    for log in ("private:bb", "artifact:a", "no such log", "group:x", "readers:a+zed"):
        for given in ({"messages": [{"body": body, "log": log}]}, {"logs": [log]}):
            error = start_error("ops", given, plan)
            assert error is not None, log
            assert error.type == "InvalidStart"
            assert f"nobody reads {log!r}" in error.message
    given = {"messages": [{"body": body, "log": "private:b"}], "logs": ["readers:a+b", "public"]}
    assert start_error("ops", given, plan) is None


def test_a_permission_that_people_took_away_is_not_given_back() -> None:
    a, b = AgentName("a"), AgentName("b")
    (touch,) = permission_touches({"write": ()}, {"write": (b,)}, [a, b])
    assert touch.text == "agent b may call write, which is forbidden now"
    assert not [*permission_touches({"write": (b,)}, {"write": ()}, [b])]
    assert not [*permission_touches({}, {"write": ()}, [b])]


@pytest.mark.parametrize(
    ("now", "then", "milder"),
    [
        ({"a": "deny"}, {}, True),
        ({"a": "deny"}, {"a": "ask"}, True),
        ({}, {"a": "allow"}, True),
        ({"a": "allow"}, {}, False),
        ({}, {"a": "ask"}, False),
    ],
)
def test_a_milder_permission_of_another_state_needs_grant(
    now: Any, then: Any, milder: bool
) -> None:
    before, after = (CrewState(run=RUN, live_permissions={"send": each}) for each in (now, then))
    assert bool([*live_permission_touches(before, after)]) is milder
