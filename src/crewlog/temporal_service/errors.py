"""Errors for a missing Temporal namespace, and for missing things in an existing one.

The server sends NOT_FOUND for both; for a missing namespace, the details name it.
"""

from __future__ import annotations

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.service import RPCError, RPCStatusCode

from crewlog.errors import NamespaceNotFound


def missing_namespace(error: RPCError) -> str | None:
    """The missing namespace; None for other errors."""
    failure = NamespaceNotFoundFailure()
    if error.status is RPCStatusCode.NOT_FOUND:
        for detail in error.grpc_status.details:
            if detail.Unpack(failure):
                return failure.namespace
    return None


def is_not_found(error: RPCError) -> bool:
    """Whether the namespace exists, and what was requested does not."""
    return error.status is RPCStatusCode.NOT_FOUND and missing_namespace(error) is None


def is_execution_not_found(error: RPCError) -> bool:
    """Whether the namespace exists, and the execution does not or cannot."""
    return error.status is RPCStatusCode.INVALID_ARGUMENT or is_not_found(error)


def namespace_not_found_error(namespace: str, address: str) -> NamespaceNotFound:
    """The error for a namespace that the server at `address` does not have."""
    return NamespaceNotFound(
        f"the Temporal server has no namespace {namespace!r}",
        remedy="Correct TEMPORAL_NAMESPACE, or create it: temporal operator namespace create "
        f"--address {address} --namespace {namespace} --retention 30d",
        place=address,
    )
