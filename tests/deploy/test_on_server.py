"""The parts of the deployment that a server can show: the init job and the health check."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from pathlib import Path

import pytest

from crewlog.client import Endpoints
from crewlog.dev import temporal_server
from crewlog.temporal_service import namespaces
from crewlog.temporal_service.cli import find_cli
from shared import Lab

DEPLOY = Path(__file__).parents[2] / "deploy"
LIMIT = 60.0

pytestmark = pytest.mark.server


async def _run(*words: str, **environ: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *words,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_the_init_job_prepares_a_namespace_and_may_run_again(
    lab: Lab, server: Endpoints
) -> None:
    namespace = f"init-{secrets.token_hex(4)}"
    cli = await find_cli()
    environ = {
        "PATH": f"{cli.path.parent}:{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_NAMESPACE": namespace,
        "TEMPORAL_RETENTION": "2d",
    }
    client = lab.client.temporal
    for days in (2, 30):
        environ["TEMPORAL_RETENTION"] = f"{days}d"
        code, said = await _run("sh", str(DEPLOY / "temporal-init.sh"), **environ)
        assert code == 0, said
        assert f"the namespace {namespace} is ready: retention {days}d" in said
        described = await namespaces.describe_namespace(client, namespace)
        assert namespaces.retention_of(described).days == days
        assert await temporal_server.missing_search_attributes(client, namespace) == []


async def test_the_init_job_gives_up_on_a_server_that_is_not_there() -> None:
    cli = await find_cli()
    environ = {
        "PATH": f"{cli.path.parent}:{os.environ['PATH']}",
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "TEMPORAL_PATIENCE": "1",
    }
    code, said = await _run("sh", str(DEPLOY / "temporal-init.sh"), **environ)
    assert code == 1
    assert "the Temporal server at 127.0.0.1:1 does not answer" in said


async def test_a_worker_is_healthy_where_it_polls(lab: Lab, server: Endpoints) -> None:
    environ = {
        "TEMPORAL_ADDRESS": server.address,
        "CREWLOG_TASK_QUEUE": lab.client.task_queue,
    }
    check = (sys.executable, str(DEPLOY / "healthcheck.py"))
    code, said = await _run(*check, **environ)
    assert code == 1
    assert "no worker of" in said
    async with lab.worker():
        for _ in range(100):
            code, said = await _run(*check, **environ)
            if code == 0:
                break
        assert code == 0, said
        assert f"polls '{lab.client.task_queue}'" in said
    code, said = await _run(*check, **(environ | {"TEMPORAL_ADDRESS": "127.0.0.1:1"}))
    assert code == 1
