"""No pattern of the grammar backtracks for ever, whatever it is given within the bounds.

Patterns are found where they stand, in tables and in functions, and each is tried on strings made
of itself (`hostile`). What is slow at the bound is looked at: its time may grow with the cube of
the length and no faster.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from types import FrameType, ModuleType

import pytest
from tests.prompt.hostile import Hostile

from crewlog.prompt import grammar
from crewlog.prompt.grammar.phrase import pattern as macros

LENGTH = 480
"""Characters: a clause of the most words that are read."""
LIMIT = 0.3
"""Seconds for one string: some forty times what the slowest takes."""
SUSPECT = 0.02
"""From there on, seconds are looked at more closely."""
ENOUGH = 0.1
"""Seconds of all tries of one string, where they are looked at more closely."""
STEEPEST = {"fullmatch": 2**3.5, "match": 2**3.5, "search": 2**4.5}
"""How much longer twice the length may take: the cube, and what clocks are off by. A search begins
anew at each place, which is one power more."""
MODULES = tuple(
    importlib.import_module(f"{grammar.__name__}.{found.name}")
    for found in pkgutil.iter_modules(grammar.__path__)
)
WAYS = ("fullmatch", "match", "search")


class _TooSlowError(Exception):
    pass


def _patterns(module: ModuleType) -> dict[str, re.Pattern[str]]:
    """Every pattern that a module holds, by the name it is found under."""
    found: dict[str, re.Pattern[str]] = {}
    for name, value in vars(module).items():
        if not name.startswith("__"):
            found.update(_within(value, name, set()))
    found.update(_in_functions(module))
    return found


def _of_all() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The patterns of each module, each of them once: modules share tables."""
    seen: set[str] = set()
    out: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for module in MODULES:
        mine = out[module.__name__.rpartition(".")[2]] = []
        for name, found in _patterns(module).items():
            if found.pattern not in seen:
                seen.add(found.pattern)
                mine.append((name, found))
    return out


def _within(value: object, name: str, seen: set[int]) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern):
        yield name, value  # pyright: ignore[reportUnknownVariableType]
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    elif type(value).__module__.startswith(grammar.__name__):
        parts = [getattr(value, slot, None) for slot in getattr(value, "__slots__", ())]
        parts += list(getattr(value, "__dict__", {}).values())
    else:
        return
    for at, part in enumerate(parts):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        yield from _within(part, f"{name}[{at}]", seen)  # pyright: ignore[reportUnknownArgumentType]


def _in_functions(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """What `re.search("…", text)` and its like compile."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, first = ast.unparse(node.func), node.args[0]
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            continue
        if called == "pattern":
            yield f"line {node.lineno}", macros(first.value)
        elif called.startswith("re.") and called != "re.escape":
            yield f"line {node.lineno}", re.compile(first.value)


def _seconds(pattern: re.Pattern[str], way: str, text: str) -> float:
    """What one try takes; infinite where it takes much longer than the limit."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlowError

    # The processor's time, not the clock's: a busy machine makes no pattern slow.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 3 * LIMIT)
    start = time.process_time()
    try:
        getattr(pattern, way)(text)
        return time.process_time() - start
    except _TooSlowError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _mean(pattern: re.Pattern[str], way: str, text: str) -> float:
    """Seconds of one try, of so many that a clock of ten milliseconds can tell."""
    tries, total = 0, 0.0
    while total < ENOUGH:
        total += _seconds(pattern, way, text)
        tries += 1
    return total / tries


def fault(pattern: re.Pattern[str]) -> str:
    """What is wrong with a pattern; empty where nothing is."""
    for lead, pump in Hostile(pattern).pumps():
        halves = Hostile.grown(lead, pump, LENGTH // 2)
        for half, text in zip(halves, Hostile.grown(lead, pump, LENGTH), strict=True):
            for way in WAYS:
                taken = _seconds(pattern, way, text)
                if LIMIT < taken < float("inf"):
                    taken = _seconds(pattern, way, text)
                if taken > LIMIT:
                    return f"{way} takes {taken:.2f} s: {lead!r} + {pump!r} × …"
                if taken > SUSPECT:
                    grown = _mean(pattern, way, text) / _mean(pattern, way, half)
                    if grown > STEEPEST[way]:
                        return f"{way} takes {grown:.0f} × for 2 ×: {lead!r} + {pump!r} × …"
    return ""


PATTERNS = _of_all()


@pytest.mark.parametrize("module", PATTERNS)
def test_no_pattern_backtracks_for_ever(module: str) -> None:
    faults = {name: found for name, p in PATTERNS[module] if (found := fault(p))}
    assert not faults


def test_all_patterns_are_found() -> None:
    assert {"BOUND", "SUBORDINATE"} <= {name for name, _ in PATTERNS["order"]}
    assert {name.partition("[")[0] for name, _ in PATTERNS["leads"]} >= {"LEADS", "TRAILS"}
    assert any(name.startswith("line ") for found in PATTERNS.values() for name, _ in found)


AND = r"(?: (?:,|and|, then)(?: then)? )"


@pytest.mark.parametrize(
    "text",
    [
        rf"only @[0-9]+(?:{AND}@[0-9]+)* may use it",
        r"it (?:(?:is|are|comes?|come) )*done",
        r"(?:(?:with|it|take|in total) ?(?:should )?(?:take |run |it )?,? ?)*at most [0-9]+ steps",
        r"(?:(?:it|the [a-z ]{1,30}|everything|@[0-9]+) ){0,9}?back to (?:the [a-z ]{1,30}? )?@[0-9]+",
        r"it is called(?: ?,? ?(?:always|every time|first))*",
        r"(?:[a-z]+ ?)+:",
        r"(?:a|b|ab)*c",
        r"the [a-z ]+ [a-z ]+ [a-z ]+ [a-z ]+ @",
    ],
)
def test_patterns_that_backtrack_are_told(text: str) -> None:
    assert fault(re.compile(text))


@pytest.mark.parametrize(
    "text",
    [
        r"only @[0-9]+(?: (?:,|and) @[0-9]+)* may use it",
        r"it (?:(?:is|are|comes?) )*done",
        r"(?:(?:with|it|in total) ){0,6}+at most [0-9]+ steps",
        r"the [a-z ]+ of [a-z ]+",
        r"(?>[a-z]+ ?)++:",
    ],
)
def test_patterns_that_do_not_are_left_alone(text: str) -> None:
    assert fault(re.compile(text)) == ""
