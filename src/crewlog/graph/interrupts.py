"""Interrupts: the content of those about tool calls and questions, and the answers they take.

The approval of a tool call is bound by hash to the message with the call: the arguments that people
approve are those that run. An interrupt is part of the state, so it has long arguments shortened,
and says so.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, cast

from crewlog.authority.bindings import arguments_hash
from crewlog.authority.permissions import Decision
from crewlog.canonical_json import canonical
from crewlog.errors import CommandRejected
from crewlog.graph.plan import Ask, GraphPlan
from crewlog.ids import AgentName, NodeName
from crewlog.model import Json
from crewlog.state.answers import budget_increase
from crewlog.state.calls import CallQuota, quota_store_name
from crewlog.state.model import Interrupt, InterruptQuota, Output, PromptState
from crewlog.state.value_text import value_text

OPTIONS = ("approve", "reject", "stop")
ACTION = "run_crew"
"""The action of the approval of a definition that a prompt compiles to."""
RISK_RULE = "interrupts.approve_risk"
"""The key that asks people before calls of tools of a risk."""
MOST_BYTES = 4096
"""The most bytes of the arguments in an interrupt, as JSON."""
_SYNONYMS = {"yes": "approve", "y": "approve", "ok": "approve", "okay": "approve", "no": "reject"}
_SIMILARITY = 0.75
"""From this ratio on, a text is taken for a misspelt option and not for a reason."""


def tool_call_arguments(body: Mapping[str, Any], call_id: str) -> dict[str, Json] | None:
    """The arguments of a tool call in a message; none if they could not be parsed."""
    tool_calls = body.get("tool_calls") or ()
    call = next((each for each in tool_calls if each.get("id") == call_id), None)
    return None if call is None else dict(call.get("args") or {})


def shorten_arguments(args: dict[str, Json]) -> tuple[Json, bool]:
    """Shortens arguments to `MOST_BYTES`; the second value tells whether they are complete."""
    if len(canonical(args)) <= MOST_BYTES:
        return args, True
    most = MOST_BYTES
    while most > 8:
        most //= 2
        short = _shorten(args, most)
        if len(canonical(short)) <= MOST_BYTES:
            return short, False
    return {"…": f"{len(args)} arguments"}, False


def _shorten(value: Json, most: int) -> Json:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Json]", value)
        first = {k[:most]: _shorten(v, most) for k, v in list(pairs.items())[:most]}
        return first if len(pairs) <= most else {**first, "…": f"{len(pairs)} in all"}
    if isinstance(value, list):
        elements: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        short = [_shorten(each, most) for each in elements[:most]]
        return short if len(elements) <= most else [*short, f"… ({len(elements)} in all)"]
    return value


def arguments_text(args: Json, message: str, *, whole: bool) -> str:
    """The arguments as text, and the hash of the message that has all of them."""
    text = json.dumps(args, ensure_ascii=False, indent=1)
    if whole:
        return f"{text}\nof the message {message}"
    return f"{text}\nShortened: the message {message} has all of it, and all of it is approved."


def call_decision(interrupt: Interrupt, kind: str, message: str, reason: str) -> tuple[str, str]:
    """The decision about a tool call, `approve`, `reject` or `stop`, and the reason of a rejection.

    Text rejects the call and is the reason; it never approves.

    Args:
        interrupt: The interrupt.
        kind: The decision's type: `approve`, `reject` or `respond`.
        message: The decision's message.
        reason: The command's reason.

    Raises:
        CommandRejected: the text looks like a misspelt option.
    """
    if kind != "respond":
        return kind, message.strip() or reason
    if message in interrupt.options:
        return message, reason
    word = message.strip().lower()
    close = difflib.get_close_matches(word, interrupt.options, 1, _SIMILARITY)
    suggestion = _SYNONYMS.get(word) or (close[0] if close else None)
    if suggestion is not None or not word:
        hint = f"Did you mean {suggestion!r}? " if suggestion else ""
        raise CommandRejected(
            f"{message!r} is no answer to {interrupt.id!r}",
            remedy=f"{hint}Its options are: {', '.join(interrupt.options)}; any other text rejects "
            "the call, and is the reason.",
        )
    return "reject", message.strip()


def rejection_text(by: str, reason: str) -> str:
    """The result of a call that people rejected, for the model."""
    return f"Refused by {by or 'people'}{f': {reason}' if reason else '.'}"


def approval_question(step: str, tool: str, arguments_excerpt: str) -> str:
    """The question of a `tool_approval`."""
    return f"May {step} call {tool}{f' with {arguments_excerpt}' if arguments_excerpt else ''}?"


def reason_fields(
    decision: Decision, set_reason: str, risk: str, approve_risk: str | None
) -> dict[str, str]:
    """Why people are asked: fields of the `Interrupt`.

    Args:
        decision: The decision that asks people.
        set_reason: The reason of people who set the permission on the live run; else empty.
        risk: The tool's risk.
        approve_risk: The lowest risk of tools whose calls wait for approval.
    """
    reason, rule = f"{decision.reason}{f': {set_reason}' if set_reason else ''}", decision.rule
    if rule == "approvals" and approve_risk in (risk, "low"):
        rule = RISK_RULE
        which = "of high risk" if approve_risk == "high" else "of any risk"
        reason = f"{rule} says that people are asked before calls of tools {which}"
    return {"reason": reason, "rule": rule, "risk": risk if risk == "high" else ""}


def interrupt_quota(quota: CallQuota) -> InterruptQuota:
    """A quota as an interrupt names it."""
    name, rule = quota_store_name(quota.crew, quota.key), quota.rule.partition(" ")[0]
    return InterruptQuota(name=name, quota=quota.quota, zone=quota.zone, rule=rule)


def reason_text(reason: str, risk: str, rule: str) -> str:
    """Why people are asked, in a line: `rules[1] says ask: only checked titles · high risk`.

    Args:
        reason: The reason of the interrupt.
        risk: The risk of its tool.
        rule: The permission that asks.
    """
    risk_text = "the tool has high risk" if risk == "high" and rule != RISK_RULE else ""
    return " · ".join(filter(None, [reason, risk_text]))


def has_shortened_arguments(interrupt: Interrupt) -> bool:
    """Whether an interrupt does not have all arguments of its call."""
    return interrupt.arguments is not None and (
        arguments_hash(interrupt.args) != interrupt.arguments
    )


def argument_source_fields(interrupt: Interrupt) -> dict[str, Any]:
    """The message with the arguments that an interrupt does not have: fields of its view."""
    if not interrupt.call_id:
        return {}
    return {"message": interrupt.message, "call_id": interrupt.call_id}


def action_request(interrupt: Interrupt) -> dict[str, Any]:
    """The call in the shape of LangChain's human-in-the-loop requests."""
    lines = filter(
        None, [interrupt.question, reason_text(interrupt.reason, interrupt.risk, interrupt.rule)]
    )
    return {"name": interrupt.tool, "args": interrupt.args or {}, "description": "\n".join(lines)}


