"""Following a run: the timeline as it grows, questions as they come, and how it ended.

Events arrive on a queue of their own, so that the status line moves and a question can be open
while nothing happens. While somebody types an answer, the timeline grows above the prompt.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crewlog.cli import exits
from crewlog.cli.answers import edited_args
from crewlog.cli.delays import pending_words
from crewlog.cli.differing import state_rows
from crewlog.cli.ending import look, show_end, summary
from crewlog.cli.hearing import Heard, heard, heard_before
from crewlog.cli.lacking import Lacking
from crewlog.cli.pictures import show_picture
from crewlog.cli.presence import PAUSE, Find, Look, Server, Stalls, Worker
from crewlog.cli.questions import Prompt, answer_line, show_question
from crewlog.cli.screen import Part, Screen, plain, plain_lines, tell_warning, text_of
from crewlog.cli.shown import tell_lack
from crewlog.cli.stating import Stated, States
from crewlog.cli.timeline import WHOLE, Row, Timeline, sentences
from crewlog.cli.told_changes import STATEFUL
from crewlog.cli.topology import Plans, graph_after
from crewlog.cli.writing import Writing
from crewlog.client import Event, Run, TokenEvent
from crewlog.client.approvals import MCP_APPROVAL
from crewlog.client.talking import reply_of
from crewlog.errors import (
    InterruptNotOpen,
    NotPermitted,
    RunFailed,
    TemporalUnavailable,
    UsageError,
    WorkerMissing,
)
from crewlog.ids import CommandId, InterruptId, StepId
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.events.view import event_of, event_view
from crewlog.reporting.trace.view import PendingCall
from crewlog.reporting.wire_views import interrupt_view
from crewlog.run_status import EndReason
from crewlog.state import journal as j
from crewlog.wire import InterruptView

if TYPE_CHECKING:
    from rich.live import Live
    from rich.spinner import Spinner

    from crewlog.cli.hands import Hand
    from crewlog.graph.plan import GraphPlan

TICK = 0.15
"""Seconds of silence after which the status line moves."""
QUIET = 5.0
"""Seconds between two looks, in silence, at whether anybody polls the run's task queue."""
NOTICED = 60.0
"""Seconds for a worker to come up and to notice that a server's tool was approved."""
LOOK = 0.5
"""Seconds between two looks at whether the run waits for people."""


@dataclass(frozen=True)
class Manner:
    """How a run is followed."""

    ask: bool
    """Whether questions are asked right here."""
    leave: bool
    """Whether to leave (exit code 3) when the run waits for people and nobody is here to answer."""
    answers: tuple[str, ...] = ()
    """Answers given in advance: each question takes the first that fits it."""
    by: str | None = None
    """Who answers; by default the system's user."""
    state: bool = False
    """Whether it is told what each checkpoint changed in the state."""
    rests: bool = False
    """Whether to leave where a conversation waits for its next message."""
    timeout: float | None = None
    """Seconds after which to leave (exit code 3), whatever the run does; none: never."""


