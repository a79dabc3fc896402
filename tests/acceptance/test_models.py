"""Models of somebody's own worker, and what a service is asked for each stage."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from covers import covers

from .harness import LIMIT, Site
from .project.own_models import FORMS

QUEUE = "own-models"


class Service:
    """A service of OpenAI's kind that always says the same, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.asked.append(body)
                message = {"role": "assistant", "content": "done"}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                head = {"id": "r", "object": "chat.completion", "created": 1, "model": "m"}
                data = json.dumps({**head, "choices": [choice]}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
async def service(whole_site: Site) -> AsyncIterator[Service]:
    """A service, and a worker that asks it, and has models of its own."""
    made = Service()
    url = f"http://127.0.0.1:{made.server.server_port}/v1"
    worker = whole_site.spawn(QUEUE, module="own_models", OPENAI_BASE_URL=url, OPENAI_API_KEY="k")
    await worker.ready()
    yield made
    whole_site.end_workers(QUEUE)
    made.server.shutdown()
    made.server.server_close()


@covers("C75")
async def test_a_model_may_answer_in_any_form(site: Site, service: Service) -> None:
    del service
    forms = [name for name in FORMS if name != "nothing-of-it"]
    crew: dict[str, Any] = {
        "crew": "forms",
        "agents": {
            name: {"prompt": "Say who is next.", "model": f"form:{name}", "reply": ROUTE}
            for name in forms
        }
        | {"writer": {"prompt": "Write.", "model": "form:text"}}
        | {
            "odd": {
                "prompt": "Say.",
                "model": "form:nothing-of-it",
                "on_error": "continue",
                "retry": {"attempts": 1},
            }
        },
        "flow": [[*forms, "odd"], "writer"],
    }
    run, result = await site.finish(crew, queue=QUEUE)
    assert result.status == "completed"
    said = {name: result.outputs[name] for name in forms}  # type: ignore[index]
    assert {name: found["next"] for name, found in said.items()} == dict.fromkeys(forms, "writer")
    assert {json.loads(str(found["text"]))["next"] for found in said.values()} == {"writer"}
    read = {each.agent: each.how for each in await site.entries(run, "StructuredOutputParsed")}
    assert read == dict.fromkeys(forms, "json")
    (failed,) = await site.entries(run, "StepFailed")
    assert (failed.agent, "something else than a reply" in failed.error) == ("odd", True)


ROUTE = {"decision": "route", "among": ["writer"], "tries": 1}


@covers("C89")
async def test_each_stage_is_asked_with_its_own_thinking_budget(
    site: Site, service: Service
) -> None:
    stages: dict[str, dict[str, Any]] = {
        "discovery": {"model_settings": {"reasoning_effort": "low", "max_completion_tokens": 900}},
        "builder": {"model_settings": {"reasoning_effort": "high"}},
        "responder": {"model": "openai:m-small"},
    }
    once = {"streaming": False}
    crew = {
        "crew": "stages",
        "model": "openai:m",
        "agents": {
            name: {
                "prompt": f"You are {name}.",
                **rules,
                "model_settings": {**once, **rules.get("model_settings", {})},
            }
            for name, rules in stages.items()
        },
        "flow": [*stages],
    }
    before = len(service.asked)
    run = await site.start(crew, queue=QUEUE)
    assert (await run.result(LIMIT)).status == "completed"
    asked = {
        each["messages"][0]["content"].removeprefix("You are ").rstrip("."): (
            each["model"],
            each.get("reasoning_effort"),
            each.get("max_completion_tokens"),
        )
        for each in service.asked[before:]
    }
    assert asked == {
        "discovery": ("m", "low", 900),
        "builder": ("m", "high", None),
        "responder": ("m-small", None, None),
    }
