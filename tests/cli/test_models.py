"""What `validate`, `run` and `doctor` say of a crew's models before a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli

GOOD = "a-good-key"
LISTS: dict[str, Any] = {
    "/openai/models": {"data": [{"id": "gpt-5-mini-2025-08-07"}]},
    "/anthropic/v1/models": {"data": [{"id": "claude-sonnet-4-5-20250929"}]},
    "/google/v1/models": {"models": [{"name": "models/gemini-2.5-flash"}]},
    "/ollama/api/tags": {"models": [{"name": "qwen3:latest"}]},
}


@dataclass
class Service:
    """Four providers at one address, which list their models to who has the key."""

    url: str = ""
    asked: list[str] = field(default_factory=list[str])


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            found.asked.append(path)
            keys = (
                self.headers.get("Authorization", "").removeprefix("Bearer "),
                self.headers.get("x-api-key"),
                self.headers.get("x-goog-api-key"),
            )
            allowed = GOOD in keys or path.startswith("/ollama")
            listed = LISTS.get(path)
            code = 401 if not allowed else 200 if listed else 404
            body = json.dumps(listed if code == 200 else {"error": "no"}).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    found = Cli(tmp_path / "home", tmp_path)
    for name in [n for n in found.env if n.endswith("_API_KEY")]:
        del found.env[name]
    return found


def write(cli: Cli, **models: Any) -> None:
    agents = {
        name: {"prompt": "P.", **({"model": given} if isinstance(given, str) else given)}
        for name, given in models.items()
    }
    (cli.cwd / "crew.yaml").write_text(json.dumps({"crew": "c", "agents": agents}))


def models_in(cli: Cli, **env: str) -> dict[str, dict[str, str]]:
    done = cli("doctor", "--json", **env)
    checks = json.loads(done.out)["checks"]
    return {c["name"].removeprefix("Model "): c for c in checks if c["name"].startswith("Model ")}


def test_validate_warns_of_providers_that_are_not_here(cli: Cli) -> None:
    write(cli, a="google:gemini-2.5-flash", b="bedrock:nova", c="ollama:qwen3")
    done = cli("validate", "crew.yaml", "--json")
    assert done.code == 0, done.err
    told = {(each["message"], each["remedy"]) for each in json.loads(done.out)["warnings"]}
    assert told == {
        (
            "there is no model 'google:gemini-2.5-flash': its provider 'google' is unknown",
            "Did you mean 'google_genai:gemini-2.5-flash'?",
        ),
        (
            "the model 'bedrock:nova' needs the package 'langchain-aws', which is not installed",
            "Install it where the worker runs: pip install 'crewlog[bedrock]'",
        ),
    }


def test_validate_warns_of_keys_and_secrets_that_are_not_here(cli: Cli) -> None:
    write(
        cli,
        a="openai:gpt-5-mini",
        b={"model": "openai:gpt-5", "model_settings": {"api_key": "env:TEAM_KEY_UNSET"}},
    )
    warnings = json.loads(cli("validate", "crew.yaml", "--json").out)["warnings"]
    told = [each["message"] for each in warnings]
    assert told == [
        "the model 'openai:gpt-5-mini' needs a key, and OPENAI_API_KEY is not set",
        "the secret 'env:TEAM_KEY_UNSET' is not set on this worker",
    ]


def test_a_run_with_its_own_worker_starts_nothing_that_it_cannot_call(cli: Cli) -> None:
    write(
        cli,
        a="google:gemini-2.5-flash",
        b="bedrock:nova",
        c="anthropic:claude-sonnet-4-5",
        d={"model": "openai:gpt-5-mini", "model_settings": {"api_key": "env:TEAM_KEY"}},
    )
    done = cli("run", "crew.yaml", "-i", "Go.")
    assert done.code == 2
    for said in (
        "Did you mean 'google_genai:gemini-2.5-flash'?",
        "pip install 'crewlog[bedrock]'",
        "ANTHROPIC_API_KEY is not set",
    ):
        assert said in done.err
    assert "OPENAI_API_KEY" not in done.err, "that agent names a key of its own"
    assert "'env:TEAM_KEY' is not set" in done.err, "and nobody has it"
    assert not (cli.cwd / "home").exists(), "nothing was started"


def test_doctor_finds_what_is_installed_reachable_and_allowed(cli: Cli, service: Service) -> None:
    def at(path: str, **more: str) -> dict[str, str]:
        return {"base_url": f"{service.url}{path}", **more}

    key = {"api_key": "env:TEAM_KEY"}
    write(
        cli,
        a={"model": "openai:gpt-5-mini", "model_settings": at("/openai", **key)},
        b={"model": "anthropic:claude-sonnet-4-5", "model_settings": at("/anthropic", **key)},
        c={"model": "google_genai:gemini-2.5-flash", "model_settings": at("/google", **key)},
        d={"model": "ollama:qwen3", "model_settings": at("/ollama")},
        e={"model": "ollama:llama3", "model_settings": at("/ollama")},
        f={"model": "openai:gpt-7", "model_settings": at("/openai", **key)},
        g={"model": "openai:gpt-8", "model_settings": at("/openai", api_key="env:OLD_KEY")},
        h={"model": "openai:gpt-9", "model_settings": {"base_url": "http://127.0.0.1:9", **key}},
        i={"model": "openai:other", "model_settings": at("/nothing", **key)},
        j="groq:llama",
        k={"model": "openai:none", "model_settings": {"api_key": "env:NOT_SET"}},
        m="scripted:none.yaml",
    )
    found = models_in(cli, TEAM_KEY=GOOD, OLD_KEY="an-old-key")
    assert {name: each["status"] for name, each in found.items()} == {
        "openai:gpt-5-mini": "ok",
        "anthropic:claude-sonnet-4-5": "ok",
        "google_genai:gemini-2.5-flash": "ok",
        "ollama:qwen3": "ok",
        "ollama:llama3": "fail",
        "openai:gpt-7": "warn",
        "openai:gpt-8": "fail",
        "openai:gpt-9": "fail",
        "openai:other": "warn",
        "groq:llama": "fail",
        "openai:none": "fail",
        "scripted:none.yaml": "fail",
    }
    assert found["ollama:llama3"]["remedy"] == "Get it: ollama pull llama3"
    assert "does not list it" in found["openai:gpt-7"]["detail"]
    assert "refuses the key (401)" in found["openai:gpt-8"]["detail"]
    assert "cannot be reached" in found["openai:gpt-9"]["detail"]
    assert "answers 404" in found["openai:other"]["detail"]
    assert "crewlog[groq]" in found["groq:llama"]["remedy"]
    assert "NOT_SET" in found["openai:none"]["detail"]
    assert GOOD not in json.dumps(found)


def test_doctor_reads_addresses_and_keys_of_the_environment(cli: Cli, service: Service) -> None:
    write(cli, a="anthropic:claude-sonnet-4-5", b="google_genai:gemini-2.5-flash", c="ollama:qwen3")
    found = models_in(
        cli,
        ANTHROPIC_API_KEY=GOOD,
        ANTHROPIC_BASE_URL=f"{service.url}/anthropic",
        GEMINI_API_KEY=GOOD,
        GOOGLE_GEMINI_BASE_URL=f"{service.url}/google",
        OLLAMA_HOST=f"{service.url.removeprefix('http://')}/ollama",
    )
    assert {each["status"] for each in found.values()} == {"ok"}, found


OWN_PACKAGE = """
from langchain_core.language_models.fake_chat_models import FakeListChatModel

