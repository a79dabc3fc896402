"""Definitions to text and back: YAML and JSON for every crew, English for those that it can say.

`CREWLOG_ROUND_TRIPS=5000` looks at that many of each.
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.corpus.cases import Case, cases, differences, meaning
from tests.prompt.strategies import crews, registry_for

from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import AgentPhase, CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.write import to_yaml
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.english import expressible, to_english
from crewlog.prompt.registry import Registry
from crewlog.prompt.traits import told_of

HUNT = "CREWLOG_ROUND_TRIPS" in os.environ
pytestmark = [pytest.mark.timeout(0)] if HUNT else []
many = settings(
    derandomize=not HUNT,
    max_examples=int(os.environ.get("CREWLOG_ROUND_TRIPS", "120")),
    phases=[phase for phase in Phase if HUNT or phase is not Phase.shrink],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Each of these is compiled twice, which takes longer than writing and reading YAML.
read_again = settings(many, max_examples=int(os.environ.get("CREWLOG_ROUND_TRIPS", "100")))


@many
@given(crews())
def test_yaml_and_json_give_the_definition_back(crew: CrewDefinition) -> None:
    text = to_yaml(crew)
    assert load_definition(text) == crew
    data = json.loads(json.dumps(crew.to_json()))
    assert load_data(data) == crew
    assert definition_hash(load_definition(text)) == definition_hash(load_data(data))
    assert to_yaml(load_definition(text)) == text


@read_again
@given(crews(plain=True))
def test_english_gives_the_definition_back(crew: CrewDefinition) -> None:
    registry = registry_for(crew)
    assert expressible(crew, registry) == []
    text = to_english(crew, registry)
    first = _read(text, registry)
    assert first.definition is not None
    assert differences(meaning(crew), meaning(first.definition)) == [], text
    assert _told(crew) == _told(first.definition), text
    # From then on nothing moves, down to the address: what is approved is what is read again.
    again = _read(to_english(first.definition, registry), registry)
    assert again.hash == first.hash, text


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases()])
def test_english_gives_the_corpus_back(case: Case) -> None:
    registry = _offered(case)
    found = _read(to_english(case.expected, registry), registry)
    assert found.definition is not None
    assert differences(meaning(case.expected), meaning(found.definition)) == []


def _read(text: str, registry: Registry) -> CompiledPrompt:
    found = compile_prompt(text, registry)
    assert found.understood, "\n".join([text, *(r.diagnostic.render() for r in found.remarks)])
    return found


def _told(crew: CrewDefinition) -> dict[str, tuple[list[str], list[str]]]:
    """What agents are told besides what they must set: in each phase, and throughout."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    items = [phase.item for phase in phases(crew)]
    for name, agent in crew.agents.items():
        own = [i.task for i in items if isinstance(i, AgentPhase) and i.agent == name]
        told = told_of(name, agent, len(own), None)
        found[name] = ([told.task(task) for task in own], told.traits)
    return found


def _offered(case: Case) -> Registry:
    given = {k: v for k, v in case.registry.items() if k in Registry.model_fields}
    return Registry.model_validate(given)
