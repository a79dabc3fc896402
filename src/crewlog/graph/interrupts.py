"""Calls of tools that wait for a person's yes: what people are shown, and what they may answer.

A call is bound to the message that asks for it, by hash: what is approved is what runs. People are
shown its arguments as that message has them. They are strangers' words that may be long: an
interrupt is part of the state, so long texts in it are shortened, and it says so.

What a question shows besides its words, e.g. a plan, and where words go that it takes.
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
from crewlog.state.answers import budget_extension
from crewlog.state.calls import CallQuota, quota_store_name
from crewlog.state.model import Interrupt, InterruptQuota, Output, PromptState
from crewlog.state.value_text import value_text

OPTIONS = ("approve", "reject", "stop")
ACTION = "run_crew"
"""The action that is approved of what a prompt makes."""
MOST_BYTES = 4096
"""Arguments whose JSON is no longer are shown as they are."""
_ALMOST = {"yes": "approve", "y": "approve", "ok": "approve", "okay": "approve", "no": "reject"}
_LIKE = 0.75
"""How alike a word is to an option, to be taken for a slip and not for a reason."""


def arguments(body: Mapping[str, Any], call_id: str) -> dict[str, Json] | None:
    """The arguments of a call that a message asks for; none where they could not be read."""
    asked = body.get("tool_calls") or ()
    found = next((call for call in asked if call.get("id") == call_id), None)
    return None if found is None else dict(found.get("args") or {})


def shown_arguments(args: dict[str, Json]) -> tuple[Json, bool]:
    """Arguments as people are shown them, and whether these are all of them."""
    if len(canonical(args)) <= MOST_BYTES:
        return args, True
    most = MOST_BYTES
    while most > 8:
        most //= 2
        short = _shortened(args, most)
        if len(canonical(short)) <= MOST_BYTES:
            return short, False
    return {"…": f"{len(args)} arguments"}, False


def _shortened(value: Json, most: int) -> Json:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Json]", value)
        kept = {k[:most]: _shortened(v, most) for k, v in list(found.items())[:most]}
        return kept if len(found) <= most else {**kept, "…": f"{len(found)} in all"}
    if isinstance(value, list):
        listed: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        short = [_shortened(each, most) for each in listed[:most]]
        return short if len(listed) <= most else [*short, f"… ({len(listed)} in all)"]
    return value


def detail(args: Json, message: str, *, whole: bool) -> str:
    """The arguments as text, and where all of them are."""
    text = json.dumps(args, ensure_ascii=False, indent=1)
    if whole:
        return f"{text}\nof the message {message}"
    return f"{text}\nShortened: the message {message} has all of it, and all of it is approved."


def call_decision(asked: Interrupt, kind: str, message: str, reason: str) -> tuple[str, str]:
    """What an answer decides about a call, and why where it is refused.

    Words refuse, since nobody says yes by the way. A reason can never be read as an option.

    Args:
        asked: The question.
        kind: The decision's type: `approve`, `reject` or `respond`.
        message: What the decision says.
        reason: What the command says why.

    Raises:
        CommandRejected: for words that look like an option that is misspelt.
    """
    if kind != "respond":
        return kind, message.strip() or reason
    if message in asked.options:
        return message, reason
    word = message.strip().lower()
    close = difflib.get_close_matches(word, asked.options, 1, _LIKE)
    meant = _ALMOST.get(word) or (close[0] if close else None)
    if meant is not None or not word:
        hint = f"Did you mean {meant!r}? " if meant else ""
        raise CommandRejected(
            f"{message!r} is no answer to {asked.id!r}",
            remedy=f"{hint}Its options are: {', '.join(asked.options)}; other words refuse the "
            "call, and are its reason.",
        )
    return "reject", message.strip()


def refusal(by: str, reason: str) -> str:
    """What the model is told of a call that people refused."""
    return f"Refused by {by or 'people'}{f': {reason}' if reason else '.'}"


def question(step: str, tool: str, brief: str) -> str:
    """What people are asked."""
    return f"May {step} call {tool}{f' with {brief}' if brief else ''}?"


def reason_fields(
    decision: Decision, said: str, risk: str, approve_risk: str | None
) -> dict[str, str]:
    """What a question says of why it is asked: fields of its `Interrupt`.

    Args:
        decision: Of the check that asks.
        said: Why people ruled so, where they did.
        risk: The tool's.
        approve_risk: Of what risk calls wait for a yes.
    """
    why, rule = f"{decision.reason}{f': {said}' if said else ''}", decision.rule
    if rule == "approvals" and approve_risk in (risk, "low"):
        rule = "interrupts.approve_risk"
        which = "of high risk" if approve_risk == "high" else "of any risk"
        why = f"{rule} says that people are asked before calls of tools {which}"
    return {"reason": why, "rule": rule, "risk": risk if risk == "high" else ""}


def interrupt_quota(quota: CallQuota) -> InterruptQuota:
    """A quota as a question names it."""
    name, rule = quota_store_name(quota.crew, quota.key), quota.rule.partition(" ")[0]
    return InterruptQuota(name=name, quota=quota.quota, zone=quota.zone, rule=rule)


def reason_text(why: str, risk: str) -> str:
    """Why people are asked, in a line: `rules[1] says ask: only checked titles · high risk`."""
    more = "the tool has high risk" if risk == "high" and "high risk" not in why else ""
    return " · ".join(filter(None, [why, more]))


def has_shortened_arguments(asked: Interrupt) -> bool:
    """Whether people are not shown all arguments of a call."""
    return asked.arguments is not None and arguments_hash(asked.args) != asked.arguments


def argument_source_fields(asked: Interrupt) -> dict[str, Any]:
    """Where the arguments are that a question does not have: fields of its view."""
    return {"message": asked.message, "call_id": asked.call_id} if asked.call_id else {}


def action_request(asked: Interrupt) -> dict[str, Any]:
    """The call in the shape of LangChain's human-in-the-loop requests."""
    told = filter(None, [asked.question, reason_text(asked.reason, asked.risk)])
    return {"name": asked.tool, "args": asked.args or {}, "description": "\n".join(told)}


