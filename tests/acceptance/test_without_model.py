"""Agents without a model on real servers: what they call, what it sets, and who is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covers import covers

from .harness import LIMIT, Site, tool, until


def doing(site: Site, *does: Any, tools: dict[str, Any], **agent: Any) -> dict[str, Any]:
    """A crew of `a`, which asks no model, and of `b`, which sees what it says."""
    rules = {"a": {"does": list(does), **agent}}
    return site.crew({"a": [], "b": [{"text": "B"}]}, rules=rules, tools=tools)


async def test_what_an_agent_does_is_called_and_its_result_sets_its_outputs(crews: Site) -> None:
    crew = doing(crews, "done", tools={"done": tool("done")}, outputs=["items", "done"])
    run, result = await crews.finish(crew)
    assert (result.outputs["a"]["done"], result.outputs["a"]["items"]) == (True, [1, 2, 3])
    assert (result.usage["a"].calls, result.usage["a"].tool_calls) == (0, 1)
    (asked,) = crews.prompted(run)
    assert asked["agent"] == "b"
    assert '"items": [1, 2, 3]' in asked["messages"][-1]["content"]


async def test_a_call_that_waits_for_a_yes_or_fails_asks_people(crews: Site) -> None:
    tools = {"echo": tool("echo"), "raises": tool("raises")}
    does = [{"tool": "echo", "args": {"text": "x"}}, {"tool": "raises", "args": {"kind": "value"}}]
    crew = doing(crews, *does, tools=tools, in_order=True) | {"approvals": {"echo": None}}
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.action_requests[0]["args"]) == ("tool_approval", {"text": "x"})
    assert not crews.ledger(run, "start")
    await run.answer(asked.id, "approve")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, "the oven is cold" in asked.question) == ("step_failed", True)
    await run.answer(asked.id, "skip")
    assert (await run.result(LIMIT)).status == "completed"
    assert [e["tool"] for e in crews.ledger(run, "start")] == ["echo", "raises"]


@covers("C58")
async def test_a_report_tells_what_came_of_a_run_while_it_goes_on_and_in_the_end(
    crews: Site,
) -> None:
    tools = {"done": tool("done"), "raises": tool("raises")}
    crew = doing(crews, "done", tools=tools, outputs=["items"])
    crew["agents"]["b"] |= {"does": [{"tool": "raises", "args": {"kind": "value"}}]}
    run = await crews.start(crew, "Count the loaves.")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    found = await run.report()
    assert (found.status, [(each.id, each.question) for each in found.interrupts]) == (
        "waiting",
        [(asked.id, "b#1 failed: raises: ValueError: the oven is cold")],
    )
    await run.answer(asked.id, "skip", by="ana", reason="bread is bought")
    await run.result(LIMIT)
    found = await run.report()
    assert (found.status, found.input.plain) == ("completed", "Count the loaves.")
    assert found.summary.plain == '{"done": true, "items": [1, 2, 3]}'
    assert found.outputs["a"]["items"].plain == [1, 2, 3]
    assert [(e.step, e.type) for e in found.errors] == [("b#1", "CallFailed")]
    (decided,) = found.decisions
    assert (decided.by, decided.reason) == ("ana", "bread is bought")
    assert (await run.report(found.position - 4)).status == "waiting"


async def test_a_killed_worker_leaves_one_turn_with_one_effect(site: Site) -> None:
    does = [{"tool": "pay", "args": {"amount": 5, "name": "g"}}]
    crew = doing(site, *does, tools={"pay": tool("pay", "keyed", effects="external")})
    victim = await site.start_worker("without-model")
    run = await site.start(crew, queue="without-model")
    await until(lambda: site.ledger(run, "paid"), "the payment")
    victim.kill()
    site.open_gate(run, "g")
    await site.start_worker("without-model")
    result = await run.result(LIMIT)
    site.end_workers("without-model")
    assert result.outputs["a"]["text"] == "paid 5"
    assert [e["event"] for e in site.ledger(run)] == ["start", "paid", "start", "known"]


HANGS = """
import os, subprocess, time

def test_hangs():
    away = subprocess.Popen(["sleep", "300"], start_new_session=True)
    open("pids", "a").write(f"{os.getpid()} {away.pid}\\n")
    while not os.path.exists("go"):
        time.sleep(0.05)
"""


@covers("C52", "C53")
async def test_an_evaluator_that_hangs_is_a_signal_and_leaves_nothing(site: Site) -> None:
    definition = {"run": "crewlog.evaluators:run_pytest", "effects": "write", "retry": "safe"}
    crew = doing(
        site,
        {"tool": "run_pytest", "args": {"timeout": 5, "owners": {"b": ["test_it.py"]}}},
        tools={"run_pytest": definition | {"timeout": 60, "heartbeat": 1}},
        outputs=["signals", "passed"],
    )
    folder = site.root / "workspace" / "hangs"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(HANGS)
    victim = await site.start_worker("hanging")
    run = await site.start(crew, queue="hanging", id="hangs")
    await until(lambda: pids(folder), "the test")
    victim.kill()  # while it runs: the guard sees that, and the next worker runs it again
    await until(lambda: not any(map(alive, pids(folder))), "the end of what was begun")
    await site.start_worker("hanging")
    result = await run.result(LIMIT)
    site.end_workers("hanging")
    (signal,) = result.outputs["a"]["signals"]
    assert (signal["type"], signal["severity"]) == ("test_failure", "error")
    assert signal["detail"].startswith("pytest did not end within 5 s, and was ended")
    assert (result.status, result.outputs["a"]["passed"]) == ("completed", False)
    assert "did not end within 5 s" in result.outputs["a"]["text"]
    assert len(pids(folder)) == 4
    await until(lambda: not any(map(alive, pids(folder))), "the end of all of it")


def pids(folder: Path) -> list[int]:
    """The processes that the tests have started, whole lines of them."""
    file = folder / "pids"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [int(pid) for line in lines if line.endswith("\n") for pid in line.split()]


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return said.rpartition(")")[2].split()[0] != "Z"
