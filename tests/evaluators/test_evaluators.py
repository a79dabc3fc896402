"""Evaluators really run what is in a workspace, and whatever that does they come to an end."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool

from crewlog.errors import CrewlogError
from crewlog.evaluators import compile_python, compile_with, lint, programs, run_pytest
from crewlog.ids import AgentName, CallKey, RunId, StepId, ToolName
from crewlog.tool_call import ToolCall, calling

CART = "def total(prices):\n    return sum(prices) {}\n"
TEST = "from shop.cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"


@pytest.fixture
def call(tmp_path: Path) -> Iterator[ToolCall]:
    """A call whose workspace has a shop with a bug in it."""
    workspace = tmp_path / "workspace"
    (workspace / "shop").mkdir(parents=True)
    (workspace / "shop/__init__.py").write_text("")
    (workspace / "shop/cart.py").write_text(CART.format("+ 1"))
    (workspace / "test_cart.py").write_text(TEST)
    made = ToolCall(
        run=RunId("r"),
        step=StepId("tests#1"),
        call=2,
        key=CallKey("r/tests#1/2"),
        agent=AgentName("tests"),
        tool=ToolName("evaluator"),
        timeout=30,
        workspace=workspace,
    )
    with calling(made):
        yield made


async def judged(tool: BaseTool, **args: Any) -> tuple[str, dict[str, Any]]:
    """What a tool says, and its data."""
    said = await tool.ainvoke({"name": tool.name, "args": args, "id": "c", "type": "tool_call"})
    return said.content, said.artifact


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def is_there(path: Path) -> bool:
    return path.exists()


def started(script: Path, workspace: Path) -> subprocess.Popen[bytes]:
    """A process of its own that runs a script."""
    return subprocess.Popen([sys.executable, str(script), str(workspace)])


async def gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline, f"{pid} is still there"
        await asyncio.sleep(0.02)


async def test_a_bug_is_found_and_is_whose_files_it_is_in(call: ToolCall) -> None:
    (call.workspace / "shop/cart.py").write_text("def total(prices):\n    return prices[9]\n")
    words, data = await judged(run_pytest, owners={"cart": ["shop"], "other": ["."]})
    (found,) = data["signals"]
    assert not data["passed"]
    assert (found["type"], found["severity"], found["agent"]) == ("test_failure", "error", "cart")
    assert found["where"] == "shop/cart.py:2"
    assert "test_cart.py::test_total: " in found["detail"]
    assert "IndexError: list index out of range" in found["detail"]
    assert words.startswith("pytest: 1 of 1 tests failed in ")


async def test_what_is_right_passes_and_what_is_not_there_does_not(call: ToolCall) -> None:
    (call.workspace / "shop/cart.py").write_text(CART.format(""))
    assert (await judged(run_pytest))[1]["passed"]
    (call.workspace / "test_cart.py").unlink()
    _, data = await judged(run_pytest)
    assert (data["passed"], data["signals"][0]["detail"]) == (False, "no test was found in .")
    with pytest.raises(CrewlogError, match="there is no 'nowhere' in the workspace"):
        await judged(run_pytest, paths=["nowhere"])
    with pytest.raises(CrewlogError):
        await judged(run_pytest, paths=["../"])


async def test_a_hang_is_a_signal_and_nothing_of_it_is_left(call: ToolCall) -> None:
    code = (
        "import os, subprocess, time\n"
        "away = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "open('pids', 'w').write(f'{os.getpid()} {away.pid}')\n"
        "print('deep in thought', flush=True)\n"
        "time.sleep(300)\n"
    )
    _, data = await judged(compile_with, command=["python3", "-c", code], timeout=3)
    (found,) = data["signals"]
    assert found["detail"] == (
        "python3 did not end within 3 s, and was ended; it said last: deep in thought"
    )
    assert (found["type"], data["passed"]) == ("compile_error", False)
    for pid in (call.workspace / "pids").read_text().split():
        await gone(int(pid))


async def test_it_ends_before_its_tools_own_time_is_over(call: ToolCall) -> None:
    (call.workspace / "test_cart.py").write_text("import time\ntime.sleep(300)\n")
    object.__setattr__(call, "timeout", programs.SPARE + 1)
    _, data = await judged(run_pytest, timeout=60)
    assert "did not end within 1 s" in data["signals"][0]["detail"]


async def test_what_crashes_or_floods_is_a_signal(call: ToolCall) -> None:
    (call.workspace / "test_cart.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    _, data = await judged(run_pytest)
    assert "was ended by signal 9" in data["signals"][0]["detail"]
    (call.workspace / "flood.c").write_text("")
    flood = ["python3", "-c", "print('x' * 10_000_000); raise SystemExit(3)"]
    _, data = await judged(compile_with, command=flood)
    assert "ended with the exit code 3" in data["signals"][0]["detail"]
    _, data = await judged(compile_with, command=["no-such-compiler"])
    assert "could not be started" in data["signals"][0]["detail"]


async def test_nothing_of_the_workers_environment_is_told(
    call: ToolCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-worker")
    monkeypatch.setenv("PYTHONPATH", "/of/the/worker")
    code = "import os; open('seen', 'w').write(repr(sorted(os.environ)) + os.environ['HOME'])"
    await judged(compile_with, command=["python3", "-c", code])
    seen = (call.workspace / "seen").read_text()
    assert "KEY" not in seen
    assert "PYTHONPATH" not in seen
    assert not is_there(Path(seen.rpartition("]")[2]))


LOOKS = """
import ctypes, os, sys
from crewlog.evaluators.programs import close_proc

