"""What a stage made against what it should make: equal part by part, or of a shape.

found = exact(case, got)      →  Verdict(score=0.75, differs=("fields.type: ...",))
found = of_schema(schema, got)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import cast

from crewlog.definition.json_schemas import schema_faults, unusable
from crewlog.errors import UsageError
from crewlog.evaluation.cases import Case, StageOutput
from crewlog.model import Json, Model
from crewlog.state.excerpt import excerpt

MOST_TOLD = 5
"""Differences that are told of a case; the rest is counted."""
_NOTHING = object()
_SAYS_NOTHING = "says nothing that it should come to"


class Verdict(Model):
    """How what was made compares with what should be made."""

    passed: bool
    score: float
    """From 0 to 1: the share of what is as it should be."""
    differs: tuple[str, ...] = ()
    """What is not, a sentence each."""


def exact(case: Case, got: StageOutput) -> Verdict:
    """Compares a stage's output value by value with what the case should come to.

    Its text counts where the case has nothing else, or where somebody wrote what it should be: what
    a model says besides its results is never the same twice.
    """
    wanted = case.wanted
    parts = {"fields": wanted.fields, "flags": wanted.flags, "artifacts": wanted.artifacts}
    made = {"fields": got.fields, "flags": got.flags, "artifacts": got.artifacts}
    pairs: list[tuple[str, Json, Json]] = [
        (name, part, made[name] or {}) for name, part in parts.items() if part is not None
    ]
    if wanted.text is not None and (case.expected is not None or not pairs):
        pairs.append(("text", _words(wanted.text), _words(got.text or "")))
    leaves = [leaf for path, one, other in pairs for leaf in _leaves(path, one, other)]
    differs = [said for said in leaves if said]
    if not pairs:  # what compares nothing shows nothing
        return Verdict(passed=False, score=0.0, differs=(f"the case {_SAYS_NOTHING}",))
    score = 1.0 if not leaves else (len(leaves) - len(differs)) / len(leaves)
    return Verdict(passed=not differs, score=score, differs=told(differs))


def of_schema(schema: Json, got: StageOutput) -> Verdict:
    """Whether a stage's fields, or the JSON of its text where it has none, fit a JSON Schema."""
    value: Json = got.fields
    if value is None:
        try:
            value = json.loads(got.text or "")
        except (ValueError, RecursionError):
            said = "it set no fields, and its text is not JSON"
            return Verdict(passed=False, score=0.0, differs=(said,))
    if schema is False:
        differs = ["fields: nothing fits the schema"]
    else:  # as replies are: nothing is fetched, and the work is bounded
        found = schema_faults(cast("Mapping[str, Json]", schema), value, called="the schema")
        differs = [f"fields.{fault}".replace("fields.all: ", "fields: ", 1) for fault in found]
    return Verdict(passed=not differs, score=float(not differs), differs=told(differs))


def check_wanted(case: Case, place: str) -> None:
    """Checks that a case says something by which an output can be compared.

    Raises:
        UsageError: it does not, and whatever came would do.
    """
    wanted = case.wanted
    if all(part is None for part in (wanted.fields, wanted.flags, wanted.artifacts, wanted.text)):
        raise UsageError(
            f"the case {case.name} {_SAYS_NOTHING}",
            remedy="Give it an `expected` with `fields`, `flags`, `artifacts` or a `text`.",
            place=place,
        )


def check_schema(schema: Json, place: str) -> None:
    """Checks that something is a JSON Schema, and that not everything fits it.

    Raises:
        UsageError: it is none, or an empty one.
    """
    if schema in ({}, True):
        raise UsageError(
            "the schema to fit is empty: whatever comes would do",
            remedy="docs/evaluation.md has an example.",
            place=place,
        )
    if fault := unusable(schema):
        raise UsageError(
            f"what is to be fitted cannot be used: {fault}",
            remedy="docs/evaluation.md has an example.",
            place=place,
        )


def told(differs: list[str]) -> tuple[str, ...]:
    """As many differences as are told, and how many there are besides."""
    rest = len(differs) - MOST_TOLD
    return (*differs[:MOST_TOLD], *([f"and {rest} more"] if rest > 0 else []))


def _shown(value: Json) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), 60)


def _equal(one: Json, other: Json) -> bool:
    """As JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _words(text: str) -> str:
    return " ".join(text.split())


def _leaves(path: str, wanted: Json, got: Json) -> Iterator[str]:
    """A sentence for each value that is not as it should be, and an empty one for each that is."""
    if isinstance(wanted, Mapping) and isinstance(got, Mapping):
        one, other = cast("Mapping[str, Json]", wanted), cast("Mapping[str, Json]", got)
        keys = dict.fromkeys([*one, *other])
        for key in keys:
            yield from _leaves(f"{path}.{key}", one.get(key, _NOTHING), other.get(key, _NOTHING))
        if not keys:
            yield ""
    elif isinstance(wanted, list) and isinstance(got, list):
        pairs = zip_longest(wanted, got, fillvalue=_NOTHING)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        for i, (each, made) in enumerate(pairs):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from _leaves(f"{path}[{i}]", each, made)
        if not wanted and not got:
            yield ""
    elif _equal(wanted, got):
        yield ""
    elif wanted is _NOTHING:
        yield f"{path}: {_shown(got)}, and nothing is expected"
    elif got is _NOTHING:
        yield f"{path}: nothing, and {_shown(wanted)} is expected"
    else:
        yield f"{path}: {_shown(got)}, and {_shown(wanted)} is expected"
