"""Pictures of a plan: Mermaid for web pages, box drawing for terminals.

Names and texts come from definitions, and a definition may be hostile: Mermaid labels are escaped,
control characters never reach a terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping

from crewlog.authority.permissions import EVERY_CREW_HAS, is_approval_required
from crewlog.definition.conditions import render_condition
from crewlog.definition.findings import listed
from crewlog.definition.times import duration_words
from crewlog.graph.loops import Loops
from crewlog.graph.lowering_pass import (
    ANY_WORDS,
    condition_branch_text,
    on_error_text,
    output_branch_text,
    wait_text,
)
from crewlog.graph.plan import ASK_HUMAN, END, NEXT, Ask, GraphPlan, PlanNode, Wait
from crewlog.ids import AgentName, NodeName, ToolName
from crewlog.reporting.box_characters import Box, box_lines, doubtful, text_width
from crewlog.reporting.layout import arrange, transitive_reduction
from crewlog.state.excerpt import shortened

START_KEY, END_KEY = "\0start", "\0end"
_GLYPHS = {"done": "✓", "running": "●", "waiting": "◌", "ready": "○", "failed": "✗"}
_COLORS = {"done": "32", "running": "1;36", "waiting": "33", "ready": "2", "failed": "1;31"}
_CLASSES = {
    "done": "fill:#d9f2df,stroke:#2e7d46,color:#12351e",
    "running": "fill:#d6eaff,stroke:#1b6ac9,color:#0b2f5b,stroke-width:3px",
    "waiting": "fill:#fff3cd,stroke:#b58105,color:#4d3800",
    "ready": "fill:#ffffff,stroke:#888888,color:#333333",
    "failed": "fill:#fde0e0,stroke:#c62828,color:#5c1010",
}
_LONGEST_CONDITION, _WHOLE = 40, 100_000
"""Characters of a condition in a box, and in a note."""


def clean(text: str) -> str:
    """One line without control, formatting or combining characters."""
    kept = (
        " " if c.isspace() else c
        for c in text
        if c.isspace() or (c.isprintable() and not unicodedata.combining(c))
    )
    return " ".join("".join(kept).split())


def _short(text: str, longest: int) -> str:
    return shortened(clean(text), longest)


# --- Mermaid -----------------------------------------------------------------------------------


def mermaid(plan: GraphPlan, statuses: Mapping[NodeName, str] | None = None) -> str:
    """The plan as a Mermaid flowchart; see `MermaidDrawing`."""
    return MermaidDrawing(plan).text(statuses or {})


class MermaidDrawing:
    """A plan as a Mermaid flowchart, to be coloured again and again.

    Agents are rounded, decisions diamonds, questions hexagons; ways of decisions, answers and
    `else` are dotted.
    """

    def __init__(self, plan: GraphPlan) -> None:
        self._ids = ids = {name: f"n{i}" for i, name in enumerate(plan.nodes)}
        lines = ["flowchart LR", "    start((start))"]
        lines += [f"    {ids[name]}{_shape(name, node, plan)}" for name, node in plan.nodes.items()]
        lines.append("    done([done])")
        for name, node in plan.nodes.items():
            lines += [f"    {way}" for way in _mermaid_edges(name, node, plan, ids)]
        lines += [f"    {ids[name]} --> done" for name in _last(plan)]
        self._plain = "\n".join(lines) + "\n"

    def text(self, statuses: Mapping[NodeName, str]) -> str:
        """The flowchart in colours.

        Args:
            statuses: `done`, `running`, `waiting`, `ready` or `failed`, by node.
        """
        nodes: dict[str, list[str]] = {status: [] for status in _CLASSES}
        for name, id_ in self._ids.items():
            if (status := statuses.get(name, "")) in nodes:
                nodes[status].append(id_)
        used = [status for status, of in nodes.items() if of]
        lines = [f"    classDef {status} {_CLASSES[status]}\n" for status in used]
        lines += [f"    class {','.join(nodes[status])} {status}\n" for status in used]
        return "".join([self._plain, *lines])


def _escaped(text: str) -> str:
    """Text inside a quoted Mermaid label: entities instead of what has a meaning there."""
    return "".join(
        c if c.isalnum() or c in " _-.,:=!?/()'→≤≥…" else f"#{ord(c)};" for c in clean(text)
    )


def _shape(name: NodeName, node: PlanNode, plan: GraphPlan) -> str:
    if node.decide is not None and node.decide.passes:
        return '(("' + _escaped(name) + '"))'
    if node.decide is not None:
        return '{"' + _escaped(f"{render_condition(node.decide.when)}?") + '"}'
    if node.route is not None:
        return '{"' + _escaped(f"{node.route.by}?") + '"}'
    if node.wait is not None:
        return '(["' + _escaped(f"{name}: {_wait(node.wait)}") + '"])'
    if node.ask is not None:
        return '{{"' + _escaped(_short(node.ask.question, 80)) + '"}}'
    who = ", ".join(node.agents)
    label = name if who in ("", str(name)) else f"{name}: {_short(who, 60)}"
    if _switched_off(node, plan):
        label += " (off)"
    if tools := _tools_with_approval(node, plan):
        label += _short(f", asks before {', '.join(tools)}", 80)
    return '("' + _escaped(label) + '")'


def _mermaid_edges(
    name: NodeName, node: PlanNode, plan: GraphPlan, ids: Mapping[NodeName, str]
) -> Iterator[str]:
    here = ids[name]
    label = _start_label(node)
    arrow = f'-->|"{_escaped(label)}"|' if label else "-->"
    if node.entry:
        yield f"start {arrow} {here}"
    for source in node.join.of if node.join else ():
        if _goes_on(plan.nodes[source], ids):
            yield f"{ids[source]} {arrow} {here}"
    for target, why in sent(node, ids):
        to = ids.get(target, "done")
        yield f'{here} -.->|"{_escaped(why)}"| {to}'


def _start_label(node: PlanNode, longest: int = _LONGEST_CONDITION) -> str:
    """What a node waits for, and how often it is visited; long conditions are cut."""
    parts: list[str] = []
    if node.join is not None and node.join.need < len(node.join.of):
        parts.append("any" if node.join.need == 1 else f"{node.join.need} of {len(node.join.of)}")
    if node.when is not None:
        parts.append(f"when {_short(render_condition(node.when), longest)}")
    if node.only_if is not None:
        parts.append(f"if {_short(render_condition(node.only_if), longest)}")
    if node.needs:
        parts.append(_short(f"needs {' + '.join(node.needs)}", longest))
    if node.for_each is not None:
        parts.append(f"each {_short(node.for_each, longest)}")
    if node.at_once is not None:
        parts.append(f"{node.at_once} at a time")
    return ", ".join(parts)


def _switched_off(node: PlanNode, plan: GraphPlan) -> bool:
    return bool(node.agents) and not any(plan.agents[each].enabled for each in node.agents)


def _tools_with_approval(node: PlanNode, plan: GraphPlan) -> list[str]:
    """The tools whose calls in a node wait for a person's yes."""
    found: dict[str, None] = {}
    for agent in node.agents:
        rules = plan.agents[agent]
        above = [each for each in rules.within if each in plan.agents]
        for tool in rules.tools:
            if all(_may(each, tool, plan) for each in (agent, *above)) and any(
                _asks(each, tool, plan) for each in (agent, *above)
            ):
                found[tool] = None
    return [*found]


