"""The limit of a reply's tokens, and the retry of a reply that it cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from activity_kit import Log, crew
from temporalio.exceptions import ApplicationError

from crewlog.activities.chat_models import ModelFactory, with_larger_limit
from crewlog.ids import StepId
from crewlog.state.excerpt import message_excerpt
from dialects import DIALECTS, KEY, Said, serving
from scripted_service import Fails, Says, Script, Service, openai_services

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""The names by which services know the limit."""


def limits_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The limits in a request, wherever its service has them."""
    found = {key: value for key, value in asked.items() if key in LIMITS}
    found |= {k: v for k, v in (asked.get("options") or {}).items() if k in LIMITS}
    config = asked.get("generationConfig") or {}
    return found | {k: v for k, v in config.items() if k == "maxOutputTokens"}


@pytest.mark.parametrize(
    ("dialect", "settings", "limit"),
    [
        ("chat", {"max_tokens": 100}, {"max_completion_tokens": 400}),
        ("chat", {"max_completion_tokens": 100}, {"max_completion_tokens": 400}),
        (
            "chat",
            {"max_tokens": 7, "max_completion_tokens": 100},
            {"max_completion_tokens": 400},
        ),
        ("chat", {"extra_body": {"max_tokens": 100, "n": 1}}, {"max_tokens": 400}),
        ("responses", {"max_tokens": 100}, {"max_output_tokens": 400}),
        ("responses", {"max_completion_tokens": 100}, {"max_output_tokens": 400}),
        ("responses", {"max_output_tokens": 100}, {"max_output_tokens": 400}),
        ("anthropic", {"max_tokens": 100}, {"max_tokens": 400}),
        ("anthropic", {"max_tokens_to_sample": 100}, {"max_tokens": 400}),
        ("google", {"max_tokens": 100}, {"maxOutputTokens": 400}),
        ("google", {"max_output_tokens": 100}, {"maxOutputTokens": 400}),
        ("ollama", {"num_predict": 100}, {"num_predict": 400}),
    ],
)
async def test_the_larger_limit_is_sent_under_every_name(
    dialect: str, settings: dict[str, Any], limit: dict[str, Any]
) -> None:
    spoken = DIALECTS[dialect]
    with serving() as service:
        given = spoken.settings_at(service, **settings, api_key=KEY)
        model = await ModelFactory().get(spoken.model, with_larger_limit(given, 4) or {}, 30.0)
        service.next.append(Said("Whole."))
        await model.ainvoke("Write.")
        assert limits_of(service.asked[-1].body) == limit


async def test_the_larger_limit_is_sent_to_azure() -> None:
    settings: dict[str, Any] = {
        "api_key": KEY,
        "azure_endpoint": "http://127.0.0.1:9",
        "api_version": "2024-10-21",
        "max_completion_tokens": 100,
    }
    larger = with_larger_limit(settings, 2) or {}
    model: Any = await ModelFactory().get("azure_openai:m", larger, 30.0)
    assert limits_of(model._get_request_payload("Write.")) == {"max_completion_tokens": 200}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_without_a_limit_in_the_settings_none_is_sent(dialect: str) -> None:
    spoken = DIALECTS[dialect]
    with serving() as service:
        given = {
            key: value
            for key, value in spoken.settings_at(service, api_key=KEY).items()
            if key not in LIMITS
        }
        assert with_larger_limit(given, 2) is None


# -- a model call after a reply that was cut ------------------------------------------------------


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Service]]:
    with openai_services(monkeypatch) as start:
        yield start


def at_most(most: int, said: str = "max_tokens is too large") -> Script:
    """A service that refuses a larger limit."""

    def script(_: int, asked: dict[str, Any]) -> Says | Fails:
        if asked["max_completion_tokens"] > most:
            return Fails(400, {"error": {"message": said, "type": "invalid_request_error"}})
        return Says({"content": "Whole."})

    return script


Ask = Callable[..., Any]


@pytest.fixture
def ask(model_call: Ask, log: Log) -> Ask:
    """Asks with a limit of 100, after some replies that it cut; gives what was said."""

    async def call(cut: int, step: str = "backend#1", **settings: Any) -> str:
        log.says("Write.")
        given = {"streaming": False, "max_tokens": 100, **settings}
        definition = crew("openai:m", backend={"model_settings": given})
        return message_excerpt((await model_call(definition, log, cut=cut, step=StepId(step))).body)

    return call


def limits(service: Service) -> list[int]:
    return [asked["max_completion_tokens"] for asked in service.asked]


@pytest.mark.parametrize(
    "said", ["max_tokens is too large", "This model's maximum context length is 8000 tokens."]
)
async def test_a_limit_that_the_service_rejects_is_reduced(
    service: Callable[[Script], Service], ask: Ask, said: str
) -> None:
    models = service(at_most(100, said))
    assert await ask(cut=1) == "Whole."
    assert limits(models) == [200, 100]


async def test_a_rejected_limit_is_not_sent_again_in_the_step(
    service: Callable[[Script], Service], ask: Ask
) -> None:
    models = service(at_most(200))
    await ask(cut=2)
    assert limits(models) == [400, 200], "the largest that it takes"
    await ask(cut=3)
    assert limits(models)[2:] == [200]
    await ask(cut=2, step="backend#2")
    assert limits(models)[3:] == [400, 200], "another step tries"


@pytest.mark.parametrize("status", [401, 402])
async def test_other_rejections_are_not_retried(
    service: Callable[[Script], Service], ask: Ask, status: int
) -> None:
    models = service(lambda *_: Fails(status, {"error": {"message": "no"}}))
    with pytest.raises(ApplicationError, match=f"answered {status}"):
        await ask(cut=2)
    assert limits(models) == [400]
