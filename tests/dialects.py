"""Services of models at a local address: what each says is made of its own client's types.

A test says what a model is to say next, as `Said`; the service says it in the dialect of the path
that it is asked at, in one piece or as a stream, and keeps what it was asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic.types as claude
import ollama
from google.genai import types as gemini
from openai.types import responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses.response_output_item import ImageGenerationCall
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

READ, WRITTEN = 1000, 100
"""The tokens of each reply."""
SIGNATURE = "c2lnbmF0dXJl"
"""What a service signs a thought with; it wants it back as it was."""
KEY = "a-good-key"


@dataclass
class Said:
    """What a model says."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, dict[str, Any] | str]] = field(
        default_factory=list[tuple[str, dict[str, Any] | str]]
    )
    """Tools with their arguments, as an object or as the text that the model wrote."""
    image: str = ""
    """A PNG in base64."""
    end: str = ""
    """The service's word for how it ended; by default its usual one."""
    blocks: bool = False
    """Whether the service blocks the prompt, as Google's does."""
    breaks: bool = False
    """Whether the connection ends before the reply does."""
    status: int = 200
    """The status of an answer that is an error."""


@dataclass
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Service:
    """The services, and what they were asked."""

    url: str = ""
    next: list[Said] = field(default_factory=list[Said])
    asked: list[Asked] = field(default_factory=list[Asked])


Lines = Iterable[bytes]


def _event(data: Any, name: str = "") -> bytes:
    text = data if isinstance(data, str) else data.model_dump_json(exclude_none=True)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


# -- Anthropic ----------------------------------------------------------------------------------


def _claude_blocks(said: Said) -> list[Any]:
    blocks: list[Any] = []
    if said.thinking:
        blocks.append(
            claude.ThinkingBlock(type="thinking", thinking=said.thinking, signature=SIGNATURE)
        )
    if said.text:
        blocks.append(claude.TextBlock(type="text", text=said.text))
    for i, (name, args) in enumerate(said.calls):
        # A text is sent in pieces alone: a whole reply has an object.
        given: Any = args
        blocks.append(
            claude.ToolUseBlock.model_construct(
                type="tool_use", id=f"toolu_{i}", name=name, input=given
            )
        )
    return blocks


def anthropic(said: Said, body: dict[str, Any]) -> Lines:
    end: Any = said.end or ("tool_use" if said.calls else "end_turn")
    usage = claude.Usage(input_tokens=READ, output_tokens=WRITTEN)
    message = claude.Message(
        id="msg_1",
        type="message",
        role="assistant",
        model=body["model"],
        content=_claude_blocks(said),
        stop_reason=end,
        usage=usage,
    )
    if not body.get("stream"):
        yield message.model_dump_json().encode()
        return
    start = message.model_copy(update={"content": [], "stop_reason": None})
    events: list[Any] = [claude.RawMessageStartEvent(type="message_start", message=start)]
    for i, block in enumerate(message.content):
        deltas: list[Any]
        match block:
            case claude.ThinkingBlock():
                empty: Any = claude.ThinkingBlock(type="thinking", thinking="", signature="")
                deltas = [
                    *(
                        claude.ThinkingDelta(type="thinking_delta", thinking=piece)
                        for piece in _pieces(block.thinking)
                    ),
                    claude.SignatureDelta(type="signature_delta", signature=block.signature),
                ]
            case claude.TextBlock():
                empty = claude.TextBlock(type="text", text="")
                deltas = [claude.TextDelta(type="text_delta", text=p) for p in _pieces(block.text)]
            case _:
                assert isinstance(block, claude.ToolUseBlock)
                empty = block.model_copy(update={"input": {}})
                deltas = [
                    claude.InputJSONDelta(type="input_json_delta", partial_json=piece)
                    for piece in _pieces(_text(block.input))
                ]
        events.append(
            claude.RawContentBlockStartEvent(
                type="content_block_start", index=i, content_block=empty
            )
        )
        events += [
            claude.RawContentBlockDeltaEvent(type="content_block_delta", index=i, delta=delta)
            for delta in deltas
        ]
        events.append(claude.RawContentBlockStopEvent(type="content_block_stop", index=i))
    events.append(
        claude.RawMessageDeltaEvent.model_validate(
            {
                "type": "message_delta",
                "delta": {"stop_reason": end},
                "usage": {"input_tokens": READ, "output_tokens": WRITTEN},
            }
        )
    )
    events.append(claude.RawMessageStopEvent(type="message_stop"))
    yield from (_event(event, event.type) for event in events)


# -- Google -------------------------------------------------------------------------------------


