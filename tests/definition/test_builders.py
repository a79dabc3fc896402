# ruff: noqa: E501  (tables of cases: a case is a line)
"""Builders of others: the decorator, entry points of packages, and those that are broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

import crewlog
from covers import covers
from crewlog import Built, Model, Place, builder, route
from crewlog.definition import builders as registry
from crewlog.definition.builders import NoOptions, find_builder
from crewlog.definition.load import load_data, load_definition
from crewlog.errors import InvalidDefinition, UsageError
from crewlog.graph.lowering.plans import lower
from crewlog.ids import RunId
from crewlog.state.calls import PrepareRun

CREW = """\
crew: t
model: openai:x
agents:
  pro: {prompt: p}
  con: {prompt: p}
  judge: {prompt: p, writes_flags: [settled]}
flow:
  - use: debate
    with: {rounds: 2}
"""
PACKAGE = '''
from langgraph.graph import START, StateGraph
from crewlog import Model, Place, builder, route

class Options(Model):
    rounds: int = 3

@builder("debate")
def debate(options: Options, place: Place) -> StateGraph:
    """Two agents argue until a third is settled.

    More is said here.
    """
    graph = StateGraph(dict)
    for name in ("pro", "con", "judge"):
        graph.add_node(name, lambda state: state)
    graph.add_edge(START, "pro")
    graph.add_edge("pro", "con")
    graph.add_edge("con", "judge")
    graph.add_conditional_edges(
        "judge", route(when="not settled", then="pro", at_most=options.rounds)
    )
    return graph
'''
Install = Callable[[str, str, str], None]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in list(registry._registered):
        if not registry._origin(registry._registered[name]).startswith("crewlog.definition."):
            del registry._registered[name]
    for module in ("arguing", "fine"):
        sys.modules.pop(module, None)
    registry._broken.clear()
    registry._loaded.clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package on the path: its module, and its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(package: str, source: str, entries: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[crewlog.builders]\n{entries}\n")

    return put


# -- the decorator --------------------------------------------------------------------------------


class Options(Model):
    rounds: int = 3


def test_a_function_becomes_a_builder() -> None:
    @builder("mine", kind="agent", steps=["look"])
    def mine(options: Options, place: Place) -> Built:
        """Does it twice.

        And more.
        """
        return Built([{"agent": place.agent}, {"agent": place.agent, "phase": "again"}])  # type: ignore[list-item]

    assert (mine.name, mine.kind, mine.about) == ("mine", "agent", "Does it twice")
    assert (mine.options, mine.steps) == (Options, ("look",))
    assert find_builder("mine") is mine
    agents = {"a": {"prompt": "p", "pattern": "mine"}}
    plan = lower(load_data({"crew": "t", "model": "openai:x", "agents": agents}))
    assert [*plan.nodes] == ["a", "a.again"]


def test_a_pattern_may_be_a_graph() -> None:
    @builder("drafts", kind="agent")
    def drafts(_options: Options, _place: Place) -> Any:
        graph: Any = StateGraph(dict)
        graph.add_node("first", lambda s: s)
        graph.add_node("second", lambda s: s, metadata={"task": "Mend it."})
        graph.add_edge(START, "first")
        graph.add_edge("first", "second")
        graph.add_conditional_edges("second", route(when="a.poor", then="first", at_most=2))
        return graph

    agents = {"a": {"prompt": "p", "pattern": "drafts", "outputs": ["poor"]}}
    plan = lower(load_data({"crew": "t", "model": "openai:x", "agents": agents}))
    assert [*plan.nodes] == ["a", "a.second", "a.second.choice"]
    decide = plan.nodes["a.second.choice"].decide  # type: ignore[index]
    assert decide is not None
    assert (decide.go, decide.at_most, decide.otherwise) == ("a", 2, "ask_human")


def test_without_options_there_are_none() -> None:
    @builder("bare")
    def bare(_options, _place):  # type: ignore[no-untyped-def]
        return ["a"]

    assert bare.options is NoOptions
    assert bare.about == "bare"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: builder("no good"), "cannot be a builder's name"),
        (lambda: builder("x", kind="tool"), "kind is 'flow' or 'agent'"),  # type: ignore[arg-type]
        (lambda: builder("x")(lambda a: []), r"a function \(options, place\)"),
    ],
)
def test_what_cannot_be_a_builder_is_told(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_options_must_be_a_model() -> None:
    def odd(options: dict[str, int], place: Place) -> list[Any]:
        return []

    async def later(options: Options, place: Place) -> list[Any]:
        return []

    with pytest.raises(UsageError, match=r"which is no crewlog\.Model"):
        builder("odd")(odd)
    with pytest.raises(UsageError, match="not async"):
        builder("later")(later)


def test_two_modules_cannot_have_one_name() -> None:
    def mine(_options: Options, _place: Place) -> list[Any]:
        return []

    mine.__module__ = "elsewhere"
    with pytest.raises(UsageError, match=r"two builders are called 'pipeline'.*elsewhere"):
        builder("pipeline")(mine)


def test_the_public_names_are_there() -> None:
    for name in ("Built", "Model", "Place", "builder", "choose", "route"):
        assert name in crewlog.__all__
        assert getattr(crewlog, name)
    assert END == "__end__"


# -- entry points ---------------------------------------------------------------------------------


@covers("C60")
@pytest.mark.parametrize("entry", ["debate = arguing:debate", "all-of-them = arguing"])
def test_a_package_brings_a_builder(install: Install, entry: str) -> None:
    install("arguing", PACKAGE, entry)
    plan = lower(load_definition(CREW))
    assert [*plan.nodes] == ["debate", "con", "judge", "judge.choice"]
    assert plan.nodes["judge.choice"].decide.at_most == 2  # type: ignore[index, union-attr]
    assert registry.builders()["debate"].about == "Two agents argue until a third is settled"


BROKEN = [
    ("import nothing_like_this", "debate = arguing:debate", "ModuleNotFoundError: No module named 'nothing_like_this'"),
    ("raise RuntimeError('no license')", "debate = arguing", "RuntimeError: no license"),
    ("debate = 7", "debate = arguing:debate", "no builder but 'int': put @crewlog.builder over it"),
    ("x = 1", "debate = arguing", "a module that makes no builder"),
    ("import sys; sys.exit(3)", "debate = arguing", "SystemExit: 3"),
    (PACKAGE.replace('"debate"', '"pipeline"'), "debate = arguing:debate", "two builders are called 'pipeline'"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "entry", "cause"), BROKEN)
def test_a_broken_package_is_told_where_its_builder_is_used_and_nowhere_else(
    install: Install, source: str, entry: str, cause: str
) -> None:
    install("arguing", source, entry)
    install("fine", PACKAGE.replace('"debate"', '"fine"'), "fine = fine:debate")
    listed = registry.builders()
    assert cause in listed["debate"].broken
    assert "the package 'arguing'" in listed["debate"].broken
    assert not listed["fine"].broken
    assert not listed["pipeline"].broken
    with pytest.raises(InvalidDefinition) as raised:
        load_definition(CREW)
    (fault,) = raised.value.diagnostics
    assert fault.message.startswith("the builder 'debate' cannot be used: the package 'arguing'")
    assert cause in fault.message
    assert (fault.line, fault.column) == (8, 10)
    assert load_definition(CREW.replace("use: debate", "use: fine"))


def test_a_package_that_may_have_brought_it_is_named(install: Install) -> None:
    install("arguing", "import nothing_like_this", "all-of-them = arguing")
    with pytest.raises(InvalidDefinition) as raised:
        load_definition(CREW)
    (fault,) = raised.value.diagnostics
    assert fault.message == "no builder is called 'debate'"
    assert "Note that the package 'arguing'" in fault.remedy
    assert "on every worker too" in fault.remedy


@covers("C5")
def test_another_process_has_it_too(install: Install, tmp_path: Path) -> None:
    """As a worker does: a fresh interpreter, with the package on its path."""
    install("arguing", PACKAGE, "debate = arguing:debate")
    home = tmp_path / "home"
    home.mkdir()
    (home / "crew.yaml").write_text(CREW)
    for path, code, said in ((str(tmp_path), 0, "judge.choice"), ("", 2, "no builder is called")):
        found = subprocess.run(
            [sys.executable, "-m", "crewlog.cli.main", "validate", "crew.yaml"],
            cwd=home,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert found.returncode == code, found.stderr
        assert said in found.stdout + found.stderr


async def test_a_worker_that_lacks_a_builder_says_which() -> None:
    from crewlog.activities.definitions import Definitions
    from crewlog.activities.executions import Executions
    from crewlog.activities.lifecycle import prepare_run
    from crewlog.activities.server import Server
    from crewlog.model import Json
    from crewlog.store.in_process import InMemoryStore

    store, server = InMemoryStore(), Server()
    crew: dict[str, Json] = {
        "crew": "t",
        "model": "openai:x",
        "agents": {"a": {"prompt": "p"}},
        "flow": [{"use": "debate"}, "a"],
    }
    task = PrepareRun.model_validate({"run": "r", "crew": crew})
    with pytest.raises(InvalidDefinition) as raised:
        await prepare_run(task, store, Definitions(store), server, Executions(store, server))
    assert "no builder is called 'debate'" in str(raised.value)
    assert "must be installed wherever it is checked and run, on every worker too" in str(
        raised.value
    )
    hash_ = await store.put_definition(RunId("r"), crew)
    with pytest.raises(InvalidDefinition, match="no builder is called 'debate'"):
        await Definitions(store).get(hash_)


async def test_agents_are_offered_what_a_builder_adds() -> None:
    from crewlog.activities.definitions import Definitions
    from crewlog.store.in_process import InMemoryStore

    store = InMemoryStore()
    crew = load_data(
        {
            "crew": "t",
            "model": "openai:x",
            "agents": {"a": {"prompt": "p"}, "b": {"prompt": "p"}},
            "flow": [{"use": "supervisor", "with": {"supervisor": "a", "workers": ["b"]}}],
        }
    )
    hash_ = await store.put_definition(RunId("r"), crew.to_json())
    assert (await Definitions(store).get(hash_)).agents["a"].outputs == ("next",)


def test_what_the_documentation_shows_can_be_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "builders.md").read_text()
    for source in page.split("```python\n")[1:]:
        exec(source.partition("```")[0], {"__name__": "shown"})  # noqa: S102
    agents = {name: {"prompt": "p", "writes_flags": ["settled"]} for name in ("x", "y", "z")}
    options = {"speakers": ["x", "y"], "judge": "z"}
    crew = {"crew": "t", "model": "openai:x", "agents": agents}
    plan = lower(load_data(crew | {"flow": [{"use": "debate", "with": options}]}))
    assert [*plan.nodes] == ["debate", "y", "z", "z.verdict"]
    agents = {n: {"prompt": "p"} for n in ("writer", "critic", "publisher")}
    crew |= {"agents": agents, "flags": {"approved": False}, "flow": [{"use": "reviewed"}]}
    plan = lower(load_data(crew))
    assert plan.nodes["critic.choice"].decide.go == "reviewed"  # type: ignore[index, union-attr]
