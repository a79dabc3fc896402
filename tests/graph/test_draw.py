# ruff: noqa: E501  (tables of cases: a case is a line)
"""Pictures: golden ones that were looked at, and properties of all."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from crewlog.graph.plan import Ask, GraphPlan, PlanNode
from crewlog.ids import NodeName
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.drawing.terminal import terminal_drawing
from graph.crews import flows, flutter, plan_of
from graph.simulation import Replies, run
from pace import assert_within

GOLDEN: list[tuple[list[Any], str]] = [
    (
        ["collector", "writer", "checker", {"if": "not ok", "go": "writer", "at_most": 3, "else": "ask_human"}],
        """
 collector ── writer ── checker ── ◇ after_checker ── done

↺ after_checker: not ok → writer (≤ 3), else ask_human
""",
    ),
    (
        ["a", ["bb", "cccccc", "d"], "join"],
        """
    ┌─ bb ─────┐
 a ─┼─ cccccc ─┼─ join ── done
    └─ d ──────┘
""",
    ),
    (
        ["a", {"parallel": ["b", "c", "d", "e"], "join": 2}, "f"],
        """
    ┌─ b ─┐
    ├─ c ─┤
 a ─┤     ├─ f (2 of 4) ── done
    ├─ d ─┤
    └─ e ─┘
""",
    ),
    (
        ["a", ["b", "c"], ["d", "e"], "f"],
        """
    ┌─ b ─┬─ d ─┐
 a ─┤     │     ├─ f ── done
    └─ c ─┴─ e ─┘
""",
    ),
    (
        ["a1", "a2", "a3", {"agent": "b1", "after": []}, {"agent": "j", "after": {"any": ["a3", "b1"]}}],
        """
 ┌─ a1 ── a2 ── a3 ─┐
─┤                  ├─ j (any) ── done
 └─ b1 ─────────────┘
""",
    ),
    (
        [
            "triage",
            {"if": "ok", "go": "hotfix"},
            "develop",
            {"agent": "hotfix", "after": "go"},
            {"ask": "Publish?", "after": {"any": ["develop", "hotfix"]}, "options": ["yes", "stop"]},
        ],
        """
 triage ── ◇ after_triage ── develop ──┐
                                       ├─ ? ask_1 (any) ── done
                             ⇢ hotfix ─┘

⇢ after_triage: ok → hotfix
? ask_1: Publish? [yes / stop → done]
""",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("flow", "expected"), GOLDEN)
def test_golden_pictures(flow: list[Any], expected: str) -> None:
    assert "\n" + terminal_drawing(plan_of(flow)) == expected


def test_the_flutter_crew() -> None:
    assert (
        "\n" + terminal_drawing(flutter())
        == """
 ┌─ ui_designer ─┐
─┤               ├─ aggregator ── audio (when backend.models_ready) ── done
 └─ backend ─────┘
