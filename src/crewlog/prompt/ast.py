"""The abstract syntax of a prompt: what its sentences say, in the order in which they say it.

Both readers make it: the grammar (`crewlog.prompt.grammar`) and a model (`crewlog.prompt.llm`). It
holds what was said and no more; what follows from it (who sets a flag, what waits for what, which
tools an agent ends up with) is decided once, by `crewlog.prompt.assemble`.

Agents are named as `crewlog.prompt.names.agent_name` spells them (`the UI designer` is
`ui_designer`), tools by their names in the registry. Every statement has the words it came from.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from crewlog.definition.model import NAME_PATTERN, QuestionKind, Seconds, Time
from crewlog.model import Json, Model


class Words(Model):
    """A stretch of the prompt: characters from 0, the end not included."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)


# -- conditions ------------------------------------------------------------------------------------


class Fact(Model):
    """Something that an agent decides: a flag (`approved`), or an output compared with a value."""

    kind: Literal["fact"] = "fact"
    name: str
    """In small letters with `_`: `approved`, `models_ready`, `score`, `kind`."""
    operator: Literal["==", "!=", ">=", "<=", ">", "<", "in"] | None = None
    """None: a flag, that is true."""
    value: Json = None
    """A number, a word or a list; percentages as fractions."""
    agent: str | None = None
    """Who decides it, where the words name an agent: `the checker approves`, `Backend's models`."""
    about: str = ""
    """The thing it is said of, as a noun, e.g. `models` of "the models are ready"; empty for `it`,
    and where there is none. Helps to find who decides."""


class Not(Model):
    """True where `of` is not."""

    kind: Literal["not"] = "not"
    of: Cond


class Both(Model):
    """True where all parts are."""

    kind: Literal["all"] = "all"
    of: tuple[Cond, ...] = Field(min_length=2)


class Either(Model):
    """True where one part is."""

    kind: Literal["any"] = "any"
    of: tuple[Cond, ...] = Field(min_length=2)


Cond = Annotated[Fact | Not | Both | Either, Field(discriminator="kind")]
"""A condition as it was said."""

for _model in (Not, Both, Either):
    _model.model_rebuild()


# -- statements ------------------------------------------------------------------------------------


class Statement(Model):
    """What every statement has."""

    words: tuple[Words, ...] = ()
    """Where it is said, in order. The first is the clause itself."""


class CrewName(Statement):
    """`Crew: release-notes`, or the prompt's heading."""

    kind: Literal["crew"] = "crew"
    name: str


class Cast(Statement):
    """Agents that are introduced: `There are three agents: a planner, a coder and a tester`."""

    kind: Literal["cast"] = "cast"
    agents: tuple[str, ...] = Field(min_length=1)


class Trait(Statement):
    """A sentence for an agent's prompt: what it is, should do, or must keep to. No phase."""

    kind: Literal["trait"] = "trait"
    agents: tuple[str, ...]
    """The agents; empty means all."""
    text: str


class Waits(Model):
    """What an explicit "after", "once" or "when" of agents waits for."""

    of: tuple[str, ...] = ()
    """Agents; empty means those of the item before ("once both are done", "the first to
    finish")."""
    join: Literal["all", "any"] | Annotated[int, Field(ge=1)] = "all"
    """All of them, the first of them, or how many."""


class Part(Model):
    """One agent's share of a step."""

    agent: str
    task: str = ""
    """What it does, in the prompt's words without the agent and the ordering words; may be
    empty."""
    only_if: Cond | None = None
    """`if approved, the publisher …`."""
    otherwise: bool = False
    """`otherwise, the editor …`: where none of the conditions just before holds."""
    for_each: str | None = None
    """`for each topic, …`: the noun in the plural as an output's name, `topics`."""
    maker: str | None = None
    """Who makes the list, where the words name an agent: `for each of the planner's topics`."""
    needs: tuple[str, ...] = ()
    """Tools: `only if configure_audio is available`."""


class Step(Statement):
    """Agents that work, side by side if there are several."""

    kind: Literal["step"] = "step"
    parts: tuple[Part, ...] = Field(min_length=1)
    place: Literal["next", "beside"] = "next"
    """`next`: after what was said before. `beside`: at the same time as the step before
    ("meanwhile"), or as another branch of the same condition ("otherwise")."""
    again: bool = False
    """A word says that it is a new phase even of the agent that has just worked ("then",
    "finally")."""
    after: Waits | None = None
    """An explicit "after Y", "once both are done"; it takes the place of what was said before."""
    then: bool = False
    """With `after` or `ready`: it comes after what was said before, too."""
    ready: Cond | None = None
    """A requirement that it waits for: "once the models are ready"."""
    start: bool = False
    """It starts with the run: "from the start", "right away", "first of all, in parallel to
    everything"."""


