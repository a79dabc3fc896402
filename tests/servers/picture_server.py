"""An MCP server whose tool gives a picture, a sound and a document."""

from __future__ import annotations

import base64

from mcp.server.fastmcp import FastMCP
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from pydantic import AnyUrl

DATA = base64.b64encode(b"the bytes of a file").decode()
server = FastMCP("pictures")


@server.tool()
def draw() -> list[ContentBlock]:
    """Draws."""
    document = BlobResourceContents(
        uri=AnyUrl("file:///page.pdf"), blob=DATA, mimeType="application/pdf"
    )
    return [
        TextContent(type="text", text="Look:"),
        ImageContent(type="image", data=DATA, mimeType="image/png"),
        AudioContent(type="audio", data=DATA, mimeType="audio/wav"),
        EmbeddedResource(type="resource", resource=document),
    ]


if __name__ == "__main__":
    server.run()
