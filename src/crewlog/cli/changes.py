"""A change as it is typed: options of `crewlog change` as operations, a prompt or a definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from crewlog.cli.files import TEXT_SUFFIXES, check_there, is_file, load_crew, means_file
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.load import text_of
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import (
    AddAgent,
    AddTool,
    DisableAgent,
    EditAgent,
    EditCrew,
    EditPhase,
    EditTool,
    EnableAgent,
    Operation,
    RemoveAgent,
)
from crewlog.definition.text import read_document
from crewlog.errors import Diagnostic, InvalidDefinition, UsageError
from crewlog.model import Json
from crewlog.validation_errors import field_error_text

PLACE = "crewlog change"
_PARTS: Mapping[str, type[Any]] = {"agent": EditAgent, "tool": EditTool, "phase": EditPhase}
_OPERATION: TypeAdapter[Operation] = TypeAdapter(Operation)
_OPS = [str(each.model_fields["op"].default) for each in get_args(get_args(Operation)[0])]
_EDIT = "For example: {option} agent.writer.prompt='Be brief.' or {option} model=openai:gpt-5-mini"


_PROMPT = "Give a prompt's file, or the prompt itself in quotes."
_MARKED = ('"', "'", "|", ">", "!", "&")
"""How a text begins that is written in YAML's own way."""
_NULLS = ("", "~", "null", "Null", "NULL")
_PROSE = frozenset({"prompt", "task"})
"""Fields that a file may hold."""
_NAMES = "A name is a letter and then at most 63 letters, digits, '_' or '-'."


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    prompt: str | None = None
    definition: str | None = None
    operations: Path | None = None
    add_agent: Sequence[str] = ()
    after: Sequence[str] = ()
    before: Sequence[str] = ()
    add_tool: Sequence[str] = ()
    tools_for: Sequence[str] = ()
    edit: Sequence[str] = ()
    enable: Sequence[str] = ()
    disable: Sequence[str] = ()
    remove: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """A change, as `Run.change` takes it."""

    prompt: str = ""
    definition: str | CrewDefinition | None = None
    operations: tuple[Operation, ...] = field(default=())
    places: tuple[str, ...] = field(default=())
    """Where each operation was typed: `--edit agent.writer`, `change.yaml:3`."""


@dataclass(frozen=True)
class Typed:
    """An operation, and where it was typed."""

    operation: Operation
    place: str


def wanted(asked: Asked) -> Wanted:
    """The change that was typed.

    Raises:
        UsageError: nothing is to be changed, or in two ways at once; a file cannot be read.
        InvalidDefinition: with everything that is wrong with a file or a value.
    """
    try:
        typed = tuple(_operations(asked))
    except ValidationError as error:
        raise no_name(error, PLACE) from None
    ways = {
        "--prompt": asked.prompt is not None,
        "--definition": asked.definition is not None,
        "single changes": bool(typed),
    }
    given = [way for way, is_given in ways.items() if is_given]
    if not given:
        raise UsageError(
            "nothing is to be changed",
            remedy="Say what: --prompt, --definition, --add-agent, --remove, --edit, …; "
            "`crewlog change --help` has all of it.",
            place=PLACE,
        )
    if len(given) > 1:
        raise UsageError(
            f"{listed(given)} cannot be one change",
            remedy="A prompt and a definition say all that the crew is to be: make two changes.",
            place=PLACE,
        )
    return Wanted(
        prompt=_prompt(asked.prompt) if asked.prompt is not None else "",
        definition=_definition(asked.definition),
        operations=tuple(each.operation for each in typed),
        places=tuple(each.place for each in typed),
    )


def no_name(error: ValidationError, place: str, called: Mapping[str, str] = {}) -> UsageError:
    """The error for what cannot be part of an operation: a name that is none.

    Args:
        error: What is wrong.
        place: The command.
        called: What the command calls a part of the operation: that is its place, then.
    """
    faults = error.errors(include_url=False)
    say = "; ".join(_said_of(each) for each in faults)
    typed = dict.fromkeys(called.get(str(each["loc"][0]), "") for each in faults if each["loc"])
    return UsageError(say, remedy=_NAMES, place=", ".join(filter(None, typed)) or place)


def _prompt(typed: str) -> str:
    if means_file(typed):
        check_there(typed, f"{PLACE} --prompt", _PROMPT)
        return text_of(typed, "prompt's file")
    if not any(char.isspace() for char in typed.strip()):
        raise UsageError(
            f"there is no file {typed!r}, and one word is no prompt", remedy=_PROMPT, place=PLACE
        )
    return typed


def _definition(typed: str | None) -> str | CrewDefinition | None:
    return load_crew(typed) if typed is not None and is_file(typed) else typed


# -- operations ----------------------------------------------------------------------------------


