"""Mutations of honest readings: how many the verifier notices, and how often it errs.

    python -m tests.corpus.mutations        # writes the tables of docs/prompts.md

A mutation changes one part of a recorded reading that is exact: it drops a step, widens a right,
turns a condition round. It counts where the crew that comes out is another one. The verifier
notices it where it finds a fault.
"""

from __future__ import annotations

import copy
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.corpus.cases import Case, cases, meaning, other_words
from tests.corpus.recordings import (
    Recording,
    chosen,
    held_out,
    outcome_of,
    recording,
    sentences,
)

from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import clauses_of, compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.model_reader import read_reply
from crewlog.prompt.registry import Registry

SEED = 7
TRIES = 2
"""Mutations of each kind and reading."""
PAGE = Path(__file__).parents[2] / "docs" / "prompts.md"

Data = dict[str, Any]
Mutation = Callable[[Data, random.Random, list[str]], bool]
"""Changes a reading in place; false where it has no such part."""
PHASES = ("steps", "waits", "questions", "uses")


def _one(found: list[Data], rng: random.Random) -> Data | None:
    return rng.choice(found) if found else None


def _drop(kind: str) -> Mutation:
    def mutate(read: Data, rng: random.Random, _: list[str]) -> bool:
        if not read[kind]:
            return False
        read[kind].pop(rng.randrange(len(read[kind])))
        return True

    return mutate


def _turn(effect: str) -> Mutation:
    """A right that limits becomes one that only gives."""

    def mutate(read: Data, rng: random.Random, _: list[str]) -> bool:
        found = _one([right for right in read["rights"] if right["effect"] == effect], rng)
        if found is None:
            return False
        found["effect"] = "may"
        return True

    return mutate


def _add_right(read: Data, rng: random.Random, tools: list[str]) -> bool:
    if not tools or not read["steps"]:
        return False
    right = {
        "clauses": [rng.choice(read["steps"])["clauses"][0]],
        "effect": "may",
        "agents": [rng.choice(read["agents"])["name"]],
        "tools": [rng.choice(tools)],
        "if": "",
        "quota": "",
    }
    read["rights"].append(right)
    return True


def _gives(read: Data) -> list[Data]:
    return [right for right in read["rights"] if right["effect"] in {"may", "only"}]


def _widen_right(read: Data, rng: random.Random, _: list[str]) -> bool:
    right = _one([each for each in _gives(read) if each["agents"]], rng)
    return right is not None and _put(right["agents"], _names(read), rng)


def _add_tool(read: Data, rng: random.Random, tools: list[str]) -> bool:
    right = _one(_gives(read), rng)
    return right is not None and _put(right["tools"], tools, rng)


def _widen_audience(read: Data, rng: random.Random, _: list[str]) -> bool:
    said = _one(read["readers"], rng)
    others = [name for name in _names(read) if said is not None and name != said["of"]]
    return said is not None and _put(said["readers"], others, rng)


def _put(into: list[str], names: list[str], rng: random.Random) -> bool:
    more = [name for name in names if name not in into]
    if more:
        into.append(rng.choice(more))
    return bool(more)


def _names(read: Data) -> list[str]:
    return [agent["name"] for agent in read["agents"]]


def _lower_quorum(read: Data, rng: random.Random, _: list[str]) -> bool:
    groups = [group for step in read["steps"] for group in step["after"] if group["need"] > 1]
    group = _one(groups, rng)
    if group is not None:
        group["need"] -= 1
    return group is not None


def _bound(read: Data, rng: random.Random, _: list[str]) -> bool:
    loop = _one([loop for loop in read["loops"] if loop["at_most"]], rng)
    if loop is not None:
        loop["at_most"] = rng.choice([0, loop["at_most"] + 2])
    return loop is not None


def _send_elsewhere(read: Data, rng: random.Random, _: list[str]) -> bool:
    loop = _one([loop for loop in read["loops"] if loop["to"] != "end"], rng)
    if loop is None:
        return False
    others = [s["name"] for s in read["steps"] if s["name"] not in (loop["to"], loop["at"])]
    if others:
        loop["to"] = rng.choice(others)
    return bool(others)


def _turn_condition(read: Data, rng: random.Random, _: list[str]) -> bool:
    part = _one([part for part in (*read["loops"], *read["steps"]) if part["if"]], rng)
    if part is None:
        return False
    said: str = part["if"]
    plain = said.startswith("not ") and " or " not in said
    part["if"] = said.removeprefix("not ") if plain else f"not ({said})"
    return True


