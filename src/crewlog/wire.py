"""The JSON contract: what any client, in any language, sends to a `CrewRun` and gets from it.

`docs/wire.md` tells it in words, with examples for the `temporal` command line. Names and shapes
are durable data: a field may be added with a default, never renamed or removed.

| | name | takes | gives |
| --- | --- | --- | --- |
| start | `CrewRun` | `StartRun` | `RunResult` |
| signal | `pause`, `resume`, `stop` | `Command` | |
| signal | `interrupt` | `InterruptCommand` | |
| signal | `message` | `MessageCommand` | |
| signal | `tag` | `TagCommand` | |
| update | `respond` | `Respond` | `CommandResult` |
| update | `change` | `Change` | `Changed` |
| update | `edit_state` | `EditState` | `CommandResult` |
| update | `redirect` | `Redirect` | `CommandResult` |
| update | `rollback` | `Rollback` | `CommandResult` |
| update | `set_permission` | `SetPermission` | `CommandResult` |
| query | `status` | | `RunView` |
| query | `state` | | `CrewState` |
| query | `graph` | | `GraphView` |
| query | `interrupts` | | list of `InterruptView` |
| query | `journal` | `Page` | `JournalPage` |
| query | `checkpoints` | `Page` | `CheckpointPage` |
| query | `permissions` | `PermissionsQuery` | `PermissionsPage` |
"""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from typing_extensions import override

from crewlog.authority.signatures import Signature
from crewlog.canonical_json import hash_json
from crewlog.definition.operations import Operation
from crewlog.graph.swap import SwapReport
from crewlog.ids import (
    AgentName,
    CommandId,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    ToolName,
)
from crewlog.message_files import MOST_FILES, FileRef
from crewlog.model import Json, Model
from crewlog.reporting.permission_matrix import Cell
from crewlog.run_status import EndReason, RunStatus
from crewlog.state.checkpoints import CheckpointKind
from crewlog.state.components import Rename
from crewlog.state.initial_state import Given
from crewlog.state.model import InterruptQuota
from crewlog.usage import Usage

WORKFLOW_TYPE = "CrewRun"
TASK_QUEUE = "crewlog"
"""The default task queue."""

SIGNALS = ("pause", "resume", "stop", "interrupt", "message", "tag")
UPDATES = ("ask", "respond", "change", "edit_state", "redirect", "rollback", "set_permission")
MERGING = "merging"
"""The signal that has a run look at another one, with which it may be in a merge."""
READS = "reads"
"""The query that proves that the workers can read what a client has put outside of a history: it
answers the hash of its argument, whatever that is."""
QUERIES = (
    "status",
    "state",
    "graph",
    "interrupts",
    "journal",
    "checkpoints",
    "permissions",
    "conversation",
)

_SPOKEN = {"respond": "answer", "edit_state": "edit", "message": "inject"}


def spoken(name: str) -> str:
    """What the command line calls a command: what people are told of it has that name."""
    return _SPOKEN.get(name, name)


_NOUNS = {"set_permission": "ruling", "ask": "question"}
# Not in `_SPOKEN`: what a run journals has those words, and a replay says them again.


def noun(name: str) -> str:
    """What people are told that a command is: `this ruling`, of what `deny` and `allow` send."""
    return _NOUNS.get(name, spoken(name))


_NAMED = re.compile(
    r"\b(this|that) (respond|set_permission|edit_state|message)(?= needs|,| has| is)"
)


def refusal_text(refusal: str) -> str:
    """What the gate says, for people: `this ruling` where it has `this set_permission`."""

    def told(found: re.Match[str]) -> str:
        called = noun(found[2])
        article = "an " if called[0] in "aeiou" else "a "
        return f"{found[1]} {'' if found[1] == 'this' else article}{called}"

    return _NAMED.sub(told, refusal)


SEARCH_ATTRIBUTES = ("CrewlogCrew", "CrewlogPhase", "CrewlogStatus", "CrewlogWaiting")
"""Keyword search attributes; left out where the server does not know them."""

