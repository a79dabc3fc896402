"""Conditions: data, never code.

A condition is written as a short text (`not approved`, `backend.models_ready and score >= 0.8`)
and kept as a tree of frozen models. Names are resolved against the definition: a bare name is a
flag, `agent.name` is a flag that the agent may set or else one of its declared outputs.

    expression := and-term ("or" and-term)*
    and-term   := factor ("and" factor)*
    factor     := "not" factor | "(" expression ")" | name [operator literal]
    operator   := == | != | >= | <= | > | < | in
    literal    := number | 'text' | "text" | word | true | false | null | [literal, ...]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from crewlog.model import Json, Model

Operator = Literal["==", "!=", ">=", "<=", ">", "<", "in"]


class Fact(Model):
    """A flag or a declared output, compared with a literal or taken as true or false."""

    kind: Literal["fact"] = "fact"
    agent: str | None = None
    """The agent that the name belongs to; none for a bare flag."""
    name: str
    """The flag, or the output key."""
    operator: Operator | None = None
    """None asks whether the value is true: set, and not false, zero, null or empty."""
    value: Json = None
    """The literal on the right."""


class Not(Model):
    """True where `of` is not."""

    kind: Literal["not"] = "not"
    of: Condition


class AllOf(Model):
    """True where every part is."""

    kind: Literal["all"] = "all"
    of: tuple[Condition, ...]


class AnyOf(Model):
    """True where at least one part is."""

    kind: Literal["any"] = "any"
    of: tuple[Condition, ...]


Condition = Annotated[Fact | Not | AllOf | AnyOf, Field(discriminator="kind")]
"""A condition as data."""

for _model in (Not, AllOf, AnyOf):
    _model.model_rebuild()


class ConditionSyntaxError(ValueError):
    """A condition's text does not parse; `offset` is the character where it stops (from 0)."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


_TOKEN = re.compile(
    r"\s*(?:(?P<op>==|!=|>=|<=|>|<)|(?P<punct>[()\[\],])|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<word>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)?))"
)
_LONGEST = 2_000
_DEEPEST = 32
_LARGEST = 2**63 - 1
_LITERAL_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None}