def build(name, settings, timeout):
    return FakeListChatModel(responses=[f"{name} {settings['mood']} {timeout:.0f}"])
"""
ASK = """
import asyncio
from crewlog.activities.chat_models import ModelFactory
model = asyncio.run(ModelFactory().get("house:small", {"mood": "calm"}, 60.0))
print(model.invoke("Hello.").content)
"""


def test_a_package_brings_a_provider_of_its_own(cli: Cli) -> None:
    packages = cli.cwd / "packages"
    about = packages / "house_models-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: house-models\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[crewlog.models]\nhouse = house_models:build\n")
    (packages / "house_models.py").write_text(OWN_PACKAGE)
    write(cli, a="house:small")

    def python(*words: str, path: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=cli.cwd,
            env={**cli.env, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    validate = ("-m", "crewlog.cli.main", "validate", "crew.yaml", "--json")
    (warning,) = json.loads(python(*validate, path="").stdout)["warnings"]
    assert "'house' is unknown" in warning["message"]
    path = os.fspath(packages)
    assert json.loads(python(*validate, path=path).stdout)["warnings"] == []
    assert python("-c", ASK, path=path).stdout == "small calm 60\n"


def test_doctor_fails_where_an_mcp_server_of_the_crew_cannot_start(cli: Cli) -> None:
    crew = {
        "crew": "c",
        "agents": {"a": {"prompt": "P.", "model": "scripted:s.yaml", "tools": ["x"]}},
        "tools": {"x": {"run": "mcp:s/x"}},
        "mcp": {"s": {"command": "no-such-program"}},
    }
    (cli.cwd / "crew.yaml").write_text(json.dumps(crew))
    done = cli("doctor", "--json")
    assert done.code == 5
    (check,) = [each for each in json.loads(done.out)["checks"] if each["name"] == "MCP server s"]
    assert check["status"] == "fail"
    assert "the program 'no-such-program' is not installed here" in check["detail"]


def test_doctor_tells_every_fault_of_a_crew(cli: Cli) -> None:
    crew = "crew: c\nagents:\n  a: {prompt: P., tolls: [x]}\n  b: {prompt: P., tools: [nope]}\n"
    (cli.cwd / "crew.yaml").write_text(crew)
    validated = json.loads(cli("validate", "crew.yaml", "--json").err)["error"]["diagnostics"]
    assert len(validated) > 1
    found = json.loads(cli("doctor", "--json").out)["checks"]
    told = [(c["detail"], c["remedy"]) for c in found if c["name"] == "Crew"]
    assert told == [(f"{d['place']}: {d['message']}", d["remedy"]) for d in validated]
    assert "Diagnostic(" not in cli("doctor").out
