"""Following the turns of a conversation: what is written, what people are asked, and the answer."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from crewlog.cli import exits
from crewlog.cli.follow import Follower, Manner
from crewlog.cli.presence import Look
from crewlog.cli.screen import Screen, plain, plain_lines, tell_warning, write
from crewlog.cli.timeline import Row
from crewlog.client import Event, Run, TokenEvent
from crewlog.client.gateway import pauses
from crewlog.client.talking import reply_of
from crewlog.errors import CommandRejected, WaitTimeout, WorkerMissing
from crewlog.state import journal as j
from crewlog.wire import Response

if TYPE_CHECKING:
    from crewlog.cli.hands import Hand

_DECIDED = {"approve": "approved", "reject": "rejected", "edit": "approved, as it was edited"}
PATIENCE = 60.0
"""Seconds for a session to begin."""
_WARNINGS = (j.BranchTargetRefused, j.InterruptAnswered, j.CommandRejected)
"""What is told of a turn besides its answer, which says itself why it is none."""


class Talker(Follower):
    """One command's view of a conversation: it is followed from a message to its answer."""

    def __init__(
        self,
        screen: Screen,
        run: Run,
        *,
        hand: Hand | None,
        directory: Path,
        polled: Look | None,
        there: Look,
        queue: str,
        steps: bool,
        by: str = "",
    ) -> None:
        super().__init__(
            screen,
            run,
            manner=Manner(ask=screen.asks, leave=not screen.asks),
            hand=hand,
            directory=directory,
            polled=polled,
            there=there,
            queue=queue,
        )
        self._steps = steps
        self._by = by
        """Who talks."""
        self._waits_for = ""
        """The command whose answer is waited for; empty: of the turn under way."""
        self._turn = 0
        self._ended: j.ExchangeEnded | None = None
        self._crew = ""
        """Who answers where no agent does."""
        self.under_way = False
        """Whether a turn was under way when the session was opened."""
        self._last_reply: Response | None = None

    async def opened(self) -> None:
        """Waits until the session is there, and looks where it is.

        Raises:
            CommandRejected: the run is no conversation.
        """
        deadline = time.monotonic() + PATIENCE
        for pause in pauses(0.05, 0.5):
            try:
                view = await self.run.conversation()
                state = await self.run.state()
                break
            except (WorkerMissing, CommandRejected) as error:
                if "no conversation" in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise WaitTimeout(
                        f"the session {self.run.id!r} did not begin within {PATIENCE:g} s",
                        remedy=f"`crewlog show {self.run.id}` tells what it waits for.",
                    ) from error
            if self._hand is not None:
                await self._hand.keep(self.run.id, self.screen)
            await asyncio.sleep(pause)
        else:
            raise AssertionError
        self.position, self._crew = state.position, state.crew
        self._turn, self._last_reply = view.exchange, view.last_response
        talk = state.conversation
        if talk is not None and not talk.is_idle:
            # From its beginning: what was asked before somebody came is asked here, too.
            self.under_way, self.position, self._last_reply = True, talk.start_position, None
            self._waits_for = talk.message  # where the turn is undone, it gets another one

    def greet(self) -> None:
        """Says which session it is, and what was answered last."""
        if self.screen.as_json:
            self.screen.record({"event": "session", "run": self.run.id, "exchange": self._turn})
            return
        if not self.screen.tty:
            return
        self.screen.line("")
        how = "   Ctrl-D leaves it; it waits. A line that ends with \\ goes on."
        self.screen.line(("  session ", "dim"), (self.run.id, "bold"), (how, "dim"))
        if self._last_reply is not None and self._last_reply.text:
            self.screen.line("")
            self._tell_answer(self._last_reply, style="dim")
        self.screen.line("")

    def leave(self) -> None:
        """Says how to come back."""
        if self.screen.as_json:
            self.screen.record({"event": "left", "run": self.run.id, "exit_code": exits.OK})
        elif self.screen.tty:
            self.screen.line("")
            self.screen.line(("  Return   ", "dim"), f"crewlog chat {self.run.id}")
            self.screen.line(("  End      ", "dim"), f"crewlog stop {self.run.id}")

    async def say(self, text: str, by: str | None) -> None:
        """Says something; its answer is waited for by `answered`."""
        self._waits_for = await self.run.message(text, by=by)
        self._turn = 0

    async def answered(self) -> int | None:
        """Follows the turn to its answer, and tells that; the exit code where the run ended.

        Raises:
            RunFailed: it was ended from outside.
        """
        self._ended, self._over = None, False
        code = await self.follow(self.position)
        if self._ended is None:
            return code
        message, self._waits_for = self._waits_for, ""
        self._tell_answer(await self.run.whole(reply_of(self._ended, message)))
        return None

    # -- what a follower does otherwise ----------------------------------------------------------

    @override
    async def _step(
        self, inbox: asyncio.Queue[Event | TokenEvent | None], reading: asyncio.Future[None]
    ) -> int | None:
        code = await super()._step(inbox, reading)
        return exits.OK if self._ended is not None else code

    @override
    def _take(self, event: Event) -> None:
        super()._take(event)
        entry = event.entry
        if isinstance(entry, j.ExchangeStarted) and entry.message_command == self._waits_for:
            self._turn = entry.exchange
        elif isinstance(entry, j.CommandRejected) and entry.command == self._waits_for:
            self._still()
            raise CommandRejected(entry.reason)
        elif isinstance(entry, j.ExchangeEnded) and self._turn and entry.exchange == self._turn:
            self._still()
            self._ended = entry

    @override
    def _show(self, rows: list[Row]) -> None:
        if self._steps:
            super()._show(rows)
        elif isinstance(self._last, j.BranchTargetRefused) and self._last.used_up:
            return  # the answer has it as a warning, or people are asked
        elif isinstance(self._last, _WARNINGS) and self.screen.tty and not self.screen.as_json:
            for row in (each for each in rows if each.glyph != "●"):  # held back until now
                self._still()
                self.screen.line("  ", (f"{row.glyph} {self._in_words(row)}", row.style))

    def _in_words(self, row: Row) -> str:
        """A row of the timeline without times and numbers of questions: nobody counts here."""
        entry = self._last
        if not isinstance(entry, j.InterruptAnswered) or entry.decision == "withdrawn":
            return f"{row.node}: {row.text}" if row.node else row.text
        by = f" by {plain(entry.by)}" if entry.by and entry.by != self._by else ""
        said = _DECIDED.get(entry.decision, f"answered: {plain(entry.decision)}")
        return f"{said}{by}"

    @override
    async def _end(self) -> int:
        self._close_prompt()
        self._still()
        if isinstance(self._last, j.RunFailed):
            return await super()._end()
        code = exits.STOPPED if isinstance(self._last, j.RunStopped) else exits.OK
        if self.screen.as_json:
            self.screen.record({"event": "ended", "run": self.run.id, "exit_code": code})
        elif self.screen.tty:
            self.screen.line(("  The session has ended. ", "dim"), f"crewlog chat {self.run.id}")
        return code

    def _tell_answer(self, reply: Response, style: str = "") -> None:
        self._still()
        if self.screen.as_json:
            found = reply.model_dump(mode="json")
            self.screen.record({"event": "answer", "run": self.run.id, **found})
        elif not self.screen.tty:
            write(plain_lines(reply.text))
            tell_warning(self.screen, reply.warning)  # not among the answers
        else:
            who = plain(reply.agent or self._crew)
            self.screen.line(("  ", ""), (who, style or "bold green"))
            for line in plain_lines(reply.text).splitlines():
                self.screen.paragraph(line, style=style)
            if reply.error:  # its agents are not told; the person at the terminal may be
                for line in plain_lines(reply.error).splitlines():
                    self.screen.paragraph(line, style="dim")
            tell_warning(self.screen, reply.warning)
            self.screen.line("")
