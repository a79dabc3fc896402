"""Scripted replies that pass on what they answer."""

from __future__ import annotations

from langchain_core.messages import HumanMessage

from crewlog.activities.models import ModelFactory
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
    model = await ModelFactory().ready(name, {}, 10.0)
    asked = await model.ainvoke([HumanMessage("Please describe ops-hub.")])
    told = await model.ainvoke([HumanMessage("7 agents")])
    plain = await model.ainvoke([HumanMessage("Hello")])
    assert asked.tool_calls[0]["args"] == {"names": ["ops-hub", "{{x}}"]}
    assert told.text == "It says: 7 agents {{x}}"
    assert plain.text == "{{last}}"