CLOSING = "Closing"
"""The type of the error that refuses an update while the run continues as new: send it again."""

BUSY = "Busy"
"""The type of the error that refuses an `ask` where enough others wait by it."""


LARGEST_POSITION = 2**53
"""No journal comes to it, and every language has it as a whole number."""
_TAG = re.compile(r"[^\W_][\w.-]*")
DIGEST = 12
"""Characters of a command's digest: 72 bits."""
_ASIDE = frozenset(
    {"id", "by", "reason", "hash", "graph_version", "expect", "dry_run", "proof", "said_to"}
)
"""Fields of commands that are no part of their digests."""


class WireInput(Model):
    """What comes from outside. Unknown fields are refused by name, as everywhere."""

    model_config = ConfigDict(str_max_length=4_000_000)


class ForkSource(WireInput):
    """Another run, as it was at a checkpoint."""

    run: RunId
    position: int = Field(ge=1, le=LARGEST_POSITION)
    """The checkpoint."""
    operations: tuple[Operation, ...] = ()
    """What is to be otherwise from there on."""
    definition: dict[str, Json] | None = None
    """A definition to go on with instead of that run's; not together with `operations`."""

    @model_validator(mode="after")
    def _one_change(self) -> Self:
        if self.operations and self.definition is not None:
            raise ValueError("`operations` and `definition` do not go together")
        return self


class SplitSource(WireInput):
    """The run that another one begins as a part of: its journal says which part that is."""

    run: RunId
    after: int
    """The journal position above which it says so."""


class StartRun(WireInput):
    """What `CrewRun` is started with."""

    crew: str | dict[str, Json] = ""
    """A registered crew's name, an inline definition, or a prompt: a text that has a space or a
    line break, and so is no name. Empty with `fork`, and with `reopen`, but where
    that is `recipe` and the recipe is written otherwise by now: then a name or a definition."""
    fork: ForkSource | None = None
    """Set where the run goes on from a checkpoint of another one."""
    reopen: Literal["recipe", "live"] | None = None
    """Set where a run of this id has ended and goes on: with the definition that it was started
    with, or with the one that it had at last."""
    split: SplitSource | None = None
    """Set by runs alone: where the run begins as a part of one whose graph fell apart."""
    replace: bool = False
    """Whether the rows that an ended run of this id has in the store are removed first."""
    replaced: tuple[str, ...] = ()
    """With `replace` or `reopen`: the ended run's last executions, by Temporal's run ids: what
    activities of theirs still store is refused."""
    input: Json = ""
    """What the crew is asked to do: a text, or data that is shown to it as JSON."""
    files: tuple[FileRef, ...] = Field(default=(), max_length=MOST_FILES)
    """Files that it is given with the input: their bytes are beside the history, in the folder of
    large payloads."""
    by: str = ""
    """Who starts it."""
    reason: str = Field(default="", max_length=10_000)
    """With `reopen`: why, for the journal."""
    queue: str = ""
    """The task queue of its activities; by default the workflow's own."""
    registry: str = ""
    """Of a prompt: the registered registry that says what it may use; by default nothing."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """Of a prompt: who reads it. `auto`: a model where one is configured, else the forms."""
    model: str = ""
    """The model of every agent of a definition, in the place of those that it names. Of a prompt:
    the model that reads it and that its crew uses, where the prompt names none."""
    command: str = Field(default="", max_length=200)
    """The id of the `ask` that starts it, whose text is the input: it is not said twice."""
    given: Given | None = None
    """What there is already when it begins: messages and values, for a stage that is tried alone.
    Not of a prompt."""
    proof: Signature | None = None
    """Who starts it, where the crew's policy takes signed commands only."""

    @override
    def to_json(self) -> dict[str, Json]:
        """As JSON, in which every operation says what it is, though that is a default."""
        data = super().to_json()
        if self.fork is not None and self.fork.operations:
            told = [{"op": each.op, **each.to_json()} for each in self.fork.operations]
            data["fork"]["operations"] = told
        return data

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        begins = (self.fork, self.reopen, self.split)
        edited = self.reopen == "recipe" and self.prompt is None
        if sum([bool(self.crew) and not edited, *(each is not None for each in begins)]) != 1:
            raise ValueError("exactly one of `crew`, `fork` and `reopen` is needed")
        if (not self.crew or edited) and (self.input != "" or self.files):
            raise ValueError("`input` goes with `crew`; a `message` says something to other runs")
        if self.given is not None and (not self.crew or edited or self.prompt is not None):
            raise ValueError("`given` goes with a `crew` that is no prompt")
        if self.command and (not self.crew or edited):
            raise ValueError("`command` goes with `crew`, whose `input` it is")
        if self.replaced and not (self.replace or self.reopen):
            raise ValueError("`replaced` goes with `replace` and with `reopen`")
        if self.reason and not self.reopen:
            raise ValueError("`reason` goes with `reopen`")
        return self

    @model_validator(mode="after")
    def _of_its_crew(self) -> Self:
        """Refuses what has no effect on what is started: nobody would notice that it has none."""
        check_prompt_fields(self.registry, self.reader, prompt=self.prompt is not None)
        if self.model and (self.fork or self.reopen or self.split):
            raise ValueError(
                "`model` goes with a definition or a prompt: this run has its models; an operation "
                "`edit_crew` with the field `model` gives it another one"
            )
        if self.model and isinstance(self.crew, str) and self.prompt is None:
            raise ValueError(
                "`model` goes with a definition or a prompt: a registered crew has its models"
            )
        return self

    @property
    def prompt(self) -> str | None:
        """The prompt, where it is one."""
        return self.crew if isinstance(self.crew, str) and is_prompt(self.crew) else None


