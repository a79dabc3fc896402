"""Worker Deployment Versions: whether a server can pin runs to builds, and which build is current.

A run is pinned to the build that began its execution, and moves to the current one when it
continues as new. Both halves are needed: a server that pins and does not let go at continue-as-new
would keep a run on its first build for ever.
"""

from __future__ import annotations

import re
import shlex

from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client
from temporalio.service import RPCError

from crewlog.temporal_service.errors import is_not_found
from crewlog.temporal_service.namespaces import RPC_TIMEOUT

MINIMUM_SERVER = (1, 31)
"""The oldest server that is known to move a pinned run at continue-as-new; 1.29 ignores that."""


def can_pin(server_version: str) -> bool:
    """Whether a server of this version moves pinned runs at continue-as-new; no, if it is odd."""
    match = re.match(r"(\d+)\.(\d+)", server_version)
    return match is not None and (int(match[1]), int(match[2])) >= MINIMUM_SERVER


async def current_build(client: Client, deployment: str) -> str | None:
    """The build that new runs, and runs that continue as new, go to; None while there is none.

    Raises:
        RPCError: The server does not answer, or does not let us ask.
    """
    try:
        described = await client.workflow_service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment),
            timeout=RPC_TIMEOUT,
        )
    except RPCError as error:
        if is_not_found(error):  # no worker of it has polled yet
            return None
        raise
    routing = described.worker_deployment_info.routing_config
    return routing.current_deployment_version.build_id or None


def make_current(cli: str, address: str, namespace: str, deployment: str, build: str) -> str:
    """The command line with which an operator makes a build current.

    Args:
        cli: Where the `temporal` command is, `temporal` if this machine has none.
        address: The server's.
        namespace: The namespace.
        deployment: What the build is one of.
        build: The build.
    """
    words = [cli, "worker", "deployment", "set-current-version", "--yes"]
    words += [
        "--address",
        address,
        "--namespace",
        namespace,
        "--deployment-name",
        deployment,
        "--build-id",
        build,
    ]
    return shlex.join(words)
