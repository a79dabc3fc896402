"""Conversations on real servers: turns, answers, and what holds over workers and executions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from covers import covers
from crewlog.canonical_json import canonical
from crewlog.client import Run
from crewlog.errors import (
    CommandRejected,
    ConversationBusy,
    CrewlogError,
    UsageError,
    WaitTimeout,
    WorkerMissing,
)
from crewlog.wire import ConversationView

from .harness import LIMIT, Site, calls, tool

NEXT = {"bill": "billing", "broken": "technician", "weather": "forecaster"}


def hub(site: Site, *spokes: str, **more: Any) -> dict[str, Any]:
    """A router that names a specialist by a word of the message, and the specialists."""
    router: list[dict[str, Any]] = [
        {"when": word, "of": "people", **calls(("set_output", {"key": "next", "value": agent}))}
        for word, agent in NEXT.items()
    ]
    router += [{"when": ".", "of": "tool", "text": "sorted"}, {"when": ".", "text": "hm"}]
    agents: dict[str, Any] = {
        "router": router,
        "billing": [{"when": "again", "text": "Paid again."}, {"when": ".", "text": "Paid."}],
        "technician": [{"when": ".", "fail": "refused", "times": 99, "text": "never"}],
    }
    agents |= more.pop("agents", {})
    rules = {"router": {"outputs": ["next"], "writes": []}, "technician": {"on_error": "continue"}}
    names = [*agents][1:]
    route = {"route": "router.next", "to": names, **more.pop("route", {})}
    flow = ["router", route, *({"agent": name, "after": "go"} for name in names)]
    talk = more.pop("conversation", {})
    return site.crew(agents, rules=rules, flow=flow, conversation=talk, **more)


async def rests(run: Run, exchange: int) -> None:
    """Waits until a turn is over, and the run waits for the next message."""
    await seen(run, lambda view: view.is_waiting and view.exchange == exchange)


async def seen(run: Run, holds: Callable[[ConversationView], bool]) -> None:
    """Waits until a conversation is as a test wants it."""
    async with asyncio.timeout(LIMIT):
        while not holds(await run.conversation()):  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.02)


def desk(site: Site, *after: Any, **conversation: Any) -> dict[str, Any]:
    """A hub whose specialist goes on once the gate `desk` is open."""
    agents = {"billing": [{"when": ".", "of": "tool", "text": "Paid."},
                          {"when": ".", **calls(("gate", {"name": "desk"}))}]}  # fmt: skip
    crew = hub(site, agents=agents, tools={"gate": tool("gate")}, conversation=conversation)
    return {**crew, "flow": [*crew["flow"], *after]}


async def gated(site: Site, crew: dict[str, Any], **options: Any) -> Run:
    """A conversation with a desk, in its first turn."""
    run = await site.start(crew, "my bill", **options)
    async with asyncio.timeout(LIMIT):
        while not site.ledger(run, "start"):  # noqa: ASYNC110 - a file tells
            await asyncio.sleep(0.02)
    return run


async def asking(run: Run, text: str, queued: int, id: str = "") -> asyncio.Task[Any]:
    """Asks, and waits until the message waits for its turn."""
    task = asyncio.create_task(run.send(text, id=id or text))
    await seen(run, lambda view: view.queued_messages == queued)
    return task


async def test_the_words_of_an_answer_are_kept_where_nobody_waited_for_it(crews: Site) -> None:
    run = await crews.start(hub(crews), "my bill")
    for turn in (2, 3):
        await run.wait_until(lambda view: view.wait_reason == "the next message", LIMIT)
        await run.message("the bill again")
        await rests(run, turn) if turn == 3 else await crews.spoken(run, "billing")
    last = (await run.conversation()).last_response
    assert last is not None
    assert (last.exchange, last.text) == (3, "Paid again.")


@covers("C61", "C65", "C68", "C72")
async def test_a_session_of_several_turns(crews: Site) -> None:
    run = await crews.start(hub(crews), "my bill")
    await rests(run, 1)
    view = await run.status()
    assert (view.status, view.wait_reason) == ("waiting", "the next message")
    first = (await run.conversation()).last_response
    assert first is not None
    assert (first.exchange, first.message, first.text, first.agent) == (
        1,
        "input",
        "Paid.",
        "billing",
    )
    reply = await run.send("the bill again", timeout=LIMIT)
    assert (reply.exchange, reply.text, reply.agent, reply.error) == (
        2,
        "Paid again.",
        "billing",
        "",
    )
    state = await run.state()
    assert state.execution_count == {"billing": 1}
    assert state.visits["billing"] == 2  # type: ignore[index]
    last = [p for p in crews.prompted(run) if p["agent"] == "billing"][-1]
    told = [m["content"] for m in last["messages"][1:]]
    assert told == ["my bill", "Paid.", "the bill again"]
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"


@covers("C67", "C69")
async def test_whatever_the_router_says_the_user_gets_an_answer(crews: Site) -> None:
    run = await crews.start(hub(crews), "")
    await rests(run, 0)
    reply = await run.send("the weather", timeout=LIMIT)
    assert reply.agent is None
    assert "router.next is 'forecaster', none of billing or technician" in reply.error
    reply = await run.send("nothing of that kind", timeout=LIMIT)
    assert "router.next was not set" in reply.error
    reply = await run.send("it is broken", timeout=LIMIT)
    state = await run.state()
    assert reply.agent is None
    assert state.error
    assert reply.error == state.error
    assert "Sorry" in reply.text
    reply = await run.send("my bill", timeout=LIMIT)
    assert (reply.text, (await run.state()).error) == ("Paid.", "")


@covers("C71")
async def test_an_unknown_name_goes_to_the_fallback(crews: Site) -> None:
    crew = hub(crews, route={"to": ["technician"], "else": "billing"})
    run = await crews.start(crew, "the weather")
    await rests(run, 1)
    last = (await run.conversation()).last_response
    assert last is not None
    assert last.agent == "billing"
    (refused,) = await crews.entries(run, "BranchTargetRefused")
    assert refused.goes == "billing"


@covers("C70")
async def test_the_answer_is_of_the_agent_that_is_to_respond(crews: Site) -> None:
    agents = {name: [{"when": ".", "text": f"I am {name}."}] for name in ("one", "two")}
    for respond, agent in (["one"], "one"), ([], "two"):
        crew = crews.crew(agents, conversation={"respond": respond})
        run = await crews.start(crew, "")
        assert (await run.send("Who?", timeout=LIMIT)).text == f"I am {agent}."


async def test_messages_during_a_turn_are_answered_in_order(crews: Site) -> None:
    run = await gated(crews, desk(crews, queue=2))
    asked = [await asking(run, "bill 1", 1, id="m1"), await asking(run, "bill 2", 2, id="m2")]
    with pytest.raises(ConversationBusy, match="2 messages wait"):
        await run.send("bill 3", timeout=LIMIT)
    crews.open_gate(run, "desk")
    replies = await asyncio.gather(*asked)
    assert [(r.exchange, r.message) for r in replies] == [(2, "m1"), (3, "m2")]
    again = await run.send("bill 2", id="m2", timeout=LIMIT)
    assert again == replies[1]
    began = await crews.entries(run, "ExchangeStarted")
    assert [each.message_command for each in began] == ["input", "m1", "m2"]
    # What a message says that has waited is there for the first call of its turn.
    history = await crews.temporal.get_workflow_handle(run.id).fetch_history()
    begun = [each.activity_task_started_event_attributes for each in history.events]
    assert max(each.attempt for each in begun) == 1


@covers("C72")
async def test_a_session_over_many_executions_carries_no_more(crews: Site) -> None:
    run = await crews.start(hub(crews, limits={"events": 60}), "my bill")
    await rests(run, 1)
    sizes: list[int] = []
    for turn in range(2, 22):
        reply = await run.send("the bill again", timeout=LIMIT)
        assert (reply.exchange, reply.text) == (turn, "Paid again.")
        sizes.append(len(canonical((await run.state()).to_json())))
    state = await run.state()
    assert state.execution > 3
    assert sizes[-1] - sizes[9] < 20 * 150  # outcomes of commands, which have a bound of their own
    last = [p for p in crews.prompted(run) if p["agent"] == "billing"][-1]
    assert sum(m["content"] == "Paid again." for m in last["messages"]) == 19


@covers("C68")
async def test_a_count_and_a_turn_hold_where_a_worker_is_killed(site: Site) -> None:
    queue = "talks"
    worker = await site.start_worker(queue)
    back = {"if": "router.next == 'billing'", "go": "router", "at_most": 9, "after": ["billing"]}
    run = await gated(site, desk(site, back), queue=queue)
    worker.kill()
    with pytest.raises((WorkerMissing, WaitTimeout)):  # it may be taken, or not
        await run.send("my bill", id="m1", timeout=1)
    await site.start_worker(queue)
    site.open_gate(run, "desk")
    reply = await run.send("my bill", id="m1", timeout=LIMIT)
    assert (reply.exchange, reply.text, reply.error) == (2, "Paid.", "")
    assert await run.send("my bill", id="m1", timeout=LIMIT) == reply
    assert (await run.state()).execution_count == {"billing": 2}, "the try that is refused counts"
    await run.stop()
    await run.result(LIMIT)
    began = await site.entries(run, "ExchangeStarted")
    assert [each.message_command for each in began] == ["input", "m1"], (
        "sent three times, answered once"
    )
    # The bound was counted by a worker that is gone; who asked is told all the same.
    bound = "the run went to billing once, the most"
    for ended in await site.entries(run, "ExchangeEnded"):
        assert bound in ended.warning
    assert bound in reply.warning
    site.end_workers(queue)


async def test_it_ends_in_silence_and_is_taken_up_again(crews: Site) -> None:
    run = await crews.start(hub(crews, conversation={"idle": "300ms"}), "my bill")
    assert (await run.result(LIMIT)).status == "completed"
    with pytest.raises(CommandRejected):
        await run.send("my bill", timeout=LIMIT)
    reply = None
    while reply is None:
        await run.reopen()
        with suppress(CommandRejected):  # on a busy machine it is silent for too long once more
            reply = await run.send("the bill again", timeout=LIMIT)
    assert (reply.exchange, reply.text) == (2, "Paid again.")
    assert (await run.result(LIMIT)).status == "completed"
    run = await crews.start(hub(crews), "my bill")
    await rests(run, 1)
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"
    await run.reopen()
    assert (await run.send("the bill again", timeout=LIMIT)).exchange == 2


async def test_going_back_and_forking_a_session(crews: Site) -> None:
    run = await crews.start(hub(crews), "my bill")
    await rests(run, 1)
    await run.send("the bill again", timeout=LIMIT)
    turns = [c for c in (await run.checkpoints()).checkpoints if c.kind == "exchange"]
    assert [each.exchange for each in turns] == [1, 2]
    assert await run.position_of("exchange:1") == turns[0].position
    assert await run.position_of("billing#1") < turns[0].position
    with pytest.raises(UsageError, match="no exchange 'exchange:9'") as caught:
        await run.fork("exchange:9")
    assert "exchange:1, exchange:2" in caught.value.remedy
    other = await run.fork("exchange:1")
    crews.runs.append(other)
    reply = await other.send("the bill again", timeout=LIMIT)
    assert (reply.exchange, reply.text) == (2, "Paid again.")
    await run.rollback("exchange:1")
    reply = await run.send("the weather", timeout=LIMIT)
    assert reply.exchange == 3
    assert (await run.state_at(await run.position_of("exchange:2"))).conversation.exchange == 2  # type: ignore[union-attr]
    prompt = [p for p in crews.prompted(run) if p["agent"] == "router"][-1]
    said = [m["content"] for m in prompt["messages"]]
    assert not [text for text in said if "again" in text]


@covers("C73")
async def test_a_new_specialist_is_configuration_only(crews: Site) -> None:
    run = await crews.start(hub(crews), "the weather")
    await rests(run, 1)
    crew = hub(crews, agents={"forecaster": [{"when": ".", "text": "Rain."}]})
    await run.change(definition=crew)
    reply = await run.send("the weather", timeout=LIMIT)
    assert (reply.agent, reply.text) == ("forecaster", "Rain.")


async def test_a_question_to_people_is_asked_in_mid_turn(crews: Site) -> None:
    agents = {"billing": [calls(("echo", {"text": "x"})), {"text": "Paid."}]}
    crew = hub(crews, agents=agents, tools={"echo": tool("echo")}, approvals={"echo": None})
    run = await crews.start(crew, "")
    sent = asyncio.create_task(run.send("my bill"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    await run.answer(asked.id, "approve")
    assert (await sent).text == "Paid."


async def test_asking_starts_a_session_and_goes_on_with_it(crews: Site) -> None:
    crew, client = hub(crews), crews.client()
    result = await client.ask(crew, "my bill", id="session-ask", timeout=LIMIT)
    crews.runs.append(client.run("session-ask"))
    assert result.status == "waiting"
    assert result.response is not None
    assert result.outputs == {"billing": {"text": "Paid."}}
    result = await client.ask(crew, "the bill again", id="session-ask", timeout=LIMIT)
    assert result.response is not None
    assert (result.response.exchange, result.response.text) == (2, "Paid again.")


async def test_who_is_no_conversation_says_so(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"stall": 1, "text": "done"}]}))
    with pytest.raises(CommandRejected, match="is not a conversation"):
        await run.send("hello", timeout=LIMIT)


async def test_whoever_asks_beside_five_others_is_answered_or_refused(crews: Site) -> None:
    run = await gated(crews, desk(crews, queue=6))
    waiting = [await asking(run, f"bill {n}", n) for n in range(1, 6)]
    sixth = asyncio.create_task(run.send("bill 6", id="bill 6"))
    await seen(run, lambda view: view.queued_messages == 6)
    with pytest.raises(ConversationBusy, match="6 messages wait for their turns"):
        await run.send("bill 7", timeout=LIMIT)
    client = crews.client()
    with pytest.raises(ConversationBusy, match="6 messages wait for their turns"):
        await client.ask(hub(crews), "bill 8", id=run.id, timeout=LIMIT)
    crews.open_gate(run, "desk")
    async with asyncio.timeout(LIMIT):
        replies = await asyncio.gather(*waiting, sixth)
    assert [each.message for each in replies] == [f"bill {n}" for n in range(1, 7)]
    assert {each.text for each in replies} == {"Paid."}


@pytest.mark.parametrize("how", ["stop", "terminate", "ordinary"])
async def test_nobody_waits_for_a_session_that_is_over(crews: Site, how: str) -> None:
    crew = desk(crews)
    run = await gated(crews, crew)
    waiting = [await asking(run, f"bill {n}", n) for n in range(1, 6)]
    waiting.append(asyncio.create_task(run.send("bill 6", id="bill 6")))
    await seen(run, lambda view: view.queued_messages == 6)
    if how == "ordinary":
        await run.change(definition={**crew, "conversation": None})
    else:
        await (run.stop() if how == "stop" else run.terminate("over"))
    crews.open_gate(run, "desk")
    async with asyncio.timeout(LIMIT):
        found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, CrewlogError) for each in found), found


async def test_who_asked_is_answered_after_a_rollback_in_the_middle_of_the_turn(
    crews: Site,
) -> None:
    run = await gated(crews, desk(crews))
    crews.open_gate(run, "desk")
    await rests(run, 1)
    (turn,) = [c for c in (await run.checkpoints()).checkpoints if c.kind == "exchange"]
    (crews.root / "ledger" / f"{run.id}.desk.open").unlink()
    sent = asyncio.create_task(run.send("bill again", id="m2"))
    await run.wait_until(lambda view: any(s.node == "billing" for s in view.frontier), LIMIT)
    await run.rollback(turn.position)
    crews.open_gate(run, "desk")
    async with asyncio.timeout(LIMIT):
        reply = await sent
    assert (reply.exchange, reply.message, reply.text) == (3, "m2", "Paid.")
