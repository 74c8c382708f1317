"""Every provider id: where its API is, how a key is shown, and what it spells in its own way.

Sources: each vendor's API reference. What a provider refuses in a history is no matter of this file but of its profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from memory.hosts import HOSTS, LIST_ROLES, Host

AuthStyle = Literal["api-key", "x-api-key", "x-goog-api-key", "bearer", "none"]


class ProviderEntry(Struct, frozen=True):
    """A provider as it is at its vendor. An empty `base_url` means that each customer has their own."""

    id: str
    title: str
    protocol: str
    base_url: str
    auth: AuthStyle = "bearer"
    """`none`: no key is needed; one that is given goes as a bearer token."""
    auth_by_key: Mapping[str, AuthStyle] = {}
    """Keys that begin so are shown in another way: an address takes keys of the API as well as access tokens."""
    elsewhere: Mapping[str, str] = {}
    """Base URLs by protocol of what else this provider speaks, at the same key."""
    key_variable: str = ""
    """Environment variable that holds the key by convention."""
    reasoning: str = ""
    """Key of an assistant message that takes its reasoning back over openai-chat; empty: reasoning is not sent."""
    max_tokens: str = "max_tokens"
    """Key of the output limit over openai-chat."""
    null_content: bool = True
    """Whether a message that only calls tools says null for its content over openai-chat; else an empty text."""
    list_roles: tuple[str, ...] = LIST_ROLES
    """Whose messages may hold a list over openai-chat; the texts of others are joined."""
    stream_options: bool = True
    """Whether a stream may be asked for its usage over openai-chat; hosts that refuse the key send it unasked."""


def _entry_of(host: Host) -> ProviderEntry:
    return ProviderEntry(
        host.id,
        host.title,
        "openai-chat",
        host.base_url,
        key_variable=host.key_variable,
        reasoning=host.reasoning,
        max_tokens=host.max_tokens,
        list_roles=host.list_roles,
        stream_options=host.stream_options,
    )


_ALL = (
    ProviderEntry(
        "anthropic",
        "Anthropic",
        "anthropic-messages",
        "https://api.anthropic.com/v1",
        auth="x-api-key",
        key_variable="ANTHROPIC_API_KEY",
    ),
    ProviderEntry(
        "openai",
        "OpenAI",
        "openai-chat",
        "https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        max_tokens="max_completion_tokens",
    ),
    ProviderEntry(
        "azure",
        "Azure OpenAI",
        "openai-chat",
        "",
        auth="api-key",
        auth_by_key={"eyJ": "bearer"},
        key_variable="AZURE_OPENAI_API_KEY",
        max_tokens="max_completion_tokens",
    ),
    ProviderEntry(
        "gemini",
        "Google Gemini",
        "gemini-contents",
        "https://generativelanguage.googleapis.com/v1beta",
        auth="x-goog-api-key",
        key_variable="GEMINI_API_KEY",
    ),
    ProviderEntry(
        "vertex",
        "Google Vertex AI",
        "gemini-contents",
        "",
        auth_by_key={"AIza": "x-goog-api-key", "AQ.": "x-goog-api-key"},
        key_variable="VERTEX_ACCESS_TOKEN",
    ),
    ProviderEntry(
        "bedrock",
        "Amazon Bedrock",
        "bedrock-converse",
        "https://bedrock-runtime.us-east-1.amazonaws.com",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
    ),
    ProviderEntry(
        "mistral",
        "Mistral",
        "openai-chat",
        "https://api.mistral.ai/v1",
        key_variable="MISTRAL_API_KEY",
        stream_options=False,
    ),
    ProviderEntry(
        "cerebras",
        "Cerebras",
        "openai-chat",
        "https://api.cerebras.ai/v1",
        key_variable="CEREBRAS_API_KEY",
        reasoning="reasoning",
        max_tokens="max_completion_tokens",
    ),
    ProviderEntry(
        "groq",
        "Groq",
        "openai-chat",
        "https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        reasoning="reasoning",
        max_tokens="max_completion_tokens",
        list_roles=("system", "user", "assistant"),
    ),
    ProviderEntry(
        "deepseek",
        "DeepSeek",
        "openai-chat",
        "https://api.deepseek.com/v1",
        elsewhere={"anthropic-messages": "https://api.deepseek.com/anthropic/v1"},
        key_variable="DEEPSEEK_API_KEY",
        reasoning="reasoning_content",
    ),
    ProviderEntry(
        "xai",
        "xAI",
        "openai-chat",
        "https://api.x.ai/v1",
        key_variable="XAI_API_KEY",
        reasoning="reasoning_content",
    ),
    ProviderEntry("cohere", "Cohere", "cohere-v2", "https://api.cohere.com/v2", key_variable="COHERE_API_KEY"),
    ProviderEntry(
        "moonshot",
        "Moonshot (Kimi)",
        "openai-chat",
        "https://api.moonshot.ai/v1",
        elsewhere={"anthropic-messages": "https://api.moonshot.ai/anthropic/v1"},
        key_variable="MOONSHOT_API_KEY",
        reasoning="reasoning_content",
    ),
    ProviderEntry(
        "qwen",
        "Qwen (DashScope)",
        "openai-chat",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_variable="DASHSCOPE_API_KEY",
        reasoning="reasoning_content",
    ),
    ProviderEntry(
        "zhipu",
        "Zhipu GLM (Z.ai)",
        "openai-chat",
        "https://api.z.ai/api/paas/v4",
        key_variable="ZAI_API_KEY",
        reasoning="reasoning_content",
    ),
    ProviderEntry("minimax", "MiniMax", "openai-chat", "https://api.minimax.io/v1", key_variable="MINIMAX_API_KEY"),
    ProviderEntry(
        "together",
        "Together",
        "openai-chat",
        "https://api.together.xyz/v1",
        key_variable="TOGETHER_API_KEY",
        reasoning="reasoning",
    ),
    ProviderEntry(
        "fireworks",
        "Fireworks",
        "openai-chat",
        "https://api.fireworks.ai/inference/v1",
        key_variable="FIREWORKS_API_KEY",
        reasoning="reasoning_content",
        stream_options=False,
    ),
    ProviderEntry(
        "openrouter",
        "OpenRouter",
        "openai-chat",
        "https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        reasoning="reasoning",
    ),
    ProviderEntry(
        "huggingface", "Hugging Face", "openai-chat", "https://router.huggingface.co/v1", key_variable="HF_TOKEN"
    ),
    ProviderEntry(
        "ollama",
        "Ollama",
        "openai-chat",
        "http://localhost:11434/v1",
        auth="none",
        reasoning="reasoning",
        null_content=False,
    ),
    ProviderEntry(
        "vllm", "vLLM", "openai-chat", "http://localhost:8000/v1", auth="none", reasoning="reasoning_content"
    ),
    *map(_entry_of, HOSTS),
    ProviderEntry("other", "Another host", "openai-chat", "", reasoning="reasoning_content"),
)

ENTRIES: dict[str, ProviderEntry] = {entry.id: entry for entry in _ALL}


def address_for(entry: ProviderEntry, protocol: str) -> str:
    """The vendor's own base URL for a protocol; empty where each customer has their own, or none is known."""
    return entry.base_url if protocol == entry.protocol else entry.elsewhere.get(protocol, "")


def entry_for(provider: str) -> ProviderEntry:
    """The entry of a provider id; one that has none is treated as `other`."""
    return ENTRIES.get(provider) or ENTRIES["other"]
