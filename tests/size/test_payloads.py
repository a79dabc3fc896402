"""Results of 5 MB and messages of 2 MB: in files and rows, and never in a history."""

from __future__ import annotations

import json

import pytest

from acceptance.harness import LIMIT, Site, calls, tool
from crewlog.activities.transcripts import LONGEST_MESSAGE
from crewlog.client import Run
from crewlog.errors import UsageError

from .measure import MB, executions, figure

RESULT = 5 * MB
MESSAGE = 2 * MB
QUEUE = "payloads"
pytestmark = pytest.mark.size


async def assert_small_history(site: Site, run: Run, what: str) -> None:
    """What is large is outside; a result's outputs may have some 200 KB of it."""
    size = sum(execution.size for execution in await executions(site, run))
    figure(f"history of a run with {what}, bytes", f"{size:,}")
    assert size < MB // 2


async def bodies_of(site: Site, run: Run) -> dict[str, str]:
    """The messages of the run's journal, as the store has them."""
    hashes = [e.message.body for e in await site.entries(run) if e.message is not None]
    found = await site.store.get_bodies(set(hashes))
    return {hash_: str(found[hash_]["content"]) for hash_ in hashes}


async def assert_rebuilt(site: Site, run: Run) -> None:
    """All that the store has of the run comes from the history and the files."""
    journal, bodies = await site.journal(run), await bodies_of(site, run)
    await site.store.truncate_journal(run.id)
    report = await run.rebuild()
    assert report.whole
    assert await site.journal(run) == journal
    assert await bodies_of(site, run) == bodies


async def test_a_result_of_5_mb(site: Site) -> None:
    await site.start_worker(QUEUE)
    crew = site.crew(
        {"a": [calls(("large", {"size": RESULT})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"large": tool("large")},
    )
    run, result = await site.finish(crew, queue=QUEUE)
    assert result.outputs["b"]["text"] == "B"
    await assert_small_history(site, run, "a result of 5 MB")
    # The model was shown what the store has, and the file beside the history is as large.
    (shown,) = [m for m in site.prompted(run)[1]["messages"] if m["type"] == "tool"]
    whole = "0123456789abcdef" * (RESULT // 16)
    assert whole in (await bodies_of(site, run)).values()
    assert (
        shown["content"] == f"{whole[:LONGEST_MESSAGE]}\n[Cut here: 5,000,000 characters in all.]"
    )
    assert any(f.stat().st_size > RESULT for f in site.payloads.rglob("*") if f.is_file())
    # What is asked of the run, and shown of it, stays small.
    assert len((await run.state()).model_dump_json()) < 10_000
    page = await run.journal()
    assert max(len(item.model_dump_json()) for item in page.entries) < 10_000
    await assert_rebuilt(site, run)


async def test_messages_of_2_mb(site: Site) -> None:
    await site.start_worker(QUEUE)
    long, reply = "x" * MESSAGE, "é" * (MESSAGE // 2)
    crew = site.crew({"a": [], "b": []}, flow=["a", {"ask": "On?"}, "b"])
    # As UTF-8: as JSON with escapes it would be longer than a script may be.
    script = {"agents": {"a": [{"text": reply}], "b": [{"text": "B"}]}}
    file = site.project / crew["model"].removeprefix("scripted:")
    file.write_text(json.dumps(script, ensure_ascii=False))
    run = await site.start(crew, long, queue=QUEUE)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.message(long.upper(), by="ana")
    await run.answer("i1", "approve")
    result = await run.result(LIMIT)
    assert str(result.outputs["a"]["text"]).startswith(reply[:1000])
    await assert_small_history(site, run, "three messages of 2 MB")
    (prompt,) = [p for p in site.prompted(run) if p["agent"] == "b"]
    said = [m["content"] for m in prompt["messages"] if m["type"] != "system"]
    for part in (long, reply, long.upper()):
        assert any(part[: LONGEST_MESSAGE - 100] in text for text in said)
    whole = (await bodies_of(site, run)).values()
    assert {long, reply, long.upper()} <= set(whole)
    await assert_rebuilt(site, run)


async def test_a_message_that_is_too_long_is_refused_before_it_is_sent(site: Site) -> None:
    await site.start_worker(QUEUE)
    run = await site.start(
        site.crew({"a": [{"text": "A"}]}, flow=[{"ask": "On?"}, "a"]), queue=QUEUE
    )
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    with pytest.raises(UsageError, match="'text' has more than 4,000,000 characters"):
        await run.message("x" * 4_000_001)
