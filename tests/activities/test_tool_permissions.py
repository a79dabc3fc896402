"""The last check before a tool call: permissions that changed, and quotas over runs."""

from __future__ import annotations

import asyncio
import dataclasses

import crew_tools
import pytest
from activity_kit import RUN, crew
from temporalio.exceptions import ApplicationError

from crewlog.activities.permissions import FRESH
from crewlog.errors import StoreUnavailable
from crewlog.failure_details import failure_details
from crewlog.ids import CrewName
from crewlog.state import journal as j
from crewlog.state.calls import CallQuota, ToolCallDenied, ToolCallInvalid
from crewlog.state.journal import Batch, entry_to_json

LIVE_PERMISSION = j.AgentPermissionSet(tool="add", agent="backend", do="deny")
QUOTA = CallQuota(
    key="k", crew=CrewName("t"), quota="1 per day", zone="Europe/Berlin", rule="rules[0] is used up"
)


async def rule(store, position=7):
    await store.append(RUN, Batch(first=position, entries=(entry_to_json(LIVE_PERMISSION),)))


async def test_no_call_begins_after_a_permission_changed(tool_call, store):
    await rule(store)
    before = len(crew_tools.seen)
    for known in ({}, {"position": 6}):
        with pytest.raises(ApplicationError) as caught:
            await tool_call("write_file", {"path": "a", "content": ""}, **known)
        assert caught.value.type == "PermissionsChanged"
        assert caught.value.non_retryable
        assert not failure_details(
            caught.value
        ).effect_started  # it has not begun: it may be made again
    assert len(crew_tools.seen) == before
    result = await tool_call("add", {"a": 1, "b": 2}, position=7)
    assert result.ok


async def test_no_call_begins_without_the_store(tool_call, store, monkeypatch):
    async def away(*_args, **_more):
        raise StoreUnavailable("away")

    before = len(crew_tools.seen)
    for method in ("append", "last_permission_position"):
        monkeypatch.setattr(store, method, away)
    with pytest.raises(ApplicationError) as caught:
        await tool_call("write_file", {"path": "a", "content": ""})
    assert caught.value.type == "StoreUnavailable"
    assert len(crew_tools.seen) == before


async def test_a_quota_over_runs_is_used_once_per_call(tool_call, store):
    args = {"a": 1, "b": 2}
    made = await tool_call("add", args, quotas=(QUOTA,))
    assert made.ok
    assert made.quota_periods == {"t/k": "1970-01-01"}
    assert (await tool_call("add", args, quotas=(QUOTA,))).ok  # the same call again
    refused = await tool_call("add", args, quotas=(QUOTA,), step="backend#2")
    assert not refused.ok
    reason = refused.body["content"]
    assert refused.outcome == ToolCallDenied(reason=reason, rule="rules[0]")
    assert refused.quota_periods == {}
    assert "at most 1 per day, and the next begins at 1970-01-02 00:00 +01:00." in reason


async def test_a_new_run_with_a_used_id_is_counted_again(tool_call):
    keyed = crew(tools={"add": {"run": "crew_tools:add", "effects": "write", "retry": "keyed"}})
    args, more = {"a": 1, "b": 2}, {"crew": keyed, "quotas": (QUOTA,)}
    made = await tool_call("add", args, run_started_at=1, **more)
    assert (made.ok, made.run_started_at) == (True, 1)
    assert (await tool_call("add", args, run_started_at=1, **more)).ok  # the same call again
    replaced = await tool_call("add", args, run_started_at=2, **more)
    assert (replaced.ok, replaced.run_started_at) == (False, 0)
    assert isinstance(replaced.outcome, ToolCallDenied)
    assert replaced.outcome.rule == "rules[0]"


async def test_each_call_of_a_step_is_counted(tool_call):
    args = {"a": 1, "b": 2}
    assert (await tool_call("add", args, quotas=(QUOTA,), call=2)).ok
    assert not (await tool_call("add", args, quotas=(QUOTA,), call=3)).ok


async def test_a_denied_call_uses_no_quota(tool_call, store):
    bad = await tool_call("add", {"a": "x"}, quotas=(QUOTA,))
    assert not bad.ok
    assert "counted" not in bad.to_json()
    assert (await tool_call("add", {"a": 1, "b": 2}, quotas=(QUOTA,), step="backend#2")).ok


WRITE = {"path": "a", "content": ""}
AGAIN = crew(
    tools={"write_file": {"run": "crew_tools:write_file", "effects": "write", "retry": "keyed"}}
)


async def died(store, call=2):
    """A worker began the call and died."""
    assert await store.claim(RUN, f"{RUN}/backend#1/{call}/1", "dead") == "dead"


async def test_a_call_that_may_have_happened_is_not_denied(tool_call, store):
    await died(store)
    await rule(store)
    with pytest.raises(ApplicationError) as caught:
        await tool_call("write_file", WRITE)
    assert caught.value.type == "OutcomeUnknown"
    assert caught.value.non_retryable


