"""The codec server: which requests it answers, and with what."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import WorkflowSerializationContext

from crewlog.encryption import purposes
from crewlog.encryption.codec import EncryptionCodec, purpose_of
from crewlog.encryption.keys import Keyring
from crewlog.encryption.server import LARGEST, PURPOSE, RUN, codec_app, serve
from crewlog.payload_storage.converter import data_converter

ORIGIN = "http://localhost:8233"
GOOD = {"Authorization": "Bearer the-token", "Origin": ORIGIN, "X-Namespace": "default"}


@pytest.fixture
async def page(keys: Keyring) -> AsyncIterator[httpx.AsyncClient]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    serving = asyncio.create_task(serve(codec_app(keys, ORIGIN, "the-token", "default"), listening))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        yield client
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def asked(tmp_path: Path, keys: Keyring, namespace: str = "default") -> dict[str, Any]:
    whole = data_converter(tmp_path, keys=keys)
    assert isinstance(whole.payload_codec, EncryptionCodec)
    ours = whole.with_context(WorkflowSerializationContext(namespace, "run-1"))
    return MessageToDict(Payloads(payloads=await ours.encode([{"say": "hello"}, 3])))


def payloads_of(response: httpx.Response) -> list[Payload]:
    return list(ParseDict(response.json(), Payloads()).payloads)


async def test_it_decrypts_for_the_page_with_the_token(
    page: httpx.AsyncClient, keys: Keyring, tmp_path: Path
) -> None:
    found = await page.post("/decode", json=await asked(tmp_path, keys), headers=GOOD)
    assert found.status_code == 200
    assert found.headers["access-control-allow-origin"] == ORIGIN
    assert [json.loads(each.data) for each in payloads_of(found)] == [{"say": "hello"}, 3]
    assert all(list(each.metadata) == ["encoding"] for each in payloads_of(found))


async def test_it_encrypts_for_one_command_of_one_run(
    page: httpx.AsyncClient, keys: Keyring, tmp_path: Path
) -> None:
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"3")
    body = MessageToDict(Payloads(payloads=[plain]))
    place = {RUN: "run-1", PURPOSE: "signal pause"}
    found = await page.post("/encode", json=body, headers=GOOD | place)
    assert found.status_code == 200
    run = data_converter(tmp_path, keys=keys).with_context(
        WorkflowSerializationContext("default", "run-1")
    )
    assert run.payload_codec is not None
    [decoded] = await run.payload_codec.decode(payloads_of(found))
    assert (decoded.data, purpose_of(decoded)) == (b"3", purposes.signal("pause"))
    for wrong in ({}, {RUN: "run-1"}, {PURPOSE: "signal pause"}, place | {PURPOSE: "signal"}):
        refused = await page.post("/encode", json=body, headers=GOOD | wrong)
        assert refused.status_code == 400
        assert f"the headers {RUN}: RUN and {PURPOSE}" in refused.text


async def test_what_it_cannot_decrypt_it_says(
    page: httpx.AsyncClient, other_keys: Keyring, keys: Keyring, tmp_path: Path
) -> None:
    for body in (await asked(tmp_path, other_keys), await asked(tmp_path, keys, "elsewhere")):
        found = await page.post("/decode", json=body, headers=GOOD)
        assert found.status_code == 200
        told = found.json()["payloads"][0]
        assert told["metadata"]["encoding"] == "anNvbi9wbGFpbg=="
        assert base64.b64decode(told["data"]).startswith(b'"not decrypted: ')


PREFLIGHT = {"Access-Control-Request-Method": "POST"}


@pytest.mark.parametrize(
    ("method", "path", "change", "status"),
    [
        ("OPTIONS", "/decode", PREFLIGHT, 200),
        ("OPTIONS", "/decode", PREFLIGHT | {"Origin": "https://evil.example"}, 400),
        ("POST", "/other", {}, 404),
        ("GET", "/decode", {}, 405),
        ("POST", "/decode", {"Authorization": "Bearer no"}, 401),
        ("POST", "/encode", {"Authorization": "Bearer no"}, 401),
        ("POST", "/decode", {"Authorization": ""}, 401),
        ("POST", "/decode", {"Origin": "https://evil.example"}, 403),
        ("POST", "/decode", {"Origin": "null"}, 403),
        ("POST", "/decode", {"X-Namespace": "elsewhere"}, 403),
        ("POST", "/decode", {"Host": "evil.example:8235"}, 400),
        ("POST", "/decode", {}, 400),
    ],
)
async def test_requests_that_it_refuses(
    page: httpx.AsyncClient, method: str, path: str, change: dict[str, str], status: int
) -> None:
    found = await page.request(method, path, content=b"{nonsense", headers={**GOOD, **change})
    assert found.status_code == status
    allowed = found.headers.get("access-control-allow-origin")
    assert allowed in (None, ORIGIN)
    assert allowed is None or change.get("Origin", ORIGIN) == ORIGIN


async def test_a_body_that_is_too_large_is_not_read(page: httpx.AsyncClient) -> None:
    found = await page.post("/decode", content=b" " * (LARGEST + 1), headers=GOOD)
    assert found.status_code == 413


@pytest.mark.parametrize("body", [b"null", b"1", b"NaN", b'"x"', b'{"payloads": 1}', b"[" * 9_000])
async def test_what_is_no_list_of_payloads_is_a_bad_request(
    page: httpx.AsyncClient, body: bytes
) -> None:
    assert (await page.post("/decode", content=body, headers=GOOD)).status_code == 400
