"""Embedding models by name: `PROVIDER:NAME`, `hash:NUMBER`, and registered ones.

The providers are those of LangChain's `init_embeddings`. Building and calling a model is I/O:
activities and clients do it, and give the vectors to the store.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings as EmbeddingModel

from crewlog.canonical_json import hash_bytes
from crewlog.definition.providers import PROVIDERS
from crewlog.errors import CrewlogError, ModelRequestRejected, ModelUnavailable
from crewlog.providers import missing_key_problem, missing_package_problem
from crewlog.redaction import register_secret
from crewlog.store.memories import Embeddings, split_words

TIMEOUT = 20.0
"""Seconds for one request: a call of a memory tool may take 60."""
_MOST_DIMENSIONS = 16_000
"""The limit of pgvector."""
Builder = Callable[[str], EmbeddingModel]
"""Builds a model from the name after the prefix."""


class HashEmbeddings(EmbeddingModel):
    """Counts words by their hash, so that texts with the same words are near. For tests.

    Args:
        name: The length of its vectors.
    """

    def __init__(self, name: str) -> None:
        if not name.isdecimal() or not 0 < int(name) <= _MOST_DIMENSIONS:
            raise ModelRequestRejected(
                f"the embedding 'hash:{name}' has no number of dimensions",
                remedy="For example: hash:256",
            )
        self._dimensions = int(name)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vector of each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        vector = [0.0] * self._dimensions
        for word in split_words(text):
            digest = hash_bytes(word.encode()).encode()
            vector[int.from_bytes(digest[:8]) % self._dimensions] += 1.0
        return vector


def _build_provider_model(provider: str, name: str) -> EmbeddingModel:
    """Builds a model of one of LangChain's providers."""
    model = f"{provider}:{name}"
    if problem := missing_package_problem(model):
        raise ModelRequestRejected(problem.message, remedy=problem.remedy)
    if problem := missing_key_problem(model, {}):
        keys = PROVIDERS[provider].keys
        raise ModelRequestRejected(
            problem.message,
            remedy=f"Set {keys[0]} in the worker's environment, or remove `embedding`.",
        )
    for variable in PROVIDERS[provider].keys:
        if value := os.environ.get(variable):
            register_secret(value)  # a service may repeat it in an error
    # Imported here, because it takes seconds, and few crews need it.
    from langchain.embeddings import init_embeddings  # noqa: PLC0415

    options: dict[str, Any] = {}
    if provider == "openai":
        options = {
            "base_url": os.environ.get("OPENAI_BASE_URL") or None,
            # Temporal retries, without blocking a worker.
            "max_retries": 0,
            # Otherwise it downloads the tokenizer of OpenAI's models, for any service.
            "check_embedding_ctx_length": False,
        }
    return init_embeddings(name, provider=provider, **options)


_BUILDERS: dict[str, Builder | str] = {"hash": HashEmbeddings}


def register(prefix: str, builder: Builder | str) -> None:
    """Registers embedding models `prefix:NAME` in this process.

    Args:
        prefix: The part before the colon.
        builder: A function, or `module:function`, which is imported at the first use.
    """
    _BUILDERS[prefix] = builder


class Embedders:
    """Builds and caches embedding models, and checks their vectors."""

    def __init__(self) -> None:
        self._models: dict[str, EmbeddingModel] = {}

    async def embed_texts(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Vectors of some texts.

        Args:
            model: `PROVIDER:NAME`.
            texts: The texts, at least one.

        Raises:
            ModelRequestRejected: the model is unknown, or returns invalid vectors.
            ModelUnavailable: it does not answer.
        """
        if model not in self._models:
            self._models[model] = await asyncio.to_thread(_build, model)
        try:
            async with asyncio.timeout(TIMEOUT):
                vectors = await self._models[model].aembed_documents(list(texts))
        except CrewlogError:
            raise
        except Exception as exc:
            raise _request_error(model, exc) from exc
        return Embeddings(model=model, vectors=_check_vectors(model, vectors, len(texts)))


def _build(model: str) -> EmbeddingModel:
    prefix, _, name = model.partition(":")
    builder = _BUILDERS.get(prefix)
    if name and builder is None and prefix in PROVIDERS:
        try:
            return _build_provider_model(prefix, name)
        except (ImportError, ValueError) as exc:
            raise ModelRequestRejected(
                f"the embedding {model!r} cannot be made: {exc}",
                remedy="Check its name and the settings of its provider in the environment.",
            ) from exc
    if builder is None or not name:
        known = ", ".join(f"{each}:NAME" for each in sorted({*_BUILDERS, "openai"}))
        raise ModelRequestRejected(
            f"there is no embedding {model!r}; this process knows {known}",
            remedy="Use one of those, or register the prefix in workers and clients.",
        )
    if isinstance(builder, str):
        module, _, function = builder.partition(":")
        builder = getattr(importlib.import_module(module), function)
    built: EmbeddingModel = builder(name)
    return built


def _request_error(model: str, exc: Exception) -> CrewlogError:
    status = getattr(exc, "status_code", None)
    cause = f"{type(exc).__name__}: {' '.join(str(exc).split())[:300]}"
    if isinstance(status, int) and 400 <= status < 500 and status not in {408, 409, 425, 429}:
        return ModelRequestRejected(
            f"the embedding {model!r} was refused: {cause}",
            remedy="Check the name, and the key and the address of its provider.",
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