def _operations(asked: Asked) -> Iterator[Typed]:
    """All single changes; what comes, comes before what goes, so that it can take its place."""
    if asked.operations is not None:
        yield from _of_file(asked.operations)
    for typed in asked.add_tool:
        name, tool = _named(typed, "--add-tool", _tool)
        add = AddTool(name=name, tool=tool, agents=tuple(_names(asked.tools_for)))
        yield Typed(add, f"--add-tool {name}")
    if asked.tools_for and not asked.add_tool:
        raise _without("--for", "--add-tool")
    after, before = list(_names(asked.after)), tuple(_names(asked.before))
    for typed in asked.add_agent:
        name, agent = _named(typed, "--add-agent", _agent)
        phase: dict[str, Json] = {"after": after} if after else {}
        new = AddAgent(name=name, agent=agent, phase=phase, before=before)
        yield Typed(new, f"--add-agent {name}")
    if (after or before) and not asked.add_agent:
        raise _without("--after" if after else "--before", "--add-agent")
    yield from edits(asked.edit)
    for name in _names(asked.enable):
        yield Typed(EnableAgent(name=name), f"--enable {name}")
    for name in _names(asked.disable):
        yield Typed(DisableAgent(name=name), f"--disable {name}")
    for name in _names(asked.remove):
        yield Typed(RemoveAgent(name=name), f"--remove {name}")


def agent_in(path: str, place: str) -> dict[str, Json]:
    """The agent that a file holds: as under `agents`, or its prompt alone.

    Args:
        path: The file.
        place: The option that names it.

    Raises:
        UsageError: there is no such file, or it holds no agent.
        InvalidDefinition: it is no YAML.
    """
    check_there(path, place, f"Without a file: {_EXAMPLES['--prompt']}")
    text = text_of(path, "agent's file")
    data: Json = text if path.lower().endswith(TEXT_SUFFIXES) else _yaml(text, path)
    if isinstance(data, str | dict):
        return _agent(data)
    raise UsageError(
        f"the file {path!r} holds no agent: it must be a mapping, as under 'agents'",
        remedy="For example: {prompt: Test what was built., tools: [run_tests]}",
        place=place,
    )


def prompt_in(typed: str, place: str) -> str:
    """An agent's prompt as it is typed: a text, or the file that holds it.

    Args:
        typed: Either.
        place: The option that has it.

    Raises:
        UsageError: there is no such file, or nothing is said.
    """
    if means_file(typed):
        otherwise = f"Without a file: {_EXAMPLES['--prompt']}"
        check_there(typed, place, otherwise)
        return text_of(typed, "prompt's file")
    if not typed.strip():
        raise UsageError(
            "the prompt is empty", remedy=f"For example: {_EXAMPLES['--prompt']}", place=place
        )
    return typed


def names_in(typed: Iterable[str] | None) -> list[Json]:
    """Names that were typed one by one or with commas between them, each once."""
    return [*dict.fromkeys(_names(typed or ()))]


def _without(option: str, other: str) -> UsageError:
    return UsageError(
        f"{option} is said of what {other} adds, and there is none",
        remedy=f"Add {other} NAME=…, or leave {option} out.",
        place=PLACE,
    )


def _names(typed: Iterable[str]) -> Iterator[str]:
    """Names, typed one by one or with commas between them."""
    for each in typed:
        yield from (name.strip() for name in each.split(",") if name.strip())


def _named(
    typed: str, option: str, read: Callable[[Json], dict[str, Json]]
) -> tuple[str, dict[str, Json]]:
    name, equals, value = typed.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UsageError(
            f"{option} {typed!r} is not NAME=…",
            remedy=f"For example: {_EXAMPLES[option]}",
            place=PLACE,
        )
    if means_file(value):
        check_there(value, f"{PLACE} {option}", f"Without a file: {_EXAMPLES[option]}")
        text = text_of(value, "file")
        prose = value.lower().endswith(TEXT_SUFFIXES)
        return name.strip(), read(text if prose else _yaml(text, value))
    return name.strip(), read(_value(value, ("prompt", "run")))


_EXAMPLES = {
    "--prompt": "--prompt 'Test what was built.'",
    "--add-agent": "--add-agent tester='{prompt: Test what was built.}' or tester=tester.yaml",
    "--add-tool": "--add-tool search='{run: my_tools:search, effects: read}'",
}


def _agent(data: Json) -> dict[str, Json]:
    """An agent; a text alone is its prompt."""
    return _mapping({"prompt": data} if isinstance(data, str) else data, "--add-agent")


def _tool(data: Json) -> dict[str, Json]:
    """A tool; `module:function` alone is what it runs."""
    return _mapping({"run": data} if isinstance(data, str) else data, "--add-tool")


def _mapping(data: Json, option: str) -> dict[str, Json]:
    if isinstance(data, dict):
        return data  # pyright: ignore[reportUnknownVariableType]
    raise UsageError(f"what {option} adds must be a mapping", remedy=_EXAMPLES[option], place=PLACE)


