"""Final messages: the outputs that they set, and messages that cannot be used.

A final message cannot be used if the model ended it badly (empty, cut, refused), or if it does not
satisfy its structured output. It stays in the log of the turn, and the model gets the errors and is
asked again. After the last attempt the definition's fallback counts, or the step fails. Every
attempt is in the journal and counts as a model call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from crewlog.canonical_json import canonical, hash_json
from crewlog.definition.interrupting import CONFIDENCE
from crewlog.definition.replies import CAPPED, RESPONSE
from crewlog.graph.addressed_items import set_addressed_items
from crewlog.graph.outputs import is_set, output_entry, record_write, reset_outputs
from crewlog.graph.plan import PlanStructuredOutput
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, ContentHash, LogName, StepId, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import (
    INLINE_BYTES,
    CallModelResult,
    FinalMessage,
    FinalMessageInvalid,
    MessageOutcome,
    MessageUnusable,
    OutputValue,
    ToolCallsRequested,
    addressed_items,
)
from crewlog.state.drafts import draft_text
from crewlog.state.excerpt import excerpt, message_excerpt
from crewlog.state.finish_reason import ACCEPT_REMEDY, FAULTS, REMEDIES
from crewlog.state.model import CrewState, Draft

_NOT_PARSED = ("its form has been asked for only since then",)
"""The error of a message whose agent had no structured output when its model was called."""
TRIES = 3
"""How often `bad_reply: retry` asks a model."""


def truncated_messages(state: CrewState, step: StepId) -> int:
    """How many messages in a row of a step's turn the output limit has cut."""
    entry = state.frontier.get(step)
    return entry.turn.cut if entry is not None and entry.turn is not None else 0


