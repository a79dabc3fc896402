"""What a tool call must not do: pass on secrets or logs, run unapproved edits, waste a quota."""

from __future__ import annotations

import crew_tools
import pytest
from activity_kit import RUN, crew
from temporalio.exceptions import ApplicationError

from crewlog.activities import tool_calls as module
from crewlog.authority.bindings import Binding, arguments_hash
from crewlog.canonical_json import hash_json
from crewlog.ids import CrewName
from crewlog.redaction import REDACTED, register_secret
from crewlog.state.calls import CallQuota, ToolCallDenied, View
from crewlog.state.journal import Batch

LONGEST_ERROR = module._LONGEST_ERROR
CANARY = "canary-of-what-is-held"
QUOTA = CallQuota(key="k", crew=CrewName("t"), quota="1 per day", rule=f"{CANARY} is used up")
SUM = {"a": 1, "b": 2}


@pytest.fixture(autouse=True)
def secret():
    register_secret(CANARY)


async def test_a_call_with_invalid_arguments_uses_no_quota(tool_call, monkeypatch):
    monkeypatch.setattr(module, "schema_error", lambda *_: "")
    bad = await tool_call("add", {"a": "x", "b": 2}, quotas=(QUOTA,))
    assert (bad.ok, bad.quota_periods) == (False, {})
    assert (await tool_call("add", SUM, quotas=(QUOTA,), step="backend#2")).ok


async def test_a_tools_result_contains_no_secret(tool_call):
    said = await tool_call("undocumented", {"x": f"<{CANARY}>"})
    assert said.body["content"] == f"<{REDACTED}>"
    raised = await tool_call("boom", {"kind": CANARY})
    assert raised.body["content"] == f"KeyError: '{REDACTED}'"
    # Before it is cut: what is left of a secret at the cut would be known to nobody any more.
    cut = await tool_call("boom", {"kind": f"{'x' * (LONGEST_ERROR - 18)}{CANARY}"})
    assert len(cut.body["content"]) == LONGEST_ERROR + 1
    assert CANARY[:5] not in cut.body["content"]


async def test_flags_and_outputs_contain_no_secret(tool_call, monkeypatch):
    update = {"flags": {f"f {CANARY}": [CANARY]}, "outputs": {f"o {CANARY}": {"x": CANARY}}}
    monkeypatch.setitem(crew_tools.BAD_UPDATES, "secret", update)
    result = await tool_call("hand_off", {"to": "writer", "how": "secret"})
    assert result.returned.flags == {f"f {REDACTED}": [REDACTED]}
    assert [(o.key, o.value) for o in result.returned.outputs] == [
        (f"o {REDACTED}", {"x": REDACTED})
    ]


async def test_a_refusal_contains_no_secret(tool_call):
    await tool_call("add", SUM, quotas=(QUOTA,))
    refused = await tool_call("add", SUM, quotas=(QUOTA,), step="backend#2")
    assert isinstance(refused.outcome, ToolCallDenied)
    assert refused.outcome.reason.startswith(f"Refused: {REDACTED} is used up")


async def test_a_check_of_an_unknown_argument_stops_the_call(tool_call):
    slip = crew(
        tools={"add": {"run": "crew_tools:add", "effects": "write", "checks": {"c": "url"}}}
    )
    with pytest.raises(ApplicationError, match="has no argument 'c'") as caught:
        await tool_call("add", SUM, crew=slip)
    assert caught.value.type == "ToolMissing"


async def test_injected_state_has_only_readable_messages(tool_call):
    view = View.model_validate({"heads": {"private:writer": hash_json("head")}})
    with pytest.raises(ApplicationError, match="'backend' may not read 'private:writer'") as caught:
        await tool_call("count_messages", {"prefix": "n"}, view=view)
    assert caught.value.type == "LogAccessDenied"


async def test_only_the_approved_edit_runs(tool_call):
    body = {"type": "ai", "content": "", "name": "backend"}
    body["tool_calls"] = [{"name": "add", "args": SUM, "id": "c1", "type": "tool_call"}]
    edits = [{"a": 5, "b": 5}, {"a": 7, "b": 7}]
    answered = {"kind": "InterruptAnswered", "decision": "edit", "at": 1}
    entries = tuple(
        {**answered, "interrupt": f"i{n}", "arguments": arguments_hash(args), "inline": args}
        for n, args in enumerate(edits, 1)
    )
    binding = Binding.model_validate(
        {"run": RUN, "interrupt": "i2", "step": "backend#1", "call": 2, "tool": "add"}
        | {"id": "c1", "message": hash_json(body), "edited": True}
        | {"arguments": arguments_hash(edits[1])}
    )
    result = await tool_call(
        "add",
        crew=crew(approvals={"add": None}),
        body=body,
        batch=Batch(first=1, entries=entries),
        approved="i2",
        approval=binding.approval(binding.hash),
    )
    assert result.ok
    assert str(result.body["content"]).endswith("14")
