"""The journal as a timeline for people: which entries are shown, as which line.

Pure: entries go in, rows come out; `crewlog.cli.follow` prints them. Not every fact is a row: a
call's start and its answer are one row where all went well, and what only routes is silent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from crewlog.cli.screen import PALETTE, Part, clock, plain
from crewlog.cli.told_by_hand import (
    edits_in_words,
    permission_in_words,
    redirect_in_words,
    ruling_in_words,
)
from crewlog.cli.told_changes import STATEFUL, requirements_after, state_of, told
from crewlog.content_blocks import content_text, file_labels, find_file_labels
from crewlog.definition.replies import RESPONSE
from crewlog.definition.times import moment_words
from crewlog.graph.plan import BUILT_IN_TOOLS
from crewlog.ids import ANY_NODE, NodeName, StepId, item_number, node_of, visit_number
from crewlog.state import journal as j
from crewlog.state.body_metadata import argument_changes
from crewlog.state.excerpt import excerpt, shortened
from crewlog.state.excerpt import sentences as refusal_sentences
from crewlog.state.finish_reason import ACCEPTED_FAULTS, NO_READINGS

_PATH = re.compile(r"^[\w.-]*[/\w-]+(?:/[\w.-]+)*\.\w{1,8}(?=\s|$)")
_ABOUT_ARGUMENTS = frozenset({"arguments", "checks"})
"""Rules that refuse how a tool is called, and not that it is."""
_BEFORE_JSON = re.compile(r"[{\[`]")
_SLOW = 2_000
"""Milliseconds from which a tool's duration is worth a row."""
WHOLE = 1_000
"""Columns from which on nothing is cut: a pipe, not a terminal."""


def _places(count: int) -> str:
    return f"{count} place{'s' * (count != 1)}"


_UPDATES = {
    "answer": "an answer",
    "edit_state": "an edit",
    "message": "a message",
    "redirect": "a redirect",
    "set_permission": "a permission",
}
"""Commands whose names people never type, as they would call them."""


