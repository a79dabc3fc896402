"""Tool calls in chunks, as services send them that number them badly."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.activities.ai_messages import join_chunks, json_error, parse_tool_calls

TEXT = '{"path": "a"}'
FIRST, SECOND = TEXT[:6], TEXT[6:]


def piece(args: str = "", *, name: str = "", id: str = "", index: int | None = None) -> Any:
    return {"index": index, "id": id or None, "name": name or None, "args": args}


def whole(*pieces: Any) -> list[tuple[str, str]]:
    return [(call["name"], call["args"]) for call in join_chunks(pieces)]


@pytest.mark.parametrize(
    "pieces",
    [
        # A number in each piece, in the first alone, in none.
        (piece(name="put", id="c", index=0), piece(FIRST, index=0), piece(SECOND, index=0)),
        (piece(name="put", id="c", index=0), piece(FIRST), piece(SECOND)),
        (piece(name="put", id="c"), piece(FIRST), piece(SECOND)),
        # A new id in each piece, with a number and without, and with the name.
        (piece(name="put", id="c1", index=0), piece(FIRST, id="c2", index=0), piece(SECOND)),
        (piece(name="put", id="c1"), piece(FIRST, id="c2"), piece(SECOND, id="c3")),
        (piece(name="put", id="c1", index=0), piece(TEXT, name="put", id="c2", index=0)),
        # The name and the id once more in each piece.
        (piece(name="put", id="c"), piece(FIRST, name="put", id="c"), piece(SECOND, id="c")),
        (piece(name="put", index=0), piece(FIRST, name="put", index=0), piece(SECOND, index=0)),
        (piece(name="put"), piece(TEXT, name="put")),
        # The name in pieces.
        (piece(name="p", id="c", index=0), piece(TEXT, name="ut", index=0)),
    ],
)
def test_chunks_of_one_call_are_one_call(pieces):
    assert whole(*pieces) == [("put", TEXT)]


@pytest.mark.parametrize(
    "pieces",
    [
        (piece(TEXT, name="put", id="a", index=0), piece(TEXT, name="put", id="b", index=1)),
        (piece(TEXT, name="put", id="a", index=0), piece(TEXT, name="put", id="b", index=0)),
        (piece(TEXT, name="put", id="a"), piece(TEXT, name="put", id="b")),
        (piece(TEXT, name="put"), piece(TEXT, name="put")),
        (
            piece(name="put", id="a", index=0),
            piece(name="put", id="b", index=1),
            piece(TEXT, index=0),
            piece(TEXT, index=1),
        ),
    ],
)
def test_chunks_of_two_calls_are_two_calls(pieces):
    assert whole(*pieces) == [("put", TEXT)] * 2


def test_a_chunk_without_a_previous_call_has_no_name():
    assert whole(piece(TEXT)) == [("", TEXT)]
    assert whole(piece(name="put", index=0), piece(TEXT, index=1)) == [("put", ""), ("", TEXT)]


def call(name: str, args: str) -> Any:
    return {"id": "c", "name": name, "args": args}


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_means_no_arguments(text):
    ((read,), ill) = parse_tool_calls([call("now", text)])
    assert (read["args"], ill) == ({}, [])


@pytest.mark.parametrize("other", [call("", TEXT), call("put", SECOND), call("put", "[1]")])
def test_no_arguments_next_to_an_invalid_call_are_invalid(other):
    well, ill = parse_tool_calls([call("put", TEXT), call("put", ""), other])
    assert [each["args"] for each in well] == [{"path": "a"}]
    assert [each["args"] for each in ill] == ["", other["args"]]
    assert "missing" in json_error("")


def test_a_call_without_a_name_is_invalid():
    well, ill = parse_tool_calls([call("", TEXT)])
    assert (well, [each["args"] for each in ill]) == ([], [TEXT])
    assert json_error(TEXT) == "the call names no tool"
