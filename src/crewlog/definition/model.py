"""`CrewDefinition`: what a user writes, or a prompt compiles to.

Read top-down: a crew has agents, tools, a flow and permissions. Everything is data; a tool names
its function, and only a worker ever imports it. `crewlog.definition.load` reads one from YAML with
places in the text, `crewlog.graph.lowering.plans` turns one into a plan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticKnownError, ValidationError
from pydantic_core.core_schema import no_info_before_validator_function

from crewlog.definition.artifacts import (
    SCRATCH_TOOLS,
    ArtifactDefinition,
    Scratch,
    notes_artifact,
    notes_of,
)
from crewlog.definition.conditions import Condition, parse_condition, render_condition
from crewlog.definition.context import InputOrSource, WindowOrNumber
from crewlog.definition.doing import Does
from crewlog.definition.policy import Policy
from crewlog.definition.quotas import QUOTA_PATTERN, parse_quota
from crewlog.definition.reaching import Check, Host, McpServer, name_in_crew
from crewlog.definition.replies import ReplyForm
from crewlog.definition.shorthand import whole_of
from crewlog.definition.times import parse_time
from crewlog.model import Json, Model

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""An agent, tool, flag or output: a letter, then at most 63 letters, digits, `_` or `-`."""
PHASE_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
PhaseName = Annotated[str, Field(pattern=PHASE_PATTERN)]
"""A phase: as a name, and with dots, which the steps inside an agent's pattern have."""
ARGUMENT_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$"
WIRE_PATTERN = r"^(channel:)?[A-Za-z][A-Za-z0-9_-]{0,63}$"
FOR_EACH_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z][A-Za-z0-9_-]*$"

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: Any) -> float:
    """Seconds from `90`, `"90s"`, `"1.5m"`, `"200ms"`, `"2h"` or `"1d"`.

    Raises:
        ValueError: for anything else, and for what is not positive.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        match = _DURATION.match(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError("a duration is a number of seconds, or a text like '90s', '5m', '2h'")
        seconds = float(match[1]) * _UNIT_SECONDS[match[2] or "s"]
    if seconds <= 0:
        raise ValueError("a duration must be longer than zero")
    return seconds


Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": _DURATION.pattern},
            ]
        }
    ),
]
"""A duration in seconds; written as a number or as `90s`, `5m`, `2h`."""

LONGEST_WAIT = 3660 * 86400.0
"""Seconds: ten years. Clocks and servers count on; a slip of the pen must not."""


def _not_too_long(seconds: float) -> float:
    if seconds > LONGEST_WAIT:
        raise ValueError("nothing is waited for longer than ten years")
    return seconds


Wait = Annotated[Seconds, AfterValidator(_not_too_long)]
"""A duration that a run waits, in seconds."""

Time = Annotated[
    str,
    BeforeValidator(parse_time),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2})$",
            "description": "`2026-12-01T09:00:00+01:00`",
        }
    ),
]
"""A time with its zone, in ISO 8601."""

ConditionText = Annotated[
    Condition,
    BeforeValidator(lambda v: parse_condition(v) if isinstance(v, str) else v),
    PlainSerializer(render_condition, return_type=str),
    WithJsonSchema(
        {"type": "string", "description": "`not approved`, `backend.ready and score >= 0.8`"}
    ),
]
"""A condition, written as text and kept as data."""


QuotaText = Annotated[
    str,
    BeforeValidator(parse_quota),
    WithJsonSchema({"type": "string", "pattern": QUOTA_PATTERN}),
]
"""How many calls there may be: `5 per run`, `20 per hour`, `100 per day`."""
SecretReference = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"}),
]
"""Where a worker has a secret: `env:NAME` or `file:PATH`. What is none is found where meanings are
checked, which does not repeat it."""


class Retry(Model):
    """How often and how fast a call is tried again after a failure that may pass."""

    attempts: int = Field(default=4, ge=1, le=100)
    """Tries in total; 1 means no retry."""
    first: Seconds = 1.0
    """The wait before the second try."""
    backoff: float = Field(default=2.0, ge=1.0, le=10.0)
    """What each further wait is multiplied by."""
    longest: Seconds = 60.0
    """No wait is longer."""


class ToolDefinition(Model):
    """A tool: which function it is, what it does to the world, and what a retry may do."""

    run: str = Field(
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*"
        r"|mcp:[A-Za-z][A-Za-z0-9_-]{0,63}/[A-Za-z0-9_./-]{1,128})$"
    )
    """`module:function`, or `module:name` of a LangChain tool, imported by workers only; or
    `mcp:SERVER/TOOL`."""
    description: str | None = None
    """What the model is told; by default the function's docstring."""
    effects: Literal["read", "write", "external"] = "external"
    """`read` changes nothing, `write` changes files or rows of ours, `external` acts on the
    world."""
    retry: Literal["safe", "keyed", "never"] | None = None
    """What a repeat may do: `safe` repeats freely, `keyed` repeats under the same idempotency key,
    `never` is not repeated; people decide. By default `safe` for read, else `never`."""
    timeout: Seconds = 60.0
    """How long one try may take."""
    heartbeat: Seconds = 5.0
    """A worker that is silent for this long is taken for dead."""
    policy: Retry = Retry()
    """How a repeat is timed, where one is allowed."""
    on_error: Literal["model", "fail"] = "model"
    """When the tool raises: `model` shows the message to the model, `fail` fails the step."""
    queue: str | None = None
    """The task queue of the workers that have it; by default the run's."""
    placed: Literal["activity", "local"] = "activity"
    """Where it runs: `local` is within the run's own worker, for quick tools that only read. A
    call takes two thirds of the time, and one event instead of six; what takes over 2 s is made
    again as an ordinary activity."""
    paths: tuple[str, ...] = ()
    """Folders of the run's workspace that it keeps to; empty means the whole workspace."""
    secrets: dict[Name, SecretReference] = Field(default_factory=dict)
    """Secrets that it gets by name, `current_call().secret("GITHUB")`, each as `env:NAME` or
    `file:PATH` of its workers."""
    hosts: tuple[Host, ...] = ()
    """Hosts that it may reach: `api.example.org`, `*.example.org`, `*` (any public one),
    `http://localhost:8080`, `10.0.0.0/8`. Private addresses only where they are named."""
    checks: dict[Annotated[str, Field(pattern=ARGUMENT_PATTERN)], Check] = Field(
        default_factory=dict
    )
    """What its arguments must be, by name (`options.target` for one inside): `path`, `url`, or
    `{pattern, enum, minimum, maximum, longest}`. Checked before it runs."""
    approved: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """For a tool of an MCP server: the hash of what it says of itself that is approved; by
    default what `crewlog mcp approve` has kept."""
    risk: Literal["low", "high"] = "low"
    """How much harm a wrong call does; shown to those who approve, and what a prompt's "ask me
    before anything risky" means."""

    @property
    def repeat(self) -> Literal["safe", "keyed", "never"]:
        """What a repeat may do, the default resolved."""
        return self.retry or ("safe" if self.effects == "read" else "never")