def _may(agent: AgentName, tool: ToolName, plan: GraphPlan) -> bool:
    """Whether an agent may call a tool, once a person has said yes or a condition holds."""
    named = plan.permissions.get(tool)
    if tool not in plan.agents[agent].tools or (named is not None and agent not in named):
        return tool in EVERY_CREW_HAS
    rules = [rule for rule in plan.checks if rule.covers(agent, tool)]
    return not any(rule.do == "never" and rule.when is None for rule in rules)


def _asks(agent: AgentName, tool: ToolName, plan: GraphPlan) -> bool:
    """Whether an agent's calls of a tool wait for a yes, now or where a condition holds."""
    rules = [rule for rule in plan.checks if rule.covers(agent, tool)]
    return is_approval_required(agent, tool, plan.approvals) or any(r.do == "ask" for r in rules)


def _wait(wait: Wait) -> str:
    return f"until {wait_text(wait)}" if wait.until else wait_text(wait)


def _goes(ask: Ask, option: str, nodes: Collection[str]) -> str:
    """Where an answer goes: a node, `end`, or `next`; as `crewlog.graph.answers` does it."""
    if option in nodes:
        return option
    refuses = ask.sets is None and option == ask.options[-1] and len(ask.options) > 1
    return END if refuses or option == "stop" else NEXT


