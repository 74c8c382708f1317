"""Provider and protocol names, and the text form of a model."""

from __future__ import annotations

from msgspec import Struct

from memory.hosts import HOSTS

PROVIDERS = [
    "anthropic",
    "openai",
    "azure",
    "gemini",
    "vertex",
    "bedrock",
    "mistral",
    "cerebras",
    "groq",
    "deepseek",
    "xai",
    "cohere",
    "moonshot",
    "qwen",
    "zhipu",
    "minimax",
    "together",
    "fireworks",
    "openrouter",
    "huggingface",
    "ollama",
    "vllm",
    *(host.id for host in HOSTS),
    "other",
]
PROTOCOLS = [
    "anthropic-messages",
    "openai-chat",
    "openai-responses",
    "gemini-contents",
    "bedrock-converse",
    "cohere-v2",
]


class ModelRef(Struct, frozen=True):
    """A model of a provider; its text form is `provider/model_id`."""

    provider: str
    model_id: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model_id}" if self.provider else self.model_id


def provider_id(name: str) -> str:
    """The stored provider id that `name` means: `openai-responses` is `openai`, `anthropic.messages` is `anthropic`."""
    if name in ("openai-chat", "openai-responses"):
        return "openai"
    return name.partition(".")[0]


def model_ref(text: str) -> ModelRef:
    """`provider/model`, split at the first slash. A text without a slash has no provider."""
    provider, slash, model_id = text.partition("/")
    return ModelRef(provider_id(provider), model_id) if slash else ModelRef("", text)