class PatternUse(Model):
    """How an agent works inside its turn: a registered builder for one agent."""

    use: Name
    """The builder: `planner_executor`, `review_loop`, or one of your own."""
    with_: dict[str, Json] = Field(default_factory=dict, alias="with")
    """Its options."""
    off: tuple[str, ...] = ()
    """Its steps that are switched off, by name, e.g. `[plan]`."""


def _use_of(value: Any) -> Any:
    """`plan` for `{use: plan}`."""
    return whole_of(value, "use", "off")


class _OrName:
    """Lets a mapping be written as its `use` alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_use_of, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": NAME_PATTERN}, handler(schema)]}


Pattern = Annotated[PatternUse, _OrName]
"""A builder's name, or its use in full."""


class _NoPrompt(str):
    """Stands for a prompt that is not there."""

    __slots__ = ()


POLICIES = ("ask", "fail", "continue")
"""What `on_error` says of failures where it names no phase."""


class ErrorPolicy(Model):
    """What becomes of a step that fails, and of a model's reply that is no good answer."""

    failure: Literal["ask", "fail", "continue"] = "ask"
    """When the step fails: `ask` people (retry, skip or stop), `fail` the run, or `continue`
    without its result."""
    bad_reply: Literal["retry", "ask", "fail", "accept"] = "retry"
    """When the model's reply was cut off, withheld or empty, or ended for an unknown reason:
    `retry` asks the model again, three times in all, after which the step fails; `ask` people,
    `fail` the run, or `accept` its text. Its tool calls are never made."""

    @model_serializer(mode="wrap")
    def _as_a_word(self, write: SerializerFunctionWrapHandler) -> Any:
        return self.failure if self.bad_reply == "retry" else write(self)


def _policy_of(value: Any) -> Any:
    """`continue` for `{failure: continue}`."""
    return {"failure": value} if isinstance(value, str) else value