def _drop_condition(read: Data, rng: random.Random, _: list[str]) -> bool:
    part = _one([part for part in (*read["steps"], *read["questions"]) if part["if"]], rng)
    if part is not None:
        part["if"] = ""
    return part is not None


def _bypass_loop(read: Data, rng: random.Random, _: list[str]) -> bool:
    """A step behind a loop waits for what the loop goes back to."""
    loops = {loop["at"]: loop["to"] for loop in read["loops"] if loop["to"] != "end"}
    groups = [
        group
        for step in read["steps"]
        if step["name"] not in loops.values()
        for group in step["after"]
        if any(name in loops for name in group["of"])
    ]
    group = _one(groups, rng)
    if group is not None:
        group["of"] = [loops.get(name, name) for name in group["of"]]
    return group is not None


def _drop_dependency(read: Data, rng: random.Random, _: list[str]) -> bool:
    steps = [step for step in read["steps"] if step["after"] and len(read["steps"]) > 2]
    step = _one(steps, rng)
    if step is not None:
        step["after"] = []
    return step is not None


def _drop_step(read: Data, rng: random.Random, _: list[str]) -> bool:
    if len(read["steps"]) < 2:
        return False
    gone = read["steps"].pop(rng.randrange(len(read["steps"])))
    for phase in [phase for kind in PHASES for phase in read[kind]]:
        for group in phase["after"]:
            group["of"] = [name for name in group["of"] if name != gone["name"]]
            group["need"] = min(group["need"], len(group["of"]))
        phase["after"] = [group for group in phase["after"] if group["of"]]
    working = {step["agent"] for step in read["steps"]}
    read["agents"] = [
        agent
        for agent in read["agents"]
        if agent["name"] != gone["agent"] or agent["name"] in working
    ]
    return True


def _ask_elsewhere(read: Data, rng: random.Random, _: list[str]) -> bool:
    question = _one([question for question in read["questions"] if question["before"]], rng)
    if question is None:
        return False
    others = [s["name"] for s in read["steps"] if s["name"] not in question["before"]]
    if others:
        question["before"] = [rng.choice(others)]
    return bool(others)


def _as_talk(read: Data, rng: random.Random, _: list[str]) -> bool:
    """A clause is taken for talk, and what came of it alone is gone."""
    entry = _one([entry for entry in read["ledger"] if entry["status"] == "used"], rng)
    if entry is None:
        return False
    entry["status"] = "talk"
    for kind in (key for key, value in read.items() if isinstance(value, list) and key != "ledger"):
        read[kind] = [part for part in read[kind] if part["clauses"] != [entry["clause"]]]
    return True


MUTATIONS: dict[str, Mutation] = {
    "a step dropped": _drop_step,
    "a dependency dropped": _drop_dependency,
    "a quorum lowered": _lower_quorum,
    "a condition dropped": _drop_condition,
    "a condition turned round": _turn_condition,
    "a loop dropped": _drop("loops"),
    "a loop that goes elsewhere": _send_elsewhere,
    "a loop's bound raised or dropped": _bound,
    "a loop bypassed": _bypass_loop,
    "a question dropped": _drop("questions"),
    "a question before another step": _ask_elsewhere,
    "a right added": _add_right,
    "a right dropped": _drop("rights"),
    "a right of more agents": _widen_right,
    "a right to one more tool": _add_tool,
    "`only` as `may`": _turn("only"),
    "`never` as `may`": _turn("never"),
    "`ask` as `may`": _turn("ask"),
    "an audience dropped": _drop("readers"),
    "an audience widened": _widen_audience,
    "a setting dropped": _drop("settings"),
    "a clause taken for talk": _as_talk,
}


def _read(found: Recording, reading: Data) -> CompiledPrompt:
    return read_reply(clauses_of(found.case.prompt), json.dumps(reading), found.registry)


def _crew(compiled: CompiledPrompt) -> Any:
    """What the crew means; none where there is none, or none that could run."""
    if compiled.definition is None:
        return None
    try:
        return meaning(compiled.definition)
    except InvalidDefinition:
        return None


@dataclass(frozen=True)
class Count:
    """Mutations of honest readings."""

    counted: Counter[str]
    """How many there are of each kind."""
    noticed: Counter[str]
    missed: tuple[str, ...]
    alarms: tuple[str, ...]
    """Faults in honest readings, outside the words that no reader can put into a crew."""
    parts: int
    """Parts of the honest readings, accounts of clauses included."""


