"""Scripted replies that pass on what they answer, and that tell tools from people."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from crewlog.activities.chat_models import ModelFactory
from crewlog.testing import scripted


async def test_a_reply_takes_over_what_its_expression_found() -> None:
    name = scripted(
        {
            "agents": {
                "*": [
                    {
                        "when": "describe (?P<crew>[a-z-]+)",
                        "tool_calls": [{"tool": "look", "args": {"names": ["{{crew}}", "{{x}}"]}}],
                    },
                    {"when": "agents", "text": "It says: {{last}} {{x}}"},
                    {"text": "{{last}}"},
                ]
            }
        }
    )
    model = await ModelFactory().get(name, {}, 10.0)
    asked = await model.ainvoke([HumanMessage("Please describe ops-hub.")])
    told = await model.ainvoke([HumanMessage("7 agents")])
    plain = await model.ainvoke([HumanMessage("Hello")])
    assert asked.tool_calls[0]["args"] == {"names": ["ops-hub", "{{x}}"]}
    assert told.text == "It says: 7 agents {{x}}"
    assert plain.text == "{{last}}"


async def test_an_entry_may_be_for_a_tools_answer_alone() -> None:
    name = scripted(
        {
            "agents": {
                "*": [
                    {"of": "tool", "when": "crews", "text": "found: {{last}}"},
                    {"of": "people", "when": "crews", "tool_calls": [{"tool": "list"}]},
                ]
            }
        }
    )
    model = await ModelFactory().get(name, {}, 10.0)
    asked = await model.ainvoke([HumanMessage("Which crews?")])
    told = await model.ainvoke(
        [HumanMessage("Which?"), AIMessage(""), ToolMessage("2 crews", tool_call_id="c")]
    )
    assert [call["name"] for call in asked.tool_calls] == ["list"]
    assert told.text == "found: 2 crews"
