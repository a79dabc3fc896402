"""Embedding models by name: `openai:NAME`, `hash:NUMBER`, and whatever is registered besides.

The seam is `Embedder`. Making one and asking it is I/O: activities and clients do it, and hand the
vectors to the store.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from crewlog.canonical_json import hash_bytes
from crewlog.errors import CrewlogError, ModelRequestRejected, ModelUnavailable
from crewlog.redaction import remember
from crewlog.store.memories import Embeddings, split_words

TIMEOUT = 20.0
"""Seconds for one request: a call of the memory's tools may take 60."""
_MOST_DIMENSIONS = 16_000
"""What pgvector holds."""


class Embedder(Protocol):
    """Makes vectors of texts: the nearer two are, the more alike is what the texts mean."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, all of one length."""
        ...


Builder = Callable[[str], Embedder]
"""Makes an embedder of what follows the prefix."""


class HashEmbedder:
    """Counts words in as many places as it has: alike is what shares words. For tests.

    Args:
        places: The length of its vectors.
    """

    def __init__(self, places: int) -> None:
        self._places = places

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._places
        for word in split_words(text):
            digest = hash_bytes(word.encode()).encode()
            vector[int.from_bytes(digest[:8]) % self._places] += 1.0
        return vector


class _OpenAI:
    """An embedding model of OpenAI, or of any service that speaks its language."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        found: list[list[float]] = await self._client.aembed_documents(list(texts))
        return found


def make_hash_embedder(name: str) -> Embedder:
    """`hash:256`: a `HashEmbedder` of so many places."""
    if not name.isdecimal() or not 0 < int(name) <= _MOST_DIMENSIONS:
        raise ModelRequestRejected(
            f"the embedding 'hash:{name}' has no number of places",
            remedy="For example: hash:256",
        )
    return HashEmbedder(int(name))


def build_openai(name: str) -> Embedder:
    """`openai:NAME`: a model at `OPENAI_BASE_URL`, with `OPENAI_API_KEY`."""
    key = os.environ.get("OPENAI_API_KEY")
    if not key:
        raise ModelRequestRejected(
            f"the embedding 'openai:{name}' needs a key, and OPENAI_API_KEY is not set",
            remedy="Set OPENAI_API_KEY in the worker's environment, or leave `embedding` out.",
        )
    remember(key)  # a service may repeat it, e.g. where it refuses it
    # Here, because it takes seconds, and few crews need it.
    from langchain_openai import OpenAIEmbeddings  # noqa: PLC0415

    given: dict[str, Any] = {
        "model": name,
        "api_key": key,
        "base_url": os.environ.get("OPENAI_BASE_URL") or None,
        # Temporal retries: it waits without holding a worker.
        "max_retries": 0,
        "timeout": TIMEOUT,
        # Else it fetches the tokens of OpenAI's own models from the net, whatever the service.
        "check_embedding_ctx_length": False,
    }
    return _OpenAI(OpenAIEmbeddings(**given))


_BUILDERS: dict[str, Builder | str] = {"openai": build_openai, "hash": make_hash_embedder}


def register(prefix: str, builder: Builder | str) -> None:
    """Makes embedding models of the form `prefix:NAME` known to this process.

    Args:
        prefix: The part before the colon.
        builder: A function, or `module:function` that is imported at the first use.
    """
    _BUILDERS[prefix] = builder


class Embedders:
    """Makes embedders, keeps them, and checks what they give."""

    def __init__(self) -> None:
        self._made: dict[str, Embedder] = {}

    async def embedded(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Vectors of some texts.

        Args:
            model: `prefix:NAME`.
            texts: The texts, at least one.

        Raises:
            ModelRequestRejected: there is no such model, or it gives no vectors.
            ModelUnavailable: it does not answer.
        """
        if model not in self._made:
            self._made[model] = await asyncio.to_thread(_build, model)
        try:
            vectors = await self._made[model].embed(texts)
        except CrewlogError:
            raise
        except Exception as exc:
            raise _failed(model, exc) from exc
        return Embeddings(model=model, vectors=_checked(model, vectors, len(texts)))


def _build(model: str) -> Embedder:
    prefix, _, name = model.partition(":")
    builder = _BUILDERS.get(prefix)
    if builder is None or not name:
        known = ", ".join(f"{each}:NAME" for each in sorted(_BUILDERS))
        raise ModelRequestRejected(
            f"there is no embedding {model!r}: known here are {known}",
            remedy="Name one of those, or register the prefix where memories are used.",
        )
    if isinstance(builder, str):
        module, _, function = builder.partition(":")
        builder = getattr(importlib.import_module(module), function)
    made: Embedder = builder(name)
    return made


def _failed(model: str, exc: Exception) -> CrewlogError:
    status = getattr(exc, "status_code", None)
    said = f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
    if isinstance(status, int) and 400 <= status < 500 and status not in {408, 409, 425, 429}:
        return ModelRequestRejected(
            f"the embedding {model!r} was refused: {said}",
            remedy="Check the name, OPENAI_API_KEY and OPENAI_BASE_URL.",
        )
    return ModelUnavailable(
        f"the embedding {model!r} did not answer: {said}", remedy="It may come back."
    )


def _checked(
    model: str, given: Sequence[Sequence[float]], count: int
) -> tuple[tuple[float, ...], ...]:
    vectors = tuple(tuple(float(part) for part in vector) for vector in given)
    sizes = {len(vector) for vector in vectors}
    whole = all(math.isfinite(part) and abs(part) < 1e30 for v in vectors for part in v)
    if len(vectors) != count or len(sizes) != 1 or not whole or min(sizes) < 1:
        raise ModelRequestRejected(
            f"the embedding {model!r} gave no vector for each of {count} texts",
            remedy="Choose another model.",
        )
    if max(sizes) > _MOST_DIMENSIONS:
        raise ModelRequestRejected(
            f"the embedding {model!r} gives vectors of {max(sizes):,} numbers, and the store holds "
            f"{_MOST_DIMENSIONS:,}",
            remedy="Choose another model.",
        )
    return vectors