def langchain_interrupt(
    asked: Interrupt, prompt: PromptState | None, definition: Mapping[str, Json] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A question in LangChain's human-in-the-loop shape: its request and its review config.

    Args:
        asked: The question.
        prompt: Of the approval of what a prompt makes: what is known of the prompt.
        definition: And what it makes.
    """
    if asked.tool:
        return action_request(asked), _review_config(
            asked.tool, "approve", "edit", "reject", "respond"
        )
    if asked.kind == "approval" and prompt is not None:
        args: dict[str, Any] = {
            "hash": asked.hash,
            "definition": definition,
            "remarks": [remark.model_dump() for remark in prompt.diagnostics],
        }
        told = {"name": ACTION, "args": args, "description": asked.question}
        return told, _review_config(ACTION, "approve", "reject", "edit")
    args = {"step": asked.step, "options": list(asked.options)}
    told = {"name": asked.kind, "args": args, "description": asked.question}
    return told, _review_config(asked.kind, "approve", "reject", "respond")


def _review_config(name: str, *allowed: str) -> dict[str, Any]:
    return {"action_name": name, "allowed_decisions": list(allowed)}


def shown_output_fields(
    name: str, outputs: Mapping[AgentName, Mapping[str, Output]]
) -> dict[str, Any]:
    """The fields of a question that shows an output.

    Args:
        name: `agent.output`.
        outputs: All outputs.
    """
    agent, _, key = name.partition(".")
    found = outputs.get(AgentName(agent), {}).get(key)
    if found is None:
        return {"detail": f"{name} was not set"}
    if found.elements:
        return {"detail": value_text([part.value for part in found.elements])}
    if found.body is not None:
        return {"detail": f"the output {name}", "shows": found.body}
    return {"detail": value_text(found.value)}


def text_target(plan: GraphPlan, ask: Ask) -> NodeName | None:
    """The option of a question that other words mean: the one that is an agent's node.

    Args:
        plan: The run's.
        ask: The question.
    """
    if not ask.words or ask.sets is not None:
        return None
    nodes = (plan.nodes.get(NodeName(option)) for option in ask.options)
    told = [NodeName(o) for o, n in zip(ask.options, nodes, strict=True) if n and n.agent]
    return told[0] if len(told) == 1 else None


class StopAnswer(Exception):
    """The answer ends the run; the caller stops it as it would by the `stop` signal."""


def check_answer(interrupt: Interrupt, decision: str) -> None:
    """Checks that a decision is one that the interrupt can take.

    Raises:
        CommandRejected: where it is not; the message lists the options.
    """
    if decision in interrupt.options:
        return
    if interrupt.kind == "budget":
        if budget_extension(interrupt, decision):
            return
    elif interrupt.takes_text and decision.strip():
        return
    close = difflib.get_close_matches(decision, interrupt.options, 1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise CommandRejected(
        f"{decision!r} is no answer to {interrupt.id!r}",
        remedy=f"{hint}Its options are: {', '.join(interrupt.options)}.",
    )
