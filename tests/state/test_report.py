"""The report of a run follows from its journal alone."""

from __future__ import annotations

from crewlog.cli.reported import in_markdown
from crewlog.cli.screen import counted
from crewlog.ids import AgentName, ContentHash, CrewName, FlagName, RunId
from crewlog.model import Json
from crewlog.reporting.report.builder import run_report, with_bodies
from crewlog.reporting.report.view import ReportView
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.checkpoints import EXCHANGE_PREFIX
from crewlog.state.journal import entry_from_json
from graph.crews import plan_of
from graph.simulation import Failure, Replies, Simulation, crew_run, returns, run, says

TOOLS = {"plan": {"run": "m:f"}, "work": {"run": "m:f"}}
ITEMS = [{"id": "cart", "agent": "w", "task": "Build the cart"}, {"id": "api", "task": "a | b"}]


def report_on(sim: Simulation) -> ReportView:
    return run_report(enumerate(map(entry_from_json, sim.journal), 1))


async def finished() -> Simulation:
    plan = plan_of(
        [
            "p",
            {"ask": "Build it so?", "phase": "gate", "sets": "ok"},
            {"agent": "w", "for_each": "p.steps"},
            {"if": "not ok", "go": "p", "at_most": 2},
            "last",
        ],
        {"p": {"outputs": ["steps"], "tools": ["plan"]}, "w": {"on_error": "continue"}},
        tools=TOOLS,
    )
    script = Replies(
        {"p#1": [says("", "plan"), says("Two steps.")], "w#1.2": [Failure("no luck")]},
        {"plan": returns(outputs=(OutputValue(key="steps", value=ITEMS),))},
    )
    sim = await run(plan, script)
    await sim.answer("approve", by="ana")
    return await sim.run()


async def test_it_tells_the_plan_who_decided_and_what_came_of_it() -> None:
    sim = await finished()
    found = report_on(sim)
    assert (found.status, found.run, found.crew) == ("completed", "sim", "t")
    (plan,) = found.item_lists
    assert (plan.source, plan.item_count, plan.items.plain) == ("p.steps", 2, ITEMS)
    assert plan.statuses == ("completed", "completed")
    told = [(each.kind, each.by, each.decision) for each in found.decisions]
    assert ("person", "ana", "Build it so? approve") in told
    (wrong,) = found.errors
    assert (wrong.step, wrong.agent, wrong.error) == ("w#1.2", "w", "no luck")
    assert (found.agents[AgentName("w")].steps, found.agents[AgentName("w")].errors) == (2, 1)
    assert found.agents[AgentName("p")].tools == {"plan": 1}
    assert found.outputs[AgentName("p")]["steps"].plain == ITEMS
    assert found.flags[FlagName("ok")] is True
    assert found.summary_agent == "last"
    assert found.usage == sum(sim.state.usage.values(), type(found.usage)())


async def test_values_in_bodies_are_named_and_put_in() -> None:
    found = report_on(await finished())
    body = found.summary.body
    assert body in found.bodies
    bodies: dict[ContentHash, Json] = {ContentHash(str(body)): {"type": "ai", "content": "Done."}}
    assert with_bodies(found, bodies).summary.plain == "Done."
    assert run_report([]).status == "running"


async def test_in_markdown_nothing_that_was_said_is_rendered() -> None:
    found = report_on(await finished())
    ill = found.model_copy(
        update={"summary": found.summary.model_copy(update={"value": "```\n# x"})}
    )
    page = "\n".join(in_markdown(ill))
    assert "| ✓ | cart | w | Build the cart |" in page
    assert "`a \\| b`" in page
    assert "````text\n```\n# x\n````" in page


async def test_of_any_run_it_is_made_and_is_what_the_state_says() -> None:
    for seed in range(12):
        sim = await crew_run(seed)
        found = report_on(sim)
        assert ReportView.model_validate_json(found.model_dump_json()) == found
        assert (found.status, found.position) == (sim.state.status, sim.state.position)
        assert found.step_count == sim.state.steps
        assert f" · {counted(sim.state.steps, 'step')} · " in "\n".join(in_markdown(found))
        assert {step.step for step in found.steps} >= set(sim.state.frontier) - {
            item.step for step in found.steps for item in step.items
        }
        assert list(in_markdown(found))


def test_the_exchanges_of_a_conversation_have_their_responses() -> None:
    said, answer = ContentHash("said"), ContentHash("answer")
    journal: list[j.JournalEntry] = [
        j.RunStarted(run=RunId("desk-1"), crew=CrewName("desk"), definition=ContentHash("d")),
        j.ExchangeEnded(exchange=0),
        j.ExchangeStarted(exchange=1, by="ana", body=said),
        j.ExchangeEnded(exchange=1, agent=AgentName("bills"), response=answer),
        j.ExchangeStarted(exchange=2, by="ana", body=said),
    ]
    found = run_report(enumerate(journal, 1))
    first, second = with_bodies(found, {said: "my bill", answer: "Paid."}).exchanges
    assert (first.exchange, first.by, first.message.plain, first.end_position) == (
        1,
        "ana",
        "my bill",
        4,
    )
    assert (first.agent, first.response.plain) == ("bills", "Paid.")
    assert (second.exchange, second.end_position, second.response.plain) == (2, 0, None)
    lines = list(in_markdown(with_bodies(found, {said: "my bill", answer: "Paid."})))
    assert f"## {EXCHANGE_PREFIX.capitalize()}1, answered by bills" in lines
    assert lines[lines.index("> my bill") + 1] == "Paid."
    assert "(goes on)" in lines
