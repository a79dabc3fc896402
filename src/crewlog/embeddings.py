"""Embedding models by name: `openai:NAME`, `hash:NUMBER`, and registered ones.

Building and calling an `Embedder` is I/O: activities and clients do it, and give the vectors to the
store.
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
from crewlog.redaction import register_secret
from crewlog.store.memories import Embeddings, split_words

TIMEOUT = 20.0
"""Seconds for one request: a call of a memory tool may take 60."""
_MOST_DIMENSIONS = 16_000
"""The limit of pgvector."""


class Embedder(Protocol):
    """Computes vectors of texts; texts with similar meanings have near vectors."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, all of the same length."""
        ...


Builder = Callable[[str], Embedder]
"""Builds an embedder from the name after the prefix."""


class HashEmbedder:
    """Counts words by their hash, so that texts with the same words are near. For tests.

    Args:
        dimensions: The length of its vectors.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for word in split_words(text):
            digest = hash_bytes(word.encode()).encode()
            vector[int.from_bytes(digest[:8]) % self._dimensions] += 1.0
        return vector


class _OpenAI:
    """An embedding model of OpenAI, or of a compatible service."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        vectors: list[list[float]] = await self._client.aembed_documents(list(texts))
        return vectors


def build_hash(name: str) -> Embedder:
    """`hash:256`: a `HashEmbedder` with so many dimensions."""
    if not name.isdecimal() or not 0 < int(name) <= _MOST_DIMENSIONS:
        raise ModelRequestRejected(
            f"the embedding 'hash:{name}' has no number of dimensions",
            remedy="For example: hash:256",
        )
    return HashEmbedder(int(name))


def build_openai(name: str) -> Embedder:
    """`openai:NAME`: a model at `OPENAI_BASE_URL`, with `OPENAI_API_KEY`."""
    key = os.environ.get("OPENAI_API_KEY")
    if not key:
        raise ModelRequestRejected(
            f"the embedding 'openai:{name}' needs a key, and OPENAI_API_KEY is not set",
            remedy="Set OPENAI_API_KEY in the worker's environment, or remove `embedding`.",
        )
    register_secret(key)  # a service may repeat it in an error
    # Imported here, because it takes seconds, and few crews need it.
    from langchain_openai import OpenAIEmbeddings  # noqa: PLC0415

    options: dict[str, Any] = {
        "model": name,
        "api_key": key,
        "base_url": os.environ.get("OPENAI_BASE_URL") or None,
        # Temporal retries, without blocking a worker.
        "max_retries": 0,
        "timeout": TIMEOUT,
        # Otherwise it downloads the tokenizer of OpenAI's models, for any service.
        "check_embedding_ctx_length": False,
    }
    return _OpenAI(OpenAIEmbeddings(**options))


_BUILDERS: dict[str, Builder | str] = {"openai": build_openai, "hash": build_hash}


def register(prefix: str, builder: Builder | str) -> None:
    """Registers embedding models `prefix:NAME` in this process.

    Args:
        prefix: The part before the colon.
        builder: A function, or `module:function`, which is imported at the first use.
    """
    _BUILDERS[prefix] = builder


class Embedders:
    """Builds and caches embedders, and checks their vectors."""

    def __init__(self) -> None:
        self._embedders: dict[str, Embedder] = {}

    async def embed_texts(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Vectors of some texts.

        Args:
            model: `prefix:NAME`.
            texts: The texts, at least one.

        Raises:
            ModelRequestRejected: the model is unknown, or returns invalid vectors.
            ModelUnavailable: it does not answer.
        """
        if model not in self._embedders:
            self._embedders[model] = await asyncio.to_thread(_build, model)
        try:
            vectors = await self._embedders[model].embed(texts)
        except CrewlogError:
            raise
        except Exception as exc:
            raise _request_error(model, exc) from exc
        return Embeddings(model=model, vectors=_check_vectors(model, vectors, len(texts)))


def _build(model: str) -> Embedder:
    prefix, _, name = model.partition(":")
    builder = _BUILDERS.get(prefix)
    if builder is None or not name:
        known = ", ".join(f"{each}:NAME" for each in sorted(_BUILDERS))
        raise ModelRequestRejected(
            f"there is no embedding {model!r}; this process knows {known}",
            remedy="Use one of those, or register the prefix in workers and clients.",
        )
    if isinstance(builder, str):
        module, _, function = builder.partition(":")
        builder = getattr(importlib.import_module(module), function)
    embedder: Embedder = builder(name)
    return embedder


def _request_error(model: str, exc: Exception) -> CrewlogError:
    status = getattr(exc, "status_code", None)
    cause = f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
    if isinstance(status, int) and 400 <= status < 500 and status not in {408, 409, 425, 429}:
        return ModelRequestRejected(
            f"the embedding {model!r} was refused: {cause}",
            remedy="Check the name, OPENAI_API_KEY and OPENAI_BASE_URL.",
        )
    return ModelUnavailable(
        f"the embedding {model!r} did not answer: {cause}", remedy="Try again later."
    )


def _check_vectors(
    model: str, raw: Sequence[Sequence[float]], count: int
) -> tuple[tuple[float, ...], ...]:
    vectors = tuple(tuple(float(part) for part in vector) for vector in raw)
    sizes = {len(vector) for vector in vectors}
    is_finite = all(math.isfinite(part) and abs(part) < 1e30 for v in vectors for part in v)
    if len(vectors) != count or len(sizes) != 1 or not is_finite or min(sizes) < 1:
        raise ModelRequestRejected(
            f"the embedding {model!r} returned no valid vector for each of {count} texts",
            remedy="Choose another model.",
        )
    if max(sizes) > _MOST_DIMENSIONS:
        raise ModelRequestRejected(
            f"the embedding {model!r} returns vectors with {max(sizes):,} numbers, and the store "
            f"takes {_MOST_DIMENSIONS:,}",
            remedy="Choose another model.",
        )
    return vectors