@cache
def count(*, held: bool = False) -> Count:
    """Mutates the recorded readings: the chosen ones and the sentences, or those held out."""
    honest = tuple(_honest(held_out() if held else (*chosen(), *sentences())))
    alarms = [
        f"{found.case.name}: {message}" for found, _ in honest for message in found.outcome(1)[1]
    ]
    parts = sum(
        len(value) for _, read in honest for value in read.values() if isinstance(value, list)
    )
    return Count(*_mutated(honest), tuple(alarms), parts)


def _honest(recorded: Iterable[Case]) -> Iterator[tuple[Recording, Data]]:
    """The recorded first replies that make the expected crew, whatever the verifier finds."""
    for case in recorded:
        each = recording(case)
        compiled = each.read(1)
        if compiled.definition is not None and not case.differences(compiled.definition):
            yield each, json.loads(each.replies[0])


def _mutated(
    honest: Iterable[tuple[Recording, Data]],
) -> tuple[Counter[str], Counter[str], tuple[str, ...]]:
    """How many mutations of each kind count, how many of them are noticed, and which are not."""
    rng = random.Random(SEED)  # noqa: S311 - a seeded draw, no secret
    counted: Counter[str] = Counter()
    noticed: Counter[str] = Counter()
    missed: list[str] = []
    for found, original in honest:
        plain = _read(found, original)
        if plain.faults:
            continue
        for what, mutate in MUTATIONS.items():
            for _ in range(TRIES):
                reading = copy.deepcopy(original)
                if not mutate(reading, rng, list(found.registry.tools)):
                    continue
                compiled = _read(found, reading)
                if not compiled.faults and _crew(compiled) == _crew(plain):
                    continue
                counted[what] += 1
                noticed[what] += bool(compiled.faults)
                if not compiled.faults:
                    missed.append(f"{found.case.name}: {what}")
    return counted, noticed, tuple(missed)


def mutation_table() -> str:
    """The mutations as a table of the docs."""
    found = count()
    rows = [
        f"| {what} | {found.noticed[what]} of {found.counted[what]} |"
        for what in MUTATIONS
        if found.noticed[what] < found.counted[what]
    ]
    rest = [what for what in MUTATIONS if found.noticed[what] == found.counted[what]]
    rows.append(f"| {len(rest)} other kinds | all {sum(found.counted[what] for what in rest)} |")
    rows.append(f"| **together** | {_share(found.noticed.total(), found.counted.total())} |")
    rows.append(f"| honest parts reported | {_share(len(found.alarms), found.parts)} |")
    held = count(held=True)
    rows.append(f"| held out: noticed | {_share(held.noticed.total(), held.counted.total())} |")
    rows.append(f"| held out: honest parts reported | {_share(len(held.alarms), held.parts)} |")
    return "\n".join(["| mutation | noticed |", "| --- | --- |", *rows])


def reading_table() -> str:
    """How the corpus and the recorded prompts come out, as a table of the docs."""
    rows = [
        "| reader and prompts | exact | refused | wrong in silence |",
        "| --- | --- | --- | --- |",
    ]
    for what, corpus in (
        ("forms: controlled", [*cases("controlled")]),
        ("forms: free, and in other words", [*cases("free"), *other_words()]),
    ):
        outcomes = Counter(
            outcome_of(case, compile_prompt(case.prompt, Registry.model_validate(case.registry)))[0]
            for case in corpus
        )
        rows.append(_row(what, outcomes, len(corpus)))
    for what, recorded in (
        ("model, first reply: free", [case for case in chosen() if case.kind == "free"]),
        ("model, first reply: controlled", [case for case in chosen() if case.kind != "free"]),
        ("model, first reply: single sentences", [*sentences()]),
        ("model, first reply: held out", [*held_out()]),
    ):
        first = Counter(recording(case).outcome(1)[0] for case in recorded)
        last = Counter(recording(case).outcome(99)[0] for case in recorded)
        rows.append(_row(what, first, len(recorded)))
        rows.append(_row(what.replace("first reply", "after repairs"), last, len(recorded)))
    return "\n".join(rows)


def _row(what: str, found: Counter[Any], of: int) -> str:
    return f"| {what} | {found['exact']} of {of} | {found['refused']} | {found['wrong']} |"


def _share(some: int, of: int) -> str:
    return f"{some:,} of {of:,} ({100 * some / of:.1f} %)"


def with_tables(page: str) -> str:
    """The page with its tables as they are measured now."""
    for name, table in (("mutations", mutation_table()), ("readings", reading_table())):
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        page = pattern.sub(lambda _, t=table, a=start, b=end: f"{a}\n{t}\n{b}", page)
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{mutation_table()}\n\n{reading_table()}\n")