class Back(Statement):
    """Going back: `unless approved, back to the writer, at most 3 times, otherwise ask me`."""

    kind: Literal["back"] = "back"
    condition: Cond
    """When this holds, go back ("unless approved" is `Not(approved)`)."""
    to: str | None = None
    """The agent; none means the first of `group`."""
    group: tuple[str, ...] = ()
    """The agents that repeat ("the writer and the checker repeat this until …"); empty
    with `to`."""
    at_most: int | None = Field(default=None, ge=1)
    otherwise: Literal["ask_human", "end", "fail", "next"] | None = None
    """What happens then; none where nothing is said."""


class Stop(Statement):
    """The run ends: `if it is spam, stop`."""

    kind: Literal["stop"] = "stop"
    condition: Cond | None = None
    otherwise: bool = False
    """`otherwise stop`: where none of the conditions just before holds."""


class Skip(Statement):
    """An agent is passed over: `if the change is trivial, skip the tester`."""

    kind: Literal["skip"] = "skip"
    agent: str
    condition: Cond


class Switch(Statement):
    """An agent takes no part: `the tester is switched off for now`."""

    kind: Literal["switch"] = "switch"
    agents: tuple[str, ...]
    enabled: bool = False


class Ask(Statement):
    """A question to people, here or just before an agent works."""

    kind: Literal["ask"] = "ask"
    question: str
    """In the prompt's words, or made of them."""
    before: str | None = None
    """The agent before whose (first) phase it is asked; none: at this place in the order."""
    after: str | None = None
    """The agent after whose phase it is asked, where the words say so."""
    only_if: Cond | None = None
    otherwise: bool = False
    """`otherwise ask me`: where none of the conditions just before holds."""
    reject_to: str | None = None
    """`if I reject it, back to the writer`."""
    options: tuple[str, ...] = ()
    """Where the words list them; else approve and reject."""


class AskTool(Statement):
    """`Ask me before anyone uses deploy`, `ask me before any risky tool`."""

    kind: Literal["ask_tool"] = "ask_tool"
    tools: tuple[str, ...] = ()
    """Empty: every tool of high risk that is used."""
    agents: tuple[str, ...] = ()
    """Empty: whoever calls."""


class Gate(Statement):
    """`When unsure, ask a human`, `if its confidence is below 0.7, ask me`."""

    kind: Literal["gate"] = "gate"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    below: float | None = Field(default=None, ge=0, le=1)
    """The confidence below which people are asked; none: where the agent says that it is unsure."""


class Allow(Statement):
    """`The writer may use write_file`, `only the writer may write files`."""

    kind: Literal["allow"] = "allow"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    tools: tuple[str, ...] = Field(min_length=1)
    only: bool = False


class Deny(Statement):
    """`The chatbot may not issue refunds`, `nobody may deploy`."""

    kind: Literal["deny"] = "deny"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    tools: tuple[str, ...] = Field(min_length=1)


class Sees(Statement):
    """`Only the mediator sees the lawyer's notes` (`only`), `A may not see B's work` (`hidden`)."""

    kind: Literal["sees"] = "sees"
    agents: tuple[str, ...]
    """Who sees it, or who does not where `hidden`."""
    whose: tuple[str, ...] = ()
    """Whose work; empty with `hidden`: everybody's ("works blind")."""
    hidden: bool = False


class Inside(Statement):
    """How an agent works inside its turn: a pattern, e.g. `reviews its own work`."""

    kind: Literal["inside"] = "inside"
    agent: str
    use: str
    options: dict[str, Json] = Field(default_factory=dict)


class Use(Statement):
    """A builder's part of the flow: `the lead decides who works next: writer or editor`."""

    kind: Literal["use"] = "use"
    use: str
    options: dict[str, Json] = Field(default_factory=dict)
    """With agents by their names."""
    agents: tuple[str, ...] = ()
    """The agents that the options name."""


class Conversation(Statement):
    """`The crew talks with its users`, `A conversation ends after 30 minutes of silence`."""

    kind: Literal["conversation"] = "conversation"
    idle: Seconds | None = None
    """How long it waits for the next message, in seconds or as `30m`; none: as long as it takes."""
    respond: tuple[str, ...] = ()
    """Agents whose answer counts before those of others, the first one first."""


class Window(Statement):
    """`The router sees the last 5 messages, and a summary of the older ones`."""

    kind: Literal["window"] = "window"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    last: int = Field(ge=1)
    """How many messages."""
    summary: Literal["extract"] | None = None
    """How the older ones are summed up; none: they are left out."""


