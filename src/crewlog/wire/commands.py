"""The commands: contents of signals and updates, and the arguments of queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from typing_extensions import override

from crewlog.authority.signatures import Signature
from crewlog.canonical_json import hash_json
from crewlog.definition.operations import Operation
from crewlog.ids import (
    ANY_NODE,
    AgentName,
    CommandId,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.message_files import MOST_FILES, FileRef
from crewlog.model import Json, Model
from crewlog.wire.protocol import LARGEST_POSITION
from crewlog.wire.results import ChangeResult, CommandResult, RunResult
from crewlog.wire.start import WireInput, check_prompt_fields

__all__ = [
    "COMMANDS",
    "SIGNALS",
    "UPDATES",
    "Answer",
    "AskRun",
    "Change",
    "Command",
    "CommandType",
    "Decision",
    "EditState",
    "EditedAction",
    "InterruptCommand",
    "MessageCommand",
    "Redirect",
    "Rollback",
    "SetPermission",
    "TagCommand",
]

HASH_LENGTH = 12
"""Characters of a command's hash: 72 bits."""
_TAG = re.compile(r"[^\W_][\w.-]*")
_NOT_IN_HASH = frozenset(
    {"id", "by", "reason", "hash", "graph_version", "expect", "dry_run", "proof", "original_run"}
)


class Command(WireInput):
    """The fields of every command. A repeated `id` has no effect."""

    id: CommandId = Field(min_length=1, max_length=200)
    """Chosen by the sender, unique in the run."""
    by: str = Field(default="", max_length=200)
    """Who sends the command."""
    reason: str = Field(default="", max_length=10_000)
    """Why, for the journal."""
    proof: Signature | None = None
    """The signature, if the crew's policy requires one; else it is ignored."""

    def content_hash(self, name: str) -> str:
        """A short hash of what the command asks for. The same id with another hash is a conflict.

        The hash covers neither the sender, nor the reason, nor preconditions such as
        `graph_version`: a repetition may change or omit them.

        Args:
            name: The name of the signal or update.
        """
        content = {k: value for k, value in self._content().items() if k not in _NOT_IN_HASH}
        return hash_json([name, content])[:HASH_LENGTH]

    def _content(self) -> dict[str, Json]:
        """The fields of the command, without those that have their default."""
        return self.to_json()


class InterruptCommand(Command):
    """Ask people before a node runs."""

    node: NodeName = ANY_NODE
    """The node. `*` is the next step at any node."""


class MessageCommand(Command):
    """Send a message to the crew."""

    text: str = Field(min_length=1)
    """The text of the message."""
    files: tuple[FileRef, ...] = Field(default=(), max_length=MOST_FILES)
    """Files of the message, as in `StartRun`."""
    to: LogName = LogName("public")
    """The log that gets the message: `public`, `group:G`, `channel:C` or `private:A`."""
    original_to: LogName | None = None
    """The name of that log in the run that got the message first, if a run merge renamed it. The
    hash uses this name, so a repetition is the same command."""
    original_run: RunId | None = None
    """The run that got the message first, if it was merged into this run before it applied the
    message. `to` is then a name of that run, and the signature names that run and does not cover
    this field."""

    @override
    def content_hash(self, name: str) -> str:
        if self.original_to is None:
            return super().content_hash(name)
        return self.model_copy(update={"to": self.original_to, "original_to": None}).content_hash(
            name
        )


class EditedAction(WireInput):
    """An action as people want it instead."""

    name: str
    """The name of the action: `run_crew`, or the tool's name."""
    args: dict[str, Json]
    """The arguments: for `run_crew` the `definition`, for a tool all of its arguments."""


class Decision(WireInput):
    """A decision of people, in LangChain's human-in-the-loop shape."""

    type: Literal["approve", "reject", "respond", "edit"]
    """`approve` selects the option of that name, else the first option. `reject` selects the option
    of that name, else the last. `respond` selects the option in `message`, or gives other words.
    `edit` gives another definition (`approval`) or other arguments (`tool_approval`)."""
    message: str = ""
    """With `respond`: the option or the words. With `reject`: why."""
    edited_action: EditedAction | None = None
    """With `edit`: what to do instead."""

    @model_validator(mode="after")
    def _edits(self) -> Self:
        if (self.type == "edit") != (self.edited_action is not None):
            raise ValueError("`edited_action` goes with the type `edit`, and only with it")
        return self


class Answer(Command):
    """Answer an open interrupt."""

    interrupt: InterruptId
    """The interrupt."""
    decisions: tuple[Decision, ...] = Field(min_length=1, max_length=1)
    """One decision for each action request, of which there is one."""
    hash: str = Field(default="", max_length=200)
    """Of an `approval`: the definition that the answer is about. If the interrupt is about another
    one, the answer is refused."""