if os.getuid() == 0:  # to whom everything is open
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as it is with a process that began as this user


def seen():
    reading, writing = os.pipe()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
        try:
            found = open(f"/proc/{os.getppid()}/environ", "rb").read()
        except OSError as error:
            found = type(error).__name__.encode()
        os.write(writing, b"seen" if b"of-the-worker" in found else found[:40])
        os._exit(0)
    os.wait()
    return os.read(reading, 100).decode()


before = seen()
close_proc()
print(before, seen())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others have no /proc")
async def test_what_runs_as_the_same_user_does_not_read_the_workers_environment() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LOOKS),
        env={**os.environ, "OPENAI_API_KEY": "sk-of-the-worker"},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert out.decode().split() == ["seen", "PermissionError"]


async def test_a_worker_that_runs_programs_is_closed(call: ToolCall) -> None:
    del call
    await judged(compile_with, command=["python3", "-c", ""])
    assert sys.platform != "linux" or ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0


async def test_a_call_that_is_cancelled_ends_its_program(call: ToolCall) -> None:
    code = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(300)"
    task = asyncio.create_task(judged(compile_with, command=["python3", "-c", code]))
    pid = await _written(call.workspace / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(pid)


async def test_a_killed_worker_leaves_no_program(call: ToolCall, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from crewlog.evaluators import compile_with\n"
        "from crewlog.tool_call import ToolCall, calling\n"
        "made = ToolCall(run='r', step='a#1', call=1, key='k', agent='a', tool='t',\n"
        "                workspace=Path(sys.argv[1]))\n"
        'code = \'import os, subprocess, time; away = subprocess.Popen(["sleep", "300"],\'\n'
        'code += \' start_new_session=True); open("away", "w").write(str(away.pid));\'\n'
        'code += \' open("pid", "w").write(str(os.getpid())); time.sleep(300)\'\n'
        "with calling(made):\n"
        "    asyncio.run(compile_with.ainvoke({'name': 'c', 'id': 'c', 'type': 'tool_call',\n"
        "                'args': {'command': ['python3', '-c', code]}}))\n"
    )
    process = started(worker, call.workspace)
    pids = [await _written(call.workspace / name) for name in ("pid", "away")]
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    for pid in pids:
        await gone(pid)


async def _written(path: Path) -> int:
    deadline = time.monotonic() + 30
    while not (found := number_in(path)):
        assert time.monotonic() < deadline, f"nobody wrote {path.name}"
        await asyncio.sleep(0.02)
    return found


def number_in(path: Path) -> int:
    """The number in a file; 0 where there is none."""
    return int((path.read_text() if path.exists() else "") or 0)


async def test_compilers_and_linters_say_where(call: ToolCall) -> None:
    (call.workspace / "shop/cart.py").write_text("import os\n\n\ndef total(:\n    return x\n")
    _, data = await judged(compile_python, owners={"cart": ["shop/"]})
    (found,) = data["signals"]
    assert (found["where"], found["agent"], found["type"]) == (
        "shop/cart.py:4",
        "cart",
        "compile_error",
    )
    assert "SyntaxError" in found["detail"]
    (call.workspace / "shop/cart.py").write_text("import os\n\n\ndef total(a):\n    return x\n")
    assert (await judged(compile_python))[1]["passed"]
    _, data = await judged(lint, paths=["shop"])
    said = {each["where"]: (each["severity"], each["detail"][:4]) for each in data["signals"]}
    assert said == {"shop/cart.py:1": ("warn", "F401"), "shop/cart.py:5": ("error", "F821")}
    assert not data["passed"]
    says = "print('a.c:3:7: error: no ; here\\na.c:9: warning: odd'); raise SystemExit(1)"
    _, data = await judged(compile_with, command=["python3", "-c", says])
    assert [(s["where"], s["severity"]) for s in data["signals"]] == [
        ("a.c:3", "error"),
        ("a.c:9", "warn"),
    ]
