"""What a worker in a crew's directory will need, looked at before anything starts.

Where `crewlog run FILE` brings the worker itself, that has this interpreter, this environment and
the crew's directory: modules are found, and nothing of the crew's is imported. `crewlog validate`
looks closer: it has a process import them, as a worker would.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from crewlog.definition.context_checks import summary_settings, window_of
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition
from crewlog.definition.reaching import mcp_tool, servers_of
from crewlog.definition.text import Document, read_document
from crewlog.errors import CrewlogError, Diagnostic, InvalidDefinition
from crewlog.ids import AgentName
from crewlog.model import Json
from crewlog.providers import missing_secrets, provider_problems

_SCRIPTED = "scripted:"
IMPORT_SECONDS = 60.0
"""How long it may take to import the modules of a crew's tools."""
_MODULE_ENDINGS = importlib.machinery.all_suffixes()
Place = tuple[str | int, ...]


def check_worker_can(crew: CrewDefinition, directory: Path, file: Path | None = None) -> None:
    """Look for the modules of tools, the scripts, packages and keys of models, and all secrets.

    Args:
        crew: The crew.
        directory: Where its worker runs.
        file: Its file, for the places of faults.

    Raises:
        InvalidDefinition: with everything that is missing.
    """
    document = _document(file)
    found = [
        _located(document, file, path, message, remedy)
        for path, message, remedy in [
            *_tools(crew, directory),
            *_models(crew, directory),
            *_secrets(crew),
        ]
    ]
    if found:
        raise InvalidDefinition(found)


def check_code(crew: CrewDefinition, file: Path) -> None:
    """Look whether a worker beside a crew's file could call its tools, and read its scripts.

    Args:
        crew: The crew.
        file: Its file.

    Raises:
        InvalidDefinition: with everything that is missing, or cannot be imported or called.
    """
    directory, document = file.resolve().parent, _document(file)
    absent = [*_tools(crew, directory), *_scripts(crew, directory)]
    known = {path for path, _, _ in absent}
    found = absent + [each for each in _imported(crew, directory) if each[0] not in known]
    if found:
        faults = [_located(document, file, *each) for each in found]
        raise InvalidDefinition(sorted(faults, key=lambda fault: (fault.line, fault.column)))


