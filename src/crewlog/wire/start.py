"""The input of a `CrewRun`: a crew with its input, a fork, a split, or an ended run to reopen."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator
from typing_extensions import override

from crewlog.authority.signatures import Signature
from crewlog.definition.operations import Operation
from crewlog.ids import LogName, RunId
from crewlog.message_files import MOST_FILES, FileRef
from crewlog.model import Json, Model
from crewlog.wire.protocol import LARGEST_POSITION

__all__ = [
    "ForkSource",
    "InitialMessage",
    "InitialState",
    "SplitSource",
    "StartRun",
    "WireInput",
    "is_prompt",
]


class WireInput(Model):
    """The base of all models that clients send. An unknown field is an error that names it."""

    model_config = ConfigDict(str_max_length=4_000_000)


class ForkSource(WireInput):
    """The checkpoint of another run from which a fork starts."""

    run: RunId
    position: int = Field(ge=1, le=LARGEST_POSITION)
    """The position of the checkpoint."""
    operations: tuple[Operation, ...] = ()
    """Changes to the definition of that run."""
    definition: dict[str, Json] | None = None
    """A definition in the place of that run's definition. Not together with `operations`."""

    @model_validator(mode="after")
    def _one_change(self) -> Self:
        if self.operations and self.definition is not None:
            raise ValueError("`operations` and `definition` do not go together")
        return self


class SplitSource(WireInput):
    """The run that a split run comes from. The journal of that run says what the split run has."""

    run: RunId
    after: int
    """The journal position after which the entry of the split stands."""


class InitialMessage(WireInput):
    """A message that a log has before the first step."""

    body: dict[str, Json]
    """The message: `type` (`human`, `ai`, `tool`), `content`, and its other keys, as in a
    journal."""
    log: LogName = LogName("public")
    """The log that has the message."""


class InitialState(WireInput):
    """Messages and outputs that a run has before its first step, besides its input."""

    messages: tuple[InitialMessage, ...] = ()
    """Messages in order. They follow the input."""
    request: str = ""
    """The request of people, for agents that read it as an input; by default the run's input. It is
    in no log."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Values by path as of `edit_state`: `flags.NAME`, `outputs.AGENT.KEY`."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may read the outputs among `values`; by default those of the agents
    of the outputs."""


class StartRun(WireInput):
    """The input of a `CrewRun`. Exactly one of `crew`, `fork`, `reopen` and `split` is needed."""

    crew: str | dict[str, Json] = ""
    """The name of a registered crew, an inline definition, or a prompt. A text with a space or a
    line break is a prompt. With `reopen: recipe` a name or a definition is allowed: the recipe as
    it is now."""
    fork: ForkSource | None = None
    """A checkpoint of another run, from which this run starts."""
    reopen: Literal["recipe", "live"] | None = None
    """Continue an ended run of this id: with the definition it was started with (`recipe`), or with
    its last definition (`live`)."""
    split: SplitSource | None = None
    """Only for runs: the run that this run was split from."""
    replace: bool = False
    """Whether to delete the rows of an ended run of this id first."""
    replaced_executions: tuple[str, ...] = ()
    """With `replace` or `reopen`: the last executions of the ended run, by Temporal's run ids.
    What their activities still store is refused."""
    input: Json = ""
    """The task of the crew: a text, or any JSON value, which agents read as JSON."""
    files: tuple[FileRef, ...] = Field(default=(), max_length=MOST_FILES)
    """Files of the input. Their bytes are in the external storage."""
    by: str = ""
    """Who starts the run."""
    reason: str = Field(default="", max_length=10_000)
    """With `reopen`: why, for the journal."""
    queue: str = ""
    """The task queue of the activities; by default that of the workflow."""
    registry: str = ""
    """With a prompt: the registry whose agents and tools the prompt may use; by default none."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """With a prompt: the prompt reader. `auto` is a model if one is configured, else the forms."""
    model: str = ""
    """With a definition: the model of every agent, in the place of the models that it names. With a
    prompt: the model that reads the prompt, and that agents without a model use."""
    command: str = Field(default="", max_length=200)
    """The id of the `ask` that starts the run, if its text is the input."""
    initial_state: InitialState | None = None
    """Messages and values that the run has before its first step, to evaluate a stage alone. Not
    with a prompt."""
    proof: Signature | None = None
    """The signature, if the crew's policy requires one."""

    @override
    def to_json(self) -> dict[str, Json]:
        """The start as JSON. Every operation has its `op`, although it is a default."""
        data = super().to_json()
        if self.fork is not None and self.fork.operations:
            data["fork"]["operations"] = [
                {"op": each.op, **each.to_json()} for each in self.fork.operations
            ]
        return data

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        begins = (self.fork, self.reopen, self.split)
        edited = self.reopen == "recipe" and self.prompt is None
        if sum([bool(self.crew) and not edited, *(each is not None for each in begins)]) != 1:
            raise ValueError("exactly one of `crew`, `fork` and `reopen` is needed")
        if (not self.crew or edited) and (self.input != "" or self.files):
            raise ValueError("`input` goes with `crew`; a `message` says something to other runs")
        if self.initial_state is not None and (not self.crew or edited or self.prompt is not None):
            raise ValueError("`initial_state` goes with a `crew` that is no prompt")
        if self.command and (not self.crew or edited):
            raise ValueError("`command` goes with `crew`, whose `input` it is")
        if self.replaced_executions and not (self.replace or self.reopen):
            raise ValueError("`replaced_executions` goes with `replace` and with `reopen`")
        if self.reason and not self.reopen:
            raise ValueError("`reason` goes with `reopen`")
        return self

    @model_validator(mode="after")
    def _of_its_crew(self) -> Self:
        """Refuses fields without an effect on what is started: nobody would notice."""
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
        """`crew`, if it is a prompt."""
        return self.crew if isinstance(self.crew, str) and is_prompt(self.crew) else None


def check_prompt_fields(registry: str, reader: str, *, prompt: bool) -> None:
    """Checks that the fields of a prompt come with one.

    Raises:
        ValueError: `registry` or `reader` is set, and there is no prompt.
    """
    given = {"`registry`": bool(registry), "`reader`": reader != "auto"}
    if not prompt and (named := [name for name, said in given.items() if said]):
        verb = "goes" if len(named) == 1 else "go"
        raise ValueError(f"{' and '.join(named)} {verb} with a prompt, and there is none")


def is_prompt(crew: str) -> bool:
    """Whether a text is a prompt: the name of a crew has no space in it."""
    return any(character.isspace() for character in crew.strip())
