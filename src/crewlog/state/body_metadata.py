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
_ARGUMENTS_LENGTH = 80
_EDIT_LENGTH = 500


def requested_tool_calls(body: Body) -> list[dict[str, Json]]:
    """The tool calls of an AI message, valid ones first, each with id, tool and excerpt."""
    valid = [_requested_call(c, _arguments_text(c["args"])) for c in body.get("tool_calls") or ()]
    invalid = [
        _requested_call(c, c.get("args") or "") for c in body.get("invalid_tool_calls") or ()
    ]
    return [*valid, *invalid]


def _requested_call(call: Body, arguments: str) -> dict[str, Json]:
    fields = {
        "id": call.get("id") or "",
        "tool": call.get("name") or "",
        "excerpt": excerpt(arguments, _ARGUMENTS_LENGTH),
    }
    return {k: v for k, v in fields.items() if v or k != "excerpt"}


def arguments_excerpt(args: Mapping[str, Json]) -> str:
    """The excerpt of a call's arguments."""
    return excerpt(_arguments_text(args), _ARGUMENTS_LENGTH)


def edited_arguments_excerpt(args: Mapping[str, Json], shown_args: Json) -> str:
    """The excerpt of a call's arguments after people edited them.

    If it must be cut, the changed arguments come first, so that the excerpt shows a change.

    Args:
        args: The edited arguments.
        shown_args: The arguments that the interrupt showed.
    """
    text = arguments_excerpt(args)
    if not (text.endswith("…") and isinstance(shown_args, dict)):
        return text
    shown = cast("dict[str, Json]", shown_args)
    is_unchanged = {key: key in shown and shown[key] == value for key, value in args.items()}
    changed_first = {key: args[key] for key in sorted(args, key=lambda key: is_unchanged[key])}
    return arguments_excerpt(changed_first)


def _arguments_text(args: Mapping[str, Json]) -> str:
    # Arguments may be megabytes: cut each before the whitespace is normalized.
    return " ".join(
        v[: _ARGUMENTS_LENGTH + 1] if isinstance(v, str) else str(v)[: _ARGUMENTS_LENGTH + 1]
        for v in args.values()
    )


def argument_changes(args: Json, shown_args: Json) -> str:
    """How people edited a call's arguments: `euros = 15 (was 20)`.

    Args:
        args: The edited arguments; none if nobody edited them.
        shown_args: The arguments that the interrupt showed, with long texts shortened.
    """
    if not isinstance(args, dict):
        return ""
    edited = cast("dict[str, Json]", args)
    shown = cast("dict[str, Json]", shown_args) if isinstance(shown_args, dict) else {}
    changes = [
        f"{key} = {_value(value)}" + (f" (was {_value(shown[key])})" if key in shown else "")
        for key, value in edited.items()
        if key not in shown or _value(value) != _value(shown[key])
    ]
    changes += [f"without {key}" for key in shown if key not in edited]
    return excerpt(", ".join(changes), _EDIT_LENGTH)


def _value(value: Json) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _ARGUMENTS_LENGTH)


def body_usage(body: Body) -> dict[str, Json]:
    """The usage of a model call, as `Usage` in JSON.

    A body has no cost, so the usage is that of a model without a known price.
    """
    usage_metadata: Body = body.get("usage_metadata") or {}
    usage: dict[str, Json] = {"calls": 1}
    for key in ("input_tokens", "output_tokens"):
        if count := usage_metadata.get(key):
            usage[key] = count
    if name := model_name(body):
        usage["unpriced"] = name
    return usage


def usage_without_metadata(
    usage: Mapping[str, Json], usage_of_body: Mapping[str, Json]
) -> dict[str, Json]:
    """The part of a usage that does not follow from the body. Inverse: `usage_with_metadata`.

    Args:
        usage: The usage as `Usage` in JSON, without defaults.
        usage_of_body: The usage that follows from the body.
    """
    expected = _body_usage_of_model(usage_of_body, priced="cost" in usage)
    rest = {key: value for key, value in usage.items() if expected.get(key) != value}
    return rest | {key: _USAGE_DEFAULTS[key] for key in expected if key not in usage}


def usage_with_metadata(
    rest: Mapping[str, Json], usage_of_body: Mapping[str, Json]
) -> dict[str, Json]:
    """The whole usage again. Inverse of `usage_without_metadata`.

    Args:
        rest: The part that does not follow from the body; it may contain defaults.
        usage_of_body: The usage that follows from the body.
    """
    usage = {**_body_usage_of_model(usage_of_body, priced="cost" in rest), **rest}
    return {key: value for key, value in usage.items() if value != _USAGE_DEFAULTS.get(key)}


_USAGE_DEFAULTS: Mapping[str, Json] = {
    "calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
    "unpriced": "",
}
"""The defaults of the `Usage` fields that follow from a body."""


def _body_usage_of_model(body_tells: Mapping[str, Json], *, priced: bool) -> Mapping[str, Json]:
    """The usage of a body; a model with a known price is not listed as `unpriced`."""
    if not priced:
        return body_tells
    return {key: value for key, value in body_tells.items() if key != "unpriced"}


def model_name(body: Body) -> str:
    """The name that the model gave itself; empty if it gave none."""
    response_metadata: Body = body.get("response_metadata") or {}
    return str(response_metadata.get("model_name") or "")


def body_metadata(body: Body) -> dict[str, Json]:
    """The fields of the entry about a message that follow from its body.

    The `calls` of an AI message have neither numbers nor the message: the entry adds them.
    """
    step, _, call = str(body.get("id") or "").rpartition("/")
    if not step or not call.isdecimal():
        return {}
    return {"step": step, "call": int(call), **dict(_metadata_fields(body))}


def _metadata_fields(body: Body) -> Iterator[tuple[str, Json]]:
    if text := message_excerpt(body):
        yield "excerpt", text
    if body.get("type") == "tool":
        yield "tool", body.get("name") or ""
        if body.get("status") == "error":
            yield "ok", False
        return
    yield "agent", body.get("name") or ""
    yield "usage", body_usage(body)
    if name := model_name(body):
        yield "model", name
    if tool_calls := requested_tool_calls(body):
        yield "calls", tool_calls
