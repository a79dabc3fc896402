"""The tools of the acceptance tests' crews, and the ledger of what really ran.

Every tool writes to a ledger outside of the system: a file for each run, a JSON line for each
event, with the call's idempotency key. What a tool waits for is a file, too: the test opens gates.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from crewlog.tool_call import current_call

LEDGER = Path(os.environ["ACCEPTANCE_LEDGER"])
LIMIT = 120.0
POLL = 0.02


def note(event: str, **more: Any) -> None:
    """Adds a line to the run's ledger, in one write."""
    call = current_call()
    line = {
        "event": event,
        "tool": call.tool,
        "key": call.key,
        "step": call.step,
        "call": call.call,
        "attempt": call.attempt,
        "at": time.time(),
        "pid": os.getpid(),
        **more,
    }
    with (LEDGER / f"{call.run}.jsonl").open("ab", buffering=0) as out:
        out.write(json.dumps(line).encode() + b"\n")


def is_open(gate: str) -> bool:
    """Whether the test has opened a gate of this run."""
    return (LEDGER / f"{current_call().run}.{gate}.open").exists()


async def echo(text: str) -> str:
    """Says it again."""
    note("start", text=text)
    return text


async def nap(seconds: float) -> str:
    """Sleeps."""
    note("start")
    await asyncio.sleep(seconds)
    note("end")
    return f"slept {seconds:g} s"


def blocking_nap(seconds: float) -> str:
    """Sleeps in a thread."""
    note("start")
    time.sleep(seconds)
    note("end")
    return f"slept {seconds:g} s"


async def gate(name: str) -> str:
    """Waits at a gate until it is open, or until it is cancelled."""
    note("start", gate=name)
    try:
        async with asyncio.timeout(LIMIT):
            while not is_open(name):  # noqa: ASYNC110 - another process opens it
                await asyncio.sleep(POLL)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("end")
    return f"passed {name}"


def blocking_gate(name: str) -> str:
    """Waits at a gate in a thread; looks whether it was cancelled."""
    note("start", gate=name)
    deadline = time.monotonic() + LIMIT
    while not is_open(name):
        if current_call().cancelled:
            note("cancelled")
            return "cancelled"
        if time.monotonic() > deadline:
            raise TimeoutError(name)
        time.sleep(POLL)
    note("end")
    return f"passed {name}"


def pay(amount: int, name: str) -> str:
    """Pays through a service that takes idempotency keys, then waits at a gate.

    The line in the ledger is the payment itself. So a worker that is killed here has paid and
    written the line, or has done neither.
    """
    note("start", gate=name)
    call = current_call()
    ledger = LEDGER / f"{call.run}.jsonl"
    with (LEDGER / f"{call.run}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = ledger.read_text()
        whole = text[: text.rfind("\n") + 1]  # another call may be in the middle of a line
        lines = [json.loads(line) for line in whole.splitlines()]
        paid = any(e["event"] == "paid" and e["key"] == call.key for e in lines)
        note("known" if paid else "paid", amount=amount)
    deadline = time.monotonic() + LIMIT
    while not is_open(name) and time.monotonic() < deadline:
        time.sleep(POLL)
    return f"paid {amount}"


def raises(kind: str) -> str:
    """Raises."""
    note("start")
    kinds = {"value": ValueError, "connection": ConnectionError}
    raise kinds[kind]("the oven is cold")


def unserializable() -> Any:
    """Returns what is not JSON."""
    note("start")
    return object()


def large(size: int) -> str:
    """Returns a large text."""
    note("start")
    return "0123456789abcdef" * (size // 16)


def done() -> dict[str, Any]:
    """Returns data."""
    note("start")
    return {"done": True, "items": [1, 2, 3]}


async def leak(how: str) -> str:
    """Tells its secret, in every way that it can."""
    call = current_call()
    value = call.secret("CANARY")
    call.heartbeat({"token": value})
    logging.getLogger("deeds").warning("the plain log has %s", value)
    structlog.get_logger("deeds").warning("the other log has it", token={"is": value})
    if how == "raise":
        raise RuntimeError(f"failed with {value}")
    return f"the token is {value}, or {value.encode().hex()}"


async def tells(text: str, name: str) -> str:
    """Says it while it works, waits at a gate, and fails with it."""
    note("start", gate=name)
    async with asyncio.timeout(LIMIT):
        while not is_open(name):
            current_call().heartbeat({"said": text})
            await asyncio.sleep(POLL)
    raise RuntimeError(text)


def keep_file(path: str, text: str) -> str:
    """Writes a file."""
    with current_call().open(path, "w") as file:
        file.write(text)
    return "written"


def show_file(path: str) -> str:
    """Reads a file."""
    with current_call().open(path) as file:
        return str(file.read())


async def hog(name: str) -> str:
    """Blocks its event loop until a gate is open, as an async tool must not."""
    note("start", gate=name)
    while not is_open(name):
        time.sleep(0.02)  # noqa: ASYNC251 - on purpose
    note("end", gate=name)
    return "the gate is open"


def wall(name: str) -> str:
    """Blocks its thread until a gate is open, whatever is asked of it."""
    note("start", gate=name)
    while not is_open(name):
        time.sleep(0.02)
    return "the gate is open"


async def cling(name: str) -> str:
    """Goes on until a gate is open, also where it is cancelled."""
    note("start", gate=name)
    while not is_open(name):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    return "the gate is open"