class _OrWord:
    """Lets a policy for errors be written as that for failures alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_policy_of, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": [*POLICIES], "type": "string"}, handler(schema)]}


OnError = Annotated[ErrorPolicy, _OrWord]
"""`ask`, `fail` or `continue`, or a policy in full."""


FILLED = frozenset({"reads", "writes", "shares", "inputs", "on_cap", "on_error"})
"""Fields of an agent that builders fill where it does not say them. What it says of them counts, so
that it is kept and written also where it is the default; see `AgentDefinition.says`."""


EDGES = ("listen", "send", "wires", "beside", "privileged")
"""Fields of an agent by which it lives in a graph."""


class AgentDefinition(Model):
    """An agent: its prompt, its model, and what it may call, read, write and declare."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["prompt"]}, {"required": ["does"]}]}
    )

    does: tuple[Does, ...] = ()
    """What it calls in each turn, where it has no model: tools, each with its arguments. Its final
    message is made of what they return."""
    in_order: bool = False
    """Whether it makes these calls one after the other, each once the one before is done; by
    default side by side."""
    prompt: str = Field(default_factory=_NoPrompt, min_length=1, validate_default=True)
    """The system prompt; only an agent that `does` something needs none."""
    description: str | None = None
    """What it is for, in a line; shown to people, and to routers."""
    model: str | None = None
    """`PROVIDER:NAME` or `scripted:FILE`; by default the crew's."""
    model_settings: dict[str, Json] = Field(default_factory=dict)
    """Passed to the chat model, e.g. `{temperature: 0}`."""
    tools: tuple[str, ...] | None = None
    """Tools it may call. Null inherits every tool that permissions allow it; an empty list means
    none."""
    reads: tuple[str, ...] = ("public",)
    """Logs it reads besides its own and those that name it as a reader: `public`, `group:G`,
    `channel:C`. An empty list means none but its own."""
    writes: tuple[str, ...] = ("public",)
    """Logs that its final message of a turn goes to: `public`, `group:G`, `channel:C`, or
    `readers:A+B` for these agents alone. Who reads one of them may see its outputs."""
    outputs: tuple[Name, ...] = ()
    """Output keys it may set by the tool `set_output`; `text`, its final message, is always
    there."""
    writes_flags: tuple[Name, ...] = ()
    """Flags it may set by the tool `set_flag`."""
    reply: ReplyForm | None = None
    """What its final message of a turn must be: a decision by name, e.g. `route`, or
    `{schema: …}`. Its fields are outputs of the agent."""
    max_calls: int = Field(default=25, ge=1, le=1000)
    """Model calls in one turn; then the step fails, or ends, as `on_cap` says."""
    on_cap: Literal["fail", "end"] = "fail"
    """When a turn reaches `max_calls`: `fail` the step, or `end` it with what is there: the last
    text is final, and the output `capped` is true."""
    timeout: Seconds = 180.0
    """How long one model call may take."""
    heartbeat: Seconds = 5.0
    """A worker that is silent for this long during a model call is taken for dead."""
    retry: Retry = Retry()
    """How a model call that failed for a passing reason is repeated."""
    on_error: OnError = ErrorPolicy()
    """When the step fails: `ask` people (retry, skip or stop), `fail` the run, or `continue`
    without its result. `{failure: …, bad_reply: …}` says, too, what becomes of a model's reply that
    was cut off, withheld or empty: `retry`, `ask`, `fail` or `accept`."""
    ask_below: float | None = Field(default=None, gt=0, le=1)
    """People are asked before its turn is over where the `confidence` that it set in the turn, an
    output or a flag of its own, is lower than this, is no number, or was not set."""
    enabled: bool = True
    """Whether it takes part; where it does not, its phases are skipped."""
    pattern: Pattern | None = None
    """How it works inside a phase: by default one turn; else a builder's steps, e.g.
    `review_loop`."""
    parent: str | None = None
    """The agent that it works for: it never may more than that one, whatever else is said."""
    window: WindowOrNumber | None = None
    """How much of its transcript its model is shown; by default as the crew says. `{}`: all."""
    inputs: tuple[InputOrSource, ...] = ()
    """Values of the run that it is shown, whatever logs it reads: outputs, flags, artifacts."""
    shares: tuple[str, ...] | None = None
    """Logs whose readers may see its outputs; by default those that it writes to."""
    scratch: Scratch | None = None
    """Short-term notes that it makes for itself in a run, by the tools `note` and `notes`."""
    listen: tuple[Name, ...] = ()
    """Channels of which each message gives it a turn, whatever the flow says."""
    send: tuple[Name, ...] = ()
    """Channels that it may send to, by the tool `send_message`."""
    wires: tuple[Annotated[str, Field(pattern=WIRE_PATTERN)], ...] = ()
    """Where its final message of a turn goes, too: agents, or `channel:C`; it gives a turn to each
    of these agents, and to those that listen there."""
    beside: str | None = None
    """An agent that it stays in one graph with, though no channel or wire leads there."""
    privileged: bool = False
    """Whether it has the group tools, by which it changes the graph that it lives in."""

    @property
    def has_edges(self) -> bool:
        """Whether it is a creature: it hears, speaks, or changes the graph that it lives in."""
        return any(getattr(self, key) for key in EDGES)

    @field_validator("prompt", mode="wrap")
    @classmethod
    def _prompt_or_calls(
        cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if value == "" and info.data.get("does"):
            return ""
        if isinstance(value, _NoPrompt):
            raise PydanticKnownError("missing")
        return read(value)

    @model_validator(mode="after")
    def _only_what_it_does(self) -> Self:
        """Gives an agent without a model the tools that it calls, and no others."""
        if self.does and self.tools is None:
            tools = tuple(dict.fromkeys(call.tool for call in self.does))
            object.__setattr__(self, "tools", tools)  # before anybody has seen it
        return self

    @model_serializer(mode="wrap")
    def _as_said(
        self, write: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, Any]:
        """Writes the defaults that are said: what is read again says as much as this does."""
        found: dict[str, Any] = write(self)
        if not info.exclude_defaults:
            return found
        more = {key for key in self.said_defaults if key not in (info.exclude or ())}
        if info.include is not None:
            more &= {*info.include}
        if not more:
            return found
        for key in more:
            value = getattr(self, key)
            if isinstance(value, Model):
                value = value.model_dump(mode=info.mode)
            found[key] = [*value] if info.mode == "json" and isinstance(value, tuple) else value
        order = [*type(self).model_fields]
        return {key: found[key] for key in sorted(found, key=order.index)}

    @property
    def said_defaults(self) -> tuple[str, ...]:
        """Fields that builders fill, and of which the agent says that they are as by default."""
        said = sorted(FILLED & self.model_fields_set)
        return tuple(key for key in said if getattr(self, key) == _default(key))

    def says(self, key: str) -> bool:
        """Whether the agent itself says what a field of it is: a builder has no say then."""
        return getattr(self, key) != _default(key) or key in self.said_defaults

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; to put in place what was there says nothing more."""
        made = super().model_copy(update=update, deep=deep)
        for key in (FILLED & {*(update or ())}) - self.model_fields_set:
            if getattr(made, key) == getattr(self, key):
                made.__pydantic_fields_set__.discard(key)
        return made

    def saying(self, keys: Collection[str]) -> Self:
        """A copy that says these of the fields that builders fill; others, where no default."""
        made = self.model_copy()
        made.__pydantic_fields_set__.difference_update(FILLED)
        made.__pydantic_fields_set__.update(FILLED.intersection(keys))
        return made


def _default(key: str) -> Any:
    return AgentDefinition.model_fields[key].get_default(call_default_factory=True)


class JoinQuorum(Model):
    """Wait for a number of phases, whichever they are."""

    quorum: int = Field(ge=1)
    """How many."""
    of: tuple[str, ...] = Field(min_length=1)
    """The phases."""


class JoinAny(Model):
    """Wait for the first of some phases."""

    any: tuple[str, ...] = Field(min_length=1)
    """The phases."""


class JoinAll(Model):
    """Wait for all of some phases."""

    all: tuple[str, ...] = Field(min_length=1)
    """The phases."""


After = str | tuple[str, ...] | JoinAll | JoinAny | JoinQuorum
"""A phase, several (all of them), or `{all: [...]}`, `{any: [...]}`, `{quorum: 2, of: [...]}`."""

SENT_ONLY = "go"
"""As `after`: the phase waits for nothing and starts only when something sends the run there."""


class AgentPhase(Model):
    """A phase in which one agent takes a turn."""

    agent: str = ""
    """The agent. With `by` it may be left out: then each item must name its own."""
    phase: PhaseName | None = None
    """The phase's name; by default the agent's. Needed where an agent has more than one phase, and
    where there is none."""
    task: str | None = None
    """What the agent is to do in this phase, besides its prompt."""
    after: After | None = None
    """What it waits for; by default the item before it in the flow. An empty list means: from the
    start. `go` means: it starts only when a decision, an answer, an `else` or an `on_error` names
    it."""
    when: ConditionText | None = None
    """It waits until this holds, after what it depends on is done."""
    only_if: ConditionText | None = None
    """It is skipped where this does not hold at its time; what depends on it goes on."""
    needs: tuple[str, ...] = ()
    """Tools without which it is skipped: its agent must be allowed to call them at its time."""
    for_each: Annotated[str, Field(pattern=FOR_EACH_PATTERN)] | None = None
    """`agent.output`, a list: the phase has a step for each of its items, side by side, and is done
    when all of them are."""
    at_once: int | None = Field(default=None, ge=1, le=1000)
    """Of a phase with `for_each`: how many of its steps are under way at a time; one that is done
    makes room for the next at once. By default as many as `limits.parallel`."""
    by: Name | None = None
    """Of a phase with `for_each`: the key at which an item names the agent that takes its step."""
    among: tuple[str, ...] = ()
    """With `by`: the agents that items may name."""
    within: Wait | None = None
    """How long it waits for `when` at most, e.g. `2h`; then `else` holds, as where `when` can no
    longer come true."""
    otherwise: str | None = Field(default=None, alias="else")
    """Where `when` can no longer come true, or the list of `for_each` cannot be worked on: the
    phase to go to, `skip`, or `ask_human` (the default)."""
    timeout: Wait | None = None
    """How long a step of it may take once it is started, e.g. `10m`; a step that takes longer
    fails. Of a phase with `for_each`: each of its steps."""
    on_error: str | None = None
    """When a step of it fails: `ask`, `fail` or `continue` as an agent's `on_error`, or a phase
    with `after: go` that stands in for this one. By default what the agent's `on_error` says."""

    @property
    def stand_in(self) -> str | None:
        """The phase that runs in its place where a step of it fails; none where it names none."""
        return None if self.on_error in POLICIES else self.on_error

    @property
    def gives_way(self) -> bool:
        """Whether its `else` can be taken: it waits for a condition, or works on a list."""
        return self.when is not None or self.for_each is not None

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that may take its steps."""
        return tuple(dict.fromkeys((*((self.agent,) if self.agent else ()), *self.among)))


class DecisionPhase(Model):
    """A decision over what came before: go back or on, as often as it says."""

    if_: ConditionText = Field(alias="if")
    """When this holds, go to `go`; else go on to the next item."""
    go: str
    """A phase (earlier ones make a loop), or `end`."""
    at_most: int | None = Field(default=None, ge=1)
    """How often it may go there; a decision that goes back must say it."""
    otherwise: str | None = Field(default=None, alias="else")
    """When `at_most` is used up: a phase, `next` (the default), `ask_human`, `end` or `fail`."""
    phase: PhaseName | None = None
    """The decision's name; by default `after_` and what it follows."""
    after: After | None = None
    """What it waits for; by default the item before it."""


class RoutePhase(Model):
    """A way that the value of an output names: the run goes to the phase of that name."""

    route: Annotated[str, Field(pattern=FOR_EACH_PATTERN)]
    """`agent.output`: its value names where to go, by the name of a phase, or of its agent."""
    to: tuple[str, ...] = Field(min_length=1)
    """The phases that it may name."""
    otherwise: str | None = Field(default=None, alias="else")
    """Where it names none of them, or nothing was set: a phase, `end` (the default), `next`,
    `ask_human` or `fail`."""
    at_most: int = Field(default=1, ge=1)
    """How often it goes to each of them: in a run, or in each turn of a conversation."""
    else_used_up: Literal["end", "next", "ask_human", "fail"] = "end"
    """What happens beyond that."""
    only_if: ConditionText | None = None
    """It goes somewhere only where this holds at its time; else the run goes on."""
    phase: PhaseName | None = None
    """The phase's name; by default `route` and a number."""
    after: After | None = None
    """What it waits for; by default the item before it."""


class AskPhase(Model):
    """A question to people that the run waits on."""

    ask: str = Field(min_length=1)
    """The question."""
    options: tuple[str, ...] = ("approve", "reject")
    """The answers; the first means yes. A phase's name goes there, `stop` ends the run, any other
    goes on; but where no flag takes it, the last of several ends the run: a no is not a yes."""
    sets: Name | None = None
    """A flag that takes the answer: true for the first option, false for the last, else text."""
    words: bool = False
    """Whether any other words are an answer too, for `sets` to take. Without `sets`, the run goes
    to the one of the options that is an agent's phase, and that agent is told them."""
    shows: Annotated[str, Field(pattern=FOR_EACH_PATTERN)] | None = None
    """`agent.output`: what people are shown with the question, e.g. the plan that they approve."""
    only_if: ConditionText | None = None
    """It is asked only where this holds at its time; else the run goes on."""
    phase: PhaseName | None = None
    """The phase's name; by default `ask` and a number."""
    after: After | None = None
    """What it waits for; by default the item before it."""


class WaitPhase(Model):
    """A wait: for so long, or until a time. Exactly one of `wait` and `wait_until` is said."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["wait"]}, {"required": ["wait_until"]}]}
    )

    wait: Wait | None = None
    """How long, from when it is reached: `90s`, `2h`, `1d`."""
    wait_until: Time | None = None
    """Until when, with the zone: `2026-12-01T09:00:00+01:00`. A time that is over is not waited
    for."""
    only_if: ConditionText | None = None
    """It is waited only where this holds at its time; else the run goes on."""
    phase: PhaseName | None = None
    """The phase's name; by default `wait` and a number."""
    after: After | None = None
    """What comes before it; by default the item before it."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.wait is None) == (self.wait_until is None):
            raise ValueError("exactly one of `wait` and `wait_until` is needed")
        return self


class ParallelPhase(Model):
    """Phases that start together; what follows waits for them as `join` says."""

    parallel: tuple[str | AgentPhase | AskPhase | WaitPhase, ...] = Field(min_length=1)
    """The phases: agents' names, or phases in full."""
    join: Literal["all", "any"] | Annotated[int, Field(ge=1)] = "all"
    """`all`, `any`, or how many of them must be done before the next item."""
    after: After | None = None
    """What they wait for; by default the item before."""


class BuilderPhase(Model):
    """A part of the flow that a registered builder makes, e.g. a supervisor and its workers."""

    use: Name
    """The builder."""
    with_: dict[str, Json] = Field(default_factory=dict, alias="with")
    """Its options."""
    phase: PhaseName | None = None
    """The name of the whole part; by default the builder's."""
    after: After | None = None
    """What it waits for; by default the item before it."""


FlowItem = (
    str
    | Annotated[tuple[str | AgentPhase | AskPhase | WaitPhase, ...], Field(min_length=1)]
    | AgentPhase
    | DecisionPhase
    | AskPhase
    | WaitPhase
    | RoutePhase
    | ParallelPhase
    | BuilderPhase
)
"""An agent's name; a list (in parallel); or a phase, decision, question, wait, route, parallel
block, builder's part in full."""


Merge = Literal["last", "append", "union", "sum", "max", "min", "update", "agree"]
"""How the values that several steps set combine."""

EVERY_TOOL = "*"
"""As a rule's `tool`: every tool of the crew, but for those that every crew has."""
GROUP = "group:"
"""What stands before a group's name among a rule's agents."""


class Counted(Model):
    """A quota as it was called before: there calls are counted on."""

    crew: Name
    """The crew."""
    key: str
    """The quota's key in that crew."""
    zone: str = "UTC"
    """The time zone whose hours and days it counts."""


class Rule(Model):
    """What holds for calls of some tools by some agents. The strictest rule that applies counts."""

    tool: str | tuple[str, ...]
    """The tool, several of them, or `"*"`: every tool of the crew."""
    agents: tuple[str, ...] | None = None
    """For whom it holds: agents, and groups as `group:G`. Null: every agent."""
    do: Literal["always", "never", "ask"] = "always"
    """`never`: the call is refused; `ask`: it waits for a person's yes; `always`: it is made, where
    nothing else speaks against it."""
    if_: ConditionText | None = Field(default=None, alias="if")
    """It applies where this holds when the call is asked for, and when it is to be made."""
    quota: QuotaText | None = None
    """How many such calls there may be, of all tools and agents of the rule together: `5 per run`,
    `20 per hour`, `100 per day`. Hours and days count over all runs of the crew."""
    reason: str = ""
    """Why; people are told it, and the model whose call is refused."""
    counted: Counted | None = None
    """Where its calls are counted, since it is for other agents or in another crew. The engine says
    it."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it names."""
        return (self.tool,) if isinstance(self.tool, str) else self.tool

    @property
    def limits(self) -> bool:
        """Whether it only counts calls: it does not say that they are always made."""
        return self.quota is not None and self.do == "always"


class Limits(Model):
    """Bounds that a run keeps."""

    steps: int = Field(default=10_000, ge=1)
    """Steps of the whole run; then it asks people."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens, read and written by all agents; from then on no model is called before people have
    let the run go on."""
    cost: float | None = Field(default=None, gt=0)
    """What all model calls cost, in US dollars, where prices are known; then people are asked."""
    wall: Wait | None = None
    """How long the run may take from its start; from then on nothing starts before people have let
    it go on."""
    parallel: int = Field(default=64, ge=1, le=1000)
    """Activities in flight at a time."""
    events: int = Field(default=2_000, ge=50, le=20_000)
    """Events of one execution's history; then the run continues as new, as it also does when the
    server suggests it."""


QuestionKind = Literal[
    "ask",
    "requirement",
    "step_failed",
    "outcome_unknown",
    "tool_approval",
    "low_confidence",
    "limit",
    "budget",
    "mcp_approval",
    "manual",
]
"""Why a run with a crew asks people."""


class Expiry(Model):
    """How long a question waits for people, and what happens then."""

    expires: Wait | None = None
    """How long it is open; by default until somebody answers."""
    default: Literal["reject", "escalate", "stop"] = "reject"
    """What happens then: `reject` answers as a person's `reject` does, `escalate` hands the
    question to `escalate_to`, and it waits on, `stop` ends the run."""
    escalate_to: str | None = Field(default=None, min_length=1, max_length=200)
    """Who may answer a question that is escalated, and nobody else."""


class InterruptPolicy(Expiry):
    """When the run asks people by itself, who may answer, and what happens where nobody does."""

    people: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Who may answer; an empty list: whoever may answer at all."""
    approve_risk: Literal["low", "high"] | None = None
    """Calls of tools of this risk, or of a higher one, wait for a person's yes, as those of
    `approvals` do."""
    valid: Wait | None = None
    """How long a yes to a call holds: where the call has not begun by then, people are asked
    again. By default until the call is made."""
    kinds: dict[QuestionKind, Expiry] = Field(default_factory=dict[QuestionKind, Expiry])
    """Kinds of questions that expire otherwise than `expires`, `default` and `escalate_to` say."""

    def expiry(self, kind: str) -> Expiry:
        """How long a question of a kind is open, and what happens then."""
        found: Expiry | None = cast("dict[str, Expiry]", self.kinds).get(kind)
        return found or self


class LogDefinition(Model):
    """A channel that is not everybody's: who may read it, and who may write to it."""

    readers: tuple[str, ...] | None = None
    """Agents, or `group:G`, that read it, and nobody else does. Null: every agent that lists it
    under `reads`; an empty list: nobody but people."""
    writers: tuple[str, ...] | None = None
    """Agents, or `group:G`, that may list it under `writes`. Null: every agent; an empty list:
    nobody but people."""


class Conversation(Model):
    """A run that is talked to: each message is a turn through the flow, which ends with an answer.

    Between two turns the run waits for the next message, and costs nothing.
    """

    idle: Wait | None = None
    """How long it waits for a message, e.g. `30m`; then the run is completed. By default for
    ever."""
    respond: tuple[str, ...] = ()
    """Agents whose final message of a turn is its answer: the first of them that said something.
    By default whoever spoke last, but for those that a route asks."""
    apology: str = Field(default="Sorry, I have no answer to that.", min_length=1, max_length=1000)
    """The answer where no agent gave one; what went wrong is added in brackets."""
    ends_on: tuple[ConditionText, ...] = ()
    """Conditions: where one of them holds at the end of a turn, the run is completed."""
    queue: int = Field(default=20, ge=1, le=200)
    """How many messages may wait that come during a turn; those beyond are refused."""

    def without(self, agent: str) -> Self:
        """The conversation of the crew without an agent."""
        respond = tuple(each for each in self.respond if each != agent)
        return self.model_copy(update={"respond": respond})


class ChannelDefinition(Model):
    """A channel between agents: each message gives a turn to those that listen to it."""

    description: str | None = None
    """What it is for, in a line; those that listen or send there are told it."""
    born: str = Field(default="", max_length=300)
    """The run in which it was made, once graphs have merged or split: two channels of one name and
    one birth are the same. The engine says it."""


class GraphPolicy(Model):
    """A crew whose agents have a turn for each message that they hear, besides its flow, if any.

    Between two messages the run waits, and costs nothing.
    """

    root: Name | None = None
    """The agent that gets the run's input, and what people say to nobody in particular. It is
    privileged. Where it is away, nobody is."""
    idle: Wait | None = None
    """How long it waits where nothing is to do, e.g. `30m`; then the run is completed. By default
    for ever."""
    ends_on: tuple[ConditionText, ...] = ()
    """Conditions: where one of them holds and nothing is under way, the run is completed."""
    queue: int = Field(default=200, ge=1, le=1000)
    """How many messages may wait for an agent; those beyond are refused."""
    away: dict[Name, str] = Field(default_factory=dict)
    """Agents that live in other runs since the graph was split, with these runs. The engine says
    it."""

    def among(self, agents: Collection[str]) -> Self:
        """The policy of a crew that has these agents, and no others."""
        root = self.root if self.root in agents else None
        away = {name: run for name, run in self.away.items() if name in agents}
        return self.model_copy(update={"root": root, "away": away})


class CheckpointPolicy(Model):
    """Which checkpoints of a run are kept in the list, with what makes loading them quick.

    A checkpoint is kept where one of these says so; with neither `keep_last` nor `keep_per_phase`
    all are. Any other can still be loaded from the journal, which takes longer.
    """

    keep_last: int | None = Field(default=None, ge=1)
    """The newest so many of the run."""
    keep_per_phase: int | None = Field(default=None, ge=1)
    """The newest so many of each phase."""
    keep_tagged: bool = True
    """Those that have a name."""


MEMORY_TOOLS = ("memory_read", "memory_write")
"""The tools of a crew that has a memory; an agent is offered those that it has a scope for."""
SEND_MESSAGE = "send_message"
"""The tool of agents that may send to channels."""
GROUP_TOOLS = (
    "group_add_node",
    "group_remove_node",
    "group_start_node",
    "group_stop_node",
    "group_channel",
    "group_wire",
)
"""The tools of privileged agents, by which these change the graph that they live in."""
OWN_SCOPE = "agent"
"""In `memory`: the scope that each agent has of its own."""
SCOPE_PATTERN = r"^(agent|public|group:[A-Za-z][A-Za-z0-9_-]{0,63})$"
MemoryScope = Annotated[str, Field(pattern=SCOPE_PATTERN)]
"""A part of a memory: `agent` (each agent's own), `group:G`, or `public`."""
Language = Literal[
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish",
    "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish",
    "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip
"""A language whose words PostgreSQL reduces to their stems; `simple` takes words as they are."""


def _own_and_public() -> dict[str, tuple[str, ...] | None]:
    return {OWN_SCOPE: None, "public": None}


class MemoryPolicy(Model):
    """What a crew remembers beyond one run, and who reads and writes it.

    A scope is read and written only by agents that may read and write the log of its name: what is
    given here can be less than that, and never more.
    """

    read: dict[MemoryScope, tuple[str, ...] | None] = Field(default_factory=_own_and_public)
    """Who may look into which scope. Null: every agent that may read its log; an empty list:
    nobody; a scope that is not named: nobody."""
    write: dict[MemoryScope, tuple[str, ...] | None] = Field(default_factory=_own_and_public)
    """Who may write into which scope. Null: every agent that may write to its log."""
    retention: Seconds | None = None
    """How long a memory is kept, e.g. `30d`; by default until somebody deletes it."""
    half_life: Seconds | None = None
    """After how long a memory counts half where they are ranked, e.g. `14d`: older ones fade behind
    newer ones that fit less well. After six half-lives it is gone. By default none fades."""
    max: int = Field(default=1_000, ge=1, le=100_000)
    """Memories of one scope; beyond, the oldest go."""
    longest: int = Field(default=8_000, ge=1, le=100_000)
    """Characters of one memory."""
    language: Language = "simple"
    """The language of the words that are looked for."""
    embedding: str | None = None
    """The model that memories are compared by: `openai:NAME`, or `hash:256` for tests. By default,
    and where the database has no pgvector, memories are found by their words."""

    def without(self, agent: str) -> Self:
        """The policy of the crew without an agent."""

        def left(table: dict[str, tuple[str, ...] | None]) -> dict[str, tuple[str, ...] | None]:
            return {
                scope: who and tuple(each for each in who if each != agent)
                for scope, who in table.items()
            }

        return self.model_copy(update={"read": left(self.read), "write": left(self.write)})


def _lives(data: Mapping[str, Any]) -> bool:
    agents: dict[str, AgentDefinition] = data.get("agents", {})
    edges = any(agent.has_edges for agent in agents.values())
    return edges or bool(data.get("channels")) or data.get("graph") is not None


def _one_after_the_other(data: dict[str, Any]) -> tuple[str, ...]:
    return () if _lives(data) else tuple(data.get("agents", ()))


class CrewDefinition(Model):
    """A crew of agents and how they work together."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"flow": {"minItems": 1}}},
                {"required": ["channels"]},
                {"required": ["graph"]},
            ]
        }
    )

    crew: Name
    """The crew's name."""
    description: str | None = None
    """What it is for."""
    model: str | None = None
    """The model of agents that name none: `PROVIDER:NAME` or `scripted:FILE`."""
    agents: dict[Name, AgentDefinition] = Field(min_length=1)
    """The agents by name."""
    tools: dict[Name, ToolDefinition] = Field(default_factory=dict)
    """The tools by name."""
    mcp: dict[Name, McpServer] = Field(default_factory=dict)
    """Servers of tools by the Model Context Protocol, by name."""
    channels: dict[Name, ChannelDefinition] = Field(default_factory=dict)
    """Channels between agents, by name; those that agents list need not be named here."""
    graph: GraphPolicy | None = None
    """How a crew lives whose agents listen to channels."""
    flow: tuple[FlowItem, ...] = Field(default_factory=_one_after_the_other)
    """What happens in which order; by default the agents one after the other, as written, and
    nothing in a crew with channels. Always filled in, so that the order of keys
    in `agents` never has a meaning of its own."""
    flags: dict[Name, Json] = Field(default_factory=dict)
    """Flags that conditions may use besides those agents write, with their first value."""
    permissions: dict[str, tuple[str, ...] | None] = Field(default_factory=dict)
    """Who may call a tool, by tool. Null, or not named: every agent that lists it; an empty list:
    nobody."""
    approvals: dict[str, tuple[str, ...] | None] = Field(default_factory=dict)
    """Tools whose calls wait for a person's yes, by tool: the agents that it holds for; null: every
    agent."""
    groups: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of agents, by name: the members of `G` read and write the log `group:G`."""
    rules: tuple[Rule, ...] = ()
    """What else holds for calls of tools: never, ask or always, on conditions, and how many."""
    timezone: str = "UTC"
    """Whose days the quotas count, e.g. `Europe/Berlin`."""
    logs: dict[Name, LogDefinition] = Field(default_factory=dict)
    """Who may read and write the log `channel:NAME`, by name; any other channel is for the agents
    that list it."""
    artifacts: dict[Name, ArtifactDefinition] = Field(default_factory=dict)
    """Documents that its agents build together, by name; they change by operations alone."""
    merge: dict[str, Merge] = Field(default_factory=dict)
    """How values combine where more than one step sets a flag, or an output as `agent.output`:
    `last` keeps the last one; `append` makes a list, in the order in which they are applied, and
    those of a phase with `for_each` in the order of its items; `union` makes a list in which each
    value stands once; `sum`, `max` and `min` keep one number; `update` puts objects together;
    `agree` takes the same value only. What does not fit is a conflict: the first stays."""
    limits: Limits = Limits()
    """Bounds that a run keeps."""
    interrupts: InterruptPolicy = InterruptPolicy()
    """When the run asks people by itself, and what happens to questions that nobody answers."""
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    """Which checkpoints of a run are kept in the list; by default all."""
    conversation: Conversation | None = None
    """Where it is said, a run waits for another message once it is done, and begins anew."""
    memory: MemoryPolicy | None = None
    """What its agents remember beyond one run, by the tools `memory_read` and `memory_write`; by
    default nothing."""
    window: WindowOrNumber | None = None
    """How much of its transcript a model is shown, for agents that say nothing; by default all."""
    approval: Literal["required", "understood"] = "understood"
    """Whether `crewlog run --yes` may approve a crew that a prompt was compiled to, in a person's
    place: `required` never; `understood` where every clause is understood. A prompt cannot set it,
    and a run that another client starts with a prompt asks in any case."""
    policy: Policy | None = None
    """Who may command the crew's runs; by default whoever reaches the server."""

    @property
    def lives(self) -> bool:
        """Whether its agents have turns for what they hear."""
        return _lives({"agents": self.agents, "channels": self.channels, "graph": self.graph})

    def with_model(self, model: str) -> Self:
        """The crew with one model for every agent that calls one; of an empty name, as it is."""
        if not model:
            return self
        own = {name: agent for name, agent in self.agents.items() if agent.model is not None}
        without = {name: each.model_copy(update={"model": None}) for name, each in own.items()}
        return self.model_copy(update={"model": model, "agents": {**self.agents, **without}})

    @property
    def callable_tools(self) -> tuple[str, ...]:
        """The tools that permissions may name: its own, those of its memory and of notes."""
        scratch = any(agent.scratch is not None for agent in self.agents.values())
        memory = MEMORY_TOOLS if self.memory is not None else ()
        sends = (SEND_MESSAGE,) if any(agent.send for agent in self.agents.values()) else ()
        groups = GROUP_TOOLS if any(map(self.is_privileged, self.agents)) else ()
        return (*self.tools, *memory, *(SCRATCH_TOOLS if scratch else ()), *sends, *groups)

    @property
    def away(self) -> Mapping[str, str]:
        """Agents that live in other runs, with these."""
        return self.graph.away if self.graph is not None else {}

    def is_privileged(self, agent: str) -> bool:
        """Whether an agent has the group tools: it lives in the graph, and may change it."""
        root = self.graph.root if self.graph is not None else None
        own = self.agents[agent].privileged or agent == root
        return own and agent not in self.away

    @property
    def every_artifact(self) -> dict[str, ArtifactDefinition]:
        """The artifacts that it defines, and those that its agents' scratch notes are."""
        own = {
            notes_of(name): notes_artifact(name, agent.scratch)
            for name, agent in self.agents.items()
            if agent.scratch is not None
        }
        return {**self.artifacts, **own} if own else self.artifacts

    @field_validator("flow", mode="after")
    @classmethod
    def _flows_or_lives(
        cls, flow: tuple[FlowItem, ...], info: ValidationInfo
    ) -> tuple[FlowItem, ...]:
        if not flow and "agents" in info.data and not _lives(info.data):
            raise PydanticKnownError(
                "too_short", {"field_type": "Tuple", "min_length": 1, "actual_length": 0}
            )
        return flow

    @model_validator(mode="after")
    def _selected(self) -> Self:
        """Puts the tools that servers are asked for under `tools`, the one place for all."""
        for name, server in self.mcp.items():
            if not server.tools:
                continue
            there = {tool.run for tool in self.tools.values()}
            for at, tool in enumerate(server.tools):
                run, called = f"mcp:{name}/{tool}", name_in_crew(tool, server.prefix)
                if run in there:
                    continue
                if called in self.tools:
                    say = f"the MCP server {name!r} brings a tool {called!r}, and there is one"
                    fault = ValueError(f"{say}: give the server another `prefix`")
                    where: InitErrorDetails = {
                        "type": "value_error",
                        "ctx": {"error": fault},
                        "loc": ("mcp", name, "tools", at),
                        "input": tool,
                    }
                    raise ValidationError.from_exception_data("CrewDefinition", [where])
                self.tools[called] = ToolDefinition(run=run)
            self.mcp[name] = server.model_copy(update={"tools": (), "prefix": ""})
            self.__pydantic_fields_set__.add("tools")
        return self
