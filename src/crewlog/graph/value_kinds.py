"""The kind of value that a path of the state may have, so that a typing error is refused.

The kind of a run output follows, in this order, from its first value in the definition; from the
question that sets it; from its current value; from the values that conditions compare it with.
One that conditions only read as true or false is a boolean. Otherwise any value fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crewlog.definition.conditions import Fact, facts_in
from crewlog.definition.findings import listed
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, FlagName
from crewlog.model import Json
from crewlog.state.edits import FLAGS, OUTPUTS, SHARED, path_parts

KIND_TEXTS = {
    "bool": "true or false",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "mapping": "a mapping",
}


class ValueKinds(NamedTuple):
    """The kinds of values that fit a path; none: any value does."""

    fit: tuple[str, ...] = ()
    because: str = ""
    """Why, for people: `it is true now`."""
    declared: bool = False
    """Whether they follow from the definition, not from the current value."""

    @property
    def text(self) -> str:
        """`true or false`, `a number or a text`."""
        return listed([KIND_TEXTS[kind] for kind in self.fit], "or")


def kind_of(value: Json) -> str:
    """The kind of a value; empty for null, which fits every path."""
    match value:
        case None:
            return ""
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "mapping"


def path_kinds(run: RunContext, path: str) -> ValueKinds:
    """The kinds of values that fit a known path."""
    section, owner, name = path_parts(path)
    if section == FLAGS and (kind := kind_of(run.plan.flags.get(FlagName(name)))):
        return ValueKinds((kind,), "its initial value is such a value", declared=True)
    asked = [n.ask for n in run.plan.nodes.values() if n.ask and n.ask.sets == name]
    if section == FLAGS and asked:  # the two options are true and false, other answers are text
        takes_text = any(ask.words or len(ask.options) > 2 for ask in asked)
        fit = ("bool", "text") if takes_text else ("bool",)
        return ValueKinds(fit, "the answer to a question sets it", declared=True)
    if kind := kind_of(_value_at(run, section, owner, name)):
        return ValueKinds((kind,), "its current value is such a value")
    facts = list(_conditions_on(run, section, owner, name))
    kinds = tuple(dict.fromkeys(kind for fact in facts for kind in _operand_kinds(fact)))
    if kinds:
        return ValueKinds(kinds, "a condition compares it with such a value", declared=True)
    if section == FLAGS and facts:
        return ValueKinds(("bool",), "conditions only check whether it is true", declared=True)
    return ValueKinds()


def _value_at(run: RunContext, section: str, owner: str, name: str) -> Json:
    """The value at a path; null where only the store has it."""
    state = run.state
    if section == FLAGS:
        return state.flags.get(FlagName(name))
    if section == OUTPUTS:
        output = state.agent_outputs.get(AgentName(owner), {}).get(name)
        if output is None or output.elements:
            return None
        return output.value if output.body is None else "" if name == "text" else None
    if section == SHARED:
        return state.shared_context.get(name)
    return state.private_context.get(owner, {}).get(name)


def _conditions_on(run: RunContext, section: str, owner: str, name: str) -> Iterator[Fact]:
    """The parts of the crew's conditions that read an output or a run output."""
    if section not in (FLAGS, OUTPUTS):
        return
    outputs = {
        (str(agent), key) for agent, settings in run.plan.agents.items() for key in settings.outputs
    }
    for node in run.plan.nodes.values():
        conditions = (
            node.when,
            node.only_if,
            node.decide.when if node.decide else None,
            node.route.reads if node.route else None,
        )
        for fact in (fact for when in conditions if when is not None for fact in facts_in(when)):
            of_output = (fact.agent or "", fact.name) in outputs
            wanted = (owner, name) if section == OUTPUTS else ("", name)
            if (fact.agent if of_output else "", fact.name) == wanted:
                yield fact


def _operand_kinds(fact: Fact) -> Iterable[str]:
    """The kinds of the values that a condition compares with."""
    if fact.operator is None:
        return ()
    value: Json = fact.value
    values: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return filter(None, map(kind_of, values))