def _imported(crew: CrewDefinition, directory: Path) -> Iterator[tuple[Place, str, str]]:
    """What a process that imports a crew's code finds; see `crewlog.workers.code_check`."""
    with tempfile.TemporaryDirectory() as folder:
        told, late = Path(folder, "found"), False
        try:
            subprocess.run(
                [sys.executable, "-m", "crewlog.workers.code_check", str(told)],
                cwd=directory,
                input=json.dumps(crew.to_json()),
                text=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=IMPORT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            late = True
        text = told.read_text(encoding="utf-8") if told.exists() else ""
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if "message" in line:
            yield tuple(line["path"]), line["message"], line["remedy"]
    if lines and (last := tuple(lines[-1]["path"])) and "message" not in lines[-1]:
        what = f"does not end within {IMPORT_SECONDS:g} s" if late else "ends its process"
        yield last, f"to import it {what}", "Do no work where a module is imported."


def scripted_note(crew: CrewDefinition) -> str:
    """A line that says that a script stands in for a model; empty where none does."""
    models = {each.model for each in models_used(crew)}
    scripts = {model.removeprefix(_SCRIPTED) for model in models if _is_scripted(model)}
    if not scripts:
        return ""
    return f"▸ model: scripted ({', '.join(sorted(scripts))})"


def modules_in(directory: Path) -> list[str]:
    """The modules and packages of a directory, by name."""
    try:
        inside = sorted(directory.iterdir())
    except OSError:
        return []
    files = [each.stem for each in inside if each.suffix == ".py"]
    return files + [each.name for each in inside if (each / "__init__.py").is_file()]


def _is_scripted(model: str) -> bool:
    return model.startswith(_SCRIPTED)


class UsedModel(NamedTuple):
    """A model that a crew uses."""

    path: Place
    """Where it is named."""
    model: str
    """Its name."""
    settings: Mapping[str, Json]
    """The `model_settings` that it is called with."""


def models_used(crew: CrewDefinition) -> Iterator[UsedModel]:
    """The models that agents and summaries use, each once with the same settings."""
    seen: list[tuple[str, Mapping[str, Json]]] = []
    used: list[UsedModel] = []
    for name, agent in crew.agents.items():
        model = agent.model or crew.model
        if model and not agent.does:
            place: Place = ("agents", name, "model") if agent.model else ("model",)
            used.append(UsedModel(place, model, agent.model_settings))
            used += _summary_seconds(crew, name, model)
    for each in used:
        if (each.model, each.settings) not in seen:
            seen.append((each.model, each.settings))
            yield each


def _summary_seconds(crew: CrewDefinition, name: str, model: str) -> list[UsedModel]:
    """The model that sums up what an agent's window leaves out, reached as the agent's calls do."""
    agent = crew.agents[AgentName(name)]
    window, by_crew = window_of(crew, agent), agent.window is None
    if window is None or window.model is None:
        return []
    place: Place = ("window", "summary") if by_crew else ("agents", name, "window", "summary")
    given = summary_settings(window.model, agent, by_crew=by_crew, model_of_agent=model)
    return [UsedModel(place, window.model, given)]


def worker_warnings(crew: CrewDefinition, file: Path) -> list[Diagnostic]:
    """What this process lacks of the crew's models and secrets; a worker may have it."""
    document = _document(file)
    found = [*_wait_reason(crew), *_secrets(crew)]
    return [replace(_located(document, file, *each), severity="warning") for each in found]


def _scripts(crew: CrewDefinition, directory: Path) -> Iterator[tuple[Place, str, str]]:
    for path, model, _ in models_used(crew):
        if _is_scripted(model):
            script = directory / model.removeprefix(_SCRIPTED)
            if not script.is_file():
                yield (
                    path,
                    f"there is no script {str(script)!r}",
                    "Correct its path: it is taken from the crew's directory.",
                )


def _models(crew: CrewDefinition, directory: Path) -> Iterator[tuple[Place, str, str]]:
    yield from _scripts(crew, directory)
    yield from _wait_reason(crew)


def _wait_reason(crew: CrewDefinition) -> list[tuple[Place, str, str]]:
    """What models lack here, each once at its place."""
    used = [each for each in models_used(crew) if not _is_scripted(each.model)]
    found = [
        (path, lack.message, lack.remedy)
        for path, model, settings in used
        for lack in provider_problems(model, settings)
    ]
    return list(dict.fromkeys(found))


def _secrets(crew: CrewDefinition) -> Iterator[tuple[Place, str, str]]:
    """The secrets that tools and their servers name, and that are not here."""
    for name, tool in crew.tools.items():
        if tool.queue is None:
            for lack in missing_secrets(dict(tool.secrets)):
                yield ("tools", name, "secrets"), lack.message, lack.remedy
    here = (tool.run for tool in crew.tools.values() if tool.queue is None)
    for name, server in servers_of(here, crew.mcp).items():
        for lack in missing_secrets({"env": dict(server.env), "headers": dict(server.headers)}):
            yield ("mcp", name), lack.message, lack.remedy


def _tools(crew: CrewDefinition, directory: Path) -> Iterator[tuple[Place, str, str]]:
    paths = [str(directory), *os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    known = modules_in(directory)
    looked: dict[str, bool] = {}
    for name, tool in crew.tools.items():
        module = tool.run.partition(":")[0]
        if tool.queue is not None or mcp_tool(tool.run) is not None:
            continue  # its workers, or its server, are elsewhere
        if module not in looked:
            looked[module] = findable(module, paths)
        if not looked[module]:
            else_say = f"Correct it, or write the module in {directory}."
            yield (
                ("tools", name, "run"),
                f"the tool {name!r} names the module {module!r}, which is not there",
                did_you_mean(module, known, else_say),
            )


def findable(module: str, paths: Sequence[str]) -> bool:
    """Whether a module can be found, parents and all, without running any of them."""
    top, *rest = module.split(".")
    spec = importlib.machinery.PathFinder.find_spec(top, [p for p in paths if p])
    for finder in sys.meta_path if spec is None else ():
        with suppress(ImportError, AttributeError):
            spec = spec or finder.find_spec(top, None)
    if spec is None:
        return False
    if top in sys.stdlib_module_names:
        return True  # what a module holds under a dot, only running it could tell (`os.path`)
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    for part in rest:
        files = [folder / f"{part}{end}" for folder in folders for end in _MODULE_ENDINGS]
        inside = [folder / part for folder in folders if (folder / part).is_dir()]
        if not inside and not any(file.is_file() for file in files):
            return False
        folders = inside
    return True


def _document(file: Path | None) -> Document | None:
    if file is None:
        return None
    try:
        return read_document(file.read_text(encoding="utf-8-sig"), str(file))
    except (OSError, ValueError, CrewlogError):
        return None


def _located(
    document: Document | None, file: Path | None, path: Place, message: str, remedy: str
) -> Diagnostic:
    place = path
    while place and document is not None and place not in document.values:
        place = place[:-1]
    if document is None or not place:
        return Diagnostic(message, path=path, remedy=remedy, file=str(file or ""))
    return document.source.diagnostic(message, document.values[place].span, remedy, path)
