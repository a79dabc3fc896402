"""The copies of the data converter that the SDK makes for each payload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.converter import (
    ExternalStorage,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
    WorkflowSerializationContext,
)

from crewlog.encryption.keys import Keyring
from crewlog.payload_storage.converter import data_converter

RUN = WorkflowSerializationContext(namespace="n", workflow_id="w")


def store_context(kind: str | None) -> StorageDriverStoreContext:
    target = StorageDriverWorkflowInfo(id="w", run_id="r", type=kind, namespace="n")
    return StorageDriverStoreContext(target=target)


def test_a_copy_for_a_store_context_keeps_the_parts(tmp_path: Path) -> None:
    converter = data_converter(tmp_path, keys=None)
    context = store_context("CrewRun")
    copy = converter._with_store_context(context)
    assert copy.payload_converter is converter.payload_converter
    assert copy.failure_converter is converter.failure_converter
    storage: Any = copy.external_storage
    assert isinstance(storage, ExternalStorage)
    assert storage._store_context == context
    assert converter.external_storage is not None
    assert converter.external_storage._store_context.target is None


@pytest.mark.parametrize(
    ("kind", "is_external"), [("CrewRun", True), (None, False)], ids=["a run", "a command"]
)
async def test_the_copy_decides_where_a_payload_is_stored(
    tmp_path: Path, kind: str | None, *, is_external: bool
) -> None:
    converter = data_converter(tmp_path, threshold=100, keys=None)
    copy = converter._with_store_context(store_context(kind))
    (payload,) = await copy.encode(["x" * 200])
    assert (payload.metadata["encoding"] == b"json/protobuf") is is_external
    assert await copy.decode([payload], [str]) == ["x" * 200]


def test_only_a_codec_depends_on_the_run(tmp_path: Path, keys: Keyring) -> None:
    plain = data_converter(tmp_path, keys=None)
    assert plain.with_context(RUN) is plain
    encrypting = data_converter(tmp_path, keys=keys)
    copy = encrypting.with_context(RUN)
    assert copy.payload_codec is not encrypting.payload_codec
    assert copy.payload_converter is encrypting.payload_converter
