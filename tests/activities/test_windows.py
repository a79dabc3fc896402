"""What windows show: whole groups, the present turn, the request, and prompts of constant size."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from activity_kit import Log, crew
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.summaries import INTRODUCTION, build_summary_message
from crewlog.activities.transcripts import NO_RESULT, Transcript
from crewlog.activities.usage import estimate_tokens
from crewlog.activities.windows import (
    CHUNK,
    MOST_UNCOVERED,
    Chain,
    TrimmedTranscript,
    trim_transcript,
)
from crewlog.activities.windows import Log as LogView
from crewlog.definition.context import Window
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId
from crewlog.testing.scripted import recorded_prompts, scripted

ME, NOW = AgentName("me"), StepId("me#3")


class Said:
    """A transcript of `me`, made of logs."""

    def __init__(self) -> None:
        self.transcript = Transcript(ME)
        self.bodies: dict[ContentHash, BaseMessage] = {}
        self.logs: dict[LogName, Chain] = {}
        self.position = 0
        self.pending: list[str] = []

    def add(self, message: BaseMessage, *logs: str) -> BaseMessage:
        self.position += 1
        body = ContentHash(f"b{self.position}")
        self.bodies[body] = message
        for log in logs or ("public",):
            chain = self.logs.setdefault(LogName(log), Chain())
            chain.append((self.position, body))
            chain.heads.append(ContentHash(f"{log}@{self.position}"))
        self.transcript.add(message, body, self.position)
        return message

    @property
    def spot(self) -> tuple[int, ContentHash]:
        """Where the last message stands."""
        return self.position, ContentHash(f"b{self.position}")

    def people(self, text: str) -> None:
        self.add(HumanMessage(text))

    def other(self, text: str, *logs: str) -> None:
        self.add(AIMessage(text, name="other"), *logs)

    def own(
        self, step: str, call: int, text: str, tools: Sequence[str] = (), *, late: bool = False
    ) -> None:
        calls: list[Any] = [{"name": "t", "args": {}, "id": i, "type": "tool_call"} for i in tools]
        log = "private:me" if calls else "public"
        self.add(AIMessage(text, name="me", id=f"{step}/{call}", tool_calls=calls), log)
        self.pending += tools
        if not late:
            self.results()

    def results(self) -> None:
        """The results of what was called: others may speak before they come."""
        for each in self.pending:
            self.add(ToolMessage(f"result {each}", tool_call_id=each), "private:me")
        self.pending.clear()

    def cut(self, step: StepId = NOW, script: str = "", **window: Any) -> TrimmedTranscript:
        logs = {log: LogView(chain, len(chain)) for log, chain in self.logs.items()}
        return trim_transcript(
            self.transcript, logs, self.bodies, Window(**window), step, script=script
        )


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]


def test_a_message_and_its_results_count_as_one() -> None:
    said = Said()
    for n in range(4):
        said.other(f"o{n}")
    said.own("me#1", 1, "look", ["a", "b"])
    said.own("me#1", 4, "found")
    found = said.cut(last=2)
    assert texts(found.messages) == ["look", "result a", "result b", "found"]
    assert found.omitted_groups == 4


def test_a_window_shows_its_messages_and_the_request() -> None:
    said = Said()
    for n in range(4):
        said.people(f"question {n}")
        said.other(f"answer {n}")
    said.people("and now?")
    earlier = ["answer 1", "question 2", "answer 2", "question 3", "answer 3"]
    shown = texts(said.cut(last=5).messages)
    assert [each.removeprefix("[other] ") for each in shown] == [*earlier, "and now?"]
    said.other("a remark")
    shown = texts(said.cut(last=5).messages)
    assert [each.removeprefix("[other] ") for each in shown] == [
        *earlier[1:],
        "and now?",
        "a remark",
    ]


def test_the_present_turn_and_the_request_are_shown() -> None:
    said = Said()
    said.people("old")
    said.people("do it")
    for n in range(4):
        said.other(f"o{n}")
    for n in range(6):
        said.own(NOW, n, f"step {n}", [f"c{n}"])
    shown = texts(said.cut(last=1).messages)
    assert shown[:2] == ["do it", "[other] o3"]
    assert shown[2:] == [t for n in range(6) for t in (f"step {n}", f"result c{n}")]
    assert texts(said.cut(StepId("me#4"), last=2).messages) == ["do it", *shown[-4:]]


def test_a_token_limit_cuts_turns_by_groups() -> None:
    said = Said()
    said.people("do it")
    for n in range(40):
        said.own(NOW, n, "x" * 80, [f"c{n}"])
    begins: list[int] = []
    for n in range(40, 60):
        said.own(NOW, n, "x" * 80, [f"c{n}"])
        found = said.cut(tokens=400)
        assert found.messages[0].text == "do it"
        rest = found.messages[1:]
        assert len(rest) % 2 == 0
        assert all(isinstance(each, AIMessage) for each in rest[::2])
        assert estimate_tokens(rest) <= 400
        begins.append(said.transcript.index.group_of[said.spot] - len(rest) // 2)
    assert len(set(begins)) < 15, (
        "where it begins stays for a while, so that prompts begin the same"
    )


def test_a_single_long_message_is_truncated() -> None:
    said = Said()
    said.other("old")
    said.other("y" * 10_000)
    (only,) = said.cut(tokens=200).messages
    assert len(only.text) < 1_000
    assert "Cut here" in only.text


def test_messages_that_no_summary_covers_are_shown() -> None:
    said = Said()
    shown: list[list[str]] = []
    for n in range(4 * CHUNK):
        said.other(f"o{n}")
        found = said.cut(last=3, summary="extract")
        covered = sum(each.length for each in found.prefixes)
        assert covered % CHUNK == 0
        assert texts(found.messages) == [f"[other] o{i}" for i in range(covered, n + 1)]
        assert (found.omitted_groups, found.summarized_groups) == (covered, covered)
        shown.append(texts(found.messages))
    assert max(map(len, shown)) == 3 + CHUNK - 1
    longer = sum(new[: len(old)] == old for old, new in pairwise(shown))
    assert longer >= len(shown) - 5, "all but every eighth prompt begin as the one before"


@pytest.mark.parametrize("seed", range(150))
def test_random_windows_lose_nothing(seed: int) -> None:
    """A group is shown whole or left out whole; what is left out is covered, or in the gap."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    said = Said()
    logs = ["public", "group:a", "channel:b"]
    for n in range(rng.randint(1, 90)):
        match rng.randint(0, 5):
            case 0:
                said.people(f"p{n}")
            case 1 | 2:
                step = rng.choice(["me#1", "me#2", NOW])
                calls = [f"{n}.{i}" for i in range(rng.randint(0, 3))]
                said.own(step, n, f"w{n}", calls, late=True)
            case 3 if rng.random() < 0.6:
                said.results()
            case _:
                said.other(f"o{n}", *rng.sample(logs, rng.randint(1, 2)))
    window: dict[str, Any] = {}
    if rng.random() < 0.7:
        window["last"] = rng.randint(1, 20)
    if rng.random() < 0.5 or not window:
        window["tokens"] = rng.randint(200, 600)
    found = said.cut(**window, summary=rng.choice(["off", "extract"]))
    whole = [said.transcript.group(i) for i in range(len(said.transcript))]
    left, out = list(found.messages), list[int]()
    for index, group in enumerate(whole):
        if [m.text for m in left[: len(group)]] == [m.text for m in group]:
            del left[: len(group)]
        else:
            out.append(index)
    assert not left, "what is shown is groups, in order"
    assert len(out) == found.omitted_groups
    covered = {spot for each in found.prefixes for spot in each.chain[: each.length]}
    of = said.transcript.index.group_of
    open_ = {group for spot, group in of.items() if spot not in covered}
    assert found.summarized_groups == (len({*out} - open_) if found.prefixes else 0)
    if found.prefixes or found.gap:
        gap = {group for group in out if all(m in found.gap for m in whole[group])}
        assert len({*out} & open_ - gap) == found.unlisted_groups, "nothing is lost without a word"
    if "tokens" not in window:
        mine = said.transcript.index.first_group_of_step.get(NOW, len(whole))
        assert not [group for group in out if group >= mine]


