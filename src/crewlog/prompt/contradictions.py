"""Parts of a reading that cannot both hold: rights to one tool, and bounds of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from typing import TypeVar

from crewlog.definition.findings import listed
from crewlog.prompt import reading as r
from crewlog.prompt.obligations import LIMITS
from crewlog.prompt.proof import Proof

K = TypeVar("K")
P = TypeVar("P", bound=r.Part)
_MOST_PAIRS = 10_000
"""Pairs of rights to one tool that are held against each other."""


def check_contradictions(proof: Proof) -> None:
    """Finds rights that allow and forbid the same, and two bounds of one kind."""
    by_tool: dict[str, dict[tuple[str, frozenset[str]], r.Right]] = {}
    for right in proof.read.rights:
        if not right.if_ and not right.quota:
            for tool in right.tools:
                key = (right.effect, frozenset(right.agents))
                by_tool.setdefault(tool, {}).setdefault(key, right)
    for tool, rights in by_tool.items():
        for one, other in islice(combinations(rights.values(), 2), _MOST_PAIRS):
            if why := _at_odds(one, other):
                _report(proof, f"{why} {tool!r}", one, other)
    _check_bounds(proof)


def _check_bounds(proof: Proof) -> None:
    """Finds two bounds of one kind: quotas, loops, audiences and limits of the run."""
    read = proof.read
    quotas = [((tool, x.agents), x) for x in read.rights if x.quota for tool in x.tools]
    for (tool, _), one, other in _of_one_kind(quotas):
        if one.quota != other.quota:
            say = f"two quotas for {tool!r}: {one.quota} and {other.quota}"
            _report(proof, say, one, other)
    for (_, _, to), first, loop in _of_one_kind([((x.at, x.if_, x.to), x) for x in read.loops]):
        if (first.at_most, first.then) != (loop.at_most, loop.then):
            _report(proof, f"two bounds of the loop to {to!r}", first, loop)
    audiences = [(x.of, x) for x in read.readers if x.of != "*"]
    for of, few, others in _of_one_kind(audiences):
        if not {*few.readers} & {*others.readers}:
            _report(proof, f"two audiences of {of!r} without an agent in both", few, others)
    limits = [(x.key, x) for x in read.settings if x.key in LIMITS]
    for key, limit, another in _of_one_kind(limits):
        if limit.value != another.value:
            say = f"two bounds are said for {key}: {limit.value} and {another.value}"
            _report(proof, say, limit, another)


def _of_one_kind(parts: Iterable[tuple[K, P]]) -> Iterator[tuple[K, P, P]]:
    """Each further part of a kind with the first of it."""
    known: dict[K, P] = {}
    for kind, part in parts:
        first = known.setdefault(kind, part)
        if first is not part:
            yield kind, first, part


def _report(proof: Proof, say: str, one: r.Part, other: r.Part) -> None:
    clauses = tuple(dict.fromkeys((*one.clauses, *other.clauses)))
    proof.fault("contradiction", say, "Keep one of the two.", clauses)


def _at_odds(one: r.Right, other: r.Right) -> str:
    """Why two rights cannot both hold; empty where they can."""
    if other.effect in {"only", "never"} and one.effect != "never":
        one, other = other, one
    limited, others = set(one.agents), set(other.agents)
    match one.effect, other.effect:
        case "only", "only":
            return "two clauses limit to different agents the tool" if limited != others else ""
        case "only", "may":
            beyond = others - limited if others else {"every agent"}
            agents = listed(sorted(beyond))
            return f"{agents} gets a tool that is limited to other agents:" if beyond else ""
        case "never", "may" | "only":
            if both := limited & others:
                return f"{listed(sorted(both))} may and may not use"
            return "" if limited else "one clause allows and one forbids the tool"
        case _:
            return ""