def _goes_on(node: PlanNode, nodes: Collection[str]) -> bool:
    """Whether the run can go on from a node to what waits for it."""
    ask = node.ask
    words = ask is not None and ask.words and ask.sets is not None
    return ask is None or words or any(_goes(ask, o, nodes) == NEXT for o in ask.options)


def sent(node: PlanNode, nodes: Collection[str]) -> Iterator[tuple[NodeName, str]]:
    """Where a node sends the run besides its joins, and why; not to people, and not just on."""
    if node.decide is not None and node.decide.passes:
        return
    if node.decide is not None:
        when = render_condition(node.decide.when)
        bound = f" (≤ {node.decide.at_most})" if node.decide.at_most is not None else ""
        yield node.decide.go, f"{when}{bound}"
        if node.decide.otherwise not in (NEXT, ASK_HUMAN):
            yield NodeName(node.decide.otherwise), f"else {node.decide.otherwise}"
    elif node.route is not None:
        for to in node.route.to:
            yield to, f"{node.route.by} is {to}"
        if node.route.otherwise not in (NEXT, ASK_HUMAN, *node.route.to):
            yield NodeName(node.route.otherwise), f"else {node.route.otherwise}"
    elif node.ask is not None:
        for option in dict.fromkeys(node.ask.options):
            goes = _goes(node.ask, option, nodes)
            if goes != NEXT:
                yield NodeName(goes), option
    else:
        if node.gives_way and node.otherwise not in (ASK_HUMAN, "skip"):
            yield NodeName(node.otherwise), "else"
        if node.stand_in is not None:
            yield node.stand_in, ON_ERROR


ON_ERROR = "on error"
"""The label of the way to a node that stands in where a step fails."""


def _last(plan: GraphPlan) -> list[NodeName]:
    """Nodes that nothing waits for, where the run goes on from them: there a branch of it ends."""
    return [
        name for name in _nodes_without_dependents(plan) if _goes_on(plan.nodes[name], plan.nodes)
    ]


def _nodes_without_dependents(plan: GraphPlan) -> list[NodeName]:
    waited = {source for node in plan.nodes.values() if node.join for source in node.join.of}
    return [name for name in plan.nodes if name not in waited]


# --- Terminal ----------------------------------------------------------------------------------


def picture(
    plan: GraphPlan,
    statuses: Mapping[NodeName, str] | None = None,
    width: int = 100,
    color: bool = False,
    *,
    folds: bool = True,
) -> str:
    """The plan as text: lanes from left to right, loops and questions noted beneath.

    A note is never cropped: what comes last in it, an `else` say, is often what is looked for.

    Args:
        plan: The plan.
        statuses: `done`, `running`, `waiting`, `ready` or `failed`, by node.
        width: The terminal's width; a longer picture goes on in a band beneath.
        color: Whether to colour nodes by status with ANSI codes.
        folds: Whether notes are folded at the width; else each is a line, however long.
    """
    width = max(width, 24)
    boxes: dict[str, Box] = {
        name: _box(
            name,
            node,
            (statuses or {}).get(name, ""),
            color,
            width - 10,
            off=_switched_off(node, plan),
        )
        for name, node in plan.nodes.items()
    }
    edges, ranking = _ways(plan)
    keys: list[str] = [*plan.nodes]
    last = _last(plan)
    edges += [
        (name, END_KEY)
        for name in _nodes_without_dependents(plan)
        if name in last or any(to == END for to, _ in sent(plan.nodes[name], plan.nodes))
    ]
    if any(target == END_KEY for _, target in edges):
        keys.append(END_KEY)
    entries = [name for name, node in plan.nodes.items() if node.entry]
    if len(entries) > 1:
        keys.insert(0, START_KEY)
        edges += [(START_KEY, name) for name in entries]
        boxes[START_KEY] = Box("")
    boxes[END_KEY] = Box("done")
    counted = [
        n for n, node in plan.nodes.items() if node.join and node.join.need < len(node.join.of)
    ]
    layers = arrange(keys, transitive_reduction(edges, [*counted, *entries]), ranking)
    lines = box_lines(layers, boxes, width)
    unclear, loops = doubtful(layers), Loops(plan)
    notes = [
        line
        for name, node in plan.nodes.items()
        for note in (
            *_cut(name, node, boxes[name].text),
            *_notes(name, node, plan, name in unclear, loops),
        )
        for line in (_folded(clean(note), width) if folds else [clean(note)])
    ]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _cut(name: NodeName, node: PlanNode, shown: str) -> Iterator[str]:
    """What a node's box says in part."""
    if (whole := clean(_start_label(node, _WHOLE))) and f"{whole})" not in shown:
        yield f"… {name}: {whole}"


