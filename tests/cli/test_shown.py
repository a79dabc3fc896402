"""The page of `crewlog show`: values are JSON there, and say so where they are cut."""

from __future__ import annotations

import json

from crewlog.cli.shown import _short, _text  # pyright: ignore[reportPrivateUsage]
from crewlog.ids import ContentHash
from crewlog.state.model import Output

FILES = ["README.md", "tests/test_cart.py", "tests/test_pricing.py", "shop/cart.py", "a" * 40]


def test_values_are_json_and_whole() -> None:
    whole = json.dumps(FILES)
    assert _text(Output(position=1, value=FILES), {}) == whole
    body = ContentHash("b")
    assert _text(Output(position=1, body=body), {body: FILES}) == whole
    assert _text(Output(position=1, value=False), {}) == "false"
    assert _text(Output(position=1, value="plain text"), {}) == "plain text"


def test_what_is_cut_says_so() -> None:
    assert len(_short(FILES)) == 60
    assert _short(FILES).endswith("…")
    assert _short({"a": None}) == '{"a": null}'
