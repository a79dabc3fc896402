"""Arguments that no start can have."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.client import Client
from crewlog.errors import UsageError


@pytest.mark.parametrize(
    ("crew", "options", "message", "remedy"),
    [
        ("c", {"existing": "foo"}, "'existing' cannot be 'foo'", "'reject', 'attach' or 'replace'"),
        ("c", {"existing": "attach"}, "existing='attach' needs the id of a run", "id="),
        (5, {}, "the crew cannot be 5", "a registered name, a file, a definition or a prompt"),
        ("c", {"model": 5}, "'model' cannot be 5", "openai:gpt-5-mini"),
        ("c", {"by": 3}, "'by' cannot be 3", "who starts it"),
    ],
)
async def test_each_is_named_with_what_it_may_be(
    crew: Any, options: dict[str, Any], message: str, remedy: str
) -> None:
    client: Any = Client.__new__(Client)  # nothing is asked of a server
    with pytest.raises(UsageError) as refused:
        await client.start(crew, **options)
    assert message in refused.value.message
    assert remedy in refused.value.remedy
    assert refused.value.place == "start"
