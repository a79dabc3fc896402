"""A model's reading of a prompt, taken apart: what it claims, and everything that does not hold.

A reply is text of a stranger. It can be nothing but the statements of `PromptAst`; each must quote
the words of the prompt that say it; names must be the prompt's or the registry's; and every
sentence must be quoted by a statement, or be given as not understood. A grant of a tool must quote
the words that name the tool. What does not hold is told to the model, fault by fault, and what
still does not hold in the end is told to people. Nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from pydantic import TypeAdapter, ValidationError

from crewlog.definition.findings import suggestion
from crewlog.errors import Diagnostic
from crewlog.faults import rule_of
from crewlog.model import Json
from crewlog.prompt import ast
from crewlog.prompt.ast import AnyStatement, PromptAst, Words
from crewlog.prompt.claims import Path, claims, short
from crewlog.prompt.claims_of_rules import unbounded
from crewlog.prompt.compiled import Remark
from crewlog.prompt.quotes import Prompt
from crewlog.prompt.registry import Registry
from crewlog.prompt.remarks import Remarks

LARGEST_REPLY = 200_000
"""Characters of a reply that are read; a reading of the longest prompt has fewer."""
MOST_STATEMENTS = 1_000
DEEPEST = 24
"""How deep a reply may be nested: conditions of conditions."""
_KEYS = {"statements", "not_understood"}
_STATEMENT: TypeAdapter[AnyStatement] = TypeAdapter(AnyStatement)
_KINDS = sorted(cls.model_fields["kind"].default for cls in ast.Statement.__subclasses__())


@dataclass(frozen=True)
class Fault:
    """One thing that does not hold in a reply."""

    diagnostic: Diagnostic
    """What, where in the reply (`statements[2].tools[0]`), and what to do."""
    words: tuple[Words, ...] = ()
    """Where in the prompt, as far as that is known."""
    left_out: bool = False
    """Whether it is a sentence that nothing quotes: then it was not understood."""


@dataclass(frozen=True)
class ReadReply:
    """A reply, read."""

    ast: PromptAst
    """The statements that hold."""
    not_understood: tuple[Words, ...] = ()
    """What the model says that it did not understand."""
    faults: tuple[Fault, ...] = ()
    """Everything that does not hold, in the order of the reply, and what it leaves out."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The faults as they are told to the model."""
        return tuple(fault.diagnostic for fault in self.faults)

    def remarks(self, text: str, file: str = "prompt") -> tuple[Remark, ...]:
        """What people are told of this reply: nothing of it is in a definition."""
        found = Remarks(text, file)
        for words in self.not_understood:
            _say_left_out(found, text, words)
        for fault in self.faults:
            if fault.left_out:
                _say_left_out(found, text, *fault.words)
                continue
            at, told = fault.diagnostic.place, fault.diagnostic.message
            found.error(
                "model_failed",
                f"the model's reading does not hold: {at}: {told}",
                fault.words,
                "Say it in other words, or write the crew's file yourself.",
            )
        return found.all()


def _say_left_out(found: Remarks, text: str, words: Words) -> None:
    quoted = " ".join(text[words.start : words.end].split())
    shown = quoted if len(quoted) <= 80 else f"{quoted[:79]}…"
    found.warning(
        "not_understood",
        f"not understood: {shown!r}",
        [words],
        "It is in no part of the crew. Say it in other words, or leave it out.",
    )


def read_reply(text: str, reply: str, registry: Registry) -> ReadReply:
    """What a model's reply says of a prompt, and all that is wrong with it.

    Args:
        text: The prompt.
        reply: What the model answered: one JSON object, and nothing else.
        registry: What the prompt may use.
    """
    reader = _Reader(Prompt(text), registry)
    try:
        data = _json(reply)
    except _NotRead as why:
        reader.fault((), str(why), why.remedy)
        # Nothing was read, so nothing is left out either: one fault is enough to repair.
        return ReadReply(PromptAst(), (), tuple(reader.faults))
    reader.whole(data)
    return ReadReply(
        PromptAst(statements=tuple(reader.statements)),
        tuple(reader.missed),
        tuple(reader.faults),
    )


# -- JSON ----------------------------------------------------------------------------------------


