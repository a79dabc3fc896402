"""The feature crew on real servers: people approve its plan, and pytest finds its bug."""

from __future__ import annotations

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
    await run.respond(question.id, "go", by="ana")
    result = await run.result(LIMIT * 2)
    site.end_workers(QUEUE)
    assert result.status == "completed"
    assert result.outputs["tests"]["passed"] is True
    found = await run.report()
    steps = {step.step: step for step in found.steps}
    bugs = {bug["agent"]: bug for bug in steps["tests#1"].sets["tests.signals"].plain}
    assert {(bug["type"], bug["severity"]) for bug in bugs.values()} == {("test_failure", "error")}
    assert "test_ten_or_more_of_one_are_ten_percent_cheaper: " in bugs["pricing"]["detail"]
    assert steps["tests#2"].sets["tests.passed"].plain is True
    # Only whom the review names works again, and once.
    assert [item.agent for item in steps["workers#1"].items] == ["pricing", "cart", "writer"]
    assert [item.agent for item in steps["rework#2"].items] == ["pricing"]
    workspace = site.root / "workspace" / run.id
    assert "count >= 10" in (workspace / "shop/pricing.py").read_text()
    assert [plan.of for plan in found.plans] == [3, 1]
    assert [each.who for each in found.decisions if each.kind == "person"] == ["ana"]
    assert {"router", "planner", "reviewer", "judge"} == {
        each.who for each in found.decisions if each.kind == "reply"
    }
    assert found.summary.plain.startswith("The shop has prices")
