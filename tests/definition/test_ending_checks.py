"""What a crew of creatures is to end by and nobody sets, and what a change leads to unawares."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from covers import covers
from crewlog.cli.main import run_cli
from crewlog.definition.apply import apply_operations
from crewlog.definition.creature_checks import new_warnings
from crewlog.definition.load import load_data, load_file, warnings_in
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.definition.validate import check, warnings

OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
AGENTS: dict[str, Any] = {
    "keeper": {"listen": ["reports"], "send": ["tasks"], "writes_flags": ["found"]},
    "scout": {"listen": ["tasks"], "wires": ["channel:reports"], "outputs": ["site"]},
    "spare": {"enabled": False, "writes_flags": ["late"], "beside": "keeper"},
}


def crew(*ends_on: str, agents: dict[str, Any] | None = None, **more: Any) -> CrewDefinition:
    who = {name: {"prompt": "p", **each} for name, each in (agents or AGENTS).items()}
    graph = {"root": "keeper", "ends_on": [*ends_on], **more.pop("graph", {})}
    return load_data({"crew": "t", "model": "openai:x", "agents": who, "graph": graph, **more})


def told(definition: CrewDefinition) -> list[tuple[str, str]]:
    assert check(definition) == [], "the crew runs all the same"
    return [(each.message, each.remedy) for each in warnings(definition)]


@pytest.mark.parametrize(
    "ends_on",
    ["found", "not found", "late", "scout.site", "scout.text", "found or scout.site > 3"],
)
def test_what_an_agent_sets_is_no_matter(ends_on: str) -> None:
    """Nor what one sets that takes no part: others may be made like it."""
    assert told(crew(ends_on)) == []


def test_what_a_question_sets_is_no_matter() -> None:
    flow = ["keeper", {"ask": "Is it over?", "sets": "over"}]
    assert told(crew("over", flow=flow)) == []


@pytest.mark.parametrize(
    ("ends_on", "said", "remedy"),
    [
        ("fuond", "no agent sets the flag 'fuond'", "Did you mean 'found'?"),
        ("over", "no agent sets the flag 'over'", "people do by: crewlog edit RUN over=true"),
        ("found or over", "no agent sets the flag 'over'", "by 'writes_flags'"),
        ("scuot.site", "and no agent 'scuot' lives in it", "Did you mean 'scout'?"),
        ("scout.stie", "agent 'scout' does not set 'stie'", "Did you mean 'site'?"),
        ("scout.error", "agent 'scout' does not set 'error'", "outputs: [error]"),
    ],
)
def test_what_nobody_sets_is_told(ends_on: str, said: str, remedy: str) -> None:
    ((message, what),) = told(crew(ends_on, flags={"over": False}))
    assert said in message
    assert "to end" in message
    assert remedy in what


def test_it_is_told_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(EXAMPLES / "terrarium", tmp_path / "terrarium")
    file = folder / "crew.yaml"
    text = (
        (EXAMPLES / "terrarium/crew.yaml")
        .read_text()
        .replace("ends_on: [found]", "ends_on: [fund]")
    )
    file.write_text(text)
    (found,) = warnings_in(file, load_file(file))
    place = text.splitlines()[found.line - 1]
    assert place[found.column - 1 :].startswith("fund]")
    assert run_cli(["validate", str(file)]) == 0
    shown = capsys.readouterr()
    assert "Did you mean 'found'?" in shown.out + shown.err


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/crew.yaml")), ids=lambda f: f.parent.name)
def test_the_examples_end_by_what_is_set(file: Path) -> None:
    assert not [each for each in warnings_in(file, load_file(file)) if "to end" in each.message]


# -- what a change leads to ----------------------------------------------------------------------

FOUND = crew("found")


@covers("C102")
@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (
            {"op": "remove_agent", "name": "keeper"},
            [
                "'keeper' was the root: what people say to public gives nobody a turn any more",
                "no agent sets the flag 'found', by which the run is to end",
                "agent 'scout' is wired to 'reports', to which nobody listens",
            ],
        ),
        (
            {"op": "edit_agent", "name": "keeper", "set": {"writes_flags": None}},
            ["no agent sets the flag 'found', by which the run is to end"],
        ),
        (
            {"op": "remove_agent", "name": "scout"},
            ["agent 'keeper' sends to 'tasks', to which nobody listens"],
        ),
        (
            {"op": "add_agent", "name": "idler", "agent": {"prompt": "p", "beside": "scout"}},
            ["agent 'idler' listens to no channel, and nothing else gives it a turn"],
        ),
        ({"op": "add_channel", "name": "more"}, []),
        ({"op": "edit_crew", "set": {"graph": {"root": "scout", "ends_on": ["found"]}}}, []),
    ],
)
def test_what_a_change_leads_to_unawares(operation: dict[str, Any], said: list[str]) -> None:
    after = apply_operations(FOUND, OPERATIONS.validate_python([operation]))
    assert [each.message for each in new_warnings(FOUND, after)] == said
    assert all(each.remedy for each in new_warnings(FOUND, after))


def test_whom_else_an_agent_hears_no_more_is_told() -> None:
    """Where others speak in the channel, and others hear the sender, too."""
    agents = {
        "keeper": {"send": ["tasks"]},
        "boss": {"wires": ["channel:tasks"]},
        "scout": {"listen": ["tasks"]},
        "digger": {"listen": ["tasks"], "beside": "scout"},
    }
    before = crew(agents=agents)
    cut = {"op": "disconnect", "sender": "keeper", "listener": "scout"}
    (operation,) = OPERATIONS.validate_python([cut])
    after = apply_operations(before, [operation])
    first, *_ = new_warnings(before, after, [operation])
    assert first.message == "'scout' hears boss no more over 'tasks', either"
    assert first.remedy == "Connect them anew: crewlog graph connect RUN boss scout"
    alone = crew(agents={name: agents[name] for name in ("keeper", "scout", "digger")})
    after = apply_operations(alone, [operation])
    assert not [w for w in new_warnings(alone, after, [operation]) if "no more" in w.message]


def test_what_was_so_before_is_not_told_again() -> None:
    before = crew("over", graph={"root": None})
    operation = {"op": "add_channel", "name": "more"}
    after = apply_operations(before, OPERATIONS.validate_python([operation]))
    assert told(after)
    assert [*new_warnings(before, after)] == []


def test_who_lives_in_another_run_hears_and_sets_nothing_here() -> None:
    """As where the root leaves by a split."""
    policy = {"root": "keeper", "ends_on": ["found"], "away": {"keeper": "t.1"}}
    after = crew("found", graph=policy)
    assert [each.message for each in new_warnings(FOUND, after)] == [
        "'keeper' was the root: what people say to public gives nobody a turn any more",
        "no agent sets the flag 'found', by which the run is to end",
        "agent 'scout' is wired to 'reports', to which nobody listens",
    ]


@pytest.mark.parametrize(
    ("operation", "said", "remedy"),
    [
        (
            {"op": "add_agent", "name": "n", "agent": {"prompt": "p", "listen": ["taks"]}},
            "the channel 'taks' is a new one: 'n' is the first to name it",
            "Did you mean 'tasks'?",
        ),
        (
            {"op": "add_agent", "name": "n", "agent": {"prompt": "p", "wires": ["channel:report"]}},
            "the channel 'report' is a new one: 'n' is the first to name it",
            "Did you mean 'reports'?",
        ),
        (
            {"op": "add_channel", "name": "report"},
            "the channel 'report' is a new one",
            "Did you mean 'reports'?",
        ),
        (
            {"op": "add_channel", "name": "Tasks"},
            "the channel 'Tasks' is a new one",
            "Did you mean 'tasks'?",
        ),
        (
            {"op": "connect", "sender": "keeper", "listener": "scout", "channel": "task"},
            "the channel 'task' is a new one",
            "Did you mean 'tasks'?",
        ),
        (
            {"op": "remove_channel", "name": "reports"},
            "'keeper' hears 'scout' no more: 'reports' was the way",
            "crewlog graph connect RUN scout keeper",
        ),
        (
            {"op": "disable_agent", "name": "keeper"},
            "what is said in public and reports waits: only 'keeper' has a turn for it",
            "until crewlog graph start RUN keeper",
        ),
        (
            {"op": "disable_agent", "name": "scout"},
            "what is said in tasks waits: only 'scout' has a turn for it",
            "until crewlog graph start RUN scout",
        ),
    ],
)
def test_what_an_operation_leads_to_unawares(
    operation: dict[str, Any], said: str, remedy: str
) -> None:
    asked = OPERATIONS.validate_python([operation])
    found = [*new_warnings(FOUND, apply_operations(FOUND, asked), asked)]
    (told,) = [each for each in found if each.message == said]
    assert remedy in told.remedy


@pytest.mark.parametrize(
    "operation",
    [
        # Beside `tasks` that is a name of its own; and others hear the rest, or are told by a wire.
        {"op": "add_agent", "name": "n", "agent": {"prompt": "p", "listen": ["tasks-2", "tasks"]}},
        {"op": "add_agent", "name": "n", "agent": {"prompt": "p", "listen": ["more"]}},
        {"op": "add_channel", "name": "tasks-2"},
        {"op": "remove_channel", "name": "more"},
        {"op": "disable_agent", "name": "second"},
        {"op": "edit_agent", "name": "spare", "set": {"prompt": "q"}},
    ],
)
def test_what_an_operation_leads_to_is_not_told_of_what_stays(operation: dict[str, Any]) -> None:
    scout = {"listen": ["tasks"], "send": ["more"], "wires": ["channel:reports", "digger"]}
    others = {"second": {"listen": ["tasks"]}, "digger": {"listen": ["more"]}}
    before = crew("found", agents={**AGENTS, "scout": scout, **others})
    asked = OPERATIONS.validate_python([operation])
    assert [*new_warnings(before, apply_operations(before, asked), asked)] == []


def test_who_is_alone_in_a_part_is_told() -> None:
    policy = {"root": None, "away": {"keeper": "t", "spare": "t"}}
    alone = crew(graph=policy)
    two = crew(graph={**policy, "away": {"keeper": "t"}})
    (told, *_) = new_warnings(FOUND, FOUND, (), [two, alone])
    assert told.message.startswith("'scout' is alone in a run of its own")
    assert [*new_warnings(FOUND, FOUND, (), [two])] == []