def test_messages_after_a_hidden_one_are_listed_in_the_gap() -> None:
    """A log is covered no further than there: what is beyond is shown, or a gap that says so."""
    said = Said()
    for n in range(6 * CHUNK):
        said.other(f"o{n}")
        if n == CHUNK:
            said.transcript.index.hidden_keys.append(said.spot)
    found = said.cut(last=3, summary="extract")
    assert [each.length for each in found.prefixes] == [CHUNK]
    shown, told = texts(found.messages), texts(found.gap)
    assert shown[0] == f"[other] o{6 * CHUNK - 3 - MOST_UNCOVERED}"
    assert len(told) == MOST_UNCOVERED
    assert found.unlisted_groups == 6 * CHUNK - CHUNK - len(shown) - len(told)
    block = build_summary_message([("public", "so far")], found.gap, found.unlisted_groups).text
    assert f"{found.unlisted_groups} more before these" in block
    assert "o20" in block


# -- prompts ------------------------------------------------------------------------------------


async def prompt_after(
    messages: int, model_call: Any, window: Any, **fields: Any
) -> tuple[Any, Any]:
    log = Log(RunId(f"run-{messages}-{window}"))
    for n in range(messages):
        log.says(f"{n}: " + "what was said " * 20)
    script = {"agents": {"backend": [{"text": "done"}]}}
    definition = crew(scripted(script), backend={"window": window})
    result = await model_call(definition, log, **fields)
    return result, recorded_prompts(definition.model or "")[-1].messages