def check_prompt_fields(registry: str, reader: str, *, prompt: bool) -> None:
    """Checks that what is said of a prompt is said of one.

    Raises:
        ValueError: it is said where there is none.
    """
    given = {"`registry`": bool(registry), "`reader`": reader != "auto"}
    if not prompt and (named := [name for name, said in given.items() if said]):
        verb = "goes" if len(named) == 1 else "go"
        raise ValueError(f"{' and '.join(named)} {verb} with a prompt, and there is none")


def is_prompt(crew: str) -> bool:
    """Whether a text is a prompt: no name of a crew has a space in it."""
    return any(character.isspace() for character in crew.strip())


class Command(WireInput):
    """What every command has. A repeated `id` has no effect."""

    id: CommandId = Field(min_length=1, max_length=200)
    """Chosen by the sender, unique in the run."""
    by: str = Field(default="", max_length=200)
    """Who commands."""
    reason: str = Field(default="", max_length=10_000)
    """Why, for the journal."""
    proof: Signature | None = None
    """Whose command it is, where the crew's policy takes signed ones only; else not looked at."""

    def digest(self, name: str) -> str:
        """What the command asks for, in short: the same id with another digest is a conflict.

        Who sends it, why, and what it takes for granted of the run is no part of it: a repetition
        may say these otherwise, or not at all.

        Args:
            name: The signal's or update's name.
        """
        said = {key: value for key, value in self._said().items() if key not in _ASIDE}
        return hash_json([name, said])[:DIGEST]

    def _said(self) -> dict[str, Json]:
        """The command's fields, without those that have their default."""
        return self.to_json()


class InterruptCommand(Command):
    """Ask people before a node runs."""

    node: NodeName = NodeName("*")
    """The node; `*` is the next step, whichever it is."""


