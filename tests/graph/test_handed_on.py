"""What was signed for a run that is part of another one by now: it is taken there, once."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from crewlog.authority.principals import signed_text
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import RunId
from crewlog.state.components import Rename
from crewlog.state.model import MergeOutcome
from crewlog.state.run_merge.protocol import OUTCOMES_KEPT
from crewlog.workflows import run_merge
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import QueuedCommand
from graph.simulation import RUN, Simulation, as_json, folded
from graph.test_taking_in import EDGE, OTHER, PAIR, begin, crew, prepared

ADA, BOB, EVE = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2, 3))
THIRD = RunId("third")
NOW = 1_800_000_000_000


def public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"ed25519:{base64.b64encode(raw).decode()}"


POLICY = {
    "mode": "signed",
    "principals": {
        "ada": {"key": public(ADA), "rights": ["operate", "grant"]},
        "bob": {"key": public(BOB), "rights": ["view"]},
    },
}


def signed(
    run: str, id: str, *, key: Ed25519PrivateKey = ADA, name: str = "message", **said: Any
) -> dict[str, Any]:
    """A command as its sender signs it for a run."""
    content = {"id": id, **said}
    signature = key.sign(signed_text(run, name, NOW, content, ""))
    proof = {
        "key": public(key),
        "expires": NOW,
        "signature": base64.b64encode(signature).decode(),
    }
    return {**content, "proof": proof}


async def pair(**more: Any) -> tuple[Simulation, Simulation, Any]:
    """Two strangers: what the other one calls `x`, `a` and `b` is called otherwise in this one."""
    crews = crew(PAIR, **more), crew(PAIR, **more)
    one, two = await begin(crews[0], RUN), await begin(crews[1], OTHER)
    return one, two, crews


async def one_of_two() -> Simulation:
    """A signed run that took in another one, which had taken in a third."""
    one, two, crews = await pair(policy=POLICY)
    older = (Rename(kind="channel", run=THIRD, was="news", now="x"),)
    two.engine.journal.state = two.state.model_copy(update={"merged_runs": {THIRD: older}})
    await send(two, signed(OTHER, "early", text="early", to="channel:x"))
    assert heard(two) == {"channel:x": ["early"]}
    apply_merge(one.engine, prepared(one, two, crews, **EDGE), op="m")
    return one


async def send(sim: Simulation, data: dict[str, Any], *, at: int | None = None) -> QueuedCommand:
    incoming = QueuedCommand("message", data, arrived_at=at)
    await apply_command(sim.engine, incoming)
    return incoming


def heard(sim: Simulation) -> dict[str, list[str]]:
    """What was said, by the log that it was said to."""
    found: dict[str, list[str]] = {}
    for entry in sim.journal:
        if entry["kind"] == "MessageAdded" and entry.get("command"):
            (log,) = entry["ref"]["logs"]
            found.setdefault(log, []).append(entry["ref"]["inline"]["content"])
    return found


def refused(sim: Simulation) -> list[tuple[str, str, str]]:
    """Whom the run did not let in, of what kind that was, and by what it says so."""
    return [
        (e.get("by", ""), e.get("error_type", ""), e["reason"])
        for e in sim.facts("CommandRejected")
    ]


async def test_what_was_signed_for_a_run_that_was_taken_in_is_said_to_whom_it_meant() -> None:
    one = await one_of_two()
    await send(
        one, signed(OTHER, "1", text="one", to="channel:x", by="eve") | {"original_run": OTHER}
    )
    await send(one, signed(THIRD, "2", text="two", to="channel:news") | {"original_run": THIRD})
    await send(one, signed(OTHER, "3", text="three", to="private:a") | {"original_run": OTHER})
    await send(one, signed(RUN, "4", text="four", to="channel:x"))
    assert refused(one) == []
    said = {"channel:x-2": ["one", "two"], "private:a-2": ["three"], "channel:x": ["four"]}
    assert heard(one) == said
    assert {e["by"] for e in one.facts("MessageAdded") if e.get("command")} == {"ada"}
    assert as_json(folded(one.journal)) == as_json(one.state)


async def test_a_signed_message_counts_once_by_whichever_run_it_comes() -> None:
    one = await one_of_two()
    early = signed(OTHER, "early", text="early", to="channel:x") | {"original_run": OTHER}
    assert (await send(one, early)).error is None  # what it came to there, it has come to
    late = signed(OTHER, "late", text="late", to="channel:x")
    here = signed(RUN, "late", text="late", to="channel:x-2", original_to="channel:x")
    for data in (late | {"original_run": OTHER}, late | {"original_run": OTHER}, here):
        assert (await send(one, data)).error is None
    assert heard(one) == {"channel:x-2": ["late"]}


@pytest.mark.parametrize(
    ("data", "by", "why"),
    [
        (
            signed("nobody", "1", text="t") | {"original_run": "nobody"},
            "unverified",
            "does not fit",
        ),
        (signed(OTHER, "1", text="t"), "unverified", "does not fit"),
        (signed(RUN, "1", text="t") | {"original_run": OTHER}, "unverified", "does not fit"),
        (signed(OTHER, "1", text="t") | {"original_run": THIRD}, "unverified", "does not fit"),
        (signed(OTHER, "1", text="t") | {"original_run": RUN}, "unverified", "does not fit"),
        (signed(OTHER, "1", text="t") | {"original_run": [OTHER]}, "unverified", "does not fit"),
        (
            signed(OTHER, "1", text="t", to="channel:x")
            | {"original_run": OTHER, "to": "channel:y", "original_to": "channel:x"},
            "unverified",
            "does not fit",
        ),
        (
            signed(OTHER, "1", text="t") | {"original_run": OTHER, "text": "u"},
            "unverified",
            "not fit",
        ),
        (
            signed(OTHER, "1", text="t") | {"original_run": OTHER, "proof": None},
            "unverified",
            "has no",
        ),
        (
            signed(OTHER, "1", text="t", key=EVE) | {"original_run": OTHER},
            "unverified",
            "no principal",
        ),
        (
            signed(OTHER, "1", text="t", key=BOB) | {"original_run": OTHER},
            "bob",
            "the right 'operate'",
        ),
    ],
    ids=[
        "of a stranger's run",
        "that says nothing of it",
        "of this run as of that",
        "of that run as of another",
        "of that run as of this",
        "of no run's name",
        "to others",
        "of other words",
        "unsigned",
        "by a stranger",
        "by one who may not",
    ],
)
async def test_a_forged_handing_on_is_refused_and_told(
    data: dict[str, Any], by: str, why: str
) -> None:
    one = await one_of_two()
    await send(one, data)
    assert heard(one) == {}
    ((who, kind, reason),) = refused(one)
    assert (who, kind) == (by, "NotPermitted")
    assert why in reason


async def test_it_expires_like_any_other() -> None:
    one = await one_of_two()
    said = signed(OTHER, "1", text="t", to="channel:x") | {"original_run": OTHER}
    await send(one, said, at=NOW)
    ((who, _, reason),) = refused(one)
    assert who == "unverified"
    assert "expired" in reason
    await send(one, said, at=NOW - 1)
    assert heard(one) == {"channel:x-2": ["t"]}


@pytest.mark.parametrize("name", ["stop", "pause", "resume"])
async def test_nothing_else_that_was_signed_for_it_is_taken(name: str) -> None:
    one = await one_of_two()
    incoming = QueuedCommand(name, signed(OTHER, "1", name=name) | {"original_run": OTHER})
    await apply_command(one.engine, incoming)
    assert [kind for _, kind, _ in refused(one)] == ["NotPermitted"]
    assert one.state.status == "running"


async def test_an_open_run_asks_nobody_and_goes_by_the_names_of_there() -> None:
    """Its policy may have been a signed one when the message was handed on."""
    one, two, crews = await pair()
    apply_merge(one.engine, prepared(one, two, crews, **EDGE), op="m")
    await send(one, {"id": "1", "text": "one", "to": "channel:x", "original_run": OTHER})
    await send(one, {"id": "2", "text": "two", "to": "channel:x", "original_run": "nobody"})
    assert heard(one) == {"channel:x-2": ["one"]}
    ((_, _, reason),) = refused(one)
    assert reason.startswith("the run 'nobody' was not merged into this one")


async def test_the_last_runs_that_were_taken_in_are_known() -> None:
    one, two, crews = await pair(policy=POLICY)
    older = {RunId(f"r{n}"): () for n in range(OUTCOMES_KEPT)}
    one.engine.journal.state = one.state.model_copy(update={"merged_runs": {OTHER: (), **older}})
    apply_merge(one.engine, prepared(one, two, crews, **EDGE), op="m")
    assert [*one.state.merged_runs] == [*[*older][1:], OTHER]
    assert one.state.merged_runs[OTHER]


@pytest.mark.parametrize(
    ("said", "led"),
    [
        ({"to": "channel:x"}, {"to": "channel:x", "original_run": RUN}),
        (
            {"to": "channel:x", "original_run": "third"},
            {"to": "channel:x", "original_run": "third"},
        ),
        ("nonsense", "nonsense"),
    ],
)
async def test_a_signed_run_hands_on_what_was_signed_as_it_is(
    monkeypatch: pytest.MonkeyPatch, said: Any, led: Any
) -> None:
    sent: list[Any] = []

    async def signal(name: str, data: Any) -> None:
        sent.append((name, data))

    handle = SimpleNamespace(signal=signal)
    monkeypatch.setattr(run_merge.workflow, "get_external_workflow_handle", lambda _: handle)
    outcome = MergeOutcome(
        outcome="merged",
        other=OTHER,
        position=9,
        renames=(Rename(kind="channel", run=RUN, was="x", now="x-2"),),
    )
    state = (await pair())[0].state
    ended = state.model_copy(update={"status": "merged", "merges": {"m": outcome}})
    await run_merge.forward(ended, QueuedCommand("message", said), signed=True)
    assert sent == [("message", led)]