def langchain_interrupt(
    interrupt: Interrupt, prompt: PromptState | None, definition: Mapping[str, Json] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """An interrupt in LangChain's human-in-the-loop shape: its request and its review config.

    Args:
        interrupt: The interrupt.
        prompt: For the approval of a definition: the prompt.
        definition: For the approval of a definition: that definition.
    """
    if interrupt.tool:
        return action_request(interrupt), _review_config(
            interrupt.tool, "approve", "edit", "reject", "respond"
        )
    if interrupt.kind == "approval" and prompt is not None:
        args: dict[str, Any] = {
            "hash": interrupt.hash,
            "definition": definition,
            "remarks": [remark.model_dump() for remark in prompt.diagnostics],
        }
        request = {"name": ACTION, "args": args, "description": interrupt.question}
        return request, _review_config(ACTION, "approve", "reject", "edit")
    args = {"step": interrupt.step, "options": list(interrupt.options)}
    request = {"name": interrupt.kind, "args": args, "description": interrupt.question}
    return request, _review_config(interrupt.kind, "approve", "reject", "respond")


def _review_config(name: str, *decisions: str) -> dict[str, Any]:
    return {"action_name": name, "allowed_decisions": list(decisions)}


def shown_output_fields(
    name: str, outputs: Mapping[AgentName, Mapping[str, Output]]
) -> dict[str, Any]:
    """The fields of an interrupt that shows an output.

    Args:
        name: `agent.output`.
        outputs: All outputs.
    """
    agent, _, key = name.partition(".")
    output = outputs.get(AgentName(agent), {}).get(key)
    if output is None:
        return {"detail": f"{name} was not set"}
    if output.elements:
        return {"detail": value_text([each.value for each in output.elements])}
    if output.body is not None:
        return {"detail": f"the output {name}", "shows": output.body}
    return {"detail": value_text(output.value)}


def text_target(plan: GraphPlan, ask: Ask) -> NodeName | None:
    """The option to whose agent a text answer goes: the only option that is an agent's node."""
    if not ask.words or ask.sets is not None:
        return None
    nodes = (plan.nodes.get(NodeName(option)) for option in ask.options)
    targets = [NodeName(o) for o, n in zip(ask.options, nodes, strict=True) if n and n.agent]
    return targets[0] if len(targets) == 1 else None


class StopAnswer(Exception):
    """The answer ends the run; the caller stops it as for the `stop` signal."""


def check_answer(interrupt: Interrupt, decision: str) -> None:
    """Checks that the interrupt takes a decision.

    Raises:
        CommandRejected: it does not; the message lists the options.
    """
    if decision in interrupt.options:
        return
    if interrupt.kind == "budget":
        if budget_increase(interrupt, decision):
            return
    elif interrupt.takes_text and decision.strip():
        return
    close = difflib.get_close_matches(decision, interrupt.options, 1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise CommandRejected(
        f"{decision!r} is no answer to {interrupt.id!r}",
        remedy=f"{hint}Its options are: {', '.join(interrupt.options)}.",
    )
