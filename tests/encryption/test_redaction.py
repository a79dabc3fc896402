"""Secrets: how they are named, where they are found, and that nothing tells them."""

import base64
import json
import logging
import urllib.parse
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure

from crewlog import embeddings
from crewlog.activities import chat_models
from crewlog.activities.failures import to_failure
from crewlog.definition.load import load_definition
from crewlog.encryption.failures import RedactingFailureConverter
from crewlog.errors import InvalidDefinition, SecretMissing, ToolFailed
from crewlog.failure_details import failure_details
from crewlog.payload_storage.converter import data_converter
from crewlog.redaction import (
    REDACTED,
    LogFilter,
    RedactedStream,
    Redactor,
    log_processor,
    redacted_text,
    register_secret,
)
from crewlog.secrets import resolve, resolve_references

CANARY = 'wh!te "käna/rie+ 7'
HEAD = """
crew: c
model: scripted:x.yaml
agents:
  a: {prompt: hello, tools: [t]}
tools:
  t: {run: "m:f", effects: read}
flow: [a]
"""


def forms() -> dict[str, str]:
    data = CANARY.encode()
    found = {
        "as it is": CANARY,
        "in JSON": json.dumps({"x": CANARY}),
        "in JSON as it is": json.dumps({"x": CANARY}, ensure_ascii=False),
        "in JSON in JSON": json.dumps({"a": json.dumps(["plain", "text"]), "b": CANARY}),
        "in a list": repr([CANARY]),
        "as bytes": repr(data),
        "hex": data.hex(),
        "in a URL": f"https://x/?k={urllib.parse.quote_plus(CANARY)}&z=1",
        "in a path": f"https://x/{urllib.parse.quote(CANARY, safe='')}/z",
    }
    for before in ("", "u", "us", "user:", "someone@example.com:"):
        for after in ("", "!", "!!", "\n"):
            whole = (before + CANARY + after).encode()
            found[f"base64 {before!r} {after!r}"] = base64.b64encode(whole).decode()
            found[f"base64url {before!r} {after!r}"] = base64.urlsafe_b64encode(whole).decode()
    return found


@pytest.mark.parametrize("form", forms())
def test_a_value_is_found_in_every_usual_spelling(form: str) -> None:
    redactor, text = Redactor(), f"before {forms()[form]} after"
    assert redactor.text(text) == text
    redactor.register(CANARY)
    told = redactor.text(text)
    assert REDACTED in told
    assert told.startswith("before ")
    assert told.endswith(" after")
    if form.startswith("base64"):
        # What is left of the encoding around it does not decode to a part of the value.
        left = told.removeprefix("before ").removesuffix(" after").replace(REDACTED, "")
        assert len(left) < len(text) - 14 - len(CANARY)
    else:
        assert CANARY not in told


def test_the_lines_of_a_key_are_values_of_their_own() -> None:
    redactor = Redactor()
    redactor.register("-----BEGIN KEY-----\nQUJDREVGRw\nSElKS0xNTg\n-----END KEY-----")
    assert redactor.text("got SElKS0xNTg here") == f"got {REDACTED} here"


def test_json_is_looked_through_and_a_short_value_is_not_looked_for() -> None:
    redactor = Redactor()
    redactor.register("abc")
    value: Any = {"k": ["abcabc", 12345678, True, None, 1.5], "s3cret-value": {"x": "y"}}
    assert redactor.json(value) is value
    redactor.register("s3cret-value")
    redactor.register("12345678")
    assert redactor.json(value) == {
        "k": ["abcabc", REDACTED, True, None, 1.5],
        REDACTED: {"x": "y"},
    }


def test_a_reference_is_looked_up_and_its_value_is_told_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "token-of-a-test-1")
    (tmp_path / "key").write_text("token-of-a-test-2\n")
    assert resolve("env:A_TOKEN") == "token-of-a-test-1"
    assert resolve(f"file:{tmp_path}/key") == "token-of-a-test-2"
    settings = {"api_key": "env:A_TOKEN", "n": 1, "list": ["env:A_TOKEN", "env: no"]}
    assert resolve_references(settings) == {
        "api_key": "token-of-a-test-1",
        "n": 1,
        "list": ["token-of-a-test-1", "env: no"],
    }
    error = to_failure(ToolFailed("it said token-of-a-test-1", remedy="token-of-a-test-2"))
    assert (error.message, failure_details(error).remedy) == (f"it said {REDACTED}", REDACTED)


@pytest.mark.parametrize("of", ["a model", "an embedding"])
def test_the_worker_s_own_key_of_a_service_is_told_no_more(
    of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"service-key-of-{of}"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    if of == "a model":
        chat_models.make_provider_model("openai", "x", {}, 5.0)
    else:
        embeddings._build("openai:x")

    assert redacted_text(f"Incorrect API key provided: {key}") == (
        f"Incorrect API key provided: {REDACTED}"
    )


async def test_failures_and_their_causes_tell_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "token-of-a-test-3")
    value, failure = resolve("env:A_TOKEN"), Failure()
    assert data_converter(tmp_path, keys=None).failure_converter_class is RedactingFailureConverter
    try:
        try:
            raise ValueError(value)
        except ValueError as cause:
            raise RuntimeError(f"because of {value}") from cause
    except RuntimeError as error:
        await data_converter(tmp_path, keys=None).encode_failure(error, failure)
    assert failure.cause.message == REDACTED
    assert value.encode() not in failure.SerializeToString()


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("env:NOT_SET_HERE", "'env:NOT_SET_HERE' is not set"),
        ("env:SHORT", "fewer than 6 characters"),
        ("env:CREWLOG_ENCRYPTION_KEYS", "setting of the worker itself"),
        ("env:DATABASE_URL", "setting of the worker itself"),
        ("file:/no/such/file", "cannot be read on this worker: No such file"),
        ("file:/", "cannot be read on this worker: it is not a regular file"),
        ("the value itself by mistake", "is not a reference"),
    ],
)
def test_what_cannot_be_looked_up_is_named_and_never_told(
    reference: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "12345")
    monkeypatch.setenv("DATABASE_URL", "postgresql://x")
    with pytest.raises(SecretMissing, match=message) as error:
        resolve(reference)
    assert error.value.call_again
    assert "12345" not in str(error.value)
    assert "by mistake" not in str(error.value)