def google(said: Said, body: dict[str, Any], *, stream: bool) -> Lines:
    parts: list[gemini.Part] = []
    if said.thinking:
        parts.append(gemini.Part(text=said.thinking, thought=True))
    if said.text:
        parts.append(gemini.Part(text=said.text))
    for name, args in said.calls:
        call = gemini.FunctionCall.model_validate({"name": name, "args": args})
        parts.append(gemini.Part(function_call=call, thought_signature=SIGNATURE.encode()))
    if said.image:
        parts.append(
            gemini.Part.model_validate(
                {"inlineData": {"mimeType": "image/png", "data": said.image}}
            )
        )

    def response(some: list[gemini.Part], end: str | None) -> str:
        found = gemini.GenerateContentResponse(
            model_version="gemini-2.5-flash",
            response_id="r1",
            candidates=[
                gemini.Candidate(
                    index=0,
                    content=gemini.Content(role="model", parts=some),
                    finish_reason=gemini.FinishReason(end) if end else None,
                )
            ],
            usage_metadata=gemini.GenerateContentResponseUsageMetadata(
                prompt_token_count=READ,
                candidates_token_count=WRITTEN,
                total_token_count=READ + WRITTEN,
            ),
        )
        return found.model_dump_json(by_alias=True, exclude_none=True)

    if said.blocks:
        feedback = gemini.GenerateContentResponsePromptFeedback(
            block_reason=gemini.BlockedReason.PROHIBITED_CONTENT
        )
        blocked = gemini.GenerateContentResponse(prompt_feedback=feedback)
        text = blocked.model_dump_json(by_alias=True, exclude_none=True)
        yield _event(text) if stream else text.encode()
        return
    end = said.end or "STOP"
    if not stream:
        yield response(parts, end).encode()
        return
    for i, part in enumerate(parts):
        yield _event(response([part], end if i == len(parts) - 1 else None))
    if not parts:
        yield _event(response([], end))


# -- Ollama -------------------------------------------------------------------------------------


def ollama_chat(said: Said, body: dict[str, Any]) -> Lines:
    def response(message: ollama.Message, end: str | None = None) -> bytes:
        counts = {"prompt_eval_count": READ, "eval_count": WRITTEN} if end else {}
        found = ollama.ChatResponse(
            model=body["model"],
            created_at="2025-01-01T00:00:00Z",
            done=end is not None,
            done_reason=end,
            message=message,
            **counts,
        )
        return found.model_dump_json(exclude_none=True).encode() + b"\n"

    calls = [
        ollama.Message.ToolCall(
            function=ollama.Message.ToolCall.Function.model_validate(
                {"name": name, "arguments": args}
            )
        )
        for name, args in said.calls
    ]
    end = said.end or "stop"
    whole = ollama.Message(
        role="assistant",
        content=said.text,
        thinking=said.thinking or None,
        tool_calls=calls or None,
    )
    if not body.get("stream"):
        yield response(whole, end)
        return
    for piece in _pieces(said.thinking):
        yield response(ollama.Message(role="assistant", content="", thinking=piece))
    for piece in _pieces(said.text):
        yield response(ollama.Message(role="assistant", content=piece))
    if calls:
        yield response(ollama.Message(role="assistant", content="", tool_calls=calls))
    yield response(ollama.Message(role="assistant", content=""), end)


# -- OpenAI -------------------------------------------------------------------------------------


