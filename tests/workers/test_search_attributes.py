"""The registration of search attributes, with a fake server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.service import RPCError, RPCStatusCode

from crewlog.wire import SEARCH_ATTRIBUTES
from crewlog.workers.worker import register_search_attributes

KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
TEXT = IndexedValueType.INDEXED_VALUE_TYPE_TEXT


class Server:
    """Has attributes; `rivals` are workers that are faster by one attribute each."""

    def __init__(self, has: dict[str, Any], rivals: int = 0, fails: Any = None) -> None:
        self.has = has
        self.rivals = rivals
        self.fails = fails
        self.adds: list[list[str]] = []

    async def list_search_attributes(self, _request: Any) -> Any:
        return SimpleNamespace(custom_attributes=dict(self.has))

    async def add_search_attributes(self, request: Any) -> None:
        wanted = dict(request.search_attributes)
        self.adds.append(sorted(wanted))
        if self.fails is not None:
            raise RPCError("no", self.fails, b"")
        if self.rivals:
            self.rivals -= 1
            self.has[min(wanted)] = KEYWORD
        if wanted.keys() & self.has.keys():
            raise RPCError("some exist already", RPCStatusCode.ALREADY_EXISTS, b"")
        self.has |= wanted


async def asked(server: Server) -> tuple[bool, list[Any]]:
    client: Any = SimpleNamespace(namespace="default", operator_service=server)
    with capture_logs() as logs:
        return await register_search_attributes(client), logs


@pytest.mark.parametrize("rivals", range(len(SEARCH_ATTRIBUTES)))
async def test_all_attributes_are_registered_with_rivals(rivals: int) -> None:
    server = Server({"Other": TEXT}, rivals)
    assert await asked(server) == (True, [])
    assert server.has == {"Other": TEXT} | dict.fromkeys(SEARCH_ATTRIBUTES, KEYWORD)
    assert len(server.adds) == rivals + 1


async def test_nothing_is_added_if_all_exist() -> None:
    server = Server(dict.fromkeys(SEARCH_ATTRIBUTES, KEYWORD))
    assert await asked(server) == (True, [])
    assert server.adds == []


async def test_an_attribute_of_another_type_is_named() -> None:
    wrong = next(iter(SEARCH_ATTRIBUTES))
    server = Server({wrong: TEXT})
    found, (warning,) = await asked(server)
    assert not found
    assert warning["names"] == [wrong]
    assert server.adds == []


async def test_a_rejected_registration_is_logged() -> None:
    found, (warning,) = await asked(Server({}, fails=RPCStatusCode.PERMISSION_DENIED))
    assert not found
    assert warning["reason"] == "no"
