"""What is registered, as people and programs see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from crewlog.authority.authority_text import authority_lines
from crewlog.cli.screen import Part, Screen, ago, counted, plain, plain_lines
from crewlog.client.catalog import RegisteredCrew, RegisteredRegistry
from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.capabilities import Capability, Offer, callers, idle_tools, offer_of
from crewlog.definition.findings import listed
from crewlog.definition.model import AgentDefinition, CrewDefinition, ToolDefinition
from crewlog.definition.write import yaml_of
from crewlog.prompt.registry import OfferedAgent, OfferedTool, Registry

if TYPE_CHECKING:
    from crewlog.cli.finding import Found
    from crewlog.client.catalog import AddedCrew, AddedRegistry, Catalog
    from crewlog.definition.diff import DefinitionDiff

_LABEL = 14
_SIGNS = {"added": ("+ ", "green"), "removed": ("– ", "red"), "changed": ("~ ", "yellow")}  # noqa: RUF001
_EMPTY = "Nothing is registered yet. "
_HOW = "Add a crew or a registry: crewlog crews add FILE"


# -- list ------------------------------------------------------------------------------------


def crew_json(found: RegisteredCrew) -> dict[str, Any]:
    """A crew in a list."""
    return {
        "name": found.row.name,
        "version": found.row.version,
        "at": found.row.at,
        "hash": found.row.definition,
        "agents": list(found.definition.agents),
        "tools": list(found.definition.tools),
    }


def registry_json(found: RegisteredRegistry) -> dict[str, Any]:
    """A registry in a list."""
    return {
        "name": found.row.name,
        "version": found.row.version,
        "at": found.row.at,
        "hash": found.row.content,
        "agents": list(found.registry.agents),
        "tools": list(found.registry.tools),
    }


def list_catalog(
    screen: Screen, crews: Sequence[RegisteredCrew], registries: Sequence[RegisteredRegistry]
) -> None:
    """All crews, then all registries."""
    if not crews and not registries:
        screen.line(_EMPTY, (_HOW, "dim"))
        return
    rows = [_listed(each.row, each.definition) for each in crews]
    if rows:
        screen.rows(("crew", "version", "registered", "agents", "tools"), rows)
    else:
        screen.line("No crew is registered yet. ", ("Add one: crewlog crews add FILE", "dim"))
    if registries:
        screen.line("")
        rows = [_listed(each.row, each.registry) for each in registries]
        screen.rows(("registry", "version", "registered", "agents", "tools"), rows)


def _listed(row: Any, content: CrewDefinition | Registry) -> list[Part]:
    return [
        (plain(row.name), "bold"),
        str(row.version),
        (ago(row.at), "dim"),
        _few(content.agents),
        _few(content.tools),
    ]


def _few(names: Iterable[str]) -> str:
    """`writer, checker`; of many, how many."""
    every = list(names)
    text = ", ".join(map(plain, every))
    return text if len(text) <= 40 else str(len(every))


# -- add -------------------------------------------------------------------------------------


def tell_crew(screen: Screen, added: AddedCrew) -> None:
    """What the registration of a crew made."""
    row = added.crew
    if screen.as_json:
        screen.document({"kind": "crew", **row.model_dump(mode="json"), "new": added.new})
        return
    screen.line(*_news("crew", row.name, row.version, new=added.new))
    screen.line(("  Run      ", "dim"), f"crewlog run {row.name}")
    if added.new and row.version > 1:
        screen.line(("  Changed  ", "dim"), f"crewlog crews diff {row.name}")


def tell_registry(screen: Screen, added: AddedRegistry, registry: Registry) -> None:
    """What the registration of a registry made."""
    row = added.registered
    if screen.as_json:
        new = {(part.kind, part.name) for part in added.new_parts}
        parts = [
            {**part.model_dump(mode="json"), "new": (part.kind, part.name) in new}
            for part in added.parts
        ]
        document = {**row.model_dump(mode="json"), "new": added.new, "parts": parts}
        screen.document(document)
        return
    screen.line(*_news("registry", row.name, row.version, new=added.new))
    counts = [(kind, len([p for p in added.parts if p.kind == kind])) for kind in _PARTS]
    screen.line(
        ("  Parts    ", "dim"), ", ".join(counted(count, kind) for kind, count in counts if count)
    )
    if added.new and row.version > 1:
        # Their versions are their own.
        for part in added.new_parts:
            screen.line(
                ("           ", ""), f"{part.kind} {plain(part.name)}", f" version {part.version}"
            )
        screen.line(("  Changed  ", "dim"), f"crewlog crews diff registry:{row.name}")
    if "registry" not in registry.model_fields_set:
        screen.line(
            ("  Note     ", "yellow"),
            "the file gives it no name; write `registry: NAME` in it to tell it from others",
        )


_PARTS = ("tool", "agent", "model", "builder")


def _news(kind: str, name: str, version: int, *, new: bool) -> list[Part]:
    if new:
        say = f" version {version}" + (", new" if version == 1 else ", changed")
        return [("✓ ", "green"), f"{kind} ", (plain(name), "bold"), say]
    return [("= ", "dim"), f"{kind} ", (plain(name), "bold"), f" version {version}, unchanged"]


# -- show ------------------------------------------------------------------------------------


async def show_found(screen: Screen, catalog: Catalog, found: Found) -> None:
    """A crew, a registry or a part."""
    versions = await catalog.history(found.kind, found.name)
    when = f" · registered {ago(found.at)}" if found.at else ""
    screen.line(
        (f"  {found.kind} ", "dim"),
        (plain(found.name), "bold"),
        f" version {found.version}",
        (f" of {versions[-1].version}" if len(versions) > 1 else "", "dim"),
        (f"{when} · {found.reference.hash}", "dim"),
    )
    content = found.content
    if isinstance(content, CrewDefinition):
        await _show_crew(screen, catalog, content)
    elif isinstance(content, Registry):
        _show_registry(screen, content)
    else:
        screen.line("")
        for line in plain_lines(yaml_of(content)).splitlines():
            screen.line("  ", line)


async def _show_crew(screen: Screen, catalog: Catalog, definition: CrewDefinition) -> None:
    from crewlog.cli.pictures import show_picture  # noqa: PLC0415
    from crewlog.errors import InvalidDefinition  # noqa: PLC0415
    from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

    _about(screen, definition.description)
    screen.line("")
    try:
        plan = lower(definition)
        show_picture(screen, plan)
    except InvalidDefinition as error:
        say = f"cannot be drawn here: {plain(error.message)}"
        screen.wrapped([("  ! ", "yellow")], say, indent=4)
    screen.line("")
    allowed = {tool: callers(tool, [offer_of(definition)]) for tool in definition.tools}
    _table(
        screen,
        "agents",
        [
            [(plain(name), "bold"), *_agent(name, agent, allowed)]
            for name, agent in definition.agents.items()
        ],
    )
    _table(screen, "tools", [_tool(name, tool) for name, tool in definition.tools.items()])
    _table(screen, "permissions", _who_may(definition))
    for tool, named in definition.approvals.items():
        whose = "every call" if named is None else f"calls of {listed(named)}"
        _line(screen, "approvals", [plain(tool), (f"  {plain(whose)} waits for a yes", "dim")])
    last = ""
    for label, words in authority_lines(definition):
        head: list[Part] = ["  ", ((label if label != last else "").ljust(_LABEL), "dim")]
        screen.wrapped(head, plain(words), indent=_LABEL + 2)
        last = label
    if definition.flags:
        flags = [f"{name} = {value!r}" for name, value in definition.flags.items()]
        _line(screen, "flags", [plain(", ".join(flags))])
    for origin in await _origins(catalog, definition):
        _line(screen, "registry", [origin])
    screen.line("")
    screen.line(("  Run      ", "dim"), f"crewlog run {definition.crew}")


def _about(screen: Screen, description: str | None) -> None:
    if description:
        screen.paragraph(description, style="dim")


def _agent(name: str, agent: AgentDefinition, allowed: dict[str, list[Capability]]) -> list[Part]:
    may = [tool for tool, found in allowed.items() if any(_is(each, name) for each in found)]
    notes: list[str] = []
    if agent.writes_flags:
        notes.append(f"sets {', '.join(agent.writes_flags)}")
    if outputs := outputs_of(agent):
        notes.append(f"gives {', '.join(outputs)}")
    if agent.model is not None:
        notes.append(agent.model)
    if agent.pattern is not None:
        notes.append(f"works by {agent.pattern.use}")
    if not agent.enabled:
        notes.append("not enabled")
    return [plain(", ".join(may)) or ("no tools", "dim"), (plain(" · ".join(notes)), "dim")]


def _is(capability: Capability, agent: str) -> bool:
    return capability.allowed and capability.who == agent


def _tool(name: str, tool: ToolDefinition) -> list[Part]:
    notes = [tool.effects, f"repeated: {tool.repeat}"]
    if tool.paths:
        notes.append(f"in {', '.join(tool.paths)}")
    if tool.risk == "high":
        notes.append("high risk")
    if isinstance(tool, OfferedTool) and tool.grant is not None:
        notes.append(f"granted to {listed(tool.grant)}" if tool.grant else "granted to nobody")
    return [plain(name), plain(tool.run), (plain(" · ".join(notes)), "dim")]


def _who_may(definition: CrewDefinition) -> list[list[Part]]:
    rows: list[list[Part]] = []
    for tool, named in definition.permissions.items():
        who = "every agent that lists it" if named is None else listed(named) or "nobody"
        rows.append([plain(tool), plain(who)])
    return rows


async def _origins(catalog: Catalog, definition: CrewDefinition) -> list[str]:
    """Registries that offer tools and agents of a crew just as the crew has them."""
    found: list[str] = []
    for each in await catalog.registries():
        offered = each.registry
        same = [
            name
            for name, tool in definition.tools.items()
            if name in offered.tools and offered.tools[name].definition() == tool
        ]
        agents = [
            f"agent {name}"
            for name, agent in definition.agents.items()
            if name in offered.agents and offered.agents[name].prompt == agent.prompt
        ]
        if same or agents:
            found.append(plain(f"{each.row.name}@{each.row.version} has {listed(same + agents)}"))
    return found


def _show_registry(screen: Screen, registry: Registry) -> None:
    _about(screen, registry.description)
    screen.line("")
    _table(screen, "tools", [_tool(name, tool) for name, tool in registry.tools.items()])
    rows: list[list[Part]] = [
        [
            (plain(name), "bold"),
            plain(", ".join(agent.tools or ())) or ("no tools", "dim"),
            _words(agent),
        ]
        for name, agent in registry.agents.items()
    ]
    _table(screen, "agents", rows)
    others = "" if registry.new_agents else "prompts may bring no other agents"
    if others:
        _line(screen, "" if rows else "agents", [others])
    models = dict.fromkeys(filter(None, (registry.model, *registry.models)))
    if models:
        _line(screen, "models", [plain(", ".join(models))])
    if registry.builders is not None:
        _line(screen, "builders", [plain(", ".join(registry.builders)) or "none"])
    for tool, named in registry.approvals.items():
        whose = "every call" if named is None else f"calls of {listed(named)}"
        _line(screen, "approvals", [plain(tool), (f"  {plain(whose)} waits for a yes", "dim")])
    _line(screen, "approval", [f"of what prompts make: {registry.approval}"])


def _words(agent: OfferedAgent) -> Part:
    return (plain(", ".join(f"“{words}”" for words in agent.words)), "dim")


def _table(screen: Screen, label: str, rows: list[list[Part]]) -> None:
    """Rows beside a label."""
    named: list[list[Part]] = [
        [(label if number == 0 else "", "dim"), *row] for number, row in enumerate(rows)
    ]
    if named:
        named[0][0] = (label.ljust(_LABEL - 3), "dim")
        screen.rows(["" for _ in named[0]], named)


def _line(screen: Screen, label: str, parts: list[Part]) -> None:
    screen.line("  ", (label.ljust(_LABEL), "dim"), *parts)


# -- diff ------------------------------------------------------------------------------------


def show_diff(screen: Screen, old: Found, new: Found, found: DefinitionDiff) -> None:
    """What differs, a line each."""
    if not found:
        screen.line("  = ", f"{plain(old.label)} and {plain(new.label)} are the same")
        return
    screen.line(
        (f"  {old.kind} ", "dim"), (plain(old.label), "bold"), " → ", (plain(new.label), "bold")
    )
    for change in found.changes:
        screen.wrapped(["  ", _SIGNS[change.kind]], plain(change.words), indent=4)
    counts = {kind: len([c for c in found.changes if c.kind == kind]) for kind in _SIGNS}
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    screen.line((f"  {said}", "dim"))


# -- who -------------------------------------------------------------------------------------


def answer_json(
    word: str | None, offers: Sequence[Offer], found: Sequence[Capability]
) -> dict[str, Any]:
    """An answer as JSON; without a word all tools, and those that nobody may call."""
    if word is not None:
        return {"word": word, "found": list(found)}
    tools = {
        tool: callers(tool, offers) for tool in dict.fromkeys(t for o in offers for t in o.tools)
    }
    return {"tools": tools, "idle": list(found)}


_CAN = {
    "call": ("may call it", "may not call it"),
    "write": ("writes it", ""),
    "read": ("reads it", ""),
    "need": ("needs it", ""),
}


def show_answer(screen: Screen, word: str, found: Sequence[Capability]) -> None:
    """Who can do what with a word, by crew and registry."""
    screen.line(("  ", ""), (plain(word), "bold"))
    width = max(len(_who(each)) for each in found)
    does = max(len(_does(each)) for each in found)
    by_place = sorted(found, key=lambda each: (each.of, each.name))
    for place, group in groupby(by_place, key=lambda each: each.place):
        screen.line((f"  {plain(place)}", "dim"))
        for each in group:
            sign: Part = ("✓ ", "green") if each.allowed else ("✗ ", "red")
            head: list[Part] = [
                "    ",
                sign,
                plain(_who(each)).ljust(width + 2),
                _does(each).ljust(does + 2),
            ]
            screen.wrapped(head, plain(each.reason), indent=width + does + 10, style="dim")


def _who(each: Capability) -> str:
    if each.kind == "phase":
        return f"phase {each.who}"
    return each.who or ("agents of prompts" if each.kind == "prompt" else "nobody")


def _does(each: Capability) -> str:
    if not each.allowed and not each.who:
        return "may call it"
    return _CAN[each.can][0 if each.allowed else 1]


def show_tools(screen: Screen, offers: Sequence[Offer]) -> None:
    """Every tool with those who may call it."""
    if not offers:
        screen.line(_EMPTY, (_HOW, "dim"))
        return
    idle = {(each.place, each.what): each.reason for each in idle_tools(offers)}
    rows: dict[tuple[str, str], list[Part]] = {}
    for offer in offers:
        for tool in offer.tools:
            may = [each for each in callers(tool, [offer]) if each.allowed]
            place = f"{offer.kind} {offer.label}"
            names = ", ".join(_who(each) for each in may)
            why = idle.get((place, tool), "")
            last: Part = plain(names) if may else (f"nobody: {plain(why)}", "yellow")
            rows[tool, place] = [(plain(tool), "bold"), (plain(place), "dim"), last]
    screen.rows(("tool", "in", "who may call it"), [rows[key] for key in sorted(rows)])
