"""Parts of a reading that cannot both hold: rights to one tool, and bounds of the run."""

from __future__ import annotations

from itertools import combinations, islice

from crewlog.definition.findings import listed
from crewlog.prompt import reading as r
from crewlog.prompt.obligations import LIMITS
from crewlog.prompt.proof import Proof

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
    quotas: dict[tuple[str, tuple[str, ...]], r.Right] = {}
    for right in proof.read.rights:
        for tool in right.tools if right.quota else ():
            first_right = quotas.setdefault((tool, right.agents), right)
            if first_right.quota != right.quota:
                say = f"two quotas for {tool!r}: {first_right.quota} and {right.quota}"
                _report(proof, say, first_right, right)
    loops: dict[tuple[str, str, str], r.Loop] = {}
    for loop in proof.read.loops:
        first_loop = loops.setdefault((loop.at, loop.if_, loop.to), loop)
        if (first_loop.at_most, first_loop.then) != (loop.at_most, loop.then):
            _report(proof, f"two bounds of the loop to {loop.to!r}", first_loop, loop)
    audiences: dict[str, r.Readers] = {}
    for said in proof.read.readers:
        first_said = audiences.setdefault(said.of, said)
        if said.of != "*" and not {*first_said.readers} & {*said.readers}:
            _report(
                proof, f"two audiences of {said.of!r} without an agent in both", first_said, said
            )
    known: dict[str, r.Setting] = {}
    for setting in proof.read.settings:
        if setting.key in LIMITS:
            first = known.setdefault(setting.key, setting)
            if first.value != setting.value:
                say = f"two bounds are said for {setting.key}: {first.value} and {setting.value}"
                _report(proof, say, first, setting)


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
