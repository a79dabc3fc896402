"""Reads the corpus: each case's prompt, the definition that is expected, and how the two compare.

`python -m tests.corpus.cases FOLDER…` says what is wrong with the cases themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower

HERE = Path(__file__).parent
DOMAINS = ("software", "research", "operations", "publishing", "back_office")


@dataclass(frozen=True)
class Case:
    """A prompt with what it means."""

    file: Path
    kind: str
    """`controlled` or `free`."""
    prompt: str
    expected: CrewDefinition
    also: CrewDefinition | None
    """Another reading that a careful reader may make."""
    not_understood: tuple[str, ...]
    registry: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.file.parent.name}/{self.file.stem}"

    def differences(self, found: CrewDefinition) -> list[str]:
        """What a crew does otherwise than the case expects, a line each."""
        wrong = differences(meaning(self.expected), meaning(found))
        if self.also is not None and meaning(self.also) == meaning(found):
            return []
        return wrong


def read(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))


def registry_of(folder: Path) -> dict[str, Any]:
    """What the prompts of a folder may use: its own registry, else that of its domain."""
    own = folder / "registry.yaml"
    return read(own if own.exists() else HERE / folder.name / "registry.yaml")


def load_case(file: Path) -> Case:
    """The case in a file; raises InvalidDefinition where what it expects is no definition."""
    data = read(file)
    unknown = set(data) - {"kind", "prompt", "expect", "also", "not_understood"}
    assert not unknown, f"unknown keys: {unknown}"
    assert data["kind"] in {"controlled", "free"}, f"kind: {data['kind']}"
    registry = registry_of(file.parent)
    missed = tuple(data.get("not_understood") or ())
    for words in missed:
        assert _flat(words) in _flat(data["prompt"]), f"not in the prompt: {words!r}"
    expected = load_data(_whole(data["expect"], registry))
    other = data.get("also")
    also = other and load_data(_whole({**data["expect"], **other}, registry))
    return Case(file, data["kind"], data["prompt"], expected, also, missed, registry)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _whole(expect: dict[str, Any], registry: dict[str, Any]) -> dict[str, Any]:
    """What is expected, with what stands in the registry, and words where words must be."""
    known = registry.get("agents") or {}
    tools = registry.get("tools") or {}
    agents: dict[str, Any] = {}
    for name, given in expect["agents"].items():
        base = dict(known.get(name) or {})
        base.pop("words", None)
        own = [*base.get("tools", ()), *((given or {}).get("tools") or ())]
        agents[name] = {
            "prompt": "-",
            **base,
            **(given or {}),
            "tools": sorted(dict.fromkeys(own)),
        }
    used = {tool for agent in agents.values() for tool in agent["tools"]}
    used |= {*expect.get("permissions", {}), *expect.get("approvals", {})}
    for item in expect.get("flow", ()):
        for part in item if isinstance(item, list) else [item]:
            used |= {*part.get("needs", ())} if isinstance(part, dict) else set()
    return {
        "crew": "crew",
        "model": registry["model"],
        **expect,
        "agents": agents,
        "tools": {
            name: {k: v for k, v in tool.items() if k not in {"words", "grant"}}
            for name, tool in tools.items()
            if name in used
        },
    }


def cases(kind: str | None = None) -> Iterator[Case]:
    """All cases, by domain and name."""
    for domain in DOMAINS:
        for file in sorted((HERE / domain).glob("[0-9]*.yaml")):
            case = load_case(file)
            if kind in {None, case.kind}:
                yield case


def other_words() -> Iterator[Case]:
    """Crews in other people's words, which no reader was made with."""
    for domain in DOMAINS:
        for file in sorted((HERE / "other_words" / domain).glob("[a-z]-*.yaml")):
            yield load_case(file)


def meaning(definition: CrewDefinition) -> dict[str, Any]:
    """A definition without what is words only, however its flow is spelled."""
    plan = lower(definition).model_dump(mode="json", by_alias=True)
    del plan["definition"], plan["rules"], plan["tools"]
    sole: dict[str, list[str]] = {}
    for name, agent in definition.agents.items():
        for flag in agent.writes_flags:
            sole.setdefault(flag, []).append(name)
    for node in plan["nodes"].values():
        for key in ("when", "only_if"):
            node[key] = _bare(node[key], sole)
        if node["decide"]:
            node["decide"]["when"] = _bare(node["decide"]["when"], sole)
        if node["ask"]:
            del node["ask"]["question"]
        if node["join"]:
            node["join"]["of"] = sorted(node["join"]["of"])
    for agent in plan["agents"].values():
        for key in ("tools", "reads", "writes", "outputs", "flags"):
            agent[key] = sorted(agent[key])
    for table in (plan["permissions"], plan["approvals"]):
        for tool, named in table.items():
            table[tool] = named and sorted(named)
    plan["checks"] = [
        # A quota's key is made of the condition as it is spelled.
        {**check, "key": "", "when": _bare(check.get("when"), sole)}
        for check in plan["checks"]
    ]
    plan["groups"] = {name: sorted(named) for name, named in definition.groups.items()}
    plan["logs"] = {name: log.to_json() for name, log in definition.logs.items()}
    plan["hosts"] = {name: tool.hosts for name, tool in definition.tools.items() if tool.hosts}
    plan["models"] = {n: a.model or definition.model for n, a in definition.agents.items()}
    plan["loads"] = sorted(definition.tools)
    return plan


def _bare(condition: str | None, sole: dict[str, list[str]]) -> str | None:
    """A condition in which a flag that one agent alone writes stands without that agent."""
    if condition is None:
        return None
    for flag, writers in sole.items():
        if len(writers) == 1:
            condition = condition.replace(f"{writers[0]}.{flag}", flag)
    return condition


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """What differs between two meanings, a line each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        out: list[str] = []
        for key in [*expected, *(k for k in found if k not in expected)]:
            if key not in found:
                out.append(f"{path}.{key}: missing")
            elif key not in expected:
                out.append(f"{path}.{key}: not expected: {found[key]}")
            else:
                out += differences(expected[key], found[key], f"{path}.{key}")
        return out
    return [] if expected == found else [f"{path}: {expected!r} expected, not {found!r}"]


def main(folders: list[str]) -> int:
    faults = 0
    for folder in folders:
        for file in sorted(Path(folder).glob("[0-9]*.yaml")):
            try:
                case = load_case(file)
                meaning(case.expected)
            except InvalidDefinition as error:
                faults += 1
                sys.stdout.write(f"{file}:\n{error}\n")
            except (AssertionError, KeyError, TypeError, AttributeError) as error:
                faults += 1
                sys.stdout.write(f"{file}: {type(error).__name__}: {error}\n")
            except Exception as error:
                faults += 1
                sys.stdout.write(f"{file}: {error}\n")
    sys.stdout.write(f"{faults} faults\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
