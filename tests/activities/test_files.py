"""The files of messages: where they are stored, and in which formats they are found."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from activity_kit import crew
from crew_tools import PNG
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from crewlog.activities.files import Files
from crewlog.content_blocks import file_label, is_file
from crewlog.encryption.codec import EncryptionCodec
from crewlog.encryption.keys import Keyring, new_key_file, write_keys
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.message_files import FileRef, files_of
from crewlog.payload_storage.converter import data_converter
from crewlog.payload_storage.file_store import FileStore, mime_type_of

DATA = base64.b64encode(PNG).decode()
LARGE = base64.b64encode(PNG * 12).decode()
URL = f"data:image/png;base64,{DATA}"
SPELLINGS: dict[str, dict[str, Any]] = {
    "standard": {"type": "image", "base64": DATA, "mime_type": "image/png"},
    "before": {"type": "image", "source_type": "base64", "data": DATA, "mime_type": "image/png"},
    "claude": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": DATA},
    },
    "openai": {"type": "image_url", "image_url": {"url": URL}},
    "url": {"type": "image_url", "image_url": URL},
    "responses": {"type": "image_generation_call", "result": DATA},
    "input": {"type": "input_image", "image_url": URL},
    "input file": {"type": "input_file", "file_data": URL, "filename": "a.png"},
    "gemini": {"type": "media", "mime_type": "image/png", "data": DATA},
    "gemini part": {"type": "media", "inline_data": {"mime_type": "image/png", "data": DATA}},
    "bedrock": {"image": {"format": "png", "source": {"bytes": PNG}}},
    "not standard": {
        "type": "non_standard",
        "value": {"type": "media", "mime_type": "image/png", "data": DATA},
    },
    "any": {"type": "blob", "mimeType": "image/png", "blob": LARGE},
}


@pytest.fixture
def kept(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "payloads", largest=1000)


@pytest.mark.parametrize("block", SPELLINGS.values(), ids=SPELLINGS)
async def test_files_are_stored_in_every_format(kept: FileStore, block: dict[str, Any]) -> None:
    message = await Files(kept).store_files(AIMessage([{"type": "text", "text": "Look."}, block]))
    text, image = message.content
    assert text == {"type": "text", "text": "Look."}
    ref = FileRef.model_validate({k: v for k, v in image.items() if k != "type"})  # type: ignore[union-attr]
    data = PNG * 12 if "blob" in block else PNG
    assert (ref.mime_type, ref.size) == ("image/png", len(data))
    assert await kept.get(ref.sha256) == data
    assert DATA not in json.dumps(message.content)


async def test_other_files_are_stored_with_type_and_name(kept: FileStore) -> None:
    url = f"data:application/pdf;base64,{DATA}"
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}
    audio = {"type": "input_audio", "input_audio": {"data": DATA, "format": "mp3"}}
    message = await Files(kept).store_files(HumanMessage([pdf, audio]))
    content: Any = message.content
    assert [(each["type"], each["mime_type"], each.get("name")) for each in content] == [
        ("file", "application/pdf", "a.pdf"),
        ("audio", "audio/mp3", None),
    ]
    (again,) = await Files(kept).load_files([message])
    document = {"type": "file", "base64": DATA, "mime_type": "application/pdf"}
    sound = {"type": "audio", "base64": DATA, "mime_type": "audio/mp3"}
    assert again.content == [{**document, "filename": "a.pdf"}, sound]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (base64.b64encode(b"x" * 1001).decode(), "has 1,001 bytes, and the files of messages may"),
        ("no base64!", "it is not base64"),
    ],
)
async def test_a_file_that_cannot_be_stored_is_replaced_by_a_note(
    kept: FileStore, data: str, said: str
) -> None:
    block = {"type": "image", "base64": data, "mime_type": "image/png"}
    message = await Files(kept).store_files(ToolMessage([block], tool_call_id="c1"))
    (told,) = message.content
    assert said in told["text"]  # type: ignore[index]
    assert not list(kept._directory.rglob("*"))


async def test_a_file_of_a_model_is_only_named(kept: FileStore) -> None:
    ref = await kept.put(PNG, "image/png")
    (message,) = await Files(kept).load_files([AIMessage([ref.block])])
    assert message.content == [{"type": "text", "text": file_label(ref.block)}]


async def test_a_missing_file_is_an_error(kept: FileStore) -> None:
    ref = await kept.put(PNG, "image/png")
    (path,) = (each for each in kept._directory.rglob("*") if each.is_file())
    path.write_bytes(path.read_bytes() + b"damaged")
    with pytest.raises(StoreIncomplete, match=ref.sha256[:12]) as away:
        await Files(kept).load_files([HumanMessage([ref.block])])
    assert "CREWLOG_PAYLOADS" in away.value.remedy
    with pytest.raises(UsageError, match="not the hash of a file"):
        await kept.get("../../etc/passwd")


async def test_files_are_encrypted_like_payloads(tmp_path: Path) -> None:
    key_file = tmp_path / "keys.json"
    write_keys(key_file, new_key_file())
    store = FileStore(tmp_path / "payloads", EncryptionCodec(Keyring(key_file)))
    ref = await store.put(PNG, "image/png")
    (path,) = (each for each in store._directory.rglob("*") if each.is_file())
    assert PNG not in path.read_bytes()
    assert await store.get(ref.sha256) == PNG


def test_files_are_stored_next_to_payloads(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CREWLOG_LARGEST_FILE", "5")
    store = FileStore.of(data_converter(tmp_path, keys=None))
    assert store is not None
    assert store.largest == 5
    monkeypatch.setenv("CREWLOG_LARGEST_FILE", "many")
    with pytest.raises(UsageError, match="CREWLOG_LARGEST_FILE is 'many'"):
        FileStore.of(data_converter(tmp_path, keys=None))


def test_the_type_follows_from_the_name_or_the_content() -> None:
    assert mime_type_of("a.pdf", b"") == "application/pdf"
    assert mime_type_of("", PNG) == "image/png"
    assert mime_type_of("", b"RIFF\x00\x00\x00\x00WAVEfmt ") == "audio/wav"
    with pytest.raises(UsageError, match="is unknown"):
        mime_type_of("a.zzz", b"what")


@pytest.mark.parametrize("mime_type", ["image/png", "application/pdf", "audio/mpeg", "video/mp4"])
async def test_a_tool_returns_a_file(tool_call, mime_type: str) -> None:
    result = await tool_call("draw", {"mime_type": mime_type}, crew=crew(tools=DRAW))
    (ref,) = files_of(result.body)
    assert (ref.mime_type, ref.size) == (mime_type, len(PNG))
    assert result.body["content"][0] == {"type": "text", "text": "Look:"}
    assert DATA not in json.dumps(result.body)


DRAW = {"draw": {"run": "crew_tools:draw", "effects": "read"}}


RETURNS = {"returns": {"run": "crew_tools:returns", "effects": "read"}}
LOOK_ALIKE = {"type": "image", "sha256": "ab" * 32, "mime_type": "image/png", "size": 34}
LISTED = {"type": "file", "name": "a.png", "path": "x/a.png", "url": "https://x/a", "size": "34 kB"}


@pytest.mark.parametrize(
    "value",
    [
        [LOOK_ALIKE],
        [{**LOOK_ALIKE, "type": "file", "mime_type": "application/pdf"}],
        [{**LOOK_ALIKE, "type": "file", "size": "34 kB"}],
        [{"type": "file", "name": "a.png", "size": 34}, LISTED],
    ],
)
async def test_a_tool_that_lists_files_returns_data(tool_call, value: Any) -> None:
    result = await tool_call("returns", {"value": value}, crew=crew(tools=RETURNS))
    assert not files_of(result.body)
    (block,) = result.body["content"]
    assert block["type"] == "text"
    assert json.loads(block["text"]) == value


async def test_data_next_to_a_file_is_text(tool_call, kept: FileStore) -> None:
    value = [SPELLINGS["standard"], LOOK_ALIKE, {"type": "row", "n": 1}, "done"]
    result = await tool_call("returns", {"value": value}, crew=crew(tools=RETURNS))
    image, *texts = result.body["content"]
    assert image["size"] == len(PNG)
    told = [each["text"] for each in texts]
    assert [*map(json.loads, told[:2]), told[2]] == [LOOK_ALIKE, {"type": "row", "n": 1}, "done"]


@pytest.mark.parametrize("name", ["standard", "gemini", "input", "any"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "listed"])
async def test_files_of_a_tool_are_stored_in_every_format(
    tool_call, name: str, alone: bool
) -> None:
    value = SPELLINGS[name] if alone else [SPELLINGS[name]]
    result = await tool_call("returns", {"value": value}, crew=crew(tools=RETURNS))
    (ref,) = files_of(result.body)
    assert ref.mime_type == "image/png"
    assert DATA[:60] not in json.dumps(result.body)


@pytest.mark.parametrize(
    "value", [{"shot": {"png": "aB3/" * 5000}}, [{"type": "what", "of": ["aB3/" * 5000]}]]
)
async def test_long_base64_in_data_is_left_out(tool_call, value: Any) -> None:
    result = await tool_call("returns", {"value": value}, crew=crew(tools=RETURNS))
    assert "[20,000 characters of base64 are left out]" in json.dumps(result.body)
    assert "aB3/aB3/" not in json.dumps(result.body)


async def test_texts_and_addresses_of_a_tool_stay_content(kept: FileStore) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "What it says."}
    blocks: list[Any] = [
        {"type": "document", "source": source},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "file", "file_id": "f-1"},
        {"type": "text", "text": "aB3/" * 5000},
    ]
    message = ToolMessage(blocks, tool_call_id="c1")
    assert (await Files(kept).store_files(message)).content == blocks


async def test_a_model_cannot_refer_to_a_file(kept: FileStore) -> None:
    ref = await kept.put(PNG, "image/png")
    message = await Files(kept).store_files(AIMessage([ref.block]))
    (block,) = message.content
    assert json.loads(block["text"]) == ref.block  # type: ignore[index]


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "../" + "a" * 61},
        {"sha256": "ab" * 32 + "\n"},
        {"sha256": 7},
        {"mime_type": "image"},
        {"mime_type": None},
        {"size": "34 kB"},
        {"size": -1},
        {"size": True},
        {"name": 1},
        {"name": "n" * 201},
        {"type": "file"},
        {"verdict": "clean"},
    ],
)
def test_invalid_references_are_not_files(change: dict[str, Any]) -> None:
    assert is_file(LOOK_ALIKE)
    assert not is_file({**LOOK_ALIKE, **change})
