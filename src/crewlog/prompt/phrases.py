"""Names, numbers and conditions as the words that `crewlog.prompt.english` says them with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crewlog.definition.findings import listed
from crewlog.definition.times import parse_time, time_words
from crewlog.model import Json
from crewlog.prompt import ast


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_STATES = _words("""
ready complete done approved rejected finished ok okay available clean clear valid correct
right wrong safe green gone closed open sanctioned angry urgent harmless trivial hopeless
final late early full empty missing broken signed paid confirmed sure unsure accepted
verified resolved solved fixed stable good bad high low plausible sound legal critical
""")
"""Words that a thing is: `models_ready` is "the models are ready"."""
_MARKED = _words("""
and or then but if unless while when once after before until of to in at by for with without
who that which as from is are be not only all any each every the a an its it i me you we
they next finally first last again also may can must should
""")
"""Words that would not be read as a part of a name: such a name is said as it is written."""
_AFTER = frozenset(("up", "down", "out", "off", "on", "over", "away"))
"""Words that belong to the one before: `top-down analyst`."""
_DECIDED = {"approved": "approves it", "rejected": "rejects it"}
_COMPARED = {"<": "is below", ">": "is above", ">=": "is at least", "<=": "is not above"} | {
    "==": "is",
    "!=": "is not",
}
_NOUN_S = re.compile(r"(?:ss|us|is)$")


def words_of(name: str) -> str:
    """An agent's name in words, tied where one would not be read as a part: `editor-in-chief`."""
    out = ""
    before = ""
    for word in name.split("_"):
        tied = word in _MARKED | _AFTER or before in _MARKED
        out += f"{'-' if tied else ' '}{word}" if out else word
        before = word
    return out


def the(name: str) -> str:
    """`the fact checker`."""
    return f"the {words_of(name)}"


def a(name: str) -> str:
    """`an editor`."""
    words = the(name).removeprefix("the ")
    return f"{'an' if words[:1].lower() in 'aeiou' else 'a'} {words}"


def named(names: Sequence[str]) -> str:
    """`the writer, the editor and the checker`."""
    return listed(the(name) for name in names)


def things(name: str) -> str:
    """An output or flag in words."""
    return name.replace("_", " ")


def heading(crew: str) -> str:
    """`release-notes` as `Release notes`."""
    words = crew.replace("-", " ")
    return words[:1].upper() + words[1:]


def counted(number: int) -> str:
    """`three`; figures beyond twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def bound(number: Json) -> str:
    """`at most 3 times`."""
    return f"at most {number} {'time' if number == 1 else 'times'}"


def plural(verb: str, names: Sequence[str]) -> str:
    """A verb in the third person, as it fits the number of those who do it."""
    return verb.removesuffix("s") if len(names) > 1 else verb


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text[-1:] in '.!?' else '.'}"


def does(who: str, task: str) -> str:
    """Somebody doing a task, whichever form its verb has."""
    if not task:
        return f"{who} works"
    first = task.split(" ", 1)[0].lower()
    if first.endswith("s") and not first.endswith("ss"):
        return f"{who} {task}"
    return f"have {who} {task[:1].lower()}{task[1:]}"


def value(number: Json) -> str:
    """A number or a word."""
    return f"{number:g}" if isinstance(number, float) else str(number)


def before_clause(waits: ast.Waits) -> str:
    """`once all of them are done`, `after the writer finishes`."""
    if waits.join == "all":
        if not waits.of:
            return "once all of them are done"
        return f"after {named(waits.of)} {'finish' if len(waits.of) > 1 else 'finishes'}"
    whom = named(waits.of) if waits.of else "them"
    if waits.join == "any":
        return f"as soon as any of {whom} is done"
    are = "is" if waits.join == 1 else "are"
    return f"when {counted(int(waits.join))} of {whom} {are} done"


_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def lasting(seconds: float) -> str:
    """A duration: `2 hours`, `1 minute`, `0.25 seconds`."""
    size, unit = next((u for u in _UNITS if seconds >= u[0] and seconds % u[0] == 0), _UNITS[-1])
    count = f"{seconds / size:.15f}".rstrip("0").rstrip(".")
    return f"{count} {unit}{'' if count == '1' else 's'}"


def moment(time: str) -> str:
    """A time with its zone: `2026-12-01 09:00 +01:00`."""
    words = time_words(time)
    return words if parse_time(words.replace(" UTC", "Z").replace(" +", "+")) == time else time


def unless_or_if(said: ast.Cond | None) -> str:
    """`unless approved`, `if the score is below 0.8`."""
    if isinstance(said, ast.Not):
        return f"unless {condition(said.of)}"
    return "otherwise" if said is None else f"if {condition(said)}"


def condition(said: ast.Cond) -> str:
    """A condition in words."""
    match said:
        case ast.Fact():
            return _fact(said)
        case ast.Not(of=ast.Fact() as fact):
            return _fact(fact, negated=True)
        case ast.Not():
            return f"not {condition(said.of)}"
        case ast.Both():
            return _several(said.of, "and")
        case ast.Either():
            return _several(said.of, "or")


def _several(parts: Sequence[ast.Cond], word: str) -> str:
    """Conditions together; a bare state after another needs its subject, or it would share it."""
    said = [condition(part) for part in parts]
    for i, part in enumerate(parts):
        if i and _bare(part):
            said[i] = f"it is {said[i]}"
    return f" {word} ".join(said)


def _bare(said: ast.Cond) -> bool:
    """Whether a condition is said as a state alone: `approved`, `not urgent`."""
    fact = said.of if isinstance(said, ast.Not) else said
    if not isinstance(fact, ast.Fact):
        return False
    return fact.operator is None and fact.agent is None and "_" not in fact.name


def _fact(said: ast.Fact, *, negated: bool = False) -> str:
    not_ = "not " if negated else ""
    if said.operator is not None:
        whose = f"{the(said.agent)}'s" if said.agent else "the"
        if said.operator == "in":
            return f"{whose} {things(said.name)} is {not_}{listed(map(value, said.value), 'or')}"
        how = _COMPARED[said.operator].replace("is ", f"is {not_}", 1)
        return f"{whose} {things(said.name)} {how} {value(said.value)}"
    *subject, last = said.name.split("_")
    if not subject:
        if said.agent is None:
            return f"{not_}{last}"
        if last in _DECIDED:
            does_not = f"does not {_DECIDED[last].replace('s it', ' it')}"
            return f"{the(said.agent)} {does_not if negated else _DECIDED[last]}"
        return f"{the(said.agent)} says that it is {not_}{last}"
    whose = f"{the(said.agent)}'s" if said.agent else "the"
    if last in _STATES:
        many = subject[-1].endswith("s") and not _NOUN_S.search(subject[-1])
        return f"{whose} {' '.join(subject)} {'are' if many else 'is'} {not_}{last}"
    if negated:
        return f"{whose} {' '.join(subject)} do not {last}"
    return f"{whose} {' '.join(subject)} {last}"
