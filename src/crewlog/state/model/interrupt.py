"""Interrupts, and how they were answered."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import ContentHash, FlagName, InterruptId, StepId
from crewlog.model import Json, Model
from crewlog.run_status import EndReason


class InterruptQuota(Model):
    """A quota over several runs that counts the call that people are asked about."""

    name: str
    """Its name in the store."""
    quota: str
    """`20 per hour`, `100 per day`."""
    zone: str = "UTC"
    """The time zone of its hours and days."""
    rule: str = ""
    """The permission that has it: `rules[1]`."""


class Interrupt(Model):
    """A question to people on which the run, or a step, waits."""

    id: InterruptId
    """Its id in the run: `i1`, `i2`, …"""
    kind: Literal[
        "ask",
        "requirement",
        "step_failed",
        "outcome_unknown",
        "tool_approval",
        "limit",
        "manual",
        "approval",
        "low_confidence",
        "budget",
        "mcp_approval",
    ]
    """See docs/concepts.md#what-people-are-asked."""
    question: str
    """The question, for people."""
    step: StepId | None = None
    """The step that waits; none if the whole run does."""
    call: int | None = None
    """The call of the step that waits."""
    options: tuple[str, ...] = ("approve", "reject")
    """The answers to choose from; see `approval` and `refusal`."""
    detail: str = ""
    """The error or the requirement in full."""
    flag: FlagName | None = None
    """The run output that the answer sets."""
    takes_text: bool = False
    """Whether text other than the options is an answer, too."""
    text_option: str = ""
    """The option that such a text stands for, which the agent is told; empty: the text is the
    answer."""
    hash: ContentHash | None = None
    """The definition to be approved: the answer is about it alone."""
    position: int = 0
    """The journal position that raised it."""
    tool: str = ""
    """The tool of the call to be approved."""
    args: Json = None
    """The arguments of that call, with long texts shortened."""
    message: ContentHash | None = None
    """The AI message that asks for the call, with all its arguments: people approve it."""
    arguments: ContentHash | None = None
    """The hash of all these arguments."""
    call_id: str = ""
    """The id of the call in that message, if the run no longer has the arguments: clients read them
    there."""
    deadline: int = 0
    """When it expires, in milliseconds since the epoch; 0: never."""
    to: tuple[str, ...] = ()
    """The principals who may answer; empty: all that have the right."""
    escalated: bool = False
    """Whether it expired and was escalated to `to`."""
    budget: Literal["tokens", "cost", "wall", "price", ""] = ""
    """The budget that is used up; `price`: the cost cannot be counted."""
    more: float = 0
    """How much more `go on` allows: tokens, US dollars, or seconds."""
    reason: str = ""
    """Of a call: why people are asked, with the reason of the permission."""
    rule: str = ""
    """What decided that: `rules[1]`, `approvals`, `live_permission`, `parent`,
    `interrupts.approve_risk`."""
    risk: Literal["high", ""] = ""
    """The risk of the tool of the call; empty: none."""
    quotas: tuple[InterruptQuota, ...] = ()
    """The quotas over several runs that count the call before it starts. The store knows whether
    they are used up."""
    shows: ContentHash | None = None
    """The body that holds what is shown with the question, if that is large."""
    limit_reached: EndReason = ""
    """The limit that people are asked about: the end reason if their answer stops the run."""

    @property
    def approval(self) -> str:
        """The option that `approve` stands for: the one of that name, else the first."""
        return "approve" if "approve" in self.options else self.options[0]

    @property
    def refusal(self) -> str:
        """The option that `reject` stands for: the one of that name, else the last."""
        return "reject" if "reject" in self.options else self.options[-1]


class InterruptAnswer(Model):
    """A summary of an answer; the journal has all of it."""

    decision: str
    """The option, or the start of the text."""
    by: str = ""
    """The principal; empty for an unauthenticated client, or if the interrupt expired."""
    expired: bool = False
    """Whether the interrupt expired and the crew's policy decided."""
    at: int = 0
    """When, in milliseconds since the epoch."""
