"""What an entry with `when` takes over from the message that it answers.

Its texts may have `{{last}}`, the message's text, and `{{NAME}}` for a group `(?P<NAME>…)` of the
expression: so a script can pass on what a tool found, and ask about what a person named. Other
braces stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from crewlog.model import Json
from crewlog.testing.script_file import Entry

LAST = "last"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def filled(entry: Entry, last: str) -> Entry:
    """The entry as it answers a message.

    Args:
        entry: An entry; without `when` it is as it is.
        last: The text of the message.
    """
    found = re.search(entry.when, last) if entry.when is not None else None
    if found is None:
        return entry
    values = {LAST: last} | {name: text or "" for name, text in found.groupdict().items()}
    calls = tuple(
        call.model_copy(update={"args": {key: _in(arg, values) for key, arg in call.args.items()}})
        for call in entry.tool_calls
    )
    text = entry.text if entry.text is None else _in(entry.text, values)
    return entry.model_copy(update={"text": text, "tool_calls": calls})


def _in(value: Json, values: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return _PLACE.sub(lambda place: values.get(place[1], place[0]), value)
    if isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return [_in(each, values) for each in items]
    if isinstance(value, dict):
        fields: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
        return {key: _in(each, values) for key, each in fields.items()}
    return value