def _folded(note: str, width: int) -> list[str]:
    """A note as lines, broken between words; those after the first are indented."""
    lines = [""]
    for word in note.split(" "):
        if lines[-1].strip() and text_width(f"{lines[-1]} {word}") > width:
            lines.append(" " * 4 + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _box(
    name: NodeName, node: PlanNode, status: str, color: bool, longest: int, *, off: bool
) -> Box:
    sign = {"decide": "◇ ", "route": "◇ ", "ask": "? ", "wait": "◔ "}.get(node.kind, "")
    if node.decide is not None and node.decide.passes:
        sign = "· "
    if node.join is None and not node.entry:
        sign = f"⇢ {sign}"
    glyph = f"{_GLYPHS[status]} " if status in _GLYPHS else ""
    label = ", ".join(part for part in ("off" if off else "", _start_label(node)) if part)
    text = f"{glyph}{sign}{name}" + (f" ({label})" if label else "")
    if len(text) > longest and _start_label(node):
        text = f"{glyph}{sign}{name} ({'off, ' if off else ''}…)"  # it is noted beneath
    code = _COLORS.get(status, "") if color else ""
    return Box(_short(text, longest), code)


def _ways(plan: GraphPlan) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The joins as edges; and for a node that is only sent to, who sends, for its place."""
    edges: list[tuple[str, str]] = [
        (source, name) for name, node in plan.nodes.items() if node.join for source in node.join.of
    ]
    order = {name: i for i, name in enumerate(plan.nodes)}
    ranking: list[tuple[str, str]] = []
    for name, node in plan.nodes.items():
        for target, _ in sent(node, plan.nodes):
            goal = plan.nodes.get(target)
            if goal is None or goal.join is not None or goal.entry or order[name] > order[target]:
                continue
            if not _reaches(target, name, [*edges, *ranking]):
                ranking.append((name, target))
    return edges, ranking


def _reaches(start: str, goal: str, edges: list[tuple[str, str]]) -> bool:
    seen, stack = {start}, [start]
    while stack:
        here = stack.pop()
        if here == goal:
            return True
        more = [target for source, target in edges if source == here and target not in seen]
        seen.update(more)
        stack.extend(more)
    return False


def _notes(
    name: NodeName, node: PlanNode, plan: GraphPlan, unclear: bool, loops: Loops
) -> Iterator[str]:
    if unclear and node.join is not None:
        yield f"⋈ {name} waits for {listed(node.join.of)}"
    if node.decide is not None and node.decide.passes:
        return
    if node.decide is not None:
        mark = "↺" if loops.joins(name, node.decide.go) else "⇢"
        yield f"{mark} {name}: {condition_branch_text(node.decide)}"
    elif node.route is not None:
        yield f"⇢ {name}: {output_branch_text(node.route)}"
    elif node.ask is not None:
        ends = {option for target, option in sent(node, plan.nodes) if target == END}
        answers = [f"{option} → done" if option in ends else option for option in node.ask.options]
        answers += [ANY_WORDS] if node.ask.words else []
        yield f"? {name}: {clean(node.ask.question)} [{' / '.join(answers)}]"
    elif node.wait is not None:
        yield f"◔ {name}: waits {_wait(node.wait)}"
    elif tools := _tools_with_approval(node, plan):
        yield f"? {name}: asks before {listed(tools, 'and')}"
    yield from _limits(name, node)


def _limits(name: NodeName, node: PlanNode) -> Iterator[str]:
    """How long a node waits and works, and what runs in its place."""
    if node.when is not None and node.otherwise != ASK_HUMAN:
        yield f"⇢ {name}: where {render_condition(node.when)} cannot come true → {node.otherwise}"
    elif node.for_each is not None and node.otherwise != ASK_HUMAN:
        yield f"⇢ {name}: where {node.for_each} cannot be worked on → {node.otherwise}"
    if node.when is not None and node.within is not None:
        most = duration_words(node.within)
        yield f"◔ {name}: waits for {render_condition(node.when)} at most {most}"
    if node.timeout is not None:
        yield f"◔ {name}: fails where a step takes more than {duration_words(node.timeout)}"
    if node.on_error:
        yield f"⇢ {name}: where it fails, {on_error_text(node.on_error)}"
