"""Comments of a file that another text replaces: each stays at its key or item, none is dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crewlog.definition.comments import with_comments
from crewlog.definition.text import read_document

OLD = """\
# Notes of each release.
# Ask ana before changes.
crew: notes  # the team's name

agents:
  # He writes too much.
  writer:
    prompt: |  # in English
      Write. # not a comment
      # nor is this
  editor: {prompt: "Edit # all", model: "openai:x"}  # cheap
flow:
  - writer
  # The editor is slow.
  - {agent: editor, timeout: 2h}  # measured
limits: {steps: 10,  # enough
  tokens: 100}
# The end.
"""
NEW = """\
crew: notes
agents:
  writer: {prompt: Write more.}
  checker: {prompt: Check.}
  editor: {prompt: Edit.}
flow:
  - checker
  - {agent: editor, timeout: 3h}
  - writer
limits: {steps: 20}
"""
BOTH = """\
# Notes of each release.
# Ask ana before changes.
crew: notes  # the team's name
agents:
  # He writes too much.
  writer: {prompt: Write more.}  # in English
  checker: {prompt: Check.}
  editor: {prompt: Edit.}  # cheap
flow:
  - checker
  # The editor is slow.
  - {agent: editor, timeout: 3h}  # measured
  - writer
limits: {steps: 20}  # enough
# The end.
"""


def test_a_comment_stays_at_its_key_or_item() -> None:
    assert with_comments(NEW, OLD) == BOTH


def test_the_same_text_keeps_its_comments_where_they_are() -> None:
    assert with_comments(NEW, BOTH) == BOTH


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("a: 1\nb: 2  # two\n", "a: 1\n", "# two\na: 1\n"),
        ("s:\n  a: 1\n  # of b\n  b: 2\n", "x: 1\ns:\n  a: 1\n", "x: 1\n# of b\ns:\n  a: 1\n"),
        (
            "f:\n  - a  # 1\n  - a  # 2\n",
            "f:\n  - a\n  - b\n  - a\n",
            "f:\n  - a  # 1\n  - b\n  - a  # 2\n",
        ),
        ("f: [a, # one\n  b]\n", "f: [b]\n", "f: [b]  # one\n"),
        ("# only this\na: 1\n# and that\n", "b: 1\n", "# only this\nb: 1\n# and that\n"),
        ("url: http://x/#frag\nb: 'it # is'\n", "url: 1\n", "url: 1\n"),
    ],
)
def test_what_is_gone_leaves_its_comment_at_what_is_around_it(
    old: str, new: str, found: str
) -> None:
    assert with_comments(new, old) == found


@given(
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    st.data(),
)
def test_no_comment_is_dropped_and_no_value_changes(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    lines: list[str] = []
    comments: list[str] = []
    for key in before:
        places = data.draw(st.sets(st.sampled_from(("above", "behind"))))
        comments += [f"# {where} {key}" for where in places]
        lines += [f"# above {key}"] * (f"# above {key}" in comments)
        lines.append(f"{key}: {key}" + f"  # behind {key}" * (f"# behind {key}" in comments))
    new = "".join(f"{key}: {key}\n" for key in after)
    found = with_comments(new, "".join(f"{line}\n" for line in lines))
    assert sorted(comments) == sorted(
        comment for line in found.splitlines() for comment in _comments_of(line)
    )
    assert read_document(found, "x").data == read_document(new, "x").data


def _comments_of(line: str) -> list[str]:
    return [f"# {part}".rstrip() for part in line.split("# ")[1:]]