@dataclass
class Row:
    """A line of the timeline."""

    at: int
    """Milliseconds since the run's start."""
    node: str
    """The node; empty for what is about the whole run."""
    glyph: str
    text: str
    style: str = ""
    """Of glyph and text."""
    more: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Further `(node, glyph, text)` of the same moment."""


@dataclass
class Running:
    """A step under way, for the status line."""

    since: int
    doing: dict[int, str] = field(default_factory=dict[int, str])
    """Calls in flight by number."""


class Timeline:
    """What a run's journal looks like to people."""

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self.nodes = list(nodes)
        self.started = 0
        """Milliseconds since the epoch; 0 until the first entry."""
        self.running: dict[StepId, Running] = {}
        self.interrupts: dict[str, j.InterruptRaised] = {}
        """The open questions."""
        self.waiting: dict[str, str] = {}
        """Requirements of waiting nodes."""
        self.timers: dict[str, str] = {}
        """Until when nodes wait, for people."""
        self.paused = False
        self.lacking: dict[StepId, str] = {}
        """Steps whose calls wait for a worker that has their tool."""
        self.steps = 0
        self.version = 1
        """The graph's version."""
        self.done: set[str] = set()
        """Nodes that are done."""
        self._said: dict[StepId, str] = {}
        self._refusals: dict[StepId, str] = {}
        """What models said as they refused."""
        self._works_at: dict[str, str] = {}
        """The node of each agent's last step."""
        self._skipped: dict[str, int] = {}
        """How many visits of each node were skipped."""
        self._named: dict[StepId, bool] = {}
        """Visits whose items name their agents."""
        self._starts: Row | None = None
        self._stopping = False
        self._reads = ""
        """The agent whose reply was looked at last."""
        self._denied: set[tuple[StepId, int]] = set()
        """Calls that were refused, where the model has not been told so yet."""
        self._failed: tuple[StepId, int] | None = None
        """The last call that failed."""
        self._waits: dict[str, Row] = {}
        """Rows of nodes that wait, until it is clear that they do not go on at once."""

    # -- what comes in ------------------------------------------------------------------------

    def feed(self, entry: j.JournalEntry) -> list[Row]:
        """The rows that an entry makes. Steps that start together are kept for one row."""
        if not self.started:
            self.started = entry.at
        later = [n for n, r in self._waits.items() if r.at < entry.at - self.started]
        made = [*[self._waits.pop(node) for node in later], *self._rows(entry)]
        if isinstance(entry, j.StepStarted):
            self._start(entry, made)
            return []
        if not made:
            return []
        return [*self.flush(), *made]

    def flush(self) -> list[Row]:
        """Steps that started, where none came along."""
        kept, self._starts = self._starts, None
        return [kept] if kept else []

    def settle(self) -> list[Row]:
        """Everything that was kept: nothing came for a moment."""
        waits, self._waits = list(self._waits.values()), {}
        return [*self.flush(), *waits]

    def _start(self, entry: j.StepStarted, made: list[Row]) -> None:
        for row in made:
            if self._starts is None:
                self._starts = row
            else:
                self._starts.more.append((row.node, row.glyph, row.text))

    def _row(self, entry: j.Entry, node: str, glyph: str, text: str, style: str = "") -> list[Row]:
        return [Row(entry.at - self.started, plain(node), glyph, plain(text), style)]

    def _rows(self, entry: j.JournalEntry) -> list[Row]:
        match entry:
            case (
                j.StepStarted()
                | j.ParentStepStarted()
                | j.ItemsRefused()
                | j.StepCompleted()
                | j.StepFailed()
                | j.StepRetried()
                | j.StepCancelled()
                | j.NodesReached()
                | j.BranchTargetRefused()
            ):
                return self._step(entry)
            case j.RequirementMet() | j.TimerStarted() | j.TimerFired():
                return self._wait(entry)
            case (
                j.ModelCallCompleted()
                | j.StructuredOutputParsed()
                | j.StructuredOutputRejected()
                | j.TurnLimitReached()
                | j.ToolCallCompleted()
                | j.PermissionDenied()
                | j.CompletionBuffered()
            ):
                return self._call(entry)
            case j.RunOutputSet():
                # As JSON and in brackets: words of people must not pass for who said them.
                value = "" if entry.value is True else f" = {_as_json(entry.value)}"
                known = entry.by in self.nodes
                who = "" if known or not entry.by else f" (set by {entry.by})"
                text = f"{entry.flag}{value}{who}"
                return self._row(entry, entry.by if known else "", "⚑", text, "yellow")
            case j.OutputSet():
                text = f"{entry.key} = {_value(entry.value)}" if entry.body is None else entry.key
                quiet = entry.agent == self._reads and _says_nothing(entry)
                # Under the name that its step begins and ends with.
                at = self._works_at.get(entry.agent, entry.agent)
                node = node_of(entry.step) if entry.step else at
                return [] if quiet else self._row(entry, node, "=", text, "dim")
            case j.AddressedItemUndelivered():
                text = (
                    f"item {entry.item} of {entry.key} names {entry.recipients}: it reaches nobody"
                )
                return self._row(entry, node_of(entry.step), "!", text, "yellow")
            case j.WriteRefused():
                node = node_of(entry.step) if entry.step else entry.by
                return self._row(entry, node, "≠", entry.description, "red")
            case j.ArtifactOperationsApplied() | j.ArtifactOperationsRefused():
                return self._row(entry, entry.agent, "±", _operations_description(entry), "dim")
            case (
                j.ChangeAccepted()
                | j.GraphReplacement()
                | j.SwapFailed()
                | j.DefinitionChanged()
                | j.RunRolledBack()
                | j.RunForked()
                | j.RunReopened()
                | j.LogsMerged()
            ):
                return self._changed(entry)
            case (
                j.StateEdited()
                | j.StepRedirected()
                | j.ToolPermissionSet()
                | j.AgentPermissionSet()
                | j.CheckpointTagged()
            ):
                return self._by_hand(entry)
            case j.PromptReceived() | j.PromptRead() | j.PromptCompiled() | j.DefinitionEdited():
                return self._prompt(entry)
            case _:
                return self._changed(entry) or self._talked(entry) or self._run(entry)

    # -- steps --------------------------------------------------------------------------------

    def _step(self, entry: j.Entry) -> list[Row]:
        match entry:
            case j.StepStarted():
                return self._started(entry)
            case j.ParentStepStarted():
                text = f"has a step for each of {entry.of} items of {entry.agent}.{entry.key}"
                self._named[entry.step] = bool(entry.agents)
                return self._row(entry, node_of(entry.step), "⋔", text, "cyan")
            case j.ItemsRefused():
                text = f"{entry.agent}.{entry.key} cannot be worked on: {'; '.join(entry.errors)}"
                return self._row(entry, node_of(entry.step), "✗", text, "red")
            case j.StepCompleted():
                return self._completed(entry)
            case j.StepFailed():
                self.running.pop(entry.step, None)
                return self._row(entry, node_of(entry.step), "✗", _first(entry.error), "red")
            case j.StepRetried():
                self.running[entry.step] = Running(entry.at, {0: "trying again"})
                by = f" ({entry.by})" if entry.by else ""
                return self._row(entry, node_of(entry.step), "↻", f"tries again{by}", "cyan")
            case j.StepCancelled():
                self.running.pop(entry.step, None)
                what = "ended by the stop" if self._stopping else "ended"
                return self._row(entry, node_of(entry.step), "■", what, "yellow")
            case j.BranchTargetRefused():
                text = f"{entry.because}: {entry.goes}"
                return self._row(entry, node_of(entry.step), "!", text, "yellow")
            case j.NodesReached():
                return self._routed(entry)
            case _:
                return []

    def _started(self, entry: j.StepStarted) -> list[Row]:
        self.steps += 1
        node = node_of(entry.step)
        doing = "at work" if entry.without_model else "thinking"
        self.running[entry.step] = Running(entry.at, {0: doing})
        self.waiting.pop(node, None)
        if entry.agent is None:
            return []
        self._works_at[entry.agent] = node
        visit = visit_number(entry.step)
        # Visits that were skipped are none of it: nothing was done there before.
        before = visit - 1 - self._skipped.get(node, 0)
        again = f" again (visit {visit})" if before > 0 else ""
        item = f" about item {entry.item}" if entry.parent is not None else ""
        if entry.parent is not None and self._named.get(entry.parent):
            item += f" ({entry.agent})"
        elif str(entry.agent) != str(node):
            again = f" ({entry.agent}){again}"
        return self._row(entry, node, "●", f"{doing}{item}{again}", "cyan")

    def _completed(self, entry: j.StepCompleted) -> list[Row]:
        self.running.pop(entry.step, None)
        said = self._said.pop(entry.step, "")
        node = node_of(entry.step)
        self.timers.pop(node, None)
        if not item_number(entry.step):
            self.done.add(node)
        if entry.skipped:
            if not item_number(entry.step):
                self._skipped[node] = self._skipped.get(node, 0) + 1
            why = entry.because.removeprefix("skipped ").removeprefix("skipped")
            joint = " " if why != entry.because else ": "
            text = f"skipped{joint}{why}" if why else "skipped"
            return self._row(entry, node, "∅", text, "dim")
        if not said and " items: " in entry.because:
            said = entry.because  # a visit whose items did not all end well
        # Decisions say what they decided where they route.
        return self._row(entry, node, "✓", said or "done", "green") if said else []

    def _wait(self, entry: j.RequirementMet | j.TimerStarted | j.TimerFired) -> list[Row]:
        node = node_of(entry.step)
        bounded = node in self.waiting
        if isinstance(entry, j.TimerStarted) and entry.step in self.running:
            until = moment_words(entry.deadline)
            return self._row(entry, node, "◔", f"may take until {until}", "dim")
        if isinstance(entry, j.TimerStarted):
            self.running.pop(entry.step, None)
            self.timers[node] = until = moment_words(entry.deadline)
            what = "waits at most until" if bounded else "waits until"
            return self._row(entry, node, "◔", f"{what} {until}", "yellow")
        self.timers.pop(node, None)
        if isinstance(entry, j.TimerFired):
            what = "its condition did not come in time" if bounded else "its time has come"
            return self._row(entry, node, "▸", what, "dim")
        self.waiting.pop(node, None)
        if self._waits.pop(node, None):
            return []  # it held already
        what = "goes on without its requirement" if entry.waived else "its condition holds"
        return self._row(entry, node, "▸", what, "dim")

    def _routed(self, entry: j.NodesReached) -> list[Row]:
        rows: list[Row] = []
        if entry.because and entry.source:
            goes = ", ".join(r.node for r in entry.to)
            sign = "↺" if entry.loop else "→"
            text = f"{goes or 'on'}: {entry.because}"
            rows += self._row(entry, entry.source, sign, text, "magenta")
        for reached in entry.to:
            if reached.requirement:
                self.waiting[reached.node] = reached.requirement
                text = f"waits for {reached.requirement}"
                row = self._row(entry, reached.node, "◌", text, "yellow")[0]
                self._waits[reached.node] = row
        return rows

    def _without_summary(self, entry: j.ModelCallCompleted) -> list[Row]:
        """That a model did not sum up what its window leaves out."""
        if entry.window is None or not entry.window.error:
            return []
        text = f"no summary of {entry.window.left_out} messages: {entry.window.error}"
        return self._row(entry, node_of(entry.step), "!", text, "yellow")

    def _taken_as_it_is(self, entry: j.ModelCallCompleted) -> list[Row]:
        """That a reply is no good answer, and counts by `bad_reply: accept`."""
        if not entry.ending or entry.refused:
            return []
        text = f"its reply is taken as it is: {ACCEPTED_FAULTS[entry.ending]}"
        return self._row(entry, node_of(entry.step), "!", text, "yellow")

    # -- calls --------------------------------------------------------------------------------

    def _replied(self, entry: j.ModelCallCompleted) -> list[Row]:
        running = self.running.setdefault(entry.step, Running(entry.at))
        running.doing = {c.call: plain(f"{c.tool} {c.excerpt}") for c in entry.calls}
        running.since = entry.at
        self._refusals.pop(entry.step, None)
        if entry.ending == "refused":
            self._refusals[entry.step] = plain(entry.excerpt)
        if not entry.calls and not entry.refused:
            self._said[entry.step] = _final_words(entry)
        rows = self._without_summary(entry) + self._taken_as_it_is(entry)
        for call in entry.calls:
            if call.tool in BUILT_IN_TOOLS:
                continue  # its effect is a row of its own
            text = f"{call.tool} {_brief(call.excerpt)}"
            rows += self._row(entry, node_of(entry.step), "⚙", text)
        return rows

    def _call(self, entry: j.Entry) -> list[Row]:
        match entry:
            case j.ModelCallCompleted():
                return self._replied(entry)
            case j.ToolCallCompleted():
                return self._returned(entry)
            case j.CompletionBuffered():
                self._answered(entry.step, entry.call, entry.at)
                return []
            case j.PermissionDenied():
                return self._refused(entry)
            case j.StructuredOutputParsed() | j.StructuredOutputRejected() | j.TurnLimitReached():
                return self._read(entry)
            case _:
                return []

    def _returned(self, entry: j.ToolCallCompleted) -> list[Row]:
        self._answered(entry.step, entry.call, entry.at)
        node, key = node_of(entry.step), (entry.step, entry.call)
        if key in self._denied:  # it was told why; the model is told now
            self._denied.discard(key)
            return []
        if not entry.ok:
            self._failed = key
            return self._row(entry, node, "✗", f"{entry.tool}: {entry.excerpt}", "red")
        if names := " ".join(find_file_labels(entry.excerpt)):
            return self._row(entry, node, "⚙", f"{entry.tool} gave {names}", "dim")
        if entry.ms >= _SLOW:
            text = f"{entry.tool} took {entry.ms / 1000:.1f} s"
            return self._row(entry, node, "⚙", text, "dim")
        return []

    def _read(
        self, entry: j.StructuredOutputParsed | j.StructuredOutputRejected | j.TurnLimitReached
    ) -> list[Row]:
        """What became of a final message that must be of a form."""
        node, self._reads = node_of(entry.step), entry.agent
        if isinstance(entry, j.StructuredOutputParsed) and entry.step in self._said:
            # Its fields are rows of their own: of the message what stands before them is told.
            self._said[entry.step] = _BEFORE_JSON.split(self._said[entry.step])[0].strip() or "done"
        match entry:
            case j.StructuredOutputParsed(how="lenient"):
                return self._row(entry, node, "≈", f"taken to mean {entry.excerpt}", "dim")
            case j.StructuredOutputParsed(how="fallback"):
                return self._row(
                    entry, node, "≈", f"the fallback counts: {entry.excerpt}", "yellow"
                )
            case j.StructuredOutputParsed():
                return []  # its fields are rows of their own
            case j.StructuredOutputRejected():
                if entry.ref is not None:
                    self.running[entry.step] = Running(entry.at, {0: "thinking again"})
                which = f"reply {entry.attempt} of {entry.of}"
                text = f"{which} cannot be used: {'; '.join(entry.errors)}"
                if refusal := self._refusals.get(entry.step):
                    text += f": {refusal}"
                return self._row(entry, node, "✗", text, "red")
            case j.TurnLimitReached():
                text = f"ends with what is there: {entry.calls} model calls are its most"
                return self._row(entry, node, "■", text, "yellow")

    def _refused(self, entry: j.PermissionDenied) -> list[Row]:
        """A refusal, once: it stands before or behind what the model is told of it."""
        call, running = (entry.step, entry.call), self.running.get(entry.step)
        if entry.rule and call == self._failed:
            return []
        if running is not None and entry.call in running.doing:
            self._denied.add(call)
        node = node_of(entry.step)
        if entry.rule in _ABOUT_ARGUMENTS:  # with others it may be called
            return self._row(entry, node, "✗", f"{entry.tool}: {entry.reason}", "red")
        return self._row(entry, node, "⊘", f"may not call {entry.tool}: {entry.reason}", "red")

    def _answered(self, step: StepId, call: int, at: int) -> None:
        running = self.running.get(step)
        if running is not None:
            running.doing.pop(call, None)
            if not running.doing:
                running.doing, running.since = {0: "thinking"}, at

    # -- changes ------------------------------------------------------------------------------

    def _changed(self, entry: j.Entry) -> list[Row]:
        rows = [
            row
            for each in told(entry, self.version)
            for row in self._row(entry, each.node, each.glyph, each.text, each.style)
        ]
        match entry:
            case j.GraphReplacement():
                self.version = entry.graph_version
                self.waiting = requirements_after(entry, self.waiting)
                for step in entry.remap.detached:
                    self.running.pop(step, None)
            case j.RunRolledBack() | j.RunForked() | j.RunReopened():
                self._begin_from(entry)
            case _:
                pass
        return rows

    def _begin_from(self, entry: STATEFUL) -> None:
        """Remembers what a state says instead of what was told before it."""
        state = state_of(entry)
        self.version = state.graph_version
        self.paused = state.status == "paused"
        self.done = {node for node, count in state.routing.completed.items() if count}
        self.running = {
            each.step: Running(entry.at, {0: "thinking"})
            for each in state.frontier.values()
            if each.turn is not None and each.status == "running"
        }
        self.waiting = {
            each.node: each.requirement
            for each in state.frontier.values()
            if each.status == "waiting" and each.requirement
        }
        self.interrupts = {
            id_: j.InterruptRaised(interrupt=asked) for id_, asked in state.interrupts.items()
        }
        self.timers = {
            each.node: moment_words(each.deadline)
            for each in state.frontier.values()
            if each.status == "waiting" and each.deadline
        }
        self._said, self._waits, self._denied = {}, {}, set()

    @property
    def statuses(self) -> dict[NodeName, str]:
        """The status of each node that was reached, as `crewlog.reporting.drawing` takes it."""
        found = dict.fromkeys((NodeName(node) for node in self.done), "done")
        found |= dict.fromkeys(
            (NodeName(node) for node in (*self.waiting, *self.timers)), "waiting"
        )
        return found | dict.fromkeys((node_of(step) for step in self.running), "running")

    # -- the run ------------------------------------------------------------------------------

    def _prompt(self, entry: j.Entry) -> list[Row]:
        match entry:
            case j.PromptReceived():
                return self._row(entry, "", "●", "reading the prompt", "cyan")
            case j.PromptRead() if entry.errors:
                again = f"the model's reading does not hold in {_places(entry.errors)}"
                if entry.ending:
                    again = f"the model gave no reading: {NO_READINGS[entry.ending]}"
                return self._row(entry, "", "✗", again, "yellow")
            case j.PromptCompiled():
                how = {"model": "a model", "forms": "the forms"}[entry.reader]
                text = f"the prompt makes the crew '{entry.crew}', read by {how}"
                return self._row(entry, "", "✓", text, "green")
            case j.DefinitionEdited():
                text = f"the crew was changed{_by(entry.by)}"
                return self._row(entry, "", "✓", text, "yellow")
            case _:
                return []

    def _talked(self, entry: j.JournalEntry) -> list[Row]:
        """A conversation: where an exchange begins and ends, and what waits for one."""
        match entry:
            case j.MessageQueued(requeued=str(again)) if again:
                text = f"what {entry.by or 'people'} said waits again: its turn was undone"
                return self._row(entry, "", "»", text)
            case j.MessageQueued():
                said = content_text(entry.ref.inline.get("content", "")) if entry.ref.inline else ""
                text = f"{entry.by or 'people'}: {said} (it waits for its turn)"
                return self._row(entry, "", "»", text)
            case j.ExchangeStarted() if entry.exchange > 1:
                return self._row(entry, "", "◆", f"exchange {entry.exchange}", "dim")
            case j.ExchangeEnded() if entry.exchange:
                who = f"{entry.agent} answers" if entry.agent else "no agent answers"
                told = entry.error or entry.warning
                why = f": {_first(told)}" if told else ""
                return self._row(
                    entry, "", "◇", f"exchange {entry.exchange} is over, {who}{why}", "dim"
                )
            case _:
                return []

    def _message(self, entry: j.MessageAdded) -> list[Row]:
        """What people said to the run; of its input, which they know, the files alone."""
        by, body = entry.by or "people", entry.ref.inline
        if entry.command is not None:
            said = content_text(body.get("content", "")) if body else ""
            to = ", ".join(log for log in entry.ref.logs if log != "public")
            return self._row(entry, "", "»", f"{by}{f' to {to}' if to else ''}: {said}")
        names = file_labels(body) if entry.step is None else ""
        return self._row(entry, "", "»", f"{by}: {names}") if names else []

    def _run(self, entry: j.JournalEntry) -> list[Row]:
        match entry:
            case j.MessageAdded():
                return self._message(entry)
            case j.InterruptRaised():
                asked = entry.interrupt
                self.interrupts[asked.id] = entry
                node = node_of(asked.step) if asked.step else NodeName("")
                text = f"{asked.id}: {shortly(asked.question, asked.detail)}"
                return self._row(entry, node, "?", text, "bold yellow")
            case j.InterruptAnswered():
                question = self.interrupts.pop(entry.interrupt, None)
                by, why = _by(entry.by), _why(entry.reason)
                if entry.decision == "withdrawn":
                    text = f"{entry.interrupt} withdrawn{by}{why}"
                    return self._row(entry, "", "↩", text, "dim")
                edit = argument_changes(entry.inline, question.interrupt.args if question else None)
                decision = f"{entry.decision} ({edit})" if edit else entry.decision
                text = f"{entry.interrupt} answered{by}: {decision}{why}"
                return self._row(entry, "", "✓", text, "green")
            case j.BreakpointSet():
                where = "the next step" if entry.node == ANY_NODE else f"'{entry.node}'"
                text = f"will ask before {where}{_by(entry.by)}"
                return self._row(entry, "", "?", text, "yellow")
            case j.Paused():
                self.paused = True
                text = f"paused{_by(entry.by)}{_why(entry.reason)}"
                return self._row(entry, "", "⏸", text, "bold yellow")
            case j.RunResumed():
                self.paused = False
                return self._row(
                    entry, "", "▶", f"goes on{_by(entry.by)}{_why(entry.reason)}", "green"
                )
            case j.StopRequested():
                self._stopping = True
                text = f"stopping{_by(entry.by)}{_why(entry.reason)}"
                return self._row(entry, "", "■", text, "bold yellow")
            case j.CommandRejected():
                what = _UPDATES.get(entry.name, f"'{entry.name}'")
                text = f"refused {what}{_by(entry.by)}: {sentences(entry.reason)}"
                return self._row(entry, "", "✗", text, "red")
            case j.ExecutionContinuedAsNew():
                return self._row(entry, "", "↷", f"execution {entry.execution}", "dim")
            case j.RunFailed():
                return self._row(entry, "", "✗", f"failed: {_first(entry.error)}", "bold red")
            case _:
                return []

    def _by_hand(self, entry: j.Entry) -> list[Row]:
        match entry:
            case j.StateEdited():
                text = f"edited{_by(entry.by)}: {edits_in_words(entry)}{_why(entry.reason)}"
                return self._row(entry, "", "✎", text, "yellow")
            case j.StepRedirected():
                node = node_of(entry.step)
                text = f"{redirect_in_words(entry)}{_by(entry.by)}{_why(entry.reason)}"
                return self._row(entry, node, "↪", text, "yellow")
            case j.ToolPermissionSet():
                text = f"{permission_in_words(entry)}{_by(entry.by)}{_why(entry.reason)}"
                return self._row(entry, "", "⚿", text, "yellow")
            case j.AgentPermissionSet():
                text = f"{ruling_in_words(entry)}{_by(entry.by)}{_why(entry.reason)}"
                return self._row(entry, "", "⚿", text, "yellow")
            case j.CheckpointTagged():
                text = f"checkpoint {entry.checkpoint} is '{entry.tag}'{_by(entry.by)}"
                return self._row(entry, "", "⚐", text, "dim")
            case _:
                return []

    # -- what goes out ------------------------------------------------------------------------

    def color(self, node: str) -> str:
        """The node's colour, by its place in the plan."""
        if not node:
            return ""
        if node not in self.nodes:
            self.nodes.append(node)
        return PALETTE[self.nodes.index(node) % len(PALETTE)]

    def parts(self, row: Row, width: int) -> list[Part]:
        """A row as styled text: time, node in its column, glyph and text."""
        column = self.column(width)
        narrow = width < 50
        out: list[Part] = [(f"  {clock(row.at)}  ", "dim")]
        if row.node or not narrow:
            out += [(_fit(row.node, column), self.color(row.node)), "  "]
        out += [(f"{row.glyph} ", row.style), (row.text, _text_style(row))]
        used = 10 + column + 2 + len(row.text)
        for node, glyph, text in row.more:
            pad = max(2, 38 + (row.more.index((node, glyph, text))) * 30 - used)
            out += [" " * pad, (node, self.color(node)), f"  {glyph} {text}"]
            used += pad + len(node) + 4 + len(text)
        return out

    def column(self, width: int) -> int:
        """Columns that a node's name takes; in a pipe every name is whole."""
        longest = max((len(plain(n)) for n in self.nodes), default=8)
        return longest if width >= WHOLE else min(longest, 22, max(width // 4, 8))

    def fitted(self, node: str, width: int) -> list[Part]:
        """A node in its column."""
        return [(_fit(plain(node), self.column(width)), self.color(node))]

    def split(self, row: Row, width: int) -> list[Row]:
        """A row that is too long for its `more`, as several."""
        if not row.more:
            return [row]
        length = sum(
            p if isinstance(p, int) else len(_plain_part(p)) for p in self.parts(row, width)
        )
        if length <= width:
            return [row]
        others = [Row(row.at, n, g, t, row.style) for n, g, t in row.more]
        return [Row(row.at, row.node, row.glyph, row.text, row.style), *others]

    def now(self, at: int) -> list[Part]:
        """The status line: what runs, since when, and what waits."""
        found: list[Part] = []
        for step, running in self.running.items():
            seconds = max(at - running.since, 0) // 1000
            first = next(iter(running.doing.values()), "thinking")
            if step in self.lacking:
                what = plain(self.lacking[step]).partition(": ")[0]
                found += [" · " if found else "", (plain(node_of(step)), self.color(node_of(step)))]
                found.append((f" {what}", "yellow"))
                continue
            more = f" +{len(running.doing) - 1}" if len(running.doing) > 1 else ""
            node = node_of(step)
            found += [" · " if found else "", (plain(node), self.color(node))]
            found.append(f" {first[:40]}{more}{f' {seconds} s' if seconds else ''}")
        for name, requirement in self.waiting.items():
            text = f" waits for {plain(requirement)}"
            found += [" · " if found else "", (plain(name), self.color(name)), (text, "dim")]
        for name, until in self.timers.items():
            if name not in self.waiting:
                found += [" · " if found else "", (plain(name), self.color(name))]
                found.append((f" waits until {until}", "dim"))
        return found


def _says_nothing(entry: j.OutputSet) -> bool:
    """Whether a reply's field is empty, or the whole text, which the end of its step tells."""
    if entry.body is not None:
        return entry.key == RESPONSE
    return entry.value is None or entry.value == ""


def shortly(question: str, detail: str) -> str:
    """A question without the detail that is told beside it."""
    text, rest = plain(question), plain(detail)
    shorter = text.removesuffix(rest).rstrip(" :") if rest else text
    return shorter or text


def _first(text: str) -> str:
    return next(iter(text.splitlines()), "")


def _plain_part(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


def _fit(text: str, width: int) -> str:
    return shortened(text, width).ljust(width)


def _text_style(row: Row) -> str:
    return row.style if row.glyph in {"✗", "?", "⏸", "⊘", "◌", "■", "∅", "▸", "◔", "=", "⚑"} else ""


def _brief(text: str) -> str:
    """Arguments in a line: a path says enough by itself."""
    line = plain(text)
    found = _PATH.match(line)
    return found[0] if found else line


def _value(value: object) -> str:
    return plain(value) if isinstance(value, str) else _as_json(value)


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def sentences(refusal: str) -> str:
    """What is wrong, and the remedy on the lines after it, as sentences on one line."""
    return plain(refusal_sentences(refusal))


def _by(who: str) -> str:
    return f" by {who}" if who else ""


def _why(reason: str) -> str:
    return f": {reason}" if reason else ""


def _final_words(entry: j.ModelCallCompleted) -> str:
    """The start of a final message, with how it ended where it is no good answer."""
    if not entry.ending:
        return plain(entry.excerpt) or "done"
    return f"{plain(entry.excerpt)} ({entry.ending}, accepted)".lstrip()


def _operations_description(
    entry: j.ArtifactOperationsApplied | j.ArtifactOperationsRefused,
) -> str:
    """`workflow: 3 operations, 1 left out (2: remove '/nodes/b': there is no 'b')`."""
    why = f" ({excerpt(entry.reasons[0], 160)})" if entry.reasons else ""
    left = f"{entry.refused} left out{why}" if entry.refused else ""
    if isinstance(entry, j.ArtifactOperationsRefused):
        return f"{entry.artifact}: of call {entry.call}, {left}"
    count = f"{entry.count} {'operation' if entry.count == 1 else 'operations'}"
    return f"{entry.artifact}: {count}" + (f", {left}" if left else "")
