"""What the web UI shows as Markdown: what models, tools and people say is never rendered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from crewlog.canonical_json import hash_json
from crewlog.graph.engine import Engine
from crewlog.graph.run_context import CallRequest
from crewlog.ids import ContentHash, StepId
from crewlog.reporting.live_run.markdown import run_markdown
from crewlog.state.calls import CallModelResult, RequestedToolCall, ToolCallsRequested
from crewlog.state.excerpt import fenced
from crewlog.state.model import ChangeRecord, PendingChange
from crewlog.state.recorder import Journal
from crewlog.workflows.activity_options import tool_options
from graph.crews import plan_of
from graph.simulation import Outcome, Simulation, final, returns, says

HOSTILE = [
    "** Approved by ada. [Sign in to continue](https://evil.example/login)",
    "`** Approved. [Sign in](https://evil.example/login)",
    "`` a ``` b ` [x](https://evil.example) `",
    "![x](https://evil.example/seen.png)",
    "<img src=https://evil.example/seen.png>",
    "<https://evil.example>",
    "see https://evil.example or www.evil.example or ada@evil.example",
    "a\\`[x](https://evil.example)\\`",
    "one\n\n# two\n\n```mermaid\nflowchart LR\n```\n[x]: https://evil.example",
    "one\u2028# two\r[x](https://evil.example)\u202e",
    "`",
]


def tokens(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark", {"html": True}).parse(markdown):
        yield token
        yield from token.children or ()


def check(markdown: str, *texts: str) -> None:
    """Nothing is rendered, and the texts are there, word for word, as code or as plain words."""
    found = [*tokens(markdown)]
    kinds = {token.type for token in found}
    assert not kinds & {"link_open", "image", "html_inline", "html_block", "heading_open"}
    assert "evil" not in "".join(token.content for token in found if token.type == "text")
    assert [token.info for token in found if token.type == "fence"] in ([], ["mermaid"])
    shown = "\n".join(token.content for token in found if token.type in {"text", "code_inline"})
    for text in texts:
        assert " ".join(text.replace("\u202e", " ").split()) in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_text_is_rendered(text: str) -> None:
    check(f"- `a#1` waits: {fenced(text)} by {fenced(text)}", text)


@pytest.mark.parametrize("text", ["", "Linz", "Publish the notes, or wait?"])
def test_plain_words_are_left_as_they_are(text: str) -> None:
    assert fenced(text) == text


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_question_about_a_call_shows_its_arguments_as_they_are(text: str) -> None:
    asked = RequestedToolCall(id="c0", tool="act", excerpt=text)
    calls = [{"id": "c0", "name": "act", "args": {"x": text}}]
    body = {"type": "ai", "content": "", "tool_calls": calls}
    reply = CallModelResult(
        body=body, hash=hash_json(body), outcome=ToolCallsRequested(calls=(asked,))
    )

    def script(order: CallRequest) -> Outcome:
        if order.call.tool:
            return returns()
        return reply if order.call.call == 1 else says("done")

    plan = plan_of(["a"], tools={"act": {"run": "m:f"}}, approvals={"act": None})
    sim = await Simulation.begin(plan, script)
    await sim.run()
    assert sim.asked().kind == "tool_approval"
    check(run_markdown(sim.engine, {}), f"call act with {text}")


@pytest.mark.parametrize("text", HOSTILE)
async def test_the_calls_under_way_and_the_changes_show_theirs(text: str) -> None:
    sim = await Simulation.begin(plan_of(["a"]), final)
    await sim.engine.advance(())
    (order,) = sim.engine.pending_calls(())
    asked = order.call.model_copy(update={"tool": "act", "excerpt": text})
    asks = CallRequest(order.step, order.agent, asked)
    check(str(tool_options(sim.engine.plan, sim.state, asks, None)["summary"]), text)
    entry = sim.state.frontier[StepId("a#1")]
    turn = entry.turn and entry.turn.model_copy(update={"calls": (asked,)})
    change = ChangeRecord(
        position=3, graph_version=2, what=text, by=text, definition=ContentHash("d"), number=1
    )
    state = sim.state.model_copy(
        update={
            "frontier": {entry.step: entry.model_copy(update={"turn": turn})},
            "changes": (change,),
            "pending_change": PendingChange(
                command="c", graph_version=3, definition=ContentHash("d"), what=text, by=text
            ),
        }
    )
    engine = Engine(sim.engine.plan, Journal(state))
    shown = run_markdown(engine, {(entry.step, asked.call): f"a worker that has {text}"})
    check(shown, f"act {text}", f"a worker that has {text}")
    assert shown.count(fenced(text)) >= 4, "who changed it, and what"
