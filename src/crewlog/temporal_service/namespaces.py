"""Namespaces of a Temporal Service, and the version of its server."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    GetSystemInfoRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from crewlog.errors import TemporalUnavailable
from crewlog.temporal_service.errors import missing_namespace, namespace_not_found_error

RPC_TIMEOUT = timedelta(seconds=10)
"""The timeout of one request."""


async def server_version(client: Client) -> str:
    """The server's version.

    Raises:
        TemporalUnavailable: It does not answer.
    """
    try:
        info = await client.workflow_service.get_system_info(
            GetSystemInfoRequest(), timeout=RPC_TIMEOUT
        )
    except RPCError as error:
        raise TemporalUnavailable(f"the Temporal server refused: {error.message}") from error
    return info.server_version


async def describe_namespace(client: Client, namespace: str) -> DescribeNamespaceResponse:
    """The description of a namespace."""
    return await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=namespace), timeout=RPC_TIMEOUT
    )


async def check_namespace(client: Client) -> None:
    """Checks that the server has the namespace of the client; ignores other errors.

    Raises:
        NamespaceNotFound: it does not.
    """
    try:
        await describe_namespace(client, client.namespace)
    except RPCError as error:
        if missing_namespace(error) is not None:
            address = client.service_client.config.target_host
            raise namespace_not_found_error(client.namespace, address) from error


def retention_of(namespace: DescribeNamespaceResponse) -> timedelta:
    """How long the server keeps ended executions."""
    return namespace.config.workflow_execution_retention_ttl.ToTimedelta()