class MessageCommand(Command):
    """Say something to the crew."""

    text: str = Field(min_length=1)
    """What is said."""
    files: tuple[FileRef, ...] = Field(default=(), max_length=MOST_FILES)
    """Files that go with it, as for `StartRun`."""
    to: LogName = LogName("public")
    """The log that it goes to: `public`, `group:G`, `channel:C` or `private:A`."""
    was: LogName | None = None
    """What that log was called in the run that it was said to first, where a merge gave it another
    name: sent again, it is the same command."""
    said_to: RunId | None = None
    """The run that it was said to, where that became part of this one before it took it: `to` means
    what that run called so, and the signature names that run, and not this field."""

    @override
    def digest(self, name: str) -> str:
        if self.was is None:
            return super().digest(name)
        return self.model_copy(update={"to": self.was, "was": None}).digest(name)


class EditedAction(WireInput):
    """An action as people want it instead."""

    name: str
    """The action's name: `run_crew`, or the tool's."""
    args: dict[str, Json]
    """Its arguments: of `run_crew` the `definition`; of a tool all of them."""


class Decision(WireInput):
    """A decision of people, in LangChain's human-in-the-loop shape."""

    type: Literal["approve", "reject", "respond", "edit"]
    """`approve` takes the option of that name, else the first; `reject` its own, else the last;
    `respond` what `message` says, `edit` another definition (of an `approval`), or other arguments
    (of a `tool_approval`)."""
    message: str = ""
    """The option or the words; with `reject`, why."""
    edited_action: EditedAction | None = None
    """Of `edit`: what to do instead."""

    @model_validator(mode="after")
    def _edits(self) -> Self:
        if (self.type == "edit") != (self.edited_action is not None):
            raise ValueError("`edited_action` goes with the type `edit`, and only with it")
        return self


class Respond(Command):
    """Answer an open interrupt."""

    interrupt: InterruptId
    """Which one."""
    decisions: tuple[Decision, ...] = Field(min_length=1, max_length=1)
    """The decision: one for each action request, of which there is one."""
    hash: str = Field(default="", max_length=200)
    """Of an `approval`: the definition that the answer is about; another than the question's is
    refused."""


class AskRun(Command):
    """Say something to a run, where there is anything to say, and wait for its result."""

    text: str = ""
    """What is said; with the id that the run was started with (`StartRun.command`), it is the
    input and not said again. Empty: nothing."""
    to: LogName = LogName("public")
    """The audience."""


class TagCommand(Command):
    """Give a checkpoint a name."""

    checkpoint: int = Field(ge=1, le=LARGEST_POSITION)
    """Its position."""
    tag: str = Field(min_length=1, max_length=100)
    """The name: letters, digits and `.` `_` `-`, not digits alone. A name that another checkpoint
    has moves to this one."""

    @field_validator("tag")
    @classmethod
    def _is_name(cls, tag: str) -> str:
        if not _TAG.fullmatch(tag) or tag.isdecimal():
            raise ValueError(
                f"{tag!r} cannot be a checkpoint's name: it begins with a letter or a digit, has "
                "letters, digits and . _ - only, and is no number"
            )
        return tag


class Change(Command):
    """Change a live run: by a prompt, by a definition, or by operations; exactly one of them."""

    prompt: str = ""
    """A prompt that says all that the crew is to be."""
    registry: str = ""
    """Of a prompt: the registry; by default the one of the run's own prompt."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """Of a prompt: who reads it."""
    model: str = ""
    """Of a prompt: the model that reads it and that its crew uses, where the prompt names none."""
    definition: str | dict[str, Json] | None = None
    """A registered crew's name, or a definition."""
    operations: tuple[Operation, ...] = Field(default=(), max_length=1000)
    """Changes to the definition that the run has."""
    graph_version: int | None = None
    """The version that it was made against: another one is a `ChangeConflict`. None: any."""
    expect: str = Field(default="", max_length=200)
    """The hash of the definition that must come out, as a dry run told it: another one is a
    `ChangeConflict`. Empty: any."""
    dry_run: bool = False
    """Whether it is only told what the change would do."""
    running: Literal["finish", "abandon"] = "finish"
    """What happens to steps in mid-turn whose nodes go: their turns go on to the end, or are cut
    off."""
    drain_timeout: float | None = Field(default=None, gt=0)
    """Seconds for the activities under way to end; then they are cancelled, and made again with
    the new graph. None: they are waited for."""

    @override
    def _said(self) -> dict[str, Json]:
        operations = [{"op": each.op, **each.to_json()} for each in self.operations]
        return {**self.to_json(), "operations": operations}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [bool(self.prompt), self.definition is not None, bool(self.operations)]
        if sum(given) != 1:
            raise ValueError("exactly one of `prompt`, `definition` and `operations` is needed")
        check_prompt_fields(self.registry, self.reader, prompt=bool(self.prompt))
        if self.model and not self.prompt:
            raise ValueError(
                "`model` goes with a prompt: the operation `edit_crew` with the field `model` "
                "gives a crew another one"
            )
        return self


