"""What a run says of a change's faults, in the terms in which the change was typed.

    operations[0].name         →  --edit agent.frist
    operations[1].set.timeout  →  --edit agent.first.timeout
    edit_phase b, with another 'when'  →  --edit phase.b.when=…
    operations[0].listener     →  LISTENER

A run tells faults by their places in the command that it got. Whoever typed options never saw that.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from crewlog.definition.findings import for_run
from crewlog.errors import CommandRejected, Diagnostic, InvalidDefinition

_PLACE = re.compile(r"^operations\[(\d+)\]((?:\.\w+|\[\d+\])*)(?=  |$)", re.MULTILINE)
_OPTIONS = {"after": "--after", "before": "--before", "agents": "--for"}
"""What says a part of an addition that has an option of its own."""
GRAPH = "crewlog graph"
"""The place of what `crewlog graph` says by its arguments and options."""
ARGUMENTS = {
    "name": "NAME",
    "to": "TO",
    "sender": "SENDER",
    "listener": "LISTENER",
    "channel": "--channel",
    "other": "--with",
    "like": "--like",
    "description": "--description",
}
"""What `crewlog graph` calls the parts of an operation."""
_EDGES = {"wires": "--wire"}
_IN_GRAPH = {
    "Use edit_agent, or choose another name.": "Choose another name.",
    "For example: prompt: Write notes for users.": "For example: --prompt 'Look where you are "
    "told.', --file agent.yaml, or --like AGENT, with the prompt of an agent of the run.",
    "Agents are under 'agents:'.": "`crewlog graph RUN` tells who lives there.",
}
"""Remedies for who has written no crew."""
_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"\bedit_(agent|phase|tool) (\S+?), with (?:an)?other '(\w+)'", r"--edit \1.\2.\3=…"),
    (r"\bedit_phase (\S+?), with other options \('with'\)", r"--edit phase.\1.with={…}"),
    (r"\bremove_phase (\S+?)(?=[.,;]?(?:\s|$))", r"in an --operations file, remove_phase \1"),
    (r"\bedit_(agent|tool)\b(?=, or choose)", r"--edit \1.NAME.FIELD=VALUE"),
    (
        r"\badd_(agent|tool), remove_\1 and edit_\1\b",
        r"--add-\1, --edit \1.NAME.FIELD=VALUE, or an --operations file",
    ),
    (r"\bset by edit_crew\b", "set by --edit crew"),
    (r"\bSay it in an operation before this one\b", "Change that first, or with the same command"),
)


@contextmanager
def in_terms_of(places: Sequence[str], run: str = "") -> Generator[None, None, None]:
    """Tells refusals of what is done within it in the terms of the command line.

    Args:
        places: Where each operation was typed.
        run: The run that is changed.

    Raises:
        CommandRejected: what was raised, of the same kind.
        InvalidDefinition: the same, where nothing was sent yet.
    """
    try:
        yield
    except CommandRejected as error:
        message, remedy = (_told(text, places, run) for text in (error.message, error.remedy))
        if (message, remedy) == (error.message, error.remedy):
            raise
        raise type(error)(message, remedy=remedy, place=error.place) from error
    except InvalidDefinition as error:
        found = [_typed(each, places, run) for each in error.diagnostics]
        if found == error.diagnostics:
            raise
        raise InvalidDefinition(found, more_may_follow=error.more_may_follow) from error


def _typed(fault: Diagnostic, places: Sequence[str], run: str) -> Diagnostic:
    """A fault with the place where it was typed, if it is one of what was."""
    place = _told(fault.place, places, run)
    remedy = _told(fault.remedy, places, run)
    if place == fault.place:
        return replace(fault, remedy=remedy)
    return replace(fault, path=(), file=place, line=0, remedy=remedy)


def _told(text: str, places: Sequence[str], run: str) -> str:
    """A text in the terms of the command line, with the run's own id in what is to be typed."""
    text = _in_terms(text, places)
    return for_run(text, run) if run else text


def _in_terms(text: str, places: Sequence[str]) -> str:
    text = _PLACE.sub(lambda found: _place(found, places), text)
    if any(place.startswith(GRAPH) for place in places):
        for wire, typed in _IN_GRAPH.items():
            text = text.replace(wire, typed)
        return text
    if not any("--" in place for place in places):
        return text  # an operations file is written in the operations' own terms
    for wire, typed in _REMEDIES:
        text = re.sub(wire, typed, text)
    if any(place.startswith("--with") for place in places):
        text = text.replace("--edit ", "--with ")
    return text


def _place(found: re.Match[str], places: Sequence[str]) -> str:
    number, within = int(found[1]), found[2]
    if number >= len(places):
        return found[0]
    place = places[number]
    if place.startswith(GRAPH):
        return _argument(within, place)
    if not place.startswith("--"):
        return place + (f" {within[1:]}" if within else "")
    part, rest = _split(within)
    adds = place.startswith("--add-")
    if part in ("", "name"):
        return place + rest
    if part == "set":
        return place + rest
    if part in ("agent", "tool") and adds:
        return f"{place} {rest.lstrip('.')}".rstrip()
    if part == "phase" and adds:
        key, more = _split(rest)
        return _OPTIONS.get(key) or f"{place} {key}{more}"
    if part in _OPTIONS and adds:
        return _OPTIONS[part]
    return f"{place} → {within[1:]}"  # what comes of it in the crew


def _argument(within: str, place: str) -> str:
    """What of `crewlog graph` said a part of an operation: an argument, an option, or its file."""
    part, rest = _split(within)
    if part == "agent" and rest:
        key, more = _split(rest)
        typed, _, file = place.partition(" --file ")
        option = _EDGES.get(key, f"--{key}")
        edge = key in ("prompt", "listen", "send", "wires", "parent", "beside")
        if option in typed.split() or (edge and not file):
            return option
        return " ".join(filter(None, ["--file", file, f"{key}{more}"]))
    if part == "agent":
        return ARGUMENTS["name"]  # it is about the agent as a whole
    if part in ARGUMENTS:
        return ARGUMENTS[part]
    return f"crewlog graph → {within[1:]}" if within else GRAPH  # what comes of it in the crew


def _split(path: str) -> tuple[str, str]:
    """The first name of `.set.timeout[0]`, and what comes after it."""
    found = re.match(r"\.?(\w+)", path)
    return (found[1], path[found.end() :]) if found else ("", path)
