"""Signatures as data; `crewlog.authority.principals` creates and verifies them.

A module of its own, so that the models of the wire contract need no cryptography.
"""

from __future__ import annotations

from pydantic import Field

from crewlog.model import Model

START = "start"
"""The name under which the start of a run is signed."""

SCHEDULE = "schedule"
"""The name under which a schedule is signed, with the id of the schedule instead of a run."""

APPROVE = "approve_tool"
"""The name under which the approval of a tool of an MCP server is signed."""

EVERYWHERE = ""
"""Instead of a namespace, for an approval that is valid in all namespaces."""


class Signature(Model):
    """A command's signature."""

    key: str = Field(max_length=100)
    """The public key of who signed it: `ed25519:BASE64`."""
    expires: int = Field(ge=0, le=2**53 - 1)
    """Until when it holds, in milliseconds since 1970."""
    signature: str = Field(max_length=100)
    """The Ed25519 signature, 64 bytes in base64."""


class SignedApproval(Model):
    """A signed approval of a tool of an MCP server."""

    source: str
    """The server, as `McpServer.source` names it."""
    tool: str
    """The tool's name there."""
    hash: str
    """The hash of the description of the tool and its arguments."""
    by: str
    """The name of the approver, for people; only the signature proves it."""
    at: int
    """When, in milliseconds since the epoch."""
    signature: Signature
