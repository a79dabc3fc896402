"""A model service of OpenAI's kind whose answers a test scripts: whole, in pieces, and failing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import pytest


@dataclass(frozen=True)
class Says:
    """A reply.

    Args:
        message: The fields of the message, e.g. `content` and `tool_calls`.
        end: Its `finish_reason`; None where it does not say how it ended.
        pieces: The deltas of a stream; by default the message as one.
    """

    message: Mapping[str, Any]
    end: str | None = "stop"
    pieces: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Fails:
    """An answer that is no reply."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Script = Callable[[int, dict[str, Any]], Says | Fails]
"""What the request of a number, from 0, is answered."""


def calls(*arguments: str, name: str = "put") -> dict[str, Any]:
    """A message that calls a tool, once for each text of arguments."""
    return {
        "tool_calls": [
            {
                "index": i,
                "id": f"c{i}",
                "type": "function",
                "function": {"name": name, "arguments": each},
            }
            for i, each in enumerate(arguments)
        ]
    }


def _encoded(body: Any, *, events: bool) -> tuple[str, bytes]:
    """The type and the bytes of an answer, as JSON or as the one event of a stream."""
    data = json.dumps(body).encode()
    return (
        ("text/event-stream", b"data: " + data + b"\n\n") if events else ("application/json", data)
    )


class Service:
    """The service on a free port, with what it was asked and when."""

    def __init__(self, script: Script) -> None:
        self.asked: list[dict[str, Any]] = []
        self.times: list[float] = []
        lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(service.asked)
                    service.asked.append(asked)
                    service.times.append(time.monotonic())
                    answer = script(number, asked)
                match answer:
                    case Fails(status, body, headers):
                        events = status == 200 and bool(asked.get("stream"))
                        self._whole(body, status, headers, events=events)
                    case Says() if asked.get("stream"):
                        self._stream(asked["model"], answer)
                    case Says(message, end):
                        said = {"role": "assistant", "content": None, **message}
                        choice = {"index": 0, "message": said, "finish_reason": end}
                        head = {"id": "x", "created": 1, "model": asked["model"]}
                        self._whole({**head, "object": "chat.completion", "choices": [choice]})

            def _stream(self, model: str, answer: Says) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                head = {"id": "x", "created": 1, "model": model, "object": "chat.completion.chunk"}
                for delta in answer.pieces or [answer.message]:
                    self._piece(head, delta, None)
                if answer.end is not None:
                    self._piece(head, {}, answer.end)
                    self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def _piece(self, head: dict[str, Any], delta: Any, end: str | None) -> None:
                choice = {"index": 0, "delta": delta, "finish_reason": end}
                data = json.dumps({**head, "choices": [choice]}).encode()
                self.wfile.write(b"data: " + data + b"\n\n")

            def _whole(
                self,
                body: Any,
                status: int = 200,
                headers: Mapping[str, str] = MappingProxyType({}),
                *,
                events: bool = False,
            ) -> None:
                kind, data = _encoded(body, events=events)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@contextmanager
def openai_services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Service]]:
    """Starts services; models of `openai:` are asked at the one that was started last."""
    with ExitStack() as running:

        def start(script: Script) -> Service:
            found = running.enter_context(serving(script))
            monkeypatch.setenv("OPENAI_BASE_URL", found.url)
            monkeypatch.setenv("OPENAI_API_KEY", "k")
            return found

        yield start


@contextmanager
def serving(script: Script) -> Iterator[Service]:
    """Runs a service."""
    service = Service(script)
    thread = threading.Thread(target=service.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.server.shutdown()
        service.server.server_close()
        thread.join()
