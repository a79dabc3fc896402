"""Real runs on real servers, through the command line alone."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from covers import covers

from .conftest import ROOT, Cli

NOWHERE = "postgresql://x@127.0.0.1:2/x"
pytestmark = pytest.mark.server


def fresh(name: str) -> str:
    return f"{name}-{uuid4().hex[:6]}"


@covers("C37")
def test_the_demo_runs_to_its_end(crewlog: Cli) -> None:
    run = fresh("music")
    done = crewlog("demo", "--id", run)
    assert done.code == 0, done.err
    assert "▸ model: scripted (set OPENAI_API_KEY for a real one)" in done.out
    assert f"crew flutter-music-app · run {run} · graph v1" in done.out
    assert "ui_designer  ⚙ write_file lib/screens/player.dart" in done.out
    assert "backend      ⚑ models_ready" in done.out
    assert "done  4 steps · 10 tool calls asked for · 11,900 tokens" in done.out
    assert f"Look     crewlog report {run}" in done.out
    assert "\x1b" not in done.out
    workspace = ROOT / "examples" / "flutter_music_app" / "workspace" / run
    files = sorted(str(f.relative_to(workspace)) for f in workspace.rglob("*") if f.is_file())
    assert len(files) == 7
    assert "lib/audio/player_service.dart" in files
    assert "seedColor: const Color(0xFF7C4DFF)" in (workspace / "lib/theme.dart").read_text()

    shutil.rmtree(workspace)

    page = crewlog("show", run)
    assert page.code == 0
    assert "✓ aggregator ── ✓ audio" in page.out
    assert "models_ready = true" in page.out
    found = crewlog("log", run, "--json").records
    assert [item["position"] for item in found] == list(range(1, len(found) + 1))
    assert found[0]["entry"]["kind"] == "RunStarted"
    assert found[-1]["entry"]["kind"] == "RunCompleted"
    listed = crewlog("ps", "--all", "--json").records[0]["runs"]
    assert (run, "completed") in {(each["run"], each["status"]) for each in listed}


def test_dev_tells_where_things_are(served: dict[str, Any]) -> None:
    assert served["task_queue"] == "crewlog"
    assert served["crew"] == "two"
    assert served["ui_url"].startswith("http://localhost:")
    assert {each["name"] for each in served["services"]} == {"temporal", "postgres", "worker"}


def test_a_run_by_name_as_json_lines(crewlog: Cli) -> None:
    run = fresh("two")
    done = crewlog("run", "two", "--input", "hi", "--id", run, "--json")
    assert done.code == 0, done.err
    first, *events, last = done.records
    assert (first["event"], first["run"]) == ("started", run)
    assert (first["task_queue"], first["own_worker"]) == ("crewlog", False)
    assert {event["event"] for event in events} == {"journal"}
    assert (last["event"], last["status"], last["exit_code"]) == ("result", "completed", 0)
    assert last["outputs"]["second"]["text"] == "ok"
    again = crewlog("run", "two.yaml", "--id", run)
    assert again.code == 2
    assert f"there is a run '{run}' already" in again.err


def test_a_question_ends_the_command_and_answer_goes_on(crewlog: Cli) -> None:
    run = fresh("ask")
    done = crewlog("run", "ask.yaml", "--id", run)
    assert done.code == 3, done.err
    assert "? Publish [red]it[/red]?" in done.out
    assert f"crewlog answer {run} i1 publish|discard" in done.out
    page = crewlog("show", run, "--json").records[0]
    assert (page["status"], page["live"]) == ("waiting", True)
    assert page["interrupts"][0]["options"] == ["publish", "discard"]
    typo = crewlog("answer", run, "publsh")
    assert typo.code == 2
    assert "Did you mean 'publish'?" in typo.err
    answered = crewlog("answer", run, "publish", "--by", "ann")
    assert answered.code == 0, answered.err
    assert "✓ i1 answered by ann: publish" in answered.out
    assert "first  ✓ [2J[bold]done[/bold]" in answered.out


def test_an_answer_in_advance_and_a_run_that_is_stopped(crewlog: Cli) -> None:
    run = fresh("no")
    done = crewlog("run", "ask.yaml", "--id", run, "--answer", "discard", "--json")
    assert done.code == 6, done.err
    assert done.records[-1]["status"] == "stopped"
    late = crewlog("answer", run, "publish")
    assert late.code == 2
    assert "no open question: it has ended" in late.err


def test_an_answer_in_advance_is_given_by_who_starts_the_run(crewlog: Cli) -> None:
    refused = crewlog("run", "hold.yaml", "--id", fresh("hold"), "--answer", "approve")
    assert refused.code == 3, refused.err
    assert "✗ --answer 'approve': " in refused.err
    assert "it is asked of ann" in refused.err
    assert "i1 hold|planner|approve|stop" in refused.out
    run = fresh("hold")
    done = crewlog("run", "hold.yaml", "--id", run, "--answer", "approve", "--by", "ann")
    assert done.code == 0, done.err
    assert "✓ i1 answered by ann: approve" in done.out
    assert "first    ✓" in done.out


def thinking(crewlog: Cli, run: str) -> subprocess.Popen[str]:
    """`crewlog run` of a slow crew, once its model is being called."""
    process = crewlog.start("run", "slow.yaml", "--id", run)
    assert process.stdout is not None
    for line in process.stdout:
        if "thinking" in line:
            break
    return process


def test_ctrl_c_says_what_goes_on_and_watch_returns(home: Path, alone: Path) -> None:
    crewlog = Cli(home, alone)
    run = fresh("slow")
    process = thinking(crewlog, run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert f"{run} waits for a worker: this command was the only one" in out
    assert f"crewlog watch {run}" in out
    page = crewlog("show", run)
    assert "no worker answers; this is what the store has" in page.out

    back = Cli(home, home)("watch", run)
    assert back.code == 0, back.err
    assert "first  ✓ slept" in back.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_was_interrupted_ends_with_the_code_it_tells(
    home: Path, alone: Path, number: signal.Signals
) -> None:
    crewlog = Cli(home, alone)
    run = fresh("left")
    (alone / "wait.yaml").write_text(
        "crew: waiter\nmodel: scripted:slow.script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\nflow:\n  - {ask: 'Go on?'}\n  - first\n"
    )
    process = crewlog.start("run", "wait.yaml", "--id", run, "--json", "--wait")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "interrupt":
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 128 + number, err
    assert json.loads(out.splitlines()[-1]) == {
        "event": "left",
        "run": run,
        "reason": "interrupted",
        "wait_reason": "i1: Go on?",
        "waits_for_worker": True,
        "exit_code": process.returncode,
    }
    [listed] = [r for r in crewlog("ps", "--json").records[0]["runs"] if r["run"] == run]
    assert listed["waits_for_worker"] is True
    assert crewlog("stop", run).code == 0
    listed = crewlog("ps", "--all", "--limit", "1000", "--json").records[0]["runs"]
    assert [r["waits_for_worker"] for r in listed if r["run"] == run] == [False]


def test_signals_reach_a_run(crewlog: Cli) -> None:
    run = fresh("stop")
    process = crewlog.start("run", "ask.yaml", "--id", run, "--wait")
    assert process.stdout is not None
    for line in process.stdout:
        if "answer:" in line:
            break
    refused = crewlog("interrupt", run, "--node", "nowhere")
    assert refused.code == 2
    assert "there is no node 'nowhere'" in refused.err
    told = crewlog("stop", run, "--reason", "enough", "--json")
    assert told.code == 0, told.err
    assert told.records[0]["applied"] is True
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 6
    assert "■ stopping" in out
    assert "enough" in out


def test_a_failed_run(crewlog: Cli) -> None:
    (crewlog.cwd / "fail.yaml").write_text(
        "crew: fail\nmodel: scripted:fail.script.yaml\n"
        "agents:\n  first: {prompt: P., tools: [], on_error: fail}\n"
    )
    (crewlog.cwd / "fail.script.yaml").write_text('agents:\n  "*": [{fail: refused}]\n')
    run = fresh("fail")
    done = crewlog("run", "fail.yaml", "--id", run)
    assert done.code == 1
    assert "✗ failed: first#1" in done.out
    assert f"run '{run}'" in done.err
    assert "Traceback" not in done.err
    assert "✗ first" in crewlog("show", run).out


def test_rebuild_tells_what_it_made(crewlog: Cli) -> None:
    run = fresh("again")
    assert crewlog("run", "two.yaml", "--id", run).code == 0
    rows = crewlog("log", run, "--json").records
    done = crewlog("rebuild", run)
    assert done.code == 0, done.err
    assert f"✓ {run}: {len(rows)} journal positions, " in done.out
    assert "from 1 execution" in done.out
    [report] = crewlog("rebuild", run, "--replace", "--json").records
    assert (report["whole"], report["position"]) == (True, len(rows))
    assert (report["missing"], report["tail"], report["replaced_after"]) == ([], "stored", None)
    assert crewlog("log", run, "--json").records == rows
    assert crewlog("rebuild", "nope").code == 4


def test_a_run_that_failed_before_its_first_step(crewlog: Cli) -> None:
    run = fresh("early")
    program = (
        "import asyncio, crewlog\n"
        "async def main():\n"
        "    async with await crewlog.connect() as c:\n"
        "        h = await c.temporal.start_workflow('CrewRun', {'crew': 'nope'},"
        f" id='{run}', task_queue='crewlog')\n"
        "        try: await h.result()\n"
        "        except Exception: pass\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], env=crewlog.env, check=True, timeout=100)
    shown = crewlog("show", run)
    assert shown.code == 1
    assert "failed before its first step" in shown.err
    assert "no crew is registered as 'nope'" in shown.err
    assert shown.err.count(run) == 1


def test_a_run_that_was_terminated_asks_nothing(home: Path, alone: Path) -> None:
    crewlog = Cli(home, alone)
    run = fresh("ended")
    (alone / "ask.yaml").write_text(
        "crew: asker\nmodel: scripted:slow.script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\n"
        "flow:\n  - {ask: 'Publish?', options: [publish, discard], phase: gate}\n  - first\n"
    )
    done = crewlog("run", "ask.yaml", "--id", run)
    assert done.code == 3, done.err
    assert "▸ model: scripted (slow.script.yaml)" in done.out
    assert re.search(rf"{run} +waiting, no worker", crewlog("ps").out)
    program = (
        "import asyncio, crewlog\n"
        "async def main():\n"
        "    async with await crewlog.connect() as c:\n"
        f"        await c.run('{run}').terminate('enough')\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], env=crewlog.env, check=True, timeout=100)
    page = crewlog("show", run)
    assert (page.code, "crewlog answer" in page.out) == (0, False)
    assert "ended from outside" in page.out
    watched = crewlog("watch", run)
    assert watched.code == 1
    assert "terminated from outside; known up to position" in watched.err
    assert run not in crewlog("ps", "--json").out


def test_stop_brings_a_worker_where_there_is_none(home: Path, alone: Path) -> None:
    crewlog = Cli(home, alone)
    run = fresh("left")
    process = thinking(crewlog, run)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)
    done = crewlog("stop", run)
    assert done.code == 0, done.err
    assert f"{run} has ended: stopped" in done.out


def test_a_worker_that_was_killed_is_started_again(home: Path, alone: Path) -> None:
    crewlog = Cli(home, alone)
    run = fresh("kill")
    process = thinking(crewlog, run)
    children = psutil.Process(process.pid).children(recursive=True)
    [worker] = [each for each in children if "crewlog.cli.worker_process" in each.cmdline()]
    worker.kill()
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    assert "another one is started" in err
    assert "first  ✓ slept" in out


def test_no_such_run(crewlog: Cli) -> None:
    for command in ("watch", "pause"):
        done = crewlog(command, "nope", "--json")
        assert done.code == 4, done.err
        assert '"RunNotFound"' in done.err


def test_services_that_are_away(crewlog: Cli) -> None:
    done = crewlog("ps", "--json", TEMPORAL_ADDRESS="127.0.0.1:1", DATABASE_URL=NOWHERE)
    assert done.code == 5
    assert '"TemporalUnavailable"' in done.err


def test_no_run_begins_without_a_store_for_its_worker(home: Path, alone: Path) -> None:
    run = fresh("storeless")
    crewlog = Cli(home, alone)
    for more in ((), ("--detach",)):
        done = crewlog("run", "slow.yaml", "--id", run, *more, DATABASE_URL=NOWHERE)
        assert done.code == 5
        assert "Postgres is not available" in done.err
        assert "ended by itself" not in done.out + done.err
    assert crewlog("show", run).code == 4


def test_the_exit_code_is_stable(crewlog: Cli) -> None:
    """A client's process must not abort at its end; twenty times were looked at by hand."""
    assert {crewlog("show", "nope").code for _ in range(5)} == {4}


def test_a_queue_belongs_to_one_directory_and_doctor_sees_its_worker(
    crewlog: Cli, alone: Path
) -> None:
    elsewhere = crewlog("worker", cwd=alone)
    assert elsewhere.code == 2
    assert "has a worker of another directory already" in elsewhere.err
    found = crewlog("doctor", "--json").records[0]["checks"]
    checks = [(each["name"], each["status"]) for each in found]
    assert ("Temporal server", "ok") in checks
    assert ("Workers", "ok") in checks
    # Other tests' workers, in other directories, may have ended.
    assert ("Background worker", "ok") in checks


def test_a_reader_that_goes_away_is_no_failure(crewlog: Cli) -> None:
    run = fresh("pipe")
    assert crewlog("run", "two.yaml", "--id", run).code == 0
    process = crewlog.start("log", run)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read()
    assert process.wait(60) == 141
    assert told == ""
