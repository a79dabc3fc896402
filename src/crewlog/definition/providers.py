"""Providers of chat models: what `PROVIDER:NAME` may begin with, and what it needs.

The names are those of LangChain's `init_chat_model`. What is written here beside them is what can
be said before anything is imported: the package, the extra of Crewlog that brings it, and where the
key and the address come from.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

TYPO = 0.75
"""How alike a prefix is to that of a provider, to be taken for a slip."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of chat models."""

    package: str
    """What is to be installed: `langchain-anthropic`."""
    client: str
    """The class of its chat model: `langchain_anthropic:ChatAnthropic`."""
    extra: str = ""
    """The extra of Crewlog that installs it; empty where there is none."""
    keys: tuple[str, ...] = ()
    """Variables of the environment that hold a key, any of which will do. None are named where the
    provider needs no key, or has more ways of authentication than one."""
    url_variable: str = ""
    """The variable that holds its address, where its client reads one."""
    url: str = ""
    """Its address where nothing else is said."""
    catalog: str = ""
    """How it lists its models: the protocol of `openai`, `anthropic`, `google` or `ollama`. None
    where it cannot be asked without cost, or only by a client of its own."""
    instead: tuple[str, ...] = ()
    """Settings with which its client needs no key."""

    @property
    def module(self) -> str:
        """The module that must be importable."""
        return self.client.partition(":")[0]

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install '{f'crewlog[{self.extra}]' if self.extra else self.package}'"


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "langchain-anthropic",
        "langchain_anthropic:ChatAnthropic",
        "anthropic",
        ("ANTHROPIC_API_KEY",),
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        "anthropic",
        instead=("default_headers",),
    ),
    "anthropic_bedrock": Provider("langchain-aws", "langchain_aws:ChatAnthropicBedrock", "bedrock"),
    "azure_ai": Provider(
        "langchain-azure-ai", "langchain_azure_ai.chat_models:AzureAIOpenAIApiChatModel"
    ),
    "azure_openai": Provider("langchain-openai", "langchain_openai:AzureChatOpenAI"),
    "baseten": Provider(
        "langchain-baseten", "langchain_baseten:ChatBaseten", keys=("BASETEN_API_KEY",)
    ),
    "bedrock": Provider("langchain-aws", "langchain_aws:ChatBedrock", "bedrock"),
    "bedrock_converse": Provider("langchain-aws", "langchain_aws:ChatBedrockConverse", "bedrock"),
    "bedrock_mantle_anthropic": Provider(
        "langchain-aws", "langchain_aws:ChatAnthropicMantle", "bedrock"
    ),
    "bedrock_mantle_openai": Provider("langchain-aws", "langchain_aws:ChatOpenAIMantle", "bedrock"),
    "cohere": Provider(
        "langchain-cohere", "langchain_cohere:ChatCohere", "cohere", ("COHERE_API_KEY",)
    ),
    "deepseek": Provider(
        "langchain-deepseek",
        "langchain_deepseek:ChatDeepSeek",
        "deepseek",
        ("DEEPSEEK_API_KEY",),
        "DEEPSEEK_API_BASE",
        "https://api.deepseek.com/v1",
        "openai",
    ),
    "fireworks": Provider(
        "langchain-fireworks",
        "langchain_fireworks:ChatFireworks",
        "fireworks",
        ("FIREWORKS_API_KEY",),
    ),
    "google_anthropic_vertex": Provider(
        "langchain-google-vertexai", "langchain_google_vertexai.model_garden:ChatAnthropicVertex"
    ),
    "google_genai": Provider(
        "langchain-google-genai",
        "langchain_google_genai:ChatGoogleGenerativeAI",
        "google",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
        "google",
        instead=("credentials", "vertexai"),
    ),
    "google_vertexai": Provider(
        "langchain-google-vertexai", "langchain_google_vertexai:ChatVertexAI"
    ),
    "groq": Provider(
        "langchain-groq",
        "langchain_groq:ChatGroq",
        "groq",
        ("GROQ_API_KEY",),
        url="https://api.groq.com/openai/v1",
        catalog="openai",
    ),
    "huggingface": Provider("langchain-huggingface", "langchain_huggingface:ChatHuggingFace"),
    "ibm": Provider("langchain-ibm", "langchain_ibm:ChatWatsonx"),
    "langsmith": Provider("langchain-openai", "langchain_openai:ChatOpenAI"),
    "litellm": Provider("langchain-litellm", "langchain_litellm:ChatLiteLLM"),
    "meta": Provider("langchain-meta", "langchain_meta:ChatMetaModel"),
    "mistralai": Provider(
        "langchain-mistralai",
        "langchain_mistralai:ChatMistralAI",
        "mistralai",
        ("MISTRAL_API_KEY",),
        "MISTRAL_BASE_URL",
        "https://api.mistral.ai/v1",
        "openai",
    ),
    "nvidia": Provider("langchain-nvidia-ai-endpoints", "langchain_nvidia_ai_endpoints:ChatNVIDIA"),
    "ollama": Provider(
        "langchain-ollama",
        "langchain_ollama:ChatOllama",
        "ollama",
        (),
        "OLLAMA_HOST",
        "http://127.0.0.1:11434",
        "ollama",
    ),
    "openai": Provider(
        "langchain-openai",
        "langchain_openai:ChatOpenAI",
        "",
        ("OPENAI_API_KEY",),
        "OPENAI_BASE_URL",
        "https://api.openai.com/v1",
        "openai",
    ),
    "openrouter": Provider(
        "langchain-openrouter",
        "langchain_openrouter:ChatOpenRouter",
        "openrouter",
        ("OPENROUTER_API_KEY",),
        url="https://openrouter.ai/api/v1",
        catalog="openai",
    ),
    "perplexity": Provider(
        "langchain-perplexity",
        "langchain_perplexity:ChatPerplexity",
        "perplexity",
        ("PPLX_API_KEY", "PERPLEXITY_API_KEY"),
    ),
    "together": Provider(
        "langchain-together",
        "langchain_together:ChatTogether",
        "together",
        ("TOGETHER_API_KEY",),
        url="https://api.together.xyz/v1",
        catalog="openai",
    ),
    "upstage": Provider(
        "langchain-upstage", "langchain_upstage:ChatUpstage", keys=("UPSTAGE_API_KEY",)
    ),
    "xai": Provider(
        "langchain-xai",
        "langchain_xai:ChatXAI",
        "xai",
        ("XAI_API_KEY",),
        url="https://api.x.ai/v1",
        catalog="openai",
    ),
}
"""The providers by the prefix of their models."""

