"""The compose file: its parts fit together, and with what the code reads.

There is no Docker on the machines that run this. The structure is checked here; the JSON Schema of
the Compose Specification comes with its Go module, where Go can fetch it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cluster_config import PORT_NAMES, ROLES, State, server_environ
from cluster_programs import VERSION

from crewlog.dev.temporal_server import DYNAMIC_CONFIG, RETENTION
from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS
from crewlog.secrets import FOLDERS_VARIABLE
from crewlog.workers.settings import WorkerSettings

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE_GO = "github.com/compose-spec/compose-go/v2@v2.16.1"
VARIABLE = re.compile(r"\$\{(\w+)(?::?([-?])([^}]*))?\}")
READ_ELSEWHERE = {KEYS, ACCEPT_PLAIN, FOLDERS_VARIABLE}
"""Settings of workers that `WorkerSettings` does not have."""
OTHER_VARIABLES = {
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
    "DATABASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "CREWLOG_UI_URL",
    *READ_ELSEWHERE,
}
"""What a worker's environment may name besides its settings; each is read somewhere in the code."""


def _text() -> str:
    return (DEPLOY / "compose.yaml").read_text()


def _filled(match: re.Match[str]) -> str:
    return match[3] if match[2] == "-" else "filled"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file with its anchors resolved and its variables as they stand."""
    found: dict[str, Any] = yaml.safe_load(_text())
    return found


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found


def test_it_keeps_to_the_compose_specification() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("the specification's schema comes as a Go module, and there is no go")
    done = subprocess.run(
        [go, "mod", "download", "-json", COMPOSE_GO],
        capture_output=True, text=True, timeout=90, check=False, cwd="/",
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"the specification's schema cannot be fetched: {done.stdout[-300:]}")
    schema = json.loads(
        (Path(json.loads(done.stdout)["Dir"]) / "schema" / "compose-spec.json").read_text()
    )
    data = yaml.safe_load(VARIABLE.sub(_filled, _text()))
    faults = [
        f"{error.json_path}: {error.message}"
        for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(data)
    ]
    assert faults == []


def test_every_dependency_is_there_and_can_come_true(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, f"{name} depends on {other}"
            one_shot = str(services[other].get("restart", "")).startswith("on-failure")
            if how["condition"] == "service_completed_successfully":
                assert one_shot, f"{name} waits for the end of {other}, which has none"
            else:
                assert how["condition"] == "service_healthy"
                assert "healthcheck" in services[other], f"{other} can never be healthy"


def test_volumes_are_declared_and_what_is_mounted_exists(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    used: set[str] = set()
    for name, service in services.items():
        for volume in service.get("volumes", ()):
            source = VARIABLE.sub(_filled, volume).split(":")[0]
            if not source.startswith((".", "/")):
                used.add(source)
            elif not re.search("CREW_DIR|KEYS_DIR", volume):
                assert (DEPLOY / source).is_file(), f"{name} mounts {source}"
    assert used == set(compose["volumes"])


def test_what_must_survive_is_on_a_volume(services: dict[str, Any]) -> None:
    for name in ("temporal-db", "store-db"):
        assert f"{name}:/var/lib/postgresql/data" in services[name]["volumes"]
    for name in ("worker", "cli"):
        assert "data:/data" in services[name]["volumes"]
        for setting in ("CREWLOG_PAYLOADS", "CREWLOG_WORKSPACE"):
            assert services[name]["environment"][setting].startswith("/data/")
    same = {key: services["cli"]["environment"][key] for key in services["cli"]["environment"]}
    assert services["worker"]["environment"].items() >= same.items()


def test_ports_are_open_to_this_machine_only(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert len(published) == 2
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_workers_are_scaled_and_may_finish_what_they_have(services: dict[str, Any]) -> None:
    worker = services["worker"]
    assert worker["deploy"]["replicas"] >= 2
    assert "container_name" not in worker
    assert "ports" not in worker
    seconds = float(VARIABLE.sub(_filled, worker["environment"]["CREWLOG_SHUTDOWN_SECONDS"]))
    grace = VARIABLE.sub(_filled, worker["stop_grace_period"])
    assert float(grace.removesuffix("s")) > seconds


def test_every_setting_of_a_worker_can_be_made_in_the_environment_file(
    services: dict[str, Any],
) -> None:
    """Compose takes a variable without a value over from deploy/.env, where it is set there."""
    environ = services["worker"]["environment"]
    settings = {f"CREWLOG_{name.upper()}" for name in WorkerSettings.model_fields} | READ_ELSEWHERE
    on_volumes = {"CREWLOG_PAYLOADS", "CREWLOG_WORKSPACE"}
    assert settings <= set(environ)
    for name in settings - on_volumes - {"CREWLOG_SHUTDOWN_SECONDS"}:
        assert environ[name] is None, name
    assert "${CREWLOG_SHUTDOWN_SECONDS" in environ["CREWLOG_SHUTDOWN_SECONDS"]
    # Who reads what is encrypted needs the keys as well.
    for name in READ_ELSEWHERE:
        assert name in services["cli"]["environment"]
    for name in ("worker", "cli"):
        assert "${KEYS_DIR:-./keys}:/keys:ro" in services[name]["volumes"]


def test_a_workers_environment_is_what_the_code_reads(services: dict[str, Any]) -> None:
    settings = {f"CREWLOG_{name.upper()}" for name in WorkerSettings.model_fields}
    image = re.findall(r"(CREWLOG_\w+)=", (DEPLOY / "Dockerfile").read_text())
    for name in ("worker", "cli"):
        assert set(services[name]["environment"]) <= settings | OTHER_VARIABLES
    assert set(image) <= settings | {"CREWLOG_HOME"}
    code = "\n".join(
        path.read_text()
        for folder in ("src/crewlog", "activities", "workers")
        for path in (DEPLOY.parent / folder).rglob("*.py")
    )
    for variable in ("CREWLOG_UI_URL", "CREWLOG_HOME", "DATABASE_URL", "OPENAI_API_KEY"):
        assert variable in code


def test_no_secret_is_committed(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|PWD|KEY|TOKEN", key) and value is not None:
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {key}"
    example = (DEPLOY / ".env.example").read_text()
    assert re.findall(r"^\w*(?:PASSWORD|KEY)=(.*)$", example, re.MULTILINE) == ["", ""]
    assert "/.env\n" in (DEPLOY / ".gitignore").read_text()


def test_the_example_environment_names_every_variable_once() -> None:
    example = re.findall(r"^(?:# )?([A-Z_]+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE)
    asked = {match[1] for match in VARIABLE.finditer(_text())}
    assert len(example) == len(set(example))
    taken_over = {
        name
        for service in yaml.safe_load(_text())["services"].values()
        for name, value in service.get("environment", {}).items()
        if value is None
    }
    assert set(example) == asked | taken_over
    defaults = {m[1]: m[3] for m in VARIABLE.finditer(_text()) if m[2] == "-"}
    for name, value in defaults.items():
        assert f"\n{name}={value}\n" in (DEPLOY / ".env.example").read_text()


def test_the_server_is_tuned_as_the_local_one() -> None:
    tuned = yaml.safe_load((DEPLOY / "dynamicconfig.yaml").read_text())
    local = {}
    for setting in DYNAMIC_CONFIG:
        key, _, value = setting.partition("=")
        local[key] = json.loads(value)
    # A duration of zero is a number on the command line, and a text in the file.
    assert {key: values[0]["value"] for key, values in tuned.items()} == local | {
        "history.workflowIdReuseMinimalInterval": "0s"
    }


def test_it_is_the_cluster_that_runs_without_docker(services: dict[str, Any]) -> None:
    """The same parts as deploy/local-cluster, with the same settings, but for what names places."""
    state = State(
        ports={name: number for number, name in enumerate(PORT_NAMES, 20_000)},
        passwords={"temporal": "secret", "crewlog": "secret"},
    )
    places = {"DB_PORT", "POSTGRES_SEEDS", "POSTGRES_PWD", "BIND_ON_IP"}
    places |= {"PUBLIC_FRONTEND_ADDRESS", "DYNAMIC_CONFIG_FILE_PATH"}
    servers = {name: s for name, s in services.items() if "temporalio/server" in s.get("image", "")}
    assert set(servers) == {f"temporal-{role}" for role in ROLES}
    for role in ROLES:
        ours, theirs = server_environ(state, role), servers[f"temporal-{role}"]["environment"]
        assert theirs["TEMPORAL_SERVICES"] == role
        assert set(theirs) <= set(ours)
        for name in set(theirs) - places:
            assert theirs[name] == ours[name], f"{role}: {name}"
        # What compose leaves to the image: addresses within the network, and how much is logged.
        rest = set(ours) - set(theirs)
        assert {n for n in rest if not n.endswith("_PORT")} == {
            "TEMPORAL_BROADCAST_ADDRESS",
            "LOG_LEVEL",
        }
        assert servers[f"temporal-{role}"]["image"] == servers["temporal-frontend"]["image"]
    minor = VERSION.removeprefix("v").rpartition(".")[0]
    images = [s["image"] for s in services.values() if "TEMPORAL_VERSION" in s.get("image", "")]
    assert len(images) == len(ROLES) + 2
    assert all(VARIABLE.sub(_filled, image).partition(":")[2].startswith(minor) for image in images)


def test_a_part_is_healthy_where_its_own_port_answers(services: dict[str, Any]) -> None:
    ports = {"frontend": "7233", "history": "7234", "matching": "7235", "worker": "6939"}
    for role, port in ports.items():
        assert services[f"temporal-{role}"]["healthcheck"]["test"][-1] == port
        assert f"temporal-{role}" in services["temporal-init"]["depends_on"]


def test_the_scripts_are_shell_and_keep_what_the_local_server_keeps() -> None:
    for script in DEPLOY.glob("*.sh"):
        subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)
    assert f":-{RETENTION.days}d}}" in (DEPLOY / "temporal-init.sh").read_text()
