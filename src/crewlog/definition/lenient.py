"""What was meant by a reply that is not exactly of the form that it must have.

Only what is clear is mended: other letters in a name, `"yes"` for true, `"80%"` for 0.8, one thing
where a list is wanted, a field by another of its names. What comes of it is held against the form
like any other reply; so nothing is let through here that the form would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from crewlog.model import Json

ALSO = "x-also"
"""In a schema: what a field is called as well."""
LONGEST_TEXT = 20_000
"""Characters of a text in which names are looked for."""

_Schema = Mapping[str, Any]
_YES = frozenset({"yes", "y", "true", "done", "proceed", "approved", "ok", "okay"})
_NO = frozenset({"no", "n", "false", "not", "none", "never"})
_SEPARATORS = re.compile(r"[\s_-]+")
_WORD = re.compile(r"\W*([A-Za-z]+)[\s*_`'\")\]]*(?:[.,;:!\n\u2013\u2014-]|$)")
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_NUMBER = re.compile(r"\s*-?\d{1,15}(?:\.\d{1,15})?\s*")
_MARKUP = " \t\r\n*_`'\"#>-.:,;!()[]{}<"
_CUE = re.compile(
    r"(?:\b(?:route[sd]?|routing|sen[dt]|sending|hand(?:ing|ed)?|transfer\w*|forward\w*|"
    r"delegat\w+|assign\w*|pass(?:ing)?|go(?:es)?|choos\w+|chose|pick\w*|select\w*|call|use|"
    r"using|next|agent|answer|decision|strategy)\b|→|->|=>)[^.,;\n]{0,30}$",
    re.IGNORECASE,
)
_AGAINST = re.compile(
    r"(?:\b(?:not|never|no|cannot|instead of|rather than|unlike|than|except|without)\b|n't\b)"
    r"(?:(?!\bbut\b)[^.,;:\n]){0,25}$",
    re.IGNORECASE,
)
_WORD_FOLLOWS = re.compile(r"\s+(?!because\b|since\b|as\b|is\b)\w", re.IGNORECASE)
_REASONS = ("rationale", "reason")
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
        inside: list[Json] = [each for each in whole.values() if isinstance(each, dict)]
        wrapped = len(inside) == 1 and not whole.keys() & fields.keys()
        if wrapped and _renamed(fields, inside[0]).keys() & fields.keys():
            return _mend(schema, schema, inside[0])  # `{"route": {…}}`
    return _mend(schema, schema, said)


def named_in(text: str, names: Sequence[str]) -> str | None:
    """The one name that a text means, of several; none where that is not clear.

    What it is about counts more than what it mentions: a name alone on a line, at the beginning,
    after `next` or `send it to`, or in bold; a name after `not` or `rather than` is not meant.
    """
    text = text[:LONGEST_TEXT]
    found = list(_mentions(text, names))
    if not found:
        return None
    meant = [each for each in found if not _AGAINST.search(_before(text, each[1]))]
    for those in (
        [name for name, at, end in meant if _alone(text, at, end)],
        [name for name, at, end in meant if _first(text, at, end)],
        [name for name, at, _ in meant if _CUE.search(_before(text, at))],
        [name for name, at, end in meant if _marked(text, at, end)],
        [name for name, _, _ in meant],
    ):
        if len({*those}) == 1:
            return those[0]
        if those:
            return None
    return None


def _mentions(text: str, names: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    for name in names:
        words = [re.escape(word) for word in _SEPARATORS.split(name) if word]
        if not words:
            continue
        pattern = rf"(?<![\w-]){'[ _-]?'.join(words)}(?![\w-])"
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield name, match.start(), match.end()


def _before(text: str, at: int) -> str:
    return text[max(0, at - 60) : at]


def _first(text: str, at: int, end: int) -> bool:
    return not text[:at].strip(_MARKUP) and not _WORD_FOLLOWS.match(text, end)


def _alone(text: str, at: int, end: int) -> bool:
    begin = text.rfind("\n", 0, at) + 1
    stop = text.find("\n", end)
    rest = text[begin:at] + text[end : len(text) if stop < 0 else stop]
    return not rest.strip(_MARKUP)


def _marked(text: str, at: int, end: int) -> bool:
    return text[at - 1 : at] in ("*", "`", '"', "'") and text[end : end + 1] == text[at - 1 : at]


def yes_or_no(said: Json) -> bool | None:
    """Whether a text begins with a yes or a no; none where it begins with neither."""
    if isinstance(said, bool):
        return said
    if said in (0, 1):
        return bool(said)
    # A word of its own: "no problem" is none.
    first = _WORD.match(said[:200]) if isinstance(said, str) else None
    word = first[1].lower() if first else ""
    return True if word in _YES else False if word in _NO else None


def _of_text(schema: _Schema, fields: Mapping[str, Any], text: str) -> Json:
    """What a text without JSON says of the first field; the text itself is the reason."""
    main, form = next(iter(fields.items()))
    inner = _inner(schema, form)
    value: Json = None
    if isinstance(inner.get("enum"), list):
        value = named_in(text, [str(each) for each in inner["enum"]])
    elif inner.get("type") == "boolean":
        value = yes_or_no(text)
    if value is None:
        return text
    why = {key: text.strip()[:_LONGEST_REASON] for key in _REASONS if key in fields}
    return {main: value, **why}


def _mend(root: _Schema, schema: _Schema, value: Json) -> Json:
    form = _inner(root, schema)
    fields = _properties(form)
    if isinstance(value, dict) and fields:
        named = _renamed(fields, cast("dict[str, Json]", value))
        return {k: _mend(root, fields[k], v) if k in fields else v for k, v in named.items()}
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
    return _plain(form.get("type"), value)


def _plain(kind: Any, value: Json) -> Json:
    if kind == "boolean":
        found = yes_or_no(value)
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
    return _SEPARATORS.sub("", name).casefold()


def _renamed(fields: Mapping[str, Any], said: Mapping[str, Json]) -> dict[str, Json]:
    """The keys as the form calls them; a key that is right already is never replaced."""
    known = {_alike(key): key for key in fields}
    for key, form in fields.items():
        for other in form.get(ALSO, ()) if isinstance(form, Mapping) else ():  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            known.setdefault(_alike(str(other)), key)  # pyright: ignore[reportUnknownArgumentType]
    out: dict[str, Json] = {key: value for key, value in said.items() if key in fields}
    for key, value in said.items():
        if key not in fields:
            out.setdefault(known.get(_alike(key), key), value)
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
