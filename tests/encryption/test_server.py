"""The codec server: whom it answers, and what."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payloads
from temporalio.converter import WorkflowSerializationContext

from crewlog.encryption.codec import EncryptionCodec
from crewlog.encryption.keys import Keyring
from crewlog.encryption.server import LARGEST, MOST_REQUESTS, CodecServer
from crewlog.payload_storage.converter import data_converter

ORIGIN = "http://localhost:8233"
GOOD = {"Authorization": "Bearer the-token", "Origin": ORIGIN, "X-Namespace": "default"}


@pytest.fixture
async def page(keys: Keyring) -> AsyncIterator[httpx.AsyncClient]:
    server = await CodecServer(keys, ORIGIN, "the-token", "default").start(0)
    port = server.sockets[0].getsockname()[1]
    assert server.sockets[0].getsockname()[0] == "127.0.0.1"
    async with server, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client


async def asked(tmp_path: Any, keys: Keyring, namespace: str = "default") -> dict[str, Any]:
    whole = data_converter(tmp_path, keys=keys)
    assert isinstance(whole.payload_codec, EncryptionCodec)
    ours = whole.with_context(WorkflowSerializationContext(namespace, "run-1"))
    return MessageToDict(Payloads(payloads=await ours.encode([{"say": "hello"}, 3])))


async def test_it_decrypts_for_the_page_with_the_token(
    page: httpx.AsyncClient, keys: Keyring, tmp_path: Any
) -> None:
    found = await page.post("/decode", json=await asked(tmp_path, keys), headers=GOOD)
    assert found.status_code == 200
    assert found.headers["access-control-allow-origin"] == ORIGIN
    told = Payloads()
    from google.protobuf.json_format import ParseDict

    ParseDict(found.json(), told)
    assert [json.loads(each.data) for each in told.payloads] == [{"say": "hello"}, 3]


async def test_what_it_cannot_decrypt_it_says(
    page: httpx.AsyncClient, other_keys: Keyring, keys: Keyring, tmp_path: Any
) -> None:
    for body in (await asked(tmp_path, other_keys), await asked(tmp_path, keys, "elsewhere")):
        found = await page.post("/decode", json=body, headers=GOOD)
        assert found.status_code == 200
        told = found.json()["payloads"][0]
        assert told["metadata"]["encoding"] == "anNvbi9wbGFpbg=="
        assert base64.b64decode(told["data"]).startswith(b'"not decrypted: ')


@pytest.mark.parametrize(
    ("method", "path", "change", "status"),
    [
        ("OPTIONS", "/decode", {}, 204),
        ("POST", "/encode", {}, 404),
        ("GET", "/decode", {}, 405),
        ("POST", "/decode", {"Authorization": "Bearer no"}, 401),
        ("POST", "/decode", {"Authorization": ""}, 401),
        ("POST", "/decode", {"Origin": "https://evil.example"}, 403),
        ("POST", "/decode", {"Origin": "null"}, 403),
        ("POST", "/decode", {"X-Namespace": "elsewhere"}, 403),
        ("POST", "/decode", {"Host": "evil.example:8235"}, 421),
        ("POST", "/decode", {"X-Long": "x" * 40_000}, 431),
        ("POST", "/decode", {}, 400),
    ],
)
async def test_whom_it_refuses(
    page: httpx.AsyncClient, method: str, path: str, change: dict[str, str], status: int
) -> None:
    found = await page.request(method, path, content=b"{nonsense", headers={**GOOD, **change})
    assert found.status_code == status
    allowed = found.headers.get("access-control-allow-origin")
    assert allowed in (None, ORIGIN)
    assert status not in (403, 421) or "X-Namespace" in change or allowed is None


async def test_a_body_that_is_too_large_is_not_read(page: httpx.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", page.base_url.port)
    head = {**GOOD, "Host": "localhost:1", "Content-Length": str(LARGEST + 1)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"POST /decode HTTP/1.1\r\n{lines}\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


@pytest.mark.parametrize("body", [b"null", b"1", b"NaN", b'"x"', b'{"payloads": 1}', b"[" * 9_000])
async def test_what_is_no_list_of_payloads_is_a_bad_request(
    page: httpx.AsyncClient, body: bytes
) -> None:
    assert (await page.post("/decode", content=body, headers=GOOD)).status_code == 400


async def test_who_says_nothing_holds_nobody_up(page: httpx.AsyncClient) -> None:
    port = page.base_url.port
    idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_REQUESTS)]
    found = await page.post("/decode", content=b"{}", headers=GOOD, timeout=5)
    assert found.status_code == 200
    for _, writer in idle:
        writer.close()
