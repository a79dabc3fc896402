"""The metadata that follows from a message's body: step, call, agent, tool calls and usage.

Entries and activity results have the same fields. To keep histories small, they leave out whatever
the body already says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from crewlog.model import Json
from crewlog.state.excerpt import excerpt, message_excerpt

Body = Mapping[str, Any]
_BRIEF_ARGUMENTS = 80
_BRIEF_EDIT = 500


def requested_tool_calls(body: Body) -> list[dict[str, Json]]:
    """The tool calls of an AI message, valid ones first, each with id, tool and excerpt."""
    well = [_asked(c, _arguments(c["args"])) for c in body.get("tool_calls") or ()]
    ill = [_asked(c, c.get("args") or "") for c in body.get("invalid_tool_calls") or ()]
    return [*well, *ill]


def _asked(call: Body, arguments: str) -> dict[str, Json]:
    found = {
        "id": call.get("id") or "",
        "tool": call.get("name") or "",
        "excerpt": excerpt(arguments, _BRIEF_ARGUMENTS),
    }
    return {k: v for k, v in found.items() if v or k != "excerpt"}


def arguments_excerpt(args: Mapping[str, Json]) -> str:
    """The excerpt of a call's arguments."""
    return excerpt(_arguments(args), _BRIEF_ARGUMENTS)


def edited_arguments_excerpt(args: Mapping[str, Json], asked: Json) -> str:
    """The excerpt of a call's arguments after people edited them.

    If it must be cut, the changed arguments come first, so that the excerpt shows a change.

    Args:
        args: The edited arguments.
        asked: The arguments that the interrupt showed.
    """
    text = arguments_excerpt(args)
    if not (text.endswith("…") and isinstance(asked, dict)):
        return text
    shown = cast("dict[str, Json]", asked)
    same = {key: key in shown and shown[key] == value for key, value in args.items()}
    changed_first = {key: args[key] for key in sorted(args, key=lambda key: same[key])}
    return arguments_excerpt(changed_first)


def _arguments(args: Mapping[str, Json]) -> str:
    # Arguments may be megabytes: cut each before the whitespace is normalized.
    return " ".join(
        v[: _BRIEF_ARGUMENTS + 1] if isinstance(v, str) else str(v)[: _BRIEF_ARGUMENTS + 1]
        for v in args.values()
    )


def argument_changes(args: Json, asked: Json) -> str:
    """How people edited a call's arguments: `euros = 15 (was 20)`.

    Args:
        args: The edited arguments; none if nobody edited them.
        asked: The arguments that the interrupt showed, with long texts shortened.
    """
    if not isinstance(args, dict):
        return ""
    given = cast("dict[str, Json]", args)
    shown = cast("dict[str, Json]", asked) if isinstance(asked, dict) else {}
    said = [
        f"{key} = {_value(value)}" + (f" (was {_value(shown[key])})" if key in shown else "")
        for key, value in given.items()
        if key not in shown or _value(value) != _value(shown[key])
    ]
    said += [f"without {key}" for key in shown if key not in given]
    return excerpt(", ".join(said), _BRIEF_EDIT)


def _value(value: Json) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _BRIEF_ARGUMENTS)


def body_usage(body: Body) -> dict[str, Json]:
    """The usage of a model call, as `Usage` in JSON.

    A body has no cost, so the usage is that of a model without a known price.
    """
    said: Body = body.get("usage_metadata") or {}
    found: dict[str, Json] = {"calls": 1}
    for key in ("input_tokens", "output_tokens"):
        if count := said.get(key):
            found[key] = count
    if name := model_name(body):
        found["unpriced"] = name
    return found


def usage_without_metadata(
    usage: Mapping[str, Json], body_tells: Mapping[str, Json]
) -> dict[str, Json]:
    """The part of a usage that does not follow from the body. Inverse: `usage_with_metadata`.

    Args:
        usage: The usage as `Usage` in JSON, without defaults.
        body_tells: The usage that follows from the body.
    """
    known = _of_model(body_tells, priced="cost" in usage)
    found = {key: value for key, value in usage.items() if known.get(key) != value}
    return found | {key: _NO_USE[key] for key in known if key not in usage}


def usage_with_metadata(
    beyond: Mapping[str, Json], body_tells: Mapping[str, Json]
) -> dict[str, Json]:
    """The whole usage again. Inverse of `usage_without_metadata`.

    Args:
        beyond: The part that does not follow from the body; it may contain defaults.
        body_tells: The usage that follows from the body.
    """
    found = {**_of_model(body_tells, priced="cost" in beyond), **beyond}
    return {key: value for key, value in found.items() if value != _NO_USE.get(key)}


_NO_USE: Mapping[str, Json] = {
    "calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "unpriced": "",
}
"""The defaults of the `Usage` fields that follow from a body."""


def _of_model(body_tells: Mapping[str, Json], *, priced: bool) -> Mapping[str, Json]:
    """The usage of a body; a model with a known price is not listed as `unpriced`."""
    if not priced:
        return body_tells
    return {key: value for key, value in body_tells.items() if key != "unpriced"}


def model_name(body: Body) -> str:
    """The name that the model gave itself; empty if it gave none."""
    said: Body = body.get("response_metadata") or {}
    return str(said.get("model_name") or "")


def body_metadata(body: Body) -> dict[str, Json]:
    """The fields of the entry about a message that follow from its body.

    The `calls` of an AI message have neither numbers nor the message: the entry adds them.
    """
    step, _, call = str(body.get("id") or "").rpartition("/")
    if not step or not call.isdecimal():
        return {}
    return {"step": step, "call": int(call), **dict(_told(body))}


def _told(body: Body) -> Iterator[tuple[str, Json]]:
    if said := message_excerpt(body):
        yield "excerpt", said
    if body.get("type") == "tool":
        yield "tool", body.get("name") or ""
        if body.get("status") == "error":
            yield "ok", False
        return
    yield "agent", body.get("name") or ""
    yield "usage", body_usage(body)
    if name := model_name(body):
        yield "model", name
    if asked := requested_tool_calls(body):
        yield "calls", asked