PREFIXES = (*PROVIDERS, "scripted")
"""Prefixes of models that every worker knows; packages and workers may bring others."""
_AUTHENTICATION = frozenset({"authorization", "x-api-key"})
"""Headers that hold a key."""
_FAMILIES = {
    "claude": "anthropic",
    "command": "cohere",
    "deepseek": "deepseek",
    "gemini": "google_genai",
    "grok": "xai",
    "llama": "ollama",
    "mistral": "mistralai",
    "qwen": "ollama",
    "sonar": "perplexity",
}
"""The usual provider of models that are named without one."""
_OTHER_NAMES = {
    "aws": "bedrock_converse",
    "azure": "azure_openai",
    "claude": "anthropic",
    "gemini": "google_genai",
    "google": "google_genai",
    "grok": "xai",
    "mistral": "mistralai",
    "vertex": "google_vertexai",
    "vertexai": "google_vertexai",
}
"""What people call providers."""


@lru_cache(maxsize=256)
def slip_of(prefix: str) -> str:
    """The known prefix that one was probably meant to be; empty where none is near.

    Longer ones are names of their own: `ollama-gpu`.
    """
    folded = prefix.lower().replace("-", "_")
    near = difflib.get_close_matches(folded, PREFIXES, 1, TYPO)
    return near[0] if near and abs(len(near[0]) - len(folded)) <= 2 else ""


def meant_by(prefix: str) -> str:
    """The provider that an unknown prefix may stand for; empty where nothing suggests one."""
    return _OTHER_NAMES.get(prefix.lower()) or slip_of(prefix)


def provider_of(name: str) -> str:
    """The usual provider of a model that is named without one."""
    return next((p for start, p in _FAMILIES.items() if name.lower().startswith(start)), "openai")


def key_in(provider: Provider, settings: Mapping[str, object]) -> object:
    """The key in `model_settings`, as `api_key` or e.g. `openai_api_key`; none without one."""
    names = ("api_key", *(name.lower() for name in provider.keys[:1]))
    return next((settings[name] for name in names if settings.get(name)), None)


def holds_credentials(provider: Provider, settings: Mapping[str, object]) -> bool:
    """Whether `model_settings` say how the provider's client authenticates."""
    return key_in(provider, settings) is not None or any(
        _authenticates(settings.get(name)) for name in provider.instead
    )


def _authenticates(value: object) -> bool:
    """Whether the value of a setting stands for a key; of headers, only some do."""
    if isinstance(value, Mapping):
        return any(str(name).lower() in _AUTHENTICATION and each for name, each in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return bool(value)
