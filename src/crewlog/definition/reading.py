"""Reading replies: the form that an agent is told, and what a final message of it says.

A reply is looked at in order: as JSON, as fenced JSON, as JSON inside the text, and then leniently.
Where several are in it that say different things, or where the words beside it take it back, it is
not clear which is meant, and the model is asked again; thoughts in `<think>` count for nothing.
What does not fit is told with its places: these words go back to the model. All of it is bounded,
whatever a model writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from crewlog.canonical_json import canonical, check_depth, utf8_json
from crewlog.definition.decisions import AMONG, DecisionKind, find_decision, reply_fields
from crewlog.definition.json_schemas import schema_faults
from crewlog.definition.lenient import ALSO, REASONS, mended
from crewlog.definition.model import CrewDefinition
from crewlog.definition.named import FINALLY, YES, answer_of, taken_back
from crewlog.definition.replies import VALUE, Reply
from crewlog.model import Json
from crewlog.validation_errors import field_error_text

LONGEST_SCANNED = 200_000
"""Characters of a text in which JSON is looked for that is not all of it: its end."""
_MOST_WORK = 2_000_000
"""Characters that are looked at for JSON inside a text, those that are looked at again included."""
_MOST_FAULTS = 5
MOST_HANDED = 200
"""Items of a list that is handed on by tags, at most: each is an entry of the journal, and part of
what executions carry."""
END = "end"
"""Among the names that a decision may have: nobody."""
_LONGEST_FAULT = 300
_FENCE = re.compile(r"```[a-zA-Z]{0,10}[ \t]*\r?\n?(.*?)```", re.DOTALL)
_START = re.compile(r"[{\[]")
_TAKEN_BACK = "what stands beside its JSON speaks against it: reply with the JSON alone"
_SEVERAL = "it has several values that say different things: reply with one alone"


@dataclass(frozen=True)
class Read:
    """What a reply says, or why it says nothing."""

    value: Json = None
    """The JSON, in full."""
    how: Literal["json", "lenient"] = "json"
    """Exactly as asked, or it was clear what was meant."""
    faults: tuple[str, ...] = ()
    """What is wrong with it; empty where it is good."""


@dataclass(frozen=True)
class Form:
    """The form of an agent's replies, in a crew."""

    reply: Reply
    among: tuple[str, ...] = ()
    """The names that fields naming agents may have."""
    who: Mapping[str, str] = field(default_factory=dict[str, str])
    """What these are for, where that is said."""

    @classmethod
    def of(cls, crew: CrewDefinition, agent: str) -> Form:
        """The form of an agent that has one."""
        reply = crew.agents[agent].reply
        if reply is None:
            raise LookupError(f"the agent {agent!r} has no reply")
        others = (name for name, each in crew.agents.items() if name != agent and each.enabled)
        # Sorted, where nobody wrote an order: that of keys is lost in stores that keep JSON.
        among = reply.among or tuple(sorted(others))
        who = {name: each.description or "" for name, each in crew.agents.items()}
        who.setdefault(END, "nobody; nothing is left to do")
        return cls(reply, among, {name: who[name] for name in among if who.get(name)})

    @cached_property
    def kind(self) -> DecisionKind | None:
        """The decision; none of a schema.

        Raises:
            LookupError: where this process does not have it.
        """
        return None if self.reply.decision is None else find_decision(self.reply.decision)

    @cached_property
    def schema(self) -> dict[str, Json]:
        """The JSON Schema of the form, with the names that are possible."""
        if self.kind is None:
            return dict(self.reply.schema_ or {})
        return cast("dict[str, Json]", self._named(self.kind.model.model_json_schema()))

    def _named(self, part: Any) -> Any:
        if isinstance(part, list):
            return [self._named(each) for each in part]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(part, dict):
            return part
        found = {key: self._named(each) for key, each in cast("dict[str, Any]", part).items()}
        if found.pop(AMONG, None) is True and self.among:
            found["enum"] = list(self.among)
        return found

    @cached_property
    def shown(self) -> dict[str, Json]:
        """The schema as a model is shown it: without what only programs look at."""
        return self.schema if self.kind is None else _shown(self.schema)

    @cached_property
    def instructions(self) -> str:
        """What the agent is told of the form."""
        lines = ["End your turn with a reply that is one JSON value and nothing else."]
        if self.kind is not None:
            lines.append(self.kind.about.strip())
        shown = json.dumps(self.shown, ensure_ascii=False)
        lines.append(f"It must fit this JSON Schema:\n{shown}")
        if self.kind is not None and self.who and AMONG in json.dumps(_raw(self.kind)):
            rows = [f"- {name}: {self.who.get(name, '')}".rstrip(": ") for name in self.among]
            lines.append("\n".join(["Who there is:", *rows]))
        return "\n\n".join(lines)

    # -- reading ------------------------------------------------------------------------------

    def read(self, text: str) -> Read:
        """What a reply says."""
        if not text.strip():
            return Read(faults=("it is empty",))
        try:
            if _parsed(text.strip()) is None:
                text = answer_of(text)
            found = [*_values_in(text)]
        except _Twice as twice:
            return Read(faults=(f"its key {str(twice)!r:.80} is there twice, and says two things",))
        if not text.strip():
            return Read(faults=("it is thoughts, and no reply after them",))
        read = [self._one(each.value) for each in found]
        # One that is not good but says who is next says something, too.
        says = [
            (each, one)
            for each, one in zip(found, read, strict=True)
            if not one.faults or self._says_something(each.value)
        ]
        if len({canonical(_without_reasons(one.value)) for _, one in says}) > 1:
            faults = next((one.faults for _, one in reversed(says) if one.faults), ())
            return Read(faults=(_SEVERAL, *faults))
        if says and not says[-1][1].faults:
            (first, _), (last, good) = says[0], says[-1]
            back = self._taken_back(good.value, text[: first.start], text[last.end :])
            return Read(faults=(_TAKEN_BACK,)) if back else good
        # What stands beside data is not what was meant: it may speak of others.
        if not any(isinstance(each.value, dict | str) for each in found):
            made = self._leniently(text)
            if made is not None:
                return made
        return Read(faults=read[-1].faults if read else ("there is no JSON in it that is whole",))

    def _one(self, value: Json) -> Read:
        """One value of a reply: as asked, or leniently."""
        read = self.check(value)
        return read if not read.faults else self._leniently(value) or read

    def _leniently(self, said: Json) -> Read | None:
        meant = self._meant(said)
        read = self.check(meant) if meant is not None and meant != said else None
        return None if read is None or read.faults else Read(read.value, "lenient")

    def _says_something(self, value: Json) -> bool:
        """Whether a value that is not good says something of the form's first field."""
        return isinstance(value, dict) and next(iter(self._fields), "") in value

    @cached_property
    def _fields(self) -> Mapping[str, Any]:
        found: Any = self.schema.get("properties")
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}

    def _taken_back(self, value: Json, before: str, after: str) -> bool:
        if not before.strip() and not after.strip():
            return False
        key = next(iter(self._fields), "")
        form: Any = self._fields.get(key)
        said = cast("dict[str, Json]", value).get(key) if isinstance(value, dict) else None
        enum: Any = form.get("enum") if isinstance(form, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        names = [str(each) for each in enum] if isinstance(enum, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        choice = bool(names) or isinstance(said, bool)
        name = said if isinstance(said, str) else YES if said is True else ""
        return taken_back(before, after, names, name, choice=choice)

    def check(self, value: Json) -> Read:
        """A value, held against the form and filled in."""
        read = self._fits(value)
        return read if read.faults else Read(read.value, faults=self._too_many(read.value))

    def _too_many(self, value: Json) -> tuple[str, ...]:
        """Which lists have more items to hand on than can be."""
        fields = self.fields(value) if self.reply.tagged else {}
        lists: dict[str, list[Json]] = {
            key: fields[key] for key in self.reply.tagged if isinstance(fields.get(key), list)
        }
        return tuple(
            f"{key!r} has {len(items):,} items, and at most {MOST_HANDED} can be handed on at once"
            for key, items in lists.items()
            if len(items) > MOST_HANDED
        )

    def _fits(self, value: Json) -> Read:
        try:
            check_depth(value)
            value = utf8_json(value)
            canonical(value)
        except (ValueError, TypeError, RecursionError) as error:
            return Read(faults=(f"it cannot be kept: {error}"[:_LONGEST_FAULT],))
        if self.kind is None:
            schema = self.reply.schema_ or {}
            faults = schema_faults(schema, value, called="its schema")
            return Read(value, faults=_few(faults))
        try:
            made = self.kind.model.model_validate(value, context={"among": self.among})
            whole: Json = made.model_dump(mode="json")
            canonical(whole)
        except ValidationError as error:
            faults = [field_error_text(each) for each in _causes(error.errors(include_url=False))]
            return Read(faults=_few(faults))
        except Exception as error:  # noqa: BLE001 - a class of others may raise anything
            return Read(faults=_few([f"it cannot be read: {type(error).__name__}: {error}"]))
        return Read(whole)

    def _meant(self, said: Json) -> Json:
        try:
            if self.kind is not None:
                own = self.kind.model.lenient(said, self.among)
                said = said if own is None else own
            return mended(self.schema, said)
        except Exception:  # noqa: BLE001 - a class of others may raise anything
            return None

    # -- fields -------------------------------------------------------------------------------

    def fields(self, value: Json) -> dict[str, Json]:
        """The outputs that a value of the form sets; those that it leaves out have defaults."""
        keys = reply_fields(self.reply)
        if self.kind is None and (keys == (VALUE,) or not isinstance(value, dict)):
            return {VALUE: value} if VALUE in keys else {}
        said = cast("dict[str, Json]", value)
        properties: Any = (self.reply.schema_ or {}).get("properties", {})
        given = {
            key: cast("dict[str, Json]", form)["default"]
            for key, form in properties.items()
            if isinstance(form, dict) and "default" in form
        }
        return {key: said.get(key, given.get(key)) for key in keys if key in said or key in given}

    def fields_of_fallback(self) -> dict[str, Json]:
        """The outputs of the fallback; only where `check` finds nothing wrong with it."""
        return self.fields(self.check(self.reply.fallback).value)


def _causes(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Faults without what only follows from others: a list lacks its items that are bad."""
    places = [each["loc"] for each in errors]
    return [
        each
        for each in errors
        if each["type"] != "too_short"
        or not any(
            len(at) > len(each["loc"]) and at[: len(each["loc"])] == each["loc"] for at in places
        )
    ]


def _raw(kind: DecisionKind) -> Json:
    return kind.model.model_json_schema()


def _few(faults: list[str]) -> tuple[str, ...]:
    more = len(faults) - _MOST_FAULTS
    told = [" ".join(fault.split())[:_LONGEST_FAULT] for fault in faults[:_MOST_FAULTS]]
    return (*told, *([f"and {more} more"] if more > 0 else []))


def _shown(schema: Any) -> Any:
    """A schema without titles and marks of ours; names of fields are never taken for such."""
    if isinstance(schema, list):
        return [_shown(each) for each in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            out[key] = {name: _shown(each) for name, each in cast("dict[str, Any]", value).items()}
        elif key not in ("title", ALSO, AMONG):
            out[key] = _shown(value)
    return out


# -- finding JSON -----------------------------------------------------------------------------


class _Twice(Exception):
    """A key is twice in one object, with two values: whichever counts, the other was said."""


@dataclass(frozen=True)
class _Value:
    """JSON in a text, and where it stands."""

    value: Json
    start: int = 0
    end: int = 0


def _values_in(text: str) -> Iterator[_Value]:
    """The JSON in a text, as it stands there: all of it, else what is fenced or stands in it."""
    whole = _parsed(text.strip())
    if whole is not None:
        yield _Value(whole[0], 0, len(text))
        return
    begin = max(0, len(text) - LONGEST_SCANNED)
    fences = [
        _Value(made[0], begin + part.start(), begin + part.end())
        for part in _FENCE.finditer(text[begin:])
        if (made := _parsed(part[1].strip())) is not None
    ]
    inside = [
        each
        for each in _inside(text[begin:], begin)
        if not any(fence.start <= each.start < fence.end for fence in fences)
    ]
    found = sorted([*fences, *inside], key=lambda each: each.start)
    final = max((each.end() for each in FINALLY.finditer(text)), default=0)
    yield from [each for each in found if each.start >= final] or found


def _parsed(text: str) -> tuple[Json] | None:
    """A text as JSON; none where it is none. Always objects or lists, unless it is all of it."""
    try:
        return (_DECODER.decode(text),)
    except (ValueError, RecursionError):
        return None


def _inside(text: str, begin: int) -> Iterator[_Value]:
    at, left = 0, _MOST_WORK
    while left > 0 and (start := _START.search(text, at)) is not None:
        began, at = start.start(), start.end()
        try:
            value, at = _DECODER.raw_decode(text, began)
        except json.JSONDecodeError as error:
            seen = len(text) if error.msg.startswith("Unterminated") else error.pos
            left -= 100 + seen - began
        except (ValueError, RecursionError):
            left -= _MOST_WORK // 50
        else:
            left -= at - began
            yield _Value(value, begin + began, begin + at)


def _without_reasons(value: Json) -> Json:
    """What two replies must agree in: not in why."""
    if not isinstance(value, dict):
        return value
    said = cast("dict[str, Json]", value)
    return {key: each for key, each in said.items() if key not in REASONS}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise _Twice(key)
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no number that can be kept")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_no_constant, strict=False, object_pairs_hook=_once
)
