"""Worker Deployment Versions: whether a server can pin runs to builds, and the current build.

An execution is pinned to the build that started it, and continue-as-new moves the run to the
current build. A server that pins but does not move would keep a run on its first build forever.
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
"""The oldest server that moves a pinned run at continue-as-new; 1.29 does not."""


def can_pin(server_version: str) -> bool:
    """Whether a server of this version moves pinned runs at continue-as-new; False if unknown."""
    match = re.match(r"(\d+)\.(\d+)", server_version)
    return match is not None and (int(match[1]), int(match[2])) >= MINIMUM_SERVER


async def current_build(client: Client, deployment: str) -> str | None:
    """The build of new runs and of runs that continue as new; None while there is none.

    Raises:
        RPCError: The server does not answer, or denies the request.
    """
    try:
        described = await client.workflow_service.describe_worker_deployment(
            DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment),
            timeout=RPC_TIMEOUT,
        )
    except RPCError as error:
        if is_not_found(error):  # no worker of the deployment has polled yet
            return None
        raise
    routing = described.worker_deployment_info.routing_config
    return routing.current_deployment_version.build_id or None


def make_current_command(
    cli: str, address: str, namespace: str, deployment: str, build: str
) -> str:
    """The command with which an operator makes a build current.

    Args:
        cli: The path of the `temporal` command, or `temporal`.
        address: The address of the server.
        namespace: The namespace.
        deployment: The deployment of the build.
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