def test_log_lines_tell_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "token-of-a-test-4")
    value, out = resolve("env:A_TOKEN"), StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(LogFilter())
    logger = logging.getLogger("crewlog.test_redaction")
    logger.addHandler(handler)
    try:
        logger.warning("got %s and %d", value, 3)
        try:
            raise ValueError(value)
        except ValueError:
            logger.exception("failed with %r", {"k": value})
    finally:
        logger.removeHandler(handler)
    told = out.getvalue()
    assert value not in told
    assert told.count(REDACTED) == 3
    assert "got [redacted] and 3" in told
    event = log_processor(None, "", {"event": f"x {value}", "n": 3, "e": ValueError(value)})
    assert event == {"event": f"x {REDACTED}", "n": 3, "e": REDACTED}


LITERALS = {
    "sk-proj-abcdefghijklmnopqrstuvwx": "prompt: use sk-proj-abcdefghijklmnopqrstuvwx",
    "hunter2-hunter2": "prompt: x, model_settings: {api_key: hunter2-hunter2}",
    "AKIAABCDEFGHIJKLMNOP": "prompt: x, model_settings: {extra: [AKIAABCDEFGHIJKLMNOP]}",
    "s3cr3t": 'prompt: "postgresql://me:s3cr3t@host/db"',
    "swordfish": "prompt: x, model_settings: {default_headers: {Authorization: swordfish}}",
}


@pytest.mark.parametrize("literal", LITERALS)
def test_a_secret_in_a_definition_is_a_fault_that_does_not_repeat_it(literal: str) -> None:
    text = HEAD.replace("prompt: hello", LITERALS[literal])
    with pytest.raises(InvalidDefinition, match="has no place in a definition") as error:
        load_definition(text, "crew.yaml")
    assert "env:NAME" in str(error.value)
    assert "crew.yaml:5:" in str(error.value)
    assert literal not in str(error.value)


def test_a_trace_tells_no_secret(tmp_path: Path) -> None:
    register_secret("canary-in-a-trace")
    failure = Failure()
    try:
        {}["canary-in-a-trace"]
    except KeyError as error:
        whole = data_converter(tmp_path)
        RedactingFailureConverter().to_failure(error, whole.payload_converter, failure)
    assert f'{{}}["{REDACTED}"]' in failure.stack_trace


def test_words_about_secrets_are_no_secrets() -> None:
    text = HEAD.replace(
        "prompt: hello",
        'prompt: "Ask for the api_key; password: see https://example.com/a:b@c, sk-and so on.", '
        "model_settings: {api_key: env:OUR_KEY, max_tokens: 3, token_limit: 4}",
    )
    load_definition(text, "crew.yaml")


def test_a_tool_s_secrets_are_references() -> None:
    good = HEAD.replace("effects: read", "effects: read, secrets: {GITHUB: env:GITHUB_TOKEN}")
    assert load_definition(good, "crew.yaml").tools["t"].secrets == {"GITHUB": "env:GITHUB_TOKEN"}
    bad = HEAD.replace("effects: read", "effects: read, secrets: {GITHUB: swordfish-1}")
    with pytest.raises(InvalidDefinition, match="neither env:NAME nor file:PATH") as error:
        load_definition(bad, "crew.yaml")
    assert "swordfish" not in str(error.value)


# -- a text that comes in pieces ---------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7])
def test_nothing_of_a_value_is_told_before_it_is_complete(size: int) -> None:
    redactor, long = Redactor(), "line one\nline two\n" * 50
    for value in (CANARY, f"{CANARY} and more", f"{CANARY[-3:]} another", long):
        redactor.register(value)
    nearly = (CANARY[:-1], CANARY[:-1] + CANARY, CANARY[0] * 3 + CANARY, CANARY[:5] * 3)
    for form in (*forms().values(), *nearly, f"{CANARY} and mor", f"{CANARY} and more", long):
        text = f"before {form} after."
        whole, growing, told = redactor.text(text), RedactedStream(redactor), ""
        for at in range(0, len(text), size):
            told += growing.add(text[at : at + size])
            assert whole.startswith(told), form[:100]
        assert told == whole, "nothing is held back for good"


def test_a_value_that_is_complete_is_not_cut_where_another_one_may_begin() -> None:
    redactor = Redactor()
    redactor.register("abcdefgh")
    redactor.register("hijklmno")
    growing = RedactedStream(redactor)
    assert [growing.add(piece) for piece in ("x abcdefg", "h", " y")] == ["x ", "", "[redacted] y"]


def test_a_text_without_values_is_told_at_once() -> None:
    assert RedactedStream(Redactor()).add("all of it") == "all of it"