"""
    )
    statuses = {"ui_designer": "done", "backend": "running", "aggregator": "waiting"}
    shown = terminal_drawing(flutter(), statuses)
    assert "✓ ui_designer" in shown
    assert "● backend" in shown
    assert "◌ aggregator" in shown
    colored = terminal_drawing(flutter(), statuses, color=True)
    assert "\x1b[32m✓ ui_designer\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == shown


def test_a_long_crew_goes_on_in_bands() -> None:
    shown = terminal_drawing(plan_of([f"agent_{i}" for i in range(30)]), width=80)
    lines = [line for line in shown.splitlines() if line]
    assert all(len(line) <= 80 for line in lines)
    assert re.findall(r"agent_\d+", shown) == [f"agent_{i}" for i in range(30)]
    assert all(line.endswith("┄") for line in lines[:-1])
    assert all(line.startswith("┄") for line in lines[1:])


def test_lines_that_cannot_be_told_apart_are_said_in_words() -> None:
    flow = [["a", "b", "c"], {"agent": "x", "after": ["a", "b"]}, {"agent": "y", "after": ["b", "c"]},
            {"agent": "z", "after": ["a", "c"]}]  # fmt: skip
    shown = terminal_drawing(plan_of(flow))
    assert "⋈ z waits for a and c" in shown


def test_mermaid_of_the_flutter_crew() -> None:
    shown = mermaid(flutter(), {"backend": "running", "ui_designer": "done"})
    assert shown.startswith("flowchart LR\n")
    for line in (
        'n0("ui_designer")',
        "start --> n0",
        "n1 --> n2",
        'n2 -->|"when backend.models_ready"| n3',
        "n3 --> done",
        "class n0 done",
        "class n1 running",
    ):
        assert f"    {line}\n" in shown
    assert "classDef failed" not in shown


def test_mermaid_shows_decisions_loops_and_questions() -> None:
    loop = {"if": "not ok", "go": "a", "at_most": 3, "else": "fail"}
    shown = mermaid(plan_of(["a", loop, {"ask": 'Ship "it"?', "options": ["a", "stop"]}]))
    assert 'n1{"not ok?"}' in shown
    assert 'n1 -.->|"not ok (≤ 3)"| n0' in shown
    assert 'n1 -.->|"else fail"| done' in shown
    assert 'n2{{"Ship #34;it#34;?"}}' in shown
    assert 'n2 -.->|"stop"| done' in shown


ASKED: list[tuple[dict[str, Any], list[str], bool, str]] = [
    ({}, ["reject"], True, "approve / reject → done"),
    ({"options": ["yes", "no"], "sets": "buy"}, [], True, "yes / no"),
    ({"options": ["yes", "no"], "sets": "buy", "words": True}, [], True, "yes / no / any words"),
    ({"options": ["yes", "stop"], "sets": "buy"}, ["stop"], True, "yes / stop → done"),
    ({"options": ["yes", "end"]}, ["end"], True, "yes / end → done"),
    ({"options": ["yes"]}, [], True, "yes"),
    ({"options": ["boss", "other"]}, [], False, "boss / other"),
    ({"options": ["other", "stop"]}, ["stop"], False, "other / stop → done"),
]


@pytest.mark.parametrize(("question", "ends", "on", "noted"), ASKED)
async def test_answers_are_drawn_where_they_lead(
    question: dict[str, Any], ends: list[str], on: bool, noted: str
) -> None:
    """And where they lead is what the engine does with each of them."""
    other = [{"agent": "other", "after": "go"}] if "other" in question.get("options", ()) else []
    plan = plan_of(["a", {"ask": "Buy?", **question}, "boss", *other])
    lines = mermaid(plan).splitlines()
    assert [line for line in lines if line.startswith("    n1 ") and line.endswith("done")] == [
        f'    n1 -.->|"{option}"| done' for option in ends
    ]
    assert ("    n1 --> n2" in lines) is on
    assert f"? ask_1: Buy? [{noted}]" in terminal_drawing(plan)
    options = plan.nodes[NodeName("ask_1")].ask.options  # type: ignore[union-attr]
    for option in [*options, *(["maybe"] if question.get("words") else [])]:
        sim = await run(plan, Replies({}))
        before = len(sim.ran())
        assert (await sim.answer(option)).error is None
        await sim.run()
        leads = "done" if option in ends else option if option in plan.nodes else "boss"
        went = [step.partition("#")[0] for step in sim.ran()[before:]]
        assert went == ([] if leads == "done" else [leads])
        assert (sim.state.status == "stopped") is (option in ends)
        named = [line for line in lines if line.startswith(f'    n1 -.->|"{option}"|')]
        if leads == "boss" and option != "boss":
            assert not named
        else:
            ids = {"boss": "n2", "other": "n3", "done": "done"}
            assert named == [f'    n1 -.->|"{option}"| {ids[leads]}']


def test_a_question_that_nothing_waits_for_is_drawn_to_the_end_only_if_it_may_end() -> None:
    back = plan_of(["a", "b", {"ask": "Which?", "options": ["a", "b", "stop"]}])
    asked = back.nodes["ask_1"]
    only = asked.model_copy(update={"ask": Ask(question="Which?", options=("a", "b"))})
    back = back.model_copy(update={"nodes": {**back.nodes, "ask_1": only}})
    assert terminal_drawing(back).splitlines()[0] == " a ── b ── ? ask_1"
    assert "--> done" not in mermaid(back)
    some = plan_of(["a", {"ask": "Go on?", "options": ["a", "stop"]}])
    assert "ask_1 ── done" in terminal_drawing(some)
    assert "n1 --> done" not in mermaid(some)
    assert "n1 --> done" in mermaid(plan_of(["a", {"ask": "Go on?"}]))


HOSTILE = 'x"]; click n0 "javascript:alert(1)" <script>`#quot;&\n%%{init}%%\x1b[31m\x07\u202e'


def test_hostile_texts_reach_neither_mermaid_nor_the_terminal() -> None:
    ask = PlanNode(kind="ask", entry=True, ask=Ask(question=HOSTILE, options=(HOSTILE, "no")))
    plan = plan_of(["a"])
    plan = plan.model_copy(update={"nodes": {HOSTILE: ask, "a": plan.nodes["a"]}})
    drawn = mermaid(plan)
    for label in re.findall(r'"([^"]*)"', drawn):
        assert not set(label) & set("<>`&%{}[]\x1b\n")
    assert len(drawn.splitlines()) == len(
        mermaid(plan_of(["a", {"ask": "x", "after": []}])).splitlines()
    )
    shown = terminal_drawing(plan)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(flows())
def test_every_picture_fits_and_shows_every_node_once(flow: list[Any]) -> None:
    plan = plan_of(flow)
    for width in (60, 120):
        shown = terminal_drawing(plan, width=width)
        body = shown.split("\n\n↺")[0]
        assert all(len(line) <= width for line in shown.splitlines())
        for name in plan.nodes:
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", body)
    assert mermaid(plan).count(" --> done") >= 1


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(flows())
def test_lines_lead_where_the_plan_says(flow: list[Any]) -> None:
    plan = plan_of(flow)
    shown = terminal_drawing(plan, width=10_000)
    if "⋈" in shown:
        return
    lines = shown.split("\n\n")[0].splitlines()
    for name, sources in traced(lines).items():
        if name in plan.nodes:
            wanted = ancestors(plan, name)
            join = plan.nodes[name].join
            assert sources - {""} <= wanted
            if join is not None and join.need < len(join.of):
                assert sources == set(join.of)


def ancestors(plan: GraphPlan, name: str) -> set[str]:
    seen: set[str] = set()
    stack = [name]
    while stack:
        join = plan.nodes[stack.pop()].join
        for source in join.of if join else ():
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return seen


SIDES = {"─": "lr", "┘": "lu", "└": "ru", "┐": "ld", "┌": "rd", "┬": "lrd", "┴": "lru", "│": "ud"}
SIDES |= {"┤": "lud", "├": "rud", "┼": "lrud", "╴": "l", "╶": "r", "╵": "u", "╷": "d"}
STEPS = {"l": (0, -1, "r"), "r": (0, 1, "l"), "u": (-1, 0, "d"), "d": (1, 0, "u")}


def traced(lines: list[str]) -> dict[str, set[str]]:
    """What a reader finds who follows the lines backwards: the sources of each node, by name."""
    grid = {(r, c): ch for r, line in enumerate(lines) for c, ch in enumerate(line) if ch != " "}
    boxes: dict[tuple[int, int], str] = {}
    starts: dict[str, tuple[int, int]] = {}
    for r, line in enumerate(lines):
        for match in re.finditer(r"(?:[◇?⇢] )*(\w+)(?: \([^)]*\))?", line):
            starts[match[1]] = (r, match.start() - 2)
            boxes[r, match.end() + 1] = match[1]
    found: dict[str, set[str]] = {}
    for name, (row, column) in starts.items():
        sources: set[str] = set()
        stack, seen = [(row, column, "r")], set[tuple[int, int, str]]()
        while stack:  # walk to the left only: what enters a cell from its right or its ends
            r, c, came = at = stack.pop()
            if at in seen or came not in SIDES.get(grid.get((r, c), ""), ""):
                if grid.get((r, c)) == "│" and came == "r":  # a crossing: the line goes under
                    stack.append((r, c - 1, "r"))
                continue
            seen.add(at)
            if (r, c) in boxes:
                sources.add(boxes[r, c])
            for side in SIDES[grid[r, c]]:
                if side not in (came, "r"):
                    down, right, entered = STEPS[side]
                    stack.append((r + down, c + right, entered))
        found[name] = sources
    return found


def test_two_wide_layers_are_drawn_without_looking_at_every_pair_of_lines() -> None:
    wide = [[f"{side}{i}" for i in range(100)] for side in "ab"]
    plan, drawn = plan_of([*wide, "end_"]), list[str]()
    assert_within(
        10, lambda: drawn.append(terminal_drawing(plan))
    )  # in the time of all pairs: a minute
    assert sum("a" in line for line in drawn[0].splitlines()) >= 100


def full() -> GraphPlan:
    """Everything that a phase may say of when and how it runs."""
    flow = [
        "planner",
        {"ask": "Publish?", "only_if": "ok"},
        [
            {"agent": "worker", "for_each": "planner.topics"},
            {"agent": "cleaner", "needs": ["delete", "read"]},
        ],
        {"agent": "idle", "only_if": "ok"},
    ]
    agents: dict[str, Any] = {"planner": {"outputs": ["topics"]}, "idle": {"enabled": False}}
    tools = {name: {"run": "m:f"} for name in ("delete", "read")}
    return plan_of(flow, agents, tools=tools, approvals={"delete": ["cleaner"]})


def test_tools_that_rules_ask_about_are_drawn() -> None:
    tools = {name: {"run": "m:f"} for name in ("delete", "read", "send")}
    rules = [
        {"tool": "delete", "do": "ask", "if": "ok"},
        {"tool": "send", "do": "ask", "agents": ["a"]},
        {"tool": "send", "do": "never", "agents": ["b"]},
    ]
    agents: dict[str, Any] = {"a": {}, "b": {"writes_flags": ["ok"]}}
    plan = plan_of(["a", "b"], agents, tools=tools, rules=rules, approvals={"send": ["b"]})
    text = terminal_drawing(plan, width=140)
    assert "? a: asks before delete and send" in text
    assert "? b: asks before delete" in text
    assert "? b: asks before delete and" not in text


def test_a_tool_that_an_agent_can_never_call_is_not_asked_about() -> None:
    tools = {name: {"run": "m:f"} for name in ("drop", "send")}
    agents: dict[str, Any] = {
        "a": {"tools": ["send"]},
        "b": {"tools": ["drop", "send"], "parent": "a"},
    }
    plan = plan_of(["a", "b"], agents, tools=tools, approvals={"drop": None, "send": ["a"]})
    assert "? b: asks before send\n" in f"{terminal_drawing(plan, width=140)}\n"


def test_conditions_needs_lists_and_approvals_are_drawn() -> None:
    text = terminal_drawing(full(), width=140)
    for words in (
        "? ask_1 (if ok)",
        "worker (each planner.topics)",
        "cleaner (needs delete + read)",
        "idle (off, if ok)",
        "\n? cleaner: asks before delete\n",
    ):
        assert words in text
    chart = mermaid(full())
    for words in (
        '("cleaner, asks before delete")',
        '("idle (off)")',
        '-->|"if ok"| n1',
        '-->|"each planner.topics"| n2',
        '-->|"needs delete #43; read"| n3',
    ):
        assert words in chart


def test_notes_are_folded_between_words_and_never_cropped() -> None:
    to = ["health", "registry", "memory", "general"]
    flow = [{"route": "r.next", "to": to, "else": "general", "phase": "way"}]
    spokes = [{"agent": name, "after": "go"} for name in to]
    plan = plan_of(["r", *flow, *spokes], {"r": {"reply": "route"}})
    (whole,) = (
        n for n in terminal_drawing(plan, width=40, folds=False).splitlines() if "way:" in n
    )
    lines = terminal_drawing(plan, width=40).splitlines()
    note = lines[next(i for i, line in enumerate(lines) if "way:" in line) :]
    assert all(len(line) <= 40 for line in note)
    assert " ".join(line.strip() for line in note) == whole
    assert whole.endswith("else general")


def test_what_a_box_has_no_room_for_is_noted_beneath() -> None:
    long = "a.text and a.text and (a.text or a.text) and a.text"
    plan = plan_of(
        ["a", {"agent": "b", "only_if": long, "for_each": "a.steps", "at_once": 2}],
        {"a": {"outputs": ["steps"]}},
    )
    for width in (40, 100):
        text = terminal_drawing(plan, width=width, folds=False)
        assert f"… b: if {long}, each a.steps, 2 at a time" in text
    assert "a ── b (…) ── done" in terminal_drawing(plan, width=40)