class EditState(Command):
    """Put values into the state."""

    set: dict[str, Json] = Field(default_factory=dict[str, Json], max_length=100)
    """By path: `flags.NAME`, `outputs.AGENT.KEY`, `shared.NAME`, `private.AUDIENCE.NAME`."""
    delete: tuple[str, ...] = Field(default=(), max_length=100)
    """Paths to take away."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.set and not self.delete:
            raise ValueError("`set` or `delete` must name something")
        return self


class Redirect(Command):
    """Send the run to another node than the next."""

    node: NodeName
    """Where it goes."""
    step: StepId | None = None
    """The step whose place it takes; needed where more than one is not done."""
    cut: bool = False
    """Whether a running step ends now; else its turn goes on to its end first."""


class Rollback(Command):
    """Go back to a checkpoint."""

    position: int = Field(ge=1, le=LARGEST_POSITION)
    """The checkpoint's position."""


class SetPermission(Command):
    """Say who may call a tool, from the next call on: as a list, or of one agent.

    Exactly one of `agents` and `do` is said. With `do` it is a ruling, which counts in the place of
    what the definition says of that agent and that tool.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["agents"]}, {"required": ["agent", "do"]}]}
    )

    tool: str
    agents: tuple[AgentName, ...] | None = None
    """Null: every agent that has it; an empty list: nobody."""
    agent: str = ""
    """With `do`: the agent that it is about; `*`: every one."""
    do: Literal["allow", "deny", "ask", "inherit"] | None = None
    """`ask`: each call waits for a person's yes; `inherit`: what the definition says holds
    again."""
    graph_version: int | None = None
    """The version that it was decided for: another one is a `ChangeConflict`. None: any."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if ("agents" in self.model_fields_set) == (self.do is not None):
            raise ValueError("exactly one of `agents` and `do` is needed")
        if bool(self.agent) != (self.do is not None):
            raise ValueError("`agent` goes with `do`; '*' is every agent")
        return self

    @override
    def to_json(self) -> dict[str, Json]:
        data = super().to_json()
        # A list of nobody in particular is said, and not left out: null is a meaning of its own.
        return data if self.do is not None else {**data, "agents": data.get("agents")}


class CommandResult(Model):
    """A command was applied."""

    id: CommandId
    position: int
    """The journal position of its fact."""
    detail: str = ""
    """What was decided."""
    digest: str = ""
    """The digest of the command that has this outcome. The server answers a repeated update id
    itself, whatever comes with it: who sees another digest than its own command has sent another
    command under a used id."""


class Changed(CommandResult):
    """A change was accepted, or what it would do."""

    graph_version: int
    """The version of the graph that it leads to; the same as before where it needs no other
    graph."""
    swap: bool = False
    """Whether the run drains and goes on with another graph: `GraphSwapped` or `SwapFailed` in the
    journal says how that ended."""
    definition: str = ""
    """The hash of the definition that comes out: what `expect` takes."""
    report: SwapReport | None = None
    """What it does to the run."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a dry run: the `GraphPlan` that comes out."""
    remarks: tuple[str, ...] = ()
    """Of a prompt: what was not understood or was assumed."""
    merge: str = ""
    """Of what makes two runs one: the merge's id. The other run is asked; `RunMerged`,
    `RunEndedByMerge` or `MergeFailed` of that id in the journal says what came of it, within
    minutes."""