def parse_condition(text: str) -> Condition:
    """Reads a condition's text.

    Raises:
        ConditionSyntaxError: where the text stops making sense, with the offset.
    """
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens of one condition."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise ConditionSyntaxError(f"a condition has at most {_LONGEST} characters", 0)
        self.text = text
        self.depth = 0
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                blank = len(text[at:]) - len(text[at:].lstrip())
                raise ConditionSyntaxError(f"cannot read {text[at:].strip()[:12]!r}", at + blank)
            self.tokens.append(
                (match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            )
            at = match.end()
        self.next = 0

    def whole(self) -> Condition:
        found = self.either()
        if self.next < len(self.tokens):
            raise ConditionSyntaxError(f"unexpected {self.peek()!r}", self.tokens[self.next][2])
        return found

    def peek(self) -> str:
        return self.tokens[self.next][1] if self.next < len(self.tokens) else ""

    def take(self, expected: str = "") -> tuple[str, str, int]:
        if self.next == len(self.tokens):
            raise ConditionSyntaxError("the condition ends too early", len(self.text))
        token = self.tokens[self.next]
        if expected and token[1] != expected:
            raise ConditionSyntaxError(f"expected {expected!r}, found {token[1]!r}", token[2])
        self.next += 1
        return token

    def either(self) -> Condition:
        parts = [self.both()]
        while self.peek() == "or":
            self.take()
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else AnyOf(of=tuple(parts))

    def both(self) -> Condition:
        parts = [self.factor()]
        while self.peek() == "and":
            self.take()
            parts.append(self.factor())
        return parts[0] if len(parts) == 1 else AllOf(of=tuple(parts))

    def deeper(self) -> None:
        """Counts brackets and `not`s: a text must not be able to exhaust the stack."""
        at = self.take()[2]
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ConditionSyntaxError(f"more than {_DEEPEST} brackets, `not`s and lists", at)

    def factor(self) -> Condition:
        if self.peek() == "not":
            self.deeper()
            return Not(of=self.factor())
        if self.peek() == "(":
            self.deeper()
            inner = self.either()
            self.take(")")
            return inner
        kind, word, at = self.take()
        if kind != "word" or word in {"and", "or", "in"}:
            raise ConditionSyntaxError(f"expected a flag or an output, found {word!r}", at)
        agent, _, name = word.rpartition(".")
        if self.next < len(self.tokens) and (
            self.tokens[self.next][0] == "op" or self.peek() == "in"
        ):
            operator = self.take()[1]
            return Fact.model_validate(
                {
                    "agent": agent or None,
                    "name": name,
                    "operator": operator,
                    "value": self.literal(),
                }
            )
        return Fact(agent=agent or None, name=name)

    def literal(self) -> Json:
        if self.peek() == "[":
            self.deeper()
            values: list[Json] = []
            while self.peek() != "]":
                values.append(self.literal())
                if self.peek() == ",":
                    self.take()
            self.take("]")
            return values
        kind, word, at = self.take()
        if kind == "number":
            number = float(word) if "." in word else int(word)
            if abs(number) > _LARGEST:
                raise ConditionSyntaxError(f"the number {word[:12]}… is too large", at)
            return number
        if kind == "text":
            return word[1:-1]
        if kind == "word":
            return _LITERAL_WORDS.get(word, word)
        raise ConditionSyntaxError(f"expected a value, found {word!r}", at)


def facts_in(condition: Condition) -> Iterator[Fact]:
    """Every fact that a condition looks at, in the order written."""
    match condition:
        case Fact():
            yield condition
        case Not():
            yield from facts_in(condition.of)
        case AllOf() | AnyOf():
            for part in condition.of:
                yield from facts_in(part)


class ConditionNames(NamedTuple):
    """The flags and outputs that conditions read."""

    flags: frozenset[str]
    """Names of flags."""
    outputs: frozenset[tuple[str, str]]
    """Agents with the names of outputs."""


def condition_names(conditions: Iterable[Condition]) -> ConditionNames:
    """The flags and outputs that some conditions read."""
    facts = [fact for each in conditions for fact in facts_in(each)]
    # `writer.ready` is the output of writer; if that is not set, the flag of that name.
    return ConditionNames(
        frozenset(fact.name for fact in facts),
        frozenset((fact.agent, fact.name) for fact in facts if fact.agent is not None),
    )


def mapped(condition: Condition, change: Callable[[Fact], Fact]) -> Condition:
    """The condition with each of its facts changed."""
    match condition:
        case Fact():
            return change(condition)
        case Not():
            return Not(of=mapped(condition.of, change))
        case AllOf():
            return AllOf(of=tuple(mapped(part, change) for part in condition.of))
        case AnyOf():
            return AnyOf(of=tuple(mapped(part, change) for part in condition.of))


def is_never(condition: Condition) -> bool:
    """Whether a condition is the one that holds for nothing: a value in an empty list."""
    return isinstance(condition, Fact) and condition.operator == "in" and condition.value == []


def render_condition(condition: Condition) -> str:
    """The condition as text that `parse_condition` reads back to an equal tree."""
    match condition:
        case Fact():
            name = f"{condition.agent}.{condition.name}" if condition.agent else condition.name
            if condition.operator is None:
                return name
            return f"{name} {condition.operator} {_render_literal(condition.value)}"
        case Not():
            inner = render_condition(condition.of)
            return f"not {inner if isinstance(condition.of, (Fact, Not)) else f'({inner})'}"
        case AllOf() | AnyOf():
            word = " and " if isinstance(condition, AllOf) else " or "
            return word.join(
                f"({render_condition(p)})" if isinstance(p, (AllOf, AnyOf)) else render_condition(p)
                for p in condition.of
            )


def skips_words(condition: Condition) -> str:
    """When a phase with a condition is skipped: `skipped unless approved`, `skipped if sick`."""
    if isinstance(condition, Not):
        return f"skipped if {render_condition(condition.of)}"
    return f"skipped unless {render_condition(condition)}"


def _render_literal(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():  # `repr` may have an exponent, which the grammar does not
            digits = format(Decimal(repr(value)), "f")
            return digits if "." in digits else f"{digits}.0"
        case str():
            return f'"{value}"' if "'" in value else f"'{value}'"
        case list():
            values: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return "[" + ", ".join(_render_literal(each) for each in values) + "]"
        case _:
            return str(value)


def holds(
    condition: Condition,
    flags: Mapping[Any, Json],
    outputs: Mapping[Any, Mapping[str, Json]],
) -> bool:
    """Whether a condition holds, given the flags by name and the outputs by agent and key.

    A name that nobody has set is null. Comparing values that have no order is false, not an error:
    a condition must never stop a run.
    """
    match condition:
        case Not():
            return not holds(condition.of, flags, outputs)
        case AllOf():
            return all(holds(part, flags, outputs) for part in condition.of)
        case AnyOf():
            return any(holds(part, flags, outputs) for part in condition.of)
        case Fact():
            value = value_of(condition, flags, outputs)
            return bool(value) if condition.operator is None else _compare(value, condition)


def value_of(
    fact: Fact,
    flags: Mapping[Any, Json],
    outputs: Mapping[Any, Mapping[str, Json]],
) -> Json:
    """What a fact's name stands for now: the agent's output, else the flag, else null."""
    if fact.agent is not None and fact.name in outputs.get(fact.agent, {}):
        return outputs[fact.agent][fact.name]
    return flags.get(fact.name)


def _compare(value: Json, fact: Fact) -> bool:
    try:
        match fact.operator:
            case "==":
                return bool(value == fact.value)
            case "!=":
                return bool(value != fact.value)
            case ">=":
                return bool(value >= fact.value)
            case "<=":
                return bool(value <= fact.value)
            case ">":
                return bool(value > fact.value)
            case "<":
                return bool(value < fact.value)
            case _:
                return value in fact.value
    except TypeError:
        return False
