"""An activity checks every approved call against its approval again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from crewlog.authority.bindings import Binding, arguments_hash
from crewlog.canonical_json import hash_json
from crewlog.state.calls import ToolCallDenied

from .activity_kit import RUN, crew

ARGS = {"a": 1, "b": 2}
OTHER = {"a": 40, "b": 2}


def body_of(args: dict[str, Any]) -> dict[str, Any]:
    asked = {"name": "add", "args": args, "id": "c1", "type": "tool_call"}
    return {"type": "ai", "content": "", "name": "backend", "tool_calls": [asked]}


def binding(**changes: Any) -> Binding:
    whole: dict[str, Any] = {
        "run": RUN,
        "interrupt": "i1",
        "step": "backend#1",
        "call": 2,
        "tool": "add",
        "id": "c1",
        "message": hash_json(body_of(ARGS)),
        "arguments": arguments_hash(ARGS),
        "by": "ana",
    }
    return Binding.model_validate(whole | changes)


def yes(sealed: Binding, **changes: Any) -> dict[str, Any]:
    """The fields of a call that is made by a yes; `changes` are what is forged of them."""
    said = sealed.approval(sealed.hash)
    assert said is not None
    return {"approved": sealed.interrupt, "approval": said.model_copy(update=changes)}


async def made(tool_call: Any, **fields: Any) -> Any:
    definition = crew(approvals={"add": None})
    fields = {"body": body_of(ARGS)} | fields
    return await tool_call("add", ARGS, crew=definition, **fields)


async def test_an_approved_call_runs(tool_call: Any) -> None:
    result = await made(tool_call, **yes(binding()))
    assert (result.ok, result.body["content"]) == (True, "3")


LATER = int(time.time() * 1000) + 3_600_000
FORGED: list[tuple[str, dict[str, Any]]] = [
    ("nobody said yes", {}),
    ("a yes without what it is bound to", {"approved": "i1"}),
    ("another question", {**yes(binding()), "approved": "i2"}),
    ("another run's", yes(binding(run="other"))),
    ("another step's", yes(binding(step="backend#2"))),
    ("another call's", yes(binding(call=3))),
    ("another tool's", yes(binding(tool="fail"))),
    ("another of the model's calls", yes(binding(id="c2"))),
    ("another message's", yes(binding(message=hash_json("other")))),
    ("of other arguments", yes(binding(arguments=arguments_hash(OTHER)))),
    ("arguments put in later", yes(binding(), arguments=arguments_hash(OTHER), edited=True)),
    ("arguments taken out", yes(binding(), arguments=None)),
    ("another person", yes(binding(), by="eve")),
    ("more time", yes(binding(until=1), until=LATER)),
    ("no binding", yes(binding(), binding="")),
    ("a damaged binding", yes(binding(), binding=binding().hash[:-1] + "_")),
    ("the binding of another", yes(binding(), binding=binding(call=3).hash)),
    ("replayed on a later call", {**yes(binding()), "call": 5}),
    ("replayed on a later step", {**yes(binding()), "step": "backend#2"}),
    ("replayed on another message", {**yes(binding()), "body": body_of(OTHER)}),
]


@pytest.mark.parametrize("forged", [f for _, f in FORGED], ids=[name for name, _ in FORGED])
async def test_a_forged_approval_runs_nothing(tool_call: Any, forged: dict[str, Any]) -> None:
    result = await made(tool_call, **forged)
    assert not result.ok
    assert result.body["status"] == "error"
    assert result.body["content"].startswith(("Refused:", "Nobody has approved"))
    assert isinstance(result.outcome, ToolCallDenied), "it is on record as denied"
    assert result.outcome.rule == "approvals"
    assert result.outcome.reason


async def test_an_approval_is_valid_until_its_deadline(tool_call: Any) -> None:
    with pytest.raises(ApplicationError, match="has expired"):
        await made(tool_call, **yes(binding(until=1)))
    assert (await made(tool_call, **yes(binding(until=LATER)))).ok


async def test_an_approval_that_expires_during_preparation_runs_nothing(
    tool_call: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_args: object) -> None:
        monkeypatch.setattr(time, "time", lambda: LATER / 1000 + 1)

    monkeypatch.setattr("crewlog.activities.tool_calls.allowlist_error", slow)
    with pytest.raises(ApplicationError, match="has expired") as found:
        await made(tool_call, **yes(binding(until=LATER)))
    assert found.value.type == "PermissionsChanged", "the run asks people again"
    assert await store.key_owner(f"{RUN}/backend#1/2/1") is None


async def test_edited_arguments_run_and_the_model_gets_a_notice(tool_call: Any, store: Any) -> None:
    digest = arguments_hash(OTHER)
    await store.put_bodies(RUN, {digest: OTHER})
    result = await made(tool_call, **yes(binding(arguments=digest, edited=True)))
    assert result.ok
    told, _, answer = result.body["content"].partition("\n")
    assert '{"a": 40, "b": 2}' in told
    assert answer == "42"


async def test_an_edit_that_differs_from_the_store_runs_nothing(tool_call: Any, store: Any) -> None:
    digest = arguments_hash(OTHER)
    await store.put_bodies(RUN, {digest: {**OTHER, "a": 41}})
    result = await made(tool_call, **yes(binding(arguments=digest, edited=True)))
    assert not result.ok
    assert "its arguments are not those that were approved" in result.body["content"]


async def test_edited_arguments_are_checked_against_the_tool(activities: Any, env: Any) -> None:
    from crewlog.state.calls import CheckArguments

    definition = crew()
    hash_ = await activities._store.put_definition(RUN, definition.to_json())
    for args, fault in [(OTHER, ""), ({"a": "x", "b": 2}, "a:"), ({"a": 1}, "b:"), ({}, "a:")]:
        task = CheckArguments(definition=hash_, tool="add", args=args)  # type: ignore[arg-type]
        found = await env.run(activities.check_arguments, task)
        assert fault in found.fault
        assert bool(fault) == bool(found.fault)