class Page(WireInput):
    """Which part of a long answer."""

    after: int = Field(default=0, ge=0)
    """The position after which it starts."""
    limit: int = Field(default=200, ge=1, le=1000)
    """At most so many."""


class StepView(Model):
    """A step that is not done."""

    step: StepId
    node: NodeName
    status: str
    """`ready`, `running`, `waiting`, `asking` or `queued`."""
    waits_for: str = ""
    """The requirement of a waiting step, or until when it waits."""
    due: int = 0
    """When the timer is over that it waits for, or that limits its time, in milliseconds since the
    epoch; 0: none."""
    doing: tuple[str, ...] = ()
    """Its calls in flight: `model`, or a tool with the start of its arguments."""
    lacks: str = ""
    """That a call of it waits for a worker that has a tool, for a server of tools, or for a person
    who approves one, with what was lacking and what to do about it: the call is made again until
    that is there. Empty: none does."""
    agent: str = ""
    """The agent that its item names; empty: it is its node's."""


class RunView(Model):
    """Where a run is."""

    run: RunId
    crew: str
    status: RunStatus
    graph_version: int
    execution: int
    """Which execution of the chain."""
    position: int
    """The journal position."""
    started: int
    """Milliseconds since the epoch."""
    steps: int
    """Steps started."""
    frontier: tuple[StepView, ...] = ()
    """The steps that are not done."""
    done: dict[NodeName, int] = Field(default_factory=dict[NodeName, int])
    """Completed visits by node."""
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    interrupts: tuple[InterruptId, ...] = ()
    """The open questions."""
    waiting_for: str = ""
    """Why nothing moves, for people; empty where something does."""
    rests: bool = False
    """Whether nothing is to do before somebody says something, where agents hear."""
    merging: str = ""
    """How far a merge with another run is: `asked`, `survives`, `joins` or `offered`; empty where
    there is none."""
    usage: Usage = Usage()
    error: str = ""
    end_reason: EndReason = ""
    """Why it ended; empty while it goes on."""


STORE_WAIT = "waits for the store: "
"""How `waiting_for` begins where a run waits for Postgres."""


class InterruptView(Model):
    """An open question, in LangChain's human-in-the-loop shape."""

    id: InterruptId
    kind: str
    """`ask`, `requirement`, `step_failed`, `outcome_unknown`, `tool_approval`, `limit`, `manual`,
    `low_confidence`, `budget`, `mcp_approval` or `approval`."""
    step: StepId | None = None
    question: str
    detail: str = ""
    options: tuple[str, ...]
    """What `respond` may take as `message`; `approve` and `reject` are the ones of that name, else
    the first and the last."""
    words: bool = False
    """Whether any other words are an answer too."""
    words_to: str = ""
    """The option that such words mean, whose agent is told them; empty: they go nowhere else."""
    hash: str = ""
    """Of an `approval`: the definition that is asked about."""
    to: tuple[str, ...] = ()
    """Who may answer; nobody named: whoever may answer at all."""
    due: int = 0
    """When it expires, in milliseconds since the epoch; 0: never."""
    escalated: bool = False
    """Whether nobody answered in time, and it was handed to `to`."""
    why: str = ""
    """Of a call: why people are asked about it, with what the rule says of that."""
    rule: str = ""
    """What decided that: `rules[1]`, `approvals`, `ruling`, `parent`, `interrupts.approve_risk`."""
    risk: str = ""
    """Of a call: `high`, where its tool may do harm."""
    quotas: tuple[InterruptQuota, ...] = ()
    """Of a call: the quotas over runs in which it is counted before it begins."""
    shows: ContentHash | None = None
    """The body that holds what is shown with it, where that is large. Clients put it into `detail`.
    """
    bound: str = ""
    """The bound that the run came to, where it is asked about that; as `end_reason` names it."""
    used_up: str = ""
    """Of a call: that a quota lets nothing through now, whatever is answered. Clients say it."""
    approved_at: int = 0
    """Of a server's tool: when it was approved, in milliseconds since the epoch, if that was after
    the question was asked. Clients say it."""
    message: ContentHash | None = None
    """Of a call that is asked about again: the message that has its arguments. Clients put them
    into `action_requests`."""
    call_id: str = ""
    """Its id in that message."""
    shortened: bool = False
    """Whether the arguments in `action_requests` are shortened: what is approved is all of them."""
    action_requests: tuple[dict[str, Json], ...]
    """`[{"name", "args", "description"}]`."""
    review_configs: tuple[dict[str, Json], ...]
    """`[{"action_name", "allowed_decisions"}]`."""