def test_a_script_gets_the_text_before_omitted_messages() -> None:
    said = Said()
    said.people("do it")
    said.own("me#1", 1, "look", ["a"], late=True)
    assert said.cut(script="me", last=1).preceding_texts == ()
    said.own("me#2", 1, "so", late=True)
    said.other("end")
    before = ("people", "do it")
    assert said.cut(script="me", last=2).preceding_texts == (before,)
    assert said.cut(script="me", last=1).preceding_texts == (before, ("tool", NO_RESULT))
    said.results()  # late: they stand with their call
    assert said.cut(script="me", last=1).preceding_texts == (before, ("tool", "result a"))
    assert said.cut(script="me", last=2).preceding_texts == (before,)


@pytest.mark.parametrize("summary", ["off", "extract"])
async def test_prompts_stay_flat_over_500_messages(model_call: Any, summary: str) -> None:
    sizes: dict[int, int] = {}
    for count in (20, 100, 260, 500):
        result, prompt = await prompt_after(count, model_call, {"last": 5, "summary": summary})
        sizes[count] = result.usage.input_tokens
        assert prompt[-1]["content"].startswith(f"{count - 1}: ")
        if summary == "off":
            assert len(prompt) == 1 + 5 + 1, "five messages, and what is asked"
        else:
            assert prompt[1]["content"].startswith(INTRODUCTION)
    assert max(sizes.values()) <= (1.02 if summary == "off" else 3) * sizes[20], sizes
    assert sizes[500] <= 1.5 * sizes[100], sizes


async def test_a_script_counts_omitted_messages(
    model_call: Any, activities: CrewActivities
) -> None:
    script = {"agents": {"backend": [{"text": f"reply {n}"} for n in range(1, 9)]}}
    definition = crew(scripted(script), backend={"window": 2})
    log = Log()
    log.says("begin")
    for n in range(1, 9):
        result = await model_call(definition, log, step=StepId(f"backend#{n}"))
        assert result.body["content"] == f"reply {n}"
        assert (result.window.left_out if result.window else 0) == max(0, n - 3)
        log.replied(result, "backend")
