"""A command's signature as data; `crewlog.authority.principals` says what it is over.

Here, because whoever reads the wire's models needs no cryptography.
"""

from __future__ import annotations

from pydantic import Field

from crewlog.model import Model

START = "start"
"""The name under which the start of a run is signed."""

SCHEDULE = "schedule"
"""The same where a schedule starts it, as one of many: signed is the part of its id that they
share."""

APPROVE = "approve_tool"
"""The name under which the approval of a server's tool is signed: it is of no run."""

EVERYWHERE = ""
"""What is signed in the place of a namespace where an approval holds in each of them."""


class Signature(Model):
    """A command's signature."""

    key: str = Field(max_length=100)
    """The public key of who signed it: `ed25519:BASE64`."""
    expires: int = Field(ge=0, le=2**53 - 1)
    """Until when it holds, in milliseconds since 1970."""
    signature: str = Field(max_length=100)
    """The Ed25519 signature, 64 bytes in base64."""


class SignedApproval(Model):
    """That somebody approved what a tool of a server says of itself."""

    source: str
    """The server, as `McpServer.source` names it."""
    tool: str
    """The tool's name there."""
    digest: str
    """Of all that the tool says of itself."""
    by: str
    """Who says so, for people: who it is is proven by the signature."""
    at: int
    """When, in milliseconds since the epoch."""
    signature: Signature