def chat_completions(said: Said, body: dict[str, Any]) -> Lines:
    end = said.end or ("tool_calls" if said.calls else "stop")
    calls = [
        {
            "index": i,
            "id": f"call_{i}",
            "type": "function",
            "function": {"name": name, "arguments": _text(args)},
        }
        for i, (name, args) in enumerate(said.calls)
    ]
    usage = {
        "prompt_tokens": READ,
        "completion_tokens": WRITTEN,
        "total_tokens": READ + WRITTEN,
    }
    about = {"id": "chat_1", "created": 1, "model": body["model"]}
    thinking = {"reasoning_content": said.thinking} if said.thinking else {}

    def choice(delta: dict[str, Any], reason: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": reason}]

    if not body.get("stream"):
        message = {
            "role": "assistant",
            "content": said.text or None,
            "tool_calls": calls or None,
            **thinking,
        }
        whole = {
            **about,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": end, "logprobs": None}],
            "usage": usage,
        }
        yield ChatCompletion.model_validate(whole).model_dump_json().encode()
        return
    choices = [choice({"role": "assistant", "content": ""})]
    choices += [choice({"reasoning_content": piece}) for piece in _pieces(said.thinking)]
    choices += [choice({"content": piece}) for piece in _pieces(said.text)]
    choices += [choice({"tool_calls": [call]}) for call in calls]
    choices.append(choice({}, end))
    about["object"] = "chat.completion.chunk"
    for each in choices:
        yield _event(ChatCompletionChunk.model_validate({**about, "choices": each}))
    yield _event(ChatCompletionChunk.model_validate({**about, "choices": [], "usage": usage}))
    yield b"data: [DONE]\n\n"


def openai_responses(said: Said, body: dict[str, Any]) -> Lines:
    output: list[Any] = []
    if said.thinking:
        summary = Summary(type="summary_text", text=said.thinking)
        output.append(
            responses.ResponseReasoningItem(
                id="rs_1", type="reasoning", summary=[summary], encrypted_content=SIGNATURE
            )
        )
    if said.text:
        text = responses.ResponseOutputText(type="output_text", text=said.text, annotations=[])
        output.append(
            responses.ResponseOutputMessage(
                id="msg_1", type="message", role="assistant", status="completed", content=[text]
            )
        )
    for i, (name, args) in enumerate(said.calls):
        output.append(
            responses.ResponseFunctionToolCall(
                id=f"fc_{i}",
                type="function_call",
                call_id=f"call_{i}",
                name=name,
                arguments=_text(args),
                status="completed",
            )
        )
    if said.image:
        output.append(
            ImageGenerationCall(
                id="ig_1", type="image_generation_call", status="completed", result=said.image
            )
        )

    def response(items: list[Any], status: Any, usage: Any = None) -> responses.Response:
        details = {"reason": said.end} if said.end and status != "in_progress" else None
        return responses.Response.model_validate(
            {
                "id": "resp_1",
                "created_at": 1,
                "model": body["model"],
                "object": "response",
                "output": [item.model_dump() for item in items],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "status": "incomplete" if details else status,
                "incomplete_details": details,
                "usage": usage,
            }
        )

    usage = responses.ResponseUsage(
        input_tokens=READ,
        input_tokens_details=InputTokensDetails.model_construct(
            cached_tokens=0, cache_write_tokens=0
        ),
        output_tokens=WRITTEN,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        total_tokens=READ + WRITTEN,
    )
    whole = response(output, "completed", usage.model_dump())
    if not body.get("stream"):
        yield whole.model_dump_json().encode()
        return
    number = iter(range(10_000))
    yield _streamed(responses.ResponseCreatedEvent, number, response=response([], "in_progress"))
    for i, item in enumerate(output):
        yield from _streamed_item(i, item, number)
    kind: Any = responses.ResponseIncompleteEvent if said.end else responses.ResponseCompletedEvent
    yield _streamed(kind, number, response=whole)


def _streamed_item(i: int, item: Any, number: Iterator[int]) -> Iterator[bytes]:
    at = {"output_index": i}
    started: dict[str, Any] = {"status": "in_progress"}
    added, done = responses.ResponseOutputItemAddedEvent, responses.ResponseOutputItemDoneEvent
    match item:
        case responses.ResponseReasoningItem():
            empty = item.model_copy(update={"summary": [], "encrypted_content": None})
            yield _streamed(added, number, item=empty, **at)
            one = {"item_id": item.id, "summary_index": 0, **at}
            part = {"type": "summary_text", "text": ""}
            yield _streamed(
                responses.ResponseReasoningSummaryPartAddedEvent, number, part=part, **one
            )
            for piece in _pieces(item.summary[0].text):
                yield _streamed(
                    responses.ResponseReasoningSummaryTextDeltaEvent, number, delta=piece, **one
                )
        case responses.ResponseOutputMessage():
            empty = item.model_copy(update={"content": [], **started})
            yield _streamed(added, number, item=empty, **at)
            text: Any = item.content[0]
            one = {"item_id": item.id, "content_index": 0, **at}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield _streamed(responses.ResponseContentPartAddedEvent, number, part=part, **one)
            for piece in _pieces(text.text):
                yield _streamed(
                    responses.ResponseTextDeltaEvent, number, delta=piece, logprobs=[], **one
                )
            yield _streamed(
                responses.ResponseTextDoneEvent, number, text=text.text, logprobs=[], **one
            )
        case responses.ResponseFunctionToolCall():
            yield _streamed(
                added, number, item=item.model_copy(update={"arguments": "", **started}), **at
            )
            for piece in _pieces(item.arguments):
                yield _streamed(
                    responses.ResponseFunctionCallArgumentsDeltaEvent,
                    number,
                    delta=piece,
                    item_id=item.id,
                    **at,
                )
        case _:
            yield _streamed(added, number, item=item.model_copy(update=started), **at)
    yield _streamed(done, number, item=item, **at)


def _streamed(kind: Any, number: Iterator[int], **fields: Any) -> bytes:
    name = kind.model_fields["type"].annotation.__args__[0]
    plain = {k: v.model_dump() if hasattr(v, "model_dump") else v for k, v in fields.items()}
    event = kind.model_validate({"type": name, "sequence_number": next(number), **plain})
    return _event(event, name)


# -- the server ---------------------------------------------------------------------------------


def _text(arguments: object) -> str:
    """The text of arguments."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _pieces(text: str) -> list[str]:
    """A text in three pieces, or fewer."""
    size = max(1, -(-len(text) // 3))
    return [text[i : i + size] for i in range(0, len(text), size)]


def _answer(path: str, body: dict[str, Any], said: Said) -> tuple[str, Lines]:
    streams = "text/event-stream" if body.get("stream") else "application/json"
    if path.endswith("/v1/messages"):
        return streams, anthropic(said, body)
    if path.endswith("/api/chat"):
        return "application/x-ndjson", ollama_chat(said, body)
    if path.endswith("/chat/completions"):
        return streams, chat_completions(said, body)
    if path.endswith("/responses"):
        return streams, openai_responses(said, body)
    stream = path.endswith(":streamGenerateContent")
    assert stream or path.endswith(":generateContent"), path
    kind = "text/event-stream" if stream else "application/json"
    return kind, google(said, body, stream=stream)


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            headers = {k.lower(): v for k, v in self.headers.items()}
            service.asked.append(Asked(path, headers, body))
            said = service.next.pop(0)
            if said.status != 200:
                self._refuse(said.status)
                return
            kind, lines = _answer(path, body, said)
            if said.breaks:
                whole = list(lines)
                lines = whole[: len(whole) // 2]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            for line in lines:
                self.wfile.write(line)

        def _refuse(self, status: int) -> None:
            error = {"type": "error", "message": "The service says no.", "code": status}
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"type": "error", "error": error}).encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def serving() -> Iterator[Service]:
    """The services at an address of their own."""
    service = Service()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- what a crew says ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Dialect:
    """A dialect: the model that speaks it, and how its requests and ends are spelled."""

    model: str
    path: str
    settings: dict[str, Any]
    """The `model_settings` beside the address."""
    thinks: dict[str, Any]
    """The `model_settings` that make it think."""
    stop: tuple[str, str]
    """Under which name and how it says that it was complete."""
    cut: tuple[str, str]
    """What it says where a limit ended it, and how LangChain gives that."""
    key: Callable[[Asked], str]
    """The key in a request."""

    def settings_at(self, service: Service, **more: Any) -> dict[str, Any]:
        return {"base_url": f"{service.url}{self.path}", **self.settings, **more}


def _bearer(asked: Asked) -> str:
    return asked.headers.get("authorization", "").removeprefix("Bearer ")


DIALECTS = {
    "anthropic": Dialect(
        model="anthropic:claude-opus-4-7",
        path="",
        settings={"api_key": "env:TEAM_KEY", "max_tokens": 4000},
        thinks={"thinking": {"type": "enabled", "budget_tokens": 2000}},
        stop=("stop_reason", "end_turn"),
        cut=("max_tokens", "max_tokens"),
        key=lambda asked: asked.headers.get("x-api-key") or _bearer(asked),
    ),
    "google": Dialect(
        model="google_genai:gemini-2.5-flash",
        path="",
        settings={"api_key": "env:TEAM_KEY"},
        thinks={"include_thoughts": True},
        stop=("finish_reason", "STOP"),
        cut=("MAX_TOKENS", "MAX_TOKENS"),
        key=lambda asked: asked.headers.get("x-goog-api-key", ""),
    ),
    "ollama": Dialect(
        model="ollama:qwen3",
        path="",
        settings={"api_key": "env:TEAM_KEY"},
        thinks={"reasoning": True},
        stop=("done_reason", "stop"),
        cut=("length", "length"),
        key=_bearer,
    ),
    "chat": Dialect(
        model="openai:gpt-5-mini",
        path="/v1",
        settings={"api_key": "env:TEAM_KEY"},
        thinks={},
        stop=("finish_reason", "stop"),
        cut=("length", "length"),
        key=_bearer,
    ),
    "responses": Dialect(
        model="openai:gpt-5-mini",
        path="/v1",
        settings={"api_key": "env:TEAM_KEY", "use_responses_api": True},
        thinks={"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}},
        stop=("status", "completed"),
        cut=("max_output_tokens", "max_output_tokens"),
        key=_bearer,
    ),
}
