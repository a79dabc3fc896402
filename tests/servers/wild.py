"""A server over stdio that behaves badly, in the way and at the request that its arguments say.

A second argument is a file with the answer to a call, as JSON: its `result` or its `error`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

at, how = sys.argv[1].split(":")
"""At which request, and what happens then."""
NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "wild", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
CALLED: dict[str, Any] = json.loads(Path(sys.argv[2]).read_text()) if sys.argv[2:] else {}


def flood(file: Any, text: str) -> None:
    while True:
        file.write(text * 10_000)
        file.flush()


def misbehave() -> None:
    match how:
        case "endless":
            flood(sys.stdout, "x")
        case "noise":
            flood(sys.stdout, "\n.\n{\n")
        case "notes":
            flood(sys.stdout, json.dumps(NOTE) + "\n")
        case "hang":
            time.sleep(1000)
        case "slow":
            time.sleep(0.3)
        case "die":
            sys.stderr.write("out of\x1b[1m paper\n")
            sys.stderr.flush()
            os._exit(3)
        case "complain":
            for _ in range(300):
                sys.stderr.write("e" * 100_000)
            sys.stderr.flush()
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(1000)
        case _:
            pass


sys.stdout.write("wild server 1.0 is ready\n")  # as some do, though it is no message
while line := sys.stdin.readline():
    asked = json.loads(line)
    if asked["method"] == at:
        misbehave()
    if "id" in asked:
        found = CALLED if CALLED and asked["method"] == "tools/call" else None
        answer = {"jsonrpc": "2.0", "id": asked["id"]}
        answer |= found or {"result": RESULTS[asked["method"]]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
