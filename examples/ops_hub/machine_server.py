"""An MCP server over stdio that tells how the machine is: load, memory, disks.

It is written on Python alone, so that any `python3` runs it, whichever packages that one has. A
message is a line of JSON; a request has an id and gets an answer of that id.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

_GIB = 1024**3


def load(_: dict[str, Any]) -> str:
    """How busy the processors are."""
    one, five, fifteen = os.getloadavg()
    count = os.cpu_count() or 1
    return f"Load {one:.2f}, {five:.2f}, {fifteen:.2f} (1, 5, 15 minutes) on {count} processors."


def memory(_: dict[str, Any]) -> str:
    """How much memory there is and is free."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts = Path("/proc/meminfo")
    lines = [line.split() for line in facts.read_text().splitlines()] if facts.exists() else []
    kept = {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if len(line) > 1}
    free = kept.get("MemAvailable", kept.get("MemFree"))
    if free is None:
        return f"Memory: {total / _GIB:.1f} GiB."
    return f"Memory: {free / _GIB:.1f} of {total / _GIB:.1f} GiB are free."


def disk(arguments: dict[str, Any]) -> str:
    """How much room a disk has."""
    path = str(arguments.get("path", "/"))
    found = shutil.disk_usage(path)
    share = 100 * found.free / found.total
    return (
        f"{path}: {found.free / _GIB:.1f} of {found.total / _GIB:.1f} GiB are free ({share:.0f} %)."
    )


def uptime(_: dict[str, Any]) -> str:
    """For how long the machine has been up."""
    facts = Path("/proc/uptime")
    seconds = float(facts.read_text().split()[0]) if facts.exists() else time.monotonic()
    return f"Up for {seconds / 3600:.1f} hours."


NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
PATH: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "A folder on the disk, e.g. /"}},
    "additionalProperties": False,
}
TOOLS = {
    "load": (load, "Tells how busy the machine's processors are.", NOTHING),
    "memory": (memory, "Tells how much memory the machine has and how much is free.", NOTHING),
    "disk": (disk, "Tells how much room is left on a disk.", PATH),
    "uptime": (uptime, "Tells for how long the machine has been up.", NOTHING),
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request is answered.

    Raises:
        LookupError: there is no such method, or no such tool.
    """
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "machine", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {
            "tools": [
                {"name": name, "description": about, "inputSchema": schema}
                for name, (_, about, schema) in TOOLS.items()
            ]
        }
    if method == "tools/call":
        tool = TOOLS[params["name"]][0]
        try:
            text, failed = tool(params.get("arguments") or {}), False
        except OSError as exc:
            text, failed = f"{type(exc).__name__}: {exc.strerror}", True
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    raise LookupError(method)


def main() -> None:
    """Answers until the input ends."""
    for line in sys.stdin:
        said = json.loads(line)
        if "id" not in said or "method" not in said:
            continue  # a notification, or an answer to nothing that was asked
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": said["id"]}
        try:
            reply["result"] = answer(said["method"], said.get("params") or {})
        except LookupError as exc:
            reply["error"] = {"code": -32601, "message": f"there is no {exc}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
