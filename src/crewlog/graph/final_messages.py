"""Replies that cannot be used: no good answers, and final messages that are not of their form.

Such a message stays in the log of its agent's turn, which is told exactly why and asked again.
Where no try was any good, the definition's fallback counts, or the step fails. Every try is in the
journal, and counts as the model call that it is.
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
from crewlog.state.calls import INLINE_BYTES, CallModelResult, OutputValue, addressed_items
from crewlog.state.drafts import draft_text
from crewlog.state.excerpt import excerpt, message_excerpt
from crewlog.state.finish_reason import ACCEPTING, FAULTS, REMEDIES
from crewlog.state.model import CrewState, Draft

_UNREAD = ("its form has been asked for only since then",)
TRIES = 3
"""How often a model is asked that gives no good answer, by `bad_reply: retry`."""


def truncated_messages(state: CrewState, step: StepId) -> int:
    """Replies in a row of a step's turn that the limit of output cut."""
    found = state.frontier.get(step)
    return found.turn.cut if found is not None and found.turn is not None else 0


class FinalMessages:
    """What the turns of a run do with replies that must be of a form.

    Args:
        run: The run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    def faults(self, agent: AgentName, step: StepId, result: CallModelResult) -> tuple[str, ...]:
        """Why a final message cannot be used; empty where it can."""
        rules = self._run.rules_of(agent, step)
        if self.is_bad(agent, step, result):
            return (FAULTS[result.ending],)
        if rules.reply is None or rules.does:  # what is composed of results has no form
            return ()
        return () if result.reply is not None else result.errors or _UNREAD

    def is_bad(self, agent: AgentName, step: StepId, result: CallModelResult) -> bool:
        """Whether a reply is no good answer, and is not to be taken as it is.

        An agent with channels or wires need not say anything.
        """
        if not result.ending or self._run.rules_of(agent, step).bad_reply == "accept":
            return False
        topology = self._run.plan.topology
        silent = topology is not None and agent in topology.creatures
        return not (silent and result.ending == "empty")

    def has_undeliverable_items(
        self, agent: AgentName, step: StepId, result: CallModelResult
    ) -> bool:
        """Whether a reply has items for some readers that nobody is to be handed any more.

        Its model was asked for them by the crew of then, in which the text went to nobody.
        """
        rules = self._run.rules_of(agent, step).reply
        tagged = rules.tagged if rules is not None else {}
        outputs = result.reply.outputs if result.reply is not None else ()
        return any(each.recipients is not None and each.key not in tagged for each in outputs)

    def draft(self, agent: AgentName, step: StepId, result: CallModelResult) -> Draft | None:
        """The text that a capped turn would end with, of a message that is not final.

        A reply that is no good answer has none.
        """
        ends = self._run.rules_of(agent, step).on_cap == "end"
        if not ends or self.is_bad(agent, step, result) or not message_excerpt(result.body):
            return None
        if not result.tools:
            return Draft(body=result.hash, inline=None if result.stored else result.body)
        if result.draft is None:  # its worker did not know yet that the turn may end with it
            return None
        return Draft(body=result.draft, inline=None if result.stored else draft_text(result.body))

    def take(self, step: StepId, call: int, agent: AgentName, result: CallModelResult) -> None:
        """Sets what a final message says."""
        rules = self._run.rules_of(agent, step)
        if rules.reply is not None and result.reply is not None:
            found = _values_by_key(result.reply.outputs)
            entry = self._run.state.frontier[step]
            tried = entry.turn.refused if entry.turn is not None else 0
            self._taken(step, call, agent, rules.reply, found, result.reply.how, tried + 1)
            self._set(step, agent, rules.reply, found, stored=result.stored)
            self._response(step, agent, rules.reply, result.hash)
        if rules.on_cap == "end":
            self._set_limit_output(step, agent, capped=False)

    def refuse(
        self,
        step: StepId,
        call: int,
        agent: AgentName,
        result: CallModelResult,
        faults: tuple[str, ...],
    ) -> Literal["again", "fallback", "fail"]:
        """Records a final message that cannot be used, and says what follows.

        Where the step fails, the call that a `retry` makes is there already: people may mend what
        is behind it, and the model has been told.
        """
        rules, tries = self._expected_output(agent, step, result)
        entry = self._run.state.frontier[step]
        if entry.turn is None:
            return "fail"
        attempt = entry.turn.refused + 1
        bad = self.is_bad(agent, step, result)
        # At the bound of its calls a turn has nothing to end with but a reply that is no answer.
        capped = self._is_at_cap(agent, step) and bad and entry.turn.draft is None
        last = capped or attempt >= tries
        may = rules is not None and rules.fallback is not None
        does_without = last and may and not self.policy(agent, step, result)
        self._run.record(
            j.StructuredOutputRejected(
                step=step,
                call=call,
                agent=agent,
                decision=rules.decision if rules is not None else "",
                attempt=attempt,
                of=attempt if last else tries,
                errors=faults,
                ref=None if does_without else self._told(step, agent, faults),
            )
        )
        if not last:
            return "again"
        if not does_without or rules is None:
            return "fail"
        self._use_fallback(step, call, agent, rules, attempt)
        self._response(step, agent, rules, None if bad else result.hash)
        if self._run.rules_of(agent, step).on_cap == "end":
            self._set_limit_output(step, agent, capped=capped)
        return "fallback"

    def _is_at_cap(self, agent: AgentName, step: StepId) -> bool:
        """Whether a turn that may end at its agent's `max_calls` has taken them."""
        entry, rules = self._run.state.frontier[step], self._run.rules_of(agent, step)
        taken = entry.turn.model_calls if entry.turn is not None else 0
        return rules.on_cap == "end" and taken % rules.max_calls == 0

    def _expected_output(
        self, agent: AgentName, step: StepId, result: CallModelResult
    ) -> tuple[PlanStructuredOutput | None, int]:
        """The form that a reply must have, and how often the model is asked for one."""
        rules = self._run.rules_of(agent, step)
        if not self.is_bad(agent, step, result):
            return rules.reply, rules.reply.tries if rules.reply is not None else 1
        return rules.reply, TRIES if rules.bad_reply == "retry" else 1

    def policy(self, agent: AgentName, step: StepId, result: CallModelResult) -> str:
        """What `bad_reply` says of a step whose reply is no good answer; empty: as of failures."""
        policy = self._run.rules_of(agent, step).bad_reply
        bad = self.is_bad(agent, step, result)
        return policy if bad and policy in ("ask", "fail") else ""

    def error(
        self, agent: AgentName, step: StepId, result: CallModelResult, faults: Sequence[str]
    ) -> str:
        """What is said of a step that fails since no reply was any good."""
        entry = self._run.state.frontier.get(step)
        tries = entry.turn.refused if entry is not None and entry.turn is not None else 1
        times = "once" if tries == 1 else f"{tries} times"
        short = entry.turn.faults if entry is not None and entry.turn is not None else ()
        told = "; ".join(faults)
        if len({*short}) > 1:  # the last alone would hide why the others were no good
            begin = tries - len(short) + 1
            told = "; ".join(f"({n}) {each}" for n, each in enumerate((*short[:-1], told), begin))
        remedy = (
            "Let its prompt say what it must be, choose another model, or "
            "say what counts then by its reply's `fallback`."
        )
        if self.is_bad(agent, step, result):
            remedy = f"{REMEDIES[result.ending]}, {ACCEPTING}"
        said = f"the reply of {agent!r} cannot be used, and it was asked {times}: {told}."
        return f"{said}\n{remedy}"

    def cap(self, step: StepId, agent: AgentName, logs: tuple[LogName, ...]) -> None:
        """Ends a turn that reached its agent's most calls with what is there."""
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
        said = () if rules.reply is None else rules.reply.fields
        text = () if draft is None or rules.reply is None else (RESPONSE,)
        reset_outputs(self._run, step, but={*said, *text, CAPPED})
        self._set_limit_output(step, agent, capped=True)
        if rules.reply is None:
            return
        if rules.reply.fallback is not None:
            self._use_fallback(step, call, agent, rules.reply, attempt)
        else:
            self._set(step, agent, rules.reply, {}, stored=True)
        if draft is not None:
            self._response(step, agent, rules.reply, draft.body)

    # -- facts --------------------------------------------------------------------------------

    def _told(self, step: StepId, agent: AgentName, faults: Sequence[str]) -> j.MessageRef:
        """What is said to an agent whose message is none, and to nobody else."""
        said = "\n".join(["Your reply cannot be used:", *(f"- {fault}" for fault in faults)])
        body: dict[str, Json] = {
            "type": "human",
            "content": f"{said}\nReply once more, with what was asked for and nothing else.",
            "id": f"{step}/{self._run.state.position + 1}",
        }
        logs = (self._run.step_log(step, agent),)
        return j.MessageRef(body=hash_json(body), logs=logs, inline=body)

    def _use_fallback(
        self, step: StepId, call: int, agent: AgentName, rules: PlanStructuredOutput, attempt: int
    ) -> None:
        found = _values_by_key(
            each
            for key, value in (rules.fallback or {}).items()
            for each in (
                addressed_items(key, value, rules.tagged[key])
                if key in rules.tagged
                else [_output(key, value)]
            )
        )
        self._taken(step, call, agent, rules, found, "fallback", attempt)
        # Nobody has stored what is large in it.
        self._set(step, agent, rules, found, stored=False)

    def _taken(
        self,
        step: StepId,
        call: int,
        agent: AgentName,
        rules: PlanStructuredOutput,
        found: Found,
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
                excerpt=_brief(found),
                confidence=self._confidence(agent, step, found),
            )
        )

    def _confidence(self, agent: AgentName, step: StepId, found: Found) -> float | None:
        """How sure the agent says by a field that it is, where that is asked for."""
        said = next(iter(found.get(CONFIDENCE, ())), None)
        if said is None or self._run.rules_of(agent, step).ask_below is None:
            return None
        number = isinstance(said.value, int | float) and not isinstance(said.value, bool)
        return float(said.value) if number and 0 <= said.value <= 1 else 0.0

    def _set(
        self,
        step: StepId,
        agent: AgentName,
        rules: PlanStructuredOutput,
        found: Found,
        *,
        stored: bool,
    ) -> None:
        """Sets the fields; one that a reply leaves out is not what an earlier one said."""
        for key in rules.fields:
            said = found.get(key, ())
            if key in rules.tagged and said:
                set_addressed_items(self._run, step, agent, key, said, stored=stored)
            elif said:
                self._output(step, agent, said[0], stored=stored)
            else:
                self._forget(step, agent, key)

    def _forget(self, step: StepId, agent: AgentName, key: str) -> None:
        """Sets an output to null that an earlier message set, unless it is a list of all."""
        if self._known(agent, key) and not self._run.has_list_reducer(f"{agent}.{key}"):
            self._output(step, agent, OutputValue(key=key), stored=True)

    def _known(self, agent: AgentName, key: str) -> bool:
        return is_set(self._run.state.agent_outputs.get(agent, {}).get(key))

    def _output(self, step: StepId, agent: AgentName, output: OutputValue, *, stored: bool) -> None:
        record_write(self._run, output_entry(self._run, step, agent, output, stored=stored), step)

    def _response(
        self, step: StepId, agent: AgentName, rules: PlanStructuredOutput, body: ContentHash | None
    ) -> None:
        """The whole text, by the message that has it; none: what an earlier one said is gone."""
        if RESPONSE in rules.fields:
            return
        if body is None:
            self._forget(step, agent, RESPONSE)
            return
        fact = output_entry(
            self._run, step, agent, OutputValue(key=RESPONSE, body=body), stored=True
        )
        if rules.tagged:  # it has all items
            fact = fact.model_copy(update={"logs": (private_log(agent),)})
        record_write(self._run, fact, step)

    def _set_limit_output(self, step: StepId, agent: AgentName, *, capped: bool) -> None:
        known = self._run.state.agent_outputs.get(agent, {}).get(CAPPED)
        if capped or (known is not None and known.value is True):
            self._output(step, agent, OutputValue(key=CAPPED, value=capped), stored=True)


Found = Mapping[str, Sequence[OutputValue]]
"""What a reply says, by field: one value, or the items of a field that hands them on."""


def _values_by_key(outputs: Iterable[OutputValue]) -> Found:
    found: dict[str, list[OutputValue]] = {}
    for output in outputs:
        found.setdefault(output.key, []).append(output)
    return found


def _output(key: str, value: Json) -> OutputValue:
    if len(canonical(value)) <= INLINE_BYTES:
        return OutputValue(key=key, value=value)
    return OutputValue(key=key, body=hash_json(value), content=value)


def _brief(found: Found) -> str:
    """`next = billing, instructions = refund it`: what a reply says, for people."""
    said = [
        f"{key} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, outputs in found.items()
        for output in outputs
        if (value := output.value if output.body is None else output.content) not in (None, "", [])
    ]
    return excerpt(", ".join(each[:500] for each in said))