class AskRun(Command):
    """Send a message, if there is a text, and wait for the result of the run."""

    text: str = ""
    """The message. If `id` is the `StartRun.command` of the run, the text is its input and not sent
    again. Empty: no message."""
    to: LogName = LogName("public")
    """The log that gets the message."""


class TagCommand(Command):
    """Give a checkpoint a name."""

    checkpoint: int = Field(ge=1, le=LARGEST_POSITION)
    """The position of the checkpoint."""
    tag: str = Field(min_length=1, max_length=100)
    """The name: letters, digits and `.` `_` `-`, not digits alone. A name of another checkpoint
    moves to this one."""

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
    """Change a live run: exactly one of `prompt`, `definition` and `operations` is needed."""

    prompt: str = ""
    """A prompt that describes the whole crew."""
    registry: str = ""
    """With a prompt: the registry; by default that of the run's own prompt."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """With a prompt: the prompt reader."""
    model: str = ""
    """With a prompt: the model that reads the prompt, and that agents without a model use."""
    definition: str | dict[str, Json] | None = None
    """The name of a registered crew, or a definition."""
    operations: tuple[Operation, ...] = Field(default=(), max_length=1000)
    """Changes to the definition of the run, in order."""
    graph_version: int | None = None
    """The graph version that the change was made for; another one is a `ChangeConflict`. None: any.
    """
    expect: str = Field(default="", max_length=200)
    """The hash of the resulting definition, from a dry run; another one is a `ChangeConflict`.
    Empty: any."""
    dry_run: bool = False
    """Whether to report the change without making it."""
    running: Literal["finish", "abandon"] = "finish"
    """What to do with running steps whose nodes are removed: `finish` their turns, or `abandon`
    them."""
    drain_timeout: float | None = Field(default=None, gt=0)
    """Seconds until calls in flight are cancelled, to be made again in the new graph. None: wait
    for them."""

    @override
    def _content(self) -> dict[str, Json]:
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
    """Set and delete values in the state."""

    set: dict[str, Json] = Field(default_factory=dict[str, Json], max_length=100)
    """Values by path: `flags.NAME`, `outputs.AGENT.KEY`, `shared.NAME`, `private.AUDIENCE.NAME`."""
    delete: tuple[str, ...] = Field(default=(), max_length=100)
    """Paths to delete."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.set and not self.delete:
            raise ValueError("`set` or `delete` must name something")
        return self


class Redirect(Command):
    """Send the run to another node than the next one."""

    node: NodeName
    """The node."""
    step: StepId | None = None
    """The step that the new step replaces. Needed if more than one step is not done."""
    cut: bool = False
    """Whether to end a running step now. Otherwise its turn runs to its end first."""


class Rollback(Command):
    """Return to a checkpoint."""

    position: int = Field(ge=1, le=LARGEST_POSITION)
    """The position of the checkpoint."""


class SetPermission(Command):
    """Set who may call a tool, from the next call on: as a list, or for one agent.

    Exactly one of `agents` and `do` is needed. A permission with `do` replaces the permissions of
    the definition for that agent and tool.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["agents"]}, {"required": ["agent", "do"]}]}
    )

    tool: str
    agents: tuple[AgentName, ...] | None = None
    """Null: every agent that has the tool. An empty list: nobody."""
    agent: str = ""
    """With `do`: the agent. `*`: every agent."""
    do: Literal["allow", "deny", "ask", "inherit"] | None = None
    """`ask`: each call needs an approval. `inherit`: the permissions of the definition apply
    again."""
    graph_version: int | None = None
    """The graph version that the permission was decided for; another one is a `ChangeConflict`.
    None: any."""

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
        # Null is a value of `agents`, and no default to leave out.
        return data if self.do is not None else {**data, "agents": data.get("agents")}


@dataclass(frozen=True)
class CommandType:
    """How a command is sent, and the models of its content and its result."""

    sent_as: Literal["signal", "update"]
    content: type[Command]
    result: type[Model] | None = None
    """None: a signal has no result."""


COMMANDS: Mapping[str, CommandType] = {
    "pause": CommandType("signal", Command),
    "resume": CommandType("signal", Command),
    "stop": CommandType("signal", Command),
    "interrupt": CommandType("signal", InterruptCommand),
    "message": CommandType("signal", MessageCommand),
    "tag": CommandType("signal", TagCommand),
    "ask": CommandType("update", AskRun, RunResult),
    "answer": CommandType("update", Answer, CommandResult),
    "change": CommandType("update", Change, ChangeResult),
    "edit_state": CommandType("update", EditState, CommandResult),
    "redirect": CommandType("update", Redirect, CommandResult),
    "rollback": CommandType("update", Rollback, CommandResult),
    "set_permission": CommandType("update", SetPermission, CommandResult),
}
"""The commands by their names. The handlers, the schemas and the clients follow this table."""
SIGNALS = tuple(name for name, each in COMMANDS.items() if each.sent_as == "signal")
UPDATES = tuple(name for name, each in COMMANDS.items() if each.sent_as == "update")