class FinalMessages:
    """The final messages of a run.

    Args:
        run: The run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    def outcome(self, agent: AgentName, step: StepId, result: CallModelResult) -> MessageOutcome:
        """The outcome of a model call, by the definition of its agent.

        An unusable message is what it is accepted as if `bad_reply` accepts it. The message of an
        agent with channels may be empty.
        """
        found = result.outcome
        if found.kind != "unusable":
            return found
        if self._run.rules_of(agent, step).bad_reply == "accept":
            return found.accepted
        component = self._run.plan.component
        may_be_empty = component is not None and agent in component.agents
        return found.accepted if may_be_empty and found.ending == "empty" else found

    def errors(self, agent: AgentName, step: StepId, outcome: MessageOutcome) -> tuple[str, ...]:
        """Why a final message cannot be used; empty if it can, and if it calls tools."""
        rules = self._run.rules_of(agent, step)
        # An agent without a model has no structured output.
        is_structured = rules.reply is not None and not rules.does
        match outcome:
            case MessageUnusable(ending=ending):
                return (FAULTS[ending],)
            case FinalMessageInvalid(errors=errors) if is_structured:
                return errors
            case FinalMessage(output=None) if is_structured:
                return _NOT_PARSED
            case _:
                return ()

    def has_undeliverable_items(
        self, agent: AgentName, step: StepId, outcome: MessageOutcome
    ) -> bool:
        """Whether a message has addressed items for an output that a change made an ordinary one.

        The model wrote them by the definition before, by which no other agent reads the text.
        """
        output = outcome.output if outcome.kind == "final" else None
        if output is None:
            return False
        rules = self._run.rules_of(agent, step).reply
        tagged = rules.tagged if rules is not None else {}
        return any(
            each.recipients is not None and each.key not in tagged for each in output.outputs
        )

    def draft(
        self, agent: AgentName, step: StepId, result: CallModelResult, outcome: MessageOutcome
    ) -> Draft | None:
        """The draft in a message that is not final: a turn at its limit ends with it.

        A bad message has none.
        """
        ends = self._run.rules_of(agent, step).on_cap == "end"
        if not ends or not message_excerpt(result.body):
            return None
        match outcome:
            case MessageUnusable() | ToolCallsRequested(draft=None):
                # Without a draft the definition had no `on_cap: end` when the model was called.
                return None
            case ToolCallsRequested(draft=str(body)):
                return Draft(body=body, inline=None if result.stored else draft_text(result.body))
            case _:
                return Draft(body=result.hash, inline=None if result.stored else result.body)

    def apply(
        self,
        step: StepId,
        call: int,
        agent: AgentName,
        result: CallModelResult,
        outcome: MessageOutcome,
    ) -> None:
        """Sets the outputs of a final message."""
        rules = self._run.rules_of(agent, step)
        output = outcome.output if outcome.kind == "final" else None
        if rules.reply is not None and output is not None:
            values = _values_by_key(output.outputs)
            entry = self._run.state.frontier[step]
            rejected = entry.turn.refused if entry.turn is not None else 0
            self._record_parsed(step, call, agent, rules.reply, values, output.how, rejected + 1)
            self._set_fields(step, agent, rules.reply, values, stored=result.stored)
            self._set_response(step, agent, rules.reply, result.hash)
        if rules.on_cap == "end":
            self._set_limit_output(step, agent, capped=False)

    def reject(
        self,
        step: StepId,
        call: int,
        agent: AgentName,
        result: CallModelResult,
        outcome: MessageOutcome,
        errors: tuple[str, ...],
    ) -> Literal["again", "fallback", "fail"]:
        """Records a final message that cannot be used.

        If the step fails, the journal has the errors for the model already, so a `retry` by people
        continues with them.

        Returns:
            What follows: another model call, the fallback that was applied, or failure.
        """
        is_bad = outcome.kind == "unusable"
        rules, tries = self._expected_output(agent, step, outcome)
        entry = self._run.state.frontier[step]
        if entry.turn is None:
            return "fail"
        attempt = entry.turn.refused + 1
        # At its limit a turn without a draft cannot end with a bad message.
        capped = self._is_at_limit(agent, step) and is_bad and entry.turn.draft is None
        is_last = capped or attempt >= tries
        has_fallback = rules is not None and rules.fallback is not None
        uses_fallback = is_last and has_fallback and not self.policy(agent, step, outcome)
        self._run.record(
            j.StructuredOutputRejected(
                step=step,
                call=call,
                agent=agent,
                decision=rules.decision if rules is not None else "",
                attempt=attempt,
                of=attempt if is_last else tries,
                errors=errors,
                ref=None if uses_fallback else self._error_message(step, agent, errors),
            )
        )
        if not is_last:
            return "again"
        if not uses_fallback or rules is None:
            return "fail"
        self._apply_fallback(step, call, agent, rules, attempt)
        self._set_response(step, agent, rules, None if is_bad else result.hash)
        if self._run.rules_of(agent, step).on_cap == "end":
            self._set_limit_output(step, agent, capped=capped)
        return "fallback"

    def _is_at_limit(self, agent: AgentName, step: StepId) -> bool:
        """Whether a turn with `on_cap: end` has made `max_calls` model calls."""
        entry, rules = self._run.state.frontier[step], self._run.rules_of(agent, step)
        calls = entry.turn.model_calls if entry.turn is not None else 0
        return rules.on_cap == "end" and calls % rules.max_calls == 0

    def _expected_output(
        self, agent: AgentName, step: StepId, outcome: MessageOutcome
    ) -> tuple[PlanStructuredOutput | None, int]:
        """The structured output of a final message, and how often the model is asked for it."""
        rules = self._run.rules_of(agent, step)
        if outcome.kind != "unusable":
            return rules.reply, rules.reply.tries if rules.reply is not None else 1
        return rules.reply, TRIES if rules.bad_reply == "retry" else 1

    def policy(self, agent: AgentName, step: StepId, outcome: MessageOutcome) -> str:
        """The `bad_reply` of a step with a bad message, if it is `ask` or `fail`; else empty."""
        policy = self._run.rules_of(agent, step).bad_reply
        is_bad = outcome.kind == "unusable"
        return policy if is_bad and policy in ("ask", "fail") else ""

    def failure_text(
        self, agent: AgentName, step: StepId, outcome: MessageOutcome, errors: Sequence[str]
    ) -> str:
        """The error of a step that fails because no final message could be used."""
        entry = self._run.state.frontier.get(step)
        tries = entry.turn.refused if entry is not None and entry.turn is not None else 1
        times = "once" if tries == 1 else f"{tries} times"
        excerpts = entry.turn.faults if entry is not None and entry.turn is not None else ()
        text = "; ".join(errors)
        if len({*excerpts}) > 1:  # the attempts had different errors
            first = tries - len(excerpts) + 1
            attempts = enumerate((*excerpts[:-1], text), first)
            text = "; ".join(f"({number}) {each}" for number, each in attempts)
        remedy = (
            "Describe the expected reply in its prompt, choose another model, or set the "
            "`fallback` of its reply."
        )
        if outcome.kind == "unusable":
            remedy = f"{REMEDIES[outcome.ending]}, {ACCEPT_REMEDY}"
        return f"the reply of {agent!r} cannot be used, and it was asked {times}: {text}.\n{remedy}"

    def end_at_limit(self, step: StepId, agent: AgentName, logs: tuple[LogName, ...]) -> None:
        """Ends a turn at its agent's `max_calls`, with its draft if it has one."""
        entry, rules = self._run.state.frontier[step], self._run.rules_of(agent, step)
        draft = entry.turn.draft if entry.turn is not None else None
        call = entry.turn.calls[-1].call if entry.turn is not None and entry.turn.calls else 1
        attempt = entry.turn.refused if entry.turn is not None else 0
        self._run.record(
            j.TurnLimitReached(
                step=step,
                agent=agent,
                calls=rules.max_calls,
                ref=None
                if draft is None
                else j.MessageRef(body=draft.body, logs=logs, inline=draft.inline),
                append=draft is not None and self._run.has_list_reducer(f"{agent}.text"),
            )
        )
        fields = () if rules.reply is None else rules.reply.fields
        response = () if draft is None or rules.reply is None else (RESPONSE,)
        reset_outputs(self._run, step, but={*fields, *response, CAPPED})
        self._set_limit_output(step, agent, capped=True)
        if rules.reply is None:
            return
        if rules.reply.fallback is not None:
            self._apply_fallback(step, call, agent, rules.reply, attempt)
        else:
            self._set_fields(step, agent, rules.reply, {}, stored=True)
        if draft is not None:
            self._set_response(step, agent, rules.reply, draft.body)

    # -- entries -----------------------------------------------------------------------------

    def _error_message(self, step: StepId, agent: AgentName, errors: Sequence[str]) -> j.MessageRef:
        """The message with the errors of a final message; only the agent reads it."""
        text = "\n".join(["Your reply cannot be used:", *(f"- {error}" for error in errors)])
        body: dict[str, Json] = {
            "type": "human",
            "content": f"{text}\nReply once more, with what was asked for and nothing else.",
            "id": f"{step}/{self._run.state.position + 1}",
        }
        logs = (self._run.step_log(step, agent),)
        return j.MessageRef(body=hash_json(body), logs=logs, inline=body)

    def _apply_fallback(
        self, step: StepId, call: int, agent: AgentName, rules: PlanStructuredOutput, attempt: int
    ) -> None:
        values = _values_by_key(
            each
            for key, value in (rules.fallback or {}).items()
            for each in (
                addressed_items(key, value, rules.tagged[key])
                if key in rules.tagged
                else [_output_value(key, value)]
            )
        )
        self._record_parsed(step, call, agent, rules, values, "fallback", attempt)
        self._set_fields(step, agent, rules, values, stored=False)

    def _record_parsed(
        self,
        step: StepId,
        call: int,
        agent: AgentName,
        rules: PlanStructuredOutput,
        values: ValuesByKey,
        how: Literal["json", "lenient", "fallback"],
        attempt: int,
    ) -> None:
        self._run.record(
            j.StructuredOutputParsed(
                step=step,
                call=call,
                agent=agent,
                decision=rules.decision,
                how=how,
                attempt=attempt,
                excerpt=_values_excerpt(values),
                confidence=self._confidence(agent, step, values),
            )
        )

    def _confidence(self, agent: AgentName, step: StepId, values: ValuesByKey) -> float | None:
        """The confidence that the agent states, 0 to 1; none if it has no `ask_below`."""
        field = next(iter(values.get(CONFIDENCE, ())), None)
        if field is None or self._run.rules_of(agent, step).ask_below is None:
            return None
        is_number = isinstance(field.value, int | float) and not isinstance(field.value, bool)
        return float(field.value) if is_number and 0 <= field.value <= 1 else 0.0

    def _set_fields(
        self,
        step: StepId,
        agent: AgentName,
        rules: PlanStructuredOutput,
        values: ValuesByKey,
        *,
        stored: bool,
    ) -> None:
        """Sets the fields, and resets those that the message leaves out."""
        for key in rules.fields:
            outputs = values.get(key, ())
            if key in rules.tagged and outputs:
                set_addressed_items(self._run, step, agent, key, outputs, stored=stored)
            elif outputs:
                self._set_output(step, agent, outputs[0], stored=stored)
            else:
                self._reset_output(step, agent, key)

    def _reset_output(self, step: StepId, agent: AgentName, key: str) -> None:
        """Sets an output to null, unless it is a list of several messages."""
        output = self._run.state.agent_outputs.get(agent, {}).get(key)
        if is_set(output) and not self._run.has_list_reducer(f"{agent}.{key}"):
            self._set_output(step, agent, OutputValue(key=key), stored=True)

    def _set_output(
        self, step: StepId, agent: AgentName, output: OutputValue, *, stored: bool
    ) -> None:
        record_write(self._run, output_entry(self._run, step, agent, output, stored=stored), step)

    def _set_response(
        self, step: StepId, agent: AgentName, rules: PlanStructuredOutput, body: ContentHash | None
    ) -> None:
        """Sets the whole text to that of a message; none: resets it."""
        if RESPONSE in rules.fields:
            return
        if body is None:
            self._reset_output(step, agent, RESPONSE)
            return
        entry = output_entry(
            self._run, step, agent, OutputValue(key=RESPONSE, body=body), stored=True
        )
        if rules.tagged:  # the text contains all addressed items
            entry = entry.model_copy(update={"logs": (private_log(agent),)})
        record_write(self._run, entry, step)

    def _set_limit_output(self, step: StepId, agent: AgentName, *, capped: bool) -> None:
        output = self._run.state.agent_outputs.get(agent, {}).get(CAPPED)
        if capped or (output is not None and output.value is True):
            self._set_output(step, agent, OutputValue(key=CAPPED, value=capped), stored=True)


ValuesByKey = Mapping[str, Sequence[OutputValue]]
"""The values of a final message by field: one, or the addressed items of the field."""


def _values_by_key(outputs: Iterable[OutputValue]) -> ValuesByKey:
    found: dict[str, list[OutputValue]] = {}
    for output in outputs:
        found.setdefault(output.key, []).append(output)
    return found


def _output_value(key: str, value: Json) -> OutputValue:
    if len(canonical(value)) <= INLINE_BYTES:
        return OutputValue(key=key, value=value)
    return OutputValue(key=key, body=hash_json(value), content=value)


def _values_excerpt(values: ValuesByKey) -> str:
    """`next = billing, instructions = refund it`, for people."""
    texts = [
        f"{key} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, outputs in values.items()
        for output in outputs
        if (value := output.value if output.body is None else output.content) not in (None, "", [])
    ]
    return excerpt(", ".join(each[:500] for each in texts))
