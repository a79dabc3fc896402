"""The table of providers, held against LangChain's own and against the extras of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from langchain.chat_models import base

from crewlog.definition.providers import PROVIDERS, meant_by, provider_of, slip_of

PYPROJECT = tomllib.loads(Path("pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]


def test_the_providers_are_those_of_init_chat_model() -> None:
    known = base._BUILTIN_PROVIDERS
    clients = {name: f"{module}:{client}" for name, (module, client, _) in known.items()}
    assert {name: each.client for name, each in PROVIDERS.items()} == clients


@pytest.mark.parametrize("name", [name for name, each in PROVIDERS.items() if each.extra])
def test_an_extra_brings_the_package_of_its_provider(name: str) -> None:
    provider = PROVIDERS[name]
    packages = {re.split(r"[<>=~\[]", each)[0] for each in EXTRAS[provider.extra]}
    assert packages == {provider.package}
    assert provider.install == f"pip install 'crewlog[{provider.extra}]'"


def test_a_base_install_brings_openai_alone() -> None:
    brought = {re.split(r"[<>=~\[]", each)[0] for each in PYPROJECT["project"]["dependencies"]}
    assert {each.package for each in PROVIDERS.values()} & brought == {"langchain-openai"}


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_documentation_lists_each_provider(name: str) -> None:
    text = Path("docs/models.md").read_text()
    (row,) = [line for line in text.splitlines() if f"`{name}`" in line.split("|")[1:2].__str__()]
    for key in PROVIDERS[name].keys if PROVIDERS[name].extra else ():
        assert f"`{key}`" in row
    extra = PROVIDERS[name].extra
    assert not extra or f"`crewlog[{extra}]`" in row


@pytest.mark.parametrize(
    ("prefix", "meant"),
    [
        ("antropic", "anthropic"),
        ("google-genai", "google_genai"),
        ("Ollama", "ollama"),
        ("ollama", "ollama"),
        ("ollama-gpu", ""),
        ("house", ""),
    ],
)
def test_a_slip_in_a_provider_is_noticed(prefix: str, meant: str) -> None:
    assert slip_of(prefix) == meant


def test_what_people_call_a_provider_is_known() -> None:
    assert meant_by("google") == "google_genai"
    assert meant_by("azure") == "azure_openai"
    assert provider_of("claude-sonnet-4-5") == "anthropic"
    assert provider_of("gpt-5-mini") == "openai"