class Cap(Statement):
    """`Discovery may call its model at most 8 times; then it goes on with what it has`."""

    kind: Literal["cap"] = "cap"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    most: int = Field(ge=1, le=1000)
    """Model calls in a turn."""
    ends: bool = False
    """Whether the turn then ends with what is there; else the step fails."""


class Artifact(Statement):
    """`The builder and the configurator change the artifact workflow`."""

    kind: Literal["artifact"] = "artifact"
    name: str = Field(pattern=NAME_PATTERN)
    writers: tuple[str, ...] = Field(min_length=1)
    """The agents whose tools may change it."""


class Decides(Statement):
    """`The judge says whether the goal is reached`: the form of what an agent says at the end."""

    kind: Literal["decides"] = "decides"
    agent: str
    decision: Literal["strategy", "terminate"]
    """`strategy`: between a plan and doing it at once; `terminate`: whether the goal is reached."""


class Does(Statement):
    """`The tests agent runs run_pytest without a model`."""

    kind: Literal["does"] = "does"
    agents: tuple[str, ...] = Field(min_length=1)
    tools: tuple[str, ...] = Field(min_length=1)
    """What it calls, and nothing else."""


class Shown(Statement):
    """`The builder sees what discovery found and the artifact workflow, and nothing else`."""

    kind: Literal["shown"] = "shown"
    agents: tuple[str, ...] = Field(min_length=1)
    sources: tuple[str, ...] = Field(min_length=1)
    """As the inputs of a definition: `input`, `discovery.found`, `artifact:workflow`."""
    each: bool = False
    """Said of each stage: what is said of one by its name counts in its place."""


class OnError(Statement):
    """`If the coder fails, continue without it`."""

    kind: Literal["on_error"] = "on_error"
    agents: tuple[str, ...] = ()
    """Empty: every agent."""
    policy: Literal["ask", "fail", "continue"]


class Limit(Statement):
    """`At most 20 steps`, `no more than 3 at a time`."""

    kind: Literal["limit"] = "limit"
    what: Literal["steps", "parallel"]
    most: int = Field(ge=1)


class UseModel(Statement):
    """`The writer uses the model gpt-5`."""

    kind: Literal["model"] = "model"
    agents: tuple[str, ...] = ()
    """Empty: the whole crew."""
    model: str
    """As the words say it."""


class Join(Statement):
    """`Wait for both`, `wait for any two of them`, said by itself: for what comes next."""

    kind: Literal["join"] = "join"
    waits: Waits


class Pause(Statement):
    """`Wait two hours`, `wait until 2026-12-01 09:00 UTC`, `two hours later`."""

    kind: Literal["pause"] = "pause"
    wait: Seconds | None = None
    """Seconds, or as `2h`; none with `until`."""
    until: Time | None = None
    """Until when, with the zone, in ISO 8601."""
    before: str | None = None
    """The agent before whose (first) phase it is waited; none: at this place in the order."""
    place: Literal["next", "beside"] = "next"
    """`beside`: while the step before is done ("meanwhile, wait an hour")."""
    after: Waits | None = None
    """What it is counted from ("two hours after the writer finishes"), in place of what was said
    before."""
    then: bool = False
    """With `after`: it comes after what was said before, too."""
    only_if: Cond | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.wait is None) == (self.until is None):
            raise ValueError("exactly one of `wait` and `until` is needed")
        return self


