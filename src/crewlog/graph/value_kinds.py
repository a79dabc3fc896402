"""What kind of value stands at a path of the state: by the definition, else by the value there.

A flag's kind is that of the value that the crew begins with; else what the question gives that sets
it; else that of the value that it has; else of what conditions compare it with; and one that they
only ever take as true or false is that. Where none of these tells, any value fits. So a slip of the
finger does not make a text of a flag, which would count as true.
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

IN_WORDS = {
    "bool": "true or false",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "mapping": "a mapping",
}


class ValueKinds(NamedTuple):
    """The kinds of values that fit at a path; none where any does."""

    fit: tuple[str, ...] = ()
    because: str = ""
    """Why, for people: `it is true now`."""
    declared: bool = False
    """Whether the definition says so, and not the value that is there."""

    @property
    def words(self) -> str:
        """`true or false`, `a number or a text`."""
        return listed([IN_WORDS[kind] for kind in self.fit], "or")


def kind_of(value: Json) -> str:
    """The kind of a value; empty for null, which fits everywhere."""
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
    """The kinds of values that fit at a path that is known."""
    section, owner, name = path_parts(path)
    if section == FLAGS and (kind := kind_of(run.plan.flags.get(FlagName(name)))):
        return ValueKinds((kind,), "the crew begins with such a value", declared=True)
    asked = [n.ask for n in run.plan.nodes.values() if n.ask and n.ask.sets == name]
    if section == FLAGS and asked:  # yes and no are true and false, any other answer its words
        words = any(ask.words or len(ask.options) > 2 for ask in asked)
        fit = ("bool", "text") if words else ("bool",)
        return ValueKinds(fit, "the answer to a question sets it", declared=True)
    if kind := kind_of(_value_at(run, section, owner, name)):
        return ValueKinds((kind,), "that is what it has now")
    facts = list(_facts(run, section, owner, name))
    compared = tuple(dict.fromkeys(kind for fact in facts for kind in _compared(fact)))
    if compared:
        return ValueKinds(compared, "the crew compares it with such a value", declared=True)
    if section == FLAGS and facts:
        return ValueKinds(("bool",), "the crew only asks whether it is true", declared=True)
    return ValueKinds()


def _value_at(run: RunContext, section: str, owner: str, name: str) -> Json:
    """The value that is there, as far as the state has it: what is large is in the store."""
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


def _facts(run: RunContext, section: str, owner: str, name: str) -> Iterator[Fact]:
    """What the crew's conditions say of a flag or an output."""
    if section not in (FLAGS, OUTPUTS):
        return
    outputs = {
        (str(agent), key) for agent, rules in run.plan.agents.items() for key in rules.outputs
    }
    for node in run.plan.nodes.values():
        named = (
            node.when,
            node.only_if,
            node.decide.when if node.decide else None,
            node.route.reads if node.route else None,
        )
        for fact in (fact for when in named if when is not None for fact in facts_in(when)):
            of_output = (fact.agent or "", fact.name) in outputs
            wanted = (owner, name) if section == OUTPUTS else ("", name)
            if (fact.agent if of_output else "", fact.name) == wanted:
                yield fact


def _compared(fact: Fact) -> Iterable[str]:
    if fact.operator is None:
        return ()
    value: Json = fact.value
    values: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return filter(None, map(kind_of, values))
