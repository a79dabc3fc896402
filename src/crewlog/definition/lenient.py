"""What was meant by a reply that is not exactly of the form that it must have.

Only what is clear is mended: other letters in a name, `"yes"` for true, `"80%"` for 0.8, one thing
where a list is wanted, a field by another of its names. What comes of it is held against the form
like any other reply; so nothing is let through here that the form would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from crewlog.definition.named import SEPARATORS, answer_of, named_in
from crewlog.model import Json

ALSO = "x-also"
"""In a schema: what a field is called as well."""
_Schema = Mapping[str, Any]
_YES = frozenset({"yes", "y", "true"})
_NO = frozenset({"no", "n", "false"})
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_NUMBER = re.compile(r"\s*-?\d{1,15}(?:\.\d{1,15})?\s*")
_MARKUP = " \t\r\n*_`'\"#>.!"
_WRAPPED = frozenset(
    {"decision", "result", "answer", "reply", "response", "output", "final", "data", "json"}
    | {"arguments", "args", "parameters", "params", "input", "function", "call", "tool", "value"}
)
"""What a model calls an object that it puts the form into, besides the form's own name."""
REASONS = ("rationale", "reason")
"""Fields that say why: two replies that differ in these alone say the same."""
_LONGEST_REASON = 500


def mended(schema: _Schema, said: Json) -> Json:
    """What was said, as the schema would have it; what is not clear is left as it is.

    Args:
        schema: The form; it may refer to its own `$defs`.
        said: The JSON that was found in a reply, or its text where there was none.
    """
    fields = _properties(schema)
    if isinstance(said, str) and fields:
        return _of_text(schema, fields, said)
    if isinstance(said, list) and fields:  # the list alone, where the form has one
        alone: list[Json] = said  # pyright: ignore[reportUnknownVariableType]
        lists = [key for key, each in fields.items() if _inner(schema, each).get("type") == "array"]
        return _mend(schema, schema, {lists[0]: alone}) if len(lists) == 1 else alone
    if isinstance(said, dict) and fields:
        whole = cast("dict[str, Json]", said)
        inside = {
            key: cast("dict[str, Json]", each)
            for key, each in whole.items()
            if isinstance(each, dict)
        }
        wrapped = len(inside) == 1 and not whole.keys() & fields.keys()
        key, alone_in = next(iter(inside.items()), ("", dict[str, Json]()))
        known = _WRAPPED | _called(str(schema.get("title", "")), {}) | _all_called(fields)
        if wrapped and _alike(key) in known and _renamed(fields, alone_in).keys() & fields.keys():
            return _mend(schema, schema, alone_in)  # `{"route": {…}}`
    return _mend(schema, schema, said)


def yes_or_no(said: Json, also: Collection[str] = ()) -> bool | None:
    """Whether something is a yes or a no, and nothing else; none where it is neither.

    A text that begins with a yes may go on with a `but`: only one that is that word counts.

    Args:
        said: What was said.
        also: Words that are a yes here: what the field is called.
    """
    if isinstance(said, bool):
        return said
    if said in (0, 1):
        return bool(said)
    word = said[:40].strip(_MARKUP).lower() if isinstance(said, str) and len(said) < 40 else ""
    if word in _YES or _alike(word) in also:
        return True
    return False if word in _NO else None


def _of_text(schema: _Schema, fields: Mapping[str, Any], text: str) -> Json:
    """What a text without JSON says of the first field; the text itself is the reason."""
    main, form = next(iter(fields.items()))
    inner = _inner(schema, form)
    value: Json = None
    if isinstance(inner.get("enum"), list):
        value = named_in(text, [str(each) for each in inner["enum"]])
    elif inner.get("type") == "boolean":
        value = yes_or_no(answer_of(text), _called(main, inner))
    if value is None:
        return text
    why = {key: text.strip()[:_LONGEST_REASON] for key in REASONS if key in fields}
    return {main: value, **why}


def _called(key: str, form: Any) -> frozenset[str]:
    """What a field is called, in one spelling."""
    also: Any = cast("_Schema", form).get(ALSO, ()) if isinstance(form, Mapping) else ()
    return frozenset(_alike(str(each)) for each in (key, *also))


def _mend(root: _Schema, schema: _Schema, value: Json, called: Collection[str] = ()) -> Json:
    form = _inner(root, schema)
    fields = _properties(form)
    if isinstance(value, dict) and fields:
        named = _renamed(fields, cast("dict[str, Json]", value))
        return {
            k: _mend(root, fields[k], v, _called(k, fields[k])) if k in fields else v
            for k, v in named.items()
        }
    if form.get("type") == "array" and isinstance(form.get("items"), Mapping):
        items: list[Json] = [] if value is None else [value]
        if isinstance(value, list):
            items = value  # pyright: ignore[reportUnknownVariableType]
        return [_mend(root, form["items"], each) for each in items]
    if isinstance(choices := form.get("enum"), list) and isinstance(value, str):
        if value in choices:
            return value
        names = [str(each) for each in choices]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        found = [each for each in names if _alike(each) == _alike(value)]
        return found[0] if len(found) == 1 else named_in(value, names) or value
    return _plain(form.get("type"), value, called)


def _plain(kind: Any, value: Json, called: Collection[str]) -> Json:
    if kind == "boolean":
        found = yes_or_no(value, called)
        return value if found is None else found
    if kind in ("number", "integer") and isinstance(value, str):
        if percent := _PERCENT.fullmatch(value):
            return float(percent[1]) / 100
        if _NUMBER.fullmatch(value):
            return float(value) if "." in value else int(value)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _alike(name: str) -> str:
    return SEPARATORS.sub("", name).casefold()


def _all_called(fields: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(each for key, form in fields.items() for each in _called(key, form))


def _renamed(fields: Mapping[str, Any], said: Mapping[str, Json]) -> dict[str, Json]:
    """The keys as the form calls them; a key that is right already is never replaced.

    Where two keys stand for one field and say different things, neither does.
    """
    known = {_alike(key): key for key in fields}
    for key, form in fields.items():
        for other in _called(key, form):
            known.setdefault(other, key)
    out: dict[str, Json] = {key: value for key, value in said.items() if key in fields}
    others = [key for key in said if key not in fields]
    for key in others:
        meant = known.get(_alike(key), key)
        alike = [said[each] for each in others if known.get(_alike(each), each) == meant]
        agree = all(each == alike[0] for each in alike)
        out.setdefault(meant if agree else key, said[key])
    return out


def _inner(root: _Schema, schema: Any) -> _Schema:
    """A schema, or the one of the root's `$defs` that it refers to."""
    if not isinstance(schema, Mapping):
        return {}
    form = cast("_Schema", schema)
    ref = form.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        found: Any = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
        return cast("_Schema", found) if isinstance(found, Mapping) else {}
    return form


def _properties(schema: _Schema) -> Mapping[str, Any]:
    found: Any = schema.get("properties")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
