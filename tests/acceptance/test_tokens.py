"""What models write is seen while they write it, and the journal has the reply in the end."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing

from covers import covers
from crewlog.client import Event, Run, TokenEvent
from crewlog.client.tokens import Growth
from crewlog.reporting.trace.builder import run_trace
from crewlog.state import journal as j

from .harness import LIMIT, Site, until

TEXT = " ".join(f"word{n}" for n in range(80))
PACE = {"pace": len(TEXT) / 2.0}
"""A reply takes two seconds."""
QUEUE = "tokens"


async def growth(run: Run, after: int = 0) -> list[Growth]:
    async with asyncio.timeout(LIMIT):
        return [event async for event in run.events(after, tokens=True)]


def tokens_of(found: list[Growth], step: str) -> list[TokenEvent]:
    return [each for each in found if isinstance(each, TokenEvent) and each.step == step]


def reply_at(found: list[Growth], step: str) -> int:
    """Where among the events the step's reply is."""
    return next(
        number
        for number, each in enumerate(found)
        if isinstance(each, Event)
        and isinstance(each.entry, j.ModelCallCompleted)
        and each.entry.step == step
    )


def joined(told: list[TokenEvent]) -> str:
    """The text that events make."""
    text = ""
    for each in told:
        text = "" if each.first else text
        assert each.offset == len(text), "no gap, and nothing twice"
        text += each.text
    return text


async def test_text_grows_before_its_reply_is_in_the_journal(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": TEXT}]}, script=PACE))
    found = await growth(run)
    told = tokens_of(found, "a#1")
    assert len(told) > 3, "it grows"
    assert [each.first for each in told] == [True] + [False] * (len(told) - 1)
    assert {(each.call, each.agent, each.attempt) for each in told} == {(1, "a", 1)}
    text = joined(told)
    assert TEXT.startswith(text)
    assert len(text) > len(TEXT) / 3
    at = reply_at(found, "a#1")
    assert all(not isinstance(each, TokenEvent) for each in found[at:]), "the reply is the end"
    entries = [each for each in found if isinstance(each, Event)]
    assert [each.position for each in entries] == list(range(1, len(entries) + 1))
    assert (await run.result(LIMIT)).outputs["a"]["text"] == TEXT
    assert await run.tokens() == []
    # The text left no trace: the history is that of a run without it.
    rules = {"a": {"model_settings": {"streaming": False}}}
    silent = crews.crew({"a": [{"text": TEXT}]}, rules=rules, script=PACE)
    other, _ = await crews.finish(silent)
    assert [e for e in await growth(other) if isinstance(e, TokenEvent)] == []
    assert await _history(crews, run) == await _history(crews, other)


async def _history(site: Site, run: Run) -> list[int]:
    history = await site.temporal.get_workflow_handle(run.id).fetch_history()
    return [event.event_type for event in history.events]


async def test_who_comes_again_gets_the_text_so_far(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": TEXT}]}, script=PACE))
    seen: list[Growth] = []
    async with asyncio.timeout(LIMIT), aclosing(run.events(tokens=True)) as events:
        async for event in events:
            seen.append(event)
            if len(tokens_of(seen, "a#1")) == 3:
                break
    before = joined(tokens_of(seen, "a#1"))
    position = max(each.position for each in seen if isinstance(each, Event))
    (now,) = await run.tokens()
    assert now.text.startswith(before)
    later = await growth(run, position)
    first, *_ = told = tokens_of(later, "a#1")
    assert (first.first, first.offset) == (True, 0)
    assert first.text.startswith(before)
    assert TEXT.startswith(joined(told))
    entries = [each.position for each in later if isinstance(each, Event)]
    assert entries == list(range(position + 1, position + 1 + len(entries)))


@covers("C95")
async def test_parts_and_items_are_told_like_any_step(crews: Site) -> None:
    topics = {"tool": "set_output", "args": {"key": "topics", "value": ["x", "y"]}}
    fine = {"tool": "set_output", "args": {"key": "content", "value": True}}
    short = TEXT[:200]
    crew = crews.crew(
        {
            "lead": [{"tool_calls": [topics]}, {"text": "ok"}],
            "scout": [{"text": TEXT}],
            "done": [{"text": short}, {"tool_calls": [fine]}, {"text": short}],
        },
        script=PACE,
        rules={"lead": {"outputs": ["topics"]}, "done": {"pattern": "review_loop"}},
        flow=["lead", {"agent": "scout", "for_each": "lead.topics"}, "done"],
    )
    run = await crews.start(crew)
    found = await growth(run)
    for item in ("scout#1.1", "scout#1.2"):
        told = tokens_of(found, item)
        assert len(told) > 2
        assert TEXT.startswith(joined(told))
    between = [each.step for each in found if isinstance(each, TokenEvent)]
    switches = sum(a != b for a, b in itertools.pairwise(between))
    assert switches > 2, "both write at a time"
    for part in ("done#1", "done.review#1"):  # the steps inside of an agent
        assert short.startswith(joined(tokens_of(found, part)))
        assert tokens_of(found, part)
    traced = [each.step for each in run_trace(await crews.journal(run)).all_steps() if each.calls]
    assert traced == ["lead#1", "scout#1.1", "scout#1.2", "done#1", "done.review#1"]


async def test_after_a_kill_the_text_begins_anew_and_the_reply_is_right(site: Site) -> None:
    victim = await site.start_worker(QUEUE)
    run = await site.start(site.crew({"a": [{"text": TEXT}]}, script=PACE), queue=QUEUE)
    found: list[Growth] = []
    reading = asyncio.ensure_future(_collect(run, found))
    await until(lambda: len(tokens_of(found, "a#1")) >= 3, "text")
    victim.kill()
    await site.start_worker(QUEUE)
    await asyncio.wait_for(reading, LIMIT)
    told = tokens_of(found, "a#1")
    assert {each.attempt for each in told} == {1, 2}
    again = next(each for each in told if each.attempt == 2)
    assert again.first
    assert TEXT.startswith(joined(told))
    assert (await run.result(LIMIT)).outputs["a"]["text"] == TEXT
    assert len(await site.entries(run, "ModelCallCompleted")) == 1


async def _collect(run: Run, found: list[Growth]) -> None:
    async for event in run.events(tokens=True):
        found += [event]