async def test_a_call_that_may_be_repeated_is_authorized_again(tool_call, store):
    await died(store, call=3)  # another one
    await rule(store)
    for definition in (None, AGAIN):
        with pytest.raises(ApplicationError) as caught:
            await tool_call("write_file", WRITE, crew=definition)
        assert caught.value.type == "PermissionsChanged"
    assert (await tool_call("write_file", WRITE, position=7)).ok  # to look is not to begin
    with pytest.raises(ApplicationError) as caught:
        await tool_call("write_file", WRITE, crew=AGAIN)
    assert (
        caught.value.type == "PermissionsChanged"
    )  # it may be repeated, so whether it began is nothing


ADD = {"a": 1, "b": 2}
NEVER = crew(tools={"write_file": {"run": "crew_tools:write_file", "effects": "external"}})


def while_it_prepares(monkeypatch, happens):
    """Lets something happen after the first look, as long as a name server may take."""

    async def slow(*_args):
        await happens()
        await asyncio.sleep(FRESH * 2)

    monkeypatch.setattr("crewlog.activities.tool_calls.allowlist_error", slow)


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("definition", [NEVER, AGAIN])
async def test_a_permission_set_during_preparation_applies(
    tool_call, env, store, monkeypatch, definition, local
):
    env.info = dataclasses.replace(env.info, is_local=local)
    while_it_prepares(monkeypatch, lambda: rule(store))
    before = len(crew_tools.seen)
    with pytest.raises(ApplicationError) as caught:
        await tool_call("write_file", WRITE, crew=definition, quotas=(QUOTA,))
    assert caught.value.type == "PermissionsChanged"
    assert not failure_details(caught.value).effect_started
    assert len(crew_tools.seen) == before
    # It is not claimed, and not counted: with what was ruled, the same and another one are made.
    assert await store.key_owner(f"{RUN}/backend#1/2/1") is None
    other = await tool_call("add", ADD, step="backend#2", quotas=(QUOTA,), position=7)
    assert other.ok
    assert (await tool_call("write_file", WRITE, crew=definition, position=7)).ok


async def test_a_call_of_an_earlier_attempt_stays_counted(tool_call, env, store, monkeypatch):
    assert (await tool_call("write_file", WRITE, crew=AGAIN, quotas=(QUOTA,))).ok
    env.info = dataclasses.replace(env.info, attempt=2)
    while_it_prepares(monkeypatch, lambda: rule(store))
    with pytest.raises(ApplicationError, match="were changed after"):
        await tool_call("write_file", WRITE, crew=AGAIN, quotas=(QUOTA,))
    refused = await tool_call("add", ADD, step="backend#2", quotas=(QUOTA,), position=7)
    assert isinstance(refused.outcome, ToolCallDenied)
    assert refused.outcome.rule == "rules[0]"


async def test_a_call_without_delay_reads_the_store_once(tool_call, store, monkeypatch):
    monkeypatch.setattr("crewlog.activities.permissions.FRESH", 60)
    looks = []
    monkeypatch.setattr(
        store, "last_permission_position", counting(looks, store.last_permission_position)
    )
    assert (await tool_call("write_file", WRITE, crew=AGAIN)).ok
    assert len(looks) == 1  # the store in memory looks for what the first append answers


def counting(into, call):
    async def counted(*args):
        into.append(args)
        return await call(*args)

    return counted


NO_APPROVAL = crew(approvals={"write_file": ["backend"]})
CHECKED = crew(
    tools={
        "write_file": {
            "run": "crew_tools:write_file",
            "effects": "write",
            "checks": {"path": "path"},
        }
    }
)


@pytest.mark.parametrize(
    ("args", "more"),
    [
        (WRITE, {"permitted": False}),
        (WRITE, {"crew": NO_APPROVAL}),
        ({"path": "../a", "content": ""}, {"crew": CHECKED}),
        ({"path": "a"}, {}),
    ],
)
async def test_a_call_that_may_have_happened_gets_no_other_denial(tool_call, store, args, more):
    before = len(crew_tools.seen)
    refused = await tool_call("write_file", args, **more)
    assert not refused.ok
    await died(store)
    with pytest.raises(ApplicationError) as caught:
        await tool_call("write_file", args, **more)
    assert caught.value.type == "OutcomeUnknown"
    assert len(crew_tools.seen) == before


async def test_failed_checks_are_denials_and_schema_errors_are_not(
    tool_call,
):
    refused = await tool_call("write_file", {"path": "../a", "content": ""}, crew=CHECKED)
    assert not refused.ok
    reason = refused.body["content"]
    assert refused.outcome == ToolCallDenied(reason=reason, rule="checks")
    assert reason.startswith("The arguments of 'write_file' are not valid: path: ")
    slip = await tool_call("write_file", {"path": "../a"}, crew=CHECKED)
    assert not slip.ok
    assert slip.outcome == ToolCallInvalid()


async def test_a_link_out_of_the_workspace_is_denied(tool_call, tmp_path):
    folder = tmp_path / "workspace" / RUN
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    refused = await tool_call("write_file", {"path": "out/a", "content": ""}, crew=CHECKED)
    assert isinstance(refused.outcome, ToolCallDenied)
    assert refused.outcome.rule == "checks"
    assert "path: " in refused.outcome.reason