class Follower:
    """One command's view of one run."""

    def __init__(
        self,
        screen: Screen,
        run: Run,
        *,
        nodes: Iterable[str] = (),
        manner: Manner,
        over: bool = False,
        hand: Hand | None = None,
        directory: Path | None = None,
        polled: Look | None = None,
        there: Look | None = None,
        stalls: Find | None = None,
        queue: str = "",
        plans: Plans | None = None,
        version: int = 1,
        drawn: GraphPlan | None = None,
        file: Path | None = None,
    ) -> None:
        self.screen = screen
        self.run = run
        self.timeline = Timeline(nodes)
        self.position = 0
        """The last position that was shown."""
        self._manner = manner
        self._over = over
        self._answers = deque(manner.answers)
        self._hand = hand
        self._directory = directory
        self._worker = Worker(screen, queue, polled, QUIET) if polled else None
        self._server = Server(screen, there) if there else None
        self._stalls = Stalls(screen, run.id, stalls, PAUSE) if stalls else None
        self._plans = plans
        self.timeline.version = version
        self._drawn = drawn
        """The graph that was drawn last."""
        self._live: Live | None = None
        self._spinner: Spinner | None = None
        self._writing = Writing()
        self._states = States() if manner.state else None
        self._moved = time.monotonic()
        self._prompt: Prompt | None = None
        self._told: set[str] = set()
        self._unanswered: set[str] = set()
        """Questions that no answer given in advance fits, and that were told to be so."""
        self._refused: set[str] = set()
        """Answers that were typed here and told to be none: the timeline need not tell it again."""
        self._others: set[str] = set()
        """Questions that whoever is here may not answer: they are not asked here again."""
        self._lacking = Lacking(run)
        self._file = file
        self._shown: dict[InterruptId, InterruptView] = {}
        """The open questions as they were shown last."""
        self._began = time.monotonic()
        self._looked = 0.0
        self._behind = 0.0
        self._last: j.JournalEntry | None = None

    @property
    def question(self) -> InterruptView | None:
        """The first question that is open; none where a run is paused, which is told first."""
        raised = next(iter(self.timeline.interrupts.values()), None)
        if raised is None or self.timeline.paused:
            return None
        shown = self._shown.get(raised.interrupt.id)
        return self._with_file(shown or interrupt_view(raised.interrupt))

    @property
    def wait_reason(self) -> str:
        """What the run waits for besides a worker and answers, as far as that was seen."""
        if self._server is not None and self._server.away:
            return self._server.status()
        if self.timeline.paused:
            return f"is paused: crewlog resume {self.run.id}"
        if self.timeline.lacking:
            step, lacks = next(iter(self.timeline.lacking.items()))
            return f"waits: {step} {lacks}"
        if self.timeline.timers and not self.timeline.running:
            node, until = next(iter(self.timeline.timers.items()))
            return f"waits: {node} until {until}"
        return ""

    @property
    def alone(self) -> bool:
        """Whether nobody polled the run's task queue when it was last looked at."""
        return self._worker is not None and self._worker.alone

    @property
    def _away(self) -> bool:
        """Whether the server does not answer: it is not asked anything else then."""
        return self._server is not None and self._server.doubtful

    async def follow(self, after: int = 0) -> int:
        """Follow to the run's end, or to a question that nobody here answers; the exit code.

        Args:
            after: The position after which to begin.

        Raises:
            RunNotFound: there is no such run.
            WorkerMissing: the command's own worker ended.
            RunFailed: the run was ended from outside.
        """
        if after:
            # Times are told since the run's start, which is not among the entries to come.
            first = (await self.run.journal(0, 1)).entries
            self.timeline.started = int(first[0].data.get("at", 0)) if first else 0
            await self._fold(after)
        await self._look_for_worker()
        inbox: asyncio.Queue[Event | TokenEvent | None] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(inbox, after))
        try:
            while True:
                left = await self._step(inbox, reading)
                if left is not None:
                    return left
        finally:
            self._still()
            if self._prompt is not None:
                self._prompt.close()
            self._lacking.end()
            if self._server is not None:
                self._server.end()
            if self._worker is not None:
                self._worker.end()
            if self._stalls is not None:
                self._stalls.end()
            reading.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reading

    async def _read(self, inbox: asyncio.Queue[Event | TokenEvent | None], after: int) -> None:
        tokens = not self._over and (self.screen.tty or self.screen.as_json)
        try:
            async for event in self.run.events(after, tokens=tokens):
                inbox.put_nowait(event)
        finally:
            inbox.put_nowait(None)

    async def _step(
        self, inbox: asyncio.Queue[Event | TokenEvent | None], reading: asyncio.Future[None]
    ) -> int | None:
        """Take an event, or a moment of silence; the exit code when it is over."""
        try:
            event = await asyncio.wait_for(inbox.get(), TICK)
        except TimeoutError:
            return await self._silence()
        if self._prompt is not None:
            await self._hear()
        if isinstance(event, TokenEvent):
            self._write(event)
            # Text is no event of the run: as to that, it is silent.
            return await self._silence() if time.monotonic() - self._moved > TICK else None
        if event is None:
            try:
                reading.result()
                return await self._end()
            except RunFailed as error:
                if self.screen.as_json and not isinstance(self._last, j.RunFailed):
                    self._failed_record(error.message)
                raise
        if self._states is not None:
            self._tell_state(self._states.take(event))
        version = self.timeline.version
        self._take(event)
        await self._redraw(event, version)
        if self._prompt is not None and inbox.empty():
            self._prompt.draw()
        if isinstance(event.entry, j.ExchangeEnded) and self._manner.rests and inbox.empty():
            return await self._rested(event.entry)
        return None

    async def _rested(self, entry: j.ExchangeEnded) -> int:
        """Tells the answer of a conversation, which waits for the next message, and leaves."""
        self._still()
        reply = await self.run.whole(reply_of(entry))
        if self.screen.as_json:
            found = {"event": "answer", "run": self.run.id, **reply.model_dump(mode="json")}
            self.screen.record(found)
        elif entry.exchange:
            self.screen.line("")
            for line in plain_lines(reply.text).splitlines():
                self.screen.paragraph(line)
            tell_warning(self.screen, reply.warning)
        self.screen.line("")
        self.screen.line(("  Go on    ", "dim"), f"crewlog chat {self.run.id}")
        self.screen.line(("  End      ", "dim"), f"crewlog stop {self.run.id}")
        return exits.OK

    def _take(self, event: Event) -> None:
        self.position = event.position
        self._last = event.entry
        self._behind = time.time() - event.at / 1000
        if self.screen.as_json:
            view = event_view(event).model_dump(mode="json")
            self.screen.record({"event": "journal", **view})
        self._writing.take(event)
        rows = self.timeline.feed(event.entry)
        told = isinstance(event.entry, j.CommandRejected) and event.entry.command in self._refused
        if not told:
            self._show(rows)
        if self._prompt is not None and self._closes(event.entry, self._prompt.question):
            self._close_prompt()

    def _closes(self, entry: j.JournalEntry, question: InterruptView) -> bool:
        """Whether a fact answers a question, or takes the run to where it is not asked."""
        if isinstance(entry, j.InterruptAnswered):
            return entry.interrupt == question.id
        return isinstance(entry, STATEFUL) and question.id not in self.timeline.interrupts

    async def _fold(self, after: int) -> None:
        """The state at a position, of what came before it."""
        position = 0
        while self._states is not None and position < after:
            page = await self.run.journal(position, min(after - position, 1000))
            for item in page.entries:
                self._states.take(event_of(self.run.id, item.position, item.data))
            if not page.entries:
                return
            position = page.entries[-1].position

    def _tell_state(self, stated: Stated | None) -> None:
        if stated is None:
            return
        if self.screen.as_json:
            changes = stated.changes.model_dump(mode="json")["changes"]
            record = {"event": "state", "run": self.run.id, "position": stated.position}
            self.screen.record({**record, "changes": changes})
        elif rows := state_rows(stated.changes, whole=not self.screen.tty):
            self.screen.line(("        state ", "dim"), (f"@{stated.position}", "bold"))
            self.screen.rows(("", "", "", ""), [["     ", *row] for row in rows])

    async def _redraw(self, event: Event, version: int) -> None:
        """The picture anew, where the run goes on with another graph."""
        found = graph_after(event.entry, version) if self._plans else None
        if found is None or self._plans is None:
            return
        definition, number = found
        plan = await self._plans(definition)
        if plan is None:
            return
        self.timeline.nodes += [node for node in plan.nodes if node not in self.timeline.nodes]
        if self.screen.as_json:
            self.screen.record(
                {
                    "event": "graph",
                    "run": event.run,
                    "position": event.position,
                    "graph_version": number,
                    "definition": definition,
                    "plan": plan.to_json(),
                    "mermaid": mermaid(plan, self.timeline.statuses),
                }
            )
        elif number != version or plan != self._drawn:  # a fork's first is drawn already
            self._still()
            self._drawn = plan
            self.screen.line("")
            self.screen.line(("  graph ", "dim"), (f"v{number}", "bold"))
            show_picture(self.screen, plan, self.timeline.statuses)
            self.screen.line("")

    def _write(self, event: TokenEvent) -> None:
        self._writing.add(event)
        if self.screen.as_json:
            self.screen.record({"event": "tokens", **asdict(event)})

    # -- silence ------------------------------------------------------------------------------

    async def _look_for_worker(self) -> None:
        """Mention, once, that nobody polls the task queue of a run that is under way."""
        if self._worker is None or self._away:
            return
        if await self._worker.look() and self._prompt is None:
            self._still()
            self._worker.tell()

    def report(self, text: str) -> None:
        """Say what happened to the local server."""
        self._still()
        self.screen.note(("▸ ", "yellow"), text)

    def _look_for_server(self) -> None:
        """Say that the server does not answer, and that it does again."""
        if self._server is None or self._prompt is not None:
            return
        said = self._server.look()
        if said is not None:
            self._still()
            self._server.tell(said)

    async def _silence(self) -> int | None:
        self._moved = time.monotonic()
        self._show(self.timeline.settle())
        if self._states is not None:
            self._tell_state(self._states.settle())
        self._look_for_server()
        if self._hand is not None:
            await self._hand.keep(self.run.id, self.screen)
        else:
            await self._look_for_worker()
        self._look_for_lacks()
        self._look_for_stalls()
        if self._prompt is not None:
            await self._hear()
            return None
        asks = not self._over and not self._away and self.timeline.interrupts
        if asks and time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            left = await self._questions()
            if left is not None:
                return left
        if self._prompt is None:
            self._move()
        return None

    def _look_for_lacks(self) -> None:
        """Say, once each, what calls wait for that no worker can make: the journal does not."""
        if self._over or self.alone or not self.timeline.running:
            return
        asked = {each.interrupt.step for each in self.timeline.interrupts.values()}
        for step, lacks in self._lacking.look():
            if step in asked and not self.screen.as_json:
                continue  # the question says it
            if self.screen.as_json:
                found = {"event": "failure", "run": self.run.id, "step": step, "failure": lacks}
                self.screen.record(found)
            else:
                self._still()
                tell_lack(self.screen, step, lacks)
        self.timeline.lacking = self._lacking.steps

    def _look_for_stalls(self) -> None:
        """Say what of its own the run fails to do, and which calls wait or are made once more."""
        if self._stalls is None or self._away:
            return
        for each in self._stalls.look():
            alone = self.alone and isinstance(each, PendingCall) and each.reason == "worker"
            if not alone:  # that nobody polls is told for all calls at once
                self._still()
                self._stalls.tell(each)
        waits = {StepId(call.step): pending_words(call) for call in self._stalls.pending}
        self.timeline.lacking = {**waits, **self._lacking.steps}

    async def _questions(self) -> int | None:
        """Answer, ask or tell what is open."""
        try:
            asked = await self.run.interrupts()
            waits = (await self.run.status()).status == "waiting"
        except (WorkerMissing, TemporalUnavailable):
            return None  # that is told elsewhere
        asked = [self._with_file(each) for each in asked if not self._approved(each)]
        self._shown = {each.id: each for each in asked}
        for question in asked:
            fitting = ((each, heard_before(question, each)) for each in self._answers)
            answer, said = next((found for found in fitting if found[1] is not None), ("", None))
            if said is not None:
                self._answers.remove(answer)
                await self._respond(question, said)
                return None
            self._unfit(question)
        mine = [question for question in asked if question.id not in self._others]
        if mine and self._manner.ask:
            self._still()
            self._prompt = Prompt(self.screen, mine[0], self.run.id)
            return None
        for question in asked:
            if question.id not in self._told:
                self._told.add(question.id)
                self._tell(question)
        if asked and waits and self._manner.leave:
            return exits.WAITS
        return None

    def _with_file(self, question: InterruptView) -> InterruptView:
        """A question whose commands name the crew's file, where that is known."""
        if self._file is None or question.kind != MCP_APPROVAL:
            return question
        detail = question.detail.replace(" FILE is the crew's file.", "")
        for command in ("show", "approve"):
            named = f"crewlog mcp {command} {shlex.quote(str(self._file))} "
            detail = detail.replace(f"crewlog mcp {command} FILE ", named)
        return question.model_copy(update={"detail": detail})

    def _approved(self, question: InterruptView) -> bool:
        """Whether a question needs no answer any more: a worker will find the tool approved."""
        return bool(question.approved_at) and time.monotonic() - self._began < NOTICED

    def _unfit(self, question: InterruptView) -> None:
        """Say, once, why what was answered in advance is not taken for this question."""
        if self._answers and question.id not in self._unanswered:
            self._unanswered.add(question.id)
            self._still()
            options = ", ".join(plain(option) for option in question.options)
            left = ", ".join(repr(plain(answer)) for answer in self._answers)
            self.screen.note(
                ("▸ ", "yellow"), f"--answer {left} does not answer {question.id} ({options})"
            )

    def _tell(self, question: InterruptView) -> None:
        if self.screen.as_json:
            found = question.model_dump(mode="json")
            self.screen.record({"event": "interrupt", "run": self.run.id, **found})
            return
        self._still()
        show_question(self.screen, question, self.run.id)
        self.screen.line("    ", *answer_line(self.run.id, question))

    async def _hear(self) -> None:
        """Look whether somebody has typed a whole answer."""
        prompt = self._prompt
        answer = prompt.heard() if prompt else None
        if prompt is None or answer is None:
            return
        self._close_prompt()
        self.screen.line("")
        await self._respond(prompt.question, answer)

    async def _respond(self, question: InterruptView, answer: str | Heard) -> None:
        identity = CommandId(f"a-{secrets.token_hex(8)}")
        try:
            await self._send(question, answer, identity)
        except InterruptNotOpen:
            return  # somebody else was faster; the timeline tells
        except UsageError as error:
            self._refused.add(identity)
            said = sentences(f"{error.message}\n{error.remedy}")
            if isinstance(answer, Heard):  # in advance: the question stays open for others
                self._still()
                self.screen.note(("✗ ", "red"), f"--answer {plain(answer.decision)!r}: {said}")
                return
            self.screen.paragraph(f"✗ {said}", style="red")
            self._looked = 0.0
            if isinstance(error, NotPermitted):
                self._leave_to_others(question)

    async def _send(
        self, question: InterruptView, answer: str | Heard, identity: CommandId
    ) -> None:
        """Sends what was typed, or was said in advance.

        Raises:
            UsageError: it might be a slip, an edit came to nothing, or the run refuses it.
        """
        said = answer if isinstance(answer, Heard) else heard(question, answer)
        if said.decision == "edit" and "edit" not in question.options:
            # An editor takes its time, and the run's worker may live in this process.
            args = await asyncio.to_thread(edited_args, self.screen, question, said.args)
            tool = str(question.action_requests[0]["name"])
            await self.run.edit_call(question.id, tool, args, by=self._manner.by, id=identity)
            return
        await self.run.answer(
            question.id, said.decision, by=self._manner.by, id=identity, reason=said.reason
        )

    def _leave_to_others(self, question: InterruptView) -> None:
        """Say how those answer a question who may; it is not asked here any more."""
        self._others.add(question.id)
        self._told.add(question.id)
        by = f" --by {shlex.quote(plain(question.to[0]))}" if question.to else ""
        self.screen.line("    ", *answer_line(self.run.id, question), by)
        if not self._manner.leave:  # else it leaves by itself, and says so
            self.screen.line("    ", ("Ctrl-C leaves; the run waits on.", "dim"))

    def _close_prompt(self) -> None:
        if self._prompt is not None:
            self._prompt.lift()
            self._prompt.close()
            self._prompt = None

    # -- showing ------------------------------------------------------------------------------

    def _show(self, rows: list[Row]) -> None:
        if self.screen.as_json or not rows:
            return
        width = self.screen.width
        for row in rows:
            for each in self.timeline.split(row, width if width < WHOLE else 110):
                room = width if width >= WHOLE else min(width, 110)
                self.screen.line(*self.timeline.parts(each, room), crop=True)

    def _move(self) -> None:
        """The status line, on a terminal only."""
        if not self.screen.tty:
            return
        parts = self._status_parts()
        if not parts:
            self._still()
            return
        from rich.console import Group  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415
        from rich.spinner import Spinner  # noqa: PLC0415

        text = text_of(*parts)
        text.truncate(max(self.screen.width - 5, 10), overflow="ellipsis")
        width = min(self.screen.width, 110)
        written = [text_of(*line) for line in self._writing.lines(self.timeline, width)]
        if self._live is None or self._spinner is None:
            self._spinner = Spinner("dots", text, style="cyan")
            self._live = Live(
                Group(*written, self._spinner),
                console=self.screen.out,
                transient=True,
                refresh_per_second=10,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        else:
            self._spinner.update(text=text)
            self._live.update(Group(*written, self._spinner))

    def _status_parts(self) -> list[Part]:
        if self._server is not None and self._server.away:
            return [(self._server.status(), "yellow")]
        if self.alone or not self.timeline.started:
            return ["waiting for a worker" if self.alone else "waiting for the worker"]
        found = self.timeline.now(int((time.time() - min(self._behind, 1.0)) * 1000))
        if self.timeline.interrupts and not found:
            open_now = ", ".join(self.timeline.interrupts)
            return [(f"waits for people: {open_now}", "yellow")]
        return found

    def _still(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _failed_record(self, error: str, end_reason: EndReason = "failed") -> None:
        self.screen.record(
            {
                "event": "result",
                "run": self.run.id,
                "status": "failed",
                "error": error,
                "end_reason": end_reason,
                "exit_code": exits.FAILED,
            }
        )

    async def _end(self) -> int:
        self._close_prompt()
        self._still()
        self._show(self.timeline.settle())
        if self._states is not None:
            self._tell_state(self._states.settle())
        if isinstance(self._last, j.RunFailed):
            error = self._last.error
            if self.screen.as_json:
                self._failed_record(error, self._last.end_reason)
            else:
                self.screen.line("")
                look(self.screen, self.run)
            message, _, remedy = error.partition("\n")
            story = f"`crewlog log {self.run.id}` has the whole story."
            raise RunFailed(
                message,
                remedy="\n".join(filter(None, [remedy.strip(), story])),
                place=f"run {self.run.id!r}",
            )
        result = await self.run.result(60)
        code = exits.STOPPED if result.status == "stopped" else exits.OK
        if self.screen.as_json:
            found = result.model_dump(mode="json")
            self.screen.record({"event": "result", **found, "exit_code": code})
            return code
        at = self._last.at - self.timeline.started if self._last else result.ms
        self.screen.line(*summary(result, at))
        tell_warning(self.screen, result.warning)
        show_end(self.screen, self.run, result, self._directory)
        return code
