"""A question's prompt at a terminal, while the run goes on above it."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from crewlog.cli.follow import Follower, Manner
from crewlog.cli.questions import Prompt
from crewlog.cli.screen import Screen
from crewlog.cli.timeline import WHOLE, Timeline
from crewlog.cli.typed import Typed
from crewlog.client import Event
from crewlog.definition.load import load_data
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import ContentHash, InterruptId, RunId
from crewlog.reporting.wire_views import interrupt_view
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState, Interrupt
from crewlog.wire import InterruptView, RunResult

from .conftest import Cli
from .terminal import Terminal, rendered

SIGN = "›"  # noqa: RUF001
ASKED = {
    "id": InterruptId("i1"),
    "kind": "ask",
    "question": "Publish it?",
    "options": ("publish", "discard"),
}
BEFORE, AFTER = "d" * 27, "e" * 27
STARTED = {"kind": "RunStarted", "run": "music", "crew": "shop", "definition": BEFORE}
RAISED = {"kind": "InterruptRaised", "interrupt": {**ASKED, "options": ["publish", "discard"]}}
SWAPPED = {
    "kind": "GraphSwapped",
    "graph_version": 2,
    "crew": "shop",
    "definition": AFTER,
    "what": "backend goes",
}


def question() -> InterruptView:
    return interrupt_view(Interrupt.model_validate(ASKED))


def test_keys_that_edit_a_line() -> None:
    typed = Typed()
    assert typed.feed("dis\x7fs ü".encode()[:-1]) == []
    assert typed.text == "dis "
    assert typed.feed("ü".encode()[-1:]) == []
    assert typed.text == "dis ü"
    assert typed.feed(b"\x17\x1b[Dcar\x01d\x04\nnext") == ["dis card"]
    assert (typed.text, typed.ended) == ("next", False)
    typed.feed(b"\x15\x04")
    assert (typed.text, typed.ended) == ("", True)


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_a_text_of_several_lines_is_one_where_that_is_wanted(chunk: int) -> None:
    keys = b"Register:\\\nx \x1b[200~crew: a\r\n\x1b[Aflow: [b\x1b[201~]\x7f] c\x17ok\n\x1b[Dnext\n"
    typed, lines = Typed(several=True), list[str]()
    for at in range(0, len(keys), chunk):
        lines += typed.feed(keys[at : at + chunk])
    assert lines == ["Register:\nx crew: a\nflow: [b] ok", "next"]
    early = Typed(several=True)  # Ctrl-D, while nobody read the keys
    assert (early.feed(b"\0"), early.ended) == ([], True)
    assert Typed().feed(b"a\\\n\x1b[200~b\nc\x1b[201~\n") == ["a\\", "b", "c"]


class Place:
    """A terminal that this process itself is at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (50, 100))
        os.set_blocking(self.ours, False)
        self.streams = [os.fdopen(os.dup(self.theirs), mode) for mode in ("r", "w", "w")]
        self.raw = ""
        self._patch = monkeypatch

    def enter(self) -> None:
        """Goes there; a test does it itself, for pytest sets the streams before it begins."""
        for name, stream in zip(("stdin", "stdout", "stderr"), self.streams, strict=True):
            self._patch.setattr(sys, name, stream)
        self._patch.setenv("TERM", "xterm-256color")
        self._patch.setenv("COLUMNS", "100")
        for name in ("NO_COLOR", "FORCE_COLOR"):
            self._patch.delenv(name, raising=False)

    @property
    def lines(self) -> list[str]:
        """What somebody sees."""
        with suppress(BlockingIOError):
            self.raw += os.read(self.ours, 1 << 20).decode()
        return rendered(self.raw, 100)

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    async def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Waits until it shows something."""
        ready, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.ours, ready.set)
        try:
            async with asyncio.timeout(8):
                while not seen(self.lines):
                    await ready.wait()
                    ready.clear()
        except TimeoutError:
            raise AssertionError(f"not shown: {self.raw!r}") from None
        finally:
            loop.remove_reader(self.ours)
        return self.lines

    @property
    def mode(self) -> int:
        """Whether it is in line mode, and echoes."""
        return termios.tcgetattr(self.theirs)[3] & (termios.ICANON | termios.ECHO)

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        os.close(self.theirs)
        os.close(self.ours)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with monkeypatch.context() as patch:
        found = Place(patch)
        yield found
    found.close()


async def test_rows_come_above_what_is_typed(place: Place) -> None:
    place.enter()
    screen = Screen()
    ordinary = place.mode
    prompt = Prompt(screen, question(), "r")
    assert place.mode == 0
    place.type("disk" + "\x7f")
    await place.until(lambda lines: lines[-1:] == [f"    {SIGN} dis"])
    screen.line("a row")
    screen.note("and another")
    prompt.draw()
    expected = ["a row", "and another", "    1 publish   2 discard", f"    {SIGN} dis"]
    await place.until(lambda lines: lines[-4:] == expected)
    place.type(" \n")
    await place.until(lambda _: prompt.heard() == "dis")
    prompt.close()
    screen.line("a row")
    await place.until(lambda lines: lines[-3:] == [*expected[-2:], "a row"])
    assert place.mode == ordinary


async def test_a_line_wider_than_the_terminal_is_lifted_whole(place: Place) -> None:
    place.enter()
    screen = Screen()
    prompt = Prompt(screen, question(), "r")
    before = (await place.until(prompted))[:-2]
    words = "many,words," * 30
    place.type(words)
    await place.until(lambda lines: "".join(lines).count("many,words,") == 30)
    screen.line("a row")
    await place.until(lambda lines: lines == [*before, "a row"])
    prompt.draw()
    await place.until(lambda lines: "".join(lines).count("many,words,") == 30)
    prompt.lift()
    prompt.close()


async def test_nobody_answers_after_ctrl_d(place: Place) -> None:
    place.enter()
    screen, ordinary = Screen(), place.mode
    prompt = Prompt(screen, question(), "r")
    await place.until(prompted)
    place.type("\x04")
    await place.until(lambda lines: SIGN not in "".join(lines))
    assert place.mode == ordinary
    screen.line("a row")
    assert prompt.heard() is None
    await place.until(lambda lines: lines[-1] == "a row")
    prompt.close()


# -- a run that goes on above it ---------------------------------------------------------------


def plan(*agents: str) -> GraphPlan:
    given = {name: {"prompt": "Go."} for name in agents}
    return lower(load_data({"crew": "shop", "model": "m:x", "agents": given, "flow": [*agents]}))


async def plans(definition: ContentHash) -> GraphPlan | None:
    return {BEFORE: plan("ui", "backend"), AFTER: plan("ui", "audio")}[definition]


class Asks:
    """A run that asks; its events are given by the test."""

    id, url = "music", ""

    def __init__(self) -> None:
        self.told: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.answers: list[str] = []

    def tell(self, *entries: dict[str, Any] | None) -> None:
        for each in entries:
            self.told.put_nowait(each)

    async def events(self, after: int, *, tokens: bool) -> Any:
        position = after
        while (data := await self.told.get()) is not None:
            position += 1
            yield Event(position, 1_000, entry_from_json({"at": 1_000, **data}), RunId("music"))

    async def interrupts(self) -> list[InterruptView]:
        return [question()]

    async def status(self) -> Any:
        return SimpleNamespace(status="waiting")

    async def answer(self, interrupt: str, decision: str, *, id: str, **who: Any) -> None:
        self.answers.append(decision)
        answered = {"kind": "InterruptAnswered", "interrupt": interrupt, "decision": decision}
        self.tell(answered, {"kind": "RunCompleted"}, None)

    async def result(self, timeout: float) -> RunResult:
        return RunResult.model_validate(
            {"run": "music", "status": "stopped", "steps": 1, "position": 4,
             "executions": 2, "ms": 1_000}
        )  # fmt: skip


def following(run: Any, *, ask: bool = True, drawn: GraphPlan | None = None) -> Awaitable[int]:
    manner = Manner(ask=ask, leave=False)
    follower = Follower(Screen(), run, manner=manner, plans=plans, drawn=drawn)
    return asyncio.ensure_future(follower.follow())


def prompted(lines: list[str]) -> bool:
    return bool(lines) and lines[-1].startswith(f"    {SIGN}")


async def test_the_timeline_grows_above_the_prompt(place: Place) -> None:
    place.enter()
    run = Asks()
    run.tell(STARTED, RAISED)
    end = following(run)
    await place.until(prompted)
    place.type("2")
    await place.until(lambda lines: lines[-1] == f"    {SIGN} 2")
    run.tell({"kind": "Paused", "by": "ana"}, SWAPPED)
    lines = await place.until(lambda lines: any("graph v2" in line for line in lines))
    lines = await place.until(prompted)
    assert any("paused by ana" in line for line in lines)
    assert any("graph v1 → v2: backend goes" in line for line in lines)
    assert any("audio" in line for line in lines), "the new graph is drawn"
    assert lines[-1] == f"    {SIGN} 2", "what was typed is still there"
    assert sum(SIGN in line for line in lines) == 1
    place.type("\n")
    assert await asyncio.wait_for(end, 20) == 6
    assert run.answers == ["discard"]
    await place.until(lambda lines: any("i1 answered: discard" in line for line in lines))


async def test_what_came_before_the_end_is_told(place: Place) -> None:
    place.enter()
    run, ordinary = Asks(), place.mode
    run.tell(STARTED, RAISED)
    end = following(run)
    await place.until(prompted)
    run.tell(
        {"kind": "Paused", "by": "ana"},
        SWAPPED,
        {"kind": "StopRequested", "by": "root"},
        {"kind": "RunStopped"},
        None,
    )
    assert await asyncio.wait_for(end, 20) == 6
    told = "\n".join(await place.until(lambda lines: any("Look" in line for line in lines)))
    order = ["paused by ana", "graph v1 → v2", "stopping by root", "stopped  1 step"]
    places = [told.index(each) for each in order]
    assert places == sorted(places)
    assert SIGN not in told
    assert place.mode == ordinary


async def test_a_rollback_takes_the_question_away(place: Place) -> None:
    place.enter()
    run = Asks()
    run.tell(STARTED, RAISED)
    end = following(run)
    await place.until(prompted)
    state = CrewState(run=RunId("music"), definition=ContentHash(BEFORE)).to_json()
    run.tell({"kind": "RunRolledBack", "to": 1, "by": "ana", "state": state})
    lines = await place.until(lambda lines: any("back to checkpoint 1" in each for each in lines))
    assert SIGN not in "".join(lines)
    run.tell({"kind": "RunStopped"}, None)
    assert await asyncio.wait_for(end, 20) == 6


@pytest.mark.parametrize(("agents", "count"), [(("ui", "backend"), 0), (("ui", "audio"), 1)])
async def test_a_forks_graph_is_drawn_once(capsys: Any, agents: Any, count: int) -> None:
    run = Asks()
    state = CrewState(run=RunId("music"), definition=ContentHash(BEFORE)).to_json()
    forked = {"kind": "RunForked", "run": "music", "source": "other", "to": 7, "state": state}
    run.tell(forked, {"kind": "RunStopped"}, None)
    assert await following(run, ask=False, drawn=plan(*agents)) == 6
    assert capsys.readouterr().out.count("graph v1") == count


def test_a_pipe_gets_whole_lines(capsys: Any) -> None:
    line, words = Timeline(("n" * 40,)), "word " * 100
    flag = {
        "kind": "RunOutputSet",
        "at": 1_000,
        "flag": "buy",
        "value": words.strip(),
        "by": "n" * 40,
    }
    (row,) = line.feed(entry_from_json(flag))
    Screen().line(*line.parts(row, WHOLE), crop=True)
    out = capsys.readouterr().out
    assert out.count("word") == 100
    assert "n" * 40 in out
    assert "…" not in out


async def test_a_terminal_gets_what_fits(place: Place) -> None:
    place.enter()
    run = Asks()
    run.tell(STARTED, {"kind": "RunOutputSet", "flag": "buy", "value": "word " * 100}, None)
    assert await asyncio.wait_for(following(run), 20) == 6
    lines = await place.until(lambda lines: any("Look" in line for line in lines))
    (row,) = [line for line in lines if "word" in line]
    assert row.endswith("…")
    assert len(row) == 100


# -- a real run --------------------------------------------------------------------------------


@pytest.mark.server
def test_a_watched_question_shows_what_happens_meanwhile(crewlog: Cli) -> None:
    run = f"asker-{uuid4().hex[:6]}"
    assert crewlog("run", "ask.yaml", "--id", run, "--json").code == 3
    terminal = Terminal("watch", run, cwd=crewlog.cwd, env=crewlog.env)
    terminal.expect(f"{SIGN} ")
    done = crewlog("change", run, "--add-agent", "second=Speak.", "--by", "ops")
    assert done.code == 0, done.err
    terminal.expect("graph v1 → v2 by ops: adds second")
    terminal.expect("first ── second ── done")
    terminal.expect(f"{SIGN} ")
    assert crewlog("stop", run, "--by", "root").code in {0, 6}
    terminal.expect("stopping by root")
    assert terminal.end() == 6
    shown = rendered(terminal.raw, 100)
    assert not any(SIGN in line for line in shown)
    assert any(re.match(r"  \d\d\.\d  stopped", line) for line in shown)
