"""A dry run on the screen: each visit with its reason, what is asked, what is never reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from crewlog.cli.screen import Part, Screen, counted, plain
from crewlog.errors import UsageError
from crewlog.graph.plan import GraphPlan
from crewlog.ids import visit_number
from crewlog.model import Json
from crewlog.reporting.dry_run.view import (
    ConditionCheckView,
    DryRunInterruptView,
    DryRunStepView,
    DryRunView,
)
from crewlog.state.frontier import ERROR

_SIGNS = {"decide": "◇ ", "route": "◇ ", "ask": "? ", "wait": "◔ ", "agent": ""}
_ENDS = {
    "completed": ("✓ done", "green"),
    "failed": ("✗ the run fails", "red"),
    "stopped": ("■ the run stops", "yellow"),
    "cut": ("… cut off", "yellow"),
}


def assumptions(
    given: Sequence[str],
) -> tuple[dict[str, Json], dict[str, dict[str, Json]]]:
    """The flags and the outputs that `--assume` names.

    Raises:
        UsageError: where one has no name.
    """
    flags: dict[str, Json] = {}
    outputs: dict[str, dict[str, Json]] = {}
    for each in given:
        name, equals, text = each.partition("=")
        agent, dot, key = name.strip().rpartition(".")
        if not key or (dot and not agent):
            raise UsageError(
                f"{each!r} names nothing that could be assumed",
                remedy="For example: --assume approved, --assume checker.score=0.9, "
                "or --assume vendor.error.",
            )
        value = _value(text) if equals else True
        if agent:
            outputs.setdefault(agent, {})[key] = value
        else:
            flags[key] = value
    return flags, outputs


def _value(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def dry_run_of(plan: GraphPlan, given: Sequence[str]) -> DryRunView:
    """The dry run of a plan."""
    from crewlog.reporting.dry_run.runner import dry_run  # noqa: PLC0415 - LangGraph is slow to import

    flags, outputs = assumptions(given)
    errors = _errors(plan, outputs)
    for agent, found in list(outputs.items()):
        rules = plan.agents.get(agent)  # type: ignore[call-overload]
        for key in list(found):
            # `backend.models_ready` is a flag where the agent declares one of that name.
            if rules is not None and key in rules.flags and key not in rules.outputs:
                flags[key] = found.pop(key)
        if not found:
            del outputs[agent]
    return asyncio.run(dry_run(plan, flags=flags, outputs=outputs, errors=errors))


def _errors(plan: GraphPlan, outputs: dict[str, dict[str, Json]]) -> dict[str, str]:
    """Takes the errors out of the outputs that are assumed; by phase or agent.

    `error` is an output that a run sets itself where a step fails, unless the agent declares one.
    """
    found: dict[str, str] = {}
    for name, given in list(outputs.items()):
        rules = plan.agents.get(name)  # type: ignore[call-overload]
        if ERROR not in given or (rules is not None and ERROR in rules.outputs):
            continue
        error = given.pop(ERROR)
        if not given:
            del outputs[name]
        if error not in (False, None):
            found[name] = error if isinstance(error, str) else "assumed to fail"
    return found


def show_dry_run(screen: Screen, found: DryRunView) -> None:
    """The visits, numbered; questions and requirements where they come up; the end."""
    assumed = [f"{name} = {_shown(value)}" for name, value in found.flags.items()]
    assumed += [
        f"{agent}.{key} = {_shown(value)}"
        for agent, outputs in found.outputs.items()
        for key, value in outputs.items()
    ]
    assumed += [f"{name} fails ({plain(error)})" for name, error in found.errors.items()]
    what = f"assumed: {', '.join(assumed)}" if assumed else "agents say nothing and set nothing"
    screen.line("")
    screen.wrapped([("  Dry run", "bold")], f" · nothing is called; {what}", indent=2, style="dim")
    screen.line("")
    width = max((len(_name(each)) for each in found.steps), default=0)
    for number, step in enumerate(found.steps, 1):
        _step(screen, number, step, width)
        for asked in found.interrupts:
            if asked.step == step.step:
                _question(screen, asked, width)
    for asked in found.interrupts:
        if asked.step is None:
            _question(screen, asked, width)
    text, style = _ENDS[found.end]
    screen.line("")
    because = f": {plain(found.because)}" if found.because else ""
    screen.wrapped([(f"  {text}", style)], because, indent=4)
    _tails(screen, found)


def _question(screen: Screen, asked: DryRunInterruptView, width: int) -> None:
    answers = " / ".join(plain(option) for option in asked.options)
    _beneath(screen, width, ("? ", "bold yellow"), f"{plain(asked.question)} [{answers}]")
    _beneath(screen, width, ("  ", ""), f"answered here: {plain(asked.answer)}")


def _tails(screen: Screen, found: DryRunView) -> None:
    if found.unmet_requirements:
        screen.line("")
        screen.line(("  Requirements that nothing met", "bold"))
        for unmet in found.unmet_requirements:
            screen.wrapped(
                [("  ! ", "yellow"), plain(unmet.node), " "],
                f"needs {plain(unmet.requirement)}; {unmet.alternative}",
                indent=4,
            )
    if found.unreached_nodes:
        screen.line("")
        screen.line(("  Never reached", "bold"))
        width = max(len(each.node) for each in found.unreached_nodes)
        for never in found.unreached_nodes:
            head: list[Part] = [("  · ", "yellow"), plain(never.node).ljust(width), "  "]
            indent = min(6 + width, screen.width // 2)
            screen.wrapped(head, plain(never.reason), indent=indent)
    questions = counted(len(found.interrupts), "question")
    screen.line("")
    screen.line((f"  {counted(len(found.steps), 'visit')} · {questions}", "dim"))


def _name(step: DryRunStepView) -> str:
    number = visit_number(step.step)
    again = f" #{number}" if number != 1 else ""
    return f"{_SIGNS[step.kind]}{plain(step.node)}{again}"


def _step(screen: Screen, number: int, step: DryRunStepView, width: int) -> None:
    head: list[Part] = [(f"  {number:>3}  ", "dim"), (_name(step).ljust(width), "bold"), "  "]
    screen.wrapped(head, plain(step.reason), indent=_indent(screen, width), style="dim")
    for looked in step.conditions:
        sign = ("✓ ", "green") if looked.holds else ("✗ ", "yellow")
        _beneath(screen, width, sign, _looked(looked, step))
    if step.items is not None:
        _beneath(screen, width, ("⇉ ", "cyan"), f"a step for each of {counted(step.items, 'item')}")
    if step.values:
        sets = ", ".join(f"{plain(k)} = {_shown(v)}" for k, v in step.values.items())
        _beneath(screen, width, ("⚑ ", "cyan"), f"sets {sets} (assumed)")
    if step.outcome == "skipped" and not any(not c.holds for c in step.conditions):
        _beneath(screen, width, ("· ", "yellow"), f"skipped: {plain(step.because)}")
    if step.outcome == "failed":
        goes = f" → {plain(', '.join(step.to))}" if step.to else ""
        _beneath(screen, width, ("✗ ", "red"), f"{plain(step.because)}{goes}")
    for join in step.incomplete_joins:
        if join.missing:
            missing = ", ".join(plain(each) for each in join.missing)
            _beneath(screen, width, ("◌ ", "dim"), f"{plain(join.node)} still waits for {missing}")
        else:
            _beneath(screen, width, ("◌ ", "dim"), f"{plain(join.node)} has run already")


def _looked(looked: ConditionCheckView, step: DryRunStepView) -> str:
    values = ", ".join(f"{plain(k)} is {_shown(v)}" for k, v in looked.values.items())
    said = f"{plain(looked.condition)} {'holds' if looked.holds else 'does not hold'} ({values})"
    if looked.kind == "only_if" and not looked.holds:
        return f"{said}: skipped"
    if looked.kind == "decide":
        note = plain(step.because) if looked.holds else ""
        goes = f" → {plain(', '.join(step.to))}" if step.to else ""
        return f"{said}{goes}" + (f", {note}" if note else "")
    return said


def _shown(value: Json) -> str:
    return "not set" if value is None else plain(json.dumps(value, ensure_ascii=False))


def _beneath(screen: Screen, width: int, sign: tuple[str, str], text: str) -> None:
    indent = _indent(screen, width)
    screen.wrapped([" " * indent, sign], text, indent=indent + 2)


def _indent(screen: Screen, width: int) -> int:
    """Where what belongs to a visit begins: beside its name, or beneath where that is too long."""
    return width + 9 if width + 9 <= screen.width // 2 else 9