class EntryView(Model):
    """A journal entry at its position."""

    position: int
    entry: dict[str, Json]


class JournalPage(Model):
    """A part of the journal, as far as this execution has it."""

    entries: tuple[EntryView, ...] = ()
    first: int = 1
    """The first position that this execution has: earlier ones are in the store."""
    position: int = 0
    """The last position there is."""
    base: int = 0
    """Of a fork: the position after which its journal begins; there is nothing before it."""


class CheckpointView(Model):
    """A place to look at, go back to, or fork from."""

    position: int
    kind: CheckpointKind = "step"
    step: StepId
    """The step that ended; empty where none did, as `node`."""
    turn: int = 0
    """The turn of a conversation that ended, which `turn:N` names; 0 where none did."""
    node: NodeName
    """The phase."""
    agent: AgentName | None = None
    at: int = 0
    """Milliseconds since the epoch."""
    tags: tuple[str, ...] = ()
    """The names that people gave it."""


class CheckpointPage(Model):
    """A part of the checkpoints, as far as this execution has them."""

    checkpoints: tuple[CheckpointView, ...] = ()
    first: int = 1
    """The first position that this execution has: earlier ones are in the store."""
    position: int = 0


class PermissionsQuery(WireInput):
    """Which part of the matrix of agents and tools."""

    agents: tuple[str, ...] = Field(default=(), max_length=1000)
    """The agents; none: all of them."""
    tools: tuple[str, ...] = Field(default=(), max_length=1000)
    """The tools; none: all of them."""
    looks: bool = False
    """Whether each cell has every rule that was looked at."""
    after: int = Field(default=0, ge=0)
    """Cells to pass over, row by row."""
    limit: int = Field(default=200, ge=1, le=1000)
    """At most so many cells."""


class PermissionsPage(Model):
    """Who may call which tool now: cells of the matrix, row by row."""

    run: RunId
    crew: str = ""
    graph_version: int = 1
    position: int = 0
    """The journal position."""
    agents: tuple[AgentName, ...] = ()
    """All agents of the crew that live in the run."""
    away: dict[AgentName, RunId] = Field(default_factory=dict[AgentName, RunId])
    """Those that live in other runs since its graph was split, with these."""
    tools: tuple[ToolName, ...] = ()
    """All tools that agents of the crew may have."""
    cells: tuple[Cell, ...] = ()
    """The cells that were asked for."""
    total: int = 0
    """How many these are on all pages."""
    live: bool = True
    """Whether the run itself answered; a client sets it to false where the store did."""


class GraphView(Model):
    """The graph of a run."""

    version: int
    plan: dict[str, Json]
    """The `GraphPlan`."""
    mermaid: str
    """The graph with the state of its nodes."""
    statuses: dict[NodeName, str] = Field(default_factory=dict[NodeName, str])
    """`done`, `running`, `ready`, `waiting`, `asking`; nodes never reached are left out."""