def edits(typed: Sequence[str], option: str = "--edit", place: str = PLACE) -> Iterator[Typed]:
    """`agent.writer.prompt=…`, `model=…`: the fields of one thing are set together.

    Args:
        typed: What was typed, one by one.
        option: The option that it was typed behind.
        place: The command.

    Raises:
        UsageError: one is nothing that can be set, or names a file that is not there.
        InvalidDefinition: with everything that is wrong with a value.
    """
    found: dict[tuple[str, str], dict[str, Json]] = {}
    for each in typed:
        path, equals, value = each.partition("=")
        path = "crew.model" if path.strip() == "model" else path
        kind, _, rest = path.strip().partition(".")
        name, _, key = ("", "", rest) if kind == "crew" else rest.rpartition(".")
        if kind != "crew" and kind not in _PARTS:
            raise UsageError(
                f"{option} {each!r} edits {kind!r}, which is nothing",
                remedy=did_you_mean(kind, [*_PARTS, "crew"], _EDIT.format(option=option)),
                place=place,
            )
        if not equals or not key or not (name or kind == "crew"):
            remedy = _EDIT.format(option=option)
            raise UsageError(f"{option} {each!r} is not PATH=VALUE", remedy=remedy, place=place)
        read = _prose(value, f"{place} {option}") if key in _PROSE else _value(value)
        found.setdefault((kind, name), {})[key] = read
    for (kind, name), fields in found.items():
        if kind == "crew":
            yield Typed(EditCrew(set=fields), f"{option} crew")
        else:
            yield Typed(_PARTS[kind](name=name, set=fields), f"{option} {kind}.{name}")


def _prose(typed: str, place: str) -> Json:
    """A text, or the text of a file; null puts the default back."""
    if means_file(typed):
        otherwise = f"Where no file is meant, put it in quotes within quotes: '\"{typed}\"'."
        check_there(typed, place, otherwise)
        return text_of(typed, "prompt's file")
    return _value(typed)


def _value(typed: str, keys: Iterable[str] = ()) -> Json:
    """A value as YAML; what is none is a text, for prompts have colons, dashes and quotes.

    Args:
        typed: The value.
        keys: What a mapping has that is written without braces; else it is a text.
    """
    try:
        data: Json = _yaml(typed, "value") if typed.strip() else ""
    except InvalidDefinition:
        if typed.lstrip().startswith(("{", "[")):
            raise
        return typed
    text = typed.strip()
    if isinstance(data, str) and not text.startswith(_MARKED):
        return text  # as it was typed: YAML would fold its lines, and leave out what # begins
    if data is None and text not in _NULLS:
        return text
    braced = typed.lstrip().startswith(("{", "["))
    mapping, listing = isinstance(data, dict), isinstance(data, list)
    meant = mapping and any(key in data for key in keys)  # pyright: ignore[reportOperatorIssue]
    return data if braced or meant or not (mapping or listing) else typed  # pyright: ignore[reportUnknownVariableType]


def _yaml(text: str, file: str) -> Json:
    document = read_document(text, file)
    if document.faults:
        raise InvalidDefinition(document.faults)
    return document.data


def _of_file(path: Path) -> Iterator[Typed]:
    """The operations that a file lists.

    Raises:
        InvalidDefinition: with all that is no operation.
    """
    text = text_of(path, "YAML or JSON file that lists operations")
    document = read_document(text, str(path))
    faults = list(document.faults)
    data = document.data
    if not isinstance(data, list):
        say = f"{str(path)!r} lists no operations"
        raise UsageError(say, remedy="Begin each with '- op: edit_agent', for example.")
    read: list[Typed] = []
    items: list[Json] = data  # pyright: ignore[reportUnknownVariableType]
    for i, item in enumerate(items):
        try:
            place = f"{path}:{document.values[(i,)].span.line}"
            read.append(Typed(_OPERATION.validate_python(item), place))
        except ValidationError as error:
            span = document.values[(i,)].span
            faults += [
                Diagnostic(
                    message, remedy=remedy, file=str(path), line=span.line, column=span.column
                )
                for message, remedy in map(_said, error.errors(include_url=False))
            ]
    if faults:
        raise InvalidDefinition(faults)
    yield from read


def _said_of(fault: Any) -> str:
    what = ".".join(map(str, fault["loc"]))
    kind = "a name" if what == "name" else f"the name of a {what}" if what == "channel" else what
    return f"{str(fault['input'])[:40]!r} cannot be {kind}"


def _said(fault: Any) -> tuple[str, str]:
    """What is wrong with an operation of a file, and what to do."""
    if fault["type"] == "union_tag_invalid":
        op = str(fault["ctx"]["tag"])
        return f"there is no operation {op!r}", did_you_mean(op, _OPS, f"There are {listed(_OPS)}.")
    return field_error_text(fault, "the operation", below=1), ""