class _NotRead(Exception):
    """The reply is not one JSON object."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def _json(reply: str) -> dict[str, Json]:
    if len(reply) > LARGEST_REPLY:
        say = f"the reply has {len(reply):,} characters; at most {LARGEST_REPLY:,} are read"
        raise _NotRead(say, "Answer with the statements alone.")
    body = reply.strip()
    if not body:
        raise _NotRead("the reply is empty", "Answer with one JSON object.")
    _check_depth(body)
    try:
        data, end = _DECODER.raw_decode(body)
        body.encode()
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _NotRead("the reply has half of a surrogate pair", "Write plain text.") from None
    except (ValueError, RecursionError) as error:
        start = body.find("{")
        if start > 0 and not body.startswith("["):
            say = "there is something else before the JSON object"
            raise _NotRead(say, "Answer with the object alone: no words, no code fence.") from None
        where, what = "", str(error)
        if isinstance(error, json.JSONDecodeError):
            where, what = f" at line {error.lineno}, column {error.colno}", error.msg
        raise _NotRead(f"the reply is not JSON{where}: {what}", "Answer with JSON.") from None
    if body[end:].strip():
        raise _NotRead(
            "there is something else after the JSON",
            "Answer with the object alone: no words, no code fence.",
        )
    if not isinstance(data, dict):
        raise _NotRead(
            f"the reply is {_kind(data)}, not an object",
            'Answer with {"statements": […], "not_understood": […]}.',
        )
    return cast("dict[str, Json]", data)


def _check_depth(body: str) -> None:
    depth = 0
    # Brackets in texts count too: a text with so many of them is none of a reading's.
    for char in body:
        if char in "[{":
            depth += 1
            if depth > DEEPEST:
                say = f"the reply is nested more than {DEEPEST} deep"
                raise _NotRead(say, "Say conditions in their simplest form.")
        elif char in "]}":
            depth -= 1


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _no_twice(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_twice)


def _kind(value: Json) -> str:
    kinds = ((list, "a list"), (dict, "an object"), (str, "a text"), (bool, "true or false"))
    for kind, name in kinds:
        if isinstance(value, kind):
            return name
    return "null" if value is None else "a number"


# -- statements ----------------------------------------------------------------------------------


class _Reader:
    """Reads one reply's data."""

    def __init__(self, prompt: Prompt, registry: Registry) -> None:
        self.prompt = prompt
        self.registry = registry
        self.statements: list[AnyStatement] = []
        self.missed: list[Words] = []
        self.faults: list[Fault] = []
        self._places: list[int] = []
        """Where in the reply the statements stand."""
        self._covered: list[Words] = []
        self._at = 0
        """Where the last statement stands: a quote that occurs more than once is meant after it."""

    def fault(self, path: Path, say: str, remedy: str = "", words: Sequence[Words] = ()) -> None:
        self.faults.append(Fault(Diagnostic(say, path, remedy), tuple(words)))

    def whole(self, data: dict[str, Json]) -> None:
        for key in data.keys() - _KEYS:
            self.fault((key,), f"there is no field {key!r}", f"Fields: {', '.join(sorted(_KEYS))}.")
        said = self._list(data, "statements")
        for index, item in enumerate(said[:MOST_STATEMENTS]):
            self._statement(("statements", index), item)
        if len(said) > MOST_STATEMENTS:
            say = f"there are {len(said):,} statements; at most {MOST_STATEMENTS:,} are read"
            self.fault(("statements",), say)
        loose = set(unbounded(self.statements, self.prompt.text))
        for index in sorted(loose):
            self.fault(
                ("statements", self._places[index]),
                "its quotes count calls or say when they may be made, and no `rule` does",
                "Make the `rule` that they say, too, with the same quotes, or leave both out.",
                self.statements[index].words,
            )
        self.statements = [s for i, s in enumerate(self.statements) if i not in loose]
        self._at = 0
        for index, quote in enumerate(self._list(data, "not_understood")):
            found = self._quote(("not_understood", index), quote)
            if found is not None:
                self.missed.append(found)
                self._covered.append(found)
        for words in self.prompt.uncovered(self._covered):
            quoted = self.prompt.flat(words)
            self.faults.append(
                Fault(
                    Diagnostic(
                        f"no statement quotes these words of the prompt: {short(quoted)}",
                        ("statements",),
                        "Make the statement that they say, quote them in the statement that they "
                        "belong to, or list them in `not_understood`.",
                    ),
                    (words,),
                    left_out=True,
                )
            )

    def _list(self, data: dict[str, Json], key: str) -> list[Json]:
        value = data.get(key)
        if key not in data:
            self.fault((key,), f"the field {key!r} is missing", "It is a list, which may be empty.")
        elif not isinstance(value, list):
            self.fault((key,), f"{key!r} is {_kind(value)}, not a list")
        else:
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return items
        return []

    def _statement(self, path: Path, item: Json) -> None:
        if not isinstance(item, dict):
            self.fault(path, f"a statement is an object, not {_kind(item)}")
            return
        fields = dict(cast("dict[str, Json]", item))
        words = self._quotes((*path, "quotes"), fields.pop("quotes", None))
        self._covered += words  # what a faulty statement quotes is not left out: it is faulty
        before = len(self.faults)
        kind = fields.get("kind")
        if kind not in _KINDS:
            near = suggestion(str(kind), _KINDS)
            hint = f"Did you mean {near!r}? " if near else ""
            self.fault(
                (*path, "kind"),
                f"there is no kind {kind!r}",
                hint + f"Kinds: {', '.join(_KINDS)}.",
                words,
            )
            return
        if "words" in fields:
            self.fault(
                (*path, "words"), "a statement has no field 'words'", "Give `quotes`.", words
            )
            return
        try:
            whole = {**fields, "words": [w.model_dump() for w in words]}
            read = _STATEMENT.validate_json(json.dumps(whole), strict=True)
        except ValidationError as error:
            for fault in error.errors():
                where = tuple(p for p in fault["loc"] if p != kind)
                self.fault((*path, *where), rule_of(fault), "", words)
            return
        for where, say, remedy in claims(read, self.prompt, self.registry):
            self.fault((*path, *where), say, remedy, words)
        if words and len(self.faults) == before:
            self.statements.append(read)
            self._places.append(int(path[-1]))

    def _quotes(self, path: Path, quotes: Json) -> tuple[Words, ...]:
        if not isinstance(quotes, list) or not quotes:
            say = "a statement must quote the words of the prompt that say it"
            self.fault(path, say, "Give `quotes`: the clause itself first, word for word.")
            return ()
        given: list[Json] = quotes  # pyright: ignore[reportUnknownVariableType]
        found = [self._quote((*path, n), quote) for n, quote in enumerate(given)]
        known = tuple(words for words in found if words is not None)
        if found[0] is not None:
            self._at = found[0].start
        return known if len(known) == len(found) else ()

    def _quote(self, path: Path, quote: Json) -> Words | None:
        if not isinstance(quote, str) or not quote.strip():
            self.fault(path, "a quote is a text, and not empty")
            return None
        found = self.prompt.find(quote, self._at)
        if found is None:
            self.fault(
                path,
                f"the prompt does not say {short(quote)}",
                "Quote whole words of it, word for word, and without leaving any out.",
            )
        return found
