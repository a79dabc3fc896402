"""The inbox: what runs ask people, over all runs."""

from __future__ import annotations

from pydantic import Field

from crewlog.graph import interrupts
from crewlog.ids import ContentHash, InterruptId, RunId, StepId
from crewlog.model import Json, Model
from crewlog.reporting.wire_views import interrupt_quota_view
from crewlog.state.model import Interrupt
from crewlog.store.protocol import InterruptRow
from crewlog.wire import QuotaView


class OpenQuestion(Model):
    """A question that a run waits on, in LangChain's human-in-the-loop shape."""

    run: RunId
    id: InterruptId
    kind: str
    """Why it is asked: see `Interrupt.kind`."""
    question: str
    detail: str = ""
    step: StepId | None = None
    """The step that waits; none for the whole run."""
    options: tuple[str, ...] = ()
    words: bool = False
    """Whether any other words are an answer too."""
    at: int = 0
    """When it was asked, in milliseconds since the epoch."""
    due: int = 0
    """When it expires, in milliseconds since the epoch; 0: never."""
    to: tuple[str, ...] = ()
    """Who may answer; nobody named: whoever may answer at all."""
    escalated: bool = False
    """Whether nobody answered in time, and it was handed to `to`."""
    why: str = ""
    """Of a call: why people are asked about it, with what the rule says of that."""
    rule: str = ""
    """What decided that: `rules[1]`, `approvals`, `ruling`, `parent`, `interrupts.approve_risk`."""
    risk: str = ""
    """Of a call: `high`, where its tool may do harm."""
    quotas: tuple[QuotaView, ...] = ()
    """Of a call: the quotas over runs in which it is counted before it begins."""
    used_up: str = ""
    """Of a call: that a quota lets nothing through now, whatever is answered. Clients say it."""
    approved_at: int = 0
    """Of a server's tool: when it was approved, in milliseconds since the epoch, if that was after
    the question was asked. Clients say it."""
    tool: str = ""
    """The tool that is to be called, where people are asked for that."""
    message: ContentHash | None = None
    """Of a call that is asked about again: the message that has its arguments. Clients put them
    into `action_requests`."""
    call_id: str = ""
    """Its id in that message."""
    shows: ContentHash | None = None
    """The body that holds what is shown with it, where that is large. Clients put it into `detail`.
    """
    shortened: bool = False
    """Whether the arguments in `action_requests` are shortened: what is approved is all of them."""
    action_requests: tuple[dict[str, Json], ...] = Field(default=())
    """`[{"name", "args", "description"}]`."""
    review_configs: tuple[dict[str, Json], ...] = Field(default=())
    """`[{"action_name", "allowed_decisions"}]`."""


def open_question(row: InterruptRow) -> OpenQuestion:
    """A question as the store has it."""
    asked = Interrupt.from_json(row.interrupt)
    request, review = interrupts.langchain_interrupt(asked, None, None)
    return OpenQuestion(
        run=row.run,
        id=row.id,
        kind=asked.kind,
        question=asked.question,
        detail=asked.detail,
        step=asked.step,
        options=asked.options,
        words=asked.takes_text,
        at=row.at,
        due=asked.deadline,
        to=asked.to,
        escalated=asked.escalated,
        why=asked.reason,
        rule=asked.rule,
        risk=asked.risk,
        quotas=tuple(map(interrupt_quota_view, asked.quotas)),
        tool=asked.tool,
        **interrupts.argument_source_fields(asked),
        shows=asked.shows,
        shortened=interrupts.has_shortened_arguments(asked),
        action_requests=(request,),
        review_configs=(review,),
    )