class Within(Statement):
    """`If the models are not ready within two hours, skip the audio agent`.

    It says how long a step waits for its requirement (`ready`), and what happens then.
    """

    kind: Literal["within"] = "within"
    wait: Seconds
    """Seconds, or as `2h`."""
    ready: Cond | None = None
    """The requirement; none with `agent`, where it is the one said of that agent."""
    agent: str | None = None
    """Who waits for it; none: whoever does."""
    otherwise: Literal["ask_human", "skip"] | None = None
    """What happens then; none with `takes_over`."""
    takes_over: Part | None = None
    """Who works then, in the place of those who waited."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.ready is None and self.agent is None:
            raise ValueError("`ready` or `agent` is needed")
        if (self.otherwise is None) == (self.takes_over is None):
            raise ValueError("exactly one of `otherwise` and `takes_over` is needed")
        return self


class Rule(Statement):
    """What holds for calls of tools, and gives none: `The writer must never call publish`.

    `Nobody may call search more than 5 times per run`, `publish may be called only if approved`.
    """

    kind: Literal["rule"] = "rule"
    do: Literal["never", "ask", "count"]
    """`never`: such a call is refused; `ask`: it waits for a person's yes; `count`: it is only
    counted."""
    tools: tuple[str, ...] = ()
    """Empty: every tool."""
    agents: tuple[str, ...] = ()
    """Empty, and `groups` too: whoever calls."""
    groups: tuple[str, ...] = ()
    """Groups of agents, by name."""
    condition: Cond | None = None
    """It holds where this does: "only if approved" is `never` where approved does not hold."""
    people_set: tuple[str, ...] = ()
    """Facts of the condition that people set where no agent does: "while 'open' is set"."""
    most: int | None = Field(default=None, ge=1, le=999_999_999)
    """How many such calls there may be, of all its tools and agents together."""
    per: Literal["run", "hour", "day"] | None = None
    """In a run, an hour or a day; with `most`."""

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if (self.most is None) != (self.per is None):
            raise ValueError("`most` and `per` go together")
        if self.do == "count" and self.most is None:
            raise ValueError("`count` needs `most` and `per`")
        if self.do == "never" and self.most is not None:
            raise ValueError("what is never called is not counted")
        return self


class Group(Statement):
    """Agents under one name: `The group desk has the writer and the checker`."""

    kind: Literal["group"] = "group"
    name: str
    agents: tuple[str, ...] = Field(min_length=1)


class Budget(Statement):
    """`The run spends at most 2 dollars`, `… 50,000 tokens`, `The run takes at most 10 minutes`."""

    kind: Literal["budget"] = "budget"
    tokens: int | None = Field(default=None, ge=1)
    cost: float | None = Field(default=None, gt=0)
    """In US dollars."""
    wall: Seconds | None = None
    """Seconds, or as `2h`."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.tokens, self.cost, self.wall)) != 1:
            raise ValueError("exactly one of `tokens`, `cost` and `wall` is needed")
        return self


class Unanswered(Statement):
    """`If nobody answers within a day, reject it`, `… escalate to ana`, `… stop`."""

    kind: Literal["unanswered"] = "unanswered"
    wait: Seconds
    """Seconds, or as `2h`."""
    otherwise: Literal["reject", "escalate", "stop"]
    escalate_to: str | None = None
    """Whom it is escalated to; as the words write the name."""
    about: QuestionKind | None = None
    """The questions it is about; none: all of them."""

    @model_validator(mode="after")
    def _to_whom(self) -> Self:
        if (self.otherwise == "escalate") != (self.escalate_to is not None):
            raise ValueError("`escalate` and `escalate_to` go together")
        return self


class Answers(Statement):
    """`Only ana and bob may answer`: people, and no agents."""

    kind: Literal["answers"] = "answers"
    people: tuple[str, ...] = Field(min_length=1)
    """As the words write the names."""


class Yes(Statement):
    """`A yes holds for 10 minutes`: if the call has not begun by then, people are asked again."""

    kind: Literal["yes"] = "yes"
    wait: Seconds
    """Seconds, or as `2h`."""


class Risk(Statement):
    """`Calls of tools of high risk wait for a person's yes`, also of tools that come later."""

    kind: Literal["risk"] = "risk"
    least: Literal["low", "high"] = "high"
    """`low`: calls of every tool."""


class Sure(Statement):
    """`The writer must be at least 80 % sure`: else people are asked before its turn is over."""

    kind: Literal["sure"] = "sure"
    agents: tuple[str, ...] = Field(min_length=1)
    least: float = Field(gt=0, le=1)


class Reach(Statement):
    """`The tool fetch may reach only example.com`: less than the registry lets it reach."""

    kind: Literal["reach"] = "reach"
    tools: tuple[str, ...] = Field(min_length=1)
    hosts: tuple[str, ...] = Field(min_length=1)
    """As a definition has them: `example.com`, `*.example.org` for its subdomains."""


AnyStatement = Annotated[
    CrewName
    | Cast
    | Trait
    | Step
    | Back
    | Stop
    | Skip
    | Switch
    | Ask
    | AskTool
    | Gate
    | Allow
    | Deny
    | Sees
    | Inside
    | Use
    | Conversation
    | Window
    | Cap
    | Artifact
    | Decides
    | Does
    | Shown
    | OnError
    | Limit
    | UseModel
    | Join
    | Pause
    | Within
    | Rule
    | Group
    | Budget
    | Unanswered
    | Answers
    | Yes
    | Risk
    | Sure
    | Reach,
    Field(discriminator="kind"),
]


class PromptAst(Model):
    """A prompt, read."""

    statements: tuple[AnyStatement, ...] = ()
    """In the order in which they are said."""
