"""The feature crew on real servers: people approve its plan, and pytest finds its bug."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from covers import covers
from crewlog.client import Run
from crewlog.wire import InterruptView

from .harness import LIMIT, Site

EXAMPLE = Path(__file__).parents[2] / "examples" / "feature_crew"
QUEUE = "feature"


def crew_of() -> dict[str, Any]:
    """The example, with its script where a worker finds it that was not started beside it."""
    crew: dict[str, Any] = yaml.safe_load((EXAMPLE / "crew.yaml").read_text())
    return crew | {"model": f"scripted:{EXAMPLE / 'feature.script.yaml'}"}


async def asked(run: Run) -> InterruptView:
    """The question that the run waits on."""
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    return question


@covers("C39", "C45", "C46", "C47", "C48", "C49", "C52", "C53", "C54", "C55", "C56", "C57", "C58")
async def test_a_feature_is_planned_approved_built_tested_and_mended(site: Site) -> None:
    await site.start_worker(QUEUE, PYTHONPATH=str(EXAMPLE))
    run = await site.start(crew_of(), "Prices, a cart, and how it is used.", queue=QUEUE)
    question = await asked(run)
    assert question.question == "Build it by this plan?"
    first, second, third = question.detail.splitlines()
    assert first.startswith("1. prices (pricing): Write shop/pricing.py")
    assert second.startswith("2. cart (cart, after prices): ")
    assert third.startswith("3. docs (writer): ")
    await run.answer(question.id, "go", by="ana")
    result = await run.result(LIMIT * 2)
    site.end_workers(QUEUE)
    assert result.status == "completed"
    assert result.outputs["tests"]["passed"] is True
    found = await run.report()
    steps = {step.step: step for step in found.steps}
    bugs = {bug["agent"]: bug for bug in steps["tests#1"].values["tests.signals"].plain}
    assert {(bug["type"], bug["severity"]) for bug in bugs.values()} == {("test_failure", "error")}
    assert "test_ten_or_more_of_one_are_ten_percent_cheaper: " in bugs["pricing"]["detail"]
    assert steps["tests#2"].values["tests.passed"].plain is True
    # Only whom the review names works again, and once.
    assert [item.agent for item in steps["workers#1"].items] == ["pricing", "cart", "writer"]
    assert [item.agent for item in steps["rework#2"].items] == ["pricing"]
    # From the beginning to the end, in order; the round that mends goes by its own way.
    began = [each.step.partition(".")[0] for each in await site.entries(run, "StepStarted")]
    phases = list(dict.fromkeys(began))
    order = ["init#1", "router#1", "planner#1", "gate#1", "workers#1", "gather#1"]
    order += ["reviewer#1", "rework#2", "reviewer#2", "judge#1", "finisher#1"]
    assert [each for each in phases if each in order] == order
    for name in ("tests", "compiler", "linter"):  # gathered before, and reviewed behind
        at = phases.index(f"{name}#1")
        assert phases.index("gather#1") < at < phases.index("reviewer#1")
    assert phases[-1] == "finisher#1"
    workspace = site.root / "workspace" / run.id
    assert "count >= 10" in (workspace / "shop/pricing.py").read_text()
    assert [each.item_count for each in found.item_lists] == [3, 1]
    assert [each.by for each in found.decisions if each.kind == "person"] == ["ana"]
    assert {"router", "planner", "reviewer", "judge"} == {
        each.by for each in found.decisions if each.kind == "reply"
    }
    assert found.summary.plain.startswith("The shop has prices")


async def test_whatever_people_answer_at_the_gate_works_offline(site: Site) -> None:
    record = site.root / "prompts"
    environ = {"PYTHONPATH": str(EXAMPLE), "CREWLOG_SCRIPT_RECORD": str(record)}
    await site.start_worker(QUEUE, **environ)
    crew = crew_of()
    run = await site.start(crew, "Prices, a cart, and how it is used.", queue=QUEUE)
    other = await site.start(crew, "The same, and then not.", queue=QUEUE)
    question = await asked(run)
    assert (question.options, question.text_option) == (("go", "planner", "stop"), "planner")
    await run.answer(question.id, "write the docs last", by="ana")
    question = await asked_anew(run, question)
    assert "3. docs (writer, after cart): " in question.detail
    await run.answer(question.id, "planner", by="ana")
    question = await asked_anew(run, question)
    assert question.detail.startswith("1. docs (writer): ")
    await run.answer(question.id, "go", by="ana")
    stopped = await asked(other)
    await other.answer(stopped.id, "stop", by="ana")
    result = await run.result(LIMIT * 2)
    assert (await other.result(LIMIT)).status == "stopped"
    site.end_workers(QUEUE)
    assert result.status == "completed"
    assert result.outputs["tests"]["passed"] is True
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    told = {each["agent"] for each in calls if "write the docs last" in json.dumps(each)}
    assert told == {"planner"}, "words at the gate are for the planner alone"


async def asked_anew(run: Run, before: InterruptView) -> InterruptView:
    """The question that comes after another one."""
    await run.wait_until(lambda view: {*view.interrupts} - {before.id} != set(), LIMIT)
    (question,) = await run.interrupts()
    return question