class Reply(Model):
    """The answer of a turn of a conversation."""

    turn: int
    """Which one, from 1."""
    message: CommandId = CommandId("")
    """The command whose message it answers; `input` for a run's input that had no id."""
    text: str = ""
    """What is answered; empty where only the store has it still."""
    agent: AgentName | None = None
    """Who answers; none: the run itself, since no agent said anything."""
    response: ContentHash | None = None
    """The message's hash, by which the store has it."""
    error: str = ""
    """The last error of the turn."""
    warning: str = ""
    """In a sentence: the last bound that the turn came to, of a route, of a loop, of an agent's
    calls or of a reply's tries; the last step that failed, where the turn went on without its
    result; or the last reply that was cut off, withheld or empty and was taken as it is. The answer
    is what there was by then."""
    end_reason: EndReason = "completed"
    """Why the turn ended, for programs: `completed`, `failed`, or the bound that it came to and did
    not get past."""


class ConversationView(Model):
    """Where a conversation is."""

    run: RunId
    turn: int
    """The turn that is under way, or was last; 0: nothing was said yet."""
    waiting: bool
    """Whether it waits for the next message."""
    queued: int = 0
    """How many messages wait for their turns."""
    due: int = 0
    """Until when it waits, in milliseconds since the epoch; 0: for ever."""
    last: Reply | None = None
    """The last answer."""


class ArtifactResult(Model):
    """An artifact when its run ended."""

    content: Json = None
    """What it is, where it has at most 16 KB of JSON; `crewlog artifact` shows any."""
    size: int = 0
    """Bytes of it as JSON."""
    calls: int = 0
    """Calls of tools that changed it, or tried to."""
    applied: int = 0
    """Operations that applied."""
    missed: int = 0
    """Operations that were left out."""
    valid: bool | None = None
    """Whether it keeps its schema; none where it has none."""
    faults: tuple[str, ...] = ()
    """How it does not."""


class RunResult(Model):
    """How a run ended; or what a conversation has answered, which goes on."""

    run: RunId
    status: RunStatus
    """`completed`, `stopped` or `merged`; a failed run has no result but an error. `waiting`: a
    conversation has answered."""
    outputs: dict[AgentName, dict[str, Json]] = Field(
        default_factory=dict[AgentName, dict[str, Json]]
    )
    """Outputs by agent and key; `text` is an agent's last final message. Who said something last
    comes last, and the root of a graph behind all others."""
    artifacts: dict[str, ArtifactResult] = Field(default_factory=dict[str, ArtifactResult])
    """What the crew has built, by name: the artifacts of its definition."""
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    steps: int = 0
    """Steps started."""
    executions: int = 1
    usage: dict[AgentName, Usage] = Field(default_factory=dict[AgentName, Usage])
    """By agent."""
    total: Usage = Usage()
    """Of all agents."""
    position: int = 0
    """The last journal position."""
    ms: int = 0
    """From start to end, in milliseconds."""
    warning: str = ""
    """In a sentence: the last bound that it came to, of a route, of a loop, of an agent's calls or
    of a reply's tries; the last step that failed, where it went on without its result; or the last
    reply that was cut off, withheld or empty and was taken as it is."""
    end_reason: EndReason = "completed"
    """Why it ended, for programs: `completed` as its flow says, or the bound that it came to and
    did not get past: `retry_budget_exhausted`, `route_limit_reached`, `call_limit_reached`,
    `reply_tries_exhausted`, `step_limit_reached`, `budget_exhausted`; `idle`, or `stopped`. Of a
    conversation that goes on: why its turn ended."""
    rested: bool = False
    """Whether it is completed since nobody said anything for long enough: then it may be taken up
    again."""
    merged_into: RunId | None = None
    """Of a merged run: the one that it is part of from then on."""
    renamed: tuple[Rename, ...] = ()
    """Of a merged run: what of it is called otherwise in that one, which may mean something else by
    the name that it had."""
    reply: Reply | None = None
    """Of a conversation that is asked: the answer."""
