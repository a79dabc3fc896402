"""`crewlog stop` of a run that nobody works on, and that refuses it; by stubs, and on a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from crewlog.cli import background, hands, talk
from crewlog.client import keys
from crewlog.errors import CommandConflict, WorkerMissing
from crewlog.ids import CommandId
from crewlog.state.model import CommandOutcome

from .conftest import Cli

REFUSED = CommandOutcome(ok=False, detail="nothing proves who it is", position=7)


class Refuses:
    """A run whose worker comes up, refuses the command, and goes on."""

    id = "sealed"

    def __init__(self) -> None:
        self.looks = 0

    async def result(self, _: float) -> Any:
        await asyncio.Event().wait()

    async def outcome(self, command: CommandId) -> CommandOutcome | None:
        assert command == "c1"
        self.looks += 1
        if self.looks == 1:
            raise WorkerMissing("nobody answers")
        return REFUSED if self.looks > 2 else None


async def test_a_stop_that_the_run_refuses_does_not_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def hand(_: Any) -> AsyncGenerator[None]:
        yield None

    async def polled(*_: Any) -> bool:
        return False

    async def describe(_: Any) -> Any:
        return SimpleNamespace(task_queue="own")

    def assigned(_: str) -> Any:
        return SimpleNamespace(own=True)

    monkeypatch.setattr(background, "polled", polled)
    monkeypatch.setattr(hands, "assigned", assigned)
    monkeypatch.setattr(hands, "hand", hand)
    client: Any = SimpleNamespace(gateway=SimpleNamespace(describe=describe))
    run: Any = Refuses()
    async with asyncio.timeout(5), AsyncExitStack() as helping:
        assert await talk._stopped(client, run, "c1", helping) == (None, REFUSED)


async def test_what_sent_a_command_is_asked_what_became_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It knows what it said, and where it was led: another command of its id is none of it."""

    async def polled(*_: Any) -> bool:
        return True

    async def described(_: Any) -> Any:
        return SimpleNamespace(task_queue="own")

    async def outcome(command: CommandId) -> CommandOutcome:
        raise CommandConflict(f"the id {command!r} was used for another command")

    monkeypatch.setattr(background, "polled", polled)
    client: Any = SimpleNamespace(gateway=SimpleNamespace(describe=described))
    sent: Any = SimpleNamespace(id="sealed", outcome=outcome)
    run: Any = Refuses()
    run.looks = 2  # it would take the other command's outcome for its own
    async with asyncio.timeout(5):
        with pytest.raises(CommandConflict):
            await talk._outcome(client, run, sent, "c1", None)


@pytest.mark.server
def test_a_stop_that_nobody_signed_is_refused_by_the_worker_that_it_brings(
    home: Path, alone: Path, tmp_path: Path
) -> None:
    crewlog = Cli(home, alone)
    run = f"sealed-{uuid4().hex[:6]}"
    ada = keys.make("ada", tmp_path)
    (alone / "sealed.yaml").write_text(
        "crew: sealed\nmodel: scripted:slow.script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\n"
        "flow:\n  - {ask: 'Publish?', options: [publish, discard], phase: gate}\n  - first\n"
        "policy:\n  mode: signed\n  principals:\n"
        f'    ada: {{key: "{ada.public}", rights: [view, answer, operate, change, grant]}}\n'
    )
    key = str(ada.path)
    started = crewlog("run", "sealed.yaml", "--id", run, CREWLOG_KEY=key)
    assert started.code == 3, started.err
    refused = crewlog("stop", run, "--by", "eve", CREWLOG_KEY="off")
    assert refused.code not in (0, 3), refused.out
    assert "this stop, which claims to be from 'eve', has no signature" in refused.err
    assert "has ended" not in refused.out + refused.err
    # An answer to what nobody asks is refused by the run itself, and is in its audit.
    gone = crewlog("answer", run, "i9", "publish", CREWLOG_KEY=key)
    assert gone.code == 2, gone.out
    assert "'i9' is not open" in gone.err
    records = crewlog("audit", run, "--kind", "refusal", "--json", CREWLOG_KEY=key).records
    told = [(each["action"], each["principal"]) for each in records]
    assert told[0] == ("stop", "unverified eve")
    assert {*told[1:]} == {("answer", "ada")}  # it is sent until the worker has come
    done = crewlog("stop", run, CREWLOG_KEY=key)
    assert done.code == 0, done.err
    assert f"{run} has ended: stopped" in done.out
