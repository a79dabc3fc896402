"""Usage and cost: the reports of a service never make a call cheaper than configured."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from crewlog.activities.usage import MOST_TOKENS, compute_usage, with_usage
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import warnings
from crewlog.state.calls import CallModelResult
from crewlog.state.messages import message_to_json

ASKED = [HumanMessage("x" * 400)]
MILLION = {"input_tokens": 1_000_000, "output_tokens": 100_000, "total_tokens": 1_100_000}


def reply(usage: dict[str, Any] | None, answered: str = "") -> AIMessage:
    told: Any = {"usage_metadata": usage} if usage is not None else {}
    message = AIMessage("y" * 40, response_metadata={"model_name": answered} if answered else {})
    return message.model_copy(update=told)


@pytest.mark.parametrize("answered", ["", "gpt-5-nano", "whatever", "gpt-5"])
async def test_a_reply_cannot_make_a_call_cheaper(answered: str) -> None:
    used = await compute_usage(reply(MILLION, answered), "openai:gpt-5")
    assert (used.cost, used.unpriced) == (2.25, "")


async def test_a_reply_may_make_a_call_more_expensive() -> None:
    used = await compute_usage(reply(MILLION, "gpt-5"), "openai:gpt-5-nano")
    assert (used.cost, used.unpriced) == (2.25, "")


@pytest.mark.parametrize(("answered", "cost"), [("", 0.0), ("gpt-5-nano", 0.09)])
async def test_a_model_without_a_price_is_reported(answered: str, cost: float) -> None:
    used = await compute_usage(reply(MILLION, answered), "openai:my-own")
    assert (used.cost, used.unpriced) == (cost, "openai:my-own")


async def test_a_script_costs_nothing() -> None:
    used = await compute_usage(reply(MILLION), "scripted:a.yaml")
    assert (used.input_tokens, used.cost, used.unpriced) == (1_000_000, 0.0, "")


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (None, (101, 11)),
        ({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, (101, 11)),
        ({"input_tokens": -(10**9), "output_tokens": 5, "total_tokens": 5}, (0, 5)),
        ({"input_tokens": -1, "output_tokens": -1, "total_tokens": -2}, (101, 11)),
        ({"input_tokens": 10**40, "output_tokens": 5, "total_tokens": 5}, (MOST_TOKENS, 5)),
        ({"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}, (7, 5)),
    ],
)
async def test_tokens_are_estimated_without_reported_ones(
    said: dict[str, Any] | None, tokens: tuple[int, int]
) -> None:
    made = with_usage(reply(said), ASKED)
    used = await compute_usage(made, "openai:gpt-5")
    assert (used.input_tokens, used.output_tokens) == tokens
    body = message_to_json(made)
    told = CallModelResult.from_json(CallModelResult(body=body, hash="", usage=used).to_json())
    assert told.usage == used, "as the history keeps it, which reads the body"


async def test_more_cached_than_input_tokens_have_a_price() -> None:
    details = {"input_token_details": {"cache_read": 5_000_000}}
    assert (await compute_usage(reply({**MILLION, **details}), "openai:gpt-5")).cost > 1


@pytest.mark.parametrize(
    ("model", "limits", "warned"),
    [
        ("openai:my-own", {"cost": 1}, True),
        ("ollama:x", {"cost": 1}, True),
        ("openai:my-own", {"tokens": 1}, False),
        ("openai:gpt-5", {"cost": 1}, False),
        ("scripted:a.yaml", {"cost": 1}, False),
    ],
)
def test_a_cost_limit_warns_about_a_model_without_a_price(
    model: str, limits: dict[str, Any], warned: bool
) -> None:
    own = {"agents": {"a": {"prompt": "p", "model": model}}, "flow": ["a"], "limits": limits}
    found = warnings(CrewDefinition.model_validate({"crew": "c", **own}))
    assert [repr(model) in each.message for each in found] == [True] * warned
